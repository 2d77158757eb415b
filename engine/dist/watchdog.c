/* watchdog.c -- what this rank does just now: noted by the program's thread, read by the star's.
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

struct watch {
  int rank, size;
  double seconds;
  pthread_mutex_t lock;
  int64_t step;
  uint64_t tickets, ended;  /* all collectives of this rank; those below count what all ranks do */
  uint64_t entered, done, told, heard;
  pending queue[PENDING];   /* by ticket; of more than that the oldest are forgotten, which only messages notice */
  double idle_since, free_since, tell_since, hold_since, left_since; /* the last three: below 0 = not */
  int status;
  char hold[WATCH_REASON], error[WATCH_ERROR];
  bool (*ask)(void *user, int64_t ticket);
  void *ask_user;
  /* Of the star's thread alone: the collective that all are in, and the last hold that was told. */
  uint64_t stuck_key;
  double stuck_since;
  int noted_rank;
  char noted[WATCH_REASON];
};

capl_status watch_new(int rank, int size, double seconds, watch **out)
{
  watch *w = calloc(1, sizeof *w);
  if (!w) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a watchdog");
  double now = clock_now();
  *w = (watch){.rank = rank, .size = size, .seconds = seconds > 0 ? seconds : DEFAULT_S, .step = -1, .idle_since = now,
               .free_since = now, .tell_since = -1, .hold_since = -1, .left_since = -1};
  pthread_mutex_init(&w->lock, NULL);
  *out = w;
  return CAPL_OK;
}

void watch_free(watch *w)
{
  if (!w) return;
  pthread_mutex_destroy(&w->lock);
  free(w);
}

void watch_set_seconds(watch *w, double seconds)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->seconds = seconds > 0 ? seconds : DEFAULT_S;
  pthread_mutex_unlock(&w->lock);
}

double watch_seconds(watch *w)
{
  pthread_mutex_lock(&w->lock);
  double seconds = w->seconds;
  pthread_mutex_unlock(&w->lock);
  return seconds;
}
int watch_size(const watch *w) { return w->size; }

double watch_stuck_for(watch *w, uint64_t key)
{
  double now = clock_now();
  if (w->stuck_since == 0 || w->stuck_key != key) w->stuck_since = now;
  w->stuck_key = key;
  return now - w->stuck_since;
}

bool watch_first_note(watch *w, int rank, const char *reason)
{
  if (w->noted_rank == rank && strcmp(w->noted, reason) == 0) return false;
  w->noted_rank = rank;
  snprintf(w->noted, sizeof w->noted, "%s", reason);
  return true;
}

double watch_every(watch *w)
{
  double every = watch_seconds(w) / 6;
  return every < BEAT_MOST_S ? every : BEAT_MOST_S;
}

/* ---- notes ------------------------------------------------------------------------------------ */

static void busy(watch *w) { w->idle_since = clock_now(); }

uint64_t watch_queue(watch *w, const char *name, size_t bytes, int peer)
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

/* Under the lock. Who works in order is asked for one number, so all before it are done too. */
static void ended(watch *w, uint64_t ticket)
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

void watch_finish(watch *w, uint64_t number)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  ended(w, number);
  pthread_mutex_unlock(&w->lock);
}

void watch_set_ticket(watch *w, uint64_t number, int64_t ticket)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  pending *p = &w->queue[number % PENDING];
  if (p->ticket == number) p->library_ticket = ticket;
  pthread_mutex_unlock(&w->lock);
}

/* Under the lock: what the library has done since it was asked last. */
static void ask_library(watch *w)
{
  while (w->ask && w->ended < w->tickets) {
    const pending *p = &w->queue[(w->ended + 1) % PENDING];
    bool known = p->ticket == w->ended + 1;
    if (known && (!p->library_ticket || !w->ask(w->ask_user, p->library_ticket))) return;
    ended(w, w->ended + 1);
  }
}

void watch_ask(watch *w, bool (*done)(void *user, int64_t ticket), void *user)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->ask = done;
  w->ask_user = user;
  pthread_mutex_unlock(&w->lock);
}

void watch_set_step(watch *w, int64_t step)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->step = step;
  busy(w);
  pthread_mutex_unlock(&w->lock);
}

void watch_set_hold(watch *w, const char *reason)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  busy(w);
  w->free_since = w->idle_since;
  w->hold_since = reason ? w->idle_since : -1;
  snprintf(w->hold, sizeof w->hold, "%s", reason ? reason : "");
  pthread_mutex_unlock(&w->lock);
}

void watch_tell_begin(watch *w)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  busy(w);
  w->told++;
  w->tell_since = w->idle_since;
  pthread_mutex_unlock(&w->lock);
}

void watch_tell_end(watch *w)
{
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  busy(w);
  w->heard++;
  w->tell_since = -1;
  pthread_mutex_unlock(&w->lock);
}

void watch_left(watch *w, int status, const char *message)
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

bool watch_same_error(watch *w, const watch_status *other)
{
  pthread_mutex_lock(&w->lock);
  bool same = w->left_since >= 0 && w->status == other->status && *w->error && strcmp(w->error, other->error) == 0;
  pthread_mutex_unlock(&w->lock);
  return same;
}

void watch_forgive(watch *w, double seconds)
{
  pthread_mutex_lock(&w->lock);
  double *const since[] = {&w->idle_since, &w->free_since, &w->tell_since, &w->hold_since, &w->left_since};
  for (size_t i = 0; i < sizeof since / sizeof *since; i++)
    if (*since[i] >= 0) *since[i] += seconds;
  for (int i = 0; i < PENDING; i++) w->queue[i].since += seconds;
  pthread_mutex_unlock(&w->lock);
}

/* ---- the heartbeat ---------------------------------------------------------------------------- */

/* The collective it has waited for longest. */
static void describe_wait(const watch *w, watch_status *out, double now)
{
  const pending *p = &w->queue[(w->ended + 1) % PENDING];
  if (w->ended == w->tickets || p->ticket != w->ended + 1) return;
  out->number = p->number;
  out->bytes = p->bytes;
  out->peer = p->peer;
  out->wait_s = now - p->since;
  snprintf(out->name, sizeof out->name, "%s", p->name);
}

void watch_status_now(watch *w, watch_status *out)
{
  pthread_mutex_lock(&w->lock);
  ask_library(w);
  double now = clock_now();
  *out = (watch_status){.step = w->step, .entered = w->entered, .done = w->done, .told = w->told, .heard = w->heard,
                        .wait_s = -1, .peer = -1, .status = w->status, .idle_s = now - w->idle_since,
                        .free_s = now - w->free_since};
  out->tell_s = w->tell_since < 0 ? -1 : now - w->tell_since;
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

void watch_say(const watch_verdict *v)
{
  if (say_fn) say_fn(v->text, v->hint);
}

void watch_end_process(const watch_verdict *v)
{
  if (end_fn) end_fn(v->status);
}
