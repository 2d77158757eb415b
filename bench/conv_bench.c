/* conv_bench.c -- milliseconds and GFLOP/s of convolutions as captcha recognizers have them, and of their gradients.
**
** Prints a table and never fails on speed. Arguments: batch (64), repetitions (12), bf16 (f32). The time is the least
** processor time of all repetitions and threads together, which a busy machine distorts less than wall time: run it
** with OMP_NUM_THREADS=1. GFLOP/s count the products of direct convolution, whatever algorithm runs.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <string.h>

#include "conv_timed.h"

typedef struct {
  int inputs, outputs, height, width, kernel[2], stride[2], padding[2];
} shape;

static const shape shapes[] = {
  {1, 8, 60, 160, {3, 3}, {1, 1}, {1, 1}},   {8, 16, 60, 160, {3, 3}, {2, 2}, {1, 1}},
  {16, 32, 30, 80, {3, 3}, {2, 2}, {1, 1}},  {1, 32, 60, 160, {3, 3}, {1, 1}, {1, 1}},
  {3, 32, 60, 160, {3, 3}, {1, 1}, {1, 1}},  {3, 64, 64, 64, {7, 7}, {2, 2}, {3, 3}},
  {16, 32, 15, 40, {3, 3}, {1, 1}, {1, 1}},  {32, 32, 15, 40, {3, 3}, {1, 1}, {1, 1}},
  {32, 64, 15, 40, {3, 3}, {2, 2}, {1, 1}},  {64, 64, 8, 20, {3, 3}, {1, 1}, {1, 1}},
  {64, 128, 8, 20, {3, 3}, {2, 1}, {1, 1}},  {128, 128, 4, 20, {4, 1}, {1, 1}, {0, 0}},
  {128, 32, 4, 20, {1, 1}, {1, 1}, {0, 0}},  {48, 48, 15, 40, {3, 3}, {1, 1}, {1, 1}},
  {96, 96, 8, 20, {3, 3}, {1, 1}, {1, 1}},   {32, 64, 30, 80, {3, 3}, {1, 1}, {1, 1}},
  {64, 64, 30, 80, {3, 3}, {1, 1}, {1, 1}},  {64, 128, 15, 40, {3, 3}, {1, 1}, {1, 1}},
  {128, 128, 15, 40, {3, 3}, {1, 1}, {1, 1}}, {128, 128, 7, 20, {3, 3}, {1, 1}, {1, 1}},
};

static capl_device *device;
static capl_dtype dtype = CAPL_F32;

/* Least time of one op on two inputs. */
static double least_ms(capl_op_id op, capl_tensor *a, capl_tensor *b, const char *attrs, int repetitions)
{
  double best = 1e30;
  for (int i = 0; i < repetitions; i++) {
    double ms = once(op, (capl_tensor *[]){a, b}, attrs, CLOCK_PROCESS_CPUTIME_ID);
    if (ms < best) best = ms;
  }
  return best;
}

static void measure(const shape *s, int64_t batch, int repetitions)
{
  int64_t h = (s->height + 2 * s->padding[0] - s->kernel[0]) / s->stride[0] + 1;
  int64_t w = (s->width + 2 * s->padding[1] - s->kernel[1]) / s->stride[1] + 1;
  capl_tensor *x = normal(device, dtype, batch, s->inputs, s->height, s->width);
  capl_tensor *dy = normal(device, dtype, batch, s->outputs, h, w);
  capl_tensor *weight = normal(device, dtype, s->outputs, s->inputs, s->kernel[0], s->kernel[1]);
  char attrs[96], with_size[160], with_kernel[160];
  snprintf(attrs, sizeof attrs, "stride=%d,%d padding=%d,%d", s->stride[0], s->stride[1], s->padding[0], s->padding[1]);
  snprintf(with_size, sizeof with_size, "%s size=%d,%d", attrs, s->height, s->width);
  snprintf(with_kernel, sizeof with_kernel, "%s kernel=%d,%d", attrs, s->kernel[0], s->kernel[1]);
  double ms[3] = {least_ms(CAPL_OP_conv2d, x, weight, attrs, repetitions),
                  least_ms(CAPL_OP_conv2d_grad_x, dy, weight, with_size, repetitions),
                  least_ms(CAPL_OP_conv2d_grad_w, x, dy, with_kernel, repetitions)};
  double gflop = 2e-9 * (double)(batch * s->inputs * s->outputs * s->kernel[0] * s->kernel[1] * h * w);
  printf("%3d->%3d at %2dx%d, %dx%d, stride %d,%d", s->inputs, s->outputs, s->height, s->width, s->kernel[0],
         s->kernel[1], s->stride[0], s->stride[1]);
  for (int i = 0; i < 3; i++) printf("  %7.2f ms %4.0f", ms[i], 1e3 * gflop / ms[i]);
  printf("\n");
  capl_tensor_unref(x), capl_tensor_unref(dy), capl_tensor_unref(weight);
}

int main(int argc, char **argv)
{
  int64_t batch = argc > 1 ? atoi(argv[1]) : 64;
  int repetitions = argc > 2 ? atoi(argv[2]) : 12;
  if (argc > 3 && !strcmp(argv[3], "bf16")) dtype = CAPL_BF16;
  must(capl_device_open("cpu", &device));
  printf("%s\nbatch %d; ms and GFLOP/s: forward, gradient of x, gradient of the weights\n", device->backend->describe(),
         (int)batch);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) measure(&shapes[i], batch, repetitions);
  return 0;
}
