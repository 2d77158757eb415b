/* text.c -- CTC decoding for Lua: scores of many samples in, lists of classes out.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <string.h>

#include "capl/text.h"

/* Arguments of core.ctc_decode by place. */
enum { SCORES = 1, STEPS, BLANK, MIN_LENGTH, MAX_LENGTH, ALLOWED, PLACES, WIDTH, TOP, BEST };

static const char name[] = "ctc_decode";

/* Flags as a string of count bytes, 0 or 1, at i; NULL for nil. */
static const uint8_t *check_flags(lua_State *L, int i, size_t unit, size_t *rows)
{
  size_t len = 0;
  *rows = 0;
  if (lua_isnoneornil(L, i)) return NULL;
  const char *flags = lua_tolstring(L, i, &len);
  if (!flags || unit == 0 || len % unit) bind_arg_error(L, i, "flags of %d classes expected", (int)unit);
  *rows = len / unit;
  return (const uint8_t *)flags;
}

static capl_ctc_limits check_limits(lua_State *L, size_t K)
{
  size_t rows;
  capl_ctc_limits limits = {.min_length = bind_check_int(L, MIN_LENGTH), .max_length = bind_check_int(L, MAX_LENGTH)};
  limits.allowed = check_flags(L, ALLOWED, K, &rows);
  if (limits.allowed && rows != 1) bind_arg_error(L, ALLOWED, "flags of %d classes expected", (int)K);
  limits.places = check_flags(L, PLACES, K, &rows);
  limits.n_places = (int64_t)rows;
  return limits;
}

static void set_list(lua_State *L, const char *key, int64_t n, const int32_t *whole, const float *real, int add)
{
  lua_createtable(L, (int)n, 0);
  for (int64_t i = 0; i < n; i++) {
    if (whole) lua_pushinteger(L, whole[i] + add);
    else lua_pushnumber(L, (lua_Number)real[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
  lua_setfield(L, -2, key);
}

static void push_text(lua_State *L, const capl_ctc_text *text)
{
  lua_createtable(L, 0, 4);
  set_list(L, "classes", text->length, text->classes, NULL, 0);
  set_list(L, "confidences", text->length, NULL, text->confidences, 0);
  set_list(L, "steps", text->length, text->steps, NULL, 1);
  lua_pushnumber(L, text->log_prob);
  lua_setfield(L, -2, "log_prob");
}

/* Time steps of sample n, of T. */
static int64_t steps_of(lua_State *L, int64_t n, int64_t T)
{
  if (lua_isnoneornil(L, STEPS)) return T;
  lua_rawgeti(L, STEPS, (int)n + 1);
  double steps = lua_tonumber(L, -1);
  lua_pop(L, 1);
  if (!(steps >= 0 && steps <= (double)T))
    bind_fail(L, CAPL_EVALUE, name, NULL, "sample %d: %g time steps of %d", (int)n + 1, steps, (int)T);
  return (int64_t)steps;
}

/* Room for n texts of T characters, a userdata left on the stack. */
static capl_ctc_text *new_texts(lua_State *L, int64_t n, int64_t T)
{
  size_t each = (size_t)(T + 1);
  if (n * (T + 1) > INT32_MAX / 16)
    bind_fail(L, CAPL_ENOMEM, name, NULL, "%g texts of %g time steps", (double)n, (double)T);
  char *room = lua_newuserdata(L, (size_t)n * (sizeof(capl_ctc_text) + each * 12));
  capl_ctc_text *texts = (capl_ctc_text *)(void *)room;
  char *values = room + (size_t)n * sizeof *texts;
  for (int64_t i = 0; i < n; i++, values += each * 12)
    texts[i] = (capl_ctc_text){.classes = (int32_t *)(void *)values,
                               .confidences = (float *)(void *)(values + each * 4),
                               .steps = (int32_t *)(void *)(values + each * 8)};
  return texts;
}

/* core.ctc_decode(scores, steps, blank, min_length, max_length, allowed, places, width, top, best) -> for each sample a
** list of texts {classes, confidences, steps, log_prob}. scores (N,T,K) f32 that the host can read; steps: nil or a
** list; allowed, places: nil or a string of flags. width 0: greedy, one text each. */
static int core_ctc_decode(lua_State *L)
{
  const capl_tensor *x = bind_on_host(L, SCORES);
  if (x->ndim != 3 || x->dtype != CAPL_F32) return bind_arg_error(L, SCORES, "scores (N,T,K) f32 expected");
  int64_t N = x->size[0], T = x->size[1], K = x->size[2], width = bind_check_int(L, WIDTH),
      top = bind_check_int(L, TOP);
  capl_ctc_limits limits = check_limits(L, (size_t)K);
  capl_ctc_scores s = {.K = K, .step = x->stride[1], .class_step = x->stride[2], .blank = bind_check_int(L, BLANK)};
  int64_t best = width > 0 ? bind_check_int(L, BEST) : 1, found = 1;
  capl_ctc_text *texts = new_texts(L, best > 0 ? best : 1, T);
  lua_createtable(L, (int)N, 0);
  for (int64_t n = 0; n < N; n++) {
    s.scores = (const float *)capl_tensor_data(x) + n * x->stride[0];
    s.T = steps_of(L, n, T);
    capl_status status = width > 0 ? capl_ctc_beam(&s, &limits, width, top, best, texts, &found)
                                   : capl_ctc_greedy(&s, &limits, texts);
    if (status != CAPL_OK) {
      capl_error_context("sample %d of %d", (int)n + 1, (int)N);
      return bind_raise(L, name);
    }
    lua_createtable(L, (int)found, 0);
    for (int64_t i = 0; i < found; i++) {
      push_text(L, &texts[i]);
      lua_rawseti(L, -2, (int)i + 1);
    }
    lua_rawseti(L, -2, (int)n + 1);
  }
  return 1;
}

void bind_open_text(lua_State *L)
{
  static const luaL_Reg functions[] = {{"ctc_decode", core_ctc_decode}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
