/* supervise.c -- starts processes and watches them until the last has ended.
**
** One thread and one loop: it waits for signals (through a descriptor), for output, and for the next moment at which
** something is to be done. What ends a worker_group goes by steps: asked to save and end, ordered to end, killed.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "program/attach/socket.h"
#include "program/launch/output.h"
#include "program/launch/restart.h"

/* Seconds: from asking to telling, while it saves, from a failure until the others are reported (mpirun does that
** itself, and breaks when it is reported to end meanwhile: until it is killed), from telling to killing, and for
** output that comes after its writer's end. ENDS_TOO: that a rank may go on after another has ended as it was asked
** to, and is not saving. ORPHAN: that a process may go on after the end of the one that started it. */
static const double ENDS_TOO = 30, GRACE = 5, SAVE = 120, FAILED = 1.5, MPIRUN_ENDS = 4, ENDING_S = 2, DRAIN = 0.5,
    ORPHAN = 3;

typedef enum { CALM, ASKED, ENDING, KILLING } step;

typedef struct {
  pid_t pid;
  bool gone;
} member;

typedef struct {
  const worker_group *c;
  member *members;
  output *out; /* of all of them; NULL = they print themselves */
  double start;
  pid_t parent, starter; /* the launcher, whose end is looked for, 0 = none; who started this process */
  bool orphan;           /* it has died, and the signal was its death's */
  int signals; /* descriptor */
  sigset_t former;
  int alive, failure; /* status of the first that did not end well, 0 = none */
  bool broken;        /* one has failed by itself: the others cannot go on */
  bool over;          /* time is over */
  int asked, signal;  /* signals of the user so far, and the first of them */
  step step;
  double since;        /* when the end began */
  double next, notice; /* when the next step is due, when to say that it saves; 0 = never */
} watcher;

static double elapsed(const watcher *w) { return clock_now() - w->start; }

/* A line of this program's own, on a terminal that may show a progress bar. */
__attribute__((format(printf, 2, 3))) static void report(watcher *w, const char *fmt, ...)
{
  char text[512];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(text, sizeof text - 1, fmt, args);
  va_end(args);
  if (n > (int)sizeof text - 2) n = sizeof text - 2;
  text[n++] = '\n';
  output_tell(w->out, text, (size_t)n);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* In the new process: kills it some seconds after its supervisor has died. What it does there may be one long call,
** which hears of nothing. */
static void *outlive_briefly(void *user)
{
  pid_t supervisor = *(pid_t *)user;
  while (getppid() == supervisor) usleep(500000);
  usleep((useconds_t)(ORPHAN * 1e6));
  kill(getpid(), SIGKILL);
  return NULL;
}

/* A single worker is asked to end when its supervisor dies, and may still save; ranks have lost each other by then.
** mpirun takes its ranks with it. */
static void end_with(const worker_group *c, pid_t supervisor)
{
  static pid_t whom; /* read by the thread */
  pthread_t thread;
  bool asked = c->ranks < 2 || c->output == OUTPUT_MPIRUN;
  whom = supervisor;
  if (c->output != OUTPUT_MPIRUN && capl_thread_start(&thread, "capl-orphan", outlive_briefly, &whom) == CAPL_OK)
    pthread_detach(thread);
  else asked = c->output == OUTPUT_MPIRUN;
  prctl(PR_SET_PDEATHSIG, asked ? SIGTERM : SIGKILL);
  if (getppid() != supervisor) _exit(128 + SIGTERM); /* it died before prctl */
}

/* In the new process: its output, its signals, its end with this one. */
_Noreturn static void become(watcher *w, int index, pid_t supervisor)
{
  const worker_group *c = w->c;
  if (c->apart) setpgid(0, 0);
  end_with(c, supervisor);
  close(w->signals);
  output_enter(w->out, index);
  sigprocmask(SIG_SETMASK, &w->former, NULL);
  _exit(c->run(c->user, index));
}

static bool start(watcher *w)
{
  pid_t supervisor = getpid();
  for (int i = 0; i < w->c->count; i++) {
    if (!output_open(w->out, i)) return false;
    pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) become(w, i, supervisor);
    if (w->c->apart) setpgid(pid, pid); /* here as well: a signal may be passed on before the child has come that far */
    output_started(w->out, i);
    w->members[i].pid = pid;
    w->alive++;
  }
  return true;
}

static bool is_ignored(int signal)
{
  struct sigaction action;
  return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* false with errno: signals could not be waited for. That the end of children was ignored is inherited from some
** starters. */
static bool block_signals(watcher *w)
{
  sigset_t set;
  sigemptyset(&set);
  static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    bool ranks_only = all[i] == SIGUSR1 || all[i] == SIGUSR2;
    if (ranks_only && w->c->ranks < 2) continue;
    if (all[i] == SIGHUP && is_ignored(SIGHUP)) continue; /* nohup's wish is respected */
    sigaddset(&set, all[i]);
  }
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &set, &w->former);
  w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  return w->signals >= 0;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void signal_all(watcher *w, int signal)
{
  for (int i = 0; i < w->c->count; i++)
    if (w->members[i].pid > 0 && !w->members[i].gone) kill(w->members[i].pid, signal);
}

/* mpirun kills its ranks a second after SIGTERM; what it passes on instead is theirs to translate (worker.c). */
static void ask(watcher *w, int signal)
{
  if (w->c->output == OUTPUT_MPIRUN) signal = signal == SIGINT ? SIGUSR1 : SIGUSR2;
  signal_all(w, signal);
}

static bool is_saving(const watcher *w)
{
  if (w->out && output_saving(w->out)) return true;
  for (int i = 0; w->c->saving && i < w->c->count; i++)
    if (!w->members[i].gone && atomic_load(&w->c->saving[i])) return true;
  return false;
}

static void go_to(watcher *w, step to, double wait)
{
  if (w->step == CALM) w->since = elapsed(w);
  w->step = to;
  double pace = w->c->pace > 0 ? w->c->pace : 1;
  w->next = wait > 0 ? elapsed(w) + wait / pace : 0;
}

static void order_to_end(watcher *w)
{
  output_mute(w->out);
  signal_all(w, SIGTERM);
  go_to(w, ENDING, ENDING_S);
}

/* The next step against processes that are still there. A single one gets no second order before it is killed: the
** first SIGTERM was the order. */
static void take_step(watcher *w)
{
  double now = elapsed(w);
  if (w->step == ASKED && !w->broken && !w->orphan && is_saving(w) && now < w->since + SAVE) {
    w->next = now + 0.1;
  } else if (w->step < ENDING && w->c->ranks > 1 && !(w->broken && w->c->output == OUTPUT_MPIRUN)) {
    order_to_end(w);
  } else {
    if (w->asked && !w->over && w->c->ranks < 2 && !w->c->reported_elsewhere)
      report(w, "capl: the worker did not end by itself, and was killed");
    output_mute(w->out);
    signal_all(w, SIGKILL);
    go_to(w, KILLING, 0);
  }
}

static void time_is_over(watcher *w)
{
  w->over = true;
  if (!w->c->reported_elsewhere) report(w, "capl: stopped after %g minutes, the limit of this run", w->c->limit / 60);
  ask(w, SIGTERM);
  if (w->step < ASKED) go_to(w, ASKED, GRACE);
}

static void report_saving(watcher *w)
{
  if (is_saving(w)) report(w, "capl: ending after this step, and saving; Ctrl-C again leaves at once");
  w->notice = 0;
}

/* ---- what has happened ------------------------------------------------------------------------ */

/* Libraries that find no memory crash: oneDNN where it would put the code that it has generated. */
static bool memory_is_limited(void)
{
  struct rlimit space;
  return getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
}

static const char *reason_of(int n)
{
  if (n == SIGKILL) return "often the system ran out of memory";
  bool bug = n == SIGSEGV || n == SIGBUS || n == SIGFPE || n == SIGILL || n == SIGABRT;
  if (bug && n != SIGFPE && memory_is_limited())
    return "memory is limited here (ulimit -v), and libraries that find none crash; if it happens without the limit, "
           "please report it";
  return bug ? "this is a bug in capl, please report it with the recipe" : "it was asked to end";
}

/* Exit status of a process, after saying what nobody else can: that a signal ended it. */
static int status_of(watcher *w, int index, int status)
{
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  int n = WTERMSIG(status);
  bool ours = w->over || w->step >= ENDING, quiet = n == SIGPIPE || n == SIGTERM || n == SIGHUP;
  /* SIGPIPE, `capl ops | head`: nobody reads on, nothing to say */
  if (ours || quiet) return 128 + n;
  if (n == SIGINT && w->c->ranks == 1)
    report(w, "capl: interrupted"); /* before it could take the signal itself */
  else if (w->c->output == OUTPUT_MPIRUN)
    report(w, "capl: mpirun was ended by signal %d (%s)", n, strsignal(n));
  else if (w->c->ranks > 1)
    report(w, "capl: rank %d (process %d) was ended by signal %d (%s): %s", w->c->first + index,
         (int)w->members[index].pid, n, strsignal(n), reason_of(n));
  else
    report(w, "capl: the worker was ended by signal %d (%s): %s", n, strsignal(n), reason_of(n));
  return 128 + n;
}

/* Whether a process ended because it was asked to: the others may still be saving. */
static bool was_asked(int status)
{
  return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP;
}

/* A rank's own error is what the job ends with, also when others have given it up (EXIT_LOST) before they were seen. */
static void note_failure(watcher *w, int status)
{
  if (status == 0 || w->step >= ENDING) return;
  if (w->failure == 0 || w->failure == EXIT_LOST) w->failure = status;
  if (w->broken) return;
  if (was_asked(status)) {
    if (w->step == CALM && w->c->count > 1) go_to(w, ASKED, ENDS_TOO);
    return;
  }
  w->broken = true;
  go_to(w, ASKED, w->c->output == OUTPUT_MPIRUN ? MPIRUN_ENDS : FAILED);
}

static void reap(watcher *w)
{
  int status;
  for (int i = 0; i < w->c->count; i++) {
    member *m = &w->members[i];
    if (m->pid <= 0 || m->gone || waitpid(m->pid, &status, WNOHANG) != m->pid) continue;
    note_failure(w, status_of(w, i, status));
    m->gone = true;
    attach_remove(m->pid);
    w->alive--;
  }
}

/* The terminal sends Ctrl-C to processes of its group itself; only what was sent to us alone is passed on to those. */
static void on_signal(watcher *w, const struct signalfd_siginfo *info)
{
  int n = (int)info->ssi_signo;
  if (n == SIGCHLD) return;
  if (w->asked++ == 0) w->signal = n;
  if (w->asked > 1 && w->c->output == OUTPUT_MPIRUN) {
    if (w->step < ENDING && !w->broken) order_to_end(w);
  } else if (w->c->apart || info->ssi_code <= 0) {
    ask(w, n);
  }
  w->orphan = w->orphan || (n == SIGTERM && (pid_t)info->ssi_pid == w->starter && getppid() != w->starter);
  /* Who asks by these is often not there to ask again: a step may take a while, but not for ever. */
  if ((n == SIGTERM || n == SIGHUP) && w->c->output != OUTPUT_MPIRUN
      && (w->step < ASKED || (w->orphan && w->step == ASKED)))
    go_to(w, ASKED, w->orphan ? ORPHAN : ENDS_TOO);
  if (!w->c->reported_elsewhere && (n == SIGINT || n == SIGTERM)) w->notice = elapsed(w) + 1;
}

static void read_signals(watcher *w)
{
  struct signalfd_siginfo info;
  while (read(w->signals, &info, sizeof info) == sizeof info) on_signal(w, &info);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static double sooner(double a, double at, double now)
{
  double rest = at - now;
  return at > 0 && rest < a ? (rest > 0.001 ? rest : 0.001) : a;
}

/* Seconds that do not count against the limit. */
static double held(const watcher *w)
{
  if (!w->c->hold) return 0;
  long long since = atomic_load(&w->c->hold->since_ms), ms = atomic_load(&w->c->hold->before_ms);
  if (since > 0) ms += (long long)(1e3 * clock_now()) - since;
  return 1e-3 * (double)ms;
}

/* Does what is due -> seconds until something may be due again. */
static double keep_time(watcher *w)
{
  double now = elapsed(w), limit = w->c->limit > 0 ? w->c->limit + held(w) : 0, rest = 3600;
  if (limit > 0 && now >= limit && !w->over) time_is_over(w);
  if (w->notice > 0 && now >= w->notice) report_saving(w);
  if (w->next > 0 && now >= w->next) take_step(w);
  if (w->parent > 1 && getppid() != w->parent && w->step < KILLING) signal_all(w, SIGKILL), go_to(w, KILLING, 0);
  if (limit > 0 && !w->over) rest = sooner(rest, limit, now);
  rest = sooner(sooner(rest, w->notice, now), w->next, now);
  if (w->c->reported_elsewhere && w->asked && rest > 0.1) rest = 0.1; /* what it saves is reported by a frame */
  return w->parent > 1 && rest > 0.5 ? 0.5 : rest;
}

static void wait_for_something(watcher *w, double seconds)
{
  struct pollfd *p = output_polled(w->out);
  struct pollfd alone[2];
  int n = output_count(w->out);
  if (!p) p = alone;
  p[n] = (struct pollfd){.fd = w->signals, .events = POLLIN};
  p[n + 1] = (struct pollfd){.fd = w->c->request ? w->c->requests : -1, .events = POLLIN};
  if (poll(p, (nfds_t)n + 2, (int)(seconds * 1000) + 1) > 0) {
    if (p[n].revents) read_signals(w);
    if (p[n + 1].revents & POLLIN) w->c->request(w->c->requests);
    output_read(w->out);
  }
  output_folder(w->out);
  if (w->c->saving && w->c->reported_elsewhere) output_state(w->out, is_saving(w));
  if (w->out && output_status(w->out) > 0 && w->failure == 0) note_failure(w, output_status(w->out));
}

/* What was printed last may still be on its way; a process that somebody left behind with our pipe is not waited
** for. */
static void drain(watcher *w)
{
  for (double end = elapsed(w) + DRAIN; output_left(w->out) && elapsed(w) < end;) {
    struct pollfd *p = output_polled(w->out); /* counts them */
    poll(p, (nfds_t)output_count(w->out), 50);
    output_read(w->out);
  }
}

static void loop(watcher *w)
{
  reap(w);
  while (w->alive > 0) {
    wait_for_something(w, keep_time(w));
    reap(w);
  }
  drain(w);
}

/* Reports of ranks behind mpirun override mpirun's own status. */
static int job_status(const watcher *w, bool started)
{
  if (!started) return EXIT_ERROR;
  if (w->over) return EXIT_TIME;
  int reported = w->out ? output_status(w->out) : 0;
  if (w->asked && was_asked(reported)) return 128 + w->signal;
  if (reported > 0 && (w->step < ENDING || w->broken)) return reported;
  return w->failure == 0 && w->step >= ENDING && w->asked > 0 ? 128 + w->signal : w->failure;
}

int supervise(const worker_group *c)
{
  watcher w = {.c = c, .signals = -1, .start = clock_now()};
  w.members = calloc((size_t)c->count, sizeof *w.members);
  bool ready = w.members && (c->output == OUTPUT_OWN || (w.out = output_new(c)));
  /* the launcher, which may die */
  if (c->ranks > 1 && c->output != OUTPUT_MPIRUN && c->count == 1) w.parent = getppid();
  w.starter = getppid();
  bool started = ready && block_signals(&w) && start(&w);
  int why = ready ? errno : ENOMEM;
  if (c->started) c->started(c->user);
  if (!started) {
    report(&w, "capl: cannot start %s: %s", c->count > 1 ? "all processes" : "a process", capl_errno_text(why));
    signal_all(&w, SIGKILL);
    go_to(&w, KILLING, 0);
  }
  loop(&w);
  int status = job_status(&w, started);
  if (w.out && output_failed(w.out)) {
    report(&w, "%s", output_lost());
    status = status ? status : EXIT_ERROR;
  }
  if (c->lost) *c->lost = started && !w.asked && !w.over && restart_is_lost(status);
  output_finish(w.out, status);
  output_free(w.out);
  free(w.members);
  if (w.signals >= 0) close(w.signals);
  return status;
}
