/* knobs.c -- the numbers in the augmentation's options, and what lies between two sets of them.
**
** Ops are those of augment_options.c; what else can move stands here.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/schedule.h"
#include "data/augment_options.h"

static const capl_knob others[] = {
  {"crop_aspect", CAPL_KNOB_RANGE, offsetof(capl_augment_options, crop_aspect), {3.0f / 4, 4.0f / 3}, -1},
  {"mixup", CAPL_KNOB_SHARE, offsetof(capl_augment_options, mixup.p), {0, 0}, -1},
  {"cutmix", CAPL_KNOB_SHARE, offsetof(capl_augment_options, cutmix.p), {0, 0}, -1},
};
enum { OTHERS = sizeof others / sizeof *others, OPS = CAPL_AUGMENT_MIX }; /* the last op is mixing */

bool capl_augment_knob(int i, capl_knob *knob)
{
  if (i < 0 || i >= OPS + OTHERS) return false;
  if (i >= OPS) {
    *knob = others[i - OPS];
    return true;
  }
  const op_row *row = &augment_ops[i];
  bool ranged = row->kind == OP_RANGE;
  *knob = (capl_knob){row->name, ranged ? CAPL_KNOB_RANGE : CAPL_KNOB_SHARE, row->offset, {row->idle, row->idle},
                      ranged ? i : -1};
  return true;
}

/* a at share 0, b at share 1, exactly. */
static float between(float a, float b, double share)
{
  return share <= 0 ? a : share >= 1 ? b : (float)((double)a + ((double)b - (double)a) * share);
}

static capl_range range_of(const capl_knob *knob, const capl_augment_options *options)
{
  return *(const capl_range *)((const char *)options + knob->offset);
}

static capl_range range_between(const capl_knob *knob, capl_range a, capl_range b, double share)
{
  if (share <= 0 || (!augment_is_on(a) && !augment_is_on(b))) return a;
  if (share >= 1) return b;
  if (!augment_is_on(a)) a = knob->idle;
  if (!augment_is_on(b)) b = knob->idle;
  return (capl_range){between(a.lo, b.lo, share), between(a.hi, b.hi, share)};
}

static void move_range(const capl_knob *knob, const capl_augment_options *from, const capl_augment_options *to,
                       double share, capl_augment_options *out)
{
  capl_range a = range_of(knob, from), b = range_of(knob, to);
  *(capl_range *)((char *)out + knob->offset) = range_between(knob, a, b, share);
  if (knob->op < 0) return;
  float skips = augment_is_on(a) ? from->skip[knob->op] : to->skip[knob->op];
  float will_skip = augment_is_on(b) ? to->skip[knob->op] : from->skip[knob->op];
  out->skip[knob->op] = between(skips, will_skip, share);
  out->coin[knob->op] = augment_is_on(b) && share > 0 ? to->coin[knob->op] : from->coin[knob->op];
}

static void move_share(const capl_knob *knob, const capl_augment_options *from, const capl_augment_options *to,
                       double share, capl_augment_options *out)
{
  float a = *(const float *)((const char *)from + knob->offset), b = *(const float *)((const char *)to + knob->offset);
  *(float *)((char *)out + knob->offset) = between(a, b, share);
}

/* What belongs to an op that the stage to come has switched off stays as it was while the op fades. */
static void keep_fading(const capl_augment_options *from, capl_augment_options *rest)
{
  if (rest->mixup.p == 0) rest->mixup.alpha = from->mixup.alpha;
  if (rest->cutmix.p == 0) rest->cutmix.alpha = from->cutmix.alpha;
  if (!augment_is_on(rest->blur)) rest->blur_size = from->blur_size;
  if (!augment_is_on(rest->erase)) rest->erase_value = from->erase_value;
  if (rest->flip > 0 || rest->flip_vertical > 0) return;
  rest->flip_text = from->flip_text;
  rest->class_swaps = from->class_swaps;
  rest->point_swaps = from->point_swaps;
}

/* What is no number, such as the level that fills corners, is that of the stage to come, if it augments. */
static capl_augment_options rest_of(const capl_augment_options *from, const capl_augment_options *to, double share)
{
  capl_augment_options rest = to && (share > 0 || !from) ? *to : from ? *from : (capl_augment_options){0};
  if (from) keep_fading(from, &rest);
  return rest;
}

void capl_augment_between(const capl_augment_options *from, const capl_augment_options *to, double share,
                          capl_augment_options *out)
{
  static const capl_augment_options none = {0};
  capl_augment_options result = rest_of(from, to, share);
  capl_knob knob;
  for (int i = 0; capl_augment_knob(i, &knob); i++) {
    if (knob.kind == CAPL_KNOB_RANGE) move_range(&knob, from ? from : &none, to ? to : &none, share, &result);
    else move_share(&knob, from ? from : &none, to ? to : &none, share, &result);
  }
  *out = result;
}
