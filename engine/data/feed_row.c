/* feed_row.c -- turns the random numbers of an image into those that a device's kernel reads (feed.h).
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/feed_row.h"

#include <string.h>

#include "data/augment_options.h"

_Static_assert(sizeof(capl_feed_row) == 96 && sizeof(capl_feed_more) == 100, "host and device see the same rows");
_Static_assert(CAPL_MIXUP == 1 && CAPL_CUTMIX == 2, "capl_feed_more says so");

/* A row holds one affine map, one gain and noise: the ops before perspective. */
void feed_needs_add(feed_needs *needs, const capl_augment_options *options)
{
  for (int op = CAPL_AUGMENT_PERSPECTIVE; op < CAPL_AUGMENT_OPS; op++)
    needs->more |= augment_is_asked_for(options, (capl_augment_op)op);
  needs->filters |= augment_is_asked_for(options, CAPL_AUGMENT_GAMMA)
      || augment_is_asked_for(options, CAPL_AUGMENT_BLUR);
  needs->bends |= augment_is_asked_for(options, CAPL_AUGMENT_PERSPECTIVE)
      || augment_is_asked_for(options, CAPL_AUGMENT_ELASTIC);
  needs->mixes |= capl_augment_mixes(options);
}

static capl_feed_area area_of(capl_area area)
{
  return (capl_feed_area){area.x0, area.y0, area.x1, area.y1};
}

static void write_more(const capl_augment_draw *d, capl_feed_more *more)
{
  *more = (capl_feed_more){
    .filters = d->gamma != 1 || d->blur_radius > 0,
    .blur_radius = d->blur_radius,
    .bends = d->moves && d->bends,
    .blends = d->blends,
    .mixing = (uint32_t)d->mixing,
    .share = d->share,
    .cut = area_of(d->cut),
    .erased = area_of(d->erased),
  };
  memcpy(more->colour, d->colour, sizeof more->colour);
  memcpy(more->blur_weight, d->blur_weight, sizeof more->blur_weight);
}

void feed_row_write(const capl_augment_draw *d, const capl_affine *to, int height, int width, uint32_t image,
                    const feed_place *place)
{
  capl_feed_row *row = place->row;
  *row = (capl_feed_row){
    .gain = d->gain, .lift = d->lift, .noise = d->noise, .noise_key = d->noise_key, .image = image, .moves = d->moves};
  memcpy(row->map, d->map, sizeof row->map);
  memcpy(row->scale, to->scale, sizeof row->scale);
  memcpy(row->shift, to->shift, sizeof row->shift);
  if (place->more) write_more(d, place->more);
  if (place->table && (d->gamma != 1 || d->blur_radius > 0)) capl_augment_gamma(d->gamma, place->table);
  if (place->nodes && d->moves && d->bends) capl_augment_nodes(d, height, width, place->nodes);
}
