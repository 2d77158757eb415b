/* field.h -- what a sample carries and a model gives: texts over a charset, classes, masks, points, boxes, numbers.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FIELD_H
#define CAPL_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  CAPL_LABEL_MAX = 32,    /* T, characters of a label */
  CAPL_LABEL_ROOM = 129,  /* bytes of one in UTF-8, with its end */
  CAPL_VOCAB_MAX = 65536, /* K, names of a vocabulary */
  CAPL_NAME_MAX = 200,    /* bytes of the name of a class */
};

/* ---- texts ------------------------------------------------------------------------------------------- */

typedef enum { CAPL_CASE_KEEP, CAPL_CASE_UPPER, CAPL_CASE_LOWER } capl_case;

/* What is done to texts before they are looked up. */
typedef struct {
  capl_case letters; /* letters of any script, by Unicode's simple case mapping */
  bool width;        /* full-width and half-width forms become the usual ones: U+FF21 -> A */
} capl_folding;

/* A text, UTF-8, in Unicode's normal form C, folded. folding: NULL = nothing. *out: caller frees with free(). EVALUE
** for what is not UTF-8, with the byte and its position; ENOMEM. */
CAPL_API capl_status capl_text_normalize(const char *text, const capl_folding *folding, char **out);

enum { CAPL_LOOKALIKES_ROOM = 64 }; /* bytes of a set of look-alikes, with its end */

/* The symbols of a charset that fonts draw alike or nearly so, in sets of two or more: "0O", then "未末". Writes the next
** set; *next: 0 at first, moved on. false: there are no more. */
CAPL_API bool capl_text_lookalikes(const char *symbols, int *next, char set[CAPL_LOOKALIKES_ROOM]);

/* ---- vocabularies ------------------------------------------------------------------------------------ */

/* The symbols that texts consist of, or the names of classes, each with its id, 0..K-1. Never changes; refcounted; many
** threads may read it at once. */
typedef struct capl_vocab capl_vocab;

/* Symbols of texts: Unicode characters in normal form C, visible, no blanks. "0-9A-F" -> 0123456789ABCDEF; ranges go by
** code point ("一-龥"); a '-' that is first or last stands for itself. "gb2312-1" is the 3,755 characters of level 1 of
** GB 2312, "gb2312-1:500" 500 of them at even distances. The id of a symbol is its place. *vocab: caller
** unrefs. EVALUE for an empty charset, a range that runs backwards, a repeated or invisible character; ENOMEM. */
CAPL_API capl_status capl_vocab_charset(const char *spec, capl_vocab **vocab);
/* The same of a list of symbols, where a '-' is always a '-'. */
CAPL_API capl_status capl_vocab_symbols(const char *symbols, capl_vocab **vocab);
/* n names of classes, UTF-8, brought to normal form C. EVALUE: an empty one, one above CAPL_NAME_MAX bytes or with a
** control character, one that is there twice, also in two spellings; ENOMEM. */
CAPL_API capl_status capl_vocab_names(const char *const *names, int32_t n, capl_vocab **vocab);
CAPL_API capl_vocab *capl_vocab_ref(capl_vocab *vocab);  /* NULL is fine */
CAPL_API void capl_vocab_unref(capl_vocab *vocab);       /* NULL is fine */

CAPL_API int32_t capl_vocab_count(const capl_vocab *vocab);   /* K; 0 for NULL */
CAPL_API bool capl_vocab_is_symbols(const capl_vocab *vocab); /* of texts; false for classes and NULL */
/* NULL for an id that is none. Borrowed. */
CAPL_API const char *capl_vocab_name(const capl_vocab *vocab, int32_t id);
/* All symbols in the order of their ids; "" for classes and NULL. Borrowed. */
CAPL_API const char *capl_vocab_text(const capl_vocab *vocab);
/* The id of the name of so many bytes, -1 = there is none. */
CAPL_API int32_t capl_vocab_find(const capl_vocab *vocab, const char *name, size_t bytes);
/* The same names with the same ids. NULL is equal to NULL. */
CAPL_API bool capl_vocab_equal(const capl_vocab *a, const capl_vocab *b);
/* For messages: the symbols, "of 3500 characters", "12 classes". Returns room. */
CAPL_API const char *capl_vocab_describe(const capl_vocab *vocab, char *room, size_t size);
/* A text in normal form C as ids: of its symbols, or of the one class that it names. Returns how many there are, of
** which the first `room` are written; *wrong: the character (or name) that the vocabulary lacks, where reading ends;
** NULL = it has all. */
CAPL_API int capl_vocab_encode(const capl_vocab *vocab, const char *text, int32_t *ids, int room, const char **wrong);

/* ---- fields: what a sample has beside its image and its text ----------------------------------------- */

enum { CAPL_FIELDS_MAX = 4, CAPL_FIELD_NAME = 24 };

/* How a field lies in memory and moves with its image: what several kinds of outputs share.
** Coordinates are px; the image spans 0..W and 0..H, so the centre of the pixel at the top left is (0.5, 0.5). */
typedef enum {
  CAPL_FIELD_MASK,   /* u8 (H,W): a class per pixel */
  CAPL_FIELD_POINTS, /* f32 (P,3): x, y, 1 = visible or 0 = not */
  CAPL_FIELD_BOXES,  /* f32 (B,5): left, top, right, bottom, class; class -1 = there is none */
  CAPL_FIELD_VALUES, /* f32 of any shape: numbers that no augmentation touches */
} capl_field_kind;

typedef struct {
  char name[CAPL_FIELD_NAME]; /* in batches too: batch.mask, batch.points */
  capl_field_kind kind;
  int ndim, size[3]; /* of one sample */
} capl_field;

/* Numbers, or bytes of a mask, that one sample's field has. */
CAPL_API size_t capl_field_count(const capl_field *field);
CAPL_API size_t capl_field_bytes(const capl_field *field);

/* ---- outputs: what a model gives for one sample -------------------------------------------------------- */

enum {
  CAPL_READING_MAX = 256, /* characters of a text; what a model reads beyond them is cut */
  CAPL_TOP_MAX = 16,      /* classes of kind class that are listed */
};

typedef struct {
  int32_t id;
  const char *name;  /* borrowed from the model */
  float probability; /* its softmax value, of kind classes its sigmoid; 0..1 */
} capl_class_score;

/* What one output of a model says. Each kind fills some of it; the rest is 0. Everything is borrowed: name and kind
** from the model, the rest from the reading that it belongs to.
**   text     text, confidence, length, sure
**   class    text = its name, confidence, top = the most probable ones, best first
**   classes  text = their names with ", " between, confidence = that it is exactly these, top = these, best first;
**            values: the probability of each class of the model
**   mask     levels u8 (height,width): the class of each pixel, in the size of the image that was given; values: the
**            share of the image that each class has
**   points   values: rows of 3: x, y in px of the image that was given, and how sure it is that the point is visible,
**            0..1 (1 where the model does not say)
**   boxes    values: rows of 6: left, top, right, bottom in px of the image that was given, class, confidence; best
**            first
**   numbers  values: one each, in their units
**   series   values: rows of the numbers of one step, in their units
**   image    levels u8 (height,width,channels), in the size that the model gives */
typedef struct {
  const char *name; /* "" where a model's only output has none */
  const char *kind;
  const char *text; /* UTF-8; never NULL */
  double confidence; /* 0..1; of a text: product over the places of the greatest softmax value, for CTC of the text over
                     ** all its paths */
  int length;        /* characters of the text */
  const float *sure; /* of each character: its softmax value, for CTC the greatest of its time steps */
  int n_top;
  const capl_class_score *top;
  int n_values, per_row; /* per_row: values of a row */
  const double *values;
  int width, height, channels;
  const uint8_t *levels;
} capl_output;

/* Names of the kinds, in their order; NULL behind the last. */
CAPL_API const char *capl_field_kind_name(int k);
/* Whether a model's input of this kind is the pixels of an image. */
CAPL_API bool capl_field_kind_is_pixels(const char *name);

/* How texts are read from scores. All zero: no beam, all characters, any length. */
typedef struct {
  int beam;                    /* CTC: texts that a beam search goes on with at each step; 0 = the most probable path */
  const char *characters;      /* only these, of the charset; may hold ranges; NULL = all */
  int length_min, length_max;  /* characters of a text; 0 = any */
} capl_text_decoding;

#ifdef __cplusplus
}
#endif
#endif
