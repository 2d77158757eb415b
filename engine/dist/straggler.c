/* straggler.c -- finds the rank that keeps the others waiting, from the heartbeats of all ranks.
**
** Collectives and messages are numbered alike on all ranks: a rank that has not entered the number others wait for is
** the straggler. A slow rank is not reported, only one that blocks others. SPDX-License-Identifier: Apache-2.0
*/
#include "dist/watchdog.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Closed sockets and errors are reported after a delay: all ranks may be ending together. */
static const double DIED_S = 0.2, FAILED_S = 0.5, LEFT_S = 1;

enum { NAME = 120, LOST_STATUS = 75 };

typedef struct {
  watchdog *watchdog;
  double seconds, every;
  int me, size;
  const rank_view *views;
  const rank_identity *members;
  watchdog_diagnosis *out;
} survey;

#define RESUME "--resume continues from the last checkpoint, on any number of ranks"

/* ---- texts ------------------------------------------------------------------------------------ */

static const char *who(const survey *c, int rank, char *text)
{
  snprintf(text, NAME, "rank %d (host %s, process %d)", rank, c->members[rank].host, c->members[rank].process);
  return text;
}

static const char *size_text(uint64_t bytes, char *text, size_t len)
{
  if (bytes >= 1000000) snprintf(text, len, "%.1f MB", (double)bytes / 1e6);
  else if (bytes >= 1000) snprintf(text, len, "%.1f kB", (double)bytes / 1e3);
  else snprintf(text, len, "%d bytes", (int)bytes);
  return text;
}

/* What it waits for: "all_reduce 412", "message 7", or nothing: false. */
static bool waits_for(const watchdog_status *s, char *text)
{
  *text = '\0';
  if (s->wait_s >= 0 && s->peer >= 0) snprintf(text, NAME, "%s with rank %d", s->name, (int)s->peer);
  else if (s->wait_s >= 0) snprintf(text, NAME, "%s %llu", s->name, (unsigned long long)s->number);
  else if (s->gather_s >= 0) snprintf(text, NAME, "message %llu", (unsigned long long)s->sent);
  else if (s->left_s >= 0 && s->status == 0) snprintf(text, NAME, "the end of the job");
  return *text;
}

static const char *step_text(const watchdog_status *s, char *text)
{
  if (s->step == CAPL_STEPS_OVER) snprintf(text, NAME, "after its last step");
  else if (s->step < 0) snprintf(text, NAME, "before the first step");
  else snprintf(text, NAME, "in step %lld", (long long)s->step);
  return text;
}

__attribute__((format(printf, 5, 6))) static bool find(const survey *c, int rank, int status, const char *hint,
                                                       const char *fmt, ...)
{
  c->out->finding = WATCHDOG_LOST;
  c->out->rank = rank;
  c->out->status = status;
  snprintf(c->out->hint, sizeof c->out->hint, "%s", hint);
  va_list args;
  va_start(args, fmt);
  vsnprintf(c->out->text, sizeof c->out->text, fmt, args);
  va_end(args);
  return true;
}

/* A waiting rank other than rank; NULL = none. */
static const watchdog_status *who_waits(const survey *c, int rank)
{
  char what[NAME];
  for (int r = 0; r < c->size; r++)
    if (r != rank && c->views[r].known && !c->views[r].gone && waits_for(&c->views[r].status, what))
      return &c->views[r].status;
  return NULL;
}

/* ---- ranks that have ended -------------------------------------------------------------------- */

static bool find_dead(const survey *c, int rank)
{
  const rank_view *v = &c->views[rank];
  if (!v->gone || v->status.left_s >= 0 || v->gone_s < DIED_S) return false;
  char a[NAME], b[NAME], d[NAME] = "";
  /* A waiting rank is in the same step; the dead rank's last heartbeat may be a second old. */
  const watchdog_status *waits = who_waits(c, rank), *last = waits && waits->step > v->status.step ? waits : &v->status;
  return find(c, rank, LOST_STATUS, "see its last lines, or dmesg if memory ran out; " RESUME,
              "%s died %s%s%s", who(c, rank, a), v->known ? step_text(last, b) : "before the first step",
              waits ? "; the others wait for it: " : "", waits && waits_for(waits, d) ? d : "");
}

static bool find_failed(const survey *c, int rank)
{
  const rank_view *v = &c->views[rank];
  const watchdog_status *s = &v->status, *mine = &c->views[c->me].status;
  if (s->left_s < 0 || s->status == 0 || s->left_s + v->heard_s < FAILED_S) return false;
  if (mine->left_s >= 0 && mine->status) return false; /* it reports its own error */
  char name[CAPL_HOST_NAME + 24], where[NAME];
  snprintf(name, sizeof name, "rank %d (%s)", rank, c->members[rank].host);
  if (*s->error) return find(c, rank, s->status, "", "%s ended with an error: %s", name, s->error);
  if (s->status > 128) return find(c, rank, s->status, "", "%s was stopped by signal %d", name, s->status - 128);
  return find(c, rank, s->status, "", "%s ended with status %d %s", name, s->status, step_text(s, where));
}

/* Whether the rank is on another host, which may be unreachable. */
static bool find_away(const survey *c, int rank)
{
  c->out->away = strcmp(c->members[rank].host, c->members[c->me].host) != 0;
  return true;
}

static bool find_silent(const survey *c, int rank)
{
  const rank_view *v = &c->views[rank];
  if (v->heard_s <= c->seconds || (v->status.left_s >= 0 && v->status.status)) return false;
  const watchdog_status *waiting = &c->views[c->me].status;
  char a[NAME], what[NAME], b[NAME], text[3 * NAME] = "";
  for (int r = 0; r < c->size; r++)
    if (r != rank && c->views[r].known && c->views[r].status.wait_s >= 0) waiting = &c->views[r].status;
  if (waits_for(waiting, what))
    snprintf(text, sizeof text, ": %s %s; the others wait for it", what, step_text(waiting, b));
  else if (v->known) snprintf(text, sizeof text, "; it was last heard %s", step_text(&v->status, b));
  return find(c, rank, LOST_STATUS, "its process or its host is stopped, or the network to it is cut; " RESUME,
              "%s has not answered for %.1f s%s", who(c, rank, a), v->heard_s, text) && find_away(c, rank);
}

/* ---- ranks that others wait for --------------------------------------------------------------- */

static double waited(const rank_view *v)
{
  double s = v->status.wait_s > v->status.gather_s ? v->status.wait_s : v->status.gather_s;
  return s < 0 ? -1 : s + v->heard_s;
}

/* Two ranks in their collective of the same number, which is another for each. */
static bool find_mismatch(const survey *c)
{
  int first = -1;
  for (int r = 0; r < c->size; r++) {
    const watchdog_status *s = &c->views[r].status, *f = first < 0 ? s : &c->views[first].status;
    if (!c->views[r].known || s->wait_s < c->every || s->number == 0) continue;
    if (first < 0) first = r;
    if (s->number != f->number || (s->bytes == f->bytes && strcmp(s->name, f->name) == 0)) continue;
    char a[NAME], b[NAME], n[32], m[32];
    return find(c, -1, LOST_STATUS,
                "every rank must make the same calls in the same order: check for code that only some ranks run, "
                "such as "
                "'if world.is_main'",
                "the ranks do not exchange the same: %s is in %s %llu of %s, %s in %s %llu of %s", who(c, first, a),
                f->name, (unsigned long long)f->number, size_text(f->bytes, n, sizeof n), who(c, r, b), s->name,
                (unsigned long long)s->number, size_text(s->bytes, m, sizeof m));
  }
  return false;
}

/* Whether rank s has not entered the call that rank r waits for. */
static bool is_behind(const survey *c, int s, int r)
{
  const watchdog_status *a = &c->views[r].status, *b = &c->views[s].status;
  if (s == r || !c->views[s].known) return false;
  if (a->wait_s < 0) return b->sent < a->sent;
  if (a->peer < 0) return b->entered < a->number;
  return s == a->peer && !(b->wait_s >= 0 && b->peer == r);
}

static bool note_hold(const survey *c, int rank, const char *what)
{
  const rank_view *v = &c->views[rank];
  char a[NAME];
  snprintf(c->out->text, sizeof c->out->text, "%s is %.80s for %.0f s; the others wait for it: %s", who(c, rank, a),
           v->status.hold, v->status.hold_s + v->heard_s, what);
  c->out->finding = WATCHDOG_NOTE;
  c->out->rank = rank;
  return true;
}

static bool find_left(const survey *c, int s, int r)
{
  char a[NAME], x[NAME], b[NAME], d[NAME];
  bool over = c->views[s].status.step == CAPL_STEPS_OVER;
  waits_for(&c->views[r].status, x);
  return find(c, s, LOST_STATUS,
              "all ranks have to do the same number of steps: is a loop's end or a loader different there?",
              "%s has done its work%s%s, but rank %d still needs it: %s %s", who(c, s, a), over ? "" : " ",
              over ? "" : step_text(&c->views[s].status, b), r, x, step_text(&c->views[r].status, d));
}

static bool find_crossed(const survey *c, int s, int r)
{
  int64_t left = c->views[r].status.step, right = c->views[s].status.step;
  if (left != right && right == CAPL_STEPS_OVER) return find_left(c, s, r);
  if (left != right && left == CAPL_STEPS_OVER) return find_left(c, r, s);
  char a[NAME], b[NAME], x[NAME], y[NAME];
  waits_for(&c->views[r].status, x);
  waits_for(&c->views[s].status, y);
  return find(c, -1, LOST_STATUS,
              "every rank must make the same calls in the same order: check for code that only some ranks run, such as "
              "'if world.is_main'",
              "the ranks wait for each other: %s for %s, %s for %s", who(c, r, a), x, who(c, s, b), y);
}

static bool find_late(const survey *c, int s, int r)
{
  const rank_view *v = &c->views[s], *w = &c->views[r];
  char a[NAME], x[NAME], b[NAME], d[NAME];
  waits_for(&w->status, x);
  if (v->heard_s > 3 * c->every + 0.5)
    return find(c, s, LOST_STATUS, "its process or its host is stopped, or the network to it is cut; " RESUME,
                "%s has not answered for %.1f s: %s %s; the others wait for it", who(c, s, a), v->heard_s, x,
                step_text(&w->status, b)) && find_away(c, s);
  return find(c, s, LOST_STATUS, "--watchdog=SECONDS gives slow steps more time; " RESUME,
              "%s has kept the others waiting for %.1f s: %s %s; it responds, but does something else%s%s",
              who(c, s, a), waited(w), x, step_text(&w->status, b), v->status.step == w->status.step ? "" : " ",
              v->status.step == w->status.step ? "" : step_text(&v->status, d));
}

/* Why rank s keeps rank r waiting. */
static bool find_behind(const survey *c, int s, int r)
{
  const rank_view *v = &c->views[s], *w = &c->views[r];
  char what[NAME];
  bool crossed = v->status.wait_s >= 0 || v->status.gather_s >= 0;
  double most = waited(w);
  if (v->status.left_s >= 0) return v->status.status == 0 && most > LEFT_S && find_left(c, s, r);
  if (crossed && is_behind(c, r, s)) return most > 3 * c->every && waited(v) > 3 * c->every && find_crossed(c, s, r);
  if (crossed || most <= c->seconds) return false; /* it waits for another rank, which is found instead */
  if (v->status.hold_s >= 0) return waits_for(&w->status, what) && note_hold(c, s, what);
  return v->status.free_s + v->heard_s > c->seconds && find_late(c, s, r);
}

/* All ranks are in the collective and it does not end. The last rank may have entered just now, and heartbeats of ranks
** that have left it may be in flight: the duration of this state counts. */
static bool find_stuck(const survey *c, int r)
{
  const rank_view *w = &c->views[r];
  if (w->status.wait_s < 2 * c->every) return false;
  double stuck = watchdog_stuck_for(c->watchdog, w->status.number ? w->status.number : w->status.entered);
  if (stuck <= c->seconds || waited(w) <= c->seconds) return false;
  char x[NAME], d[NAME];
  waits_for(&w->status, x);
  return find(c, -1, LOST_STATUS,
              "the network that tensors take between the ranks is not the one of these messages: is one of its links "
              "down?",
              "all ranks have been in %s for %.1f s, and it does not end: %s", x, stuck, step_text(&w->status, d));
}

static bool find_waiting(const survey *c)
{
  for (int r = 0; r < c->size; r++) {
    if (!c->views[r].known || waited(&c->views[r]) < 0) continue;
    bool behind = false;
    for (int s = 0; s < c->size; s++) {
      if (!is_behind(c, s, r)) continue;
      behind = true;
      if (find_behind(c, s, r)) return true;
    }
    if (!behind && find_stuck(c, r)) return true;
  }
  return false;
}

/* Finished ranks wait for one that makes no progress. */
static bool find_idle(const survey *c)
{
  bool left = false;
  for (int r = 0; r < c->size; r++) left = left || c->views[r].status.left_s > c->seconds;
  for (int s = 0; left && s < c->size; s++) {
    const rank_view *v = &c->views[s];
    double idle = v->status.idle_s + v->heard_s;
    if (!v->known || v->status.left_s >= 0 || v->status.hold_s >= 0 || waited(v) >= 0 || idle <= c->seconds) continue;
    char a[NAME], b[NAME];
    return find(c, s, LOST_STATUS, "--watchdog=SECONDS gives slow work more time",
                "%s has kept the others waiting for %.1f s: they are finished; it responds, but is busy %s",
                who(c, s, a), idle, step_text(&v->status, b));
  }
  return false;
}

/* ---- all of it -------------------------------------------------------------------------------- */

static bool find_any(const survey *c)
{
  static bool (*const each[])(const survey *, int) = {find_dead, find_failed, find_silent};
  for (size_t i = 0; i < sizeof each / sizeof *each; i++)
    for (int r = 0; r < c->size; r++)
      if (r != c->me && (c->me == 0 || r == 0) && each[i](c, r)) return true;
  return c->me == 0 && (find_mismatch(c) || find_waiting(c) || find_idle(c));
}

void watchdog_diagnose(watchdog *w, int me, const rank_view *views, const rank_identity *members,
                       watchdog_diagnosis *out)
{
  *out = (watchdog_diagnosis){.rank = -1};
  survey c = {.watchdog = w, .seconds = watchdog_seconds(w), .every = watchdog_interval(w), .me = me,
              .size = watchdog_size(w),
             .views = views, .members = members, .out = out};
  if (!find_any(&c) || out->finding != WATCHDOG_NOTE) return;
  if (!watchdog_first_note(w, out->rank, views[out->rank].status.hold)) *out = (watchdog_diagnosis){.rank = -1};
}

watchdog_finding watchdog_diagnose_end(watchdog *w, double seconds, watchdog_diagnosis *out)
{
  if (seconds <= watchdog_seconds(w)) return WATCHDOG_OK;
  survey c = {.out = out};
  find(&c, -1, LOST_STATUS, "the run itself is complete: what it has saved is there",
       "all ranks have done their work, but have not ended together for %.1f s", seconds);
  return WATCHDOG_LOST;
}

/* When rank 0 is lost, one rank must report it without asking the others: the next rank of its host if the process died
** (the host's output still works), else the first rank of another host. */
bool watchdog_reports_here(int me, int size, const watchdog_diagnosis *v, const rank_view *views,
                           const rank_identity *members)
{
  if (v->reported) return false;
  if (me == 0) return true;
  if (views[0].status.left_s >= 0 && views[0].status.status) return false; /* rank 0 reports its own error */
  bool here = views[0].gone;
  for (int r = 1; r < size; r++)
    if ((strcmp(members[r].host, members[0].host) == 0) == here) return r == me;
  return me == 1;
}
