/* overlay.c -- what lies over an image: masks as tints, points as rings, boxes as frames, with their names.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>

#include "report/drawing.h"

static const double usual_tint = 0.45, line_width = 1.5, dot = 3, name_size = 12, turn = 6.28318530717958648;
static const double usual_side = 400; /* px of the shorter side from which on marks grow with the image */

enum { LEAST_NAMED = 48 }; /* px of the width that a name needs */

/* Where an image lies on paper, and how large. */
typedef struct {
  canvas *paper;
  const report_view *view;
  double x, y, zoom;
  double size; /* of marks: 1 as in a gallery */
} over;

/* ---- masks ----------------------------------------------------------------------------------- */

static uint32_t mask_colour(const report_view *v, int class)
{
  if (!v->palette) return report_class_colour(class);
  return class < v->n_palette ? v->palette[class] : 0;
}

/* Cairo's pixel: opacity, then channels that are multiplied by it already. */
static uint32_t premultiplied(uint32_t rgb, uint32_t alpha)
{
  uint32_t red = (rgb >> 16 & 255) * alpha / 255, green = (rgb >> 8 & 255) * alpha / 255;
  return alpha << 24 | red << 16 | green << 8 | (rgb & 255) * alpha / 255;
}

/* The mask as a picture whose class 0 is transparent; NULL without memory. */
static cairo_surface_t *tinted(const report_view *v)
{
  uint32_t tints[256] = {0}, alpha = (uint32_t)(255 * (v->tint > 0 ? v->tint : usual_tint) + 0.5);
  cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, v->width, v->height);
  uint8_t *to = cairo_image_surface_get_data(surface);
  if (!to) return cairo_surface_destroy(surface), NULL;
  for (int class = 1; class < 256; class++) tints[class] = premultiplied(mask_colour(v, class), alpha);
  const uint8_t *from = v->mask;
  for (int y = 0; y < v->height; y++, to += cairo_image_surface_get_stride(surface)) {
    uint32_t *row = (uint32_t *)(void *)to;
    for (int x = 0; x < v->width; x++) row[x] = tints[*from++];
  }
  cairo_surface_mark_dirty(surface);
  return surface;
}

static capl_status draw_mask(const over *o)
{
  cairo_surface_t *surface = tinted(o->view);
  if (!surface) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a mask of %d x %d px", o->view->width, o->view->height);
  cairo_t *cr = o->paper->cr;
  cairo_save(cr);
  cairo_translate(cr, o->x, o->y);
  cairo_scale(cr, o->zoom, o->zoom);
  cairo_set_source_surface(cr, surface, 0, 0);
  cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
  cairo_paint(cr);
  cairo_restore(cr);
  cairo_surface_destroy(surface);
  return CAPL_OK;
}

/* ---- points and boxes ------------------------------------------------------------------------ */

/* A line that is seen on bright and dark ground. */
static void stroke(const over *o, uint32_t rgb)
{
  cairo_t *cr = o->paper->cr;
  cairo_set_line_width(cr, (line_width + 1.5) * o->size);
  canvas_colour(o->paper, COLOUR_PAPER, 0.8);
  cairo_stroke_preserve(cr);
  cairo_set_line_width(cr, line_width * o->size);
  canvas_colour(o->paper, rgb, 1);
  cairo_stroke(cr);
}

/* A name beside a mark that is `away` px wide, on that side where there is room. */
static void draw_name(const over *o, double x, double y, double away, uint32_t rgb, const char *name)
{
  double size = name_size * o->size, right = o->x + o->view->width * o->zoom, room = o->view->width * o->zoom - 4;
  if (!name || !*name || right - o->x < LEAST_NAMED) return;
  double width = fmin(canvas_text_width(o->paper, size, name), room);
  double left = x + away + width + 2 <= right ? x + away : fmax(o->x + 2, x - away - width);
  canvas_colour(o->paper, COLOUR_PAPER, 0.75);
  cairo_rectangle(o->paper->cr, left - 1, y - size + 1, width + 2, size + 2);
  cairo_fill(o->paper->cr);
  canvas_text(o->paper, left, y, room, TEXT_LEFT, size, rgb, name);
}

static const char *name_at(const char *const *names, int i) { return names ? names[i] : NULL; }

static void draw_box(const over *o, int i)
{
  char number[16];
  const float *box = o->view->boxes + 5 * i;
  const char *name = name_at(o->view->box_names, i);
  if (box[4] < 0) return;
  uint32_t rgb = report_class_colour((int)box[4] + 1);
  double left = o->x + box[0] * o->zoom, top = o->y + box[1] * o->zoom;
  cairo_rectangle(o->paper->cr, left, top, (box[2] - box[0]) * o->zoom, (box[3] - box[1]) * o->zoom);
  stroke(o, rgb);
  snprintf(number, sizeof number, "%d", (int)box[4]);
  draw_name(o, left, top + name_size * o->size, 3 * o->size, rgb, name ? name : number);
}

static void ring(const over *o, double x, double y)
{
  cairo_new_sub_path(o->paper->cr);
  cairo_arc(o->paper->cr, x, y, dot * o->size, 0, turn);
}

static void cross(const over *o, double x, double y)
{
  double arm = dot * o->size;
  cairo_t *cr = o->paper->cr;
  cairo_move_to(cr, x - arm, y - arm);
  cairo_line_to(cr, x + arm, y + arm);
  cairo_move_to(cr, x + arm, y - arm);
  cairo_line_to(cr, x - arm, y + arm);
}

/* Where the point should be: a full dot, and a line to where it is. */
static void draw_truth(const over *o, const float *truth, double x, double y, uint32_t rgb)
{
  double want_x = o->x + truth[0] * o->zoom, want_y = o->y + truth[1] * o->zoom;
  if (truth[2] < 0) return;
  cairo_move_to(o->paper->cr, want_x, want_y);
  cairo_line_to(o->paper->cr, x, y);
  stroke(o, rgb);
  ring(o, want_x, want_y);
  stroke(o, rgb);
  ring(o, want_x, want_y);
  cairo_fill(o->paper->cr);
}

/* A ring; of a point that cannot be seen, a cross; nothing of one that there is not. */
static void draw_point(const over *o, int i)
{
  const float *point = o->view->points + 3 * i;
  double x = o->x + point[0] * o->zoom, y = o->y + point[1] * o->zoom;
  uint32_t rgb = report_class_colour(i + 1);
  if (point[2] < 0) return;
  if (o->view->truth) draw_truth(o, o->view->truth + 3 * i, x, y, rgb);
  if (point[2] > 0) ring(o, x, y);
  else cross(o, x, y);
  stroke(o, rgb);
  draw_name(o, x, y + name_size * o->size / 3, (dot + 3) * o->size, rgb, name_at(o->view->point_names, i));
}

/* ---- all of them ------------------------------------------------------------------------------ */

static capl_status draw_marks(const over *o)
{
  if (o->view->mask) CAPL_TRY(draw_mask(o));
  for (int i = 0; i < o->view->n_boxes; i++) draw_box(o, i);
  for (int i = 0; i < o->view->n_points; i++) draw_point(o, i);
  return CAPL_OK;
}

capl_status draw_over(canvas *paper, const report_view *view, double x, double y, double zoom, double size)
{
  over o = {paper, view, x, y, zoom, size};
  cairo_save(paper->cr);
  cairo_rectangle(paper->cr, x, y, fmax(1, floor(view->width * zoom + 0.5)), fmax(1, floor(view->height * zoom + 0.5)));
  cairo_clip(paper->cr);
  capl_status status = draw_marks(&o);
  cairo_restore(paper->cr);
  return status;
}

capl_status check_view(const report_view *view, const char *what)
{
  pixel_image image = {view->pixels, view->width, view->height, view->channels};
  CAPL_TRY(check_pixels(&image, what));
  if ((view->n_points == 0 || view->points) && (view->n_boxes == 0 || view->boxes)) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s: points or boxes without numbers", what);
}

static int zoomed(int px, double zoom)
{
  int size = (int)(px * zoom + 0.5);
  return size < 1 ? 1 : size;
}

static capl_status draw_all(canvas *paper, const report_view *view, double zoom)
{
  pixel_image image = {view->pixels, view->width, view->height, view->channels};
  int width = zoomed(view->width, zoom), height = zoomed(view->height, zoom);
  CAPL_TRY(draw_pixels(paper, &image, 0, 0, width, height));
  return draw_over(paper, view, 0, 0, zoom, fmax(1, (width < height ? width : height) / usual_side));
}

capl_status draw_overlay(const report_view *view, const char *font, report_picture *out)
{
  canvas paper;
  *out = (report_picture){0};
  double zoom = view->zoom > 0 ? view->zoom : 1;
  CAPL_TRY(check_view(view, "the picture"));
  CAPL_TRY(canvas_begin(&paper, font, zoomed(view->width, zoom), zoomed(view->height, zoom)));
  return canvas_end(&paper, draw_all(&paper, view, zoom), out);
}
