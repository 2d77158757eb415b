/* schedule.h -- stages of a run: how images are changed and how hard they are made, batch by batch.
**
** A loader with stages makes each batch by the stage its position belongs to. Positions are counted in steps, batches
** of this rank since the beginning of epoch 1 (epoch 0 counts as epoch 1), so what a batch looks like is a function of
** stages and position alone: the same for any number of workers, and after resuming. A stage may come in gradually:
** over its ramp every range goes from what it was when the stage began to what the stage says.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SCHEDULE_H
#define CAPL_SCHEDULE_H

#include "capl/data.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CAPL_STAGES_MAX = 32 };

typedef enum {
  CAPL_FROM_EPOCH,  /* at >= 1 */
  CAPL_FROM_STEP,   /* at >= 0 steps have been made */
  CAPL_FROM_METRIC, /* when capl_loader_reached says so */
} capl_stage_from;

typedef enum { CAPL_RAMP_LINEAR, CAPL_RAMP_COSINE } capl_ramp_shape; /* cosine: (1 - cos(pi x)) / 2 */

typedef struct capl_stage {
  capl_stage_from from; /* of the first stage: CAPL_FROM_EPOCH, at 1 */
  double at;
  double ramp;          /* how long the stage takes to come in fully; 0 = at once */
  bool ramp_in_epochs;  /* else steps */
  capl_ramp_shape shape;
  bool augments;        /* false = images stay as they are */
  capl_augment_options augment;
  bool eases;           /* false = as hard as the source's options say */
  capl_difficulty difficulty;
} capl_stage;

/* What batches are made of at one position. */
typedef struct {
  int stage;     /* from 0 */
  double share;  /* of its ramp that is over, 0..1 */
  bool augments;
  capl_augment_options augment;
  bool eases;
  capl_difficulty difficulty; /* lengths as characters, never 0, if the source has a difficulty */
} capl_stage_values;

/* Said between two batches: the stage (from 0), one that begins with a metric, begins. Batches may have been made
** ahead, so it takes effect at a fixed distance, no matter how many were: *step, the first batch of it, is prefetch + 2
** batches away, or at the next epoch's beginning if that is nearer. EVALUE for a stage that is no such one, that has
** begun, or that a later one has overtaken. */
CAPL_API capl_status capl_loader_reached(capl_loader *loader, int stage, uint64_t *step);
/* Steps at which the stages begin; UINT64_MAX for one that waits for its metric. since: capl_loader_stages numbers. */
CAPL_API void capl_loader_since(const capl_loader *loader, uint64_t *since);
/* Puts what capl_loader_since gave back, for resuming: before capl_loader_state_set or capl_loader_epoch, one of which
** must follow. EVALUE if stages that begin by themselves have another place. */
CAPL_API capl_status capl_loader_since_set(capl_loader *loader, const uint64_t *since);
/* Number of stages; 0 = the loader has none. */
CAPL_API int capl_loader_stages(const capl_loader *loader);
/* Steps before the batch that the loader hands out next. */
CAPL_API uint64_t capl_loader_step(const capl_loader *loader);
/* What the batch after so many steps is made of; without stages, what all are. */
CAPL_API capl_status capl_loader_stage_at(const capl_loader *loader, uint64_t step, capl_stage_values *values);
/* What a stage (from 0) makes when it has come in fully. EVALUE if there is none of that number. */
CAPL_API capl_status capl_loader_stage_values(const capl_loader *loader, int stage, capl_stage_values *values);

/* ---- the numbers that a ramp moves ---- */

typedef enum { CAPL_KNOB_RANGE, CAPL_KNOB_SHARE } capl_knob_kind; /* capl_range | float from 0 */

/* One entry of capl_augment_options. */
typedef struct {
  const char *name;
  capl_knob_kind kind;
  size_t offset;
  capl_range idle; /* where a range changes nothing, such as 1 to 1 for factors */
  int op;          /* whose skip and coin belong to a range; -1 = nobody's */
} capl_knob;

/* i-th one; false past the last. */
CAPL_API bool capl_augment_knob(int i, capl_knob *knob);
/* *out: share 0..1 of the way between two options. A range that one of them has switched off goes from or to where it
** changes nothing, with the probability that the other gives it. NULL = no augmentation. */
CAPL_API void capl_augment_between(const capl_augment_options *from, const capl_augment_options *to, double share,
                                   capl_augment_options *out);

#ifdef __cplusplus
}
#endif
#endif
