/* spawner.c -- starts the reader of LMDB files here, or has it started by the supervisor.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "sandbox/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/library.h"
#include "base/text.h"
#include "sandbox/policy.h"
#include "sandbox/sandbox.h"

extern char **environ;

static const char reader[] = "capl-lmdb"; /* the one program that is started for who asks */
static int ends[2] = {-1, -1};            /* the supervisor's, the workers' */

/* ---- starting it here -------------------------------------------------------------------------- */

/* 0, or the errno of what went wrong. */
static int start_here(const char *program, const char *path, int out, pid_t *pid)
{
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  char *argv[] = {(char *)reader, (char *)path, NULL};
  int failed = posix_spawn(pid, program, &files, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failed;
}

static int wait_for(pid_t pid)
{
  int how = -1;
  while (waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
  return how;
}

/* ---- asking ------------------------------------------------------------------------------------ */

enum { PIPE, ANSWER, SENT }; /* descriptors of a request */

typedef union {
  struct cmsghdr head;
  char room[CMSG_SPACE(SENT * sizeof(int))];
} envelope;

/* The path and two descriptors in one message. */
static bool send_request(const char *path, const int fds[SENT])
{
  envelope e = {.head = {.cmsg_len = CMSG_LEN(SENT * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  struct iovec text = {(char *)path, strlen(path) + 1};
  struct msghdr m = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = e.room, .msg_controllen = sizeof e.room};
  memcpy(CMSG_DATA(&e.head), fds, SENT * sizeof(int));
  return sendmsg(ends[1], &m, MSG_NOSIGNAL) == (ssize_t)text.iov_len;
}

static capl_status ask(const char *path, int out, spawned *s)
{
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0) return CAPL_FAIL(CAPL_EIO, "%s: no pipe: %s", path, capl_errno_text(errno));
  bool sent = send_request(path, (int[SENT]){out, answer[1]});
  int failed = errno;
  close(answer[1]);
  if (!sent)
    return close(answer[0]), CAPL_FAIL(CAPL_EIO, "%s: the supervisor cannot be asked to read it: %s", path,
                                       capl_errno_text(failed));
  s->answer = answer[0];
  return CAPL_OK;
}

capl_status spawner_start(const char *program, const char *path, int out, spawned *s)
{
  *s = (spawned){.answer = -1};
  if (capl_sandbox_state()->calls && ends[1] >= 0) return ask(path, out, s);
  int failed = start_here(program, path, out, &s->pid);
  if (failed) return CAPL_FAIL(CAPL_EIO, "%s: %s cannot be started: %s", path, program, capl_errno_text(failed));
  return CAPL_OK;
}

int spawner_end(spawned *s, bool unwanted)
{
  int how = -1;
  if (s->pid > 0) {
    if (unwanted) kill(s->pid, SIGKILL);
    return wait_for(s->pid);
  }
  while (!unwanted && read(s->answer, &how, sizeof how) < 0 && errno == EINTR) continue;
  close(s->answer);
  return how;
}

/* ---- being asked ------------------------------------------------------------------------------- */

/* In a process of its own, whose parent does not wait for it. */
_Noreturn static void start_and_tell(const char *path, const int fds[SENT])
{
  char program[CAPL_POLICY_PATH];
  pid_t pid;
  int how = 127 << 8;
  bool started = library_program(reader, program, sizeof program) && start_here(program, path, fds[PIPE], &pid) == 0;
  close(fds[PIPE]); /* its end is the reader's end */
  if (started) how = wait_for(pid);
  _exit(write(fds[ANSWER], &how, sizeof how) == (ssize_t)sizeof how ? 0 : 1);
}

/* Its grandchild is nobody's child, so that nothing has to be waited for later. */
static void start_apart(const char *path, const int fds[SENT])
{
  pid_t pid = fork();
  if (pid == 0) {
    if (fork() == 0) start_and_tell(path, fds);
    _exit(0);
  }
  if (pid > 0) wait_for(pid);
}

void capl_spawner_serve(int socket)
{
  char path[CAPL_POLICY_PATH], real[CAPL_POLICY_PATH];
  envelope e;
  struct iovec text = {path, sizeof path};
  struct msghdr m = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = e.room, .msg_controllen = sizeof e.room};
  ssize_t n = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
  if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) return;
  int fds[SENT] = {-1, -1};
  size_t got = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  memcpy(fds, CMSG_DATA(c), (got < SENT ? got : SENT) * sizeof(int));
  bool whole = got == SENT && path[n - 1] == '\0' && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
  if (whole && capl_policy_resolve(path, real) == CAPL_OK && capl_policy_would_allow(real, CAPL_MAY_READ))
    start_apart(real, fds);
  for (int i = 0; i < SENT; i++)
    if (fds[i] >= 0) close(fds[i]); /* who asked and gets no answer knows */
}

int capl_spawner_open(void)
{
  for (int i = 0; i < 2; i++)
    if (ends[i] >= 0) close(ends[i]); /* of a group of workers that has ended */
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) ends[0] = ends[1] = -1;
  return ends[0];
}

void capl_spawner_enter(void)
{
  if (ends[0] >= 0) close(ends[0]);
  ends[0] = -1;
}
