/* reduce.c -- sums, means and largest values over any dims, and argmax: how the work is divided.
**
** x's dims are sorted by memory. If the innermost is folded, a team of threads runs along it for each element of y
** (rows); if it is kept, threads run along it side by side and across the folded dims (columns). Where that gives too
** few threads, the folded elements are cut into splits and a second kernel folds their results.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/reduce.h"

#include "backend/cuda/loop.h"
#include "ops/rules.h"


enum {
  STEPS_EACH = 4, /* that a thread should have at least */
  FEW_STEPS = 8,  /* columns no longer than that are left to single threads, which read side by side as well */
};

/* x cut down to the dims that are kept, and y seen with x's dims; x cut down to those that are folded. */
typedef struct {
  capl_tensor x, y, over;
} split_dims;

static capl_status split_tensors(const capl_call *call, const capl_attr *dims, split_dims *out)
{
  const capl_tensor *x = call->in[0], *y = call->out[0];
  bool folded[CAPL_MAX_NDIM] = {false};
  for (int i = 0; i < dims->n; i++) {
    int d;
    CAPL_TRY(normalize_dim(dims->v[i], x->ndim, &d));
    folded[d] = true;
  }
  *out = (split_dims){*x, *x, *x};
  out->y.dtype = y->dtype;
  for (int d = 0, from = 0; d < x->ndim; d++) {
    bool gone = folded[d] || dims->n == 0;
    if (gone) out->x.size[d] = out->y.size[d] = 1;
    else out->over.size[d] = 1;
    out->y.stride[d] = gone ? 0 : y->stride[from];
    if (!gone || y->ndim == x->ndim) from++;
  }
  return CAPL_OK;
}

/* Whether x can be read `width` neighbours at a time along dim `along` of one loop. */
static bool vectors_fit(const reduce_args *a, const cu_loop *along, int width, size_t bytes)
{
  int last = along->ndim - 1;
  if (along->stride[0][last] != 1 || along->size[last] % width != 0 || (uintptr_t)a->x % (width * bytes) != 0)
    return false;
  for (int d = 0; d < a->kept.ndim; d++)
    if ((&a->kept != along || d != last) && a->kept.stride[0][d] % width != 0) return false;
  for (int d = 0; d < a->over.ndim; d++)
    if ((&a->over != along || d != last) && a->over.stride[0][d] % width != 0) return false;
  return true;
}

static int64_t divide_up(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* As many splits as it takes to keep the GPU busy, with enough to do in each. items: teams without splits. */
static void choose_splits(reduce_args *a, int64_t items)
{
  int64_t groups = CU_TEAM_THREADS / (a->team.width * a->team.depth);
  int64_t wanted = (int64_t)cu.multiprocessors * 8 * groups / (items > 0 ? items : 1);
  int64_t most = a->over.total / (a->team.depth * STEPS_EACH);
  a->splits = wanted < most ? wanted : most;
  if (a->splits < 1) a->splits = 1;
  a->chunk = divide_up(a->over.total, a->splits);
  if (a->chunk > 0) a->splits = divide_up(a->over.total, a->chunk);
}

/* Which kernels a call takes, by number in the table. */
typedef struct {
  int rows, columns, parts; /* SUM_ROWS, ... */
  int vector;               /* elements in the vectors of the kernels 3 further, 1 = there are none */
} reduce_kernels;

/* What is decided: the kernel and the number of its teams. */
typedef struct {
  int kernel;
  int64_t teams;
} reduce_plan;

static capl_status launch(reduce_plan plan, const reduce_args *a)
{
  int64_t threads = plan.teams * a->team.width * a->team.depth;
  return cu_launch(cu_reduce_table[plan.kernel], cu_blocks(threads, CU_TEAM_THREADS), CU_TEAM_THREADS, 0, a);
}

static reduce_plan plan_rows(reduce_args *a, const reduce_kernels *k, size_t bytes)
{
  bool wide = k->vector > 1 && vectors_fit(a, &a->over, k->vector, bytes);
  if (wide) {
    int last = a->over.ndim - 1;
    a->over.size[last] /= k->vector;
    a->over.stride[0][last] = k->vector;
    loop_finish(&a->over);
  }
  a->team = (cu_team){1, cu_power_of_2(divide_up(a->over.total, STEPS_EACH), CU_TEAM_THREADS)};
  choose_splits(a, a->kept.total);
  return (reduce_plan){k->rows + (wide ? CU_TYPES : 0), a->kept.total * a->splits};
}

/* Takes the innermost kept dim out of the loop. */
static void take_columns(reduce_args *a)
{
  int last = a->kept.ndim - 1;
  a->columns = a->kept.size[last];
  a->x_column = a->kept.stride[0][last];
  a->y_column = a->kept.stride[1][last];
  if (last == 0) {
    a->kept.size[0] = 1;
    a->kept.stride[0][0] = a->kept.stride[1][0] = 0;
  } else {
    a->kept.ndim--;
  }
  loop_finish(&a->kept);
}

static reduce_plan plan_columns(reduce_args *a, const reduce_kernels *k, size_t bytes)
{
  int width = k->vector > 1 && vectors_fit(a, &a->kept, k->vector, bytes) ? k->vector : 1;
  take_columns(a);
  a->team.width = cu_power_of_2(divide_up(a->columns, width), CU_TEAM_WIDTH);
  a->team.depth = cu_power_of_2(divide_up(a->over.total, STEPS_EACH), CU_TEAM_THREADS / a->team.width);
  a->tiles = divide_up(a->columns, (int64_t)a->team.width * width);
  choose_splits(a, a->kept.total * a->tiles);
  return (reduce_plan){k->columns + (width > 1 ? CU_TYPES : 0), a->kept.total * a->tiles * a->splits};
}

/* Whether x runs along the kept dims in memory. */
static bool runs_along_kept(const reduce_args *a)
{
  if (a->kept.total == 1 || a->over.total <= FEW_STEPS) return false;
  return a->kept.stride[0][a->kept.ndim - 1] < a->over.stride[0][a->over.ndim - 1];
}

/* The one kernel, or the two with room for the parts between them. kept: all outputs. */
static capl_status run(capl_device *device, reduce_plan plan, reduce_args *a, const cu_loop *kept, int parts)
{
  if (a->splits == 1) return launch(plan, a);
  CAPL_TRY(capl_scratch_get(device, (size_t)(kept->total * a->splits) * REDUCE_PART, &a->parts));
  capl_status status = launch(plan, a);
  a->kept = *kept;
  a->team = (cu_team){1, cu_power_of_2(a->splits, 32)};
  if (status == CAPL_OK) status = launch((reduce_plan){parts, kept->total}, a);
  capl_scratch_put(device, a->parts);
  return status;
}

/* Folds what kept and over say, by the kernels k. */
static capl_status reduce_loops(capl_device *device, reduce_args *a, const reduce_kernels *k)
{
  cu_loop kept = a->kept;
  size_t bytes = capl_dtype_size((capl_dtype)a->from);
  a->count = a->over.total;
  reduce_plan plan = runs_along_kept(a) ? plan_columns(a, k, bytes) : plan_rows(a, k, bytes);
  return run(device, plan, a, &kept, k->parts);
}

static capl_status reduce(const capl_call *call, const capl_attr *dims, reduce_op op, const reduce_kernels *k)
{
  split_dims t;
  const capl_tensor *x = call->in[0], *y = call->out[0];
  reduce_args a = {.op = op, .x = capl_tensor_data(x), .y = capl_tensor_data(y), .from = x->dtype, .to = y->dtype};
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  CAPL_TRY(split_tensors(call, dims, &t));
  loop_init(&a.kept, 2, (const capl_tensor *[]){&t.x, &t.y});
  loop_init(&a.over, 1, (const capl_tensor *[]){&t.over});
  return reduce_loops(call->device, &a, k);
}

static reduce_kernels fold_kernels(reduce_op op, capl_dtype dtype)
{
  cu_type type = cu_type_of(dtype);
  bool max = op == REDUCE_MAX;
  if (type == CU_TYPES)
    return max ? (reduce_kernels){MAX_ROWS_WHOLE, MAX_COLUMNS_WHOLE, MAX_PARTS_WHOLE, 1}
               : (reduce_kernels){SUM_ROWS_WHOLE, SUM_COLUMNS_WHOLE, SUM_PARTS_WHOLE, 1};
  int vector = 16 / (int)capl_dtype_size(dtype);
  return max ? (reduce_kernels){MAX_ROWS + (int)type, MAX_COLUMNS + (int)type, MAX_PARTS, vector}
             : (reduce_kernels){SUM_ROWS + (int)type, SUM_COLUMNS + (int)type, SUM_PARTS, vector};
}

capl_status cu_column_sums(capl_device *device, capl_dtype dtype, const void *x, int64_t rows, int64_t columns,
                           float *sums)
{
  reduce_kernels k = fold_kernels(REDUCE_SUM, dtype);
  reduce_args a = {.op = REDUCE_SUM, .x = x, .y = sums, .from = dtype, .to = CAPL_F32};
  if (columns == 0) return CAPL_OK;
  a.kept = (cu_loop){.ndim = 1, .size = {columns}, .stride = {{1}, {1}}};
  a.over = (cu_loop){.ndim = 1, .size = {rows}, .stride = {{columns}}};
  loop_finish(&a.kept);
  loop_finish(&a.over);
  return reduce_loops(device, &a, &k);
}

#define REDUCE_KERNEL(op, which)                                        \
  static capl_status cu_##op(const capl_call *call)                     \
  {                                                                     \
    reduce_kernels k = fold_kernels(which, call->in[0]->dtype);              \
    return reduce(call, &call->attr[AT(sum, dims)], which, &k);                  \
  }
REDUCE_KERNEL(sum, REDUCE_SUM)
REDUCE_KERNEL(mean, REDUCE_MEAN)
REDUCE_KERNEL(amax, REDUCE_MAX)

/* dim, keepdim */
static capl_status cu_argmax(const capl_call *call)
{
  cu_type type = cu_type_of(call->in[0]->dtype);
  capl_attr dims = {.n = 1, .v = {call->attr[AT(argmax, dim)].i}};
  reduce_kernels k = type == CU_TYPES
                       ? (reduce_kernels){ARGMAX_ROWS_WHOLE, ARGMAX_COLUMNS_WHOLE, ARGMAX_PARTS_WHOLE, 1}
                       : (reduce_kernels){ARGMAX_ROWS + (int)type, ARGMAX_COLUMNS + (int)type, ARGMAX_PARTS, 1};
  return reduce(call, &dims, REDUCE_MAX, &k);
}

static bool supports_reduce(const capl_call *call)
{
  return call->in[0]->dtype != CAPL_F64;
}

const capl_kernel cu_reduce_kernels[] = {
  {CAPL_OP_sum, cu_sum, supports_reduce, 0},
  {CAPL_OP_mean, cu_mean, supports_reduce, CU_REAL},
  {CAPL_OP_amax, cu_amax, supports_reduce, 0},
  {CAPL_OP_argmax, cu_argmax, supports_reduce, 0},
  {0},
};
