/* meta.h -- meta.json of a model: what goes in, what comes out, and which version of the format it is.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_META_H
#define CAPL_IO_META_H

#include "capl/io.h"
#include "capl/model.h"
#include "data/convert.h"
#include "fields/kind.h"

enum { META_VERSION = 1, META_LIMIT = 32 << 20 /* bytes of a meta.json */,
      META_SIDE_MAX = 1 << 14 /* px of a width or height */, META_WIDTHS_MAX = 64 };

/* What goes into a model and comes out of it. */
typedef struct {
  int width, height, channels; /* px; width: the greatest of widths, 0 = the model sees no image; 1 gray or 3 RGB */
  int n_widths;                /* 0: every image is brought to width x height */
  int widths[META_WIDTHS_MAX]; /* ascending; an image keeps its proportions and goes into the first that it fits */
  capl_letterbox letterbox;    /* of a model of one width */
  capl_conversion conversion;  /* type: f32 */
  int n_inputs, n_outputs;
  model_field inputs[CAPL_GRAPH_PORTS_MAX]; /* kind NULL: the image */
  model_field outputs[CAPL_GRAPH_PORTS_MAX];
} model_meta;

/* Checks the text of a meta.json, NUL-ended; path stands for it in messages. EFORMAT names key and value. */
CAPL_API capl_status meta_parse(const char *path, const char *text, model_meta *out);
/* Frees what it owns. */
CAPL_API void meta_fini(model_meta *m);
/* Only the version. EFORMAT names both. */
CAPL_API capl_status meta_check_version(const char *path, const char *text);
/* The SHA-256 of the weights, 64 digits and a NUL; "" where it has none, as those of older versions. EFORMAT for
** another value. */
capl_status meta_weights_hash(const char *path, const char *text, char *hex);
/* text, an object, with that hash in it; caller frees with free. */
capl_status meta_with_hash(const char *text, const char *hex, char **out);
/* A JSON object with the version and the program's added; caller frees with free. EVALUE if it is no object, or
** names outputs and cannot be parsed back. */
CAPL_API capl_status meta_stamp(const char *text, char **out);

/* ---- of meta_fields.c ---- */

/* Whether it says what the model gives. */
bool meta_is_described(const cJSON *root);
/* Inputs and outputs of an object. EFORMAT; what was read until then is in m. */
capl_status meta_read_fields(const char *path, const cJSON *root, model_meta *m);

#endif
