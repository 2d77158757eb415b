/* shadow.c -- casts of weights that are kept, and optimizer steps that keep them fresh.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/shadow.h"

#include "capl/backend.h"
#include "ops/attrs.h"
#include "ops/run_kernel.h"

/* All of a storage as one row. */
static capl_tensor row_of(capl_storage *s, capl_dtype dtype)
{
  return (capl_tensor){.refs = 1, .dtype = dtype, .ndim = 1, .size = {(int64_t)(s->bytes / capl_dtype_size(dtype))},
                       .stride = {1}, .device = s->device, .storage = s};
}

/* low is about to be written; until it is, it is stale. */
static void begin_cast(capl_shadow *h)
{
  shadow_forget(h);
  h->low->version++;
}

static void end_cast(capl_shadow *h)
{
  h->version = h->of->version;
  recorded_make(h);
  capl_counter_add(CAPL_COUNT_weight_casts);
}

static capl_status refresh(capl_shadow *h)
{
  capl_tensor from = row_of(h->of, CAPL_F32), to = row_of(h->low, h->dtype), *in = &from, *out = &to;
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(h->dtype)};
  begin_cast(h);
  CAPL_TRY(op_call_into(CAPL_OP_cast, &in, 1, attr, &out));
  end_cast(h);
  return CAPL_OK;
}

/* All of them by the backend at once. */
static capl_status refresh_together(const capl_backend *backend, capl_shadow *const *list, int n)
{
  capl_tensor from[SHADOWS_TOGETHER], to[SHADOWS_TOGETHER];
  capl_tensor *src[SHADOWS_TOGETHER] = {NULL}, *dst[SHADOWS_TOGETHER] = {NULL};
  for (int i = 0; i < n; i++) {
    from[i] = row_of(list[i]->of, CAPL_F32);
    to[i] = row_of(list[i]->low, list[i]->dtype);
    src[i] = &from[i], dst[i] = &to[i];
    begin_cast(list[i]);
  }
  CAPL_TRY(backend->copy_many(dst, src, n));
  for (int i = 0; i < n; i++) end_cast(list[i]);
  return CAPL_OK;
}

capl_status shadows_refresh(capl_shadow *const *list, int n)
{
  const capl_backend *backend = n > 1 ? list[0]->of->device->backend : NULL;
  if (backend && backend->copy_many) return refresh_together(backend, list, n);
  for (int i = 0; i < n; i++) CAPL_TRY(refresh(list[i]));
  return CAPL_OK;
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* A view of all of its storage, each element once, so that the shadow is as large as the cast. */
static bool is_whole(const capl_tensor *t)
{
  return capl_tensor_bytes(t) == t->storage->bytes && capl_tensor_is_dense(t);
}

static bool is_kept(const capl_tensor *t, capl_dtype dtype)
{
  if (t->dtype != CAPL_F32 || !capl_dtype_is_16_bit(dtype) || t->node || !t->storage) return false;
  bool weight = t->requires_grad || (t->storage->shadow && t->storage->shadow->kept);
  return weight && is_whole(t);
}

/* Nodes of the tape and recordings count on what the elements are. */
static bool in_use(const capl_shadow *h)
{
  return h->refs > 1 || h->low->refs > 1;
}

static capl_status keep(capl_storage *s, capl_shadow **out)
{
  *out = shadow_track(s);
  if (!*out) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a weight's shadow");
  (*out)->kept = true;
  return CAPL_OK;
}

static capl_status make_fresh(capl_shadow *h, capl_dtype dtype)
{
  if (!h->low) CAPL_TRY(capl_storage_new(h->of->device, h->of->bytes / 2, &h->low));
  if (shadow_is_fresh(h) && h->dtype == dtype) return recorded_need(h), CAPL_OK;
  h->dtype = dtype;
  return refresh(h);
}

/* A tensor's elements in its shadow; no reference is taken. */
static capl_tensor shell_over(const capl_tensor *t, capl_shadow *h)
{
  capl_tensor low = {.refs = 1, .dtype = h->dtype, .ndim = t->ndim, .offset = t->offset, .device = t->device,
                     .storage = h->low};
  for (int d = 0; d < t->ndim; d++) low.size[d] = t->size[d], low.stride[d] = t->stride[d];
  return low;
}

capl_status shadow_get(capl_tensor *t, capl_dtype dtype, capl_tensor **out)
{
  capl_shadow *h;
  *out = NULL;
  if (!is_kept(t, dtype)) return CAPL_OK;
  CAPL_TRY(keep(t->storage, &h));
  if (h->low && h->dtype != dtype && in_use(h)) return CAPL_OK;
  CAPL_TRY(make_fresh(h, dtype));
  capl_tensor low = shell_over(t, h);
  return capl_tensor_alias(&low, low.ndim, low.size, low.stride, low.offset, out);
}

/* ---- for kernels and owners of weights -------------------------------------------------------- */

capl_status capl_shadow_get(const capl_tensor *t, capl_dtype dtype, capl_tensor **out)
{
  return shadow_get((capl_tensor *)t, dtype, out);
}

bool capl_shadow_of(const capl_tensor *param, capl_tensor *low)
{
  capl_shadow *h = param->storage ? param->storage->shadow : NULL;
  if (!shadow_is_fresh(h)) return false;
  *low = shell_over(param, h);
  return true;
}

capl_status capl_weight_mark(capl_tensor *t)
{
  capl_shadow *h;
  return t->storage ? keep(t->storage, &h) : CAPL_OK;
}

/* ---- optimizer steps -------------------------------------------------------------------------- */

/* The shadow of param i of a step; NULL = none. */
static capl_shadow *shadow_of_param(const capl_call *call, int i)
{
  const capl_tensor *param = call->in[i];
  return param && param->storage ? param->storage->shadow : NULL;
}

static int params_of(const capl_call *call)
{
  return call->op->step_groups ? call->n_in / call->op->step_groups : 0;
}

void shadows_hold(const capl_call *call)
{
  for (int i = 0; i < params_of(call); i++) {
    capl_shadow *h = shadow_of_param(call, i);
    if (!shadow_is_fresh(h)) continue;
    recorded_need(h); /* a step that is skipped leaves it as it is */
    h->held = true;
  }
}

void shadows_follow(const capl_call *call)
{
  for (int i = 0; i < params_of(call); i++) {
    capl_shadow *h = shadow_of_param(call, i);
    if (!h || !h->held) continue;
    h->held = false;
    h->version = h->of->version;
    h->low->version++;
  }
}

void shadows_drop(const capl_call *call)
{
  for (int i = 0; i < params_of(call); i++)
    if (shadow_of_param(call, i)) shadow_forget(shadow_of_param(call, i));
}
