/* mpi.c -- libcapl_mpi: the collectives of processors, by Open MPI.
**
** One thread makes all calls of MPI, from the first to the last; callers queue what they want and go on computing. It
** blocks all signals, and so do the threads that MPI starts from it.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "dist/mpi_calls.h"

enum { QUEUE = 256, FAILURES = 16 };

typedef struct {
  mpi_job job;
  double since; /* when it was queued */
} entry;

typedef struct {
  int64_t ticket;
  capl_status status;
  char message[1024], hint[512];
} failure;

typedef struct {
  capl_place place;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t queued, progress; /* something to do; something done */
  entry queue[QUEUE];
  int64_t last, done; /* tickets given, tickets finished */
  bool closing;
  failure failures[FAILURES]; /* the last ones: returned to waits for their tickets */
  int n_failures;
  bool open; /* MPI is */
  double busy;
} mpi_state;

/* ---- the thread --------------------------------------------------------------------------------- */

static void note_failure(mpi_state *s, int64_t ticket, capl_status status)
{
  failure *f = &s->failures[s->n_failures++ % FAILURES];
  const capl_error *e = capl_error_last();
  *f = (failure){.ticket = ticket, .status = status};
  snprintf(f->message, sizeof f->message, "%s", e->message);
  snprintf(f->hint, sizeof f->hint, "%s", e->hint);
}

/* Locked. finished: the time from the moment the work before was done, or this was queued. */
static void finish(mpi_state *s, capl_status status, double *free_since)
{
  double end = clock_now(), begun = s->queue[(s->done + 1) % QUEUE].since;
  s->busy += end - (begun > *free_since ? begun : *free_since);
  *free_since = end;
  if (status != CAPL_OK) note_failure(s, s->done + 1, status);
  s->done++;
  pthread_cond_broadcast(&s->progress);
}

static void work(mpi_state *s)
{
  double free_since = 0;
  for (;;) {
    while (s->done == s->last && !s->closing) pthread_cond_wait(&s->queued, &s->lock);
    if (s->done == s->last) return;
    const mpi_job *job = &s->queue[(s->done + 1) % QUEUE].job;
    pthread_mutex_unlock(&s->lock);
    capl_status status = mpi_run(job);
    pthread_mutex_lock(&s->lock);
    finish(s, status, &free_since);
  }
}

static void *thread_main(void *arg)
{
  mpi_state *s = arg;
  capl_status status = mpi_begin(&s->place);
  pthread_mutex_lock(&s->lock);
  if (status != CAPL_OK) note_failure(s, 0, status);
  s->open = status == CAPL_OK;
  s->done = 0;
  pthread_cond_broadcast(&s->progress);
  if (s->open) work(s);
  pthread_mutex_unlock(&s->lock);
  if (s->open) mpi_end();
  return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------------ */

/* Ranks of one host read each other's memory where the kernel lets them. Containers often forbid it, and MPI then fails
** in the middle of a transfer: it is signalled beforehand. */
static bool may_read_memory(void)
{
  char from = 1, to = 0;
  struct iovec local = {&to, 1}, remote = {&from, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

/* Open MPI 5 asks in vain which interface leads from this host to itself, and complains of it for each rank. */
static void stay_on_host(const capl_place *place)
{
  if (OMPI_MAJOR_VERSION < 5 || place->local_size < place->size || getenv("OMPI_MCA_btl_tcp_if_exclude")) return;
  setenv("OMPI_MCA_btl_tcp_if_include", "127.0.0.0/8", 0);
}

static void set_environment(void)
{
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* ranks may share a processor */
  setenv("OMPI_MCA_opal_signal", "", 0);           /* one line for a rank that dies by a signal, not thirty */
  if (may_read_memory()) return;
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0); /* Open MPI 4 */
  setenv("OMPI_MCA_smsc", "^cma", 0);                            /* Open MPI 5 */
}

static capl_status raise_failure(const failure *f)
{
  capl_status status = CAPL_FAIL(f->status, "%s", f->message);
  if (*f->hint) capl_error_hint("%s", f->hint);
  return status;
}

static capl_status start(mpi_state *s)
{
  s->done = -1;
  CAPL_TRY(capl_thread_start(&s->thread, "capl mpi", thread_main, s));
  pthread_mutex_lock(&s->lock);
  while (s->done < 0) pthread_cond_wait(&s->progress, &s->lock);
  pthread_mutex_unlock(&s->lock);
  if (s->open) return CAPL_OK;
  pthread_join(s->thread, NULL);
  return raise_failure(&s->failures[0]);
}

static capl_status open_mpi(capl_world *world, void **state)
{
  mpi_state *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for collectives");
  s->place = *capl_world_place(world);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->queued, NULL);
  pthread_cond_init(&s->progress, NULL);
  set_environment();
  stay_on_host(&s->place);
  capl_status status = start(s);
  if (status != CAPL_OK) return free(s), status;
  *state = s;
  return CAPL_OK;
}

/* What is queued is done first. Returns when all ranks have come here. */
static void close_mpi(void *state)
{
  mpi_state *s = state;
  pthread_mutex_lock(&s->lock);
  s->closing = true;
  pthread_cond_signal(&s->queued);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  free(s);
}

/* MPI belongs to its thread: this one only signals it. The process ends next, and mpirun then ends the others. */
static void abort_mpi(void *state)
{
  (void)state;
  atomic_store(&mpi_given_up, true);
}

/* ---- queueing and waiting ----------------------------------------------------------------------- */

static capl_status queue(mpi_state *s, mpi_job job, int64_t *ticket)
{
  pthread_mutex_lock(&s->lock);
  while (s->last - s->done >= QUEUE) pthread_cond_wait(&s->progress, &s->lock);
  *ticket = ++s->last;
  s->queue[*ticket % QUEUE] = (entry){job, clock_now()};
  pthread_cond_signal(&s->queued);
  pthread_mutex_unlock(&s->lock);
  return CAPL_OK;
}

static capl_status failure_of(mpi_state *s, int64_t ticket)
{
  for (int i = 0; i < s->n_failures && i < FAILURES; i++)
    if (s->failures[i].ticket == ticket) return raise_failure(&s->failures[i]);
  return CAPL_OK;
}

static capl_status wait_ticket(void *state, int64_t ticket)
{
  mpi_state *s = state;
  pthread_mutex_lock(&s->lock);
  while (s->done < ticket) pthread_cond_wait(&s->progress, &s->lock);
  capl_status status = failure_of(s, ticket);
  pthread_mutex_unlock(&s->lock);
  return status;
}

static capl_status ticket_done(void *state, int64_t ticket, bool *done)
{
  mpi_state *s = state;
  pthread_mutex_lock(&s->lock);
  *done = s->done >= ticket;
  pthread_mutex_unlock(&s->lock);
  return CAPL_OK;
}

static capl_status busy(void *state, double *seconds, double *waited)
{
  mpi_state *s = state;
  *waited = 0;
  pthread_mutex_lock(&s->lock);
  *seconds = s->busy;
  pthread_mutex_unlock(&s->lock);
  return CAPL_OK;
}

/* ---- the table ---------------------------------------------------------------------------------- */

static capl_status all_reduce(void *state, void *data, size_t count, capl_dtype dtype, capl_reduction reduction,
                              int64_t *ticket)
{
  return queue(state, (mpi_job){.kind = JOB_ALL_REDUCE, .out = data, .count = count, .dtype = dtype,
                                .reduction = reduction}, ticket);
}

static capl_status broadcast(void *state, void *data, size_t bytes, int root, int64_t *ticket)
{
  return queue(state, (mpi_job){.kind = JOB_BROADCAST, .out = data, .count = bytes, .rank = root}, ticket);
}

static capl_status all_gather(void *state, const void *in, void *out, size_t bytes, int64_t *ticket)
{
  return queue(state, (mpi_job){.kind = JOB_ALL_GATHER, .in = in, .out = out, .count = bytes}, ticket);
}

static capl_status reduce_scatter(void *state, const void *in, void *out, size_t count, capl_dtype dtype,
                                  capl_reduction reduction, int64_t *ticket)
{
  mpi_job job = {.kind = JOB_REDUCE_SCATTER, .in = in, .out = out, .count = count, .dtype = dtype,
                 .reduction = reduction};
  return queue(state, job, ticket);
}

static capl_status exchange(void *state, int peer, const void *send, void *recv, size_t bytes, int64_t *ticket)
{
  return queue(state, (mpi_job){.kind = JOB_EXCHANGE, .in = send, .out = recv, .count = bytes, .rank = peer}, ticket);
}

static const capl_collectives table = {
  .abi = CAPL_COLLECTIVES_ABI,
  .name = "mpi",
  .open = open_mpi,
  .all_reduce = all_reduce,
  .broadcast = broadcast,
  .all_gather = all_gather,
  .reduce_scatter = reduce_scatter,
  .exchange = exchange,
  .wait = wait_ticket,
  .done = ticket_done,
  .close = close_mpi,
  .abort = abort_mpi,
  .busy = busy,
  .describe = mpi_version,
};

const capl_collectives *capl_collectives_entry(void) { return &table; }
