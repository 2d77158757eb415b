/* events.c -- core.event: a record of a TensorBoard file as a string; lua/capl/train/events.lua puts them into files.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "io/events.h"

/* What one call owns, in a userdata: an error anywhere in it leaks nothing. */
typedef struct {
  events_value *values;
  events_histogram *histograms;
  int n;
  uint8_t *bytes;
} record_memory;

static int memory_gc(lua_State *L)
{
  record_memory *m = lua_touserdata(L, 1);
  for (int i = 0; i < m->n; i++) events_histogram_fini(&m->histograms[i]);
  free(m->values);
  free(m->histograms);
  free(m->bytes);
  *m = (record_memory){0};
  return 0;
}

static record_memory *push_memory(lua_State *L, int n)
{
  record_memory *m = lua_newuserdata(L, sizeof *m);
  *m = (record_memory){0};
  if (luaL_newmetatable(L, "capl.event")) {
    lua_pushcfunction(L, memory_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  m->values = calloc((size_t)n + 1, sizeof *m->values);
  m->histograms = calloc((size_t)n + 1, sizeof *m->histograms);
  if (!m->values || !m->histograms) bind_fail(L, CAPL_ENOMEM, NULL, NULL, "no memory for an event of %d values", n);
  m->n = n;
  return m;
}

/* The field of the table on top, left on the stack; false and nothing left when it is not there. */
static bool has(lua_State *L, const char *key)
{
  lua_getfield(L, -1, key);
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

static double number_at(lua_State *L, const char *key)
{
  lua_getfield(L, -1, key);
  double value = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return value;
}

/* The string at key, borrowed from the table on top. */
static void read_bytes(lua_State *L, const char *key, events_value *v)
{
  lua_getfield(L, -1, key);
  v->bytes = luaL_checklstring(L, -1, &v->n_bytes);
  lua_pop(L, 1);
}

static int big_endian(const uint8_t *p) { return (int)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8
                                                       | p[3]); }

/* Width, height and channels from the head of a PNG file. */
static void read_png_size(lua_State *L, events_value *v)
{
  static const int channels_of[] = {[0] = 1, [2] = 3, [3] = 3, [4] = 2, [6] = 4};
  const uint8_t *p = v->bytes;
  if (v->n_bytes < 33 || memcmp(p, "\x89PNG\r\n\x1a\n", 8) != 0 || p[25] > 6)
    bind_fail(L, CAPL_EVALUE, NULL, NULL, "the picture '%s' of an event is no PNG file", v->tag);
  v->width = big_endian(p + 16);
  v->height = big_endian(p + 20);
  v->channels = channels_of[p[25]];
}

/* {tag =, and one of scalar = number, text =, png = a file's bytes, tensor = counted, each value times scale} on top */
static void read_value(lua_State *L, events_value *v, events_histogram *h)
{
  lua_getfield(L, -1, "tag");
  v->tag = luaL_checkstring(L, -1);
  lua_pop(L, 1);
  if (has(L, "tensor")) {
    lua_pop(L, 1);
    double scale = number_at(L, "scale");
    lua_getfield(L, -1, "tensor");
    capl_tensor *t = bind_on_host(L, lua_gettop(L));
    bind_check(L, events_histogram_of(t, scale != 0 ? scale : 1, h), NULL);
    lua_pop(L, 1);
    v->kind = EVENTS_HISTOGRAM;
    v->histogram = h;
  } else if (has(L, "png")) {
    lua_pop(L, 1);
    v->kind = EVENTS_IMAGE;
    read_bytes(L, "png", v);
    read_png_size(L, v);
  } else if (has(L, "text")) {
    lua_pop(L, 1);
    v->kind = EVENTS_TEXT;
    read_bytes(L, "text", v);
  } else {
    v->kind = EVENTS_SCALAR;
    v->number = number_at(L, "scalar");
  }
}

/* Scalars of a table {tag = number} at i, whose tags stay there; -> their number. */
static int count_scalars(lua_State *L, int i)
{
  int n = 0;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) n++;
  return n;
}

static void read_scalars(lua_State *L, int i, events_value *v)
{
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1), v++)
    *v = (events_value){.kind = EVENTS_SCALAR, .tag = luaL_checkstring(L, -2), .number = luaL_checknumber(L, -1)};
}

/* core.event(step, values) -> the record's bytes; without arguments the record that a file begins with.
** values: a list as above, or {tag = number}
** errs unsupported: libcapl_proto.so is not there */
static int core_event(lua_State *L)
{
  int n = 0;
  bool scalars = false;
  events_record record = {.time = clock_read(CLOCK_REALTIME),
                          .version = lua_isnoneornil(L, 1) ? "brain.Event:2" : NULL};
  lua_settop(L, 2);
  if (!record.version) {
    record.step = bind_check_int(L, 1);
    bind_check_table(L, 2);
    n = (int)lua_objlen(L, 2);
    scalars = n == 0;
    if (scalars) n = count_scalars(L, 2);
  }
  record_memory *m = push_memory(L, n);
  luaL_checkstack(L, 8, "event");
  if (scalars) read_scalars(L, 2, m->values);
  for (int i = 0; i < n && !scalars; i++) {
    lua_rawgeti(L, 2, i + 1);
    bind_check_table(L, lua_gettop(L));
    read_value(L, &m->values[i], &m->histograms[i]);
    lua_pop(L, 1);
  }
  record.values = m->values;
  record.n = (size_t)n;
  size_t len;
  bind_check(L, events_encode(&record, &m->bytes, &len), NULL);
  lua_pushlstring(L, (const char *)m->bytes, len);
  lua_pushcfunction(L, memory_gc);
  lua_pushvalue(L, 3);
  lua_call(L, 1, 0);
  return 1;
}

void bind_open_events(lua_State *L)
{
  lua_pushcfunction(L, core_event);
  lua_setfield(L, -2, "event");
}
