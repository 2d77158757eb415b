/* colours.c -- colours of classes, which masks, boxes and points of all pictures share.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/report.h"

#include <math.h>

/* Neighbours in number differ; colour-blind readers distinguish the first six. */
static const uint32_t first_ones[] = {0xd55e00, 0x0072b2, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9,
                                      0x7b3294, 0x8c510a, 0x01665e, 0xffd92f, 0xa6d854, 0xe7298a};
enum { FIRST_ONES = sizeof first_ones / sizeof *first_ones };

/* Level 0..255 of a channel of HSV: shift 5 red, 3 green, 1 blue. hue in sixths of the circle */
static uint32_t channel(double shift, double hue, double saturation, double value)
{
  double k = fmod(shift + hue, 6);
  double share = fmax(0, fmin(fmin(k, 4 - k), 1));
  return (uint32_t)(255 * value * (1 - saturation * share) + 0.5);
}

/* Hues a golden section apart never meet; three brightnesses take turns. */
static uint32_t later_one(int class)
{
  static const double brightness[] = {0.9, 0.55, 0.72};
  double hue = 6 * fmod(class * 0.61803398875, 1), value = brightness[class % 3];
  return channel(5, hue, 0.75, value) << 16 | channel(3, hue, 0.75, value) << 8 | channel(1, hue, 0.75, value);
}

uint32_t report_class_colour(int class)
{
  if (class < 1) return 0;
  return class <= FIRST_ONES ? first_ones[class - 1] : later_one(class);
}
