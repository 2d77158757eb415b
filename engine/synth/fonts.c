/* fonts.c -- finds font files by path or by bare name, or says which package has them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "synth/fonts.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "capl/synth.h"
#include "sandbox/policy.h"

static const char *const roots[] = {"/usr/share/fonts", "/usr/local/share/fonts"};
enum { N_ROOTS = sizeof roots / sizeof roots[0], DEPTH_MAX = 6 /* folders below a root */ };

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

static int by_name(const FTSENT **a, const FTSENT **b)
{
  return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* The first of that name in the order of names: the same file on every machine that has the same ones. */
static bool lies_below(const char *root, const char *name, char *path, size_t size)
{
  FTS *tree = fts_open((char *[]){(char *)root, NULL}, FTS_LOGICAL | FTS_NOCHDIR, by_name);
  bool found = false;
  for (FTSENT *e; tree && !found && (e = fts_read(tree));) {
    if (e->fts_info == FTS_D && e->fts_level > DEPTH_MAX) fts_set(tree, e, FTS_SKIP);
    if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR) errno = e->fts_errno;
    if (e->fts_info == FTS_F && strcmp(e->fts_name, name) == 0)
      found = snprintf(path, size, "%s", e->fts_path) < (int)size && access(path, R_OK) == 0;
  }
  int why = errno;
  if (tree) fts_close(tree);
  errno = why;
  return found;
}

static bool is_shortage(int why) { return why == ENOMEM || why == EMFILE || why == ENFILE; }

/* Where an installed font is, among $CAPL_FONTS and the system's. errno: of a search that was given up. */
static bool is_installed(const char *name, char *path, size_t size)
{
  const char *own = variable("CAPL_FONTS");
  bool found = own && lies_in(own, name, path, size);
  for (int i = 0; i < N_ROOTS && !found && !is_shortage(errno); i++)
    found = lies_below(roots[i], name, path, size);
  return found;
}

static capl_status find_installed(const char *name, char **path)
{
  char candidate[4096];
  errno = 0;
  if (is_installed(name, candidate, sizeof candidate)) return take_font(candidate, path);
  if (is_shortage(errno))
    return CAPL_FAIL(CAPL_EIO, "cannot look for the captcha font %s: %s", name, capl_errno_text(errno));
  return CAPL_FAIL(CAPL_EIO, "cannot find the captcha font %s: it is neither in the working folder nor among the "
                             "fonts installed in /usr/share/fonts", name);
}

static const char *taken_place_of(const char *name)
{
  for (int i = 0; i < N_PACKAGED; i++) {
    if (packaged[i].variable && strcmp(name, packaged[i].name) == 0) return variable(packaged[i].variable);
  }
  return NULL;
}

/* "NotoSansCJK-Regular.ttc:2" -> 2, and where the ':' is. */
static int index_of(const char *name, size_t *length)
{
  const char *colon = strrchr(name, ':');
  *length = strlen(name);
  if (!colon || strspn(colon + 1, "0123456789") != strlen(colon + 1) || !colon[1] || strlen(colon) > 4) return 0;
  *length = (size_t)(colon - name);
  return atoi(colon + 1);
}

static capl_status find_file(const char *name, char **path)
{
  if (strchr(name, '/')) CAPL_TRY(capl_policy_check(name, CAPL_MAY_READ)); /* before anything shows whether it exists */
  if (access(name, R_OK) == 0) return take_font(name, path);
  if (!strchr(name, '/')) return find_installed(name, path);
  return CAPL_FAIL(CAPL_EIO, "cannot open the captcha font %s: %s", name, capl_errno_text(errno));
}

static capl_status map_failed(const captcha_font *font)
{
  return CAPL_FAIL(CAPL_EIO, "cannot read the captcha font %s: %s", font->path, capl_errno_text(errno));
}

/* What is no file with bytes is FreeType's to refuse. */
static capl_status map_file(captcha_font *font)
{
  struct stat info;
  int fd = open(font->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return map_failed(font);
  capl_status status = CAPL_OK;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) status = map_failed(font);
    else font->bytes = bytes, font->size = (size_t)info.st_size;
  }
  close(fd);
  return status;
}

void captcha_font_free(captcha_font *font)
{
  if (font->bytes) munmap(font->bytes, font->size);
  free(font->path);
  *font = (captcha_font){0};
}

capl_status captcha_font_find(const char *name, const char *usual, captcha_font *font)
{
  *font = (captcha_font){0};
  const char *other = name == usual ? taken_place_of(name) : NULL;
  if (other) name = other;
  size_t length;
  font->index = index_of(name, &length);
  char *file = strndup(name, length);
  if (!file) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the name of a font");
  capl_status status = find_file(file, &font->path);
  if (status == CAPL_EIO && !hint_package(file) && usual) hint_package(usual);
  if (status == CAPL_OK) status = map_file(font);
  free(file);
  return status;
}

bool captcha_font_is_there(const char *name)
{
  size_t length;
  char path[4096], file[256];
  index_of(name, &length);
  snprintf(file, sizeof file, "%.*s", (int)length, name);
  return access(file, R_OK) == 0 || is_installed(file, path, sizeof path);
}

capl_status captcha_fonts_missing(const char *const *names)
{
  char list[512] = "";
  for (int i = 0; i < CAPL_FONTS_MAX && names[i]; i++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  }
  CAPL_FAIL(CAPL_EIO, "no font with Chinese characters is installed; looked for %s", list);
  capl_error_hint("run `apt install fonts-wqy-microhei fonts-arphic-ukai fonts-arphic-uming`, or name a font file with "
                  "font = PATH");
  return CAPL_EIO;
}

/* Scripts of East Asia: CJK symbols, kana, bopomofo, ideographs, Hangul. */
static bool is_east_asian(int32_t code)
{
  return (code >= 0x2e80 && code <= 0xa4cf) || (code >= 0xac00 && code <= 0xd7ff) ||
         (code >= 0xf900 && code <= 0xfaff) || (code >= 0xff00 && code <= 0xffef) ||
         (code >= 0x20000 && code <= 0x3ffff);
}

void captcha_fonts_hint(int32_t code)
{
  if (is_east_asian(code))
    capl_error_hint("name a font that has them: the Debian package fonts-wqy-microhei provides wqy-microhei.ttc, "
                    "fonts-noto-cjk NotoSansCJK-Regular.ttc");
  else
    capl_error_hint("name a font that has them: the Debian package fonts-dejavu-core provides DejaVuSans.ttf, "
                    "fonts-noto-core one for each script");
}
