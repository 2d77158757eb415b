/* meta.h -- meta.json of a model: what goes in, what comes out, and which version of the format it is.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_META_H
#define CAPL_IO_META_H

#include "data/convert.h"

enum { META_VERSION = 1, META_SIDE_MAX = 1 << 14 }; /* px of a width or height */

/* What reading texts off images needs. */
typedef struct {
  int width, height, channels; /* px; every image is resized to it; 1 gray or 3 RGB */
  capl_conversion conversion;  /* type: f32 */
  int length;                  /* T */
  int classes;                 /* K = strlen(charset) */
  char charset[CAPL_CHARSET_MAX + 1]; /* the character of class k is charset[k]; no ranges */
} model_meta;

/* Checks the text of a meta.json, NUL-ended; path stands for it in messages. EFORMAT names key and value. */
CAPL_API capl_status meta_parse(const char *path, const char *text, model_meta *out);
/* Only the version. EFORMAT names both. */
CAPL_API capl_status meta_check_version(const char *path, const char *text);
/* A JSON object with the version and the program's added; caller frees with free. EVALUE if it is no object, or
** says output = "text" and cannot be parsed back. */
CAPL_API capl_status meta_stamp(const char *text, char **out);

#endif
