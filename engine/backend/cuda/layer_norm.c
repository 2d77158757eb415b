/* layer_norm.c -- layer norm, RMS norm and group norm: describes the sets of elements to kernels/layer_norm.cu.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/layer_norm.h"

#include "backend/cuda/cuda.h"
#include "ops/attrs.h"

enum { ELEMENTS_EACH = 8 }; /* that a thread should have at least */

/* ---- sets ------------------------------------------------------------------------------------- */

/* x is row-major: rows of the last dims. */
static layer_norm_sets rows_of(const capl_tensor *x, const capl_attr *shape)
{
  layer_norm_sets s = {.count = 1, .spread = 1, .period = 1};
  for (int d = 0; d < shape->n; d++) s.count *= shape->v[d];
  s.run = s.outer = s.params = s.count;
  s.sets = s.count ? capl_tensor_numel(x) / s.count : 0;
  return s;
}

static int64_t pixels_of(const capl_tensor *x)
{
  int64_t n = 1;
  for (int d = 2; d < x->ndim; d++) n *= x->size[d];
  return n;
}

/* 4-d x lies channels-last, others row-major (LAYOUT_IMAGE). */
static layer_norm_sets groups_of(const capl_tensor *x, int64_t groups)
{
  int64_t pixels = pixels_of(x), each = x->size[1] / groups;
  layer_norm_sets s = {.sets = x->size[0] * groups, .count = each * pixels, .period = groups,
                       .outer = x->size[1] * pixels, .params = each};
  bool last = x->ndim == 4;
  s.run = last ? each : s.count;
  s.step = last ? x->size[1] : 0;
  s.spread = last ? 1 : pixels;
  s.inner_sets = last ? each : s.count;
  return s;
}

static cu_team team_of(const layer_norm_sets *s)
{
  return (cu_team){1, cu_power_of_2((s->count + ELEMENTS_EACH - 1) / ELEMENTS_EACH, CU_TEAM_THREADS)};
}

static capl_status launch(int kernel, const capl_tensor *x, const layer_norm_sets *s, cu_team team, const void *args)
{
  return cu_launch(cu_layer_norm_table[kernel + (int)cu_type_of(x->dtype)],
                   cu_blocks(s->sets * team.depth, CU_TEAM_THREADS), CU_TEAM_THREADS, 0, args);
}

/* ---- forward ---------------------------------------------------------------------------------- */

static const float *data_of(const capl_tensor *t)
{
  return t ? capl_tensor_data(t) : NULL;
}

static float *room_of(capl_tensor *t)
{
  return t ? capl_tensor_data(t) : NULL;
}

/* A set without elements has mean 0 and no variance, as in ref. */
static capl_status fill_empty(capl_tensor *mean, capl_tensor *invstd, double eps)
{
  if (mean) CAPL_TRY(cu_fill_tensor(mean, 0));
  return cu_fill_tensor(invstd, 1 / __builtin_sqrt(eps));
}

static capl_status forward(const capl_call *call, layer_norm_sets s, double eps, capl_tensor *mean, capl_tensor *invstd)
{
  const capl_tensor *x = call->in[0];
  if (s.count == 0) return fill_empty(mean, invstd, eps);
  layer_norm_args a = {.team = team_of(&s), .s = s, .x = capl_tensor_data(x), .weight = data_of(call_input(call, 1)),
                       .bias = mean ? data_of(call_input(call, 2)) : NULL, .y = capl_tensor_data(call->out[0]),
                       .mean = room_of(mean), .invstd = capl_tensor_data(invstd), .eps = (float)eps};
  return launch(LAYER_NORM, x, &s, a.team, &a);
}

static capl_status cu_layer_norm(const capl_call *call)
{
  return forward(call, rows_of(call->in[0], &call->attr[LAYER_NORM_SHAPE]), call->attr[LAYER_NORM_EPS].f, call->out[1],
                 call->out[2]);
}

static capl_status cu_rms_norm(const capl_call *call)
{
  return forward(call, rows_of(call->in[0], &call->attr[LAYER_NORM_SHAPE]), call->attr[LAYER_NORM_EPS].f, NULL,
                 call->out[1]);
}

static capl_status cu_group_norm(const capl_call *call)
{
  return forward(call, groups_of(call->in[0], call->attr[GROUP_NORM_GROUPS].i), call->attr[GROUP_NORM_EPS].f,
                 call->out[1], call->out[2]);
}

/* ---- backward --------------------------------------------------------------------------------- */

static int64_t ceil_div(int64_t n, int64_t by)
{
  return (n + by - 1) / by;
}

/* Blocks of rows: as many as keep the GPU busy, of at least MIN_ROWS each. */
static int64_t chunk_of(const layer_norm_sums_args *a)
{
  enum { MIN_ROWS = 16 * LAYER_NORM_LANES, MOST_CHUNKS = 1024 };
  int64_t blocks = cu_blocks(INT32_MAX, CU_TEAM_THREADS) / ceil_div(a->columns, LAYER_NORM_COLUMNS) + 1;
  int64_t chunk = ceil_div(a->rows, blocks < MOST_CHUNKS ? blocks : MOST_CHUNKS);
  return chunk < MIN_ROWS ? MIN_ROWS : chunk;
}

static capl_status parameter_sums(const capl_call *call, layer_norm_sums_args *a, capl_tensor *dweight,
                                  capl_tensor *dbias)
{
  int64_t chunks, tiles = ceil_div(a->columns, LAYER_NORM_COLUMNS);
  void *memory;
  a->chunk = chunk_of(a);
  chunks = ceil_div(a->rows, a->chunk);
  CAPL_TRY(capl_scratch_get(call->device, 2 * (size_t)(chunks * a->columns) * sizeof(float), &memory));
  a->partial = memory;
  layer_norm_totals_args total = {a->columns, chunks, memory, capl_tensor_data(dweight), room_of(dbias)};
  capl_status status = cu_launch_2d(cu_layer_norm_table[LAYER_NORM_SUMS + (int)cu_type_of(call->in[0]->dtype)], tiles,
                                    chunks, CU_TEAM_THREADS, 0, a);
  if (status == CAPL_OK)
    status = cu_launch(cu_layer_norm_table[LAYER_NORM_TOTALS], cu_blocks(a->columns, CU_TEAM_THREADS), CU_TEAM_THREADS,
                       0, &total);
  capl_scratch_put(call->device, memory);
  return status;
}

static capl_status backward(const capl_call *call, layer_norm_sets s, const capl_tensor *mean,
                            const capl_tensor *invstd, capl_tensor *dbias)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  if (capl_tensor_numel(x) == 0) {
    CAPL_TRY(cu_fill_tensor(call->out[1], 0));
    return dbias ? cu_fill_tensor(dbias, 0) : CAPL_OK;
  }
  layer_norm_grad_args a = {.team = team_of(&s), .s = s, .x = capl_tensor_data(x), .dy = capl_tensor_data(dy),
                            .weight = data_of(call->in[2]), .mean = data_of(mean), .invstd = data_of(invstd),
                            .dx = capl_tensor_data(call->out[0])};
  CAPL_TRY(launch(LAYER_NORM_GRAD, x, &s, a.team, &a));
  int64_t pixels = s.count / s.params, channels_step = s.spread > 1 ? pixels : 1;
  layer_norm_sums_args sums = {.rows = s.sets / s.period * pixels, .pixels = pixels, .columns = s.period * s.params,
                               .batch_step = s.outer, .pixel_step = s.spread > 1 ? 1 : s.step, .k_step = channels_step,
                               .period = s.period, .params = s.params, .x = a.x, .dy = a.dy, .mean = a.mean,
                               .invstd = a.invstd};
  return parameter_sums(call, &sums, call->out[1], dbias);
}

static capl_status cu_layer_norm_grad(const capl_call *call)
{
  return backward(call, rows_of(call->in[0], &call->attr[LAYER_NORM_SHAPE]), call->in[3], call->in[4], call->out[2]);
}

static capl_status cu_rms_norm_grad(const capl_call *call)
{
  return backward(call, rows_of(call->in[0], &call->attr[LAYER_NORM_SHAPE]), NULL, call->in[3], NULL);
}

static capl_status cu_group_norm_grad(const capl_call *call)
{
  return backward(call, groups_of(call->in[0], call->attr[GROUP_NORM_GROUPS].i), call->in[3], call->in[4],
                  call->out[2]);
}

#define ROW(op) {CAPL_OP_##op, cu_##op, NULL, CU_REAL}
const capl_kernel cu_layer_norm_kernels[] = {
  ROW(layer_norm), ROW(layer_norm_grad), ROW(rms_norm), ROW(rms_norm_grad), ROW(group_norm), ROW(group_norm_grad), {0},
};
