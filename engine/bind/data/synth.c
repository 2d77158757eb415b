/* synth.c -- finds the library that draws data.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/synth.h"

#include <string.h>

#include "base/library.h"

static data_synth_functions found; /* filled in by Lua's thread alone */
static bool loaded;

/* Returns the name of a function that the library lacks, NULL if it has all of them. */
static const char *look_up(void *library)
{
#define X(name) \
  library_find(library, "capl_" #name, &found.name); \
  if (!found.name) return "capl_" #name;
  DATA_SYNTH_FUNCTIONS(X)
#undef X
  return NULL;
}

static capl_status load(void)
{
  char why[512] = "";
  void *library = library_open("libcapl_synth.so", why, sizeof why);
  if (!library) {
    CAPL_FAIL(CAPL_EUNSUPPORTED, "generating images is not available: %s", why);
    library_hint(why, "install the Debian package libfreetype6; libcapl_synth.so belongs beside libcapl.so or in its "
                      "folder capl");
    return CAPL_EUNSUPPORTED;
  }
  const char *missing = look_up(library);
  if (missing || strcmp(found.synth_version(), capl_version()) != 0)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "generating images is not available: libcapl_synth.so is from another build "
                                        "of capl; rebuild both");
  return CAPL_OK;
}

const data_synth_functions *data_synth(lua_State *L)
{
  if (!loaded) bind_check(L, load(), NULL);
  loaded = true;
  return &found;
}
