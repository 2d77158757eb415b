/* profile.c -- sums the dispatcher's profile events per op and layer.
**
** The sums are kept in C: an event costs one look-up in a small table, so that profiling changes the step by
** microseconds and not by Lua's garbage.
** SPDX-License-Identifier: Apache-2.0
*/
#include "program/profile.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "capl/op.h"

enum { ROWS = 2048, LABEL = 96 };

typedef struct {
  const char *op, *backend; /* constants of the program */
  char label[LABEL];
  double calls, seconds, bytes, macs;
} row;

static row rows[ROWS]; /* open addressing by (op, backend, label); op == NULL: free */
static int n_rows;

static unsigned hash(const char *op, const char *label)
{
  unsigned h = 2166136261u;
  for (const char *p = op; *p; p++) h = (h ^ (unsigned char)*p) * 16777619u;
  for (const char *p = label; *p; p++) h = (h ^ (unsigned char)*p) * 16777619u;
  return h;
}

/* The row of an event; NULL when the table is full (then the event is lost). */
static row *find(const char *op, const char *backend, const char *label)
{
  for (unsigned i = hash(op, label), tries = 0; tries < ROWS; i++, tries++) {
    row *r = &rows[i % ROWS];
    if (!r->op) {
      if (n_rows == ROWS - 1) return NULL;
      *r = (row){.op = op, .backend = backend};
      snprintf(r->label, sizeof r->label, "%s", label);
      n_rows++;
      return r;
    }
    if (r->op == op && r->backend == backend && strncmp(r->label, label, LABEL - 1) == 0) return r;
  }
  return NULL;
}

static void on_event(void *user, const capl_profile_event *event)
{
  (void)user;
  row *r = find(event->call->op->name, event->backend ? event->backend : "", event->label ? event->label : "");
  if (!r) return;
  r->calls++;
  r->seconds += event->seconds;
  r->bytes += event->bytes;
  r->macs += event->macs;
}

/* start(): forgets what was summed and begins anew. */
static int profile_start(lua_State *L)
{
  (void)L;
  memset(rows, 0, sizeof rows);
  n_rows = 0;
  capl_profile_set(on_event, NULL);
  return 0;
}

static void set_text(lua_State *L, const char *key, const char *value)
{
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

static void set_number(lua_State *L, const char *key, double value)
{
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

/* stop() -> list of {op=, label=, backend=, calls=, seconds=, bytes=, macs=}, in no order */
static int profile_stop(lua_State *L)
{
  capl_profile_set(NULL, NULL);
  lua_createtable(L, n_rows, 0);
  for (int i = 0, n = 0; i < ROWS; i++) {
    if (!rows[i].op) continue;
    lua_createtable(L, 0, 7);
    set_text(L, "op", rows[i].op);
    set_text(L, "label", rows[i].label);
    set_text(L, "backend", rows[i].backend);
    set_number(L, "calls", rows[i].calls);
    set_number(L, "seconds", rows[i].seconds);
    set_number(L, "bytes", rows[i].bytes);
    set_number(L, "macs", rows[i].macs);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

void capl_profile_push(lua_State *L)
{
  static const luaL_Reg functions[] = {{"start", profile_start}, {"stop", profile_stop}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
}
