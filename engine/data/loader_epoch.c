/* loader_epoch.c -- the arithmetic of an epoch: which rows this rank gets, in which batches; where a run stands.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/loader.h"

/* Rows this rank gets of a batch with a width of its own: all ranks get equally many, some repeat. */
static uint64_t rows_of_batch(const capl_loader *l, uint64_t i)
{
  return (l->widths.batch[i].count + l->world - 1) / l->world;
}

static uint64_t rows_by_width(const capl_loader *l, uint64_t start)
{
  uint64_t rows = 0;
  for (uint64_t i = width_plan_find(&l->widths, start); i < l->widths.n_batches; i++) rows += rows_of_batch(l, i);
  return rows;
}

/* Rows this rank gets from position start on. All ranks get equally many: rows past the end repeat. */
uint64_t loader_rows_from(const capl_loader *l, uint64_t start)
{
  if (l->widths.lists.n) return rows_by_width(l, start);
  uint64_t left = l->maker.source->count - start;
  if (!l->drop_last) return (left + l->world - 1) / l->world;
  uint64_t rows = left / l->world;
  return rows - rows % (uint64_t)l->batch;
}

uint64_t loader_batches_from(const capl_loader *l, uint64_t start)
{
  if (l->widths.lists.n) return l->widths.n_batches - width_plan_find(&l->widths, start);
  return (loader_rows_from(l, start) + (uint64_t)l->batch - 1) / (uint64_t)l->batch;
}

int loader_list_of(const capl_loader *l, uint64_t batch)
{
  return l->widths.lists.n ? l->widths.batch[l->before + batch].width : 0;
}

uint32_t loader_position_of(const capl_loader *l, uint64_t batch, int row, bool *repeats)
{
  uint64_t of_all = (uint64_t)row * l->world + l->rank;
  if (l->widths.lists.n) {
    const width_batch *b = &l->widths.batch[l->before + batch];
    *repeats = of_all >= b->count;
    return b->first + (uint32_t)(of_all % b->count);
  }
  uint64_t position = l->start + batch * (uint64_t)l->batch * l->world + of_all, count = l->maker.source->count;
  *repeats = position >= count;
  return (uint32_t)(position % count);
}

int loader_rows_of(const capl_loader *l, uint64_t batch)
{
  if (l->widths.lists.n) return (int)rows_of_batch(l, l->before + batch);
  uint64_t left = loader_rows_from(l, l->start) - batch * (uint64_t)l->batch;
  return left < (uint64_t)l->batch ? (int)left : l->batch;
}

uint64_t loader_samples_before(const capl_loader *l, uint64_t batch)
{
  if (l->widths.lists.n) return l->widths.batch[l->before + batch].start;
  uint64_t position = l->start + batch * (uint64_t)l->batch * l->world, count = l->maker.source->count;
  return position < count ? position : count;
}

capl_status loader_order_begin(capl_loader *l, const capl_loader_state *state)
{
  uint64_t together = (uint64_t)l->batch * l->world;
  l->start = state->position;
  l->before = l->start / together;
  if (!l->widths.lists.n) return CAPL_OK;
  width_plan_begin(&l->widths, state->seed, state->epoch, together, l->drop_last);
  uint32_t at = width_plan_find(&l->widths, state->position);
  if (at == UINT32_MAX) {
    CAPL_FAIL(CAPL_EVALUE, "the state is at sample %llu of epoch %llu, where no batch begins", (unsigned long long)state->position,
              (unsigned long long)state->epoch);
    capl_error_hint("images of several widths go on only with the batch, shard and drop_last that the state was taken with");
    return CAPL_EVALUE;
  }
  l->before = at;
  return CAPL_OK;
}

uint64_t capl_loader_samples(const capl_loader *l)
{
  return loader_rows_from(l, 0);
}

uint64_t capl_loader_batches(const capl_loader *l)
{
  return loader_batches_from(l, 0);
}

uint64_t capl_loader_batches_left(const capl_loader *l)
{
  return l->n_batches - l->delivered;
}

void capl_loader_state_pack(const capl_loader_state *state, uint8_t bytes[CAPL_LOADER_STATE_BYTES])
{
  const uint64_t number[] = {state->seed, state->epoch, state->position};
  for (size_t i = 0; i < CAPL_LOADER_STATE_BYTES; i++) bytes[i] = (uint8_t)(number[i / 8] >> 8 * (i % 8));
}

void capl_loader_state_unpack(const uint8_t bytes[CAPL_LOADER_STATE_BYTES], capl_loader_state *state)
{
  uint64_t number[3] = {0};
  for (size_t i = 0; i < CAPL_LOADER_STATE_BYTES; i++) number[i / 8] |= (uint64_t)bytes[i] << 8 * (i % 8);
  *state = (capl_loader_state){number[0], number[1], number[2]};
}
