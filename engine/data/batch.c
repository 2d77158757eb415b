/* batch.c -- makes one row of a batch.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "data/augment_rows.h"

enum { SUBSTITUTES = 16 };

static size_t pixels_of(const capl_source *source)
{
  return (size_t)source->width * (size_t)source->height;
}

static capl_status init_fields(void *field[CAPL_FIELDS_MAX], const capl_source *source)
{
  for (int i = 0; i < source->n_fields; i++) {
    size_t bytes = capl_field_bytes(&source->field[i]);
    field[i] = malloc(bytes);
    if (!field[i]) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %s of %zu bytes", source->field[i].name, bytes);
  }
  return CAPL_OK;
}

static capl_status init_partner(capl_sample *partner, const capl_source *source)
{
  partner->pixels = malloc(pixels_of(source) * (size_t)source->channels);
  partner->labels = malloc(CAPL_LABEL_MAX * sizeof *partner->labels);
  if (!partner->pixels || !partner->labels) return CAPL_FAIL(CAPL_ENOMEM, "no memory to mix images");
  return init_fields(partner->field, source);
}

capl_status row_scratch_init(row_scratch *scratch, const capl_source *source, bool mixes)
{
  size_t bytes = pixels_of(source) * (size_t)source->channels;
  *scratch = (row_scratch){0};
  CAPL_TRY(init_fields(scratch->field, source));
  if (bytes == 0) return CAPL_OK;
  scratch->levels = malloc(bytes);
  if (!scratch->levels) return CAPL_FAIL(CAPL_ENOMEM, "no memory for images of %zu bytes", bytes);
  if (mixes) CAPL_TRY(init_partner(&scratch->partner, source));
  return capl_augment_scratch_init(&scratch->augment, source->height, source->width, source->channels);
}

void row_scratch_fini(row_scratch *scratch)
{
  capl_image_fini(&scratch->decoded);
  free(scratch->levels);
  free(scratch->partner.pixels);
  free(scratch->partner.labels);
  for (int i = 0; i < CAPL_FIELDS_MAX; i++) free(scratch->field[i]), free(scratch->partner.field[i]);
  capl_augment_scratch_fini(&scratch->augment);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Sample number `at` of a list. */
static uint32_t listed(const row_maker *maker, int list, uint32_t at)
{
  return maker->lists->n ? maker->lists->id[maker->lists->first[list] + at] : at;
}

static uint32_t length_of_list(const row_maker *maker, int list)
{
  return maker->lists->n ? maker->lists->first[list + 1] - maker->lists->first[list] : maker->source->count;
}

/* Each list has an order of its own. */
static uint64_t key_of(const row_maker *maker, int list)
{
  return maker->seed ^ (uint64_t)list * 0x9e3779b97f4a7c15u;
}

static uint32_t sample_at(const row_maker *maker, uint32_t epoch, int list, uint32_t position)
{
  if (!maker->shuffle) return listed(maker, list, position);
  return listed(maker, list, capl_shuffle(key_of(maker, list), epoch, length_of_list(maker, list), position));
}

/* A row in the making. */
typedef struct {
  const row_maker *maker;
  row_scratch *scratch;
  const row_stage *stage;
  uint64_t batch;
  uint32_t epoch;
  int list, width;  /* of the batch */
  capl_sample room; /* where a sample is read to */
  capl_sample read; /* where it lies: there, or in memory that nobody writes */
} row_job;

static size_t job_pixels(const row_job *job)
{
  return (size_t)job->width * (size_t)job->maker->source->height;
}

/* A sample that lies in memory already is used where it is, unless a device takes it from here. */
static capl_status fetch(row_job *job, const capl_read *what)
{
  const row_maker *maker = job->maker;
  capl_source *source = maker->source;
  bool lent = false;
  job->read = job->room;
  if (source->ops->borrow) CAPL_TRY(source->ops->borrow(source, what, &job->scratch->decoded, &job->read, &lent));
  if (!lent) {
    job->read = job->room;
    return capl_source_read_with(source, what, &job->scratch->decoded, &job->read);
  }
  if (maker->kind != ROW_LEVELS) return CAPL_OK;
  memcpy(job->room.pixels, job->read.pixels, job_pixels(job) * (size_t)source->channels);
  job->read.pixels = job->room.pixels;
  return CAPL_OK;
}

static const capl_difficulty *difficulty_of(const row_stage *stage)
{
  return stage->eases ? &stage->difficulty : NULL;
}

static capl_status read_levels(row_job *job, uint32_t id)
{
  const row_maker *maker = job->maker;
  capl_read what = {.epoch = job->epoch, .id = id, .difficulty = difficulty_of(job->stage)};
  capl_status status = fetch(job, &what);
  if (status != CAPL_OK || maker->kind != ROW_RESIDENT) return status;
  const char *name = capl_source_name(maker->source, id);
  return CAPL_FAIL(CAPL_EIO, "%s: could not be read when the set was made, and now can", name ? name : "sample");
}

/* Levels that are on the device already are not read; those that could not be are, for the error. */
static capl_status read_sample(row_job *job, uint32_t id)
{
  const row_maker *maker = job->maker;
  if (maker->kind == ROW_RESIDENT && !maker->set->facts[id].bad) return CAPL_OK;
  capl_status status = read_levels(job, id);
  if (status == CAPL_OK) return CAPL_OK;
  maker->on_bad(maker->context, job->batch, id);
  capl_error_context("sample %u, epoch %u", id, job->epoch);
  if (!maker->skip && capl_source_name(maker->source, id))
    capl_error_hint("on_error = \"skip\" of the loader takes other files in place of bad ones");
  return status;
}

/* Stand-ins are drawn from another permutation, so that neighbouring bad samples do not get the same one. */
static uint32_t substitute(const row_job *job, uint32_t position, uint32_t attempt)
{
  const row_maker *maker = job->maker;
  uint32_t n = length_of_list(maker, job->list);
  uint32_t at = (uint32_t)(((uint64_t)position + attempt) % n);
  return listed(maker, job->list, capl_shuffle(~key_of(maker, job->list), job->epoch, n, at));
}

static capl_status read_or_replace(row_job *job, uint32_t position, row_note *note)
{
  const row_maker *maker = job->maker;
  note->id = sample_at(maker, job->epoch, job->list, position);
  note->substituted = false;
  capl_status status = read_sample(job, note->id);
  if (!maker->skip) return status;
  for (uint32_t attempt = 1; status != CAPL_OK && attempt <= SUBSTITUTES; attempt++) {
    note->id = substitute(job, position, attempt);
    note->substituted = true;
    status = read_sample(job, note->id);
  }
  if (status != CAPL_OK)
    capl_error_hint("%d samples in a row were tried in place of a bad one; all are bad", SUBSTITUTES);
  return status;
}

/* ---- images that a device makes -------------------------------------------------------------- */

/* A set serves every option, so all is known of its samples; a batch of a stage needs less. stage: NULL = all. */
static sample_facts facts_of(const row_maker *maker, size_t n_pixels, const row_stage *stage, const uint8_t *levels)
{
  const capl_source *source = maker->source;
  sample_facts facts = {0};
  if (!stage || (stage->augments && capl_augment_needs_mean(&stage->augment)))
    facts.mean = capl_augment_mean(levels, n_pixels, source->channels);
  if (!stage || (!stage->augments && maker->conversion.norm == CAPL_NORM_STANDARDIZE))
    capl_level_sums(levels, n_pixels * (size_t)source->channels, &facts.sum, &facts.squares);
  return facts;
}

/* Draws a sample's random numbers and writes how a device makes its image, which has this number there. alone: it is
** not mixed. */
static capl_augment_draw describe(const row_job *job, uint32_t id, const sample_facts *facts, bool alone,
                                  uint32_t number, const feed_place *place)
{
  const row_maker *maker = job->maker;
  const capl_source *source = maker->source;
  capl_augment_draw d = {.gain = 1, .gamma = 1, .mix = 1};
  if (job->stage->augments)
    d = capl_augment_roll(&job->stage->augment, maker->seed, job->epoch, id, source->height, job->width, facts->mean);
  if (alone) {
    d.mixing = CAPL_MIX_NONE;
    d.mix = 1;
    d.any = d.alone;
  }
  capl_affine to = capl_conversion_affine(&maker->conversion, facts->sum, facts->squares,
                                          job_pixels(job) * (size_t)source->channels);
  feed_row_write(&d, &to, source->height, job->width, number, place);
  return d;
}

/* (H,W,3) -> (H,W,4) */
static void spread(const uint8_t *in, size_t n_pixels, uint8_t *out)
{
  for (size_t i = 0; i < n_pixels; i++) {
    for (int c = 0; c < 3; c++) out[4 * i + (size_t)c] = in[3 * i + (size_t)c];
    out[4 * i + 3] = 0;
  }
}

static void *field_of_set(const row_maker *maker, int i, uint32_t id)
{
  return maker->set->field[i] + id * capl_field_bytes(&maker->source->field[i]);
}

/* A bad sample leaves zeros and a mark: which batch meets it, and what then happens, is the owner's business. */
static capl_status add_to_set(const row_maker *maker, row_scratch *scratch, uint32_t id, const row_place *to,
                              row_note *note)
{
  capl_source *source = maker->source;
  size_t n = pixels_of(source);
  *note = (row_note){.id = id};
  capl_sample sample = {.pixels = scratch->levels, .labels = to->labels ? to->labels : scratch->labels};
  for (int i = 0; i < source->n_fields; i++) sample.field[i] = field_of_set(maker, i, id);
  if (capl_source_read_with(source, &(capl_read){.id = id}, &scratch->decoded, &sample) == CAPL_OK) {
    *to->facts = facts_of(maker, n, NULL, scratch->levels);
  } else {
    *to->facts = (sample_facts){.bad = true};
    memset(scratch->levels, 0, n * (size_t)source->channels);
    for (int t = 0; to->labels && t < source->length; t++) to->labels[t] = -1;
  }
  if (maker->set->pixel_bytes == source->channels) memcpy(to->image, scratch->levels, n * (size_t)source->channels);
  else spread(scratch->levels, n, to->image);
  return CAPL_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Fields were read where they belong unless an augmentation comes between. */
static void finish_fields(const row_job *job, const row_place *to)
{
  const row_maker *maker = job->maker;
  for (int i = 0; i < maker->source->n_fields; i++) {
    if (job->read.field[i] != to->field[i])
      memcpy(to->field[i], job->read.field[i], source_field_bytes(maker->source, i, job->width));
  }
}

/* The sample that this one is mixed with; *found stays false if it is mixed with none, or that one is bad and may be
** left out. */
static capl_status read_partner(const row_job *job, uint32_t id, uint32_t *partner, capl_sample *sample, bool *found)
{
  const row_maker *maker = job->maker;
  capl_augment_case which = {maker->seed, job->epoch, id};
  row_job other = *job;
  other.room = job->scratch->partner;
  *found = false;
  if (!other.room.pixels || !capl_augment_partner(&job->stage->augment, &which, maker->source->count, partner))
    return CAPL_OK;
  capl_status status = read_sample(&other, *partner);
  *found = status == CAPL_OK;
  *sample = other.read;
  return maker->skip ? CAPL_OK : status;
}

static void finish_labels(const row_job *job, const int32_t *labels2, float mix, const row_place *to)
{
  size_t bytes = (size_t)job->maker->source->length * sizeof *labels2;
  if (to->mix) *to->mix = mix;
  if (to->labels2 && bytes) memcpy(to->labels2, labels2, bytes);
}

static int32_t length_of(const int32_t *labels, int most)
{
  int32_t n = 0;
  while (labels && n < most && labels[n] >= 0) n++;
  return n;
}

static capl_status augment_row(const row_job *job, const row_place *to, row_note *note)
{
  const row_maker *maker = job->maker;
  const capl_source *source = maker->source;
  capl_sample out = {.pixels = to->image}, partner;
  capl_augment_layout layout = {job->width, source->height, source->channels, source->n_fields, source->field};
  capl_augment_case which = {maker->seed, job->epoch, note->id};
  uint32_t partner_id = 0;
  bool found;
  CAPL_TRY(read_partner(job, note->id, &partner_id, &partner, &found));
  memcpy(out.field, to->field, sizeof out.field);
  capl_augment_scratch_width(&job->scratch->augment, job->width);
  capl_augment_result result = capl_augment_sample(&job->stage->augment, &which, &layout, &job->read,
                                                   found ? &partner : NULL, partner_id, &maker->conversion,
                                                   &job->scratch->augment, &out);
  note->augmented = result.changed;
  finish_labels(job, found ? partner.labels : job->read.labels, result.mix, to);
  return CAPL_OK;
}

static capl_status finish_row(const row_job *job, const row_place *to, row_note *note)
{
  const row_maker *maker = job->maker;
  const capl_source *source = maker->source;
  if (source->width > 0 && job->stage->augments) return augment_row(job, to, note);
  if (source->width > 0)
    capl_convert(&maker->conversion, job->read.pixels, job_pixels(job), source->channels, to->image);
  finish_fields(job, to);
  finish_labels(job, job->read.labels, 1, to);
  return CAPL_OK;
}

static capl_sample room_for(const row_maker *maker, row_scratch *scratch, const row_place *to)
{
  capl_sample room = {.pixels = maker->kind == ROW_LEVELS ? to->image : scratch->levels,
                      .labels = to->labels ? to->labels : scratch->labels};
  for (int i = 0; i < maker->source->n_fields; i++)
    room.field[i] = to->stage->augments ? scratch->field[i] : to->field[i];
  return room;
}

/* A sample that is on the device: what of it the host has too. */
static capl_sample resident_sample(const row_maker *maker, uint32_t id)
{
  const resident_set *set = maker->set;
  capl_sample sample = {.labels = set->host_labels ? set->host_labels + (size_t)id * (size_t)maker->source->length
                        : NULL};
  for (int i = 0; i < maker->source->n_fields; i++) sample.field[i] = field_of_set(maker, i, id);
  return sample;
}

/* The partner's row, and its levels if they must travel. */
static capl_augment_draw describe_partner(const row_job *job, const row_place *to, uint32_t id,
                                          const capl_sample *partner)
{
  const row_maker *maker = job->maker;
  if (maker->kind == ROW_RESIDENT) return describe(job, id, &maker->set->facts[id], true, id, &to->partner);
  sample_facts facts = facts_of(maker, job_pixels(job), job->stage, partner->pixels);
  memcpy(to->partner.image, partner->pixels, maker->image_bytes);
  return describe(job, id, &facts, true, to->partner.number, &to->partner);
}

/* A device makes the image; the rest of the sample is the host's. */
static capl_status describe_row(row_job *job, const row_place *to, row_note *note)
{
  const row_maker *maker = job->maker;
  const capl_source *source = maker->source;
  bool resident = maker->kind == ROW_RESIDENT, found = false;
  uint32_t partner_id = 0;
  capl_augment_draw other = {0};
  capl_augment_layout layout = {job->width, source->height, source->channels, source->n_fields, source->field};
  capl_sample out = {0}, partner = {0};
  if (resident) job->read = resident_sample(maker, note->id);
  sample_facts facts = resident ? maker->set->facts[note->id]
      : facts_of(maker, job_pixels(job), job->stage, job->read.pixels);
  if (job->stage->augments) CAPL_TRY(read_partner(job, note->id, &partner_id, &partner, &found));
  if (found && resident) partner = resident_sample(maker, partner_id);
  capl_augment_draw d = describe(job, note->id, &facts, !found, resident ? note->id : to->feed.number, &to->feed);
  if (found) other = describe_partner(job, to, partner_id, &partner);
  else if (to->partner.more) *to->partner.more = (capl_feed_more){0};
  memcpy(out.field, to->field, sizeof out.field);
  if (d.any)
    augment_fields(&job->stage->augment, &layout, &d, &job->read, &other, found ? &partner : NULL,
                   &job->scratch->augment, &out);
  else finish_fields(job, to);
  finish_labels(job, found ? partner.labels : job->read.labels, d.mix, to);
  note->augmented = d.any;
  return CAPL_OK;
}

capl_status row_make(const row_maker *maker, row_scratch *scratch, uint32_t epoch, uint32_t position,
                     const row_place *to, row_note *note)
{
  if (maker->kind == ROW_OF_SET) return add_to_set(maker, scratch, position, to, note);
  int width = maker->lists->n ? maker->source->widths[to->list] : maker->source->width;
  row_job job = {maker, scratch, to->stage, to->batch, epoch, to->list, width, .room = room_for(maker, scratch, to)};
  job.read = job.room;
  CAPL_TRY(read_or_replace(&job, position, note));
  note->augmented = false;
  double since = scratch->timed ? clock_now() : 0;
  capl_status status = maker->kind == ROW_FINISHED ? finish_row(&job, to, note) : describe_row(&job, to, note);
  if (maker->lists->n)
    note->used = maker->plain->ops->used(maker->plain,
                                         &(capl_read){.epoch = epoch, .id = note->id,
                                                      .difficulty = difficulty_of(to->stage)});
  note->length = length_of(job.read.labels, maker->source->length);
  scratch->augment_seconds = scratch->timed && to->stage->augments ? clock_now() - since : 0;
  return status;
}
