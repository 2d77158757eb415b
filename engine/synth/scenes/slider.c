/* slider.c -- slider captchas as a source: samples, labels, sizes.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "capl/synth.h"
#include "synth/scenes/backdrop.h"
#include "synth/identity.h"
#include "data/image.h"
#include "data/resize.h"
#include "data/hash64.h"
#include "synth/scenes/scene.h"
#include "synth/scenes/slider.h"
#include "synth/portable_math.h"
#include "data/streams.h"

enum { POINTS, BOXES, ANGLE, FACTS };

typedef struct {
  scene_source scene;
  capl_slider_options options;
} slider_source;

/* How the canvas comes into the sample. */
typedef struct {
  resize_area area;
  float per_x, per_y; /* sample px per canvas px */
} fitting;

static fitting fit(const slider_plan *plan, const capl_source *s)
{
  fitting f = {.area = resize_place(&s->letterbox, plan->width, plan->height, s->width, s->height)};
  f.per_x = (float)f.area.width / (float)plan->width, f.per_y = (float)f.area.height / (float)plan->height;
  return f;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static void write_place(const slider_plan *plan, const slider_place *at, const fitting *f, float class, float point[3],
                        float box[5])
{
  if (point) {
    canvas_point centre = slider_centre(plan, at);
    point[0] = (float)f->area.left + f->per_x * centre.x;
    point[1] = (float)f->area.top + f->per_y * centre.y;
    point[2] = 1;
  }
  if (box) {
    slider_box(plan, at, box);
    for (int i = 0; i < 4; i += 2) box[i] = (float)f->area.left + f->per_x * box[i];
    for (int i = 1; i < 4; i += 2) box[i] = (float)f->area.top + f->per_y * box[i];
    box[4] = class;
  }
}

static void write_labels(const slider_plan *plan, const fitting *f, const capl_sample *to)
{
  float *points = to->field[POINTS], *boxes = to->field[BOXES], *angle = to->field[ANGLE], *facts = to->field[FACTS];
  const slider_place *place[2 + CAPL_SLIDER_DECOYS] = {&plan->gap, &plan->piece};
  for (int i = 0; i < plan->n_decoys; i++) place[2 + i] = &plan->decoy[i];
  for (int i = 0; i < 2 + CAPL_SLIDER_DECOYS; i++) {
    float *point = points ? points + 3 * i : NULL, *box = boxes ? boxes + 5 * i : NULL;
    if (point) memset(point, 0, 3 * sizeof *point);
    if (box) memset(box, 0, 5 * sizeof *box), box[4] = -1;
    if (place[i]) write_place(plan, place[i], f, (float)(i < 2 ? i : 2), point, box);
  }
  if (angle) angle[0] = plan->gap.radians * (float)(180 / STEADY_PI);
  if (facts) {
    facts[0] = (float)plan->background;
    facts[1] = (float)plan->shape.shape;
    facts[2] = (float)plan->size;
    facts[3] = (float)plan->confusions;
  }
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* The picture lies behind the canvas in the thread's memory when it has another size than the sample. Then it is fitted
** as a model file fits one. */
static capl_status write_pixels(const slider_source *s, const slider_plan *plan, capl_image *scratch, uint8_t *pixels)
{
  const capl_source *base = &s->scene.base;
  canvas c;
  outline o;
  int W = plan->width, H = plan->height;
  CAPL_TRY(capl_image_resize(scratch, (int)canvas_bytes(W, H) + 3 * W * H, 1, 1));
  uint8_t *drawn = scratch->pixels + canvas_bytes(W, H);
  CAPL_TRY(canvas_open(&c, W, H, NULL, scratch));
  if (plan->style == CAPL_SLIDER_OUTLINE) texture_draw(&c, s->scene.seed, plan->background, &o);
  else backdrop_draw(&c, s->scene.seed, plan->background, &o);
  slider_draw(plan, &c);
  if (!base->letterbox.on) return canvas_write(&c, base->channels, pixels), CAPL_OK;
  canvas_write(&c, base->channels, drawn);
  return resize_fit(&base->letterbox, drawn, W, H, base->channels, base->width, base->height, pixels);
}

static capl_status slider_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  const slider_source *s = (const slider_source *)source;
  capl_rng rng;
  slider_plan plan;
  scene_rng(&s->scene, what, CAPL_STREAM_SLIDER, &rng);
  slider_roll(&plan, &s->options, s->scene.seed, &rng);
  fitting f = fit(&plan, source);
  write_labels(&plan, &f, to);
  return to->pixels ? write_pixels(s, &plan, scratch, to->pixels) : CAPL_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static capl_status slider_identity(capl_source *source, uint64_t *place, uint64_t *content)
{
  const slider_source *s = (const slider_source *)source;
  const capl_slider_options *o = &s->options;
  uint32_t of[] = {o->mixed, o->background_first, o->background_count, (uint32_t)o->size_lo, (uint32_t)o->size_hi,
                   o->shapes, o->style};
  *place = identity_of_form(hash64_bytes(hash64_text(s->scene.seed, "slider"), of, sizeof of), source);
  return identity_of_drawn(source, *place, content);
}

static void slider_close(capl_source *source)
{
  free(source);
}

static capl_slider_options with_defaults(const capl_slider_options *given)
{
  capl_slider_options o = given ? *given : (capl_slider_options){0};
  if (!o.width) o.width = o.mixed ? 512 : 320;
  if (!o.height) o.height = o.mixed ? 256 : 160;
  if (!o.background_count) o.background_count = 2000;
  if (!o.size_lo) o.size_lo = 46;
  if (!o.size_hi) o.size_hi = o.size_lo > 64 ? o.size_lo : 64;
  return o;
}

static capl_status check(const capl_slider_options *o)
{
  if (o->width < 240 || o->width > 2048)
    return CAPL_FAIL(CAPL_EVALUE, "a slider captcha is 240..2048 px wide, not %d", o->width);
  if (o->height < 120 || o->height > 2048)
    return CAPL_FAIL(CAPL_EVALUE, "a slider captcha is 120..2048 px high, not %d", o->height);
  if (o->size_lo < 32 || o->size_hi > 96 || (o->size_lo + 1) / 2 > o->size_hi / 2)
    return CAPL_FAIL(CAPL_EVALUE,
                     "the size of a piece is an even number of %d..%d px; there is none, or it is not within 32..96",
                     o->size_lo, o->size_hi);
  if (o->shapes >> CAPL_SLIDER_SHAPES)
    return CAPL_FAIL(CAPL_EVALUE, "there are %d shapes; bits 0x%x name others", CAPL_SLIDER_SHAPES, o->shapes);
  if (!capl_slider_style_name((int)o->style))
    return CAPL_FAIL(CAPL_EVALUE, "there are %d styles of slider captchas, not %d", CAPL_SLIDER_STYLES,
                     (int)o->style + 1);
  if ((uint64_t)o->background_first + o->background_count <= 1 << 24) return CAPL_OK; /* numbers that a float holds */
  return CAPL_FAIL(CAPL_EVALUE, "backgrounds are numbered below %d; %u more than %u are too many", 1 << 24,
                   o->background_count, o->background_first);
}

capl_status capl_source_slider_new(const capl_slider_options *options, const capl_scene_set *set, capl_source **source)
{
  static const capl_source_ops ops = {.read = slider_read, .close = slider_close, .identity = slider_identity};
  capl_slider_options o = with_defaults(options);
  CAPL_TRY(check(&o));
  slider_source *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a source of slider captchas");
  s->options = o;
  capl_status status = scene_begin(&s->scene, &ops, set);
  if (status != CAPL_OK) return free(s), status;
  capl_source *base = &s->scene.base;
  base->width = o.width, base->height = o.height;
  base->letterbox = (capl_letterbox){.on = o.mixed, .fill = {255, 255, 255}};
  scene_field(base, "points", CAPL_FIELD_POINTS, 2, 2 + CAPL_SLIDER_DECOYS, 3);
  scene_field(base, "boxes", CAPL_FIELD_BOXES, 2, 2 + CAPL_SLIDER_DECOYS, 5);
  scene_field(base, "angle", CAPL_FIELD_VALUES, 1, 1, 0);
  scene_field(base, "facts", CAPL_FIELD_VALUES, 1, 4, 0);
  *source = base;
  return CAPL_OK;
}

const char *capl_slider_shape_name(int i)
{
#define X(name, text, shaded, outline) text,
  static const char *const names[] = {CAPL_SLIDER_SHAPE_MAP(X)};
#undef X
  return i >= 0 && i < CAPL_SLIDER_SHAPES ? names[i] : NULL;
}

const char *capl_slider_confusion_name(int i)
{
#define X(name, text, share) text,
  static const char *const names[] = {CAPL_SLIDER_CONFUSION_MAP(X)};
#undef X
  return i >= 0 && i < CAPL_SLIDER_CONFUSIONS ? names[i] : NULL;
}

const char *capl_slider_style_name(int i)
{
#define X(name, text) text,
  static const char *const names[] = {CAPL_SLIDER_STYLE_MAP(X)};
#undef X
  return i >= 0 && i < CAPL_SLIDER_STYLES ? names[i] : NULL;
}
