/* bad_samples.c -- keeps the bad samples of a loader in order of their numbers.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/bad_samples.h"

#include <stdlib.h>
#include <string.h>

void bad_list_fini(bad_list *list)
{
  for (uint32_t i = 0; i < list->count; i++) free(list->sample[i].message);
  free(list->sample);
  *list = (bad_list){0};
}

/* Place of the first entry whose number is not below id. */
static uint32_t place_of(const bad_list *list, uint32_t id)
{
  uint32_t from = 0, to = list->count;
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (list->sample[middle].id < id) from = middle + 1;
    else to = middle;
  }
  return from;
}

static bool grow(bad_list *list)
{
  if (list->count < list->capacity) return true;
  uint32_t capacity = list->capacity ? 2 * list->capacity : 16;
  bad_sample *grown = realloc(list->sample, capacity * sizeof *grown);
  if (!grown) return false;
  list->sample = grown;
  list->capacity = capacity;
  return true;
}

void bad_list_add(bad_list *list, uint32_t id, uint64_t batch, const char *message)
{
  uint32_t at = place_of(list, id);
  if (at < list->count && list->sample[at].id == id) {
    if (batch < list->sample[at].batch) list->sample[at].batch = batch;
    return;
  }
  if (!grow(list)) return;
  memmove(list->sample + at + 1, list->sample + at, (list->count - at) * sizeof *list->sample);
  list->sample[at] = (bad_sample){id, batch, strdup(message)};
  list->count++;
}

void bad_list_forget(bad_list *list, uint64_t from)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < list->count; i++) {
    if (list->sample[i].batch < from) list->sample[kept++] = list->sample[i];
    else free(list->sample[i].message);
  }
  list->count = kept;
}

uint32_t bad_list_count(const bad_list *list, uint64_t until)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < list->count; i++) n += list->sample[i].batch < until;
  return n;
}

const bad_sample *bad_list_get(const bad_list *list, uint64_t until, uint32_t i)
{
  for (uint32_t at = 0; at < list->count; at++) {
    if (list->sample[at].batch < until && i-- == 0) return &list->sample[at];
  }
  return NULL;
}
