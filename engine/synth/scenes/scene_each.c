/* scene_each.c -- draws the first samples of a generated source with several threads.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "synth/scenes/scene_each.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"
#include "data/source.h"
#include "capl/data.h"

typedef struct {
  capl_source *source;
  uint32_t n;
  int mask; /* number of the field that is one, -1 = none */
  scene_use *use;
  void *context;
  atomic_uint next;
  pthread_mutex_t lock; /* of the two below */
  capl_status status;   /* the first failure; the others stop */
  capl_error error;
} job;

static capl_status draw_one(const job *j, uint32_t index, capl_image *scratch, uint8_t *pixels, uint8_t *mask)
{
  capl_sample to = {.pixels = pixels};
  if (mask) to.field[j->mask] = mask;
  CAPL_TRY(capl_source_read_with(j->source, &(capl_read){.id = index}, scratch, &to));
  return j->use(j->context, index, pixels, mask);
}

static void record_failure(job *j, capl_status status)
{
  pthread_mutex_lock(&j->lock);
  if (j->status == CAPL_OK) {
    j->status = status;
    j->error = *capl_error_last();
  }
  pthread_mutex_unlock(&j->lock);
  atomic_store(&j->next, j->n);
}

static void *draw_some(void *argument)
{
  job *j = argument;
  size_t area = (size_t)j->source->width * (size_t)j->source->height;
  capl_image scratch = {0};
  uint8_t *pixels = malloc(area * 4), *mask = j->mask >= 0 && pixels ? pixels + 3 * area : NULL;
  capl_status status = pixels ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to draw pictures");
  while (status == CAPL_OK) {
    uint32_t index = atomic_fetch_add(&j->next, 1);
    if (index >= j->n) break;
    status = draw_one(j, index, &scratch, pixels, mask);
  }
  capl_image_fini(&scratch);
  free(pixels);
  if (status != CAPL_OK) record_failure(j, status);
  return NULL;
}

/* Threads that cannot be started are missed by nobody: the calling thread draws too. */
static void run(job *j, int threads)
{
  pthread_t thread[CAPL_WORKERS_MAX];
  int started = 0;
  while (started < threads - 1 && capl_thread_start(&thread[started], "capl-draw", draw_some, j) == CAPL_OK) started++;
  draw_some(j);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

int scene_digits(uint32_t n)
{
  return snprintf(NULL, 0, "%u", n ? n - 1 : 0);
}

capl_status scene_each_check(const capl_source *source, uint32_t n, int threads)
{
  if (source->width == 0) return CAPL_FAIL(CAPL_EVALUE, "this source has no pictures to save");
  if (n > INT32_MAX || n > source->count) return CAPL_FAIL(CAPL_EVALUE, "cannot save %u pictures of %u", n, source->count);
  if (threads >= 0 && threads <= CAPL_WORKERS_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "threads is %d; it must be 0..%d", threads, CAPL_WORKERS_MAX);
}

capl_status scene_each(capl_source *source, uint32_t n, int threads, scene_use *use, void *context)
{
  CAPL_TRY(scene_each_check(source, n, threads));
  job j = {.source = source, .n = n, .mask = -1, .use = use, .context = context};
  for (int k = 0; k < source->n_fields; k++)
    if (source->field[k].kind == CAPL_FIELD_MASK) j.mask = k;
  pthread_mutex_init(&j.lock, NULL);
  run(&j, threads);
  pthread_mutex_destroy(&j.lock);
  if (j.status != CAPL_OK) capl_error_restore(&j.error);
  return j.status;
}
