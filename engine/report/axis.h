/* axis.h -- where an axis begins and ends, its ticks at round numbers, and their labels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_REPORT_AXIS_H
#define CAPL_REPORT_AXIS_H

#include <stdbool.h>

enum { AXIS_TICKS = 64 };

typedef struct {
  double lo, hi; /* lo < hi, both finite; within 1e-300 to 1e300 on a log axis */
  bool log;
  bool percent; /* values are shares of 1 */
  bool whole;   /* no ticks between whole numbers */
  int n;
  double at[AXIS_TICKS];
  char label[AXIS_TICKS][24];
} axis;

/* Sets the limits around values from lo to hi: room at both ends if padded, and 0 where it is near. An empty range
** (lo > hi, or lo == hi) is widened. */
void axis_limits(axis *a, double lo, double hi, bool padded);
/* Sets at most most (1 at least) ticks with steps of 1, 2 or 5 times a power of ten, at decades on a log axis. */
void axis_ticks(axis *a, int most);
/* Place of a value on the axis, 0 at lo and 1 at hi; outside of that for values beyond the limits. */
double axis_place(const axis *a, double value);

#endif
