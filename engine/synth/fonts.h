/* fonts.h -- where font files are.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_FONTS_H
#define CAPL_DATA_FONTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

#define CAPL_FONT_NOTO_MONO "NotoMono-Regular.ttf"
#define CAPL_FONT_DEJAVU "DejaVuSans.ttf"
#define CAPL_FONT_DEJAVU_BOLD "DejaVuSans-Bold.ttf"
/* Chinese: as printed, as written with a brush, in columns of print; then others of the first kind. */
#define CAPL_FONTS_CHINESE                                                                                     \
  "wqy-microhei.ttc", "ukai.ttc", "uming.ttc", "wqy-zenhei.ttc", "NotoSansCJK-Regular.ttc:2",                  \
  "NotoSerifCJK-Regular.ttc:2", "DroidSansFallbackFull.ttf"

/* A font: a file, and which of those that are in it; a collection (.ttc, .otc) has several. */
typedef struct {
  char *path;
  int index; /* from 0 */
  void *bytes; /* of the file, mapped once for all threads; NULL if that cannot be done */
  size_t size;
} captcha_font;

/* name: a path, or the bare name of a file that lies in the working folder, in $CAPL_FONTS or anywhere below
** /usr/share/fonts and /usr/local/share/fonts; NAME:2 is font 2 of a collection. usual: the font that a preset has of
** its own, named in the hint; when it is what is looked for (the same pointer) and it is Noto Mono, the file that
** $CAPL_FONT names takes its place. Free with captcha_font_free. EIO with the package to install; ENOMEM. */
capl_status captcha_font_find(const char *name, const char *usual, captcha_font *font);
void captcha_font_free(captcha_font *font);

/* Whether _find would find it; no error is recorded. */
bool captcha_font_is_there(const char *name);
/* EIO: none of the fonts of East Asia that a preset chooses from is installed; with the packages. */
capl_status captcha_fonts_missing(const char *const *names);

/* The hint of an error about a font that lacks a character: another font, and the package that has one. */
void captcha_fonts_hint(int32_t code);

#endif
