/* error_call.c -- errors of Lua itself inside the library, said in terms of the call that led there.
**
** Library functions check what they are given, but not all of them everything: "capl:nn/module.lua:72: attempt to index
** local 'self' (a nil value)" names nothing of the recipe. The recipe made a call, whose name and values are still on
** the stack when the error is raised. What Lua said is kept as the context, where it
** was said is in the traceback.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 8 }; /* arguments that are shown */

typedef struct {
  lua_Debug frame;
  int level;
  bool inner; /* it is the frame that raised the error */
} call;

static bool is_library(const lua_Debug *ar) { return strncmp(ar->source, "@capl:", 6) == 0; }

/* The library's function that the innermost code of a recipe has called. Where C code such as capl.no_grad has raised
** the error again, that is all that is left of the call. */
static bool find_call(lua_State *L, call *c)
{
  lua_Debug ar;
  int frames = 0;
  bool again = false;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (strcmp(ar.what, "C") == 0) {
      if (level > 0 && frames == 0) *c = (call){.frame = ar, .level = level}, again = true;
      continue;
    }
    if (!is_library(&ar)) return frames > 0 || again;
    *c = (call){.frame = ar, .level = level, .inner = frames++ == 0};
  }
  return false;
}

/* Names of its parameters, and its values on the stack. Returns how many there are. */
static int push_arguments(lua_State *L, call *c, const char *names[MOST])
{
  int n = 0;
  lua_getinfo(L, "nf", &c->frame);
  for (; n < MOST; n++) {
    const char *name = lua_getlocal(L, NULL, n + 1); /* of the function on top */
    if (!name || *name == '(') break;
    names[n] = name;
    if (!lua_getlocal(L, &c->frame, n + 1)) break;
    lua_insert(L, -2);
  }
  lua_pop(L, 1);
  return n;
}

/* The parameter that text complains of, from 0; -1 for none. */
static int named_in(const char *text, const char *const *names, int n)
{
  char name[64];
  const char *at = strstr(text, " local '");
  if (!at || sscanf(at, " local '%63[^']' (", name) != 1) return -1;
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

static bool is_object(lua_State *L, int i) { return lua_istable(L, i) || lua_isuserdata(L, i); }

/* self: 1 when the first of the n values is the object. */
static void push_given(lua_State *L, const char *function, int first, int n, int self)
{
  char types[MOST * 16] = "nothing";
  for (int i = self, used = 0; i < n; i++)
    used += snprintf(types + used, sizeof types - (size_t)used, "%s%s", i > self ? ", " : "",
                     bind_typename(L, first + i));
  if (n == 0) {
    lua_pushfstring(L, "'%s' cannot work with what it was given", function);
    return;
  }
  const char *object = self ? lua_pushfstring(L, " on this %s", bind_typename(L, first)) : "";
  lua_pushfstring(L, "'%s' cannot work%s with what it was given (%s)", function, object, types);
  if (self) lua_remove(L, -2);
}

/* Pushes the message, and the hint or nil. */
static void push_message(lua_State *L, const call *c, const char *const *names, int n, const char *text)
{
  const char *function = c->frame.name ? c->frame.name : "?";
  int first = lua_gettop(L) - n + 1, self = n && strcmp(names[0], "self") == 0,
      i = c->inner ? named_in(text, names, n) : -1;
  if (self && !is_object(L, first)) {
    lua_pushfstring(L, "bad self in '%s' (object expected, got %s)", function, bind_typename(L, first));
    lua_pushfstring(L, "call it with a colon: x:%s(…)", function);
    return;
  }
  if (i >= self) {
    lua_pushfstring(L, "bad argument #%d to '%s' (%s cannot be a %s)", i + 1 - self, function, names[i],
                    bind_typename(L, first + i));
    if (i == 0 && lua_isnil(L, first) && strcmp(names[0], "x") == 0) {
      lua_pushfstring(L, "call it with a colon: x:%s(…)", function);
      return;
    }
  } else {
    push_given(L, function, first, n, self);
  }
  lua_pushnil(L);
}

/* Beginnings of what Lua and its own functions complain of. */
static const char *const complaints[] = {": attempt to ", ": bad argument #", ": table index is ", ": 'for' ",
                                         "' must be a ", ": invalid ", ": wrong number ", NULL};

static bool is_lua_error(const char *text)
{
  if (strncmp(text, "capl:", 5) != 0) return false;
  for (const char *const *c = complaints; *c; c++)
    if (strstr(text, *c)) return true;
  return false;
}

void bind_error_add_call(lua_State *L, const char *text)
{
  call c;
  const char *names[MOST];
  int error = lua_gettop(L);
  if (!is_lua_error(text) || !lua_checkstack(L, MOST + 8) || !find_call(L, &c)) return;
  int n = push_arguments(L, &c, names);
  push_message(L, &c, names, n, text);
  lua_setfield(L, error, "hint");
  lua_setfield(L, error, "message");
  const char *said = strstr(text, ": ");
  lua_pushfstring(L, "in the library: %s", said ? said + 2 : text);
  lua_setfield(L, error, "context");
  lua_pushliteral(L, "value");
  lua_setfield(L, error, "code");
  lua_settop(L, error);
}
