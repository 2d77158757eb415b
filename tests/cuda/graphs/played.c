/* played.c -- cuDNN and CUDA in place of the real ones.
** SPDX-License-Identifier: Apache-2.0
*/
#include "played.h"

#include <time.h>
#include <unistd.h>

#include "backend/cuda/device.h"
#include "base/log.h"

cu_context cu = {.index = 0, .capability = 90};

played_state played;
int lines;
char last_line[1024];

static void hear(void *user, const char *line)
{
  (void)user;
  lines++;
  snprintf(last_line, sizeof last_line, "%s", line);
}

/* ---- cuDNN ------------------------------------------------------------------------------------------------ */

size_t cudnnGetVersion(void) { return played.version; }
const char *cudnnGetErrorString(cudnnStatus_t status) { return status ? "CUDNN_STATUS_EXECUTION_FAILED" : "ok"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) { return *handle = (cudnnHandle_t)&played, CUDNN_STATUS_SUCCESS; }
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
  assert_ptr_equal(handle, &played);
  memset(g, 0, sizeof *g);
  played.graphs++;
  return CAPL_OK;
}

void dnn_graph_free(dnn_graph *g) { (void)g, played.graphs--; }
capl_status dnn_target_of_gpu(int index, dnn_target *out) { return (void)index, *out = (dnn_target){0}, CAPL_OK; }
capl_status dnn_target_text(const dnn_target *t, char **json) { return (void)t, *json = strdup("{\"deviceVer\":900}"),
    CAPL_OK; }
void dnn_target_free(dnn_target *t) { (void)t; }
bool dnn_uses_tensor_cores(uint32_t numerical) { return numerical & 1; }

capl_status dnn_candidates_get(const dnn_record *record, const dnn_graph *g, const dnn_target *target,
                               dnn_candidates *out)
{
  (void)record, (void)g, (void)target;
  memset(out, 0, sizeof *out);
  for (int i = 1; i <= played.candidates; i++)
    out->list[out->count++] = (dnn_candidate){
      .config = (cudnnBackendDescriptor_t)(uintptr_t)i, .engine = played.number[i] ? played.number[i] : i,
      .numerical = i == 2, .behavior = (uint32_t)played.compiled[i] << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION};
  return CAPL_OK;
}

void dnn_candidates_free(dnn_candidates *list) { list->count = 0; }

static capl_status new_plan(int candidate, dnn_plan *out)
{
  *out = (dnn_plan){.plan = (cudnnBackendDescriptor_t)(uintptr_t)(16 + candidate),
                    .workspace = played.workspace[candidate], .engine = candidate, .numerical = candidate == 2};
  played.plans_live++;
  return CAPL_OK;
}

capl_status dnn_plan_make(const dnn_candidate *candidate, const dnn_target *target, dnn_plan *out)
{
  (void)target;
  *out = (dnn_plan){0};
  played.plans_made++;
  int number = (int)(uintptr_t)candidate->config;
  if (played.broken[number]) return CAPL_FAIL(CAPL_EUNSUPPORTED, "candidate %d", number);
  return new_plan(number, out);
}

void dnn_plan_free(dnn_plan *plan)
{
  if (plan->plan) played.plans_live--;
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
  if (played.text_refused) return CAPL_FAIL(CAPL_EDEVICE, "this plan is not for me");
  if (sscanf(text, "plan %d", &engine) != 1) return CAPL_FAIL(CAPL_EFORMAT, "no plan");
  played.loaded++;
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
  else if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
    memcpy(pack.pointers, values, (size_t)count * sizeof *pack.pointers);
  else memcpy(&pack.workspace, values, sizeof pack.workspace);
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) pack.count = count;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) { return (void)d, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) { return (void)d, CUDNN_STATUS_SUCCESS; }

void *pointer_of(int64_t uid)
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
  played.engine = (int)((uintptr_t)plan - 16);
  played.executed++;
  played.runs[played.engine]++;
  played.now += played.ms[played.engine];
  if (played.pause > 0) nanosleep(&(struct timespec){0, (long)(1e9 * played.pause)}, NULL);
  if (played.failing > 0) return played.failing--, CUDNN_STATUS_EXECUTION_FAILED;
  if (played.workspace[played.engine]) memset(pack.workspace, 0xEE, (size_t)played.workspace[played.engine]);
  for (int i = 0; i < DNN_ROLES; i++) {
    dnn_tensor t = dnn_tensor_of(played.record, (dnn_role)i);
    if (t.read) assert_int_equal(*(unsigned char *)pointer_of(i + 1), 100 + i); /* what the caller put there */
    if (t.written && !t.read) write_tensor(i + 1, t, played.engine);
  }
  if (played.record->kind != DNN_NORM) return CUDNN_STATUS_SUCCESS;
  played.eps = *(float *)pointer_of(DNN_UID_EPS);
  if (!played.record->running) return CUDNN_STATUS_SUCCESS;
  played.momentum = *(float *)pointer_of(DNN_UID_MOMENTUM);
  write_tensor(DNN_UID_NEW_MEAN, dnn_tensor_of(played.record, DNN_RUNNING_MEAN), played.engine);
  write_tensor(DNN_UID_NEW_VAR, dnn_tensor_of(played.record, DNN_RUNNING_VAR), played.engine);
  return CUDNN_STATUS_SUCCESS;
}

/* ---- CUDA, and the rest of the backend ---------------------------------------------------------------------- */

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return (void)stream, played.waited++, cudaSuccess; }

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
  (void)kind, (void)stream;
  return memcpy(to, from, bytes), cudaSuccess;
}

/* An event is the time at which it was recorded. */
static float times[2];
static int events;

cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = (cudaEvent_t)&times[events++ % 2], cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return (void)event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  return (void)stream, *(float *)(void *)event = played.now, cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return (void)event, cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
  return *ms = *(float *)(void *)end - *(float *)(void *)start, cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
  return *available = played.free, *total = played.total, cudaSuccess;
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

_Alignas(64) unsigned char memory[DNN_ROLES][ROOM];

const dnn_record *prepare(const char *text, int off, dnn_pointers *p)
{
  static dnn_record record;
  assert_ok(dnn_parse(text, &record));
  played.record = &record;
  *p = (dnn_pointers){.eps = 0.25f, .momentum = 0.5f};
  for (int i = 0; i < DNN_ROLES; i++) {
    dnn_tensor t = dnn_tensor_of(&record, (dnn_role)i);
    assert_true(!t.used || bytes_of(t) + 64 <= ROOM);
    memset(memory[i], 100 + i, ROOM);
    if (t.used) p->at[i] = memory[i] + off;
  }
  return &record;
}

capl_status run(const char *text, int off)
{
  dnn_pointers p;
  capl_device *device;
  assert_ok(capl_device_open("ref", &device));
  return dnn_run(device, prepare(text, off, &p), &p);
}

void need_written(dnn_role role, int off, int engine)
{
  size_t bytes = bytes_of(dnn_tensor_of(played.record, role));
  for (size_t i = 0; i < ROOM; i++) {
    bool inside = i >= (size_t)off && i < (size_t)off + bytes;
    if (memory[role][i] != (inside ? engine : 100 + (int)role))
      fail_msg("%s: byte %zu is %d", dnn_role_name(role), i, memory[role][i]);
  }
}

const char conv[] = "conv2d f32 x=1,2,4,4 y=1,3,4,4 kernel=3,3 padding=1,1 bias=f32";
const char norm[] = "batch_norm f32 x=2,4,3,3 y=2,4,3,3 running";

void restart(void)
{
  dnn_close();
  assert_int_equal(played.plans_live, 0);
  assert_int_equal(played.graphs, 0);
}

/* ---- a cache of its own for each test
** ----------------------------------------------------------------------------- */

static char folder[64];

int begin(void **state)
{
  (void)state;
  memset(&played, 0, sizeof played);
  played.version = CUDNN_VERSION;
  played.free = played.total = (size_t)16 << 30;
  played.candidates = 2;
  cu = (cu_context){.index = 0, .capability = 90};
  snprintf(folder, sizeof folder, "/tmp/capl-dnn-run-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  setenv("XDG_CACHE_HOME", folder, 1);
  capl_log_set(hear, NULL);
  return 0;
}

int end(void **state)
{
  (void)state;
  char command[128];
  dnn_close();
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return played.plans_live || played.graphs || system(command);
}
