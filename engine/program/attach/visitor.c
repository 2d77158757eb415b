/* visitor.c -- the run's side of its gate: the thread that waits there, and the one visitor it lets in.
**
** The thread is the only one that reads from the visitor. It hands one request at a time to the thread that runs Lua, and knows
** alone when the visitor asks to stop a line, or is gone. What a line prints goes through two pipes and a thread of its own,
** so that a visitor who dies cannot leave the run in a write.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "program/attach/gate.h"

static struct {
  int listener;
  pthread_mutex_t lock;
  char *description;   /* what '?' gets */
  void (*interrupt)(void);
  atomic_bool wanted;  /* a visitor waits, or is inside */
  atomic_bool running; /* a line of it runs */
  atomic_bool hurried; /* it wanted to stop something while none ran, or is gone */
  int fd;              /* of the visitor, -1 = none; the thread closes it, when left says so or nobody is inside */
  bool inside, left;   /* under lock, like what follows */
  gate_frame hello, request;
  bool full, gone;     /* a request is there; the visitor is not */
  int arrived, changed; /* events: for the thread of Lua that a request is there; for this one that something has changed */
} gate = {.listener = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static void ring(int event)
{
  eventfd_write(event, 1);
}

static void hush(int event)
{
  eventfd_t count;
  eventfd_read(event, &count);
}

static bool start_thread(pthread_t *thread, void *(*f)(void *), void *user)
{
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  bool started = pthread_create(thread, NULL, f, user) == 0;
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  return started;
}

/* ---- the thread at the gate ------------------------------------------------------------------ */

static void forget(gate_frame *frame)
{
  free(frame->text);
  *frame = (gate_frame){0};
}

static bool is_same_user(int fd)
{
  struct ucred peer;
  socklen_t n = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static void refuse(int fd, const char *why)
{
  gate_send(fd, 'b', why, strlen(why));
  close(fd);
}

static void tell_who(int fd)
{
  pthread_mutex_lock(&gate.lock);
  const char *text = gate.description ? gate.description : "{}";
  gate_send(fd, '?', text, strlen(text));
  pthread_mutex_unlock(&gate.lock);
  close(fd);
}

enum { FRAME_MS = 1000, FRAME_MS_INSIDE = 200 }; /* to wait for a frame; while somebody is inside, who may want to stop a line */

/* Somebody has come. A frame that does not arrive soon, or not whole, is none: nobody may keep the gate. What the run says may
** take as long as the visitor likes. */
static void welcome(void)
{
  gate_frame frame;
  int fd = accept4(gate.listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  gate_patience(fd, gate.fd >= 0 ? FRAME_MS_INSIDE : FRAME_MS, FRAME_MS);
  if (!is_same_user(fd) || !gate_receive(fd, &frame)) return (void)close(fd);
  if (frame.kind != 'h') {
    if (frame.kind == '?') tell_who(fd);
    else close(fd);
    return forget(&frame);
  }
  if (gate.fd >= 0) return forget(&frame), refuse(fd, "somebody is attached to this run already");
  gate_patience(fd, FRAME_MS, 0);
  pthread_mutex_lock(&gate.lock);
  gate.fd = fd;
  gate.hello = frame;
  gate.gone = gate.full = gate.left = gate.inside = false;
  atomic_store(&gate.hurried, false);
  atomic_store(&gate.wanted, true);
  pthread_mutex_unlock(&gate.lock);
}

/* A frame of the visitor, or its end. */
static void listen_to_visitor(void)
{
  gate_frame frame;
  bool heard = gate_receive(gate.fd, &frame), stop = !heard;
  pthread_mutex_lock(&gate.lock);
  if (heard && frame.kind == 'i') {
    stop = true;
    forget(&frame);
  } else if (heard && !gate.full) {
    stop = frame.kind == 'q';
    gate.request = frame;
    gate.full = true;
  } else if (heard) { /* more than one at a time: not our visitor's manners */
    forget(&frame);
    heard = false;
  }
  if (!heard) gate.gone = true;
  pthread_mutex_unlock(&gate.lock);
  if (stop && atomic_load(&gate.running)) gate.interrupt();
  else if (stop) atomic_store(&gate.hurried, true);
  ring(gate.arrived);
}

/* Lets a visitor go who is gone and not inside, or whom the run has let go. */
static void see_off(void)
{
  pthread_mutex_lock(&gate.lock);
  if (gate.fd >= 0 && (gate.left || (gate.gone && !gate.inside))) {
    close(gate.fd);
    gate.fd = -1;
    forget(&gate.hello);
    forget(&gate.request);
    atomic_store(&gate.wanted, false);
  }
  pthread_mutex_unlock(&gate.lock);
}

static void *stand_at_door(void *user)
{
  (void)user;
  for (;;) {
    struct pollfd p[] = {{.fd = gate.listener, .events = POLLIN}, {.fd = gate.changed, .events = POLLIN},
                         {.fd = gate.fd >= 0 && !gate.gone ? gate.fd : -1, .events = POLLIN}};
    if (poll(p, 3, -1) <= 0) continue;
    if (p[1].revents) hush(gate.changed);
    if (p[2].revents) listen_to_visitor();
    see_off();
    if (p[0].revents) welcome();
  }
  return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int listen_at(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, path, GATE_PATH);
  unlink(path); /* of a process that had this number before */
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

bool gate_open(void (*interrupt)(void))
{
  char path[GATE_PATH];
  pthread_t thread;
  if (!gate_path(0, getpid(), true, path) && !gate_path(1, getpid(), true, path)) return false;
  gate.interrupt = interrupt;
  gate.arrived = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  gate.changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  gate.listener = listen_at(path);
  if (gate.arrived < 0 || gate.changed < 0 || gate.listener < 0 || !start_thread(&thread, stand_at_door, NULL)) return false;
  return pthread_detach(thread), true;
}

void gate_describe(const char *json)
{
  pthread_mutex_lock(&gate.lock);
  free(gate.description);
  gate.description = strdup(json);
  pthread_mutex_unlock(&gate.lock);
}

bool gate_is_wanted(void) { return atomic_load_explicit(&gate.wanted, memory_order_relaxed); }

bool gate_is_hurried(void) { return atomic_exchange_explicit(&gate.hurried, false, memory_order_relaxed); }

/* ---- the visit ------------------------------------------------------------------------------- */

const char *gate_enter(void)
{
  pthread_mutex_lock(&gate.lock);
  bool there = gate.fd >= 0 && !gate.gone && !gate.left && atomic_load(&gate.wanted);
  if (there) gate.inside = true;
  pthread_mutex_unlock(&gate.lock);
  return there ? gate.hello.text : NULL;
}

enum { LOOK_MS = 500 }; /* a signal may come between the caller's look for one and poll, which then does not end by it */

void gate_next(gate_frame *frame)
{
  *frame = (gate_frame){0};
  for (;;) {
    pthread_mutex_lock(&gate.lock);
    bool full = gate.full, gone = gate.gone;
    if (full) *frame = gate.request, gate.request = (gate_frame){0}, gate.full = false;
    pthread_mutex_unlock(&gate.lock);
    if (full || gone) return;
    struct pollfd p = {.fd = gate.arrived, .events = POLLIN};
    if (poll(&p, 1, LOOK_MS) <= 0) return (void)(frame->kind = 'i');
    hush(gate.arrived);
  }
}

bool gate_answer(char kind, const char *text, size_t length) { return gate_send(gate.fd, kind, text, length); }

void gate_leave(const char *why)
{
  gate_send(gate.fd, 'g', why, strlen(why));
  pthread_mutex_lock(&gate.lock);
  gate.left = true;
  gate.inside = false;
  atomic_store(&gate.wanted, false); /* under lock: the next visitor may be there as soon as this one is off */
  pthread_mutex_unlock(&gate.lock);
  ring(gate.changed);
}

/* ---- what a line prints ---------------------------------------------------------------------- */

static struct {
  int from[2]; /* pipes of standard output and error: what this process has written */
  int kept[2]; /* what those were before */
  int stop;    /* event: the line is done */
  bool dead;   /* nobody reads it */
  pthread_t thread;
} pump;

/* Hands on what is in a pipe. */
static void hand_on(int i)
{
  char text[16384];
  for (ssize_t n; (n = read(pump.from[i], text, sizeof text)) > 0;)
    if (!pump.dead && !gate_send(gate.fd, i == 0 ? 'o' : 'e', text, (size_t)n)) pump.dead = true;
}

/* A child that somebody starts may keep the pipes: their end is not waited for, only what was in them when the line was done. */
static void *carry(void *user)
{
  (void)user;
  for (bool done = false; !done;) {
    struct pollfd p[] = {{.fd = pump.from[0], .events = POLLIN}, {.fd = pump.from[1], .events = POLLIN},
                         {.fd = pump.stop, .events = POLLIN}};
    if (poll(p, 3, -1) < 0) continue;
    done = p[2].revents != 0;
    hand_on(0);
    hand_on(1);
  }
  return NULL;
}

static bool redirect(int i)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  pump.from[i] = ends[0];
  pump.kept[i] = fcntl(STDOUT_FILENO + i, F_DUPFD_CLOEXEC, 3);
  bool done = pump.kept[i] >= 0 && dup2(ends[1], STDOUT_FILENO + i) >= 0;
  close(ends[1]);
  return done;
}

static void put_back(int i)
{
  if (pump.kept[i] >= 0) dup2(pump.kept[i], STDOUT_FILENO + i), close(pump.kept[i]);
  pump.kept[i] = -1;
}

static void close_pipes(void)
{
  for (int i = 0; i < 2; i++) {
    put_back(i);
    if (pump.from[i] >= 0) close(pump.from[i]);
  }
  if (pump.stop >= 0) close(pump.stop);
}

static bool begin_pump(void)
{
  pump.from[0] = pump.from[1] = pump.kept[0] = pump.kept[1] = -1;
  pump.dead = false;
  pump.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (pump.stop >= 0 && redirect(0) && redirect(1) && start_thread(&pump.thread, carry, NULL)) return true;
  close_pipes();
  return false;
}

bool gate_print_there(bool on)
{
  fflush(stdout);
  fflush(stderr);
  if (on) {
    if (!begin_pump()) return false;
    atomic_store(&gate.running, true);
    pthread_mutex_lock(&gate.lock);
    bool gone = gate.gone;
    pthread_mutex_unlock(&gate.lock);
    if (gone) gate.interrupt(); /* it went before anybody could be told */
    return true;
  }
  atomic_store(&gate.running, false);
  put_back(0);
  put_back(1);
  ring(pump.stop);
  pthread_join(pump.thread, NULL);
  close_pipes();
  return true;
}
