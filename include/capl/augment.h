/* augment.h -- augmentation of samples, fused in one pass over an image and what moves along with it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_AUGMENT_H
#define CAPL_AUGMENT_H

#include "capl/source.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  float lo, hi; /* uniform; {0, 0} = the op is off */
} capl_range;

/* The ops, each with random numbers of its own: switching one on does not shift the others. Append only. */
typedef enum {
  CAPL_AUGMENT_ROTATE, CAPL_AUGMENT_SCALE, CAPL_AUGMENT_TRANSLATE_X, CAPL_AUGMENT_TRANSLATE_Y, CAPL_AUGMENT_SHEAR,
  CAPL_AUGMENT_CONTRAST, CAPL_AUGMENT_BRIGHTNESS, CAPL_AUGMENT_NOISE, CAPL_AUGMENT_INVERT, CAPL_AUGMENT_FLIP,
  CAPL_AUGMENT_FLIP_VERTICAL, CAPL_AUGMENT_CROP, CAPL_AUGMENT_PERSPECTIVE, CAPL_AUGMENT_ELASTIC, CAPL_AUGMENT_GAMMA,
  CAPL_AUGMENT_SATURATION, CAPL_AUGMENT_HUE, CAPL_AUGMENT_BLUR, CAPL_AUGMENT_ERASE, CAPL_AUGMENT_MIX,
  CAPL_AUGMENT_OPS
} capl_augment_op;

enum {
  CAPL_AUGMENT_COINS = 15, /* coins that ops may share */
  CAPL_SWAPS_MAX = 32,     /* pairs that a flip exchanges */
  CAPL_BEND_SIDE = 16000,  /* px: perspective and elastic work on images up to this size */
};

/* Mixing two samples: the first one's share is drawn from Beta(alpha, alpha). */
typedef struct {
  float alpha; /* 0.01..4 */
  float p;     /* probability; 0 = off */
} capl_mix;

/* Pairs that change places when a sample is mirrored. */
typedef struct {
  bool declared; /* said, if only that there are none */
  uint8_t count, pair[CAPL_SWAPS_MAX][2];
} capl_swaps;

/* All zero = off. Order: gamma, blur; one geometry (crop, flip, shear, scale, rotate, translate, perspective, elastic;
** bilinear); colour (saturation, hue, contrast about the mean of the image as read, brightness, inversion); clamp to
** 0..255; noise; clamp and round; mixup or cutmix; erase. Masks, points and boxes move along; colours are the image's
** alone. engine/data/augment.h says to the bit what each op does; every instruction set and device makes the same
** levels. */
typedef struct {
  capl_range rotate;      /* degrees, positive = counter-clockwise */
  capl_range scale;       /* factor, > 0; above 1 enlarges */
  capl_range translate_x; /* share of the width, positive = right */
  capl_range translate_y; /* share of the height, positive = down */
  capl_range shear;       /* degrees; moves rows sideways */
  capl_range contrast;    /* factor, >= 0 */
  capl_range brightness;  /* factor, >= 0 */
  capl_range noise;       /* standard deviation in levels of 255, >= 0 */
  capl_range crop;        /* share of the area that is kept and stretched to the whole, 0.01..1 */
  capl_range crop_aspect; /* width / height of that part, in units of the image's; {0, 0} = 3/4..4/3 */
  capl_range perspective; /* each corner moves inwards by up to this share of half the width and height, 0..0.95 */
  capl_range elastic;     /* px: each of 8 x 8 places moves by up to this much in x and y, 0..1000 */
  capl_range gamma;       /* exponent of levels / 255, 0.05..20; above 1 darkens */
  capl_range saturation;  /* factor, >= 0; 0 = gray. Gray images: nothing */
  capl_range hue;         /* shares of a full turn, -0.5..0.5. Gray images: nothing */
  capl_range blur;        /* standard deviation of a Gaussian in px, 0.05..10 */
  capl_range erase;       /* share of the area of a rectangle that becomes erase_value, 0..1 */
  float invert;           /* probability, 0..1; likewise: */
  float flip;             /* left and right change places */
  float flip_vertical;    /* top and bottom change places */
  capl_mix mixup;         /* a weighted sum with another sample; of masks, the one with the larger share */
  capl_mix cutmix;        /* a rectangle comes from another sample, mask and all. mixup.p + cutmix.p <= 1 */
  float skip[CAPL_AUGMENT_OPS]; /* probability that a sample goes without the op, 0..1; not for flips, invert and mix */
  /* 0 = the op's own coin decides that. Ops with the same other number have one coin in common: those with the same
  ** skip are applied together, and one with a larger skip only where those with a smaller one are. */
  uint8_t coin[CAPL_AUGMENT_OPS];
  bool fill;              /* outside the source: false = nearest edge pixel, true = fill_value */
  uint8_t fill_value;
  uint8_t mask_fill;      /* the class there, if fill */
  uint8_t erase_value;
  uint8_t blur_size;      /* 3, 5 or 7 px; 0 = 3 up to a deviation of 0.8, 5 up to 1.4, else 7 */
  bool flip_text;         /* text may be mirrored */
  capl_swaps class_swaps; /* of masks and boxes; must be declared for flips of either */
  capl_swaps point_swaps; /* of points by number; must be declared for flips of points */
} capl_augment_options;

/* EVALUE naming the op whose range is inverted, not finite or out of bounds. */
CAPL_API capl_status capl_augment_check(const capl_augment_options *options);
/* The same, and that they suit a source. EVALUE: it has no images; they would be flipped, and nobody said what becomes
** of its text, classes or points; two samples would be mixed that have points or boxes, or neither text nor a mask;
** sizes. */
CAPL_API capl_status capl_augment_check_source(const capl_augment_options *options, const capl_source *source);
/* One image, in (H,W,C) -> out (H,W,C), never the same memory; without mixing. The numbers drawn are a function of
** (seed, epoch, sample). *changed (may be NULL): whether any op applied. ENOMEM, EVALUE. */
CAPL_API capl_status capl_augment_image(const capl_augment_options *options, uint64_t seed, uint32_t epoch,
                                        uint32_t sample, const uint8_t *in, int height, int width, int channels,
                                        uint8_t *out, bool *changed);

#ifdef __cplusplus
}
#endif
#endif
