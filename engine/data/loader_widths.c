/* loader_widths.c -- the order of an epoch whose batches each have one of several widths.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/loader_widths.h"

#include <stdlib.h>

static const uint64_t order_key = 0x77696474682d6f72u; /* of the batches, apart from that of samples */

static int place_of(const capl_source *source, uint32_t id)
{
  return source->ops->width_of(source, id);
}

static void sort_samples(row_lists *lists, const capl_source *source)
{
  uint32_t next[CAPL_WIDTHS_MAX];
  for (uint32_t i = 0; i < source->count; i++) lists->first[place_of(source, i) + 1]++;
  for (int k = 0; k < lists->n; k++) {
    lists->first[k + 1] += lists->first[k];
    next[k] = lists->first[k];
  }
  for (uint32_t i = 0; i < source->count; i++) lists->id[next[place_of(source, i)]++] = i;
}

static uint32_t batches_of(const row_lists *lists, int k, uint64_t global_batch, bool drop_last)
{
  uint64_t n = lists->first[k + 1] - lists->first[k];
  return (uint32_t)(drop_last ? n / global_batch : (n + global_batch - 1) / global_batch);
}

capl_status width_plan_init(width_plan *plan, const capl_source *source, uint64_t global_batch, bool drop_last,
                            bool mixed)
{
  row_lists *lists = &plan->lists;
  lists->n = source->n_widths;
  lists->id = malloc(((size_t)source->count + 1) * sizeof *lists->id);
  if (!lists->id) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the order of %u samples", source->count);
  sort_samples(lists, source);
  plan->mixed = mixed;
  for (int k = 0; k < lists->n; k++) plan->n_batches += batches_of(lists, k, global_batch, drop_last);
  plan->batch = calloc((size_t)plan->n_batches + 1, sizeof *plan->batch);
  if (!plan->batch) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the order of %u batches", plan->n_batches);
  width_plan_begin(plan, 0, 0, global_batch, drop_last);
  return CAPL_OK;
}

void width_plan_fini(width_plan *plan)
{
  free(plan->lists.id);
  free(plan->batch);
  *plan = (width_plan){0};
}

/* Batch number i of those that the lists are cut into, one list after the other. */
static width_batch cut(const width_plan *plan, uint32_t i, uint64_t global_batch, bool drop_last)
{
  const row_lists *lists = &plan->lists;
  int k = 0;
  for (uint32_t n; i >= (n = batches_of(lists, k, global_batch, drop_last)); k++) i -= n;
  uint64_t first = i * global_batch, left = lists->first[k + 1] - lists->first[k] - first;
  return (width_batch){.width = k, .first = (uint32_t)first,
                       .count = (uint32_t)(left < global_batch ? left : global_batch)};
}

void width_plan_begin(width_plan *plan, uint64_t seed, uint64_t epoch, uint64_t global_batch, bool drop_last)
{
  uint64_t start = 0;
  for (uint32_t i = 0; i < plan->n_batches; i++) {
    uint32_t at = plan->mixed ? capl_shuffle(seed ^ order_key, epoch, plan->n_batches, i) : i;
    plan->batch[i] = cut(plan, at, global_batch, drop_last);
    plan->batch[i].start = start;
    start += plan->batch[i].count;
  }
  plan->batch[plan->n_batches].start = start;
}

uint32_t width_plan_find(const width_plan *plan, uint64_t start)
{
  uint32_t lo = 0, hi = plan->n_batches;
  while (lo < hi) {
    uint32_t middle = lo + (hi - lo) / 2;
    if (plan->batch[middle].start < start) lo = middle + 1;
    else hi = middle;
  }
  return plan->batch[lo].start == start ? lo : UINT32_MAX;
}
