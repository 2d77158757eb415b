/* face_plan.c -- the random numbers of a face: pose, colours, features, what it wears.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/random.h"
#include "synth/scenes/face.h"
#include "synth/portable_math.h"

/* ---- colours --------------------------------------------------------------------------------- */

/* Dice are rolled one a statement: C leaves open in which order arguments are evaluated. */
static canvas_colour jitter(canvas_colour c, float by, capl_rng *rng)
{
  for (int k = 0; k < 3; k++) c.level[k] = portable_clamp(c.level[k] + random_uniform(rng, -by, by), 0, 255);
  return c;
}

/* Between two neighbours of a list. */
static canvas_colour roll_between(const canvas_colour *list, int n, capl_rng *rng)
{
  float place = random_uniform(rng, 0, (float)(n - 1));
  int i = (int)place < n - 1 ? (int)place : n - 2;
  return canvas_mix(list[i], list[i + 1], place - (float)i);
}

static void roll_colours(face_plan *p, capl_rng *rng)
{
  static const canvas_colour skins[] = {{{255, 226, 202}}, {{244, 205, 172}}, {{226, 178, 138}}, {{196, 144, 102}},
                                        {{148, 100, 66}}, {{92, 60, 42}}};
  static const canvas_colour hairs[] = {{{22, 18, 16}}, {{44, 30, 22}}, {{84, 54, 32}}, {{130, 86, 46}},
                                        {{186, 140, 82}}, {{222, 196, 140}}};
  static const canvas_colour odd[] = {{{150, 150, 152}}, {{214, 212, 208}}, {{150, 60, 26}}, {{96, 30, 24}}};
  static const canvas_colour irises[] = {{{60, 38, 22}}, {{96, 64, 34}}, {{90, 110, 60}}, {{70, 110, 150}}};
  p->skin = roll_between(skins, 6, rng);
  p->skin = jitter(p->skin, 6, rng);
  p->hair_colour = random_chance(rng, 0.18f) ? roll_between(odd, 4, rng) : roll_between(hairs, 6, rng);
  p->hair_colour = jitter(p->hair_colour, 5, rng);
  p->iris = roll_between(irises, 4, rng);
  canvas_colour red = jitter(canvas_rgb(182, 75, 85), 18, rng);
  p->lips = canvas_mix(p->skin, red, random_uniform(rng, 0.35f, 0.85f));
  p->cloth = canvas_roll_hsv(rng, 0, 1, 0, 0.75f, 0.15f, 0.95f);
  p->hat_colour = canvas_roll_hsv(rng, 0, 1, 0.1f, 0.8f, 0.15f, 0.9f);
  float hue = capl_rng_float(rng), pale = random_uniform(rng, 0, 0.6f), bright = random_uniform(rng, 0.15f, 0.95f);
  for (int i = 0; i < 3; i++) {
    float own = hue + random_uniform(rng, -0.12f, 0.12f), value = bright + random_uniform(rng, -0.25f, 0.25f);
    p->background[i] = canvas_hsv(own, pale, portable_clamp(value, 0.03f, 1));
  }
}

/* ---- pose ------------------------------------------------------------------------------------ */

/* Up to 15 degrees; the shoulders follow a third of the way, and neck and head stay together below the chin. */
static void roll_pose(face_plan *p, int size, capl_rng *rng)
{
  float side = (float)size, tilt = random_uniform(rng, -15, 15) * (float)(STEADY_PI / 180);
  p->px = 0.35f * side * random_uniform(rng, 0.78f, 1.1f);
  p->turn = random_uniform(rng, -1, 1);
  float x = side * random_uniform(rng, 0.42f, 0.58f), y = side * random_uniform(rng, 0.45f, 0.56f);
  p->head = canvas_turned(tilt, p->px, x, y);
  canvas_point neck = canvas_place(&p->head, 0, 0.85f);
  p->body = canvas_turned(tilt / 3, p->px, 0, 0);
  canvas_point away = canvas_place(&p->body, 0, 0.85f);
  p->body.x0 = neck.x - away.x;
  p->body.y0 = neck.y - away.y;
}

/* ---- features -------------------------------------------------------------------------------- */

static void roll_features(face_plan *p, capl_rng *rng)
{
  p->light = random_uniform(rng, -1, 1);
  p->wide = random_uniform(rng, 0.92f, 1.06f);
  p->jaw = random_uniform(rng, 0.88f, 1.1f);
  p->eye_open = random_uniform(rng, 0.65f, 1.15f);
  p->eye_size = random_uniform(rng, 0.9f, 1.15f);
  p->eye_tilt = random_uniform(rng, -0.04f, 0.05f);
  p->gaze = random_uniform(rng, -1, 1);
  p->brow_height = random_uniform(rng, -0.04f, 0.04f);
  p->brow_width = random_uniform(rng, 0.04f, 0.085f);
  p->nose_wide = random_uniform(rng, 0.8f, 1.25f);
  p->nose_long = random_uniform(rng, -0.05f, 0.05f);
  p->mouth_wide = random_uniform(rng, 0.2f, 0.32f);
  p->smile = random_uniform(rng, -0.2f, 1);
  p->lip = random_uniform(rng, 0.8f, 1.3f);
  float open = random_uniform(rng, 0.03f, 0.14f);
  p->mouth_open = random_chance(rng, 0.45f) ? open : 0;
  p->neckline = random_uniform(rng, 0, 1);
  p->key = capl_rng_u32(rng);
  p->grain = random_uniform(rng, 1, 4);
}

static void roll_hair(face_plan *p, capl_rng *rng)
{
  int hair = random_between(rng, 0, 99);
  p->hair = hair < 4 ? FACE_BALD : hair < 40 ? FACE_SHORT : hair < 50 ? FACE_CURLY : hair < 68 ? FACE_MEDIUM
      : FACE_LONG;
  p->volume = random_uniform(rng, -0.03f, 0.14f);
  p->hairline = random_uniform(rng, 0, 1);
  p->part = random_uniform(rng, -1, 1);
  float beard = random_uniform(rng, 0.15f, 0.6f);
  p->beard = random_chance(rng, p->hair <= FACE_CURLY ? 0.4f : 0) ? beard : 0;
  for (int i = 0; i < 2; i++)
    p->strap[i] = random_chance(rng, p->hair == FACE_LONG ? 0.8f : p->hair == FACE_MEDIUM ? 0.5f : 0);
}

/* What few wear: glasses 8 of 100, hats 5, necklaces 5, earrings 20. */
static void roll_things(face_plan *p, capl_rng *rng)
{
  int hat = random_between(rng, 0, 99);
  p->hat = hat < 3 ? FACE_CAP : hat < 5 ? FACE_BEANIE : FACE_BARE;
  p->glasses = random_chance(rng, 0.08f);
  p->dark_glasses = random_chance(rng, 0.25f);
  p->round_glasses = random_chance(rng, 0.4f);
  p->necklace = random_chance(rng, 0.05f);
  bool earrings = random_chance(rng, 0.2f);
  for (int i = 0; i < 2; i++) p->earring[i] = earrings && !p->strap[i];
}

/* ---- the style drawing ----------------------------------------------------------------------- */

/* Skins and hairs of comics; one of four pictures is black and white. */
static void roll_drawn_colours(face_plan *p, capl_rng *rng)
{
  static const canvas_colour skins[] = {{{255, 240, 225}}, {{250, 214, 190}}, {{216, 160, 120}}, {{150, 104, 80}},
                                        {{198, 222, 176}}, {{176, 200, 236}}};
  p->skin = skins[capl_rng_below(rng, 6)];
  p->hair_colour = canvas_roll_hsv(rng, 0, 1, 0.5f, 1, 0.3f, 1);
  p->lips = canvas_roll_hsv(rng, 0.92f, 1.05f, 0.4f, 0.8f, 0.6f, 0.95f);
  p->iris = canvas_roll_hsv(rng, 0, 1, 0.6f, 1, 0.4f, 0.9f);
  p->cloth = canvas_roll_hsv(rng, 0, 1, 0.6f, 1, 0.5f, 1);
  canvas_colour wall = canvas_roll_hsv(rng, 0, 1, 0, 0.5f, 0.8f, 1);
  for (int i = 0; i < 3; i++) p->background[i] = wall;
  p->ink_only = random_chance(rng, 0.25f);
}

/* Large eyes under high brows, small noses and mouths, a narrow chin. */
static void roll_drawn_features(face_plan *p, capl_rng *rng)
{
  p->wide = random_uniform(rng, 1, 1.1f);
  p->jaw = random_uniform(rng, 0.66f, 0.86f);
  p->eye_size = random_uniform(rng, 1.2f, 1.45f);
  p->eye_open = random_uniform(rng, 1.1f, 1.5f);
  p->brow_height = random_uniform(rng, -0.12f, -0.06f);
  p->brow_width = random_uniform(rng, 0.025f, 0.05f);
  p->nose_wide = random_uniform(rng, 0.4f, 0.7f);
  p->mouth_wide = random_uniform(rng, 0.12f, 0.24f);
  p->lip = random_uniform(rng, 0.4f, 0.8f);
}

void face_roll(face_plan *plan, int size, capl_face_style style, capl_rng *rng)
{
  *plan = (face_plan){.style = style};
  roll_pose(plan, size, rng);
  roll_colours(plan, rng);
  roll_features(plan, rng);
  roll_hair(plan, rng);
  roll_things(plan, rng);
  if (style != CAPL_FACE_DRAWING) return;
  roll_drawn_colours(plan, rng);
  roll_drawn_features(plan, rng);
}
