/* watchdog.c -- what this rank is doing: written by the main thread, read by the control thread.
** SPDX-License-Identifier: Apache-2.0
*/
#include "dist/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { PENDING = 256 };
static const double DEFAULT_S = 60, BEAT_MOST_S = 1;

typedef struct {
  uint64_t ticket, number; /* among all of this rank; among those of all ranks, 0 = it is none of them */
  int64_t library_ticket;  /* 0 = none yet */
  const char *name;
  size_t bytes;
  int peer;
  double since;
} pending;

struct watchdog {
  int rank, size;
  double seconds;
  pthread_mutex_t lock;
  int64_t step;
  uint64_t tickets, ended;  /* all collectives of this rank; those below count what all ranks do */
  uint64_t entered, done, sent, answered;
  pending queue[PENDING];   /* by ticket; the oldest are overwritten; only messages use them */
  double idle_since, free_since, gather_since, hold_since, left_since; /* the last three: below 0 = not */
  int status;
  char hold[WATCHDOG_REASON], error[WATCHDOG_ERROR];
  bool (*ask)(void *user, int64_t ticket);
  void *ask_user;
  /* Of the control thread only: the collective that all ranks are in, and the last hold that was reported. */
  uint64_t stuck_key;
  double stuck_since;
  int noted_rank;
  char noted[WATCHDOG_REASON];
};

capl_status watchdog_new(int rank, int size, double seconds, watchdog **out)
{
  watchdog *w = calloc(1, sizeof *w);
  if (!w) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a watchdog");
  double now = clock_now();
  *w = (watchdog){.rank = rank, .size = size, .seconds = seconds > 0 ? seconds : DEFAULT_S, .step = -1,
                  .idle_since = now,
               .free_since = now, .gather_since = -1, .hold_since = -1, .left_since = -1};
  pthread_mutex_init(&w->lock, NULL);
  *out = w;
  return CAPL_OK;
}

void watchdog_free(watchdog *w)
{
  if (!w) return;
  pthread_mutex_destroy(&w->lock);
  free(w);
}

void watchdog_set_seconds(watchdog *w, double seconds)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->seconds = seconds > 0 ? seconds : DEFAULT_S;
  pthread_mutex_unlock(&w->lock);
}

double watchdog_seconds(watchdog *w)
{
  pthread_mutex_lock(&w->lock);
  double seconds = w->seconds;
  pthread_mutex_unlock(&w->lock);
  return seconds;
}
int watchdog_size(const watchdog *w) { return w->size; }

double watchdog_stuck_for(watchdog *w, uint64_t key)
{
  double now = clock_now();
  if (w->stuck_since == 0 || w->stuck_key != key) w->stuck_since = now;
  w->stuck_key = key;
  return now - w->stuck_since;
}

bool watchdog_first_note(watchdog *w, int rank, const char *reason)
{
  if (w->noted_rank == rank && strcmp(w->noted, reason) == 0) return false;
  w->noted_rank = rank;
  snprintf(w->noted, sizeof w->noted, "%s", reason);
  return true;
}

double watchdog_interval(watchdog *w)
{
  double every = watchdog_seconds(w) / 6;
  return every < BEAT_MOST_S ? every : BEAT_MOST_S;
}

/* ---- notes ------------------------------------------------------------------------------------ */

static void busy(watchdog *w) { w->idle_since = clock_now(); }

uint64_t watchdog_queue(watchdog *w, const char *name, size_t bytes, int peer)
{
  if (!w) return 0;
  pthread_mutex_lock(&w->lock);
  busy(w);
  uint64_t ticket = ++w->tickets;
  if (peer < 0) w->entered++;
  w->queue[ticket % PENDING] =
    (pending){.ticket = ticket, .number = peer < 0 ? w->entered : 0, .name = name, .bytes = bytes, .peer = peer,
              .since = w->idle_since};
  pthread_mutex_unlock(&w->lock);
  return ticket;
}

/* Under the lock. The library works in order: all tickets before a finished one are finished too. */
static void ended(watchdog *w, uint64_t ticket)
{
  if (ticket > w->tickets) ticket = w->tickets;
  if (ticket <= w->ended) return;
  for (uint64_t t = w->ended + 1; t <= ticket; t++) {
    const pending *p = &w->queue[t % PENDING];
    if (p->ticket == t && p->number) w->done = p->number;
  }
  w->ended = ticket;
  busy(w);
}

void watchdog_finish(watchdog *w, uint64_t number)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  ended(w, number);
  pthread_mutex_unlock(&w->lock);
}

void watchdog_set_ticket(watchdog *w, uint64_t number, int64_t ticket)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  pending *p = &w->queue[number % PENDING];
  if (p->ticket == number) p->library_ticket = ticket;
  pthread_mutex_unlock(&w->lock);
}

/* Under the lock: marks what the library has finished since the last query. */
static void ask_library(watchdog *w)
{
  while (w->ask && w->ended < w->tickets) {
    const pending *p = &w->queue[(w->ended + 1) % PENDING];
    bool known = p->ticket == w->ended + 1;
    if (known && (!p->library_ticket || !w->ask(w->ask_user, p->library_ticket))) return;
    ended(w, w->ended + 1);
  }
}

void watchdog_set_query(watchdog *w, bool (*done)(void *user, int64_t ticket), void *user)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->ask = done;
  w->ask_user = user;
  pthread_mutex_unlock(&w->lock);
}

void watchdog_set_step(watchdog *w, int64_t step)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->step = step;
  busy(w);
  pthread_mutex_unlock(&w->lock);
}

void watchdog_set_hold(watchdog *w, const char *reason)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  busy(w);
  w->free_since = w->idle_since;
  w->hold_since = reason ? w->idle_since : -1;
  snprintf(w->hold, sizeof w->hold, "%s", reason ? reason : "");
  pthread_mutex_unlock(&w->lock);
}

void watchdog_gather_begin(watchdog *w)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  busy(w);
  w->sent++;
  w->gather_since = w->idle_since;
  pthread_mutex_unlock(&w->lock);
}

void watchdog_gather_end(watchdog *w)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  busy(w);
  w->answered++;
  w->gather_since = -1;
  pthread_mutex_unlock(&w->lock);
}

void watchdog_left(watchdog *w, int status, const char *message)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  if (w->left_since < 0) {
    w->left_since = clock_now();
    w->status = status;
    snprintf(w->error, sizeof w->error, "%.*s", (int)strcspn(message ? message : "", "\n"), message ? message : "");
  }
  pthread_mutex_unlock(&w->lock);
}

bool watchdog_same_error(watchdog *w, const watchdog_status *other)
{
  pthread_mutex_lock(&w->lock);
  bool same = w->left_since >= 0 && w->status == other->status && *w->error && strcmp(w->error, other->error) == 0;
  pthread_mutex_unlock(&w->lock);
  return same;
}

void watchdog_exclude_pause(watchdog *w, double seconds)
{
  pthread_mutex_lock(&w->lock);
  double *const since[] = {&w->idle_since, &w->free_since, &w->gather_since, &w->hold_since, &w->left_since};
  for (size_t i = 0; i < sizeof since / sizeof *since; i++)
    if (*since[i] >= 0) *since[i] += seconds;
  for (int i = 0; i < PENDING; i++) w->queue[i].since += seconds;
  pthread_mutex_unlock(&w->lock);
}

/* ---- the heartbeat ---------------------------------------------------------------------------- */

/* The collective that it has waited for longest. */
static void describe_wait(const watchdog *w, watchdog_status *out, double now)
{
  const pending *p = &w->queue[(w->ended + 1) % PENDING];
  if (w->ended == w->tickets || p->ticket != w->ended + 1) return;
  out->number = p->number;
  out->bytes = p->bytes;
  out->peer = p->peer;
  out->wait_s = now - p->since;
  snprintf(out->name, sizeof out->name, "%s", p->name);
}

void watchdog_status_now(watchdog *w, watchdog_status *out)
{
  pthread_mutex_lock(&w->lock);
  ask_library(w);
  double now = clock_now();
  *out = (watchdog_status){.step = w->step, .entered = w->entered, .done = w->done, .sent = w->sent,
                           .answered = w->answered,
                        .wait_s = -1, .peer = -1, .status = w->status, .idle_s = now - w->idle_since,
                        .free_s = now - w->free_since};
  out->gather_s = w->gather_since < 0 ? -1 : now - w->gather_since;
  out->hold_s = w->hold_since < 0 ? -1 : now - w->hold_since;
  out->left_s = w->left_since < 0 ? -1 : now - w->left_since;
  memcpy(out->hold, w->hold, sizeof out->hold);
  memcpy(out->error, w->error, sizeof out->error);
  describe_wait(w, out, now);
  pthread_mutex_unlock(&w->lock);
}

/* ---- the program's part ----------------------------------------------------------------------- */

static void (*say_fn)(const char *text, const char *hint);
static void (*end_fn)(int status);

void capl_world_on_lost(void (*say)(const char *text, const char *hint), void (*end)(int status))
{
  say_fn = say;
  end_fn = end;
}

void watchdog_report(const watchdog_diagnosis *v)
{
  if (say_fn) say_fn(v->text, v->hint);
}

void watchdog_end_process(const watchdog_diagnosis *v)
{
  if (end_fn) end_fn(v->status);
}
