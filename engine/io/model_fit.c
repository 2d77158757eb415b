/* model_fit.c -- an image of any size becomes one that a model reads: of its height and one of its widths, in its
** channels. SPDX-License-Identifier: Apache-2.0
*/
#include "data/resize.h"
#include "io/model_run.h"

capl_status model_fit(const model_meta *meta, const uint8_t *in, int width, int height, int channels, uint8_t *room,
                      uint8_t *out, int *w)
{
  uint8_t *fitted = channels == meta->channels ? out : room;
  int wide = meta->width, used = wide;
  *w = 0;
  if (meta->n_widths > 0) {
    *w = resize_choose(width, height, meta->height, meta->widths, meta->n_widths, &used);
    wide = meta->widths[*w];
  }
  CAPL_TRY(resize_padded(in, width, height, channels, used, wide, meta->height, fitted));
  if (fitted != out) resize_channels(fitted, (size_t)wide * (size_t)meta->height, channels, meta->channels, out);
  return CAPL_OK;
}
