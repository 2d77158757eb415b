/* csv.c -- fuzz target: any bytes as a table. The first byte chooses separator, quotes and header.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

#include "data/csv.h"

/* Fields lie one behind the other in the file's memory, each ended before the next begins. */
static void check_record(const csv *table, size_t size)
{
  const char *before = table->bytes;
  FUZZ_CHECK(table->n_fields > 0 && table->n_fields <= CSV_FIELDS_MAX);
  for (int i = 0; i < table->n_fields; i++) {
    FUZZ_CHECK(table->field[i] >= before);
    before = table->field[i] + strlen(table->field[i]);
    FUZZ_CHECK(before <= table->bytes + size);
    double value;
    bool missing;
    fuzz_status(csv_number(table, i, &value, &missing));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size == 0) return 0;
  csv table = {0};
  bool more = true;
  csv_style style = {.separator = "\0;\t,"[data[0] & 3], .plain = data[0] & 4};
  capl_status status = csv_from(&table, data + 1, size - 1, "table.csv", style);
  if (status == CAPL_OK && (data[0] & 8)) status = csv_header(&table);
  while (status == CAPL_OK && more) {
    uint32_t line = table.line;
    status = csv_next(&table, &more);
    if (status == CAPL_OK && more) check_record(&table, size - 1), FUZZ_CHECK(table.line > line);
  }
  fuzz_status(status);
  csv_fini(&table);
  return 0;
}
