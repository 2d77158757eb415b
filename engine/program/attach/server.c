/* server.c -- the run's side of its socket: the thread that waits there, and the one client it lets in.
**
** The thread is the only one that reads from the client. It hands one request at a time to the thread that runs Lua,
** and knows alone when the client asks to stop a line, or is gone. What a line prints goes through two pipes and a
** thread of its own, so that a client who dies cannot leave the run in a write.
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

#include "program/attach/socket.h"

static struct {
  int listener;
  pthread_mutex_t lock;
  char *description;   /* what '?' gets */
  void (*interrupt)(void);
  atomic_bool wanted;  /* a client waits, or is inside */
  atomic_bool running; /* a line of it runs */
  atomic_bool hurried; /* it wanted to stop something while none ran, or is gone */
  int fd;              /* of the client, -1 = none; the thread closes it, when left says so or nobody is inside */
  bool inside, left;   /* under lock, like what follows */
  attach_frame hello, request;
  bool full, gone;     /* a request is there; the client is not */
  int arrived, changed; /* events: for the thread of Lua that a request is there; for this one that something has
                        ** changed */
} server = {.listener = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static void ring(int event)
{
  eventfd_write(event, 1);
}

static void clear_event(int event)
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

/* ---- the thread at the socket ------------------------------------------------------------------ */

static void forget(attach_frame *frame)
{
  free(frame->text);
  *frame = (attach_frame){0};
}

static bool is_same_user(int fd)
{
  struct ucred peer;
  socklen_t n = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static void refuse(int fd, const char *why)
{
  attach_send(fd, 'b', why, strlen(why));
  close(fd);
}

static void send_identity(int fd)
{
  pthread_mutex_lock(&server.lock);
  const char *text = server.description ? server.description : "{}";
  attach_send(fd, '?', text, strlen(text));
  pthread_mutex_unlock(&server.lock);
  close(fd);
}

enum { FRAME_MS = 1000, FRAME_MS_INSIDE = 200 }; /* to wait for a frame; while somebody is inside, who may want to
                                                 ** stop a line */

/* Somebody has come. A frame that does not arrive soon, or not whole, is none: nobody may keep the socket. What the run
** says may take as long as the client likes. */
static void greet(void)
{
  attach_frame frame;
  int fd = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  attach_patience(fd, server.fd >= 0 ? FRAME_MS_INSIDE : FRAME_MS, FRAME_MS);
  if (!is_same_user(fd) || !attach_receive(fd, &frame)) return (void)close(fd);
  if (frame.kind != 'h') {
    if (frame.kind == '?') send_identity(fd);
    else close(fd);
    return forget(&frame);
  }
  if (server.fd >= 0) return forget(&frame), refuse(fd, "another prompt is already attached to this run");
  attach_patience(fd, FRAME_MS, 0);
  pthread_mutex_lock(&server.lock);
  server.fd = fd;
  server.hello = frame;
  server.gone = server.full = server.left = server.inside = false;
  atomic_store(&server.hurried, false);
  atomic_store(&server.wanted, true);
  pthread_mutex_unlock(&server.lock);
}

/* A frame of the client, or its end. */
static void read_client(void)
{
  attach_frame frame;
  bool heard = attach_receive(server.fd, &frame), stop = !heard;
  pthread_mutex_lock(&server.lock);
  if (heard && frame.kind == 'i') {
    stop = true;
    forget(&frame);
  } else if (heard && !server.full) {
    stop = frame.kind == 'q';
    server.request = frame;
    server.full = true;
  } else if (heard) { /* more than one at a time: not our client's manners */
    forget(&frame);
    heard = false;
  }
  if (!heard) server.gone = true;
  pthread_mutex_unlock(&server.lock);
  if (stop && atomic_load(&server.running)) server.interrupt();
  else if (stop) atomic_store(&server.hurried, true);
  ring(server.arrived);
}

/* Lets a client go who is gone and not inside, or whom the run has let go. */
static void close_client(void)
{
  pthread_mutex_lock(&server.lock);
  if (server.fd >= 0 && (server.left || (server.gone && !server.inside))) {
    close(server.fd);
    server.fd = -1;
    forget(&server.hello);
    forget(&server.request);
    atomic_store(&server.wanted, false);
  }
  pthread_mutex_unlock(&server.lock);
}

static void *serve(void *user)
{
  (void)user;
  for (;;) {
    struct pollfd p[] = {{.fd = server.listener, .events = POLLIN}, {.fd = server.changed, .events = POLLIN},
                         {.fd = server.fd >= 0 && !server.gone ? server.fd : -1, .events = POLLIN}};
    if (poll(p, 3, -1) <= 0) continue;
    if (p[1].revents) clear_event(server.changed);
    if (p[2].revents) read_client();
    close_client();
    if (p[0].revents) greet();
  }
  return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int listen_at(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, path, ATTACH_PATH);
  unlink(path); /* of a process that had this number before */
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

bool attach_open(void (*interrupt)(void))
{
  char path[ATTACH_PATH];
  pthread_t thread;
  if (!attach_path(0, getpid(), true, path) && !attach_path(1, getpid(), true, path)) return false;
  attach_sweep();
  server.interrupt = interrupt;
  server.arrived = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  server.changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  server.listener = listen_at(path);
  if (server.arrived < 0 || server.changed < 0 || server.listener < 0 || !start_thread(&thread, serve, NULL))
    return false;
  return pthread_detach(thread), true;
}

void attach_describe(const char *json)
{
  pthread_mutex_lock(&server.lock);
  free(server.description);
  server.description = strdup(json);
  pthread_mutex_unlock(&server.lock);
}

bool attach_is_wanted(void) { return atomic_load_explicit(&server.wanted, memory_order_relaxed); }

bool attach_is_hurried(void) { return atomic_exchange_explicit(&server.hurried, false, memory_order_relaxed); }

/* ---- the session ------------------------------------------------------------------------------- */

const char *attach_enter(void)
{
  pthread_mutex_lock(&server.lock);
  bool there = server.fd >= 0 && !server.gone && !server.left && atomic_load(&server.wanted);
  if (there) server.inside = true;
  pthread_mutex_unlock(&server.lock);
  return there ? server.hello.text : NULL;
}

enum { LOOK_MS = 500 }; /* a signal may come between the caller's look for one and poll, which then does not end by
                        ** it */

void attach_next(attach_frame *frame)
{
  *frame = (attach_frame){0};
  for (;;) {
    pthread_mutex_lock(&server.lock);
    bool full = server.full, gone = server.gone;
    if (full) *frame = server.request, server.request = (attach_frame){0}, server.full = false;
    pthread_mutex_unlock(&server.lock);
    if (full || gone) return;
    struct pollfd p = {.fd = server.arrived, .events = POLLIN};
    if (poll(&p, 1, LOOK_MS) <= 0) return (void)(frame->kind = 'i');
    clear_event(server.arrived);
  }
}

bool attach_answer(char kind, const char *text, size_t length) { return attach_send(server.fd, kind, text, length); }

void attach_leave(const char *why)
{
  attach_send(server.fd, 'g', why, strlen(why));
  pthread_mutex_lock(&server.lock);
  server.left = true;
  server.inside = false;
  atomic_store(&server.wanted, false); /* under lock: the next client may be there as soon as this one is off */
  pthread_mutex_unlock(&server.lock);
  ring(server.changed);
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
    if (!pump.dead && !attach_send(server.fd, i == 0 ? 'o' : 'e', text, (size_t)n)) pump.dead = true;
}

/* A child that somebody starts may keep the pipes: their end is not waited for, only what was in them when the line was
** done. */
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

bool attach_print_there(bool on)
{
  fflush(stdout);
  fflush(stderr);
  if (on) {
    if (!begin_pump()) return false;
    atomic_store(&server.running, true);
    pthread_mutex_lock(&server.lock);
    bool gone = server.gone;
    pthread_mutex_unlock(&server.lock);
    if (gone) server.interrupt(); /* it disconnected before the answer */
    return true;
  }
  atomic_store(&server.running, false);
  put_back(0);
  put_back(1);
  ring(pump.stop);
  pthread_join(pump.thread, NULL);
  close_pipes();
  return true;
}
