/* drawing.h -- what the files that draw share.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_REPORT_DRAWING_H
#define CAPL_REPORT_DRAWING_H

#include "report/canvas.h"

/* The functions of report_drawing; report.h says what they do. */
capl_status draw_lines(const report_chart *chart, report_picture *out);
capl_status draw_sheet(const report_sheet *sheet, report_picture *out);
capl_status draw_gallery(const report_gallery *gallery, report_picture *out);
capl_status draw_matrix(const report_matrix *matrix, report_picture *out);
capl_status draw_bars(const report_bars *bars, report_picture *out);
capl_status draw_overlay(const report_view *view, const char *font, report_picture *out);

/* Whether a value is finite, and above 0 on a log axis: others are gaps. */
bool panel_shows(const report_panel *panel, double y);
/* s->n values, for free; NULL without memory. Local straight lines: unlike a running mean they do not lag behind, and
** keep to the values where a curve begins steeply. Gaps stay. */
double *smooth_line(const report_panel *panel, const report_series *s);

/* Pixels (height, width, channels) of an image. */
typedef struct {
  const uint8_t *pixels;
  int width, height, channels;
} pixel_image;

/* EVALUE, beginning with `what`, unless it is an image of 1 or 3 channels that a sheet can show. */
capl_status check_pixels(const pixel_image *image, const char *what);
/* Draws it into a rectangle: enlarged, its pixels stay pixels. ENOMEM. */
capl_status draw_pixels(canvas *c, const pixel_image *image, double x, double y, double width, double height);

/* EVALUE, beginning with `what`, unless it has pixels that can be shown and numbers for all its points and boxes. */
capl_status check_view(const report_view *view, const char *what);
/* Draws what lies over a view's image, whose top left corner is at (x, y) and whose pixels are `zoom` px wide. size: of
** marks and names, 1 as on a sheet. ENOMEM. */
capl_status draw_over(canvas *paper, const report_view *view, double x, double y, double zoom, double size);

#endif
