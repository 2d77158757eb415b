/* captcha_save.c -- writes generated captchas as a folder of PNG files named TEXT_INDEX.png.
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

#include "base/text.h"
#include "base/thread.h"
#include "capl/data.h"

enum { THREADS_MAX = 256 };

typedef struct {
  const capl_captcha *gen;
  uint64_t seed;
  uint32_t n;
  int digits; /* of the largest index */
  const char *dir;
  atomic_uint next;
  pthread_mutex_t lock; /* of the two below */
  capl_status status;   /* the first failure; the others stop */
  capl_error error;
} job;

static capl_status save_one(const job *j, uint32_t index, uint8_t *pixels)
{
  int32_t labels[CAPL_LABEL_MAX];
  char text[CAPL_LABEL_MAX + 1], path[4096];
  CAPL_TRY(capl_captcha_draw(j->gen, j->seed, index, 3, pixels, labels));
  capl_captcha_text(j->gen, labels, text);
  int length = snprintf(path, sizeof path, "%s/%s_%0*u.png", j->dir, text, j->digits, index);
  if (length >= (int)sizeof path) return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", j->dir);
  return capl_png_write(path, pixels, capl_captcha_width(j->gen), capl_captcha_height(j->gen), 3);
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
  uint8_t *pixels = malloc((size_t)capl_captcha_width(j->gen) * (size_t)capl_captcha_height(j->gen) * 3);
  capl_status status = pixels ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to save captchas");
  while (status == CAPL_OK) {
    uint32_t index = atomic_fetch_add(&j->next, 1);
    if (index >= j->n) break;
    status = save_one(j, index, pixels);
  }
  free(pixels);
  if (status != CAPL_OK) record_failure(j, status);
  return NULL;
}

static capl_status make_folder(const char *dir)
{
  if (mkdir(dir, 0777) == 0 || errno == EEXIST) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "%s: cannot be made: %s", dir, capl_errno_text(errno));
}

static capl_status check(const capl_captcha *gen, uint32_t n, int threads)
{
  const char *charset = capl_captcha_charset(gen), *unfit = strpbrk(charset, "/_.");
  if (unfit) return CAPL_FAIL(CAPL_EVALUE, "charset %s holds '%c', which a file name cannot carry in its label", charset, *unfit);
  if (n > INT32_MAX) return CAPL_FAIL(CAPL_EVALUE, "cannot save %u images; at most %d", n, INT32_MAX);
  if (threads >= 0 && threads <= THREADS_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "threads is %d; it must be 0..%d", threads, THREADS_MAX);
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

capl_status capl_captcha_save(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir, int threads)
{
  CAPL_TRY(check(gen, n, threads));
  CAPL_TRY(make_folder(dir));
  job j = {.gen = gen, .seed = seed, .n = n, .dir = dir, .digits = snprintf(NULL, 0, "%u", n ? n - 1 : 0)};
  pthread_mutex_init(&j.lock, NULL);
  run(&j, threads);
  pthread_mutex_destroy(&j.lock);
  if (j.status != CAPL_OK) capl_error_restore(&j.error);
  return j.status;
}
