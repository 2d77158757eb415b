/* worker.c -- the process that runs Lua: makes the state, takes the signals, calls the command's Lua module.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/worker.h"

#include <lauxlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "program/attach/attach.h"
#include "base/log.h"
#include "bind/core/core.h"
#include "capl/backend.h"
#include "capl/dist.h"
#include "program/confine.h"
#include "program/launch/worker_group.h"
#include "bind/core/locals.h"
#include "program/profile.h"
#include "program/program.h"
#include "program/prompt/prompt.h"
#include "program/prompt/repl.h"
#include "program/serve/command.h"
#include "bind/core/sys.h"

/* ---- signals --------------------------------------------------------------------------------- */

static pthread_t lua_thread;
static volatile sig_atomic_t stop_signal; /* first SIGINT, SIGTERM or SIGHUP since the last call began, 0 = none */
static double stop_since;
static volatile sig_atomic_t at_prompt;
static volatile sig_atomic_t has_prompt, warned; /* by stop_at_once, since the last line was read */

/* While signals are held, the first one waits for the next call of sys.hold, where the program is between two steps and
** can be saved. What takes longer than that between two calls is stopped at once, as without. */
static volatile sig_atomic_t holding; /* seconds, 0 = not held */
static double held_since;
static atomic_bool *saving;

static void set_saving(bool on)
{
  if (saving) atomic_store(saving, on);
}

/* What mpirun passes on to its ranks: SIGUSR1 stands for Ctrl-C, SIGUSR2 for SIGTERM, after which mpirun would kill
** them. */
static int meant(int signal)
{
  return signal == SIGUSR1 ? SIGINT : signal == SIGUSR2 ? SIGTERM : signal;
}

/* At a prompt somebody has a session to lose: there the second Ctrl-C only says so. */
static void stop_at_once(int signal)
{
  static const char text[] = "\ncapl: one operation is still at work, which cannot be stopped halfway; Ctrl-C once "
                             "more ends capl\n";
  if (signal == SIGINT && has_prompt && !warned) {
    warned = 1;
    stop_since = clock_now();
    if (write(STDERR_FILENO, text, sizeof text - 1) >= 0) return;
  }
  capl_sys_bar_leave();
  _exit(128 + signal);
}

/* The first signal unwinds Lua; a second one leaves at once, for code that never returns to Lua. The supervisor may
** pass on a signal that the process group got as well, so two within 0.2 s count as one. */
static void on_signal(int signal)
{
  if (!pthread_equal(pthread_self(), lua_thread)) {
    pthread_kill(lua_thread, signal); /* a compute thread caught it */
    return;
  }
  signal = meant(signal);
  if (at_prompt) {
    if (signal != SIGINT) _exit(128 + signal);
    capl_repl_wake();
    return;
  }
  if (stop_signal) {
    if (clock_now() - stop_since > 0.2) stop_at_once(signal);
    return;
  }
  stop_since = clock_now();
  stop_signal = signal;
  if (holding && clock_now() - held_since < holding)
    set_saving(true), capl_attach_stop_line(); /* a lock-free store; what a client has typed is no step */
  else
    capl_interrupt_request();
}

/* Whether this process was started with the signal ignored, as nohup does with SIGHUP. */
static bool is_ignored(int signal)
{
  struct sigaction action;
  return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void take_signals(lua_State *L, int ranks)
{
  lua_thread = pthread_self();
  capl_interrupt_install(L);
  capl_stack_guard();
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = CAPL_INTERRUPT_FLAGS};
  /* no SA_RESTART: a read at the prompt must end */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (!is_ignored(SIGHUP)) sigaction(SIGHUP, &action, NULL);
  if (ranks > 1) sigaction(SIGUSR1, &action, NULL), sigaction(SIGUSR2, &action, NULL);
}

void capl_worker_prompt(bool waiting)
{
  has_prompt = 1;
  warned = 0;
  at_prompt = waiting;
  stop_signal = 0;
}

int capl_worker_stopped(void)
{
  return stop_signal;
}

/* ---- quiet ends ------------------------------------------------------------------------------ */

static bool unwinding;

/* sys.unwind(): ends the innermost sys.guard. Uses the interrupt, which no pcall of a recipe can hold. */
static int sys_unwind(lua_State *L)
{
  unwinding = true;
  capl_interrupt_request();
  return luaL_error(L, "unwound");
}

/* sys.guard(f, …) -> true when f returned, false when sys.unwind ended it. Errors and Ctrl-C go on upwards. */
static int sys_guard(lua_State *L)
{
  unwinding = false;
  int failed = capl_bind_call(L, lua_gettop(L) - 1, 0);
  bool ended = unwinding && !stop_signal;
  unwinding = false;
  if (failed && !ended) {
    if (stop_signal) capl_interrupt_request(); /* the call above ended the interrupt; it is meant for all */
    return lua_error(L);
  }
  lua_pushboolean(L, !ended);
  return 1;
}

/* sys.hold(seconds) -> whether the program was asked to end, and the signal. Ctrl-C and its kin, from now on for so
** many seconds, wait for the next call; 0: they come at once again. Who gets true saves and calls sys.stop. */
static int sys_hold(lua_State *L)
{
  int seconds = (int)luaL_checkinteger(L, 1);
  holding = 0;
  held_since = clock_now();
  holding = seconds;
  lua_pushboolean(L, stop_signal != 0);
  if (!stop_signal) return 1;
  lua_pushinteger(L, stop_signal);
  return 2;
}

/* sys.signal(number): this program is asked to end as others were: SIGINT, SIGTERM or SIGHUP. */
static int sys_signal(lua_State *L)
{
  int number = (int)luaL_checkinteger(L, 1);
  luaL_argcheck(L, number == SIGINT || number == SIGTERM || number == SIGHUP, 1, "no signal that ends a run");
  raise(number);
  return 0;
}

/* sys.saving(on): while it is on, the supervisor of a run whose time is over lets it save. */
static int sys_saving(lua_State *L) { return set_saving(lua_toboolean(L, 1)), 0; }

/* sys.protect(f, …) -> "done"; "stopped" after Ctrl-C or SIGTERM; or "error" and the error. After "stopped" the caller
** may still save something (the next Ctrl-C leaves at once) and must then call sys.stop. sys.unwind goes through. */
static int sys_protect(lua_State *L)
{
  int failed = capl_bind_call(L, lua_gettop(L) - 1, 0);
  holding = 0;
  if (unwinding) {
    capl_interrupt_request(); /* the call above ended the interrupt; it is meant for sys.guard */
    return luaL_error(L, "unwound");
  }
  lua_pushstring(L, stop_signal ? "stopped" : failed ? "error" : "done");
  if (stop_signal || !failed) return 1;
  lua_insert(L, -2);
  return 2;
}

/* sys.stop(): goes on with the Ctrl-C that sys.protect has held. */
static int sys_stop(lua_State *L)
{
  bind_locals_stop(L);
  capl_interrupt_request();
  return luaL_error(L, "stopped");
}

/* sys.load(text, name) -> function in the recipe environment; raises what is wrong with the text. */
static int sys_load(lua_State *L)
{
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  if (capl_bind_load(L, text, n, luaL_checkstring(L, 2)) != 0) return lua_error(L);
  return 1;
}

/* sys.try_load(text, name[, environment]) -> the same, or nil and the message. environment: a table instead of a
** recipe's. */
static int sys_try_load(lua_State *L)
{
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  bool own = lua_istable(L, 3);
  if (capl_bind_load(L, text, n, luaL_checkstring(L, 2)) == 0) {
    if (own) lua_pushvalue(L, 3), lua_setfenv(L, -2);
    return 1;
  }
  lua_pushnil(L);
  capl_bind_error_text(L, -2, false);
  return 2;
}

/* Fields of a recipe's file in the table on top. word: what other processes are given, so that they run the same
** bytes. */
static void set_recipe_file(lua_State *L, const capl_recipe_file *file)
{
  lua_pushstring(L, file->path);
  lua_setfield(L, -2, "recipe");
  lua_pushlstring(L, file->text, file->size);
  lua_setfield(L, -2, "text");
  lua_pushstring(L, file->sha256);
  lua_setfield(L, -2, "sha256");
  lua_pushboolean(L, file->pinned);
  lua_setfield(L, -2, "pinned");
  lua_pushfstring(L, file->pinned ? "%s#sha256=%s" : "%s#bytes=%s", file->path, file->sha256);
  lua_setfield(L, -2, "word");
}

/* sys.recipe(word) -> {recipe = path, text, sha256, pinned, word} of FILE or FILE#sha256=HEX, for commands that start
** others with it, and the needs its header states */
static int sys_recipe(lua_State *L)
{
  capl_recipe_file file;
  capl_header header;
  bind_check(L, capl_recipe_file_read(luaL_checkstring(L, 1), &file), NULL);
  bind_check(L, capl_header_parse(file.path, file.text, file.size, &header), NULL);
  lua_newtable(L);
  set_recipe_file(L, &file);
  return 1;
}

/* sys.environment() -> the table of a recipe's globals */
static int sys_environment(lua_State *L)
{
  bind_whole_environment(L);
  return 1;
}

/* sys.metatable(value) -> its metatable, __metatable or not; for TAB */
static int sys_metatable(lua_State *L)
{
  luaL_checkany(L, 1);
  if (!lua_getmetatable(L, 1)) lua_pushnil(L);
  return 1;
}

/* ---- the state ------------------------------------------------------------------------------- */

/* Table of the job for lua/capl/cli. */
static void push_job(lua_State *L, const capl_job *job)
{
  const struct {
    const char *key, *value;
  } texts[] = {{"command", job->command}, {"usage", job->usage}, {"help", job->help}, {"recipe", job->recipe},
               {"program", job->program}, {"ranks_word", job->ranks_word},
               {"read", job->header.read}, {"plan_reason", job->plan_reason}};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    lua_pushstring(L, texts[i].value);
    lua_setfield(L, -2, texts[i].key);
  }
  lua_pushboolean(L, job->verbose);
  lua_setfield(L, -2, "verbose");
  if (job->file.text) set_recipe_file(L, &job->file);
  lua_pushboolean(L, job->trusted);
  lua_setfield(L, -2, "trusted");
  lua_pushboolean(L, job->allowed);
  lua_setfield(L, -2, "allowed");
  lua_pushboolean(L, job->interactive);
  lua_setfield(L, -2, "interactive");
  lua_pushnumber(L, job->header.minutes);
  lua_setfield(L, -2, "minutes");
  lua_pushinteger(L, job->ranks);
  lua_setfield(L, -2, "ranks");
  lua_createtable(L, job->argc, 0);
  for (int i = 0; i < job->argc; i++) {
    lua_pushstring(L, job->argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "args");
}

/* Adds to core.sys what only the program can do. */
static void add_sys(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"unwind", sys_unwind},       {"guard", sys_guard},         {"load", sys_load},
    {"protect", sys_protect},     {"stop", sys_stop},           {"hold", sys_hold},
    {"saving", sys_saving},       {"signal", sys_signal},       {"try_load", sys_try_load},
    {"recipe", sys_recipe},
    {"environment", sys_environment}, {"metatable", sys_metatable}, {NULL, NULL}};
  capl_bind_core(L);
  lua_getfield(L, -1, "sys");
  luaL_setfuncs(L, functions, 0);
  capl_confine_add(L);
  capl_locals_add(L);
  capl_program_add(L);
  capl_attach_add(L);
  capl_serve_add(L);
  capl_profile_push(L);
  lua_setfield(L, -2, "profile");
  capl_prompt_push(L);
  lua_setfield(L, -2, "prompt");
  lua_pop(L, 2);
}

/* CAPL_MEMORY_LIMIT=BYTES caps the tensors of the cpu device: for tests, and for machines shared with others. */
static capl_status limit_memory(void)
{
  const char *text = getenv("CAPL_MEMORY_LIMIT");
  if (!text) return CAPL_OK;
  char *end;
  unsigned long long bytes = strtoull(text, &end, 10);
  if (!*text || *end) return CAPL_FAIL(CAPL_EVALUE, "CAPL_MEMORY_LIMIT is a number of bytes, not '%s'", text);
  capl_device *device;
  CAPL_TRY(capl_device_open("cpu", &device));
  capl_memory_limit_set(device, (size_t)bytes);
  return CAPL_OK;
}

static int report(lua_State *L, const capl_job *job)
{
  capl_sys_bar_clear();
  if (stop_signal == SIGINT && job->rank == 0) fputs("capl: interrupted\n", stderr);
  if (stop_signal) return 128 + stop_signal;
  bool device = strcmp(capl_bind_error_code(L, -1), "device") == 0; /* such as a GPU that fell off its bus */
  int status = device ? EXIT_LOST : EXIT_ERROR;
  const char *text = capl_bind_error_text(L, -1, job->verbose);
  if (capl_world_fail(status, text)) fprintf(stderr, "%s\n", text);
  return status;
}

/* Another rank is lost, so this one cannot go on. Called by a thread of the engine while Lua may wait for ever. */
static void say_lost(const char *text, const char *hint)
{
  capl_sys_bar_leave();
  dprintf(STDERR_FILENO, *hint ? "capl: %s\n  hint: %s\n" : "capl: %s\n", text, hint);
}

static void end_lost(int status)
{
  if (ftrylockfile(stdout) == 0) fflush(stdout), funlockfile(stdout);
  _exit(status);
}

static int run_command(lua_State *L, const capl_job *job)
{
  push_job(L, job);
  if (capl_bind_call_module(L, "cli", "main", 1, 1) != 0) {
    fflush(stdout);
    return report(L, job);
  }
  return (int)lua_tointeger(L, -1);
}

/* -i: the prompt after a run, in the same state and the same sandbox. Only Ctrl-C leads to it, no other signal. */
static int look_around(lua_State *L, const capl_job *job, int status)
{
  if (stop_signal && stop_signal != SIGINT) return status;
  stop_signal = 0;
  holding = 0;
  capl_attach_held(true);
  lua_settop(L, 0);
  const char *greeting = NULL;
  if (capl_bind_call_module(L, "repl.frames", "of_ended", 0, 1) == 0) greeting = lua_tostring(L, -1);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, "capl.greeting"); /* the prompt clears the stack */
  return capl_repl_run(L, &(capl_repl_options){.verbose = job->verbose, .greeting = greeting});
}

/* The engine's notes, such as an op that falls to the slow reference. */
static void print_note(void *user, const char *line)
{
  (void)user;
  capl_sys_bar_clear();
  fprintf(stderr, "note: %s\n", line);
}

int capl_worker_run(const capl_job *job)
{
  lua_State *L = NULL;
  capl_confine_begin(job);
  if (limit_memory() != CAPL_OK || capl_state_new(NULL, &L) != CAPL_OK) {
    fprintf(stderr, "capl: %s\n", capl_error_last()->message);
    return 1;
  }
  saving = job->saving;
  capl_attach_hold(job->hold);
  capl_log_set(print_note, NULL);
  capl_world_on_lost(say_lost, end_lost);
  add_sys(L);
  capl_bind_recipe_folder(L, job->recipe);
  if (job->file.pinned) capl_bind_pin(L, job->file.text, job->file.size);
  take_signals(L, job->ranks);
  capl_bind_reserve(L);
  bool prompt = strcmp(job->command, "repl") == 0 && job->argc == 0;
  if (strcmp(job->command, "run") == 0 && job->rank == 0) capl_attach_open();
  int status = prompt ? capl_repl_run(L, &(capl_repl_options){.verbose = job->verbose}) : run_command(L, job);
  if (job->interactive && !prompt) status = look_around(L, job, status);
  capl_world_leave(status);
  capl_interrupt_remove(); /* a signal that comes while the state is closed has nothing left to stop */
  capl_state_close(L);
  return status;
}
