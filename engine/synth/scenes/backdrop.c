/* backdrop.c -- procedural pictures with the look of photographs and wallpapers.
**
** Each kind goes from coarse to fine, so that there is detail at every size, as in photographs: gradients, clouds of
** noise, shapes large and small, grain.
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
  float hue; /* the picture's own, in turns */
} scene;

/* ---- random numbers and small shapes ------------------------------------------------------------------- */

static float roll(scene *s, float lo, float hi)
{
  return random_uniform(&s->rng, lo, hi);
}

/* A colour near the picture's hue. */
static canvas_colour roll_colour(scene *s, float spread, float saturation, float value)
{
  float hue = s->hue + roll(s, -spread, spread);
  saturation += roll(s, -0.15f, 0.15f);
  value += roll(s, -0.15f, 0.15f);
  return canvas_hsv(hue, portable_clamp(saturation, 0, 1), portable_clamp(value, 0, 1));
}

static canvas_colour roll_hsv(scene *s, float hue_lo, float hue_hi, float saturation_lo, float saturation_hi,
                              float value_lo, float value_hi)
{
  return canvas_roll_hsv(&s->rng, hue_lo, hue_hi, saturation_lo, saturation_hi, value_lo, value_hi);
}

/* Anywhere from top down, a share of the height. */
static canvas_point roll_point(scene *s, float top)
{
  float x = roll(s, 0, s->width);
  return (canvas_point){x, roll(s, top * s->height, s->height)};
}

static void fill(scene *s, canvas_colour colour, float alpha)
{
  canvas_paint paint = canvas_flat(colour, alpha, -1);
  canvas_fill(s->c, s->o, &paint);
}

static void disc(scene *s, float x, float y, float r, canvas_colour colour, float alpha)
{
  outline_begin(s->o, NULL);
  outline_ellipse(s->o, x, y, r, r);
  fill(s, colour, alpha);
}

static void box(scene *s, float x0, float y0, float x1, float y1, canvas_colour colour, float alpha)
{
  outline_begin(s->o, NULL);
  outline_to(s->o, x0, y0);
  outline_to(s->o, x1, y0);
  outline_to(s->o, x1, y1);
  outline_to(s->o, x0, y1);
  fill(s, colour, alpha);
}

/* A polygon of n corners at about r from (x, y). */
static void shard(scene *s, float x, float y, float r, int n, canvas_colour colour, float alpha)
{
  float turn = roll(s, 0, 6.28f);
  outline_begin(s->o, NULL);
  for (int i = 0; i < n; i++) {
    double angle = (double)turn + 2 * STEADY_PI * i / n;
    float far = r * roll(s, 0.6f, 1.1f);
    outline_to(s->o, x + far * (float)portable_cos(angle), y + far * (float)portable_sin(angle));
  }
  fill(s, colour, alpha);
}

/* ---- landscapes ------------------------------------------------------------------------------ */

static void sky(scene *s)
{
  bool evening = random_chance(&s->rng, 0.35f);
  canvas_colour high = evening ? roll_hsv(s, 0.58f, 0.78f, 0.5f, 0.6f, 0.3f, 0.6f)
      : roll_hsv(s, 0.53f, 0.63f, 0.55f, 0.65f, 0.6f, 0.95f);
  canvas_colour low = evening ? roll_hsv(s, 0, 0.13f, 0.55f, 0.65f, 0.9f, 1)
      : roll_hsv(s, 0.5f, 0.6f, 0.15f, 0.25f, 0.85f, 1);
  canvas_gradient(s->c, (canvas_colour[]){high, canvas_mix(high, low, 0.6f), low, low}, 4);
  float white = roll(s, 10, 45);
  uint32_t key = capl_rng_u32(&s->rng);
  float cell = s->height * roll(s, 0.2f, 0.5f), stretch = roll(s, 1.5f, 4);
  canvas_clouds(s->c, key, cell, stretch, 5, canvas_rgb(white, white, white * 0.9f));
  canvas_frame still = {.xx = 1, .yy = 1};
  float x = roll(s, 0, s->width), y = roll(s, 0, s->height * 0.4f), r = s->height * roll(s, 0.04f, 0.09f);
  canvas_spot(s->c, &still, x, y, 7 * r, 7 * r, 0, canvas_rgb(45, 38, 20), -1);
  disc(s, x, y, r, canvas_rgb(255, 248, 220), 0.95f);
}

/* The line of a ridge: sums of waves of ever higher pitch. */
static float ridge(uint32_t key, float x, float rough)
{
  float sum = 0, size = 140, strength = 1;
  for (int i = 0; i < 5; i++, size *= 0.5f, strength *= rough)
    canvas_noise_row(key + (uint32_t)i * 77u, x, 3.5f, 1, size, 1000, strength, &sum);
  return sum;
}

static void hill(scene *s, float base, float rise, canvas_colour colour, float texture)
{
  uint32_t key = capl_rng_u32(&s->rng);
  float rough = roll(s, 0.3f, 0.55f), step = s->width / 160;
  outline_begin(s->o, NULL);
  outline_to(s->o, -2, s->height + 2);
  for (int i = -1; i <= 161; i++) outline_to(s->o, (float)i * step, base - rise * ridge(key, (float)i * step, rough));
  outline_to(s->o, s->width + 2, s->height + 2);
  canvas_paint paint = canvas_flat(colour, 1, -1);
  float dark = -roll(s, 0.15f, 0.5f);
  for (int k = 0; k < 3; k++) paint.fade.level[k] = colour.level[k] * dark;
  paint.from = (canvas_point){0, base - rise};
  paint.along = (canvas_point){0, 1 / s->height};
  paint.noise_key = key, paint.noise = texture;
  paint.cell_x = roll(s, 3, 9), paint.cell_y = roll(s, 1.5f, 4);
  canvas_fill(s->c, s->o, &paint);
}

static void fir(scene *s, float x, float foot, float tall, canvas_colour colour)
{
  outline_begin(s->o, NULL);
  for (int i = 0; i < 3; i++) {
    float y = foot - tall * (0.15f + 0.28f * (float)i), wide = tall * (0.26f - 0.06f * (float)i);
    outline_begin(s->o, NULL);
    outline_to(s->o, x - wide, y);
    outline_to(s->o, x, y - tall * 0.42f);
    outline_to(s->o, x + wide, y);
    fill(s, canvas_mix(colour, canvas_rgb(0, 0, 0), 0.1f * (float)(2 - i)), 1);
  }
}

static void water(scene *s, float top)
{
  canvas_colour deep = roll_hsv(s, 0.5f, 0.62f, 0.6f, 0.7f, 0.3f, 0.6f);
  box(s, 0, top, s->width, s->height, deep, 0.9f);
  for (int i = 0; i < 40; i++) {
    float y = roll(s, top, s->height), x = roll(s, -20, s->width), depth = (y - top) / (s->height - top);
    float wide = (10 + 50 * depth) * roll(s, 0.3f, 1);
    box(s, x, y, x + wide, y + 0.6f + 1.5f * depth, canvas_mix(deep, canvas_rgb(230, 240, 250), roll(s, 0.2f, 0.8f)),
        0.5f);
  }
}

static void draw_hills(scene *s)
{
  sky(s);
  int n = random_between(&s->rng, 2, 4);
  float hue = roll(s, 0.2f, 0.42f), haze_hue = roll(s, 0.52f, 0.66f);
  for (int i = 0; i < n; i++) {
    float near = (float)(i + 1) / (float)n, base = s->height * (0.42f + 0.42f * near);
    canvas_colour far = canvas_hsv(haze_hue, 0.3f, 0.75f), own = canvas_hsv(hue, 0.5f, roll(s, 0.25f, 0.5f));
    if (i == n - 1 && random_chance(&s->rng, 0.35f)) water(s, base - s->height * 0.06f);
    else hill(s, base, s->height * (0.22f - 0.1f * near), canvas_mix(far, own, near), 6 + 22 * near);
  }
  int firs = random_chance(&s->rng, 0.5f) ? random_between(&s->rng, 3, 14) : 0;
  for (int i = 0; i < firs; i++) {
    float x = roll(s, 0, s->width), foot = s->height * roll(s, 0.8f, 1.05f), tall = s->height * roll(s, 0.15f, 0.5f);
    fir(s, x, foot, tall, canvas_hsv(hue + 0.03f, 0.6f, roll(s, 0.12f, 0.3f)));
  }
}

/* ---- towns ----------------------------------------------------------------------------------- */

static void house(scene *s, float x, float wide, float tall, float near)
{
  bool night = s->hue > 0.5f;
  float dark = night ? 0.12f : 0.45f;
  canvas_colour wall = roll_hsv(s, 0, 1, 0.05f, 0.3f, dark + 0.1f * near, dark + 0.35f * near);
  float top = s->height - tall;
  box(s, x, top, x + wide, s->height, wall, 1);
  box(s, x + 0.8f * wide, top, x + wide, s->height, canvas_rgb(0, 0, 0), 0.2f);
  float pane = roll(s, 3, 6), gap = pane * roll(s, 1.6f, 2.2f);
  for (float wy = top + gap; wy < s->height - pane; wy += gap)
    for (float wx = x + 0.6f * gap; wx < x + wide - pane; wx += gap) {
      bool lit = random_chance(&s->rng, night ? 0.4f : 0.15f);
      box(s, wx, wy, wx + pane, wy + pane * 1.2f, lit ? canvas_rgb(250, 225, 150) : canvas_rgb(40, 50, 65),
          lit ? 0.9f : 0.7f);
    }
}

static void draw_town(scene *s)
{
  sky(s);
  if (s->hue > 0.5f) box(s, 0, 0, s->width, s->height, canvas_rgb(10, 12, 40), 0.75f);
  for (int layer = 0; layer < 2; layer++)
    for (float x = roll(s, -40, 0); x < s->width;) {
      float wide = roll(s, 24, 70);
      house(s, x, wide, s->height * roll(s, 0.25f, layer ? 0.6f : 0.85f), 0.3f + 0.7f * (float)layer);
      x += wide + roll(s, -6, 18);
    }
}

/* ---- things close by ------------------------------------------------------------------------- */

static void leaf(scene *s, float x, float y, float size, canvas_colour colour)
{
  canvas_frame frame = canvas_turned(roll(s, 0, 6.28f), size, x, y);
  float belly = roll(s, 0.25f, 0.5f);
  outline_begin(s->o, &frame);
  outline_to(s->o, -1, 0);
  outline_curve(s->o, -0.4f, -belly * 1.3f, 0.4f, -belly, 1, 0);
  outline_curve(s->o, 0.4f, belly, -0.4f, belly * 1.3f, -1, 0);
  canvas_paint paint = canvas_flat(colour, 0.95f, -1);
  float light = roll(s, 0.15f, 0.45f);
  for (int k = 0; k < 3; k++) paint.fade.level[k] = -colour.level[k] * light;
  paint.from = (canvas_point){x, y};
  paint.along = (canvas_point){0.3f / size, 0.9f / size};
  canvas_fill(s->c, s->o, &paint);
  outline_begin(s->o, &frame);
  outline_band(s->o, (canvas_point[]){{-1, 0}, {0, 0.02f}, {0.95f, 0}}, 3, 1.2f, 0.3f);
  fill(s, canvas_mix(colour, canvas_rgb(255, 255, 230), 0.35f), 0.6f);
}

static void draw_leaves(scene *s)
{
  canvas_colour ground = roll_colour(s, 0.05f, 0.5f, 0.25f);
  canvas_gradient(s->c, (canvas_colour[]){ground, canvas_mix(ground, canvas_rgb(0, 0, 0), 0.5f)}, 2);
  canvas_clouds(s->c, capl_rng_u32(&s->rng), 30, 1, 4, canvas_rgb(20, 20, 15));
  int n = (int)(s->width * s->height / 620);
  float size = roll(s, 9, 24);
  for (int i = 0; i < n; i++) {
    float depth = (float)i / (float)n;
    canvas_point at = roll_point(s, 0);
    float own = size * roll(s, 0.6f, 1.4f);
    leaf(s, at.x, at.y, own, roll_colour(s, 0.06f, 0.55f, 0.3f + 0.4f * depth));
  }
}

static void flower(scene *s, float x, float y, float size)
{
  int petals = random_between(&s->rng, 5, 9);
  canvas_colour colour = roll_hsv(s, s->hue + 0.38f, s->hue + 0.62f, 0.3f, 0.8f, 0.7f, 1);
  float turn = roll(s, 0, 6.28f);
  for (int i = 0; i < petals; i++) {
    canvas_frame frame = canvas_turned(turn + 6.2831853f * (float)i / (float)petals, size, x, y);
    outline_begin(s->o, &frame);
    outline_ellipse(s->o, 0.58f, 0, 0.45f, 0.24f);
    fill(s, canvas_mix(colour, canvas_rgb(255, 255, 255), 0.25f * (float)(i % 2)), 0.9f);
  }
  disc(s, x, y, 0.2f * size, canvas_rgb(240, 200, 70), 1);
}

static void draw_meadow(scene *s)
{
  s->hue = roll(s, 0.2f, 0.38f);
  canvas_gradient(s->c, (canvas_colour[]){canvas_hsv(s->hue, 0.4f, 0.75f), canvas_hsv(s->hue + 0.02f, 0.6f, 0.35f)}, 2);
  canvas_clouds(s->c, capl_rng_u32(&s->rng), 60, 1, 4, canvas_rgb(25, 30, 15));
  for (int i = 0; i < 120; i++) {
    float x = roll(s, 0, s->width), y = roll(s, 0.2f, 1.1f) * s->height, tall = roll(s, 10, 45),
    lean = roll(s, -12, 12);
    outline_begin(s->o, NULL);
    outline_band(s->o, (canvas_point[]){{x, y}, {x + lean * 0.3f, y - tall * 0.6f}, {x + lean, y - tall}}, 3,
                 roll(s, 1.2f, 3), 0.2f);
    fill(s, roll_colour(s, 0.04f, 0.6f, 0.5f), 0.8f);
  }
  int n = random_between(&s->rng, 5, 16);
  for (int i = 0; i < n; i++) {
    canvas_point at = roll_point(s, 0.1f);
    flower(s, at.x, at.y, roll(s, 8, 30));
  }
}

static void draw_lights(scene *s)
{
  canvas_colour high = roll_colour(s, 0.1f, 0.6f, 0.15f), low = roll_colour(s, 0.1f, 0.6f, 0.35f);
  canvas_gradient(s->c, (canvas_colour[]){high, low}, 2);
  canvas_clouds(s->c, capl_rng_u32(&s->rng), 80, 1, 3, canvas_rgb(14, 14, 18));
  canvas_frame still = {.xx = 1, .yy = 1};
  int n = random_between(&s->rng, 25, 70);
  for (int i = 0; i < n; i++) {
    float x = roll(s, 0, s->width), y = roll(s, 0, s->height), r = roll(s, 4, 24), strong = roll(s, 0.15f, 0.75f);
    canvas_colour colour = roll_hsv(s, s->hue - 0.2f, s->hue + 0.2f, 0.1f, 0.8f, 0.95f, 1);
    for (int k = 0; k < 3; k++) colour.level[k] *= strong;
    canvas_spot(s->c, &still, x, y, r, r, roll(s, 0.3f, 0.93f), colour, -1);
  }
}

/* ---- patterns -------------------------------------------------------------------------------- */

static void draw_marble(scene *s)
{
  canvas_colour a = roll_colour(s, 0.1f, 0.4f, 0.75f), b = roll_colour(s, 0.3f, 0.5f, 0.4f), amount;
  canvas_gradient(s->c, (canvas_colour[]){a, b, a}, 3);
  float stretch = roll(s, 0.4f, 5), cell = roll(s, 25, 90);
  for (int k = 0; k < 3; k++) amount.level[k] = (b.level[k] - a.level[k]) * 0.7f;
  canvas_clouds(s->c, capl_rng_u32(&s->rng), cell, stretch, 6, amount);
  canvas_clouds(s->c, capl_rng_u32(&s->rng), 7, 1 + 0.3f * stretch, 3, canvas_rgb(14, 13, 12));
  for (int k = 0; k < 3; k++) amount.level[k] = roll(s, -40, 40);
  canvas_clouds(s->c, capl_rng_u32(&s->rng), cell * 0.7f, 1 / stretch, 5, amount);
}

/* A net of curves between random points. */
static void net(scene *s, int n)
{
  canvas_point from = roll_point(s, 0);
  for (int i = 0; i < n; i++) {
    canvas_point line[15], a = roll_point(s, 0), b = roll_point(s, 0), to = roll_point(s, 0);
    outline_begin(s->o, NULL);
    outline_to(s->o, from.x, from.y);
    outline_curve(s->o, a.x, a.y, b.x, b.y, to.x, to.y);
    for (int k = 0; k < 15; k++) line[k] = s->o->point[k];
    outline_begin(s->o, NULL);
    outline_band(s->o, line, 15, roll(s, 0.8f, 3.5f), 0.6f);
    canvas_colour colour = canvas_hsv(roll(s, 0, 1), 0.7f, 0.95f);
    fill(s, colour, roll(s, 0.25f, 0.8f));
    from = to;
  }
}

static void spiral(scene *s)
{
  canvas_point line[90];
  float x = roll(s, 0, s->width), y = roll(s, 0, s->height), grow = roll(s, 0.25f, 0.7f), turn = roll(s, 0, 6.28f);
  for (int i = 0; i < 90; i++) {
    double angle = (double)turn + 0.28 * i;
    line[i] = (canvas_point){x + grow * (float)i * (float)portable_cos(angle),
                             y + grow * (float)i * (float)portable_sin(angle)};
  }
  outline_begin(s->o, NULL);
  outline_band(s->o, line, 90, roll(s, 1, 2.5f), 1);
  fill(s, canvas_hsv(roll(s, 0, 1), 0.6f, 0.9f), 0.6f);
}

static void draw_abstract(scene *s)
{
  canvas_colour dark = roll_colour(s, 0.5f, 0.5f, 0.15f);
  canvas_gradient(s->c, (canvas_colour[]){dark, roll_colour(s, 0.5f, 0.5f, 0.2f)}, 2);
  int n = (int)(s->width * s->height / 600);
  for (int i = 0; i < n; i++) {
    float x = roll(s, 0, s->width), y = roll(s, 0, s->height), r = roll(s, 4, 34), alpha = roll(s, 0.12f, 0.6f);
    canvas_colour colour = roll_hsv(s, 0, 1, 0.3f, 0.9f, 0.4f, 1);
    int corners = random_between(&s->rng, 2, 7);
    if (corners == 2) disc(s, x, y, r, colour, alpha);
    else shard(s, x, y, r, corners, colour, alpha);
  }
  net(s, random_between(&s->rng, 4, 12));
  for (int i = random_between(&s->rng, 1, 3); i > 0; i--) spiral(s);
  for (int i = 0; i < 60; i++) {
    canvas_point at = roll_point(s, 0);
    float r = roll(s, 0.6f, 2);
    disc(s, at.x, at.y, r, canvas_hsv(roll(s, 0, 1), 0.4f, 1), 0.8f);
  }
}

/* Stripes or checks of two colours under soft light. */
static void draw_cloth(scene *s)
{
  canvas_colour a = roll_colour(s, 0.05f, 0.4f, 0.7f), b = roll_colour(s, 0.3f, 0.5f, 0.5f);
  canvas_gradient(s->c, (canvas_colour[]){a, canvas_mix(a, b, 0.3f)}, 2);
  float wide = roll(s, 8, 30), turn = roll(s, 0, 3.14f), far = s->width + s->height;
  for (int pass = random_between(&s->rng, 1, 2); pass > 0; pass--, turn += 1.5708f)
    for (float at = -far; at < far; at += 2 * wide) {
      canvas_frame frame = canvas_turned(turn, 1, s->width / 2, s->height / 2);
      outline_begin(s->o, &frame);
      outline_to(s->o, at, -far), outline_to(s->o, at + wide, -far), outline_to(s->o, at + wide, far),
          outline_to(s->o, at, far);
      fill(s, b, 0.5f);
    }
  canvas_clouds(s->c, capl_rng_u32(&s->rng), 70, 1, 3, canvas_rgb(30, 30, 30));
  canvas_clouds(s->c, capl_rng_u32(&s->rng), 3, 1, 1, canvas_rgb(10, 10, 10));
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void (*const kinds[])(scene *) = {draw_hills,  draw_hills,  draw_town,   draw_leaves, draw_meadow,
                                         draw_lights, draw_marble, draw_marble, draw_abstract, draw_cloth};

void backdrop_draw(canvas *c, uint64_t seed, uint32_t id, outline *o)
{
  scene s = {.c = c, .o = o, .width = (float)c->width, .height = (float)c->height};
  capl_rng_init(&s.rng, seed, id, 0, CAPL_STREAM_BACKDROP);
  s.hue = roll(&s, 0, 1);
  kinds[capl_rng_below(&s.rng, sizeof kinds / sizeof kinds[0])](&s);
  uint32_t key = capl_rng_u32(&s.rng);
  float vignette = -roll(&s, 0, 50);
  canvas_frame still = {.xx = 1, .yy = 1};
  canvas_spot(c, &still, s.width / 2, s.height / 2, s.width, s.height, 0, canvas_rgb(-vignette, -vignette, -vignette),
              -1);
  float grain = roll(&s, 1, 7);
  canvas_grain(c, key, random_chance(&s.rng, 0.1f) ? 20 : grain);
}
