/* style_gd.c -- the look of GD::SecurityImage with scrambled TrueType text: grids, circles and ellipses behind letters
** that are each turned by one of a few angles.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "synth/captcha.h"
#include "synth/random.h"

enum { N_ANGLES = 15, N_TURNS = 2 * N_ANGLES - 1, LEAST_SIZE = 6 };

/* Smallest first, both ways; the upright one comes twice as often as each other. */
static const int turns[N_TURNS] = {
  0, 5, 8, 15, 22, 26, 29, 33, 35, 36, 40, 43, 45, 53, 56, -5, -8, -15, -22, -26, -29, -33, -35, -36, -40, -43, -45,
  -53, -56,
};

/* The preset's own size, as far as there is room: letters stand two widths of an A apart. */
static int fitting_size(const capl_captcha *gen)
{
  int size = (int)gen->options.size.hi;
  int by_height = gen->height * 6 / 10, by_width = gen->width * 18 / (gen->length * 25);
  size = by_height < size ? by_height : size;
  size = by_width < size ? by_width : size;
  return size < LEAST_SIZE ? LEAST_SIZE : size;
}

static capl_status open_gd(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts)
{
  const capl_captcha_range *size = &gen->options.size;
  if (gen->own_size) {
    captcha_letters_sizes(&gen->letters, fitting_size(gen), fitting_size(gen));
  } else {
    captcha_letters_sizes(&gen->letters, (int)size->lo, (int)size->hi);
  }
  gen->letters.n_turns = N_TURNS;
  gen->letters.degrees = turns;
  return captcha_letters_open(gen, renderer, first_font, n_fonts);
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct {
  const captcha_sheet *sheet;
  int n; /* lines */
  captcha_colour line, ink;
} grid;

static void paint_uprights(const grid *g, bool slanted)
{
  float step = (float)g->sheet->width / (float)g->n;
  for (int i = 0; i <= g->n; i++) {
    int top = (int)((float)i * step), bottom = (int)((float)(slanted ? i + 1 : i) * step);
    captcha_sheet_line(g->sheet, top, 0, bottom, g->sheet->height, g->line);
  }
}

static void paint_levels(const grid *g)
{
  float step = (float)g->sheet->height / (float)g->n;
  for (int i = 1; i <= g->n; i++) {
    int y = (int)((float)i * step);
    captcha_sheet_line(g->sheet, 0, y, g->sheet->width, y, g->line);
  }
}

static void paint_default(const grid *g)
{
  paint_uprights(g, false);
  paint_uprights(g, true);
  paint_levels(g);
}

static void paint_rect(const grid *g)
{
  paint_uprights(g, false);
  paint_levels(g);
}

/* Concentric; half axes grow by these steps. */
static void paint_rings(const grid *g, float step_x, float step_y)
{
  int x = g->sheet->width / 2, y = g->sheet->height / 2;
  for (int k = 1; k <= g->n; k++) {
    captcha_sheet_ellipse(g->sheet, x, y, (int)((float)k * step_x), (int)((float)k * step_y), g->line);
  }
}

static void paint_circle(const grid *g)
{
  float step = (float)g->sheet->width / (float)g->n + 1;
  paint_rings(g, step / 2, step / 2);
}

static void paint_ellipse(const grid *g)
{
  float step = (float)g->sheet->width / (float)g->n + 1;
  paint_rings(g, step, step / 2);
}

static void paint_ec(const grid *g)
{
  paint_ellipse(g);
  paint_circle(g);
}

static void paint_box(const grid *g)
{
  int right = g->sheet->width - 1, bottom = g->sheet->height - 1;
  captcha_sheet_fill(g->sheet, g->ink);
  captcha_sheet_box(g->sheet, g->n, g->n, right - g->n, bottom - g->n, g->line);
}

static void paint_blank(const grid *g)
{
  (void)g;
}

static void paint_frame(const grid *g)
{
  int right = g->sheet->width - 1, bottom = g->sheet->height - 1;
  captcha_sheet_box(g->sheet, 0, 0, right, 0, g->line);
  captcha_sheet_box(g->sheet, 0, bottom, right, bottom, g->line);
  captcha_sheet_box(g->sheet, 0, 0, 0, bottom, g->line);
  captcha_sheet_box(g->sheet, right, 0, right, bottom, g->line);
}

/* In the order of captcha_grids, but for the last, "any". */
static void (*const paint_style[])(const grid *) = {
  paint_default, paint_rect, paint_circle, paint_ellipse, paint_ec, paint_box, paint_blank,
};
enum { N_STYLES = sizeof paint_style / sizeof paint_style[0] };

static void paint_lines(captcha_image *image, const captcha_sheet *sheet, captcha_colour ink, captcha_colour line)
{
  const capl_captcha_options *o = &image->gen->options;
  int style = captcha_word_index(captcha_grids, o->style);
  if (style == N_STYLES) style = random_between(&image->rng, 0, N_STYLES - 1);
  grid g = {sheet, captcha_roll_count(image, (int)o->lines.lo, (int)o->lines.hi), line, ink};
  if (g.n > 0) paint_style[style](&g);
  paint_frame(&g);
}

/* ---- text and particles ---------------------------------------------------------------------- */

static int roll_turn(captcha_image *image)
{
  int roll = random_between(&image->rng, 0, 2 * N_ANGLES - 1), angle = roll % N_ANGLES;
  angle = (int)((float)angle * image->level.warp + 0.5f);
  return angle && roll >= N_ANGLES ? angle + N_ANGLES - 1 : angle;
}

/* In half heights of a capital letter. */
static float roll_jitter(capl_rng *rng)
{
  static const float amounts[] = {1.2f, 1, 0.5f, 0.25f, 0.125f};
  float amount = amounts[random_between(rng, 0, 4)];
  return random_between(rng, 0, 1) ? amount : -amount;
}

/* Where a letter goes whose place has its middle there, as measured on images of the original: turned one way it hangs
** half its height lower than turned the other way, where it moves to the left instead. */
static captcha_spot place(const captcha_letter *letter, int size, int degrees, float middle, float half_height)
{
  float half = (float)letter->advance / 2, half_capital = 0.36f * (float)size,
  sine = fabsf(captcha_sine((float)degrees));
  captcha_spot at = {middle - half - 0.13f * (float)size, half_height + 0.045f * (float)size - half * sine};
  if (degrees >= 0) {
    at.y += half_capital;
  } else {
    at.x += 0.06f * (float)size - half_capital * sine;
  }
  return at;
}

static void paint_letter(captcha_image *image, const captcha_sheet *sheet, captcha_colour ink, int i, float middle)
{
  const captcha_letters *l = &image->gen->letters;
  capl_rng *rng = &image->rng;
  int font = l->n_fonts == 1 ? 0 : random_between(rng, 0, l->n_fonts - 1);
  int size = l->n_sizes == 1 ? 0 : random_between(rng, 0, l->n_sizes - 1);
  int id = captcha_roll_letter(image), turn = roll_turn(image), px = l->size[size].high;
  const captcha_letter *letter = captcha_letters_at(image, font, size, turn, id);
  captcha_spot at = place(letter, px, turns[turn], middle, (float)sheet->height / 2);
  at.y += roll_jitter(rng) * 0.36f * (float)px * image->level.warp;
  captcha_sheet_letter(sheet, letter, (int)floorf(at.x + 0.5f), (int)floorf(at.y + 0.5f), ink);
  image->labels[i] = id;
}

/* The usual pitch: two widths of a letter A of average proportions. */
static void paint_text(captcha_image *image, const captcha_sheet *sheet, captcha_colour ink)
{
  const captcha_letters *l = &image->gen->letters;
  int n = captcha_roll_length(image);
  float pitch = 1.33f * (float)l->size[l->n_sizes - 1].high, room = (float)sheet->width / (float)n;
  if (pitch > room) pitch = room;
  float first = ((float)sheet->width - pitch * (float)(n - 1)) / 2;
  for (int i = 0; i < n; i++) paint_letter(image, sheet, ink, i, first + pitch * (float)i);
}

/* Pairs of neighbouring pixels in the colour of the text; the preset's own number is for its own area. */
static void paint_particles(captcha_image *image, const captcha_sheet *sheet, captcha_colour ink)
{
  const capl_captcha_options *o = &image->gen->options;
  capl_rng *rng = &image->rng;
  int n = captcha_roll_count(image, (int)o->dots.lo, (int)o->dots.hi);
  const capl_captcha_options *usual = &image->gen->preset->options;
  if (image->gen->own_dots) n = n * sheet->width * sheet->height / (usual->width * usual->height);
  for (int i = 0; i < n; i++) {
    int x = random_between(rng, 0, sheet->width - 1), y = random_between(rng, 0, sheet->height - 1);
    captcha_sheet_dot(sheet, x + 1, y + 1, ink);
    captcha_sheet_dot(sheet, x + 2, y + 2, ink);
  }
}

static void paint_gd(captcha_image *image, const captcha_sheet *sheet)
{
  const capl_captcha_options *o = &image->gen->options;
  captcha_colour background = captcha_roll_colour(&image->rng, &o->background);
  captcha_colour ink = captcha_roll_colour(&image->rng, &o->ink), line = captcha_roll_colour(&image->rng, &o->line_ink);
  captcha_sheet_fill(sheet, background);
  paint_lines(image, sheet, ink, line);
  paint_text(image, sheet, ink);
  paint_particles(image, sheet, ink);
}

const captcha_style captcha_gd = {.open = open_gd, .paint = paint_gd};
