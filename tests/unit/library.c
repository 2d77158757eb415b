/* library.c -- how the Lua library is loaded: as bytecode, part by part, with the compiler left as it was.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "bind/bind.h"

static lua_State *L;

static int new_state(void **state)
{
  (void)state;
  unsetenv("CAPL_LUA_PATH");
  assert_ok(capl_state_new(NULL, &L));
  return 0;
}

static int close_state(void **state)
{
  (void)state;
  capl_state_close(L);
  return 0;
}

static void run(const char *text)
{
  if (capl_bind_load(L, text, strlen(text), "=test") == 0 && capl_bind_call(L, 0, 0) == 0) return;
  fail_msg("%s", capl_bind_error_text(L, -1, false));
}

static bool has_loaded(const char *module)
{
  lua_getfield(L, LUA_REGISTRYINDEX, "capl.loaded");
  lua_getfield(L, -1, module);
  bool has = !lua_isnil(L, -1);
  lua_pop(L, 2);
  return has;
}

static int count_loaded(void)
{
  int n = 0;
  lua_getfield(L, LUA_REGISTRYINDEX, "capl.loaded");
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) n++;
  lua_pop(L, 1);
  return n;
}

static void a_line_that_uses_nothing_loads_no_part(void **state)
{
  (void)state;
  static const char *const parts[] = {"nn", "optim", "data", "augment", "plot", "train", "report", "run"};
  run("print(1)");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (has_loaded(parts[i])) fail_msg("%s was loaded", parts[i]);
  assert_in_range(count_loaded(), 1, 15);
}

static void a_part_is_loaded_when_it_is_first_read(void **state)
{
  (void)state;
  run("assert(optim.SGD)");
  assert_true(has_loaded("optim"));
  assert_false(has_loaded("train"));
}

static void bytecode_keeps_lines_and_names(void **state)
{
  (void)state;
  lua_Debug ar;
  lua_getfield(L, LUA_REGISTRYINDEX, "capl.bytecode");
  assert_true(lua_toboolean(L, -1));
  capl_bind_require(L, "module_class");
  lua_getfield(L, -1, "class");
  assert_string_equal(lua_getlocal(L, NULL, 1), "name");
  lua_getinfo(L, ">S", &ar);
  assert_string_equal(ar.source, "@capl:module_class.lua");
  assert_in_range(ar.linedefined, 5, 60);
}

static void another_luajit_reads_the_text(void **state)
{
  (void)state;
  lua_pushboolean(L, 0);
  lua_setfield(L, LUA_REGISTRYINDEX, "capl.bytecode");
  run("assert(tostring(nn.Linear(2, 1)) == 'Linear(2 -> 1)')");
}

static bool is_compiling(void)
{
  lua_getglobal(L, "jit");
  lua_getfield(L, -1, "status");
  lua_call(L, 0, 1);
  bool on = lua_toboolean(L, -1);
  lua_pop(L, 2);
  return on;
}

static void the_compiler_is_on_when_the_library_is_loaded(void **state)
{
  (void)state;
  assert_true(is_compiling());
  run("assert(nn and data)");
  assert_true(is_compiling());
}

/* Without a sandbox compiled code is switched off; a part that is loaded later must not switch it on. */
static void a_compiler_that_was_stopped_stays_so(void **state)
{
  (void)state;
  capl_bind_stop_compiler(L);
  run("assert(nn and data)");
  assert_false(is_compiling());
}

static void a_part_that_fails_leaves_the_compiler_and_the_collector_on(void **state)
{
  (void)state;
  capl_bind_environment(L);
  assert_int_not_equal(capl_bind_call_module(L, "no.such", "main", 0, 0), 0);
  assert_int_not_equal(capl_bind_call_module(L, "cli", "main", 0, 0), 0);
  assert_true(is_compiling());
  run("local before = collectgarbage('count') for i = 1, 1e6 do local t = {} end assert(collectgarbage('count') < "
      "before + 20000)");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, new_state, close_state)
  const struct CMUnitTest tests[] = {
      CASE(a_line_that_uses_nothing_loads_no_part),
      CASE(a_part_is_loaded_when_it_is_first_read),
      CASE(bytecode_keeps_lines_and_names),
      CASE(another_luajit_reads_the_text),
      CASE(the_compiler_is_on_when_the_library_is_loaded),
      CASE(a_compiler_that_was_stopped_stays_so),
      CASE(a_part_that_fails_leaves_the_compiler_and_the_collector_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
