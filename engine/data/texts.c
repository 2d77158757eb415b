/* texts.c -- many short texts in one piece of memory.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/texts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const size_t NONE = SIZE_MAX;

void texts_fini(texts *t)
{
  free(t->bytes);
  free(t->at);
  *t = (texts){0};
}

static capl_status no_memory(const texts *t)
{
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for %u names of %zu bytes", t->count + 1, t->used);
}

/* Room grows by half: at a million names little of it is spare, and little is copied. */
static capl_status reserve_bytes(texts *t, size_t more)
{
  if (t->room - t->used >= more) return CAPL_OK;
  size_t room = t->room + t->room / 2 + more + 4096;
  char *grown = realloc(t->bytes, room);
  if (!grown) return no_memory(t);
  t->bytes = grown;
  t->room = room;
  return CAPL_OK;
}

static capl_status reserve_places(texts *t)
{
  if (t->count < t->places) return CAPL_OK;
  if (t->count >= UINT32_MAX - 1) return CAPL_FAIL(CAPL_EVALUE, "more than %u names", UINT32_MAX - 1);
  uint32_t more = t->places / 2 + 256, places = t->places < UINT32_MAX - more ? t->places + more : UINT32_MAX;
  size_t *grown = realloc(t->at, places * sizeof *grown);
  if (!grown) return no_memory(t);
  t->at = grown;
  t->places = places;
  return CAPL_OK;
}

static capl_status append(texts *t, const char *text, size_t *at)
{
  size_t size = strlen(text) + 1;
  CAPL_TRY(reserve_bytes(t, size));
  memcpy(t->bytes + t->used, text, size);
  *at = t->used;
  t->used += size;
  return CAPL_OK;
}

capl_status texts_add(texts *t, const char *text)
{
  size_t at = NONE;
  CAPL_TRY(reserve_places(t));
  if (text) CAPL_TRY(append(t, text, &at));
  t->at[t->count++] = at;
  return CAPL_OK;
}

capl_status texts_blank(texts *t, uint32_t count)
{
  t->at = malloc(((size_t)count + 1) * sizeof *t->at);
  if (!t->at) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %u labels", count);
  for (uint32_t i = 0; i < count; i++) t->at[i] = NONE;
  t->count = t->places = count;
  return CAPL_OK;
}

capl_status texts_set(texts *t, uint32_t i, const char *text)
{
  char *old = t->at[i] == NONE ? NULL : t->bytes + t->at[i];
  if (!old || strlen(old) < strlen(text)) return append(t, text, &t->at[i]);
  memmove(old, text, strlen(text) + 1);
  return CAPL_OK;
}

const char *texts_get(const texts *t, uint32_t i)
{
  return i >= t->count || t->at[i] == NONE ? NULL : t->bytes + t->at[i];
}

static int by_bytes(const void *a, const void *b, void *bytes)
{
  return strcmp((char *)bytes + *(const size_t *)a, (char *)bytes + *(const size_t *)b);
}

void texts_sort(texts *t)
{
  if (t->count) qsort_r(t->at, t->count, sizeof *t->at, by_bytes, t->bytes);
}

void texts_fit(texts *t)
{
  char *bytes = t->used ? realloc(t->bytes, t->used) : NULL;
  if (bytes) t->bytes = bytes, t->room = t->used;
  size_t *at = t->count ? realloc(t->at, t->count * sizeof *at) : NULL;
  if (at) t->at = at, t->places = t->count;
}
