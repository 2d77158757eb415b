/* stream.cc -- queues of work, events between them, and launching kernels.
**
** Work does not run when it is queued but when somebody waits for it (or when the queue gets long), and one stream knows
** nothing of another but through events: what was not ordered really comes in the wrong order. CAPL_SHIM_ASYNC chooses.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>
#include <time.h>

#include <cstddef>
#include <map>
#include <set>

#include "block.h"
#include "runtime.h"
#include "shared.h"

enum { LONG_QUEUE = 512 };

static std::set<shim_stream *> &streams = *new std::set<shim_stream *>;
static shim_stream &legacy = *new shim_stream;
static std::set<const void *> &loaded = *new std::set<const void *>; /* kernels that are on the GPU */

shim_stream *stream_of(cudaStream_t handle)
{
  if (!handle) return &legacy;
  return streams.count(handle) ? handle : nullptr;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Of a card that takes the same time for every launch, or the clock's. */
static double seconds_now()
{
  if (settings.launch_us > 0) return 1e-6 * settings.launch_us * (double)counts.launches;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cudaError_t run_to_record(shim_stream *s, const event_state *e, uint64_t version);

static cudaError_t run_one(shim_stream *s)
{
  work w = std::move(s->queue.front());
  s->queue.pop_front();
  if (w.kind == work::RECORD) {
    w.event->done = w.version;
    w.event->seconds = seconds_now();
    return cudaSuccess;
  }
  if (w.kind == work::WAIT) return run_to_record(w.source, w.event.get(), w.version);
  return w.run();
}

/* A GPU that is lost runs nothing more. */
static cudaError_t lose(cudaError_t why)
{
  become_lost(why);
  for (shim_stream *s : streams) s->queue.clear();
  legacy.queue.clear();
  return why;
}

/* Runs the oldest work until `until` says that it is enough. */
template <class Until> static cudaError_t run_until(shim_stream *s, Until until)
{
  cudaError_t error = cudaSuccess;
  device_memory_open(true);
  while (error == cudaSuccess && !s->queue.empty() && !until()) error = run_one(s);
  device_memory_open(false);
  return error == cudaSuccess ? error : lose(error);
}

static cudaError_t run_to_record(shim_stream *s, const event_state *e, uint64_t version)
{
  return run_until(s, [=] { return e->done >= version; });
}

/* The legacy stream and blocking streams wait for each other. */
cudaError_t run_all(shim_stream *s)
{
  if (s == &legacy)
    for (shim_stream *other : streams)
      if (other->blocking) {
        cudaError_t error = run_until(other, [] { return false; });
        if (error != cudaSuccess) return error;
      }
  return run_until(s, [] { return false; });
}

cudaError_t run_everything()
{
  cudaError_t error = run_all(&legacy);
  for (shim_stream *s : streams)
    if (error == cudaSuccess) error = run_all(s);
  return error;
}

static bool runs_at_once(const shim_stream *s)
{
  return settings.async == AT_ONCE || (settings.async == FIRST_LATE && !s->first);
}

cudaError_t queue_work(shim_stream *s, work w)
{
  if (w.kind == work::RUN) shim_trace("work %d", s->number);
  if (s->capturing) return capture_add(s, std::move(w));
  cudaError_t error = refuse_legacy(s);
  if (error != cudaSuccess) return error;
  s->queue.push_back(std::move(w));
  if (runs_at_once(s)) return run_all(s);
  if (s->queue.size() < LONG_QUEUE) return cudaSuccess;
  return run_until(s, [=] { return s->queue.size() <= LONG_QUEUE / 2; });
}

/* ---- streams --------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority)
{
  static int made;
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = new shim_stream;
  s->number = ++made;
  s->device = current_device();
  shim_trace("stream %d priority %d", s->number, priority);
  s->blocking = !(flags & cudaStreamNonBlocking);
  s->first = streams.empty();
  streams.insert(s);
  *out = s;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
  return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
  return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

/* Queued work is still done, as CUDA has it. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s || s == &legacy) return c.leave(cudaErrorInvalidResourceHandle);
  cudaError_t error = refuse_captured(s);
  if (error != cudaSuccess) return c.leave(error);
  error = run_all(s);
  streams.erase(s);
  delete s;
  return c.leave(error);
}

/* Whether a capture forbids to wait for this stream, or to ask about it. */
static cudaError_t refuse_waiting(shim_stream *s)
{
  cudaError_t error = refuse_captured(s);
  if (error == cudaSuccess) error = refuse_legacy(s);
  return error == cudaSuccess ? refuse_in_capture() : error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  cudaError_t error = refuse_waiting(s);
  if (error != cudaSuccess) return c.leave(error);
  counts.waits++;
  shim_trace("sync %d", s->number);
  return c.leave(run_all(s));
}

/* Not ready the first time somebody asks; the work is done by the next. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  cudaError_t error = refuse_waiting(s);
  if (error != cudaSuccess || s->queue.empty()) return c.leave(error);
  error = run_all(s);
  return c.leave(error == cudaSuccess ? cudaErrorNotReady : error);
}

void streams_reset()
{
  for (shim_stream *s : streams) delete s;
  streams.clear();
  legacy.queue.clear();
  loaded.clear();
}

/* ---- events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
  static int made;
  call c;
  if (c.refused()) return c.result();
  *out = new shim_event;
  (*out)->state->number = ++made;
  (*out)->device = current_device();
  (*out)->timed = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
  return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  call c;
  if (!c.refused()) delete event;
  return c.result();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s || !event || (s != &legacy && s->device != event->device)) return c.leave(cudaErrorInvalidResourceHandle);
  event_state *e = event->state.get();
  shim_trace("record %d %d", e->number, s->number);
  if (s->capturing) return c.leave(capture_record(s, e));
  e->captured = nullptr;
  e->stream = s;
  work w;
  w.kind = work::RECORD;
  w.event = event->state;
  w.version = ++e->recorded;
  return c.leave(queue_work(s, std::move(w)));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s || !event) return c.leave(cudaErrorInvalidResourceHandle);
  event_state *e = event->state.get();
  shim_trace("wait %d %d", s->number, e->number);
  if (s->capturing || e->captured) return c.leave(capture_wait(s, e));
  if (e->recorded == 0 || e->done >= e->recorded) return cudaSuccess;
  work w;
  w.kind = work::WAIT;
  w.event = event->state;
  w.version = e->recorded;
  w.source = e->stream;
  return c.leave(queue_work(s, std::move(w)));
}

/* Whether a capture forbids to wait for this event, or to ask about it. */
static cudaError_t refuse_asking(const event_state *e)
{
  cudaError_t error = refuse_captured_event(e);
  return error == cudaSuccess ? refuse_in_capture() : error;
}

static cudaError_t reach(const event_state *e)
{
  return e->done >= e->recorded ? cudaSuccess : run_to_record(e->stream, e, e->recorded);
}

/* Not ready the first time somebody asks; reached by the next. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
  call c;
  if (c.refused()) return c.result();
  const event_state *e = event->state.get();
  cudaError_t unsafe = refuse_asking(e);
  if (unsafe != cudaSuccess) return c.leave(unsafe);
  bool was_done = e->done >= e->recorded;
  cudaError_t error = reach(e);
  return c.leave(error == cudaSuccess && !was_done ? cudaErrorNotReady : error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
  call c;
  if (c.refused()) return c.result();
  const event_state *e = event->state.get();
  cudaError_t unsafe = refuse_asking(e);
  if (unsafe != cudaSuccess) return c.leave(unsafe);
  counts.waits++;
  return c.leave(reach(e));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
  call c;
  if (c.refused()) return c.result();
  const event_state *a = start->state.get(), *b = end->state.get();
  cudaError_t unsafe = refuse_captured_event(a);
  if (unsafe == cudaSuccess) unsafe = refuse_asking(b);
  if (unsafe != cudaSuccess) return c.leave(unsafe);
  if (!start->timed || !end->timed) return c.leave(cudaErrorInvalidResourceHandle);
  if (!a->recorded || !b->recorded) return c.leave(cudaErrorInvalidResourceHandle);
  if (a->done < a->recorded || b->done < b->recorded) return c.leave(cudaErrorNotReady);
  *ms = (float)(1e3 * (b->seconds - a->seconds));
  return cudaSuccess;
}

/* ---- launching ------------------------------------------------------------------------------- */

static std::map<const void *, size_t> &allowed_shared = *new std::map<const void *, size_t>; /* cudaFuncSetAttribute */
enum { USUAL_SHARED = 48 << 10 };

static const shared_list *arrays_of(const void *kernel)
{
  return shared_of_kernel(((const shim_kernel *)kernel)->code);
}

/* A kernel goes to the GPU when it is first asked for, unless CUDA_MODULE_LOADING says EAGER. Loading may wait for the
** GPU and allocate, so a capture forbids it. */
static cudaError_t load(const void *kernel)
{
  if (settings.eager || loaded.count(kernel)) return cudaSuccess;
  cudaError_t error = refuse_in_capture();
  if (error == cudaSuccess) {
    loaded.insert(kernel);
    return cudaSuccess;
  }
  char name[512];
  shared_kernel_name(((const shim_kernel *)kernel)->code, name, sizeof name);
  return fault_set(error, "%s would be loaded while a step is captured: it never ran before", name);
}

static cudaError_t check_launch(const shim_kernel *kernel, dim3 grid, dim3 block, size_t shared)
{
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  uint64_t threads = (uint64_t)block.x * block.y * block.z;
  const shared_list *arrays = shared_of_kernel(kernel->code);
  if (threads == 0 || threads > (uint64_t)shared_most_threads(arrays) || block.z > 64) return cudaErrorInvalidConfiguration;
  if (!grid.x || !grid.y || !grid.z || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  auto raised = allowed_shared.find(kernel);
  size_t own = shared_bytes(arrays);
  size_t most = raised == allowed_shared.end() ? USUAL_SHARED - own : raised->second;
  return own > USUAL_SHARED || shared > most ? cudaErrorInvalidValue : cudaSuccess;
}

/* Room for the arguments, aligned for any type. */
typedef std::vector<std::max_align_t> arguments;

static std::shared_ptr<arguments> keep(const void *bytes, size_t n)
{
  auto kept = std::make_shared<arguments>(n / sizeof(std::max_align_t) + 1);
  if (n) memcpy(kept->data(), bytes, n);
  return kept;
}

static std::string name_of(const shim_kernel *kernel)
{
  char name[256];
  shared_kernel_name(kernel->code, name, sizeof name);
  return name;
}

cudaError_t cudaLaunchKernel(const void *entry, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  const shim_kernel *kernel = (const shim_kernel *)entry;
  shim_stream *s = stream_of(stream);
  if (!s || (s != &legacy && s->device != current_device())) return c.leave(cudaErrorInvalidResourceHandle);
  cudaError_t error = check_launch(kernel, grid, block, shared);
  if (error == cudaSuccess) error = load(kernel);
  if (error != cudaSuccess) return c.leave(error);
  auto kept = keep(args[0], kernel->args_bytes);
  work w;
  if (ledger_on()) w.name = name_of(kernel);
  w.run = [=] {
    counts.launches++;
    launch l = {kernel, grid, block, shared, kept->data()};
    device_memory_used_by(kernel->code);
    return block_run_all(l, settings.backwards) ? cudaSuccess : cudaErrorLaunchFailure;
  };
  return c.leave(queue_work(s, std::move(w)));
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute which, int value)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = load(kernel);
  if (error != cudaSuccess || which != cudaFuncAttributeMaxDynamicSharedMemorySize) return c.leave(error);
  size_t own = shared_bytes(arrays_of(kernel));
  if (value < 0 || (size_t)value + own > MAX_SHARED) return c.leave(cudaErrorInvalidValue);
  allowed_shared[kernel] = (size_t)value;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *kernel)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = load(kernel);
  if (error != cudaSuccess) return c.leave(error);
  *out = {};
  out->sharedSizeBytes = shared_bytes(arrays_of(kernel));
  out->maxThreadsPerBlock = shared_most_threads(arrays_of(kernel));
  out->numRegs = 32;
  out->maxDynamicSharedSizeBytes = USUAL_SHARED - (int)out->sharedSizeBytes;
  return cudaSuccess;
}

/* By threads and shared memory alone. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = load(kernel);
  if (error != cudaSuccess) return c.leave(error);
  size_t own = shared_bytes(arrays_of(kernel)) + shared + 1024;
  int by_threads = 2048 / (threads > 0 ? threads : 1), by_shared = (int)((228u << 10) / own);
  *blocks = by_threads < by_shared ? by_threads : by_shared;
  if (*blocks > 32) *blocks = 32;
  if (threads > shared_most_threads(arrays_of(kernel))) *blocks = 0;
  return cudaSuccess;
}

/* ---- the trace ------------------------------------------------------------------------------- */

int shim_stream_number(cudaStream_t stream)
{
  call c;
  shim_stream *s = stream_of(stream);
  return s ? s->number : -1;
}

int shim_stream_captured(cudaStream_t stream)
{
  call c;
  shim_stream *s = stream_of(stream);
  return s && s->capturing;
}

/* ---- other work ------------------------------------------------------------------------------ */

cudaError_t shim_enqueue(cudaStream_t stream, int (*run)(const void *record), const void *record, size_t bytes,
                         const char *name)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  auto kept = keep(record, bytes);
  work w;
  w.name = name;
  w.run = [=] {
    counts.launches++;
    device_memory_used_by((const void *)run);
    return (cudaError_t)run(kept->data());
  };
  return c.leave(queue_work(s, std::move(w)));
}

cudaError_t shim_go_on(cudaStream_t stream)
{
  call c(ASKS);
  shim_stream *s = stream_of(stream);
  if (c.refused() || !s || s->capturing) return c.result();
  return c.leave(run_all(s));
}

/* A host function cannot touch device memory. */
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *user)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  work w;
  w.run = [=] {
    fn(user);
    return cudaSuccess;
  };
  return c.leave(queue_work(s, std::move(w)));
}
