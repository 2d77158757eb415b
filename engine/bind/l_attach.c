/* l_attach.c -- both sides of `capl attach` for Lua: the run that lets somebody in, and the terminal that comes in.
**
** lua/capl/run/attach.lua says when somebody is let in and what lines mean; lua/capl/repl/remote.lua is the prompt whose lines
** run there. launch/door.h tells what passes between them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "bind/attach.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind/l_bind.h"
#include "bind/repl.h"
#include "bind/sys.h"
#include "launch/door.h"

/* ---- the run --------------------------------------------------------------------------------- */

static pthread_t lua_thread;
static volatile sig_atomic_t line_runs;

/* The line of a visitor is stopped by a signal of its own, to the thread that runs Lua: none that a run means anything by. */
enum { STOP_LINE = SIGURG };

static void on_stop_line(int signal)
{
  (void)signal;
  if (line_runs) capl_interrupt_request();
}

static void stop_line(void) { pthread_kill(lua_thread, STOP_LINE); }

void capl_attach_open(void)
{
  struct sigaction action = {.sa_handler = on_stop_line, .sa_flags = CAPL_INTERRUPT_FLAGS};
  lua_thread = pthread_self();
  sigaction(STOP_LINE, &action, NULL);
  door_open(stop_line);
}

/* door_describe(json): what those hear who ask which runs there are. */
static int door_describe_as(lua_State *L) { return door_describe(luaL_checkstring(L, 1)), 0; }

/* door_wanted() -> whether somebody waits to be let in */
static int door_wanted(lua_State *L) { return lua_pushboolean(L, door_is_wanted()), 1; }

/* door_hurried() -> whether the visitor wants to have what it waits for now */
static int door_hurried(lua_State *L) { return lua_pushboolean(L, door_is_hurried()), 1; }

/* door_enter() -> the visitor's hello; nil: it has gone again */
static int door_let_in(lua_State *L) { return lua_pushstring(L, door_enter()), 1; }

/* door_next() -> "line", "complete", "leave", "gone" or "stop" (of the run, by a signal), and a text */
static int door_take(lua_State *L)
{
  static const struct {
    char kind;
    const char *name;
  } names[] = {{'l', "line"}, {'t', "complete"}, {'q', "leave"}, {'i', "stop"}};
  const char *name = "gone";
  door_frame frame = {.kind = 'i'};
  while (frame.kind == 'i' && !capl_worker_stopped()) door_next(&frame); /* 'i': some signal */
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].kind == frame.kind) name = names[i].name;
  lua_pushstring(L, name);
  lua_pushlstring(L, frame.text ? frame.text : "", frame.length);
  free(frame.text);
  return 2;
}

/* door_answer(kind, text) */
static int door_say(lua_State *L)
{
  size_t n;
  const char *kind = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &n);
  lua_pushboolean(L, door_answer(*kind, text, n));
  return 1;
}

/* door_run(f, …) -> true, results; or false, the error's text and code. What it prints goes to the visitor, who may stop it; what
** it makes belongs to no scope of the run. columns: of the visitor's terminal, 0 = it is none */
static int door_run(lua_State *L)
{
  int columns = (int)luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  bool there = door_print_there(true);
  int scopes = bind_scope_leave_all(), former = capl_sys_columns(columns);
  line_runs = 1;
  int failed = capl_bind_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  line_runs = 0;
  capl_interrupt_clear();
  capl_sys_columns(former);
  bind_scope_return(scopes);
  if (there) door_print_there(false);
  if (failed) {
    const char *text = capl_bind_error_text(L, -1, false);
    lua_pushboolean(L, 0);
    lua_pushstring(L, text);
    lua_pushstring(L, capl_bind_error_code(L, 2));
    return 3;
  }
  lua_pushboolean(L, 1);
  lua_replace(L, 1); /* over the columns: results follow */
  return lua_gettop(L);
}

/* door_leave(why) */
static int door_see_off(lua_State *L) { return door_leave(luaL_checkstring(L, 1)), 0; }

/* ---- the terminal ---------------------------------------------------------------------------- */

static int visited = -1;  /* descriptor of the run's door */
static bool visit_over;   /* the run has said so, or is gone */

static int visit_fail(lua_State *L, const char *why)
{
  if (visited >= 0) close(visited);
  visited = -1;
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* visit_runs() -> list of {pid =, text = JSON} of all runs of this user that have a door and answer */
static int visit_runs(lua_State *L)
{
  char path[DOOR_PATH], why[DOOR_WHY];
  int n = 0;
  lua_newtable(L);
  for (int i = 0; i < DOOR_FOLDERS; i++) {
    DIR *folder = door_folder(i, path, false, why) ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
      door_frame frame = {0};
      int pid = atoi(entry->d_name), fd = pid > 0 ? door_connect(pid, why) : -1;
      bool told = fd >= 0 && door_send(fd, '?', "", 0) && door_receive(fd, &frame) && frame.kind == '?';
      if (fd >= 0) close(fd);
      if (told) {
        lua_newtable(L);
        lua_pushinteger(L, pid);
        lua_setfield(L, -2, "pid");
        lua_pushstring(L, frame.text);
        lua_setfield(L, -2, "text");
        lua_rawseti(L, -2, ++n);
      }
      free(frame.text);
    }
    if (folder) closedir(folder);
  }
  return 1;
}

/* visit_begin(pid, hello) -> true; nil and why not */
static int visit_begin(lua_State *L)
{
  char why[DOOR_WHY];
  size_t n;
  const char *hello = luaL_checklstring(L, 2, &n);
  visited = door_connect((pid_t)luaL_checkinteger(L, 1), why);
  if (visited < 0) return visit_fail(L, why);
  if (!door_send(visited, 'h', hello, n)) return visit_fail(L, "it has gone");
  visit_over = false;
  lua_pushboolean(L, 1);
  return 1;
}

/* visit_send(kind, text) */
static int visit_send(lua_State *L)
{
  size_t n;
  const char *kind = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &n);
  if (visited < 0 || !door_send(visited, *kind, text, n)) visit_over = true;
  return 0;
}

/* Waits for the run. false: the time is over. Ctrl-C is passed on: it stops what was typed, not this program. */
static bool wait_for_run(double seconds, bool pass_on, bool *stopped)
{
  struct pollfd p = {.fd = visited, .events = POLLIN};
  int n;
  while ((n = poll(&p, 1, seconds < 0 ? -1 : (int)(seconds * 1000))) < 0) {
    if (errno != EINTR || capl_worker_stopped() != SIGINT) continue;
    *stopped = true;
    if (!pass_on) return false;
    capl_interrupt_clear();
    capl_worker_prompt(false); /* forgets the signal */
    door_send(visited, 'i', "", 0);
  }
  return n > 0;
}

static void print_frame(const door_frame *frame)
{
  FILE *stream = frame->kind == 'o' ? stdout : stderr;
  fwrite(frame->text, 1, frame->length, stream);
  fflush(stream);
}

/* visit_receive([seconds]) -> kind and text of the run's next answer, after printing what comes before it; "gone"; nil: nothing in
** that time; "stopped": Ctrl-C while the time was running */
static int visit_receive(lua_State *L)
{
  double seconds = luaL_optnumber(L, 1, -1);
  for (;;) {
    door_frame frame;
    bool stopped = false;
    if (!wait_for_run(seconds, seconds < 0, &stopped)) return stopped ? lua_pushliteral(L, "stopped"), 1 : 0;
    if (!door_receive(visited, &frame)) return visit_over = true, lua_pushliteral(L, "gone"), 1;
    if (frame.kind == 'o' || frame.kind == 'e') {
      print_frame(&frame);
      free(frame.text);
      continue;
    }
    if (frame.kind == 'g' || frame.kind == 'b') visit_over = true;
    lua_pushlstring(L, &frame.kind, 1);
    lua_pushlstring(L, frame.text, frame.length);
    free(frame.text);
    return 2;
  }
}

/* visit_prompt(greeting, verbose) -> exit status of a prompt whose lines are those of repl.remote */
static int visit_prompt(lua_State *L)
{
  capl_repl_options o = {.module = "repl.remote", .greeting = luaL_checkstring(L, 1), .over = &visit_over,
                         .verbose = lua_toboolean(L, 2)};
  int status = capl_repl_run(L, &o);
  lua_settop(L, 0);
  lua_pushinteger(L, status);
  return 1;
}

void capl_attach_add(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"door_describe", door_describe_as}, {"door_wanted", door_wanted}, {"door_hurried", door_hurried}, {"door_enter", door_let_in}, {"door_next", door_take},
    {"door_answer", door_say}, {"door_run", door_run}, {"door_leave", door_see_off}, {"visit_runs", visit_runs},
    {"visit_begin", visit_begin}, {"visit_send", visit_send}, {"visit_receive", visit_receive}, {"visit_prompt", visit_prompt},
    {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
