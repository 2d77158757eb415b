/* values.c -- moving single values between the host and tensors of any dtype and strides.
**
** Everything here walks elements one by one in logical order: for constants, tests, initial
** weights and printing. Whole tensors move through ops (contiguous, cast).
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/float16.h"
#include "base/stop.h"
#include "capl/backend.h"
#include "capl/rng.h"
#include "capl/tape.h"
#include "tensor/storage.h"
#include "tensor/watch.h"

static double load(const void *p, capl_dtype dtype, int64_t i)
{
  switch (dtype) {
  case CAPL_F32: return ((const float *)p)[i];
  case CAPL_F64: return ((const double *)p)[i];
  case CAPL_BF16: return capl_bf16_to_float(((const uint16_t *)p)[i]);
  case CAPL_F16: return capl_f16_to_float(((const uint16_t *)p)[i]);
  case CAPL_U8: return ((const uint8_t *)p)[i];
  case CAPL_BOOL: return ((const uint8_t *)p)[i] != 0;
  case CAPL_I32: return ((const int32_t *)p)[i];
  case CAPL_I64: return (double)((const int64_t *)p)[i];
  default: return 0;
  }
}

static void store(void *p, capl_dtype dtype, int64_t i, double v)
{
  switch (dtype) {
  case CAPL_F32: ((float *)p)[i] = (float)v; break;
  case CAPL_F64: ((double *)p)[i] = v; break;
  case CAPL_BF16: ((uint16_t *)p)[i] = capl_bf16_from_float((float)v); break;
  case CAPL_F16: ((uint16_t *)p)[i] = capl_f16_from_float((float)v); break;
  case CAPL_U8: ((uint8_t *)p)[i] = v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v; break;
  case CAPL_BOOL: ((uint8_t *)p)[i] = v != 0; break;
  case CAPL_I32: ((int32_t *)p)[i] = (int32_t)fmin(fmax(v, INT32_MIN), INT32_MAX); break;
  case CAPL_I64: ((int64_t *)p)[i] = (int64_t)v; break;
  default: break;
  }
}

/* Offset of the next element in logical order; index and offset start at 0. */
static int64_t advance(const capl_tensor *t, int64_t *index, int64_t offset)
{
  for (int d = t->ndim - 1; d >= 0; d--) {
    offset += t->stride[d];
    if (++index[d] < t->size[d]) return offset;
    offset -= t->stride[d] * t->size[d];
    index[d] = 0;
  }
  return offset;
}

/* n elements that lie side by side. */
static void load_row(const void *p, capl_dtype dtype, int64_t n, double *values)
{
  const uint16_t *low = p;
  if (dtype == CAPL_F32) for (int64_t i = 0; i < n; i++) values[i] = ((const float *)p)[i];
  else if (dtype == CAPL_BF16) for (int64_t i = 0; i < n; i++) values[i] = capl_bf16_to_float(low[i]);
  else for (int64_t i = 0; i < n; i++) values[i] = load(p, dtype, i);
}

static capl_status need_values(const capl_tensor *t)
{
  if (!t->storage) return CAPL_FAIL(CAPL_ESTATE, "the tensor's values were released");
  if (!t->device->backend->arithmetic)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s tensors have shapes but no values", t->device->name);
  return CAPL_OK;
}

/* ---- the host's view of a tensor ------------------------------------------------------------- */

/* The bytes from a tensor's first element to its last, readable by the host: the memory itself, or a copy of it. */
typedef struct {
  void *data; /* first element */
  void *copy; /* to free; NULL when data is the tensor's own memory */
  size_t bytes;
} host_view;

static size_t span_bytes(const capl_tensor *t)
{
  int64_t last = 0;
  if (capl_tensor_numel(t) == 0) return 0;
  for (int d = 0; d < t->ndim; d++) last += (t->size[d] - 1) * t->stride[d];
  return (size_t)(last + 1) * capl_dtype_size(t->dtype);
}

/* read: the values are wanted; else every byte of the span will be written. */
static capl_status view_open(const capl_tensor *t, bool read, host_view *view)
{
  const capl_backend *backend = t->device->backend;
  CAPL_TRY(need_values(t));
  *view = (host_view){.data = capl_tensor_data(t), .bytes = span_bytes(t)};
  if (backend->host_memory) return backend->sync ? backend->sync() : CAPL_OK;
  view->copy = malloc(view->bytes ? view->bytes : 1);
  if (!view->copy)
    return CAPL_FAIL(CAPL_ENOMEM, "no host memory for %zu bytes of a %s tensor", view->bytes, t->device->name);
  capl_status status = read && view->bytes ? backend->copy_out(view->copy, view->data, view->bytes) : CAPL_OK;
  view->data = view->copy;
  if (status != CAPL_OK) free(view->copy);
  return status;
}

/* written: the span goes back to the device. */
static capl_status view_close(const capl_tensor *t, bool written, host_view *view)
{
  if (!view->copy) return CAPL_OK;
  capl_status status = CAPL_OK;
  if (written && view->bytes) status = t->device->backend->copy_in(capl_tensor_data(t), view->copy, view->bytes);
  free(view->copy);
  return status;
}

enum { ASK_EVERY = 65536 }; /* elements between two questions whether somebody wants the end: a few ms of random
                            ** numbers */

/* Calls value(user, i) for every element; a device without arithmetic has nothing to fill. */
static capl_status fill_with(capl_tensor *t, double (*value)(void *user, int64_t i), void *user)
{
  if (!t->device->backend->arithmetic) return CAPL_OK;
  host_view view;
  CAPL_TRY(view_open(t, !capl_tensor_is_dense(t), &view));
  storage_written(t->storage);
  capl_status status = CAPL_OK;
  int64_t index[CAPL_MAX_NDIM] = {0}, n = capl_tensor_numel(t), offset = 0;
  for (int64_t i = 0; i < n && status == CAPL_OK; i++) {
    store(view.data, t->dtype, offset, value(user, i));
    offset = advance(t, index, offset);
    if (i % ASK_EVERY == ASK_EVERY - 1) status = capl_stop_check();
  }
  capl_status closed = view_close(t, status == CAPL_OK, &view);
  return status != CAPL_OK ? status : closed;
}

static double value_from_list(void *user, int64_t i)
{
  return ((const double *)user)[i];
}

capl_status capl_tensor_from_doubles(capl_device *device, capl_dtype dtype, int ndim, const int64_t *size,
                                     const double *values, capl_tensor **out)
{
  CAPL_TRY(capl_tensor_new(device, dtype, ndim, size, CAPL_AUTO, out));
  capl_status status = watch_write(*out);
  if (status == CAPL_OK) status = fill_with(*out, value_from_list, (void *)values);
  if (status == CAPL_OK) return CAPL_OK;
  capl_tensor_unref(*out);
  *out = NULL;
  return status;
}

capl_status capl_tensor_to_doubles(const capl_tensor *t, double *values)
{
  host_view view;
  CAPL_TRY(watch_read(t));
  CAPL_TRY(view_open(t, true, &view));
  int64_t index[CAPL_MAX_NDIM] = {0}, n = capl_tensor_numel(t), offset = 0;
  bool row = capl_tensor_is_row(t);
  if (row) load_row(view.data, t->dtype, n, values);
  for (int64_t i = 0; !row && i < n; i++) {
    values[i] = load(view.data, t->dtype, offset);
    offset = advance(t, index, offset);
  }
  return view_close(t, false, &view);
}

capl_status capl_tensor_item(const capl_tensor *t, double *value)
{
  if (capl_tensor_numel(t) != 1) {
    char text[160];
    return CAPL_FAIL(CAPL_ESHAPE, "item() needs one element, the tensor is %s",
                     capl_tensor_describe(t, text, sizeof text));
  }
  return capl_tensor_to_doubles(t, value);
}

static double value_constant(void *user, int64_t i)
{
  (void)i;
  return *(double *)user;
}

/* t with one index of each broadcast dim: all of its memory, each element once. */
static capl_tensor each_once(const capl_tensor *t)
{
  capl_tensor once = *t;
  for (int d = 0; d < once.ndim; d++)
    if (once.stride[d] == 0 && once.size[d] > 1) once.size[d] = 1;
  return once;
}

capl_status capl_tensor_fill(capl_tensor *t, double value)
{
  CAPL_TRY(watch_fill(t, value));
  if (value == 0 && t->storage && t->storage->data && capl_tensor_is_dense(t)) {
    storage_written(t->storage);
    return t->device->backend->mem_fill(capl_tensor_data(t), 0, capl_tensor_bytes(t));
  }
  capl_tensor once = each_once(t);
  if (t->device->backend->fill && t->storage) {
    storage_written(t->storage);
    return t->device->backend->fill(&once, value);
  }
  return fill_with(&once, value_constant, &value);
}

/* Exact between tensors of one dtype: doubles do not hold every i64. */
static void copy_element(const host_view *to, const capl_tensor *dst, int64_t i, const host_view *from,
                         const capl_tensor *src, int64_t j)
{
  size_t bytes = capl_dtype_size(dst->dtype);
  if (src->dtype != dst->dtype) store(to->data, dst->dtype, i, load(from->data, src->dtype, j));
  else memcpy((char *)to->data + i * (int64_t)bytes, (const char *)from->data + j * (int64_t)bytes, bytes);
}

static void copy_elements(const host_view *to, const capl_tensor *dst, const host_view *from, const capl_tensor *src)
{
  int64_t n = capl_tensor_numel(src);
  if (src->dtype == dst->dtype && capl_tensor_same_layout(src, dst) && capl_tensor_is_dense(src)) {
    if (n > 0) memmove(to->data, from->data, capl_tensor_bytes(src));
    return;
  }
  int64_t i_from[CAPL_MAX_NDIM] = {0}, i_to[CAPL_MAX_NDIM] = {0}, o_from = 0, o_to = 0;
  for (int64_t i = 0; i < n; i++) {
    copy_element(to, dst, o_to, from, src, o_from);
    o_from = advance(src, i_from, o_from);
    o_to = advance(dst, i_to, o_to);
  }
}

static bool same_bytes(const capl_tensor *a, const capl_tensor *b)
{
  return a->dtype == b->dtype && capl_tensor_same_layout(a, b) && capl_tensor_is_dense(a);
}

/* Between a device's memory and the host's, or between two devices: through the host. */
static capl_status copy_across(capl_tensor *dst, const capl_tensor *src)
{
  host_view to, from;
  CAPL_TRY(view_open(src, true, &from));
  if (from.copy == NULL && !dst->device->backend->host_memory && same_bytes(dst, src) && from.bytes)
    return dst->device->backend->copy_in(capl_tensor_data(dst), from.data, from.bytes);
  capl_status status = view_open(dst, !capl_tensor_is_dense(dst), &to);
  if (status == CAPL_OK) {
    copy_elements(&to, dst, &from, src);
    status = view_close(dst, true, &to);
  }
  capl_status closed = view_close(src, false, &from);
  return status != CAPL_OK ? status : closed;
}

static capl_status copy_values(capl_tensor *dst, const capl_tensor *src)
{
  CAPL_TRY(need_values(dst));
  CAPL_TRY(need_values(src));
  if (capl_tensor_numel(src) == 0) return CAPL_OK;
  if (dst->device == src->device && dst->device->backend->copy) return dst->device->backend->copy(dst, src);
  return copy_across(dst, src);
}

capl_status capl_tensor_copy(capl_tensor *dst, const capl_tensor *src)
{
  if (!capl_tensor_same_shape(dst, src)) {
    char a[160], b[160];
    return CAPL_FAIL(CAPL_ESHAPE, "cannot copy %s into %s", capl_tensor_describe(src, a, sizeof a),
                     capl_tensor_describe(dst, b, sizeof b));
  }
  if (!dst->device->backend->arithmetic || !src->device->backend->arithmetic) return CAPL_OK;
  CAPL_TRY(watch_copy(dst, src));
  storage_written(dst->storage);
  return copy_values(dst, src);
}

/* Sizes are alike; the write of dst is noted by the watch. */
static capl_status begin_copy(capl_tensor *dst, const capl_tensor *src)
{
  CAPL_TRY(src ? watch_copy(dst, src) : watch_fill(dst, 0));
  if (dst->storage) dst->storage->version++;
  return CAPL_OK;
}

capl_status capl_tensor_copy_many(capl_tensor *const *dst, capl_tensor *const *src, int n)
{
  const capl_backend *backend = n > 0 ? dst[0]->device->backend : NULL;
  if (!backend || !backend->arithmetic) return CAPL_OK;
  if (backend->copy_many) {
    for (int i = 0; i < n; i++) CAPL_TRY(begin_copy(dst[i], src[i]));
    return backend->copy_many(dst, src, n);
  }
  for (int i = 0; i < n; i++) CAPL_TRY(src[i] ? capl_tensor_copy(dst[i], src[i]) : capl_tensor_fill(dst[i], 0));
  return CAPL_OK;
}

capl_status capl_tensor_to(const capl_tensor *t, capl_device *device, capl_tensor **out)
{
  capl_tensor as_there = *t;
  as_there.device = device;
  if (capl_tensor_is_dense(t)) CAPL_TRY(capl_tensor_new_like(&as_there, out));
  else CAPL_TRY(capl_tensor_new(device, t->dtype, t->ndim, t->size, CAPL_AUTO, out));
  capl_status status = capl_tensor_copy(*out, t);
  if (status == CAPL_OK) return CAPL_OK;
  capl_tensor_unref(*out);
  *out = NULL;
  return status;
}

capl_status capl_tensor_on_host(capl_tensor *t, capl_tensor **out)
{
  capl_device *host;
  CAPL_TRY(need_values(t));
  if (t->device->backend->host_memory) {
    *out = capl_tensor_ref(t);
    return t->device->backend->sync ? t->device->backend->sync() : CAPL_OK;
  }
  CAPL_TRY(capl_device_open("ref", &host));
  return capl_tensor_to(t, host, out);
}

typedef struct {
  capl_rng rng;
  double base, span;
} stream;

static double value_uniform(void *user, int64_t i)
{
  stream *s = user;
  (void)i;
  return s->base + s->span * capl_rng_float(&s->rng);
}

static double value_normal(void *user, int64_t i)
{
  stream *s = user;
  (void)i;
  return s->base + s->span * capl_rng_normal(&s->rng);
}

capl_status capl_tensor_fill_uniform(capl_tensor *t, double lo, double hi, uint64_t seed, uint32_t a, uint32_t b,
                                     uint32_t c)
{
  stream s = {.base = lo, .span = hi - lo};
  capl_rng_init(&s.rng, seed, a, b, c);
  CAPL_TRY(watch_write(t));
  return fill_with(t, value_uniform, &s);
}

capl_status capl_tensor_fill_normal(capl_tensor *t, double mean, double std, uint64_t seed, uint32_t a, uint32_t b,
                                    uint32_t c)
{
  stream s = {.base = mean, .span = std};
  capl_rng_init(&s.rng, seed, a, b, c);
  CAPL_TRY(watch_write(t));
  return fill_with(t, value_normal, &s);
}

double value_load(const void *p, capl_dtype dtype)
{
  return load(p, dtype, 0);
}
