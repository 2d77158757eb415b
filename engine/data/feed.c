/* feed.c -- takes a loader's batches on to a device: streams them, or keeps all levels there.
**
** Streamed, a batch goes: slot (page-locked; threads write rows, labels, levels) -> staging buffer -> kernels. When
** batch i is handed out, batch i+1 is sent if it is ready, so its copy runs beside step i. A slot goes back to the
** threads when its batch has been handed out and its copy has arrived; a staging buffer is written again when the
** kernels that read it have ended, which the backend sees to (feed.h). Resident, only the rows travel, by the same way:
** 96 bytes for each image, and what else its augmentation needs, made from the permutation and the random numbers of
** its epoch. All of this runs in the thread that trains; the loader's threads never meet the device.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "data/loader.h"

/* BUFFERS >= 2: the copy of a batch waits for the kernels of the batch that many before it, which are queued by
** then. */
enum { BUFFERS = 3, ALIGNMENT = 256, FILL_BYTES = 8 << 20, FREE_SHARE = 4 };

struct feeder {
  capl_device *device;
  const capl_feed_ops *ops;
  const char *device_name;
  capl_cache cache;
  bool (*stop)(void);
  capl_feed_stage *stage;   /* NULL until the first epoch begins */
  uint64_t sends;           /* batches sent so far */
  uint64_t taken;           /* batches of this run of the epoch that were sent */
  const slot *current;      /* the batch to be made; NULL = none */
  size_t more_at, tables_at, nodes_at, labels_at, images_at; /* in a block, whose rows come first */
  resident_set *set;        /* own_set, or the one that a filler fills; NULL = streamed */
  resident_set own_set;
  bool unlocked;            /* some slots are not page-locked */
  char why[160];            /* it streams */
  char path[256];
};

capl_status feed_new(capl_loader *l, const capl_loader_options *o)
{
  feeder *f = calloc(1, sizeof *f);
  if (!f) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a loader");
  *f = (feeder){
    .device = o->device,
    .ops = o->feed,
    .device_name = o->device_name ? o->device_name : "the device",
    .cache = o->cache,
    .stop = o->stop,
  };
  l->feed = f;
  l->n_slots++; /* one more is on its way to the device */
  return CAPL_OK;
}

void feed_options_of(const capl_loader *l, capl_loader_options *o)
{
  o->device = l->feed->device;
  o->feed = l->feed->ops;
  o->device_name = l->feed->device_name;
  o->cache = CAPL_CACHE_NONE;
  o->stop = l->feed->stop;
}

static void free_set(feeder *f)
{
  f->ops->memory_put(f->device, f->own_set.labels);
  f->ops->memory_put(f->device, f->own_set.images);
  for (int i = 0; i < CAPL_FIELDS_MAX; i++) free(f->own_set.field[i]);
  free(f->own_set.host_labels);
  free(f->own_set.facts);
  f->own_set = (resident_set){0};
}

void feed_free(capl_loader *l)
{
  feeder *f = l->feed;
  if (!f) return;
  f->ops->close(f->stage);
  for (int i = 0; l->slots && i < l->n_slots; i++) {
    slot *s = &l->slots[i];
    if (s->locked) f->ops->host_put(s->block);
    else free(s->block);
    free(s->facts);
  }
  free_set(f);
  free(f);
}

/* ---- room: slots in page-locked memory, staging buffers -------------------------------------- */

static size_t align(size_t bytes)
{
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* A block: rows and what they need, labels, levels; what its kind of row has no use for takes no room. -> its bytes */
static size_t lay_out(const capl_loader *l, feeder *f)
{
  const capl_source *source = l->maker.source;
  feed_needs need = l->needs;
  bool has_rows = l->maker.kind != ROW_OF_SET, has_levels = l->maker.kind != ROW_RESIDENT;
  size_t n = (size_t)l->batch * (need.mixes ? 2 : 1),
      nodes = (size_t)capl_augment_nodes_count(source->height, source->width);
  f->more_at = has_rows ? align(n * sizeof(capl_feed_row)) : 0;
  f->tables_at = f->more_at + (need.more ? align(n * sizeof(capl_feed_more)) : 0);
  f->nodes_at = f->tables_at + (need.filters ? align(n * 256) : 0);
  f->labels_at = f->nodes_at + (need.bends ? align(n * nodes * sizeof(int32_t)) : 0);
  f->images_at = f->labels_at + (has_levels ? align((size_t)l->batch * (size_t)source->length * sizeof(int32_t)) : 0);
  return f->images_at + (has_levels ? align(n * l->maker.image_bytes) : 0);
}

/* Page-locked memory may be scarce where plain memory is not: a copy from that takes a little longer. */
static capl_status get_block(capl_loader *l, slot *s, size_t bytes)
{
  void *block = NULL;
  capl_status status = l->pin == CAPL_PIN_OFF ? CAPL_ENOMEM : l->feed->ops->host_get(bytes, &block);
  s->locked = status == CAPL_OK;
  if (status == CAPL_ENOMEM && l->pin != CAPL_PIN_ON) {
    block = aligned_alloc(ALIGNMENT, align(bytes));
    status = block ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a batch of %zu bytes", bytes);
    l->feed->unlocked = true;
  }
  s->block = block;
  return status;
}

static capl_status allocate_block(capl_loader *l, slot *s, size_t bytes)
{
  feeder *f = l->feed;
  CAPL_TRY(get_block(l, s, bytes));
  void *block = s->block;
  bool has_rows = l->maker.kind != ROW_OF_SET, has_levels = l->maker.kind != ROW_RESIDENT;
  s->rows = has_rows ? block : NULL;
  s->more = l->needs.more ? (void *)(s->block + f->more_at) : NULL;
  s->tables = l->needs.filters ? s->block + f->tables_at : NULL;
  s->nodes = l->needs.bends ? (void *)(s->block + f->nodes_at) : NULL;
  s->labels = has_levels ? (void *)(s->block + f->labels_at) : NULL;
  s->images = has_levels ? s->block + f->images_at : NULL;
  if (l->maker.kind != ROW_OF_SET) return CAPL_OK;
  s->facts = calloc((size_t)l->batch, sizeof *s->facts);
  return s->facts ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a set of samples");
}

/* Sets are sent to their own place, so their staging buffers are never written. */
static capl_status make_room(capl_loader *l)
{
  feeder *f = l->feed;
  size_t bytes = lay_out(l, f);
  for (int i = 0; i < l->n_slots; i++) {
    if (!l->slots[i].block) CAPL_TRY(allocate_block(l, &l->slots[i], bytes));
  }
  return f->ops->open(f->device, BUFFERS, l->maker.kind == ROW_OF_SET ? ALIGNMENT : bytes, &f->stage);
}

/* ---- the resident set ------------------------------------------------------------------------ */

static size_t set_image_bytes(const capl_source *s)
{
  return (size_t)s->width * (size_t)s->height * (size_t)(s->channels == 3 ? 4 : s->channels);
}

static size_t set_bytes(const capl_source *s)
{
  return (size_t)s->count * (set_image_bytes(s) + (size_t)s->length * sizeof(int32_t));
}

static capl_status allocate_set(feeder *f, const capl_source *source)
{
  resident_set *set = &f->own_set;
  size_t count = source->count;
  void *images, *labels = NULL;
  CAPL_TRY(f->ops->memory_get(f->device, count * set_image_bytes(source), &images));
  set->images = images;
  if (source->length > 0)
    CAPL_TRY(f->ops->memory_get(f->device, count * (size_t)source->length * sizeof(int32_t), &labels));
  set->labels = labels;
  set->pixel_bytes = source->channels == 3 ? 4 : source->channels;
  set->bytes = set_bytes(source);
  for (int i = 0; i < source->n_fields; i++) {
    set->field[i] = calloc(count, capl_field_bytes(&source->field[i]));
    if (!set->field[i])
      return CAPL_FAIL(CAPL_ENOMEM, "no memory for the %s of %zu samples", source->field[i].name, count);
  }
  set->facts = calloc(count, sizeof *set->facts);
  set->host_labels = malloc((count * (size_t)source->length + 1) * sizeof *set->host_labels);
  return set->facts && set->host_labels ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a set of %zu samples", count);
}

/* Batches of the filler go straight to their place in the set. */
static capl_status send_to_set(capl_loader *filler, const slot *s, int buffer)
{
  feeder *f = filler->feed;
  resident_set *set = f->set;
  const capl_source *source = filler->maker.source;
  size_t first = (size_t)s->batch * (size_t)filler->batch, count = (size_t)s->count, length = (size_t)source->length;
  memcpy(set->facts + first, s->facts, count * sizeof *s->facts);
  CAPL_TRY(f->ops->send(f->stage, buffer, set->images + first * set_image_bytes(source), s->images,
                        count * set_image_bytes(source)));
  if (length == 0) return CAPL_OK;
  memcpy(set->host_labels + first * length, s->labels, count * length * sizeof *s->labels);
  return f->ops->send(f->stage, buffer, set->labels + first * length, s->labels, count * length * sizeof(int32_t));
}

static capl_status read_all(capl_loader *filler)
{
  capl_batch batch = {.count = 1};
  bool (*stop)(void) = filler->feed->stop;
  CAPL_TRY(capl_loader_epoch(filler, 0));
  while (batch.count > 0) {
    if (stop && stop()) return CAPL_FAIL(CAPL_EINTERRUPT, "interrupted");
    CAPL_TRY(capl_loader_next(filler, &batch));
  }
  return CAPL_OK;
}

static capl_status arrive_all(feeder *f)
{
  bool done;
  for (int i = 0; f->stage && i < BUFFERS; i++) CAPL_TRY(f->ops->arrived(f->stage, i, true, &done));
  return CAPL_OK;
}

/* Reads every sample once, by as many threads as the loader has, and keeps them on the device. */
static capl_status fill_set(capl_loader *l)
{
  feeder *f = l->feed;
  size_t per_batch = FILL_BYTES / set_image_bytes(l->maker.source);
  int batch = per_batch < 16 ? 16 : per_batch > 4096 ? 4096 : (int)per_batch;
  capl_loader *filler = NULL;
  CAPL_TRY(allocate_set(f, l->maker.source));
  CAPL_TRY(loader_new_filler(l, &f->own_set, batch, &filler));
  filler->feed->set = &f->own_set;
  capl_status status = read_all(filler);
  if (status == CAPL_OK) status = arrive_all(filler->feed);
  capl_loader_free(filler);
  return status;
}

static void use_set(capl_loader *l)
{
  feeder *f = l->feed;
  f->set = &f->own_set;
  l->maker.kind = ROW_RESIDENT;
  l->maker.set = f->set;
  snprintf(f->path, sizeof f->path, "resident on %s, %.0f MB", f->device_name, (double)f->set->bytes / 1e6);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static capl_status stream(feeder *f, const char *why)
{
  snprintf(f->why, sizeof f->why, "%s", why);
  return CAPL_OK;
}

/* Whether "auto" keeps the levels on the device; else the path says why not. */
static capl_status wants_set(capl_loader *l, bool *wanted)
{
  feeder *f = l->feed;
  const capl_source *source = l->maker.source;
  *wanted = f->cache == CAPL_CACHE_DEVICE;
  if (*wanted || l->maker.kind == ROW_OF_SET) return CAPL_OK;
  if (f->cache == CAPL_CACHE_NONE) return stream(f, "cache is none");
  if (f->cache == CAPL_CACHE_RAM) return stream(f, "cache is ram");
  if (f->cache == CAPL_CACHE_DISK) return stream(f, "cache is disk");
  if (!source->fixed) return stream(f, "each epoch has new images");
  if (source->n_widths) return stream(f, "its images have several widths");
  size_t free_bytes = 0;
  CAPL_TRY(f->ops->memory_free(f->device, &free_bytes));
  *wanted = set_bytes(source) <= free_bytes / FREE_SHARE;
  if (*wanted) return CAPL_OK;
  char why[96];
  snprintf(why, sizeof why, "its %.0f MB are more than a quarter of the %.0f MB free", (double)set_bytes(source) / 1e6,
           (double)free_bytes / 1e6);
  return stream(f, why);
}

static capl_status choose(capl_loader *l)
{
  bool wanted;
  CAPL_TRY(wants_set(l, &wanted));
  if (!wanted) return CAPL_OK;
  capl_status status = fill_set(l);
  if (status == CAPL_OK) {
    use_set(l);
    return CAPL_OK;
  }
  free_set(l->feed);
  if (status != CAPL_ENOMEM || l->feed->cache == CAPL_CACHE_DEVICE) return status;
  return stream(l->feed, "the device had no memory to keep it");
}

capl_status feed_begin(capl_loader *l)
{
  feeder *f = l->feed;
  f->current = NULL;
  f->taken = 0;
  if (f->stage) return arrive_all(f);
  double since = clock_now();
  if (!f->path[0] && !f->why[0]) CAPL_TRY(choose(l)); /* once, even if there was no room then */
  double took = clock_now() - since;
  l->stats.wait_seconds += took; /* reading a whole set is waiting for data too */
  l->stats.seconds += took;
  CAPL_TRY(make_room(l));
  if (f->set) return CAPL_OK;
  snprintf(f->path, sizeof f->path, "streamed to %s, %spage-locked: %s", f->device_name, f->unlocked ? "not " : "",
           f->why);
  return CAPL_OK;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* What of a block a batch fills. */
static size_t bytes_of(const capl_loader *l, const slot *s)
{
  const feeder *f = l->feed;
  if (l->maker.kind == ROW_RESIDENT) return l->needs.more ? f->labels_at : (size_t)s->count * sizeof(capl_feed_row);
  return f->images_at + (size_t)(s->count + (l->needs.mixes ? l->batch : 0)) * s->image_bytes;
}

static capl_status send(capl_loader *l, slot *s)
{
  feeder *f = l->feed;
  s->buffer = (int)(f->sends % BUFFERS);
  capl_status status = l->maker.kind == ROW_OF_SET ? send_to_set(l, s, s->buffer)
                                                   : f->ops->send(f->stage, s->buffer, NULL, s->block, bytes_of(l, s));
  if (status != CAPL_OK) return status;
  f->sends++;
  f->taken++;
  return CAPL_OK;
}

/* Waits for a copy without the lock, which the threads need to go on. */
static capl_status wait_arrived(capl_loader *l, const slot *s, bool *done)
{
  double since = clock_now();
  pthread_mutex_unlock(&l->lock);
  capl_status status = l->feed->ops->arrived(l->feed->stage, s->buffer, true, done);
  pthread_mutex_lock(&l->lock);
  l->stats.wait_seconds += clock_now() - since;
  return status;
}

/* Slots of batches that were handed out go back to the threads, in order, once their copies have arrived. A slot's
** staging buffer may have been sent to again since: then this waits for more than it must, never for less.
** until: all before this batch must go back. */
static capl_status give_back(capl_loader *l, uint64_t until)
{
  feeder *f = l->feed;
  while (l->released < l->delivered) {
    const slot *s = loader_slot(l, l->released);
    bool done;
    if (l->released < until) CAPL_TRY(wait_arrived(l, s, &done));
    else CAPL_TRY(f->ops->arrived(f->stage, s->buffer, false, &done));
    if (!done) return CAPL_OK;
    l->released++;
    pthread_cond_broadcast(&l->work);
  }
  return CAPL_OK;
}

/* The next batch, which nobody has sent ahead. */
static capl_status send_now(capl_loader *l)
{
  uint64_t batch = l->feed->taken, slots = (uint64_t)l->n_slots;
  if (batch >= slots) CAPL_TRY(give_back(l, batch - slots + 1)); /* its own slot, before all */
  slot *s = loader_slot(l, batch);
  loader_wait(l, s, batch);
  CAPL_TRY(loader_check(l, s));
  return send(l, s);
}

/* The one after it, if it is ready and good: an error is returned when its own batch is requested. */
static capl_status send_ahead(capl_loader *l)
{
  uint64_t batch = l->feed->taken;
  if (batch >= l->n_batches || batch > l->delivered) return CAPL_OK;
  slot *s = loader_slot(l, batch);
  return loader_complete(s, batch) && s->failed_row < 0 ? send(l, s) : CAPL_OK;
}

capl_status feed_next(capl_loader *l, capl_batch *batch)
{
  feeder *f = l->feed;
  f->current = NULL;
  CAPL_TRY(give_back(l, 0));
  if (l->delivered >= l->n_batches) return CAPL_OK;
  if (f->taken == l->delivered) CAPL_TRY(send_now(l));
  const slot *s = loader_slot(l, l->delivered);
  CAPL_TRY(loader_check(l, s));
  loader_hand_out(l, s, batch);
  f->current = s;
  return CAPL_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

static capl_feed_job job_of(const capl_loader *l, const slot *s)
{
  const row_maker *m = &l->maker;
  const feeder *f = l->feed;
  const resident_set *set = m->kind == ROW_RESIDENT ? m->set : NULL;
  return (capl_feed_job){
    .count = s->count,
    .height = m->source->height,
    .width = s->width,
    .channels = m->source->channels,
    .length = m->source->length,
    .pixel_bytes = set ? set->pixel_bytes : m->source->channels,
    .images = set ? set->images : NULL,
    .labels = set ? set->labels : NULL,
    .partner = l->needs.mixes ? l->batch : 0,
    .more = l->needs.more,
    .filters = l->needs.filters,
    .nodes = l->needs.bends ? capl_augment_nodes_count(m->source->height, s->width) : 0,
    .erase_value = s->stage.augment.erase_value,
    .more_at = f->more_at,
    .tables_at = f->tables_at,
    .nodes_at = f->nodes_at,
    .images_at = f->images_at,
    .labels_at = f->labels_at,
    .fill = s->stage.augment.fill,
    .fill_value = s->stage.augment.fill_value,
    .standardize = s->stage.augments && m->conversion.norm == CAPL_NORM_STANDARDIZE
    && m->conversion.type != CAPL_PIXEL_U8, .type = m->conversion.type,
  };
}

capl_status capl_loader_make_once_more(capl_loader *l, void *images, int32_t *labels)
{
  feeder *f = l->feed;
  if (!f || !f->current) return CAPL_FAIL(CAPL_ESTATE, "there is no batch to make; call capl_loader_next first");
  capl_feed_job job = job_of(l, f->current);
  job.out = images;
  job.out_labels = labels;
  return f->ops->make(f->stage, f->current->buffer, &job);
}

/* The next batch is sent when this one's kernels are queued: what they wait for comes first. */
capl_status capl_loader_make(capl_loader *l, void *images, int32_t *labels)
{
  CAPL_TRY(capl_loader_make_once_more(l, images, labels));
  l->feed->current = NULL;
  pthread_mutex_lock(&l->lock);
  capl_status status = send_ahead(l);
  pthread_mutex_unlock(&l->lock);
  return status;
}

capl_device *capl_loader_device(const capl_loader *l)
{
  return l->feed ? l->feed->device : NULL;
}

const char *feed_path(const capl_loader *l)
{
  return l->feed->path;
}
