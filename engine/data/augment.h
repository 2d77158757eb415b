/* augment.h -- the fused augmentation as the loader calls it: with memory that outlives one image.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_AUGMENT_H
#define CAPL_DATA_AUGMENT_H

#include "capl/data.h"

/* What was drawn for one sample. */
typedef struct {
  bool any, moves;  /* any: something changes; moves: the map is not the identity */
  double map[6];    /* source x = map[0] * x + map[1] * y + map[2], y alike, about pixel centres */
  float gain, lift; /* level * gain + lift */
  float noise;      /* standard deviation, levels */
  uint32_t noise_key;
} capl_augment_draw;

/* Rolls the dice for one image of the given size. mean: its capl_augment_mean, read if the options need it. */
capl_augment_draw capl_augment_roll(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample,
                                    int height, int width, float mean);
/* Whether the dice need the mean of an image. */
bool capl_augment_needs_mean(const capl_augment_options *options);
/* Mean luma of n_pixels. */
float capl_augment_mean(const uint8_t *in, size_t n_pixels, int channels);

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
