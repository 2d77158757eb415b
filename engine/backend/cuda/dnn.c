/* dnn.c -- running records: plans in memory and on disk, candidates timed against each other, execution.
**
** A table from records to plans; a record met for the first time gets its plan from the cache on disk, or from cuDNN's
** heuristics: the first engine that takes it, or with autotune the fastest of several. Whatever a plan is given is
** aligned to 16 bytes, since all plans are made for that; what is not (views of images, slices of lists) is copied.
**
** Images of many widths have many records: a network of 7 convolutions and norms 35 for each width and batch, so some 1,300
** for 16 widths with a whole and a last batch. Plans are kept up to DNN_PLANS_MAX; then the half that was not used for the
** longest time goes. What a recorded step may hold stays as long as there is one: its kernels belong to the plan.
** SPDX-License-Identifier: Apache-2.0
*/
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn_plan.h"
#include "backend/cuda/plan_cache.h"
#include "base/log.h"
#include "base/text.h"

#ifndef DNN_PLANS_MAX
#define DNN_PLANS_MAX 4096
#endif

enum {
  WORKSPACE_MAX = 1 << 30, /* bytes; engines that want more are left out while there are others */
  TUNE_MAX = 8,            /* engines timed for one record */
  TUNE_COMPILED = 2,       /* of those, at most so many that cuDNN compiles first: half a second each */
  TUNE_RUNS = 3,
};

/* ---- state ----------------------------------------------------------------------------------------- */

typedef struct {
  bool used;
  dnn_record record;
  dnn_plan plan; /* .plan NULL: there is no engine */
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

static capl_status check_version(void)
{
  enum { BUILT = CUDNN_VERSION };
  size_t found = cudnnGetVersion();
  if (found / 10000 == BUILT / 10000 && found / 100 >= BUILT / 100) return CAPL_OK;
  char built[32];
  version_text(BUILT, built, sizeof built);
  capl_status status = CAPL_FAIL(CAPL_EUNSUPPORTED, "cuDNN %s is installed, this build of capl needs %s or a later 9.x",
                                 dnn_version(), built);
  capl_error_hint("install cuDNN %s, or build capl against %s", built, dnn_version());
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

/* $CAPL_DNN_DEVICE=FILE: this GPU in cuDNN's own words, as tests/cuda/graphs/devices has them typed from data sheets. */
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
  CAPL_TRY(check_version());
  CAPL_TRY(set_scope());
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

/* The older half of what may go goes; what is queued may still use it, so it is waited for. Without memory for a table of
** the others all stay. */
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

static capl_status keep(const dnn_record *record, const dnn_plan *plan)
{
  if (state.count >= DNN_PLANS_MAX) CAPL_TRY(make_room());
  if (2 * (state.count + 1) > state.slots) CAPL_TRY(grow());
  *place_of(state.table, state.slots, record) = (entry){.used = true, .record = *record, .plan = *plan};
  state.count++;
  return CAPL_OK;
}

/* ---- what a plan is given -------------------------------------------------------------------------- */

enum { ALIGNMENT = 16, SLOTS = DNN_ROLES + 4 };

/* One tensor, or a number on the host (bytes 0). */
typedef struct {
  int64_t uid;
  void *origin, *at; /* the caller's memory; what the plan gets, scratch where that differs */
  size_t bytes;
  bool read, written;
  bool copied; /* even if aligned */
} slot;

typedef struct {
  capl_device *device;
  slot list[SLOTS];
  int count;
} slots;

static void add_slot(slots *s, slot one)
{
  one.at = one.origin;
  s->list[s->count++] = one;
}

static void add_role(slots *s, const dnn_record *record, const dnn_pointers *p, dnn_role role)
{
  dnn_tensor t = dnn_tensor_of(record, role);
  if (!t.used) return;
  size_t bytes = (size_t)(t.size[0] * t.size[1] * t.size[2] * t.size[3]) * capl_dtype_size(t.dtype);
  bool in_place = t.read && t.written;
  add_slot(s, (slot){.uid = role + 1, .origin = p->at[role], .bytes = bytes, .read = t.read,
                     .written = t.written && !in_place, .copied = in_place});
  if (!in_place) return;
  /* Running statistics: old and new ones are two tensors to cuDNN, which nowhere says that they may be one. */
  int64_t uid = role == DNN_RUNNING_MEAN ? DNN_UID_NEW_MEAN : DNN_UID_NEW_VAR;
  add_slot(s, (slot){.uid = uid, .origin = p->at[role], .bytes = bytes, .written = true});
}

static void list_slots(slots *s, capl_device *device, const dnn_record *record, const dnn_pointers *p)
{
  *s = (slots){.device = device};
  for (int role = 0; role < DNN_ROLES; role++) add_role(s, record, p, (dnn_role)role);
  if (record->kind != DNN_NORM) return;
  add_slot(s, (slot){.uid = DNN_UID_EPS, .origin = (void *)&p->eps});
  if (record->running) add_slot(s, (slot){.uid = DNN_UID_MOMENTUM, .origin = (void *)&p->momentum});
}

static capl_status move(void *to, const void *from, size_t bytes)
{
  return cu_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cu.stream), "aligning a tensor");
}

static void release(slots *s)
{
  for (int i = 0; i < s->count; i++)
    if (s->list[i].at != s->list[i].origin) capl_scratch_put(s->device, s->list[i].at);
}

/* Scratch memory, filled, for what the plan cannot have as it is. */
static capl_status stage_slot(slots *s, slot *one)
{
  if (!one->bytes || (!one->copied && (uintptr_t)one->origin % ALIGNMENT == 0)) return CAPL_OK;
  void *scratch;
  CAPL_TRY(capl_scratch_get(s->device, one->bytes, &scratch));
  one->at = scratch;
  return one->read ? move(one->at, one->origin, one->bytes) : CAPL_OK;
}

static capl_status stage(slots *s)
{
  for (int i = 0; i < s->count; i++) {
    capl_status status = stage_slot(s, &s->list[i]);
    if (status != CAPL_OK) {
      release(s);
      return status;
    }
  }
  return CAPL_OK;
}

/* Results to where they were asked for, scratch memory back. */
static capl_status unstage(slots *s)
{
  capl_status status = CAPL_OK;
  for (int i = 0; i < s->count && status == CAPL_OK; i++) {
    const slot *one = &s->list[i];
    if (one->written && one->at != one->origin) status = move(one->origin, one->at, one->bytes);
  }
  release(s);
  return status;
}

/* ---- execution ------------------------------------------------------------------------------------- */

static capl_status fill_pack(cudnnBackendDescriptor_t pack, const slots *s, void *workspace)
{
  void *pointers[SLOTS];
  int64_t uids[SLOTS];
  for (int i = 0; i < s->count; i++) {
    pointers[i] = s->list[i].at;
    uids[i] = s->list[i].uid;
  }
  DNN_TRY(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, s->count, pointers),
          "taking the tensors");
  DNN_TRY(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, s->count, uids),
          "taking the tensors");
  DNN_TRY(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace),
          "taking the workspace");
  return dnn_status(cudnnBackendFinalize(pack), "taking the tensors");
}

static capl_status execute_packed(const dnn_plan *plan, cudnnBackendDescriptor_t pack)
{
  cudnnStatus_t status = cudnnBackendExecute(state.handle, plan->plan, pack);
  if (status == CUDNN_STATUS_SUCCESS) return CAPL_OK;
  CU_TRY(cudaPeekAtLastError(), "running a plan of cuDNN"); /* says more, if the GPU is lost */
  return dnn_status(status, "running a plan");
}

static capl_status execute_with(const dnn_plan *plan, const slots *s, void *workspace)
{
  cudnnBackendDescriptor_t pack = NULL;
  DNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), "making a descriptor");
  capl_status status = fill_pack(pack, s, workspace);
  if (status == CAPL_OK) status = execute_packed(plan, pack);
  cudnnBackendDestroyDescriptor(pack);
  return status;
}

static capl_status execute(const dnn_plan *plan, const slots *s)
{
  void *workspace = NULL;
  if (plan->workspace > 0) CAPL_TRY(capl_scratch_get(s->device, (size_t)plan->workspace, &workspace));
  capl_status status = execute_with(plan, s, workspace);
  if (workspace) capl_scratch_put(s->device, workspace);
  return status;
}

/* ---- timing ---------------------------------------------------------------------------------------- */

static capl_status time_between(cudaEvent_t start, cudaEvent_t end, const dnn_plan *plan, const slots *s, float *ms)
{
  CAPL_TRY(execute(plan, s)); /* loads the kernel */
  CU_TRY(cudaEventRecord(start, cu.stream), "timing an engine");
  for (int i = 0; i < TUNE_RUNS; i++) CAPL_TRY(execute(plan, s));
  CU_TRY(cudaEventRecord(end, cu.stream), "timing an engine");
  CU_TRY(cudaEventSynchronize(end), "timing an engine");
  return cu_status(cudaEventElapsedTime(ms, start, end), "timing an engine");
}

static capl_status time_plan(const dnn_plan *plan, const slots *s, float *ms)
{
  cudaEvent_t start = NULL, end = NULL;
  CU_TRY(cudaEventCreate(&start), "timing an engine");
  capl_status status = cu_status(cudaEventCreate(&end), "timing an engine");
  if (status == CAPL_OK) status = time_between(start, end, plan, s, ms);
  if (end) cudaEventDestroy(end);
  cudaEventDestroy(start);
  return status;
}

/* Keeps the faster of *best and *plan in *best, frees the other. */
static void keep_faster(dnn_plan *best, float *best_ms, dnn_plan *plan, float ms)
{
  if (best->plan && ms >= *best_ms) {
    dnn_plan_free(plan);
    return;
  }
  if (best->plan) dnn_plan_free(best);
  *best = *plan;
  *best_ms = ms;
}

/* An engine that fails here is passed over; a GPU that is lost fails the next call too. */
static void tune(const dnn_candidates *candidates, const dnn_target *target, const slots *s, dnn_plan *best)
{
  float best_ms = 0;
  int timed = 0, compiled = 0;
  for (int i = 0; i < candidates->count && timed < TUNE_MAX; i++) {
    const dnn_candidate *c = &candidates->list[i];
    dnn_plan plan;
    float ms;
    bool compiles = c->behavior & 1u << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    if (compiles && compiled++ >= TUNE_COMPILED) continue;
    if (dnn_plan_make(c, target, &plan) != CAPL_OK) continue;
    if (plan.workspace > WORKSPACE_MAX || time_plan(&plan, s, &ms) != CAPL_OK) {
      dnn_plan_free(&plan);
      continue;
    }
    keep_faster(best, &best_ms, &plan, ms);
    timed++;
  }
}

/* ---- plans ----------------------------------------------------------------------------------------- */

/* The first engine that takes the record, one with a modest workspace if there is any. */
static capl_status first_plan(const dnn_candidates *candidates, const dnn_target *target, dnn_plan *out)
{
  *out = (dnn_plan){0};
  for (int i = 0; i < candidates->count; i++) {
    dnn_plan plan;
    if (dnn_plan_make(&candidates->list[i], target, &plan) != CAPL_OK) continue;
    if (plan.workspace <= WORKSPACE_MAX) {
      dnn_plan_free(out);
      *out = plan;
      return CAPL_OK;
    }
    if (!out->plan || plan.workspace < out->workspace) {
      dnn_plan_free(out);
      *out = plan;
    } else {
      dnn_plan_free(&plan);
    }
  }
  return CAPL_OK;
}

static bool tunes(const dnn_record *record)
{
  return cu.autotune && !record->deterministic;
}

static capl_status choose(const dnn_record *record, const dnn_graph *g, const slots *s, dnn_plan *out)
{
  dnn_target target = {.handle = state.handle};
  dnn_candidates candidates;
  CAPL_TRY(dnn_candidates_get(record, g, &target, &candidates));
  *out = (dnn_plan){0};
  capl_status status = CAPL_OK;
  if (tunes(record) && candidates.count > 1) tune(&candidates, &target, s, out);
  if (out->plan) state.statistics.tuned++;
  else status = first_plan(&candidates, &target, out);
  dnn_candidates_free(&candidates);
  return status;
}

static capl_status build(const dnn_record *record, const slots *s, dnn_plan *out)
{
  dnn_graph g;
  capl_status status = dnn_graph_build(&g, record, state.handle);
  if (status == CAPL_OK) status = choose(record, &g, s, out);
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

static bool load(const char *key, dnn_plan *out)
{
  size_t len;
  char *text = plan_cache_read("plan", state.scope, key, &len);
  if (!text) return false;
  dnn_target target = {.handle = state.handle};
  bool ok = dnn_plan_load(text, &target, out) == CAPL_OK;
  if (ok) state.statistics.loaded++;
  else plan_cache_drop("plan", state.scope, key, capl_error_last()->message);
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
static void tell_no_engine(const dnn_record *record)
{
  static bool told[DNN_KINDS][CAPL_DTYPE_COUNT];
  char text[DNN_TEXT];
  if (told[record->kind][record->dtype]) return;
  told[record->kind][record->dtype] = true;
  capl_log("cuDNN has no engine on this GPU for %s: own kernels take its place, and that of others like it",
           dnn_describe(record, text, sizeof text));
}

/* Makes the record's entry. Only a failure of the GPU or of memory is an error: no engine is an answer. */
static capl_status make(const dnn_record *record, const slots *s)
{
  char key[DNN_TEXT + 16];
  dnn_plan plan = {0};
  cache_key(record, key, sizeof key);
  if (!load(key, &plan)) {
    capl_status status = build(record, s, &plan);
    if (status != CAPL_OK && status != CAPL_EUNSUPPORTED) return status;
    if (plan.plan) save(key, &plan);
    else tell_no_engine(record);
  }
  capl_status status = keep(record, &plan);
  if (status != CAPL_OK) dnn_plan_free(&plan);
  return status;
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
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "cuDNN has no engine for %s: %s", dnn_describe(record, text, sizeof text), refusal);
}

/* dnn_refusal, and what only newer GPUs have: asking costs a graph for each record. */
static const char *refusal_here(const dnn_record *record)
{
  enum { NORMS_SINCE = 80 };
  bool norm = record->kind == DNN_NORM || record->kind == DNN_NORM_GRAD;
  if (norm && cu.capability < NORMS_SINCE) return "norms have engines since sm_80";
  return dnn_refusal(record);
}

/* Everything between staging and unstaging. */
static capl_status run_staged(const dnn_record *record, const slots *s)
{
  entry *e = find(record);
  if (!e) {
    CAPL_TRY(make(record, s));
    e = find(record);
  }
  e->ran = ++state.clock;
  if (cu.capturing) e->recorded = true, e->age = cu.graph_age;
  CAPL_TRY(need_engine(record, e->plan.plan ? NULL : "none of its engines takes it"));
  CAPL_TRY(execute(&e->plan, s));
  dnn_count(record, dnn_uses_tensor_cores(e->plan.numerical));
  state.statistics.runs++;
  return CAPL_OK;
}

capl_status dnn_run(capl_device *device, const dnn_record *record, const dnn_pointers *p)
{
  slots s;
  CAPL_TRY(need_engine(record, refusal_here(record)));
  if (!find(record)) CAPL_TRY(refuse_in_capture(record));
  CAPL_TRY(dnn_open());
  list_slots(&s, device, record, p);
  CAPL_TRY(stage(&s));
  capl_status status = run_staged(record, &s);
  if (status != CAPL_OK) {
    release(&s);
    return status;
  }
  return unstage(&s);
}
