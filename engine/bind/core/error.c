/* error.c -- from the engine's error record to a Lua error table that names recipe line and layer.
**
** The happy path pays nothing: the Lua stack is walked only here, when an error is raised. The first frame
** whose chunk is not "@capl:" gives the recipe line; frames whose first local is a module called self give
** the layers. A recipe's own tail call hides its line.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "bind/core/locals.h"

#define ERROR_TYPE "capl.error"
#define DESCRIBE_KEY "capl.describe_path"

/* ---- where ----------------------------------------------------------------------------------- */

static bool is_library(const lua_Debug *ar) { return strncmp(ar->source, "@capl:", 6) == 0; }

/* Pushes "recipe.lua:41", or nil when no recipe is running. */
static void push_where(lua_State *L)
{
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || is_library(&ar)) continue;
    const char *name = *ar.source == '@' ? ar.source + 1 : ar.short_src;
    lua_pushfstring(L, "%s:%d", name, ar.currentline);
    return;
  }
  lua_pushnil(L);
}

void bind_where(lua_State *L, char *buf, size_t len)
{
  luaL_checkstack(L, 4, "where");
  push_where(L);
  snprintf(buf, len, "%s", lua_isnil(L, -1) ? "" : lua_tostring(L, -1));
  lua_pop(L, 1);
}

static bool is_module(lua_State *L, int i)
{
  if (!lua_istable(L, i) || !lua_getmetatable(L, i)) return false;
  lua_pushliteral(L, "__module");
  lua_rawget(L, -2);
  bool yes = lua_toboolean(L, -1);
  lua_pop(L, 2);
  return yes;
}

/* Pushes the list of modules whose functions are running, innermost first, and the name by which the
** outermost was called. */
static void push_modules(lua_State *L)
{
  lua_Debug ar;
  char root[64] = "";
  int n = 0;
  lua_newtable(L);
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    const char *local = lua_getlocal(L, &ar, 1);
    if (!local) continue;
    if (strcmp(local, "self") == 0 && is_module(L, -1)) {
      lua_rawseti(L, -2, ++n);
      lua_getinfo(L, "n", &ar);
      bool named = ar.name && (strcmp(ar.namewhat, "local") == 0 || strcmp(ar.namewhat, "upvalue") == 0 ||
                               strcmp(ar.namewhat, "global") == 0);
      snprintf(root, sizeof root, "%s", named ? ar.name : "");
    } else {
      lua_pop(L, 1);
    }
  }
  lua_pushstring(L, root);
}

/* Pushes "net > [2] Block > [1] Conv2d(1 -> 64, 3x3)", or nil outside modules. The library's Lua writes it.
 */
static void push_path(lua_State *L)
{
  lua_getfield(L, LUA_REGISTRYINDEX, DESCRIBE_KEY);
  if (!lua_isfunction(L, -1)) {
    lua_pop(L, 1);
    lua_pushnil(L);
    return;
  }
  push_modules(L);
  if (lua_pcall(L, 2, 1, 0) != 0 || !lua_isstring(L, -1)) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Sets where and path of the error table on top, unless the raiser gave them. */
static void locate(lua_State *L, bool path)
{
  push_where(L);
  lua_setfield(L, -2, "where");
  if (!path) return;
  push_path(L);
  lua_setfield(L, -2, "path");
}

static void set_text(lua_State *L, const char *key, const char *text)
{
  if (!text || !*text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

/* The dispatcher and some rules start their message with the op's name; the table has its own field. */
static const char *without_op(const char *message, const char *op)
{
  size_t n = op ? strlen(op) : 0;
  return n && strncmp(message, op, n) == 0 && strncmp(message + n, ": ", 2) == 0 ? message + n + 2 : message;
}

int bind_raise(lua_State *L, const char *op)
{
  const capl_error *e = capl_error_last();
  luaL_checkstack(L, 16, "error");
  lua_createtable(L, 0, 8);
  set_text(L, "code", capl_status_name(e->code));
  set_text(L, "op", op);
  set_text(L, "message", without_op(e->message, op));
  set_text(L, "context", e->context);
  set_text(L, "hint", e->hint);
  luaL_setmetatable(L, ERROR_TYPE);
  locate(L, !capl_interrupt_pending()); /* the path comes from Lua, which is being stopped */
  return lua_error(L);
}

int bind_fail(lua_State *L, capl_status code, const char *op, const char *hint, const char *fmt, ...)
{
  char message[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  CAPL_FAIL(code, "%s", message);
  if (hint) capl_error_hint("%s", hint);
  return bind_raise(L, op);
}

int bind_arg_error(lua_State *L, int i, const char *fmt, ...)
{
  char what[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  lua_Debug ar = {0};
  if (lua_getstack(L, 0, &ar)) lua_getinfo(L, "n", &ar);
  const char *name = ar.name ? ar.name : "?";
  if (ar.namewhat && strcmp(ar.namewhat, "method") == 0 && --i == 0)
    return bind_fail(L, CAPL_EVALUE, NULL, "call it with a colon: x:name(...)", "bad self in '%s' (%s)", name,
                     what);
  return bind_fail(L, CAPL_EVALUE, NULL, NULL, "bad argument #%d to '%s' (%s)", i, name, what);
}

int bind_type_error(lua_State *L, int i, const char *expected)
{
  return bind_arg_error(L, i, "%s expected, got %s", expected, bind_typename(L, i));
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool is_error(lua_State *L, int i)
{
  if (!lua_istable(L, i) || !lua_getmetatable(L, i)) return false;
  luaL_getmetatable(L, ERROR_TYPE);
  bool yes = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return yes;
}

/* The text of a field, or NULL; stays on the stack until *pushed are popped. */
static const char *field_text(lua_State *L, int i, const char *key)
{
  lua_pushstring(L, key);
  lua_rawget(L, i);
  return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
}

static void add_indented(luaL_Buffer *b, const char *text)
{
  while (text && *text) {
    size_t n = strcspn(text, "\n");
    luaL_addstring(b, "\n  ");
    luaL_addlstring(b, text, n);
    text += n + (text[n] == '\n');
  }
}

/* recipe:line: op: message / shapes / in layers / hint */
static int error_tostring(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  const char *where = field_text(L, 1, "where"), *op = field_text(L, 1, "op");
  const char *message = field_text(L, 1, "message"), *context = field_text(L, 1, "context");
  const char *path = field_text(L, 1, "path"), *hint = field_text(L, 1, "hint");
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  if (where) luaL_addstring(&b, where), luaL_addstring(&b, ": ");
  if (op) luaL_addstring(&b, op), luaL_addstring(&b, ": ");
  luaL_addstring(&b, message ? message : "error without a message");
  add_indented(&b, context);
  if (path) luaL_addstring(&b, "\n  in "), luaL_addstring(&b, path);
  if (hint) luaL_addstring(&b, "\n  hint: "), luaL_addstring(&b, hint);
  luaL_pushresult(&b);
  return 1;
}

/* text without control characters, at most lines of it. Pushed. */
static const char *push_shown(lua_State *L, const char *text, int lines)
{
  const char *end = text;
  while (*end && lines > 0) lines -= *end++ == '\n';
  int more = *end != '\0';
  for (const char *p = end; *p; p++) more += *p == '\n';
  lua_pushlstring(L, text, (size_t)(end - text));
  size_t room = lines < INT_MAX / 2 ? 4096 : 4 * (size_t)(end - text) + 16; /* \x1b for each byte */
  char *shown = lua_newuserdata(L, room);
  capl_text_show(shown, room, lua_tostring(L, -2), true);
  lua_pushfstring(L, more ? "%s… and %d more lines; capl -v shows all" : "%s", shown, more);
  lua_replace(L, -3);
  lua_pop(L, 1);
  return lua_tostring(L, -1);
}

/* Any value as a text, or NULL when it has none to give. Pushed unless NULL. */
static const char *push_text(lua_State *L, int index)
{
  if (lua_isstring(L, index)) return lua_pushvalue(L, index), lua_tostring(L, -1);
  if (!luaL_getmetafield(L, index, "__tostring")) return NULL;
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, 1, 0) == 0 && lua_isstring(L, -1)) return lua_tostring(L, -1);
  lua_pop(L, 1);
  return NULL;
}

const char *capl_bind_error_text(lua_State *L, int index, bool verbose)
{
  enum { SCREEN = 20 };
  int top = lua_gettop(L);
  if (index < 0) index = top + 1 + index;
  const char *text = push_text(L, index);
  if (!text) text = lua_pushfstring(L, "an error without a text");
  const char *traceback = verbose && is_error(L, index) ? field_text(L, index, "traceback") : NULL;
  if (traceback) text = lua_pushfstring(L, "%s\n%s", text, traceback);
  push_shown(L, text, verbose ? INT_MAX : SCREEN);
  lua_replace(L, top + 1); /* over what else was pushed: one value in all */
  lua_settop(L, top + 1);
  return lua_tostring(L, -1);
}

const char *capl_bind_error_code(lua_State *L, int index)
{
  if (index < 0) index = lua_gettop(L) + 1 + index;
  if (!is_error(L, index)) return "lua";
  const char *code = field_text(L, index, "code");
  lua_pop(L, 1);
  return code ? code : "lua";
}

/* ---- protected calls ------------------------------------------------------------------------- */

/* ---- near names ------------------------------------------------------------------------------ */

/* Suggests the string keys of the table on top; of a read-only view, those of the table behind it. */
static void suggest_keys(lua_State *L, capl_suggestion *s)
{
  int top = lua_gettop(L);
  lua_pushvalue(L, top);
  if (luaL_getmetafield(L, top, "__index") && !lua_istable(L, -1)) lua_pop(L, 1);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING) capl_suggest(s, lua_tostring(L, -2));
  lua_settop(L, top);
}

/* Pushes the nearest name in one of the environment's tables as "nn.Conv2d", or nil. */
static void push_near_field(lua_State *L, const char *wanted)
{
  capl_suggestion best = {.wanted = wanted};
  lua_pushnil(L); /* the answer */
  bind_whole_environment(L);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (!lua_istable(L, -1) || lua_type(L, -2) != LUA_TSTRING) continue;
    const char *before = best.nearest;
    suggest_keys(L, &best);
    if (best.nearest == before) continue;
    lua_pushfstring(L, "%s.%s", lua_tostring(L, -2), best.nearest);
    lua_replace(L, -5);
  }
  lua_pop(L, 1);
}

/* What other programs have by these names, and what there is instead; ":name" is a method. */
static const char *there_is_instead(const char *name)
{
  static const struct { const char *name, *instead; } known[] = {
    {"io", "there is no io: data.folder and data.list read images, capl.io tensors and models; print and train.Log "
           "write"},
    {"os", "there is no os: capl.clock() returns seconds, capl.params reads the command line"},
    {"torch", "what torch has is in capl, nn and optim: capl.randn, nn.Linear, optim.Adam; docs/from-pytorch.md"},
    {"np", "what numpy has is in capl: capl.zeros, x:mean()"},
    {"dofile", "require \"name\" runs name.lua from beside the recipe"},
    {"loadfile", "require \"name\" runs name.lua from beside the recipe"},
    {"package", "require \"name\" runs name.lua from the folder of the recipe; no other folder is searched"},
    {"jit", "recipes have no jit: docs/sandbox.md"},
    {"ffi", "recipes have no ffi: docs/sandbox.md"},
    {"debug", "recipes have no debug: errors show their stack; docs/sandbox.md"},
    {"len", "#x is the length of a list or a text, x:size(1) of a tensor"},
    {"range", "for i = 1, n do … end; capl.arange(n) is a tensor"},
    {":cuda", "model:to(\"cuda\")"}, {":cpu", "model:to(\"cpu\")"}, {":half", "model:to(\"f16\")"},
    {":float", "model:to(\"f32\")"}, {":double", "model:to(\"f64\")"}, {":bfloat16", "model:to(\"bf16\")"},
    {":modules", "for name, m in model:named_modules() do … end"},
    {":buffers", "for name, t in model:named_buffers() do … end"},
    {":register_forward_hook", "a class of your own whose forward calls the layer: docs/nn.md"},
    {":compile", "capl.fuse is on by default; capl.capture(step) replays a step on a GPU"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) return known[i].instead;
  return NULL;
}

/* Sets the hint of the error table on top when text complains of a global or field that does not exist. */
static void hint_near_name(lua_State *L, const char *text)
{
  char kind[8], name[65] = ":";
  const char *at = strstr(text, "attempt to ");
  if (!at || !strstr(at, "(a nil value)") || sscanf(at, "attempt to %*[a-z] %7[a-z] '%63[^']'", kind, name + 1) != 2)
    return;
  bool method = strcmp(kind, "method") == 0;
  const char *instead = method || strcmp(kind, "global") == 0 ? there_is_instead(name + !method) : NULL;
  if (instead) {
    set_text(L, "hint", instead);
    return;
  }
  if (strcmp(kind, "global") == 0) {
    capl_suggestion s = {.wanted = name + 1};
    bind_whole_environment(L);
    suggest_keys(L, &s);
    if (s.nearest) lua_pushfstring(L, "%s", s.nearest); else lua_pushnil(L);
    lua_remove(L, -2);
  } else if (strcmp(kind, "field") == 0) {
    push_near_field(L, name + 1);
  } else {
    return;
  }
  if (lua_isstring(L, -1)) {
    lua_pushfstring(L, "did you mean %s?", lua_tostring(L, -1));
    lua_setfield(L, -3, "hint");
  }
  lua_pop(L, 1);
}

/* Sets the hint of the error table on top for what Lua itself runs out of. */
static void hint_exhausted(lua_State *L, const char *text)
{
  const char *hint = NULL;
  if (strstr(text, "stack overflow")) hint = "a function calls itself without end";
  if (strcmp(text, "not enough memory") == 0)
    hint = "the recipe's own tables and texts, or the machine, are out of memory";
  set_text(L, "hint", hint);
}

/* ---- any value as an error ------------------------------------------------------------------- */

/* What is said of error(nil), error({}) and the like: their text is the recipe's to give. */
static void push_no_text(lua_State *L, int index)
{
  const char *what = lua_isboolean(L, index) ? (lua_toboolean(L, index) ? "true" : "false") : luaL_typename(L, index);
  lua_pushfstring(L, "error(%s): an error without a text", what);
}

/* Makes an error table of anything raised; positions inside the library get the recipe's line before them, and so do
** errors that have no position of their own. */
static void normalize(lua_State *L)
{
  if (is_error(L, -1)) return;
  int index = lua_gettop(L);
  const char *text = push_text(L, index);
  bool placed = text && lua_isstring(L, index) && strncmp(text, "capl:", 5) != 0 && strcmp(text, "stack overflow") != 0;
  if (!text) push_no_text(L, index), text = lua_tostring(L, -1);
  bool thrown = strcmp(text, "C++ exception") == 0; /* LuaJIT's words; oneDNN throws std::bad_alloc only */
  if (thrown) text = "not enough memory";
  lua_createtable(L, 0, 4);
  set_text(L, "code", thrown ? "nomem" : "lua");
  set_text(L, "message", text);
  luaL_setmetatable(L, ERROR_TYPE);
  if (!placed) locate(L, true);
  hint_near_name(L, text);
  hint_exhausted(L, text);
  bind_error_add_call(L, text);
}

static int on_error(lua_State *L)
{
  bind_locals_note(L);
  normalize(L);
  bind_locals_rename(L);
  lua_getfield(L, -1, "traceback");
  bool known = lua_isstring(L, -1); /* raised again by an outer call: the first one was where it happened */
  lua_pop(L, 1);
  if (known) return 1;
  luaL_traceback(L, L, NULL, 1);
  lua_setfield(L, -2, "traceback");
  return 1;
}

static int raise_record(lua_State *L) { return bind_raise(L, NULL); }

int capl_bind_call(lua_State *L, int nargs, int nresults)
{
  int base = lua_gettop(L) - nargs;
  lua_pushcfunction(L, on_error);
  lua_insert(L, base);
  int status = lua_pcall(L, nargs, nresults, base);
  /* it came once more while on_error was at work */
  bool interrupted = status == LUA_ERRERR && capl_interrupt_reported(L);
  capl_interrupt_clear();
  lua_remove(L, base);
  if (interrupted) {
    lua_pop(L, 1);
    lua_pushcfunction(L, raise_record);
    status = lua_pcall(L, 0, 1, 0);
  }
  if (status != 0) normalize(L); /* Lua out of memory, or an error in the handler: a plain string */
  return status;
}

/* ---- for the library ------------------------------------------------------------------------- */

/* core.error{code, op, message, context, hint}: raises it as ours. The table becomes the error. path = false:
*it
** is about a call, not about a layer at work. */
static int core_error(lua_State *L)
{
  bind_check_table(L, 1);
  if (!field_text(L, 1, "message"))
    return bind_fail(L, CAPL_EVALUE, "capl.error", NULL, "message is missing: a string that describes the error");
  lua_settop(L, 1);
  lua_getfield(L, 1, "path");
  bool path = !lua_isboolean(L, -1);
  if (!path) lua_pushnil(L), lua_setfield(L, 1, "path");
  lua_settop(L, 1);
  luaL_setmetatable(L, ERROR_TYPE);
  locate(L, path);
  return lua_error(L);
}

/* core.fail(message[, hint[, code]]): the same in short; "value" unless said, and no path of modules. */
static int core_fail(lua_State *L)
{
  const char *message = bind_check_string(L, 1), *hint = luaL_optstring(L, 2, NULL),
  *code = luaL_optstring(L, 3, "value");
  lua_createtable(L, 0, 4);
  lua_pushstring(L, message), lua_setfield(L, -2, "message");
  lua_pushstring(L, hint), lua_setfield(L, -2, "hint");
  lua_pushstring(L, code), lua_setfield(L, -2, "code");
  luaL_setmetatable(L, ERROR_TYPE);
  lua_replace(L, 1);
  lua_settop(L, 1);
  locate(L, false);
  return lua_error(L);
}

/* core.nearest(name, list) -> the entry of list that name may have meant, or nil. */
static int core_nearest(lua_State *L)
{
  capl_suggestion s = {.wanted = bind_check_string(L, 1)};
  bind_check_table(L, 2);
  for (int i = 1;; i++) {
    lua_rawgeti(L, 2, i);
    if (lua_isnil(L, -1)) break;
    if (lua_type(L, -1) == LUA_TSTRING) capl_suggest(&s, lua_tostring(L, -1));
    lua_pop(L, 1); /* list keeps the string alive */
  }
  if (s.nearest)
    lua_pushstring(L, s.nearest);
  else
    lua_pushnil(L);
  return 1;
}

/* core.describe_with(fn): fn(modules, root name) -> text writes the layer path of errors. */
static int core_describe_with(lua_State *L)
{
  bind_check_function(L, 1);
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, DESCRIBE_KEY);
  return 0;
}

/* core.where() -> "recipe.lua:41" or nil */
static int core_where(lua_State *L)
{
  push_where(L);
  return 1;
}

/* core.is_error(value) */
static int core_is_error(lua_State *L)
{
  lua_settop(L, 1);
  lua_pushboolean(L, is_error(L, 1));
  return 1;
}

void bind_open_errors(lua_State *L)
{
  static const luaL_Reg functions[] = {
      {"error", core_error}, {"fail", core_fail}, {"nearest", core_nearest},   {"describe_with", core_describe_with},
      {"where", core_where}, {"is_error", core_is_error}, {NULL, NULL}};
  if (luaL_newmetatable(L, ERROR_TYPE)) {
    lua_pushcfunction(L, error_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushliteral(L, "error");
    lua_setfield(L, -2, "__metatable");
  }
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
