/* face_ink.c -- line art of a painted face: flat shades, dark lines between the classes of its mask.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/scenes/face_parts.h"

#include "synth/portable_math.h"

/* Levels are scaled so that their luma is one of a few shades, which keeps the hue. */
static void flatten(const face_plan *p, canvas *c)
{
  const float step = 255 / 6.0f;
  size_t n = (size_t)c->width * (size_t)c->height;
  for (size_t i = 0; i < n; i++) {
    float luma = 0.299f * c->plane[0][i] + 0.587f * c->plane[1][i] + 0.114f * c->plane[2][i];
    luma = luma > 1 ? luma : 1;
    float shade = step * (float)portable_floor(luma / step + 0.5f);
    for (int k = 0; k < 3; k++) c->plane[k][i] = p->ink_only ? shade : c->plane[k][i] * (shade / luma);
  }
}

/* Whether a pixel's class differs from that of one at `far` px to its left, right, above or below. */
static bool meets_other(const canvas *c, int x, int y, int far)
{
  const uint8_t *at = c->mask + (size_t)y * (size_t)c->width + x;
  ptrdiff_t row = (ptrdiff_t)far * c->width;
  return (x >= far && at[-far] != *at) || (x + far < c->width && at[far] != *at) || (y >= far && at[-row] != *at)
      || (y + far < c->height && at[row] != *at);
}

void face_ink(const face_plan *p, canvas *c)
{
  int far = (int)(0.012f * p->px) + 1;
  flatten(p, c);
  for (int y = 0; y < c->height; y++)
    for (int x = 0; x < c->width; x++)
      if (meets_other(c, x, y, far))
        for (int k = 0; k < 3; k++) {
          float *level = c->plane[k] + (size_t)y * (size_t)c->width + x;
          *level = portable_mix(*level, 18, 0.85f);
        }
}
