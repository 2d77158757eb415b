/* augment.h -- the fused augmentation as the loader calls it: with memory that outlives one image.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_AUGMENT_H
#define CAPL_DATA_AUGMENT_H

#include "capl/data.h"

/* One thread's memory for images of one size. */
typedef struct {
  int width, height, channels;
  uint8_t *padded;  /* (H + 3, W + 3, C): the source with its surroundings */
  int32_t *at;      /* [W] byte offset in padded */
  int32_t *part_x;  /* [W] 8-bit fractions */
  int32_t *part_y;
  int32_t *value;   /* [W * C] levels times 65536 */
} capl_augment_scratch;

capl_status capl_augment_scratch_init(capl_augment_scratch *scratch, int height, int width, int channels);
void capl_augment_scratch_fini(capl_augment_scratch *scratch);

/* capl_augment_image for checked options. Returns whether any op applied; if none did, out is a copy of in. */
bool capl_augment_run(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample,
                      const uint8_t *in, capl_augment_scratch *scratch, uint8_t *out);

#endif
