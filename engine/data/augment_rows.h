/* augment_rows.h -- the loops over pixels of the augmentation, which exist once per instruction set.
**
** All sets give the same bytes: whole numbers, or f32 in the order of augment.h, compiled without fused multiply-adds.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_AUGMENT_ROWS_H
#define CAPL_DATA_AUGMENT_ROWS_H

#include "data/augment_draw.h"

enum {
  AUGMENT_FRACTION = 16,
  AUGMENT_ONE = 1 << AUGMENT_FRACTION,
  AUGMENT_BAND = 4,      /* rows that are made together */
  AUGMENT_BEHIND = 8,    /* pixels that may be read behind a padded row, rows behind the last */
};

/* One image that moves or blends. */
typedef struct {
  const capl_augment_draw *draw;
  int width, height, channels;
  const uint8_t *padded; /* pixel (-1,-1); W + 3 pixels and AUGMENT_BEHIND in a row, H + 3 rows and AUGMENT_BEHIND */
  size_t stride;         /* bytes of its row */
  const uint8_t *pairs;  /* gray, if the kernels want it: pixels of padded and of the row below, in turn */
  const int32_t *nodes;  /* if it bends */
  int32_t *lines;        /* room for AUGMENT_BAND rows: of a map that bends, U and V at each cell and at the row's
                         ** end */
  int32_t *value;        /* [W * C] for who needs it */
  float gain, lift, colour[9]; /* as the draw's; gain and colour times 2^-16 */
} augment_job;

/* Where a segment of a row reads from: 16.16 in the padded source, not yet clamped. */
typedef struct {
  int64_t u, v;
  int32_t du, dv;
} augment_course;

/* The k-th of the lines. */
int32_t *augment_line(const augment_job *job, int k);
/* Of output row y: its first segment. Of a map that bends, line is filled in: augment_course_on then gives any
** segment. */
augment_course augment_course_of(const augment_job *job, int y, int32_t *line);
/* The segment that begins at x, a multiple of AUGMENT_CELL, in a row of a map that bends. */
static inline augment_course augment_course_on(const int32_t *line, int x)
{
  const int32_t *at = line + x / AUGMENT_CELL * 2;
  return (augment_course){(int64_t)at[0] + AUGMENT_ONE, (int64_t)at[1] + AUGMENT_ONE, (at[2] - at[0]) >> 3,
                          (at[3] - at[1]) >> 3};
}
/* Whether start and end of the row's course fit 32 bits with room to spare. */
static inline bool augment_is_narrow(int64_t start, int32_t pace, int n)
{
  const int64_t most = INT32_MAX / 2;
  int64_t end = start + (int64_t)pace * n;
  return start > -most && start < most && end > -most && end < most;
}

/* A job of a draw: with the padded source once it is there, and the nodes of a map that bends. */
augment_job augment_job_of(const capl_augment_draw *draw, capl_augment_scratch *scratch);
/* in (H,W,C) with one pixel of surroundings before and two after each side, so that sampling tests no bounds; outside:
** the level there, -1 = the nearest pixel. stride: bytes of a row of out. */
void augment_pad(const uint8_t *in, int height, int width, int channels, int outside, size_t stride, uint8_t *out);
/* What a sample has beside its image. partner: NULL, or the one that it is mixed with, with its own draw. */
void augment_fields(const capl_augment_options *options, const capl_augment_layout *layout,
                    const capl_augment_draw *draw, const capl_sample *in, const capl_augment_draw *partner_draw,
                    const capl_sample *partner, capl_augment_scratch *scratch, const capl_sample *out);

typedef struct augment_kernels {
  const char *name;
  bool wants_pairs; /* of gray images */
  /* Rows y .. y + rows of the image as levels, out: rows of W * C bytes. rows <= AUGMENT_BAND. */
  void (*warp)(const augment_job *job, int y, int rows, uint8_t *out);
  /* levels[i] = table[in[i]], which may be the same memory. */
  void (*look_up)(const uint8_t table[256], const uint8_t *in, size_t n, uint8_t *levels);
  /* n values of an image that stays where it is and has one gain; first: counter of their noise. */
  void (*still)(const augment_job *job, const uint8_t *in, uint32_t first, size_t n, uint8_t *out);
  /* A row of the blur, across: n values of C channels; in has radius pixels more on each side. */
  void (*blur_across)(const capl_augment_draw *d, const uint8_t *in, int channels, size_t n, uint8_t *out);
  /* Down: row[k] for k = 0 .. 2 * radius. */
  void (*blur_down)(const capl_augment_draw *d, const uint8_t *const *row, size_t n, uint8_t *out);
  void (*blend)(const uint8_t *other, int share, size_t n, uint8_t *levels);
  /* sum[k] += levels i of n with i % 3 = k. */
  void (*sums)(const uint8_t *in, size_t n, uint64_t sum[3]);
  /* Rows of a mask that moves; the job's padded is the mask's, of one channel. rows <= AUGMENT_BAND. */
  void (*mask)(const augment_job *job, int y, int rows, uint8_t *out);
} augment_kernels;

/* n pixels of row y from x on, with its line: what needs no more than AVX2. */
void augment_part_avx2(const augment_job *job, const int32_t *line, int y, int x, int n, uint8_t *out);

extern const augment_kernels augment_kernels_portable, augment_kernels_avx2, augment_kernels_avx512;

#endif
