/* watchdog.h -- what each rank is doing, and which rank keeps the others waiting.
**
** The main thread records what it begins and ends: a few stores under a lock that is nearly always free. The control
** thread sends them to rank 0 as a heartbeat and diagnoses: a rank is lost when its socket closes, when it sends
** nothing for the timeout, or when others wait that long for a call it has not made. Nothing here touches sockets or
** the clock of another host: ranks send ages in seconds.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_WATCHDOG_H
#define CAPL_DIST_WATCHDOG_H

#include "capl/dist.h"

typedef struct watchdog watchdog;

/* seconds: the timeout, 0 = 60. */
CAPL_API capl_status watchdog_new(int rank, int size, double seconds, watchdog **out);
CAPL_API void watchdog_free(watchdog *w);
/* Changes them; 0 = 60. */
CAPL_API void watchdog_set_seconds(watchdog *w, double seconds);

/* ---- notes of the program's thread; w may be NULL: a world of one ------------------------------- */

/* A collective has been queued. -> its number, 1, 2, … peer: the one rank it is done with, and then it has no number of
** its own among those of all ranks; -1 = all. name: a literal. */
CAPL_API uint64_t watchdog_queue(watchdog *w, const char *name, size_t bytes, int peer);
/* This one and all before are done. */
CAPL_API void watchdog_finish(watchdog *w, uint64_t number);
/* The ticket with which the control thread queries at each heartbeat whether a collective is done, for work that no
** call waits for. Those without a ticket are done with the ones before them. done NULL: no more queries. */
CAPL_API void watchdog_set_ticket(watchdog *w, uint64_t number, int64_t ticket);
CAPL_API void watchdog_set_query(watchdog *w, bool (*done)(void *user, int64_t ticket), void *user);

CAPL_API void watchdog_set_step(watchdog *w, int64_t step);
CAPL_API void watchdog_set_hold(watchdog *w, const char *reason);
CAPL_API void watchdog_gather_begin(watchdog *w);
CAPL_API void watchdog_gather_end(watchdog *w);
CAPL_API void watchdog_left(watchdog *w, int status, const char *message);

/* ---- the status of a rank ----------------------------------------------------------------------- */

enum { WATCHDOG_NAME = 24, WATCHDOG_REASON = 80, WATCHDOG_ERROR = 240 };

/* A heartbeat: fixed size, no pointers, the same on every machine that capl runs on. Ages in seconds when it was
** sent. */
typedef struct {
  int64_t step;           /* -1 = before the first, CAPL_STEPS_OVER */
  uint64_t entered, done; /* collectives of all ranks: queued and ended */
  uint64_t sent, answered; /* messages: sent and answered */
  uint64_t number, bytes; /* of the collective it has waited for longest; number 0: with one peer */
  double wait_s, gather_s;  /* in that collective, in a message; below 0 = in none */
  double idle_s;          /* since it began or ended anything of the above */
  double free_s;          /* since it was held last */
  double hold_s, left_s;  /* held, and since it left; below 0 = not */
  int32_t peer;           /* of that collective; -1 = all */
  int32_t status;         /* it left with */
  char name[WATCHDOG_NAME], hold[WATCHDOG_REASON], error[WATCHDOG_ERROR];
} watchdog_status;

CAPL_API void watchdog_status_now(watchdog *w, watchdog_status *out);

/* ---- diagnosis ---------------------------------------------------------------------------------- */

typedef struct {
  char host[CAPL_HOST_NAME];
  int32_t process;
} rank_identity;

typedef struct {
  bool known;  /* a heartbeat has arrived */
  bool gone;   /* its socket is closed */
  double gone_s, heard_s; /* since then; since its last heartbeat */
  watchdog_status status;
} rank_view;

typedef enum { WATCHDOG_OK, WATCHDOG_NOTE, WATCHDOG_LOST } watchdog_finding;
typedef struct {
  watchdog_finding finding;
  bool reported;  /* by the rank that sent it */
  bool away;  /* another host is unreachable */
  int rank;   /* the lost rank, -1 = none in particular */
  int status; /* the job ends with */
  char text[600], hint[300];
} watchdog_diagnosis;

/* Checks all ranks (views[rank], members[rank]) and writes what is wrong, if anything. me: this rank. A note is written
** once. */
CAPL_API void watchdog_diagnose(watchdog *w, int me, const rank_view *views, const rank_identity *members,
                                watchdog_diagnosis *out);

/* When all ranks have done their work: whether ending together, which MPI does by itself, takes too long. */
CAPL_API watchdog_finding watchdog_diagnose_end(watchdog *w, double seconds, watchdog_diagnosis *out);

/* Whether this rank reports it: rank 0, or the first that can when rank 0 is lost; none when the failed rank reports
** it. */
CAPL_API bool watchdog_reports_here(int me, int size, const watchdog_diagnosis *v, const rank_view *views,
                           const rank_identity *members);
/* Through the functions of capl_world_on_lost; the second may not return. */
CAPL_API void watchdog_report(const watchdog_diagnosis *v);
CAPL_API void watchdog_end_process(const watchdog_diagnosis *v);

/* This process was suspended for so long: subtracted from its ages. */
CAPL_API void watchdog_exclude_pause(watchdog *w, double seconds);
/* Whether this rank has ended with the same error as another. */
CAPL_API bool watchdog_same_error(watchdog *w, const watchdog_status *other);

/* Seconds between two heartbeats; the timeout in seconds; ranks. */
CAPL_API double watchdog_interval(watchdog *w);
CAPL_API double watchdog_seconds(watchdog *w);
CAPL_API int watchdog_size(const watchdog *w);
/* Seconds since all ranks are in this collective. */
CAPL_API double watchdog_stuck_for(watchdog *w, uint64_t key);
/* Whether this hold of a rank has not been reported yet. */
CAPL_API bool watchdog_first_note(watchdog *w, int rank, const char *reason);

#endif
