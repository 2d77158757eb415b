/* safetensors.c -- fuzz target: any bytes as a file of tensors.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  capl_named_tensor *list;
  int n;
  capl_status status = capl_safetensors_load(fuzz_file(data, size), fuzz_device(), &list, &n);
  fuzz_status(status);
  if (status != CAPL_OK) {
    FUZZ_CHECK(!list && n == 0);
    return 0;
  }
  for (int i = 0; i < n; i++) FUZZ_CHECK(list[i].name && list[i].tensor);
  capl_named_tensors_free(list, n);
  return 0;
}
