/* recognizer.h -- a tiny model that reads two characters, made without training, for the tests of model files.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TESTS_RECOGNIZER_H
#define CAPL_TESTS_RECOGNIZER_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capl/capl.h"

enum { TINY_WIDTH = 12, TINY_HEIGHT = 8, TINY_LENGTH = 2, TINY_CLASSES = 3 };
#define TINY_META                                                                                            \
  "{\"output\": \"text\", \"charset\": \"AB-\", \"length\": 2, \"width\": 12, \"height\": 8, \"channels\": 1, " \
  "\"normalize\": \"unit\"}"

static inline capl_tensor *tiny_uniform(capl_device *device, int ndim, const int64_t *size, double low, double high,
                                        uint64_t seed)
{
  capl_tensor *t;
  assert_ok(capl_tensor_new(device, CAPL_F32, ndim, size, CAPL_AUTO, &t));
  assert_ok(capl_tensor_fill_uniform(t, low, high, seed, 0, 0, 0));
  return t;
}

/* *x := first output of the op over *x and n others. */
static inline void tiny_then(capl_tensor **x, capl_op_id id, const char *attrs, capl_tensor *const *others, int n)
{
  capl_tensor *in[8] = {*x}, *out[CAPL_MAX_OUT];
  for (int i = 0; i < n; i++) in[1 + i] = others[i];
  assert_ok(capl_run(id, in, 1 + n, attrs, out));
  for (int k = 1; k < capl_op_get(id)->n_out; k++) capl_tensor_unref(out[k]);
  capl_tensor_unref(*x);
  *x = out[0];
}

enum { TINY_CONV, TINY_SCALE, TINY_SHIFT, TINY_MEAN, TINY_VAR, TINY_CONV2, TINY_BIAS2, TINY_SCALE2, TINY_SHIFT2,
       TINY_MEAN2, TINY_VAR2, TINY_HEAD, TINY_HEAD_BIAS, TINY_SCALE3, TINY_SHIFT3, TINY_MEAN3, TINY_VAR3,
       TINY_WEIGHTS };

static inline void tiny_weights(capl_device *device, capl_tensor **w)
{
  w[TINY_CONV] = tiny_uniform(device, 4, (int64_t[]){4, 1, 3, 3}, -1, 1, 1);
  w[TINY_CONV2] = tiny_uniform(device, 4, (int64_t[]){4, 4, 3, 3}, -0.5, 0.5, 2);
  w[TINY_BIAS2] = tiny_uniform(device, 1, (int64_t[]){4}, -1, 1, 3);
  w[TINY_HEAD] = tiny_uniform(device, 2, (int64_t[]){6, 96}, -0.3, 0.3, 4);
  w[TINY_HEAD_BIAS] = tiny_uniform(device, 1, (int64_t[]){6}, -1, 1, 5);
  for (int i = 0; i < 3; i++) {
    int at = (int[]){TINY_SCALE, TINY_SCALE2, TINY_SCALE3}[i];
    int64_t channels = (int64_t[]){4, 4, 6}[i];
    w[at] = tiny_uniform(device, 1, &channels, 0.5, 2, 10 + (uint64_t)i);
    w[at + 1] = tiny_uniform(device, 1, &channels, -1, 1, 20 + (uint64_t)i);
    w[at + 2] = tiny_uniform(device, 1, &channels, -1, 1, 30 + (uint64_t)i);
    w[at + 3] = tiny_uniform(device, 1, &channels, 0.1, 3, 40 + (uint64_t)i);
  }
}

/* x (N,1,8,12) -> (N,6): conv without bias and bn_act_pool, conv with bias and bn_act, linear and batch_norm. */
static inline capl_tensor *tiny_forward(capl_tensor *x, capl_tensor *const *w)
{
  x = capl_tensor_ref(x);
  long long batch = x->size[0];
  char text[32];
  tiny_then(&x, CAPL_OP_conv2d, "padding=1", &w[TINY_CONV], 1);
  tiny_then(&x, CAPL_OP_bn_act_pool, NULL, &w[TINY_SCALE], 4); /* 4x6 */
  tiny_then(&x, CAPL_OP_conv2d, "padding=1", &w[TINY_CONV2], 2);
  tiny_then(&x, CAPL_OP_bn_act, NULL, &w[TINY_SCALE2], 4);
  snprintf(text, sizeof text, "size=%lld,96", batch);
  tiny_then(&x, CAPL_OP_reshape, text, NULL, 0);
  tiny_then(&x, CAPL_OP_linear, NULL, &w[TINY_HEAD], 2);
  tiny_then(&x, CAPL_OP_batch_norm, NULL, &w[TINY_SCALE3], 4);
  return x;
}

static inline capl_graph *tiny_trace(capl_device *device, capl_tensor *const *w, int64_t batch)
{
  static char names[TINY_WEIGHTS][16];
  capl_named_tensor named[TINY_WEIGHTS];
  for (int k = 0; k < TINY_WEIGHTS; k++) {
    snprintf(names[k], sizeof names[k], "w%d", k);
    named[k] = (capl_named_tensor){names[k], w[k]};
  }
  capl_tensor *x = tiny_uniform(device, 4, (int64_t[]){batch, 1, TINY_HEIGHT, TINY_WIDTH}, 0, 1, 7);
  capl_graph *g;
  assert_ok(capl_trace_begin());
  capl_tensor *y = tiny_forward(x, w);
  assert_ok(capl_trace_end(x, y, named, TINY_WEIGHTS, &g));
  capl_tensor_unref(x);
  capl_tensor_unref(y);
  return g;
}

/* The graph for any batch. */
static inline capl_graph *tiny_graph(capl_device *device)
{
  capl_tensor *w[TINY_WEIGHTS];
  tiny_weights(device, w);
  capl_graph *a = tiny_trace(device, w, 2), *b = tiny_trace(device, w, 3);
  assert_ok(capl_graph_merge_batch(a, b));
  capl_graph_free(b);
  for (int k = 0; k < TINY_WEIGHTS; k++) capl_tensor_unref(w[k]);
  return a;
}

/* Noise, a function of (seed). levels: n*8*12 bytes. */
static inline void tiny_images(uint8_t *levels, int n, uint32_t seed)
{
  capl_rng rng;
  capl_rng_init(&rng, seed, 0, 0, 0);
  for (int i = 0; i < n * TINY_WIDTH * TINY_HEIGHT; i++) levels[i] = (uint8_t)capl_rng_below(&rng, 256);
}

/* Saves the model with 3 golden pairs. */
static inline void tiny_save(const char *path, capl_device *device)
{
  enum { N = 3 };
  uint8_t levels[N * TINY_WIDTH * TINY_HEIGHT];
  capl_graph *g = tiny_graph(device);
  capl_tensor *x = NULL, *y;
  tiny_images(levels, N, 5);
  assert_ok(capl_tensor_new(device, CAPL_F32, 4, (int64_t[]){N, 1, TINY_HEIGHT, TINY_WIDTH}, CAPL_AUTO, &x));
  assert_ok(capl_model_prepare(TINY_META, levels, N, TINY_WIDTH, TINY_HEIGHT, 1, capl_tensor_data(x)));
  assert_ok(capl_graph_run(g, x, &y));
  capl_golden golden = {.n = N, .width = TINY_WIDTH, .height = TINY_HEIGHT, .channels = 1, .images = levels,
                        .output = y};
  assert_ok(capl_model_save(path, g, TINY_META, &golden));
  capl_tensor_unref(x);
  capl_tensor_unref(y);
  capl_graph_free(g);
}

#endif
