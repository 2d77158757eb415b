/* finite.c -- finds where numbers stop being finite: in a tensor, and in the calls of a step.
**
** While the watch is on, every float output of a call is read. One that is not finite either comes from an input that
** already was not (it inherits the origin of that), or the call is an origin itself. Storages are known by their
** numbers, which never come twice. A mask of infinities is an origin, too, but no loss inherits it: so the caller asks
** for the origin of what went wrong, not for the first one. Slow: for steps that have gone wrong, and for those who ask
** for it. SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/tape.h"
#include "tensor/storage.h"

enum { ROWS = 8, ORIGINS = 64 };

/* What is not finite in a tensor: how many values, and the first rows (of its first dim) that have some, from 0. */
typedef struct {
  double values, total;
  int64_t rows_bad, rows, row[ROWS];
  bool nan;
} finding;

typedef struct {
  const capl_op *op;
  char label[96], where[160];
  bool backward;
  int input; /* the first input that was not finite, from 1; 0 = none */
  finding what;
} origin;

typedef struct {
  uint64_t serial;
  int origin;
} taint;

static struct {
  bool backward; /* what is called now belongs to the backward pass */
  origin origins[ORIGINS];
  int n_origins;
  taint *taints;
  size_t n_taints, room;
} watch;

/* ---- one tensor ------------------------------------------------------------------------------ */

static void note_value(finding *f, double value, bool *row_bad)
{
  if (isfinite(value)) return;
  f->values++;
  f->nan |= isnan(value);
  *row_bad = true;
}

/* All values of row r (t: any strides), the other dims counted through as an odometer. */
static bool row_is_bad(const capl_tensor *t, int64_t r, finding *f)
{
  int64_t at[CAPL_MAX_NDIM] = {0}, place = t->ndim ? r * t->stride[0] : 0;
  bool bad = false;
  for (;;) {
    note_value(f, bind_value_at(t, place), &bad);
    int d = t->ndim - 1;
    for (; d > 0; d--) {
      place += t->stride[d];
      if (++at[d] < t->size[d]) break;
      place -= at[d] * t->stride[d];
      at[d] = 0;
    }
    if (d <= 0) return bad;
  }
}

static void scan(const capl_tensor *t, finding *f)
{
  *f = (finding){.total = (double)capl_tensor_numel(t), .rows = t->ndim ? t->size[0] : 1};
  if (f->total == 0) return;
  for (int64_t r = 0; r < f->rows; r++) {
    if (!row_is_bad(t, r, f)) continue;
    if (f->rows_bad < ROWS) f->row[f->rows_bad] = r;
    f->rows_bad++;
  }
}

/* Reads t, from a copy in host memory where the CPU cannot. */
static capl_status look(capl_tensor *t, finding *f)
{
  *f = (finding){0};
  if (!t || !t->storage || !capl_dtype_is_float(t->dtype) || !t->device->backend->arithmetic) return CAPL_OK;
  if (t->device->backend->host_memory) return scan(t, f), CAPL_OK;
  capl_device *host;
  OWNED *copy = NULL;
  CAPL_TRY(capl_device_open("cpu", &host));
  CAPL_TRY(capl_tensor_new(host, t->dtype, t->ndim, t->size, CAPL_AUTO, &copy));
  CAPL_TRY(capl_tensor_copy(copy, t));
  return scan(copy, f), CAPL_OK;
}

/* ---- the calls of a step --------------------------------------------------------------------- */

static int origin_of(const capl_tensor *t)
{
  for (size_t k = watch.n_taints; t && t->storage && k-- > 0;)
    if (watch.taints[k].serial == t->storage->serial) return watch.taints[k].origin;
  return -1;
}

static void inherit(const capl_tensor *t, int from)
{
  if (watch.n_taints == watch.room) {
    size_t room = watch.room ? 2 * watch.room : 256;
    taint *grown = realloc(watch.taints, room * sizeof *grown);
    if (!grown) return; /* the answer may then be a later call */
    watch.taints = grown;
    watch.room = room;
  }
  watch.taints[watch.n_taints++] = (taint){t->storage->serial, from};
}

static int new_origin(const capl_call *call, const finding *f, int input)
{
  if (watch.n_origins == ORIGINS) return ORIGINS - 1;
  origin *o = &watch.origins[watch.n_origins];
  const char *label = capl_profile_label_get();
  *o = (origin){.op = call->op, .backward = watch.backward, .input = input, .what = *f};
  snprintf(o->label, sizeof o->label, "%s", label ? label : "");
  if (bind_current.L) bind_where(bind_current.L, o->where, sizeof o->where);
  return watch.n_origins++;
}

static void on_call(void *user, const capl_call *call)
{
  finding f, of_input;
  (void)user;
  if (call->op->view && call->out[0]->storage == call->in[0]->storage) return; /* reshape copies where it has to */
  for (int k = 0; k < call->op->n_out; k++) {
    if (look(call->out[k], &f) != CAPL_OK || f.values == 0) continue;
    int from = -1, input = 0;
    for (int i = 0; i < call->n_in && input == 0; i++)
      if (look(call->in[i], &of_input) == CAPL_OK && of_input.values > 0) from = origin_of(call->in[i]), input = i + 1;
    inherit(call->out[k], from >= 0 ? from : new_origin(call, &f, input));
  }
}

/* ---- Lua ------------------------------------------------------------------------------------- */

static void set_number(lua_State *L, const char *key, double value)
{
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

static void set_finding(lua_State *L, const finding *f)
{
  set_number(L, "values", f->values);
  set_number(L, "total", f->total);
  set_number(L, "rows_bad", (double)f->rows_bad);
  set_number(L, "row_count", (double)f->rows);
  lua_pushstring(L, f->nan ? "nan" : "inf");
  lua_setfield(L, -2, "kind");
  lua_newtable(L);
  for (int i = 0; i < ROWS && i < f->rows_bad; i++) {
    lua_pushnumber(L, (lua_Number)f->row[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "rows");
}

/* core.nonfinite(tensor) -> nil, or {values = how many, total, kind = "nan" | "inf", rows = the first rows with some,
** from 0, rows_bad, row_count} */
static int core_nonfinite(lua_State *L)
{
  finding f;
  bind_check(L, look(bind_check_tensor(L, 1), &f), "nonfinite");
  if (f.values == 0) return lua_pushnil(L), 1;
  lua_newtable(L);
  set_finding(L, &f);
  return 1;
}

/* core.watch_finite("forward" | "backward" | "off"): forward begins to read what all calls give and forgets what was
** found before; backward says that calls from here on belong to the backward pass; off ends it. */
static int core_watch_finite(lua_State *L)
{
  const char *phase = bind_check_string(L, 1);
  bind_use(L);
  watch.backward = strcmp(phase, "backward") == 0;
  if (strcmp(phase, "forward") == 0) watch.n_origins = 0, watch.n_taints = 0;
  capl_observe_set(strcmp(phase, "off") == 0 ? NULL : on_call, NULL);
  return 0;
}

static void set_text(lua_State *L, const char *key, const char *text)
{
  if (!*text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

/* core.origin([tensor[, backward]]) -> the call from which the numbers of tensor are not finite, in the watched calls:
** {op, label = layer, where = recipe line, backward, input = number of the first input that already was not, and what
** core.nonfinite gives}; nil when none is known. Without tensor: the first one, of the backward pass if asked for. */
static int core_origin(lua_State *L)
{
  int at = lua_isnoneornil(L, 1) ? -1 : origin_of(bind_check_tensor(L, 1));
  bool backward = lua_toboolean(L, 2);
  for (int i = 0; lua_isnoneornil(L, 1) && at < 0 && i < watch.n_origins; i++)
    if (!backward || watch.origins[i].backward) at = i;
  if (at < 0) return lua_pushnil(L), 1;
  const origin *o = &watch.origins[at];
  lua_newtable(L);
  set_text(L, "op", o->op->name);
  set_text(L, "label", o->label);
  set_text(L, "where", o->where);
  lua_pushboolean(L, o->backward);
  lua_setfield(L, -2, "backward");
  if (o->input) set_number(L, "input", o->input);
  set_finding(L, &o->what);
  return 1;
}

void bind_open_finite(lua_State *L)
{
  static const luaL_Reg functions[] = {
      {"nonfinite", core_nonfinite}, {"watch_finite", core_watch_finite}, {"origin", core_origin}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
