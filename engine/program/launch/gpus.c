/* gpus.c -- how many GPUs this machine lets the program use.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/gpus.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "capl/backend.h"

enum { PATIENCE_MS = 30000 }; /* a driver that wakes eight GPUs takes seconds */

typedef struct {
  int count;
  char why[256];
} answer;

/* ---- in the process that asks ---------------------------------------------------------------- */

/* CUDA's names; a pointer from dlsym to a function, as POSIX has it. */
static void find(void *library, const char *name, void *function)
{
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
}

static void ask_driver(answer *a)
{
  int (*init)(unsigned) = NULL, (*count)(int *) = NULL;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library) find(library, "cuInit", &init), find(library, "cuDeviceGetCount", &count);
  if (!init || !count) {
    snprintf(a->why, sizeof a->why, "the NVIDIA driver's libcuda.so.1 does not load");
    return;
  }
  int code = init(0);
  if (code == 0) code = count(&a->count);
  if (code != 0)
    snprintf(a->why, sizeof a->why, "the NVIDIA driver finds no GPU (its error %d)", code), a->count = 0;
  else if (a->count == 0)
    snprintf(a->why, sizeof a->why, "the NVIDIA driver shows no GPU");
}

static void ask(answer *a)
{
  char report[4096];
  if (capl_device_report("cuda", report, sizeof report) == CAPL_OK)
    ask_driver(a);
  else
    snprintf(a->why, sizeof a->why, "%.200s", capl_error_last()->message);
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  size_t n = strlen(a->why);
  if (a->count == 0 && visible) snprintf(a->why + n, sizeof a->why - n, " (CUDA_VISIBLE_DEVICES is '%.64s')", visible);
}

/* ---- in the one that wants to know ------------------------------------------------------------ */

static bool wait_for(int fd, answer *a)
{
  struct pollfd p = {.fd = fd, .events = POLLIN};
  int ready;
  while ((ready = poll(&p, 1, PATIENCE_MS)) < 0 && errno == EINTR) continue;
  return ready > 0 && read(fd, a, sizeof *a) == sizeof *a;
}

int gpus_count(char *why, size_t room)
{
  answer a = {0};
  int fds[2];
  const char *absent;
  if (!capl_gpu_possible(&absent)) return snprintf(why, room, "%s", absent), 0;
  if (pipe2(fds, O_CLOEXEC) != 0)
    return snprintf(why, room, "the GPUs cannot be counted: %s", capl_errno_text(errno)), 0;
  pid_t supervisor = getpid(), pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) _exit(1);
    ask(&a);
    _exit(write(fds[1], &a, sizeof a) != sizeof a);
  }
  close(fds[1]);
  if (pid < 0 || !wait_for(fds[0], &a))
    a = (answer){0}, snprintf(a.why, sizeof a.why, "the NVIDIA driver does not report the number of GPUs");
  close(fds[0]);
  if (pid > 0) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
  snprintf(why, room, "%s", a.why);
  return a.count;
}
