/* norm.c -- batch norm, alone and fused with relu or silu and 2x2 max pooling, forward and backward.
**
** Own kernels take every number of channels, and the fused ops, of which cuDNN has few; they read x twice, which is
** what any implementation does whose x is larger than the chip. cuDNN also has batch norms of one kernel that keep x on
** the chip between the statistics and the result, compiled for a second or more each: they run where they were timed to
** be faster (dnn_faster), and own kernels everywhere else.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/cuda.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/kernels/norm.h"
#include "ops/attrs.h"

/* ---- how a call is cut into threads ---- */

/* x seen as rows of C values: pixels, or entries of (N,C). */
static int64_t pixels_of(const capl_tensor *x)
{
  return capl_tensor_numel(x) / x->size[1];
}

/* What blocks leave, and count themselves by: two rows each. */
static capl_status partial_get(const capl_call *call, const cu_pixels *p, float **partial, unsigned **counters)
{
  void *memory;
  CAPL_TRY(cu_counters(cu_pixel_blocks(p), cu_pixel_tiles(p), counters));
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(cu_pixel_blocks(p) * 2 * p->channels) * sizeof(float), &memory));
  *partial = memory;
  return CAPL_OK;
}

/* Values of a load that x and two more tensors of its dtype (NULL = none) allow: those of 16 bytes, 4, or 1. */
static int vector_of(const capl_tensor *x, const void *other, const void *another)
{
  const int most = 16 / (int)capl_dtype_size(x->dtype);
  for (int vector = most; vector > 1; vector = vector > 4 ? 4 : 1) {
    uintptr_t bytes = (uintptr_t)vector * capl_dtype_size(x->dtype);
    uintptr_t begins = (uintptr_t)capl_tensor_data(x) | (uintptr_t)other | (uintptr_t)another;
    if (x->size[1] % vector == 0 && begins % bytes == 0) return vector;
  }
  return 1;
}

/* How blocks share `pixels` of x's channels. */
static cu_pixels cut(int64_t pixels, const capl_tensor *x, int vector, int blocks_per_multiprocessor)
{
  return cu_pixels_of(pixels, x->size[1], vector, (int64_t)blocks_per_multiprocessor * cu.multiprocessors);
}

static capl_status launch_cut(int kernel, const capl_tensor *x, int vector, const cu_pixels *p, const void *args)
{
  cu_entry entry = cu_norm_table[cu_vector_entry(kernel, vector, cu_type_of(x->dtype))];
  return cu_launch_2d(entry, cu_pixel_blocks(p), cu_pixel_tiles(p), CU_PIXEL_THREADS, 0, args);
}

/* ---- cuDNN ---- */

/* What a multiprocessor keeps in its registers and shared memory of x, at most: half of 128 KiB. */
enum { ON_CHIP_BYTES = 64 << 10 };

/* Of a larger x cuDNN's engines are no faster, so they are not asked for. */
static bool fits_on_chip(const capl_tensor *x)
{
  return capl_tensor_bytes(x) <= (size_t)cu.multiprocessors * ON_CHIP_BYTES;
}

static dnn_record record_of(dnn_kind kind, const capl_tensor *x)
{
  dnn_record r = dnn_begin(kind, x->dtype);
  for (int d = 0; d < 4; d++) r.x[d] = r.y[d] = d < x->ndim ? x->size[d] : 1; /* (N,C) is (N,C,1,1) */
  return r;
}

/* Runs the record where cuDNN was timed to be faster than own; else *done is false. */
static capl_status try_dnn(const capl_call *call, const dnn_record *record, const dnn_pointers *p, const dnn_work *own,
                           bool *done)
{
  bool faster;
  *done = false;
  if (!fits_on_chip(call->in[0])) return CAPL_OK;
  CAPL_TRY(dnn_faster(call->device, record, p, own, &faster));
  return faster ? dnn_try(call->device, record, p, done) : CAPL_OK;
}

/* What cuDNN is timed against: a call by own kernels. */
typedef struct {
  const capl_call *call;
  norm_act act;
} own_call;

static capl_status native_forward(const void *data);
static capl_status native_backward(const void *data);

static float *data_or_null(const capl_tensor *t)
{
  return t ? capl_tensor_data(t) : NULL;
}

/* batch_norm and bn_act in training. */
static capl_status train_by_dnn(const capl_call *call, norm_act act, bool *done)
{
  const capl_tensor *x = call->in[NORM_X];
  dnn_record record = record_of(DNN_NORM, x);
  dnn_pointers p = {.at = {[DNN_X] = capl_tensor_data(x), [DNN_Y] = capl_tensor_data(call->out[NORM_Y]),
                           [DNN_SCALE] = capl_tensor_data(call->in[NORM_WEIGHT]),
                           [DNN_SHIFT] = capl_tensor_data(call->in[NORM_BIAS]),
                           [DNN_MEAN] = capl_tensor_data(call->out[NORM_MEAN]),
                           [DNN_INVSTD] = capl_tensor_data(call->out[NORM_INVSTD]),
                           [DNN_RUNNING_MEAN] = data_or_null(call_input(call, NORM_RUNNING_MEAN)),
                           [DNN_RUNNING_VAR] = data_or_null(call_input(call, NORM_RUNNING_VAR))},
                    .eps = (float)call->attr[NORM_EPS].f, .momentum = (float)call->attr[NORM_MOMENTUM].f};
  record.relu = act == NORM_THEN_RELU;
  record.running = p.at[DNN_RUNNING_MEAN] != NULL;
  return try_dnn(call, &record, &p, &(dnn_work){native_forward, &(own_call){call, act}}, done);
}

/* batch_norm_grad in training. */
static capl_status differentiate_by_dnn(const capl_call *call, bool *done)
{
  const capl_tensor *x = call->in[0];
  dnn_record record = record_of(DNN_NORM_GRAD, x);
  dnn_pointers p = {.at = {[DNN_X] = capl_tensor_data(x), [DNN_DY] = capl_tensor_data(call->in[1]),
                           [DNN_SCALE] = capl_tensor_data(call->in[2]), [DNN_MEAN] = capl_tensor_data(call->in[3]),
                           [DNN_INVSTD] = capl_tensor_data(call->in[4]), [DNN_DX] = capl_tensor_data(call->out[0]),
                           [DNN_DSCALE] = capl_tensor_data(call->out[1]),
                           [DNN_DSHIFT] = capl_tensor_data(call->out[2])}};
  return try_dnn(call, &record, &p, &(dnn_work){native_backward, &(own_call){call, NORM_THEN_NOTHING}}, done);
}

/* ---- forward ---- */

static capl_status running_statistics(const capl_call *call, int64_t channels)
{
  norm_running_args args = {channels, capl_tensor_data(call->in[NORM_RUNNING_MEAN]),
                            capl_tensor_data(call->in[NORM_RUNNING_VAR]), capl_tensor_data(call->out[NORM_MEAN]),
                            capl_tensor_data(call->out[NORM_INVSTD]), (float)call->attr[NORM_EPS].f};
  return cu_launch(cu_norm_table[NORM_RUNNING_ENTRY], cu_divide_up(channels, CU_THREADS), CU_THREADS, 0, &args);
}

static capl_status batch_statistics(const capl_call *call, const capl_tensor *x)
{
  int vector = vector_of(x, NULL, NULL);
  norm_moments_args args = {.p = cut(pixels_of(x), x, vector, CU_PIXEL_BLOCKS),
                            .x = capl_tensor_data(x),
                            .mean = capl_tensor_data(call->out[NORM_MEAN]),
                            .invstd = capl_tensor_data(call->out[NORM_INVSTD]),
                            .running_mean = data_or_null(call_input(call, NORM_RUNNING_MEAN)),
                            .running_var = data_or_null(call_input(call, NORM_RUNNING_VAR)),
                            .eps = (float)call->attr[NORM_EPS].f, .momentum = (float)call->attr[NORM_MOMENTUM].f};
  CAPL_TRY(partial_get(call, &args.p, &args.partial, &args.counters));
  capl_status status = launch_cut(NORM_MOMENTS, x, vector, &args.p, &args);
  capl_scratch_put(call->device, args.partial); /* work on it is queued before that of its next owner */
  return status;
}

static norm_channels channels_of(const capl_call *call)
{
  return (norm_channels){capl_tensor_data(call->in[NORM_WEIGHT]), capl_tensor_data(call->in[NORM_BIAS]),
                         capl_tensor_data(call->out[NORM_MEAN]), capl_tensor_data(call->out[NORM_INVSTD])};
}

static capl_status apply(const capl_call *call, const capl_tensor *x, norm_act act)
{
  void *y = capl_tensor_data(call->out[NORM_Y]);
  int vector = vector_of(x, y, NULL);
  norm_apply_args args = {.p = cut(pixels_of(x), x, vector, CU_PIXEL_BLOCKS), .c = channels_of(call),
                          .x = capl_tensor_data(x), .y = y};
  return launch_cut(NORM_APPLY + (int)act, x, vector, &args.p, &args);
}

static capl_status apply_pool(const capl_call *call, const capl_tensor *x)
{
  void *y = capl_tensor_data(call->out[NORM_Y]);
  void *winner = capl_tensor_data(call->out[NORM_RESERVE]);
  int vector = vector_of(x, y, winner);
  norm_pool_args args = {.p = cut(pixels_of(call->out[NORM_Y]), x, vector, CU_PIXEL_BLOCKS), .c = channels_of(call),
                         .x = capl_tensor_data(x), .y = y, .winner = winner};
  args.w = norm_windows_of(x->size[2], x->size[3], false, &args.p);
  return launch_cut(NORM_POOL, x, vector, &args.p, &args);
}

static capl_status statistics(const capl_call *call)
{
  const capl_tensor *x = call->in[NORM_X];
  return call->attr[NORM_TRAINING].i ? batch_statistics(call, x) : running_statistics(call, x->size[1]);
}

/* Without running statistics, which one call must not update several times. */
static capl_status native_forward(const void *data)
{
  const own_call *own = data;
  capl_call call = *own->call;
  call.n_in = NORM_RUNNING_MEAN;
  CAPL_TRY(batch_statistics(&call, call.in[NORM_X]));
  return apply(&call, call.in[NORM_X], own->act);
}

/* Nothing to normalize: in training the shape rule has refused that. cuDNN's records have no silu. */
static capl_status normalize(const capl_call *call, norm_act act)
{
  const capl_tensor *x = call->in[NORM_X];
  bool done = false;
  if (x->size[1] == 0) return CAPL_OK;
  if (call->attr[NORM_TRAINING].i && act != NORM_THEN_SILU) CAPL_TRY(train_by_dnn(call, act, &done));
  if (done) return CAPL_OK;
  CAPL_TRY(statistics(call));
  return capl_tensor_numel(x) ? apply(call, x, act) : CAPL_OK;
}

static capl_status cu_batch_norm(const capl_call *call)
{
  return normalize(call, NORM_THEN_NOTHING);
}

static norm_act act_of(const capl_attr *attr)
{
  return attr->i == NORM_SILU ? NORM_THEN_SILU : NORM_THEN_RELU;
}

static capl_status cu_bn_act(const capl_call *call)
{
  return normalize(call, act_of(&call->attr[NORM_ACT]));
}

/* The gradient's sums need the windows' winners alone, a quarter of x; their places are found again for dx. */
void cu_norm_reserve(const capl_call *call, capl_out_spec *out)
{
  if (call->id == CAPL_OP_bn_act_pool) out[NORM_RESERVE].dtype = call->in[NORM_X]->dtype;
}

static capl_status cu_bn_act_pool(const capl_call *call)
{
  const capl_tensor *x = call->in[NORM_X];
  if (x->size[1] == 0) return CAPL_OK;
  CAPL_TRY(statistics(call));
  return capl_tensor_numel(x) ? apply_pool(call, x) : CAPL_OK;
}

/* ---- backward ---- */

/* Where a gradient op has its inputs: in batch_norm_grad there is no bias before mean. */
static norm_channels grad_channels(const capl_call *call, bool fused)
{
  int mean = fused ? 4 : 3;
  return (norm_channels){.weight = capl_tensor_data(call->in[2]), .bias = fused ? capl_tensor_data(call->in[3]) : NULL,
                         .mean = capl_tensor_data(call->in[mean]), .invstd = capl_tensor_data(call->in[mean + 1])};
}

/* dweight and dbias. x: the values that dy belongs to. */
static capl_status sum_gradients(const capl_call *call, const capl_tensor *x, norm_act act, norm_grad_args args)
{
  int vector = vector_of(x, args.dy, NULL);
  args.x = capl_tensor_data(x);
  args.p = cut(pixels_of(x), x, vector, NORM_GRAD_BLOCKS(vector));
  CAPL_TRY(partial_get(call, &args.p, &args.partial, &args.counters));
  capl_status status = launch_cut(NORM_GRAD_SUMS + (int)act, x, vector, &args.p, &args);
  capl_scratch_put(call->device, args.partial);
  return status;
}

/* Gradients of parameters that saw no value. */
static capl_status no_gradient(const capl_call *call)
{
  CAPL_TRY(cu_fill_tensor(call->out[1], 0));
  return cu_fill_tensor(call->out[2], 0);
}

static norm_grad_args grad_args(const capl_call *call, bool fused)
{
  const capl_tensor *x = call->in[0];
  return (norm_grad_args){.c = grad_channels(call, fused), .x = capl_tensor_data(x),
                          .dy = capl_tensor_data(call->in[1]), .dx = capl_tensor_data(call->out[0]),
                          .dweight = capl_tensor_data(call->out[1]), .dbias = capl_tensor_data(call->out[2]),
                          .share = (float)(1 / (double)pixels_of(x)), .training = call->attr[NORM_GRAD_TRAINING].i};
}

static capl_status differentiate(const capl_call *call, norm_act act)
{
  const capl_tensor *x = call->in[0];
  if (capl_tensor_numel(x) == 0) return no_gradient(call);
  norm_grad_args args = grad_args(call, act != NORM_THEN_NOTHING);
  CAPL_TRY(sum_gradients(call, x, act, args));
  int vector = vector_of(x, args.dy, args.dx);
  args.p = cut(pixels_of(x), x, vector, NORM_GRAD_BLOCKS(vector));
  return launch_cut(NORM_GRAD_APPLY + (int)act, x, vector, &args.p, &args);
}

static capl_status native_backward(const void *data)
{
  return differentiate(((const own_call *)data)->call, NORM_THEN_NOTHING);
}

static capl_status cu_batch_norm_grad(const capl_call *call)
{
  bool done = false;
  if (call->attr[NORM_GRAD_TRAINING].i) CAPL_TRY(differentiate_by_dnn(call, &done));
  if (done) return CAPL_OK;
  return differentiate(call, NORM_THEN_NOTHING);
}

static capl_status cu_bn_act_grad(const capl_call *call)
{
  return differentiate(call, act_of(&call->attr[NORM_GRAD_ACT]));
}

static capl_status cu_bn_act_pool_grad(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  if (capl_tensor_numel(x) == 0) return no_gradient(call);
  norm_grad_args args = grad_args(call, true);
  CAPL_TRY(sum_gradients(call, call->in[6], NORM_THEN_RELU, args));
  int vector = vector_of(x, args.dy, args.dx);
  int64_t windows = x->size[0] * ((x->size[2] + 1) / 2) * ((x->size[3] + 1) / 2);
  args.p = cut(windows, x, vector, NORM_GRAD_BLOCKS(vector));
  args.w = norm_windows_of(x->size[2], x->size[3], true, &args.p);
  return launch_cut(NORM_POOL_GRAD_APPLY, x, vector, &args.p, &args);
}

/* A reserve of places, ref's and cpu's, is left to the simpler ops. */
static bool has_winners(const capl_call *call)
{
  return call->in[6]->dtype == call->in[0]->dtype;
}

/* ---- rows ---- */

const capl_kernel cu_norm_kernels[] = {
  {CAPL_OP_batch_norm, cu_batch_norm, NULL, CU_REAL},
  {CAPL_OP_batch_norm_grad, cu_batch_norm_grad, NULL, CU_REAL},
  {CAPL_OP_bn_act, cu_bn_act, NULL, CU_REAL},
  {CAPL_OP_bn_act_grad, cu_bn_act_grad, NULL, CU_REAL},
  {CAPL_OP_bn_act_pool, cu_bn_act_pool, NULL, CU_REAL},
  {CAPL_OP_bn_act_pool_grad, cu_bn_act_pool_grad, has_winners, CU_REAL},
  {0},
};
