/* attach.c -- both sides of `capl attach` for Lua: the run that lets somebody in, and the terminal that comes in.
**
** lua/capl/run/attach.lua says when somebody is let in and what lines mean; lua/capl/repl/remote.lua is the prompt
** whose lines run there. attach/socket.h defines the protocol.
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
#include "program/attach/socket.h"
#include "program/attach/hold.h"

/* ---- the run --------------------------------------------------------------------------------- */

static pthread_t lua_thread;
static volatile sig_atomic_t line_runs;

/* The line of a client is stopped by a signal of its own, to the thread that runs Lua: none that a run means anything
** by. */
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
  attach_open(stop_line);
}

/* ---- time that does not count ----------------------------------------------------------------- */

static time_hold *hold;

void capl_attach_hold(time_hold *place) { hold = place; }

void capl_attach_held(bool on)
{
  if (!hold || on == (atomic_load(&hold->since_ms) > 0)) return;
  long long ms = (long long)(1e3 * clock_now());
  if (!on) atomic_fetch_add(&hold->before_ms, ms - atomic_load(&hold->since_ms));
  atomic_store(&hold->since_ms, on ? ms : 0);
}

/* attach_hold(on): the run is held from now on, or no longer. */
static int attach_hold(lua_State *L) { return capl_attach_held(lua_toboolean(L, 1)), 0; }

/* ---- letting somebody in ---------------------------------------------------------------------- */

/* attach_describe(json): what those hear who ask which runs there are. */
static int attach_describe_as(lua_State *L) { return attach_describe(luaL_checkstring(L, 1)), 0; }

/* attach_wanted() -> whether somebody waits to be let in */
static int attach_wanted(lua_State *L) { return lua_pushboolean(L, attach_is_wanted()), 1; }

/* attach_hurried() -> whether the client wants to have what it waits for now */
static int attach_hurried(lua_State *L) { return lua_pushboolean(L, attach_is_hurried()), 1; }

/* attach_enter() -> the client's hello; nil: it has gone again */
static int attach_accept(lua_State *L) { return lua_pushstring(L, attach_enter()), 1; }

/* attach_next() -> "line", "complete", "leave", "gone" or "stop" (of the run, by a signal), and a text */
static int attach_take(lua_State *L)
{
  static const struct {
    char kind;
    const char *name;
  } names[] = {{'l', "line"}, {'t', "complete"}, {'q', "leave"}, {'i', "stop"}};
  const char *name = "gone";
  attach_frame frame = {.kind = 'i'};
  while (frame.kind == 'i' && !capl_worker_stopped()) attach_next(&frame);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].kind == frame.kind) name = names[i].name;
  lua_pushstring(L, name);
  lua_pushlstring(L, frame.text ? frame.text : "", frame.length);
  free(frame.text);
  return 2;
}

/* attach_answer(kind, text) */
static int attach_say(lua_State *L)
{
  size_t n;
  const char *kind = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &n);
  lua_pushboolean(L, attach_answer(*kind, text, n));
  return 1;
}

/* attach_run(f, …) -> true, results; or false, the error's text and code. What it prints goes to the client, who may
** stop it; what it makes belongs to no scope of the run. columns: of the client's terminal, 0 = it is none */
static int attach_run(lua_State *L)
{
  int columns = (int)luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  bool there = attach_print_there(true);
  int scopes = bind_scope_leave_all(), former = capl_sys_columns(columns);
  line_runs = 1;
  int failed = capl_bind_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  line_runs = 0;
  capl_interrupt_clear();
  capl_sys_columns(former);
  bind_scope_return(scopes);
  if (there) attach_print_there(false);
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

/* attach_leave(why) */
static int attach_disconnect(lua_State *L) { return attach_leave(luaL_checkstring(L, 1)), 0; }

/* ---- the terminal ---------------------------------------------------------------------------- */

static int connection = -1;  /* descriptor of the run's socket */
static bool session_over;   /* the run has said so, or is gone */

static int client_fail(lua_State *L, const char *why)
{
  if (connection >= 0) close(connection);
  connection = -1;
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* client_runs() -> list of {pid =, text = JSON} of all runs of this user that have a socket; no text: it does not
** answer */
static int client_runs(lua_State *L)
{
  char path[ATTACH_PATH], why[ATTACH_WHY];
  int n = 0;
  lua_newtable(L);
  for (int i = 0; i < ATTACH_FOLDERS; i++) {
    DIR *folder = attach_folder(i, path, false, why) ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
      attach_frame frame = {0};
      int pid = atoi(entry->d_name), fd = pid > 0 ? attach_connect(pid, why) : -1;
      bool described = fd >= 0 && attach_send(fd, '?', "", 0) && attach_receive(fd, &frame) && frame.kind == '?';
      if (fd >= 0) close(fd);
      if (fd >= 0) {
        lua_newtable(L);
        lua_pushinteger(L, pid);
        lua_setfield(L, -2, "pid");
        lua_pushstring(L, described ? frame.text : NULL);
        lua_setfield(L, -2, "text");
        lua_rawseti(L, -2, ++n);
      }
      free(frame.text);
    }
    if (folder) closedir(folder);
  }
  return 1;
}

/* client_begin(pid, hello) -> true; nil and why not */
static int client_begin(lua_State *L)
{
  char why[ATTACH_WHY];
  size_t n;
  const char *hello = luaL_checklstring(L, 2, &n);
  connection = attach_connect((pid_t)luaL_checkinteger(L, 1), why);
  if (connection < 0) return client_fail(L, why);
  if (!attach_send(connection, 'h', hello, n)) return client_fail(L, "it has gone");
  attach_patience(connection, 0, 0);
  session_over = false;
  lua_pushboolean(L, 1);
  return 1;
}

/* client_send(kind, text) */
static int client_send(lua_State *L)
{
  size_t n;
  const char *kind = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &n);
  if (connection < 0 || !attach_send(connection, *kind, text, n)) session_over = true;
  return 0;
}

/* Waits for the run. false: the time is over, or this program is asked to end. Ctrl-C is passed on: it stops what was
** typed, not this program. */
static bool wait_for_run(double seconds, bool pass_on, bool *stopped)
{
  struct pollfd p = {.fd = connection, .events = POLLIN};
  int n;
  while ((n = poll(&p, 1, seconds < 0 ? -1 : (int)(seconds * 1000))) < 0) {
    if (errno != EINTR || !capl_worker_stopped()) continue;
    *stopped = true;
    if (!pass_on || capl_worker_stopped() != SIGINT) return false;
    capl_interrupt_clear();
    capl_worker_prompt(false); /* forgets the signal */
    attach_send(connection, 'i', "", 0);
  }
  return n > 0;
}

static void print_frame(const attach_frame *frame)
{
  FILE *stream = frame->kind == 'o' ? stdout : stderr;
  fwrite(frame->text, 1, frame->length, stream);
  fflush(stream);
}

/* client_receive([seconds]) -> kind and text of the run's next answer, after printing what comes before it; "gone";
** nil: nothing in that time; "stopped": Ctrl-C while the time was running */
static int client_receive(lua_State *L)
{
  double seconds = luaL_optnumber(L, 1, -1);
  if (connection < 0) return lua_pushliteral(L, "gone"), 1;
  for (;;) {
    attach_frame frame;
    bool stopped = false;
    if (!wait_for_run(seconds, seconds < 0, &stopped)) return stopped ? (lua_pushliteral(L, "stopped"), 1) : 0;
    if (!attach_receive(connection, &frame)) return session_over = true, lua_pushliteral(L, "gone"), 1;
    if (frame.kind == 'o' || frame.kind == 'e') {
      print_frame(&frame);
      free(frame.text);
      continue;
    }
    if (frame.kind == 'g' || frame.kind == 'b') session_over = true;
    lua_pushlstring(L, &frame.kind, 1);
    lua_pushlstring(L, frame.text, frame.length);
    free(frame.text);
    return 2;
  }
}

/* client_prompt(greeting, verbose) -> exit status of a prompt whose lines are those of repl.remote */
static int client_prompt(lua_State *L)
{
  capl_repl_options o = {.module = "repl.remote", .greeting = luaL_checkstring(L, 1), .over = &session_over,
                         .watch = connection, .verbose = lua_toboolean(L, 2)};
  int status = capl_repl_run(L, &o);
  if (capl_worker_stopped() && connection >= 0) { /* nothing is waited for: the run sees that nobody is there */
    close(connection);
    connection = -1;
  }
  lua_settop(L, 0);
  lua_pushinteger(L, status);
  return 1;
}

void capl_attach_add(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"attach_describe", attach_describe_as}, {"attach_hold", attach_hold}, {"attach_wanted", attach_wanted},
    {"attach_hurried", attach_hurried}, {"attach_enter", attach_accept}, {"attach_next", attach_take},
    {"attach_answer", attach_say}, {"attach_run", attach_run}, {"attach_leave", attach_disconnect},
    {"client_runs", client_runs}, {"client_begin", client_begin}, {"client_send", client_send},
    {"client_receive", client_receive}, {"client_prompt", client_prompt}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
