/* data_bench.c -- images per second of generator, PNG reader, augmentation and loader, beside a memcpy of as many bytes.
**
** Prints a table and never fails on speed. One argument: seconds per row (default 0.5). "a core" is per second of
** processor time, which a busy machine distorts less than wall time.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capl/data.h"

enum { W = 160, H = 60, AREA = W * H, BATCH = 64, N_FILES = 200 };

static double budget = 0.5; /* seconds per row */
static double floor_rate;   /* memcpy of one f32 image, per second */
static char folder[] = "/tmp/capl-data-bench-XXXXXX";

static const capl_augment_options augment = {
  .rotate = {-10, 10}, .scale = {0.9f, 1.1f}, .translate_x = {-0.05f, 0.05f}, .contrast = {0.8f, 1.2f}, .brightness = {0.8f, 1.2f},
};

static double now(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(capl_status status)
{
  if (status == CAPL_OK) return;
  fprintf(stderr, "data_bench: %s\n", capl_error_last()->message);
  exit(1);
}

typedef struct {
  double wall, core; /* per second of wall time, of processor time */
} rates;

/* Calls once(context) until the budget is used up; it returns how many items it did. */
static rates measure(int (*once)(void *context), void *context)
{
  once(context);
  double wall = now(CLOCK_MONOTONIC), core = now(CLOCK_PROCESS_CPUTIME_ID);
  double used = 0;
  long done = 0;
  while (used < budget) {
    for (int i = 0; i < 8; i++) done += once(context);
    used = now(CLOCK_MONOTONIC) - wall;
  }
  return (rates){(double)done / used, (double)done / (now(CLOCK_PROCESS_CPUTIME_ID) - core)};
}

static void row(const char *name, rates r)
{
  printf("%-52s %9.0f images/s  %9.0f a core  %7.1f x memcpy's time\n", name, r.wall, r.core, floor_rate / r.core);
  fflush(stdout);
}

static int copy_image(void *context)
{
  static float to[BATCH][AREA];
  static int i;
  i = (i + 1) % BATCH;
  memcpy(to[i], context, sizeof to[i]);
  __asm__ volatile("" ::"r"(to[i]) : "memory");
  return 1;
}

typedef struct {
  capl_captcha *gen;
  int channels;
  uint64_t index;
  uint8_t pixels[3 * AREA];
} drawing;

static int draw(void *context)
{
  drawing *d = context;
  int32_t labels[CAPL_LABEL_MAX];
  must(capl_captcha_draw(d->gen, 1, d->index++, d->channels, d->pixels, labels));
  return 1;
}

typedef struct {
  capl_source *source;
  uint32_t id;
  uint8_t pixels[3 * AREA];
} reading;

static int read_file(void *context)
{
  reading *r = context;
  must(capl_source_read(r->source, 0, r->id++ % N_FILES, &(capl_sample){.pixels = r->pixels}));
  return 1;
}

static int next_batch(void *context)
{
  capl_batch batch;
  must(capl_loader_next(context, &batch));
  if (batch.count == 0) {
    must(capl_loader_epoch(context, 1));
    must(capl_loader_next(context, &batch));
  }
  return batch.count;
}

static void loader_rows(const char *name, capl_source *source)
{
  for (int augmented = 0; augmented < 2; augmented++) {
    for (int workers = 1; workers <= 2; workers++) {
      capl_loader_options options = {.batch = BATCH, .workers = workers, .prefetch = 4, .shuffle = true,
                                     .augment = augmented ? &augment : NULL};
      capl_loader *loader;
      char title[80];
      must(capl_loader_new(source, &options, &loader));
      must(capl_loader_epoch(loader, 1));
      snprintf(title, sizeof title, "%s, %d thread%s%s", name, workers, workers > 1 ? "s" : "", augmented ? ", augmented" : "");
      row(title, measure(next_batch, loader));
      capl_loader_free(loader);
    }
  }
  capl_source_unref(source);
}

static void remove_files(capl_source *source)
{
  char path[512];
  for (uint32_t i = 0; i < capl_source_count(source); i++) {
    snprintf(path, sizeof path, "%s/%s", folder, capl_source_name(source, i));
    unlink(path);
  }
  rmdir(folder);
}

int main(int argc, char **argv)
{
  if (argc > 1) budget = atof(argv[1]);
  static float image[AREA];
  static drawing d;
  static reading r;
  capl_source *generated;
  rates copied = measure(copy_image, image);
  floor_rate = copied.core;
  row("memcpy of one f32 image", copied);
  must(capl_captcha_new("lepture", NULL, &d.gen));
  d.channels = 1;
  row("generator, gray", measure(draw, &d));
  d.channels = 3;
  row("generator, RGB", measure(draw, &d));
  if (!mkdtemp(folder)) return 1;
  must(capl_captcha_save(d.gen, 1, N_FILES, folder, 1));
  must(capl_source_folder_new(folder, NULL, &r.source));
  row("PNG file to gray", measure(read_file, &r));
  must(capl_source_captcha_new(d.gen, 1, 1, 0, false, &generated));
  loader_rows("loader, generator, standardised f32", generated);
  loader_rows("loader, folder, standardised f32", capl_source_ref(r.source));
  remove_files(r.source);
  capl_source_unref(r.source);
  capl_captcha_unref(d.gen);
  return 0;
}
