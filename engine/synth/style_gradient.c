/* style_gradient.c -- bold black letters, frayed in the middle of the word, on a fixed gray gradient, with a curve
** across.
**
** The look of the set that the Keras examples read: everything but text, curve and stroke is the same in every image.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "synth/captcha.h"
#include "synth/random.h"

/* The style is made for 5 letters on 200x50 px; other sizes and lengths keep its proportions. */
enum { USUAL_WIDTH = 200, USUAL_HEIGHT = 50, LEAST_SIZE = 6 };

static const captcha_colour black = {{0, 0, 0}};

static int at_least(int value, int least)
{
  return value > least ? value : least;
}

/* Letters 30 px high with their ascenders, narrow enough for a word to fill a little more than half of the width. */
static captcha_em letter_size(const capl_captcha *gen)
{
  int high = 40 * gen->height / USUAL_HEIGHT;
  int narrow = 78 * high / 100, by_width = gen->width * 32 * 5 / (gen->length * USUAL_WIDTH);
  return (captcha_em){at_least(narrow < by_width ? narrow : by_width, LEAST_SIZE), at_least(high, LEAST_SIZE)};
}

static capl_status open_gradient(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts)
{
  static const int upright[] = {0};
  gen->letters = (captcha_letters){.n_sizes = 1, .size = {letter_size(gen)}, .n_turns = 1, .degrees = upright};
  return captcha_letters_open(gen, renderer, first_font, n_fonts);
}

static void paint_ground(const captcha_sheet *sheet)
{
  static const captcha_stop stop[] = {
    {0, {{192, 192, 192}}}, {0.29f, {{205, 205, 205}}}, {0.58f, {{227, 227, 227}}}, {1, {{254, 254, 254}}},
  };
  captcha_sheet_gradient(sheet, stop, (captcha_spot){1, 0.2f});
}

/* Letters touch nearly; what reaches below the line is cut off at the bottom edge. */
static void paint_text(captcha_image *image, const captcha_sheet *sheet)
{
  const captcha_letters *l = &image->gen->letters;
  int n = captcha_roll_length(image), x = 27 * sheet->width / USUAL_WIDTH;
  int y = 45 * sheet->height / USUAL_HEIGHT + random_between(&image->rng, -1, 1);
  for (int i = 0; i < n; i++) {
    int font = l->n_fonts == 1 ? 0 : random_between(&image->rng, 0, l->n_fonts - 1);
    image->labels[i] = captcha_roll_letter(image);
    const captcha_letter *letter = captcha_letters_at(image, font, 0, 0, image->labels[i]);
    captcha_sheet_letter(sheet, letter, x, y, black);
    x += letter->advance;
  }
}

enum { WIDTH_MAX = CAPTCHA_PX_MAX };

/* How far pixels of each column are thrown about, px: most between the third and the fourth of five letters. Two rows
** have more of it, the next two less. */
static void plan_fray(const captcha_sheet *sheet, float strength, uint8_t away[2][WIDTH_MAX])
{
  for (int x = 0; x < sheet->width; x++) {
    float from_peak = ((float)x / (float)sheet->width - 0.45f) / 0.2f;
    float reach = strength * fmaxf(0, 1 - from_peak * from_peak);
    away[0][x] = (uint8_t)(reach + 0.25f);
    away[1][x] = (uint8_t)(reach + 0.75f);
  }
}

/* Neighbouring pixels look to opposite sides, as a checkerboard: a jagged double image. */
static void fray_row(const captcha_sheet *sheet, int y, const uint8_t *away, uint8_t *copy)
{
  uint8_t *row = sheet->rgb + (ptrdiff_t)y * sheet->width * 3;
  memcpy(copy, row, (size_t)sheet->width * 3);
  for (int x = 0; x < sheet->width; x++) {
    int from = (x + y) & 1 ? x + away[x] : x - away[x];
    if (away[x] && from >= 0 && from < sheet->width) memcpy(row + x * 3, copy + from * 3, 3);
  }
}

static void fray(captcha_image *image, const captcha_sheet *sheet)
{
  uint8_t away[2][WIDTH_MAX];
  plan_fray(sheet, 1.6f * image->level.warp, away);
  for (int y = 0; y < sheet->height; y++) fray_row(sheet, y, away[y >> 1 & 1], image->room->rows);
}

/* From side to side in 3 to 5 straight pieces that taper. */
static void paint_curve(captcha_image *image, const captcha_sheet *sheet)
{
  capl_rng *rng = &image->rng;
  float w = (float)sheet->width, h = (float)sheet->height, unit = h / USUAL_HEIGHT;
  int n = random_between(rng, 3, 5);
  captcha_spot at = {w * 0.0925f, h * random_uniform(rng, 0.2f, 0.85f)};
  for (int i = 0; i < n; i++) {
    float share = (float)(i + 1) / (float)n, bend = i + 1 < n ? random_uniform(rng, -0.05f, 0.05f) : 0;
    float y = at.y / h + random_uniform(rng, -0.3f, 0.3f);
    captcha_spot next = {w * (0.0925f + 0.8125f * share + bend), h * fminf(fmaxf(y, 0.1f), 0.92f)};
    float before = 3 - 1.5f * (float)i / (float)n, after = 3 - 1.5f * share;
    captcha_sheet_stroke(sheet, at, next, before * unit, after * unit, true, black);
    at = next;
  }
}

/* A thin bent stroke over the first letter. */
static void paint_bent_stroke(captcha_image *image, const captcha_sheet *sheet)
{
  capl_rng *rng = &image->rng;
  float w = (float)sheet->width, h = (float)sheet->height, width = 1.4f * h / USUAL_HEIGHT;
  captcha_spot from = {w * 0.09f, h * random_uniform(rng, 0.2f, 0.8f)};
  captcha_spot knee = {w * random_uniform(rng, 0.14f, 0.19f), h * random_uniform(rng, 0.2f, 0.8f)};
  captcha_spot to = {w * 0.25f, h * random_uniform(rng, 0.2f, 0.8f)};
  captcha_sheet_stroke(sheet, from, knee, width, width, true, black);
  captcha_sheet_stroke(sheet, knee, to, width, width, true, black);
}

static bool happens(captcha_image *image)
{
  return image->level.noise >= 1 || random_chance(&image->rng, image->level.noise);
}

static void paint_gradient(captcha_image *image, const captcha_sheet *sheet)
{
  paint_ground(sheet);
  paint_text(image, sheet);
  fray(image, sheet);
  if (happens(image)) paint_curve(image, sheet);
  if (happens(image)) paint_bent_stroke(image, sheet);
}

const captcha_style captcha_gradient = {.open = open_gradient, .paint = paint_gradient};
