/* dnn_tune.c -- candidates timed against each other.
**
** Heuristics often list one engine a dozen times with other settings before the next one: the first 16 of 33 may be
** one. So each engine gets a turn before any gets its second.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/dnn_tune.h"

#include <stdio.h>

#include "backend/cuda/dnn_list.h"

enum {
  TIMED_MAX = 32,   /* candidates of one record */
  COMPILED_MAX = 2, /* of those, at most so many that cuDNN compiles first: a second each */
  RUNS = 3,         /* after one that loads the kernel and one that decides whether more are worthwhile */
};

/* ---- time ------------------------------------------------------------------------------------------ */

static capl_status run_between(const dnn_work *work, int runs, cudaEvent_t start, cudaEvent_t end, float *ms)
{
  float all;
  CU_TRY(cudaEventRecord(start, cu.stream), "timing an engine");
  for (int i = 0; i < runs; i++) CAPL_TRY(work->run(work->data));
  CU_TRY(cudaEventRecord(end, cu.stream), "timing an engine");
  CU_TRY(cudaEventSynchronize(end), "timing an engine");
  CU_TRY(cudaEventElapsedTime(&all, start, end), "timing an engine");
  *ms = all / (float)runs;
  return CAPL_OK;
}

static capl_status time_with(const dnn_work *work, float best_ms, cudaEvent_t start, cudaEvent_t end, float *ms)
{
  CAPL_TRY(work->run(work->data)); /* loads the kernel */
  CAPL_TRY(run_between(work, 1, start, end, ms));
  if (best_ms > 0 && *ms > 2 * best_ms) return CAPL_OK;
  return run_between(work, RUNS, start, end, ms);
}

capl_status dnn_time(const dnn_work *work, float best_ms, float *ms)
{
  cudaEvent_t start = NULL, end = NULL;
  CU_TRY(cudaEventCreate(&start), "timing an engine");
  capl_status status = cu_status(cudaEventCreate(&end), "timing an engine");
  if (status == CAPL_OK) status = time_with(work, best_ms, start, end, ms);
  if (end) cudaEventDestroy(end);
  cudaEventDestroy(start);
  return status;
}

typedef struct {
  const dnn_plan *plan;
  const dnn_slots *slots;
} planned;

static capl_status run_planned(const void *data)
{
  const planned *p = data;
  return dnn_execute(p->plan, p->slots);
}

capl_status dnn_time_plan(const dnn_plan *plan, const dnn_slots *s, float best_ms, float *ms)
{
  return dnn_time(&(dnn_work){run_planned, &(planned){plan, s}}, best_ms, ms);
}

/* ---- order ----------------------------------------------------------------------------------------- */

static bool seen_before(const dnn_candidates *c, int i)
{
  for (int k = 0; k < i; k++)
    if (c->list[k].engine == c->list[i].engine) return true;
  return false;
}

/* The first candidate of each engine, then the others, both as the heuristics have them. */
static void order_of(const dnn_candidates *c, int *order)
{
  int n = 0;
  for (int again = 0; again < 2; again++)
    for (int i = 0; i < c->count; i++)
      if (seen_before(c, i) == again) order[n++] = i;
}

/* ---- the fastest ----------------------------------------------------------------------------------- */

/* What one candidate came to; ms is negative where it did not run. */
typedef struct {
  bool tried;
  float ms;
  int64_t workspace;
  char why[160];
} result;

typedef struct {
  const dnn_trial *trial;
  bool listing; /* all of them are timed to the end */
  int timed, compiled, chosen;
  float best_ms;
  dnn_plan best;
  result results[DNN_CANDIDATES];
} contest;

static bool is_compiled(const dnn_candidate *c)
{
  return c->behavior & 1u << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
}

/* Makes the candidate's plan and times it. What fails has no plan; a GPU that is lost fails the next call too. */
static void time_candidate(const contest *t, const dnn_candidate *c, dnn_plan *plan, result *r)
{
  float limit = t->listing ? 0 : t->best_ms;
  *r = (result){.tried = true, .ms = -1};
  capl_status status = dnn_plan_make(c, t->trial->target, plan);
  if (status == CAPL_OK) {
    r->workspace = plan->workspace;
    if (!t->listing && plan->workspace > t->trial->workspace_max) status = CAPL_ENOMEM;
    else status = dnn_time_plan(plan, t->trial->slots, limit, &r->ms);
    if (status != CAPL_OK) dnn_plan_free(plan);
  }
  if (status == CAPL_OK) return;
  r->ms = -1;
  snprintf(r->why, sizeof r->why, "%.159s", capl_error_last()->message);
}

static void keep_faster(contest *t, int i, dnn_plan *plan)
{
  if (plan->workspace > t->trial->workspace_max || (t->best.plan && t->results[i].ms >= t->best_ms)) {
    dnn_plan_free(plan);
    return;
  }
  if (t->best.plan) dnn_plan_free(&t->best);
  t->best = *plan;
  t->best_ms = t->results[i].ms;
  t->chosen = i;
}

static void try_one(contest *t, int i)
{
  const dnn_candidate *c = &t->trial->candidates->list[i];
  dnn_plan plan = {0};
  if (is_compiled(c) && !t->listing && t->compiled++ >= COMPILED_MAX) return;
  time_candidate(t, c, &plan, &t->results[i]);
  if (!plan.plan) return;
  t->timed++;
  keep_faster(t, i, &plan);
}

static void list_all(const contest *t)
{
  for (int i = 0; i < t->trial->candidates->count; i++) {
    const dnn_candidate *c = &t->trial->candidates->list[i];
    const result *r = &t->results[i];
    if (r->tried)
      dnn_list_row(&(dnn_row){.record = t->trial->record, .engine = c->engine, .candidate = i,
                              .workspace = r->workspace, .ms = r->ms, .numerical = c->numerical,
                              .compiled = is_compiled(c), .chosen = t->best.plan && t->chosen == i, .why = r->why});
  }
}

void dnn_tune(const dnn_trial *trial, dnn_plan *out)
{
  int order[DNN_CANDIDATES];
  contest t = {.trial = trial, .listing = dnn_list_path() != NULL};
  order_of(trial->candidates, order);
  for (int k = 0; k < trial->candidates->count && (t.listing || t.timed < TIMED_MAX); k++) try_one(&t, order[k]);
  if (t.listing) list_all(&t);
  *out = t.best;
}

/* ---- the first ------------------------------------------------------------------------------------- */

void dnn_first_plan(const dnn_trial *trial, dnn_plan *out)
{
  *out = (dnn_plan){0};
  for (int i = 0; i < trial->candidates->count; i++) {
    dnn_plan plan;
    if (dnn_plan_make(&trial->candidates->list[i], trial->target, &plan) != CAPL_OK) continue;
    bool fits = plan.workspace <= trial->workspace_max;
    if (fits || !out->plan || plan.workspace < out->workspace) {
      dnn_plan_free(out);
      *out = plan;
    } else {
      dnn_plan_free(&plan);
    }
    if (fits) return;
  }
}
