/* style_lepture.c -- the random numbers of the lepture style: warped letters, dots, an arc.
**
** Two presets follow these rules; they differ in how far letters are pushed out of shape and in where the arc ends. An
** image is planned first (every random number is drawn here, in a fixed order), then painted by paint.c without any
** further choice.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/captcha.h"
#include "synth/random.h"

static capl_status open_lepture(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts)
{
  gen->glyphs = (capl_glyphs){.first_font = first_font, .n_fonts = n_fonts, .n_sizes = CAPTCHA_SIZES,
                              .size_px = gen->preset->lepture.size_px};
  return capl_glyphs_init(&gen->glyphs, renderer, gen->vocab, gen->letters_most);
}

/* NULL if it cannot be rendered, which the image then knows. */
static const capl_glyph *find_glyph(captcha_image *image, int size, int id)
{
  const capl_glyphs *g = &image->gen->glyphs;
  size_t place = capl_glyphs_place(g, size, id);
  const capl_glyph *glyph = letter_store_get(g->store, place);
  if (glyph) return glyph;
  capl_status status = capl_glyphs_render(g, &image->room->renderer, place, &glyph);
  if (status != CAPL_OK) image->status = status;
  return status == CAPL_OK ? glyph : NULL;
}

/* ---- random numbers -------------------------------------------------------------------------------- */

static float radians(float degrees)
{
  return degrees * 3.14159265f / 180;
}

static void roll_colours(capl_rng *rng, captcha_plan *plan)
{
  for (int c = 0; c < 3; c++) plan->background[c] = (float)random_between(rng, 238, 255);
  for (int c = 0; c < 3; c++) plan->ink[c] = (float)random_between(rng, 10, 200);
  plan->opacity = random_between(rng, 220, 255);
}

static float roll_reach(capl_rng *rng, captcha_warp_rule rule, int cell_px)
{
  return (float)cell_px * (rule.least + rule.spread * capl_rng_float(rng)) + rule.px;
}

/* A size; of several fonts also one of them. No die is rolled for a single one. */
static int roll_size(captcha_image *image)
{
  int size = random_between(&image->rng, 0, CAPTCHA_SIZES - 1), n_fonts = image->gen->glyphs.n_fonts;
  return n_fonts == 1 ? size : size + CAPTCHA_SIZES * random_between(&image->rng, 0, n_fonts - 1);
}

static captcha_cell roll_letter(captcha_image *image, int32_t *label)
{
  const capl_captcha *gen = image->gen;
  const captcha_lepture_rule *rule = &gen->preset->lepture;
  capl_rng *rng = &image->rng;
  int size = roll_size(image);
  *label = captcha_roll_letter(image);
  const capl_glyph *glyph = find_glyph(image, size, *label);
  if (!glyph) return (captcha_cell){.width = 1};
  captcha_cell cell = {.width = glyph->cell_w, .warp = {.glyph = glyph}};
  cell.warp.angle = radians(random_uniform(rng, -30, 30) * image->level.warp);
  float reach_x = roll_reach(rng, rule->warp_x, glyph->cell_w) * image->level.warp;
  float reach_y = roll_reach(rng, rule->warp_y, glyph->cell_h) * image->level.warp;
  cell.warp.x1 = (int)random_uniform(rng, -reach_x, reach_x);
  cell.warp.y1 = (int)random_uniform(rng, -reach_y, reach_y);
  cell.warp.x2 = (int)random_uniform(rng, -reach_x, reach_x);
  cell.warp.y2 = (int)random_uniform(rng, -reach_y, reach_y);
  return cell;
}

/* Each letter may be preceded by a blank; cells overlap by up to a quarter of the average letter's share. */
static void roll_text(captcha_image *image, captcha_plan *plan)
{
  plan->n_letters = captcha_roll_length(image);
  plan->n_cells = plan->text_width = 0;
  for (int i = 0; i < plan->n_letters; i++) {
    if (random_between(&image->rng, 0, 1)) {
      plan->cell[plan->n_cells++] = (captcha_cell){.width = image->gen->glyphs.space_w[roll_size(image)]};
    }
    plan->cell[plan->n_cells++] = roll_letter(image, &image->labels[i]);
  }
  for (int i = 0; i < plan->n_cells; i++) plan->text_width += plan->cell[i].width;
  int most_back = plan->text_width / plan->n_letters / 4;
  for (int i = 0; i < plan->n_cells; i++) plan->cell[i].step_back = random_between(&image->rng, 0, most_back);
}

static void roll_noise(captcha_image *image, captcha_plan *plan)
{
  capl_rng *rng = &image->rng;
  int w = image->gen->width, h = image->gen->height;
  plan->n_dots = (int)(CAPTCHA_DOTS * image->level.noise + 0.5f);
  for (int i = 0; i < plan->n_dots; i++) {
    plan->dot[i].x = random_between(rng, 0, w);
    plan->dot[i].y = random_between(rng, 0, h);
  }
  plan->arc_from.x = random_between(rng, 0, w / 5);
  plan->arc_to.x = random_between(rng, image->gen->preset->lepture.arc_spans ? w - w / 5 : w / 5, w);
  plan->arc_from.y = random_between(rng, h / 5, h - h / 5);
  plan->arc_to.y = random_between(rng, plan->arc_from.y, h - h / 5);
  plan->arc_end = radians((float)random_between(rng, 160, 200));
  plan->arc_start = radians((float)random_between(rng, 0, 20));
  plan->has_arc = image->level.noise >= 1 || random_chance(rng, image->level.noise);
}

static void draw_lepture(captcha_image *image)
{
  captcha_plan plan;
  roll_colours(&image->rng, &plan);
  roll_text(image, &plan);
  roll_noise(image, &plan);
  if (image->status == CAPL_OK && !image->gen->glyphs.whole)
    image->status = captcha_scratch_fit(image->gen, &plan, &image->room->lepture);
  if (image->status == CAPL_OK)
    captcha_paint(image->gen, &plan, image->room->lepture, image->channels, image->pixels);
}

const captcha_style captcha_lepture = {.open = open_lepture, .draw = draw_lepture};
