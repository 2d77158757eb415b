/* list.c -- fuzz target: any bytes as a list of images, in every format. The first byte chooses it.
** SPDX-License-Identifier: Apache-2.0
*/
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

static void begin_fields(file_fields *fields)
{
  static const char *const places[] = {"p"}, *const corners[] = {"x", "y", "r", "b"}, *const numbers[] = {"n", "x"};
  static const capl_file_fields of = {
    .mask = {.column = "m"},
    .n_numbers = 3,
    .numbers = {{"points", CAPL_FIELD_POINTS, places, 1, 1}, {"boxes", CAPL_FIELD_BOXES, corners, 4, 4},
                {"numbers", CAPL_FIELD_VALUES, numbers, 2, 1}}};
  FUZZ_CHECK(file_fields_begin(fields, &of, "fuzz") == CAPL_OK);
}

static void check_fields(const list_lines *l)
{
  for (int k = 0; k < l->fields.n_numbers; k++) {
    const field_numbers *f = &l->fields.numbers[k];
    FUZZ_CHECK(f->samples == l->path.count);
    for (size_t i = 0; i < f->rows * (size_t)f->width; i++) FUZZ_CHECK(f->at[i] - f->at[i] == 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1) return 0;
  bool labels = data[0] & 4;
  capl_list_options options = {.format = (capl_list_format)(data[0] & 3), .separator = data[0] & 8 ? ';' : '\0'};
  uint8_t *bytes = malloc(size);
  memcpy(bytes, data + 1, size - 1);
  list_lines l = {0};
  if (data[0] & 16) begin_fields(&l.fields);
  capl_status status = list_lines_parse(bytes, size - 1, "fuzz", &options, labels, &l);
  fuzz_status(status);
  FUZZ_CHECK(status != CAPL_OK || l.path.count > 0);
  if (status == CAPL_OK) check_fields(&l);
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
