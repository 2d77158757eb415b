/* parallel_for.c -- threads that take one number after the other.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/parallel_for.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/thread.h"
#include "capl/data.h"

typedef struct {
  uint32_t n;
  size_t room;
  bool (*stop)(void);
  parallel_job job;
  void *context;
  atomic_uint next;
  pthread_mutex_t lock; /* of the three below */
  capl_status status;   /* the failure with the lowest number */
  uint32_t failed;
  capl_error error;
} work;

/* Numbers below a failed one have all been begun, so the lowest is known when all threads are done. */
static void record_failure(work *w, uint32_t index, capl_status status)
{
  pthread_mutex_lock(&w->lock);
  if (w->status == CAPL_OK || index < w->failed) {
    w->status = status;
    w->failed = index;
    w->error = *capl_error_last();
  }
  pthread_mutex_unlock(&w->lock);
  atomic_store(&w->next, w->n);
}

static void *do_some(void *argument)
{
  work *w = argument;
  uint8_t *room = malloc(w->room);
  if (!room) {
    record_failure(w, w->n, CAPL_FAIL(CAPL_ENOMEM, "no memory to draw an image of %zu bytes", w->room));
    return NULL;
  }
  for (;;) {
    uint32_t index = atomic_fetch_add(&w->next, 1);
    if (index >= w->n) break;
    bool stopped = w->stop && w->stop();
    capl_status status = stopped ? CAPL_FAIL(CAPL_EINTERRUPT, "interrupted") : w->job(w->context, index, room);
    if (status == CAPL_OK) continue;
    record_failure(w, index, status);
    break;
  }
  free(room);
  return NULL;
}

/* Threads that cannot be started are missed by nobody: the calling thread works too. */
static void run(work *w, int threads)
{
  pthread_t thread[CAPL_WORKERS_MAX];
  int started = 0;
  while (started < threads - 1 && capl_thread_start(&thread[started], "capl-draw", do_some, w) == CAPL_OK) started++;
  do_some(w);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

capl_status parallel_for(uint32_t n, int threads, size_t room, bool (*stop)(void), parallel_job job, void *context)
{
  if (n > INT32_MAX) return CAPL_FAIL(CAPL_EVALUE, "cannot draw %u images; at most %d", n, INT32_MAX);
  if (threads < 0 || threads > CAPL_WORKERS_MAX) {
    return CAPL_FAIL(CAPL_EVALUE, "threads is %d; it must be 0..%d", threads, CAPL_WORKERS_MAX);
  }
  work w = {.n = n, .room = room, .stop = stop, .job = job, .context = context};
  pthread_mutex_init(&w.lock, NULL);
  run(&w, threads);
  pthread_mutex_destroy(&w.lock);
  if (w.status != CAPL_OK) capl_error_restore(&w.error);
  return w.status;
}
