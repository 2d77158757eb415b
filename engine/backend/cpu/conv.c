/* conv.c -- convolution and its gradients: own kernels for shapes where they are faster, else oneDNN.
**
** Images are NHWC, weights OHWI, both as oneDNN sees them NCHW and OIHW with strides. The layout of
** the (small) weights is left to the implementation, which costs a reorder of microseconds.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/conv_depthwise.h"
#include "backend/cpu/conv_small_channels.h"
#include "backend/cpu/conv_weights.h"
#include "backend/cpu/conv_winograd.h"
#include "backend/cpu/conv_winograd_1d.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/product.h"
#include "ops/attrs.h"

static void layout_image(dn_layout *layout, capl_dtype dtype, cpu_image i)
{
  dn_layout_set(layout, dtype, 4, (int64_t[]){i.N, i.C, i.H, i.W}, (int[]){0, 2, 3, 1});
}

/* Weights (O, C/groups, kh, kw); with groups oneDNN wants (G, O/G, C/G, kh, kw). */
static void layout_weight(dn_layout *layout, capl_dtype dtype, int64_t groups, cpu_image w)
{
  if (groups == 1) layout_image(layout, dtype, w);
  else
    dn_layout_set(layout, dtype, 5, (int64_t[]){groups, w.N / groups, w.C, w.H, w.W}, (int[]){0, 1, 3, 4, 2});
}

/* oneDNN wants the padding that the output really uses on each side, and dilation counted from 0. */
static void set_window(dn_spec *spec, const capl_attr *attr, cpu_image x, cpu_image w, cpu_image y)
{
  const int64_t in[2] = {x.H, x.W}, out[2] = {y.H, y.W}, kernel[2] = {w.H, w.W};
  for (int i = 0; i < 2; i++) {
    spec->stride[i] = attr[CONV_STRIDE].v[i];
    spec->dilation[i] = attr[CONV_DILATION].v[i] - 1;
    spec->pad_low[i] = attr[CONV_PADDING].v[i];
    int64_t reach = (out[i] - 1) * spec->stride[i] + (kernel[i] - 1) * attr[CONV_DILATION].v[i] + 1;
    spec->pad_high[i] = reach - in[i] - spec->pad_low[i];
  }
}

typedef struct {
  cpu_image x, w, y;
  capl_dtype x_type, w_type, y_type;
} conv_shape;

static void conv_spec(dn_spec *spec, dn_kind kind, const capl_attr *attr, const conv_shape *s)
{
  dn_spec_init(spec, kind);
  layout_image(&spec->arg[DN_X], s->x_type, s->x);
  layout_weight(&spec->arg[DN_W], s->w_type, attr[CONV_GROUPS].i, s->w);
  layout_image(&spec->arg[DN_Y], s->y_type, s->y);
  set_window(spec, attr, s->x, s->w, s->y);
  spec->any = DN_BIT_W;
}

static void layout_bias(dn_spec *spec, const capl_tensor *bias)
{
  dn_layout_set(&spec->arg[DN_B], bias->dtype, 1, bias->size, NULL);
}

typedef struct {
  const capl_tensor *y;
  dn_act act;
} act_job;

static void act_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const act_job *job = arg;
  capl_dtype real = job->y->dtype;
  void *y = cpu_at(capl_tensor_data(job->y), real, begin);
  if (job->act == DN_RELU) cpu_now->unary(VEC_relu, real, end - begin, y, y, 0, 0);
  else cpu_now->activation(VEC_SILU, real, end - begin, y, y, 0, 0);
}

/* In place, where the convolution did not do it. */
static capl_status activate(const capl_tensor *y, dn_act act)
{
  act_job job = {y, act};
  if (act != DN_NO_ACT) cpu_parallel(capl_tensor_numel(y), CPU_GRAIN, act_part, &job);
  return CAPL_OK;
}

static capl_status convolve_plainly(const capl_call *call, dn_act act)
{
  enum { PIXELS_MAX = 8192 }; /* cpu_weight_form says why */
  const capl_tensor *x = call->in[0], *w = call->in[1], *bias = call_input(call, 2), *y = call->out[0];
  conv_shape s = {cpu_image_of(x), cpu_image_of(w), cpu_image_of(y), x->dtype, w->dtype, y->dtype};
  dn_spec spec;
  conv_spec(&spec, DN_CONV, call->attr, &s);
  spec.act = act;
  void *data[DN_ARGS] = {capl_tensor_data(x), capl_tensor_data(w), NULL, capl_tensor_data(y)};
  if (bias) layout_bias(&spec, bias), data[DN_B] = capl_tensor_data(bias);
  return cpu_product(&spec, call->device, data, s.y.N * s.y.H * s.y.W <= PIXELS_MAX ? w : NULL);
}

static capl_status convolve(const capl_call *call, dn_act act)
{
  const capl_tensor *x = call->in[0], *w = call->in[1];
  bool relu = act == DN_RELU;
  cpu_count_product(call);
  if (conv_depthwise_fits(call, w->size)) {
    CAPL_TRY(conv_depthwise(call));
    return activate(call->out[0], act);
  }
  if (conv_winograd_fits(call, x->size, w->size)) CAPL_TRY(conv_winograd(call, relu));
  else if (conv_winograd_1d_fits(call, x->size, w->size)) CAPL_TRY(conv_winograd_1d(call, relu));
  else return convolve_plainly(call, act);
  return activate(call->out[0], relu ? DN_NO_ACT : act);
}

static capl_status cpu_conv2d(const capl_call *call) { return convolve(call, DN_NO_ACT); }

static capl_status cpu_conv2d_act(const capl_call *call)
{
  return convolve(call, call->attr[AT(conv2d_act, act)].i == NORM_SILU ? DN_SILU : DN_RELU);
}

static capl_status cpu_conv2d_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *w = call->in[1], *dx = call->out[0];
  cpu_count_product(call);
  if (conv_depthwise_fits(call, w->size)) return conv_depthwise_grad_x(call);
  if (conv_winograd_fits(call, dx->size, w->size)) return conv_winograd_grad_x(call);
  if (conv_winograd_1d_fits(call, dx->size, w->size)) return conv_winograd_1d_grad_x(call);
  conv_shape s = {cpu_image_of(dx), cpu_image_of(w), cpu_image_of(dy), dx->dtype, w->dtype, dy->dtype};
  dn_spec spec;
  conv_spec(&spec, DN_CONV_GRAD_X, call->attr, &s);
  void *data[DN_ARGS] = {capl_tensor_data(dx), capl_tensor_data(w), NULL, capl_tensor_data(dy)};
  return cpu_product(&spec, call->device, data, NULL);
}

static capl_status grad_w(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1], *dw = call->out[0], *db = call->out[1];
  cpu_count_product(call);
  if (conv_depthwise_fits(call, dw->size)) return conv_depthwise_grad_w(call);
  if (conv_small_channels_fits(call)) return conv_small_channels_grad_w(call);
  if (conv_winograd_fits(call, x->size, dw->size)) return conv_winograd_grad_w(call);
  if (conv_winograd_1d_fits(call, x->size, dw->size)) return conv_winograd_1d_grad_w(call);
  if (conv_weights_fits(call)) return conv_weights(call);
  conv_shape s = {cpu_image_of(x), cpu_image_of(dw), cpu_image_of(dy), x->dtype, dw->dtype, dy->dtype};
  dn_spec spec;
  conv_spec(&spec, DN_CONV_GRAD_W, call->attr, &s);
  layout_bias(&spec, db);
  void *data[DN_ARGS] = {capl_tensor_data(x), capl_tensor_data(dw), capl_tensor_data(db), capl_tensor_data(dy)};
  return cpu_product(&spec, call->device, data, NULL);
}

/* The sums of the bias come with the products and cost next to nothing here, wanted or not: then into memory of their
** own. */
static capl_status cpu_conv2d_grad_w(const capl_call *call)
{
  const capl_tensor *dw = call->out[0];
  capl_tensor *out[2] = {call->out[0], NULL};
  capl_call unwanted = *call;
  if (!call->attr[CONV_NO_BIAS].i) return grad_w(call);
  unwanted.out = out;
  CAPL_TRY(capl_tensor_new(call->device, dw->dtype, 1, dw->size, CAPL_AUTO, &out[1]));
  capl_status status = grad_w(&unwanted);
  capl_tensor_unref(out[1]);
  return status;
}

/* ---- transposed: the same product, then the bias in place ---- */

typedef struct {
  capl_dtype real;
  int64_t channels;
  void *y;
  const void *bias; /* of the same dtype */
} bias_job;

static void bias_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const bias_job *job = arg;
  for (int64_t p = begin; p < end; p++) {
    void *y = cpu_at(job->y, job->real, p * job->channels);
    cpu_now->binary(VEC_add, job->real, job->channels, y, 1, job->bias, 1, y);
  }
}

static capl_status add_bias(const capl_tensor *y, const capl_tensor *bias)
{
  bias_job job = {y->dtype, y->size[1], capl_tensor_data(y), capl_tensor_data(bias)};
  void *alike = NULL;
  if (bias->dtype != y->dtype) {
    CAPL_TRY(capl_scratch_get(y->device, (size_t)job.channels * capl_dtype_size(y->dtype), &alike));
    cpu_convert(bias->dtype, job.bias, y->dtype, alike, job.channels);
    job.bias = alike;
  }
  cpu_parallel(capl_tensor_numel(y) / job.channels, CPU_GRAIN / job.channels + 1, bias_part, &job);
  if (alike) capl_scratch_put(y->device, alike);
  return CAPL_OK;
}

/* Its attributes are those of the gradient: output_padding only decides the size, which y has already. */
static capl_status cpu_conv_transpose2d(const capl_call *call)
{
  const capl_tensor *bias = call_input(call, 2);
  CAPL_TRY(cpu_conv2d_grad_x(call));
  return bias ? add_bias(call->out[0], bias) : CAPL_OK;
}

static bool not_empty(const capl_call *call)
{
  for (int i = 0; i < 2; i++)
    if (capl_tensor_numel(call->in[i]) == 0) return false;
  return true;
}

/* Factors of one dtype, a bias maybe in f32; ref serves empty tensors. */
static bool supports_conv(const capl_call *call)
{
  const capl_tensor *bias = call_input(call, 2);
  return cpu_real(call->in[0]) && call->in[1]->dtype == call->in[0]->dtype && (!bias || cpu_real(bias)) &&
         not_empty(call);
}

/* Output rows beyond a whole stride belong to no pixel of x: those calls are expanded. */
static bool supports_transposed(const capl_call *call)
{
  for (int i = 0; i < 2; i++)
    if (call->attr[CONV_OUTPUT_PADDING].v[i] >= call->attr[CONV_STRIDE].v[i]) return false;
  return supports_conv(call);
}

const capl_kernel cpu_conv_kernels[] = {
  {CAPL_OP_conv2d, cpu_conv2d, supports_conv, CPU_REAL},
  {CAPL_OP_conv2d_act, cpu_conv2d_act, supports_conv, CPU_REAL},
  {CAPL_OP_conv2d_grad_x, cpu_conv2d_grad_x, supports_conv, CPU_REAL},
  {CAPL_OP_conv2d_grad_w, cpu_conv2d_grad_w, supports_conv, CPU_REAL},
  {CAPL_OP_conv_transpose2d, cpu_conv_transpose2d, supports_transposed, CPU_REAL},
  {0},
};
