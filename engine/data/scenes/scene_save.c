/* scene_save.c -- a source's first samples as files: pictures, masks, the rest as lines of JSON.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"
#include "capl/scenes.h"
#include "data/source.h"

enum { THREADS_MAX = 256 };

typedef struct {
  capl_source *source;
  const char *dir;
  uint32_t n;
  int digits; /* of the largest index */
  int mask;   /* number of the field that is one, -1 = none */
  atomic_uint next;
  pthread_mutex_t lock; /* of the two below */
  capl_status status;   /* the first failure; the others stop */
  capl_error error;
} job;

/* ---- pictures -------------------------------------------------------------------------------- */

static capl_status save_plane(const job *j, uint32_t index, const char *ending, const uint8_t *pixels, int channels)
{
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/%0*u%s.png", j->dir, j->digits, index, ending);
  if (length >= (int)sizeof path) return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", j->dir);
  return capl_png_write(path, pixels, j->source->width, j->source->height, channels);
}

static capl_status save_one(const job *j, uint32_t index, capl_image *scratch, uint8_t *pixels, uint8_t *mask)
{
  capl_sample to = {.pixels = pixels};
  if (mask) to.field[j->mask] = mask;
  CAPL_TRY(capl_source_read_with(j->source, &(capl_read){.id = index}, scratch, &to));
  CAPL_TRY(save_plane(j, index, "", pixels, j->source->channels));
  return mask ? save_plane(j, index, "_mask", mask, 1) : CAPL_OK;
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

static void *save_some(void *argument)
{
  job *j = argument;
  size_t area = (size_t)j->source->width * (size_t)j->source->height;
  capl_image scratch = {0};
  uint8_t *pixels = malloc(area * 4), *mask = j->mask >= 0 && pixels ? pixels + 3 * area : NULL;
  capl_status status = pixels ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to save pictures");
  while (status == CAPL_OK) {
    uint32_t index = atomic_fetch_add(&j->next, 1);
    if (index >= j->n) break;
    status = save_one(j, index, &scratch, pixels, mask);
  }
  capl_image_fini(&scratch);
  free(pixels);
  if (status != CAPL_OK) record_failure(j, status);
  return NULL;
}

/* Threads that cannot be started are missed by nobody: the calling thread saves too. */
static void run(job *j, int threads)
{
  pthread_t thread[THREADS_MAX];
  int started = 0;
  while (started < threads - 1 && capl_thread_start(&thread[started], "capl-save", save_some, j) == CAPL_OK) started++;
  save_some(j);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Numbers of a field, in as many brackets as it has dimensions. */
static void write_numbers(FILE *f, const capl_field *field, const float *x)
{
  size_t n = capl_field_count(field), row = (size_t)(field->ndim == 2 ? field->size[1] : 0);
  fputs(row ? "[[" : "[", f);
  for (size_t i = 0; i < n; i++) fprintf(f, "%s%.9g", i == 0 ? "" : row && i % row == 0 ? "], [" : ", ", (double)x[i]);
  fputs(row ? "]]" : "]", f);
}

static capl_status write_lines(const job *j, FILE *f, float *const room[CAPL_FIELDS_MAX])
{
  capl_image scratch = {0};
  capl_status status = CAPL_OK;
  for (uint32_t i = 0; i < j->n && status == CAPL_OK; i++) {
    capl_sample to = {0};
    for (int k = 0; k < CAPL_FIELDS_MAX; k++) to.field[k] = room[k];
    status = capl_source_read_with(j->source, &(capl_read){.id = i}, &scratch, &to);
    fprintf(f, "{\"file\": \"%0*u.png\"", j->digits, i);
    for (int k = 0; k < j->source->n_fields; k++) {
      if (!room[k]) continue;
      fprintf(f, ", \"%s\": ", j->source->field[k].name);
      write_numbers(f, &j->source->field[k], room[k]);
    }
    fputs("}\n", f);
  }
  capl_image_fini(&scratch);
  return status;
}

static capl_status write_file(const job *j, const char *path, float *const room[CAPL_FIELDS_MAX])
{
  char temporary[4200];
  snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid());
  FILE *f = fopen(temporary, "we");
  if (!f) return CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, capl_errno_text(errno));
  capl_status status = write_lines(j, f, room);
  bool failed = ferror(f);
  if ((fclose(f) != 0 || failed || (status == CAPL_OK && rename(temporary, path) != 0)) && status == CAPL_OK)
    status = CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, capl_errno_text(errno));
  if (status != CAPL_OK) unlink(temporary);
  return status;
}

static capl_status save_labels(const job *j)
{
  char path[4096];
  float *room[CAPL_FIELDS_MAX] = {0};
  int n = 0;
  capl_status status = CAPL_OK;
  for (int k = 0; k < j->source->n_fields && status == CAPL_OK; k++) {
    if (j->source->field[k].kind == CAPL_FIELD_MASK) continue;
    room[k] = malloc(capl_field_bytes(&j->source->field[k]));
    if (!room[k]) status = CAPL_FAIL(CAPL_ENOMEM, "no memory to save labels");
    n++;
  }
  if (snprintf(path, sizeof path, "%s/labels.jsonl", j->dir) >= (int)sizeof path) status = CAPL_FAIL(CAPL_EIO, "%s: the path is too long", j->dir);
  if (status == CAPL_OK && n > 0) status = write_file(j, path, room);
  for (int k = 0; k < CAPL_FIELDS_MAX; k++) free(room[k]);
  return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static capl_status check(const capl_source *source, uint32_t n, const char *dir, int threads)
{
  if (source->width == 0) return CAPL_FAIL(CAPL_EVALUE, "this source has no pictures to save");
  if (n > INT32_MAX || n > source->count) return CAPL_FAIL(CAPL_EVALUE, "cannot save %u pictures of %u", n, source->count);
  if (threads < 0 || threads > THREADS_MAX) return CAPL_FAIL(CAPL_EVALUE, "threads is %d; it must be 0..%d", threads, THREADS_MAX);
  if (mkdir(dir, 0777) == 0 || errno == EEXIST) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "%s: cannot be made: %s", dir, capl_errno_text(errno));
}

capl_status capl_scene_save(capl_source *source, uint32_t n, const char *dir, int threads)
{
  CAPL_TRY(check(source, n, dir, threads));
  job j = {.source = source, .n = n, .dir = dir, .mask = -1, .digits = snprintf(NULL, 0, "%u", n ? n - 1 : 0)};
  for (int k = 0; k < source->n_fields; k++)
    if (source->field[k].kind == CAPL_FIELD_MASK) j.mask = k;
  pthread_mutex_init(&j.lock, NULL);
  run(&j, threads);
  pthread_mutex_destroy(&j.lock);
  if (j.status != CAPL_OK) return capl_error_restore(&j.error), j.status;
  return save_labels(&j);
}
