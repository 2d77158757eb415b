/* subset.c -- some samples of another source, and the rule that sorts files into parts by what is in them.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "data/source.h"

typedef struct {
  capl_source base;
  capl_source_ops ops; /* what the parent cannot do is missing here too */
  capl_source *parent;
  uint32_t *id; /* [count], samples of parent */
} subset_source;

static capl_status subset_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  subset_source *s = (subset_source *)source;
  capl_read of_parent = *what;
  of_parent.id = s->id[what->id];
  return capl_source_read_with(s->parent, &of_parent, scratch, to);
}

static const char *subset_name(const capl_source *source, uint32_t i)
{
  const subset_source *s = (const subset_source *)source;
  return capl_source_name(s->parent, s->id[i]);
}

static capl_status subset_set_label(capl_source *source, uint32_t i, const char *text)
{
  subset_source *s = (subset_source *)source;
  return capl_source_set_label(s->parent, s->id[i], text);
}

static void subset_title(const capl_source *source, uint32_t i, char *out, size_t room)
{
  const subset_source *s = (const subset_source *)source;
  capl_source_title(s->parent, s->id[i], out, room);
}

static capl_status subset_set_text(capl_source *source, uint32_t i, const char *text)
{
  subset_source *s = (subset_source *)source;
  return capl_source_set_text(s->parent, s->id[i], text);
}

static const char *subset_text(const capl_source *source, uint32_t i)
{
  const subset_source *s = (const subset_source *)source;
  return capl_source_text(s->parent, s->id[i]);
}

static capl_status subset_check_label(const capl_source *source, uint32_t i)
{
  const subset_source *s = (const subset_source *)source;
  return capl_source_check_label(s->parent, s->id[i]);
}

static capl_status subset_encoded(capl_source *source, uint32_t i, encoded_bytes *bytes)
{
  subset_source *s = (subset_source *)source;
  return capl_source_encoded(s->parent, s->id[i], bytes);
}

static capl_status subset_labels(capl_source *source, uint32_t i, int32_t *labels)
{
  subset_source *s = (subset_source *)source;
  return s->parent->ops->labels(s->parent, s->id[i], labels);
}

static capl_status subset_borrow(capl_source *source, const capl_read *what, capl_image *scratch, capl_sample *at,
                                 bool *lent)
{
  subset_source *s = (subset_source *)source;
  capl_read of_parent = *what;
  of_parent.id = s->id[what->id];
  return s->parent->ops->borrow(s->parent, &of_parent, scratch, at, lent);
}

static int subset_width_of(const capl_source *source, uint32_t i)
{
  const subset_source *s = (const subset_source *)source;
  return s->parent->ops->width_of(s->parent, s->id[i]);
}

static int subset_used(const capl_source *source, const capl_read *what)
{
  const subset_source *s = (const subset_source *)source;
  capl_read of_parent = *what;
  of_parent.id = s->id[what->id];
  return s->parent->ops->used(s->parent, &of_parent);
}

static capl_source *subset_root(capl_source *source, uint32_t *id)
{
  subset_source *s = (subset_source *)source;
  *id = s->id[*id];
  return s->parent->ops->root ? s->parent->ops->root(s->parent, id) : s->parent;
}

static void subset_close(capl_source *source)
{
  subset_source *s = (subset_source *)source;
  capl_source_unref(s->parent);
  free(s->id);
  free(s);
}

static capl_source_ops ops_over(const capl_source_ops *parent)
{
  return (capl_source_ops){
    .read = subset_read,
    .close = subset_close,
    .name = subset_name,
    .set_label = subset_set_label,
    .title = subset_title,
    .set_text = subset_set_text,
    .text = subset_text,
    .check_label = subset_check_label,
    .encoded = parent->encoded ? subset_encoded : NULL,
    .labels = parent->labels ? subset_labels : NULL,
    .borrow = parent->borrow ? subset_borrow : NULL,
    .root = subset_root,
    .width_of = parent->width_of ? subset_width_of : NULL,
    .used = parent->used ? subset_used : NULL,
  };
}

capl_status capl_source_subset_new(capl_source *parent, const uint32_t *id, uint32_t count, capl_source **source)
{
  if (count == 0) return CAPL_FAIL(CAPL_EVALUE, "a subset needs at least one sample");
  for (uint32_t i = 0; i < count; i++) {
    if (id[i] >= parent->count)
      return CAPL_FAIL(CAPL_EVALUE, "sample %u does not exist; the source has %u", id[i], parent->count);
  }
  subset_source *s = malloc(sizeof *s);
  uint32_t *copy = malloc(count * sizeof *copy);
  if (!s || !copy) {
    free(s);
    free(copy);
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for a subset of %u samples", count);
  }
  memcpy(copy, id, count * sizeof *copy);
  *s = (subset_source){
    .base = source_like(parent), .ops = ops_over(parent->ops), .parent = capl_source_ref(parent), .id = copy};
  s->base.ops = &s->ops;
  s->base.count = count;
  *source = &s->base;
  return CAPL_OK;
}

/* ---- sorting by content ---------------------------------------------------------------------- */

/* FNV-1a, its bits mixed once more: its high ones alone say little about the last bytes. */
static uint64_t hash_of(const uint8_t *bytes, size_t size)
{
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
  return hash ^ hash >> 31;
}

double capl_share_of(const void *bytes, size_t size)
{
  return (double)(hash_of(bytes, size) >> 11) * 0x1p-53;
}

capl_status capl_source_share(capl_source *source, uint32_t i, double *share)
{
  encoded_bytes bytes;
  CAPL_TRY(capl_source_encoded(source, i, &bytes));
  *share = capl_share_of(bytes.at, bytes.size);
  free(bytes.owned);
  return CAPL_OK;
}
