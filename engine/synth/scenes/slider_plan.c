/* slider_plan.c -- the random numbers of slider captchas: sizes, places, what makes the gap hard to find.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/synth.h"
#include "synth/scenes/slider.h"

#include "synth/random.h"
#include "synth/portable_math.h"
#include "data/streams.h"

static const float DEGREE = (float)(STEADY_PI / 180);

/* ---- canvas and shape ------------------------------------------------------------------------ */

/* As many sizes as web sites use: three of ten pictures have a usual one, the others are 280..480 wide, 140..240 high,
** 1.8 to 2.4 times as wide as high, even. */
static void roll_canvas(slider_plan *plan, const capl_slider_options *o, capl_rng *rng)
{
  static const int usual[][2] = {{320, 160}, {360, 180}, {400, 200}, {384, 192}};
  plan->width = o->width, plan->height = o->height;
  if (!o->mixed) return;
  bool any = random_chance(rng, 0.7f);
  int i = random_between(rng, 0, 3), height = 2 * random_between(rng, 70, 120);
  float aspect = random_uniform(rng, 1.8f, 2.4f);
  int width = 2 * (int)(0.5f * aspect * (float)height);
  plan->width = any ? (width < 280 ? 280 : width > 480 ? 480 : width) : usual[i][0];
  plan->height = any ? height : usual[i][1];
}

/* How often a shape comes; one that the style has not, but was asked for, comes as often as most. */
static int share_of(const capl_slider_options *o, int shape)
{
#define X(name, text, shaded, outline) {shaded, outline},
  static const uint8_t shares[][CAPL_SLIDER_STYLES] = {CAPL_SLIDER_SHAPE_MAP(X)};
#undef X
  int own = shares[shape][o->style];
  if (!o->shapes) return own;
  return o->shapes >> shape & 1 ? own ? own : 1 : 0;
}

static int roll_shape(const capl_slider_options *o, capl_rng *rng)
{
  int total = 0, shape = 0;
  for (int i = 0; i < CAPL_SLIDER_SHAPES; i++) total += share_of(o, i);
  for (int left = (int)capl_rng_below(rng, (uint32_t)total);; shape++)
    if ((left -= share_of(o, shape)) < 0) return shape;
}

/* ---- confusions ------------------------------------------------------------------------------ */

/* Two or three different ones. */
static unsigned roll_several(capl_rng *rng)
{
  unsigned bits = 0;
  for (int n = random_between(rng, 2, 3); n > 0;) {
    unsigned bit = 1u << capl_rng_below(rng, CAPL_SLIDER_CONFUSIONS);
    if (bits & bit) continue;
    bits |= bit;
    n--;
  }
  return bits;
}

static unsigned roll_confusions(capl_rng *rng)
{
#define X(name, text, share) share,
  static const uint8_t shares[] = {CAPL_SLIDER_CONFUSION_MAP(X)};
#undef X
  unsigned several = roll_several(rng);
  int left = (int)capl_rng_below(rng, 100) - CAPL_SLIDER_PLAIN;
  if (left < 0) return 0;
  for (int i = 0; i < CAPL_SLIDER_CONFUSIONS; i++)
    if ((left -= shares[i]) < 0) return 1u << i;
  return several;
}

static void roll_strengths(slider_plan *plan, capl_rng *rng)
{
  plan->noise_key = capl_rng_u32(rng);
  plan->noise = 50 * random_uniform(rng, 0.2f, 0.5f);
  plan->dark = random_uniform(rng, 0.75f, 1);
  plan->light = random_uniform(rng, 0, 1);
  plan->edge = random_uniform(rng, 90, 100);
  plan->edge_width = random_uniform(rng, 6, 7);
  plan->edge_decay = random_uniform(rng, 2, 2.5f);
}

/* Either way round, at least lo. */
static float roll_turn(float lo, float hi, capl_rng *rng)
{
  float turn = random_uniform(rng, lo, hi) * DEGREE;
  return random_chance(rng, 0.5f) ? -turn : turn;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool apart(const float a[4], const float b[4], float distance)
{
  return a[0] - b[2] >= distance || b[0] - a[2] >= distance || a[1] - b[3] >= distance || b[1] - a[3] >= distance;
}

/* Inside the canvas, and clear of all that lies there already. */
static bool is_free(const slider_plan *plan, const slider_place *at)
{
  float box[4], other[4];
  slider_box(plan, at, box);
  if (box[0] < 2 || box[1] < 2 || box[2] > (float)plan->width - 2 || box[3] > (float)plan->height - 2) return false;
  slider_box(plan, &plan->piece, other);
  if (!apart(box, other, 10)) return false;
  slider_box(plan, &plan->gap, other);
  if (!apart(box, other, 10)) return false;
  for (int i = 0; i < plan->n_decoys; i++) {
    slider_box(plan, &plan->decoy[i], other);
    if (!apart(box, other, 10)) return false;
  }
  return true;
}

/* A decoy on the gap's height or on another; false if no place was found for one. */
static bool place_decoy(slider_plan *plan, bool level, float loose, capl_rng *rng)
{
  enum { TRIES = 64 };
  float h = plan->shape.half;
  for (int i = 0; i < TRIES; i++) {
    slider_place at = {.radians = roll_turn(10, 30, rng)};
    at.scale = random_uniform(rng, 1 - loose, 1 + loose);
    at.x = random_uniform(rng, 2 * h, (float)plan->width - h);
    at.y = level ? plan->gap.y : random_uniform(rng, h, (float)plan->height - h);
    if (!is_free(plan, &at)) continue;
    plan->decoy[plan->n_decoys++] = at;
    return true;
  }
  return false;
}

/* Gap and piece: on one height; the gap a whole number of pixels to the right, as a browser shows it, so that the piece
** is the very pixels that the gap lacks. */
static void place_gap(slider_plan *plan, capl_rng *rng)
{
  float h = plan->shape.half;
  plan->piece.x = random_uniform(rng, h, h + 10);
  plan->piece.y = random_uniform(rng, h + 10, (float)plan->height - h - 10);
  int least = (int)(2 * h) + 11, most = (int)((float)plan->width - h - 10 - plan->piece.x);
  plan->gap.x = plan->piece.x + (float)random_between(rng, least, most);
  plan->gap.y = plan->piece.y;
  plan->gap.scale = plan->piece.scale = 1;
}

/* One or two decoys. A gap in the middle of a small picture may leave room for none: it is placed anew. */
static void place_all(slider_plan *plan, bool decoys, capl_rng *rng)
{
  enum { TRIES = 32 };
  int wanted = decoys ? random_between(rng, 1, CAPL_SLIDER_DECOYS) : 0, where = random_between(rng, 0, 2);
  float loose = random_chance(rng, 0.5f) ? 0.2f : 0.3f, turn = plan->gap.radians;
  for (int i = 0; i < TRIES; i++) {
    plan->n_decoys = 0;
    place_gap(plan, rng);
    plan->gap.radians = turn;
    for (int k = 0; k < wanted; k++) place_decoy(plan, where == 0 || (where == 1 && k == 0), loose, rng);
    if (!wanted || plan->n_decoys > 0) return;
  }
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Each background comes with six of the 81 jigsaws. */
static int roll_variant(uint64_t seed, uint32_t background, capl_rng *rng)
{
  capl_rng own;
  capl_rng_init(&own, seed, background, 1, CAPL_STREAM_BACKDROP);
  int variant = 0;
  for (uint32_t i = capl_rng_below(rng, 6) + 1; i > 0; i--) variant = (int)capl_rng_below(&own, JIGSAW_VARIANTS);
  return variant;
}

static void roll_outline(slider_plan *plan, capl_rng *rng)
{
  plan->bright = random_chance(rng, 0.5f);
  plan->white = random_uniform(rng, 0.3f, 0.6f);
  plan->line = random_uniform(rng, 1, 2.2f);
  plan->ink = random_chance(rng, 0.7f) ? 255 : 20;
  plan->shadow = random_uniform(rng, 0.25f, 0.5f);
}

void slider_roll(slider_plan *plan, const capl_slider_options *o, uint64_t seed, capl_rng *rng)
{
  *plan = (slider_plan){.style = o->style};
  plan->background = o->background_first + capl_rng_below(rng, o->background_count);
  roll_canvas(plan, o, rng);
  int shape = roll_shape(o, rng), variant = roll_variant(seed, plan->background, rng);
  plan->size = 2 * random_between(rng, (o->size_lo + 1) / 2, o->size_hi / 2);
  plan->confusions = roll_confusions(rng);
  roll_strengths(plan, rng);
  piece_make(&plan->shape, shape, (float)plan->size, variant, rng);
  float hole = random_uniform(rng, 0.3f, 0.4f), turn = roll_turn(0.5f, 1.5f, rng);
  if (plan->confusions & 1u << CAPL_CONFUSION_HOLLOW) plan->shape.hole = hole;
  if (plan->confusions & 1u << CAPL_CONFUSION_ROTATION) plan->gap.radians = turn;
  place_all(plan, plan->confusions & 1u << CAPL_CONFUSION_DECOY, rng);
  if (o->style == CAPL_SLIDER_OUTLINE) roll_outline(plan, rng);
}

canvas_point slider_centre(const slider_plan *plan, const slider_place *at)
{
  canvas_frame frame = canvas_turned(at->radians, at->scale, at->x, at->y);
  return canvas_place(&frame, plan->shape.x, plan->shape.y);
}

/* Of a side's direction in the canvas, how far the shape reaches: found by stepping around it. */
void slider_box(const slider_plan *plan, const slider_place *at, float box[4])
{
  canvas_frame frame = canvas_turned(at->radians, at->scale, at->x, at->y);
  piece_extent(&plan->shape, &frame, box);
}
