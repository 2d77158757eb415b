/* axis.c -- where an axis begins and ends, its ticks at round numbers, and their labels.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- limits ---------------------------------------------------------------------------------- */

static void widen(axis *a)
{
  double size = fmax(fabs(a->lo), fabs(a->hi)), least = fmax(size * 1e-9, 1e-290);
  if (a->hi - a->lo >= least) return;
  double by = size > 0 ? fmax(size * 0.05, least) : 1;
  a->lo -= by;
  a->hi += by;
}

/* hi / lo itself may be more than a number can hold. */
static void limits_log(axis *a, bool padded)
{
  if (a->hi <= a->lo * (1 + 1e-9)) a->lo /= 2, a->hi *= 2;
  double by = padded ? pow(10, 0.05 * (log10(a->hi) - log10(a->lo))) : 1;
  a->lo = fmax(a->lo / by, 1e-305);
  a->hi = fmin(a->hi * by, 1e305);
}

void axis_limits(axis *a, double lo, double hi, bool padded)
{
  if (lo > hi) lo = a->log ? 1 : 0, hi = a->log ? 10 : 1; /* no data */
  a->lo = lo;
  a->hi = hi;
  if (a->log) {
    limits_log(a, padded);
    return;
  }
  widen(a);
  if (!padded) return;
  double by = 0.05 * (a->hi - a->lo);
  a->lo -= by;
  a->hi += by;
  if (lo >= 0 && lo < 0.25 * hi) a->lo = 0;
  if (!a->percent) return;
  if (lo >= 0) a->lo = fmax(a->lo, 0); /* shares beyond 0 and 100 % do not exist */
  if (hi <= 1) a->hi = fmin(a->hi, 1);
}

double axis_place(const axis *a, double value)
{
  if (a->log) return (log(value) - log(a->lo)) / (log(a->hi) - log(a->lo));
  return (value - a->lo) / (a->hi - a->lo);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Digits behind the point that a step needs. */
static int decimals(double step)
{
  if (!(step < 1)) return 0;
  return (int)ceil(-log10(step) - 1e-9);
}

/* "-1234567.5" -> "-1,234,567.5" */
static void put_separators(char *out, size_t len, const char *plain)
{
  size_t sign = *plain == '-', digits = strspn(plain + sign, "0123456789"), n = 0;
  for (const char *p = plain; *p && n + 2 < len; p++) {
    size_t i = (size_t)(p - plain);
    if (i > sign && i < sign + digits && (sign + digits - i) % 3 == 0) out[n++] = ',';
    out[n++] = *p;
  }
  out[n] = '\0';
}

static const struct {
  double size;
  const char *letter;
} units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};

/* 20000 in steps of 5000 -> "20k"; false where a unit would need many digits. */
static bool label_with_unit(char *out, size_t len, double value, double step, double largest)
{
  for (int k = 0; k < 3; k++) {
    if (largest < (units[k].size == 1e3 ? 1e4 : units[k].size)) continue;
    int digits = decimals(step / units[k].size);
    if (digits > 2) continue;
    snprintf(out, len, "%.*f%s", digits, value / units[k].size, units[k].letter);
    return true;
  }
  return false;
}

/* 0.00001 -> "1e-5", with as many digits as distinguish steps */
static void write_exponent(char *out, size_t len, double value, double step, double largest)
{
  int digits = (int)fmin(15, 2 + log10(fmax(largest / step, 1)));
  int n = snprintf(out, len, "%.*g", digits, value);
  char *e = strchr(out, 'e');
  if (!e || n >= (int)len) return;
  char *power = e + 2; /* behind the sign */
  while (*power == '0' && power[1]) power++;
  char *to = e[1] == '-' ? e + 2 : e + 1;
  memmove(to, power, strlen(power) + 1);
}

/* value as one of the labels in steps of step, the largest of which is largest. */
static void write_label(char *out, size_t len, double value, double step, double largest)
{
  char plain[40];
  if (fabs(value) < step * 1e-6) {
    snprintf(out, len, "0");
  } else if (largest >= 1e12 || largest < 1e-4 || decimals(step) > 6) {
    write_exponent(out, len, value, step, largest);
  } else if (!label_with_unit(out, len, value, step, largest)) {
    snprintf(plain, sizeof plain, "%.*f", decimals(step), value);
    put_separators(out, len, plain);
  }
}

static void add_tick(axis *a, double value, double step, double largest)
{
  if (a->n == AXIS_TICKS) return;
  char *label = a->label[a->n];
  double factor = a->percent ? 100 : 1;
  write_label(label, sizeof a->label[0] - 3, value * factor, step * factor, largest * factor);
  if (a->percent) strcat(label, " %");
  a->at[a->n++] = value;
}

/* ---- ticks ----------------------------------------------------------------------------------- */

/* The smallest of 1, 2, 5 times a power of ten that is no smaller than least. */
static double round_step(double least)
{
  double power = pow(10, floor(log10(least))), head = least / power;
  return power * (head <= 1 + 1e-9 ? 1 : head <= 2 + 1e-9 ? 2 : head <= 5 + 1e-9 ? 5 : 10);
}

static void ticks_linear(axis *a, int most)
{
  double step = round_step((a->hi - a->lo) / most), slack = step * 1e-6;
  if (a->whole && step < 1) step = 1;
  double first = ceil(a->lo / step - 1e-6), last = floor(a->hi / step + 1e-6);
  double largest = fmax(fabs(first), fabs(last)) * step;
  for (double k = first; k * step <= a->hi + slack && a->n < AXIS_TICKS; k++) add_tick(a, k * step, step, largest);
}

static void ticks_decades(axis *a, int most)
{
  int first = (int)ceil(log10(a->lo) - 1e-9), last = (int)floor(log10(a->hi) + 1e-9);
  int every = 1 + (last - first) / most;
  for (int k = first; k <= last; k += every) add_tick(a, pow(10, k), pow(10, k), pow(10, k));
}

/* Few decades: 1, 2 and 5 of each. */
static void ticks_within_decades(axis *a)
{
  static const int heads[] = {1, 2, 5};
  for (int k = (int)floor(log10(a->lo)); k <= (int)floor(log10(a->hi)); k++)
    for (int i = 0; i < 3; i++) {
      double value = heads[i] * pow(10, k);
      if (value >= a->lo * (1 - 1e-9) && value <= a->hi * (1 + 1e-9)) add_tick(a, value, pow(10, k), value);
    }
}

void axis_ticks(axis *a, int most)
{
  a->n = 0;
  if (most < 1) most = 1;
  if (most > AXIS_TICKS - 1) most = AXIS_TICKS - 1;
  double decades = a->log ? log10(a->hi) - log10(a->lo) : 0;
  if (a->log && decades * 3 <= most) ticks_within_decades(a);
  else if (a->log && decades > 1.5) ticks_decades(a, most);
  if (a->n >= 3 || (a->log && decades > 1.5)) return;
  a->n = 0; /* a short stretch of a log axis: steps as if it were none */
  ticks_linear(a, most);
}
