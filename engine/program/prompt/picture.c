/* picture.c -- images for the terminal: a tensor as pixels of the size wanted, and those as base64 (kitty) or sixels.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/prompt/prompt.h"

enum { MOST_SIDE = 4096, PALETTE = 256, SIXEL_ROWS = 6 };

/* ---- pixels ---------------------------------------------------------------------------------- */

typedef struct {
  const double *value; /* C,H,W */
  int64_t channels, height, width;
  double lo, scale;
} image;

/* Mean of channel c over what the pixel covers; at least one value of the image, so that pictures can grow too. */
static double mean_over(const image *im, int64_t c, double y0, double y1, double x0, double x1)
{
  int64_t top = (int64_t)y0, left = (int64_t)x0;
  int64_t bottom = (int64_t)fmax(ceil(y1 - 1e-9), (double)top + 1),
      right = (int64_t)fmax(ceil(x1 - 1e-9), (double)left + 1);
  double sum = 0, weight = 0;
  for (int64_t y = top; y < bottom && y < im->height; y++) {
    double share_y = fmin(y1, (double)y + 1) - fmax(y0, (double)y);
    for (int64_t x = left; x < right && x < im->width; x++) {
      double share = share_y * (fmin(x1, (double)x + 1) - fmax(x0, (double)x));
      sum += share * im->value[(c * im->height + y) * im->width + x];
      weight += share;
    }
  }
  return weight > 0 ? sum / weight : 0;
}

static uint8_t level(const image *im, double value)
{
  double scaled = (value - im->lo) * im->scale;
  return (uint8_t)(scaled > 0 ? fmin(scaled, 255) + 0.5 : 0); /* NaN is black */
}

static void draw(const image *im, int64_t width, int64_t height, uint8_t *out)
{
  double dy = (double)im->height / (double)height, dx = (double)im->width / (double)width;
  for (int64_t y = 0; y < height; y++)
    for (int64_t x = 0; x < width; x++)
      for (int64_t c = 0; c < 3; c++) {
        int64_t from = im->channels >= 3 ? c : 0;
        double value = mean_over(im, from, (double)y * dy, (double)(y + 1) * dy, (double)x * dx, (double)(x + 1) * dx);
        *out++ = level(im, value);
      }
}

/* pixels(tensor (C,H,W), width, height, lo, hi) -> width*height*3 bytes: lo is black, hi white */
static int prompt_pixels(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1);
  int64_t width = bind_check_int(L, 2), height = bind_check_int(L, 3);
  double lo = bind_check_number(L, 4), hi = bind_check_number(L, 5);
  bool fits = t->ndim == 3 && capl_tensor_numel(t) > 0 && width > 0 && height > 0 && width <= MOST_SIDE
      && height <= MOST_SIDE;
  if (!fits) return bind_arg_error(L, 1, "an image (C,H,W) and a size of at most %d px expected", MOST_SIDE);
  double *values = lua_newuserdata(L, (size_t)capl_tensor_numel(t) * sizeof *values);
  uint8_t *out = lua_newuserdata(L, (size_t)(width * height * 3));
  bind_check(L, capl_tensor_to_doubles(t, values), "show");
  image im = {values, t->size[0], t->size[1], t->size[2], lo, hi > lo ? 255 / (hi - lo) : 0};
  draw(&im, width, height, out);
  lua_pushlstring(L, (const char *)out, (size_t)(width * height * 3));
  return 1;
}

/* ---- base64 ---------------------------------------------------------------------------------- */

/* base64(bytes) -> text */
static int prompt_base64(lua_State *L)
{
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t n;
  const uint8_t *from = (const uint8_t *)luaL_checklstring(L, 1, &n);
  char *out = lua_newuserdata(L, (n + 2) / 3 * 4 + 1), *to = out;
  for (size_t i = 0; i < n; i += 3) {
    uint32_t three = (uint32_t)from[i] << 16 | (i + 1 < n ? (uint32_t)from[i + 1] << 8 : 0)
    | (i + 2 < n ? from[i + 2] : 0);
    *to++ = digit[three >> 18];
    *to++ = digit[three >> 12 & 63];
    *to++ = i + 1 < n ? digit[three >> 6 & 63] : '=';
    *to++ = i + 2 < n ? digit[three & 63] : '=';
  }
  lua_pushlstring(L, out, (size_t)(to - out));
  return 1;
}

/* ---- sixels ---------------------------------------------------------------------------------- */

typedef struct {
  uint32_t color[PALETTE];
  int n;
} palette;

/* The place of a colour in the palette, which it enters while there is room; -1 = there is none. */
static int find_color(palette *p, uint32_t color)
{
  for (int i = 0; i < p->n; i++)
    if (p->color[i] == color) return i;
  if (p->n == PALETTE) return -1;
  p->color[p->n] = color;
  return p->n++;
}

static uint32_t color_at(const uint8_t *pixel, int bits)
{
  uint32_t color = 0;
  for (int c = 0; c < 3; c++) {
    int steps = (1 << (c == 1 && bits < 8 ? bits + 1 : bits)) - 1; /* the eye knows most greens */
    color = color << 8 | (uint32_t)((pixel[c] * steps + 127) / 255 * 255 / steps);
  }
  return color;
}

/* The palette entry of each pixel: exact colours where 256 are enough, else fewer levels of each. */
static void index_pixels(const uint8_t *pixels, size_t n, palette *p, uint8_t *index)
{
  for (int bits = 8; bits >= 2; bits = bits == 8 ? 2 : bits - 1) {
    size_t i = 0;
    p->n = 0;
    for (int at; i < n && (at = find_color(p, color_at(pixels + 3 * i, bits))) >= 0; i++) index[i] = (uint8_t)at;
    if (i == n) return;
  }
}

/* A run of equal sixels: "!12~" is shorter than twelve of them. */
static void add_run(luaL_Buffer *b, int bits, int count)
{
  char text[24];
  if (count > 3) {
    snprintf(text, sizeof text, "!%d%c", count, bits + 63);
    luaL_addstring(b, text);
    return;
  }
  while (count-- > 0) luaL_addchar(b, (char)(bits + 63));
}

/* One colour of a band of six rows. Returns whether it has that colour at all. */
static bool add_band(luaL_Buffer *b, const uint8_t *index, int width, int rows, int color)
{
  if (!memchr(index, color, (size_t)(width * rows))) return false;
  char text[24];
  snprintf(text, sizeof text, "#%d", color);
  luaL_addstring(b, text);
  int former = -1, count = 0;
  for (int x = 0; x < width; x++) {
    int bits = 0;
    for (int y = 0; y < rows; y++) bits |= (index[y * width + x] == color) << y;
    if (bits == former) {
      count++;
      continue;
    }
    if (count) add_run(b, former, count);
    former = bits;
    count = 1;
  }
  add_run(b, former, count);
  luaL_addchar(b, '$');
  return true;
}

static void add_palette(luaL_Buffer *b, const palette *p)
{
  char text[48];
  for (int i = 0; i < p->n; i++) {
    uint32_t c = p->color[i];
    snprintf(text, sizeof text, "#%d;2;%u;%u;%u", i, ((c >> 16) * 100 + 127) / 255, ((c >> 8 & 255) * 100 + 127) / 255,
             ((c & 255) * 100 + 127) / 255); /* shares of a hundred */
    luaL_addstring(b, text);
  }
}

/* sixel(pixels, width, height) -> the picture as commands to the terminal */
static int prompt_sixel(lua_State *L)
{
  size_t n;
  const uint8_t *pixels = (const uint8_t *)luaL_checklstring(L, 1, &n);
  int64_t width = bind_check_int(L, 2), height = bind_check_int(L, 3);
  bool fits = width > 0 && height > 0 && width <= MOST_SIDE && height <= MOST_SIDE && n == (size_t)(width * height * 3);
  if (!fits) return bind_arg_error(L, 1, "three bytes for each of width times height pixels expected");
  uint8_t *index = lua_newuserdata(L, (size_t)(width * height));
  palette p;
  index_pixels(pixels, (size_t)(width * height), &p, index);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  char head[48];
  snprintf(head, sizeof head, "\033P0;1q\"1;1;%d;%d", (int)width, (int)height);
  luaL_addstring(&b, head);
  add_palette(&b, &p);
  for (int64_t y = 0; y < height; y += SIXEL_ROWS) {
    int rows = (int)(height - y < SIXEL_ROWS ? height - y : SIXEL_ROWS);
    for (int color = 0; color < p.n; color++) add_band(&b, index + y * width, (int)width, rows, color);
    luaL_addchar(&b, '-');
  }
  luaL_addstring(&b, "\033\\");
  luaL_pushresult(&b);
  return 1;
}

void capl_prompt_add_pictures(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"pixels", prompt_pixels}, {"base64", prompt_base64}, {"sixel", prompt_sixel}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
