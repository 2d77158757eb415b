/* augment_fields.c -- moves masks, points and boxes with their image.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "data/augment_rows.h"

typedef capl_augment_draw draw;

/* ---- the way forward ------------------------------------------------------------------------- */

/* From source to output: the adjoint of the draw's matrix, and the sign of what is before the horizon. */
typedef struct {
  const draw *draw;
  int width, height;
  double m[9], sign;
} way;

static way forward_of(const draw *d, int width, int height)
{
  const double *a = d->map, *b = d->map + 3, *c = d->horizon;
  way w = {.draw = d, .width = width, .height = height,
           .m = {b[1] * c[2] - b[2] * c[1], a[2] * c[1] - a[1] * c[2], a[1] * b[2] - a[2] * b[1],
                 b[2] * c[0] - b[0] * c[2], a[0] * c[2] - a[2] * c[0], a[2] * b[0] - a[0] * b[2],
                 b[0] * c[1] - b[1] * c[0], a[1] * c[0] - a[0] * c[1], a[0] * b[1] - a[1] * b[0]}};
  w.sign = a[0] * w.m[0] + a[1] * w.m[3] + a[2] * w.m[6];
  return w;
}

static bool straight(const way *w, double x, double y, double *out_x, double *out_y)
{
  const double *m = w->m;
  double z = m[6] * x + m[7] * y + m[8];
  *out_x = (m[0] * x + m[1] * y + m[2]) / z;
  *out_y = (m[3] * x + m[4] * y + m[5]) / z;
  return z * w->sign > 0;
}

/* Pixel centres. What elastic adds depends on the output, so its place is found by trying: a lattice so coarse bends
** slowly, and each try is nearer. */
static bool forward(const way *w, double x, double y, double *out_x, double *out_y)
{
  enum { TRIES = 50 };
  if (!straight(w, x, y, out_x, out_y)) return false;
  for (int i = 0; w->draw->elastic > 0 && i < TRIES; i++) {
    double was_x = *out_x, was_y = *out_y, by_x, by_y;
    capl_augment_bent_by(w->draw, w->height, w->width, was_x, was_y, &by_x, &by_y);
    if (!straight(w, x - by_x, y - by_y, out_x, out_y)) return false;
    *out_x = 0.5 * (*out_x + was_x); /* half a step: a lattice that folds would swing */
    *out_y = 0.5 * (*out_y + was_y);
    if (fabs(*out_x - was_x) + fabs(*out_y - was_y) < 1e-4) break;
  }
  return true;
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* What each class becomes when it is mirrored. */
static void list_classes(const capl_augment_options *options, uint8_t classes[256])
{
  const capl_swaps *swaps = &options->class_swaps;
  for (int i = 0; i < 256; i++) classes[i] = (uint8_t)i;
  for (int i = 0; i < swaps->count; i++) {
    classes[swaps->pair[i][0]] = swaps->pair[i][1];
    classes[swaps->pair[i][1]] = swaps->pair[i][0];
  }
}

/* Of one channel, so it has room where the image, which is done, had its own. */
static void move_mask(const capl_augment_options *options, const draw *d, const uint8_t *in, capl_augment_scratch *s,
                      uint8_t *out)
{
  size_t n = (size_t)s->height * (size_t)s->width;
  if (!d->moves) {
    memcpy(out, in, n);
    return;
  }
  if (d->mirrored && options->class_swaps.count > 0) {
    uint8_t classes[256];
    list_classes(options, classes);
    s->kernels->look_up(classes, in, n, s->filtered);
    in = s->filtered;
  }
  augment_job job = augment_job_of(d, s);
  job.channels = 1;
  job.stride = s->stride / (size_t)s->channels;
  augment_pad(in, s->height, s->width, 1, options->fill ? options->mask_fill : -1, job.stride, s->padded);
  for (int y = 0; y < s->height; y += AUGMENT_BAND) {
    int rows = s->height - y < AUGMENT_BAND ? s->height - y : AUGMENT_BAND;
    s->kernels->mask(&job, y, rows, out + (size_t)y * (size_t)s->width);
  }
}

/* Of two masks there can be one: mixup keeps that of the larger share, cutmix shows both. */
static void make_mask(const capl_augment_options *options, const draw *d, const uint8_t *in, const draw *other_draw,
                      const uint8_t *other, capl_augment_scratch *s, uint8_t *out)
{
  size_t w = (size_t)s->width;
  if (other && d->mixing == CAPL_MIXUP && d->share < AUGMENT_SHARE / 2) {
    move_mask(options, other_draw, other, s, out);
    return;
  }
  move_mask(options, d, in, s, out);
  if (!other || d->mixing != CAPL_CUTMIX) return;
  move_mask(options, other_draw, other, s, s->mixed);
  for (int y = d->cut.y0; y < d->cut.y1; y++) {
    size_t at = (size_t)y * w + (size_t)d->cut.x0;
    memcpy(out + at, s->mixed + at, (size_t)(d->cut.x1 - d->cut.x0));
  }
}

/* ---- points and boxes ------------------------------------------------------------------------ */

static bool shows(const way *w, double x, double y)
{
  const capl_area *e = &w->draw->erased;
  if (!(x >= 0 && x < w->width && y >= 0 && y < w->height)) return false;
  return !(x >= e->x0 && x < e->x1 && y >= e->y0 && y < e->y1);
}

static int swapped(const capl_swaps *swaps, bool mirrored, int i)
{
  for (int k = 0; mirrored && k < swaps->count; k++) {
    if (swaps->pair[k][0] == i) return swaps->pair[k][1];
    if (swaps->pair[k][1] == i) return swaps->pair[k][0];
  }
  return i;
}

/* Edges of pixels are half a pixel from their centres, and points are given in edges. */
static bool forward_edges(const way *w, const float *in, double *x, double *y)
{
  bool fine = forward(w, in[0] - 0.5, in[1] - 0.5, x, y);
  *x += 0.5;
  *y += 0.5;
  return fine;
}

static void move_points(const capl_augment_options *options, const way *w, const float *in, int count, float *out)
{
  for (int i = 0; i < count; i++) {
    int to = swapped(&options->point_swaps, w->draw->mirrored, i);
    double x, y;
    bool fine = forward_edges(w, in + 3 * i, &x, &y);
    if (to >= count) to = i;
    out[3 * to] = fine ? (float)x : 0;
    out[3 * to + 1] = fine ? (float)y : 0;
    out[3 * to + 2] = in[3 * i + 2] != 0 && fine && shows(w, x, y) ? 1 : 0;
  }
}

static double within(double value, double most)
{
  return value < 0 ? 0 : value > most ? most : value;
}

/* left, top, right, bottom of the four corners; false if one lies behind the horizon. */
static bool bounds_of(const way *w, const float box[4], double bounds[4])
{
  bounds[0] = bounds[1] = INFINITY;
  bounds[2] = bounds[3] = -INFINITY;
  for (int k = 0; k < 4; k++) {
    const float corner[2] = {box[k % 2 * 2], box[k / 2 * 2 + 1]};
    double x, y;
    if (!forward_edges(w, corner, &x, &y)) return false;
    bounds[0] = fmin(bounds[0], x), bounds[1] = fmin(bounds[1], y);
    bounds[2] = fmax(bounds[2], x), bounds[3] = fmax(bounds[3], y);
  }
  return true;
}

static void move_box(const capl_augment_options *options, const way *w, const float in[5], float out[5])
{
  double b[4];
  memset(out, 0, 4 * sizeof *out);
  out[4] = -1;
  if (in[4] < 0 || !bounds_of(w, in, b)) return;
  double whole = (b[2] - b[0]) * (b[3] - b[1]);
  for (int k = 0; k < 4; k++) out[k] = (float)within(b[k], k % 2 ? w->height : w->width);
  double left = (double)(out[2] - out[0]) * (out[3] - out[1]);
  if (left > 0 && left >= CAPL_BOX_LEFT * whole)
    out[4] = (float)swapped(&options->class_swaps, w->draw->mirrored, (int)in[4]);
}

/* ---- all fields ------------------------------------------------------------------------------ */

void augment_fields(const capl_augment_options *options, const capl_augment_layout *layout, const draw *d,
                    const capl_sample *in, const draw *partner_draw, const capl_sample *partner,
                    capl_augment_scratch *s, const capl_sample *out)
{
  way w = forward_of(d, s->width, s->height);
  for (int i = 0; i < layout->n_fields; i++) {
    const capl_field *field = &layout->field[i];
    const void *from = in->field[i];
    void *to = out->field[i];
    if (!from || !to) continue;
    if (field->kind == CAPL_FIELD_MASK)
      make_mask(options, d, from, partner_draw, partner ? partner->field[i] : NULL, s, to);
    else if (field->kind == CAPL_FIELD_POINTS) move_points(options, &w, from, field->size[0], to);
    else if (field->kind == CAPL_FIELD_VALUES) memcpy(to, from, capl_field_bytes(field));
    else for (int k = 0; k < field->size[0]; k++)
      move_box(options, &w, (const float *)from + 5 * k, (float *)to + 5 * k);
  }
}
