/* image.c -- an image that a model gives: keys image, its channels (1 or 3), mean and std. Output (C,H,W): level = 255
** * (output * std + mean), std 1 and mean 0 unless given; what is beyond 0..255 is cut.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>

#include "fields/kind.h"

enum { SIDE_MAX = 1 << 14 };

typedef struct {
  int channels;
  double mean[3], std[3];
} image_own;

static capl_status read(const field_keys *k, model_field *f)
{
  image_own *i = f->own;
  CAPL_TRY(keys_whole(k, "image", 3, &i->channels));
  if (i->channels == 2) return keys_wrong(k, "image", "1 or 3", keys_get(k, "image"));
  CAPL_TRY(keys_numbers(k, "mean", i->channels, false, 0, i->mean));
  return keys_numbers(k, "std", i->channels, true, 1, i->std);
}

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  return ndim == 3 && size[0] == ((image_own *)f->own)->channels && size[1] >= 1 && size[2] >= 1 &&
         size[1] <= SIDE_MAX && size[2] <= SIDE_MAX;
}

static void expects(const model_field *f, char *text, size_t room)
{
  int C = ((const image_own *)f->own)->channels;
  snprintf(text, room, "an image of %d channel%s: (N,%d,H,W)", C, C == 1 ? "" : "s", C);
}

static uint8_t level(double x) { return (uint8_t)fmin(fmax(255 * x + 0.5, 0), 255); }

static capl_status decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out)
{
  (void)place;
  const image_own *own = f->own;
  size_t n = (size_t)s->size[1] * (size_t)s->size[2], C = (size_t)own->channels;
  if (!field_finite(s->numbers, n * C)) return field_not_finite();
  uint8_t *levels = room_alloc(room, n * C);
  if (!levels) return CAPL_FAIL(CAPL_ENOMEM, "no memory for an image of %d x %d px", (int)s->size[2], (int)s->size[1]);
  for (size_t c = 0; c < C; c++)
    for (size_t i = 0; i < n; i++) levels[i * C + c] = level(s->numbers[c * n + i] * own->std[c] + own->mean[c]);
  out->levels = levels, out->width = (int)s->size[2], out->height = (int)s->size[1], out->channels = own->channels;
  return CAPL_OK;
}

const field_kind field_kind_image = {.name = "image", .own_size = sizeof(image_own), .pixels = true, .read = read,
                                     .fits = fits, .expects = expects, .decode = decode};
