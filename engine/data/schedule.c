/* schedule.c -- which stage a step belongs to, and what its batch is made of.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- positions ------------------------------------------------------------------------------- */

/* Epochs beyond this make steps that no double holds exactly. */
static const double longest_run = 9007199254740992.0; /* 2^53 steps */

uint64_t schedule_step(const schedule *s, uint64_t epoch, uint64_t batch)
{
  return (epoch ? epoch - 1 : 0) * s->batches + batch;
}

static double begins_at(const schedule *s, const capl_stage *stage)
{
  return stage->from == CAPL_FROM_EPOCH ? ceil((stage->at - 1) * (double)s->batches) : stage->at;
}

/* Steps that a stage takes to come in fully. */
static double ramp_of(const schedule *s, int i)
{
  const capl_stage *stage = &s->stage[i];
  return stage->ramp_in_epochs ? stage->ramp * (double)s->batches : stage->ramp;
}

static int stage_of(const schedule *s, uint64_t step)
{
  for (int i = s->n - 1; i > 0; i--) {
    if (s->since[i] <= step) return i;
  }
  return 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* sin(pi x / 2) for x in 0..1, to the last bits of a double, by its series: the C library's is not the same
** everywhere. */
static double quarter_sine(double x)
{
  double angle = x * 1.57079632679489661923, square = angle * angle, term = angle, sum = angle;
  for (int k = 1; k <= 12; k++) {
    term *= -square / (double)(2 * k * (2 * k + 1));
    sum += term;
  }
  return sum < 1 ? sum : 1;
}

/* How far a stage has come in. */
static double share_at(const schedule *s, int i, uint64_t step)
{
  double ramp = ramp_of(s, i), passed = (double)(step - s->since[i]);
  return passed >= ramp ? 1 : passed / ramp;
}

static double shaped(capl_ramp_shape shape, double share)
{
  if (share <= 0 || share >= 1 || shape == CAPL_RAMP_LINEAR) return share;
  double sine = quarter_sine(share);
  return sine * sine; /* (1 - cos(pi x)) / 2 */
}

static float between(float a, float b, double share)
{
  return (float)((double)a + ((double)b - (double)a) * share);
}

/* Halves go up, also where a last bit is missing to one. */
static int whole_between(int a, int b, double share)
{
  return (int)floor((double)a + (double)(b - a) * share + 0.5 + 1e-9);
}

static capl_difficulty difficulty_between(const capl_difficulty *a, const capl_difficulty *b, double share)
{
  return (capl_difficulty){
    .length_lo = whole_between(a->length_lo, b->length_lo, share),
    .length_hi = whole_between(a->length_hi, b->length_hi, share),
    .charset_share = between(a->charset_share, b->charset_share, share),
    .noise = between(a->noise, b->noise, share),
    .warp = between(a->warp, b->warp, share),
  };
}

void schedule_target(const schedule *s, int i, capl_stage_values *v)
{
  const capl_stage *stage = &s->stage[i];
  *v = (capl_stage_values){.stage = i, .share = 1, .augments = stage->augments, .augment = stage->augment,
                           .eases = stage->eases, .difficulty = stage->difficulty};
}

/* Between what was and what the stage wants. */
static void mix_values(const capl_stage_values *before, double share, capl_stage_values *v)
{
  capl_augment_between(before->augments ? &before->augment : NULL, v->augments ? &v->augment : NULL, share,
                       &v->augment);
  v->difficulty = difficulty_between(&before->difficulty, &v->difficulty, share);
  v->augments = v->augments || before->augments;
  v->eases = v->eases || before->eases;
}

/* A ramp starts from what the stage before had come to when this one began, be that half-way up its own ramp. */
static void values_of(const schedule *s, int i, uint64_t step, capl_stage_values *v)
{
  schedule_target(s, i, v);
  double share = i == 0 ? 1 : share_at(s, i, step);
  v->share = share;
  if (share >= 1) return;
  capl_stage_values before;
  int last = i - 1;
  while (last > 0 && s->since[last] > s->since[i]) last--;
  values_of(s, last, s->since[i], &before);
  mix_values(&before, shaped(s->stage[i].shape, share), v);
}

void schedule_at(const schedule *s, uint64_t step, capl_stage_values *values)
{
  values_of(s, stage_of(s, step), step, values);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* What contradicts itself or the source in stage number i. */
static capl_status check_difficulty(const capl_stage *stage, int i, const capl_source *source)
{
  const capl_difficulty *d = &stage->difficulty;
  if (!stage->eases) return CAPL_OK;
  if (source->shortest == 0)
    return CAPL_FAIL(CAPL_EVALUE, "stage %d: the source has no difficulty; only data.captcha has one", i + 1);
  if (source->fixed) {
    CAPL_FAIL(CAPL_EVALUE, "stage %d: the source is fixed, the same images in every epoch, and difficulty would "
                           "change them", i + 1);
    capl_error_hint("leave out fixed = true of the training source");
    return CAPL_EVALUE;
  }
  int lo = d->length_lo ? d->length_lo : source->shortest, hi = d->length_hi ? d->length_hi : source->length;
  if (lo > hi || lo < source->shortest || hi > source->length) {
    CAPL_FAIL(CAPL_EVALUE, "stage %d: length is %d to %d; the source draws %d to %d characters", i + 1, lo, hi,
              source->shortest, source->length);
    capl_error_hint("length = {shortest, longest} of data.captcha is the widest range that a stage can have");
    return CAPL_EVALUE;
  }
  const float shares[] = {d->charset_share, d->noise, d->warp};
  static const char *const names[] = {"charset", "noise", "warp"};
  for (int k = 0; k < 3; k++) {
    if (!(shares[k] >= 0 && shares[k] <= 1))
      return CAPL_FAIL(CAPL_EVALUE, "stage %d: %s is %g; it is a share, 0 to 1", i + 1, names[k], (double)shares[k]);
  }
  return CAPL_OK;
}

static capl_status check_stage(const schedule *s, const capl_stage *stage, int i, const capl_source *source)
{
  bool first = stage->from == CAPL_FROM_EPOCH && stage->at == 1;
  if (i == 0 && (!first || stage->ramp != 0))
    return CAPL_FAIL(CAPL_EVALUE, "stage 1 starts with the run and has no ramp");
  if (stage->from < CAPL_FROM_EPOCH || stage->from > CAPL_FROM_METRIC || stage->shape < CAPL_RAMP_LINEAR ||
      stage->shape > CAPL_RAMP_COSINE) {
    return CAPL_FAIL(CAPL_EVALUE, "stage %d: no such beginning or shape of a ramp", i + 1);
  }
  double least = stage->from == CAPL_FROM_EPOCH ? 1 : 0;
  if (stage->from != CAPL_FROM_METRIC && !(stage->at >= least && begins_at(s, stage) < longest_run)) {
    return CAPL_FAIL(CAPL_EVALUE, "stage %d starts at %s %g, which does not exist", i + 1,
                     stage->from == CAPL_FROM_EPOCH ? "epoch" : "step", stage->at);
  }
  if (!(stage->ramp >= 0 && stage->ramp < longest_run))
    return CAPL_FAIL(CAPL_EVALUE, "stage %d: its ramp takes %g %s; it is a number from 0 on", i + 1, stage->ramp,
                     stage->ramp_in_epochs ? "epochs" : "steps");
  return check_difficulty(stage, i, source);
}

/* Endless sources never get to a second epoch. */
static capl_status check_epochs(const capl_stage *stage, int i, const capl_source *source)
{
  bool counts = (stage->from == CAPL_FROM_EPOCH && stage->at > 1) || (stage->ramp > 0 && stage->ramp_in_epochs);
  if (!counts || source->count < UINT32_MAX) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "stage %d counts epochs, but the source is endless: its first epoch does not end", i + 1);
  capl_error_hint("give steps, or give the source a count of images per epoch");
  return CAPL_EVALUE;
}

/* Stages that begin by themselves: each after the one before, when that has come in fully. */
static capl_status check_order(const schedule *s)
{
  int last = 0;
  for (int i = 1; i < s->n; i++) {
    if (s->stage[i].from == CAPL_FROM_METRIC) continue;
    if (s->since[i] <= s->since[last])
      return CAPL_FAIL(CAPL_EVALUE, "stage %d starts after %llu steps, not later than stage %d, after %llu", i + 1,
                       (unsigned long long)s->since[i], last + 1, (unsigned long long)s->since[last]);
    double room = (double)(s->since[i] - s->since[last]);
    if (i == last + 1 && ramp_of(s, last) > room)
      return CAPL_FAIL(CAPL_EVALUE, "the ramp of stage %d takes %g steps, but stage %d starts %g steps after it",
                       last + 1, ramp_of(s, last), i + 1, room);
    last = i;
  }
  return CAPL_OK;
}

/* Lengths that a stage leaves open are the source's own, and without a stage it is as hard as it gets. */
static void fill_in(capl_stage *stage, const capl_source *source)
{
  capl_difficulty *d = &stage->difficulty;
  if (!stage->eases) *d = (capl_difficulty){0, 0, 1, 1, 1};
  if (d->length_lo == 0) d->length_lo = source->shortest;
  if (d->length_hi == 0) d->length_hi = source->length;
}

/* Where one stage has a difficulty, all have: the others' is all that the source can. */
static void spread_difficulty(schedule *s)
{
  bool any = false;
  for (int i = 0; i < s->n; i++) any = any || s->stage[i].eases;
  for (int i = 0; i < s->n; i++) s->stage[i].eases = any;
}

static capl_status set_stages(schedule *s, const capl_stage *stages, const capl_source *source)
{
  for (int i = 0; i < s->n; i++) {
    CAPL_TRY(check_stage(s, &stages[i], i, source));
    CAPL_TRY(check_epochs(&stages[i], i, source));
    s->stage[i] = stages[i];
    fill_in(&s->stage[i], source);
    bool waits = stages[i].from == CAPL_FROM_METRIC;
    s->since[i] = waits ? SCHEDULE_NEVER : (uint64_t)begins_at(s, &stages[i]);
  }
  spread_difficulty(s);
  return check_order(s);
}

capl_status schedule_init(schedule *s, const capl_stage *stages, int n, uint64_t batches, const capl_source *source)
{
  *s = (schedule){0};
  if (n < 1 || n > CAPL_STAGES_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "a schedule has 1 to %d stages, not %d", CAPL_STAGES_MAX, n);
  s->stage = calloc((size_t)n, sizeof *s->stage);
  s->since = calloc((size_t)n, sizeof *s->since);
  if (!s->stage || !s->since) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d stages", n);
  s->n = n;
  s->batches = batches;
  return set_stages(s, stages, source);
}

void schedule_fini(schedule *s)
{
  free(s->stage);
  free(s->since);
  *s = (schedule){0};
}

/* ---- metrics --------------------------------------------------------------------------------- */

capl_status schedule_reached(schedule *s, int stage, uint64_t step)
{
  if (stage < 0 || stage >= s->n)
    return CAPL_FAIL(CAPL_EVALUE, "there is no stage %d; the schedule has %d", stage + 1, s->n);
  if (s->stage[stage].from != CAPL_FROM_METRIC)
    return CAPL_FAIL(CAPL_EVALUE, "stage %d waits for no metric", stage + 1);
  if (s->since[stage] != SCHEDULE_NEVER)
    return CAPL_FAIL(CAPL_EVALUE, "stage %d has begun, after %llu steps", stage + 1,
                     (unsigned long long)s->since[stage]);
  for (int i = s->n - 1; i > stage; i--) {
    if (s->since[i] <= step)
      return CAPL_FAIL(CAPL_EVALUE, "stage %d comes too late: stage %d has begun, after %llu steps", stage + 1, i + 1,
                       (unsigned long long)s->since[i]);
  }
  s->since[stage] = step;
  return CAPL_OK;
}

capl_status schedule_restore(schedule *s, const uint64_t *since)
{
  for (int i = 0; i < s->n; i++) {
    if (s->stage[i].from == CAPL_FROM_METRIC || since[i] == s->since[i]) continue;
    return CAPL_FAIL(CAPL_EVALUE,
                     "stage %d starts after %llu steps, in the state after %llu: the state is of another schedule",
                     i + 1, (unsigned long long)s->since[i], (unsigned long long)since[i]);
  }
  memcpy(s->since, since, (size_t)s->n * sizeof *since);
  return CAPL_OK;
}
