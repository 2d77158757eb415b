/* range.c -- whether the values of a tensor are in a range: for arguments that mean nothing outside of it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/float16.h"
#include "bind/core/core.h"

enum { CHUNK = 1024 };

double bind_value_at(const capl_tensor *t, int64_t place)
{
  const void *data = capl_tensor_data(t);
  switch (t->dtype) {
  case CAPL_F32: return (double)((const float *)data)[place];
  case CAPL_F64: return ((const double *)data)[place];
  case CAPL_BF16: return (double)capl_bf16_to_float(((const uint16_t *)data)[place]);
  case CAPL_F16: return (double)capl_f16_to_float(((const uint16_t *)data)[place]);
  case CAPL_I32: return ((const int32_t *)data)[place];
  case CAPL_I64: return (double)((const int64_t *)data)[place];
  default: return ((const uint8_t *)data)[place];
  }
}

static bool is_outside(double value, double low, double high)
{
  return value < low || value > high; /* NaN is not: it shows by itself */
}

/* Whether one of n values is outside; without a branch per value, so that compilers take many at once. */
static bool any_outside(const float *x, int64_t n, float low, float high)
{
  int found = 0;
  for (int64_t i = 0; i < n; i++) found |= (x[i] < low) | (x[i] > high);
  return found;
}

/* How many values of a row-major f32 tensor are known to be inside. */
static int64_t skip_inside(const capl_tensor *t, double low, double high)
{
  int64_t n = capl_tensor_numel(t), k = 0;
  const float *x = capl_tensor_data(t);
  if (t->dtype != CAPL_F32 || !capl_tensor_is_row(t)) return 0;
  while (k < n && !any_outside(x + k, n - k < CHUNK ? n - k : CHUNK, (float)low, (float)high)) k += CHUNK;
  return k < n ? k : n;
}

/* The place in memory of element i in row-major order, and its indices. */
static int64_t place_of(const capl_tensor *t, int64_t i, int64_t *at)
{
  int64_t place = 0;
  for (int d = t->ndim - 1; d >= 0; d--) {
    at[d] = i % t->size[d];
    place += at[d] * t->stride[d];
    i /= t->size[d];
  }
  return place;
}

/* core.outside(tensor, low, high) -> the first value below low or above high, its indices from 1; nil when there is
** none, and for tensors in memory of a GPU, for which a loss is NaN then: the host does not wait for them. Reads,
** records nothing. */
static int core_outside(lua_State *L)
{
  const capl_tensor *t = bind_check_tensor(L, 1);
  double low = luaL_checknumber(L, 2), high = luaL_checknumber(L, 3);
  int64_t n = capl_tensor_numel(t), at[CAPL_MAX_NDIM];
  if (!t->device->backend->arithmetic || !t->device->backend->host_memory) return lua_pushnil(L), 1;
  for (int64_t i = skip_inside(t, low, high); i < n; i++) {
    double value = bind_value_at(t, place_of(t, i, at));
    if (!is_outside(value, low, high)) continue;
    lua_pushnumber(L, value);
    lua_createtable(L, t->ndim, 0);
    for (int d = 0; d < t->ndim; d++) {
      lua_pushnumber(L, (double)(at[d] + 1));
      lua_rawseti(L, -2, d + 1);
    }
    return 2;
  }
  return lua_pushnil(L), 1;
}

void bind_open_range(lua_State *L)
{
  static const luaL_Reg functions[] = {{"outside", core_outside}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
