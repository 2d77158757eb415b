/* augment.h -- the fused augmentation as the loader calls it, and what its ops do, to the bit.
**
** A draw holds the random numbers of one sample; everything after that is a function of draw and levels. Whoever makes
** images elsewhere (another instruction set, a GPU) computes the same levels by these rules. Images are H,W,C levels,
** C = 1 or 3; pixel centres have whole coordinates; >> rounds towards minus infinity; llrint and lrint to nearest even;
** f32 and f64 operations round one by one (no fused multiply-add), in the order written.
**
** 1. gamma (d.gamma != 1): every level v becomes table[v], capl_augment_gamma.
** 2. blur (d.blur_radius = R > 0): with w = d.blur_weight (w[0] the middle's; w[0] + 2 (w[1] + ... + w[R]) = 256) and
** beyond
**    the image its nearest pixel: across, h = (128 + sum w[|k|] v[x+k]) >> 8; then down, (128 + sum w[|k|] h[y+k]) >>
**    8.
** 3. geometry (d.moves): output pixel (x,y) reads from (u,v) in 16.16. A row consists of segments: one, or of a map
** that
**    bends, one for every 8 px. Within a segment u = clamp(U + (x - x0) * dU, -65536, W << 16), v likewise with H (the
**    product
**    and sum in 64 bits, or 32 if the whole row stays within 2^30).
**    - Not bending: x0 = 0, U = llrint((map[1] * y + map[2]) * 65536), dU = lrint(map[0] * 65536), and v by map[3..5].
**    - Bending (d.bends): node (i,j) of the grid of capl_augment_nodes lies at output (8i, 8j). For b = y & 7, j = y >>
**    3,
**      i = x >> 3: L = n(i,j) + ((n(i,j+1) - n(i,j)) >> 3) * b, R = the same of i + 1; x0 = 8i, U = L, dU = (R - L) >>
**      3.
**    With fx = (u >> 8) & 255, fy alike, and p the four pixels from (u >> 16, v >> 16) on -- outside, the nearest pixel
**    or
**    fill_value -- value = (p00 (256-fx) + p10 fx) (256-fy) + (p01 (256-fx) + p11 fx) fy: the level times 65536, below
**    2^24.
**    Without geometry value = level << 16.
** 4. colour, f32: not d.blends: t[c] = (float)value[c] * (d.gain * 2^-16) + d.lift. d.blends (C = 3): with r, g, b =
** (float)value
**    and m = d.colour[3c..] * 2^-16, t[c] = ((m[0] * r + m[1] * g) + m[2] * b) + d.lift.
** 5. t = min(max(t, 0), 255). noise (d.noise > 0): t = t + d.noise * bell, clamped again. With i = (y W + x) C + c as
** u32,
**    r = stir(stir(i) + d.noise_key): bell = (float)(sum of r's four bytes - 510) * (f32)(1 / 147.8).
** 6. level = (int)(t + 0.5f).
** 7. mixing: the other sample's levels after 1 to 6 by its own draw, m. CAPL_MIXUP: (level * d.share + m * (256 -
** d.share) + 128) >> 8
**    with share of 256; CAPL_CUTMIX: m inside d.cut.
** 8. erase: options.erase_value inside d.erased.
** Then the loader normalizes: value = level * scale + shift.
**
** Masks read the class at ((u + 32768) >> 16, (v + 32768) >> 16), outside the nearest one or, if fill, mask_fill; mixup
** keeps the mask of the larger share (its own at 128), cutmix the other sample's mask inside the cut; erase leaves
** masks alone. Points go the way forward, in f64; visible is what was, lies in the image and was not erased. Boxes
** become the bounds of their four corners, cut at the image; class -1 when less than CAPL_BOX_LEFT of the area is left.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_AUGMENT_H
#define CAPL_DATA_AUGMENT_H

#include "data/augment_draw.h"
#include "data/convert.h"

typedef struct {
  bool changed; /* any op applied */
  float mix;    /* the share of the sample's own label; 1 = it was not mixed */
} capl_augment_result;

/* Augments a sample for checked options. partner: the other sample as it was read, of the id that capl_augment_partner
** gave; NULL = none. to: normalizes the image on the way, out->pixels then holds (H,W,C) of its type; NULL = out holds
** levels. Labels stay the caller's. in, partner and out never share memory. */
CAPL_API capl_augment_result capl_augment_sample(const capl_augment_options *options, const capl_augment_case *which,
                                        const capl_augment_layout *layout, const capl_sample *in,
                                        const capl_sample *partner, uint32_t partner_id, const capl_conversion *to,
                                        capl_augment_scratch *scratch, const capl_sample *out);

/* The image alone, as levels, without mixing. Returns whether any op applied; if none did, out is a copy of in. */
bool capl_augment_run(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample,
                      const uint8_t *in, capl_augment_scratch *scratch, uint8_t *out);

#endif
