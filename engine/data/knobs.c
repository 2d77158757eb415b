/* knobs.c -- the list of numbers in the augmentation's options, and what lies between two sets of them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/schedule.h"

#define RANGE(name, idle) {#name, CAPL_KNOB_RANGE, offsetof(capl_augment_options, name), idle}
#define SHARE(name) {#name, CAPL_KNOB_SHARE, offsetof(capl_augment_options, name), 0}

static const capl_knob knobs[] = {
  RANGE(rotate, 0), RANGE(scale, 1), RANGE(translate_x, 0), RANGE(translate_y, 0), RANGE(shear, 0),
  RANGE(contrast, 1), RANGE(brightness, 1), RANGE(noise, 0), SHARE(invert),
  SHARE(flip), SHARE(flip_vertical), RANGE(crop, 1), RANGE(crop_aspect, 1), RANGE(perspective, 0), RANGE(elastic, 0),
  RANGE(gamma, 1), RANGE(saturation, 1), RANGE(hue, 0), RANGE(blur, 0.05f), RANGE(erase, 0), SHARE(mixup.p), SHARE(cutmix.p),
};
enum { N_KNOBS = sizeof knobs / sizeof *knobs };

const capl_knob *capl_augment_knob(int i)
{
  return i >= 0 && i < N_KNOBS ? &knobs[i] : NULL;
}

/* a at share 0, b at share 1, exactly. */
static float between(float a, float b, double share)
{
  return share <= 0 ? a : share >= 1 ? b : (float)((double)a + ((double)b - (double)a) * share);
}

static bool is_off(capl_range r)
{
  return r.lo == 0 && r.hi == 0;
}

static capl_range range_between(const capl_knob *knob, capl_range a, capl_range b, double share)
{
  if (is_off(a) && is_off(b)) return a;
  if (share <= 0) return a;
  if (share >= 1) return b;
  capl_range idle = {.lo = knob->idle, .hi = knob->idle};
  if (is_off(a)) a = idle;
  if (is_off(b)) b = idle;
  return (capl_range){.lo = between(a.lo, b.lo, share), .hi = between(a.hi, b.hi, share)};
}

static void move_knob(const capl_knob *knob, const void *from, const void *to, double share, void *out)
{
  size_t at = knob->offset;
  const char *a = (const char *)from + at, *b = (const char *)to + at;
  if (knob->kind == CAPL_KNOB_SHARE) {
    *(float *)((char *)out + at) = between(*(const float *)a, *(const float *)b, share);
  } else {
    *(capl_range *)((char *)out + at) = range_between(knob, *(const capl_range *)a, *(const capl_range *)b, share);
  }
}

/* What is no number (such as the level that fills corners) is that of the stage to come, if it augments. */
void capl_augment_between(const capl_augment_options *from, const capl_augment_options *to, double share,
                          capl_augment_options *out)
{
  static const capl_augment_options none = {0};
  capl_augment_options result = to && (share > 0 || !from) ? *to : from ? *from : none;
  for (int i = 0; i < N_KNOBS; i++) move_knob(&knobs[i], from ? from : &none, to ? to : &none, share, &result);
  *out = result;
}
