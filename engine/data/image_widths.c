/* image_widths.c -- image files of one height and several widths: which width each has, by the files' headers.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "data/image_set.h"
#include "data/widths.h"

int image_set_width_of(const capl_source *source, uint32_t i)
{
  return widths_find(source->widths, source->n_widths, ((const image_set *)source)->px[i]);
}

int image_set_used(const capl_source *source, const capl_read *what)
{
  int px = ((const image_set *)source)->px[what->id], room = capl_source_width_of(source, what->id);
  return px < room ? px : room;
}

uint32_t capl_source_squeezed(const capl_source *source, uint32_t *id, int *px)
{
  if (!source->n_widths || source->ops->used != image_set_used) return 0;
  const image_set *set = (const image_set *)source;
  *id = set->widest;
  *px = set->squeezed ? set->px[set->widest] : 0;
  return set->squeezed;
}

static capl_status check_widths(const image_set *set, const capl_folder_options *o)
{
  if (!o->height || o->width || o->resize) {
    CAPL_FAIL(CAPL_EVALUE, "%s: widths go with a height, and without width and resize", set->where);
    capl_error_hint("images keep their proportions: height = 60, widths = \"auto\"");
    return CAPL_EVALUE;
  }
  for (int k = 0; k < o->n_widths; k++) {
    if (o->widths[k] < 1 || o->widths[k] > WIDTHS_PX_MAX || (k > 0 && o->widths[k] <= o->widths[k - 1]))
      return CAPL_FAIL(CAPL_EVALUE, "%s: widths are 1..%d px in ascending order, not %d", set->where, WIDTHS_PX_MAX,
                       o->widths[k]);
  }
  return CAPL_OK;
}

capl_status image_widths_set(image_set *set, const capl_folder_options *o)
{
  CAPL_TRY(check_widths(set, o));
  set->base.height = o->height;
  set->base.n_widths = o->n_widths;
  memcpy(set->base.widths, o->widths, sizeof set->base.widths);
  set->width_step = o->width_step;
  return CAPL_OK;
}

/* px that image i would be at the set's height; 0 = its header cannot be read. */
static int px_of(const image_set *set, const capl_scan *scan, uint32_t i)
{
  const capl_file_facts *f = capl_scan_facts(scan, i);
  return f->format ? widths_scaled(f->width, f->height, set->base.height) : 0;
}

/* The width that most images have: files that cannot be read go there, where there are others to stand in for them. */
static int commonest_width(const image_set *set)
{
  const capl_source *base = &set->base;
  uint32_t n[CAPL_WIDTHS_MAX] = {0};
  int most = 0;
  for (uint32_t i = 0; i < base->count; i++)
    if (set->px[i]) n[image_set_width_of(base, i)]++;
  for (int k = 1; k < base->n_widths; k++)
    if (n[k] > n[most]) most = k;
  return base->widths[most];
}

static capl_status find_widths(image_set *set)
{
  capl_source *base = &set->base;
  int *px = malloc((base->count + 1) * sizeof *px);
  uint32_t n = 0;
  if (!px) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to find the widths of its images", set->where);
  for (uint32_t i = 0; i < base->count; i++)
    if (set->px[i]) px[n++] = set->px[i];
  base->n_widths = n ? widths_choose(px, n, set->width_step, base->widths) : 0;
  free(px);
  if (base->n_widths) return CAPL_OK;
  return n ? CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to find the widths of its images", set->where)
           : CAPL_FAIL(CAPL_EFORMAT, "%s: none of its %u images can be read", set->where, base->count);
}

static void sort_in(image_set *set)
{
  capl_source *base = &set->base;
  int usual = commonest_width(set);
  base->width = base->widths[base->n_widths - 1];
  for (uint32_t i = 0; i < base->count; i++) {
    if (!set->px[i]) set->px[i] = (uint16_t)usual;
    if (set->px[i] > base->width) set->squeezed++;
    if (set->px[i] > set->px[set->widest]) set->widest = i;
  }
}

capl_status image_widths_measure(image_set *set)
{
  enum { THREADS = 4 };
  capl_source *base = &set->base;
  capl_scan *scan = NULL;
  set->px = calloc(base->count + 1, sizeof *set->px);
  if (!set->px) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to find the widths of its images", set->where);
  CAPL_TRY(capl_scan_new(base, false, THREADS, set->stop, &scan));
  for (uint32_t i = 0; i < base->count; i++) set->px[i] = (uint16_t)px_of(set, scan, i);
  capl_scan_free(scan);
  if (set->width_step) CAPL_TRY(find_widths(set));
  sort_in(set);
  return CAPL_OK;
}
