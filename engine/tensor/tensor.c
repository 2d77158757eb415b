/* tensor.c -- tensor handles: making, aliasing, describing and freeing them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/tape.h"
#include "tensor/storage.h"

void capl_strides_row(int ndim, const int64_t *size, int64_t *stride)
{
  int64_t step = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    stride[d] = step;
    step *= size[d] > 0 ? size[d] : 1;
  }
}

/* (N,C,H,W) in memory order N,H,W,C. */
static void strides_nhwc(const int64_t *size, int64_t *stride)
{
  int64_t c = size[1] > 0 ? size[1] : 1, h = size[2] > 0 ? size[2] : 1, w = size[3] > 0 ? size[3] : 1;
  stride[1] = 1;
  stride[3] = c;
  stride[2] = w * c;
  stride[0] = h * w * c;
}

/* Number of elements, EVALUE when a size is negative or strides could not be counted: a dim of size 0 does
** not make the others harmless. */
static capl_status count_elements(int ndim, const int64_t *size, int64_t *out)
{
  if (ndim < 0 || ndim > CAPL_MAX_NDIM)
    return CAPL_FAIL(CAPL_EVALUE, "a tensor has 0 to %d dims, not %d", CAPL_MAX_NDIM, ndim);
  int64_t n = 1;
  bool empty = false;
  for (int d = 0; d < ndim; d++) {
    if (size[d] < 0) return CAPL_FAIL(CAPL_EVALUE, "size %lld of dim %d is negative", (long long)size[d], d + 1);
    empty |= size[d] == 0;
    if (size[d] > 0 && (__builtin_mul_overflow(n, size[d], &n) || n > INT64_MAX / 16))
      return CAPL_FAIL(CAPL_EVALUE, "a tensor of that size has too many elements");
  }
  *out = empty ? 0 : n;
  return CAPL_OK;
}

static capl_tensor *new_header(capl_device *device, capl_dtype dtype, int ndim, const int64_t *size)
{
  capl_tensor *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->refs = 1;
  t->device = device;
  t->dtype = dtype;
  t->ndim = ndim;
  if (ndim > 0) memcpy(t->size, size, (size_t)ndim * sizeof *size);
  return t;
}

static capl_status new_with_storage(capl_tensor *t, int64_t n, capl_tensor **out)
{
  if (!t) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a tensor's header");
  capl_status status = capl_storage_new(t->device, (size_t)n * capl_dtype_size(t->dtype), &t->storage);
  if (status != CAPL_OK) {
    free(t);
    return status;
  }
  *out = t;
  return CAPL_OK;
}

capl_status capl_tensor_new(capl_device *device, capl_dtype dtype, int ndim, const int64_t *size,
                            capl_format format, capl_tensor **out)
{
  int64_t n = 0;
  CAPL_TRY(count_elements(ndim, size, &n));
  capl_tensor *t = new_header(device, dtype, ndim, size);
  if (t && ndim == 4 && format == CAPL_AUTO) strides_nhwc(size, t->stride);
  else if (t) capl_strides_row(ndim, size, t->stride);
  return new_with_storage(t, n, out);
}

capl_status capl_tensor_new_like(const capl_tensor *like, capl_tensor **out)
{
  if (!capl_tensor_is_dense(like))
    return capl_tensor_new(like->device, like->dtype, like->ndim, like->size, CAPL_AUTO, out);
  capl_tensor *t = new_header(like->device, like->dtype, like->ndim, like->size);
  if (t) memcpy(t->stride, like->stride, sizeof t->stride);
  return new_with_storage(t, capl_tensor_numel(like), out);
}

capl_status capl_tensor_alias(capl_tensor *src, int ndim, const int64_t *size, const int64_t *stride,
                              int64_t offset, capl_tensor **out)
{
  int64_t n;
  CAPL_TRY(count_elements(ndim, size, &n));
  capl_tensor *t = new_header(src->device, src->dtype, ndim, size);
  if (!t) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a tensor's header");
  if (ndim > 0) memcpy(t->stride, stride, (size_t)ndim * sizeof *stride);
  t->offset = offset;
  t->storage = capl_storage_ref(src->storage);
  *out = t;
  return CAPL_OK;
}

capl_tensor *capl_tensor_ref(capl_tensor *t)
{
  if (t) t->refs++;
  return t;
}

void capl_tensor_unref(capl_tensor *t)
{
  if (!t || --t->refs > 0) return;
  capl_storage_unref(t->storage);
  capl_tensor_unref(t->grad);
  capl_node_unref(t->node);
  free(t);
}

void *capl_tensor_data(const capl_tensor *t)
{
  if (!t->storage || !t->storage->data || !t->device->backend->arithmetic) return NULL;
  return (char *)t->storage->data + t->offset * (int64_t)capl_dtype_size(t->dtype);
}

int64_t capl_tensor_numel(const capl_tensor *t)
{
  int64_t n = 1;
  for (int d = 0; d < t->ndim; d++) n *= t->size[d];
  return n;
}

size_t capl_tensor_bytes(const capl_tensor *t)
{
  return (size_t)capl_tensor_numel(t) * capl_dtype_size(t->dtype);
}

bool capl_tensor_same_shape(const capl_tensor *a, const capl_tensor *b)
{
  if (a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] != b->size[d]) return false;
  return true;
}

/* Whether the dims, taken in this order from slowest to fastest, lie without gaps. */
static bool strides_match(const capl_tensor *t, const int *order)
{
  int64_t step = 1;
  for (int k = t->ndim - 1; k >= 0; k--) {
    int d = order[k];
    if (t->size[d] == 0) return true;
    if (t->size[d] != 1 && t->stride[d] != step) return false;
    step *= t->size[d];
  }
  return true;
}

bool capl_tensor_is_row(const capl_tensor *t)
{
  return strides_match(t, (int[]){0, 1, 2, 3, 4, 5});
}

bool capl_tensor_is_nhwc(const capl_tensor *t)
{
  return t->ndim == 4 && strides_match(t, (int[]){0, 2, 3, 1});
}

bool capl_tensor_is_dense(const capl_tensor *t)
{
  int order[CAPL_MAX_NDIM];
  for (int d = 0; d < t->ndim; d++) { /* insertion sort by falling stride; size-1 dims do not matter */
    int k = d;
    while (k > 0 && t->stride[order[k - 1]] < t->stride[d]) {
      order[k] = order[k - 1];
      k--;
    }
    order[k] = d;
  }
  return strides_match(t, order);
}

bool capl_tensor_same_layout(const capl_tensor *a, const capl_tensor *b)
{
  if (!capl_tensor_same_shape(a, b)) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] > 1 && a->stride[d] != b->stride[d]) return false;
  return true;
}

const char *capl_shape_describe(int ndim, const int64_t *size, char *buf, size_t len)
{
  size_t used = (size_t)snprintf(buf, len, "(");
  for (int d = 0; d < ndim && used < len; d++)
    used += (size_t)snprintf(buf + used, len - used, d ? ",%lld" : "%lld", (long long)size[d]);
  if (used < len) snprintf(buf + used, len - used, ")");
  return buf;
}

const char *capl_tensor_describe(const capl_tensor *t, char *buf, size_t len)
{
  char shape[128];
  capl_shape_describe(t->ndim, t->size, shape, sizeof shape);
  snprintf(buf, len, "%s %s %s", shape, capl_dtype_name(t->dtype), t->device->name);
  return buf;
}
