/* loader_cache.c -- where a loader keeps samples between epochs: nowhere, in memory, in a file.
**
** Decided when the first epoch begins, with idle threads: from then on the loader reads from a source that remembers.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/cache.h"
#include "data/loader.h"

/* Of the memory that is available, "auto" takes this part at most. */
enum { MEMORY_SHARE = 2 };

typedef struct {
  char text[24];
} size_text;

/* "458 MB", "0.4 MB" */
static size_text megabytes(int64_t bytes)
{
  size_text t;
  double n = (double)bytes / 1e6;
  snprintf(t.text, sizeof t.text, "%.*f MB", n < 10, n);
  return t;
}

static int64_t bytes_of(const capl_source *source)
{
  return (int64_t)((uint64_t)source->count * cache_record_of(source).bytes);
}

static int64_t available(void)
{
  int64_t left = capl_memory_available("") - cache_ram_promised();
  return left > 0 ? left : 0;
}

/* From now on rows come from the cache, which holds the source. */
static void read_from(capl_loader *l, capl_source *cache)
{
  capl_source_unref(l->maker.source);
  l->maker.source = cache;
}

static capl_status keep_in_memory(capl_loader *l)
{
  capl_source *cache;
  CAPL_TRY(cache_ram_new(l->maker.source, &cache));
  snprintf(l->cached, sizeof l->cached, ", cached in memory, %s", megabytes(bytes_of(cache)).text);
  read_from(l, cache);
  return CAPL_OK;
}

static capl_status keep_if_it_fits(capl_loader *l)
{
  int64_t bytes = bytes_of(l->maker.source), free_bytes = available();
  if (bytes > free_bytes / MEMORY_SHARE) {
    snprintf(l->cached, sizeof l->cached, ", not cached: its %s are more than half of the %s of memory available",
             megabytes(bytes).text, megabytes(free_bytes).text);
    return CAPL_OK;
  }
  capl_status status = keep_in_memory(l);
  if (status != CAPL_ENOMEM) return status;
  snprintf(l->cached, sizeof l->cached, ", not cached: there was no memory for its %s", megabytes(bytes).text);
  return CAPL_OK;
}

static capl_status keep_in_memory_as_asked(capl_loader *l)
{
  int64_t bytes = bytes_of(l->maker.source), free_bytes = available();
  if (bytes <= free_bytes) return keep_in_memory(l);
  CAPL_FAIL(CAPL_ENOMEM, "cache is ram, but its %s are more than the %s of memory available", megabytes(bytes).text,
            megabytes(free_bytes).text);
  capl_error_hint("cache = \"disk\" keeps them in a file; \"none\" reads them anew in every epoch");
  return CAPL_ENOMEM;
}

/* What the environment refuses is logged, and the run continues without a cache. */
static capl_status keep_on_disk(capl_loader *l)
{
  char why[sizeof l->cached - 32] = "";
  capl_source *cache;
  CAPL_TRY(cache_disk_new(l->maker.source, l->cache_dir, &cache, why, sizeof why));
  if (!cache) {
    snprintf(l->cached, sizeof l->cached, ", not cached: %s", why);
    return CAPL_OK;
  }
  snprintf(l->cached, sizeof l->cached, ", cached in %s", cache_disk_path(cache));
  read_from(l, cache);
  return CAPL_OK;
}

static capl_status choose(capl_loader *l)
{
  const capl_source *source = l->maker.source;
  bool kept = l->maker.kind == ROW_RESIDENT || l->maker.kind == ROW_OF_SET || source->ops->borrow;
  if (kept || !source->fixed) return CAPL_OK;
  switch (l->cache) {
    case CAPL_CACHE_AUTO: return keep_if_it_fits(l);
    case CAPL_CACHE_RAM: return keep_in_memory_as_asked(l);
    case CAPL_CACHE_DISK: return keep_on_disk(l);
    case CAPL_CACHE_NONE:
    case CAPL_CACHE_DEVICE: return CAPL_OK;
  }
  return CAPL_OK;
}

capl_status loader_cache_begin(capl_loader *l)
{
  if (l->cache_chosen) return cache_disk_mend(l->maker.source), CAPL_OK;
  CAPL_TRY(choose(l));
  l->cache_chosen = true;
  snprintf(l->path, sizeof l->path, "%s%s", l->feed ? feed_path(l) : "made on the host", l->cached);
  return CAPL_OK;
}

const char *capl_loader_path(const capl_loader *l)
{
  return l->path[0] || l->feed ? l->path : "made on the host";
}
