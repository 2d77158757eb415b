/* dnn_run.c -- running records: plans in memory and on disk, and whether cuDNN or own kernels are the faster.
**
** A table from records to plans; a record met for the first time gets its plan from the cache on disk, or from cuDNN's
** heuristics: the first engine that takes it, or with autotune the fastest of several (dnn_tune.c).
**
** Images of many widths have many records: a network of 7 convolutions and norms 35 for each width and batch, so some
** 1,300 for 16 widths with a whole and a last batch. Plans are kept up to DNN_PLANS_MAX; then the half that was not
** used for the longest time goes. What a recorded step may hold stays as long as there is one: its kernels belong to
** the plan. SPDX-License-Identifier: Apache-2.0
*/
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn_list.h"
#include "backend/cuda/dnn_tune.h"
#include "backend/cuda/plan_cache.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#ifndef DNN_PLANS_MAX
#define DNN_PLANS_MAX 4096
#endif
#ifndef DNN_TIMING_SECONDS /* of one process: a network of 146 records would time its engines for minutes */
#define DNN_TIMING_SECONDS 20
#endif

enum { NORMS_TIMED = 6 }; /* of one process: cuDNN compiles the engines of each norm for a second or two */

/* ---- state ----------------------------------------------------------------------------------------- */

typedef enum { NOT_CHOSEN, OWN_FASTER, DNN_FASTER } choice;

typedef struct {
  bool used;
  dnn_record record;
  bool planned;  /* a plan was looked for */
  dnn_plan plan; /* .plan NULL: there is no engine */
  bool loaded;   /* from disk, and has not run yet */
  choice choice;
  uint64_t ran;  /* state.clock of its last run */
  bool recorded; /* a captured step took it */
  unsigned age;  /* cu.graph_age then */
} entry;

static struct {
  cudnnHandle_t handle;
  char scope[256]; /* of plans on disk */
  entry *table;    /* open addressing, at most half full */
  size_t slots, count;
  uint64_t clock;
  int norms_timed;
  double timing_s; /* what timing engines took so far */
  bool untimed;    /* the last record got no trial for want of time */
  bool listing; /* every record is tuned anew, for the list of engines */
  dnn_statistics statistics;
} state;

dnn_statistics dnn_statistics_get(void)
{
  return state.statistics;
}

/* ---- the library ----------------------------------------------------------------------------------- */

static void version_text(size_t version, char *text, size_t len)
{
  snprintf(text, len, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

const char *dnn_version(void)
{
  static char text[32];
  version_text(cudnnGetVersion(), text, sizeof text);
  return text;
}

capl_status dnn_check(void)
{
  size_t found = cudnnGetVersion();
  if (found / 10000 == DNN_LEAST / 10000 && found >= DNN_LEAST) return CAPL_OK;
  char least[32];
  version_text(DNN_LEAST, least, sizeof least);
  capl_status status = CAPL_FAIL(CAPL_EUNSUPPORTED,
                                 "device cuda is not available: cuDNN %s is installed, capl needs %s or a "
                                 "later 9.x", dnn_version(), least);
  capl_error_hint("install a newer cuDNN 9, or take it out of LD_LIBRARY_PATH if there are several");
  return status;
}

static capl_status set_scope(void)
{
  device_facts facts;
  CAPL_TRY(device_facts_get(cu.index, &facts));
  snprintf(state.scope, sizeof state.scope, "%s sm_%d, %d multiprocessors, cuDNN %s", facts.name, facts.capability,
           facts.multiprocessors, dnn_version());
  return CAPL_OK;
}

/* $CAPL_DNN_DEVICE=FILE: this GPU in cuDNN's own words, as tests/cuda/graphs/devices has them typed from data
** sheets. */
static capl_status write_description(const char *path)
{
  dnn_target gpu;
  char *json;
  CAPL_TRY(dnn_target_of_gpu(cu.index, &gpu));
  capl_status status = dnn_target_text(&gpu, &json);
  dnn_target_free(&gpu);
  if (status != CAPL_OK) return status;
  FILE *f = fopen(path, "w");
  bool ok = f && fprintf(f, "%s\n", json) > 0;
  if (f && fclose(f) != 0) ok = false;
  free(json);
  return ok ? CAPL_OK : CAPL_FAIL(CAPL_EIO, "%s cannot be written: %s", path, capl_errno_text(errno));
}

static void describe_gpu(void)
{
  const char *path = getenv("CAPL_DNN_DEVICE");
  if (path && *path && write_description(path) != CAPL_OK)
    capl_log("no description of the GPU: %s", capl_error_last()->message);
}

capl_status dnn_open(void)
{
  if (state.handle) return CAPL_OK;
  CAPL_TRY(dnn_check());
  CAPL_TRY(set_scope());
  state.listing = dnn_list_path() != NULL;
  DNN_TRY(cudnnCreate(&state.handle), "starting");
  capl_status status = dnn_status(cudnnSetStream(state.handle, cu.stream), "taking a stream");
  if (status != CAPL_OK) dnn_close();
  else describe_gpu();
  return status;
}

void dnn_close(void)
{
  for (size_t i = 0; i < state.slots; i++)
    if (state.table[i].used) dnn_plan_free(&state.table[i].plan);
  free(state.table);
  state.table = NULL;
  state.slots = state.count = 0;
  state.norms_timed = 0;
  state.timing_s = 0;
  if (state.handle) cudnnDestroy(state.handle);
  state.handle = NULL;
}

/* ---- the table ------------------------------------------------------------------------------------- */

/* The record's place in the table, or the free one where it belongs. */
static entry *place_of(entry *table, size_t slots, const dnn_record *record)
{
  size_t i = (size_t)dnn_hash(record) & (slots - 1);
  while (table[i].used && !dnn_same(&table[i].record, record)) i = (i + 1) & (slots - 1);
  return &table[i];
}

static capl_status grow(void)
{
  size_t slots = state.slots ? 2 * state.slots : 256;
  entry *table = calloc(slots, sizeof *table);
  if (!table) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a table of %zu plans", slots);
  for (size_t i = 0; i < state.slots; i++)
    if (state.table[i].used) *place_of(table, slots, &state.table[i].record) = state.table[i];
  free(state.table);
  state.table = table;
  state.slots = slots;
  return CAPL_OK;
}

static entry *find(const dnn_record *record)
{
  if (!state.slots) return NULL;
  entry *e = place_of(state.table, state.slots, record);
  return e->used ? e : NULL;
}

static bool may_go(const entry *e)
{
  return e->used && !(e->recorded && e->age == cu.graph_age);
}

static int by_age(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* When the median of those that may go ran last; false when there is none. */
static bool median_run(uint64_t *median)
{
  size_t n = 0;
  uint64_t *ran = malloc(state.slots * sizeof *ran);
  for (size_t i = 0; ran && i < state.slots; i++)
    if (may_go(&state.table[i])) ran[n++] = state.table[i].ran;
  if (n > 0) {
    qsort(ran, n, sizeof *ran, by_age);
    *median = ran[n / 2];
  }
  free(ran);
  return n > 0;
}

/* The older half of what may go goes; what is queued may still use it, so it is waited for. Without memory for a table
** of the others all stay. */
static capl_status make_room(void)
{
  uint64_t median;
  if (!median_run(&median)) return CAPL_OK;
  entry *table = calloc(state.slots, sizeof *table);
  if (!table) return CAPL_OK;
  capl_status status = cu_status(cudaStreamSynchronize(cu.stream), "waiting for plans that are let go");
  if (status != CAPL_OK) {
    free(table);
    return status;
  }
  for (size_t i = 0; i < state.slots; i++) {
    entry *e = &state.table[i];
    bool goes = may_go(e) && e->ran <= median;
    if (goes) dnn_plan_free(&e->plan), state.count--;
    else if (e->used) *place_of(table, state.slots, &e->record) = *e;
  }
  free(state.table);
  state.table = table;
  return CAPL_OK;
}

/* The record's entry, a new one where there is none. */
static capl_status entry_of(const dnn_record *record, entry **out)
{
  *out = find(record);
  if (*out) return CAPL_OK;
  if (state.count >= DNN_PLANS_MAX) CAPL_TRY(make_room());
  if (2 * (state.count + 1) > state.slots) CAPL_TRY(grow());
  *out = place_of(state.table, state.slots, record);
  **out = (entry){.used = true, .record = *record};
  state.count++;
  return CAPL_OK;
}

static capl_status keep(const dnn_record *record, const dnn_plan *plan, bool loaded)
{
  entry *e;
  CAPL_TRY(entry_of(record, &e));
  e->planned = true;
  e->plan = *plan;
  e->loaded = loaded;
  return CAPL_OK;
}

/* ---- plans ----------------------------------------------------------------------------------------- */

static bool tunes(const dnn_record *record)
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
  *max = dnn_workspace_share(tunes(record) ? available + stats.cached : total);
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
  state.untimed = !state.listing && state.timing_s >= DNN_TIMING_SECONDS;
  if (state.untimed) log_time_over();
  else dnn_tune(t, out);
  state.timing_s += clock_now() - start;
}

static void choose_among(const dnn_trial *t, dnn_plan *out)
{
  bool several = t->candidates->count > 1 || state.listing;
  if (tunes(t->record) && several) tune(t, out);
  if (out->plan) state.statistics.tuned++;
  else dnn_first_plan(t, out);
}

static capl_status choose(const dnn_record *record, const dnn_graph *g, const dnn_slots *s, int64_t max, dnn_plan *out)
{
  dnn_target target = {.handle = state.handle};
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
  capl_status status = dnn_graph_build(&g, record, state.handle);
  if (status == CAPL_OK) status = choose(record, &g, s, max, out);
  dnn_graph_free(&g);
  if (status == CAPL_OK && out->plan) state.statistics.plans++;
  return status;
}

/* A plan chosen by timing is another entry than one that was not. */
static void cache_key(const dnn_record *record, char *key, size_t len)
{
  char text[DNN_TEXT];
  snprintf(key, len, "%s%s", dnn_describe(record, text, sizeof text), tunes(record) ? " tuned" : "");
}

/* The plan on disk. One that was made where more memory was free stays there, too_large for now. */
static bool load(const char *key, int64_t max, dnn_plan *out, bool *too_large)
{
  *too_large = false;
  size_t len;
  char *text = state.listing ? NULL : plan_cache_read("plan", state.scope, key, &len);
  if (!text) return false;
  dnn_target target = {.handle = state.handle};
  bool ok = dnn_plan_load(text, &target, out) == CAPL_OK;
  if (!ok) plan_cache_drop("plan", state.scope, key, capl_error_last()->message);
  else if (out->workspace > max) dnn_plan_free(out), ok = false, *too_large = true;
  else state.statistics.loaded++;
  free(text);
  return ok;
}

static void save(const char *key, const dnn_plan *plan)
{
  char *text;
  if (dnn_plan_save(plan, &text) != CAPL_OK) return; /* some engine may not know how: built anew each time */
  plan_cache_write("plan", state.scope, key, text, strlen(text));
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

/* Makes the record's plan. Only a failure of the GPU or of memory is an error: no engine is an answer. */
static capl_status make(const dnn_record *record, const dnn_slots *s)
{
  char key[DNN_TEXT + 16];
  dnn_plan plan = {0};
  int64_t max;
  CAPL_TRY(workspace_max(record, s->device, &max));
  cache_key(record, key, sizeof key);
  uint64_t tuned = state.statistics.tuned;
  bool too_large, loaded = load(key, max, &plan, &too_large);
  state.untimed = false;
  if (!loaded) {
    capl_status status = build(record, s, max, &plan);
    if (status != CAPL_OK && status != CAPL_EUNSUPPORTED) return status;
    if (plan.plan && !too_large && !state.untimed) save(key, &plan);
    else if (!plan.plan) log_no_engine(record);
  }
  capl_status status = keep(record, &plan, loaded);
  if (status == CAPL_OK)
    log_plan(record, &plan, loaded ? "loaded" : state.statistics.tuned > tuned ? "tuned" : "first");
  else dnn_plan_free(&plan);
  return status;
}

/* A plan from disk that does not run, though it was read: gone from disk and memory, and made anew. */
static capl_status make_again(entry *e, const dnn_slots *s)
{
  char key[DNN_TEXT + 16];
  cache_key(&e->record, key, sizeof key);
  plan_cache_drop("plan", state.scope, key, capl_error_last()->message);
  dnn_plan_free(&e->plan);
  return make(&e->record, s);
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

static bool is_norm(const dnn_record *record)
{
  return record->kind == DNN_NORM || record->kind == DNN_NORM_GRAD;
}

/* dnn_refusal, and what only newer GPUs have: asking costs a graph for each record. */
static const char *refusal_here(const dnn_record *record)
{
  enum { NORMS_SINCE = 80 };
  if (is_norm(record) && cu.capability < NORMS_SINCE) return "norms have engines since sm_80";
  return dnn_refusal(record);
}

/* Memory that ran out or a GPU that is lost is no fault of the plan, and in a captured step none can be made. */
static bool may_be_stale(const entry *e, capl_status status)
{
  bool failed = status == CAPL_EDEVICE || status == CAPL_EUNSUPPORTED;
  return failed && e->loaded && !cu.capturing && cudaPeekAtLastError() == cudaSuccess;
}

/* The plan, once more with a new one where that from disk fails. */
static capl_status run_plan(entry *e, const dnn_slots *s)
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
  entry *e = find(record);
  if (!e || !e->planned) {
    CAPL_TRY(make(record, s));
    e = find(record);
  }
  e->ran = ++state.clock;
  if (cu.capturing) e->recorded = true, e->age = cu.graph_age;
  CAPL_TRY(need_engine(record, e->plan.plan ? NULL : "none of its engines takes it"));
  CAPL_TRY(run_plan(e, s));
  dnn_count(record, dnn_uses_tensor_cores(e->plan.numerical));
  state.statistics.runs++;
  return CAPL_OK;
}

capl_status dnn_run(capl_device *device, const dnn_record *record, const dnn_pointers *p)
{
  dnn_slots s;
  CAPL_TRY(need_engine(record, refusal_here(record)));
  const entry *e = find(record);
  if (!e || !e->planned) CAPL_TRY(refuse_in_capture(record));
  CAPL_TRY(dnn_open());
  CAPL_TRY(dnn_stage(&s, device, state.handle, record, p));
  capl_status status = run_staged(record, &s);
  if (status != CAPL_OK) {
    dnn_release(&s);
    return status;
  }
  return dnn_unstage(&s);
}

/* ---- cuDNN or own kernels --------------------------------------------------------------------------- */

static void choice_key(const dnn_record *record, char *key, size_t len)
{
  char text[DNN_TEXT];
  snprintf(key, len, "%s cudnn or own", dnn_describe(record, text, sizeof text));
}

static choice recall(const dnn_record *record)
{
  char key[DNN_TEXT + 16];
  size_t len;
  choice_key(record, key, sizeof key);
  char *text = state.listing ? NULL : plan_cache_read("choice", state.scope, key, &len);
  choice found = !text ? NOT_CHOSEN : strcmp(text, "cudnn") == 0 ? DNN_FASTER : OWN_FASTER;
  free(text);
  return found;
}

static void remember(const dnn_record *record, choice c)
{
  char key[DNN_TEXT + 16];
  const char *text = c == DNN_FASTER ? "cudnn" : "own";
  choice_key(record, key, sizeof key);
  plan_cache_write("choice", state.scope, key, text, strlen(text));
}

static void list_native(const dnn_record *record, float ms, bool chosen)
{
  dnn_list_row(&(dnn_row){.record = record, .engine = DNN_OWN, .ms = ms, .chosen = chosen});
}

/* An engine that fails where it is timed is the slower one. */
static capl_status time_both(const dnn_record *record, const dnn_slots *s, const dnn_work *own, choice *out)
{
  float own_ms, dnn_ms;
  *out = OWN_FASTER;
  CAPL_TRY(make(record, s));
  const entry *e = find(record);
  CAPL_TRY(dnn_time(own, 0, &own_ms));
  bool ran = e->plan.plan && dnn_time_plan(&e->plan, s, own_ms, &dnn_ms) == CAPL_OK;
  if (ran && dnn_ms < own_ms) *out = DNN_FASTER;
  list_native(record, own_ms, *out == OWN_FASTER);
  return CAPL_OK;
}

/* Running statistics stay what they are while they are timed: copies in room take their place. */
static capl_status divert_statistics(const dnn_record *record, dnn_pointers *p, float *room)
{
  if (!record->running) return CAPL_OK;
  for (int role = DNN_RUNNING_MEAN; role <= DNN_RUNNING_VAR; role++, room += record->x[1]) {
    CU_TRY(cudaMemcpyAsync(room, p->at[role], (size_t)record->x[1] * sizeof *room, cudaMemcpyDeviceToDevice, cu.stream),
           "timing a norm");
    p->at[role] = room;
  }
  return CAPL_OK;
}

static capl_status stage_and_time(capl_device *device, const dnn_record *record, dnn_pointers p, const dnn_work *own,
                                  choice *out)
{
  void *room;
  dnn_slots s;
  CAPL_TRY(capl_scratch_get(device, (size_t)record->x[1] * 2 * sizeof(float), &room));
  capl_status status = divert_statistics(record, &p, room);
  if (status == CAPL_OK) status = dnn_stage(&s, device, state.handle, record, &p);
  if (status == CAPL_OK) {
    status = time_both(record, &s, own, out);
    dnn_release(&s);
  }
  capl_scratch_put(device, room);
  return status;
}

/* Whether timing the record would go beyond NORMS_TIMED: then own kernels run untimed. */
static bool takes_too_long(const dnn_record *record)
{
  return is_norm(record) && ++state.norms_timed > NORMS_TIMED && !state.listing;
}

/* Known from an earlier run, or timed now. */
static capl_status settle(capl_device *device, const dnn_record *record, const dnn_pointers *p, const dnn_work *own,
                          choice *out)
{
  const char *how = "faster";
  *out = recall(record);
  if (*out == NOT_CHOSEN && takes_too_long(record)) *out = OWN_FASTER, how = "untimed";
  if (*out == NOT_CHOSEN) {
    CAPL_TRY(stage_and_time(device, record, *p, own, out));
    remember(record, *out);
  }
  if (*out == OWN_FASTER) dnn_list_plan(record, DNN_OWN, 0, how);
  return CAPL_OK;
}

capl_status dnn_faster(capl_device *device, const dnn_record *record, const dnn_pointers *p, const dnn_work *own,
                       bool *faster)
{
  *faster = false;
  if (!tunes(record) || refusal_here(record)) return CAPL_OK;
  entry *e = find(record);
  if (!e || e->choice == NOT_CHOSEN) {
    choice chosen;
    if (cu.capturing) return CAPL_OK;
    CAPL_TRY(dnn_open());
    CAPL_TRY(settle(device, record, p, own, &chosen));
    CAPL_TRY(entry_of(record, &e));
    e->choice = chosen;
  }
  e->ran = ++state.clock;
  *faster = e->choice == DNN_FASTER;
  return CAPL_OK;
}

capl_status dnn_list_native(const dnn_record *record, const dnn_work *own)
{
  enum { WORTH_MS = 5 }; /* native kernels may take many times an engine's time: one run is enough */
  float ms;
  CAPL_TRY(dnn_open());
  if (!state.listing || cu.capturing || !tunes(record) || find(record)) return CAPL_OK;
  CAPL_TRY(dnn_time(own, WORTH_MS, &ms));
  list_native(record, ms, false);
  return CAPL_OK;
}
