/* tensor.h -- dtypes, devices, storage and strided tensors.
**
** The size alphabet, used in code, docs and errors alike: N batch, C channels, H height, W width,
** T time (or position in a text), K classes; dy is the gradient of y.
**
** A tensor is a view (sizes, strides, offset) of a refcounted storage on one device. Sizes are
** logical and printed in PyTorch's order: images are (N,C,H,W), conv weights (Cout,Cin,kH,kW).
** Memory of a fresh 4-d tensor is channels-last (N,H,W,C) unless CAPL_ROW is asked for; all other
** fresh tensors are row-major. Scalars have ndim 0 and one element. Sizes may be 0.
**
** Ownership: functions named _new or returning through **out give one reference to the caller, who
** calls capl_tensor_unref. Handles are not thread-safe; use a tensor from one thread at a time.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TENSOR_H
#define CAPL_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CAPL_MAX_NDIM = 6 };

/* code, name, bytes, is floating point */
#define CAPL_DTYPE_MAP(X) \
  X(F32, "f32", 4, true)  \
  X(F16, "f16", 2, true)  \
  X(BF16, "bf16", 2, true) \
  X(U8, "u8", 1, false)   \
  X(I32, "i32", 4, false) \
  X(I64, "i64", 8, false) \
  X(BOOL, "bool", 1, false) \
  X(F64, "f64", 8, true)

typedef enum {
#define X(code, name, bytes, real) CAPL_##code,
  CAPL_DTYPE_MAP(X)
#undef X
  CAPL_DTYPE_COUNT
} capl_dtype;

CAPL_API const char *capl_dtype_name(capl_dtype dtype);
CAPL_API size_t capl_dtype_size(capl_dtype dtype);
CAPL_API bool capl_dtype_is_float(capl_dtype dtype);
/* f16 or bf16. */
static inline bool capl_dtype_is_16_bit(capl_dtype dtype)
{
  return dtype == CAPL_F16 || dtype == CAPL_BF16;
}
/* "bf16" -> CAPL_BF16; also "float32", "bfloat16" and so on. EVALUE names the nearest. */
CAPL_API capl_status capl_dtype_parse(const char *name, capl_dtype *out);

/* Order of a fresh tensor's elements in memory. */
typedef enum {
  CAPL_AUTO, /* 4-d: channels-last, else row-major */
  CAPL_ROW,  /* row-major: last logical dim is contiguous */
} capl_format;

typedef struct capl_device capl_device;   /* backend.h */
typedef struct capl_storage capl_storage; /* refcounted memory of one device */
typedef struct capl_node capl_node;       /* tape.h */

/* Read the fields freely; write them only through functions. */
typedef struct capl_tensor {
  int refs;
  capl_dtype dtype;
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  int64_t stride[CAPL_MAX_NDIM]; /* in elements; 0 where a dim is broadcast */
  int64_t offset;                /* in elements, from the storage's start */
  capl_device *device;
  capl_storage *storage; /* NULL: a shell that only knows its shape (kept by the tape) */
  /* autograd */
  bool requires_grad;       /* a leaf that wants .grad */
  capl_node *node;          /* the op call that made it, NULL for leaves */
  int node_output;          /* which output of node */
  struct capl_tensor *grad; /* f32 sum of gradients for leaves, NULL until backward */
  bool zero_sums;           /* a gradient whose sum over each channel is 0 by mathematics: a training batch norm's */
  struct capl_grad_slot *slot; /* tape.h: where a leaf's gradient is kept; NULL = in memory of its own */
} capl_tensor;

/* A fresh tensor with undefined contents. size[0..ndim). ENOMEM names request and use. */
CAPL_API capl_status capl_tensor_new(capl_device *device, capl_dtype dtype, int ndim, const int64_t *size,
                                     capl_format format, capl_tensor **out);
/* Same shape, dtype, device and memory order as like. */
CAPL_API capl_status capl_tensor_new_like(const capl_tensor *like, capl_tensor **out);
/* A view of t's storage with other sizes, strides and offset; no autograd history. */
CAPL_API capl_status capl_tensor_alias(capl_tensor *t, int ndim, const int64_t *size, const int64_t *stride,
                                       int64_t offset, capl_tensor **out);
CAPL_API capl_tensor *capl_tensor_ref(capl_tensor *t); /* NULL-safe, returns t */
CAPL_API void capl_tensor_unref(capl_tensor *t);       /* NULL-safe */

/* First element. NULL on meta. */
CAPL_API void *capl_tensor_data(const capl_tensor *t);
CAPL_API int64_t capl_tensor_numel(const capl_tensor *t);
CAPL_API size_t capl_tensor_bytes(const capl_tensor *t); /* numel * element size */
CAPL_API bool capl_tensor_same_shape(const capl_tensor *a, const capl_tensor *b);
/* Row-major without gaps. */
CAPL_API bool capl_tensor_is_row(const capl_tensor *t);
/* 4-d, memory order N,H,W,C without gaps. Dims of size 1 may have any stride. */
CAPL_API bool capl_tensor_is_nhwc(const capl_tensor *t);
/* No gaps and no overlaps in some order of the dims: numel elements from data on. */
CAPL_API bool capl_tensor_is_dense(const capl_tensor *t);
/* Same sizes and strides. */
CAPL_API bool capl_tensor_same_layout(const capl_tensor *a, const capl_tensor *b);
/* Row-major strides of size. */
CAPL_API void capl_strides_row(int ndim, const int64_t *size, int64_t *stride);
/* "(32,1,60,160) f32 cpu" into buf; returns buf. */
CAPL_API const char *capl_tensor_describe(const capl_tensor *t, char *buf, size_t len);
/* "(32,1,60,160)" into buf; returns buf. */
CAPL_API const char *capl_shape_describe(int ndim, const int64_t *size, char *buf, size_t len);

/* Fills a new tensor from count host values in logical row-major order (count == numel). */
CAPL_API capl_status capl_tensor_from_doubles(capl_device *device, capl_dtype dtype, int ndim,
                                              const int64_t *size, const double *values, capl_tensor **out);
/* Copies to host in logical row-major order, converted to double. count == numel. Waits for the device. */
CAPL_API capl_status capl_tensor_to_doubles(const capl_tensor *t, double *values);
/* The value of a one-element tensor. ESHAPE otherwise. */
CAPL_API capl_status capl_tensor_item(const capl_tensor *t, double *value);
CAPL_API capl_status capl_tensor_fill(capl_tensor *t, double value);
/* dst := src, any strides and dtypes, same device or host devices. ESHAPE unless sizes match. */
CAPL_API capl_status capl_tensor_copy(capl_tensor *dst, const capl_tensor *src);
/* dst[i] := src[i], or zeros where that is NULL; all on one device, in as few launches as its backend can. */
CAPL_API capl_status capl_tensor_copy_many(capl_tensor *const *dst, capl_tensor *const *src, int n);
/* A copy of t on device, in the same memory order where t is dense; outside the tape. */
CAPL_API capl_status capl_tensor_to(const capl_tensor *t, capl_device *device, capl_tensor **out);
/* t itself (one more reference) where the CPU can read its memory, else a copy that it can. Waits for the device. */
CAPL_API capl_status capl_tensor_on_host(capl_tensor *t, capl_tensor **out);
/* Element i (logical row-major) := lo + (hi - lo) * u with u the i-th number of stream (seed, a, b, c). */
CAPL_API capl_status capl_tensor_fill_uniform(capl_tensor *t, double lo, double hi, uint64_t seed, uint32_t a,
                                              uint32_t b, uint32_t c);
/* Likewise, normal with the given mean and standard deviation. */
CAPL_API capl_status capl_tensor_fill_normal(capl_tensor *t, double mean, double std, uint64_t seed, uint32_t a,
                                             uint32_t b, uint32_t c);

#ifdef __cplusplus
}
#endif
#endif
