/* nccl.c -- a libnccl.so.2 for tests: the functions the engine uses, on the stand-in for CUDA's runtime.
**
** A collective is a piece of work of the stream it was given, as NCCL's kernels are: it runs when the stream gets
** there, and again in each replay of a captured step. Ranks send along what they were asked for; where that differs the
** GPU is lost, where NCCL itself would hang or mix up numbers. Sums are made in the order of ranks, so every rank has
** the same bits. Every call goes into the trace of the shim: streams, groups, captures and order are looked at by
** order.py.
**
**   CAPL_FAKE_NCCL=old      says it is version 2.10
**                  fails    the third all_reduce fails: joining and warming up have one each
**                  late     the communicator is never made
**                  breaks   the fourth all_reduce loses the communicator: CommGetAsyncError tells
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/cuda/nccl_library.h"
#include "shim.h"
#include "transport.h"

#define API __attribute__((visibility("default")))

struct ncclComm {
  transport ranks;
  _Atomic(cudaStream_t) on; /* of the last call */
  atomic_bool ended;
  pthread_t mover;
  bool moves;
  nccl_result trouble;
  int sums;
  bool recorded; /* some step that was recorded has calls of it */
};

static char last_error[256] = "";

static bool fake_is(const char *what)
{
  const char *fake = getenv("CAPL_FAKE_NCCL");
  return fake && strcmp(fake, what) == 0;
}

static nccl_result refuse(nccl_result result, const char *why)
{
  snprintf(last_error, sizeof last_error, "%s", why);
  return result;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static size_t size_of(nccl_type type)
{
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

static double half_value(uint16_t h)
{
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25)
      : ldexp(fraction, -24);
  return h >> 15 ? -value : value;
}

/* To the nearest, ties to even: as the nearest of the two neighbours found by halving. */
static uint16_t half_of(double v)
{
  uint16_t sign = signbit(v) ? 0x8000 : 0, low = 0, high = 0x7c00;
  double a = fabs(v);
  if (isnan(v)) return 0x7e00;
  if (a >= 65520) return sign | 0x7c00;
  while (high - low > 1) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if (half_value(middle) <= a) low = middle;
    else high = middle;
  }
  double below = a - half_value(low), above = (high == 0x7c00 ? 65536 : half_value(high)) - a;
  return sign | (below < above || (below == above && !(low & 1)) ? low : high);
}

static double bf16_value(uint16_t b)
{
  uint32_t bits = (uint32_t)b << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

static uint16_t bf16_of(double v)
{
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (isnan(v)) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double value_at(nccl_type type, const void *p, size_t i)
{
  switch (type) {
  case NCCL_FLOAT32: return (double)((const float *)p)[i];
  case NCCL_FLOAT64: return ((const double *)p)[i];
  case NCCL_FLOAT16: return half_value(((const uint16_t *)p)[i]);
  default: return bf16_value(((const uint16_t *)p)[i]);
  }
}

static void set_at(nccl_type type, void *p, size_t i, double v)
{
  switch (type) {
  case NCCL_FLOAT32: ((float *)p)[i] = (float)v; break;
  case NCCL_FLOAT64: ((double *)p)[i] = v; break;
  case NCCL_FLOAT16: ((uint16_t *)p)[i] = half_of(v); break;
  default: ((uint16_t *)p)[i] = bf16_of(v);
  }
}

static int64_t whole_at(nccl_type type, const void *p, size_t i)
{
  return type == NCCL_INT64 ? ((const int64_t *)p)[i] : type == NCCL_INT32 ? ((const int32_t *)p)[i]
  : ((const uint8_t *)p)[i];
}

static void set_whole_at(nccl_type type, void *p, size_t i, int64_t v)
{
  if (type == NCCL_INT64) ((int64_t *)p)[i] = v;
  else if (type == NCCL_INT32) ((int32_t *)p)[i] = (int32_t)v;
  else ((uint8_t *)p)[i] = (uint8_t)v;
}

/* out[i] = the reduction of element first + i of every rank. */
static void reduce(nccl_type type, nccl_op op, int ranks, const unsigned char *all, size_t stride, size_t first,
                   size_t count, void *out)
{
  bool whole = type < NCCL_FLOAT16;
  for (size_t i = 0; i < count; i++) {
    double v = 0;
    int64_t k = 0;
    for (int r = 0; r < ranks; r++) {
      const void *from = all + (size_t)r * stride;
      if (whole) {
        int64_t x = whole_at(type, from, first + i);
        k = r == 0 ? x : op == NCCL_MAX ? (x > k ? x : k) : (int64_t)((uint64_t)k + (uint64_t)x);
      } else {
        double x = value_at(type, from, first + i);
        v = r == 0 ? x : op == NCCL_MAX ? fmax(x, v) : v + x;
      }
    }
    if (whole) set_whole_at(type, out, i, k);
    else set_at(type, out, i, op == NCCL_AVG ? v / ranks : v);
  }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

typedef enum { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SWAP } job_kind;
static const char *const job_names[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "exchange"};

/* What ranks must agree on. */
typedef struct {
  int kind, type, op, root;
  uint64_t count;
} call_card;

typedef struct {
  call_card call;
  const void *in;
  void *out;
  nccl_comm comm;
} job;

static bool same_call(const job *j, const call_card *mine, const call_card *other, int rank)
{
  if (memcmp(mine, other, sizeof *mine) == 0) return true;
  fprintf(stderr, "stand-in for NCCL: rank %d: %s of %llu, rank %d: %s of %llu\n", j->comm->ranks.rank,
          job_names[mine->kind], (unsigned long long)mine->count, rank, job_names[other->kind],
          (unsigned long long)other->count);
  return false;
}

static bool agreed(const job *j)
{
  transport *t = &j->comm->ranks;
  call_card cards[64];
  if (!transport_gather(t, &j->call, cards, sizeof j->call)) return false;
  for (int r = 0; r < t->size; r++)
    if (!same_call(j, &j->call, &cards[r], r)) return false;
  return true;
}

/* Between two ranks; what the others do meanwhile is their matter. */
static bool run_swap(const job *j)
{
  int peer = j->call.root;
  call_card mine = j->call, other;
  mine.root = 0;
  return transport_swap(&j->comm->ranks, peer, &mine, &other, sizeof mine) && same_call(j, &mine, &other, peer) &&
         transport_swap(&j->comm->ranks, peer, j->in, j->out, j->call.count * size_of(j->call.type));
}

static void finish(const job *j, const unsigned char *all, size_t bytes)
{
  const call_card *c = &j->call;
  int ranks = j->comm->ranks.size, rank = j->comm->ranks.rank;
  switch (c->kind) {
  case ALL_REDUCE: reduce(c->type, c->op, ranks, all, bytes, 0, c->count, j->out); break;
  case REDUCE_SCATTER:
    reduce(c->type, c->op, ranks, all, bytes, (size_t)rank * c->count, c->count, j->out);
    break;
  case ALL_GATHER: memcpy(j->out, all, (size_t)ranks * bytes); break;
  default: memcpy(j->out, all + (size_t)c->root * bytes, bytes);
  }
}

/* As shim_enqueue wants it. */
static int run_job(const void *record)
{
  const job *j = record;
  transport *t = &j->comm->ranks;
  if (j->call.kind == SWAP) return run_swap(j) ? cudaSuccess : cudaErrorLaunchFailure;
  size_t bytes = j->call.count * size_of(j->call.type) * (j->call.kind == REDUCE_SCATTER ? (size_t)t->size : 1);
  unsigned char *all = malloc(bytes * (size_t)t->size);
  bool ok = all && agreed(j) && transport_gather(t, j->in, all, bytes);
  if (ok) finish(j, all, bytes);
  free(all);
  return ok ? cudaSuccess : cudaErrorLaunchFailure;
}

static nccl_result queue(cudaStream_t on, const job *j)
{
  if (j->comm->trouble) return refuse(j->comm->trouble, "the communicator is broken");
  j->comm->on = on;
  if (shim_stream_captured(on)) j->comm->recorded = true;
  shim_trace("nccl %s %d %llu %d %d %d%s", job_names[j->call.kind], shim_stream_number(on),
             (unsigned long long)j->call.count, j->call.type, j->call.op, j->call.kind == SWAP ? -1 : j->call.root,
             shim_stream_captured(on) ? " captured" : "");
  return shim_enqueue(on, run_job, j, sizeof *j, "collective") == cudaSuccess ? NCCL_SUCCESS
      : refuse(NCCL_UNHANDLED_CUDA_ERROR, "the stream takes no work");
}

/* ---- groups: one Send and one Recv, with the same peer --------------------------------------- */

static _Thread_local struct {
  int depth;
  job half[2];
  bool sends, receives;
  cudaStream_t on;
} group;

API nccl_result ncclGroupStart(void);
API nccl_result ncclGroupEnd(void);

nccl_result ncclGroupStart(void)
{
  shim_trace("group +1");
  group.depth++;
  return NCCL_SUCCESS;
}

nccl_result ncclGroupEnd(void)
{
  shim_trace("group -1");
  if (group.depth-- <= 0) return refuse(NCCL_INVALID_USAGE, "a group ends that was not begun");
  if (group.depth || (!group.sends && !group.receives)) return NCCL_SUCCESS;
  bool whole = group.sends && group.receives && group.half[0].call.root == group.half[1].call.root;
  group.sends = group.receives = false;
  if (!whole) return refuse(NCCL_INVALID_USAGE, "a Send without its Recv: two ranks would wait for each other");
  job j = group.half[0];
  j.out = group.half[1].out;
  return queue(group.on, &j);
}

API nccl_result ncclSend(const void *in, size_t count, nccl_type type, int peer, nccl_comm comm, cudaStream_t on);
API nccl_result ncclRecv(void *out, size_t count, nccl_type type, int peer, nccl_comm comm, cudaStream_t on);

nccl_result ncclSend(const void *in, size_t count, nccl_type type, int peer, nccl_comm comm, cudaStream_t on)
{
  if (!group.depth || group.sends)
    return refuse(NCCL_INVALID_USAGE, "the stand-in knows one Send and one Recv in a group");
  group.half[0] = (job){{SWAP, type, 0, peer, count}, in, NULL, comm};
  group.sends = true;
  group.on = on;
  return NCCL_SUCCESS;
}

nccl_result ncclRecv(void *out, size_t count, nccl_type type, int peer, nccl_comm comm, cudaStream_t on)
{
  if (!group.depth || group.receives || on == NULL)
    return refuse(NCCL_INVALID_USAGE, "the stand-in knows one Send and one Recv in a group");
  group.half[1] = (job){{SWAP, type, 0, peer, count}, NULL, out, comm};
  group.receives = true;
  return NCCL_SUCCESS;
}

/* ---- collectives ----------------------------------------------------------------------------- */

API nccl_result ncclAllReduce(const void *in, void *out, size_t count, nccl_type type, nccl_op op, nccl_comm comm,
                              cudaStream_t on);
API nccl_result ncclBroadcast(const void *in, void *out, size_t count, nccl_type type, int root, nccl_comm comm,
                              cudaStream_t on);
API nccl_result ncclAllGather(const void *in, void *out, size_t count, nccl_type type, nccl_comm comm, cudaStream_t on);
API nccl_result ncclReduceScatter(const void *in, void *out, size_t count, nccl_type type, nccl_op op, nccl_comm comm,
                                  cudaStream_t on);

nccl_result ncclAllReduce(const void *in, void *out, size_t count, nccl_type type, nccl_op op, nccl_comm comm,
                          cudaStream_t on)
{
  if (comm->sums++ > 1 && fake_is("fails")) return refuse(NCCL_SYSTEM_ERROR, "the stand-in was told to fail");
  if (comm->sums > 3 && fake_is("breaks")) comm->trouble = NCCL_REMOTE_ERROR;
  if (op == NCCL_AVG && type < NCCL_FLOAT16) return refuse(NCCL_INVALID_ARGUMENT, "an average of whole numbers");
  return queue(on, &(job){{ALL_REDUCE, type, op, 0, count}, in, out, comm});
}

nccl_result ncclBroadcast(const void *in, void *out, size_t count, nccl_type type, int root, nccl_comm comm,
                          cudaStream_t on)
{
  return queue(on, &(job){{BROADCAST, type, 0, root, count}, in, out, comm});
}

nccl_result ncclAllGather(const void *in, void *out, size_t count, nccl_type type, nccl_comm comm, cudaStream_t on)
{
  return queue(on, &(job){{ALL_GATHER, type, 0, 0, count}, in, out, comm});
}

nccl_result ncclReduceScatter(const void *in, void *out, size_t count, nccl_type type, nccl_op op, nccl_comm comm,
                              cudaStream_t on)
{
  return queue(on, &(job){{REDUCE_SCATTER, type, op, 0, count}, in, out, comm});
}

/* ---- going on -------------------------------------------------------------------------------- */

/* A GPU's work goes on while its program waits for a message of another rank; on the shim nobody would run it, and that
** other rank might be waiting for it. Now and then is enough: what is queued shall mostly run late. */
static void *move(void *arg)
{
  nccl_comm comm = arg;
  while (!comm->ended) {
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    if (comm->on && !comm->ended) shim_go_on(comm->on);
  }
  return NULL;
}

/* ---- communicators --------------------------------------------------------------------------- */

API nccl_result ncclGetVersion(int *version);
API nccl_result ncclGetUniqueId(nccl_id *id);
API nccl_result ncclCommInitRank(nccl_comm *comm, int ranks, nccl_id id, int rank);
API nccl_result ncclCommDestroy(nccl_comm comm);
API nccl_result ncclCommAbort(nccl_comm comm);
API nccl_result ncclCommGetAsyncError(nccl_comm comm, nccl_result *error);
API const char *ncclGetErrorString(nccl_result result);
API const char *ncclGetLastError(nccl_comm comm);

nccl_result ncclGetVersion(int *version)
{
  *version = fake_is("old") ? 21003 : 22809;
  return NCCL_SUCCESS;
}

nccl_result ncclGetUniqueId(nccl_id *id)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(id->internal, sizeof id->internal, "capl-fake-nccl-%d-%lld", (int)getpid(), (long long)now.tv_nsec);
  return NCCL_SUCCESS;
}

nccl_result ncclCommInitRank(nccl_comm *out, int ranks, nccl_id id, int rank)
{
  const char *blocking = getenv("NCCL_COMM_BLOCKING");
  if (blocking && strcmp(blocking, "0") == 0) return NCCL_IN_PROGRESS;
  nccl_comm comm = calloc(1, sizeof *comm);
  while (fake_is("late")) pause();
  if (!comm || !transport_open(&comm->ranks, rank, ranks, id.internal))
    return refuse(NCCL_REMOTE_ERROR, "the other ranks cannot be reached");
  shim_trace("comm rank %d of %d by %s", rank, ranks, comm->ranks.mpi ? "mpi" : "shared memory");
  comm->moves = ranks > 1 && pthread_create(&comm->mover, NULL, move, comm) == 0;
  *out = comm;
  return NCCL_SUCCESS;
}

/* As NCCL does from its version 2.26 on: recorded steps that have calls of it have to be freed before. */
static void wait_for_graphs(nccl_comm comm)
{
  shim_counts counts;
  for (shim_counts_get(&counts); comm->recorded && counts.live_graphs; shim_counts_get(&counts)) {
    shim_trace("comm waits");
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
}

nccl_result ncclCommDestroy(nccl_comm comm)
{
  wait_for_graphs(comm);
  comm->ended = true;
  if (comm->moves) pthread_join(comm->mover, NULL);
  shim_trace("comm destroy");
  transport_close(&comm->ranks);
  free(comm);
  return NCCL_SUCCESS;
}

/* Memory stays: work that waits on another thread still uses it for a moment. */
nccl_result ncclCommAbort(nccl_comm comm)
{
  shim_trace("comm abort");
  comm->ranks.given_up = true;
  comm->ended = true;
  return NCCL_SUCCESS;
}

nccl_result ncclCommGetAsyncError(nccl_comm comm, nccl_result *error)
{
  *error = comm->trouble;
  return NCCL_SUCCESS;
}

const char *ncclGetErrorString(nccl_result result)
{
  static const char *const texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
                                      "invalid argument", "invalid usage",
                                      "remote process exited or there was a network error"};
  return result < 7 ? texts[result] : result == NCCL_IN_PROGRESS ? "NCCL operation in progress" : "unknown result code";
}

const char *ncclGetLastError(nccl_comm comm)
{
  (void)comm;
  return last_error;
}
