/* data_bench.c -- how fast images are made, read, augmented and handed over; one case per run, one line of JSON.
**
** usage: data_bench generate [gray]         captchas of 160x60 px, RGB unless gray, one thread
**        data_bench augment VARIANT         32 images of 512x512x3 u8 -> f32, beside memcpy of the same bytes;
**                                           VARIANT: plain, noise, mask, perspective, or none: the loader alone
**        data_bench small                   augmented batches of 512 gray images of 160x60 px
**        data_bench write DIR N             N captchas as PNG files
**        data_bench folder DIR [augment]    gray batches of 64 from PNG files
**        data_bench cached DIR [augment]    the same from memory, once all are decoded
** Loaders have THREADS threads (environment; 2). CAPL_ASSUME=isa=… chooses kernels. Each time is the median of
** several turns. step_ms: ms per step of `images` images, of processor time for generate, else of wall time; core_ms:
** processor time. memcpy_ms: what moving as many bytes (half read, half written) takes as many threads, in turn with
** the steps; likewise memcpy_core_ms.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "capl/synth.h"
#include "data/source.h"

enum { TURNS = 7, THREADS_MOST = 64 };

static int threads = 2;

/* ---- measuring --------------------------------------------------------------------------------- */

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

static void *must_have(void *memory)
{
  if (memory) return memory;
  fprintf(stderr, "data_bench: out of memory\n");
  exit(1);
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *values, int n)
{
  qsort(values, (size_t)n, sizeof *values, by_size);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Milliseconds per step, turn by turn. */
typedef struct {
  double wall[TURNS], core[TURNS];
} timing;

/* One turn of `times` steps, which step does itself. */
static void time_turn(timing *t, int turn, int times, void (*step)(void *context, int times), void *context)
{
  double wall = now(CLOCK_MONOTONIC), core = now(CLOCK_PROCESS_CPUTIME_ID);
  step(context, times);
  t->wall[turn] = 1e3 * (now(CLOCK_MONOTONIC) - wall) / times;
  t->core[turn] = 1e3 * (now(CLOCK_PROCESS_CPUTIME_ID) - core) / times;
}

/* copies: NULL = none. */
static void print_result(const char *name, int images, timing *steps, timing *copies)
{
  double step_ms = median(steps->wall, TURNS), core_ms = median(steps->core, TURNS);
  struct rusage usage;
  const char *assumed = getenv("CAPL_ASSUME");
  getrusage(RUSAGE_SELF, &usage);
  printf("{\"case\": \"%s\", \"assume\": \"%s\", \"threads\": %d, \"step_ms\": %.6g, \"core_ms\": %.6g, \"images\": "
         "%d, "
         "\"images_per_s\": %.6g, ", name, assumed ? assumed : "", threads, step_ms, core_ms, images,
             1e3 * images / step_ms);
  if (copies)
    printf("\"memcpy_ms\": %.6g, \"memcpy_core_ms\": %.6g, ", median(copies->wall, TURNS), median(copies->core, TURNS));
  printf("\"peak_rss_bytes\": %ld}\n", 1024L * usage.ru_maxrss);
}

/* ---- memcpy by as many threads ------------------------------------------------------------------ */

typedef struct {
  size_t bytes; /* that a step moves: half of them are read, half written */
  char *from, *to;
} copying;

static copying copying_of(size_t bytes)
{
  copying c = {bytes, must_have(malloc(bytes / 2)), must_have(malloc(bytes / 2))};
  memset(c.from, 1, bytes / 2);
  memset(c.to, 1, bytes / 2);
  return c;
}

typedef struct {
  const copying *c;
  int part, times;
} copying_part;

static void *copy_part(void *context)
{
  copying_part *p = context;
  size_t each = p->c->bytes / 2 / (size_t)threads, at = each * (size_t)p->part;
  for (int i = 0; i < p->times; i++) {
    memcpy(p->c->to + at, p->c->from + at, each);
    __asm__ volatile("" ::"r"(p->c->to) : "memory");
  }
  return NULL;
}

static void copy(void *context, int times)
{
  pthread_t thread[THREADS_MOST];
  copying_part part[THREADS_MOST];
  for (int k = 0; k < threads; k++) {
    part[k] = (copying_part){context, k, times};
    if (k > 0 && pthread_create(&thread[k], NULL, copy_part, &part[k]) != 0) must_have(NULL);
  }
  copy_part(&part[0]);
  for (int k = 1; k < threads; k++) pthread_join(thread[k], NULL);
}

/* ---- a source in memory ------------------------------------------------------------------------- */

typedef struct {
  capl_source base;
  uint8_t *levels, *mask; /* of all samples; mask may be NULL */
} memory_source;

static capl_status memory_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  (void)scratch;
  const memory_source *s = (memory_source *)source;
  size_t area = (size_t)source->width * (size_t)source->height, bytes = area * (size_t)source->channels;
  memcpy(to->pixels, s->levels + what->id * bytes, bytes);
  if (s->mask && to->field[0]) memcpy(to->field[0], s->mask + what->id * area, area);
  return CAPL_OK;
}

static void memory_close(capl_source *source)
{
  memory_source *s = (memory_source *)source;
  free(s->levels);
  free(s->mask);
  free(s);
}

/* Smooth enough to be like photographs, and not the same in two places. */
static void paint_levels(uint8_t *levels, size_t n)
{
  uint32_t state = 1;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    levels[i] = (uint8_t)((i >> 3) + (i >> 9) + (state >> 29));
  }
}

static capl_source *memory_source_new(uint32_t count, int height, int width, int channels, bool with_mask)
{
  static const capl_source_ops ops = {.read = memory_read, .close = memory_close};
  memory_source *s = must_have(calloc(1, sizeof *s));
  size_t area = (size_t)width * (size_t)height, n = count * area;
  s->base = (capl_source){.ops = &ops, .refs = 1, .count = count, .width = width, .height = height,
                          .channels = channels, .fixed = true};
  s->levels = must_have(malloc(n * (size_t)channels));
  paint_levels(s->levels, n * (size_t)channels);
  if (!with_mask) return &s->base;
  s->base.n_fields = 1;
  s->base.field[0] = (capl_field){.name = "mask", .kind = CAPL_FIELD_MASK, .ndim = 2, .size = {height, width}};
  s->mask = must_have(malloc(n));
  for (size_t i = 0; i < n; i++) s->mask[i] = (uint8_t)(i >> 6) % 19;
  return &s->base;
}

/* ---- loaders ------------------------------------------------------------------------------------ */

static uint64_t epochs;

static void next_batches(void *context, int times)
{
  for (int i = 0; i < times; i++) {
    capl_batch batch;
    must(capl_loader_next(context, &batch));
    if (batch.count > 0) continue;
    must(capl_loader_epoch(context, ++epochs));
    i--;
  }
}

static capl_loader *open_loader(capl_source *source, capl_loader_options options)
{
  capl_loader *loader;
  options.workers = threads;
  options.prefetch = 2;
  options.shuffle = options.drop_last = true;
  must(capl_loader_new(source, &options, &loader));
  capl_source_unref(source);
  must(capl_loader_epoch(loader, ++epochs));
  next_batches(loader, 4);
  return loader;
}

/* Times a loader's batches, beside memcpy of bytes unless they are 0, and prints it. */
static void measure_loader(const char *name, capl_loader *loader, int batch, int times, size_t bytes)
{
  timing steps, copies;
  copying c = bytes ? copying_of(bytes) : (copying){0};
  for (int turn = 0; turn < TURNS; turn++) {
    if (bytes) time_turn(&copies, turn, times, copy, &c);
    next_batches(loader, 4); /* what was made ahead while bytes were copied is no measure */
    time_turn(&steps, turn, times, next_batches, loader);
  }
  capl_loader_free(loader);
  free(c.from);
  free(c.to);
  print_result(name, batch, &steps, bytes ? &copies : NULL);
}

static capl_augment_options usual_augmentation(void)
{
  return (capl_augment_options){.rotate = {-15, 15}, .brightness = {0.8f, 1.2f}, .contrast = {0.8f, 1.2f}};
}

/* ---- cases -------------------------------------------------------------------------------------- */

static bool is_variant(const char *name)
{
  static const char *const names[] = {"none", "plain", "noise", "mask", "perspective"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

static void augment(const char *variant)
{
  enum { N = 32, SIDE = 512, C = 3 };
  capl_augment_options a = usual_augmentation();
  bool mask = strcmp(variant, "mask") == 0;
  size_t levels = (size_t)N * SIDE * SIDE * C;
  a.flip = 0.5f;
  a.class_swaps.declared = true; /* none */
  if (strcmp(variant, "noise") == 0) a.noise = (capl_range){5, 10};
  if (strcmp(variant, "perspective") == 0) a.rotate = (capl_range){0, 0}, a.perspective = (capl_range){0.05f, 0.2f};
  capl_source *source = memory_source_new(2 * N, SIDE, SIDE, C, mask);
  capl_loader *loader = open_loader(source, (capl_loader_options){
    .batch = N, .norm = CAPL_NORM_MEAN_STD, .mean = {0.5f, 0.4f, 0.3f}, .std = {0.2f, 0.2f, 0.2f},
    .augment = strcmp(variant, "none") == 0 ? NULL : &a});
  char name[64];
  snprintf(name, sizeof name, "augment %s", variant);
  measure_loader(name, loader, N, 8, levels + levels * sizeof(float) + (mask ? 2 * levels / C : 0));
}

static void small(void)
{
  enum { N = 512 };
  capl_augment_options a = usual_augmentation();
  capl_source *source = memory_source_new(8 * N, 60, 160, 1, false);
  capl_loader_options options = {.batch = N, .norm = CAPL_NORM_UNIT, .augment = &a};
  measure_loader("small", open_loader(source, options), N, 100, 0);
}

typedef struct {
  capl_captcha *gen;
  int channels;
  uint64_t index;
  uint8_t *pixels;
} drawing;

static void draw(void *context, int times)
{
  drawing *d = context;
  int32_t labels[CAPL_LABEL_MAX];
  for (int i = 0; i < 64 * times; i++) must(capl_captcha_draw(d->gen, 1, d->index++, d->channels, d->pixels, labels));
}

static void generate(bool gray)
{
  drawing d = {.channels = gray ? 1 : 3};
  timing t;
  threads = 1;
  must(capl_captcha_new("lepture", NULL, &d.gen));
  d.pixels = must_have(malloc((size_t)(3 * capl_captcha_width(d.gen) * capl_captcha_height(d.gen))));
  draw(&d, 4);
  for (int turn = 0; turn < TURNS; turn++) time_turn(&t, turn, 20, draw, &d);
  free(d.pixels);
  capl_captcha_unref(d.gen);
  memcpy(t.wall, t.core, sizeof t.wall);
  print_result(gray ? "generate gray" : "generate", 64, &t, NULL);
}

static void write_files(const char *folder, uint32_t n)
{
  capl_captcha *gen;
  must(capl_captcha_new("lepture", NULL, &gen));
  must(capl_captcha_save(gen, 1, n, folder, threads, NULL));
  capl_captcha_unref(gen);
}

static void folder(const char *path, bool augmented, bool cached)
{
  capl_augment_options a = usual_augmentation();
  capl_source *source;
  char name[64];
  must(capl_source_folder_new(path, NULL, &source));
  capl_loader_options options = {.batch = 64, .augment = augmented ? &a : NULL,
                                 .cache = cached ? CAPL_CACHE_RAM : CAPL_CACHE_NONE};
  capl_loader *loader = open_loader(source, options);
  if (cached) next_batches(loader, (int)capl_loader_batches(loader)); /* into the second epoch */
  snprintf(name, sizeof name, "%s%s", cached ? "cached" : "folder", augmented ? " augment" : "");
  measure_loader(name, loader, 64, cached ? 400 : 20, 0);
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "", *first = argc > 2 ? argv[2] : "", *second = argc > 3 ? argv[3] : "";
  if (getenv("THREADS")) threads = atoi(getenv("THREADS"));
  if (threads < 1 || threads > THREADS_MOST) threads = 2;
  if (strcmp(what, "generate") == 0) return generate(strcmp(first, "gray") == 0), 0;
  if (strcmp(what, "augment") == 0 && is_variant(first)) return augment(first), 0;
  if (strcmp(what, "small") == 0) return small(), 0;
  if (strcmp(what, "write") == 0) return write_files(first, (uint32_t)atoi(second)), 0;
  if (strcmp(what, "folder") == 0) return folder(first, strcmp(second, "augment") == 0, false), 0;
  if (strcmp(what, "cached") == 0) return folder(first, strcmp(second, "augment") == 0, true), 0;
  fprintf(stderr, "data_bench: no case '%s'; the head of bench/data_bench.c lists them\n", what);
  return 2;
}
