/* batch.h -- how one row of a batch comes to be: order, reading, substitution, augmentation, conversion.
**
** A pure function of (source, options, epoch, position), called by the loader's threads with their own scratch.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_BATCH_H
#define CAPL_DATA_BATCH_H

#include "data/augment.h"
#include "data/convert.h"
#include "data/feed_row.h"
#include "data/source.h"

/* What becomes of a sample: the finished image; its levels and how a device makes the image; only the latter, because
** the levels are on the device; or the levels for a set that is being filled, whatever their state. */
typedef enum { ROW_FINISHED, ROW_LEVELS, ROW_RESIDENT, ROW_OF_SET } row_kind;

/* What augmentation and normalization need to know of a sample's levels. */
typedef struct {
  uint64_t sum, squares;
  float mean;
  bool bad; /* it could not be read */
} sample_facts;

/* The samples of a source on a device. */
typedef struct {
  uint8_t *images; /* device memory: (count,H,W,pixel_bytes), (count,T) */
  int32_t *labels;
  size_t bytes; /* of both */
  int pixel_bytes; /* C, or 4 for three channels: one aligned load reads a pixel */
  sample_facts *facts; /* [count], host memory */
  uint8_t *field[CAPL_FIELDS_MAX]; /* (count,…), host memory; of labels too: */
  int32_t *host_labels;
} resident_set;

/* How hard samples are made and what changes them: the same for all rows of a batch, and what a schedule varies. */
typedef struct {
  bool augments;
  capl_augment_options augment;
  bool eases; /* samples are made at this difficulty, not as hard as the source's options say */
  capl_difficulty difficulty;
} row_stage;

/* The samples in lists, each of which is shuffled by itself: with several widths, one list for each. */
typedef struct {
  int n;        /* 0 = one list of all samples, in their order */
  uint32_t *id; /* of list k: first[k] .. first[k + 1] */
  uint32_t first[CAPL_WIDTHS_MAX + 1];
} row_lists;

/* The loader's options as its threads need them; constant while they run but for seed. */
typedef struct {
  capl_source *source;
  const capl_source *plain; /* the same without a cache */
  const row_lists *lists;
  uint64_t seed;
  bool shuffle, skip;
  capl_conversion conversion;
  row_kind kind;
  const resident_set *set; /* of ROW_RESIDENT and ROW_OF_SET */
  size_t image_bytes; /* of one image as it is made here; the widest */
  /* Told of each bad sample, with the thread's error record set; may be called by several threads. */
  void (*on_bad)(void *context, uint64_t batch, uint32_t id);
  void *context;
} row_maker;

typedef struct {
  capl_image decoded;
  uint8_t *levels; /* H*W*C */
  void *field[CAPL_FIELDS_MAX]; /* as read, of rows that are augmented */
  int32_t labels[CAPL_LABEL_MAX]; /* for rows that need none */
  capl_sample partner; /* what a row is mixed with, as read; of loaders that mix */
  capl_augment_scratch augment;
  bool timed; /* the next row's augmentation is to be timed */
  double augment_seconds;
} row_scratch;

capl_status row_scratch_init(row_scratch *scratch, const capl_source *source, bool mixes);
void row_scratch_fini(row_scratch *scratch);

/* Where a row goes; what its kind has no use for is NULL. */
typedef struct {
  uint64_t batch;
  int index; /* in the batch */
  int list;  /* that its sample is of */
  const row_stage *stage;
  void *image;
  int32_t *labels;
  int32_t *labels2; /* of the sample it is mixed with */
  float *mix;       /* the share of its own label */
  void *field[CAPL_FIELDS_MAX];
  feed_place feed, partner; /* how a device makes the image, and the one that it is mixed with */
  sample_facts *facts;
} row_place;

typedef struct {
  uint32_t id; /* of the sample used */
  int32_t used;   /* px of the batch's width that its image takes */
  int32_t length; /* of its label: what comes before the first -1 */
  bool substituted, augmented;
} row_note;

/* Makes the row at a position of the epoch's order of to's list. */
capl_status row_make(const row_maker *maker, row_scratch *scratch, uint32_t epoch, uint32_t position,
                     const row_place *to, row_note *note);

#endif
