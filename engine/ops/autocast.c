/* autocast.c -- casting the inputs of a call as its op's amp class asks.
**
** Under autocast a weight would be cast anew by every op that reads it: its shadow (shadow.h) keeps the numbers, and
** the cast as the tape knows it is kept until autocast ends or the leaf is written.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/autocast.h"

#include <string.h>

#include "ops/attrs.h"
#include "ops/shadow.h"
#include "tape/tape.h"
#include "tensor/storage.h"

enum { CACHE = 512 }; /* leaves remembered, direct-mapped */

typedef struct {
  capl_tensor *leaf, *cast;
  uint64_t version;
  bool recorded;
} cached_cast;

static _Thread_local capl_dtype low = CAPL_F32;
static _Thread_local cached_cast cache[CACHE];
static _Thread_local bool cache_used;

static void forget(cached_cast *c)
{
  capl_tensor_unref(c->leaf);
  capl_tensor_unref(c->cast);
  memset(c, 0, sizeof *c);
}

capl_dtype capl_autocast_set(capl_dtype dtype)
{
  capl_dtype before = low;
  low = dtype;
  if (cache_used)
    for (int k = 0; k < CACHE; k++) forget(&cache[k]);
  cache_used = false;
  return before;
}

capl_dtype capl_autocast_get(void)
{
  return low;
}

static capl_status cast_fresh(capl_tensor *t, capl_dtype dtype, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(dtype)};
  return capl_op_call(CAPL_OP_cast, &t, 1, attr, out);
}

/* The cast of a leaf: recorded as any other, but run only where its shadow is stale. */
static capl_status cast_leaf(capl_tensor *t, capl_dtype dtype, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(dtype)};
  CAPL_TRY(shadow_get(t, dtype, out));
  if (!*out) return cast_fresh(t, dtype, out);
  capl_call call = {.op = capl_op_get(CAPL_OP_cast), .in = &t, .n_in = 1, .out = out, .attr = attr, .id = CAPL_OP_cast,
                    .device = t->device};
  capl_status status = tape_wants(call.op, call.in, 1) ? tape_record(&call, call.in) : CAPL_OK;
  if (status == CAPL_OK) return CAPL_OK;
  capl_tensor_unref(*out);
  *out = NULL;
  return status;
}

static capl_status cast_to(capl_tensor *t, capl_dtype dtype, capl_tensor **out)
{
  if (t->dtype == dtype) return *out = capl_tensor_ref(t), CAPL_OK;
  if (t->node || low == CAPL_F32) return cast_fresh(t, dtype, out);
  if (!t->requires_grad) return cast_leaf(t, dtype, out);
  cached_cast *c = &cache[((uintptr_t)t / sizeof *t) % CACHE];
  bool hit = c->leaf == t && c->cast->dtype == dtype && c->version == t->storage->version &&
             c->recorded == capl_grad_enabled();
  if (!hit) {
    CAPL_TRY(cast_leaf(t, dtype, out));
    forget(c);
    *c = (cached_cast){capl_tensor_ref(t), *out, t->storage->version, capl_grad_enabled()};
    cache_used = true;
  }
  *out = capl_tensor_ref(c->cast);
  return CAPL_OK;
}

static bool is_16_bit(capl_dtype d)
{
  return d == CAPL_BF16 || d == CAPL_F16;
}

/* The type both can be held in. Floats win over integers, wider over narrower. */
static capl_dtype wider(capl_dtype a, capl_dtype b)
{
  if (a == b) return a;
  bool fa = capl_dtype_is_float(a), fb = capl_dtype_is_float(b);
  if (fa != fb) return fa ? a : b;
  if (fa && is_16_bit(a) && is_16_bit(b)) return CAPL_F32;
  if (a == CAPL_BOOL) return b;
  if (b == CAPL_BOOL) return a;
  return capl_dtype_size(a) >= capl_dtype_size(b) ? a : b;
}

static bool has_bit(uint32_t bits, int i)
{
  return i < 32 && (bits >> i & 1u);
}

/* bool before integers before floats; CAPL_DTYPE_COUNT, nothing yet, before all. */
static int kind_of(capl_dtype d)
{
  return d == CAPL_DTYPE_COUNT ? -1 : d == CAPL_BOOL ? 0 : capl_dtype_is_float(d) ? 2 : 1;
}

/* As in PyTorch, a tensor without dims counts only where its kind is higher: f32 times a single f64 is f32. */
static capl_dtype widest_of(const capl_op *op, capl_tensor *const *in, int n_in)
{
  capl_dtype widest[2] = {CAPL_DTYPE_COUNT, CAPL_DTYPE_COUNT}; /* of those without dims, of those with */
  for (int i = 0; i < n_in; i++) {
    if (!in[i] || has_bit(op->mask_in, i)) continue;
    capl_dtype *w = &widest[in[i]->ndim > 0];
    *w = *w == CAPL_DTYPE_COUNT ? in[i]->dtype : wider(*w, in[i]->dtype);
  }
  return widest[kind_of(widest[0]) <= kind_of(widest[1])];
}

/* Whether the device's kernel of op reads t's 16 bits as f32. */
static bool kernel_casts(const capl_op *op, const capl_tensor *t, int i)
{
  if (!has_bit(op->kernel_casts, i)) return false;
  const capl_kernel *k = t->device->kernels[capl_op_id_of(op)];
  return k && k->dtypes & CAPL_BIT(t->dtype);
}

/* dtype input i is wanted in. */
static capl_dtype wanted(const capl_op *op, capl_dtype widest, const capl_tensor *t, int i)
{
  switch (op->amp) {
  case CAPL_AMP_LOW: {
    bool castable = has_bit(op->low_in, i) && low != CAPL_F32 && (t->dtype == CAPL_F32 || is_16_bit(t->dtype));
    return castable ? low : t->dtype;
  }
  case CAPL_AMP_F32: return is_16_bit(t->dtype) && !kernel_casts(op, t, i) ? CAPL_F32 : t->dtype;
  case CAPL_AMP_WIDEST: return has_bit(op->mask_in, i) ? t->dtype : widest;
  default: return t->dtype;
  }
}

capl_dtype autocast_dtype(const capl_op *op, capl_tensor *const *in, int n_in, int i)
{
  if (op->amp == CAPL_AMP_KEEP) return in[i]->dtype;
  return wanted(op, op->amp == CAPL_AMP_WIDEST ? widest_of(op, in, n_in) : CAPL_F32, in[i], i);
}

capl_status autocast_inputs(const capl_op *op, capl_tensor *const *in, int n_in, capl_tensor **cast)
{
  capl_dtype widest = op->amp == CAPL_AMP_WIDEST ? widest_of(op, in, n_in) : CAPL_F32;
  for (int i = 0; i < n_in; i++) {
    if (!in[i]) continue;
    capl_dtype dtype = op->amp == CAPL_AMP_KEEP ? in[i]->dtype : wanted(op, widest, in[i], i);
    CAPL_TRY(cast_to(in[i], dtype, &cast[i]));
  }
  return CAPL_OK;
}
