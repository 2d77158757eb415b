/* dnn_table.c -- the table from records to their plans.
**
** Images of many widths have many records: a network of 7 convolutions and norms 35 for each width and batch, so some
** 1,300 for 16 widths with a whole and a last batch. Plans are kept up to DNN_PLANS_MAX; then the half that was not
** used for the longest time goes. What a recorded step may hold stays as long as there is one: its kernels belong to
** the plan. SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "backend/cuda/dnn_state.h"

#ifndef DNN_PLANS_MAX
#define DNN_PLANS_MAX 4096
#endif

static struct {
  dnn_entry *table; /* open addressing, at most half full */
  size_t slots, count;
} all;

/* The record's place in the table, or the free one where it belongs. */
static dnn_entry *place_of(dnn_entry *table, size_t slots, const dnn_record *record)
{
  size_t i = (size_t)dnn_hash(record) & (slots - 1);
  while (table[i].used && !dnn_same(&table[i].record, record)) i = (i + 1) & (slots - 1);
  return &table[i];
}

static capl_status grow(void)
{
  size_t slots = all.slots ? 2 * all.slots : 256;
  dnn_entry *table = calloc(slots, sizeof *table);
  if (!table) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a table of %zu plans", slots);
  for (size_t i = 0; i < all.slots; i++)
    if (all.table[i].used) *place_of(table, slots, &all.table[i].record) = all.table[i];
  free(all.table);
  all.table = table;
  all.slots = slots;
  return CAPL_OK;
}

dnn_entry *dnn_table_find(const dnn_record *record)
{
  if (!all.slots) return NULL;
  dnn_entry *e = place_of(all.table, all.slots, record);
  return e->used ? e : NULL;
}

static bool may_go(const dnn_entry *e)
{
  return e->used && !(e->recorded && e->age == cu.graph_age);
}

static int by_age(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* When the median of those that may go ran last; false when there is none. */
static bool median_run(uint64_t *median)
{
  size_t n = 0;
  uint64_t *ran = malloc(all.slots * sizeof *ran);
  for (size_t i = 0; ran && i < all.slots; i++)
    if (may_go(&all.table[i])) ran[n++] = all.table[i].ran;
  if (n > 0) {
    qsort(ran, n, sizeof *ran, by_age);
    *median = ran[n / 2];
  }
  free(ran);
  return n > 0;
}

/* The older half of what may go goes; what is queued may still use it, so it is waited for. Without memory for a table
** of the others all stay. */
static capl_status make_room(void)
{
  uint64_t median;
  if (!median_run(&median)) return CAPL_OK;
  dnn_entry *table = calloc(all.slots, sizeof *table);
  if (!table) return CAPL_OK;
  capl_status status = cu_status(cudaStreamSynchronize(cu.stream), "waiting for plans that are let go");
  if (status != CAPL_OK) {
    free(table);
    return status;
  }
  for (size_t i = 0; i < all.slots; i++) {
    dnn_entry *e = &all.table[i];
    bool goes = may_go(e) && e->ran <= median;
    if (goes) dnn_plan_free(&e->plan), all.count--;
    else if (e->used) *place_of(table, all.slots, &e->record) = *e;
  }
  free(all.table);
  all.table = table;
  return CAPL_OK;
}

capl_status dnn_table_entry(const dnn_record *record, dnn_entry **out)
{
  *out = dnn_table_find(record);
  if (*out) return CAPL_OK;
  if (all.count >= DNN_PLANS_MAX) CAPL_TRY(make_room());
  if (2 * (all.count + 1) > all.slots) CAPL_TRY(grow());
  *out = place_of(all.table, all.slots, record);
  **out = (dnn_entry){.used = true, .record = *record};
  all.count++;
  return CAPL_OK;
}

capl_status dnn_table_keep(const dnn_record *record, const dnn_plan *plan, bool loaded)
{
  dnn_entry *e;
  CAPL_TRY(dnn_table_entry(record, &e));
  e->planned = true;
  e->plan = *plan;
  e->loaded = loaded;
  return CAPL_OK;
}

void dnn_table_clear(void)
{
  for (size_t i = 0; i < all.slots; i++)
    if (all.table[i].used) dnn_plan_free(&all.table[i].plan);
  free(all.table);
  all.table = NULL;
  all.slots = all.count = 0;
}
