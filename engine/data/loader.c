/* loader.c -- threads that make batches ahead of time and hand them out in order.
**
** Work is given out in tickets of 16 rows, so several threads fill the same batch and the first one comes soon.
** Batches live in a ring of prefetch + 1 slots: batch b in slot b mod n. A ticket of batch b is given out once the
** batch n places before it is no longer borrowed. One mutex guards everything that changes; threads without work
** sleep. With workers = 0 the consumer takes the same tickets itself, so the bytes are the same.
** Batches for a device are taken further by feed.c.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"

enum { TICKET_ROWS = 16 };

static const uint64_t no_batch = UINT64_MAX;

/* Some rows of one batch, to be made by one thread. */
typedef struct {
  slot *slot;
  uint64_t batch;
  int first, end; /* rows */
  int substituted, augmented;
  int failed_row;
  double work_seconds, augment_seconds; /* for all its rows, by the time that the first one took */
} ticket;

/* ---- tickets (the lock is held by the caller unless said otherwise) -------------------------- */

slot *loader_slot(capl_loader *l, uint64_t batch)
{
  return &l->slots[batch % (uint64_t)l->n_slots];
}

/* What a batch of the epoch is made by. */
static row_stage stage_of(const capl_loader *l, uint64_t batch)
{
  if (l->stages.n == 0) return l->stage;
  capl_stage_values v;
  schedule_at(&l->stages, schedule_step(&l->stages, l->epoch, l->before + batch), &v);
  return (row_stage){.augments = v.augments, .augment = v.augment, .eases = v.eases, .difficulty = v.difficulty};
}

static void set_width(const capl_loader *l, slot *s)
{
  const capl_source *source = l->maker.source;
  s->list = loader_list_of(l, s->batch);
  s->width = source->n_widths ? source->widths[s->list] : source->width;
  s->image_bytes = source->n_widths ? l->maker.image_bytes / (size_t)source->width * (size_t)s->width
      : l->maker.image_bytes;
}

static void open_slot(capl_loader *l, slot *s)
{
  s->batch = l->next_batch;
  s->count = s->rows_left = loader_rows_of(l, s->batch, &s->padded);
  s->substituted = s->augmented = 0;
  s->failed_row = -1;
  s->stage = stage_of(l, s->batch);
  set_width(l, s);
}

static bool take_ticket(capl_loader *l, ticket *t)
{
  if (l->next_batch >= l->n_batches || l->next_batch >= l->released + (uint64_t)l->n_slots) return false;
  slot *s = loader_slot(l, l->next_batch);
  if (l->next_row == 0) open_slot(l, s);
  int end = l->next_row + TICKET_ROWS < s->count ? l->next_row + TICKET_ROWS : s->count;
  *t = (ticket){.slot = s, .batch = l->next_batch, .first = l->next_row, .end = end, .failed_row = -1};
  l->next_row = end;
  if (end == s->count) {
    l->next_batch++;
    l->next_row = 0;
  }
  l->busy++;
  return true;
}

/* number: of the row, or batch more for its partner. */
static feed_place feed_place_of(const capl_loader *l, const slot *s, int number)
{
  const capl_source *source = l->maker.source;
  size_t at = (size_t)number;
  return (feed_place){
    .row = s->rows + at,
    .more = s->more ? s->more + at : NULL,
    .table = s->tables ? s->tables + at * 256 : NULL,
    .nodes = s->nodes ? s->nodes + at * (size_t)capl_augment_nodes_count(source->height, s->width) : NULL,
    .image = s->images ? s->images + at * s->image_bytes : NULL,
    .number = (uint32_t)number,
  };
}

static row_place place_of(const capl_loader *l, const slot *s, int row)
{
  const capl_source *source = l->maker.source;
  size_t length = (size_t)source->length, at = (size_t)row;
  row_place place = {
    .batch = s->batch,
    .index = row,
    .list = s->list,
    .stage = &s->stage,
    .image = s->images ? s->images + at * s->image_bytes : NULL,
    .labels = length && s->labels ? s->labels + at * length : NULL,
    .facts = s->facts ? s->facts + at : NULL,
  };
  if (s->rows) place.feed = feed_place_of(l, s, row);
  if (s->rows && l->needs.mixes) place.partner = feed_place_of(l, s, l->batch + row);
  if (s->mix) place.mix = s->mix + at;
  if (s->labels2 && length) place.labels2 = s->labels2 + at * length;
  for (int i = 0; i < source->n_fields; i++)
    place.field[i] = (uint8_t *)s->field[i] + at * source_field_bytes(source, i, s->width);
  return place;
}

/* Makes the ticket's rows, without the lock. Ends at the first that fails; its error is the thread's last. */
static void do_ticket(capl_loader *l, ticket *t, row_scratch *scratch)
{
  for (int row = t->first; row < t->end && !atomic_load(&l->hurry); row++) {
    uint32_t position = loader_position_of(l, t->batch, row);
    row_place to = place_of(l, t->slot, row);
    row_note note;
    bool timed = row == t->first;
    double since = timed ? clock_now() : 0;
    scratch->timed = timed;
    if (row_make(&l->maker, scratch, (uint32_t)l->epoch, position, &to, &note) != CAPL_OK) {
      t->failed_row = row;
      return;
    }
    t->slot->ids[row] = note.id;
    t->slot->lengths[row] = note.length;
    if (t->slot->used) t->slot->used[row] = note.used;
    t->substituted += note.substituted;
    t->augmented += note.augmented;
    if (!timed) continue;
    int rows = t->end - t->first;
    t->work_seconds = (clock_now() - since) * rows;
    t->augment_seconds = scratch->augment_seconds * rows;
  }
}

/* Of several failures in a batch the first row's is kept, whichever thread met it first. */
static void finish_ticket(capl_loader *l, const ticket *t)
{
  slot *s = t->slot;
  if (t->failed_row >= 0 && (s->failed_row < 0 || t->failed_row < s->failed_row)) {
    s->failed_row = t->failed_row;
    s->error = *capl_error_last();
  }
  s->substituted += t->substituted;
  s->augmented += t->augmented;
  s->rows_left -= t->end - t->first;
  l->stats.work_seconds += t->work_seconds;
  l->stats.augment_seconds += t->augment_seconds;
  l->busy--;
  if (s->rows_left == 0 || l->busy == 0) pthread_cond_broadcast(&l->done);
}

/* Releases the lock while working. */
static void work_once(capl_loader *l, ticket *t, row_scratch *scratch)
{
  pthread_mutex_unlock(&l->lock);
  do_ticket(l, t, scratch);
  pthread_mutex_lock(&l->lock);
  finish_ticket(l, t);
}

typedef struct {
  capl_loader *loader;
  row_scratch *scratch;
} worker_start;

static void *work(void *argument)
{
  worker_start start = *(worker_start *)argument;
  free(argument);
  capl_loader *l = start.loader;
  pthread_mutex_lock(&l->lock);
  while (!l->stop) {
    ticket t;
    if (take_ticket(l, &t)) {
      work_once(l, &t, start.scratch);
    } else {
      pthread_cond_wait(&l->work, &l->lock);
    }
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

/* Keeps the calling thread's error under the sample's number. */
static void note_bad(void *loader, uint64_t batch, uint32_t id)
{
  capl_loader *l = loader;
  pthread_mutex_lock(&l->lock);
  bad_list_add(&l->bad, id, l->bad_from + batch, capl_error_last()->message);
  pthread_mutex_unlock(&l->lock);
}

/* ---- making a loader ------------------------------------------------------------------------- */

static feed_needs needs_of(const capl_loader_options *o)
{
  feed_needs needs = {0};
  if (o->augment) feed_needs_add(&needs, o->augment);
  for (int i = 0; i < o->n_stages; i++) {
    if (o->stages[i].augments) feed_needs_add(&needs, &o->stages[i].augment);
  }
  return needs;
}

static void set_options(capl_loader *l, capl_source *source, const capl_loader_options *o)
{
  l->batch = o->batch;
  l->n_workers = o->workers;
  l->n_scratch = o->workers ? o->workers : 1;
  l->n_slots = (o->prefetch ? o->prefetch : 2) + 1;
  l->rank = (uint32_t)o->rank;
  l->world = o->world ? (uint32_t)o->world : 1;
  l->parts = o->parts ? (uint32_t)o->parts : l->world;
  l->once = o->once;
  l->drop_last = o->drop_last;
  l->cache = o->cache;
  l->max_bad = o->max_bad > 0 ? o->max_bad : 0.01;
  l->pin = o->pin;
  l->needs = needs_of(o);
  row_maker *m = &l->maker;
  m->source = capl_source_ref(source);
  m->plain = source;
  m->lists = &l->widths.lists;
  m->seed = o->seed;
  m->shuffle = o->shuffle;
  m->skip = o->on_error == CAPL_ON_ERROR_SKIP;
  m->conversion = (capl_conversion){.type = o->type, .norm = o->norm};
  memcpy(m->conversion.mean, o->mean, sizeof o->mean);
  memcpy(m->conversion.std, o->std, sizeof o->std);
  m->kind = o->feed ? ROW_LEVELS : ROW_FINISHED;
  m->image_bytes = (size_t)source->width * (size_t)source->height * (size_t)source->channels;
  if (!o->feed) m->image_bytes *= capl_pixel_bytes(o->type);
  m->on_bad = note_bad;
  m->context = l;
  l->stage.augments = o->augment != NULL;
  if (o->augment) l->stage.augment = *o->augment;
}

static void *aligned(size_t bytes)
{
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static bool allocate_fields(const capl_loader *l, slot *s)
{
  const capl_source *source = l->maker.source;
  for (int i = 0; i < source->n_fields; i++) {
    s->field[i] = aligned((size_t)l->batch * capl_field_bytes(&source->field[i]));
    if (!s->field[i]) return false;
  }
  return true;
}

static bool allocate_mix(const capl_loader *l, slot *s)
{
  size_t rows = (size_t)l->batch;
  s->mix = malloc(rows * sizeof *s->mix);
  s->labels2 = malloc(rows * (size_t)(l->maker.source->length + 1) * sizeof *s->labels2);
  return s->mix && s->labels2;
}

static capl_status allocate_slot(const capl_loader *l, slot *s)
{
  size_t rows = (size_t)l->batch, bytes = rows * l->maker.image_bytes;
  s->batch = no_batch;
  s->ids = malloc(rows * sizeof *s->ids);
  s->lengths = malloc(rows * sizeof *s->lengths);
  if (l->widths.lists.n) s->used = malloc(rows * sizeof *s->used);
  bool fine = s->ids && s->lengths && (s->used || !l->widths.lists.n) && allocate_fields(l, s)
      && (!l->needs.mixes || allocate_mix(l, s));
  if (fine && l->feed) return CAPL_OK; /* the rest when it is known what travels (feed_begin) */
  if (bytes > 0) s->images = aligned(bytes);
  s->labels = malloc(rows * (size_t)(l->maker.source->length + 1) * sizeof *s->labels);
  if (fine && s->labels && (s->images || bytes == 0)) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d batches of %zu bytes", l->n_slots, bytes);
}

static capl_status start_worker(capl_loader *l, int i)
{
  worker_start *start = malloc(sizeof *start);
  if (!start) return CAPL_FAIL(CAPL_ENOMEM, "no memory to start a loader thread");
  *start = (worker_start){l, &l->scratch[i]};
  capl_status status = capl_thread_start(&l->threads[i], "capl-loader", work, start);
  if (status == CAPL_OK) {
    l->n_threads++;
  } else {
    free(start);
  }
  return status;
}

static capl_status build(capl_loader *l)
{
  l->slots = calloc((size_t)l->n_slots, sizeof *l->slots);
  l->scratch = calloc((size_t)l->n_scratch, sizeof *l->scratch);
  l->threads = calloc((size_t)l->n_scratch, sizeof *l->threads);
  if (!l->slots || !l->scratch || !l->threads) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a loader");
  for (int i = 0; i < l->n_slots; i++) CAPL_TRY(allocate_slot(l, &l->slots[i]));
  for (int i = 0; i < l->n_scratch; i++) CAPL_TRY(row_scratch_init(&l->scratch[i], l->maker.source, l->needs.mixes));
  for (int i = 0; i < l->n_workers; i++) CAPL_TRY(start_worker(l, i));
  return CAPL_OK;
}

/* Batches without images are the host's to make, whatever the device. */
static capl_loader_options fitted(const capl_source *source, const capl_loader_options *options)
{
  capl_loader_options o = *options;
  if (source->width == 0) o.feed = NULL;
  return o;
}

static capl_status copy_cache_dir(capl_loader *l, const char *dir)
{
  if (!dir) return CAPL_OK;
  l->cache_dir = strdup(dir);
  return l->cache_dir ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a loader");
}

/* Training meets all widths in turn, generated images too, which have no order. */
static capl_status plan_widths(capl_loader *l, const capl_source *source, const capl_loader_options *o)
{
  CAPL_TRY(width_plan_init(&l->widths, source, loader_planned(l), l->drop_last, o->shuffle || !source->fixed));
  if (l->widths.n_batches) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "batch is %d but no width has so many samples, so drop_last leaves no batch at all", l->batch);
  capl_error_hint("set drop_last = false or a smaller batch");
  return CAPL_EVALUE;
}

capl_status capl_loader_new(capl_source *source, const capl_loader_options *given, capl_loader **loader)
{
  capl_loader_options o = fitted(source, given), *options = &o;
  CAPL_TRY(loader_check_options(source, options));
  capl_loader *l = calloc(1, sizeof *l);
  if (!l) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a loader");
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->work, NULL);
  pthread_cond_init(&l->done, NULL);
  set_options(l, source, options);
  capl_status status = copy_cache_dir(l, options->cache_dir);
  if (status == CAPL_OK && source->n_widths) status = plan_widths(l, source, options);
  if (status == CAPL_OK && options->feed) status = feed_new(l, options);
  if (status == CAPL_OK && options->n_stages)
    status = schedule_init(&l->stages, options->stages, options->n_stages, capl_loader_batches(l), source);
  if (status == CAPL_OK) status = build(l);
  if (status == CAPL_OK) {
    *loader = l;
  } else {
    capl_loader_free(l);
  }
  return status;
}

capl_status loader_new_filler(const capl_loader *owner, resident_set *set, int batch, capl_loader **filler)
{
  const row_maker *m = &owner->maker;
  capl_loader_options o = {.batch = batch, .workers = owner->n_workers, .type = CAPL_PIXEL_U8, .pin = owner->pin};
  feed_options_of(owner, &o);
  CAPL_TRY(capl_loader_new(m->source, &o, filler));
  (*filler)->maker.kind = ROW_OF_SET;
  (*filler)->maker.set = set;
  (*filler)->maker.image_bytes =
    (size_t)m->source->width * (size_t)m->source->height * (size_t)set->pixel_bytes;
  return CAPL_OK;
}

/* Of a loader with a device, images and labels lie in a block, which feed.c frees. */
static void free_slot(const capl_loader *l, slot *s)
{
  if (!l->feed) free(s->images);
  if (!l->feed) free(s->labels);
  for (int i = 0; i < CAPL_FIELDS_MAX; i++) free(s->field[i]);
  free(s->labels2);
  free(s->mix);
  free(s->ids);
  free(s->lengths);
  free(s->used);
}

static void stop_workers(capl_loader *l)
{
  pthread_mutex_lock(&l->lock);
  l->stop = true;
  atomic_store(&l->hurry, true);
  pthread_cond_broadcast(&l->work);
  pthread_mutex_unlock(&l->lock);
  for (int i = 0; i < l->n_threads; i++) pthread_join(l->threads[i], NULL);
}

void capl_loader_free(capl_loader *l)
{
  if (!l) return;
  stop_workers(l);
  for (int i = 0; l->slots && i < l->n_slots; i++) free_slot(l, &l->slots[i]);
  feed_free(l);
  for (int i = 0; l->scratch && i < l->n_scratch; i++) row_scratch_fini(&l->scratch[i]);
  bad_list_fini(&l->bad);
  schedule_fini(&l->stages);
  width_plan_fini(&l->widths);
  free(l->slots);
  free(l->scratch);
  free(l->threads);
  free(l->cache_dir);
  capl_source_unref(l->maker.source);
  pthread_cond_destroy(&l->work);
  pthread_cond_destroy(&l->done);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

/* ---- epochs and state ------------------------------------------------------------------------ */

void loader_quiesce(capl_loader *l)
{
  l->n_batches = 0;
  atomic_store(&l->hurry, true);
  while (l->busy > 0) pthread_cond_wait(&l->done, &l->lock);
  atomic_store(&l->hurry, false);
  for (int i = 0; i < l->n_slots; i++) l->slots[i].batch = no_batch;
}

static capl_status begin_locked(capl_loader *l, const capl_loader_state *state)
{
  loader_quiesce(l);
  l->began = false;
  bad_list_forget(&l->bad, l->bad_until);
  l->bad_from = l->bad_until;
  l->substituted = 0;
  if (l->feed) CAPL_TRY(feed_begin(l));
  CAPL_TRY(loader_cache_begin(l));
  l->maker.seed = state->seed;
  l->epoch = state->epoch;
  CAPL_TRY(loader_order_begin(l, state));
  l->next_batch = l->delivered = l->released = 0;
  l->next_row = 0;
  l->n_batches = loader_batches_from(l, l->start);
  l->began = true;
  l->ended = false;
  l->last_call = clock_now();
  pthread_cond_broadcast(&l->work);
  return CAPL_OK;
}

static capl_status begin(capl_loader *l, const capl_loader_state *state)
{
  pthread_mutex_lock(&l->lock);
  capl_status status = begin_locked(l, state);
  pthread_mutex_unlock(&l->lock);
  return status;
}

static capl_status check_epoch(uint64_t epoch)
{
  if (epoch <= INT32_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "epoch is %llu; the last possible one is %d", (unsigned long long)epoch, INT32_MAX);
}

capl_status capl_loader_epoch(capl_loader *l, uint64_t epoch)
{
  CAPL_TRY(check_epoch(epoch));
  return begin(l, &(capl_loader_state){.seed = l->maker.seed, .epoch = epoch});
}

capl_status capl_loader_state_set(capl_loader *l, const capl_loader_state *state)
{
  CAPL_TRY(check_epoch(state->epoch));
  if (state->position > l->maker.source->count) {
    return CAPL_FAIL(CAPL_EVALUE, "the state is at sample %llu of an epoch of %u; it was taken from another source",
                     (unsigned long long)state->position, l->maker.source->count);
  }
  return begin(l, state);
}

void capl_loader_state_get(const capl_loader *l, capl_loader_state *state)
{
  *state = (capl_loader_state){l->maker.seed, l->epoch, loader_samples_before(l, l->delivered)};
}

/* ---- handing out ----------------------------------------------------------------------------- */

bool loader_complete(const slot *s, uint64_t batch)
{
  return s->batch == batch && s->rows_left == 0;
}

void loader_wait(capl_loader *l, const slot *s, uint64_t batch)
{
  if (loader_complete(s, batch)) return;
  double since = clock_now();
  while (!loader_complete(s, batch)) {
    ticket t;
    if (l->n_workers == 0 && take_ticket(l, &t)) {
      work_once(l, &t, &l->scratch[0]);
    } else {
      pthread_cond_wait(&l->done, &l->lock);
    }
  }
  l->stats.wait_seconds += clock_now() - since;
}

void loader_hand_out(capl_loader *l, const slot *s, capl_batch *batch)
{
  *batch = (capl_batch){
    .images = l->feed ? NULL : s->images,
    .labels = l->maker.source->length && !l->feed ? s->labels : NULL,
    .labels2 = l->maker.source->length ? s->labels2 : NULL,
    .mix = s->mix,
    .width = s->width,
    .used = s->used,
    .lengths = l->maker.source->length ? s->lengths : NULL,
    .ids = s->ids,
    .count = s->count,
    .padded = s->padded,
    .global_batch_size = loader_global_batch_of(l, s->batch),
    .substituted = s->substituted,
  };
  for (int i = 0; i < l->maker.source->n_fields; i++) batch->field[i] = s->field[i];
  l->delivered++;
  l->substituted += (uint64_t)s->substituted;
  l->bad_until = l->bad_from + l->delivered;
  l->stats.batches++;
  l->stats.samples += (uint64_t)s->count;
  l->stats.augmented += (uint64_t)s->augmented;
  l->stats.substituted += (uint64_t)s->substituted;
}

/* A batch with a bad sample stays where it is, so that the next call meets the same error. */
static capl_status next_on_host(capl_loader *l, capl_batch *batch)
{
  l->released = l->delivered;
  pthread_cond_broadcast(&l->work);
  if (l->delivered >= l->n_batches) return CAPL_OK;
  const slot *s = loader_slot(l, l->delivered);
  loader_wait(l, s, l->delivered);
  CAPL_TRY(loader_check(l, s));
  loader_hand_out(l, s, batch);
  return CAPL_OK;
}

static capl_status next_locked(capl_loader *l, capl_batch *batch)
{
  if (!l->began) return CAPL_FAIL(CAPL_ESTATE, "no epoch has been begun; call capl_loader_epoch first");
  capl_status status = l->feed ? feed_next(l, batch) : next_on_host(l, batch);
  double now = clock_now();
  bool ends = status == CAPL_OK && batch->count == 0 && !l->ended;
  if (batch->count > 0 || ends) l->stats.seconds += now - l->last_call; /* the last batch's step is part of the epoch */
  l->ended = l->ended || ends;
  l->last_call = now;
  return status;
}

capl_status capl_loader_next(capl_loader *l, capl_batch *batch)
{
  *batch = (capl_batch){0};
  pthread_mutex_lock(&l->lock);
  capl_status status = next_locked(l, batch);
  pthread_mutex_unlock(&l->lock);
  return status;
}

/* ---- getters --------------------------------------------------------------------------------- */

capl_source *capl_loader_source(const capl_loader *l)
{
  return l->maker.source;
}

capl_pixel_type capl_loader_type(const capl_loader *l)
{
  return l->maker.conversion.type;
}

void capl_loader_stats_get(capl_loader *l, capl_loader_stats *stats)
{
  pthread_mutex_lock(&l->lock);
  *stats = l->stats;
  stats->bad = bad_list_count(&l->bad, l->bad_until);
  pthread_mutex_unlock(&l->lock);
}
