/* augment.c -- reads the augmentation that a recipe asks for.
**
** What users write is said in lua/capl/augment.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/data.h"

#include <string.h>

#include "capl/schedule.h"

typedef struct {
  bool flip_text;
  int fill, mask_fill;
} rest; /* of the options: what is no range and no list */

static const bind_option_spec options[] = {
  {"rotate", BIND_OTHER}, {"scale", BIND_OTHER}, {"translate_x", BIND_OTHER}, {"translate_y", BIND_OTHER},
  {"shear", BIND_OTHER}, {"contrast", BIND_OTHER}, {"brightness", BIND_OTHER}, {"noise", BIND_OTHER},
  {"invert", BIND_OTHER}, {"flip", BIND_OTHER}, {"flip_vertical", BIND_OTHER}, {"crop", BIND_OTHER},
  {"perspective", BIND_OTHER}, {"elastic", BIND_OTHER}, {"gamma", BIND_OTHER}, {"saturation", BIND_OTHER},
  {"hue", BIND_OTHER}, {"blur", BIND_OTHER}, {"erase", BIND_OTHER}, {"mixup", BIND_OTHER}, {"cutmix", BIND_OTHER},
  {"flip_swaps", BIND_OTHER}, {"flip_points", BIND_OTHER}, {"flip_text", BIND_BOOL(rest, flip_text)},
  {"fill", BIND_WHOLE(rest, fill), .min = -1, .max = 255},
  {"mask_fill", BIND_WHOLE(rest, mask_fill), .max = 255},
  BIND_END};

/* What one number m stands for: -m..m, 1-m..1+m, 0..m, m..1, m..m. ORDER capl_augment_op */
enum { AROUND = '-', ABOUT_ONE = '1', FROM_ZERO = '0', TO_ONE = 'c', EXACTLY = '=', PROBABILITY = 'p' };
static const char kinds[] = "-1---110pppc==11-==";
_Static_assert(sizeof kinds - 1 == CAPL_AUGMENT_MIX, "each op but mixing has a kind");

static capl_range range_of_number(char kind, float m)
{
  switch (kind) {
  case ABOUT_ONE: return (capl_range){1 - m, 1 + m};
  case FROM_ZERO: return (capl_range){0, m};
  case TO_ONE: return (capl_range){m, 1};
  case EXACTLY: return (capl_range){m, m};
  default: return (capl_range){-m, m};
  }
}

/* ---- one op ---------------------------------------------------------------------------------- */

/* t[i] of the table at the top, if it is a number. */
static bool item(lua_State *L, int i, float *out)
{
  lua_rawgeti(L, -1, i);
  bool fine = lua_type(L, -1) == LUA_TNUMBER;
  if (fine) *out = (float)lua_tonumber(L, -1);
  lua_pop(L, 1);
  return fine;
}

/* A key of the table at the top; it raises for what is no number from least to most. */
static double keyed(lua_State *L, const char *op, const char *key, double otherwise, double least, double most)
{
  double value = otherwise;
  lua_getfield(L, -1, key);
  if (!lua_isnil(L, -1)) {
    value = lua_tonumber(L, -1);
    if (lua_type(L, -1) != LUA_TNUMBER || !(value >= least && value <= most))
      bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s: %s is a number from %g to %g", op, key, least, most);
  }
  lua_pop(L, 1);
  return value;
}

static bool listed(const char *list, const char *word)
{
  size_t n = strlen(word);
  for (const char *at = strstr(list, word); at; at = strstr(at + 1, word)) {
    if (at[-1] == ' ' && at[n] == ' ') return n > 0;
  }
  return false;
}

/* Keys of the table at the top are numbers or in the list, in which words stand between spaces, one before the first
** too. */
static void check_keys(lua_State *L, const char *op, const char *list)
{
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING || listed(list + 1, lua_tostring(L, -1))) continue;
    bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s has no option '%s'; it knows%.*s", op, lua_tostring(L, -1),
              (int)strlen(list) - 1, list);
  }
}

/* {lo, hi} or {m} at the top. */
static capl_range pair(lua_State *L, const char *op, char kind)
{
  float lo = 0, hi;
  if (!item(L, 1, &lo) || lua_objlen(L, -1) > 2)
    bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s is {lo, hi} or one number", op);
  return item(L, 2, &hi) ? (capl_range){lo, hi} : range_of_number(kind, lo);
}

/* What single ops know beside p and coin. */
static void read_extras(lua_State *L, capl_augment_op op, capl_augment_options *a)
{
  switch (op) {
  case CAPL_AUGMENT_BLUR: a->blur_size = (uint8_t)keyed(L, "blur", "size", 0, 0, 7); break;
  case CAPL_AUGMENT_ERASE: a->erase_value = (uint8_t)keyed(L, "erase", "value", 0, 0, 255); break;
  case CAPL_AUGMENT_CROP:
    lua_getfield(L, -1, "aspect");
    if (lua_istable(L, -1)) a->crop_aspect = pair(L, "crop: aspect", EXACTLY);
    else if (!lua_isnil(L, -1))
      bind_fail(L, CAPL_EVALUE, "augment", NULL, "crop: aspect is {lo, hi}, width over height");
    lua_pop(L, 1);
    break;
  default: break;
  }
}

static const char *extras_of(capl_augment_op op)
{
  switch (op) {
  case CAPL_AUGMENT_BLUR: return " p coin size ";
  case CAPL_AUGMENT_ERASE: return " p coin value ";
  case CAPL_AUGMENT_CROP: return " p coin aspect ";
  default: return " p coin ";
  }
}

static void read_range(lua_State *L, const capl_knob *knob, capl_augment_options *a)
{
  capl_range *range = (capl_range *)((char *)a + knob->offset);
  char kind = kinds[knob->op];
  if (lua_type(L, -1) == LUA_TNUMBER) {
    *range = range_of_number(kind, (float)lua_tonumber(L, -1));
  } else if (lua_istable(L, -1)) {
    check_keys(L, knob->name, extras_of((capl_augment_op)knob->op));
    *range = pair(L, knob->name, kind);
    a->skip[knob->op] = (float)(1 - keyed(L, knob->name, "p", 1, 0, 1));
    a->coin[knob->op] = (uint8_t)keyed(L, knob->name, "coin", 0, 1, CAPL_AUGMENT_COINS);
    read_extras(L, (capl_augment_op)knob->op, a);
  } else {
    bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s is {lo, hi} or one number, got %s", knob->name,
              bind_typename(L, -1));
  }
}

static void read_op(lua_State *L, int i, const capl_knob *knob, capl_augment_options *a)
{
  if (knob->kind == CAPL_KNOB_SHARE) {
    bind_read_option(L, "augment", i,
                     &(bind_option_spec){knob->name, .kind = OPTION_NUMBER, .at = knob->offset, .size = sizeof(float),
                                         .max = 1}, a);
    return;
  }
  if (bind_option(L, i, knob->name)) read_range(L, knob, a);
  lua_pop(L, 1);
}

/* ---- mixing, swaps, fills -------------------------------------------------------------------- */

/* {alpha = 0.2, p = 0.5} */
static capl_mix read_mix(lua_State *L, int i, const char *key)
{
  capl_mix mix = {0};
  if (bind_option(L, i, key)) {
    if (!lua_istable(L, -1))
      bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s is {alpha =, p =}, got %s", key, bind_typename(L, -1));
    check_keys(L, key, " alpha p ");
    mix = (capl_mix){(float)keyed(L, key, "alpha", 1, 0.01, 4), (float)keyed(L, key, "p", 1, 0, 1)};
  }
  lua_pop(L, 1);
  return mix;
}

/* {{4, 5}, {6, 7}}: class ids, or numbers of points from 0 on. */
static capl_swaps read_swaps(lua_State *L, int i, const char *key)
{
  capl_swaps swaps = {.declared = bind_option(L, i, key)};
  if (swaps.declared && !lua_istable(L, -1))
    bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s is a list of pairs {{4, 5}, {6, 7}}", key);
  for (int k = 1; swaps.declared; k++, swaps.count++) {
    float one = -1, two = -1;
    lua_rawgeti(L, -1, k);
    bool more = lua_istable(L, -1);
    if (!more && !lua_isnil(L, -1))
      bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s[%d] is no pair such as {4, 5}", key, k);
    bool fine = more && item(L, 1, &one) && item(L, 2, &two) && one >= 0 && two >= 0 && one < 256 && two < 256
        && k <= CAPL_SWAPS_MAX;
    lua_pop(L, 1);
    if (!more) break;
    if (!fine)
      bind_fail(L, CAPL_EVALUE, "augment", NULL,
                "%s[%d] is no pair of numbers from 0 to 255, or there are more than %d", key, k, CAPL_SWAPS_MAX);
    swaps.pair[swaps.count][0] = (uint8_t)one;
    swaps.pair[swaps.count][1] = (uint8_t)two;
  }
  lua_pop(L, 1);
  return swaps;
}

capl_augment_options data_read_augment(lua_State *L, int i)
{
  capl_augment_options a = {0};
  capl_knob knob;
  rest r = {.fill = -1};
  bind_read_options(L, "augment", i, options, &r);
  for (int k = 0; k < CAPL_AUGMENT_MIX && capl_augment_knob(k, &knob); k++) read_op(L, i, &knob, &a);
  a.mixup = read_mix(L, i, "mixup");
  a.cutmix = read_mix(L, i, "cutmix");
  a.class_swaps = read_swaps(L, i, "flip_swaps");
  a.point_swaps = read_swaps(L, i, "flip_points");
  a.flip_text = r.flip_text;
  a.fill = r.fill >= 0;
  a.fill_value = a.fill ? (uint8_t)r.fill : 0;
  a.mask_fill = (uint8_t)r.mask_fill;
  bind_check(L, capl_augment_check(&a), "augment");
  return a;
}
