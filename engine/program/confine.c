/* confine.c -- a worker with a foreign recipe: what is taken from it at its start, and the sandbox before the recipe's
** text.
**
** What it may use was settled by the supervisor (launch/grants.c), whose memory this process was made of.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/confine.h"

#include <dirent.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"
#include "bind/bind.h"
#include "bind/core/core.h"
#include "capl/dist.h"
#include "sandbox/environment.h"
#include "sandbox/policy.h"
#include "sandbox/sandbox.h"

static bool confined;    /* this job is to be */
static char *run_folder; /* shared with the supervisor: it removes what stays empty, and starts again what is lost */

/* ---- at the start ------------------------------------------------------------------------------ */

static void limit(int what, rlim_t most)
{
  struct rlimit now;
  if (getrlimit(what, &now) != 0) return;
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < most) most = now.rlim_max;
  setrlimit(what, &(struct rlimit){most, most});
}

enum { SPARE_SECONDS = 600 };

/* A core would be written by others, and has everything in it. The supervisor keeps the time; the processors' is kept
** here, too, for a worker whose supervisor was killed and that does not listen any more. */
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

/* Where there is nothing to read from, there is no standard input. */
static void leave_terminal(void)
{
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) close(STDIN_FILENO);
  if (nothing > STDIN_FILENO) close(nothing);
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

static void close_if_inherited(const capl_job *job, int fd)
{
  int flags = fcntl(fd, F_GETFD);
  if (fd > STDERR_FILENO && flags >= 0 && !(flags & FD_CLOEXEC) && !is_named(job, fd)) close(fd);
}

/* What whoever started this program had open is nothing to a recipe: all that capl opens itself is closed by exec, so
** what is not has come through one. Without a /proc that lists them, all numbers are tried. */
static void close_inherited(const capl_job *job)
{
  struct rlimit most = {1 << 20, 1 << 20};
  DIR *list = opendir("/proc/self/fd");
  for (struct dirent *e; list && (e = readdir(list));) close_if_inherited(job, atoi(e->d_name));
  if (list) return (void)closedir(list);
  getrlimit(RLIMIT_NOFILE, &most);
  for (int fd = STDERR_FILENO + 1; fd < (int)(most.rlim_max < 1 << 20 ? most.rlim_max : 1 << 20); fd++)
    close_if_inherited(job, fd);
}

void capl_confine_begin(const capl_job *job)
{
  confined = job->confined;
  run_folder = job->run_folder;
  if (!confined) return;
  capl_environment_clean();
  close_inherited(job);
  choose_transport();
  choose_cache();
  set_limits();
  if (!job->interactive) leave_terminal();
}

/* ---- the sandbox ------------------------------------------------------------------------------------ */

/* Devices are opened before: a driver may start programs, and has files of its own. What fails now fails again, and
** with the recipe's line, when it is used. */
static void warm_up(lua_State *L)
{
  capl_world *world = capl_world_get();
  if (!world || capl_world_place(world)->size < 2) return;
  bind_check(L, capl_world_warm(world), NULL);
  capl_policy_grant("/dev/shm", CAPL_MAY_REMOVE); /* memory that ranks share has a name there, which goes at the end */
}

/* Figures of this very process; its memory and environment are nobody's to read. */
static void give_own_metrics(void)
{
  static const char *const files[] = {"/proc/self/stat", "/proc/self/statm", "/proc/self/status", "/proc/self/cgroup"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    capl_policy_grant(files[i], CAPL_MAY_READ | CAPL_MAY_QUIETLY);
}

/* confine(): enables the sandbox, unless the job is trusted. Compiled code runs only in a complete sandbox: its
** compiler is where a recipe would break out of Lua. */
static int sys_confine(lua_State *L)
{
  if (!confined || capl_policy_is_closed()) return 0;
  warm_up(L);
  give_own_metrics();
  capl_policy_close();
  bind_check(L, capl_sandbox_enable(), NULL);
  capl_bind_limit(L);
  const capl_sandbox *w = capl_sandbox_state();
  if (!w->files || !w->calls) capl_bind_stop_compiler(L);
  return 0;
}

/* A run that was found below runs/ must lie there: a link of that name may have come with the recipe. */
static capl_status check_found(const char *path, const char *real)
{
  char runs[CAPL_POLICY_PATH];
  CAPL_TRY(capl_policy_resolve("runs", runs));
  if (capl_policy_is_below(real, runs) && strcmp(real, runs) != 0) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "%.1000s is a link that leads to %.1000s: a recipe would write there", path, real);
  capl_error_hint("--resume=FOLDER names the run to resume");
  return CAPL_EVALUE;
}

static capl_status give_run_folder(const char *path, bool found)
{
  char real[CAPL_POLICY_PATH];
  CAPL_TRY(capl_policy_resolve(path, real));
  if (found) CAPL_TRY(check_found(path, real));
  if (!capl_policy_is_too_wide(real)) return capl_policy_grant_resolved(real, CAPL_MAY_READ | CAPL_MAY_WRITE);
  return CAPL_FAIL(CAPL_EVALUE, "%.1000s cannot be a run's folder: a recipe would write to all of it", real);
}

/* run_folder(path, how): the folder of this run, which the recipe may write to. how: "made" just now, "found" below
** runs/, or "named" by the user. */
static int sys_run_folder(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1), *how = luaL_checkstring(L, 2);
  if (run_folder && strlen(path) < CAPL_POLICY_PATH) { /* the first byte last: the supervisor may look at any moment */
    strcpy(run_folder + 1, path + (*path != '\0'));
    __atomic_store_n(run_folder, *path, __ATOMIC_RELEASE);
  }
  if (confined) bind_check(L, give_run_folder(path, strcmp(how, "found") == 0), NULL);
  return 0;
}

/* walls() -> {files = version of Landlock or 0, calls = whether system calls can be filtered, why = what is missing,
** calls_why, raised = whether they stand in this process, jit = whether a recipe's Lua is compiled} */
static int sys_walls(lua_State *L)
{
  bool raised = capl_policy_is_closed();
  capl_sandbox w = raised ? *capl_sandbox_state() : capl_sandbox_possible();
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
  static const luaL_Reg functions[] = {{"confine", sys_confine}, {"walls", sys_walls}, {"run_folder", sys_run_folder},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
