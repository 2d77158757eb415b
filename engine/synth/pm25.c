/* pm25.c -- a made-up series of fine dust in the air of a city, and of the weather that it follows.
**
** Weather is a seasonal mean plus a memory of the day before; dust is exp of what season, week, years, weather and
** spells of still air add up to. Nothing here has anything to do with a particular city's real days.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>

#include "capl/synth.h"
#include "capl/rng.h"
#include "capl/series.h"
#include "synth/random.h"
#include "synth/portable_math.h"
#include "data/streams.h"

/* What a day remembers of the one before. */
typedef struct {
  double warmth, dryness, east, north, layer, pressure, vapour, dust;
  int still; /* days that the air has stood still; 0 = it moves */
  int spell; /* days that it will */
} memory;

/* ---- calendar -------------------------------------------------------------------------------- */

static const int FIRST_YEAR = 2015;

static int days_of_year(int year)
{
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365;
}

typedef struct {
  int year, day; /* day of the year from 0 */
  int week;      /* day of the week, Monday = 0 */
} calendar;

static void write_date(const calendar *c, char date[11])
{
  static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int month = 0, day = c->day;
  for (; month < 11; month++) {
    int n = lengths[month] + (month == 1 && days_of_year(c->year) == 366);
    if (day < n) break;
    day -= n;
  }
  snprintf(date, 11, "%04u-%02u-%02u", (unsigned)c->year % 10000, (unsigned)(month + 1) % 100,
           (unsigned)(day + 1) % 100);
}

static void next_day(calendar *c)
{
  c->week = (c->week + 1) % 7;
  if (++c->day < days_of_year(c->year)) return;
  c->day = 0;
  c->year++;
}

/* ---- one day --------------------------------------------------------------------------------- */

/* A new state that keeps share of the old one and has that deviation in the long run. */
static double drift(double old, double share, double deviation, capl_rng *rng)
{
  return share * old + deviation * sqrt(1 - share * share) * portable_normal(rng);
}

/* Spells begin more often from November to March, and last two to six days. */
static void stand_still(memory *m, double winter, capl_rng *rng)
{
  bool begins = random_chance(rng, winter > 0.35 ? 0.11f : 0.035f);
  int days = 2;
  while (days < 6 && random_chance(rng, 0.55f)) days++;
  if (m->still > 0 && m->still < m->spell) m->still++;
  else if (m->still > 0) m->still = 0;
  else if (begins) m->still = 1, m->spell = days;
}

/* winter: 1 in the middle of January, -1 in the middle of July. */
static void roll_weather(memory *m, double winter, double *day, capl_rng *rng)
{
  m->warmth = drift(m->warmth, 0.75, 3, rng);
  m->dryness = drift(m->dryness, 0.6, 3.5, rng);
  m->east = drift(m->east, 0.62, 1.7, rng);
  m->north = drift(m->north, 0.62, 1.9, rng);
  m->layer = drift(m->layer, 0.5, 0.22, rng);
  m->pressure = drift(m->pressure, 0.7, 380, rng);
  m->vapour = drift(m->vapour, 0.6, 0.25, rng);
  stand_still(m, winter, rng);
  double calm = m->still ? 0.42 : 1, gap = fmax(0.6, 9 + 4.5 * winter + m->dryness - (m->still ? 4 : 0));
  double east = calm * (0.5 * winter + m->east), north = calm * (-0.9 * winter + m->north),
      wind = sqrt(east * east + north * north);
  double aloft = 1.55 + 0.1 * portable_normal(rng);
  day[CAPL_PM25_t2m] = 285.6 - 15.2 * winter + m->warmth;
  day[CAPL_PM25_d2m] = day[CAPL_PM25_t2m] - gap;
  day[CAPL_PM25_u10] = east;
  day[CAPL_PM25_v10] = north;
  day[CAPL_PM25_u100] = east * aloft + 0.25 * portable_normal(rng);
  day[CAPL_PM25_v100] = north * aloft + 0.25 * portable_normal(rng);
  day[CAPL_PM25_blh] = portable_exp(6.25 - 0.33 * winter + 0.11 * (wind - 2.2) + m->layer - (m->still ? 0.5 : 0));
  day[CAPL_PM25_sp] = 98600 + 950 * winter + m->pressure;
  day[CAPL_PM25_tcwv] = portable_exp(2.35 - 1.05 * winter - 0.03 * (gap - 9) + m->vapour);
}

/* Rain: every eighth day, in summer every third; in metres of the daily mean hour, as a rate, and what the sun
** sends. */
static double roll_rain(double winter, double *day, capl_rng *rng)
{
  bool rains = random_chance(rng, (float)(0.17 - 0.14 * winter));
  double much = -0.00025 * (1 - 0.8 * winter) * portable_log(1 - (double)capl_rng_float(rng)),
      clear = 1 + 0.02 * portable_normal(rng);
  day[CAPL_PM25_tp] = rains ? much : 0;
  day[CAPL_PM25_avg_tprate] = day[CAPL_PM25_tp] / 3.6; /* 1000 kg m-3 over an hour */
  day[CAPL_PM25_tisr] = 1.08e6 * (1 - 0.42 * winter) * clear;
  return rains ? much : 0;
}

/* Share of the vapour that the air could hold, in percent (Magnus). */
static double humidity(double warm, double dew)
{
  double a = 17.625 * (dew - 273.15) / (dew - 30.11), b = 17.625 * (warm - 273.15) / (warm - 30.11);
  return 100 * portable_exp(a - b);
}

static double roll_dust(memory *m, const calendar *c, double winter, double years, double rain, const double *day,
                        capl_rng *rng)
{
  double wind = sqrt(day[CAPL_PM25_u10] * day[CAPL_PM25_u10] + day[CAPL_PM25_v10] * day[CAPL_PM25_v10]);
  double damp = humidity(day[CAPL_PM25_t2m], day[CAPL_PM25_d2m]), flat = portable_log(day[CAPL_PM25_blh] / 550);
  m->dust = drift(m->dust, 0.7, 0.38, rng);
  double gathered = m->still ? 0.12 + 0.11 * m->still : 0, noise = 0.06 * portable_normal(rng);
  return 0.55 * winter - (c->week >= 5 ? 0.07 : 0) - 0.03 * years - 0.1 * (wind - 2.2) - 0.25 * flat + 0.007
      * (damp - 55) -
         (rain > 0 ? 0.18 : 0) + gathered + m->dust + noise;
}

/* ---- all days -------------------------------------------------------------------------------- */

static double rounded(double x, int decimals)
{
  double unit = 1;
  for (; decimals > 0; decimals--) unit *= 10;
  return (double)(int64_t)(x * unit + (x < 0 ? -0.5 : 0.5)) / unit;
}

/* Sums of the logarithm become levels of that mean. */
static void finish(double *value, uint32_t days, double mean)
{
#define X(name, decimals) decimals,
  static const uint8_t decimals[] = {CAPL_PM25_MAP(X)};
#undef X
  double sum = 0;
  for (uint32_t i = 0; i < days; i++) sum += value[(size_t)i * CAPL_PM25_COLUMNS + CAPL_PM25_pm25];
  for (uint32_t i = 0; i < days; i++) {
    double *day = value + (size_t)i * CAPL_PM25_COLUMNS, dust = day[CAPL_PM25_pm25] * mean * days / sum;
    day[CAPL_PM25_pm25] = dust < 3 ? 3 : dust > 400 ? 400 : dust;
    for (int k = 0; k < CAPL_PM25_COLUMNS; k++) day[k] = rounded(day[k], decimals[k]);
  }
}

capl_status capl_pm25_make(uint64_t seed, uint32_t days, double *value, char (*date)[11])
{
  if (days < 1 || days > CAPL_PM25_DAYS_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "%u days; it must be 1..%d", days, CAPL_PM25_DAYS_MAX);
  capl_rng rng;
  capl_rng_init(&rng, seed, 0, 0, CAPL_STREAM_PM25);
  memory m = {0};
  calendar c = {.year = FIRST_YEAR, .week = 3}; /* 2015 began on a Thursday */
  double mean = 45 + 10 * (double)capl_rng_float(&rng);
  for (uint32_t i = 0; i < days; i++, next_day(&c)) {
    double *day = value + (size_t)i * CAPL_PM25_COLUMNS,
    winter = portable_cos(2 * STEADY_PI * (c.day - 14) / days_of_year(c.year));
    roll_weather(&m, winter, day, &rng);
    double rain = roll_rain(winter, day, &rng);
    day[CAPL_PM25_pm25] = portable_exp(roll_dust(&m, &c, winter, (double)i / 365.25, rain, day, &rng));
    write_date(&c, date[i]);
  }
  finish(value, days, mean);
  return CAPL_OK;
}

const char *capl_pm25_column(int i)
{
#define X(name, decimals) #name,
  static const char *const names[] = {CAPL_PM25_MAP(X)};
#undef X
  return i >= 0 && i < CAPL_PM25_COLUMNS ? names[i] : NULL;
}
