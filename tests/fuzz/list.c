/* list.c -- fuzz target: any bytes as a list of images, in every format. The first byte chooses it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fields.h"
#include "fuzz.h"

#include "base/text.h"
#include "data/list_file.h"

static void check_text(const char *text)
{
  while (text && *text) {
    int bytes = capl_text_char(text);
    FUZZ_CHECK(bytes > 0);
    text += bytes;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1) return 0;
  bool labels = data[0] & 4;
  capl_list_options options = {.format = (capl_list_format)(data[0] & 3), .separator = data[0] & 8 ? ';' : '\0'};
  options.images.several = data[0] & 32 ? '|' : '\0';
  uint8_t *bytes = malloc(size);
  memcpy(bytes, data + 1, size - 1);
  list_lines l = {0};
  if (data[0] & 16) fuzz_fields(&l.fields);
  capl_status status = list_lines_parse(bytes, size - 1, "fuzz", &options, labels, &l);
  fuzz_status(status);
  FUZZ_CHECK(status != CAPL_OK || l.path.count > 0);
  if (status == CAPL_OK) fuzz_check_fields(&l.fields, l.path.count);
  for (uint32_t i = 0; status == CAPL_OK && i < l.path.count; i++) {
    FUZZ_CHECK(*texts_get(&l.path, i) && (!labels || texts_get(&l.label, i)));
    FUZZ_CHECK(l.line[i] > (i ? l.line[i - 1] : 0));
    check_text(texts_get(&l.path, i));
    check_text(texts_get(&l.label, i));
  }
  list_lines_fini(&l);
  free(bytes);
  return 0;
}
