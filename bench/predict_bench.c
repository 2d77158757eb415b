/* predict_bench.c -- milliseconds from pixels in memory to texts with a model file, by the C interface.
**
** usage: predict_bench MODEL.capl fp32|bf16 BATCH SECONDS [plain]
** Gray or RGB pixels of the model's size at random; CAPL_THREADS says with how many threads. plain: the graph as it was
** written, nothing fused. step_ms: the median of all calls of capl_model_run after the first ones. One line of JSON.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "capl/model.h"

enum { CALLS_MAX = 1 << 20, WARM_UP = 5 };

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(capl_status status)
{
  if (status == CAPL_OK) return;
  fprintf(stderr, "predict_bench: %s\n", capl_error_last()->message);
  exit(1);
}

static void *must_have(void *memory)
{
  if (memory) return memory;
  fprintf(stderr, "predict_bench: out of memory\n");
  exit(1);
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* n images of the model's size, dark strokes on light ground, so that no layer sees zeros only. */
static capl_model_sample *make_samples(const capl_model_info *info, int n)
{
  size_t each = (size_t)info->width * (size_t)info->height * (size_t)info->channels;
  uint8_t *pixels = must_have(malloc(each * (size_t)n));
  capl_model_sample *samples = must_have(calloc((size_t)n, sizeof *samples));
  srand(1);
  for (size_t i = 0; i < each * (size_t)n; i++) pixels[i] = (uint8_t)(rand() % 256);
  for (int i = 0; i < n; i++)
    samples[i] = (capl_model_sample){.pixels = pixels + each * (size_t)i, .width = info->width,
                                     .height = info->height, .channels = info->channels};
  return samples;
}

static double run(capl_model *model, const capl_model_sample *samples, int n, capl_reading *readings)
{
  double since = now();
  must(capl_model_run(model, samples, n, readings));
  double seconds = now() - since;
  for (int i = 0; i < n; i++) must(readings[i].status);
  capl_readings_free(readings, n);
  return seconds;
}

int main(int argc, char **argv)
{
  if (argc < 5) return fputs("usage: predict_bench MODEL.capl fp32|bf16 BATCH SECONDS [plain]\n", stderr), 2;
  int batch = atoi(argv[3]), calls = 0;
  double limit = atof(argv[4]), *taken = must_have(malloc(CALLS_MAX * sizeof *taken)), since;
  capl_model *model;
  capl_model_info info;
  must(capl_model_open(argv[1], &(capl_model_options){.precision = argv[2], .plain = argc > 5}, &model));
  capl_model_info_get(model, &info);
  capl_model_sample *samples = make_samples(&info, batch);
  capl_reading *readings = must_have(calloc((size_t)batch, sizeof *readings));
  for (int i = 0; i < WARM_UP; i++) run(model, samples, batch, readings);
  for (since = now(); calls < CALLS_MAX && now() - since < limit; calls++)
    taken[calls] = run(model, samples, batch, readings);
  qsort(taken, (size_t)calls, sizeof *taken, by_size);
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  printf("{\"step_ms\": %.4f, \"least_ms\": %.4f, \"images\": %d, \"calls\": %d, \"precision\": \"%s\", "
         "\"peak_rss_bytes\": %ld}\n", 1e3 * taken[calls / 2], 1e3 * taken[0], batch, calls, info.precision,
         1024 * use.ru_maxrss);
  capl_model_close(model);
  return 0;
}
