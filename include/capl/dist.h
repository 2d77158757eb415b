/* dist.h -- the processes that train one model together ("ranks"), and how they communicate.
**
** Two channels. The control channel joins every rank with rank 0 by a socket: short messages between the hosts'
** programs, and the heartbeats by which a rank that died, hangs or lost its link is found out. The collectives move
** tensors: NCCL between GPUs, MPI between processors; each is a library of its own, loaded when needed. A world of one
** has neither: every call below is done at once, and nothing is copied.
**
** All ranks make the same calls in the same order, from one thread each. No wait is unlimited: when a rank is lost, the
** watchdog ends the process and names the rank, host, collective and step.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_H
#define CAPL_DIST_H

#include "capl/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rank and size of this process (place.c) ------------------------------------------------------ */

typedef enum {
  CAPL_LAUNCH_ONE,      /* alone */
  CAPL_LAUNCH_LOCAL,    /* forked by capl on this machine: one process per GPU */
  CAPL_LAUNCH_MPI,      /* by mpirun, or by srun with PMIx */
  CAPL_LAUNCH_TORCHRUN, /* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK */
} capl_launch;

enum { CAPL_HOST_NAME = 64 };

typedef struct {
  capl_launch launch;
  int rank, size;             /* 0 … size - 1 */
  int local_rank, local_size; /* among the ranks of this host */
  char host[CAPL_HOST_NAME];
} capl_place;

/* Reads the launcher's environment variables. EVALUE names variables that contradict each other. */
CAPL_API capl_status capl_place_detect(capl_place *out);

/* ---- the world (world.c) ---------------------------------------------------------------------- */

typedef struct capl_world capl_world;

typedef struct {
  capl_device *device; /* whose tensors the collectives move; decides between NCCL and MPI. NULL: none, alone */
  double watchdog;     /* seconds that a rank may keep the others waiting; 0 = 60 */
  const char *recipe;  /* for the command in error hints; may be NULL */
} capl_world_options;

/* Joins the ranks this process was started with: control channel, collectives, heartbeats. Once per process; every
** rank calls it. EUNSUPPORTED with the install command of what is missing; EIO when another rank cannot be reached. */
CAPL_API capl_status capl_world_join(const capl_world_options *options, capl_world **out);
/* Opens every connection that collectives will use, which libraries otherwise open late: inside the sandbox
** none can be opened. Every rank calls it, before the first collective. */
CAPL_API capl_status capl_world_warm(capl_world *world);
/* The world joined before, or NULL. */
CAPL_API capl_world *capl_world_get(void);
/* Leaves in order: the other ranks learn that this one has finished. status: the exit status of this process. */
CAPL_API void capl_world_leave(int status);

/* The library for ranks on CPUs, "Open MPI v4.1.4". EUNSUPPORTED: the reason for none. Borrowed. */
CAPL_API capl_status capl_world_mpi(const char **text);

CAPL_API const capl_place *capl_world_place(const capl_world *world);
/* "nccl", "mpi" or "one". */
CAPL_API const char *capl_world_backend(const capl_world *world);
/* Host of a rank, as it reported it. Borrowed. */
CAPL_API const char *capl_world_host(const capl_world *world, int rank);

/* ---- collectives on tensors (collectives.c) ------------------------------------------------------- */

/* Tensors are dense (all elements of one piece of memory, in any order of dimensions, the same on every rank) and on
** the world's device. Work is done in the order of the calls, beside what the caller does next. work = NULL: the call
** waits (on a GPU: the device's later work waits, not the host). ESHAPE and EDTYPE name both sides. */
typedef enum { CAPL_REDUCE_SUM, CAPL_REDUCE_MEAN, CAPL_REDUCE_MAX } capl_reduction;
typedef struct capl_work capl_work;

/* t = the reduction of every rank's t. f32, f64, f16, bf16, i32, i64; mean of floats only. */
CAPL_API capl_status capl_all_reduce(capl_world *world, capl_tensor *t, capl_reduction reduction, capl_work **work);
/* t = rank root's t. */
CAPL_API capl_status capl_broadcast(capl_world *world, capl_tensor *t, int root, capl_work **work);
/* out (size, …) = every rank's in (…), in the order of ranks. */
CAPL_API capl_status capl_all_gather(capl_world *world, capl_tensor *in, capl_tensor *out, capl_work **work);
/* out (…) = this rank's part of the reduction of every rank's in (size, …). */
CAPL_API capl_status capl_reduce_scatter(capl_world *world, capl_tensor *in, capl_tensor *out, capl_reduction reduction,
                                         capl_work **work);
/* recv = what peer sends; peer names this rank in the same call. */
CAPL_API capl_status capl_exchange(capl_world *world, int peer, capl_tensor *send, capl_tensor *recv, capl_work **work);
/* Returns when every rank has called it and all work before it is done. */
CAPL_API capl_status capl_barrier(capl_world *world);

/* Waits for work and frees it. On a GPU the device's later work waits. NULL-safe. */
CAPL_API capl_status capl_work_wait(capl_work *work);
/* Whether it is done; does not wait. */
CAPL_API capl_status capl_work_done(capl_work *work, bool *done);

/* Traffic of the collectives so far: calls, bytes of this rank's tensors, and seconds: busy = while at least one
** was running, waited = while the caller, or its GPU, waited for them. busy - waited overlapped with computation. On
** a GPU both count finished work; busy = 0 once a step with collectives was captured: its launches have no
** timestamps. */
typedef struct {
  uint64_t calls, bytes;
  double busy, waited;
} capl_traffic;
CAPL_API capl_status capl_world_traffic(capl_world *world, capl_traffic *out);

/* ---- gradients in flat buckets (buckets.c) ------------------------------------------------------ */

/* The gradients of many leaves, stored in a few flat tensors of f32 (f64), which the ranks average in a fixed order:
** the first ones while the backward pass still computes the last ones. A leaf without a gradient on
** one rank counts as zeros there; without one on any rank it has none afterwards.
** Every rank makes the same calls with leaves of the same sizes in the same order. */
typedef struct capl_buckets capl_buckets;

typedef struct {
  size_t first_bytes, bytes; /* of the first piece and of the others; 0 = 1 MB and 25 MB. A larger leaf has one alone */
  /* Averages flat over the ranks; work as of capl_all_reduce. NULL = that */
  capl_status (*average)(void *user, capl_tensor *flat, capl_work **work);
  void *user;
} capl_buckets_options;

/* leaves: in the order in which their gradients are expected, all on one device; held until capl_buckets_free.
** Gradients they have move in; what buckets made earlier had of them, too. world may be NULL where options have
** average. */
CAPL_API capl_status capl_buckets_new(capl_world *world, capl_tensor *const *leaves, int n,
                                      const capl_buckets_options *options, capl_buckets **out);
/* The leaves keep their gradients. */
CAPL_API void capl_buckets_free(capl_buckets *buckets);
/* Whether these are the leaves, in any order, and no other buckets have taken them since. */
CAPL_API bool capl_buckets_fit(const capl_buckets *buckets, capl_tensor *const *leaves, int n);
/* The next backward pass of this thread is the last one before the step: complete pieces are sent at once. */
CAPL_API capl_status capl_buckets_begin(capl_buckets *buckets);
/* Sends what is left and waits: every leaf's gradient is the mean over the ranks. ESTATE if begin's pass has failed. */
CAPL_API capl_status capl_buckets_finish(capl_buckets *buckets);
/* Leaves that had no gradient on this rank: how many; and whether one has come from another rank, or none (grad =
** NULL). look = false: as the last time, without a read by the host. Call it after finish if the number is not
** 0. */
CAPL_API int capl_buckets_absent(const capl_buckets *buckets);
CAPL_API capl_status capl_buckets_settle(capl_buckets *buckets, bool look);
/* Whether a gradient was given to a leaf since finish. */
CAPL_API bool capl_buckets_fresh(const capl_buckets *buckets);

typedef struct {
  int pieces, leaves;
  size_t bytes;     /* of all pieces */
  uint64_t sent;    /* pieces sent so far */
  uint64_t early;   /* of them during a backward pass */
  const int *order; /* positions of the leaves as they became complete in the last pass with begin; n_order of them */
  int n_order;
} capl_buckets_stats;
CAPL_API capl_buckets_stats capl_buckets_stats_get(const capl_buckets *buckets);

/* ---- short messages through the control channel (control.c) ------------------------------------------------- */

/* all[r] = the message of rank r, on every rank; len[r] bytes. Freed with capl_messages_free. For kilobytes, not for
** tensors: it goes through rank 0's sockets. */
typedef struct {
  int count; /* ranks */
  char **data;
  size_t *len;
} capl_messages;
CAPL_API capl_status capl_world_all_gather_bytes(capl_world *world, const void *mine, size_t len, capl_messages *all);
CAPL_API void capl_messages_free(capl_messages *messages);

/* ---- the watchdog (watchdog.c) ------------------------------------------------------------------- */

/* The number of the step this rank is in, for messages; CAPL_STEPS_OVER: its recipe has come to its end. */
enum { CAPL_STEPS_OVER = -2 };
CAPL_API void capl_world_step(capl_world *world, int64_t step);
/* While a reason is set ("compiling", "evaluating"), this rank is not reported as hanging. NULL clears it. */
CAPL_API void capl_world_hold(capl_world *world, const char *reason);
/* Changes the seconds that a rank may keep the others waiting; 0 = 60. */
CAPL_API void capl_world_watchdog(capl_world *world, double seconds);
/* Called from a thread of the engine when a rank is lost and the job is over: say prints it (on one rank only), end
** ends the process with that status: 75, or the lost rank's own when it ended with an error. Without them calls that
** wait for the rank fail with EIO. Set before joining. */
CAPL_API void capl_world_on_lost(void (*say)(const char *text, const char *hint), void (*end)(int status));
/* This rank is about to end with an error whose first line is message; the others receive it. -> whether it should
** print it: false when rank 0 has ended with the same one. true without a world. */
CAPL_API bool capl_world_fail(int status, const char *message);

/* ---- interface of a library of collectives ----------------------------------------------------- */

/* One constant table; the library's function capl_collectives_entry gives it (libcapl_mpi: "mpi"; libcapl_cuda:
** "nccl"). Calls queue work and return; a ticket counts the calls of this state from 1 on. Memory is the caller's until
** its ticket is done. Never called by a world of one. */
typedef struct {
  int abi; /* CAPL_COLLECTIVES_ABI, always first */
  const char *name;
  bool device_memory; /* works on a GPU's memory, in the order of its stream; else on the host's */
  /* capl_world_all_gather_bytes works already where the launch is no MPI, for what ranks exchange before they can talk
  ** (NCCL's id). */
  capl_status (*open)(capl_world *world, void **state);
  capl_status (*all_reduce)(void *state, void *data, size_t count, capl_dtype dtype, capl_reduction reduction,
                            int64_t *ticket);
  capl_status (*broadcast)(void *state, void *data, size_t bytes, int root, int64_t *ticket);
  /* bytes of one rank */
  capl_status (*all_gather)(void *state, const void *in, void *out, size_t bytes, int64_t *ticket);
  capl_status (*reduce_scatter)(void *state, const void *in, void *out, size_t count, capl_dtype dtype,
                                capl_reduction reduction, int64_t *ticket); /* count of one rank */
  capl_status (*exchange)(void *state, int peer, const void *send, void *recv, size_t bytes, int64_t *ticket);
  capl_status (*wait)(void *state, int64_t ticket);             /* host memory: the host waits; else the device does */
  capl_status (*done)(void *state, int64_t ticket, bool *done); /* from any thread, never waits */
  void (*close)(void *state);
  void (*abort)(void *state); /* from the watchdog's thread: no rank will answer any more */
  /* Optional: seconds so far in which at least one call was under way, and in which a device did nothing but wait for
  ** one (0: the host waits). Both 0 when they are unknown: calls of a captured step have no timestamps. */
  capl_status (*busy)(void *state, double *seconds, double *waited);
  /* Optional: the library and its version, also before open. */
  const char *(*describe)(void);
} capl_collectives;
CAPL_API const capl_collectives *capl_collectives_entry(void);
enum { CAPL_COLLECTIVES_ABI = 211 * (int)sizeof(capl_collectives) + CAPL_DTYPE_COUNT };

#ifdef __cplusplus
}
#endif
#endif
