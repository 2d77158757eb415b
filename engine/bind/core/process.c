/* process.c -- children for commands that run recipes in processes of their own: capl sweep, capl bench --ab.
**
** A child is this program again, or another one,
** in a process group of its own: Ctrl-C at the terminal reaches the parent alone, which
** then ends its children as it likes. A parent that dies, however it dies, ends them too. What they print goes to a
** file. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/write.h"
#include "bind/core/core.h"
#include "bind/core/sys.h"

#define PROCESS_TYPE "capl.process"
enum { MAX_WORDS = 4096, MAX_CPUS = CPU_SETSIZE };

typedef struct {
  pid_t pid; /* 0 before it was started */
  bool ended;
  int status; /* of waitpid */
} process;

/* What a child is started with; everything is prepared before fork, after which it may allocate nothing. */
typedef struct {
  char **argv, **envp;
  const char *program; /* looked for in PATH; NULL: this one */
  const char *log;
  cpu_set_t cpus;
  bool pinned;
  int report; /* where errno goes when exec fails */
} start;

extern char **environ;

/* ---- in the child ---------------------------------------------------------------------------- */

/* Signals as any program expects them: the parent's worker ignores some and blocks none. */
static void plain_signals(void)
{
  sigset_t none;
  sigemptyset(&none);
  for (int n = 1; n < NSIG; n++)
    if (n != SIGHUP) signal(n, SIG_DFL); /* nohup's wish is respected */
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool take_streams(const char *log)
{
  int in = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
  return in >= 0 && out >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2;
}

/* Why the program did not start: to the parent, else to the log. */
static _Noreturn void end_child(const start *s, int why)
{
  char text[512];
  if (base_write(s->report, &why, sizeof why)) _exit(127);
  int lost = errno;
  snprintf(text, sizeof text, "%s did not start: %s", s->program ? s->program : "capl", capl_errno_text(why));
  size_t n = strlen(text);
  snprintf(text + n, sizeof text - n, ", which could not be reported: %s", capl_errno_text(lost));
  _exit(base_write(STDERR_FILENO, text, strlen(text)) ? 126 : 125);
}

static void run_child(const start *s, pid_t parent)
{
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(128 + SIGTERM); /* it died before prctl */
  plain_signals();
  if (s->pinned) sched_setaffinity(0, sizeof s->cpus, &s->cpus); /* a wish: cores may have been taken away since */
  bool ready = take_streams(s->log);
  if (ready && s->program) execvpe(s->program, s->argv, s->envp);
  else if (ready) execve("/proc/self/exe", s->argv, s->envp);
  end_child(s, errno);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* What kept the child from starting its program; 0: nothing, and the pipe ends. */
static int read_report(int fd)
{
  int why = 0;
  for (size_t got = 0; got < sizeof why;) {
    ssize_t n = read(fd, (char *)&why + got, sizeof why - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return 0;
    got += (size_t)n;
  }
  return why;
}

/* 0, or the errno of what went wrong. */
static int start_child(start *s, pid_t *pid)
{
  int ends[2], why = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  s->report = ends[1];
  pid_t parent = getpid();
  *pid = fork();
  if (*pid == 0) run_child(s, parent);
  if (*pid < 0) why = errno;
  close(ends[1]);
  if (*pid > 0) {
    setpgid(*pid, *pid); /* whoever of the two comes first */
    why = read_report(ends[0]);
    if (why) waitpid(*pid, NULL, 0);
  }
  close(ends[0]);
  return why;
}

/* Words of the list at field, behind `first`; the array is a userdata on the stack, the texts belong to the table. */
static char **words_of(lua_State *L, int table, const char *field, const char *first)
{
  lua_getfield(L, table, field);
  luaL_checktype(L, -1, LUA_TTABLE);
  int n = (int)lua_objlen(L, -1);
  if (n > MAX_WORDS) luaL_error(L, "spawn: %d arguments are too many", n);
  char **words = lua_newuserdata(L, (size_t)(n + 2) * sizeof *words);
  words[0] = (char *)first;
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, -2, i);
    words[i] = (char *)luaL_checkstring(L, -1);
    lua_pop(L, 1);
  }
  words[n + 1] = NULL;
  return words;
}

/* Whether an entry of the environment names a variable that `own` ("A=1", "B=", …) sets. */
static bool is_replaced(const char *entry, char *const *own)
{
  for (; *own; own++) {
    size_t n = strcspn(*own, "=") + 1;
    if (strncmp(entry, *own, n) == 0) return true;
  }
  return false;
}

/* The environment of this process with the list at field "env" in place of what it names. */
static char **environment_of(lua_State *L, int table)
{
  char **own = words_of(L, table, "env", NULL) + 1;
  size_t n = 0, kept = 0;
  for (char **e = own; *e; e++) n++;
  for (char **e = environ; *e; e++) n++;
  char **all = lua_newuserdata(L, (n + 1) * sizeof *all);
  for (char **e = environ; *e; e++)
    if (!is_replaced(*e, own)) all[kept++] = *e;
  for (char **e = own; *e; e++) all[kept++] = *e;
  all[kept] = NULL;
  return all;
}

static void read_cpus(lua_State *L, int table, start *s)
{
  lua_getfield(L, table, "cpus");
  CPU_ZERO(&s->cpus);
  for (int i = 1, n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    lua_Integer cpu = lua_tointeger(L, -1);
    if (cpu >= 0 && cpu < MAX_CPUS) CPU_SET((int)cpu, &s->cpus), s->pinned = true;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* The process on the stack becomes the table's into.process: a Ctrl-C that comes now finds it there. */
static void hand_over(lua_State *L, int table, int process_at)
{
  lua_getfield(L, table, "into");
  if (lua_istable(L, -1)) {
    lua_pushvalue(L, process_at);
    lua_setfield(L, -2, "process");
  }
  lua_pop(L, 1);
}

/* spawn{program = another one than this,
** args = words behind the program's name, log = file that takes its output, env = {"NAME=value", …},
** cpus = {0, 1, …} it may use (all), into = table that gets it as its process} -> process; nil and a sentence */
static int sys_spawn(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  process *p = lua_newuserdata(L, sizeof *p);
  *p = (process){0};
  luaL_getmetatable(L, PROCESS_TYPE);
  lua_setmetatable(L, -2);
  lua_getfield(L, 1, "log");
  start s = {.log = bind_check_path(L, -1, CAPL_MAY_WRITE)};
  lua_getfield(L, 1, "program");
  s.program = lua_tostring(L, -1); /* the table keeps it */
  lua_pop(L, 1);
  s.argv = words_of(L, 1, "args", s.program ? s.program : "capl");
  s.envp = environment_of(L, 1);
  read_cpus(L, 1, &s);
  int why = start_child(&s, &p->pid);
  if (!why) {
    hand_over(L, 1, 2);
    return lua_pushvalue(L, 2), 1;
  }
  p->pid = 0;
  lua_pushnil(L);
  lua_pushfstring(L, "cannot start a process: %s", capl_errno_text(why));
  return 2;
}

/* ---- watching -------------------------------------------------------------------------------- */

static process *check_process(lua_State *L) { return luaL_checkudata(L, 1, PROCESS_TYPE); }

static void look(process *p)
{
  if (p->pid > 0 && !p->ended && waitpid(p->pid, &p->status, WNOHANG) == p->pid) p->ended = true;
}

/* process:poll() -> nil while it runs, else its exit status, 128 + n when signal n ended it */
static int process_poll(lua_State *L)
{
  process *p = check_process(L);
  look(p);
  if (!p->ended) return 0;
  lua_pushinteger(L, WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status));
  return 1;
}

/* process:stop(): it may save and end; the supervisor passes the signal on */
static int process_stop(lua_State *L)
{
  process *p = check_process(L);
  look(p);
  if (p->pid > 0 && !p->ended) kill(p->pid, SIGTERM);
  return 0;
}

/* process:kill(): it and all that it has started end now */
static int process_kill(lua_State *L)
{
  process *p = check_process(L);
  look(p);
  if (p->pid > 0 && !p->ended) kill(-p->pid, SIGKILL);
  return 0;
}

/* process:pid() */
static int process_pid(lua_State *L) { return lua_pushinteger(L, check_process(L)->pid), 1; }

/* Resident bytes of a process of this group, 0 for others. name: a number in /proc. */
static double resident(const char *name, pid_t group)
{
  char path[300], text[1024];
  long pages;
  int found_group;
  snprintf(path, sizeof path, "/proc/%s/stat", name);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = '\0';
  const char *rest = strrchr(text, ')'); /* the name before it may hold blanks */
  if (!rest || sscanf(rest + 1, " %*c %*d %d", &found_group) != 1 || found_group != group) return 0;
  if (sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %ld",
             &pages) != 1)
    return 0;
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* process:memory() -> bytes of memory it and all that it has started hold now */
static int process_memory(lua_State *L)
{
  process *p = check_process(L);
  double bytes = 0;
  look(p);
  DIR *folder = p->pid > 0 && !p->ended ? opendir("/proc") : NULL;
  for (struct dirent *e; folder && (e = readdir(folder));)
    if (e->d_name[0] >= '1' && e->d_name[0] <= '9') bytes += resident(e->d_name, p->pid);
  if (folder) closedir(folder);
  lua_pushnumber(L, bytes);
  return 1;
}

/* Nobody holds it any more: it ends now. */
static int process_gc(lua_State *L)
{
  process *p = check_process(L);
  look(p);
  if (p->pid > 0 && !p->ended) {
    kill(-p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
  }
  p->ended = true;
  return 0;
}

/* ---- time, memory, cores --------------------------------------------------------------------- */

/* sleep(seconds): less when a signal comes */
static int sys_sleep(lua_State *L)
{
  double seconds = luaL_checknumber(L, 1);
  if (!(seconds > 0)) return 0;
  if (seconds > 3600) seconds = 3600;
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
  return 0;
}

/* memory_available() -> bytes that can be taken without pushing others out; nil where nothing is known */
static int sys_memory_available(lua_State *L)
{
  int64_t bytes = capl_memory_available("");
  if (bytes <= 0) return 0;
  lua_pushnumber(L, (double)bytes);
  return 1;
}

/* memory_total() -> bytes of the machine; nil where nothing is known */
static int sys_memory_total(lua_State *L)
{
  int64_t bytes = capl_memory_total();
  if (bytes <= 0) return 0;
  lua_pushnumber(L, (double)bytes);
  return 1;
}

/* cpu_list() -> numbers of the processors this process may use */
static int sys_cpu_list(lua_State *L)
{
  cpu_set_t set;
  lua_newtable(L);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  for (int cpu = 0, n = 0; cpu < MAX_CPUS; cpu++) {
    if (!CPU_ISSET(cpu, &set)) continue;
    lua_pushinteger(L, cpu);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

void capl_sys_add_processes(lua_State *L)
{
  static const luaL_Reg methods[] = {
    {"poll", process_poll}, {"stop", process_stop}, {"kill", process_kill}, {"pid", process_pid},
    {"memory", process_memory}, {"__gc", process_gc}, {NULL, NULL}};
  static const luaL_Reg functions[] = {
    {"spawn", sys_spawn}, {"sleep", sys_sleep}, {"memory_available", sys_memory_available},
    {"memory_total", sys_memory_total}, {"cpu_list", sys_cpu_list}, {NULL, NULL}};
  luaL_newmetatable(L, PROCESS_TYPE);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
