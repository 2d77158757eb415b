/* beside.c -- fuzz target: any bytes as the file beside an image, a.txt or a.json, and its key. The first byte chooses.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fields.h"
#include "fuzz.h"

#include "base/text.h"
#include "data/beside.h"

static void check_label(const char *image, const char *ending, const char *key, char several)
{
  char *text = NULL;
  capl_status status = beside_label(image, ending, key, several, &text);
  fuzz_status(status);
  FUZZ_CHECK((status == CAPL_OK) == (text != NULL) && (!text || capl_text_is_utf8(text)));
  free(text);
}

static void check_numbers(const char *image)
{
  file_fields fields = {0};
  fuzz_fields(&fields);
  capl_status status = file_fields_add_beside(&fields, image);
  fuzz_status(status);
  if (status == CAPL_OK) fuzz_check_fields(&fields, 1);
  file_fields_fini(&fields);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *folder;
  static char image[96];
  if (size < 1) return 0;
  if (!folder) snprintf(image, sizeof image, "%s/a.png", folder = fuzz_folder());
  bool json = data[0] & 1;
  fuzz_put(folder, json ? "a.json" : "a.txt", data + 1, size - 1);
  check_label(image, json ? ".json" : ".txt", data[0] & 4 ? "kind" : NULL, data[0] & 2 ? '|' : '\0');
  if (json) check_numbers(image);
  return 0;
}
