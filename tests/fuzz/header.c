/* header.c -- fuzz target: any text as a recipe, of which the program reads the header lines.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

#include "program/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  capl_header header;
  memset(&header, 0, sizeof header);
  capl_status status = capl_header_parse("recipe.lua", (const char *)data, size, &header);
  fuzz_status(status);
  if (status != CAPL_OK) return 0;
  FUZZ_CHECK(header.version == 1 && header.ranks >= 0 && header.minutes >= 0 && header.memory >= 0 && header.output >= 0);
  FUZZ_CHECK(memchr(header.read, '\0', sizeof header.read));
  return 0;
}
