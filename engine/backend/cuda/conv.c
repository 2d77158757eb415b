/* conv.c -- convolution and its gradients: cuDNN, own kernels for one input channel (conv_thin.h), and for what cuDNN
** has no engine for (conv_native.h).
**
** Images are NHWC, weights OHWI, both as cuDNN sees them N,C,H,W with strides. An f32 bias of 16-bit images is rounded
** to 16 bits (cu_alike) before cuDNN adds it, as PyTorch's autocast does: engines with that sum built in are ready
** made, those for an f32 bias are compiled for half a second each. Weight gradients of 16-bit images are 16-bit where
** cuDNN makes them, summed in f32 and rounded once: the engines that write f32 are compiled for a second each and are
** few. The tape widens them, those of all layers together. Gradients of the bias are sums of columns.
** Images of 2 to 4 channels, RGB ones too, are cuDNN's: 9.19 has ready-made engines for them on sm_80 to sm_100
** (tests/cuda/graphs/kinds.txt). As its heuristics rank them on sm_80 and sm_90, at batch 1024 of 60x160 in bf16, 3x3,
** 32 outputs: weight gradients with tensor cores and 150 MiB of workspace (2 channels on sm_80: 1.2 GiB); forward of
** 2 or 3 channels with neither, of 4 with both. What cuDNN declines runs on own kernels, is counted and named in the
** run's header, and is warned about where device = "cuda" was asked for.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cuda/conv_native.h"
#include "backend/cuda/conv_thin.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/kernels/conv.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/native_count.h"
#include "ops/attrs.h"

/* ---- one convolution, as cuDNN and as the own kernels see it ------------------------------------------ */

static conv_sizes sizes_of(const capl_attr *attr, const capl_tensor *x, const capl_tensor *w, const capl_tensor *y)
{
  conv_sizes s = {.N = x->size[0], .C = x->size[1], .H = x->size[2], .W = x->size[3],
                  .O = w->size[0], .out_H = y->size[2], .out_W = y->size[3],
                  .groups = attr[CONV_GROUPS].i};
  for (int i = 0; i < 2; i++) {
    s.kernel[i] = w->size[2 + i];
    s.stride[i] = attr[CONV_STRIDE].v[i];
    s.padding[i] = attr[CONV_PADDING].v[i];
    s.dilation[i] = attr[CONV_DILATION].v[i];
  }
  return s;
}

static dnn_record record_of(dnn_kind kind, capl_dtype dtype, const conv_sizes *s)
{
  dnn_record r = dnn_begin(kind, dtype);
  memcpy(r.x, (int64_t[4]){s->N, s->C, s->H, s->W}, sizeof r.x);
  memcpy(r.y, (int64_t[4]){s->N, s->O, s->out_H, s->out_W}, sizeof r.y);
  memcpy(r.kernel, s->kernel, sizeof r.kernel);
  memcpy(r.stride, s->stride, sizeof r.stride);
  memcpy(r.padding, s->padding, sizeof r.padding);
  memcpy(r.dilation, s->dilation, sizeof r.dilation);
  r.groups = s->groups;
  return r;
}

static void note(const dnn_record *record, bool own)
{
  native_count_note(dnn_kind_name(record->kind), dnn_hash(record), own);
}

static capl_status by_library(const dnn_record *record)
{
  note(record, false);
  return CAPL_OK;
}

/* ---- own kernels -------------------------------------------------------------------------------------- */

/* One product: the first that is not NULL. */
typedef struct {
  capl_device *device;
  capl_dtype dtype;
  const conv_args *forward;
  const conv_grad_x_args *grad_x;
  const conv_grad_w_args *grad_w;
  float *dw, *db; /* of grad_w, f32; db of thin ones only: NULL = not wanted */
} own_call;

static capl_status run_native(const void *data)
{
  const own_call *own = data;
  if (own->forward) return conv_native_forward(own->dtype, own->forward);
  if (own->grad_x) return conv_native_grad_x(own->dtype, own->grad_x);
  return conv_native_grad_w(own->device, own->dtype, own->grad_w, own->dw);
}

/* What takes the place of an engine counts as its product does. */
static capl_status launch_native(const dnn_record *record, const own_call *own)
{
  note(record, true);
  CAPL_TRY(run_native(own));
  dnn_count(record, false);
  return CAPL_OK;
}

/* To be timed beside the engines. */
static capl_status list_native(const dnn_record *record, const own_call *own)
{
  return dnn_list_native(record, &(dnn_work){run_native, own});
}

/* ---- one input channel: own kernels by choice --------------------------------------------------------- */

static capl_status run_thin(const void *data)
{
  const own_call *own = data;
  if (own->forward) return conv_thin_forward(own->dtype, own->forward);
  return conv_thin_weights(own->device, own->dtype, own->grad_w,
                           (conv_thin_grads){own->dw, own->db});
}

/* Own kernels unless cuDNN was timed to be faster (dnn_faster), then *done is false. The bytes speak for them: for
** 1x60x160 and 32 outputs in 16 bits an image takes 0.61 MB of y or dy and 0.02 MB of x, while cuDNN's tensor cores
** want 8 channels, so that its workspace of 0.15 MB is written and read as well, and the bias is summed from another
** 0.61 MB of dy. The trial leaves that last reading out, in cuDNN's favour. A choice is no falling back, and is not
** counted as one (native_count.h). */
static capl_status try_thin(const dnn_record *record, const dnn_pointers *p, const own_call *own, bool *done)
{
  bool faster;
  CAPL_TRY(dnn_faster(own->device, record, p, &(dnn_work){run_thin, own}, &faster));
  *done = !faster;
  if (faster) return CAPL_OK;
  CAPL_TRY(run_thin(own));
  dnn_count(record, false);
  note(record, false);
  return CAPL_OK;
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static capl_status forward_by_dnn(const capl_tensor *x, capl_tensor *bias, dnn_record *record, dnn_pointers *p,
                                  bool *done)
{
  capl_tensor *alike;
  *done = false;
  if (!dnn_supports(record)) return CAPL_OK;
  CAPL_TRY(cu_alike(bias, x->dtype, &alike));
  if (alike) p->at[DNN_BIAS] = capl_tensor_data(alike);
  capl_status status = dnn_try(x->device, record, p, done);
  capl_tensor_unref(alike);
  return status;
}

static capl_status cu_conv2d(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *w = call->in[1], *y = call->out[0];
  capl_tensor *bias = call_input(call, 2);
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  conv_sizes s = sizes_of(call->attr, x, w, y);
  dnn_record record = record_of(DNN_CONV, x->dtype, &s);
  record.bias = bias != NULL;
  dnn_pointers p = {.at = {[DNN_X] = capl_tensor_data(x), [DNN_W] = capl_tensor_data(w), [DNN_Y] = capl_tensor_data(y),
                           [DNN_BIAS] = NULL}};
  conv_args args = {.s = s, .x = p.at[DNN_X], .w = p.at[DNN_W], .bias = bias ? capl_tensor_data(bias) : NULL,
                    .bias_f32 = bias && bias->dtype == CAPL_F32, .y = p.at[DNN_Y]};
  own_call own = {call->device, x->dtype, .forward = &args};
  bool done = false;
  if (conv_is_thin(&s)) {
    p.at[DNN_BIAS] = (void *)(uintptr_t)args.bias; /* in a trial an f32 bias is any 16-bit numbers: y is overwritten */
    CAPL_TRY(try_thin(&record, &p, &own, &done));
  }
  if (done) return CAPL_OK;
  CAPL_TRY(list_native(&record, &own));
  CAPL_TRY(forward_by_dnn(x, bias, &record, &p, &done));
  return done ? by_library(&record) : launch_native(&record, &own);
}

/* ---- gradients ---------------------------------------------------------------------------------------- */

static capl_status cu_conv2d_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *w = call->in[1], *dx = call->out[0];
  if (capl_tensor_numel(dx) == 0) return CAPL_OK;
  conv_sizes s = sizes_of(call->attr, dx, w, dy);
  dnn_record record = record_of(DNN_CONV_GRAD_X, dy->dtype, &s);
  dnn_pointers p = {.at = {[DNN_DY] = capl_tensor_data(dy), [DNN_W] = capl_tensor_data(w),
                           [DNN_DX] = capl_tensor_data(dx)}};
  conv_grad_x_args args = {.s = s, .dy = p.at[DNN_DY], .w = p.at[DNN_W], .dx = p.at[DNN_DX]};
  own_call own = {call->device, dy->dtype, .grad_x = &args};
  bool done;
  CAPL_TRY(list_native(&record, &own));
  CAPL_TRY(dnn_try(call->device, &record, &p, &done));
  return done ? by_library(&record) : launch_native(&record, &own);
}

/* ---- transposed: the same product, then the bias in place --------------------------------------------- */

static capl_status add_bias(const capl_tensor *y, capl_tensor *bias)
{
  capl_tensor *alike;
  CAPL_TRY(cu_alike(bias, y->dtype, &alike));
  finish_args args = {.y = capl_tensor_data(y), .bias = capl_tensor_data(alike), .n = capl_tensor_numel(y),
                      .columns = y->size[1]};
  capl_status status = cu_launch(cu_matmul_table[FINISH + (int)cu_type_of(y->dtype)], cu_blocks(args.n, CU_THREADS),
                                 CU_THREADS, 0, &args);
  capl_tensor_unref(alike);
  return status;
}

/* Its attributes are those of the gradient: output_padding only decides the size, which y has already. */
static capl_status cu_conv_transpose2d(const capl_call *call)
{
  capl_tensor *bias = call_input(call, 2), *y = call->out[0];
  CAPL_TRY(cu_conv2d_grad_x(call));
  return bias && capl_tensor_numel(y) > 0 ? add_bias(y, bias) : CAPL_OK;
}

/* ---- gradient of the weights --------------------------------------------------------------------------- */

/* The call of cu_conv2d_grad_w as a record. */
static dnn_record grad_w_record(const capl_call *call, conv_sizes *s)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  int64_t groups = call->attr[CONV_GROUPS].i;
  const int64_t *kernel = call->attr[CONV_KERNEL].v;
  capl_tensor dw = {.size = {dy->size[1], x->size[1] / groups, kernel[0], kernel[1]}};
  *s = sizes_of(call->attr, x, &dw, dy);
  return record_of(DNN_CONV_GRAD_W, x->dtype, s);
}

/* capl_backend.reserve: dw as cuDNN makes it. */
void cu_conv_reserve(const capl_call *call, capl_out_spec *out)
{
  conv_sizes s;
  if (call->id != CAPL_OP_conv2d_grad_w) return;
  dnn_record record = grad_w_record(call, &s);
  if (!conv_is_thin(&s) && dnn_supports(&record)) out[0].dtype = record.dtype;
}

/* dw in a dtype: itself, or room that finish_weights copies into it. */
static capl_status start_weights(capl_tensor *dw, capl_dtype dtype, capl_tensor **room)
{
  capl_tensor like = *dw;
  like.dtype = dtype;
  if (dw->dtype != dtype) return capl_tensor_new_like(&like, room);
  *room = capl_tensor_ref(dw);
  return CAPL_OK;
}

static capl_status finish_weights(capl_status status, bool done, capl_tensor *dw, capl_tensor *room)
{
  if (status == CAPL_OK && done && room != dw) status = cu_copy_tensor(dw, room);
  capl_tensor_unref(room);
  return status;
}

static capl_status weights_by_dnn(capl_tensor *dw, const dnn_record *record, dnn_pointers *p, bool *done)
{
  capl_tensor *room;
  *done = false;
  if (!dnn_supports(record)) return CAPL_OK;
  CAPL_TRY(start_weights(dw, record->dtype, &room));
  p->at[DNN_DW] = capl_tensor_data(room);
  capl_status status = dnn_try(dw->device, record, p, done);
  return finish_weights(status, *done, dw, room);
}

static capl_status weights_by_native(capl_tensor *dw, const dnn_record *record, own_call *own)
{
  capl_tensor *room;
  CAPL_TRY(start_weights(dw, CAPL_F32, &room));
  own->dw = capl_tensor_data(room);
  return finish_weights(launch_native(record, own), true, dw, room);
}

static capl_status list_weights(capl_tensor *dw, const dnn_record *record, own_call *own)
{
  capl_tensor *room;
  CAPL_TRY(start_weights(dw, CAPL_F32, &room));
  own->dw = capl_tensor_data(room);
  return finish_weights(list_native(record, own), false, dw, room);
}

static capl_status grad_weights(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  capl_tensor *dw = call->out[0];
  if (capl_tensor_numel(dw) == 0) return CAPL_OK;
  conv_sizes s;
  dnn_record record = grad_w_record(call, &s);
  dnn_pointers p = {.at = {[DNN_X] = capl_tensor_data(x), [DNN_DY] = capl_tensor_data(dy)}};
  conv_grad_w_args args = {.s = s, .x = p.at[DNN_X], .dy = p.at[DNN_DY]};
  own_call own = {dw->device, x->dtype, .grad_w = &args};
  bool done;
  CAPL_TRY(list_weights(dw, &record, &own));
  CAPL_TRY(weights_by_dnn(dw, &record, &p, &done));
  return done ? by_library(&record) : weights_by_native(dw, &record, &own);
}

static capl_status grad_bias(const capl_tensor *dy, capl_tensor *db)
{
  int64_t channels = dy->size[1];
  if (channels == 0) return CAPL_OK;
  int64_t rows = capl_tensor_numel(dy) / channels;
  if (rows == 0) return cu_fill_tensor(db, 0);
  return cu_column_sums(dy->device, dy->dtype, capl_tensor_data(dy), rows, channels, capl_tensor_data(db));
}

/* Both gradients of a thin convolution at once; *done is false for others. */
static capl_status grad_thin(const capl_call *call, bool *done)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  conv_sizes s;
  dnn_record record = grad_w_record(call, &s);
  *done = false;
  if (!conv_is_thin(&s)) return CAPL_OK;
  conv_grad_w_args args = {.s = s, .x = capl_tensor_data(x), .dy = capl_tensor_data(dy)};
  own_call own = {call->device, x->dtype, .grad_w = &args, .dw = capl_tensor_data(call->out[0]),
                  .db = call->attr[CONV_NO_BIAS].i ? NULL : capl_tensor_data(call->out[1])};
  dnn_pointers p = {.at = {[DNN_X] = capl_tensor_data(x), [DNN_DY] = capl_tensor_data(dy), [DNN_DW] = own.dw}};
  return try_thin(&record, &p, &own, done);
}

static capl_status cu_conv2d_grad_w(const capl_call *call)
{
  bool done;
  CAPL_TRY(grad_thin(call, &done));
  if (done) return CAPL_OK;
  CAPL_TRY(grad_weights(call));
  return call->attr[CONV_NO_BIAS].i ? CAPL_OK : grad_bias(call->in[1], call->out[1]);
}

/* Factors of one dtype; a bias of that or f32. */
static bool supports_conv(const capl_call *call)
{
  const capl_tensor *bias = call_input(call, 2);
  return call->in[1]->dtype == call->in[0]->dtype &&
         (!bias || bias->dtype == CAPL_F32 || bias->dtype == call->in[0]->dtype);
}

/* Output rows beyond a whole stride belong to no pixel of x: those calls are expanded. */
static bool supports_transposed(const capl_call *call)
{
  for (int i = 0; i < 2; i++)
    if (call->attr[CONV_OUTPUT_PADDING].v[i] >= call->attr[CONV_STRIDE].v[i]) return false;
  return supports_conv(call);
}

const capl_kernel cu_conv_kernels[] = {
  {CAPL_OP_conv2d, cu_conv2d, supports_conv, CU_REAL},
  {CAPL_OP_conv2d_grad_x, cu_conv2d_grad_x, supports_conv, CU_REAL},
  {CAPL_OP_conv2d_grad_w, cu_conv2d_grad_w, supports_conv, CU_REAL},
  {CAPL_OP_conv_transpose2d, cu_conv_transpose2d, supports_transposed, CU_REAL},
  {0},
};
