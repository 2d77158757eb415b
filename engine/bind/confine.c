/* confine.c -- a worker with a foreign recipe: what is taken from it at its start, and the walls before the recipe's text.
**
** What it may use was settled by the supervisor (launch/grants.c), whose memory this process was made of.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "confine.h"

#include <dirent.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <luajit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"
#include "bind/bind.h"
#include "bind/l_bind.h"
#include "capl/dist.h"
#include "sandbox/environment.h"
#include "sandbox/policy.h"
#include "sandbox/wall.h"

static bool confined; /* this job is to be */

/* ---- at the start ------------------------------------------------------------------------------ */

static void limit(int what, rlim_t most)
{
  struct rlimit now;
  if (getrlimit(what, &now) != 0) return;
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < most) most = now.rlim_max;
  setrlimit(what, &(struct rlimit){most, most});
}

enum { SPARE_SECONDS = 600 };

/* A core would be written by others, and has everything in it. The supervisor keeps the time; the processors' is kept here, too,
** for a worker whose supervisor was killed and that does not listen any more. */
static void set_limits(void)
{
  uint64_t output = capl_policy_limits()->output_bytes;
  double seconds = capl_policy_limits()->seconds;
  limit(RLIMIT_CORE, 0);
  if (seconds > 0) limit(RLIMIT_CPU, (rlim_t)(SPARE_SECONDS + 2 * seconds * capl_cpu_count()));
  if (output > 0) limit(RLIMIT_FSIZE, (rlim_t)output);
}

/* A terminal can be read through the descriptor that writes to it: who gives no prompt opens it for writing alone. */
static void only_write(int fd)
{
  char self[32];
  if (!isatty(fd)) return;
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  int mine = open(self, O_WRONLY | O_NOCTTY | O_APPEND | O_CLOEXEC);
  if (mine < 0) return;
  dup2(mine, fd);
  close(mine);
}

static void leave_terminal(void)
{
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO), close(nothing);
  only_write(STDOUT_FILENO);
  only_write(STDERR_FILENO);
}

/* Walled ranks cannot read each other's memory: MPI copies through memory that they share. */
static void choose_transport(void)
{
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1); /* Open MPI 4 */
  setenv("OMPI_MCA_smsc", "^cma,knem,xpmem", 1);                 /* Open MPI 5 */
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);                        /* all connections at the start */
}

static void choose_cache(void)
{
  const char *cache = getenv("CAPL_RECIPE_CACHE");
  if (!cache) return;
  setenv("XDG_CACHE_HOME", cache, 1);
  setenv("CUDA_CACHE_PATH", cache, 1);
}

/* `--data=/dev/fd/63` is the user's own word for a file that a shell has opened. */
static bool is_named(const capl_job *job, int fd)
{
  char number[16];
  snprintf(number, sizeof number, "/fd/%d", fd);
  for (int i = 0; i < job->argc; i++) {
    const char *at = strstr(job->argv[i], number);
    if (at && !(at[strlen(number)] >= '0' && at[strlen(number)] <= '9')) return true;
  }
  return false;
}

/* What whoever started this program had open is nothing to a recipe: all that capl opens itself is closed by exec, so what is
** not has come through one. */
static void close_inherited(const capl_job *job)
{
  DIR *list = opendir("/proc/self/fd");
  for (struct dirent *e; list && (e = readdir(list));) {
    int fd = atoi(e->d_name), flags = fcntl(fd, F_GETFD);
    if (fd > STDERR_FILENO && flags >= 0 && !(flags & FD_CLOEXEC) && !is_named(job, fd)) close(fd);
  }
  if (list) closedir(list);
}

void capl_confine_begin(const capl_job *job)
{
  confined = job->confined;
  if (!confined) return;
  capl_environment_clean();
  close_inherited(job);
  choose_transport();
  choose_cache();
  set_limits();
  if (!job->interactive) leave_terminal();
}

/* ---- the walls --------------------------------------------------------------------------------- */

/* Devices are opened before: a driver may start programs, and has files of its own. What fails now fails again, and with
** the recipe's line, when it is used. */
static void warm_up(lua_State *L)
{
  capl_world *world = capl_world_get();
  if (!world || capl_world_place(world)->size < 2) return;
  bind_check(L, capl_world_warm(world), NULL);
  capl_policy_grant("/dev/shm", CAPL_MAY_REMOVE); /* memory that ranks share has a name there, which goes at the end */
}

/* Figures of this very process; its memory and environment are nobody's to read. */
static void give_own_figures(void)
{
  static const char *const files[] = {"/proc/self/stat", "/proc/self/statm", "/proc/self/status", "/proc/self/cgroup"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) capl_policy_grant(files[i], CAPL_MAY_READ | CAPL_MAY_QUIETLY);
}

/* confine(): raises the walls, unless the job is trusted. Compiled code only stands behind a whole wall: its compiler
** is where a recipe would break out of Lua. */
static int sys_confine(lua_State *L)
{
  if (!confined || capl_policy_is_closed()) return 0;
  warm_up(L);
  give_own_figures();
  capl_policy_close();
  bind_check(L, capl_wall_raise(), NULL);
  capl_bind_limit(L);
  const capl_wall *w = capl_wall_state();
  if (!w->files || !w->calls) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF | LUAJIT_MODE_FLUSH);
  return 0;
}

/* walls() -> {files = version of Landlock or 0, calls = whether system calls can be filtered, why = what is missing, calls_why,
** raised = whether they stand in this process, jit = whether a recipe's Lua is compiled} */
static int sys_walls(lua_State *L)
{
  bool raised = capl_policy_is_closed();
  capl_wall w = raised ? *capl_wall_state() : capl_wall_possible();
  lua_newtable(L);
  lua_pushinteger(L, w.files);
  lua_setfield(L, -2, "files");
  lua_pushboolean(L, w.calls);
  lua_setfield(L, -2, "calls");
  lua_pushstring(L, w.why);
  lua_setfield(L, -2, "why");
  lua_pushstring(L, w.calls_why);
  lua_setfield(L, -2, "calls_why");
  lua_pushboolean(L, raised);
  lua_setfield(L, -2, "raised");
  lua_pushboolean(L, w.files && w.calls);
  lua_setfield(L, -2, "jit");
  return 1;
}

void capl_confine_add(lua_State *L)
{
  static const luaL_Reg functions[] = {{"confine", sys_confine}, {"walls", sys_walls}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
