/* queue.c -- requests that wait for the model, and how many of them are computed together.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "base/clock.h"
#include "program/serve/server.h"

capl_status queue_start(queue *q)
{
  pthread_condattr_t monotonic;
  q->last = &q->first;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  int failed = pthread_mutex_init(&q->lock, NULL) || pthread_cond_init(&q->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return failed ? CAPL_FAIL(CAPL_ENOMEM, "no memory for a queue") : CAPL_OK;
}

void queue_end(queue *q)
{
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->changed);
}

bool queue_push(queue *q, request *r, int most)
{
  pthread_mutex_lock(&q->lock);
  bool fits = q->waiting < most && !q->closed;
  if (fits) {
    MHD_suspend_connection(r->connection); /* before anybody can answer it */
    r->since = clock_now();
    r->next = NULL;
    *q->last = r;
    q->last = &r->next;
    q->waiting++;
    pthread_cond_signal(&q->changed);
  }
  pthread_mutex_unlock(&q->lock);
  return fits;
}

/* Until so many requests wait, or a moment is there. */
static void wait_for(queue *q, int many, double moment)
{
  struct timespec until = clock_time(moment);
  while (q->waiting < many && clock_now() < moment) pthread_cond_timedwait(&q->changed, &q->lock, &until);
}

int queue_take(queue *q, int most, double wait, double patience, request **taken)
{
  int n = 0;
  pthread_mutex_lock(&q->lock);
  wait_for(q, 1, clock_now() + patience);
  if (q->first) wait_for(q, most, q->first->since + wait);
  for (; n < most && q->first; n++) {
    taken[n] = q->first;
    q->first = q->first->next;
    q->waiting--;
  }
  if (!q->first) q->last = &q->first;
  pthread_mutex_unlock(&q->lock);
  return n;
}

void request_answer(request *r, int status, char *json)
{
  struct MHD_Connection *connection = r->connection;
  counters_waited(&r->server->counters, clock_now() - r->since);
  r->answer = json;
  r->status = status;
  MHD_resume_connection(connection); /* its thread sends the answer, and frees the request */
}

bool request_hold(request *r, size_t bytes)
{
  serve_server *s = r->server;
  bool fits = (double)(atomic_fetch_add(&s->held, bytes) + bytes) <= s->o.memory;
  if (fits) r->held += bytes;
  else atomic_fetch_sub(&s->held, bytes);
  return fits;
}

void request_free(request *r)
{
  atomic_fetch_sub(&r->server->held, r->held);
  body_free(&r->parts);
  capl_image_fini(&r->image);
  free(r->type);
  free(r->body);
  free(r->answer);
  free(r);
}
