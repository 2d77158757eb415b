/* create.c -- tensors from Lua values: constants, ranges, nested tables, random numbers.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/options.h"

#include <math.h>

/* Streams of capl.rand and capl.randn carry this in their last word, so that no other user meets them. */
enum { STREAM_CREATE = 0x7E45 };


typedef struct {
  capl_dtype dtype;
  capl_device *device;
  bool requires_grad;
} create_options;

static create_options check_create(lua_State *L, int i)
{
  static const bind_option_spec options[] = {
    {"dtype", BIND_OTHER}, {"device", BIND_OTHER}, {"requires_grad", BIND_BOOL(create_options, requires_grad)},
    BIND_END};
  create_options o = {.dtype = CAPL_F32};
  bind_read_options(L, NULL, i, options, &o);
  if (bind_option(L, i, "dtype")) o.dtype = bind_check_dtype(L, -1);
  bind_option(L, i, "device");
  o.device = bind_opt_device(L, lua_gettop(L));
  lua_pop(L, 2);
  return o;
}

static int push_created(lua_State *L, capl_tensor **t, const create_options *o)
{
  capl_tensor *given = *t;
  *t = NULL; /* the caller's OWNED lets go */
  given->requires_grad = o->requires_grad && capl_dtype_is_float(given->dtype);
  bind_push_tensor(L, given);
  return 1;
}

static void make(lua_State *L, const create_options *o, int ndim, const int64_t *size, const char *op,
                 capl_tensor **out)
{
  bind_check(L, capl_tensor_new(o->device, o->dtype, ndim, size, CAPL_AUTO, out), op);
}

static int create_filled(lua_State *L, const char *op, int first, double value)
{
  int64_t size[CAPL_MAX_NDIM];
  int next, n = bind_check_sizes(L, first, size, &next);
  create_options o = check_create(L, next);
  OWNED *t = NULL;
  make(L, &o, n, size, op, &t);
  bind_check(L, capl_tensor_fill(t, value), op);
  return push_created(L, &t, &o);
}

/* zeros(size…[, options]); sizes as numbers or one table */
static int core_zeros(lua_State *L) { return create_filled(L, "zeros", 1, 0); }

static int core_ones(lua_State *L) { return create_filled(L, "ones", 1, 1); }

/* full({size…}, value[, options]) */
static int core_full(lua_State *L)
{
  bind_check_table(L, 1);
  double value = bind_check_number(L, 2);
  lua_remove(L, 2);
  return create_filled(L, "full", 1, value);
}

static int core_empty(lua_State *L)
{
  int64_t size[CAPL_MAX_NDIM];
  int next, n = bind_check_sizes(L, 1, size, &next);
  create_options o = check_create(L, next);
  OWNED *t = NULL;
  make(L, &o, n, size, "empty", &t);
  return push_created(L, &t, &o);
}

/* Where random numbers come from: the next stream of the process's seed, unless options seed and stream
** = {a, b, c} name one: then they are the same numbers wherever and whenever they are drawn. */
typedef struct {
  uint64_t seed;
  uint32_t a, b, c;
} random_stream;

static uint32_t stream_word(lua_State *L, int i, int k)
{
  lua_rawgeti(L, -1, k);
  double x = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
  lua_pop(L, 1);
  if (!(x >= 0 && x <= 4294967295.0) || x != (double)(uint32_t)x)
    bind_arg_error(L, i, "stream is a list of three whole numbers from 0 to 2^32-1");
  return (uint32_t)x;
}

static random_stream next_stream(void)
{
  uint64_t n = bind_next_stream();
  return (random_stream){bind_current.seed, (uint32_t)n, (uint32_t)(n >> 32), STREAM_CREATE};
}

/* Takes seed and stream out of a copy of the options at i, so that the rest is read like any creation's. */
static random_stream check_stream(lua_State *L, int i)
{
  if (!lua_istable(L, i)) return next_stream();
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, i);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  lua_replace(L, i);
  if (!bind_option(L, i, "stream")) {
    if (bind_option(L, i, "seed"))
      bind_arg_error(L, i, "seed needs stream = {a, b, c}; capl.manual_seed sets the seed of all");
    lua_pop(L, 2);
    return next_stream();
  }
  if (!lua_istable(L, -1)) bind_arg_error(L, i, "stream is a list of three whole numbers from 0 to 2^32-1");
  random_stream s = {bind_current.seed, stream_word(L, i, 1), stream_word(L, i, 2), stream_word(L, i, 3)};
  if (bind_option(L, i, "seed")) {
    double seed = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (!(seed >= 0 && seed <= 9007199254740992.0) || seed != (double)(uint64_t)seed)
      bind_arg_error(L, i, "seed is a whole number from 0 on");
    s.seed = (uint64_t)seed;
  }
  lua_pop(L, 2);
  lua_pushnil(L), lua_setfield(L, i, "stream");
  lua_pushnil(L), lua_setfield(L, i, "seed");
  return s;
}

static void fill_random(lua_State *L, capl_tensor *t, bool normal, double a, double b, const random_stream *s,
                        const char *op)
{
  bind_check(L,
             normal ? capl_tensor_fill_normal(t, a, b, s->seed, s->a, s->b, s->c)
                    : capl_tensor_fill_uniform(t, a, b, s->seed, s->a, s->b, s->c),
             op);
}

static int create_random(lua_State *L, const char *op, bool normal)
{
  int64_t size[CAPL_MAX_NDIM];
  int next, n = bind_check_sizes(L, 1, size, &next);
  lua_settop(L, next);
  random_stream s = check_stream(L, next);
  create_options o = check_create(L, next);
  OWNED *t = NULL;
  make(L, &o, n, size, op, &t);
  fill_random(L, t, normal, 0, 1, &s, op);
  return push_created(L, &t, &o);
}

static int core_rand(lua_State *L) { return create_random(L, "rand", false); }

static int core_randn(lua_State *L) { return create_random(L, "randn", true); }

/* core.fill_random(x, kind, a, b) -> x: uniform in [a, b) or normal with mean a and deviation b */
static int core_fill_random(lua_State *L)
{
  static const char *const kinds[] = {"uniform", "normal", NULL};
  capl_tensor *t = bind_check_tensor(L, 1);
  int kind = luaL_checkoption(L, 2, NULL, kinds);
  double a = bind_check_number(L, 3), b = bind_check_number(L, 4);
  random_stream s = next_stream();
  fill_random(L, t, kind, a, b, &s, "init");
  lua_settop(L, 1);
  return 1;
}

/* arange(stop) = 0 … stop-1; arange(start, stop[, step][, options]). dtype: i64 for whole numbers, else f32
 */
static int core_arange(lua_State *L)
{
  double v[3] = {0, 0, 1};
  int n = 0;
  while (n < 3 && lua_type(L, n + 1) == LUA_TNUMBER) v[n] = lua_tonumber(L, n + 1), n++;
  if (n == 0) return bind_type_error(L, 1, "number");
  if (n == 1) v[1] = v[0], v[0] = 0;
  create_options o = check_create(L, n + 1);
  if (v[2] == 0 || !isfinite(v[0]) || !isfinite(v[1]) || !isfinite(v[2]))
    return bind_arg_error(L, 3, "a step other than 0 and finite bounds expected");
  if (!bind_option(L, n + 1, "dtype") && v[0] == floor(v[0]) && v[2] == floor(v[2])) o.dtype = CAPL_I64;
  double steps = ceil((v[1] - v[0]) / v[2]);
  int64_t count = steps > 0 ? (int64_t)steps : 0;
  if (count > INT32_MAX) return bind_arg_error(L, n > 1 ? 2 : 1, "at most 2^31 elements");
  double *values = lua_newuserdata(L, (size_t)count * sizeof *values + 1);
  for (int64_t i = 0; i < count; i++) values[i] = v[0] + (double)i * v[2];
  OWNED *t = NULL;
  bind_check(L, capl_tensor_from_doubles(o.device, o.dtype, 1, &count, values, &t), "arange");
  return push_created(L, &t, &o);
}

/* ---- nested tables --------------------------------------------------------------------------- */

/* Sizes along the first elements of the table at i. */
static int measure(lua_State *L, int i, int64_t *size)
{
  int ndim = 0;
  lua_pushvalue(L, i);
  while (lua_istable(L, -1)) {
    if (ndim == CAPL_MAX_NDIM) bind_arg_error(L, i, "at most %d nested tables", CAPL_MAX_NDIM);
    size[ndim] = (int64_t)lua_objlen(L, -1);
    if (size[ndim++] == 0) break;
    lua_rawgeti(L, -1, 1);
  }
  lua_settop(L, lua_gettop(L) - (ndim > 0 && size[ndim - 1] == 0 ? ndim : ndim + 1));
  return ndim;
}

static double number_at(lua_State *L, int i)
{
  if (lua_isboolean(L, i)) return lua_toboolean(L, i);
  if (lua_type(L, i) != LUA_TNUMBER)
    bind_arg_error(L, 1, "numbers expected in the table, got %s", bind_typename(L, i));
  return lua_tonumber(L, i);
}

/* Appends the table on top, which must have size[0] entries, to *values. */
static void gather(lua_State *L, int ndim, const int64_t *size, double **values)
{
  int64_t n = lua_istable(L, -1) ? (int64_t)lua_objlen(L, -1) : -1;
  if (n != size[0])
    bind_arg_error(L, 1, n < 0 ? "rows of unequal depth" : "rows of unequal length: %lld and %lld",
                   (long long)size[0], (long long)n);
  luaL_checkstack(L, 2, "tensor");
  for (int64_t k = 1; k <= n; k++) {
    lua_rawgeti(L, -1, (int)k);
    if (ndim > 1)
      gather(L, ndim - 1, size + 1, values);
    else
      *(*values)++ = number_at(L, -1);
    lua_pop(L, 1);
  }
}

/* tensor(number | nested table[, options]) */
static int core_tensor(lua_State *L)
{
  int64_t size[CAPL_MAX_NDIM], count = 1;
  if (!lua_istable(L, 1) && !lua_isboolean(L, 1) && lua_type(L, 1) != LUA_TNUMBER)
    return bind_type_error(L, 1, "number or table of numbers");
  create_options o = check_create(L, 2);
  if (lua_istable(L, 1)) bind_refuse_names(L, 1, "options are a second table: capl.tensor({…}, {dtype = \"i32\"})");
  int ndim = measure(L, 1, size);
  for (int i = 0; i < ndim; i++) count *= size[i];
  double *values = lua_newuserdata(L, (size_t)count * sizeof *values + 1), *end = values;
  lua_pushvalue(L, 1);
  if (ndim > 0)
    gather(L, ndim, size, &end);
  else
    *end = number_at(L, -1);
  OWNED *t = NULL;
  bind_check(L, capl_tensor_from_doubles(o.device, o.dtype, ndim, size, values, &t), "tensor");
  return push_created(L, &t, &o);
}

void bind_open_create(lua_State *L)
{
  static const luaL_Reg functions[] = {{"tensor", core_tensor},
                                       {"zeros", core_zeros},
                                       {"ones", core_ones},
                                       {"full", core_full},
                                       {"empty", core_empty},
                                       {"rand", core_rand},
                                       {"randn", core_randn},
                                       {"arange", core_arange},
                                       {"fill_random", core_fill_random},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
