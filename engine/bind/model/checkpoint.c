/* checkpoint.c -- checkpoints for Lua: a text and named tensors in one file. lua/capl/train/tree.lua makes the text.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "base/assume.h"
#include "base/isa.h"
#include "bind/core/core.h"
#include "io/checkpoint.h"

/* checkpoint_save(path, text, {name = tensor}) */
static int core_checkpoint_save(lua_State *L)
{
  const char *path = bind_check_product(L, 1), *tree = bind_check_string(L, 2);
  int n;
  capl_named_tensor *list = bind_check_named(L, 3, &n);
  bind_check(L, checkpoint_save(path, tree, list, n), NULL);
  return 0;
}

static void text_release(char **text) { free(*text); }

/* checkpoint_load(path[, device]) -> text, {name = tensor} */
static int core_checkpoint_load(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  capl_device *device = bind_opt_device(L, 2);
  __attribute__((cleanup(text_release))) char *tree = NULL;
  capl_named_tensor *list;
  int n;
  bind_check(L, checkpoint_load(path, device, &tree, &list, &n), NULL);
  lua_pushstring(L, tree);
  bind_push_named(L, list, n);
  return 2;
}

/* isa() -> the instruction set of vector code here: "avx512", "avx2", "portable" */
static int core_isa(lua_State *L)
{
  capl_isa isa;
  bind_check(L, capl_isa_choose(&isa), NULL);
  lua_pushstring(L, capl_isa_name(isa));
  return 1;
}

/* assume() -> the text of CAPL_ASSUME; nil where no fact of the machine is forced */
static int core_assume(lua_State *L)
{
  lua_pushstring(L, capl_assume_text());
  return 1;
}

void bind_open_checkpoint(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"checkpoint_save", core_checkpoint_save}, {"checkpoint_load", core_checkpoint_load}, {"isa", core_isa},
    {"assume", core_assume}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
