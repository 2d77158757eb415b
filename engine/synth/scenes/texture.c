/* texture.c -- backgrounds of the style outline: close-ups of materials, none of which backdrop.c has.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/scenes/backdrop.h"

#include "synth/random.h"
#include "synth/portable_math.h"
#include "data/streams.h"

typedef struct {
  canvas *c;
  outline *o;
  capl_rng rng;
  float width, height;
} texture;

static float roll(texture *t, float lo, float hi)
{
  return random_uniform(&t->rng, lo, hi);
}

/* The same colour, up to `by` levels brighter or darker. */
static canvas_colour near_to(texture *t, canvas_colour colour, float by)
{
  float more = roll(t, -by, by);
  for (int k = 0; k < 3; k++) colour.level[k] = portable_clamp(colour.level[k] + more, 0, 255);
  return colour;
}

/* Fills the outline; noise of so many levels in cells of that size, darker by `fall` of it over `far` px to the lower
** right of (x, y). */
static void fill_rough(texture *t, canvas_colour colour, float noise, float cell_x, float cell_y, float fall, float x,
                       float y, float far)
{
  canvas_paint paint = canvas_flat(colour, 1, -1);
  paint.noise_key = capl_rng_u32(&t->rng), paint.noise = noise, paint.cell_x = cell_x, paint.cell_y = cell_y;
  for (int k = 0; k < 3; k++) paint.fade.level[k] = -fall * colour.level[k];
  paint.from = (canvas_point){x, y};
  paint.along = (canvas_point){0.5f / far, 0.5f / far};
  canvas_fill(t->c, t->o, &paint);
}

static void box(texture *t, float x0, float y0, float x1, float y1)
{
  outline_begin(t->o, NULL);
  outline_to(t->o, x0, y0);
  outline_to(t->o, x1, y0);
  outline_to(t->o, x1, y1);
  outline_to(t->o, x0, y1);
}

static void draw_bricks(texture *t)
{
  canvas_colour mortar = canvas_roll_hsv(&t->rng, 0.05f, 0.15f, 0.05f, 0.2f, 0.5f, 0.8f);
  canvas_colour brick = canvas_roll_hsv(&t->rng, 0, 0.1f, 0.15f, 0.65f, 0.35f, 0.75f);
  canvas_gradient(t->c, (canvas_colour[]){mortar, mortar}, 2);
  canvas_clouds(t->c, capl_rng_u32(&t->rng), 4, 1, 2, canvas_rgb(16, 16, 16));
  float high = roll(t, 12, 30), wide = high * roll(t, 1.7f, 2.8f), gap = roll(t, 1, 3.5f);
  float y = -roll(t, 0, high);
  for (int row = 0; y < t->height; row++, y += high)
    for (float x = -wide * (row % 2 ? 0.5f : 1) - roll(t, 0, 4); x < t->width; x += wide) {
      box(t, x + gap, y + gap, x + wide, y + high);
      fill_rough(t, near_to(t, brick, 26), 22, 5, 3, 0.25f, x, y, high);
    }
  canvas_clouds(t->c, capl_rng_u32(&t->rng), 70, 1, 3, canvas_rgb(24, 24, 24));
}

static void draw_boards(texture *t)
{
  canvas_colour wood = canvas_roll_hsv(&t->rng, 0.05f, 0.12f, 0.25f, 0.6f, 0.4f, 0.85f);
  float high = roll(t, 18, 48), grain = roll(t, 1.5f, 4);
  canvas_gradient(t->c, (canvas_colour[]){wood, wood}, 2);
  for (float y = -roll(t, 0, high); y < t->height; y += high) {
    canvas_colour own = near_to(t, wood, 22);
    box(t, 0, y, t->width, y + high);
    fill_rough(t, own, 30, 30 * grain, grain, 0, 0, y, high);
    box(t, 0, y, t->width, y + roll(t, 0.8f, 2));
    fill_rough(t, canvas_mix(own, canvas_rgb(0, 0, 0), 0.7f), 0, 1, 1, 0, 0, y, high);
    for (int knots = random_between(&t->rng, 0, 2); knots > 0; knots--) {
      float x = roll(t, 0, t->width), r = roll(t, 0.1f, 0.28f) * high;
      outline_begin(t->o, NULL);
      outline_ellipse(t->o, x, y + 0.5f * high, 1.6f * r, r);
      fill_rough(t, canvas_mix(own, canvas_rgb(30, 15, 5), 0.5f), 18, 2, 2, 0.2f, x, y, high);
    }
  }
}

static void draw_pebbles(texture *t)
{
  canvas_colour ground = canvas_roll_hsv(&t->rng, 0, 1, 0, 0.2f, 0.1f, 0.25f);
  float hue = roll(t, 0, 1), size = roll(t, 8, 22);
  canvas_gradient(t->c, (canvas_colour[]){ground, ground}, 2);
  for (int i = (int)(3 * t->width * t->height / (size * size)); i > 0; i--) {
    float x = roll(t, 0, t->width), y = roll(t, 0, t->height), r = size * roll(t, 0.4f, 1);
    canvas_frame frame = canvas_turned(roll(t, 0, 6.28f), r, x, y);
    outline_begin(t->o, &frame);
    outline_ellipse(t->o, 0, 0, 1, roll(t, 0.6f, 0.95f));
    fill_rough(t, canvas_roll_hsv(&t->rng, hue, hue + 0.15f, 0.02f, 0.25f, 0.35f, 0.9f), 10, 3, 3, 0.8f, x - 0.5f * r,
               y - 0.5f * r, r);
  }
}

/* Soft patches of light, as of things far out of focus. */
static void draw_blur(texture *t)
{
  canvas_colour high = canvas_roll_hsv(&t->rng, 0, 1, 0.1f, 0.5f, 0.3f, 0.8f);
  canvas_colour low = canvas_roll_hsv(&t->rng, 0, 1, 0.1f, 0.5f, 0.3f, 0.8f);
  canvas_gradient(t->c, (canvas_colour[]){high, low}, 2);
  canvas_frame still = {.xx = 1, .yy = 1};
  for (int i = random_between(&t->rng, 12, 30); i > 0; i--) {
    canvas_colour colour;
    for (int k = 0; k < 3; k++) colour.level[k] = roll(t, -70, 70);
    float x = roll(t, 0, t->width), y = roll(t, 0, t->height), rx = roll(t, 20, 140);
    canvas_spot(t->c, &still, x, y, rx, rx * roll(t, 0.5f, 1.2f), 0, colour, -1);
  }
}

void texture_draw(canvas *c, uint64_t seed, uint32_t id, outline *o)
{
  static void (*const kinds[])(texture *) = {draw_bricks, draw_boards, draw_pebbles, draw_blur};
  texture t = {.c = c, .o = o, .width = (float)c->width, .height = (float)c->height};
  capl_rng_init(&t.rng, seed, id, 2, CAPL_STREAM_BACKDROP);
  kinds[capl_rng_below(&t.rng, sizeof kinds / sizeof kinds[0])](&t);
  uint32_t key = capl_rng_u32(&t.rng);
  canvas_grain(c, key, roll(&t, 2, 6));
}
