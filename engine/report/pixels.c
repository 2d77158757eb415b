/* pixels.c -- one image on the paper.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stddef.h>

#include "report/drawing.h"

capl_status check_pixels(const pixel_image *image, const char *what)
{
  if (!image->pixels || image->width < 1 || image->height < 1)
    return CAPL_FAIL(CAPL_EVALUE, "%s: an image of %d x %d px%s", what, image->width, image->height,
                     image->pixels ? "" : " without pixels");
  if (image->width > REPORT_MAX_SIDE || image->height > REPORT_MAX_SIDE)
    return CAPL_FAIL(CAPL_EVALUE, "%s: an image of %d x %d px; the limit is %d px per side", what, image->width,
                     image->height, REPORT_MAX_SIDE);
  if (image->channels != 1 && image->channels != 3)
    return CAPL_FAIL(CAPL_EVALUE, "%s: an image of %d channels, not 1 or 3", what, image->channels);
  return CAPL_OK;
}

/* The image as a Cairo surface; NULL without memory. */
static cairo_surface_t *surface_of(const pixel_image *image)
{
  cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, image->width, image->height);
  uint8_t *to = cairo_image_surface_get_data(surface);
  if (!to) return cairo_surface_destroy(surface), NULL;
  const uint8_t *from = image->pixels;
  int second = image->channels == 3 ? 1 : 0, third = 2 * second;
  for (int y = 0; y < image->height; y++, to += cairo_image_surface_get_stride(surface)) {
    uint32_t *row = (uint32_t *)(void *)to;
    for (int x = 0; x < image->width; x++, from += image->channels)
      row[x] = (uint32_t)from[0] << 16 | (uint32_t)from[second] << 8 | from[third];
  }
  cairo_surface_mark_dirty(surface);
  return surface;
}

capl_status draw_pixels(canvas *c, const pixel_image *image, double x, double y, double width, double height)
{
  cairo_surface_t *surface = surface_of(image);
  if (!surface) return CAPL_FAIL(CAPL_ENOMEM, "no memory for an image of %d x %d px", image->width, image->height);
  cairo_save(c->cr);
  cairo_translate(c->cr, x, y);
  cairo_rectangle(c->cr, 0, 0, width, height);
  cairo_clip(c->cr);
  cairo_scale(c->cr, width / image->width, height / image->height);
  cairo_set_source_surface(c->cr, surface, 0, 0);
  cairo_pattern_set_filter(cairo_get_source(c->cr), width >= image->width ? CAIRO_FILTER_NEAREST : CAIRO_FILTER_GOOD);
  cairo_pattern_set_extend(cairo_get_source(c->cr), CAIRO_EXTEND_PAD);
  cairo_paint(c->cr);
  cairo_restore(c->cr);
  cairo_surface_destroy(surface);
  return CAPL_OK;
}
