/* restart.c -- --restart=N: a job that has lost a process is started again and goes on from its last checkpoint.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/restart.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "program/launch/ranks.h"
#include "program/launch/worker_group.h"

capl_status restart_take(int *argc, char **argv, int *times)
{
  char shown[64], *end;
  const char *text = NULL;
  CAPL_TRY(ranks_take_word(argc, argv, "--restart", "--restart=3", &text));
  if (!text) return CAPL_OK;
  errno = 0;
  long n = strtol(text, &end, 10);
  if (*text >= '0' && *text <= '9' && !*end && errno == 0 && n <= RESTARTS_MOST) return *times = (int)n, CAPL_OK;
  capl_text_show(shown, sizeof shown, text, false);
  return CAPL_FAIL(CAPL_EVALUE, "--restart is a number of restarts from 0 to %d, not '%s'", RESTARTS_MOST, shown);
}

bool restart_is_lost(int status)
{
  static const int crashes[] = {SIGKILL, SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
    if (status == 128 + crashes[i]) return true;
  return status == EXIT_LOST;
}

int restart_ranks(int ranks, int left)
{
  int n = left < ranks ? left : ranks;
  while (n > 1 && ranks % n != 0) n--;
  return n;
}

bool restart_has_checkpoint(const char *folder)
{
  char path[4200];
  bool found = false;
  if (!*folder || snprintf(path, sizeof path, "%s/checkpoints", folder) >= (int)sizeof path) return false;
  DIR *d = opendir(path);
  for (struct dirent *e; d && !found && (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    found = e->d_name[0] != '.' && n > 5 && strcmp(e->d_name + n - 5, ".capl") == 0;
  }
  if (d) closedir(d);
  return found;
}

capl_status restart_announce(int number, int times, int status, int ranks, const char *folder)
{
  char text[4200];
  int n = snprintf(text, sizeof text, "%d %d %d %d %s", number, times, status, ranks, folder);
  if (n < (int)sizeof text && setenv("CAPL_RESTART", text, 1) == 0) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "no memory to start the job again");
}

int restart_wait(double seconds)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT), sigaddset(&set, SIGTERM), sigaddset(&set, SIGHUP);
  struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  sigset_t former;
  sigprocmask(SIG_BLOCK, &set, &former);
  int n = sigtimedwait(&set, NULL, &t);
  sigprocmask(SIG_SETMASK, &former, NULL);
  return n > 0 ? n : 0;
}
