/* nccl_comm.c -- ranks compare what they have, meet through an id of rank 0, and part.
**
** NCCL's own waits have no end when another rank never comes, so they are made by a thread of their own, which is left
** behind when it takes too long. The communicator itself is an ordinary, blocking one: with NCCL's non-blocking ones
** every collective would begin a thread, and a recorded step would be recorded by another thread than the one that
** records it. SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/nccl_comm.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/device.h"
#include "base/clock.h"

/* ---- errors ---------------------------------------------------------------------------------- */

capl_status nccl_status(const nccl_library *lib, nccl_comm comm, nccl_result result, const char *doing)
{
  if (result == NCCL_SUCCESS) return CAPL_OK;
  const char *more = lib->GetLastError(comm);
  CAPL_FAIL(CAPL_EDEVICE, "NCCL failed (%s on cuda:%d): %s%s%.300s", doing, cu.index, lib->GetErrorString(result),
            more && *more ? ": " : "", more ? more : "");
  if (result == NCCL_IN_PROGRESS) /* only the environment asks for calls that answer before they are done */
    capl_error_hint("take NCCL_COMM_BLOCKING=0 out of the environment: unset NCCL_COMM_BLOCKING");
  else capl_error_hint("NCCL_DEBUG=INFO makes NCCL log what it tried; NCCL_SOCKET_IFNAME names the network between "
                       "hosts");
  return CAPL_EDEVICE;
}

/* ---- waiting with an end --------------------------------------------------------------------- */

typedef struct task {
  void (*run)(struct task *task);
  const nccl_library *lib;
  nccl_comm comm;
  cudaStream_t on;
  nccl_id id;
  int rank, size;
  capl_error error; /* code CAPL_OK: none */
  bool ended;
  pthread_mutex_t lock;
  pthread_cond_t end;
} task;

static void *task_main(void *arg)
{
  task *t = arg;
  cudaSetDevice(cu.index); /* each thread has its own choice */
  t->run(t);
  pthread_mutex_lock(&t->lock);
  t->ended = true;
  pthread_cond_signal(&t->end);
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

static bool begin(task *t)
{
  pthread_t thread;
  pthread_condattr_t monotonic;
  sigset_t all, before;
  pthread_mutex_init(&t->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&t->end, &monotonic);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool begun = pthread_create(&thread, NULL, task_main, t) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (begun) pthread_detach(thread);
  return begun;
}

/* Whether the task ended within that time. t stays in use when it did not: it has to be static. */
static bool run_within(task *t, int seconds)
{
  if (!begin(t)) return false;
  struct timespec until = clock_after(CLOCK_MONOTONIC, seconds);
  pthread_mutex_lock(&t->lock);
  while (!t->ended && pthread_cond_timedwait(&t->end, &t->lock, &until) != ETIMEDOUT) {}
  bool ended = t->ended;
  pthread_mutex_unlock(&t->lock);
  return ended;
}

/* ---- meeting --------------------------------------------------------------------------------- */

/* What each rank sends to the others before the first call of NCCL. */
typedef struct {
  int version;
  char host[CAPL_HOST_NAME], bus[32];
  char why[400]; /* not "": this rank cannot take part */
  nccl_id id;    /* rank 0's counts */
} card;

static capl_status fill_card(const capl_world *world, const nccl_library *lib, card *mine)
{
  mine->version = lib->version;
  CU_TRY(cudaDeviceGetPCIBusId(mine->bus, (int)sizeof mine->bus, cu.index), "asking where the GPU is");
  if (capl_world_place(world)->rank != 0) return CAPL_OK;
  return nccl_status(lib, NULL, lib->GetUniqueId(&mine->id), "making an id for the ranks");
}

static capl_status compare_versions(const card *first, const card *other, int rank)
{
  char one[24], two[24];
  if (first->version == other->version) return CAPL_OK;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "ranks with different versions of NCCL: rank 0 (host %s) has %s, rank %d (host %s) "
                               "has %s",
            first->host, nccl_number_text(first->version, one, sizeof one), rank, other->host,
            nccl_number_text(other->version, two, sizeof two));
  capl_error_hint("install the same NCCL on every host: pip install nvidia-nccl-cu%d==%s", CUDART_VERSION / 1000, one);
  return CAPL_EUNSUPPORTED;
}

static capl_status compare_gpus(const card *a, int first, const card *b, int rank)
{
  int count = 0;
  if (strcmp(a->bus, b->bus) != 0 || strcmp(a->host, b->host) != 0) return CAPL_OK;
  CAPL_TRY(device_count(&count));
  CAPL_FAIL(CAPL_EVALUE, "rank %d and rank %d have the same GPU, %s of host %s; NCCL wants one GPU for each rank",
            first, rank, b->bus, b->host);
  if (count > 1)
    capl_error_hint("--device=cuda gives every rank a GPU of its own; --ranks=gpus starts as many ranks as there are "
                    "GPUs");
  else capl_error_hint("these ranks see one GPU: --ranks=1, or let the launcher show each rank another one");
  return CAPL_EVALUE;
}

static const card *card_of(const capl_messages *cards, int rank)
{
  return (const card *)(const void *)cards->data[rank];
}

static capl_status compare_cards(const capl_messages *cards)
{
  for (int r = 0; r < cards->count; r++) {
    if (cards->len[r] != sizeof(card)) return CAPL_FAIL(CAPL_EUNSUPPORTED, "rank %d runs another build of capl", r);
    const card *c = card_of(cards, r);
    if (c->why[0]) return CAPL_FAIL(CAPL_EUNSUPPORTED, "rank %d (host %s): %.400s", r, c->host, c->why);
  }
  for (int r = 1; r < cards->count; r++) {
    CAPL_TRY(compare_versions(card_of(cards, 0), card_of(cards, r), r));
    for (int q = 0; q < r; q++) CAPL_TRY(compare_gpus(card_of(cards, q), q, card_of(cards, r), r));
  }
  return CAPL_OK;
}

/* Also a rank that cannot take part comes here: the others wait for its words. */
static capl_status meet(capl_world *world, const nccl_library *lib, nccl_id *id)
{
  card mine;
  capl_messages cards;
  memset(&mine, 0, sizeof mine);
  snprintf(mine.host, sizeof mine.host, "%s", capl_world_place(world)->host);
  capl_status able = lib ? fill_card(world, lib, &mine) : capl_error_last()->code;
  capl_error own = *capl_error_last();
  if (able != CAPL_OK) snprintf(mine.why, sizeof mine.why, "%.399s", own.message);
  CAPL_TRY(capl_world_all_gather_bytes(world, &mine, sizeof mine, &cards));
  capl_status status = compare_cards(&cards);
  if (status == CAPL_OK) *id = card_of(&cards, 0)->id;
  capl_messages_free(&cards);
  if (able == CAPL_OK) return status;
  capl_error_restore(&own); /* with its hint */
  return able;
}

/* ---- opening --------------------------------------------------------------------------------- */

static capl_status first_sum(task *t)
{
  void *one;
  CU_TRY(cudaMalloc(&one, sizeof(float)), "allocating");
  capl_status status = cu_status(cudaMemsetAsync(one, 0, sizeof(float), t->on), "filling memory");
  if (status == CAPL_OK)
    status = nccl_status(t->lib, t->comm, t->lib->AllReduce(one, one, 1, NCCL_FLOAT32, NCCL_SUM, t->comm, t->on),
                         "the first sum");
  if (status == CAPL_OK) status = cu_status(cudaStreamSynchronize(t->on), "the first sum of the ranks");
  cudaFree(one);
  return status;
}

static void join_ranks(task *t)
{
  capl_status status = nccl_status(t->lib, NULL, t->lib->CommInitRank(&t->comm, t->size, t->id, t->rank),
                                   "joining the ranks");
  if (status == CAPL_OK) status = first_sum(t);
  if (status != CAPL_OK) t->error = *capl_error_last();
}

static capl_status came_too_late(const task *t)
{
  CAPL_FAIL(CAPL_EDEVICE, "NCCL has not joined the %d ranks within %d s", t->size, NCCL_PATIENCE);
  capl_error_hint("NCCL_DEBUG=INFO makes NCCL log what it waits for; between hosts a firewall, or the wrong network "
                  "(NCCL_SOCKET_IFNAME=eth0), is the usual cause");
  return CAPL_EDEVICE;
}

capl_status nccl_comm_open(capl_world *world, const nccl_library *lib, cudaStream_t on, nccl_comm *out)
{
  static task opening;
  const capl_place *place = capl_world_place(world);
  opening = (task){.run = join_ranks, .lib = lib, .on = on, .rank = place->rank, .size = place->size};
  CAPL_TRY(meet(world, lib, &opening.id));
  if (!run_within(&opening, NCCL_PATIENCE)) return came_too_late(&opening);
  if (opening.error.code != CAPL_OK) {
    capl_error_restore(&opening.error);
    return opening.error.code;
  }
  *out = opening.comm;
  return CAPL_OK;
}

/* ---- parting --------------------------------------------------------------------------------- */

/* Recorded steps make their calls on the stream of the arithmetic. */
static bool is_over(const task *t)
{
  return cudaStreamSynchronize(cu.stream) == cudaSuccess && cudaStreamSynchronize(t->on) == cudaSuccess;
}

static void leave_in_order(task *t)
{
  if (is_over(t)) t->lib->CommDestroy(t->comm);
}

static void leave_to_the_end(task *t)
{
  is_over(t);
}

static void leave_at_once(task *t)
{
  t->lib->CommAbort(t->comm);
}

void nccl_comm_end(const nccl_library *lib, nccl_comm comm, cudaStream_t on, nccl_ending how)
{
  static void (*const ways[NCCL_ENDS])(task *) = {leave_in_order, leave_to_the_end, leave_at_once};
  static task closing[NCCL_ENDS]; /* the watchdog may interrupt an orderly end */
  task *t = &closing[how];
  *t = (task){.run = ways[how], .lib = lib, .comm = comm, .on = on};
  run_within(t, NCCL_LAST_PATIENCE);
}
