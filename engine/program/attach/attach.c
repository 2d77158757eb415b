/* attach.c -- both sides of `capl attach` for Lua: the run that lets somebody in, and the terminal that comes in.
**
** lua/capl/run/attach.lua says when somebody is let in and what lines mean; lua/capl/repl/remote.lua is the prompt whose lines
** run there. attach/gate.h tells what passes between them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/attach/attach.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bind/core/core.h"
#include "program/prompt/repl.h"
#include "bind/core/sys.h"
#include "program/attach/gate.h"
#include "program/launch/supervise.h"

/* ---- the run --------------------------------------------------------------------------------- */

static pthread_t lua_thread;
static volatile sig_atomic_t line_runs;

/* The line of a visitor is stopped by a signal of its own, to the thread that runs Lua: none that a run means anything by. */
enum { STOP_LINE = SIGURG };

void capl_attach_stop_line(void)
{
  if (line_runs) capl_interrupt_request();
}

static void on_stop_line(int signal)
{
  (void)signal;
  capl_attach_stop_line();
}

static void stop_line(void) { pthread_kill(lua_thread, STOP_LINE); }

void capl_attach_open(void)
{
  struct sigaction action = {.sa_handler = on_stop_line, .sa_flags = CAPL_INTERRUPT_FLAGS};
  lua_thread = pthread_self();
  sigaction(STOP_LINE, &action, NULL);
  gate_open(stop_line);
}

/* ---- time that does not count ----------------------------------------------------------------- */

static crew_hold *hold;

void capl_attach_hold(crew_hold *place) { hold = place; }

void capl_attach_held(bool on)
{
  if (!hold || on == (atomic_load(&hold->since_ms) > 0)) return;
  long long ms = (long long)(1e3 * clock_now());
  if (!on) atomic_fetch_add(&hold->before_ms, ms - atomic_load(&hold->since_ms));
  atomic_store(&hold->since_ms, on ? ms : 0);
}

/* gate_hold(on): the run is held from now on, or no longer. */
static int gate_hold(lua_State *L) { return capl_attach_held(lua_toboolean(L, 1)), 0; }

/* ---- letting somebody in ---------------------------------------------------------------------- */

/* gate_describe(json): what those hear who ask which runs there are. */
static int gate_describe_as(lua_State *L) { return gate_describe(luaL_checkstring(L, 1)), 0; }

/* gate_wanted() -> whether somebody waits to be let in */
static int gate_wanted(lua_State *L) { return lua_pushboolean(L, gate_is_wanted()), 1; }

/* gate_hurried() -> whether the visitor wants to have what it waits for now */
static int gate_hurried(lua_State *L) { return lua_pushboolean(L, gate_is_hurried()), 1; }

/* gate_enter() -> the visitor's hello; nil: it has gone again */
static int gate_let_in(lua_State *L) { return lua_pushstring(L, gate_enter()), 1; }

/* gate_next() -> "line", "complete", "leave", "gone" or "stop" (of the run, by a signal), and a text */
static int gate_take(lua_State *L)
{
  static const struct {
    char kind;
    const char *name;
  } names[] = {{'l', "line"}, {'t', "complete"}, {'q', "leave"}, {'i', "stop"}};
  const char *name = "gone";
  gate_frame frame = {.kind = 'i'};
  while (frame.kind == 'i' && !capl_worker_stopped()) gate_next(&frame);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].kind == frame.kind) name = names[i].name;
  lua_pushstring(L, name);
  lua_pushlstring(L, frame.text ? frame.text : "", frame.length);
  free(frame.text);
  return 2;
}

/* gate_answer(kind, text) */
static int gate_say(lua_State *L)
{
  size_t n;
  const char *kind = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &n);
  lua_pushboolean(L, gate_answer(*kind, text, n));
  return 1;
}

/* gate_run(f, …) -> true, results; or false, the error's text and code. What it prints goes to the visitor, who may stop it; what
** it makes belongs to no scope of the run. columns: of the visitor's terminal, 0 = it is none */
static int gate_run(lua_State *L)
{
  int columns = (int)luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  bool there = gate_print_there(true);
  int scopes = bind_scope_leave_all(), former = capl_sys_columns(columns);
  line_runs = 1;
  int failed = capl_bind_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  line_runs = 0;
  capl_interrupt_clear();
  capl_sys_columns(former);
  bind_scope_return(scopes);
  if (there) gate_print_there(false);
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

/* gate_leave(why) */
static int gate_see_off(lua_State *L) { return gate_leave(luaL_checkstring(L, 1)), 0; }

/* ---- the terminal ---------------------------------------------------------------------------- */

static int visited = -1;  /* descriptor of the run's gate */
static bool visit_over;   /* the run has said so, or is gone */

static int visit_fail(lua_State *L, const char *why)
{
  if (visited >= 0) close(visited);
  visited = -1;
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* visit_runs() -> list of {pid =, text = JSON} of all runs of this user that have a gate; no text: it does not answer */
static int visit_runs(lua_State *L)
{
  char path[GATE_PATH], why[GATE_WHY];
  int n = 0;
  lua_newtable(L);
  for (int i = 0; i < GATE_FOLDERS; i++) {
    DIR *folder = gate_folder(i, path, false, why) ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
      gate_frame frame = {0};
      int pid = atoi(entry->d_name), fd = pid > 0 ? gate_connect(pid, why) : -1;
      bool told = fd >= 0 && gate_send(fd, '?', "", 0) && gate_receive(fd, &frame) && frame.kind == '?';
      if (fd >= 0) close(fd);
      if (fd >= 0) {
        lua_newtable(L);
        lua_pushinteger(L, pid);
        lua_setfield(L, -2, "pid");
        lua_pushstring(L, told ? frame.text : NULL);
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
  char why[GATE_WHY];
  size_t n;
  const char *hello = luaL_checklstring(L, 2, &n);
  visited = gate_connect((pid_t)luaL_checkinteger(L, 1), why);
  if (visited < 0) return visit_fail(L, why);
  if (!gate_send(visited, 'h', hello, n)) return visit_fail(L, "it has gone");
  gate_patience(visited, 0, 0);
  visit_over = false;
  lua_pushboolean(L, 1);
  return 1;
}

/* visit_send(kind, text) */
static int visit_send(lua_State *L)
{
  size_t n;
  const char *kind = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &n);
  if (visited < 0 || !gate_send(visited, *kind, text, n)) visit_over = true;
  return 0;
}

/* Waits for the run. false: the time is over, or this program is asked to end. Ctrl-C is passed on: it stops what was typed, not
** this program. */
static bool wait_for_run(double seconds, bool pass_on, bool *stopped)
{
  struct pollfd p = {.fd = visited, .events = POLLIN};
  int n;
  while ((n = poll(&p, 1, seconds < 0 ? -1 : (int)(seconds * 1000))) < 0) {
    if (errno != EINTR || !capl_worker_stopped()) continue;
    *stopped = true;
    if (!pass_on || capl_worker_stopped() != SIGINT) return false;
    capl_interrupt_clear();
    capl_worker_prompt(false); /* forgets the signal */
    gate_send(visited, 'i', "", 0);
  }
  return n > 0;
}

static void print_frame(const gate_frame *frame)
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
  if (visited < 0) return lua_pushliteral(L, "gone"), 1;
  for (;;) {
    gate_frame frame;
    bool stopped = false;
    if (!wait_for_run(seconds, seconds < 0, &stopped)) return stopped ? (lua_pushliteral(L, "stopped"), 1) : 0;
    if (!gate_receive(visited, &frame)) return visit_over = true, lua_pushliteral(L, "gone"), 1;
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
  capl_repl_options o = {.module = "repl.remote", .greeting = luaL_checkstring(L, 1), .over = &visit_over, .watch = visited,
                         .verbose = lua_toboolean(L, 2)};
  int status = capl_repl_run(L, &o);
  if (capl_worker_stopped() && visited >= 0) { /* nothing is waited for: the run sees that nobody is there */
    close(visited);
    visited = -1;
  }
  lua_settop(L, 0);
  lua_pushinteger(L, status);
  return 1;
}

void capl_attach_add(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"gate_describe", gate_describe_as}, {"gate_hold", gate_hold}, {"gate_wanted", gate_wanted}, {"gate_hurried", gate_hurried}, {"gate_enter", gate_let_in}, {"gate_next", gate_take},
    {"gate_answer", gate_say}, {"gate_run", gate_run}, {"gate_leave", gate_see_off}, {"visit_runs", visit_runs},
    {"visit_begin", visit_begin}, {"visit_send", visit_send}, {"visit_receive", visit_receive}, {"visit_prompt", visit_prompt},
    {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
