/* loader_widths.h -- the order of an epoch whose batches each have one of several widths.
**
** Samples of a width are a list of their own, in an order of its own; it is cut into batches (of all ranks), of which
** the last may be smaller; the batches of all lists come in one more order. All are functions of (seed, epoch).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LOADER_WIDTHS_H
#define CAPL_DATA_LOADER_WIDTHS_H

#include "data/batch.h"

typedef struct {
  int width;       /* which one */
  uint32_t first;  /* place of its first sample in the width's list */
  uint32_t count;  /* samples, of all ranks together */
  uint64_t start;  /* samples of the batches before it in the epoch */
} width_batch;

typedef struct {
  row_lists lists; /* the samples by width; n = 0: all have one width, and the rest is unused */
  uint32_t n_batches;
  width_batch *batch; /* [n_batches + 1], the last one begins where the epoch ends */
  bool mixed;         /* the batches come in any order */
} width_plan;

/* Sorts the samples of a source with several widths; global_batch: rows of a batch of all ranks. ENOMEM. */
capl_status width_plan_init(width_plan *plan, const capl_source *source, uint64_t global_batch, bool drop_last,
                            bool mixed);
void width_plan_fini(width_plan *plan);
/* The batches of an epoch. */
void width_plan_begin(width_plan *plan, uint64_t seed, uint64_t epoch, uint64_t global_batch, bool drop_last);
/* Which batch begins after so many samples; UINT32_MAX = none. */
uint32_t width_plan_find(const width_plan *plan, uint64_t start);

#endif
