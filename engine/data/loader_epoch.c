/* loader_epoch.c -- the arithmetic of an epoch: which rows this rank gets, in which batches; where a run stands.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/loader.h"

/* Rows this rank gets from position start on. All ranks get equally many: rows past the end repeat. */
uint64_t loader_rows_from(const capl_loader *l, uint64_t start)
{
  uint64_t left = l->maker.source->count - start;
  if (!l->drop_last) return (left + l->world - 1) / l->world;
  uint64_t rows = left / l->world;
  return rows - rows % (uint64_t)l->batch;
}

uint64_t loader_batches_from(const capl_loader *l, uint64_t start)
{
  return (loader_rows_from(l, start) + (uint64_t)l->batch - 1) / (uint64_t)l->batch;
}

uint64_t loader_position_of(const capl_loader *l, uint64_t batch, int row)
{
  return l->start + (batch * (uint64_t)l->batch + (uint64_t)row) * l->world + l->rank;
}

int loader_rows_of(const capl_loader *l, uint64_t batch)
{
  uint64_t left = loader_rows_from(l, l->start) - batch * (uint64_t)l->batch;
  return left < (uint64_t)l->batch ? (int)left : l->batch;
}

uint64_t capl_loader_samples(const capl_loader *l)
{
  return loader_rows_from(l, 0);
}

uint64_t capl_loader_batches(const capl_loader *l)
{
  return loader_batches_from(l, 0);
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
