/* rules.c -- building blocks for shape rules and gradient rules.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/rules.h"

#include <string.h>

enum { TEXT = 96 };

/* specs */

void spec_set(capl_out_spec *out, capl_dtype dtype, int ndim, const int64_t *size)
{
  *out = (capl_out_spec){.dtype = dtype, .ndim = ndim};
  if (ndim > 0) memcpy(out->size, size, (size_t)ndim * sizeof *size);
}

void spec_like(capl_out_spec *out, const capl_tensor *t)
{
  spec_set(out, t->dtype, t->ndim, t->size);
  out->like = t;
}

capl_status rule_like_first(const capl_call *call, capl_out_spec *out)
{
  spec_like(out, call->in[0]);
  return CAPL_OK;
}

/* broadcasting */

capl_dtype promote(capl_dtype a, capl_dtype b)
{
  static const int rank[CAPL_DTYPE_COUNT] = {
    [CAPL_BOOL] = 0, [CAPL_U8] = 1,   [CAPL_I32] = 2, [CAPL_I64] = 3,
    [CAPL_F16] = 4,  [CAPL_BF16] = 4, [CAPL_F32] = 5, [CAPL_F64] = 6,
  };
  if (a != b && rank[a] == rank[b]) return CAPL_F32; /* f16 and bf16 hold neither the other */
  return rank[a] >= rank[b] ? a : b;
}

static capl_status fail_broadcast(const capl_tensor *a, const capl_out_spec *so_far)
{
  char left[TEXT], right[TEXT];
  return CAPL_FAIL(CAPL_ESHAPE, "sizes %s and %s cannot be broadcast: every dim must be equal or 1, from the last on",
                   capl_shape_describe(so_far->ndim, so_far->size, left, sizeof left),
                   capl_shape_describe(a->ndim, a->size, right, sizeof right));
}

/* Widens so_far by one more input, trailing dims aligned. */
static capl_status broadcast_with(capl_out_spec *so_far, const capl_tensor *t)
{
  capl_out_spec wide = *so_far;
  wide.ndim = t->ndim > so_far->ndim ? t->ndim : so_far->ndim;
  for (int d = 1; d <= wide.ndim; d++) { /* counted from the last dim */
    int64_t a = d <= so_far->ndim ? so_far->size[so_far->ndim - d] : 1;
    int64_t b = d <= t->ndim ? t->size[t->ndim - d] : 1;
    if (a != b && a != 1 && b != 1) return fail_broadcast(t, so_far);
    wide.size[wide.ndim - d] = a == 1 ? b : a;
  }
  *so_far = wide;
  return CAPL_OK;
}

static bool spec_has_sizes_of(const capl_out_spec *out, const capl_tensor *t)
{
  return out->ndim == t->ndim && memcmp(out->size, t->size, (size_t)t->ndim * sizeof *t->size) == 0;
}

capl_status broadcast_sizes(const capl_call *call, capl_out_spec *out)
{
  spec_set(out, call->in[0]->dtype, call->in[0]->ndim, call->in[0]->size);
  for (int i = 1; i < call->n_in; i++) CAPL_TRY(broadcast_with(out, call->in[i]));
  for (int i = 0; i < call->n_in && !out->like; i++)
    if (spec_has_sizes_of(out, call->in[i]) && capl_tensor_is_dense(call->in[i])) out->like = call->in[i];
  return CAPL_OK;
}

capl_status rule_broadcast(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(broadcast_sizes(call, out));
  for (int i = 1; i < call->n_in; i++) out->dtype = promote(out->dtype, call->in[i]->dtype);
  return CAPL_OK;
}

/* checks */

capl_status need_ndim(const capl_tensor *t, const char *name, int ndim)
{
  char shape[TEXT];
  if (t->ndim == ndim) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "%s must have %d dims, it has %d: %s", name, ndim, t->ndim,
                   capl_shape_describe(t->ndim, t->size, shape, sizeof shape));
}

capl_status need_float(const capl_tensor *t, const char *name)
{
  if (capl_dtype_is_float(t->dtype)) return CAPL_OK;
  CAPL_FAIL(CAPL_EDTYPE, "%s must be floating point, it is %s", name, capl_dtype_name(t->dtype));
  capl_error_hint("convert it first, e.g. %s:to(\"f32\")", name);
  return CAPL_EDTYPE;
}

capl_status need_dtype(const capl_tensor *t, const char *name, capl_dtype dtype)
{
  if (t->dtype == dtype) return CAPL_OK;
  return CAPL_FAIL(CAPL_EDTYPE, "%s must be %s, it is %s", name, capl_dtype_name(dtype), capl_dtype_name(t->dtype));
}

/* What helps where 16 bits meet f32 in a forward pass; gradients are not the caller's to convert. */
static void hint_autocast(const capl_tensor *a, const char *a_name, const capl_tensor *b)
{
  capl_dtype low = a->dtype == CAPL_F32 ? b->dtype : a->dtype;
  bool mixed = (a->dtype == CAPL_F32 || b->dtype == CAPL_F32) && (low == CAPL_BF16 || low == CAPL_F16);
  if (!mixed || a_name[0] == 'd') return;
  capl_error_hint("call the model inside capl.autocast(\"%s\", function() … end), or convert: %s:to(\"%s\"); "
                  "a loader's images are f32 unless its dtype says otherwise",
                  low == CAPL_BF16 ? "bf16" : "fp16", a_name, capl_dtype_name(b->dtype));
}

capl_status need_same_dtype(const capl_tensor *a, const char *a_name, const capl_tensor *b, const char *b_name)
{
  if (a->dtype == b->dtype) return CAPL_OK;
  CAPL_FAIL(CAPL_EDTYPE, "%s is %s, %s is %s: they must be the same", a_name, capl_dtype_name(a->dtype), b_name,
            capl_dtype_name(b->dtype));
  hint_autocast(a, a_name, b);
  return CAPL_EDTYPE;
}

capl_status need_same_shape(const capl_tensor *a, const char *a_name, const capl_tensor *b, const char *b_name)
{
  char left[TEXT], right[TEXT];
  if (capl_tensor_same_shape(a, b)) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "%s is %s, %s is %s: they must have the same shape", a_name,
                   capl_shape_describe(a->ndim, a->size, left, sizeof left), b_name,
                   capl_shape_describe(b->ndim, b->size, right, sizeof right));
}

capl_status need_vector(const capl_tensor *t, const char *name, int64_t n, const char *what)
{
  char shape[TEXT];
  if (t->ndim == 1 && t->size[0] == n) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "%s must be (%lld), one per %s; it is %s", name, (long long)n, what,
                   capl_shape_describe(t->ndim, t->size, shape, sizeof shape));
}

capl_status normalize_dim(int64_t dim, int ndim, int *out)
{
  if (dim >= -ndim && dim < ndim) {
    *out = (int)(dim < 0 ? dim + ndim : dim);
    return CAPL_OK;
  }
  if (ndim == 0) return CAPL_FAIL(CAPL_EVALUE, "dim %lld of a scalar, which has no dims", (long long)capl_counted(dim));
  return CAPL_FAIL(CAPL_EVALUE, "dim %lld is outside %d..%d of a tensor with %d dims", (long long)capl_counted(dim),
                   (int)capl_counted(0), (int)capl_counted(ndim - 1), ndim);
}

/* gradients */

capl_status grad_call(capl_op_id id, int n_in, capl_tensor *const *in, const capl_attr *attr, capl_tensor **out)
{
  return capl_op_call(id, in, n_in, attr, out);
}

capl_status grad_affine(capl_tensor *x, double scale, double shift, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(affine, scale)] = CAPL_A_REAL(scale), [AT(affine, shift)] = CAPL_A_REAL(shift)};
  return GRAD_CALL(CAPL_OP_affine, attr, out, x);
}

static capl_status grad_reshape(capl_tensor *x, int ndim, const int64_t *size, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(reshape, size)] = {.n = ndim}};
  if (ndim > 0) memcpy(attr[AT(reshape, size)].v, size, (size_t)ndim * sizeof *size);
  return GRAD_CALL(CAPL_OP_reshape, attr, out, x);
}

/* The dims of dy along which an input of like's shape was repeated. */
static capl_attr broadcast_dims(const capl_tensor *dy, const capl_tensor *like)
{
  capl_attr dims = {0};
  int lead = dy->ndim - like->ndim;
  for (int d = 0; d < dy->ndim; d++)
    if (d < lead || (like->size[d - lead] == 1 && dy->size[d] != 1)) dims.v[dims.n++] = d;
  return dims;
}

capl_status grad_unbroadcast(capl_tensor *dy, const capl_tensor *like, capl_tensor **out)
{
  TEMP capl_tensor *sum = NULL;
  if (capl_tensor_same_shape(dy, like)) {
    *out = capl_tensor_ref(dy);
    return CAPL_OK;
  }
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(sum, dims)] = broadcast_dims(dy, like), [AT(sum, keepdim)] = CAPL_A_INT(true)};
  CAPL_TRY(GRAD_CALL(CAPL_OP_sum, attr, &sum, dy));
  return grad_reshape(sum, like->ndim, like->size, out);
}

capl_status grad_expand_reduced(capl_tensor *dy, const capl_tensor *x, const capl_attr *dims, capl_tensor **out)
{
  TEMP capl_tensor *kept = NULL;
  capl_attr size[CAPL_MAX_ATTR] = {[AT(expand, size)] = {.n = x->ndim}};
  memcpy(size[0].v, x->size, sizeof x->size);
  for (int d = 0; d < dims->n; d++) {
    int64_t dim = dims->v[d];
    size[0].v[dim < 0 ? dim + x->ndim : dim] = 1;
  }
  if (dims->n == 0)
    for (int d = 0; d < x->ndim; d++) size[0].v[d] = 1;
  CAPL_TRY(grad_reshape(dy, x->ndim, size[0].v, &kept));
  memcpy(size[0].v, x->size, sizeof x->size);
  return GRAD_CALL(CAPL_OP_expand, size, out, kept);
}

capl_status need_bias_dtype(const capl_tensor *x, const capl_tensor *bias)
{
  bool low = capl_dtype_is_16_bit(x->dtype);
  if (low && bias->dtype == CAPL_F32) return CAPL_OK;
  return need_same_dtype(x, "x", bias, "bias");
}
