/* meta.h -- meta.json of a model: what goes in, what comes out, and which version of the format it is.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_META_H
#define CAPL_IO_META_H

#include "capl/model.h"
#include "data/convert.h"

enum { META_VERSION = 1, META_LIMIT = 32 << 20 /* bytes of a meta.json */,
      META_SIDE_MAX = 1 << 14 /* px of a width or height */, META_WIDTHS_MAX = 64 };

typedef enum {
  META_ARGMAX, /* a character at each of `length` places */
  META_CTC,    /* time steps; the class behind the charset is blank */
} meta_decoding;

/* What reading images needs. */
typedef struct {
  capl_model_kind kind;
  int width, height, channels; /* px; width: the greatest of widths; 1 gray or 3 RGB */
  int n_widths;                /* 0: every image is stretched to width x height */
  int widths[META_WIDTHS_MAX]; /* ascending; an image keeps its proportions and goes into the first that it fits */
  capl_conversion conversion;  /* type: f32 */
  meta_decoding decoding;
  int length_min, length;      /* characters of a text; 1 for a class */
  int characters;              /* of the vocabulary; its classes */
  int classes;                 /* K: those, and the blank of CTC */
  capl_vocab *vocab;           /* the character or the name of class k, of number or point k; owned */
  double mean[CAPL_VALUES_MAX], std[CAPL_VALUES_MAX]; /* of numbers: value = output * std + mean */
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
** names an output that capl_model_open knows and cannot be parsed back. */
CAPL_API capl_status meta_stamp(const char *text, char **out);

#endif
