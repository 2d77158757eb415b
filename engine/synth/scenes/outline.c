/* outline.c -- outlines of shapes: lines, curves, ellipses, bands, as closed polygons in px.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/scenes/canvas.h"
#include "synth/portable_math.h"

/* ---- frames ---------------------------------------------------------------------------------- */

canvas_frame canvas_turned(float radians, float scale, float x, float y)
{
  float c = (float)portable_cos((double)radians) * scale, s = (float)portable_sin((double)radians) * scale;
  return (canvas_frame){.xx = c, .xy = s, .x0 = x, .yx = -s, .yy = c, .y0 = y};
}

canvas_point canvas_place(const canvas_frame *f, float x, float y)
{
  return (canvas_point){f->xx * x + f->xy * y + f->x0, f->yx * x + f->yy * y + f->y0};
}

/* ---- points ---------------------------------------------------------------------------------- */

void outline_begin(outline *o, const canvas_frame *frame)
{
  o->frame = frame ? *frame : (canvas_frame){.xx = 1, .yy = 1};
  o->n = 0;
}

static void add(outline *o, canvas_point p)
{
  if (o->n < OUTLINE_POINTS) o->point[o->n++] = p;
}

void outline_to(outline *o, float x, float y)
{
  add(o, canvas_place(&o->frame, x, y));
}

void outline_curve(outline *o, float x1, float y1, float x2, float y2, float x, float y)
{
  enum { PIECES = 14 };
  if (o->n == 0) return;
  canvas_point a = o->point[o->n - 1], b = canvas_place(&o->frame, x1, y1);
  canvas_point c = canvas_place(&o->frame, x2, y2), d = canvas_place(&o->frame, x, y);
  for (int i = 1; i <= PIECES; i++) {
    float t = (float)i / PIECES, r = 1 - t;
    float wa = r * r * r, wb = 3 * r * r * t, wc = 3 * r * t * t, wd = t * t * t;
    add(o, (canvas_point){wa * a.x + wb * b.x + wc * c.x + wd * d.x, wa * a.y + wb * b.y + wc * c.y + wd * d.y});
  }
}

void outline_arc(outline *o, float x, float y, float rx, float ry, float from, float to)
{
  float scale = sqrtf(fabsf(o->frame.xx * o->frame.yy - o->frame.xy * o->frame.yx));
  float turn = fabsf(to - from) / (float)(2 * STEADY_PI);
  int pieces = 3 + (int)(turn * portable_clamp(8 + 0.6f * scale * (rx > ry ? rx : ry), 12, 72));
  for (int i = 0; i <= pieces; i++) {
    double angle = (double)from + (double)(to - from) * i / pieces;
    outline_to(o, x + rx * (float)portable_cos(angle), y + ry * (float)portable_sin(angle));
  }
}

void outline_ellipse(outline *o, float x, float y, float rx, float ry)
{
  outline_arc(o, x, y, rx, ry, 0, (float)(2 * STEADY_PI));
}

/* Between b and c, a and d being their neighbours; t 0..1. */
static float between(float a, float b, float c, float d, float t)
{
  float slope_b = 0.5f * (c - a), slope_c = 0.5f * (d - b), rise = c - b;
  return b + t * (slope_b + t * (3 * rise - 2 * slope_b - slope_c + t * (slope_b + slope_c - 2 * rise)));
}

void outline_smooth(outline *o, const canvas_point *p, int n)
{
  enum { PIECES = 8 };
  for (int i = 0; i < n; i++) {
    canvas_point a = p[(i + n - 1) % n], b = p[i], c = p[(i + 1) % n], d = p[(i + 2) % n];
    for (int k = 0; k < PIECES; k++) {
      float t = (float)k / PIECES;
      outline_to(o, between(a.x, b.x, c.x, d.x, t), between(a.y, b.y, c.y, d.y, t));
    }
  }
}

/* Half the band at point i: across the line there, as long as the taper leaves it. */
static canvas_point half_band(const outline *o, const canvas_point *line, int n, int i, float width, float taper)
{
  canvas_point a = canvas_place(&o->frame, line[i > 0 ? i - 1 : 0].x, line[i > 0 ? i - 1 : 0].y);
  canvas_point b = canvas_place(&o->frame, line[i + 1 < n ? i + 1 : i].x, line[i + 1 < n ? i + 1 : i].y);
  float dx = b.x - a.x, dy = b.y - a.y, length = sqrtf(dx * dx + dy * dy);
  float place = n > 1 ? 2 * (float)i / (float)(n - 1) - 1 : 0; /* -1..1 */
  float half = 0.5f * width * (1 - (1 - taper) * place * place);
  return length > 0 ? (canvas_point){-dy / length * half, dx / length * half} : (canvas_point){0, half};
}

void outline_band(outline *o, const canvas_point *line, int n, float width, float taper)
{
  for (int pass = 0; pass < 2; pass++)
    for (int k = 0; k < n; k++) {
      int i = pass ? n - 1 - k : k;
      canvas_point at = canvas_place(&o->frame, line[i].x, line[i].y), half = half_band(o, line, n, i, width, taper);
      add(o, pass ? (canvas_point){at.x - half.x, at.y - half.y} : (canvas_point){at.x + half.x, at.y + half.y});
    }
}
