/* augment_draw.h -- what is drawn for one sample, and the memory that a thread augments in.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_AUGMENT_DRAW_H
#define CAPL_DATA_AUGMENT_DRAW_H

#include "capl/data.h"

enum {
  AUGMENT_CELL = 8,       /* px between nodes */
  AUGMENT_LATTICE = 8,    /* places in x and in y that elastic moves */
  AUGMENT_BLUR_MOST = 3,  /* radius */
  AUGMENT_SHARE = 256,    /* of mixup: all of a sample */
};

#define CAPL_BOX_LEFT 0.1 /* share of a box's area that must stay in the image */

/* ---- random numbers ---- */

/* Whose random numbers. */
typedef struct {
  uint64_t seed;
  uint32_t epoch, sample;
} capl_augment_case;

typedef enum { CAPL_MIX_NONE, CAPL_MIXUP, CAPL_CUTMIX } capl_mixing;

/* x0 <= x < x1, y alike; empty = none. */
typedef struct {
  int x0, y0, x1, y1;
} capl_area;

/* What was drawn for one sample. */
typedef struct {
  bool any;      /* something changes */
  bool alone;    /* the same, were it not mixed */
  bool moves;    /* the map is not the identity */
  bool bends;    /* the map is not affine: read capl_augment_nodes, not map */
  bool mirrored; /* left and right of what is shown are exchanged */
  bool blends;   /* colour, not gain alone */
  double map[6];     /* source x = (map[0] * x + map[1] * y + map[2]) / z, y alike with map[3..5], about pixel
                     ** centres */
  double horizon[3]; /* z = horizon[0] * x + horizon[1] * y + horizon[2]: 0, 0, 1 unless there is perspective */
  float elastic;     /* px; 0 = none */
  float lattice[2][AUGMENT_LATTICE * AUGMENT_LATTICE]; /* how far the places move in x and y, in units of elastic */
  float gain, lift;  /* level * gain + lift */
  float colour[9];   /* gain included */
  float noise;       /* standard deviation, levels */
  uint32_t noise_key;
  float gamma;
  int blur_radius;
  uint16_t blur_weight[AUGMENT_BLUR_MOST + 1];
  capl_mixing mixing;
  int share;      /* of this sample, 0..256 */
  float mix;      /* the same, 0..1: its label's share */
  capl_area cut;  /* from the other sample */
  capl_area erased;
} capl_augment_draw;

/* Draws the random numbers for one image of the given size. mean: its capl_augment_mean, read if the options need
** it. */
CAPL_API capl_augment_draw capl_augment_roll(const capl_augment_options *options, uint64_t seed, uint32_t epoch,
                                             uint32_t sample,
                                    int height, int width, float mean);
/* Which of count samples this one is mixed with; false = none. It may be itself. */
CAPL_API bool capl_augment_partner(const capl_augment_options *options, const capl_augment_case *which, uint32_t count,
                                   uint32_t *id);
/* Whether an augmentation needs the mean of an image. */
bool capl_augment_needs_mean(const capl_augment_options *options);
/* Mean luma of n_pixels, as they were read. */
CAPL_API float capl_augment_mean(const uint8_t *in, size_t n_pixels, int channels);

/* table[v] = floor(255 (v / 255)^gamma + 0.5) */
void capl_augment_gamma(float gamma, uint8_t table[256]);

/* Nodes of a map that bends, 16.16 each, rows of capl_augment_nodes_across(width): x then y of each node. They lie at
** most 16383 px from 0. */
int capl_augment_nodes_across(int size); /* size / 8 rounded up, and 1 */
static inline int capl_augment_nodes_count(int height, int width) /* numbers of all nodes */
{
  return 2 * capl_augment_nodes_across(width) * capl_augment_nodes_across(height);
}
void capl_augment_nodes(const capl_augment_draw *d, int height, int width, int32_t *nodes);
/* By how many px of the source elastic moves what is shown at (x,y): the lattice spans the image, is looked up at
** nodes, and bilinear between them. */
CAPL_API void capl_augment_bent_by(const capl_augment_draw *d, int height, int width, double x, double y, double *by_x,
                                   double *by_y);

/* ---- samples ---- */

/* One thread's memory for images of one size. */
typedef struct {
  int width, height, channels;
  size_t stride;     /* bytes of a padded row */
  uint8_t *padded;   /* (H + 3, W + 3, C) and room to read behind: the source with its surroundings */
  uint8_t *filtered; /* (H,W,C): after gamma or blur */
  uint8_t *mixed;    /* (H,W,C): the other sample's levels */
  uint8_t *finished; /* (H,W,C): all levels, where their sums must be known first */
  uint8_t *blurred;  /* rows of the blur */
  uint8_t *band;     /* rows of levels on their way to values */
  uint8_t *pairs;    /* (H + 2, W + 3, 2) with as much room, of gray images if the kernels want it */
  int32_t *nodes, *lines;
  int32_t *value;    /* [W * C] levels times 65536 */
  const struct augment_kernels *kernels;
} capl_augment_scratch;

/* EVALUE, EUNSUPPORTED: of a bad CAPL_ASSUME; ENOMEM. */
CAPL_API capl_status capl_augment_scratch_init(capl_augment_scratch *scratch, int height, int width, int channels);
/* From now on for images of this width, at most what it was made for. */
void capl_augment_scratch_width(capl_augment_scratch *scratch, int width);
CAPL_API void capl_augment_scratch_fini(capl_augment_scratch *scratch);

/* What a source's samples are like. */
typedef struct {
  int width, height, channels;
  int n_fields;
  const capl_field *field;
} capl_augment_layout;

#endif
