/* control.c -- the thread that owns the sockets of a rank, and its requests from the main thread.
**
** Rank 0's thread gathers the messages of all ranks and sends the list back; its own main thread takes part. State of
** both threads is under one lock, which is held for copies only.
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

/* A rank that fails waits a moment for errors of the others: they often share one, and the rank that caused it has the
** better message. */
static const double GRACE_S = 0.5, FLUSH_S = 0.3, LINGER_S = 4;

typedef struct {
  char *data;
  size_t len;
  bool there;
} message;

struct control {
  int rank, size, n_links; /* rank 0: size, of which the first is not used; else 1 */
  watchdog *watchdog;
  rank_identity *members;
  wire *links;
  rank_view *views; /* what is known of each rank */
  double *last_heard, *gone; /* when */
  struct pollfd *polls;
  int wake; /* eventfd */
  pthread_t thread;

  pthread_mutex_t lock;
  pthread_cond_t answered;
  message *gathered;  /* rank 0: one per rank */
  int n_gathered;
  char *all;      /* the answer: lengths, then texts */
  size_t all_len;
  bool has_all, ending, all_done, lost;
  double all_done_at;
  double left_at, last_beat, last_round;
  watchdog_diagnosis diagnosis;
};

static void lock(control *s) { pthread_mutex_lock(&s->lock); }
static void unlock(control *s) { pthread_mutex_unlock(&s->lock); }
static void wake(control *s)
{
  uint64_t one = 1;
  while (write(s->wake, &one, sizeof one) < 0 && errno == EINTR) {}
}

/* Which rank is at the other end of a link. */
static int rank_of(const control *s, int link) { return s->rank == 0 ? link : 0; }

/* ---- messages --------------------------------------------------------------------------------- */

/* all: what frames to the others carry: size lengths, then the texts. Gives them to this rank's program as well. */
static void gathered_deliver(control *s, const char *data, size_t len)
{
  free(s->all);
  s->all = malloc(len ? len : 1);
  if (s->all) memcpy(s->all, data, len);
  s->all_len = len;
  s->has_all = true;
  pthread_cond_broadcast(&s->answered);
}

/* Rank 0, when all messages are there. */
static void gathered_send(control *s)
{
  size_t head = sizeof(uint64_t) * (size_t)s->size, len = head;
  for (int r = 0; r < s->size; r++) len += s->gathered[r].len;
  char *data = malloc(len);
  size_t at = head;
  for (int r = 0; data && r < s->size; r++) {
    uint64_t n = s->gathered[r].len;
    memcpy(data + sizeof n * (size_t)r, &n, sizeof n);
    if (n) memcpy(data + at, s->gathered[r].data, n);
    at += n;
  }
  for (int r = 0; r < s->size; r++) {
    if (r && data) wire_put(&s->links[r], WIRE_GATHERED, data, len, NULL, 0);
    free(s->gathered[r].data);
    s->gathered[r] = (message){0};
  }
  s->n_gathered = 0;
  if (data) gathered_deliver(s, data, len);
  free(data);
}

/* false: a second message before the others have sent their first, or no memory. */
static bool gather_add(control *s, int rank, const void *data, size_t len)
{
  message *m = &s->gathered[rank];
  if (m->there || len > CONTROL_MESSAGE) return false;
  *m = (message){.data = malloc(len ? len : 1), .len = len, .there = true};
  if (!m->data) return *m = (message){0}, false;
  if (len) memcpy(m->data, data, len);
  if (++s->n_gathered == s->size) gathered_send(s);
  return true;
}

/* The answer, taken apart for the program. */
static capl_status gathered_read(control *s, capl_messages *out)
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

static capl_status lost_error(const control *s)
{
  CAPL_FAIL(CAPL_EIO, "%s", s->diagnosis.text);
  capl_error_hint("%s", s->diagnosis.hint);
  return CAPL_EIO;
}

capl_status control_all_gather(control *s, const void *mine, size_t len, capl_messages *all)
{
  if (len > CONTROL_MESSAGE)
    return CAPL_FAIL(CAPL_EVALUE, "a message between ranks has at most %d MiB, not %.1f: tensors go by collectives",
                     CONTROL_MESSAGE >> 20, (double)len / (1 << 20));
  watchdog_gather_begin(s->watchdog);
  lock(s);
  bool taken = s->rank == 0 ? gather_add(s, 0, mine, len) : wire_put(&s->links[0], WIRE_GATHER, mine, len, NULL, 0);
  wake(s);
  while (taken && !s->has_all && !s->lost) pthread_cond_wait(&s->answered, &s->lock);
  capl_status status = !taken ? CAPL_FAIL(CAPL_ENOMEM, "no memory for a message")
                       : s->has_all ? gathered_read(s, all) : lost_error(s);
  unlock(s);
  watchdog_gather_end(s->watchdog);
  return status;
}

/* ---- what comes in ---------------------------------------------------------------------------- */

static bool status_take(control *s, int rank, const wire_frame *f)
{
  watchdog_status *to = &s->views[rank].status;
  if (f->len != sizeof *to) return false;
  memcpy(to, f->data, sizeof *to);
  to->name[WATCHDOG_NAME - 1] = to->hold[WATCHDOG_REASON - 1] = to->error[WATCHDOG_ERROR - 1] = '\0';
  s->views[rank].known = true;
  return true;
}

static bool diagnosis_take(control *s, const wire_frame *f)
{
  if (f->len != sizeof s->diagnosis) return false;
  memcpy(&s->diagnosis, f->data, sizeof s->diagnosis);
  s->diagnosis.text[sizeof s->diagnosis.text - 1] = s->diagnosis.hint[sizeof s->diagnosis.hint - 1] = '\0';
  s->diagnosis.finding = WATCHDOG_LOST;
  return true;
}

/* false: not a frame of capl. */
static bool frame_take(control *s, int rank, const wire_frame *f)
{
  bool host = s->rank == 0;
  switch (f->kind) {
    case WIRE_STATUS: return status_take(s, rank, f);
    case WIRE_GATHER: return host && gather_add(s, rank, f->data, f->len);
    case WIRE_GATHERED: return !host && (gathered_deliver(s, f->data, f->len), true);
    case WIRE_ALL_DONE: return !host && (s->all_done = true, pthread_cond_broadcast(&s->answered), true);
    case WIRE_DIAGNOSIS: return diagnosis_take(s, f);
    default: return false;
  }
}

static void link_lost(control *s, int link, double now)
{
  int rank = rank_of(s, link);
  close(s->links[link].fd);
  s->links[link].fd = -1;
  s->views[rank].gone = true;
  s->gone[rank] = now;
}

static void link_read(control *s, int link, double now)
{
  wire *w = &s->links[link];
  bool open = wire_receive(w);
  wire_frame f;
  int got;
  while ((got = wire_next(w, &f)) == 1) {
    s->last_heard[rank_of(s, link)] = now;
    bool fine = frame_take(s, rank_of(s, link), &f);
    wire_took(w, &f);
    if (!fine) got = -1;
    if (got < 0) break;
  }
  if (got < 0 || !open) link_lost(s, link, now);
}

/* ---- heartbeats and the end ------------------------------------------------------------------- */

/* Sends this rank's status over every link, and stores it as its own view. */
static void heartbeat(control *s, double now)
{
  watchdog_status mine;
  watchdog_status_now(s->watchdog, &mine);
  s->views[s->rank].status = mine;
  s->views[s->rank].known = true;
  s->last_heard[s->rank] = now;
  s->last_beat = now;
  for (int i = 0; i < s->n_links; i++) wire_put(&s->links[i], WIRE_STATUS, &mine, sizeof mine, NULL, 0);
}

/* Rank 0, when all have done their work. */
static void all_done(control *s)
{
  if (s->rank != 0 || s->all_done) return;
  for (int r = 0; r < s->size; r++)
    if (!s->views[r].known || s->views[r].status.left_s < 0) return;
  for (int r = 1; r < s->size; r++) wire_put(&s->links[r], WIRE_ALL_DONE, NULL, 0, NULL, 0);
  s->all_done = true;
  pthread_cond_broadcast(&s->answered);
}

/* A suspended process (Ctrl-Z, a closed lid) receives no heartbeats meanwhile: no rank counts as silent for that. */
static void exclude_pause(control *s, double now)
{
  double pause = now - s->last_round;
  bool stopped = s->last_round > 0 && pause > 2 * watchdog_interval(s->watchdog) + 0.5;
  for (int r = 0; stopped && r < s->size; r++) s->last_heard[r] = now;
  if (stopped) watchdog_exclude_pause(s->watchdog, pause);
  s->last_round = now;
}

static watchdog_finding diagnose(control *s, double now)
{
  if (s->all_done)
    return s->all_done_at = s->all_done_at > 0 ? s->all_done_at : now,
        watchdog_diagnose_end(s->watchdog, now - s->all_done_at, &s->diagnosis);
  /* diagnosed by rank 0, or by a rank that lost contact with it */
  if (s->diagnosis.finding == WATCHDOG_LOST) return WATCHDOG_LOST;
  watchdog_status_now(s->watchdog, &s->views[s->rank].status);
  for (int r = 0; r < s->size; r++) {
    s->views[r].heard_s = now - s->last_heard[r];
    s->views[r].gone_s = now - s->gone[r];
  }
  watchdog_diagnose(s->watchdog, s->rank, s->views, s->members, &s->diagnosis);
  return s->diagnosis.finding;
}

static void links_send(control *s, double now)
{
  for (int i = 0; i < s->n_links; i++)
    if (s->links[i].fd >= 0 && s->links[i].out.len && !wire_send(&s->links[i])) link_lost(s, i, now);
}

/* Sends what is queued, as far as the others accept it. */
static void links_flush(control *s)
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

/* The job is over: reports it, sends it to the others, ends this process if the program has set a function for it. */
static void end_here(control *s)
{
  watchdog_diagnosis v = s->diagnosis;
  if (watchdog_reports_here(s->rank, s->size, &v, s->views, s->members)) watchdog_report(&v);
  v.reported = true;
  lock(s);
  for (int i = 0; i < s->n_links; i++) wire_put(&s->links[i], WIRE_DIAGNOSIS, &v, sizeof v, NULL, 0);
  links_flush(s);
  bool failed = s->views[s->rank].status.status != 0; /* it reports its own error and ends */
  unlock(s);
  /* mpirun detects a lost host by itself, but not once it has output to send there: no rank may end before that
  ** (LINGER_S is less than the job's time limit for it). */
  if (v.away) poll(NULL, 0, (int)(LINGER_S * 1000));
  if (!failed) watchdog_end_process(&v);
  lock(s); /* only now: a waiting call would report it again */
  s->lost = true;
  pthread_cond_broadcast(&s->answered);
  unlock(s);
}

/* ---- the thread ------------------------------------------------------------------------------- */

static void wait_round(control *s)
{
  for (int i = 0; i < s->n_links; i++) {
    const wire *w = &s->links[i];
    s->polls[i] = (struct pollfd){.fd = w->fd, .events = (short)(POLLIN | (w->out.len ? POLLOUT : 0))};
  }
  s->polls[s->n_links] = (struct pollfd){.fd = s->wake, .events = POLLIN};
  bool soon = false; /* a rank is gone or has failed: the diagnosis follows soon */
  for (int r = 0; r < s->size; r++) soon = soon || s->views[r].gone || s->views[r].status.status;
  double every = soon && !s->all_done ? 0.05 : watchdog_interval(s->watchdog);
  unlock(s);
  poll(s->polls, (nfds_t)s->n_links + 1, (int)(every * 1000) + 1);
  lock(s);
}

static watchdog_finding round_done(control *s)
{
  double now = clock_now();
  exclude_pause(s, now);
  uint64_t count;
  if (s->polls[s->n_links].revents && read(s->wake, &count, sizeof count) < 0) count = 0;
  for (int i = 0; i < s->n_links; i++)
    if (s->polls[i].revents && s->links[i].fd >= 0) link_read(s, i, now);
  if (now - s->last_beat >= watchdog_interval(s->watchdog) || s->left_at < 0) heartbeat(s, now);
  if (s->left_at < 0) s->left_at = now;
  all_done(s);
  links_send(s, now);
  return diagnose(s, now);
}

static void *run(void *arg)
{
  control *s = arg;
  lock(s);
  heartbeat(s, clock_now());
  links_send(s, clock_now());
  while (!s->ending) {
    wait_round(s);
    watchdog_finding finding = round_done(s);
    if (finding == WATCHDOG_NOTE) {
      watchdog_diagnosis note = s->diagnosis;
      s->diagnosis.finding = WATCHDOG_OK;
      unlock(s);
      capl_log("%s", note.text);
      lock(s);
    }
    if (finding == WATCHDOG_LOST && !s->lost) {
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

static bool control_allocate(control *s)
{
  size_t n = (size_t)s->size;
  s->views = calloc(n, sizeof *s->views);
  s->last_heard = calloc(n, sizeof *s->last_heard);
  s->gone = calloc(n, sizeof *s->gone);
  s->gathered = calloc(n, sizeof *s->gathered);
  s->polls = calloc(n + 1, sizeof *s->polls);
  return s->views && s->last_heard && s->gone && s->gathered && s->polls;
}

static void control_free(control *s)
{
  for (int i = 0; i < s->n_links; i++) wire_close(&s->links[i]);
  for (int r = 0; s->gathered && r < s->size; r++) free(s->gathered[r].data);
  if (s->wake >= 0) close(s->wake);
  free(s->views);
  free(s->last_heard);
  free(s->gone);
  free(s->gathered);
  free(s->polls);
  free(s->links);
  free(s->members);
  free(s->all);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->answered);
  free(s);
}

/* With a clock that nobody sets back while it is waited for. */
static void start_waiting_on(pthread_cond_t *cond)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(cond, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

capl_status control_start(const control_options *o, wire *links, rank_identity *members, control **out)
{
  control *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a control channel");
  *s = (control){.rank = o->rank, .size = o->size, .n_links = o->rank ? 1 : o->size, .watchdog = o->watchdog,
                 .members = members,
              .links = links, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  pthread_mutex_init(&s->lock, NULL);
  start_waiting_on(&s->answered);
  size_t most = o->rank ? ((size_t)CONTROL_MESSAGE + sizeof(uint64_t)) * (size_t)o->size : CONTROL_MESSAGE;
  for (int i = 0; i < s->n_links; i++) s->links[i].most = most;
  capl_status status = s->wake < 0 || !control_allocate(s) ? CAPL_FAIL(CAPL_ENOMEM, "no memory for a control channel")
      : CAPL_OK;
  for (int r = 0; status == CAPL_OK && r < s->size; r++) {
    s->last_heard[r] = clock_now();
    s->views[r].status.left_s = -1;
  }
  if (status == CAPL_OK) status = capl_thread_start(&s->thread, "capl-control", run, s);
  if (status != CAPL_OK) return control_free(s), status;
  *out = s;
  return CAPL_OK;
}

const rank_identity *control_member(const control *s, int rank)
{
  return rank >= 0 && rank < s->size ? &s->members[rank] : NULL;
}

/* Waits under the lock until done(s) or so many seconds are over. */
static void wait_for(control *s, bool (*done)(const control *), double seconds)
{
  struct timespec until = clock_after(CLOCK_MONOTONIC, seconds);
  while (!done(s) && pthread_cond_timedwait(&s->answered, &s->lock, &until) != ETIMEDOUT) {}
}

static bool is_over(const control *s) { return s->all_done || s->lost; }
static bool is_lost(const control *s) { return s->lost; }
static bool is_sent(const control *s) { return s->left_at > 0 || s->lost; }

/* Whether the socket of a rank has closed that did not say it would leave. */
static bool is_dying(const control *s)
{
  bool dying = false;
  for (int r = 0; r < s->size; r++) dying = dying || (s->views[r].gone && s->views[r].status.left_s < 0);
  return dying;
}

void control_leave(control *s, int status, const char *message)
{
  watchdog_left(s->watchdog, status, message);
  lock(s);
  if (s->left_at == 0) s->left_at = -1; /* the thread sends it at once */
  wake(s);
  if (status == 0)
    while (!is_over(s)) pthread_cond_wait(&s->answered, &s->lock);
  else
    wait_for(s, is_sent, FLUSH_S);
  /* A launcher stops all ranks when one is dead: the thread reports the reason first. */
  if (status != 0 && is_dying(s)) wait_for(s, is_lost, GRACE_S);
  unlock(s);
}

bool control_fail(control *s, int status, const char *message)
{
  control_leave(s, status, message);
  if (s->rank == 0) return true;
  bool same = false;
  double until = clock_now() + GRACE_S;
  while (!same && clock_now() < until) {
    lock(s);
    same = s->views[0].status.left_s >= 0 && s->views[0].status.status
        && watchdog_same_error(s->watchdog, &s->views[0].status);
    bool lost = s->lost || s->views[0].gone;
    unlock(s);
    if (lost || same) break;
    poll(NULL, 0, 10);
  }
  return !same;
}

void control_close(control *s)
{
  if (!s) return;
  lock(s);
  s->ending = true;
  wake(s);
  unlock(s);
  pthread_join(s->thread, NULL);
  control_free(s);
}
