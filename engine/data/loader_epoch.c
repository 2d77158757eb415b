/* loader_epoch.c -- the arithmetic of an epoch: which rows this rank gets, in which batches; where a run stands.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/loader.h"

/* Two ways to share an epoch out, both in blocks of consecutive samples:
**
** evenly, for training: batch t of all ranks together ("a round") is `batch` x world samples, of which rank r takes
** block r. All ranks get equally many batches. A smaller last round is cut into `parts` of nearly the same size, of
** which each rank takes its share; of fewer samples than parts, the parts past the end repeat samples of the round.
** once, for metrics: the batches are those of a single process, and dealt out in turn; ranks may get one less, or
** none. */

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Samples of all ranks in a round. */
static uint64_t global_batch(const capl_loader *l)
{
  return (uint64_t)l->batch * l->world;
}

/* Of a round of `count` samples: the place of this rank's first one, and how many it takes. */
typedef struct {
  uint64_t first;
  uint32_t rows, repeats; /* the last of the rows */
} share;

/* The first of the parts have one sample more, so a rank's share determines its parts. */
static share even_share(const capl_loader *l, uint64_t count)
{
  uint64_t parts = l->parts / l->world, before = parts * l->rank, each = count / l->parts, more = count % l->parts;
  uint64_t extra = more > before ? least(more - before, parts) : 0;
  share s = {before * each + least(more, before), (uint32_t)(parts * each + extra), 0};
  if (each) return s;
  return (share){before, (uint32_t)parts, (uint32_t)(parts - extra)};
}

static share share_of(const capl_loader *l, uint64_t count)
{
  if (!l->once) return even_share(l, count);
  uint64_t first = (uint64_t)l->rank * (uint64_t)l->batch;
  return (share){first, count > first ? (uint32_t)least(count - first, (uint64_t)l->batch) : 0, 0};
}

/* ---- batches of one width each ----------------------------------------------------------------- */

/* The plan's batches are rounds; those of a loader whose samples come once are batches, of which each world-th is
** ours. */
static uint64_t stride(const capl_loader *l)
{
  return l->once ? l->world : 1;
}

static uint64_t planned(const capl_loader *l, uint64_t batch)
{
  return l->before + (l->once ? batch * l->world + l->rank : batch);
}

static share share_by_width(const capl_loader *l, uint64_t planned_batch)
{
  uint32_t count = l->widths.batch[planned_batch].count;
  return l->once ? (share){0, count, 0} : even_share(l, count);
}

static uint64_t first_by_width(const capl_loader *l, uint64_t start)
{
  return (uint64_t)width_plan_find(&l->widths, start) + (l->once ? l->rank : 0);
}

static uint64_t rows_by_width(const capl_loader *l, uint64_t start)
{
  uint64_t rows = 0;
  for (uint64_t i = first_by_width(l, start); i < l->widths.n_batches; i += stride(l))
    rows += share_by_width(l, i).rows;
  return rows;
}

static uint64_t batches_by_width(const capl_loader *l, uint64_t start)
{
  uint64_t first = first_by_width(l, start);
  return first < l->widths.n_batches ? (l->widths.n_batches - first + stride(l) - 1) / stride(l) : 0;
}

/* ---- batches of one width ---------------------------------------------------------------------- */

/* Samples of all ranks in round `batch` of this run. */
static uint64_t round_count(const capl_loader *l, uint64_t start, uint64_t batch)
{
  return least(l->maker.source->count - start - batch * global_batch(l), global_batch(l));
}

/* Full rounds from a position on; left: samples behind them. */
static uint64_t full_rounds(const capl_loader *l, uint64_t start, uint64_t *left)
{
  uint64_t all = l->maker.source->count - start;
  *left = all % global_batch(l);
  return all / global_batch(l);
}

/* With drop_last, what comes once loses only what makes no batch of its own. */
static share last_share(const capl_loader *l, uint64_t left)
{
  if (left == 0 || (l->drop_last && !l->once)) return (share){0};
  return share_of(l, l->drop_last ? left - left % (uint64_t)l->batch : left);
}

/* Rows this rank gets from position start on. */
uint64_t loader_rows_from(const capl_loader *l, uint64_t start)
{
  if (l->widths.lists.n) return rows_by_width(l, start);
  uint64_t left, rounds = full_rounds(l, start, &left);
  return rounds * (uint64_t)l->batch + last_share(l, left).rows;
}

uint64_t loader_batches_from(const capl_loader *l, uint64_t start)
{
  if (l->widths.lists.n) return batches_by_width(l, start);
  uint64_t left, rounds = full_rounds(l, start, &left);
  return rounds + (last_share(l, left).rows > 0);
}

/* ---- of this run of the epoch ------------------------------------------------------------------ */

int loader_list_of(const capl_loader *l, uint64_t batch)
{
  return l->widths.lists.n ? l->widths.batch[planned(l, batch)].width : 0;
}

static share share_of_batch(const capl_loader *l, uint64_t batch)
{
  if (l->widths.lists.n) return share_by_width(l, planned(l, batch));
  return share_of(l, round_count(l, l->start, batch));
}

uint32_t loader_position_of(const capl_loader *l, uint64_t batch, int row)
{
  uint64_t of_round = share_of_batch(l, batch).first + (uint64_t)row;
  if (l->widths.lists.n) {
    const width_batch *b = &l->widths.batch[planned(l, batch)];
    return b->first + (uint32_t)(of_round % b->count);
  }
  return (uint32_t)(l->start + batch * global_batch(l) + of_round % round_count(l, l->start, batch));
}

int loader_rows_of(const capl_loader *l, uint64_t batch, int *repeats)
{
  share s = share_of_batch(l, batch);
  *repeats = (int)s.repeats;
  return (int)s.rows;
}

int loader_global_batch_of(const capl_loader *l, uint64_t batch)
{
  if (l->once || l->world == 1) return 0;
  return (int)(l->widths.lists.n ? l->widths.batch[planned(l, batch)].count : round_count(l, l->start, batch));
}

uint64_t loader_samples_before(const capl_loader *l, uint64_t batch)
{
  if (l->widths.lists.n) return l->widths.batch[least(l->before + batch * stride(l), l->widths.n_batches)].start;
  return least(l->start + batch * global_batch(l), l->maker.source->count);
}

uint64_t loader_planned(const capl_loader *l)
{
  return l->once ? (uint64_t)l->batch : global_batch(l);
}

capl_status loader_order_begin(capl_loader *l, const capl_loader_state *state)
{
  l->start = state->position;
  l->before = l->start / global_batch(l);
  if (!l->widths.lists.n) return CAPL_OK;
  width_plan_begin(&l->widths, state->seed, state->epoch, loader_planned(l), l->drop_last);
  uint32_t at = width_plan_find(&l->widths, state->position);
  if (at == UINT32_MAX) {
    CAPL_FAIL(CAPL_EVALUE, "the state is at sample %llu of epoch %llu, which is not the start of a batch",
              (unsigned long long)state->position, (unsigned long long)state->epoch);
    capl_error_hint("with several widths, batch, shard and drop_last must equal those of the state");
    return CAPL_EVALUE;
  }
  l->before = at;
  return CAPL_OK;
}

uint64_t capl_loader_samples(const capl_loader *l)
{
  return loader_rows_from(l, 0);
}

uint64_t capl_loader_all_samples(const capl_loader *l)
{
  if (l->widths.lists.n) return l->widths.batch[l->widths.n_batches].start;
  uint64_t count = l->maker.source->count;
  return l->drop_last ? count - count % loader_planned(l) : count;
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
