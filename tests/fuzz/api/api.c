/* api.c -- runs the fuzzer of what recipes can call: a state with capl in it, a driver in Lua, and what Lua cannot do itself.
**
**   fuzz_api LOG DRIVER.lua WORD…
**
** The driver gets a table of functions, the core table and the words. Before each call it writes that call to LOG, which
** needs no flush, so that a crash leaves its cause behind. A call that takes too much processor time gets a Ctrl-C; one that
** does not stop then is a hang, and ends the process.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "bind/bind.h"
#include "capl/backend.h"
#include "capl/capl.h"

enum { CALL_SECONDS = 1, STOP_SECONDS = 5, TENSOR_BYTES = 256 << 20 };

static int log_fd;

/* ---- time ------------------------------------------------------------------------------------ */

static volatile sig_atomic_t asked; /* the call that runs has got its Ctrl-C */

static void set_timer(int seconds)
{
  setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value = {seconds, 0}}, NULL);
}

static void on_time(int signal)
{
  (void)signal;
  if (asked) {
    static const char text[] = "H\n";
    if (write(log_fd, text, sizeof text - 1) < 0) _exit(3);
    abort();
  }
  asked = 1;
  capl_interrupt_request();
  set_timer(STOP_SECONDS);
}

/* ---- functions of the driver ----------------------------------------------------------------- */

/* say(line): to the log, at once */
static int fuzz_say(lua_State *L)
{
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  if (write(log_fd, text, n) != (ssize_t)n || write(log_fd, "\n", 1) != 1) return luaL_error(L, "the log cannot be written");
  return 0;
}

static void limit_tensors(void)
{
  static const char *const devices[] = {"cpu", "ref"};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    capl_device *device;
    if (capl_device_open(devices[i], &device) == CAPL_OK) capl_memory_limit_set(device, TENSOR_BYTES);
  }
}

/* try(f, …) -> true and its first result; or false, the error's text, its code, its text with traceback, the error itself */
static int fuzz_try(lua_State *L)
{
  limit_tensors();
  asked = 0;
  set_timer(CALL_SECONDS);
  int failed = capl_bind_call(L, lua_gettop(L) - 1, 1);
  set_timer(0);
  lua_pushboolean(L, !failed);
  if (!failed) return lua_insert(L, -2), 2;
  capl_bind_error_text(L, -2, false);
  lua_pushstring(L, capl_bind_error_code(L, -3));
  capl_bind_error_text(L, -4, true);
  lua_pushvalue(L, -5);
  return 5;
}

/* meta(value) -> its metatable, whatever that says of itself */
static int fuzz_meta(lua_State *L)
{
  luaL_checkany(L, 1);
  if (!lua_getmetatable(L, 1)) lua_pushnil(L);
  return 1;
}

/* load(text, name) -> a function in the recipe environment; or nil */
static int fuzz_load(lua_State *L)
{
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  if (capl_bind_load(L, text, n, luaL_checkstring(L, 2)) != 0) lua_pushnil(L);
  return 1;
}

/* read(path) -> the text of a file */
static int fuzz_read(lua_State *L)
{
  char part[4096];
  FILE *file = fopen(luaL_checkstring(L, 1), "rb");
  if (!file) return luaL_error(L, "%s cannot be read", lua_tostring(L, 1));
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) luaL_addlstring(&text, part, n);
  fclose(file);
  luaL_pushresult(&text);
  return 1;
}

/* environment() -> the globals of recipes */
static int fuzz_environment(lua_State *L)
{
  capl_bind_environment(L);
  return 1;
}

static int fuzz_import(lua_State *L)
{
  lua_pushfstring(L, "%s/%s.lua", lua_tostring(L, lua_upvalueindex(1)), luaL_checkstring(L, 1));
  if (luaL_loadfile(L, lua_tostring(L, -1)) != 0) return lua_error(L);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_call(L, 1, 1);
  return 1;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* import(name) -> what the file name.lua beside the driver returns; it gets this table. */
static void push_import(lua_State *L, const char *driver)
{
  const char *slash = strrchr(driver, '/');
  lua_pushlstring(L, driver, slash ? (size_t)(slash - driver) : 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "folder");
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, fuzz_import, 2);
  lua_setfield(L, -2, "import");
}

static void push_arguments(lua_State *L, int argc, char **argv)
{
  static const luaL_Reg functions[] = {{"say", fuzz_say},   {"try", fuzz_try},                 {"meta", fuzz_meta},
                                       {"load", fuzz_load}, {"environment", fuzz_environment},
                                       {"read", fuzz_read}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  push_import(L, argv[2]);
  capl_bind_core(L);
  lua_setfield(L, -2, "core");
  for (int i = 3; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 2);
  }
}

static int run_driver(lua_State *L)
{
  char **argv = lua_touserdata(L, 1);
  int argc = (int)lua_tointeger(L, 2);
  if (luaL_loadfile(L, argv[2]) != 0) return lua_error(L);
  push_arguments(L, argc, argv);
  lua_call(L, 1, 0);
  return 0;
}

static void limit_files(void)
{
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){64 << 20, 64 << 20});
  signal(SIGXFSZ, SIG_IGN);
}

int main(int argc, char **argv)
{
  lua_State *L;
  if (argc < 3) return fprintf(stderr, "usage: fuzz_api LOG DRIVER.lua WORD...\n"), 2;
  log_fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log_fd < 0) return perror(argv[1]), 2;
  limit_files();
  if (capl_state_new(NULL, &L) != CAPL_OK) return fprintf(stderr, "%s\n", capl_error_last()->message), 2;
  capl_interrupt_install(L);
  sigaction(SIGVTALRM, &(struct sigaction){.sa_handler = on_time, .sa_flags = CAPL_INTERRUPT_FLAGS}, NULL);
  lua_pushcfunction(L, run_driver);
  lua_pushlightuserdata(L, argv);
  lua_pushinteger(L, argc);
  int failed = capl_bind_call(L, 2, 0);
  if (failed) fprintf(stderr, "fuzz_api: %s\n", capl_bind_error_text(L, -1, true));
  capl_interrupt_remove();
  capl_state_close(L);
  return failed ? 2 : 0;
}
