/* style_free.c -- captchas of the recipe's own design: every step follows an option.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>

#include "synth/captcha.h"
#include "synth/portable_math.h"
#include "synth/random.h"

static capl_status open_free(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts)
{
  static const int upright[] = {0};
  captcha_letters_sizes(&gen->letters, (int)gen->options.size.lo, (int)gen->options.size.hi);
  gen->letters.n_turns = 1;
  gen->letters.degrees = upright;
  return captcha_letters_open(gen, renderer, first_font, n_fonts);
}

static float roll(captcha_image *image, capl_captcha_range range)
{
  return random_uniform(&image->rng, range.lo, range.hi);
}

static int roll_count(captcha_image *image, capl_captcha_range range)
{
  return captcha_roll_count(image, (int)range.lo, (int)range.hi);
}

static captcha_spot roll_spot(captcha_image *image, const captcha_sheet *sheet)
{
  float x = random_uniform(&image->rng, 0, (float)sheet->width);
  return (captcha_spot){x, random_uniform(&image->rng, 0, (float)sheet->height)};
}

/* ---- ground ---------------------------------------------------------------------------------- */

static void paint_ground(captcha_image *image, const captcha_sheet *sheet)
{
  const capl_captcha_options *o = &image->gen->options;
  captcha_colour colour = captcha_roll_colour(&image->rng, &o->background);
  if (captcha_word_index(captcha_backdrops, o->backdrop) == 0) {
    captcha_sheet_fill(sheet, colour);
  } else {
    captcha_stop stop[] = {{0, colour}, {1, captcha_roll_colour(&image->rng, &o->background)}};
    float degrees = random_uniform(&image->rng, 0, 360);
    captcha_sheet_gradient(sheet, stop, (captcha_spot){captcha_sine(90 - degrees), captcha_sine(degrees)});
  }
  float grain = roll(image, o->grain) * image->level.noise;
  if (grain > 0) captcha_sheet_grain(sheet, grain, &image->rng);
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct {
  const captcha_letter *letter;
  float size;   /* px per em */
  float gap;    /* px to the next letter */
  captcha_pose pose;
  captcha_colour ink;
} placed;

/* The corners are pushed apart; the letter as a whole stays where it is. */
static void roll_push(captcha_image *image, float reach, captcha_spot push[4])
{
  captcha_spot mean = {0, 0};
  for (int k = 0; k < 4; k++) {
    push[k].x = random_uniform(&image->rng, -reach, reach);
    push[k].y = random_uniform(&image->rng, -reach, reach);
    mean.x += push[k].x / 4;
    mean.y += push[k].y / 4;
  }
  for (int k = 0; k < 4; k++) {
    push[k].x -= mean.x;
    push[k].y -= mean.y;
  }
}

static placed roll_letter(captcha_image *image, int i)
{
  const capl_captcha_options *o = &image->gen->options;
  const captcha_letters *l = &image->gen->letters;
  int font = random_between(&image->rng, 0, l->n_fonts - 1), size = random_between(&image->rng, 0, l->n_sizes - 1);
  image->labels[i] = captcha_roll_letter(image);
  placed p = {.letter = captcha_letters_at(image, font, size, 0, image->labels[i]), .size = (float)l->size[size].high};
  p.gap = p.size * roll(image, o->spacing);
  p.pose.degrees = roll(image, o->rotate) * image->level.warp;
  p.pose.centre.y = -p.size * roll(image, o->rise) + (float)(p.letter->height - 2 * p.letter->top) / 2;
  roll_push(image, p.size * roll(image, o->warp) * image->level.warp, p.pose.push);
  return p;
}

/* Width of the line, without the last letter's gap. */
static float line_width(const placed *letter, int n)
{
  float width = 0;
  for (int i = 0; i < n; i++) width += (float)letter[i].letter->advance + (i + 1 < n ? letter[i].gap : 0);
  return width;
}

/* In the middle of the image; a line too long for it is squeezed. */
static void lay_out(captcha_image *image, const captcha_sheet *sheet, placed *letter, int n)
{
  const captcha_letters *l = &image->gen->letters;
  float room = (float)sheet->width * 0.96f, width = line_width(letter, n);
  float squeeze = width > room ? room / width : 1, spare = (float)sheet->width - width * squeeze;
  float x = spare * random_uniform(&image->rng, 0.25f, 0.75f);
  /* The base line lies so that capital letters, about 0.73 em high, stand in the middle. */
  float base = (float)sheet->height / 2 + 0.365f * (float)(l->size[0].high + l->size[l->n_sizes - 1].high) / 2;
  for (int i = 0; i < n; i++) {
    float ink_middle = (float)letter[i].letter->left + (float)letter[i].letter->width / 2;
    letter[i].pose.squeeze = squeeze;
    letter[i].pose.centre.x = x + ink_middle * squeeze;
    letter[i].pose.centre.y += base;
    x += ((float)letter[i].letter->advance + letter[i].gap) * squeeze;
  }
}

/* Mean of the pixels around a spot, which may be outside the sheet. */
static captcha_colour ground_at(const captcha_sheet *sheet, captcha_spot spot)
{
  enum { REACH = 4 };
  int x = (int)portable_clamp(spot.x, 0, (float)sheet->width - 1), sum[3] = {0}, n = 0;
  int y = (int)portable_clamp(spot.y, 0, (float)sheet->height - 1);
  for (int v = y - REACH; v <= y + REACH; v++) {
    for (int u = x - REACH; u <= x + REACH; u++) {
      if (u < 0 || v < 0 || u >= sheet->width || v >= sheet->height) continue;
      for (int c = 0; c < 3; c++) sum[c] += sheet->rgb[(v * sheet->width + u) * 3 + c];
      n++;
    }
  }
  captcha_colour mean;
  for (int c = 0; c < 3; c++) mean.rgb[c] = (uint8_t)((sum[c] + n / 2) / n);
  return mean;
}

/* The ink brought to so many levels from the ground, on its own side of it unless only the other one has room. */
static captcha_colour with_contrast(captcha_colour ink, captcha_colour ground, float levels)
{
  int apart[3], most = 0;
  for (int c = 0; c < 3; c++) {
    apart[c] = ink.rgb[c] - ground.rgb[c];
    if (abs(apart[c]) > abs(apart[most])) most = c;
  }
  if (apart[most] == 0) apart[most] = 1;
  float room = apart[most] > 0 ? 255.0f - ground.rgb[most] : ground.rgb[most];
  float factor = (levels > room && room < 127.5f ? -levels : levels) / (float)abs(apart[most]);
  for (int c = 0; c < 3; c++)
    ink.rgb[c] = (uint8_t)portable_clamp((float)ground.rgb[c] + (float)apart[c] * factor + 0.5f, 0, 255);
  return ink;
}

static captcha_colour roll_ink(captcha_image *image, float *levels)
{
  const capl_captcha_options *o = &image->gen->options;
  *levels = o->contrast.hi > 0 ? roll(image, o->contrast) : 0;
  return captcha_roll_colour(&image->rng, &o->ink);
}

static void colour_text(captcha_image *image, const captcha_sheet *sheet, placed *letter, int n)
{
  bool by_letter = captcha_word_index(captcha_ink_pers, image->gen->options.ink_per) == 1;
  float levels;
  captcha_colour ink = roll_ink(image, &levels);
  for (int i = 0; i < n; i++) {
    letter[i].ink = levels > 0 ? with_contrast(ink, ground_at(sheet, letter[i].pose.centre), levels) : ink;
    if (by_letter) ink = roll_ink(image, &levels);
  }
}

/* All but the painting: lines may come in between. Returns the number of letters. */
static int roll_text(captcha_image *image, const captcha_sheet *sheet, placed *letter)
{
  int n = captcha_roll_length(image);
  for (int i = 0; i < n; i++) letter[i] = roll_letter(image, i);
  lay_out(image, sheet, letter, n);
  colour_text(image, sheet, letter, n);
  return n;
}

/* ---- lines, arcs, curves, dots --------------------------------------------------------------- */

static void paint_line(captcha_image *image, const captcha_sheet *sheet, captcha_colour ink)
{
  captcha_spot from = roll_spot(image, sheet), to = roll_spot(image, sheet);
  float width = roll(image, image->gen->options.line_width);
  captcha_sheet_stroke(sheet, from, to, width, width, true, ink);
}

enum { PIECES = 24 }; /* of an arc or a curve */

/* Half of an ellipse or more, anywhere. */
static void paint_arc(captcha_image *image, const captcha_sheet *sheet, captcha_colour ink)
{
  captcha_spot centre = roll_spot(image, sheet), at = {0, 0};
  float half_w = (float)sheet->width * random_uniform(&image->rng, 0.1f, 0.5f);
  float half_h = (float)sheet->height * random_uniform(&image->rng, 0.1f, 0.5f);
  float start = random_uniform(&image->rng, 0, 360), sweep = random_uniform(&image->rng, 120, 300);
  float width = roll(image, image->gen->options.line_width);
  for (int i = 0; i <= PIECES; i++) {
    float angle = start + sweep * (float)i / PIECES;
    captcha_spot next = {centre.x + half_w * captcha_sine(angle + 90), centre.y + half_h * captcha_sine(angle)};
    if (i > 0) captcha_sheet_stroke(sheet, at, next, width, width, true, ink);
    at = next;
  }
}

/* A wave from the left side to the right. */
static void paint_curve(captcha_image *image, const captcha_sheet *sheet, captcha_colour ink)
{
  float w = (float)sheet->width, h = (float)sheet->height;
  float middle = h * random_uniform(&image->rng, 0.25f, 0.75f), height = h * random_uniform(&image->rng, 0.05f, 0.3f);
  float phase = random_uniform(&image->rng, 0, 360), sweep = random_uniform(&image->rng, 180, 720);
  float width = roll(image, image->gen->options.line_width);
  captcha_spot at = {0, 0};
  for (int i = 0; i <= PIECES; i++) {
    float share = (float)i / PIECES;
    captcha_spot next = {w * share, middle + height * captcha_sine(phase + sweep * share)};
    if (i > 0) captcha_sheet_stroke(sheet, at, next, width, width, true, ink);
    at = next;
  }
}

static void paint_dot(captcha_image *image, const captcha_sheet *sheet, captcha_colour ink)
{
  captcha_spot at = roll_spot(image, sheet);
  float size = roll(image, image->gen->options.dot_size);
  captcha_sheet_stroke(sheet, at, at, size, size, true, ink);
}

static void paint_many(captcha_image *image, const captcha_sheet *sheet, int n,
                       void (*paint)(captcha_image *, const captcha_sheet *, captcha_colour))
{
  const capl_captcha_options *o = &image->gen->options;
  bool by_thing = captcha_word_index(captcha_ink_pers, o->ink_per) == 1;
  captcha_colour ink = captcha_roll_colour(&image->rng, &o->line_ink);
  for (int i = 0; i < n; i++) {
    paint(image, sheet, ink);
    if (by_thing) ink = captcha_roll_colour(&image->rng, &o->line_ink);
  }
}

enum { KINDS = 3 }; /* lines, arcs, curves */
static void (*const paint_kind[KINDS])(captcha_image *, const captcha_sheet *, captcha_colour) = {
  paint_line, paint_arc, paint_curve};

/* over: how many of each kind are left to come over the text. */
static void paint_under_text(captcha_image *image, const captcha_sheet *sheet, const capl_captcha_range *count,
                             int *over)
{
  int place = captcha_word_index(captcha_line_places, image->gen->options.line_place);
  for (int k = 0; k < KINDS; k++) {
    int n = roll_count(image, count[k]), under = place == 1 ? n : random_between(&image->rng, 0, n);
    paint_many(image, sheet, under, paint_kind[k]);
    over[k] = n - under;
  }
}

static void paint_free(captcha_image *image, const captcha_sheet *sheet)
{
  const capl_captcha_options *o = &image->gen->options;
  const capl_captcha_range count[KINDS] = {o->lines, o->arcs, o->curves};
  bool all_over = captcha_word_index(captcha_line_places, o->line_place) == 0;
  placed letter[CAPL_LABEL_MAX];
  int over[KINDS];
  paint_ground(image, sheet);
  int n = roll_text(image, sheet, letter);
  if (!all_over) paint_under_text(image, sheet, count, over);
  for (int i = 0; i < n; i++) captcha_sheet_posed(sheet, letter[i].letter, &letter[i].pose, letter[i].ink);
  for (int k = 0; k < KINDS; k++)
    paint_many(image, sheet, all_over ? roll_count(image, count[k]) : over[k], paint_kind[k]);
  paint_many(image, sheet, roll_count(image, o->dots), paint_dot);
  int passes = random_between(&image->rng, (int)o->smooth.lo, (int)o->smooth.hi);
  for (int i = 0; i < passes; i++) captcha_sheet_smooth(sheet, image->room->rows);
}

const captcha_style captcha_free = {.open = open_free, .paint = paint_free};
