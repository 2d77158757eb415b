/* batch.h -- how one row of a batch comes to be: order, reading, substitution, augmentation, conversion.
**
** A pure function of (source, options, epoch, position), called by the loader's threads with their own scratch.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_BATCH_H
#define CAPL_DATA_BATCH_H

#include "data/augment.h"
#include "data/convert.h"
#include "data/source.h"

/* The loader's options as its threads need them; constant while they run but for seed. */
typedef struct {
  capl_source *source;
  uint64_t seed;
  bool shuffle, skip;
  bool augments;
  capl_augment_options augment;
  capl_conversion conversion;
  size_t image_bytes; /* of one converted image */
  /* Told of each bad sample, with the thread's error record set; may be called by several threads. */
  void (*on_bad)(void *context, uint32_t id);
  void *context;
} row_maker;

typedef struct {
  capl_image decoded;
  uint8_t *levels, *augmented; /* H*W*C */
  capl_augment_scratch augment;
} row_scratch;

capl_status row_scratch_init(row_scratch *scratch, const capl_source *source);
void row_scratch_fini(row_scratch *scratch);

typedef struct {
  uint32_t id; /* of the sample used */
  bool substituted, augmented;
} row_note;

/* Makes the row at a position of the epoch's global order. */
capl_status row_make(const row_maker *maker, row_scratch *scratch, uint32_t epoch, uint32_t position, void *image,
                     int32_t *labels, row_note *note);

#endif
