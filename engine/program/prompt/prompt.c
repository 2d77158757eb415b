/* prompt.c -- what the prompt needs to know: the terminal's size and answers, widths of texts, functions, a tensor's
** tensor_statistics. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "bind/core/core.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/clock.h"
#include "base/text.h"
#include "program/prompt/prompt.h"

/* ---- the terminal ---------------------------------------------------------------------------- */

/* window() -> rows, columns of the terminal that standard output is, and their size in pixels where it is known (0);
** nothing where it is none */
static int sys_window(lua_State *L)
{
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  lua_pushinteger(L, size.ws_row ? size.ws_row : 24);
  lua_pushinteger(L, size.ws_col ? size.ws_col : 80);
  lua_pushinteger(L, size.ws_ypixel);
  lua_pushinteger(L, size.ws_xpixel);
  return 4;
}

/* utf8() -> whether the user's locale writes UTF-8 */
static int sys_utf8(lua_State *L)
{
  locale_t own = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
  lua_pushboolean(L, own && strcmp(nl_langinfo_l(CODESET, own), "UTF-8") == 0);
  if (own) freelocale(own);
  return 1;
}

/* Reads bytes until one of them is last, or the time is over. Returns their number. */
static size_t read_answer(char *answer, size_t room, char last, double seconds)
{
  double end = clock_now() + seconds;
  size_t n = 0;
  while (n < room && !capl_interrupt_pending()) {
    double rest = end - clock_now();
    struct pollfd p = {STDIN_FILENO, POLLIN, 0};
    if (rest <= 0 || poll(&p, 1, (int)(rest * 1000) + 1) <= 0) break;
    if (read(STDIN_FILENO, answer + n, 1) != 1) break;
    if (answer[n++] == last) break;
  }
  return n;
}

/* ask(query, last, seconds) -> what the terminal answers up to the byte last; nil when it does not, or there is none.
** What the user has typed ahead is left alone: then nothing is asked. */
static int sys_ask(lua_State *L)
{
  size_t len;
  const char *query = luaL_checklstring(L, 1, &len), *last = luaL_checkstring(L, 2);
  double seconds = luaL_checknumber(L, 3);
  struct termios former, raw;
  struct pollfd typed = {STDIN_FILENO, POLLIN, 0};
  if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &former) != 0 || poll(&typed, 1, 0) > 0) return 0;
  fflush(stdout);
  raw = former;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  char answer[256];
  if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return 0;
  size_t n = write(STDOUT_FILENO, query, len) == (ssize_t)len ? read_answer(answer, sizeof answer, *last, seconds) : 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &former);
  if (n == 0 || answer[n - 1] != *last) return 0;
  lua_pushlstring(L, answer, n);
  return 1;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static int columns_of(wchar_t c)
{
  int n = wcwidth(c);
  return n < 0 ? 1 : n;
}

/* width(text) -> columns it takes on a terminal: two for wide characters, none for what goes on top of others */
static int sys_width(lua_State *L)
{
  static locale_t utf8;
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n), *end = text + n;
  if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  locale_t former = utf8 ? uselocale(utf8) : (locale_t)0;
  int columns = 0;
  while (text < end) {
    wchar_t c;
    mbstate_t state = {0};
    size_t bytes = mbrtowc(&c, text, (size_t)(end - text), &state);
    bool valid = bytes > 0 && bytes <= (size_t)(end - text);
    columns += valid ? columns_of(c) : 1;
    text += valid ? bytes : 1;
  }
  if (former) uselocale(former);
  lua_pushinteger(L, columns);
  return 1;
}

/* plain(text) -> without what could steer a terminal: control characters as \x1b, line breaks and tabs stay */
static int sys_plain(lua_State *L)
{
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  char *shown = lua_newuserdata(L, 4 * n + 16), *to = shown;
  for (size_t at = 0; at < n; at += strlen(text + at) + 1) { /* a zero byte ends what capl_text_show sees */
    capl_text_show(to, 4 * n + 16 - (size_t)(to - shown), text + at, true);
    to += strlen(to);
    if (at + strlen(text + at) < n) memcpy(to, "\\x00", 4), to += 4;
  }
  lua_pushlstring(L, shown, (size_t)(to - shown));
  return 1;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* caller(level) -> "main", "Lua" or "C", chunk, line: the function at that level; 1 is who called this */
static int sys_caller(lua_State *L)
{
  lua_Debug at;
  if (!lua_getstack(L, (int)luaL_checkinteger(L, 1), &at)) return 0;
  lua_getinfo(L, "Sl", &at);
  lua_pushstring(L, at.what);
  lua_pushstring(L, at.short_src);
  lua_pushinteger(L, at.currentline);
  return 3;
}

/* parameters(function) -> {name, …}, chunk, line of its definition; nil for a function of C */
static int sys_parameters(lua_State *L)
{
  lua_Debug at;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_getinfo(L, ">S", &at);
  if (*at.what == 'C') return 0;
  lua_newtable(L);
  lua_pushvalue(L, 1);
  const char *name;
  for (int i = 1; (name = lua_getlocal(L, NULL, i)); i++) {
    lua_pushstring(L, name);
    lua_rawseti(L, 2, i);
  }
  lua_settop(L, 2);
  lua_pushstring(L, at.short_src);
  lua_pushinteger(L, at.linedefined);
  return 3;
}

/* ---- a tensor's tensor_statistics ---------------------------------------------------------------------- */

typedef struct {
  double n, nan, infinite, least, greatest, sum, squares, shift;
} tensor_statistics;

/* Sums are of differences from the first value, so that a great mean does not swallow a small spread. */
static void take_values(tensor_statistics *f, const double *value, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    double x = value[i];
    if (!isfinite(x)) {
      if (isnan(x)) f->nan++;
      else f->infinite++;
      continue;
    }
    if (f->n == 0) f->shift = f->least = f->greatest = x;
    f->n++;
    f->least = fmin(f->least, x);
    f->greatest = fmax(f->greatest, x);
    f->sum += x - f->shift;
    f->squares += (x - f->shift) * (x - f->shift);
  }
}

enum { BLOCK = 1 << 16 };

/* The values of t, block by block: dims are taken apart from the first on until what is left fits. */
static capl_status take_tensor(tensor_statistics *f, capl_tensor *t, double *values)
{
  if (capl_interrupt_pending()) return CAPL_FAIL(CAPL_EINTERRUPT, "interrupted");
  int64_t n = capl_tensor_numel(t);
  if (n <= BLOCK) {
    CAPL_TRY(capl_tensor_to_doubles(t, values));
    take_values(f, values, n);
    return CAPL_OK;
  }
  int64_t rest = n / t->size[0], step = rest < BLOCK ? BLOCK / rest : 1, size[CAPL_MAX_NDIM];
  for (int64_t at = 0; at < t->size[0]; at += step) {
    OWNED *part = NULL;
    memcpy(size, t->size, sizeof size);
    size[0] = at + step < t->size[0] ? step : t->size[0] - at;
    bool one = rest >= BLOCK;
    CAPL_TRY(capl_tensor_alias(t, t->ndim - one, size + one, t->stride + one, t->offset + at * t->stride[0], &part));
    CAPL_TRY(take_tensor(f, part, values));
  }
  return CAPL_OK;
}

static void set_number(lua_State *L, const char *key, double value)
{
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

/* tensor_figures(tensor) -> {n = finite values, nan, infinite (how many), min, max, mean, std}. Reads all of it: for
** memory that the CPU can read, and for small tensors elsewhere. */
static int sys_tensor_statistics(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1);
  double *values = lua_newuserdata(L, BLOCK * sizeof *values);
  tensor_statistics f = {0};
  bind_check(L, take_tensor(&f, t, values), NULL);
  lua_newtable(L);
  set_number(L, "n", f.n);
  set_number(L, "nan", f.nan);
  set_number(L, "infinite", f.infinite);
  if (f.n == 0) return 1;
  double mean = f.sum / f.n, spread = f.squares - f.sum * mean;
  set_number(L, "min", f.least);
  set_number(L, "max", f.greatest);
  set_number(L, "mean", f.shift + mean);
  set_number(L, "std", f.n > 1 ? sqrt(fmax(spread, 0) / (f.n - 1)) : 0);
  return 1;
}

void capl_prompt_push(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"window", sys_window}, {"utf8", sys_utf8}, {"ask", sys_ask}, {"width", sys_width}, {"plain", sys_plain},
    {"caller", sys_caller}, {"parameters", sys_parameters}, {"tensor_figures", sys_tensor_statistics}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  capl_prompt_add_pictures(L);
}
