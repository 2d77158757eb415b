/* draw.h -- the inner loops of the lepture painter, compiled once per instruction set.
**
** The same source gives the same bytes everywhere: what decides a pixel is integer arithmetic, or float arithmetic
** of single IEEE operations. Planes hold 16-bit numbers line by line; a line is a column of the image, because letters
** overlap and the text is squeezed across columns. Lines are padded to DRAW_PAD numbers, and kernels read and write
** the padding.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_DRAW_H
#define CAPL_DATA_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

enum {
  DRAW_PAD = 64,
  DRAW_WIDEST = 1024,         /* px of an image */
  DRAW_ROWS = 32,             /* rows that are coloured together at most */
  DRAW_ROW_STEP = DRAW_WIDEST + DRAW_PAD, /* constant, and much faster for it */
  DRAW_TAPS_TOGETHER = 16,    /* lines whose taps are found at once at most */
  DRAW_ALPHAS = 64,           /* distinct alpha levels: this many - 1 and above look alike */
  DRAW_INK = 1 << 13,         /* full coverage while letters are laid over each other */
  DRAW_FULL = 1 << 11,        /* full coverage from the squeeze on */
  DRAW_SMOOTHED = 13 * DRAW_FULL, /* full coverage after the smoothing, whose weights add up to 13 */
  DRAW_LEVEL = 7,             /* letter planes hold levels 0..255, times 2^7 */
};

static inline int draw_padded(int n)
{
  return (n + DRAW_PAD - 1) / DRAW_PAD * DRAW_PAD;
}

/* Zeros for planes, a multiple of 64 bytes at such an address; NULL without memory. free() gives them back. */
void *draw_room(size_t bytes);

/* For output line i: the weighted sum of n_taps input lines from first[i] on. */
typedef struct {
  int max_out, max_taps; /* room; max_out is padded */
  int n_taps;
  int16_t *first;  /* [max_out] */
  int16_t *weight; /* [k * max_out + i]; those of a line sum to `one` (taps), taps past the input are 0 */
  float *exact; /* work */
} draw_taps;

capl_status draw_taps_init(draw_taps *taps, int max_out, float max_shrink);
void draw_taps_fini(draw_taps *taps);

/* Ink about its centre, to be turned. (u,v) are px in the ink's box; the plane's columns are x. */
typedef struct {
  const int8_t *strips; /* the ink, as glyphs.h has it */
  int strip_bytes, ink_w, ink_h;
  int width, height; /* of the turned plane */
  double u, v;       /* at the plane's first pixel */
  double cos, sin;   /* the source moves by (cos, -sin) per x and by (sin, cos) per y; sin is at most 0.6 */
  int opacity;       /* 0..255, the alpha of full ink */
} draw_turn;

/* Alpha of a letter, u8. */
typedef struct {
  uint8_t *alpha; /* [u * step_u + v * step_v]; a few bytes more may be read */
  int step_u, step_v;
  int width, height;
} draw_sheet;

/* Where a stretched letter is looked up: base + x dx + y dy + x y dxy for the pixel with its centre at (x,y). */
typedef struct {
  double base, dx, dy, dxy;
} draw_map;

typedef struct {
  draw_map u, v;
  int x0, x1, y0, y1;   /* px of the cell that are drawn */
  const int16_t *cover; /* [DRAW_ALPHAS], what alpha leaves of the ink, times 2^14; [0] is 0 */
  int16_t *dest;        /* column x0 at row y0 */
  int dest_step;        /* from column to column */
} draw_place;

/* What the coverage of an image becomes. */
typedef struct {
  int background[3], ink[3]; /* RGB levels */
} draw_colours;

typedef struct {
  const char *isa;
  /* The bicubic taps (a = -0.5; wider when shrinking) for n_in -> n_out lines, each line's summing to one. */
  void (*taps)(draw_taps *taps, int n_in, int n_out, int one);
  /* Bilinear, times opacity, as levels times 2^DRAW_LEVEL; the padding is 0. plane: columns `step` apart. */
  void (*turn)(const draw_turn *turn, int16_t *plane, int step);
  /* (from_w, from_h) columns of levels -> the sheet's width x height, each direction rounded to levels. across, down:
  ** taps of either. planes: two of at least `step` columns of `step`; plane is used up. sheet->alpha: step * step. */
  void (*stretch)(const draw_taps *across, const draw_taps *down, int from_h, int16_t *plane, int16_t *other, int step,
                  draw_sheet *sheet);
  /* Lays the letter over dest: nearest alpha, through cover, by DRAW_INK. */
  void (*place)(const draw_place *place, const draw_sheet *sheet);
  /* n_out columns of DRAW_FULL out of columns of DRAW_INK; taps of one 2^15, or NULL: one to one. */
  void (*squeeze)(const draw_taps *taps, int n_out, const int16_t *in, int16_t *out, int step);
  /* 3x3 sum with the centre five times; the image's border is 13 times itself. */
  void (*smooth)(const int16_t *in, int width, int height, int step, int16_t *out);
  /* Columns of DRAW_SMOOTHED -> rows of pixels, 1 (luma) or 3 channels. rows: DRAW_ROWS * DRAW_ROW_STEP; line:
  ** bytes of a padded row. width is at least 16. */
  void (*colour)(const int16_t *in, int width, int height, int step, const draw_colours *colours, int channels,
                 int16_t *rows, uint8_t *line, uint8_t *pixels);
} draw_kernels;

extern const draw_kernels draw_kernels_portable;
extern const draw_kernels draw_kernels_avx2;
extern const draw_kernels draw_kernels_avx512; /* with VBMI */

/* Those to use here (base/isa.h). EVALUE, EUNSUPPORTED for a bad CAPL_ASSUME. */
capl_status draw_kernels_choose(const draw_kernels **kernels);

#endif
