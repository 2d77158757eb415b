/* peers.c -- the connections, and the deadlines by which their requests are to arrive.
**
** libmicrohttpd ends a connection that says nothing; one that says a byte now and then it would keep for ever, and it
** cannot answer before a request is whole. A thread looks for both and answers over the socket itself: while a request
** arrives nobody else writes there.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "program/serve/server.h"

enum { TICK_NS = 100000000 };
static const double ENDING_S = 2; /* that a client may go on sending what is dropped */

peer *peers_add(peers *p, int fd)
{
  peer *one = malloc(sizeof *one);
  if (!one) return NULL;
  *one = (peer){.fd = fd, .since = clock_now()};
  pthread_mutex_lock(&p->lock);
  one->next = p->first;
  one->link = &p->first;
  if (p->first) p->first->link = &one->next;
  p->first = one;
  p->count++;
  pthread_mutex_unlock(&p->lock);
  return one;
}

/* Before its socket is closed. */
void peers_remove(peers *p, peer *one)
{
  if (!one) return;
  pthread_mutex_lock(&p->lock);
  *one->link = one->next;
  if (one->next) one->next->link = one->link;
  p->count--;
  pthread_mutex_unlock(&p->lock);
  free(one);
}

static void enter(peer *one, peer_state state)
{
  one->state = state;
  one->since = clock_now();
}

bool peers_set(peers *p, peer *one, peer_state state)
{
  pthread_mutex_lock(&p->lock);
  bool ending = one->state == PEER_ENDING;
  if (one->state == PEER_NEW && state == PEER_RECEIVING) one->state = state; /* its deadline stays */
  else if (!ending) enter(one, state);
  pthread_mutex_unlock(&p->lock);
  return !ending;
}

/* ---- answers in the middle of a request ------------------------------------------------------------ */

static void send_refusal(peers *p, peer *one, int status, const char *why)
{
  char head[256];
  char *json = error_json(why);
  size_t n = json ? strlen(json) : 0;
  snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                              "Connection: close\r\n\r\n", status, MHD_get_reason_phrase_for((unsigned)status), n);
  send(one->fd, head, strlen(head), MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE);
  send(one->fd, json ? json : "", n, MSG_NOSIGNAL | MSG_DONTWAIT);
  free(json);
  shutdown(one->fd, SHUT_WR);
  enter(one, PEER_ENDING);
  counters_status(p->counters, status);
}

void peers_refuse(peers *p, peer *one, int status, const char *why)
{
  pthread_mutex_lock(&p->lock);
  if (one->state != PEER_ENDING) send_refusal(p, one, status, why);
  pthread_mutex_unlock(&p->lock);
}

/* ---- deadlines --------------------------------------------------------------------------------------- */

static void look_at(peers *p, peer *one, double now)
{
  char why[160];
  double age = now - one->since;
  if (one->state == PEER_BUSY) return;
  if (age < (one->state == PEER_ENDING ? ENDING_S : p->patience)) return;
  if (one->state == PEER_IDLE || one->state == PEER_ENDING) return (void)shutdown(one->fd, SHUT_RDWR);
  snprintf(why, sizeof why, "the request did not arrive within %g s, the limit of this server (--time)", p->patience);
  send_refusal(p, one, MHD_HTTP_REQUEST_TIMEOUT, why);
}

static void *watch(void *user)
{
  peers *p = user;
  while (!atomic_load(&p->over)) {
    nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
    pthread_mutex_lock(&p->lock);
    double now = clock_now();
    for (peer *one = p->first; one; one = one->next) look_at(p, one, now);
    pthread_mutex_unlock(&p->lock);
  }
  return NULL;
}

capl_status peers_start(peers *p, double patience, counters *counters)
{
  p->patience = patience;
  p->counters = counters;
  CAPL_TRY(capl_thread_start(&p->watch, "capl-deadlines", watch, p));
  p->watched = true;
  return CAPL_OK;
}

void peers_stop(peers *p)
{
  atomic_store(&p->over, true);
  if (p->watched) pthread_join(p->watch, NULL);
  p->watched = false;
}
