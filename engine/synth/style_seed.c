/* style_seed.c -- plain coloured letters over lines and dots on white; and its mixture with the lepture style.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/captcha.h"
#include "synth/random.h"

/* The style is made for 4 letters on 160x60 px; other sizes and lengths keep its proportions. */
enum { USUAL_WIDTH = 160, USUAL_HEIGHT = 60, USUAL_PITCH = 32, USUAL_SIZE = 40, LEAST_SIZE = 6 };

static int letter_size(const capl_captcha *gen)
{
  int by_height = USUAL_SIZE * gen->height / USUAL_HEIGHT;
  int by_pitch = USUAL_SIZE * gen->width / ((gen->length + 1) * USUAL_PITCH);
  int size = by_height < by_pitch ? by_height : by_pitch;
  return size < LEAST_SIZE ? LEAST_SIZE : size;
}

static capl_status open_seed(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts)
{
  static const int upright[] = {0};
  int size = letter_size(gen);
  gen->letters = (captcha_letters){.n_sizes = 1, .size = {{size, size}}, .n_turns = 1, .degrees = upright};
  return captcha_letters_open(gen, renderer, first_font, n_fonts);
}

static captcha_colour roll_dark(capl_rng *rng)
{
  static const capl_captcha_colours dark = {true, {0, 0, 0}, {128, 128, 128}};
  return captcha_roll_colour(rng, &dark);
}

/* Lines asked to be 2 and 3 px wide come out as 1.4 and 2.5 px in the original. */
static const float thinner = 0.65f;

static void paint_line(captcha_image *image, const captcha_sheet *sheet)
{
  capl_rng *rng = &image->rng;
  int x0 = random_between(rng, 0, sheet->width - 1), y0 = random_between(rng, 0, sheet->height - 1);
  int x1 = random_between(rng, 0, sheet->width - 1), y1 = random_between(rng, 0, sheet->height - 1);
  captcha_colour colour = roll_dark(rng);
  int width = random_between(rng, 1, 3);
  if (width == 1) {
    captcha_sheet_line(sheet, x0, y0, x1, y1, colour);
  } else {
    captcha_spot from = {(float)x0 + 0.5f, (float)y0 + 0.5f}, to = {(float)x1 + 0.5f, (float)y1 + 0.5f};
    captcha_sheet_stroke(sheet, from, to, (float)width - thinner, (float)width - thinner, false, colour);
  }
}

static void paint_letter(captcha_image *image, const captcha_sheet *sheet, int i, int n)
{
  static const captcha_colour shadow = {{100, 100, 100}};
  const captcha_letters *letters = &image->gen->letters;
  capl_rng *rng = &image->rng;
  int font = letters->n_fonts == 1 ? 0 : random_between(rng, 0, letters->n_fonts - 1);
  image->labels[i] = captcha_roll_letter(image);
  const captcha_letter *letter = captcha_letters_at(image, font, 0, 0, image->labels[i]);
  int reach_x = 5 * sheet->width / USUAL_WIDTH, reach_y = 5 * sheet->height / USUAL_HEIGHT;
  int x = sheet->width * (i + 1) / (n + 1) + random_between(rng, -reach_x, reach_x);
  int y = (sheet->height - letters->size[0].high) / 2 + random_between(rng, -reach_y, reach_y) + letters->ascent[font];
  captcha_colour colour = roll_dark(rng);
  if (random_between(rng, 0, 1)) {
    int offset = random_between(rng, 1, 3);
    captcha_sheet_letter(sheet, letter, x + offset, y + offset, shadow);
  }
  captcha_sheet_letter(sheet, letter, x, y, colour);
}

static void paint_seed(captcha_image *image, const captcha_sheet *sheet)
{
  capl_rng *rng = &image->rng;
  captcha_sheet_fill(sheet, (captcha_colour){{255, 255, 255}});
  int n_lines = captcha_roll_count(image, 5, 8);
  for (int i = 0; i < n_lines; i++) paint_line(image, sheet);
  int n_dots = captcha_roll_count(image, 100, 300);
  for (int i = 0; i < n_dots; i++) {
    int x = random_between(rng, 0, sheet->width - 1), y = random_between(rng, 0, sheet->height - 1);
    captcha_sheet_dot(sheet, x, y, roll_dark(rng));
  }
  int n = captcha_roll_length(image);
  for (int i = 0; i < n; i++) paint_letter(image, sheet, i, n);
}

const captcha_style captcha_seed = {.open = open_seed, .paint = paint_seed};

/* ---- mixed ----------------------------------------------------------------------------------- */

/* Of the preset's own two fonts each style takes one; what was asked for instead is for both. */
static capl_status open_mixed(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts)
{
  bool own = gen->own_fonts;
  CAPL_TRY(captcha_lepture.open(gen, renderer, first_font, own ? 1 : n_fonts));
  return captcha_seed.open(gen, renderer, own ? first_font + 1 : first_font, own ? 1 : n_fonts);
}

static void draw_mixed(captcha_image *image)
{
  captcha_draw_in(random_between(&image->rng, 0, 1) ? &captcha_lepture : &captcha_seed, image);
}

const captcha_style captcha_mixed = {.open = open_mixed, .draw = draw_mixed};
