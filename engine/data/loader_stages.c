/* loader_stages.c -- a loader's stages as its owner sees them: where it stands, what is to come, what a metric begins.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "data/loader.h"

/* A batch is opened at most n_slots after those handed out, and n_slots is prefetch + 1, one more with a device. */
static uint64_t distance(const capl_loader *l)
{
  return (uint64_t)l->n_slots + (l->feed ? 0 : 1);
}

/* Steps before a batch of the epoch in work, counted from where this run of it began; the lock is held. */
static uint64_t step_of(const capl_loader *l, uint64_t batch)
{
  return schedule_step(&l->stages, l->epoch, l->before + batch);
}

static capl_status reached_locked(capl_loader *l, int stage, uint64_t *step)
{
  if (l->stages.n == 0) return CAPL_FAIL(CAPL_ESTATE, "the loader has no stages");
  uint64_t next_epoch = schedule_step(&l->stages, l->epoch ? l->epoch + 1 : 2, 0);
  *step = step_of(l, l->delivered + distance(l));
  if (*step > next_epoch) *step = next_epoch;
  return schedule_reached(&l->stages, stage, *step);
}

capl_status capl_loader_reached(capl_loader *l, int stage, uint64_t *step)
{
  pthread_mutex_lock(&l->lock);
  capl_status status = reached_locked(l, stage, step);
  pthread_mutex_unlock(&l->lock);
  return status;
}

int capl_loader_stages(const capl_loader *l)
{
  return l->stages.n;
}

void capl_loader_since(const capl_loader *l, uint64_t *since)
{
  if (l->stages.n) memcpy(since, l->stages.since, (size_t)l->stages.n * sizeof *since);
}

/* Batches made ahead may be of a stage that is taken back: they are dropped. */
capl_status capl_loader_since_set(capl_loader *l, const uint64_t *since)
{
  if (l->stages.n == 0) return CAPL_FAIL(CAPL_ESTATE, "the loader has no stages");
  pthread_mutex_lock(&l->lock);
  loader_quiesce(l);
  l->began = false;
  capl_status status = schedule_restore(&l->stages, since);
  pthread_mutex_unlock(&l->lock);
  return status;
}

uint64_t capl_loader_step(const capl_loader *l)
{
  return step_of(l, l->delivered);
}

capl_status capl_loader_stage_at(const capl_loader *l, uint64_t step, capl_stage_values *values)
{
  if (l->stages.n == 0) {
    const row_stage *s = &l->stage;
    *values = (capl_stage_values){.share = 1, .augments = s->augments, .augment = s->augment, .eases = s->eases,
                                  .difficulty = s->difficulty};
  } else {
    schedule_at(&l->stages, step, values);
  }
  return CAPL_OK;
}

capl_status capl_loader_stage_values(const capl_loader *l, int stage, capl_stage_values *values)
{
  if (stage < 0 || stage >= l->stages.n)
    return CAPL_FAIL(CAPL_EVALUE, "there is no stage %d; the loader has %d", stage + 1, l->stages.n);
  schedule_target(&l->stages, stage, values);
  return CAPL_OK;
}
