/* sampler.c -- the thread that takes readings, and the windows that sum them up.
**
** A driver may take milliseconds to answer, or hang. So with a thread nobody else calls it, and the lock is held only
** while some thirty numbers are added or copied: who reads never waits for a driver, and who wants a reading now waits
** a little. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "monitor/monitor.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"

enum { EVENTS = 4, EVENT_TEXT = 200, PATIENCE_S = 1 };
static const double WAIT_S = 0.3; /* for a reading that was asked for */
static const double HOT_C = 85, COOL_BELOW = 5; /* one warning per rise: it has to fall by so much before the next */
static const double FULL = 0.95, FREE_BELOW = 0.9; /* likewise: shares of the memory that the process may use */
static const double INSTANT_S = 1e-6;              /* weight of a reading that has no other before it */

typedef struct {
  bool used;
  int samples;
  double seconds, weight[MONITOR_COUNT], mean[MONITOR_COUNT], least[MONITOR_COUNT], most[MONITOR_COUNT];
  double energy_first, energy_last, energy_sum; /* counted at both ends; power times time */
  uint64_t throttle;
} window;

struct monitor {
  double every, hot_c;
  monitor_gpu *gpu;
  monitor_process *process;
  char gpu_name[112];
  pthread_mutex_t lock;
  pthread_cond_t wake, arrived;
  pthread_t thread;
  bool running, ending, asked, over; /* a thread was started; is to end; is to take a reading now; has ended */
  uint64_t begun, taken;        /* readings of the thread */
  monitor_reading last;
  double last_s;              /* of the reading before, NaN before the first */
  double energy_j;            /* likewise */
  double cost_s;              /* processor seconds of the thread */
  bool hot, full, lost;
  uint64_t reported;              /* throttle reasons that have been reported */
  window windows[MONITOR_WINDOWS];
  char events[EVENTS][EVENT_TEXT]; /* a ring; the oldest are dropped */
  int first_event, n_events;
};

const char *monitor_name(monitor_metric figure)
{
  static const char *const names[] = {
#define X(name, text) #name,
    MONITOR_MAP(X)
#undef X
  };
  return names[figure];
}

/* ---- windows ---------------------------------------------------------------------------------- */

static void window_clear(window *w, double energy_j)
{
  *w = (window){.used = true, .energy_first = energy_j, .energy_last = energy_j};
}

static void window_add(window *w, const monitor_reading *r, double seconds)
{
  w->samples++;
  w->seconds += seconds;
  w->throttle |= r->throttle;
  for (int f = 0; f < MONITOR_COUNT; f++) {
    double v = r->value[f], weight = fmax(seconds, INSTANT_S);
    if (isnan(v)) continue;
    if (w->weight[f] == 0) w->least[f] = w->most[f] = v;
    w->least[f] = fmin(w->least[f], v);
    w->most[f] = fmax(w->most[f], v);
    w->weight[f] += weight;
    w->mean[f] += (v - w->mean[f]) * (weight / w->weight[f]); /* so the mean of equal values is their value, to the
                                                              ** bit */
  }
  if (!isnan(r->value[MONITOR_power_w])) w->energy_sum += seconds * r->value[MONITOR_power_w];
  if (isnan(w->energy_first)) w->energy_first = r->energy_j;
  if (!isnan(r->energy_j)) w->energy_last = r->energy_j;
}

static void window_metrics(const window *w, monitor_figures *out)
{
  *out = (monitor_figures){.samples = w->samples, .seconds = w->seconds, .throttle = w->throttle, .energy_j = NAN};
  for (int f = 0; f < MONITOR_COUNT; f++) {
    bool known = w->weight[f] > 0;
    out->mean[f] = known ? w->mean[f] : NAN;
    out->least[f] = known ? w->least[f] : NAN;
    out->most[f] = known ? w->most[f] : NAN;
  }
  double counted = w->energy_last - w->energy_first; /* counters of a GPU that was reset begin anew */
  out->energy_counted = counted >= 0;
  if (counted >= 0) out->energy_j = counted;
  else if (w->weight[MONITOR_power_w] > 0) out->energy_j = w->energy_sum;
}

int monitor_window(monitor *m)
{
  int found = -1;
  pthread_mutex_lock(&m->lock);
  for (int i = 0; i < MONITOR_WINDOWS && found < 0; i++)
    if (!m->windows[i].used) found = i;
  if (found >= 0) window_clear(&m->windows[found], m->energy_j);
  pthread_mutex_unlock(&m->lock);
  return found;
}

void monitor_take(monitor *m, int which, bool reset, monitor_figures *out)
{
  window *w = &m->windows[which];
  pthread_mutex_lock(&m->lock);
  window_metrics(w, out);
  if (reset) window_clear(w, m->energy_j);
  pthread_mutex_unlock(&m->lock);
}

/* ---- events to report ------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void add_event(monitor *m, const char *fmt, ...)
{
  int at = (m->first_event + m->n_events) % EVENTS;
  if (m->n_events < EVENTS) m->n_events++;
  else m->first_event = (m->first_event + 1) % EVENTS;
  va_list args;
  va_start(args, fmt);
  vsnprintf(m->events[at], EVENT_TEXT, fmt, args);
  va_end(args);
}

bool monitor_event(monitor *m, char *text, size_t len)
{
  pthread_mutex_lock(&m->lock);
  bool any = m->n_events > 0;
  if (any) {
    snprintf(text, len, "%s", m->events[m->first_event]);
    m->first_event = (m->first_event + 1) % EVENTS;
    m->n_events--;
  }
  pthread_mutex_unlock(&m->lock);
  return any;
}

static void check_heat(monitor *m, const monitor_reading *r)
{
  double t = r->value[MONITOR_temperature_c];
  if (t > m->hot_c && !m->hot) {
    m->hot = true;
    add_event(m, "the GPU is at %.0f C, above %.0f C: it will throttle or age; check its cooling", t, m->hot_c);
  } else if (t <= m->hot_c - COOL_BELOW) {
    m->hot = false;
  }
}

/* Each reason once: a GPU at its edge is held down and let go every second. A power limit that is reached is no
** trouble. */
static void check_clocks(monitor *m, const monitor_reading *r)
{
  char text[EVENT_TEXT / 2];
  uint64_t now = r->throttle & monitor_trouble() & ~m->reported;
  if (!now) return;
  m->reported |= now;
  monitor_throttle_text(now, text, sizeof text);
  add_event(m, "the GPU runs slower than it could: held down by %s", text);
}

static void check_memory(monitor *m, const monitor_reading *r)
{
  double share = r->value[MONITOR_ram_used] / r->value[MONITOR_ram_total];
  if (share > FULL && !m->full) {
    m->full = true;
    add_event(m, "memory is full to %.0f %% of %.1f GB: the system may end this run", 100 * share,
         r->value[MONITOR_ram_total] / 1e9);
  } else if (share <= FREE_BELOW) {
    m->full = false;
  }
}

static void check_reading(monitor *m, const monitor_reading *r)
{
  check_heat(m, r);
  check_clocks(m, r);
  check_memory(m, r);
  if (r->lost && !m->lost) add_event(m, "the driver has lost the GPU: its metrics end here");
  m->lost = r->lost;
}

/* ---- readings --------------------------------------------------------------------------------- */

static monitor_reading nothing(void)
{
  monitor_reading r = {.energy_j = NAN};
  for (int f = 0; f < MONITOR_COUNT; f++) r.value[f] = NAN;
  return r;
}

static void add(monitor *m, const monitor_reading *r, double at)
{
  double seconds = isnan(m->last_s) ? 0 : at - m->last_s;
  pthread_mutex_lock(&m->lock);
  for (int i = 0; i < MONITOR_WINDOWS; i++)
    if (m->windows[i].used) window_add(&m->windows[i], r, seconds);
  check_reading(m, r);
  if (!isnan(r->energy_j)) m->energy_j = r->energy_j;
  m->last_s = at;
  m->last = *r;
  m->taken++;
  pthread_cond_broadcast(&m->arrived);
  pthread_mutex_unlock(&m->lock);
}

static void take_reading(monitor *m)
{
  monitor_reading r = nothing();
  if (m->gpu) monitor_gpu_read(m->gpu, &r);
  if (m->process) monitor_process_read(m->process, &r);
  add(m, &r, clock_now());
}

/* Has the thread take one that begins after this call. */
static monitor_reading ask(monitor *m)
{
  struct timespec until = clock_after(CLOCK_MONOTONIC, WAIT_S);
  pthread_mutex_lock(&m->lock);
  uint64_t mine = m->begun + 1;
  m->asked = true;
  pthread_cond_signal(&m->wake);
  int late = 0;
  while (m->taken < mine && !late) late = pthread_cond_timedwait(&m->arrived, &m->lock, &until);
  monitor_reading r = m->taken < mine ? nothing() : m->last;
  pthread_mutex_unlock(&m->lock);
  return r;
}

void monitor_sample(monitor *m, monitor_reading *out)
{
  if (!m->running) take_reading(m);
  monitor_reading r = m->running ? ask(m) : m->last;
  if (out) *out = r;
}

/* ---- the thread ------------------------------------------------------------------------------- */

/* Waits until `due`, the end, or somebody who asks; whether to go on. */
static bool wait_until(monitor *m, double due)
{
  struct timespec until = clock_time(due);
  int late = 0;
  pthread_mutex_lock(&m->lock);
  while (!m->ending && !m->asked && !late) late = pthread_cond_timedwait(&m->wake, &m->lock, &until);
  bool on = !m->ending;
  m->asked = false;
  m->begun++;
  m->cost_s = clock_read(CLOCK_THREAD_CPUTIME_ID);
  pthread_mutex_unlock(&m->lock);
  return on;
}

/* Readings keep their rhythm; one that a slow driver or a sleeping machine has made late is not made up for. */
static void *run(void *arg)
{
  monitor *m = arg;
  double due = clock_now();
  while (wait_until(m, due)) {
    take_reading(m);
    double now = clock_now();
    if (due <= now) due = fmax(due + m->every, now);
  }
  pthread_mutex_lock(&m->lock);
  m->over = true;
  pthread_cond_broadcast(&m->arrived);
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

static void release(monitor *m)
{
  monitor_gpu_close(m->gpu);
  monitor_process_close(m->process);
  pthread_cond_destroy(&m->wake);
  pthread_cond_destroy(&m->arrived);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

static void init(monitor *m, const monitor_options *o)
{
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&m->wake, &attr);
  pthread_cond_init(&m->arrived, &attr);
  pthread_condattr_destroy(&attr);
  pthread_mutex_init(&m->lock, NULL);
  m->every = o->every;
  m->hot_c = o->hot_c > 0 ? o->hot_c : HOT_C;
  m->gpu = o->gpu;
  m->process = o->process;
  m->last_s = m->energy_j = NAN;
  m->last = nothing();
  if (m->gpu) snprintf(m->gpu_name, sizeof m->gpu_name, "%s", monitor_gpu_name(m->gpu));
}

capl_status monitor_open(const monitor_options *o, monitor **out)
{
  monitor *m = *out = calloc(1, sizeof *m);
  if (!m) {
    monitor_gpu_close(o->gpu);
    monitor_process_close(o->process);
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for a monitor");
  }
  init(m, o);
  if (o->every <= 0) return CAPL_OK;
  capl_status status = capl_thread_start(&m->thread, "capl-monitor", run, m);
  m->running = status == CAPL_OK;
  if (m->running) return CAPL_OK;
  release(m);
  *out = NULL;
  return status;
}

/* A driver whose GPU has died may keep a call for minutes; then the thread and what it uses stay until the process
** ends. */
static bool ended(monitor *m)
{
  if (!m->running) return true;
  struct timespec until = clock_after(CLOCK_MONOTONIC, PATIENCE_S);
  int late = 0;
  pthread_mutex_lock(&m->lock);
  m->ending = true;
  pthread_cond_signal(&m->wake);
  while (!m->over && !late) late = pthread_cond_timedwait(&m->arrived, &m->lock, &until);
  bool over = m->over;
  pthread_mutex_unlock(&m->lock);
  if (over) pthread_join(m->thread, NULL); /* not pthread_clockjoin_np, which ThreadSanitizer does not know */
  else pthread_detach(m->thread);
  return over;
}

void monitor_close(monitor *m)
{
  if (m && ended(m)) release(m);
}

double monitor_cost(const monitor *m)
{
  monitor *own = (monitor *)m;
  pthread_mutex_lock(&own->lock);
  double cost = m->cost_s;
  pthread_mutex_unlock(&own->lock);
  return cost;
}

const char *monitor_gpu_of(const monitor *m) { return m->gpu ? m->gpu_name : NULL; }
