/* conv_choice.c -- measures from which size on Winograd's algorithm beats direct convolution in bf16, one line of JSON
** for each row of the table in engine/backend/cpu (scripts/conv-table).
**
** Each pair of channels is timed at two numbers of pixels, in turn with CAPL_ASSUME=winograd=never and =always; the
** least time of all repetitions counts, so the machine should be quiet. Arguments: repetitions (5); for a part of the
** table an op, conv2d, conv2d_grad_x or conv2d_grad_w, and a number of input channels. CAPL_THREADS sets the threads.
** small_ms and large_ms: direct and Winograd, for so many pixels; tile, fixed: as in conv_winograd_table.c.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "conv_timed.h"

static const int channels[] = {16, 32, 64, 128, 256, 512};
enum { CHANNELS = sizeof channels / sizeof *channels, H = 8, W = 10, SHARE = 64 };

/* Products of the large size: some ten milliseconds of direct convolution on a core. */
static const double LARGE = 1.2e9;

static capl_device *device;

/* Least ms of direct convolution and of Winograd. */
static void measure(capl_op_id op, int C, int O, int64_t images, int repetitions, double best[2])
{
  static const char *const assumed[2] = {"winograd=never", "winograd=always"};
  char attrs[64];
  capl_tensor *x = normal(device, CAPL_BF16, images, C, H, W), *w = normal(device, CAPL_BF16, O, C, 3, 3);
  capl_tensor *dy = normal(device, CAPL_BF16, images, O, H, W);
  capl_tensor *in[2] = {op == CAPL_OP_conv2d_grad_x ? dy : x, op == CAPL_OP_conv2d_grad_w ? dy : w};
  snprintf(attrs, sizeof attrs, "padding=1%s%s", op == CAPL_OP_conv2d_grad_w ? " kernel=3" : "",
           op == CAPL_OP_conv2d_grad_x ? " size=8,10" : "");
  best[0] = best[1] = INFINITY;
  for (int i = 0; i <= repetitions; i++)
    for (int k = 0; k < 2; k++) {
      setenv("CAPL_ASSUME", assumed[k], 1);
      double ms = once(op, in, attrs, CLOCK_MONOTONIC);
      if (i > 0) best[k] = fmin(best[k], ms); /* the first call makes oneDNN's plan */
    }
  capl_tensor_unref(x), capl_tensor_unref(w), capl_tensor_unref(dy);
}

static void print_row(capl_op_id op, int threads, int C, int O, int repetitions)
{
  double small[2], large[2], products = 9.0 * C * O * H * W;
  int64_t images = (int64_t)(LARGE / products), few = images / SHARE;
  if (few < 1) few = 1;
  if (images < 4 * few) images = 4 * few;
  measure(op, C, O, few, repetitions, small);
  measure(op, C, O, images, repetitions, large);
  double pixels = (double)((images - few) * H * W), direct = (large[0] - small[0]) / pixels;
  double tile = (large[1] - small[1]) / pixels, few_pixels = (double)(few * H * W);
  double fixed = fmax(0, (small[1] - tile * few_pixels) - (small[0] - direct * few_pixels)); /* below 0: by caches */
  printf("{\"op\": \"%s\", \"threads\": %d, \"inputs\": %d, \"outputs\": %d, \"tile\": %.0f, \"fixed\": %.0f, "
         "\"small\": %d, \"small_ms\": [%.3f, %.3f], \"large\": %d, \"large_ms\": [%.2f, %.2f]}\n",
         capl_op_get(op)->name, threads, C, O, 100 * tile / direct, fixed / direct, (int)few_pixels, small[0], small[1],
         (int)(images * H * W), large[0], large[1]);
  fflush(stdout);
}

int main(int argc, char **argv)
{
  static const capl_op_id ops[] = {CAPL_OP_conv2d, CAPL_OP_conv2d_grad_x, CAPL_OP_conv2d_grad_w};
  int repetitions = argc > 1 ? atoi(argv[1]) : 5, inputs = argc > 3 ? atoi(argv[3]) : 0;
  const char *threads = getenv("CAPL_THREADS");
  must(capl_device_open("cpu", &device));
  fprintf(stderr, "%s\n", device->backend->describe());
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    if (argc > 2 && strcmp(argv[2], capl_op_get(ops[i])->name) != 0) continue;
    for (int c = 0; c < CHANNELS; c++)
      for (int o = 0; o < CHANNELS && (!inputs || inputs == channels[c]); o++)
        print_row(ops[i], threads ? atoi(threads) : 1, channels[c], channels[o], repetitions);
  }
  return 0;
}
