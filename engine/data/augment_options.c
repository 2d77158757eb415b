/* augment_options.c -- the list of augmentation ops, and what their options may be.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/augment_options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/convert.h"
#include "data/source.h"

#define RANGE(name, least, most, idle) {#name, OP_RANGE, offsetof(capl_augment_options, name), least, most, idle}
#define PROBABILITY(name) {#name, OP_PROBABILITY, offsetof(capl_augment_options, name), 0, 1, 0}

/* ORDER capl_augment_op: an op's place is the number of its random stream. */
const op_row augment_ops[CAPL_AUGMENT_OPS] = {
  RANGE(rotate, -360, 360, 0),
  RANGE(scale, 0.05f, 20, 1),
  RANGE(translate_x, -1, 1, 0),
  RANGE(translate_y, -1, 1, 0),
  RANGE(shear, -80, 80, 0),
  RANGE(contrast, 0, 100, 1),
  RANGE(brightness, 0, 100, 1),
  RANGE(noise, 0, 255, 0),
  PROBABILITY(invert),
  PROBABILITY(flip),
  PROBABILITY(flip_vertical),
  RANGE(crop, 0.01f, 1, 1),
  RANGE(perspective, 0, 0.95f, 0),
  RANGE(elastic, 0, 1000, 0),
  RANGE(gamma, 0.05f, 20, 1),
  RANGE(saturation, 0, 100, 1),
  RANGE(hue, -0.5f, 0.5f, 0),
  RANGE(blur, 0.05f, 10, 0),
  RANGE(erase, 0, 1, 0),
  {"mix", OP_MIX, 0, 0, 1, 0},
};
_Static_assert(CAPL_AUGMENT_MIX == CAPL_AUGMENT_OPS - 1 && CAPL_AUGMENT_INVERT == 8,
               "the list has the order of the ops");

capl_range augment_range(const capl_augment_options *options, capl_augment_op op)
{
  return *(const capl_range *)((const char *)options + augment_ops[op].offset);
}

float augment_probability(const capl_augment_options *options, capl_augment_op op)
{
  return *(const float *)((const char *)options + augment_ops[op].offset);
}

/* ---- each op --------------------------------------------------------------------------------- */

static capl_status check_range(const char *name, capl_range range, float least, float most)
{
  if (!augment_is_on(range)) return CAPL_OK;
  if (!isfinite(range.lo) || !isfinite(range.hi))
    return CAPL_FAIL(CAPL_EVALUE, "augment: %s is not a finite range", name);
  if (range.lo > range.hi)
    return CAPL_FAIL(CAPL_EVALUE, "augment: %s runs backwards: %g to %g", name, range.lo, range.hi);
  if (range.lo >= least && range.hi <= most) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: %s is %g to %g; it must lie within %g to %g", name, range.lo, range.hi, least,
                   most);
}

static capl_status check_probability(const char *name, float p)
{
  if (p >= 0 && p <= 1) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: %s is %g; a probability is 0 to 1", name, p);
}

static capl_status check_coin(const capl_augment_options *options, capl_augment_op op)
{
  const char *name = augment_ops[op].name;
  float skip = options->skip[op];
  if (!(skip >= 0 && skip <= 1))
    return CAPL_FAIL(CAPL_EVALUE, "augment: %s has p = %g; a probability is 0 to 1", name, 1 - skip);
  if (options->coin[op] <= CAPL_AUGMENT_COINS) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: %s shares coin %d; they go up to %d", name, options->coin[op],
                   CAPL_AUGMENT_COINS);
}

static capl_status check_op(const capl_augment_options *options, capl_augment_op op)
{
  const op_row *row = &augment_ops[op];
  if (row->kind == OP_PROBABILITY) return check_probability(row->name, augment_probability(options, op));
  if (row->kind == OP_MIX) return CAPL_OK;
  CAPL_TRY(check_range(row->name, augment_range(options, op), row->least, row->most));
  return check_coin(options, op);
}

static capl_status check_mix(const char *name, capl_mix mix)
{
  if (!(mix.p >= 0 && mix.p <= 1))
    return CAPL_FAIL(CAPL_EVALUE, "augment: %s has p = %g; a probability is 0 to 1", name, mix.p);
  if (mix.p == 0 || (mix.alpha >= 0.01f && mix.alpha <= 4)) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: %s has alpha = %g; it must lie within 0.01 to 4", name, mix.alpha);
}

static capl_status check_swaps(const char *name, const capl_swaps *swaps)
{
  uint8_t met[256] = {0};
  if (swaps->count > CAPL_SWAPS_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "augment: %s has more than %d pairs", name, CAPL_SWAPS_MAX);
  for (int i = 0; i < 2 * swaps->count; i++) {
    int one = swaps->pair[i / 2][i % 2];
    if (met[one])
      return CAPL_FAIL(CAPL_EVALUE, "augment: %s names %d twice; a pair is two that change places", name, one);
    met[one] = 1;
  }
  return CAPL_OK;
}

capl_status capl_augment_check(const capl_augment_options *options)
{
  for (int op = 0; op < CAPL_AUGMENT_OPS; op++) CAPL_TRY(check_op(options, (capl_augment_op)op));
  CAPL_TRY(check_range("crop_aspect", options->crop_aspect, 0.05f, 20));
  CAPL_TRY(check_mix("mixup", options->mixup));
  CAPL_TRY(check_mix("cutmix", options->cutmix));
  CAPL_TRY(check_swaps("flip_swaps", &options->class_swaps));
  CAPL_TRY(check_swaps("flip_points", &options->point_swaps));
  if (options->mixup.p + options->cutmix.p > 1) {
    return CAPL_FAIL(CAPL_EVALUE, "augment: mixup has p = %g and cutmix p = %g; a sample is mixed in one way at "
                                  "most, so they add up to 1 at most",
                     options->mixup.p, options->cutmix.p);
  }
  int size = options->blur_size;
  if (size == 0 || size == 3 || size == 5 || size == 7) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: blur has size = %d; 3, 5 and 7 px are known", size);
}

bool augment_is_asked_for(const capl_augment_options *options, capl_augment_op op)
{
  switch (augment_ops[op].kind) {
  case OP_RANGE: return augment_is_on(augment_range(options, op));
  case OP_PROBABILITY: return augment_probability(options, op) > 0;
  default: return capl_augment_mixes(options);
  }
}

/* ---- with a source --------------------------------------------------------------------------- */

static capl_status refuse_flip(const char *what, const char *hint)
{
  CAPL_FAIL(CAPL_EVALUE, "augment: a flip mirrors the image, %s", what);
  capl_error_hint("%s", hint);
  return CAPL_EVALUE;
}

static capl_status check_field_flip(const capl_augment_options *options, const capl_field *field)
{
  bool points = field->kind == CAPL_FIELD_POINTS;
  char what[160];
  if (field->kind == CAPL_FIELD_VALUES) return CAPL_OK;
  if (points ? options->point_swaps.declared : options->class_swaps.declared) return CAPL_OK;
  snprintf(what, sizeof what, "but it is not declared which %s of %s are exchanged", points ? "points" : "classes",
           field->name);
  return refuse_flip(what, points ? "flip_points = {{0, 1}, ...} lists pairs such as left and right eye; {} means none"
                                  : "flip_swaps = {{4, 5}, ...} lists pairs such as left and right eye; {} means none");
}

static capl_status check_flips(const capl_augment_options *options, const capl_source *source)
{
  if (options->flip == 0 && options->flip_vertical == 0) return CAPL_OK;
  if (source->length > 0 && capl_vocab_is_symbols(source->vocab) && !options->flip_text)
    return refuse_flip("and a mirrored text is no longer its label",
                       "remove flip, as in the preset \"captcha\", or set flip_text = true");
  for (int i = 0; i < source->n_fields; i++) CAPL_TRY(check_field_flip(options, &source->field[i]));
  return CAPL_OK;
}

/* A target image stays as it is, so its image must not move. */
static capl_status check_targets(const capl_augment_options *options, const capl_source *source)
{
  static const capl_augment_op moving[] = {CAPL_AUGMENT_ROTATE, CAPL_AUGMENT_SCALE, CAPL_AUGMENT_TRANSLATE_X,
    CAPL_AUGMENT_TRANSLATE_Y, CAPL_AUGMENT_SHEAR, CAPL_AUGMENT_FLIP, CAPL_AUGMENT_FLIP_VERTICAL, CAPL_AUGMENT_CROP,
    CAPL_AUGMENT_PERSPECTIVE, CAPL_AUGMENT_ELASTIC};
  for (int i = 0; i < source->n_fields; i++) {
    if (strcmp(source->field[i].name, "target_image") != 0) continue;
    for (size_t k = 0; k < sizeof moving / sizeof *moving; k++) {
      if (!augment_is_asked_for(options, moving[k])) continue;
      CAPL_FAIL(CAPL_EVALUE, "augment: %s moves the image, and target_image stays where it is",
                augment_ops[moving[k]].name);
      capl_error_hint("steps of colour, noise and blur are for such images; remove %s", augment_ops[moving[k]].name);
      return CAPL_EVALUE;
    }
  }
  return CAPL_OK;
}

/* What two samples together have must be sayable: a pair of labels with shares, or a mask. */
static capl_status check_mixing(const capl_augment_options *options, const capl_source *source)
{
  bool sayable = source->length > 0;
  if (!capl_augment_mixes(options)) return CAPL_OK;
  for (int i = 0; i < source->n_fields; i++) {
    const capl_field *field = &source->field[i];
    sayable |= field->kind == CAPL_FIELD_MASK;
    if (field->kind == CAPL_FIELD_MASK) continue;
    return CAPL_FAIL(CAPL_EVALUE,
                     "augment: mixup and cutmix show two samples in one image, and %s has room for those of one",
                     field->name);
  }
  if (sayable) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: mixup and cutmix mix labels or masks, and the source has neither");
}

static capl_status check_size(const capl_augment_options *options, const capl_source *source)
{
  int most = source->width > source->height ? source->width : source->height;
  bool bends = augment_is_on(options->perspective) || augment_is_on(options->elastic);
  if (!bends || most <= CAPL_BEND_SIDE) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "augment: perspective and elastic work on images of up to %d px; these have %d x %d",
                   CAPL_BEND_SIDE, source->width, source->height);
}

capl_status capl_augment_check_source(const capl_augment_options *options, const capl_source *source)
{
  CAPL_TRY(capl_augment_check(options));
  if (source->width == 0) return CAPL_FAIL(CAPL_EVALUE, "augment changes images, and the source has none");
  CAPL_TRY(check_targets(options, source));
  CAPL_TRY(check_flips(options, source));
  CAPL_TRY(check_mixing(options, source));
  return check_size(options, source);
}

bool capl_augment_mixes(const capl_augment_options *options)
{
  return options->mixup.p > 0 || options->cutmix.p > 0;
}
