/* escape.c -- native code in the worker of a recipe, as after an escape from Lua: LD_PRELOAD of escape.py.
**
** At the worker's first fsync, which a run does behind both layers of the sandbox, it tries what a thief would, and
** prints a line for each: the name, then "refused" or "ALLOWED". CAPL_ESCAPE names the folder with what there is to
** take.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char place[512];
static pid_t supervisor;

__attribute__((constructor)) static void begin(void)
{
  snprintf(place, sizeof place, "%s", getenv("CAPL_ESCAPE") ? getenv("CAPL_ESCAPE") : "");
}

static const char *in(const char *rest)
{
  static char text[2][1024];
  static int next;
  next = 1 - next;
  snprintf(text[next], sizeof text[next], "%s/%s", place, rest);
  return text[next];
}

static const char *of_supervisor(const char *what)
{
  static char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)supervisor, what);
  return path;
}

static bool can_open(const char *path, int flags)
{
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static bool can_fork(void)
{
  pid_t child = fork();
  if (child == 0) syscall(SYS_exit_group, 0);
  return child > 0 && waitpid(child, NULL, 0) == child;
}

static bool can_run(void)
{
  char *words[] = {(char *)"sh", (char *)"-c", (char *)"echo shell ALLOWED >&2", NULL};
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD | 0x4000 /* CLONE_VFORK */, 0, 0, 0, 0);
  if (child == 0) execve("/bin/sh", words, environ), syscall(SYS_exit_group, 1);
  return child > 0 && waitpid(child, NULL, 0) == child;
}

static bool can_connect_tcp(void)
{
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  to.sin_port = htons((uint16_t)atoi(getenv("CAPL_ESCAPE_PORT")));
  return fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
}

static bool can_connect_path(void)
{
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  snprintf(to.sun_path, sizeof to.sun_path, "%s", in("socket"));
  return fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
}

static bool can_read_memory(void)
{
  char byte;
  struct iovec here = {&byte, 1}, there = {place, 1}; /* the same address: the supervisor has forked this process */
  return process_vm_readv(supervisor, &here, 1, &there, 1, 0) == 1;
}

static bool has_secret(void)
{
  for (char **entry = environ; entry && *entry; entry++)
    if (strstr(*entry, "ESCAPE_TOKEN")) return true;
  char text[65536] = "";
  int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/environ", O_RDONLY);
  ssize_t n = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof text - 1);
  return n > 0 && memmem(text, (size_t)n, "hunter2", 7);
}

static void say(const char *name, bool allowed)
{
  dprintf(STDERR_FILENO, "escape: %s %s\n", name, allowed ? "ALLOWED" : "refused");
}

static void try_all(void)
{
  supervisor = getppid();
  say("read a key", can_open(in("home/.ssh/id"), O_RDONLY));
  say("list the home directory", can_open(in("home"), O_RDONLY | O_DIRECTORY));
  say("read the user database", can_open("/etc/passwd", O_RDONLY));
  say("read the environment it was started with", has_secret());
  say("write a start-up file", can_open(in("home/.profile"), O_WRONLY | O_CREAT));
  say("write the recipe", can_open(in("job/escape.lua"), O_WRONLY));
  say("write beside the recipe", can_open(in("job/evil.lua"), O_WRONLY | O_CREAT));
  say("write another run's model", can_open(in("job/runs/other/best.capl"), O_WRONLY));
  say("remove another run's model", unlink(in("job/runs/other/best.capl")) == 0);
  say("move its run elsewhere", syscall(SYS_renameat2, AT_FDCWD, in("job/runs/escape"), AT_FDCWD, in("moved"), 0) == 0);
  say("link a key into its run", link(in("home/.ssh/id"), in("job/runs/escape/key")) == 0);
  say("write among the sockets of attach", can_open(in("tmp/sockets"), O_WRONLY | O_CREAT));
  say("start a process", can_fork());
  say("start a program", can_run());
  say("connect by TCP", can_connect_tcp());
  say("connect to a socket of the user", can_connect_path());
  say("signal the supervisor", kill(supervisor, 0) == 0);
  say("trace the supervisor", ptrace(PTRACE_SEIZE, supervisor, NULL, NULL) == 0);
  say("read the supervisor's memory", can_read_memory());
  say("open the supervisor's memory", can_open(of_supervisor("mem"), O_RDWR));
  say("read the supervisor's environment", can_open(of_supervisor("environ"), O_RDONLY));
  dprintf(STDERR_FILENO, "control: write its own run %s\n",
          can_open(in("job/runs/escape/own.png"), O_WRONLY | O_CREAT) ? "ALLOWED" : "refused");
}

int fsync(int fd)
{
  static atomic_bool tried;
  if (*place && !atomic_exchange(&tried, true)) try_all();
  return (int)syscall(SYS_fsync, fd);
}
