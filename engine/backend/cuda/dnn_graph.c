/* dnn_graph.c -- from a record to cuDNN's descriptors: tensors, operations, graph.
**
** Sizes are always N,C,H,W, memory is N,H,W,C by strides. What one operation hands to the next inside a graph is an f32
** tensor without memory. Attributes that cuDNN would default are set all the same, since its defaults are not ours
** (f32 data, mirrored kernels).
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cuda/dnn_graph.h"

typedef cudnnBackendDescriptor_t descriptor;

capl_status dnn_status(cudnnStatus_t status, const char *doing)
{
  if (status == CUDNN_STATUS_SUCCESS) return CAPL_OK;
  enum { UNSUPPORTED_FIRST = CUDNN_STATUS_NOT_SUPPORTED, UNSUPPORTED_END = UNSUPPORTED_FIRST + 1000 };
  char reason[512] = "";
  cudnnGetLastErrorString(reason, sizeof reason);
  bool unsupported = (int)status >= UNSUPPORTED_FIRST && (int)status < UNSUPPORTED_END;
  return CAPL_FAIL(unsupported ? CAPL_EUNSUPPORTED : CAPL_EDEVICE, "cuDNN: %s: %s: %s", doing,
                   cudnnGetErrorString(status), reason);
}

/* ---- descriptors, with the first failure kept ------------------------------------------------------ */

static void check(dnn_graph *g, cudnnStatus_t status, const char *doing)
{
  if (g->status == CAPL_OK) g->status = dnn_status(status, doing);
}

static descriptor make(dnn_graph *g, cudnnBackendDescriptorType_t type)
{
  descriptor d = NULL;
  if (g->status != CAPL_OK) return NULL;
  if (g->count == DNN_DESCRIPTORS) {
    g->status = CAPL_FAIL(CAPL_EINTERNAL, "a graph of more than %d descriptors", (int)DNN_DESCRIPTORS);
    return NULL;
  }
  check(g, cudnnBackendCreateDescriptor(type, &d), "making a descriptor");
  if (d) g->all[g->count++] = d;
  return d;
}

static void set(dnn_graph *g, descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *values, const char *doing)
{
  if (g->status == CAPL_OK) check(g, cudnnBackendSetAttribute(d, name, type, count, values), doing);
}

static descriptor finish(dnn_graph *g, descriptor d, const char *doing)
{
  if (g->status == CAPL_OK) check(g, cudnnBackendFinalize(d), doing);
  return d;
}

static void finish_op(dnn_graph *g, descriptor d, const char *doing)
{
  finish(g, d, doing);
  g->ops[g->n_ops++] = d;
}

/* The attribute's name is the text of its errors. */
#define SET_LIST(g, d, NAME, n, values) set(g, d, NAME, CUDNN_TYPE_INT64, n, values, #NAME)
#define SET_INT(g, d, NAME, value) set(g, d, NAME, CUDNN_TYPE_INT64, 1, &(int64_t){value}, #NAME)
#define SET_BOOL(g, d, NAME, value) set(g, d, NAME, CUDNN_TYPE_BOOLEAN, 1, &(bool){value}, #NAME)
/* Of the compute type: of a double, which is taken, too, some engines read the float in its lower half, which is 0. */
#define SET_SCALE(g, d, NAME, value) set(g, d, NAME, CUDNN_TYPE_FLOAT, 1, &(float){value}, #NAME)
#define SET_DTYPE(g, d, NAME, value) set(g, d, NAME, CUDNN_TYPE_DATA_TYPE, 1, &(cudnnDataType_t){value}, #NAME)
#define SET_PART(g, d, NAME, value) set(g, d, NAME, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &(descriptor){value}, #NAME)
#define SET_ENUM(g, d, NAME, TYPE, ctype, value) set(g, d, NAME, TYPE, 1, &(ctype){value}, #NAME)

/* ---- tensors --------------------------------------------------------------------------------------- */

enum { ALIGNMENT = 16 }; /* of every pointer, see dnn_run.c */

static cudnnDataType_t data_type(capl_dtype dtype)
{
  switch (dtype) {
    case CAPL_F16: return CUDNN_DATA_HALF;
    case CAPL_BF16: return CUDNN_DATA_BFLOAT16;
    case CAPL_U8: return CUDNN_DATA_INT8; /* indices, at most 127 */
    default: return CUDNN_DATA_FLOAT;
  }
}

typedef enum { IN_MEMORY, BETWEEN_OPS, BY_VALUE } tensor_kind;

static descriptor tensor(dnn_graph *g, cudnnDataType_t type, const int64_t *size, int64_t uid, tensor_kind kind)
{
  int64_t C = size[1], H = size[2], W = size[3];
  descriptor d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  SET_DTYPE(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  SET_LIST(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, 4, size);
  SET_LIST(g, d, CUDNN_ATTR_TENSOR_STRIDES, 4, ((int64_t[]){H * W * C, 1, W * C, C}));
  SET_INT(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  SET_INT(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT);
  SET_BOOL(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, kind == BETWEEN_OPS);
  SET_BOOL(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, kind == BY_VALUE);
  return finish(g, d, "a tensor");
}

/* The tensor of a role; NULL where the record has none. */
static descriptor of_role(dnn_graph *g, const dnn_record *r, dnn_role role)
{
  dnn_tensor t = dnn_tensor_of(r, role);
  if (!t.used) return NULL;
  g->tensor[role] = tensor(g, data_type(t.dtype), t.size, role + 1, IN_MEMORY);
  return g->tensor[role];
}

/* A result of y's size that only the next operation reads. */
static descriptor between(dnn_graph *g, const dnn_record *r)
{
  return tensor(g, CUDNN_DATA_FLOAT, r->y, DNN_UID_BETWEEN + ++g->between, BETWEEN_OPS);
}

static descriptor scalar(dnn_graph *g, int64_t uid)
{
  return tensor(g, CUDNN_DATA_FLOAT, (int64_t[]){1, 1, 1, 1}, uid, BY_VALUE);
}

/* ---- what follows another operation in one kernel --------------------------------------------------- */

/* y = mode(x) or mode(x, b). */
static void pointwise(dnn_graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b, descriptor y)
{
  descriptor how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  SET_ENUM(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, cudnnPointwiseMode_t, mode);
  SET_DTYPE(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  finish(g, how, "a pointwise mode");
  descriptor d = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b) SET_PART(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  finish_op(g, d, "a pointwise operation");
}

/* The end of a forward graph: out of `from`, + what `addend` is the role of, relu, into y. */
static void epilogue(dnn_graph *g, const dnn_record *r, descriptor from, dnn_role addend)
{
  descriptor b = of_role(g, r, addend);
  if (b) {
    descriptor sum = r->relu ? between(g, r) : of_role(g, r, DNN_Y);
    pointwise(g, CUDNN_POINTWISE_ADD, from, b, sum);
    from = sum;
  }
  if (r->relu) pointwise(g, CUDNN_POINTWISE_RELU_FWD, from, NULL, of_role(g, r, DNN_Y));
}

/* ---- convolution ----------------------------------------------------------------------------------- */

static descriptor conv_window(dnn_graph *g, const dnn_record *r)
{
  descriptor d = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  SET_DTYPE(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  SET_ENUM(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, cudnnConvolutionMode_t,
           CUDNN_CROSS_CORRELATION);
  SET_INT(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  SET_LIST(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, r->padding);
  SET_LIST(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, r->padding);
  SET_LIST(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, r->stride);
  SET_LIST(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 2, r->dilation);
  g->window = d;
  return finish(g, d, "a convolution");
}

static void build_conv(dnn_graph *g, const dnn_record *r)
{
  descriptor window = conv_window(g, r), y = r->bias || r->relu ? between(g, r) : of_role(g, r, DNN_Y);
  descriptor x = of_role(g, r, DNN_X), w = of_role(g, r, DNN_W);
  descriptor d = make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  SET_SCALE(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1);
  SET_SCALE(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0);
  finish_op(g, d, "conv2d");
  epilogue(g, r, y, DNN_BIAS);
}

static void build_conv_grad_x(dnn_graph *g, const dnn_record *r)
{
  descriptor window = conv_window(g, r);
  descriptor dy = of_role(g, r, DNN_DY), w = of_role(g, r, DNN_W), dx = of_role(g, r, DNN_DX);
  descriptor d = make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, window);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
  SET_SCALE(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1);
  SET_SCALE(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0);
  finish_op(g, d, "conv2d_grad_x");
}

static void build_conv_grad_w(dnn_graph *g, const dnn_record *r)
{
  descriptor window = conv_window(g, r);
  descriptor x = of_role(g, r, DNN_X), dy = of_role(g, r, DNN_DY), dw = of_role(g, r, DNN_DW);
  descriptor d = make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, window);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw);
  SET_SCALE(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1);
  SET_SCALE(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0);
  finish_op(g, d, "conv2d_grad_w");
}

/* ---- batch norm ------------------------------------------------------------------------------------ */

static void set_running(dnn_graph *g, const dnn_record *r, descriptor d)
{
  const int64_t size[4] = {1, r->x[1], 1, 1};
  descriptor mean = of_role(g, r, DNN_RUNNING_MEAN), var = of_role(g, r, DNN_RUNNING_VAR);
  descriptor momentum = scalar(g, DNN_UID_MOMENTUM);
  descriptor new_mean = tensor(g, CUDNN_DATA_FLOAT, size, DNN_UID_NEW_MEAN, IN_MEMORY);
  descriptor new_var = tensor(g, CUDNN_DATA_FLOAT, size, DNN_UID_NEW_VAR, IN_MEMORY);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, momentum);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, mean);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, var);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, new_mean);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, new_var);
}

static void build_norm(dnn_graph *g, const dnn_record *r)
{
  descriptor y = r->add || r->relu ? between(g, r) : of_role(g, r, DNN_Y);
  descriptor x = of_role(g, r, DNN_X), mean = of_role(g, r, DNN_MEAN), invstd = of_role(g, r, DNN_INVSTD);
  descriptor scale = of_role(g, r, DNN_SCALE), shift = of_role(g, r, DNN_SHIFT), eps = scalar(g, DNN_UID_EPS);
  descriptor d = make(g, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  SET_ENUM(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, cudnnBackendNormMode_t, CUDNN_BATCH_NORM);
  SET_ENUM(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, cudnnBackendNormFwdPhase_t,
           CUDNN_NORM_FWD_TRAINING);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, invstd);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, scale);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, shift);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, eps);
  if (r->running) set_running(g, r, d);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y);
  finish_op(g, d, "batch_norm");
  epilogue(g, r, y, DNN_ADD);
}

static void build_norm_grad(dnn_graph *g, const dnn_record *r)
{
  descriptor x = of_role(g, r, DNN_X), dy = of_role(g, r, DNN_DY), dx = of_role(g, r, DNN_DX);
  descriptor mean = of_role(g, r, DNN_MEAN), invstd = of_role(g, r, DNN_INVSTD);
  descriptor scale = of_role(g, r, DNN_SCALE), dscale = of_role(g, r, DNN_DSCALE), dshift = of_role(g, r, DNN_DSHIFT);
  descriptor d = make(g, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  SET_ENUM(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, cudnnBackendNormMode_t, CUDNN_BATCH_NORM);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, invstd);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dy);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, scale);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dscale);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dshift);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx);
  finish_op(g, d, "batch_norm_grad");
}

/* ---- pooling --------------------------------------------------------------------------------------- */

/* Pixels behind x along an axis: the padding, or more where ceil_mode lets the last window hang over. */
static int64_t padding_behind(const dnn_record *r, int axis)
{
  int64_t reach = (r->y[2 + axis] - 1) * r->stride[axis] + r->kernel[axis];
  int64_t needed = reach - r->x[2 + axis] - r->padding[axis];
  return needed > r->padding[axis] ? needed : r->padding[axis];
}

static void set_fractions(dnn_graph *g, descriptor d, cudnnBackendAttributeName_t name, int64_t rows, int64_t columns)
{
  cudnnFraction_t values[2] = {{rows, 1}, {columns, 1}};
  set(g, d, name, CUDNN_TYPE_FRACTION, 2, values, "the sizes of a pool");
}

static descriptor pool_window(dnn_graph *g, const dnn_record *r)
{
  bool max = r->kind == DNN_MAX_POOL || r->kind == DNN_MAX_POOL_GRAD;
  cudnnResampleMode_t average = r->count_pad ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                                             : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
  descriptor d = make(g, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  SET_ENUM(g, d, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, cudnnResampleMode_t,
           max ? CUDNN_RESAMPLE_MAXPOOL : average);
  SET_DTYPE(g, d, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT);
  SET_ENUM(g, d, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, cudnnPaddingMode_t,
           max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD);
  SET_INT(g, d, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, 2);
  if (max) SET_ENUM(g, d, CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, cudnnNanPropagation_t,
                    CUDNN_PROPAGATE_NAN);
  set_fractions(g, d, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, r->kernel[0], r->kernel[1]);
  set_fractions(g, d, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, r->padding[0], r->padding[1]);
  set_fractions(g, d, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, padding_behind(r, 0), padding_behind(r, 1));
  set_fractions(g, d, CUDNN_ATTR_RESAMPLE_STRIDES, r->stride[0], r->stride[1]);
  g->window = d;
  return finish(g, d, "a pool");
}

static void build_pool(dnn_graph *g, const dnn_record *r)
{
  descriptor window = pool_window(g, r);
  descriptor x = of_role(g, r, DNN_X), y = of_role(g, r, DNN_Y), index = of_role(g, r, DNN_INDEX);
  descriptor d = make(g, CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, window);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y);
  if (index) SET_PART(g, d, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, index);
  finish_op(g, d, "a pool");
}

/* A max pool's gradient always has an index: cuDNN 9.19 crashes on the NHWC form without one. */
static void build_pool_grad(dnn_graph *g, const dnn_record *r)
{
  descriptor window = pool_window(g, r);
  descriptor dx = of_role(g, r, DNN_DX), dy = of_role(g, r, DNN_DY), index = of_role(g, r, DNN_INDEX);
  descriptor d = make(g, CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, window);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, dx);
  SET_PART(g, d, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, dy);
  if (index) SET_PART(g, d, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, index);
  finish_op(g, d, "the gradient of a pool");
}

/* ---- graphs ---------------------------------------------------------------------------------------- */

static void (*const build[DNN_KINDS])(dnn_graph *g, const dnn_record *r) = {
  [DNN_CONV] = build_conv,
  [DNN_CONV_GRAD_X] = build_conv_grad_x,
  [DNN_CONV_GRAD_W] = build_conv_grad_w,
  [DNN_NORM] = build_norm,
  [DNN_NORM_GRAD] = build_norm_grad,
  [DNN_MAX_POOL] = build_pool,
  [DNN_MAX_POOL_GRAD] = build_pool_grad,
  [DNN_AVG_POOL] = build_pool,
  [DNN_AVG_POOL_GRAD] = build_pool_grad,
};

capl_status dnn_graph_build(dnn_graph *g, const dnn_record *record, cudnnHandle_t handle)
{
  memset(g, 0, sizeof *g);
  build[record->kind](g, record);
  descriptor d = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(g, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops,
      "the operations of a graph");
  if (handle) set(g, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, "the handle of a graph");
  g->graph = finish(g, d, "a graph");
  return g->status;
}

void dnn_graph_free(dnn_graph *g)
{
  while (g->count) cudnnBackendDestroyDescriptor(g->all[--g->count]);
}
