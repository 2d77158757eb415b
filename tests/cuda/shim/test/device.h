/* device.h -- what the shim's tests share: a fresh device, two tensors on it, launches of the test kernels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_TEST_DEVICE_H
#define SHIM_TEST_DEVICE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels.h"
#include "shim.h"

enum { MOST = 70000 };
static cudaStream_t stream;
static float in[MOST], out[MOST];
static float *x, *y; /* on the device */

#define OK(call) assert_int_equal((call), cudaSuccess)

/* A fresh device with this environment, "NAME=value NAME=value"; the stream made first. */
static inline void begin(const char *environment)
{
  static const char *const names[] = {"ASYNC", "ORDER", "DEVICES", "DRIVER", "MEMORY", "FAIL"};
  char name[64], text[256];
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    snprintf(name, sizeof name, "CAPL_SHIM_%s", names[k]);
    unsetenv(name);
  }
  snprintf(text, sizeof text, "%s", environment);
  for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
    char *value = strchr(word, '=');
    *value++ = '\0';
    snprintf(name, sizeof name, "CAPL_SHIM_%s", word);
    setenv(name, value, 1);
  }
  shim_reset();
}

static inline void make_stream(void)
{
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

static inline void begin_with_tensors(const char *environment)
{
  begin(environment);
  make_stream();
  OK(cudaMalloc((void **)&x, sizeof in));
  OK(cudaMalloc((void **)&y, sizeof out));
  for (int i = 0; i < MOST; i++) in[i] = (float)(i % 97) - 40;
  OK(cudaMemcpy(x, in, sizeof in, cudaMemcpyHostToDevice));
}

static inline cudaError_t launch(int kernel, dim3 grid, dim3 block, size_t shared, int n)
{
  test_args a = {y, x, n};
  void *list[] = {&a};
  return cudaLaunchKernel(shim_test_table[kernel].kernel, grid, block, list, shared, stream);
}

static inline void run(int kernel, int blocks, int threads, size_t shared, int n)
{
  OK(launch(kernel, (dim3){(unsigned)blocks, 1, 1}, (dim3){(unsigned)threads, 1, 1}, shared, n));
  OK(cudaStreamSynchronize(stream));
}

static inline void fetch(int n)
{
  OK(cudaMemcpy(out, y, (size_t)n * sizeof *out, cudaMemcpyDeviceToHost));
}

#endif
