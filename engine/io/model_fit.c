/* model_fit.c -- an image of any size becomes one that a model reads: of its height and one of its widths, in its
** channels. SPDX-License-Identifier: Apache-2.0
*/
#include "data/resize.h"
#include "io/model_run.h"

/* Converted before it is padded: the padding has its levels in the channels of the model. */
static capl_status fit_letterbox(const model_meta *meta, const uint8_t *in, int width, int height, int channels,
                                 uint8_t *room, uint8_t *out)
{
  resize_area area = resize_place(&meta->letterbox, width, height, meta->width, meta->height);
  uint8_t *fitted = channels == meta->channels ? out : room;
  CAPL_TRY(resize_image(in, width, height, channels, area.width, area.height, fitted));
  if (fitted != out) resize_channels(fitted, (size_t)area.width * (size_t)area.height, channels, meta->channels, out);
  resize_surround(&meta->letterbox, &area, meta->channels, meta->width, meta->height, out);
  return CAPL_OK;
}

capl_status model_fit(const model_meta *meta, const uint8_t *in, int width, int height, int channels, uint8_t *room,
                      uint8_t *out, int *w)
{
  uint8_t *fitted = channels == meta->channels ? out : room;
  int wide = meta->width, used = wide;
  *w = 0;
  if (meta->letterbox.on) return fit_letterbox(meta, in, width, height, channels, room, out);
  if (meta->n_widths > 0) {
    *w = resize_choose(width, height, meta->height, meta->widths, meta->n_widths, &used);
    wide = meta->widths[*w];
  }
  CAPL_TRY(resize_padded(in, width, height, channels, used, wide, meta->height, fitted));
  if (fitted != out) resize_channels(fitted, (size_t)wide * (size_t)meta->height, channels, meta->channels, out);
  return CAPL_OK;
}
