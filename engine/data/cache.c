/* cache.c -- samples kept in memory, and what both kinds of caches share.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- records --------------------------------------------------------------------------------- */

static size_t line_end(size_t bytes)
{
  return (bytes + 63) / 64 * 64;
}

cache_record cache_record_of(const capl_source *source)
{
  cache_record r = {
    .pixels_bytes = (size_t)source->width * (size_t)source->height * (size_t)source->channels,
    .labels_bytes = source->ops->labels ? 0 : (size_t)source->length * sizeof(int32_t),
  };
  r.labels_at = line_end(r.pixels_bytes);
  r.bytes = r.labels_at + line_end(r.labels_bytes);
  for (int i = 0; i < source->n_fields; i++) {
    r.field_bytes[i] = capl_field_bytes(&source->field[i]);
    r.field_at[i] = r.bytes;
    r.bytes += line_end(r.field_bytes[i]);
  }
  return r;
}

capl_sample cache_record_parts(const cache_record *r, uint8_t *at)
{
  capl_sample parts = {.pixels = r->pixels_bytes ? at : NULL,
                       .labels = r->labels_bytes ? (void *)(at + r->labels_at) : NULL};
  for (int i = 0; i < CAPL_FIELDS_MAX; i++) parts.field[i] = r->field_bytes[i] ? at + r->field_at[i] : NULL;
  return parts;
}

capl_status cache_record_copy(const cache_record *r, capl_source *of, uint32_t id, const uint8_t *at,
                              const capl_sample *to)
{
  if (to->labels && of->ops->labels) CAPL_TRY(of->ops->labels(of, id, to->labels));
  else if (to->labels && r->labels_bytes) memcpy(to->labels, at + r->labels_at, r->labels_bytes);
  if (to->pixels && r->pixels_bytes && to->pixels != at) memcpy(to->pixels, at, capl_source_pixels_bytes(of, id));
  for (int i = 0; i < of->n_fields; i++) {
    const uint8_t *field = at + r->field_at[i];
    if (to->field[i] && to->field[i] != field)
      memcpy(to->field[i], field, source_field_bytes(of, i, capl_source_width_of(of, id)));
  }
  return CAPL_OK;
}

/* ---- in memory ------------------------------------------------------------------------------- */

enum { ABSENT, BUSY, KEPT };

typedef struct {
  capl_source base;
  capl_source *of;
  cache_record record;
  uint8_t *records;
  size_t mapped;
  atomic_uchar *state; /* [count] */
  atomic_llong filled; /* bytes */
} ram_cache;

/* Bytes that caches of this process will take as they fill. */
static atomic_llong promised;

int64_t cache_ram_promised(void)
{
  return atomic_load(&promised);
}

/* Reads a sample into its record, if nobody else does. */
static capl_status keep(ram_cache *c, const capl_read *what, capl_image *scratch, bool *kept)
{
  atomic_uchar *state = &c->state[what->id];
  unsigned char seen = ABSENT;
  *kept = atomic_load_explicit(state, memory_order_acquire) == KEPT;
  if (*kept || !atomic_compare_exchange_strong(state, &seen, BUSY)) return CAPL_OK;
  capl_sample parts = cache_record_parts(&c->record, c->records + what->id * c->record.bytes);
  capl_status status = capl_source_read_with(c->of, what, scratch, &parts);
  *kept = status == CAPL_OK;
  atomic_store_explicit(state, *kept ? KEPT : ABSENT, memory_order_release);
  if (*kept) {
    atomic_fetch_add_explicit(&c->filled, (int64_t)c->record.bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&promised, (int64_t)c->record.bytes, memory_order_relaxed);
  }
  return status;
}

/* At a difficulty samples are others than those kept. */
static capl_status ram_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  ram_cache *c = (ram_cache *)source;
  bool kept = false;
  if (!what->difficulty) CAPL_TRY(keep(c, what, scratch, &kept));
  if (!kept) return capl_source_read_with(c->of, what, scratch, to);
  return cache_record_copy(&c->record, c->of, what->id, c->records + what->id * c->record.bytes, to);
}

static capl_status ram_borrow(capl_source *source, const capl_read *what, capl_image *scratch, capl_sample *at,
                              bool *lent)
{
  ram_cache *c = (ram_cache *)source;
  *lent = false;
  if (what->difficulty) return CAPL_OK;
  CAPL_TRY(keep(c, what, scratch, lent));
  if (!*lent) return CAPL_OK;
  uint8_t *record = c->records + what->id * c->record.bytes;
  int32_t *labels = at->labels;
  *at = cache_record_parts(&c->record, record);
  at->labels = labels;
  return cache_record_copy(&c->record, c->of, what->id, record, at);
}

static void ram_close(capl_source *source)
{
  ram_cache *c = (ram_cache *)source;
  if (c->records) munmap(c->records, c->mapped);
  if (c->state) atomic_fetch_sub(&promised, (int64_t)(c->base.count * c->record.bytes) - atomic_load(&c->filled));
  free(c->state);
  capl_source_unref(c->of);
  free(c);
}

static const char *ram_name(const capl_source *source, uint32_t i)
{
  return capl_source_name(((const ram_cache *)source)->of, i);
}

/* Room for all, of which the system gives what is written to; a little more, for reading vectors past the end. */
static bool take_memory(ram_cache *c)
{
  c->mapped = (size_t)c->base.count * c->record.bytes + 4096;
  void *room = mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  c->records = room;
  madvise(room, c->mapped, MADV_NOHUGEPAGE); /* a shuffled epoch would touch all of them at its start */
  c->state = calloc(c->base.count, sizeof *c->state);
  if (c->state) atomic_fetch_add(&promised, (int64_t)(c->base.count * c->record.bytes));
  return c->state != NULL;
}

capl_status cache_ram_new(capl_source *of, capl_source **out)
{
  static const capl_source_ops ops = {.read = ram_read, .borrow = ram_borrow, .close = ram_close, .name = ram_name};
  ram_cache *c = calloc(1, sizeof *c);
  if (!c) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a cache");
  c->base = source_like(of);
  c->base.ops = &ops;
  c->of = capl_source_ref(of);
  c->record = cache_record_of(of);
  if (take_memory(c)) {
    *out = &c->base;
    return CAPL_OK;
  }
  double bytes = (double)c->mapped;
  capl_source_unref(&c->base);
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for a cache of %.0f MB", bytes / 1e6);
}
