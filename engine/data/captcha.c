/* captcha.c -- captcha generators: presets, options, and the dice of one image.
**
** The two presets follow the rules of the `lepture` style; they differ in how far letters are pushed
** out of shape and in where the arc ends. An image is planned first (every random number is drawn
** here, in a fixed order), then painted by paint.c without any further choice.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/captcha.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/rng.h"
#include "data/streams.h"

enum { LEAST_PX = 16, MOST_PX = 1024 };

static const captcha_preset presets[] = {
  {"lepture", {42, 50, 56}, {0.1f, 0.2f, 0}, {0.2f, 0.1f, 0}, true},
  {"lepture-0.7.1", {42, 50, 56}, {0, 0.2f, 0.1f}, {0, 0.1f, 0.2f}, false},
};
enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const char *capl_captcha_preset_name(int i)
{
  return i >= 0 && i < N_PRESETS ? presets[i].name : NULL;
}

static capl_status find_preset(const char *name, const captcha_preset **found)
{
  char names[256] = "";
  for (int i = 0; i < N_PRESETS; i++) {
    *found = &presets[i];
    if (name && strcmp(name, presets[i].name) == 0) return CAPL_OK;
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", presets[i].name);
  }
  return CAPL_FAIL(CAPL_EVALUE, "no captcha preset \"%s\"; there are: %s", name ? name : "", names);
}

/* ---- making a generator ---------------------------------------------------------------------- */

static int or_default(int value, int fallback)
{
  return value ? value : fallback;
}

static capl_status set_picks(capl_captcha *gen, const char *often, int times)
{
  if (times < 1 || times > CAPL_OFTEN_MAX) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha times is %d; it must be 1..%d", times, CAPL_OFTEN_MAX);
  }
  for (const char *c = often; *c; c++) {
    if (!strchr(gen->charset, *c)) {
      return CAPL_FAIL(CAPL_EVALUE, "captcha often holds '%c', which is not in the charset \"%s\"", *c, gen->charset);
    }
  }
  for (int id = 0; gen->charset[id]; id++) {
    int copies = strchr(often, gen->charset[id]) ? times : 1;
    for (int i = 0; i < copies; i++) gen->pick[gen->n_pick++] = (uint8_t)id;
  }
  return CAPL_OK;
}

static capl_status set_options(capl_captcha *gen, const capl_captcha_options *options)
{
  gen->length = or_default(options->length, 4);
  gen->width = or_default(options->width, 160);
  gen->height = or_default(options->height, 60);
  if (gen->length < 1 || gen->length > CAPL_LABEL_MAX) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha length is %d; it must be 1..%d", gen->length, CAPL_LABEL_MAX);
  }
  if (gen->width < LEAST_PX || gen->width > MOST_PX || gen->height < LEAST_PX || gen->height > MOST_PX) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha size is %d x %d px; each side must be %d..%d", gen->width, gen->height,
                     LEAST_PX, MOST_PX);
  }
  CAPL_TRY(capl_charset_expand(options->charset ? options->charset : "0-9A-Z", gen->charset));
  return set_picks(gen, options->often ? options->often : "", or_default(options->times, 1));
}

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

static capl_status build(capl_captcha *gen, const char *preset, const capl_captcha_options *options)
{
  CAPL_TRY(find_preset(preset, &gen->preset));
  CAPL_TRY(set_options(gen, options));
  CAPL_TRY(capl_glyphs_init(&gen->glyphs, options->font, gen->charset, gen->preset->size_px, CAPTCHA_SIZES));
  gen->canvas_width = widest_line(gen);
  return captcha_scratch_new(gen, &gen->idle);
}

capl_status capl_captcha_new(const char *preset, const capl_captcha_options *options, capl_captcha **out)
{
  static const capl_captcha_options defaults;
  capl_captcha *gen = calloc(1, sizeof *gen);
  if (!gen) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a captcha generator");
  gen->refs = 1;
  pthread_mutex_init(&gen->lock, NULL);
  capl_status status = build(gen, preset, options ? options : &defaults);
  if (status == CAPL_OK) {
    *out = gen;
  } else {
    capl_captcha_unref(gen);
  }
  return status;
}

capl_captcha *capl_captcha_ref(capl_captcha *gen)
{
  atomic_fetch_add(&gen->refs, 1);
  return gen;
}

void capl_captcha_unref(capl_captcha *gen)
{
  if (!gen || atomic_fetch_sub(&gen->refs, 1) != 1) return;
  captcha_scratch_free(gen->idle);
  capl_glyphs_fini(&gen->glyphs);
  pthread_mutex_destroy(&gen->lock);
  free(gen);
}

int capl_captcha_width(const capl_captcha *gen)
{
  return gen->width;
}

int capl_captcha_height(const capl_captcha *gen)
{
  return gen->height;
}

int capl_captcha_length(const capl_captcha *gen)
{
  return gen->length;
}

const char *capl_captcha_charset(const capl_captcha *gen)
{
  return gen->charset;
}

const char *capl_captcha_font(const capl_captcha *gen)
{
  return gen->glyphs.path;
}

/* ---- the dice -------------------------------------------------------------------------------- */

/* Uniform integer in [lo, hi], both included. */
static int between(capl_rng *rng, int lo, int hi)
{
  return lo + (int)capl_rng_below(rng, (uint32_t)(hi - lo + 1));
}

static float uniform(capl_rng *rng, float lo, float hi)
{
  return lo + (hi - lo) * capl_rng_float(rng);
}

static float radians(float degrees)
{
  return degrees * 3.14159265f / 180;
}

static void roll_colours(capl_rng *rng, captcha_plan *plan)
{
  for (int c = 0; c < 3; c++) plan->background[c] = (float)between(rng, 238, 255);
  for (int c = 0; c < 3; c++) plan->ink[c] = (float)between(rng, 10, 200);
  plan->opacity = between(rng, 220, 255);
}

static float roll_reach(capl_rng *rng, captcha_warp_rule rule, int cell_px)
{
  return (float)cell_px * (rule.least + rule.spread * capl_rng_float(rng)) + rule.px;
}

static captcha_cell roll_letter(const capl_captcha *gen, capl_rng *rng, uint8_t *label)
{
  int size = between(rng, 0, CAPTCHA_SIZES - 1);
  *label = gen->pick[between(rng, 0, gen->n_pick - 1)];
  const capl_glyph *glyph = &gen->glyphs.glyph[size * gen->glyphs.n_chars + *label];
  captcha_cell cell = {.width = glyph->cell_w, .warp = {.glyph = glyph}};
  cell.warp.angle = radians(uniform(rng, -30, 30));
  float reach_x = roll_reach(rng, gen->preset->warp_x, glyph->cell_w);
  float reach_y = roll_reach(rng, gen->preset->warp_y, glyph->cell_h);
  cell.warp.x1 = (int)uniform(rng, -reach_x, reach_x);
  cell.warp.y1 = (int)uniform(rng, -reach_y, reach_y);
  cell.warp.x2 = (int)uniform(rng, -reach_x, reach_x);
  cell.warp.y2 = (int)uniform(rng, -reach_y, reach_y);
  return cell;
}

/* Each letter may be preceded by a blank; cells overlap by up to a quarter of the average letter's share. */
static void roll_text(const capl_captcha *gen, capl_rng *rng, captcha_plan *plan, uint8_t *labels)
{
  plan->n_cells = plan->text_width = 0;
  for (int i = 0; i < gen->length; i++) {
    if (between(rng, 0, 1)) {
      int size = between(rng, 0, CAPTCHA_SIZES - 1);
      plan->cell[plan->n_cells++] = (captcha_cell){.width = gen->glyphs.space_w[size]};
    }
    plan->cell[plan->n_cells++] = roll_letter(gen, rng, &labels[i]);
  }
  for (int i = 0; i < plan->n_cells; i++) plan->text_width += plan->cell[i].width;
  int most_back = plan->text_width / gen->length / 4;
  for (int i = 0; i < plan->n_cells; i++) plan->cell[i].step_back = between(rng, 0, most_back);
}

static void roll_noise(const capl_captcha *gen, capl_rng *rng, captcha_plan *plan)
{
  int w = gen->width, h = gen->height;
  for (int i = 0; i < CAPTCHA_DOTS; i++) {
    plan->dot[i].x = between(rng, 0, w);
    plan->dot[i].y = between(rng, 0, h);
  }
  plan->arc_from.x = between(rng, 0, w / 5);
  plan->arc_to.x = between(rng, gen->preset->arc_spans ? w - w / 5 : w / 5, w);
  plan->arc_from.y = between(rng, h / 5, h - h / 5);
  plan->arc_to.y = between(rng, plan->arc_from.y, h - h / 5);
  plan->arc_end = radians((float)between(rng, 160, 200));
  plan->arc_start = radians((float)between(rng, 0, 20));
}

/* ---- drawing --------------------------------------------------------------------------------- */

static capl_status take_scratch(capl_captcha *gen, captcha_scratch **scratch)
{
  pthread_mutex_lock(&gen->lock);
  *scratch = gen->idle;
  if (*scratch) gen->idle = *captcha_scratch_next(*scratch);
  pthread_mutex_unlock(&gen->lock);
  return *scratch ? CAPL_OK : captcha_scratch_new(gen, scratch);
}

static void return_scratch(capl_captcha *gen, captcha_scratch *scratch)
{
  pthread_mutex_lock(&gen->lock);
  *captcha_scratch_next(scratch) = gen->idle;
  gen->idle = scratch;
  pthread_mutex_unlock(&gen->lock);
}

capl_status capl_captcha_draw(const capl_captcha *generator, uint64_t seed, uint64_t index, int channels, uint8_t *pixels,
                              uint8_t *labels)
{
  if (channels != 1 && channels != 3) return CAPL_FAIL(CAPL_EVALUE, "a captcha has 1 or 3 channels, not %d", channels);
  capl_captcha *gen = (capl_captcha *)generator; /* only the list of idle scratch changes */
  captcha_scratch *scratch;
  CAPL_TRY(take_scratch(gen, &scratch));
  capl_rng rng;
  capl_rng_init(&rng, seed, (uint32_t)index, (uint32_t)(index >> 32), CAPL_STREAM_CAPTCHA);
  captcha_plan plan;
  roll_colours(&rng, &plan);
  roll_text(gen, &rng, &plan, labels);
  roll_noise(gen, &rng, &plan);
  captcha_paint(gen, &plan, scratch, channels, pixels);
  return_scratch(gen, scratch);
  return CAPL_OK;
}
