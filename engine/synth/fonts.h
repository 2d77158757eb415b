/* fonts.h -- where font files are.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_FONTS_H
#define CAPL_DATA_FONTS_H

#include "capl/error.h"

#define CAPL_FONT_NOTO_MONO "NotoMono-Regular.ttf"
#define CAPL_FONT_DEJAVU "DejaVuSans.ttf"
#define CAPL_FONT_DEJAVU_BOLD "DejaVuSans-Bold.ttf"

/* name: a path, or the bare name of a file that lies in the working folder, in $CAPL_FONTS or in one of the places
** where Debian and its like install fonts. usual: the font that a preset has of its own, named in the hint; when it is
** what is looked for (the same pointer) and it is Noto Mono, the file that $CAPL_FONT names takes its place. *path:
** caller frees. EIO with the package to install; ENOMEM. */
capl_status capl_font_find(const char *name, const char *usual, char **path);

#endif
