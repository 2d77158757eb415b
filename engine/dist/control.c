/* control.c -- the thread that owns the sockets of a rank, and what the program's thread asks of it.
**
** Rank 0's thread collects the messages of all ranks and answers when it has them; its own program is one of those who
** ask. All state that both threads touch is under one lock, held for copies alone.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "dist/control.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

/* An end with an error waits a little for the others': they often meet the same one, and who made it says more of
** it. */
static const double GRACE_S = 0.5, FLUSH_S = 0.3, LINGER_S = 4;

typedef struct {
  char *data;
  size_t len;
  bool there;
} message;

struct star {
  int rank, size, n_links; /* rank 0: size, of which the first is not used; else 1 */
  watch *watch;
  watch_member *members;
  wire *links;
  watch_view *views; /* what is known of each rank */
  double *heard, *gone; /* when */
  struct pollfd *polls;
  int wake; /* eventfd */
  pthread_t thread;

  pthread_mutex_t lock;
  pthread_cond_t answered;
  message *told;  /* rank 0: one per rank */
  int n_told;
  char *all;      /* the answer: lengths, then texts */
  size_t all_len;
  bool has_all, ending, bye, lost;
  double bye_at;
  double left_at, last_beat, last_round;
  watch_verdict verdict;
};

static void lock(star *s) { pthread_mutex_lock(&s->lock); }
static void unlock(star *s) { pthread_mutex_unlock(&s->lock); }
static void wake(star *s)
{
  uint64_t one = 1;
  while (write(s->wake, &one, sizeof one) < 0 && errno == EINTR) {}
}

/* Which rank is at the other end of a link. */
static int rank_of(const star *s, int link) { return s->rank == 0 ? link : 0; }

/* ---- messages --------------------------------------------------------------------------------- */

/* all: what frames to the others carry: size lengths, then the texts. Gives them to this rank's program as well. */
static void all_deliver(star *s, const char *data, size_t len)
{
  free(s->all);
  s->all = malloc(len ? len : 1);
  if (s->all) memcpy(s->all, data, len);
  s->all_len = len;
  s->has_all = true;
  pthread_cond_broadcast(&s->answered);
}

/* Rank 0, when the last rank has told. */
static void all_send(star *s)
{
  size_t head = sizeof(uint64_t) * (size_t)s->size, len = head;
  for (int r = 0; r < s->size; r++) len += s->told[r].len;
  char *data = malloc(len);
  size_t at = head;
  for (int r = 0; data && r < s->size; r++) {
    uint64_t n = s->told[r].len;
    memcpy(data + sizeof n * (size_t)r, &n, sizeof n);
    if (n) memcpy(data + at, s->told[r].data, n);
    at += n;
  }
  for (int r = 0; r < s->size; r++) {
    if (r && data) wire_put(&s->links[r], WIRE_ALL, data, len, NULL, 0);
    free(s->told[r].data);
    s->told[r] = (message){0};
  }
  s->n_told = 0;
  if (data) all_deliver(s, data, len);
  free(data);
}

/* false: it tells twice before the others have told once, or there is no memory for it. */
static bool told_add(star *s, int rank, const void *data, size_t len)
{
  message *m = &s->told[rank];
  if (m->there || len > STAR_MESSAGE) return false;
  *m = (message){.data = malloc(len ? len : 1), .len = len, .there = true};
  if (!m->data) return *m = (message){0}, false;
  if (len) memcpy(m->data, data, len);
  if (++s->n_told == s->size) all_send(s);
  return true;
}

/* The answer, taken apart for the program. */
static capl_status all_read(star *s, capl_messages *out)
{
  size_t n = (size_t)s->size, at = n * sizeof(uint64_t);
  *out = (capl_messages){.count = s->size, .data = calloc(n, sizeof *out->data), .len = calloc(n, sizeof *out->len)};
  bool fine = s->all && s->all_len >= at && out->data && out->len;
  for (size_t r = 0; fine && r < n; r++) {
    uint64_t len;
    memcpy(&len, s->all + r * sizeof len, sizeof len);
    fine = len <= s->all_len - at && (out->data[r] = malloc((size_t)len + 1));
    if (!fine) break;
    memcpy(out->data[r], s->all + at, (size_t)len);
    out->data[r][len] = '\0';
    out->len[r] = (size_t)len;
    at += (size_t)len;
  }
  free(s->all);
  s->all = NULL;
  s->has_all = false;
  if (fine) return CAPL_OK;
  capl_messages_free(out);
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for the messages of %d ranks", s->size);
}

void capl_messages_free(capl_messages *m)
{
  for (int r = 0; m->data && r < m->count; r++) free(m->data[r]);
  free(m->data);
  free(m->len);
  *m = (capl_messages){0};
}

static capl_status lost_error(const star *s)
{
  CAPL_FAIL(CAPL_EIO, "%s", s->verdict.text);
  capl_error_hint("%s", s->verdict.hint);
  return CAPL_EIO;
}

capl_status star_tell(star *s, const void *mine, size_t len, capl_messages *all)
{
  if (len > STAR_MESSAGE)
    return CAPL_FAIL(CAPL_EVALUE, "a message between ranks has at most %d MiB, not %.1f: tensors go by collectives",
                     STAR_MESSAGE >> 20, (double)len / (1 << 20));
  watch_tell_begin(s->watch);
  lock(s);
  bool taken = s->rank == 0 ? told_add(s, 0, mine, len) : wire_put(&s->links[0], WIRE_TELL, mine, len, NULL, 0);
  wake(s);
  while (taken && !s->has_all && !s->lost) pthread_cond_wait(&s->answered, &s->lock);
  capl_status status = !taken ? CAPL_FAIL(CAPL_ENOMEM, "no memory for a message")
                       : s->has_all ? all_read(s, all) : lost_error(s);
  unlock(s);
  watch_tell_end(s->watch);
  return status;
}

/* ---- what comes in ---------------------------------------------------------------------------- */

static bool status_take(star *s, int rank, const wire_frame *f)
{
  watch_status *to = &s->views[rank].status;
  if (f->len != sizeof *to) return false;
  memcpy(to, f->data, sizeof *to);
  to->name[WATCH_NAME - 1] = to->hold[WATCH_REASON - 1] = to->error[WATCH_ERROR - 1] = '\0';
  s->views[rank].known = true;
  return true;
}

static bool verdict_take(star *s, const wire_frame *f)
{
  if (f->len != sizeof s->verdict) return false;
  memcpy(&s->verdict, f->data, sizeof s->verdict);
  s->verdict.text[sizeof s->verdict.text - 1] = s->verdict.hint[sizeof s->verdict.hint - 1] = '\0';
  s->verdict.finding = WATCH_LOST;
  return true;
}

/* false: no rank of capl sends this. */
static bool frame_take(star *s, int rank, const wire_frame *f)
{
  bool host = s->rank == 0;
  switch (f->kind) {
    case WIRE_STATUS: return status_take(s, rank, f);
    case WIRE_TELL: return host && told_add(s, rank, f->data, f->len);
    case WIRE_ALL: return !host && (all_deliver(s, f->data, f->len), true);
    case WIRE_BYE: return !host && (s->bye = true, pthread_cond_broadcast(&s->answered), true);
    case WIRE_VERDICT: return verdict_take(s, f);
    default: return false;
  }
}

static void link_lost(star *s, int link, double now)
{
  int rank = rank_of(s, link);
  close(s->links[link].fd);
  s->links[link].fd = -1;
  s->views[rank].gone = true;
  s->gone[rank] = now;
}

static void link_read(star *s, int link, double now)
{
  wire *w = &s->links[link];
  bool open = wire_receive(w);
  wire_frame f;
  int got;
  while ((got = wire_next(w, &f)) == 1) {
    s->heard[rank_of(s, link)] = now;
    bool fine = frame_take(s, rank_of(s, link), &f);
    wire_took(w, &f);
    if (!fine) got = -1;
    if (got < 0) break;
  }
  if (got < 0 || !open) link_lost(s, link, now);
}

/* ---- heartbeats and the end ------------------------------------------------------------------- */

/* Every link is told what this rank does; the view of itself as well. */
static void beat(star *s, double now)
{
  watch_status mine;
  watch_status_now(s->watch, &mine);
  s->views[s->rank].status = mine;
  s->views[s->rank].known = true;
  s->heard[s->rank] = now;
  s->last_beat = now;
  for (int i = 0; i < s->n_links; i++) wire_put(&s->links[i], WIRE_STATUS, &mine, sizeof mine, NULL, 0);
}

/* Rank 0, when all have done their work. */
static void bye(star *s)
{
  if (s->rank != 0 || s->bye) return;
  for (int r = 0; r < s->size; r++)
    if (!s->views[r].known || s->views[r].status.left_s < 0) return;
  for (int r = 1; r < s->size; r++) wire_put(&s->links[r], WIRE_BYE, NULL, 0, NULL, 0);
  s->bye = true;
  pthread_cond_broadcast(&s->answered);
}

/* A process that was stopped itself (Ctrl-Z, a lid that closed) has heard nobody meanwhile: that is nobody's fault. */
static void forgive(star *s, double now)
{
  double pause = now - s->last_round;
  bool stopped = s->last_round > 0 && pause > 2 * watch_every(s->watch) + 0.5;
  for (int r = 0; stopped && r < s->size; r++) s->heard[r] = now;
  if (stopped) watch_forgive(s->watch, pause);
  s->last_round = now;
}

static watch_finding judge(star *s, double now)
{
  if (s->bye)
    return s->bye_at = s->bye_at > 0 ? s->bye_at : now, watch_judge_end(s->watch, now - s->bye_at, &s->verdict);
  if (s->verdict.finding == WATCH_LOST) return WATCH_LOST; /* another has judged: rank 0, or one that thought it lost */
  watch_status_now(s->watch, &s->views[s->rank].status);
  for (int r = 0; r < s->size; r++) {
    s->views[r].heard_s = now - s->heard[r];
    s->views[r].gone_s = now - s->gone[r];
  }
  watch_judge(s->watch, s->rank, s->views, s->members, &s->verdict);
  return s->verdict.finding;
}

static void links_send(star *s, double now)
{
  for (int i = 0; i < s->n_links; i++)
    if (s->links[i].fd >= 0 && s->links[i].out.len && !wire_send(&s->links[i])) link_lost(s, i, now);
}

/* What is to be sent still goes out, as far as the others take it. */
static void links_flush(star *s)
{
  double until = clock_now() + FLUSH_S;
  for (;;) {
    bool more = false;
    double now = clock_now();
    links_send(s, now);
    for (int i = 0; i < s->n_links; i++) more = more || (s->links[i].fd >= 0 && s->links[i].out.len);
    if (!more || now > until) return;
    poll(NULL, 0, 5);
  }
}

/* The job is over: says it, tells the others, ends this process if the program wants that. */
static void end_here(star *s)
{
  watch_verdict v = s->verdict;
  if (watch_speaks(s->rank, s->size, &v, s->views, s->members)) watch_say(&v);
  v.said = true;
  lock(s);
  for (int i = 0; i < s->n_links; i++) wire_put(&s->links[i], WIRE_VERDICT, &v, sizeof v, NULL, 0);
  links_flush(s);
  bool failed = s->views[s->rank].status.status != 0; /* it is about to say so, and to end, itself */
  unlock(s);
  /* mpirun finds out by itself that a host is gone, but never once it has something to send there: no rank of it may
  ** end before that (LINGER_S is less than the seconds the job has for it). */
  if (v.away) poll(NULL, 0, (int)(LINGER_S * 1000));
  if (!failed) watch_end_process(&v);
  lock(s); /* only now, for who waits here would say it again */
  s->lost = true;
  pthread_cond_broadcast(&s->answered);
  unlock(s);
}

/* ---- the thread ------------------------------------------------------------------------------- */

static void wait_round(star *s)
{
  for (int i = 0; i < s->n_links; i++) {
    const wire *w = &s->links[i];
    s->polls[i] = (struct pollfd){.fd = w->fd, .events = (short)(POLLIN | (w->out.len ? POLLOUT : 0))};
  }
  s->polls[s->n_links] = (struct pollfd){.fd = s->wake, .events = POLLIN};
  bool soon = false; /* somebody is gone or has failed: the verdict follows in a moment */
  for (int r = 0; r < s->size; r++) soon = soon || s->views[r].gone || s->views[r].status.status;
  double every = soon && !s->bye ? 0.05 : watch_every(s->watch);
  unlock(s);
  poll(s->polls, (nfds_t)s->n_links + 1, (int)(every * 1000) + 1);
  lock(s);
}

static watch_finding round_done(star *s)
{
  double now = clock_now();
  forgive(s, now);
  uint64_t count;
  if (s->polls[s->n_links].revents && read(s->wake, &count, sizeof count) < 0) count = 0;
  for (int i = 0; i < s->n_links; i++)
    if (s->polls[i].revents && s->links[i].fd >= 0) link_read(s, i, now);
  if (now - s->last_beat >= watch_every(s->watch) || s->left_at < 0) beat(s, now);
  if (s->left_at < 0) s->left_at = now;
  bye(s);
  links_send(s, now);
  return judge(s, now);
}

static void *run(void *arg)
{
  star *s = arg;
  lock(s);
  beat(s, clock_now());
  links_send(s, clock_now());
  while (!s->ending) {
    wait_round(s);
    watch_finding finding = round_done(s);
    if (finding == WATCH_NOTE) {
      watch_verdict note = s->verdict;
      s->verdict.finding = WATCH_WELL;
      unlock(s);
      capl_log("%s", note.text);
      lock(s);
    }
    if (finding == WATCH_LOST && !s->lost) {
      unlock(s);
      end_here(s);
      lock(s);
    }
  }
  links_flush(s);
  unlock(s);
  return NULL;
}

/* ---- begin and end ---------------------------------------------------------------------------- */

static bool star_room(star *s)
{
  size_t n = (size_t)s->size;
  s->views = calloc(n, sizeof *s->views);
  s->heard = calloc(n, sizeof *s->heard);
  s->gone = calloc(n, sizeof *s->gone);
  s->told = calloc(n, sizeof *s->told);
  s->polls = calloc(n + 1, sizeof *s->polls);
  return s->views && s->heard && s->gone && s->told && s->polls;
}

static void star_free(star *s)
{
  for (int i = 0; i < s->n_links; i++) wire_close(&s->links[i]);
  for (int r = 0; s->told && r < s->size; r++) free(s->told[r].data);
  if (s->wake >= 0) close(s->wake);
  free(s->views);
  free(s->heard);
  free(s->gone);
  free(s->told);
  free(s->polls);
  free(s->links);
  free(s->members);
  free(s->all);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->answered);
  free(s);
}

capl_status star_start(const star_options *o, wire *links, watch_member *members, star **out)
{
  star *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a star");
  *s = (star){.rank = o->rank, .size = o->size, .n_links = o->rank ? 1 : o->size, .watch = o->watch, .members = members,
              .links = links, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->answered, NULL);
  size_t most = o->rank ? ((size_t)STAR_MESSAGE + sizeof(uint64_t)) * (size_t)o->size : STAR_MESSAGE;
  for (int i = 0; i < s->n_links; i++) s->links[i].most = most;
  capl_status status = s->wake < 0 || !star_room(s) ? CAPL_FAIL(CAPL_ENOMEM, "no memory for a star") : CAPL_OK;
  for (int r = 0; status == CAPL_OK && r < s->size; r++) {
    s->heard[r] = clock_now();
    s->views[r].status.left_s = -1;
  }
  if (status == CAPL_OK) status = capl_thread_start(&s->thread, "capl-star", run, s);
  if (status != CAPL_OK) return star_free(s), status;
  *out = s;
  return CAPL_OK;
}

const watch_member *star_member(const star *s, int rank)
{
  return rank >= 0 && rank < s->size ? &s->members[rank] : NULL;
}

/* Waits under the lock until done(s) or so many seconds are over. */
static void wait_for(star *s, bool (*done)(const star *), double seconds)
{
  struct timespec until = clock_after(CLOCK_REALTIME, seconds);
  while (!done(s) && pthread_cond_timedwait(&s->answered, &s->lock, &until) != ETIMEDOUT) {}
}

static bool is_over(const star *s) { return s->bye || s->lost; }
static bool is_lost(const star *s) { return s->lost; }
static bool is_sent(const star *s) { return s->left_at > 0 || s->lost; }

/* Whether the socket of a rank has closed that did not say it would leave. */
static bool is_dying(const star *s)
{
  bool dying = false;
  for (int r = 0; r < s->size; r++) dying = dying || (s->views[r].gone && s->views[r].status.left_s < 0);
  return dying;
}

void star_leave(star *s, int status, const char *message)
{
  watch_left(s->watch, status, message);
  lock(s);
  if (s->left_at == 0) s->left_at = -1; /* the thread tells it at once */
  wake(s);
  if (status == 0)
    while (!is_over(s)) pthread_cond_wait(&s->answered, &s->lock);
  else
    wait_for(s, is_sent, FLUSH_S);
  /* A launcher that noticed a dead rank stops all others: the reason is told first, and by the thread. */
  if (status != 0 && is_dying(s)) wait_for(s, is_lost, GRACE_S);
  unlock(s);
}

bool star_fail(star *s, int status, const char *message)
{
  star_leave(s, status, message);
  if (s->rank == 0) return true;
  bool same = false;
  double until = clock_now() + GRACE_S;
  while (!same && clock_now() < until) {
    lock(s);
    same = s->views[0].status.left_s >= 0 && s->views[0].status.status
        && watch_same_error(s->watch, &s->views[0].status);
    bool lost = s->lost || s->views[0].gone;
    unlock(s);
    if (lost || same) break;
    poll(NULL, 0, 10);
  }
  return !same;
}

void star_close(star *s)
{
  if (!s) return;
  lock(s);
  s->ending = true;
  wake(s);
  unlock(s);
  pthread_join(s->thread, NULL);
  star_free(s);
}
