/* paint.c -- paints a planned captcha: text, squeeze to width, dots, arc, smoothing.
**
** Planes are stored column by column. The text is drawn as coverage in one plane for all channels; each
** channel (or luma alone) is then coloured, marked and smoothed. Nothing is rounded between the steps, so
** the gray image is the luma of the RGB one to within one level.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/captcha.h"

enum { STRIP = 16, HEIGHT_MAX = 1024 }; /* columns finished together; the tallest image */

static const float luma_weight[3] = {0.299f, 0.587f, 0.114f};

struct captcha_scratch {
  capl_warp_scratch warp;
  capl_taps squeeze;
  float *canvas;   /* (canvas_width, height) coverage of the whole line */
  float *squeezed; /* (width, height) coverage */
  float *plane;    /* (width, height) levels */
  float *sums;     /* (width, height) each pixel with its upper and lower neighbour */
};

static capl_status allocate(const capl_captcha *gen, captcha_scratch *s)
{
  size_t column = (size_t)gen->height * sizeof(float), image = (size_t)gen->width * column;
  s->canvas = malloc((size_t)gen->canvas_width * column);
  s->squeezed = malloc(image);
  s->plane = malloc(image);
  s->sums = malloc(image);
  if (!s->canvas || !s->squeezed || !s->plane || !s->sums) {
    return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw captchas of %d x %d px", gen->width, gen->height);
  }
  const captcha_lepture_rule *p = &gen->preset->lepture;
  CAPL_TRY(capl_taps_init(&s->squeeze, gen->width, (float)gen->canvas_width / (float)gen->width));
  return capl_warp_scratch_init(&s->warp, &gen->glyphs, p->warp_x.least + p->warp_x.spread + 0.05f,
                                p->warp_y.least + p->warp_y.spread + 0.05f);
}

capl_status captcha_scratch_new(const capl_captcha *gen, captcha_scratch **scratch)
{
  captcha_scratch *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw captchas");
  capl_status status = allocate(gen, s);
  if (status != CAPL_OK) {
    captcha_scratch_free(s);
    s = NULL;
  }
  *scratch = s;
  return status;
}

void captcha_scratch_free(captcha_scratch *s)
{
  if (!s) return;
  free(s->canvas);
  free(s->squeezed);
  free(s->plane);
  free(s->sums);
  capl_taps_fini(&s->squeeze);
  capl_warp_scratch_fini(&s->warp);
  free(s);
}

/* ---- text ------------------------------------------------------------------------------------ */

static float luma(const float rgb[3])
{
  return luma_weight[0] * rgb[0] + luma_weight[1] * rgb[1] + luma_weight[2] * rgb[2];
}

/* How much ink a letter's pixel of alpha a leaves. The style pastes a letter through a mask that is 1.97 times
** the luma of its colour, opacity ignored; the colour is recovered from 8-bit premultiplied values, which is
** coarse where a is small. Expressed as coverage by the image's ink so that the luma comes out the same. */
static float cover_of(int a, const captcha_plan *plan)
{
  float colour[3];
  for (int c = 0; c < 3; c++) {
    int premultiplied = (int)(plan->ink[c] * (float)a / 255 + 0.5f);
    int recovered = premultiplied * 255 / a;
    colour[c] = (float)(recovered > 255 ? 255 : recovered);
  }
  float level = luma(colour);
  float mask = floorf(floorf(level + 0.5f) * 1.97f);
  if (mask > 255) mask = 255;
  float background = luma(plan->background);
  return mask / 255 * (background - level) / (background - luma(plan->ink));
}

static capl_ink mix_ink(const captcha_plan *plan)
{
  capl_ink ink = {.opacity = plan->opacity};
  for (int a = 1; a <= 255; a++) ink.cover[a] = cover_of(a <= plan->opacity ? a : plan->opacity, plan);
  return ink;
}

static void paint_text(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *s, capl_canvas *canvas)
{
  capl_ink ink = mix_ink(plan);
  memset(canvas->coverage, 0, (size_t)canvas->width * (size_t)canvas->height * sizeof *canvas->coverage);
  int left = plan->text_width / plan->n_letters / 10;
  for (int i = 0; i < plan->n_cells; i++) {
    const captcha_cell *cell = &plan->cell[i];
    const capl_glyph *glyph = cell->warp.glyph;
    if (glyph) capl_warp_draw(&cell->warp, &ink, &s->warp, canvas, left, (gen->height - glyph->cell_h) / 2);
    left += cell->width - cell->step_back;
  }
}

/* Coverage of the image, (width, height): the line itself, or the line squeezed to the image's width. */
static const float *text_coverage(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *s)
{
  int width = plan->text_width > gen->width ? plan->text_width : gen->width;
  capl_canvas canvas = {s->canvas, width, gen->height};
  paint_text(gen, plan, s, &canvas);
  if (width == gen->width) return s->canvas;
  capl_taps_set(&s->squeeze, width, gen->width);
  capl_taps_mix(&s->squeeze, gen->width, s->canvas, gen->height, s->squeezed, gen->height, gen->height);
  return s->squeezed;
}

/* ---- colour, dots, arc ----------------------------------------------------------------------- */

/* One comparison after the other: nested ones would keep the loops below from vectorising. */
static inline float clip(float level)
{
  level = level > 0 ? level : 0;
  return level < 255 ? level : 255;
}

static void colour_channel(const float *restrict coverage, float *restrict plane, int n, float background, float ink)
{
  for (int i = 0; i < n; i++) plane[i] = clip(background + (ink - background) * coverage[i]);
}

/* Luma of the three channels, each clipped as it would be in the RGB image. */
static void colour_luma(const float *restrict coverage, float *restrict plane, int n, const captcha_plan *plan)
{
  const float *b = plan->background, *f = plan->ink;
  float red = f[0] - b[0], green = f[1] - b[1], blue = f[2] - b[2];
  for (int i = 0; i < n; i++) {
    plane[i] = luma_weight[0] * clip(b[0] + red * coverage[i]) + luma_weight[1] * clip(b[1] + green * coverage[i]) +
               luma_weight[2] * clip(b[2] + blue * coverage[i]);
  }
}

static void mark(const capl_captcha *gen, float *plane, int x, int y, float level)
{
  if (x >= 0 && x < gen->width && y >= 0 && y < gen->height) plane[x * gen->height + y] = level;
}

/* A two-pixel diagonal stroke of width three comes out as these eight pixels. */
static void paint_dots(const capl_captcha *gen, const captcha_plan *plan, float *plane, float level)
{
  static const captcha_point stamp[] = {{0, -2}, {-1, -1}, {0, -1}, {1, -1}, {-2, 0}, {-1, 0}, {0, 0}, {-1, 1}};
  for (int i = 0; i < plan->n_dots; i++) {
    for (size_t k = 0; k < sizeof stamp / sizeof stamp[0]; k++) {
      mark(gen, plane, plan->dot[i].x + stamp[k].x, plan->dot[i].y + stamp[k].y, level);
    }
  }
}

/* One pixel wide, in steps of about 0.6 px; the point is turned step by step instead of by sines. */
static void paint_arc(const capl_captcha *gen, const captcha_plan *plan, float *plane, float level)
{
  float radius_x = (float)(plan->arc_to.x - plan->arc_from.x) / 2;
  float radius_y = (float)(plan->arc_to.y - plan->arc_from.y) / 2;
  float centre_x = (float)plan->arc_from.x + radius_x, centre_y = (float)plan->arc_from.y + radius_y;
  float sweep = plan->arc_end - plan->arc_start;
  int steps = (int)(fmaxf(radius_x, radius_y) * sweep * 1.6f) + 2;
  float turn_cos = cosf(sweep / (float)steps), turn_sin = sinf(sweep / (float)steps);
  float c = cosf(plan->arc_start), s = sinf(plan->arc_start);
  for (int i = 0; i <= steps; i++) {
    mark(gen, plane, (int)(centre_x + radius_x * c + 0.5f), (int)(centre_y + radius_y * s + 0.5f), level);
    float turned = c * turn_cos - s * turn_sin;
    s = s * turn_cos + c * turn_sin;
    c = turned;
  }
}

/* ---- smoothing ------------------------------------------------------------------------------- */

static void sum_vertically(const float *restrict plane, float *restrict sums, int n)
{
  for (int i = 1; i < n - 1; i++) sums[i] = plane[i - 1] + plane[i] + plane[i + 1];
}

/* level[y] = 3x3 mean with the centre counted five times; the first and last row stay as they are. */
static void smooth_column(const float *restrict sums, const float *restrict plane, int height, uint8_t *restrict level)
{
  const float *left = sums - height, *right = sums + height;
  for (int y = 0; y < height; y++) {
    level[y] = (uint8_t)(int)((left[y] + sums[y] + right[y] + 4 * plane[y]) * (1 / 13.0f) + 0.5f);
  }
  level[0] = (uint8_t)(plane[0] + 0.5f);
  level[height - 1] = (uint8_t)(plane[height - 1] + 0.5f);
}

static void round_column(const float *restrict plane, int height, uint8_t *restrict level)
{
  for (int y = 0; y < height; y++) level[y] = (uint8_t)(int)(plane[y] + 0.5f);
}

/* Columns to rows, one pixel in `channels`. */
static void store_columns(uint8_t level[STRIP][HEIGHT_MAX], int n, int height, int row_bytes, int channels, uint8_t *pixels)
{
  for (int y = 0; y < height; y++) {
    uint8_t *to = pixels + (ptrdiff_t)y * row_bytes;
    for (int i = 0; i < n; i++) to[i * channels] = level[i][y];
  }
}

/* Smooths s->plane (but for the one-pixel border) into one channel of the image. */
static void smooth(const capl_captcha *gen, captcha_scratch *s, int channels, uint8_t *pixels)
{
  int w = gen->width, h = gen->height;
  uint8_t level[STRIP][HEIGHT_MAX];
  s->sums[0] = s->sums[w * h - 1] = 0; /* read, but not used, by the outermost columns' border pixels */
  sum_vertically(s->plane, s->sums, w * h);
  for (int from = 0; from < w; from += STRIP) {
    int n = w - from < STRIP ? w - from : STRIP;
    for (int i = 0; i < n; i++) {
      const float *column = s->plane + (from + i) * h;
      if (from + i == 0 || from + i == w - 1) {
        round_column(column, h, level[i]);
      } else {
        smooth_column(s->sums + (from + i) * h, column, h, level[i]);
      }
    }
    store_columns(level, n, h, w * channels, channels, pixels + from * channels);
  }
}

static void finish_plane(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *s, float ink_level,
                         int channels, uint8_t *pixels)
{
  paint_dots(gen, plan, s->plane, ink_level);
  if (plan->has_arc) paint_arc(gen, plan, s->plane, ink_level);
  smooth(gen, s, channels, pixels);
}

void captcha_paint(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *s, int channels, uint8_t *pixels)
{
  const float *coverage = text_coverage(gen, plan, s);
  int n = gen->width * gen->height;
  if (channels == 1) {
    colour_luma(coverage, s->plane, n, plan);
    finish_plane(gen, plan, s, luma(plan->ink), 1, pixels);
    return;
  }
  for (int c = 0; c < 3; c++) {
    colour_channel(coverage, s->plane, n, plan->background[c], plan->ink[c]);
    finish_plane(gen, plan, s, plan->ink[c], 3, pixels + c);
  }
}
