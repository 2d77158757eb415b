/* manifest.c -- fuzz target: any text as the manifest of a recipe. What is taken is written and read again.
** SPDX-License-Identifier: Apache-2.0
*/
#include "library.h"

static const char reader[] =
  "local core, require = ...\n"
  "local manifest = require 'recipe.manifest'\n"
  "return function(text)\n"
  "  local m = manifest.check(core.json_decode(text, 'a.manifest.json'), 'a.manifest.json')\n"
  "  manifest.check(core.json_decode(core.json_encode(m, true):gsub('\"files\": {}', '\"files\": []', 1), 'b'), 'b')\n"
  "end\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static lua_State *L;
  if (!L) L = library_open(reader);
  library_call(L, data, size);
  return 0;
}
