/* report.h -- pictures of a run: line charts and sheets of images, drawn into RGB pixels.
**
** A picture is described by plain structs, drawn by one call and given back as pixels; writing the file is the
** caller's. The same description gives the same pixels. Texts are UTF-8; control characters and bytes that are no
** UTF-8 are drawn as U+FFFD, and a text too long for its place ends in an ellipsis.
**
** Drawing needs Cairo, which brings the libraries of X11 along: 20 libraries and 1.3 ms at every start. So the
** drawing is in a library of its own, libcapl_report.so, which report_open loads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_REPORT_REPORT_H
#define CAPL_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "capl/error.h"

enum {
  REPORT_MAX_SIDE = 16384,      /* px */
  REPORT_MAX_PIXELS = 64 << 20, /* as many as a PNG may have to be read */
  REPORT_MAX_PANELS = 32,
  REPORT_MAX_SERIES = 21, /* per panel: 7 colours, full, dashed and dotted */
  REPORT_MAX_CELLS = 10000,
  REPORT_MAX_LABELS = 200, /* of a matrix */
  REPORT_MAX_GROUPS = 40,
};

typedef struct {
  uint8_t *pixels; /* (height, width, 3) RGB; freed by report_picture_fini */
  int width, height;
} report_picture;

/* ---- line charts ----------------------------------------------------------------------------- */

typedef struct {
  const char *name;    /* for the legend; NULL or "" = not there */
  const double *x, *y; /* n of each. y that is not finite, beyond 1e300, or <= 0 on a log axis, is a gap */
  int64_t n;
  double smooth; /* 0..1, 0 = off: weight of the neighbours for a smooth line over the pale values */
  bool dots;     /* a dot for each value and no line between them: x in any order */
} report_series;

typedef struct {
  const char *y_label;
  bool percent;    /* values are shares of 1, shown in % */
  bool log;
  double min, max; /* limits of the y axis; NaN = from the data */
  const report_series *series;
  int n_series;
} report_panel;

/* A vertical line through all panels, with a few words. */
typedef struct {
  double x;
  const char *label; /* NULL = none */
} report_line;

/* Panels one above the other over a common x axis. */
typedef struct {
  const char *title, *x_label; /* NULL = none */
  bool log_x;
  const char *font;            /* path of a TrueType file; NULL = Noto Sans Mono, else $CAPL_FONT */
  int width, height;           /* px; height 0 = by the number of panels */
  const report_panel *panels;
  int n_panels;
  const report_line *lines; /* moments that matter in all of them */
  int n_lines;
} report_chart;

/* ---- sheets of images ------------------------------------------------------------------------ */

typedef enum { REPORT_UNMARKED, REPORT_BAD, REPORT_GOOD } report_mark;

typedef struct {
  const uint8_t *pixels;     /* (height, width, channels) */
  int width, height;         /* px; small images are enlarged by a whole factor, large ones shrunk */
  int channels;              /* 1 or 3 */
  const char *caption;       /* below the image; NULL = none */
  const char *truth;         /* what the caption should be: characters that differ are red; NULL = not known */
  const char *note;          /* small, right of the caption; NULL = none */
  report_mark mark;          /* colour of the frame */
} report_cell;

/* Cells in rows; where some are bad and some are good, the bad ones come first, each under its heading. */
typedef struct {
  const char *title; /* NULL = none */
  const char *font;  /* as above */
  int columns;       /* 0 = as many as fit on 1120 px */
  const report_cell *cells;
  int n_cells;
} report_sheet;

/* ---- galleries of samples -------------------------------------------------------------------- */

/* One image with what belongs to it. Coordinates are px of the image, whose top left corner is (0, 0). */
typedef struct {
  const uint8_t *pixels; /* (height, width, channels) */
  int width, height, channels;
  const char *caption;   /* below it; NULL = none */
  const uint8_t *mask;   /* (height, width) classes, 0 = none; tints the image; NULL = none */
  const uint32_t *palette; /* (n_palette) 0xRRGGBB of the mask's classes; NULL = report_class_colour */
  int n_palette;
  double tint;           /* 0..1, how much a mask covers; 0 = 0.45 */
  const float *points;   /* (n_points, 3): x, y, 1 = visible, 0 = not, -1 = there is none */
  const float *truth;    /* (n_points, 3): where they should be, as full dots; NULL = not known */
  const char *const *point_names; /* (n_points), beside the points; NULL = none */
  int n_points;
  const float *boxes;    /* (n_boxes, 5): left, top, right, bottom, class; class -1 = there is none */
  const char *const *box_names;   /* (n_boxes); NULL = the numbers of the classes */
  int n_boxes;
  double zoom; /* px of an overlay for each of the image; 0 = 1. Galleries have one for all their views */
} report_view;

/* 0xRRGGBB of a class from 1 on, the same in all pictures; class 0 is what is not drawn. */
CAPL_API uint32_t report_class_colour(int class);

/* The colour of a class, or of a point of number class. */
typedef struct {
  const char *name;
  int class;
} report_key;

/* Rows of views: the first of a row, what the others were made of, stand apart. */
typedef struct {
  const char *title, *note; /* note: small, below the title; NULL = none */
  const report_view *views;
  int n_views;
} report_section;

typedef struct {
  const char *title, *font; /* as above */
  const char *first, *rest; /* what the columns hold; NULL = nothing */
  int columns;              /* views of a row, the first one included */
  int together;             /* how many of them stand apart; 0 = 1 */
  const report_key *legend; /* below the title */
  int n_legend;
  const report_section *sections;
  int n_sections;
} report_gallery;

/* ---- confusion matrices ---------------------------------------------------------------------- */

/* Samples beside a matrix, under a title of their own; of the cells, the pixels alone are shown. */
typedef struct {
  const char *title;
  const report_cell *cells;
  int n_cells;
} report_group;

typedef struct {
  const char *title, *font;             /* as above */
  const char *row_label, *column_label; /* what rows and columns are; NULL = nothing */
  const char *const *labels;            /* (n) of both */
  const double *counts;                 /* (n, n), from 0 on, row by row */
  int n;
  const report_group *groups;
  int n_groups;
} report_matrix;

/* ---- numbers with names ---------------------------------------------------------------------- */

/* A horizontal bar for each, from 0, one below the other. */
typedef struct {
  const char *title, *x_label, *font; /* as above */
  const char *const *labels;          /* (n) */
  const double *values;               /* (n) */
  int n, width;                       /* width: px */
} report_bars;

/* ---- drawing --------------------------------------------------------------------------------- */

/* What libcapl_report offers. *out: caller finishes it. All of them: EVALUE naming panel, series or cell, EIO for the
** font, ENOMEM. One picture at a time is drawn; other threads wait. */
typedef struct {
  int abi; /* REPORT_ABI */
  capl_status (*lines)(const report_chart *chart, report_picture *out);
  capl_status (*sheet)(const report_sheet *sheet, report_picture *out);
  capl_status (*gallery)(const report_gallery *gallery, report_picture *out);
  capl_status (*matrix)(const report_matrix *matrix, report_picture *out);
  /* One view without its caption, as large as its image; font as above */
  capl_status (*overlay)(const report_view *view, const char *font, report_picture *out);
  capl_status (*bars)(const report_bars *bars, report_picture *out);
} report_drawing;

enum { REPORT_ABI = 8 };

/* Loads the library at the first call. EUNSUPPORTED names what is missing. */
CAPL_API capl_status report_open(const report_drawing **out);
CAPL_API void report_picture_fini(report_picture *picture);

/* The entry of libcapl_report. */
CAPL_API const report_drawing *report_drawing_entry(void);

#endif
