/* conv.c -- convolution and its gradients: own kernels for shapes where they are faster, else oneDNN; or, with the
** switch autotune, whatever conv_tune.c found the fastest.
**
** Images are NHWC, weights OHWI, both as oneDNN sees them NCHW and OIHW with strides. The layout of
** the (small) weights is left to the implementation, which costs a reorder of microseconds.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/conv_depthwise.h"
#include "backend/cpu/conv_rows.h"
#include "backend/cpu/conv_small_channels.h"
#include "backend/cpu/conv_tune.h"
#include "backend/cpu/conv_weights.h"
#include "backend/cpu/conv_winograd.h"
#include "backend/cpu/conv_winograd_1d.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/product.h"
#include "base/assume.h"
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

/* Its tensors by what they are, or what they are the gradients of. */
typedef struct {
  dn_kind kind;
  const capl_tensor *x, *w, *y, *bias;
} conv_roles;

static conv_roles roles_of(const capl_call *call)
{
  switch (call->id) {
  case CAPL_OP_conv2d:
  case CAPL_OP_conv2d_act: return (conv_roles){DN_CONV, call->in[0], call->in[1], call->out[0], call_input(call, 2)};
  case CAPL_OP_conv2d_grad_w: return (conv_roles){DN_CONV_GRAD_W, call->in[0], call->out[0], call->in[1], call->out[1]};
  default: return (conv_roles){DN_CONV_GRAD_X, call->out[0], call->in[1], call->in[0], NULL}; /* transposed, too */
  }
}

static void conv_spec(dn_spec *spec, const capl_attr *attr, const conv_roles *r)
{
  cpu_image x = cpu_image_of(r->x), w = cpu_image_of(r->w), y = cpu_image_of(r->y);
  dn_spec_init(spec, r->kind);
  layout_image(&spec->arg[DN_X], r->x->dtype, x);
  layout_weight(&spec->arg[DN_W], r->w->dtype, attr[CONV_GROUPS].i, w);
  layout_image(&spec->arg[DN_Y], r->y->dtype, y);
  set_window(spec, attr, x, w, y);
  if (r->bias) dn_layout_set(&spec->arg[DN_B], r->bias->dtype, 1, r->bias->size, NULL);
  spec->any = DN_BIT_W;
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

static dn_act act_of(const capl_call *call)
{
  if (call->id != CAPL_OP_conv2d_act) return DN_NO_ACT;
  return call->attr[AT(conv2d_act, act)].i == NORM_SILU ? DN_SILU : DN_RELU;
}

/* ---- algorithms ---- */

static product_order order_of(conv_algorithm by)
{
  return by == CONV_DIRECT ? PRODUCT_DIRECT : by == CONV_WINOGRAD_F32 ? PRODUCT_WINOGRAD_F32 : PRODUCT_USUAL;
}

static capl_status run_onednn(const capl_call *call, const conv_roles *r, conv_algorithm by)
{
  enum { PIXELS_MAX = 8192 }; /* cpu_weight_form says why */
  dn_spec spec;
  conv_spec(&spec, call->attr, r);
  spec.act = (int32_t)act_of(call);
  spec.order = (int32_t)order_of(by);
  void *data[DN_ARGS] = {capl_tensor_data(r->x), capl_tensor_data(r->w), r->bias ? capl_tensor_data(r->bias) : NULL,
                         capl_tensor_data(r->y)};
  bool keeps = r->kind == DN_CONV && r->y->size[0] * r->y->size[2] * r->y->size[3] <= PIXELS_MAX;
  return cpu_product(&spec, call->device, data, keeps ? r->w : NULL);
}

static capl_status run_winograd(const capl_call *call, const conv_roles *r, conv_algorithm by)
{
  bool relu = act_of(call) == DN_RELU, plane = by == CONV_WINOGRAD;
  if (r->kind == DN_CONV_GRAD_X) return plane ? conv_winograd_grad_x(call) : conv_winograd_1d_grad_x(call);
  if (r->kind == DN_CONV_GRAD_W) return plane ? conv_winograd_grad_w(call) : conv_winograd_1d_grad_w(call);
  CAPL_TRY(plane ? conv_winograd(call, relu) : conv_winograd_1d(call, relu));
  return relu ? CAPL_OK : activate(r->y, act_of(call));
}

static capl_status run_by(const capl_call *call, conv_algorithm by)
{
  conv_roles r = roles_of(call);
  if (by == CONV_PRODUCT) return conv_weights(call);
  return by == CONV_WINOGRAD || by == CONV_WINOGRAD_1D ? run_winograd(call, &r, by) : run_onednn(call, &r, by);
}

static bool product_fits(const capl_call *call, const conv_roles *r)
{
  return r->kind == DN_CONV_GRAD_W && conv_weights_fits(call);
}

static bool can_run(const capl_call *call, conv_algorithm by)
{
  conv_roles r = roles_of(call);
  dn_spec spec;
  if (by == CONV_ONEDNN) return true;
  if (by == CONV_PRODUCT) return product_fits(call, &r);
  if (by == CONV_WINOGRAD) return conv_winograd_can(call, r.x->size, r.w->size);
  if (by == CONV_WINOGRAD_1D) return conv_winograd_1d_fits(call, r.x->size, r.w->size);
  conv_spec(&spec, call->attr, &r);
  return cpu_product_differs(&spec, order_of(by));
}

static conv_algorithm usual_of(const capl_call *call, const conv_roles *r)
{
  if (conv_winograd_fits(call, r->x->size, r->w->size)) return CONV_WINOGRAD;
  if (conv_winograd_1d_fits(call, r->x->size, r->w->size)) return CONV_WINOGRAD_1D;
  return product_fits(call, r) ? CONV_PRODUCT : CONV_ONEDNN;
}

/* CAPL_ASSUME overrules timing as it does the table. */
static bool is_assumed(const capl_tensor *x)
{
  int64_t always;
  return x->dtype == CAPL_BF16 && capl_assumed(CAPL_ASSUME_WINOGRAD, &always);
}

/* Calls that only one algorithm computes do not come here. */
static capl_status run_fastest(const capl_call *call)
{
  static const conv_ways ways = {can_run, run_by};
  conv_roles r = roles_of(call);
  conv_algorithm by = usual_of(call, &r);
  if (!is_assumed(r.x)) CAPL_TRY(conv_tuned(call, &ways, r.x->size, r.w->size, &by));
  bool own = by == CONV_WINOGRAD || by == CONV_WINOGRAD_1D;
  if (own && r.x->dtype == CAPL_BF16) capl_counter_add(CAPL_COUNT_winograd_bf16_kernels);
  return run_by(call, by);
}

/* ---- the ops ---- */

static capl_status cpu_conv2d(const capl_call *call)
{
  const int64_t *w = call->in[1]->size;
  bool rows = conv_rows_fits(call, w), relu = act_of(call) == DN_RELU;
  cpu_count_product(call);
  if (!rows && !conv_depthwise_fits(call, w)) return run_fastest(call);
  CAPL_TRY(rows ? conv_rows(call, relu) : conv_depthwise(call));
  return rows && relu ? CAPL_OK : activate(call->out[0], act_of(call));
}

static capl_status cpu_conv2d_grad_x(const capl_call *call)
{
  const int64_t *w = call->in[1]->size;
  cpu_count_product(call);
  if (conv_rows_grad_x_fits(call, w)) return conv_rows_grad_x(call);
  return conv_depthwise_fits(call, w) ? conv_depthwise_grad_x(call) : run_fastest(call);
}

static capl_status grad_w(const capl_call *call)
{
  cpu_count_product(call);
  if (conv_depthwise_fits(call, call->out[0]->size)) return conv_depthwise_grad_w(call);
  return conv_small_channels_fits(call) ? conv_small_channels_grad_w(call) : run_fastest(call);
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
  {CAPL_OP_conv2d_act, cpu_conv2d, supports_conv, CPU_REAL},
  {CAPL_OP_conv2d_grad_x, cpu_conv2d_grad_x, supports_conv, CPU_REAL},
  {CAPL_OP_conv2d_grad_w, cpu_conv2d_grad_w, supports_conv, CPU_REAL},
  {CAPL_OP_conv_transpose2d, cpu_conv_transpose2d, supports_transposed, CPU_REAL},
  {0},
};
