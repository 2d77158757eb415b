/* fonts.c -- finds font files by path or by bare name, or says which package has them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "synth/fonts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "sandbox/policy.h"

static const char *const places[] = {
  "/usr/share/fonts/truetype/noto",       "/usr/share/fonts/truetype/dejavu", "/usr/share/fonts/truetype/liberation",
  "/usr/share/fonts/truetype/liberation2", "/usr/share/fonts/truetype/freefont", "/usr/share/fonts/TTF",
  "/usr/local/share/fonts",
};
enum { N_PLACES = sizeof places / sizeof places[0] };

/* Where the presets' own fonts come from, and the variable that names a file to take their place. */
static const struct {
  const char *name, *place, *package, *variable;
} packaged[] = {
  {CAPL_FONT_NOTO_MONO, "/usr/share/fonts/truetype/noto", "fonts-noto-mono", "CAPL_FONT"},
  {CAPL_FONT_DEJAVU, "/usr/share/fonts/truetype/dejavu", "fonts-dejavu-core", NULL},
  {CAPL_FONT_DEJAVU_BOLD, "/usr/share/fonts/truetype/dejavu", "fonts-dejavu-core", NULL},
};
enum { N_PACKAGED = sizeof packaged / sizeof packaged[0] };

static bool hint_package(const char *name)
{
  for (int i = 0; i < N_PACKAGED; i++) {
    if (strcmp(name, packaged[i].name) != 0) continue;
    const char *variable = packaged[i].variable;
    capl_error_hint("install the Debian package %s (it provides %s/%s), or name another TrueType file with font = "
                    "PATH%s%s%s",
                    packaged[i].package, packaged[i].place, packaged[i].name, variable ? " or " : "",
                    variable ? variable : "", variable ? "=PATH" : "");
    return true;
  }
  return false;
}

static capl_status copy_path(const char *found, char **path)
{
  *path = strdup(found);
  return *path ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for the name of a font");
}

/* An unset or empty variable is none. */
static const char *variable(const char *name)
{
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* A copy of the path of a font that was found. */
static capl_status take_font(const char *found, char **path)
{
  CAPL_TRY(capl_policy_check(found, CAPL_MAY_READ));
  return copy_path(found, path);
}

static bool lies_in(const char *place, const char *name, char *path, size_t size)
{
  int length = snprintf(path, size, "%s/%s", place, name);
  return length < (int)size && access(path, R_OK) == 0;
}

static capl_status find_in_places(const char *name, char **path)
{
  char candidate[4096];
  const char *own = variable("CAPL_FONTS");
  if (own && lies_in(own, name, candidate, sizeof candidate)) return take_font(candidate, path);
  for (int i = 0; i < N_PLACES; i++) {
    if (lies_in(places[i], name, candidate, sizeof candidate)) return take_font(candidate, path);
  }
  return CAPL_FAIL(CAPL_EIO, "cannot find the captcha font %s: it is neither in the working folder nor among the "
                             "fonts installed "
                   "in /usr/share/fonts", name);
}

static const char *taken_place_of(const char *name)
{
  for (int i = 0; i < N_PACKAGED; i++) {
    if (packaged[i].variable && strcmp(name, packaged[i].name) == 0) return variable(packaged[i].variable);
  }
  return NULL;
}

capl_status capl_font_find(const char *name, const char *usual, char **path)
{
  const char *other = name == usual ? taken_place_of(name) : NULL;
  if (other) name = other;
  if (strchr(name, '/')) CAPL_TRY(capl_policy_check(name, CAPL_MAY_READ)); /* before anything tells whether it exists */
  if (access(name, R_OK) == 0) return take_font(name, path);
  capl_status status;
  if (strchr(name, '/')) {
    status = CAPL_FAIL(CAPL_EIO, "cannot open the captcha font %s: %s", name, capl_errno_text(errno));
  } else {
    status = find_in_places(name, path);
  }
  if (status == CAPL_EIO && !hint_package(name)) hint_package(usual);
  return status;
}
