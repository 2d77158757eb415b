/* watchdog.h -- what each rank does just now, and who keeps the others waiting.
**
** The program's thread notes what it begins and ends: a few stores under a lock that is nearly always free. The star's
** thread sends it to rank 0 as a heartbeat, and judges: a rank is lost when its socket closes, when it has not been
** heard for so many seconds, or when others wait so long for a call that it has not made. Nothing here touches sockets
** or the clock of another host: what a rank sends are ages in seconds.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_WATCHDOG_H
#define CAPL_DIST_WATCHDOG_H

#include "capl/dist.h"

typedef struct watch watch;

/* seconds that a rank may keep the others waiting; 0 = 60. */
CAPL_API capl_status watch_new(int rank, int size, double seconds, watch **out);
CAPL_API void watch_free(watch *w);
/* Changes them; 0 = 60. */
CAPL_API void watch_set_seconds(watch *w, double seconds);

/* ---- notes of the program's thread; w may be NULL: a world of one ------------------------------- */

/* A collective has been queued. -> its number, 1, 2, … peer: the one rank it is done with, and then it has no number of
** its own among those of all ranks; -1 = all. name: a literal. */
CAPL_API uint64_t watch_queue(watch *w, const char *name, size_t bytes, int peer);
/* This one and all before are done. */
CAPL_API void watch_finish(watch *w, uint64_t number);
/* The ticket by which the star's thread may ask, at each heartbeat, whether a collective is done: for work that nobody
** waits for. The ones without are done with the ones before them. done NULL: nobody is asked any more. */
CAPL_API void watch_set_ticket(watch *w, uint64_t number, int64_t ticket);
CAPL_API void watch_ask(watch *w, bool (*done)(void *user, int64_t ticket), void *user);

CAPL_API void watch_set_step(watch *w, int64_t step);
CAPL_API void watch_set_hold(watch *w, const char *reason);
CAPL_API void watch_tell_begin(watch *w);
CAPL_API void watch_tell_end(watch *w);
CAPL_API void watch_left(watch *w, int status, const char *message);

/* ---- what a rank says of itself ----------------------------------------------------------------- */

enum { WATCH_NAME = 24, WATCH_REASON = 80, WATCH_ERROR = 240 };

/* A heartbeat: fixed size, no pointers, the same on every machine that capl runs on. Ages in seconds when it was
** sent. */
typedef struct {
  int64_t step;           /* -1 = before the first, CAPL_STEPS_OVER */
  uint64_t entered, done; /* collectives of all ranks: queued and ended */
  uint64_t told, heard;   /* messages: begun and answered */
  uint64_t number, bytes; /* of the collective it has waited for longest; number 0: with one peer */
  double wait_s, tell_s;  /* in that collective, in a message; below 0 = in none */
  double idle_s;          /* since it began or ended anything of the above */
  double free_s;          /* since it was held last */
  double hold_s, left_s;  /* held, and since it left; below 0 = not */
  int32_t peer;           /* of that collective; -1 = all */
  int32_t status;         /* it left with */
  char name[WATCH_NAME], hold[WATCH_REASON], error[WATCH_ERROR];
} watch_status;

CAPL_API void watch_status_now(watch *w, watch_status *out);

/* ---- judging ------------------------------------------------------------------------------------ */

typedef struct {
  char host[CAPL_HOST_NAME];
  int32_t process;
} watch_member;

typedef struct {
  bool known;  /* there is anything to judge by */
  bool gone;   /* its socket is closed */
  double gone_s, heard_s; /* since then; since it was last heard */
  watch_status status;
} watch_view;

typedef enum { WATCH_WELL, WATCH_NOTE, WATCH_LOST } watch_finding;
typedef struct {
  watch_finding finding;
  bool said;  /* by the rank that sends it on */
  bool away;  /* another host cannot be reached */
  int rank;   /* whom it is about, -1 = nobody in particular */
  int status; /* the job ends with */
  char text[600], hint[300];
} watch_verdict;

/* Looks at all ranks (views[rank], members[rank]) and says what is wrong, if anything. me: who looks. A note is made
** once. */
CAPL_API void watch_judge(watch *w, int me, const watch_view *views, const watch_member *members, watch_verdict *out);

/* When all ranks have done their work: whether ending together, which MPI does by itself, takes too long. */
CAPL_API watch_finding watch_judge_end(watch *w, double seconds, watch_verdict *out);

/* Which rank says it: rank 0, or the first that can when that one is lost; nobody when who failed says it itself. */
CAPL_API bool watch_speaks(int me, int size, const watch_verdict *v, const watch_view *views,
                           const watch_member *members);
/* Through the functions of capl_world_on_lost; the second may not return. */
CAPL_API void watch_say(const watch_verdict *v);
CAPL_API void watch_end_process(const watch_verdict *v);

/* This process was stopped for so long: its ages do not count that. */
CAPL_API void watch_forgive(watch *w, double seconds);
/* Whether this rank has left with the error that another has left with. */
CAPL_API bool watch_same_error(watch *w, const watch_status *other);

/* Seconds between two heartbeats; that a rank may keep the others waiting; ranks. */
CAPL_API double watch_every(watch *w);
CAPL_API double watch_seconds(watch *w);
CAPL_API int watch_size(const watch *w);
/* Seconds for which this, and nothing else, has been the collective that all are in. */
CAPL_API double watch_stuck_for(watch *w, uint64_t key);
/* Whether this hold of a rank has not been noted yet. */
CAPL_API bool watch_first_note(watch *w, int rank, const char *reason);

#endif
