/* smooth.c -- the smooth line of a series: at each value a straight line through its neighbours, near ones the heavier.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "report/drawing.h"

/* Weighted sums over neighbours at distance d: of 1, d, d^2, y and y d. */
typedef struct {
  double one, d, dd, y, yd;
} sums;

/* Adds to out, from the first value to the last for step 1 and backwards for -1, the sums over what lies behind: each
** place further the weight is s->smooth times that of the one before. d is negative for what comes earlier. */
static void add_running_sums(const report_panel *panel, const report_series *s, int64_t first, int step, sums *out)
{
  sums r = {0};
  for (int64_t i = first; i >= 0 && i < s->n; i += step) {
    if (!panel_shows(panel, s->y[i])) continue;
    r = (sums){s->smooth * r.one + 1, s->smooth * (r.d - step * r.one), s->smooth * (r.dd - 2 * step * r.d + r.one),
               s->smooth * r.y + s->y[i], s->smooth * (r.yd - step * r.y)};
    sums *o = &out[i];
    *o = (sums){o->one + r.one, o->d + r.d, o->dd + r.dd, o->y + r.y, o->yd + r.yd};
  }
}

/* Where the straight line through the neighbours passes the value y itself, which is in both sums. */
static double fitted(const sums *r, double y)
{
  double one = r->one - 1, sum = r->y - y, determinant = one * r->dd - r->d * r->d;
  return determinant > 1e-9 * one * r->dd ? (r->dd * sum - r->d * r->yd) / determinant : sum / one;
}

double *smooth_line(const report_panel *panel, const report_series *s)
{
  sums *sum = calloc((size_t)s->n, sizeof *sum);
  double *out = malloc((size_t)s->n * sizeof *out);
  if (sum && out) {
    add_running_sums(panel, s, 0, 1, sum);
    add_running_sums(panel, s, s->n - 1, -1, sum);
    for (int64_t i = 0; i < s->n; i++) out[i] = panel_shows(panel, s->y[i]) ? fitted(&sum[i], s->y[i]) : s->y[i];
  }
  if (!sum) free(out), out = NULL;
  free(sum);
  return out;
}
