/* checkpoint.c -- fuzz target: any bytes as a checkpoint, with the hash they would need.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>

#include "io/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  SHA2_CTX hash;
  char *tree, *whole = malloc(size + SHA256_DIGEST_LENGTH);
  capl_named_tensor *list;
  int n;
  if (size) memcpy(whole, data, size);
  SHA256Init(&hash);
  SHA256Update(&hash, data, size);
  SHA256Final((uint8_t *)whole + size, &hash);
  capl_status status = checkpoint_parse("FILE", whole, size + SHA256_DIGEST_LENGTH, fuzz_device(), &tree, &list, &n);
  fuzz_status(status);
  FUZZ_CHECK(status == CAPL_OK ? tree != NULL : !tree && !list && n == 0);
  if (status == CAPL_OK) capl_named_tensors_free(list, n);
  free(tree);
  free(whole);
  return 0;
}
