/* augment.h -- the fused augmentation as the loader calls it, and what its ops do, to the bit.
**
** A draw holds the random numbers of one sample; everything after that is a function of draw and levels. Whoever makes
** images elsewhere (another instruction set, a GPU) computes the same levels by these rules. Images are H,W,C levels,
** C = 1 or 3; pixel centres have whole coordinates; >> rounds towards minus infinity; llrint and lrint to nearest even;
** f32 and f64 operations round one by one (no fused multiply-add), in the order written.
**
** 1. gamma (d.gamma != 1): every level v becomes table[v], capl_augment_gamma.
** 2. blur (d.blur_radius = R > 0): with w = d.blur_weight (w[0] the middle's; w[0] + 2 (w[1] + ... + w[R]) = 256) and beyond
**    the image its nearest pixel: across, h = (128 + sum w[|k|] v[x+k]) >> 8; then down, (128 + sum w[|k|] h[y+k]) >> 8.
** 3. geometry (d.moves): output pixel (x,y) reads from (u,v) in 16.16. A row consists of segments: one, or of a map that
**    bends, one for every 8 px. Within a segment u = clamp(U + (x - x0) * dU, -65536, W << 16), v likewise with H (the product
**    and sum in 64 bits, or 32 if the whole row stays within 2^30).
**    - Not bending: x0 = 0, U = llrint((map[1] * y + map[2]) * 65536), dU = lrint(map[0] * 65536), and v by map[3..5].
**    - Bending (d.bends): node (i,j) of the grid of capl_augment_nodes lies at output (8i, 8j). For b = y & 7, j = y >> 3,
**      i = x >> 3: L = n(i,j) + ((n(i,j+1) - n(i,j)) >> 3) * b, R = the same of i + 1; x0 = 8i, U = L, dU = (R - L) >> 3.
**    With fx = (u >> 8) & 255, fy alike, and p the four pixels from (u >> 16, v >> 16) on -- outside, the nearest pixel or
**    fill_value -- value = (p00 (256-fx) + p10 fx) (256-fy) + (p01 (256-fx) + p11 fx) fy: the level times 65536, below 2^24.
**    Without geometry value = level << 16.
** 4. colour, f32: not d.blends: t[c] = (float)value[c] * (d.gain * 2^-16) + d.lift. d.blends (C = 3): with r, g, b = (float)value
**    and m = d.colour[3c..] * 2^-16, t[c] = ((m[0] * r + m[1] * g) + m[2] * b) + d.lift.
** 5. t = min(max(t, 0), 255). noise (d.noise > 0): t = t + d.noise * bell, clamped again. With i = (y W + x) C + c as u32,
**    r = stir(stir(i) + d.noise_key): bell = (float)(sum of r's four bytes - 510) * (f32)(1 / 147.8).
** 6. level = (int)(t + 0.5f).
** 7. mixing: the other sample's levels after 1 to 6 by its own draw, m. CAPL_MIXUP: (level * d.share + m * (256 - d.share) + 128) >> 8
**    with share of 256; CAPL_CUTMIX: m inside d.cut.
** 8. erase: options.erase_value inside d.erased.
** Then the loader normalises: value = level * scale + shift.
**
** Masks read the class at ((u + 32768) >> 16, (v + 32768) >> 16), outside the nearest one or, if fill, mask_fill; mixup
** keeps the mask of the larger share (its own at 128), cutmix the other sample's mask inside the cut; erase leaves masks alone.
** Points go the way forward, in f64; visible is what was, lies in the image and was not erased. Boxes become the bounds of
** their four corners, cut at the image; class -1 when less than CAPL_BOX_LEFT of the area is left.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_AUGMENT_H
#define CAPL_DATA_AUGMENT_H

#include "capl/data.h"
#include "data/convert.h"

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
  double map[6];     /* source x = (map[0] * x + map[1] * y + map[2]) / z, y alike with map[3..5], about pixel centres */
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

/* Draws the random numbers for one image of the given size. mean: its capl_augment_mean, read if the options need it. */
CAPL_API capl_augment_draw capl_augment_roll(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample,
                                    int height, int width, float mean);
/* Which of count samples this one is mixed with; false = none. It may be itself. */
CAPL_API bool capl_augment_partner(const capl_augment_options *options, const capl_augment_case *which, uint32_t count, uint32_t *id);
/* Whether samples may be mixed at all. */
bool capl_augment_mixes(const capl_augment_options *options);
/* Whether an augmentation needs the mean of an image. */
bool capl_augment_needs_mean(const capl_augment_options *options);
/* Mean luma of n_pixels, as they were read. */
CAPL_API float capl_augment_mean(const uint8_t *in, size_t n_pixels, int channels);

/* table[v] = floor(255 (v / 255)^gamma + 0.5) */
void capl_augment_gamma(float gamma, uint8_t table[256]);

/* Nodes of a map that bends, 16.16 each, rows of capl_augment_nodes_across(width): x then y of each node. They lie at most
** 16383 px from 0. */
int capl_augment_nodes_across(int size); /* size / 8 rounded up, and 1 */
static inline int capl_augment_nodes_count(int height, int width) /* numbers of all nodes */
{
  return 2 * capl_augment_nodes_across(width) * capl_augment_nodes_across(height);
}
void capl_augment_nodes(const capl_augment_draw *d, int height, int width, int32_t *nodes);
/* By how many px of the source elastic moves what is shown at (x,y): the lattice spans the image, is looked up at nodes, and
** bilinear between them. */
CAPL_API void capl_augment_bent_by(const capl_augment_draw *d, int height, int width, double x, double y, double *by_x, double *by_y);

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

typedef struct {
  bool changed; /* any op applied */
  float mix;    /* the share of the sample's own label; 1 = it was not mixed */
} capl_augment_result;

/* Augments a sample for checked options. partner: the other sample as it was read, of the id that capl_augment_partner gave;
** NULL = none. to: normalises the image on the way, out->pixels then holds (H,W,C) of its type; NULL = out holds levels.
** Labels stay the caller's. in, partner and out never share memory. */
CAPL_API capl_augment_result capl_augment_sample(const capl_augment_options *options, const capl_augment_case *which,
                                        const capl_augment_layout *layout, const capl_sample *in, const capl_sample *partner,
                                        uint32_t partner_id, const capl_conversion *to, capl_augment_scratch *scratch,
                                        const capl_sample *out);

/* The image alone, as levels, without mixing. Returns whether any op applied; if none did, out is a copy of in. */
bool capl_augment_run(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample,
                      const uint8_t *in, capl_augment_scratch *scratch, uint8_t *out);

#endif
