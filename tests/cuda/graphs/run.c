/* run.c -- tests of dnn.c: which plan is run, what it is given, and what is kept, with cuDNN and CUDA played by this file.
**
** A plan here is a number, its engine. Running one checks that every tensor is aligned and writes the engine's number
** into each byte of what the record writes, so that results show which plan ran and where they went.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn_plan.h"
#include "base/log.h"

cu_context cu = {.index = 0, .capability = 90};

/* ---- what the stand-ins are told, and what they saw ------------------------------------------------------ */

enum { ENGINES_MAX = 12 };

static struct {
  size_t version;
  int engines;                     /* offered by the heuristics: numbers 1, 2 ... */
  float ms[ENGINES_MAX + 1];       /* how long each takes */
  int64_t workspace[ENGINES_MAX + 1];
  bool compiled[ENGINES_MAX + 1], broken[ENGINES_MAX + 1]; /* broken: no plan can be made */
  bool text_refused;               /* saved plans are not read */
  bool execution_fails;
  int graphs, plans_made, plans_live, loaded, executed, waited;
  int engine;                      /* of the last execution */
  const dnn_record *record;        /* being run */
  float eps, momentum;
} fake;

static int lines;
static char last_line[1024];

static void hear(void *user, const char *line)
{
  (void)user;
  lines++;
  snprintf(last_line, sizeof last_line, "%s", line);
}

/* ---- cuDNN ------------------------------------------------------------------------------------------------ */

size_t cudnnGetVersion(void) { return fake.version; }
const char *cudnnGetErrorString(cudnnStatus_t status) { return status ? "CUDNN_STATUS_EXECUTION_FAILED" : "ok"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) { return *handle = (cudnnHandle_t)&fake, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return (void)handle, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
  return (void)handle, (void)stream, CUDNN_STATUS_SUCCESS;
}

capl_status dnn_status(cudnnStatus_t status, const char *doing)
{
  return status == CUDNN_STATUS_SUCCESS ? CAPL_OK : CAPL_FAIL(CAPL_EDEVICE, "cuDNN: %s", doing);
}

capl_status dnn_graph_build(dnn_graph *g, const dnn_record *record, cudnnHandle_t handle)
{
  (void)record;
  assert_ptr_equal(handle, &fake);
  memset(g, 0, sizeof *g);
  fake.graphs++;
  return CAPL_OK;
}

void dnn_graph_free(dnn_graph *g) { (void)g, fake.graphs--; }
capl_status dnn_target_of_gpu(int index, dnn_target *out) { return (void)index, *out = (dnn_target){0}, CAPL_OK; }
capl_status dnn_target_text(const dnn_target *t, char **json) { return (void)t, *json = strdup("{\"deviceVer\":900}"), CAPL_OK; }
void dnn_target_free(dnn_target *t) { (void)t; }
bool dnn_uses_tensor_cores(uint32_t numerical) { return numerical & 1; }

capl_status dnn_candidates_get(const dnn_record *record, const dnn_graph *g, const dnn_target *target, dnn_candidates *out)
{
  (void)record, (void)g, (void)target;
  memset(out, 0, sizeof *out);
  for (int i = 1; i <= fake.engines; i++)
    out->list[out->count++] = (dnn_candidate){
      .engine = i, .numerical = i == 2, .behavior = (uint32_t)fake.compiled[i] << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION};
  return CAPL_OK;
}

void dnn_candidates_free(dnn_candidates *list) { list->count = 0; }

static capl_status new_plan(int64_t engine, dnn_plan *out)
{
  *out = (dnn_plan){.plan = (cudnnBackendDescriptor_t)(uintptr_t)(16 + engine), .workspace = fake.workspace[engine],
                    .engine = engine, .numerical = engine == 2};
  fake.plans_live++;
  return CAPL_OK;
}

capl_status dnn_plan_make(const dnn_candidate *candidate, const dnn_target *target, dnn_plan *out)
{
  (void)target;
  *out = (dnn_plan){0};
  fake.plans_made++;
  if (fake.broken[candidate->engine]) return CAPL_FAIL(CAPL_EUNSUPPORTED, "engine %d", (int)candidate->engine);
  return new_plan(candidate->engine, out);
}

void dnn_plan_free(dnn_plan *plan)
{
  if (plan->plan) fake.plans_live--;
  plan->plan = NULL;
}

capl_status dnn_plan_save(const dnn_plan *plan, char **text)
{
  *text = calloc(1, 32);
  snprintf(*text, 32, "plan %d", (int)plan->engine);
  return CAPL_OK;
}

capl_status dnn_plan_load(const char *text, const dnn_target *target, dnn_plan *out)
{
  (void)target;
  int engine;
  if (fake.text_refused) return CAPL_FAIL(CAPL_EDEVICE, "this plan is not for me");
  if (sscanf(text, "plan %d", &engine) != 1) return CAPL_FAIL(CAPL_EFORMAT, "no plan");
  fake.loaded++;
  return new_plan(engine, out);
}

/* The variant pack: one at a time. */
static struct {
  int64_t count, uids[64];
  void *pointers[64], *workspace;
} pack;

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
  assert_int_equal(type, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  memset(&pack, 0, sizeof pack);
  return *out = (cudnnBackendDescriptor_t)&pack, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
  (void)type;
  assert_ptr_equal(d, &pack);
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) memcpy(pack.uids, values, (size_t)count * sizeof *pack.uids);
  else if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) memcpy(pack.pointers, values, (size_t)count * sizeof *pack.pointers);
  else memcpy(&pack.workspace, values, sizeof pack.workspace);
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) pack.count = count;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) { return (void)d, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) { return (void)d, CUDNN_STATUS_SUCCESS; }

static void *pointer_of(int64_t uid)
{
  for (int64_t i = 0; i < pack.count; i++)
    if (pack.uids[i] == uid) return pack.pointers[i];
  return NULL;
}

static size_t bytes_of(dnn_tensor t)
{
  return (size_t)(t.size[0] * t.size[1] * t.size[2] * t.size[3]) * capl_dtype_size(t.dtype);
}

static void write_tensor(int64_t uid, dnn_tensor t, int engine)
{
  void *p = pointer_of(uid);
  assert_non_null(p);
  assert_int_equal((uintptr_t)p % 16, 0);
  memset(p, engine, bytes_of(t));
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t d)
{
  (void)handle;
  assert_ptr_equal(d, &pack);
  fake.engine = (int)((uintptr_t)plan - 16);
  fake.executed++;
  if (fake.execution_fails) return CUDNN_STATUS_EXECUTION_FAILED;
  if (fake.workspace[fake.engine]) memset(pack.workspace, 0xEE, (size_t)fake.workspace[fake.engine]);
  for (int i = 0; i < DNN_ROLES; i++) {
    dnn_tensor t = dnn_tensor_of(fake.record, (dnn_role)i);
    if (t.read) assert_int_equal(*(unsigned char *)pointer_of(i + 1), 100 + i); /* what the caller put there */
    if (t.written && !t.read) write_tensor(i + 1, t, fake.engine);
  }
  if (fake.record->kind != DNN_NORM) return CUDNN_STATUS_SUCCESS;
  fake.eps = *(float *)pointer_of(DNN_UID_EPS);
  if (!fake.record->running) return CUDNN_STATUS_SUCCESS;
  fake.momentum = *(float *)pointer_of(DNN_UID_MOMENTUM);
  write_tensor(DNN_UID_NEW_MEAN, dnn_tensor_of(fake.record, DNN_RUNNING_MEAN), fake.engine);
  write_tensor(DNN_UID_NEW_VAR, dnn_tensor_of(fake.record, DNN_RUNNING_VAR), fake.engine);
  return CUDNN_STATUS_SUCCESS;
}

/* ---- CUDA, and the rest of the backend ---------------------------------------------------------------------- */

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return (void)stream, fake.waited++, cudaSuccess; }

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
  (void)kind, (void)stream;
  return memcpy(to, from, bytes), cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = (cudaEvent_t)&fake, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return (void)event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return (void)event, (void)stream, cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return (void)event, cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
  return (void)start, (void)end, *ms = fake.ms[fake.engine], cudaSuccess;
}
cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }

capl_status cu_status(cudaError_t error, const char *doing)
{
  return error == cudaSuccess ? CAPL_OK : CAPL_FAIL(CAPL_EDEVICE, "%s", doing);
}

capl_status device_facts_get(int index, device_facts *out)
{
  *out = (device_facts){.capability = 90, .multiprocessors = 132};
  snprintf(out->name, sizeof out->name, "GPU %d", index);
  return CAPL_OK;
}

/* ---- one run -------------------------------------------------------------------------------------------------- */

enum { ROOM = 4096 };

/* Memory of every role, `off` bytes beside an address of 64. */
static _Alignas(64) unsigned char memory[DNN_ROLES][ROOM];

static capl_status run(const char *text, int off)
{
  static dnn_record record;
  capl_device *device;
  assert_ok(dnn_parse(text, &record));
  assert_ok(capl_device_open("ref", &device));
  fake.record = &record;
  dnn_pointers p = {.eps = 0.25f, .momentum = 0.5f};
  for (int i = 0; i < DNN_ROLES; i++) {
    dnn_tensor t = dnn_tensor_of(&record, (dnn_role)i);
    assert_true(!t.used || bytes_of(t) + 64 <= ROOM);
    memset(memory[i], 100 + i, ROOM);
    if (t.used) p.at[i] = memory[i] + off;
  }
  return dnn_run(device, &record, &p);
}

/* Exactly the tensor was written, by the plan of this engine. */
static void need_written(dnn_role role, int off, int engine)
{
  size_t bytes = bytes_of(dnn_tensor_of(fake.record, role));
  for (size_t i = 0; i < ROOM; i++) {
    bool inside = i >= (size_t)off && i < (size_t)off + bytes;
    if (memory[role][i] != (inside ? engine : 100 + (int)role))
      fail_msg("%s: byte %zu is %d", dnn_role_name(role), i, memory[role][i]);
  }
}

static const char conv[] = "conv2d f32 x=1,2,4,4 y=1,3,4,4 kernel=3,3 padding=1,1 bias=f32";
static const char norm[] = "batch_norm f32 x=2,4,3,3 y=2,4,3,3 running";

/* As after the process's end: what was kept in memory is gone. */
static void restart(void)
{
  dnn_close();
  assert_int_equal(fake.plans_live, 0);
  assert_int_equal(fake.graphs, 0);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void the_first_engine_that_takes_a_record_runs_it(void **state)
{
  (void)state;
  fake.broken[1] = true;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 2);
  assert_ok(run(conv, 0)); /* from the table */
  assert_int_equal(fake.plans_made, 2);
  assert_int_equal(fake.executed, 2);
  assert_int_equal(fake.plans_live, 1);
}

static void a_large_workspace_is_taken_only_where_there_is_no_other(void **state)
{
  (void)state;
  fake.workspace[1] = (int64_t)3 << 30;
  fake.workspace[2] = 1 << 20;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 2);
  assert_int_equal(fake.plans_live, 1);
}

static void the_fastest_engine_is_kept_and_found_again_on_disk(void **state)
{
  (void)state;
  cu.autotune = true;
  fake.engines = 5;
  for (int i = 1; i <= 5; i++) fake.ms[i] = 10;
  fake.ms[4] = 3;
  fake.broken[2] = true;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 4);
  assert_int_equal(fake.plans_live, 1);
  assert_int_equal(dnn_statistics_get().tuned, 1);
  restart();
  fake.plans_made = 0;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 4);
  assert_int_equal(fake.plans_made, 0);
  assert_int_equal(fake.loaded, 1);
  restart();
  cu.autotune = false; /* a plan chosen by timing is not the heuristics' choice */
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 1);
}

static void few_engines_that_must_be_compiled_are_timed(void **state)
{
  (void)state;
  cu.autotune = true;
  fake.engines = ENGINES_MAX;
  for (int i = 1; i <= ENGINES_MAX; i++) fake.compiled[i] = true, fake.ms[i] = (float)(100 - i);
  assert_ok(run(conv, 0));
  assert_int_equal(fake.plans_made, 2);
  need_written(DNN_Y, 0, 2);
}

static void deterministic_records_take_the_order_of_the_heuristics(void **state)
{
  (void)state;
  cu.autotune = true;
  fake.ms[1] = 9;
  fake.ms[2] = 1;
  char text[128];
  snprintf(text, sizeof text, "%s deterministic", conv);
  assert_ok(run(text, 0));
  need_written(DNN_Y, 0, 1);
  assert_int_equal(fake.executed, 1); /* nothing was timed */
}

static void tensors_at_any_address_are_read_and_written_in_place(void **state)
{
  (void)state;
  for (int off = 0; off < 32; off += 4) {
    assert_ok(run(conv, off));
    need_written(DNN_Y, off, 1);
    need_written(DNN_X, off, 100 + DNN_X); /* as it was */
  }
}

static void running_statistics_are_two_tensors_and_one_memory(void **state)
{
  (void)state;
  for (int off = 0; off < 32; off += 4) {
    assert_ok(run(norm, off));
    need_written(DNN_RUNNING_MEAN, off, 1);
    need_written(DNN_RUNNING_VAR, off, 1);
    need_written(DNN_Y, off, 1);
    assert_ptr_not_equal(pointer_of(DNN_RUNNING_MEAN + 1), pointer_of(DNN_UID_NEW_MEAN));
  }
  assert_true(fake.eps == 0.25f && fake.momentum == 0.5f);
}

static void timing_does_not_update_running_statistics_twice(void **state)
{
  (void)state;
  cu.autotune = true;
  fake.ms[1] = fake.ms[2] = 1;
  assert_ok(run(norm, 0)); /* the stand-in checks that each execution read the old ones */
  assert_true(fake.executed > 2);
}

static void a_record_without_engine_is_refused_and_remembered(void **state)
{
  (void)state;
  fake.engines = 0;
  lines = 0;
  assert_int_equal(run(conv, 0), CAPL_EUNSUPPORTED);
  assert_int_equal(run(conv, 0), CAPL_EUNSUPPORTED);
  assert_non_null(strstr(capl_error_last()->message, "cuDNN has no engine for conv2d f32"));
  assert_int_equal(lines, 1);
  cu.capability = 75;
  assert_int_equal(run(norm, 0), CAPL_EUNSUPPORTED);
  assert_non_null(strstr(capl_error_last()->message, "norms have engines since sm_80"));
  assert_int_equal(run("batch_norm bf16 x=2,4,3,3 y=2,4,3,3", 0), CAPL_EUNSUPPORTED);
}

static void no_plan_is_made_inside_a_captured_step(void **state)
{
  (void)state;
  cu.capturing = true;
  assert_int_equal(run(conv, 0), CAPL_ESTATE);
  assert_non_null(strstr(capl_error_last()->message, "no plan for conv2d f32 x=1,2,4,4"));
  assert_non_null(strstr(capl_error_last()->hint, "run the step once"));
  assert_int_equal(fake.plans_made, 0);
  cu.capturing = false;
  assert_ok(run(conv, 0));
  cu.capturing = true;
  assert_ok(run(conv, 0));
  need_written(DNN_Y, 0, 1);
}

/* Images of another width. */
static void run_width(int width)
{
  char text[128];
  snprintf(text, sizeof text, "conv2d f32 x=1,2,4,%d y=1,3,4,%d kernel=3,3 padding=1,1", width, width);
  assert_ok(run(text, 0));
}

static void plans_are_kept_up_to_a_limit_and_the_oldest_go(void **state)
{
  (void)state;
  for (int width = 1; width <= 8; width++) run_width(width);
  run_width(1); /* used again, so 2 to 5 and the median are the older ones */
  run_width(9);
  assert_int_equal(fake.plans_live, 4);
  assert_int_equal(fake.waited, 1);
  int read = fake.loaded;
  run_width(1);
  run_width(7);
  assert_int_equal(fake.loaded, read);
  run_width(2); /* from the disk */
  assert_int_equal(fake.loaded, read + 1);
  for (int width = 1; width <= 40; width++) {
    run_width(width);
    assert_true(fake.plans_live <= 8);
  }
}

static void plans_of_recorded_steps_stay_while_there_is_one(void **state)
{
  (void)state;
  run_width(1);
  cu.capturing = true;
  run_width(1);
  cu.capturing = false;
  cu.graphs = 1;
  for (int width = 2; width <= 40; width++) run_width(width);
  int read = fake.loaded;
  cu.capturing = true;
  run_width(1); /* still there */
  cu.capturing = false;
  cu.graphs = 0, cu.graph_age++;
  for (int width = 2; width <= 40; width++) run_width(width);
  read = fake.loaded;
  run_width(1);
  assert_int_equal(fake.loaded, read + 1);
}

static void a_kept_plan_that_cudnn_does_not_read_is_made_again(void **state)
{
  (void)state;
  assert_ok(run(conv, 0));
  restart();
  fake.text_refused = true;
  lines = 0;
  assert_ok(run(conv, 0));
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "is of no use and is made again: this plan is not for me"));
  restart();
  fake.text_refused = false;
  assert_ok(run(conv, 0));
  assert_int_equal(fake.loaded, 1); /* the one that was made again */
}

static void other_versions_of_cudnn_have_plans_of_their_own(void **state)
{
  (void)state;
  assert_ok(run(conv, 0));
  restart();
  fake.version += 100;
  assert_ok(run(conv, 0));
  assert_int_equal(fake.loaded, 0);
}

static void an_older_cudnn_is_refused_with_both_versions(void **state)
{
  (void)state;
  char want[160];
  fake.version = 90501;
  snprintf(want, sizeof want, "cuDNN 9.5.1 is installed, this build of capl needs %d.%d.%d or a later 9.x", CUDNN_MAJOR,
           CUDNN_MINOR, CUDNN_PATCHLEVEL);
  assert_fails(run(conv, 0), CAPL_EUNSUPPORTED, want);
  fake.version = 100000;
  assert_int_equal(run(conv, 0), CAPL_EUNSUPPORTED);
}

static void a_failed_execution_is_an_error_that_leaves_nothing_behind(void **state)
{
  (void)state;
  capl_device *device;
  capl_memory_stats before, after;
  assert_ok(capl_device_open("ref", &device));
  assert_ok(run(norm, 4));
  capl_memory_stats_get(device, &before);
  fake.execution_fails = true;
  assert_int_equal(run(norm, 4), CAPL_EDEVICE);
  capl_memory_stats_get(device, &after);
  assert_int_equal(after.live, before.live);
}

static void products_count_by_the_engine_that_ran(void **state)
{
  (void)state;
  uint64_t tf32 = capl_counter_get("tf32_kernels"), fp32 = capl_counter_get("fp32_kernels");
  char text[128];
  snprintf(text, sizeof text, "%s tf32", conv);
  assert_ok(run(text, 0)); /* engine 1: no tensor cores */
  fake.broken[1] = true;
  snprintf(text, sizeof text, "%s tf32 deterministic", conv);
  assert_ok(run(text, 0)); /* engine 2 has them */
  assert_int_equal(capl_counter_get("tf32_kernels") - tf32, 1);
  assert_int_equal(capl_counter_get("fp32_kernels") - fp32, 1);
}

static void the_gpu_is_described_where_the_environment_asks_for_it(void **state)
{
  (void)state;
  char path[128], text[64] = "";
  snprintf(path, sizeof path, "/tmp/capl-dnn-device-%d.json", (int)getpid());
  setenv("CAPL_DNN_DEVICE", path, 1);
  assert_ok(run(conv, 0));
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_non_null(fgets(text, sizeof text, f));
  fclose(f);
  unlink(path);
  assert_string_equal(text, "{\"deviceVer\":900}\n");
  restart();
  setenv("CAPL_DNN_DEVICE", "/tmp/no/such/folder/device.json", 1);
  lines = 0;
  assert_ok(run(conv, 0)); /* a record runs all the same */
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "/tmp/no/such/folder/device.json cannot be written"));
  unsetenv("CAPL_DNN_DEVICE");
}

/* ---- a cache of its own for each test ----------------------------------------------------------------------------- */

static char folder[64];

static int begin(void **state)
{
  (void)state;
  memset(&fake, 0, sizeof fake);
  fake.version = CUDNN_VERSION;
  fake.engines = 2;
  cu = (cu_context){.index = 0, .capability = 90};
  snprintf(folder, sizeof folder, "/tmp/capl-dnn-run-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  setenv("XDG_CACHE_HOME", folder, 1);
  capl_log_set(hear, NULL);
  return 0;
}

static int end(void **state)
{
  (void)state;
  char command[128];
  dnn_close();
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return fake.plans_live || fake.graphs || system(command);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(the_first_engine_that_takes_a_record_runs_it),
    TEST(a_large_workspace_is_taken_only_where_there_is_no_other),
    TEST(the_fastest_engine_is_kept_and_found_again_on_disk),
    TEST(few_engines_that_must_be_compiled_are_timed),
    TEST(deterministic_records_take_the_order_of_the_heuristics),
    TEST(tensors_at_any_address_are_read_and_written_in_place),
    TEST(running_statistics_are_two_tensors_and_one_memory),
    TEST(timing_does_not_update_running_statistics_twice),
    TEST(a_record_without_engine_is_refused_and_remembered),
    TEST(no_plan_is_made_inside_a_captured_step),
    TEST(plans_are_kept_up_to_a_limit_and_the_oldest_go),
    TEST(plans_of_recorded_steps_stay_while_there_is_one),
    TEST(a_kept_plan_that_cudnn_does_not_read_is_made_again),
    TEST(other_versions_of_cudnn_have_plans_of_their_own),
    TEST(an_older_cudnn_is_refused_with_both_versions),
    TEST(a_failed_execution_is_an_error_that_leaves_nothing_behind),
    TEST(products_count_by_the_engine_that_ran),
    TEST(the_gpu_is_described_where_the_environment_asks_for_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
