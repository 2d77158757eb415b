/* json.c -- fuzz target: any bytes as JSON, under the rules for strangers; what is read is written and read again.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const json_rules rules = {.name = "fuzz", .most_bytes = 1 << 16, .most_values = 1000, .most_depth = 12, .unique = true, .no_null = true};
  JSON_OWNED *root = NULL, *again = NULL;
  capl_status status = json_read(&rules, (const char *)data, size, &root);
  fuzz_status(status);
  FUZZ_CHECK((status == CAPL_OK) == (root != NULL));
  if (!root) return 0;
  char *text = json_print(root, false);
  FUZZ_CHECK(text && json_read(NULL, text, strlen(text), &again) == CAPL_OK);
  char *second = json_print(again, false);
  FUZZ_CHECK(second && strcmp(text, second) == 0);
  free(text);
  free(second);
  return 0;
}
