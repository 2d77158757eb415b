/* nccl.c -- collectives between GPUs: NCCL on a stream of its own, ordered with the arithmetic by events.
**
** Every call first makes that stream wait for what cu.stream holds so far (whoever computes the numbers), and then
** records an event, by which cu.stream is made to wait when the numbers are wanted. The host never waits. The same
** holds while a step is recorded: the events then fork the recording and join it again, and NCCL's kernels become part
** of the graph.
**
** Tickets count the calls. Events are reused: a ticket whose event stands for a later call is waited for by that later
** one, which ends no earlier. Events of recorded calls are others than those of plain ones, for one must never wait for
** the other. SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/nccl.h"

#include <pthread.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/nccl_comm.h"
#include "capl/dist.h"

enum { EVENTS = 64 };

typedef struct {
  cudaEvent_t began[EVENTS], at[EVENTS], asked[EVENTS]; /* asked: the arithmetic had nothing to do but wait for it */
  int64_t ticket[EVENTS]; /* that the event stands for, 0 = none */
  bool timed[EVENTS];     /* began and at are those of this ticket, and its time is not in `busy` yet */
  bool awaited[EVENTS];   /* likewise asked, at and `waited` */
} event_ring;

/* One communicator: a process has one GPU and belongs to one world. */
static struct {
  const nccl_library *lib;
  nccl_comm comm;
  cudaStream_t stream;
  cudaEvent_t produced; /* what cu.stream held when the last call was made */
  event_ring plain, recorded;
  int64_t issued, joined;         /* tickets; cu.stream waits for all up to `joined` */
  int64_t record_from, record_to; /* tickets of the last recording */
  double busy, waited;            /* seconds of plain calls that are over, and that cu.stream waited for them */
  bool untimed;                   /* a step was recorded: from then on most calls have no clock */
} nc;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over the rings and tickets: done() comes from other
                                                         ** threads */

/* ---- events ---------------------------------------------------------------------------------- */

static capl_status make_event(cudaEvent_t *event)
{
  return cu_status(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
}

static capl_status make_timed_event(cudaEvent_t *event)
{
  return cu_status(cudaEventCreate(event), "making an event");
}

static capl_status make_rings(void)
{
  for (int k = 0; k < EVENTS; k++) {
    CAPL_TRY(make_timed_event(&nc.plain.began[k]));
    CAPL_TRY(make_timed_event(&nc.plain.at[k]));
    CAPL_TRY(make_timed_event(&nc.plain.asked[k]));
    CAPL_TRY(make_event(&nc.recorded.at[k]));
  }
  return CAPL_OK;
}

static void free_ring(event_ring *ring)
{
  for (int k = 0; k < EVENTS; k++) {
    if (ring->began[k]) cudaEventDestroy(ring->began[k]);
    if (ring->at[k]) cudaEventDestroy(ring->at[k]);
    if (ring->asked[k]) cudaEventDestroy(ring->asked[k]);
  }
}

/* Adds the time between two events to *sum, once both are over. A wait for what was over already took less than
** none. */
static void take_between(cudaEvent_t from, cudaEvent_t to, bool *pending, double *sum)
{
  float milliseconds = 0;
  if (!*pending) return;
  cudaError_t error = cudaEventElapsedTime(&milliseconds, from, to);
  if (error != cudaSuccess) cudaGetLastError();
  if (error == cudaErrorNotReady) return;
  *pending = false;
  if (error == cudaSuccess && milliseconds > 0) *sum += 1e-3 * (double)milliseconds;
}

/* Adds the times of the call in place k of the ring, if it is over. Locked. */
static void take_time(int64_t k)
{
  take_between(nc.plain.began[k], nc.plain.at[k], &nc.plain.timed[k], &nc.busy);
  take_between(nc.plain.asked[k], nc.plain.at[k], &nc.plain.awaited[k], &nc.waited);
}

/* Notes when the next call begins. A place whose call is not over yet, EVENTS calls later, loses its time. */
static capl_status begin_time(void)
{
  int64_t k = (nc.issued + 1) % EVENTS;
  if (cu.capturing) return CAPL_OK;
  pthread_mutex_lock(&lock);
  take_time(k);
  nc.plain.timed[k] = nc.plain.awaited[k] = false;
  pthread_mutex_unlock(&lock);
  return cu_status(cudaEventRecord(nc.plain.began[k], nc.stream), "recording an event");
}

/* The collectives' stream goes on behind what is queued on cu.stream. */
static capl_status follow(void)
{
  nccl_result trouble = NCCL_SUCCESS;
  nc.lib->CommGetAsyncError(nc.comm, &trouble);
  CAPL_TRY(nccl_status(nc.lib, nc.comm, trouble, "an earlier collective"));
  CU_TRY(cudaEventRecord(nc.produced, cu.stream), "recording an event");
  CU_TRY(cudaStreamWaitEvent(nc.stream, nc.produced, 0), "ordering collectives");
  return begin_time();
}

static capl_status issue_locked(int64_t *ticket)
{
  event_ring *ring = cu.capturing ? &nc.recorded : &nc.plain;
  int64_t mine = nc.issued + 1;
  CU_TRY(cudaEventRecord(ring->at[mine % EVENTS], nc.stream), "recording an event");
  ring->ticket[mine % EVENTS] = mine;
  ring->timed[mine % EVENTS] = !cu.capturing;
  if (cu.capturing) nc.record_to = mine, nc.untimed = true;
  *ticket = nc.issued = mine;
  return CAPL_OK;
}

/* A ticket for what was queued last. */
static capl_status issue(int64_t *ticket)
{
  pthread_mutex_lock(&lock);
  capl_status status = issue_locked(ticket);
  pthread_mutex_unlock(&lock);
  return status;
}

/* Notes when cu.stream begins to wait for the call in place k of the ring. */
static capl_status note_wait(int64_t k)
{
  if (cu.capturing || !nc.plain.ticket[k]) return CAPL_OK;
  CU_TRY(cudaEventRecord(nc.plain.asked[k], cu.stream), "recording an event");
  pthread_mutex_lock(&lock);
  nc.plain.awaited[k] = true;
  pthread_mutex_unlock(&lock);
  return CAPL_OK;
}

/* cu.stream waits for the ticket, and with it for all before. */
static capl_status join(int64_t ticket)
{
  const event_ring *ring = cu.capturing ? &nc.recorded : &nc.plain;
  if (ticket <= nc.joined) return CAPL_OK;
  CAPL_TRY(note_wait(ticket % EVENTS));
  CU_TRY(cudaStreamWaitEvent(cu.stream, ring->at[ticket % EVENTS], 0), "waiting for a collective");
  nc.joined = ring->ticket[ticket % EVENTS];
  return CAPL_OK;
}

capl_status cu_join_collectives(void)
{
  return join(nc.issued);
}

capl_status cu_record_collectives(void)
{
  CAPL_TRY(join(nc.issued));
  pthread_mutex_lock(&lock);
  nc.record_from = nc.issued + 1;
  nc.record_to = nc.issued;
  pthread_mutex_unlock(&lock);
  return CAPL_OK;
}

/* Also when the recording failed nothing of it is waited for later. */
capl_status cu_recorded_collectives(void)
{
  capl_status status = join(nc.issued);
  nc.joined = nc.issued;
  return status;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static nccl_type type_of(capl_dtype dtype)
{
  static const nccl_type types[CAPL_DTYPE_COUNT] = {
    [CAPL_F32] = NCCL_FLOAT32, [CAPL_F64] = NCCL_FLOAT64, [CAPL_F16] = NCCL_FLOAT16, [CAPL_BF16] = NCCL_BFLOAT16,
    [CAPL_I32] = NCCL_INT32,   [CAPL_I64] = NCCL_INT64,   [CAPL_U8] = NCCL_UINT8,    [CAPL_BOOL] = NCCL_UINT8,
  };
  return types[dtype];
}

static nccl_op op_of(capl_reduction reduction)
{
  return reduction == CAPL_REDUCE_SUM ? NCCL_SUM : reduction == CAPL_REDUCE_MAX ? NCCL_MAX : NCCL_AVG;
}

#define NCCL_TRY(call, doing) CAPL_TRY(nccl_status(nc.lib, nc.comm, nc.lib->call, doing))

static capl_status nccl_all_reduce(void *state, void *data, size_t count, capl_dtype dtype, capl_reduction reduction,
                                   int64_t *ticket)
{
  (void)state;
  CAPL_TRY(follow());
  if (count) NCCL_TRY(AllReduce(data, data, count, type_of(dtype), op_of(reduction), nc.comm, nc.stream), "all_reduce");
  return issue(ticket);
}

static capl_status nccl_broadcast(void *state, void *data, size_t bytes, int root, int64_t *ticket)
{
  (void)state;
  CAPL_TRY(follow());
  if (bytes) NCCL_TRY(Broadcast(data, data, bytes, NCCL_UINT8, root, nc.comm, nc.stream), "broadcast");
  return issue(ticket);
}

static capl_status nccl_all_gather(void *state, const void *in, void *out, size_t bytes, int64_t *ticket)
{
  (void)state;
  CAPL_TRY(follow());
  if (bytes) NCCL_TRY(AllGather(in, out, bytes, NCCL_UINT8, nc.comm, nc.stream), "all_gather");
  return issue(ticket);
}

static capl_status nccl_reduce_scatter(void *state, const void *in, void *out, size_t count, capl_dtype dtype,
                                       capl_reduction reduction, int64_t *ticket)
{
  (void)state;
  CAPL_TRY(follow());
  if (count)
    NCCL_TRY(ReduceScatter(in, out, count, type_of(dtype), op_of(reduction), nc.comm, nc.stream), "reduce_scatter");
  return issue(ticket);
}

/* Both in one group: one after the other, two ranks that send first would wait for each other. */
static capl_status swap(int peer, const void *send, void *recv, size_t bytes)
{
  NCCL_TRY(GroupStart(), "exchange");
  nccl_result sent = nc.lib->Send(send, bytes, NCCL_UINT8, peer, nc.comm, nc.stream);
  nccl_result received = nc.lib->Recv(recv, bytes, NCCL_UINT8, peer, nc.comm, nc.stream);
  nccl_result ended = nc.lib->GroupEnd(); /* also when one of them failed: a group that is left open swallows all
                                          ** later calls */
  return nccl_status(nc.lib, nc.comm, sent ? sent : received ? received : ended, "exchange");
}

static capl_status nccl_exchange(void *state, int peer, const void *send, void *recv, size_t bytes, int64_t *ticket)
{
  (void)state;
  CAPL_TRY(follow());
  if (bytes) CAPL_TRY(swap(peer, send, recv, bytes));
  return issue(ticket);
}

/* ---- tickets --------------------------------------------------------------------------------- */

static capl_status nccl_wait(void *state, int64_t ticket)
{
  (void)state;
  if (ticket < 1 || ticket > nc.issued)
    return CAPL_FAIL(CAPL_EINTERNAL, "no collective has ticket %lld", (long long)ticket);
  return join(ticket);
}

/* This thread may be the one that records a step, in which the driver takes no questions but from who insists. */
static cudaError_t query(cudaEvent_t event)
{
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaError_t error = cudaEventQuery(event);
  cudaThreadExchangeStreamCaptureMode(&mode);
  return error;
}

static capl_status ask(int64_t ticket, bool *done)
{
  nccl_result trouble = NCCL_SUCCESS;
  nc.lib->CommGetAsyncError(nc.comm, &trouble);
  CAPL_TRY(nccl_status(nc.lib, nc.comm, trouble, "a collective"));
  cudaError_t error = query(nc.plain.at[ticket % EVENTS]);
  *done = error == cudaSuccess;
  if (error == cudaErrorNotReady) return cudaGetLastError(), CAPL_OK;
  return cu_status(error, "a collective");
}

/* What was recorded is not under way: it runs when the step is launched. */
static capl_status nccl_done(void *state, int64_t ticket, bool *done)
{
  (void)state;
  static _Thread_local bool chosen;
  if (!chosen) chosen = cudaSetDevice(cu.index) == cudaSuccess; /* or this thread would start the first GPU */
  pthread_mutex_lock(&lock);
  *done = !nc.comm || (ticket >= nc.record_from && ticket <= nc.record_to);
  capl_status status = *done ? CAPL_OK : ask(ticket, done);
  pthread_mutex_unlock(&lock);
  return status;
}

/* While a step is recorded nothing may be asked of the driver: that would void the recording. */
static capl_status nccl_busy(void *state, double *seconds, double *waited)
{
  (void)state;
  pthread_mutex_lock(&lock);
  for (int k = 0; k < EVENTS && !cu.capturing; k++) take_time(k);
  *seconds = nc.untimed ? 0 : nc.busy;
  *waited = nc.untimed ? 0 : nc.waited;
  pthread_mutex_unlock(&lock);
  return CAPL_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Before the arithmetic that is queued beside it: a collective's kernels are few, and other GPUs wait for them. */
static capl_status make_stream(void)
{
  int least = 0, greatest = 0;
  CU_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for the priorities of streams");
  return cu_status(cudaStreamCreateWithPriority(&nc.stream, cudaStreamNonBlocking, greatest), "making a stream");
}

static void nccl_close(void *state)
{
  (void)state;
  nccl_comm comm = nc.comm;
  pthread_mutex_lock(&lock);
  nc.comm = NULL;
  pthread_mutex_unlock(&lock);
  if (comm) nccl_comm_end(nc.lib, comm, nc.stream, nc.untimed && cu.graphs ? NCCL_LEFT : NCCL_IN_ORDER);
  free_ring(&nc.plain);
  free_ring(&nc.recorded);
  if (nc.produced) cudaEventDestroy(nc.produced);
  if (nc.stream) cudaStreamDestroy(nc.stream);
  nc.produced = NULL;
  nc.stream = NULL;
  nc.plain = nc.recorded = (event_ring){.ticket = {0}};
  nc.issued = nc.joined = 0;
  nc.busy = nc.waited = 0;
  nc.untimed = false;
}

static capl_status open_parts(void)
{
  CAPL_TRY(make_stream());
  CAPL_TRY(make_event(&nc.produced));
  return make_rings();
}

static capl_status nccl_open(capl_world *world, void **state)
{
  capl_status able = nccl_load(&nc.lib);
  if (able == CAPL_OK) able = open_parts();
  /* A rank that cannot goes there too: the others get its reason. */
  capl_status status = nccl_comm_open(world, able == CAPL_OK ? nc.lib : NULL, nc.stream, &nc.comm);
  *state = &nc;
  return status;
}

static void nccl_abort(void *state)
{
  (void)state;
  if (nc.comm) nccl_comm_end(nc.lib, nc.comm, nc.stream, NCCL_AT_ONCE);
}

static const capl_collectives collectives = {
  .abi = CAPL_COLLECTIVES_ABI,
  .name = "nccl",
  .device_memory = true,
  .open = nccl_open,
  .all_reduce = nccl_all_reduce,
  .broadcast = nccl_broadcast,
  .all_gather = nccl_all_gather,
  .reduce_scatter = nccl_reduce_scatter,
  .exchange = nccl_exchange,
  .wait = nccl_wait,
  .done = nccl_done,
  .close = nccl_close,
  .abort = nccl_abort,
  .busy = nccl_busy,
};

const capl_collectives *capl_collectives_entry(void)
{
  return &collectives;
}
