/* key.c -- keys of time series: numbers, dates, dates with a time of day.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/series/table.h"

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

/* Exactly n digits; moves *p past them. */
static bool read_digits(const char **p, int n, int *value)
{
  for (*value = 0; n > 0; n--, (*p)++) {
    if (!is_digit(**p)) return false;
    *value = 10 * *value + (**p - '0');
  }
  return true;
}

static bool pass(const char **p, char c)
{
  if (**p != c) return false;
  (*p)++;
  return true;
}

static int days_in(int year, int month)
{
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return days[month - 1] + (month == 2 && leap);
}

/* Days from the first of March of year 0, which puts the leap day last (Richards, "Mapping time", ch. 25). */
static double day_number(int year, int month, int day)
{
  int shifted = (month + 9) % 12, from_march = year - (month < 3);
  return 365.0 * from_march + from_march / 4 - from_march / 100 + from_march / 400 + (153 * shifted + 2) / 5 + day - 1;
}

/* 2015-01-31 or 2015/01/31 */
static bool read_date(const char **p, double *seconds)
{
  int year, month, day;
  if (!read_digits(p, 4, &year)) return false;
  char mark = **p;
  if ((mark != '-' && mark != '/') || !pass(p, mark) || !read_digits(p, 2, &month) || !pass(p, mark)
      || !read_digits(p, 2, &day))
    return false;
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in(year, month)) return false;
  *seconds = 86400 * day_number(year, month, day);
  return true;
}

/* 13, 13:45, 13:45:59 or 13:45:59.25, with or without Z */
static bool read_time(const char **p, double *seconds)
{
  int hour, minute = 0, second = 0;
  if (!read_digits(p, 2, &hour) || hour > 23) return false;
  if (pass(p, ':') && (!read_digits(p, 2, &minute) || minute > 59)) return false;
  if (pass(p, ':') && (!read_digits(p, 2, &second) || second > 59)) return false;
  *seconds += 3600.0 * hour + 60.0 * minute + second;
  double unit = 0.1;
  if (pass(p, '.'))
    for (; is_digit(**p); (*p)++, unit /= 10) *seconds += unit * (**p - '0');
  pass(p, 'Z');
  return true;
}

key_kind series_key(const char *text, double *at)
{
  const char *p = text;
  if (read_date(&p, at)) {
    if ((*p == ' ' || *p == 'T') && p[1]) {
      p++;
      if (!read_time(&p, at)) return KEY_NONE;
    }
    return *p ? KEY_NONE : KEY_DATE;
  }
  if (!*text || strspn(text, "0123456789+-.eE") != strlen(text)) return KEY_NONE;
  char *end;
  *at = strtod_l(text, &end, newlocale(LC_ALL_MASK, "C", NULL)); /* glibc has that one for ever */
  return *end || !isfinite(*at) ? KEY_NONE : KEY_NUMBER;
}
