/* style_lepture.c -- the dice of the lepture style: warped letters, dots, an arc.
**
** Two presets follow these rules; they differ in how far letters are pushed out of shape and in where the arc ends. An
** image is planned first (every random number is drawn here, in a fixed order), then painted by paint.c without any
** further choice.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "data/captcha.h"
#include "data/dice.h"

static int widest_line(const capl_captcha *gen)
{
  int letter = 0, blank = 0;
  for (int i = 0; i < gen->glyphs.n_sizes * gen->glyphs.n_chars; i++) {
    if (gen->glyphs.glyph[i].cell_w > letter) letter = gen->glyphs.glyph[i].cell_w;
  }
  for (int s = 0; s < gen->glyphs.n_sizes; s++) {
    if (gen->glyphs.space_w[s] > blank) blank = gen->glyphs.space_w[s];
  }
  int line = gen->length * (letter + blank);
  return line > gen->width ? line : gen->width;
}

static capl_status open_lepture(capl_captcha *gen, const capl_captcha_options *options)
{
  CAPL_TRY(capl_glyphs_init(&gen->glyphs, options->font, gen->charset, gen->preset->lepture.size_px, CAPTCHA_SIZES));
  gen->canvas_width = widest_line(gen);
  return CAPL_OK;
}

/* ---- the dice -------------------------------------------------------------------------------- */

static float radians(float degrees)
{
  return degrees * 3.14159265f / 180;
}

static void roll_colours(capl_rng *rng, captcha_plan *plan)
{
  for (int c = 0; c < 3; c++) plan->background[c] = (float)dice_between(rng, 238, 255);
  for (int c = 0; c < 3; c++) plan->ink[c] = (float)dice_between(rng, 10, 200);
  plan->opacity = dice_between(rng, 220, 255);
}

static float roll_reach(capl_rng *rng, captcha_warp_rule rule, int cell_px)
{
  return (float)cell_px * (rule.least + rule.spread * capl_rng_float(rng)) + rule.px;
}

static captcha_cell roll_letter(const capl_captcha *gen, const captcha_level *level, capl_rng *rng, int32_t *label)
{
  const captcha_lepture_rule *rule = &gen->preset->lepture;
  int size = dice_between(rng, 0, CAPTCHA_SIZES - 1);
  *label = captcha_roll_letter(gen, level, rng);
  const capl_glyph *glyph = &gen->glyphs.glyph[size * gen->glyphs.n_chars + *label];
  captcha_cell cell = {.width = glyph->cell_w, .warp = {.glyph = glyph}};
  cell.warp.angle = radians(dice_uniform(rng, -30, 30) * level->warp);
  float reach_x = roll_reach(rng, rule->warp_x, glyph->cell_w) * level->warp;
  float reach_y = roll_reach(rng, rule->warp_y, glyph->cell_h) * level->warp;
  cell.warp.x1 = (int)dice_uniform(rng, -reach_x, reach_x);
  cell.warp.y1 = (int)dice_uniform(rng, -reach_y, reach_y);
  cell.warp.x2 = (int)dice_uniform(rng, -reach_x, reach_x);
  cell.warp.y2 = (int)dice_uniform(rng, -reach_y, reach_y);
  return cell;
}

/* Each letter may be preceded by a blank; cells overlap by up to a quarter of the average letter's share. */
static void roll_text(const capl_captcha *gen, const captcha_level *level, capl_rng *rng, captcha_plan *plan,
                      int32_t *labels)
{
  plan->n_letters = captcha_roll_length(level, rng);
  plan->n_cells = plan->text_width = 0;
  for (int i = 0; i < plan->n_letters; i++) {
    if (dice_between(rng, 0, 1)) {
      int size = dice_between(rng, 0, CAPTCHA_SIZES - 1);
      plan->cell[plan->n_cells++] = (captcha_cell){.width = gen->glyphs.space_w[size]};
    }
    plan->cell[plan->n_cells++] = roll_letter(gen, level, rng, &labels[i]);
  }
  for (int i = 0; i < plan->n_cells; i++) plan->text_width += plan->cell[i].width;
  int most_back = plan->text_width / plan->n_letters / 4;
  for (int i = 0; i < plan->n_cells; i++) plan->cell[i].step_back = dice_between(rng, 0, most_back);
}

static void roll_noise(const capl_captcha *gen, const captcha_level *level, capl_rng *rng, captcha_plan *plan)
{
  int w = gen->width, h = gen->height;
  plan->n_dots = (int)(CAPTCHA_DOTS * level->noise + 0.5f);
  for (int i = 0; i < plan->n_dots; i++) {
    plan->dot[i].x = dice_between(rng, 0, w);
    plan->dot[i].y = dice_between(rng, 0, h);
  }
  plan->arc_from.x = dice_between(rng, 0, w / 5);
  plan->arc_to.x = dice_between(rng, gen->preset->lepture.arc_spans ? w - w / 5 : w / 5, w);
  plan->arc_from.y = dice_between(rng, h / 5, h - h / 5);
  plan->arc_to.y = dice_between(rng, plan->arc_from.y, h - h / 5);
  plan->arc_end = radians((float)dice_between(rng, 160, 200));
  plan->arc_start = radians((float)dice_between(rng, 0, 20));
  plan->has_arc = level->noise >= 1 || dice_chance(rng, level->noise);
}

static void draw_lepture(const capl_captcha *gen, const captcha_level *level, capl_rng *rng, captcha_room *room,
                         int channels, uint8_t *pixels, int32_t *labels)
{
  captcha_plan plan;
  roll_colours(rng, &plan);
  roll_text(gen, level, rng, &plan, labels);
  roll_noise(gen, level, rng, &plan);
  captcha_paint(gen, &plan, room->lepture, channels, pixels);
}

const captcha_style captcha_lepture = {open_lepture, draw_lepture};
