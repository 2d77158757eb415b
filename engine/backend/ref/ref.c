/* ref.c -- the ref backend's table, and how its kernels reach elements of any dtype and stride.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/ref/ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/float16.h"

/* elements */

static int64_t int_from_double(double v, int64_t lo, int64_t hi)
{
  if (isnan(v)) return 0;
  if (v <= (double)lo) return lo;
  if (v >= (double)hi) return hi;
  return (int64_t)v;
}

double ref_get(const capl_tensor *t, int64_t i)
{
  const void *p = capl_tensor_data(t);
  switch (t->dtype) {
  case CAPL_F32: return ((const float *)p)[i];
  case CAPL_F64: return ((const double *)p)[i];
  case CAPL_BF16: return capl_bf16_to_float(((const uint16_t *)p)[i]);
  case CAPL_F16: return capl_f16_to_float(((const uint16_t *)p)[i]);
  default: return (double)ref_get_int(t, i);
  }
}

void ref_set(capl_tensor *t, int64_t i, double v)
{
  void *p = capl_tensor_data(t);
  switch (t->dtype) {
  case CAPL_F32: ((float *)p)[i] = (float)v; break;
  case CAPL_F64: ((double *)p)[i] = v; break;
  case CAPL_BF16: ((uint16_t *)p)[i] = capl_bf16_from_float(capl_float_to_odd(v)); break;
  case CAPL_F16: ((uint16_t *)p)[i] = capl_f16_from_float(capl_float_to_odd(v)); break;
  case CAPL_BOOL: ((uint8_t *)p)[i] = v != 0; break;
  case CAPL_U8: ((uint8_t *)p)[i] = (uint8_t)int_from_double(v, 0, UINT8_MAX); break;
  case CAPL_I32: ((int32_t *)p)[i] = (int32_t)int_from_double(v, INT32_MIN, INT32_MAX); break;
  case CAPL_I64: ((int64_t *)p)[i] = int_from_double(v, INT64_MIN, INT64_MAX); break;
  default: break;
  }
}

int64_t ref_get_int(const capl_tensor *t, int64_t i)
{
  const void *p = capl_tensor_data(t);
  switch (t->dtype) {
  case CAPL_BOOL:
  case CAPL_U8: return ((const uint8_t *)p)[i];
  case CAPL_I32: return ((const int32_t *)p)[i];
  case CAPL_I64: return ((const int64_t *)p)[i];
  default: return (int64_t)ref_get(t, i);
  }
}

/* Wraps around when v does not fit, as integer arithmetic in PyTorch does. */
void ref_set_int(capl_tensor *t, int64_t i, int64_t v)
{
  void *p = capl_tensor_data(t);
  switch (t->dtype) {
  case CAPL_BOOL: ((uint8_t *)p)[i] = v != 0; break;
  case CAPL_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
  case CAPL_I32: ((int32_t *)p)[i] = (int32_t)(uint32_t)v; break;
  case CAPL_I64: ((int64_t *)p)[i] = v; break;
  default: ref_set(t, i, (double)v);
  }
}

void ref_move(capl_tensor *dst, int64_t i, const capl_tensor *src, int64_t j)
{
  bool exact = !capl_dtype_is_float(dst->dtype) && !capl_dtype_is_float(src->dtype);
  if (exact)
    ref_set_int(dst, i, ref_get_int(src, j));
  else
    ref_set(dst, i, ref_get(src, j));
}

bool ref_supports_any(const capl_call *call)
{
  (void)call;
  return true;
}

/* walking */

/* Strides of t seen through the walk's shape: trailing dims aligned, 0 where t is broadcast. */
static void walk_strides(ref_walk *w, int which, const capl_tensor *t)
{
  int lead = w->ndim - t->ndim;
  for (int d = 0; d < w->ndim; d++) {
    bool own = d >= lead && t->size[d - lead] == w->size[d];
    w->stride[which][d] = own ? t->stride[d - lead] : 0;
  }
}

void ref_walk_start(ref_walk *w, int n, const capl_tensor *const *tensors)
{
  *w = (ref_walk){.more = true, .ndim = tensors[0]->ndim, .n_tensors = n};
  memcpy(w->size, tensors[0]->size, sizeof w->size);
  for (int d = 0; d < w->ndim; d++)
    if (w->size[d] == 0) w->more = false;
  for (int i = 0; i < n; i++) walk_strides(w, i, tensors[i]);
}

void ref_walk_next(ref_walk *w)
{
  w->count++;
  for (int d = w->ndim - 1; d >= 0; d--) {
    bool carry = ++w->index[d] == w->size[d];
    for (int i = 0; i < w->n_tensors; i++)
      w->at[i] += carry ? -w->stride[i][d] * (w->size[d] - 1) : w->stride[i][d];
    if (!carry) return;
    w->index[d] = 0;
  }
  w->more = false;
}

/* the backend */

static capl_status ref_alloc(size_t bytes, void **out)
{
  size_t rounded = (bytes + 63) / 64 * 64;
  *out = aligned_alloc(64, rounded ? rounded : 64);
  if (*out) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "the system has no %zu bytes for device ref", bytes);
}

static void ref_free(void *p, size_t bytes)
{
  (void)bytes;
  free(p);
}

static capl_status ref_fill(void *p, int byte, size_t bytes)
{
  memset(p, byte, bytes);
  return CAPL_OK;
}

static const char *ref_describe(void)
{
  return "plain loops in double precision: slow, exact, every op and dtype";
}

static uint32_t ref_precisions(void)
{
  return CAPL_BIT(CAPL_PRECISION_bf16) | CAPL_BIT(CAPL_PRECISION_fp16) | CAPL_BIT(CAPL_PRECISION_fp32);
}

static const capl_kernel *const ref_families[] = {
  ref_take_kernels,  ref_sample_kernels,
  ref_conv_kernels,  ref_matmul_kernels, ref_norm_kernels,    ref_pool_kernels, ref_elementwise_kernels,
  ref_activation_kernels, ref_shape_kernels, ref_reduce_kernels, ref_softmax_kernels, ref_loss_kernels,
  ref_region_kernels, ref_optim_kernels, ref_pointwise_kernels, ref_rnn_kernels,
  ref_ctc_kernels,
  ref_layer_norm_kernels,
  ref_attention_kernels,
  NULL,
};

const capl_backend capl_backend_ref = {
  .abi = CAPL_BACKEND_ABI,
  .name = "ref",
  .host_memory = true,
  .arithmetic = true,
  .families = ref_families,
  .mem_alloc = ref_alloc,
  .mem_free = ref_free,
  .mem_fill = ref_fill,
  .describe = ref_describe,
  .precisions = ref_precisions,
};
