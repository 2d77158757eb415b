/* picture.c -- images for the terminal: a tensor as pixels of the size wanted.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <math.h>
#include <stdint.h>

#include "program/prompt/prompt.h"

enum { MOST_SIDE = 4096 };

typedef struct {
  const double *value; /* C,H,W */
  int64_t channels, height, width;
  double lo, scale;
} image;

/* Mean of channel c over what the pixel covers; at least one value of the image, so that pictures can grow too. */
static double mean_over(const image *im, int64_t c, double y0, double y1, double x0, double x1)
{
  int64_t top = (int64_t)y0, left = (int64_t)x0;
  int64_t bottom = (int64_t)fmax(ceil(y1 - 1e-9), (double)top + 1), right = (int64_t)fmax(ceil(x1 - 1e-9), (double)left + 1);
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
  bool fits = t->ndim == 3 && capl_tensor_numel(t) > 0 && width > 0 && height > 0 && width <= MOST_SIDE && height <= MOST_SIDE;
  if (!fits) return bind_arg_error(L, 1, "an image (C,H,W) and a size of at most %d px expected", MOST_SIDE);
  double *values = lua_newuserdata(L, (size_t)capl_tensor_numel(t) * sizeof *values);
  uint8_t *out = lua_newuserdata(L, (size_t)(width * height * 3));
  bind_check(L, capl_tensor_to_doubles(t, values), "show");
  image im = {values, t->size[0], t->size[1], t->size[2], lo, hi > lo ? 255 / (hi - lo) : 0};
  draw(&im, width, height, out);
  lua_pushlstring(L, (const char *)out, (size_t)(width * height * 3));
  return 1;
}

void capl_prompt_add_pictures(lua_State *L)
{
  lua_pushcfunction(L, prompt_pixels);
  lua_setfield(L, -2, "pixels");
}
