/* reduce.c -- ref kernels of sums, means and extremes.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"
#include "ops/rules.h"

/* Two walks make a reduction: `kept` over the elements of y, and for each of them `over` over the
** elements of x that it is made of. Both are x with the other's dims cut down to size 1. */
typedef struct {
  capl_tensor kept, over;
} split;

static split split_dims(const capl_tensor *x, const capl_attr *dims)
{
  split s = {.kept = *x, .over = *x};
  bool reduced[CAPL_MAX_NDIM] = {false};
  for (int i = 0; i < dims->n; i++) reduced[dims->v[i] < 0 ? dims->v[i] + x->ndim : dims->v[i]] = true;
  for (int d = 0; d < x->ndim; d++) {
    if (reduced[d] || dims->n == 0) s.kept.size[d] = 1;
    else s.over.size[d] = 1;
  }
  return s;
}

/* y seen with the ndim of x, reduced dims put back with size 1. */
static capl_tensor with_kept_dims(const capl_tensor *y, const split *s, const capl_attr *dims)
{
  capl_tensor full = s->kept;
  int from = 0;
  for (int d = 0; d < full.ndim; d++) {
    bool reduced = dims->n == 0;
    for (int i = 0; i < dims->n; i++) reduced |= (dims->v[i] < 0 ? dims->v[i] + full.ndim : dims->v[i]) == d;
    full.stride[d] = reduced ? 0 : y->stride[from];
    if (!reduced || y->ndim == full.ndim) from++;
  }
  return full;
}

/* What a reduction makes of the elements of x at base + (offsets of over), into y at `at`. */
typedef void (*fold_fn)(capl_tensor *y, int64_t at, const capl_tensor *x, int64_t base, const capl_tensor *over);

static capl_status reduce(const capl_call *call, const capl_attr *dims, fold_fn fold)
{
  const capl_tensor *x = call->in[0];
  split s = split_dims(x, dims);
  capl_tensor y = with_kept_dims(call->out[0], &s, dims);
  ref_walk w;
  for (REF_WALK(&w, &s.kept, &y); w.more; ref_walk_next(&w)) fold(call->out[0], w.at[1], x, w.at[0], &s.over);
  return CAPL_OK;
}

static double sum_over(const capl_tensor *x, int64_t base, const capl_tensor *over)
{
  double sum = 0;
  ref_walk w;
  for (REF_WALK(&w, over); w.more; ref_walk_next(&w)) sum += ref_get(x, base + w.at[0]);
  return sum;
}

static void fold_sum(capl_tensor *y, int64_t at, const capl_tensor *x, int64_t base, const capl_tensor *over)
{
  uint64_t whole = 0; /* wraps around where int64_t would be undefined */
  ref_walk w;
  if (capl_dtype_is_float(x->dtype)) {
    ref_set(y, at, sum_over(x, base, over));
    return;
  }
  for (REF_WALK(&w, over); w.more; ref_walk_next(&w)) whole += (uint64_t)ref_get_int(x, base + w.at[0]);
  ref_set_int(y, at, (int64_t)whole);
}

static void fold_mean(capl_tensor *y, int64_t at, const capl_tensor *x, int64_t base, const capl_tensor *over)
{
  ref_set(y, at, sum_over(x, base, over) / (double)capl_tensor_numel(over));
}

/* Whether candidate beats best: NaN beats numbers, equals do not beat. */
static bool beats(const capl_tensor *x, int64_t candidate, int64_t best)
{
  if (!capl_dtype_is_float(x->dtype)) return ref_get_int(x, candidate) > ref_get_int(x, best);
  double a = ref_get(x, candidate), b = ref_get(x, best);
  return a > b || (isnan(a) && !isnan(b));
}

/* Element offset of the first maximum, and its number in walking order. */
static int64_t find_max(const capl_tensor *x, int64_t base, const capl_tensor *over, int64_t *number)
{
  int64_t best = base;
  *number = 0;
  ref_walk w;
  for (REF_WALK(&w, over); w.more; ref_walk_next(&w)) {
    if (!beats(x, base + w.at[0], best)) continue;
    best = base + w.at[0];
    *number = w.count;
  }
  return best;
}

static void fold_amax(capl_tensor *y, int64_t at, const capl_tensor *x, int64_t base, const capl_tensor *over)
{
  int64_t number;
  ref_move(y, at, x, find_max(x, base, over, &number));
}

static void fold_argmax(capl_tensor *y, int64_t at, const capl_tensor *x, int64_t base, const capl_tensor *over)
{
  int64_t number;
  find_max(x, base, over, &number);
  ref_set_int(y, at, number);
}

static capl_status ref_sum(const capl_call *call)
{
  return reduce(call, &call->attr[AT(sum, dims)], fold_sum);
}

static capl_status ref_mean(const capl_call *call)
{
  return reduce(call, &call->attr[AT(mean, dims)], fold_mean);
}

static capl_status ref_amax(const capl_call *call)
{
  return reduce(call, &call->attr[AT(amax, dims)], fold_amax);
}

static capl_status ref_argmax(const capl_call *call)
{
  capl_attr dims = {.n = 1, .v = {call->attr[AT(argmax, dim)].i}};
  return reduce(call, &dims, fold_argmax);
}

/* Numbers as integers of the same order; NaN last, the zeros equal. */
static int64_t sort_key(const capl_tensor *x, int64_t at, bool descending)
{
  int64_t key;
  if (!capl_dtype_is_float(x->dtype)) key = ref_get_int(x, at);
  else {
    double v = ref_get(x, at) + 0.0;
    memcpy(&key, &v, sizeof key);
    if (key < 0) key ^= INT64_MAX;
    if (isnan(v)) key = INT64_MAX;
  }
  return descending ? ~key : key;
}

/* The element at place k goes behind all that are before it: n comparisons for each. */
static void fold_argsort(capl_tensor *y, int64_t at, const capl_tensor *x, int64_t base, int dim, bool descending)
{
  for (int64_t k = 0, n = x->size[dim]; k < n; k++) {
    int64_t mine = sort_key(x, base + k * x->stride[dim], descending), rank = 0;
    for (int64_t j = 0; j < n; j++) {
      int64_t other = sort_key(x, base + j * x->stride[dim], descending);
      rank += other < mine || (other == mine && j < k);
    }
    ref_set_int(y, at + rank * y->stride[dim], k);
  }
}

static capl_status ref_argsort(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  capl_tensor *y = call->out[0], first_x = *x, first_y = *y;
  int dim;
  ref_walk w;
  CAPL_TRY(normalize_dim(call->attr[AT(argsort, dim)].i, x->ndim, &dim));
  if (capl_tensor_numel(x) == 0) return CAPL_OK;
  first_x.size[dim] = first_y.size[dim] = 1;
  for (REF_WALK(&w, &first_y, &first_x); w.more; ref_walk_next(&w))
    fold_argsort(y, w.at[0], x, w.at[1], dim, call->attr[AT(argsort, descending)].i);
  return CAPL_OK;
}

const capl_kernel ref_reduce_kernels[] = {
  {CAPL_OP_sum, ref_sum, ref_supports_any, 0},
  {CAPL_OP_mean, ref_mean, ref_supports_any, 0},
  {CAPL_OP_amax, ref_amax, ref_supports_any, 0},
  {CAPL_OP_argmax, ref_argmax, ref_supports_any, 0},
  {CAPL_OP_argsort, ref_argsort, ref_supports_any, 0},
  {0},
};
