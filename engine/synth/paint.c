/* paint.c -- paints a planned captcha: text, squeeze to width, dots, arc, smoothing, colour.
**
** Text, dots and arc have one colour, so one plane of coverage carries them up to the last step. It holds 16-bit
** numbers column by column (draw/draw.h has the scales); rounding to levels comes once, at the end, so that the gray
** image is the luma of the RGB one to within one level.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/captcha.h"

enum { MARGIN = 3 }; /* columns left and right of the image, where dots may fall; two rows of padding above and below */

struct captcha_scratch {
  capl_glyph_bounds bounds; /* of the glyphs, */
  int canvas_width;         /* px of the line that there is room for, at least the image's */
  capl_warp_scratch warp;
  draw_taps squeeze;
  int step;          /* from column to column */
  int16_t *memory;   /* of all planes */
  int16_t *canvas;   /* canvas_width columns: the whole line */
  int16_t *plane;    /* the image, with a margin */
  int16_t *smoothed, *rows;
  uint8_t *line;
};

/* ---- scratch --------------------------------------------------------------------------------- */

static capl_status allocate(const capl_captcha *gen, captcha_scratch *s)
{
  size_t step = (size_t)draw_padded(gen->height + 2), width = (size_t)draw_padded(gen->width);
  size_t canvas = (size_t)(s->canvas_width + s->squeeze.max_taps) * step, image = (width + 2 * MARGIN) * step;
  size_t rows = DRAW_ROWS * DRAW_ROW_STEP;
  s->step = (int)step;
  s->memory = draw_room((canvas + 2 * image + rows) * sizeof *s->memory);
  s->line = malloc(3 * (width + DRAW_PAD));
  if (!s->memory || !s->line)
    return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw captchas of %d x %d px", gen->width, gen->height);
  s->canvas = s->memory;
  s->plane = s->canvas + canvas + MARGIN * step;
  s->smoothed = s->plane + image;
  s->rows = s->memory + canvas + 2 * image;
  return CAPL_OK;
}

static capl_status open_scratch(const capl_captcha *gen, captcha_scratch *s)
{
  CAPL_TRY(draw_taps_init(&s->squeeze, gen->width, (float)s->canvas_width / (float)gen->width));
  CAPL_TRY(capl_warp_scratch_init(&s->warp, &s->bounds));
  return allocate(gen, s);
}

static capl_status new_scratch(const capl_captcha *gen, const capl_glyph_bounds *bounds, int canvas_width,
                               captcha_scratch **scratch)
{
  captcha_scratch *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw captchas");
  s->bounds = *bounds;
  s->canvas_width = canvas_width > gen->width ? canvas_width : gen->width;
  capl_status status = open_scratch(gen, s);
  if (status != CAPL_OK) {
    captcha_scratch_free(s);
    s = NULL;
  }
  *scratch = s;
  return status;
}

static void add_to_bounds(const capl_captcha *gen, capl_glyph_bounds *bounds, const capl_glyph *glyph)
{
  const captcha_lepture_rule *p = &gen->preset->lepture;
  glyph_bounds_add(bounds, glyph, p->warp_x.least + p->warp_x.spread + 0.05f,
                   p->warp_y.least + p->warp_y.spread + 0.05f);
}

capl_status captcha_scratch_new(const capl_captcha *gen, captcha_scratch **scratch)
{
  const capl_glyphs *g = &gen->glyphs;
  capl_glyph_bounds bounds = {.side = 1, .shrink = 1};
  int blank = 0;
  for (size_t i = 0; i < g->store->n; i++) {
    const capl_glyph *glyph = letter_store_get(g->store, i);
    if (glyph) add_to_bounds(gen, &bounds, glyph);
  }
  for (int s = 0; s < g->n_fonts * g->n_sizes; s++) blank = g->space_w[s] > blank ? g->space_w[s] : blank;
  return new_scratch(gen, &bounds, gen->length * (bounds.cell_w + blank), scratch);
}

capl_status captcha_scratch_fit(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch **scratch)
{
  captcha_scratch *s = *scratch, *larger;
  capl_glyph_bounds bounds = s->bounds;
  for (int i = 0; i < plan->n_cells; i++)
    if (plan->cell[i].warp.glyph) add_to_bounds(gen, &bounds, plan->cell[i].warp.glyph);
  if (bounds.side <= s->bounds.side && bounds.shrink <= s->bounds.shrink && plan->text_width <= s->canvas_width)
    return CAPL_OK;
  int width = plan->text_width > s->canvas_width ? plan->text_width : s->canvas_width;
  CAPL_TRY(new_scratch(gen, &bounds, width, &larger));
  captcha_scratch_free(s);
  *scratch = larger;
  return CAPL_OK;
}

void captcha_scratch_free(captcha_scratch *s)
{
  if (!s) return;
  free(s->memory);
  free(s->line);
  draw_taps_fini(&s->squeeze);
  capl_warp_scratch_fini(&s->warp);
  free(s);
}

/* ---- text ------------------------------------------------------------------------------------ */

static inline float luma(float red, float green, float blue)
{
  return 0.299f * red + 0.587f * green + 0.114f * blue;
}

static float luma_of(const float rgb[3])
{
  return luma(rgb[0], rgb[1], rgb[2]);
}

/* A channel of the ink that went through 8-bit premultiplied values, which are coarse where a is small. share: 1 /
** a. */
static inline float recovered(float ink, int a, float share)
{
  float premultiplied = (float)(int)(ink * (float)a * (1 / 255.0f) + 0.5f);
  /* rounded down; 0.25 outweighs the error of share */
  float level = (float)(int)((premultiplied * 255 + 0.25f) * share);
  return level < 255 ? level : 255;
}

/* How much ink a letter's pixel of alpha a leaves. The style pastes a letter through a mask that is 1.97 times the luma
** of its colour, opacity ignored; the colour has been to premultiplied values and back twice, when the letter was
** turned and when it was stretched. Expressed as coverage by the image's ink so that the luma comes out the same. */
static capl_ink mix_ink(const captcha_plan *plan)
{
  capl_ink ink = {.opacity = plan->opacity};
  float background = luma_of(plan->background), scale = (1 << 14) / (255 * (background - luma_of(plan->ink)));
  float turned[3];
  for (int c = 0; c < 3; c++) turned[c] = recovered(plan->ink[c], plan->opacity, 1 / (float)plan->opacity);
  for (int i = 0; i < DRAW_ALPHAS; i++) {
    int a = i == 0 ? 1 : i == DRAW_ALPHAS - 1 ? plan->opacity : i; /* the last stands for all above */
    float share = 1 / (float)a;
    float level = luma(recovered(turned[0], a, share), recovered(turned[1], a, share), recovered(turned[2], a, share));
    float mask = (float)(int)((float)(int)(level + 0.5f) * 1.97f);
    mask = mask < 255 ? mask : 255;
    float cover = mask * (background - level) * scale;
    ink.cover[i] = (int16_t)(int)(cover < 24576 ? cover : 24576);
  }
  ink.cover[0] = 0;
  return ink;
}

static void paint_text(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *s, const capl_canvas *canvas)
{
  capl_ink ink = mix_ink(plan);
  memset(canvas->coverage, 0, (size_t)canvas->width * (size_t)canvas->step * sizeof *canvas->coverage);
  int left = plan->text_width / plan->n_letters / 10;
  for (int i = 0; i < plan->n_cells; i++) {
    const captcha_cell *cell = &plan->cell[i];
    const capl_glyph *glyph = cell->warp.glyph;
    if (glyph) capl_warp_draw(&cell->warp, &ink, &s->warp, canvas, left, (gen->height - glyph->cell_h) / 2);
    left += cell->width - cell->step_back;
  }
}

/* The line goes to s->plane as it is, or squeezed to the image's width. */
static void paint_line(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *s)
{
  const draw_kernels *draw = s->warp.draw;
  bool wide = plan->text_width > gen->width;
  capl_canvas canvas = {s->canvas, wide ? plan->text_width : gen->width, gen->height, s->step};
  paint_text(gen, plan, s, &canvas);
  if (wide) draw->taps(&s->squeeze, canvas.width, gen->width, 1 << 15);
  draw->squeeze(wide ? &s->squeeze : NULL, gen->width, s->canvas, s->plane, s->step);
}

/* ---- dots, arc ------------------------------------------------------------------------------- */

/* A two-pixel diagonal stroke of width three comes out as these eight pixels. They may lie in the margin. */
static void paint_dots(const captcha_plan *plan, const captcha_scratch *s)
{
  static const captcha_point stamp[] = {{0, -2}, {-1, -1}, {0, -1}, {1, -1}, {-2, 0}, {-1, 0}, {0, 0}, {-1, 1}};
  for (int i = 0; i < plan->n_dots; i++) {
    int16_t *at = s->plane + plan->dot[i].x * s->step + plan->dot[i].y;
    for (size_t k = 0; k < sizeof stamp / sizeof stamp[0]; k++) at[stamp[k].x * s->step + stamp[k].y] = DRAW_FULL;
  }
}

enum { HANDS = 16 }; /* points of the arc that advance together */

/* One pixel wide, in steps of just under a pixel; the points are turned step by step instead of by sines. */
static void paint_arc(const captcha_plan *plan, const captcha_scratch *s)
{
  float radius_x = (float)(plan->arc_to.x - plan->arc_from.x) / 2,
  radius_y = (float)(plan->arc_to.y - plan->arc_from.y) / 2;
  float centre_x = (float)plan->arc_from.x + radius_x + 0.5f, centre_y = (float)plan->arc_from.y + radius_y + 0.5f;
  float sweep = plan->arc_end - plan->arc_start, radius = radius_x > radius_y ? radius_x : radius_y;
  int steps = (int)(radius * sweep * 1.05f) + 2;
  double by = sweep / (float)steps, sine, cosine, step_sin, step_cos;
  float c[HANDS], n[HANDS];
  capl_sine_cosine(plan->arc_start, &sine, &cosine);
  capl_sine_cosine(by, &step_sin, &step_cos);
  for (int i = 0; i < HANDS; i++) {
    c[i] = (float)cosine;
    n[i] = (float)sine;
    double turned = cosine * step_cos - sine * step_sin;
    sine = sine * step_cos + cosine * step_sin;
    cosine = turned;
  }
  capl_sine_cosine(HANDS * by, &sine, &cosine);
  float turn_sin = (float)sine, turn_cos = (float)cosine;
  for (int done = 0; done <= steps; done += HANDS) {
    int at[HANDS];
    for (int i = 0; i < HANDS; i++) {
      at[i] = (int)(centre_x + radius_x * c[i]) * s->step + (int)(centre_y + radius_y * n[i]);
      float turned = c[i] * turn_cos - n[i] * turn_sin;
      n[i] = n[i] * turn_cos + c[i] * turn_sin;
      c[i] = turned;
    }
    for (int i = 0; i < HANDS && done + i <= steps; i++) s->plane[at[i]] = DRAW_FULL;
  }
}

/* ---- all of it ------------------------------------------------------------------------------- */

void captcha_paint(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *s, int channels, uint8_t *pixels)
{
  const draw_kernels *draw = s->warp.draw;
  paint_line(gen, plan, s);
  paint_dots(plan, s);
  if (plan->has_arc) paint_arc(plan, s);
  draw->smooth(s->plane, gen->width, gen->height, s->step, s->smoothed);
  draw_colours colours;
  for (int c = 0; c < 3; c++) {
    colours.background[c] = (int)plan->background[c];
    colours.ink[c] = (int)plan->ink[c];
  }
  draw->colour(s->smoothed, gen->width, gen->height, s->step, &colours, channels, s->rows, s->line, pixels);
}
