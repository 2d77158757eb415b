/* field.h -- what a sample carries and a model gives: texts over a charset, masks, points, boxes, numbers.
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
  CAPL_LABEL_MAX = 32,   /* T, characters of a label */
  CAPL_CHARSET_MAX = 94, /* K, classes: printable ASCII without space */
};

/* ---- charset ----------------------------------------------------------------------------------------- */

/* Expands ranges: "0-9A-F" -> "0123456789ABCDEF". A '-' that is first or last stands for itself.
** The class id of a character is its place in the expanded text.
** EVALUE for an empty charset, a range that runs backwards, a repeated or unprintable character. */
CAPL_API capl_status capl_charset_expand(const char *spec, char expanded[CAPL_CHARSET_MAX + 1]);

/* ---- fields: what a sample has beside its image and its text ----------------------------------------- */

enum { CAPL_FIELDS_MAX = 4, CAPL_FIELD_NAME = 24 };

/* Coordinates are px; the image spans 0..W and 0..H, so the centre of the pixel at the top left is (0.5, 0.5). */
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

#ifdef __cplusplus
}
#endif
#endif
