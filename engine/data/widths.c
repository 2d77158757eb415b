/* widths.c -- chooses the widths of batches by what there is.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/widths.h"

#include <math.h>
#include <stdlib.h>

enum { FEW = 8, SMALL_SHARE = 50 };
static const double empty_share = 0.05; /* of all pixels: what padding may cost before another width is added */

int widths_find(const int *widths, int n, int px)
{
  int k = 0;
  while (k < n - 1 && widths[k] < px) k++;
  return k;
}

int widths_scaled(int width, int height, int to_height)
{
  double px = floor((double)width * to_height / height + 0.5);
  return px < 1 ? 1 : px > WIDTHS_PX_MAX ? WIDTHS_PX_MAX : (int)px;
}

/* What there is: images at each step, and what they need in all. */
typedef struct {
  int n, step;        /* places: k holds images of (k*step, (k+1)*step] px */
  uint32_t *images;   /* [n] */
  uint64_t *px;       /* [n] of those images */
  uint64_t *count_to, *px_to; /* [n + 1] of all places before */
} stock;

static int median_place(const stock *s, uint32_t n)
{
  uint64_t below = 0;
  int k = 0;
  while (2 * (below += s->images[k]) < n) k++;
  return k + 1;
}

/* How far widths of batches go: to the widest image that is not half as wide again as nearly all are, nor thrice as
** wide as the one in the middle. */
static int widest_usual(const stock *s, uint32_t n)
{
  uint32_t left = n / 100;
  int usual = s->n, middle = median_place(s, n);
  while (usual > 1 && left >= s->images[usual - 1]) left -= s->images[--usual];
  int most = usual + usual / 2 < 3 * middle ? usual + usual / 2 : 3 * middle, k = most < s->n ? most : s->n;
  while (k > 1 && s->images[k - 1] == 0) k--;
  return k;
}

static void count_images(stock *s, const int *px, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    int at = (px[i] - 1) / s->step;
    s->images[at < s->n ? at : s->n - 1]++;
    s->px[at < s->n ? at : s->n - 1] += (uint64_t)px[i];
  }
}

static void sum_up(stock *s)
{
  for (int k = 0; k < s->n; k++) {
    s->count_to[k + 1] = s->count_to[k] + s->images[k];
    s->px_to[k + 1] = s->px_to[k] + s->px[k];
  }
}

/* Empty pixels of a row when one width holds places from..to. */
static double waste(const stock *s, int from, int to)
{
  double count = (double)(s->count_to[to + 1] - s->count_to[from]), px = (double)(s->px_to[to + 1] - s->px_to[from]);
  return count * (to + 1) * s->step - px;
}

/* A width for too few images makes batches that hardly fill. */
static bool too_few(const stock *s, int from, int to)
{
  uint64_t count = s->count_to[to + 1] - s->count_to[from], all = s->count_to[s->n];
  return count < all / SMALL_SHARE || count < (all < 4 * FEW ? 1 : (uint64_t)FEW);
}

/* best[k][t]: least waste of places 0..t in k + 1 widths; from[k][t]: where the last of these begins. */
typedef struct {
  double *best;
  int *from;
} table;

static void fill_row(const stock *s, const table *t, int k)
{
  for (int to = 0; to < s->n; to++) {
    double least = k == 0 ? waste(s, 0, to) : INFINITY;
    int at = 0;
    for (int from = 1; k > 0 && from <= to; from++) {
      double w = t->best[(k - 1) * s->n + from - 1] + waste(s, from, to);
      if (w < least && s->images[to] > 0 && s->images[from - 1] > 0 && !too_few(s, from, to)) least = w, at = from;
    }
    if (k == 0 && too_few(s, 0, to)) least = INFINITY;
    t->best[k * s->n + to] = least;
    t->from[k * s->n + to] = at;
  }
}

static int read_back(const stock *s, const table *t, int k, int *widths)
{
  int n = k + 1, to = s->n - 1;
  for (; k >= 0; k--) {
    widths[k] = (to + 1) * s->step;
    to = t->from[k * s->n + to] - 1;
  }
  return n;
}

static int choose(const stock *s, const table *t, int *widths)
{
  double px = (double)s->px_to[s->n];
  int chosen = 0;
  for (int k = 0; k < WIDTHS_FOUND; k++) {
    fill_row(s, t, k);
    double w = t->best[k * s->n + s->n - 1];
    if (k > 0 && !(w < t->best[chosen * s->n + s->n - 1])) break;
    chosen = k;
    if (w <= empty_share * px) break;
  }
  return read_back(s, t, chosen, widths);
}

static int with_room(stock *s, const int *px, uint32_t n, int *widths)
{
  count_images(s, px, n);
  while (s->n > 1 && s->images[s->n - 1] == 0) s->n--;
  int usual = widest_usual(s, n);
  for (int k = usual; k < s->n; k++)
    s->images[usual - 1] += s->images[k], s->px[usual - 1] += (uint64_t)s->images[k] * (uint64_t)(usual * s->step);
  s->n = usual;
  while (s->n > 1 && s->images[s->n - 1] == 0) s->n--;
  sum_up(s);
  size_t cells = (size_t)s->n * WIDTHS_FOUND;
  table t = {malloc(cells * sizeof *t.best), malloc(cells * sizeof *t.from)};
  int chosen = t.best && t.from ? choose(s, &t, widths) : 0;
  free(t.best);
  free(t.from);
  return chosen;
}

int widths_choose(const int *px, uint32_t n, int step, int widths[CAPL_WIDTHS_MAX])
{
  size_t places = (size_t)((WIDTHS_PX_MAX + step - 1) / step);
  stock s = {.n = (int)places, .step = step, .images = calloc(places, sizeof *s.images),
             .px = calloc(places, sizeof *s.px), .count_to = calloc(places + 1, sizeof *s.count_to),
             .px_to = calloc(places + 1, sizeof *s.px_to)};
  int chosen = s.images && s.px && s.count_to && s.px_to && n ? with_room(&s, px, n, widths) : 0;
  free(s.images);
  free(s.px);
  free(s.count_to);
  free(s.px_to);
  return chosen;
}
