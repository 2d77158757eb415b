/* samples.c -- images made larger or smaller, and read at given places.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/write.h"

/* A scale alone, or one that leads to the given size; ONNX computes positions from the size otherwise. */
static void need_one_scale(onnx_build *b, const onnx_call *c)
{
  const struct attrs_interpolate *a = (const void *)c->attr;
  const double scale[] = {a->scale_h.f, a->scale_w.f};
  for (int d = 0; d < 2; d++) {
    int64_t in = c->in[0]->size[2 + d], out = a->size.v[d];
    if (scale[1 - d] > 0 && scale[d] <= 0) onnx_fail(b, c, "it has a scale for one of height and width only");
    if (scale[d] > 0 && out > 0 && (in < 0 || out != (int64_t)((double)in * scale[d])))
      onnx_fail(b, c, "it has a size and a scale that does not give it");
  }
}

static void write_interpolate(onnx_build *b, const onnx_call *c)
{
  const struct attrs_interpolate *a = (const void *)c->attr;
  bool nearest = a->mode.i == 0, by_scale = a->scale_h.f > 0 && a->scale_w.f > 0;
  need_one_scale(b, c);
  const char *scales = ONNX_NONE, *sizes = ONNX_NONE;
  if (by_scale) scales = onnx_floats(b, 4, (const float[]){1, 1, (float)a->scale_h.f, (float)a->scale_w.f});
  else {
    const char *first = ONNX(b, "Shape", onnx_in(c, 0));
    onnx_int(b, "end", 2);
    sizes = ONNX(b, "Concat", first, onnx_sizes(b, c, AT(interpolate, size)));
    onnx_int(b, "axis", 0);
  }
  c->out[0].name = ONNX(b, "Resize", onnx_in(c, 0), ONNX_NONE, scales, sizes);
  onnx_word(b, "mode", nearest ? "nearest" : "linear");
  if (nearest) onnx_word(b, "nearest_mode", "floor");
  onnx_word(b, "coordinate_transformation_mode",
            nearest ? "asymmetric" : a->align_corners.i ? "align_corners" : "half_pixel");
}

static void write_grid_sample(onnx_build *b, const onnx_call *c)
{
  static const char *const padding[] = {"zeros", "border", "reflection"};
  const struct attrs_grid_sample *a = (const void *)c->attr;
  c->out[0].name = ONNX(b, "GridSample", onnx_in(c, 0), onnx_in(c, 1));
  onnx_word(b, "mode", a->mode.i ? "bilinear" : "nearest");
  onnx_word(b, "padding_mode", padding[a->padding_mode.i]);
  onnx_int(b, "align_corners", a->align_corners.i);
}

const onnx_row onnx_samples[] = {
  {CAPL_OP_interpolate, write_interpolate}, {CAPL_OP_grid_sample, write_grid_sample}, {0, NULL},
};
