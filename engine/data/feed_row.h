/* feed_row.h -- how a device makes an image, written where it will be sent from.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_FEED_ROW_H
#define CAPL_DATA_FEED_ROW_H

#include "capl/feed.h"
#include "data/augment.h"

/* What the rows of a loader may need besides capl_feed_row, whatever its stage. */
typedef struct {
  bool more;    /* any of the following, or anything else of capl_feed_more */
  bool filters; /* a table, and room for filtered images */
  bool bends;   /* nodes */
  bool mixes;   /* a partner */
} feed_needs;

/* Adds what an augmentation needs. */
void feed_needs_add(feed_needs *needs, const capl_augment_options *options);

/* Where it is written; what the loader's rows do not need is NULL. */
typedef struct {
  capl_feed_row *row;
  capl_feed_more *more;
  uint8_t *table; /* [256] */
  int32_t *nodes;
  uint8_t *image;  /* where its levels travel, if they do */
  uint32_t number; /* of that image in the batch */
} feed_place;

/* Writes how the image of this number is made: by its random numbers, then level * scale + shift. */
void feed_row_write(const capl_augment_draw *draw, const capl_affine *to, int height, int width, uint32_t image,
                    const feed_place *place);

#endif
