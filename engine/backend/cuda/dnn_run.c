/* dnn_run.c -- running records: a record met for the first time gets its plan from the cache on disk, or from cuDNN's
** heuristics: the first engine that takes it, or with autotune the fastest of several (dnn_tune.c).
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/dnn_list.h"
#include "backend/cuda/dnn_state.h"
#include "backend/cuda/plan_cache.h"
#include "base/clock.h"
#include "base/log.h"

#ifndef DNN_TIMING_SECONDS /* of one process: a network of 146 records would time its engines for minutes */
#define DNN_TIMING_SECONDS 20
#endif

/* ---- plans ----------------------------------------------------------------------------------------- */

bool dnn_tunes(const dnn_record *record)
{
  return cu.autotune && !record->deterministic;
}

/* What an engine's workspace may take. A choice by timing may depend on what is free now (what the caching allocator
** holds is); one that must be the same in every run may not. */
static capl_status workspace_max(const dnn_record *record, capl_device *device, int64_t *max)
{
  size_t available, total;
  capl_memory_stats stats;
  CU_TRY(cudaMemGetInfo(&available, &total), "asking for free memory");
  capl_memory_stats_get(device, &stats);
  *max = dnn_workspace_share(dnn_tunes(record) ? available + stats.cached : total);
  return CAPL_OK;
}

static void log_time_over(void)
{
  static bool logged;
  if (!logged)
    capl_log("timing the engines of convolutions took %d s: later ones have cuDNN's first choice in this run; the next "
             "run goes on timing", (int)DNN_TIMING_SECONDS);
  logged = true;
}

static void tune(const dnn_trial *t, dnn_plan *out)
{
  double start = clock_now();
  dnn_state.untimed = !dnn_state.listing && dnn_state.timing_s >= DNN_TIMING_SECONDS;
  if (dnn_state.untimed) log_time_over();
  else dnn_tune(t, out);
  dnn_state.timing_s += clock_now() - start;
}

static void choose_among(const dnn_trial *t, dnn_plan *out)
{
  bool several = t->candidates->count > 1 || dnn_state.listing;
  if (dnn_tunes(t->record) && several) tune(t, out);
  if (out->plan) dnn_state.statistics.tuned++;
  else dnn_first_plan(t, out);
}

static capl_status choose(const dnn_record *record, const dnn_graph *g, const dnn_slots *s, int64_t max, dnn_plan *out)
{
  dnn_target target = {.handle = dnn_state.handle};
  dnn_candidates candidates;
  CAPL_TRY(dnn_candidates_get(record, g, &target, &candidates));
  choose_among(&(dnn_trial){record, &candidates, &target, s, max}, out);
  dnn_candidates_free(&candidates);
  return CAPL_OK;
}

static capl_status build(const dnn_record *record, const dnn_slots *s, int64_t max, dnn_plan *out)
{
  dnn_graph g;
  *out = (dnn_plan){0};
  capl_status status = dnn_graph_build(&g, record, dnn_state.handle);
  if (status == CAPL_OK) status = choose(record, &g, s, max, out);
  dnn_graph_free(&g);
  if (status == CAPL_OK && out->plan) dnn_state.statistics.plans++;
  return status;
}

/* A plan chosen by timing is another entry than one that was not. */
static void cache_key(const dnn_record *record, char *key, size_t len)
{
  char text[DNN_TEXT];
  snprintf(key, len, "%s%s", dnn_describe(record, text, sizeof text), dnn_tunes(record) ? " tuned" : "");
}

/* The plan on disk. One that was made where more memory was free stays there, too_large for now. */
static bool load(const char *key, int64_t max, dnn_plan *out, bool *too_large)
{
  *too_large = false;
  size_t len;
  char *text = dnn_state.listing ? NULL : plan_cache_read("plan", dnn_state.scope, key, &len);
  if (!text) return false;
  dnn_target target = {.handle = dnn_state.handle};
  bool ok = dnn_plan_load(text, &target, out) == CAPL_OK;
  if (!ok) plan_cache_drop("plan", dnn_state.scope, key, capl_error_last()->message);
  else if (out->workspace > max) dnn_plan_free(out), ok = false, *too_large = true;
  else dnn_state.statistics.loaded++;
  free(text);
  return ok;
}

static void save(const char *key, const dnn_plan *plan)
{
  char *text;
  if (dnn_plan_save(plan, &text) != CAPL_OK) return; /* some engine may not know how: built anew each time */
  plan_cache_write("plan", dnn_state.scope, key, text, strlen(text));
  free(text);
}

/* One line for each kind and type: a network has dozens of such records, or none. */
static void log_no_engine(const dnn_record *record)
{
  static bool logged[DNN_KINDS][CAPL_DTYPE_COUNT];
  char text[DNN_TEXT];
  if (logged[record->kind][record->dtype]) return;
  logged[record->kind][record->dtype] = true;
  capl_log("cuDNN has no engine on this GPU for %s: own kernels take its place, and that of others like it",
           dnn_describe(record, text, sizeof text));
}

static void log_plan(const dnn_record *record, const dnn_plan *plan, const char *how)
{
  if (plan->plan) dnn_list_plan(record, plan->engine, plan->workspace, how);
  else dnn_list_plan(record, DNN_OWN, 0, "none");
}

capl_status dnn_make(const dnn_record *record, const dnn_slots *s)
{
  char key[DNN_TEXT + 16];
  dnn_plan plan = {0};
  int64_t max;
  CAPL_TRY(workspace_max(record, s->device, &max));
  cache_key(record, key, sizeof key);
  uint64_t tuned = dnn_state.statistics.tuned;
  bool too_large, loaded = load(key, max, &plan, &too_large);
  dnn_state.untimed = false;
  if (!loaded) {
    capl_status status = build(record, s, max, &plan);
    if (status != CAPL_OK && status != CAPL_EUNSUPPORTED) return status;
    if (plan.plan && !too_large && !dnn_state.untimed) save(key, &plan);
    else if (!plan.plan) log_no_engine(record);
  }
  capl_status status = dnn_table_keep(record, &plan, loaded);
  if (status == CAPL_OK)
    log_plan(record, &plan, loaded ? "loaded" : dnn_state.statistics.tuned > tuned ? "tuned" : "first");
  else dnn_plan_free(&plan);
  return status;
}

/* A plan from disk that does not run, though it was read: gone from disk and memory, and made anew. */
static capl_status make_again(dnn_entry *e, const dnn_slots *s)
{
  char key[DNN_TEXT + 16];
  cache_key(&e->record, key, sizeof key);
  plan_cache_drop("plan", dnn_state.scope, key, capl_error_last()->message);
  dnn_plan_free(&e->plan);
  return dnn_make(&e->record, s);
}

static capl_status refuse_in_capture(const dnn_record *record)
{
  if (!cu.capturing) return CAPL_OK;
  char text[DNN_TEXT];
  capl_status status =
    CAPL_FAIL(CAPL_ESTATE, "no plan for %s yet, and none can be made inside a captured step",
              dnn_describe(record, text, sizeof text));
  capl_error_hint("run the step once with these sizes before it is captured");
  return status;
}

/* ---- running --------------------------------------------------------------------------------------- */

static capl_status need_engine(const dnn_record *record, const char *refusal)
{
  char text[DNN_TEXT];
  if (!refusal) return CAPL_OK;
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "cuDNN has no engine for %s: %s", dnn_describe(record, text, sizeof text),
                   refusal);
}

bool dnn_is_norm(const dnn_record *record)
{
  return record->kind == DNN_NORM || record->kind == DNN_NORM_GRAD;
}

const char *dnn_refusal_here(const dnn_record *record)
{
  enum { NORMS_SINCE = 80 };
  if (dnn_is_norm(record) && cu.capability < NORMS_SINCE) return "norms have engines since sm_80";
  return dnn_refusal(record);
}

/* Memory that ran out or a GPU that is lost is no fault of the plan, and in a captured step none can be made. */
static bool may_be_stale(const dnn_entry *e, capl_status status)
{
  bool failed = status == CAPL_EDEVICE || status == CAPL_EUNSUPPORTED;
  return failed && e->loaded && !cu.capturing && cudaPeekAtLastError() == cudaSuccess;
}

/* The plan, once more with a new one where that from disk fails. */
static capl_status run_plan(dnn_entry *e, const dnn_slots *s)
{
  capl_status status = dnn_execute(&e->plan, s);
  if (may_be_stale(e, status)) {
    CAPL_TRY(make_again(e, s));
    CAPL_TRY(need_engine(&e->record, e->plan.plan ? NULL : "none of its engines takes it"));
    status = dnn_execute(&e->plan, s);
  }
  if (status == CAPL_OK) e->loaded = false;
  return status;
}

/* Everything between staging and unstaging. */
static capl_status run_staged(const dnn_record *record, const dnn_slots *s)
{
  dnn_entry *e = dnn_table_find(record);
  if (!e || !e->planned) {
    CAPL_TRY(dnn_make(record, s));
    e = dnn_table_find(record);
  }
  e->ran = ++dnn_state.clock;
  if (cu.capturing) e->recorded = true, e->age = cu.graph_age;
  CAPL_TRY(need_engine(record, e->plan.plan ? NULL : "none of its engines takes it"));
  CAPL_TRY(run_plan(e, s));
  dnn_count(record, dnn_uses_tensor_cores(e->plan.numerical));
  dnn_state.statistics.runs++;
  return CAPL_OK;
}

capl_status dnn_run(capl_device *device, const dnn_record *record, const dnn_pointers *p)
{
  dnn_slots s;
  CAPL_TRY(need_engine(record, dnn_refusal_here(record)));
  const dnn_entry *e = dnn_table_find(record);
  if (!e || !e->planned) CAPL_TRY(refuse_in_capture(record));
  CAPL_TRY(dnn_open());
  CAPL_TRY(dnn_stage(&s, device, dnn_state.handle, record, p));
  capl_status status = run_staged(record, &s);
  if (status != CAPL_OK) {
    dnn_release(&s);
    return status;
  }
  return dnn_unstage(&s);
}
