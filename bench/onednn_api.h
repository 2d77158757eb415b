/* onednn_api.h -- the calls whose form differs between oneDNN 2 and 3, in one form.
**
** Version 2 fills an operation descriptor and turns it into a primitive descriptor; version 3 makes
** the primitive descriptor directly and hides the memory descriptor behind a pointer. Here a `desc`
** is a read-only pointer in both, made by desc_new() and kept for the life of the program.
** Convolutions are 3x3 with stride 1 and padding 1, pooling is 2x2 with stride 2: all captcha_cnn has.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef ONEDNN_API_H
#define ONEDNN_API_H

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A benchmark has nobody to report to: any failure ends it with the call and oneDNN's status number. */
#define DNNL_CHECK(call)                                                                                    \
  do {                                                                                                      \
    dnnl_status_t status_ = (call);                                                                         \
    if (status_ != dnnl_success) {                                                                          \
      fprintf(stderr, "onednn_step: status %d from %s (%s:%d)\n", (int)status_, #call, __FILE__, __LINE__); \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)

typedef dnnl_primitive_desc_t plan; /* a primitive descriptor: an operation with layouts chosen */

enum { BN_FLAGS = dnnl_use_scale | dnnl_use_shift | dnnl_fuse_norm_relu };
static const float BN_EPSILON = 1e-5f;
static const dnnl_dims_t ONES = {1, 1}, TWOS = {2, 2}, ZEROS = {0, 0};

/* The library's prototypes ask for arrays of full length. */
static void full_dims(int n_dims, const dnnl_dim_t *dims, dnnl_dims_t all)
{
  for (int i = 0; i < DNNL_MAX_NDIMS; i++) all[i] = i < n_dims ? dims[i] : 0;
}

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t desc;

static desc desc_new(int n_dims, const dnnl_dim_t *dims, dnnl_data_type_t dtype, dnnl_format_tag_t tag)
{
  dnnl_memory_desc_t made;
  dnnl_dims_t all;
  full_dims(n_dims, dims, all);
  DNNL_CHECK(dnnl_memory_desc_create_with_tag(&made, n_dims, all, dtype, tag));
  return made;
}

static dnnl_data_type_t desc_dtype(desc d)
{
  dnnl_data_type_t dtype;
  DNNL_CHECK(dnnl_memory_desc_query(d, dnnl_query_data_type, &dtype));
  return dtype;
}

/* The shift as an input of BN's backward pass: version 3 refuses it, version 2 insists on it. */
static dnnl_memory_t bn_grad_shift(dnnl_memory_t shift)
{
  (void)shift;
  return NULL;
}

static plan plan_conv(dnnl_engine_t engine, dnnl_alg_kind_t alg, desc x, desc w, desc b, desc y)
{
  plan p;
  DNNL_CHECK(dnnl_convolution_forward_primitive_desc_create(&p, engine, dnnl_forward_training, alg, x, w, b,
                                                            y, ONES, ZEROS, ONES, ONES, NULL));
  return p;
}

static plan plan_conv_grad_x(dnnl_engine_t engine, dnnl_alg_kind_t alg, desc dx, desc w, desc dy,
                             plan forward)
{
  plan p;
  DNNL_CHECK(dnnl_convolution_backward_data_primitive_desc_create(&p, engine, alg, dx, w, dy, ONES, ZEROS,
                                                                  ONES, ONES, forward, NULL));
  return p;
}

static plan plan_conv_grad_w(dnnl_engine_t engine, dnnl_alg_kind_t alg, desc x, desc dw, desc db, desc dy,
                             plan forward)
{
  plan p;
  DNNL_CHECK(dnnl_convolution_backward_weights_primitive_desc_create(&p, engine, alg, x, dw, db, dy, ONES,
                                                                     ZEROS, ONES, ONES, forward, NULL));
  return p;
}

static plan plan_bn_relu(dnnl_engine_t engine, desc x)
{
  plan p;
  DNNL_CHECK(dnnl_batch_normalization_forward_primitive_desc_create(&p, engine, dnnl_forward_training, x, x,
                                                                    BN_EPSILON, BN_FLAGS, NULL));
  return p;
}

static plan plan_bn_relu_grad(dnnl_engine_t engine, desc x, desc dy, plan forward)
{
  plan p;
  DNNL_CHECK(dnnl_batch_normalization_backward_primitive_desc_create(&p, engine, dnnl_backward, x, dy, x,
                                                                     BN_EPSILON, BN_FLAGS, forward, NULL));
  return p;
}

static plan plan_max_pool(dnnl_engine_t engine, desc x, desc y)
{
  plan p;
  DNNL_CHECK(dnnl_pooling_forward_primitive_desc_create(&p, engine, dnnl_forward_training, dnnl_pooling_max,
                                                        x, y, TWOS, TWOS, ZEROS, ZEROS, ZEROS, NULL));
  return p;
}

static plan plan_max_pool_grad(dnnl_engine_t engine, desc dx, desc dy, plan forward)
{
  plan p;
  DNNL_CHECK(dnnl_pooling_backward_primitive_desc_create(&p, engine, dnnl_pooling_max, dx, dy, TWOS, TWOS,
                                                         ZEROS, ZEROS, ZEROS, forward, NULL));
  return p;
}

static plan plan_relu(dnnl_engine_t engine, desc x)
{
  plan p;
  DNNL_CHECK(dnnl_eltwise_forward_primitive_desc_create(&p, engine, dnnl_forward_training, dnnl_eltwise_relu,
                                                        x, x, 0, 0, NULL));
  return p;
}

static plan plan_relu_grad(dnnl_engine_t engine, desc x, desc dy, plan forward)
{
  plan p;
  DNNL_CHECK(dnnl_eltwise_backward_primitive_desc_create(&p, engine, dnnl_eltwise_relu, dy, dy, x, 0, 0,
                                                         forward, NULL));
  return p;
}

static plan plan_linear(dnnl_engine_t engine, desc x, desc w, desc b, desc y)
{
  plan p;
  DNNL_CHECK(
      dnnl_inner_product_forward_primitive_desc_create(&p, engine, dnnl_forward_training, x, w, b, y, NULL));
  return p;
}

static plan plan_linear_grad_x(dnnl_engine_t engine, desc dx, desc w, desc dy, plan forward)
{
  plan p;
  DNNL_CHECK(dnnl_inner_product_backward_data_primitive_desc_create(&p, engine, dx, w, dy, forward, NULL));
  return p;
}

static plan plan_linear_grad_w(dnnl_engine_t engine, desc x, desc dw, desc db, desc dy, plan forward)
{
  plan p;
  DNNL_CHECK(
      dnnl_inner_product_backward_weights_primitive_desc_create(&p, engine, x, dw, db, dy, forward, NULL));
  return p;
}

#else /* oneDNN 2 */

typedef const dnnl_memory_desc_t *desc;

static desc desc_new(int n_dims, const dnnl_dim_t *dims, dnnl_data_type_t dtype, dnnl_format_tag_t tag)
{
  dnnl_memory_desc_t *made = malloc(sizeof *made);
  dnnl_dims_t all;
  if (!made) exit(1);
  full_dims(n_dims, dims, all);
  DNNL_CHECK(dnnl_memory_desc_init_by_tag(made, n_dims, all, dtype, tag));
  return made;
}

static dnnl_data_type_t desc_dtype(desc d) { return d->data_type; }

static dnnl_memory_t bn_grad_shift(dnnl_memory_t shift) { return shift; }

static plan plan_new(dnnl_engine_t engine, const void *op, plan forward)
{
  plan p;
  DNNL_CHECK(dnnl_primitive_desc_create(&p, op, NULL, engine, forward));
  return p;
}

static plan plan_conv(dnnl_engine_t engine, dnnl_alg_kind_t alg, desc x, desc w, desc b, desc y)
{
  dnnl_convolution_desc_t op;
  DNNL_CHECK(
      dnnl_convolution_forward_desc_init(&op, dnnl_forward_training, alg, x, w, b, y, ONES, ONES, ONES));
  return plan_new(engine, &op, NULL);
}

static plan plan_conv_grad_x(dnnl_engine_t engine, dnnl_alg_kind_t alg, desc dx, desc w, desc dy,
                             plan forward)
{
  dnnl_convolution_desc_t op;
  DNNL_CHECK(dnnl_convolution_backward_data_desc_init(&op, alg, dx, w, dy, ONES, ONES, ONES));
  return plan_new(engine, &op, forward);
}

static plan plan_conv_grad_w(dnnl_engine_t engine, dnnl_alg_kind_t alg, desc x, desc dw, desc db, desc dy,
                             plan forward)
{
  dnnl_convolution_desc_t op;
  DNNL_CHECK(dnnl_convolution_backward_weights_desc_init(&op, alg, x, dw, db, dy, ONES, ONES, ONES));
  return plan_new(engine, &op, forward);
}

static plan plan_bn_relu(dnnl_engine_t engine, desc x)
{
  dnnl_batch_normalization_desc_t op;
  DNNL_CHECK(dnnl_batch_normalization_forward_desc_init(&op, dnnl_forward_training, x, BN_EPSILON, BN_FLAGS));
  return plan_new(engine, &op, NULL);
}

static plan plan_bn_relu_grad(dnnl_engine_t engine, desc x, desc dy, plan forward)
{
  dnnl_batch_normalization_desc_t op;
  DNNL_CHECK(dnnl_batch_normalization_backward_desc_init(&op, dnnl_backward, dy, x, BN_EPSILON, BN_FLAGS));
  return plan_new(engine, &op, forward);
}

static plan plan_max_pool(dnnl_engine_t engine, desc x, desc y)
{
  dnnl_pooling_desc_t op;
  DNNL_CHECK(dnnl_pooling_forward_desc_init(&op, dnnl_forward_training, dnnl_pooling_max, x, y, TWOS, TWOS,
                                            ZEROS, ZEROS));
  return plan_new(engine, &op, NULL);
}

static plan plan_max_pool_grad(dnnl_engine_t engine, desc dx, desc dy, plan forward)
{
  dnnl_pooling_desc_t op;
  DNNL_CHECK(dnnl_pooling_backward_desc_init(&op, dnnl_pooling_max, dx, dy, TWOS, TWOS, ZEROS, ZEROS));
  return plan_new(engine, &op, forward);
}

static plan plan_relu(dnnl_engine_t engine, desc x)
{
  dnnl_eltwise_desc_t op;
  DNNL_CHECK(dnnl_eltwise_forward_desc_init(&op, dnnl_forward_training, dnnl_eltwise_relu, x, 0, 0));
  return plan_new(engine, &op, NULL);
}

static plan plan_relu_grad(dnnl_engine_t engine, desc x, desc dy, plan forward)
{
  dnnl_eltwise_desc_t op;
  DNNL_CHECK(dnnl_eltwise_backward_desc_init(&op, dnnl_eltwise_relu, dy, x, 0, 0));
  return plan_new(engine, &op, forward);
}

static plan plan_linear(dnnl_engine_t engine, desc x, desc w, desc b, desc y)
{
  dnnl_inner_product_desc_t op;
  DNNL_CHECK(dnnl_inner_product_forward_desc_init(&op, dnnl_forward_training, x, w, b, y));
  return plan_new(engine, &op, NULL);
}

static plan plan_linear_grad_x(dnnl_engine_t engine, desc dx, desc w, desc dy, plan forward)
{
  dnnl_inner_product_desc_t op;
  DNNL_CHECK(dnnl_inner_product_backward_data_desc_init(&op, dx, w, dy));
  return plan_new(engine, &op, forward);
}

static plan plan_linear_grad_w(dnnl_engine_t engine, desc x, desc dw, desc db, desc dy, plan forward)
{
  dnnl_inner_product_desc_t op;
  DNNL_CHECK(dnnl_inner_product_backward_weights_desc_init(&op, x, dw, db, dy));
  return plan_new(engine, &op, forward);
}

#endif
#endif
