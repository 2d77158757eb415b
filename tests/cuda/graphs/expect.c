/* expect.c -- from a record to the tensors and operations that cuDNN must hold, by rules of its own.
**
** Nothing of dnn_record.c's or dnn_graph.c's knowledge is used here but the numbers of tensors: sizes, strides, types,
** windows and wiring are worked out again from the record's fields.
** SPDX-License-Identifier: Apache-2.0
*/
#include "expect.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void wrong(findings *f, const char *fmt, ...) CAPL_PRINTF(2, 3);
static void wrong(findings *f, const char *fmt, ...)
{
  if (f->wrong[0]) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(f->wrong, sizeof f->wrong, fmt, args);
  va_end(args);
}

static void other(findings *f, const char *name)
{
  char word[64];
  snprintf(word, sizeof word, " %s", name);
  if (!strstr(f->others, word) && strlen(f->others) + strlen(word) < sizeof f->others) strcat(f->others, word);
}

/* ---- tensors that a record needs ------------------------------------------------------------------- */

typedef struct {
  int64_t uid, size[4];
  const char *type;
  bool between, by_value;
} tensor;

typedef struct {
  tensor list[DNN_ROLES + 8];
  int count;
} tensors;

static const char *type_name(capl_dtype dtype)
{
  return dtype == CAPL_F16 ? "CUDNN_DATA_HALF" : dtype == CAPL_BF16 ? "CUDNN_DATA_BFLOAT16" : "CUDNN_DATA_FLOAT";
}

static void add(tensors *t, int64_t uid, const char *type, int64_t n, int64_t c, int64_t h, int64_t w)
{
  t->list[t->count++] = (tensor){uid, {n, c, h, w}, type, uid > DNN_UID_BETWEEN, uid == DNN_UID_EPS
                                 || uid == DNN_UID_MOMENTUM};
}

#define UID(role) (DNN_##role + 1)
#define IMAGE(role, size) add(t, UID(role), type_name(r->dtype), size[0], size[1], size[2], size[3])
#define PER_CHANNEL(uid) add(t, uid, "CUDNN_DATA_FLOAT", 1, r->x[1], 1, 1)
#define NUMBER(uid) add(t, uid, "CUDNN_DATA_FLOAT", 1, 1, 1, 1)
#define WEIGHTS(role) \
  add(t, UID(role), type_name(r->dtype), r->y[1], r->x[1] / r->groups, r->kernel[0], r->kernel[1])

static void add_between(tensors *t, const dnn_record *r, int count)
{
  for (int i = 1; i <= count; i++)
    add(t, DNN_UID_BETWEEN + i, "CUDNN_DATA_FLOAT", r->y[0], r->y[1], r->y[2], r->y[3]);
}

static void conv_tensors(tensors *t, const dnn_record *r)
{
  IMAGE(X, r->x);
  WEIGHTS(W);
  IMAGE(Y, r->y);
  if (r->bias) add(t, UID(BIAS), type_name(r->bias_dtype), 1, r->y[1], 1, 1);
  add_between(t, r, r->bias + r->relu);
}

static void norm_tensors(tensors *t, const dnn_record *r)
{
  IMAGE(X, r->x);
  IMAGE(Y, r->x);
  PER_CHANNEL(UID(SCALE)), PER_CHANNEL(UID(SHIFT)), PER_CHANNEL(UID(MEAN)), PER_CHANNEL(UID(INVSTD));
  NUMBER(DNN_UID_EPS);
  if (r->add) IMAGE(ADD, r->x);
  add_between(t, r, r->add + r->relu);
  if (!r->running) return;
  PER_CHANNEL(UID(RUNNING_MEAN)), PER_CHANNEL(UID(RUNNING_VAR));
  PER_CHANNEL(DNN_UID_NEW_MEAN), PER_CHANNEL(DNN_UID_NEW_VAR);
  NUMBER(DNN_UID_MOMENTUM);
}

static void norm_grad_tensors(tensors *t, const dnn_record *r)
{
  IMAGE(X, r->x);
  IMAGE(DY, r->x);
  IMAGE(DX, r->x);
  PER_CHANNEL(UID(SCALE)), PER_CHANNEL(UID(MEAN)), PER_CHANNEL(UID(INVSTD));
  PER_CHANNEL(UID(DSCALE)), PER_CHANNEL(UID(DSHIFT));
}

static void add_index(tensors *t, const dnn_record *r)
{
  add(t, UID(INDEX), "CUDNN_DATA_INT8", r->y[0], r->y[1], r->y[2], r->y[3]);
}

static void needed_tensors(tensors *t, const dnn_record *r)
{
  t->count = 0;
  switch (r->kind) {
    case DNN_CONV: conv_tensors(t, r); break;
    case DNN_CONV_GRAD_X: IMAGE(DY, r->y), WEIGHTS(W), IMAGE(DX, r->x); break;
    case DNN_CONV_GRAD_W: IMAGE(X, r->x), IMAGE(DY, r->y), WEIGHTS(DW); break;
    case DNN_NORM: norm_tensors(t, r); break;
    case DNN_NORM_GRAD: norm_grad_tensors(t, r); break;
    case DNN_MAX_POOL_GRAD: add_index(t, r); IMAGE(DY, r->y), IMAGE(DX, r->x); break;
    case DNN_AVG_POOL_GRAD: IMAGE(DY, r->y), IMAGE(DX, r->x); break;
    default:
      IMAGE(X, r->x), IMAGE(Y, r->y);
      if (r->index) add_index(t, r);
  }
}

/* ---- descriptors, read back ------------------------------------------------------------------------- */

static void same_list(findings *f, const char *what, const char *name, cudnnBackendDescriptor_t d,
                      cudnnBackendAttributeName_t attribute, int count, const int64_t *want)
{
  int64_t got[8] = {0}, n = 0;
  cudnnStatus_t status = cudnnBackendGetAttribute(d, attribute, CUDNN_TYPE_INT64, count, &n, got);
  if (status != CUDNN_STATUS_SUCCESS) {
    other(f, name);
    return;
  }
  f->compared++;
  if (n != count || memcmp(got, want, (size_t)count * sizeof *got) != 0)
    wrong(f, "%s: %s is %" PRId64 ",%" PRId64 ", not %" PRId64 ",%" PRId64 " (and so on)", what, name, got[0], got[1],
          want[0], count > 1 ? want[1] : 0);
}
#define SAME_LIST(what, d, NAME, count, want) same_list(f, what, #NAME, d, CUDNN_ATTR_##NAME, count, want)

static void same_flag(findings *f, const char *what, const char *name, cudnnBackendDescriptor_t d,
                      cudnnBackendAttributeName_t attribute, bool want)
{
  bool got = !want;
  int64_t n = 0;
  cudnnStatus_t status = cudnnBackendGetAttribute(d, attribute, CUDNN_TYPE_BOOLEAN, 1, &n, &got);
  if (status != CUDNN_STATUS_SUCCESS) other(f, name);
  else if (f->compared++, got != want) wrong(f, "%s: %s is %d, not %d", what, name, got, want);
}
#define SAME_FLAG(what, d, NAME, want) same_flag(f, what, #NAME, d, CUDNN_ATTR_##NAME, want)

static cudnnDataType_t type_of(const char *name)
{
  return strcmp(name, "CUDNN_DATA_HALF") == 0       ? CUDNN_DATA_HALF
         : strcmp(name, "CUDNN_DATA_BFLOAT16") == 0 ? CUDNN_DATA_BFLOAT16
         : strcmp(name, "CUDNN_DATA_INT8") == 0     ? CUDNN_DATA_INT8
                                                    : CUDNN_DATA_FLOAT;
}

/* Images are N,H,W,C in memory. */
static void strides_of(const int64_t *size, int64_t *stride)
{
  stride[1] = 1;
  stride[3] = size[1];
  stride[2] = size[1] * size[3];
  stride[0] = size[1] * size[3] * size[2];
}

static void same_tensor(findings *f, const tensor *t, cudnnBackendDescriptor_t d)
{
  char what[32];
  int64_t stride[4], n = 0;
  cudnnDataType_t type = CUDNN_DATA_DOUBLE;
  snprintf(what, sizeof what, "tensor %" PRId64, t->uid);
  strides_of(t->size, stride);
  SAME_LIST(what, d, TENSOR_DIMENSIONS, 4, t->size);
  SAME_LIST(what, d, TENSOR_STRIDES, 4, stride);
  SAME_LIST(what, d, TENSOR_UNIQUE_ID, 1, &t->uid);
  SAME_FLAG(what, d, TENSOR_IS_VIRTUAL, false);
  SAME_FLAG(what, d, TENSOR_IS_BY_VALUE, false);
  cudnnBackendGetAttribute(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &n, &type);
  f->compared++;
  if (type != type_of(t->type)) wrong(f, "%s: data type is %d, not %s", what, (int)type, t->type);
}

static void same_window(findings *f, const dnn_record *r, cudnnBackendDescriptor_t d)
{
  int64_t two = 2;
  SAME_LIST("convolution", d, CONVOLUTION_SPATIAL_DIMS, 1, &two);
  SAME_LIST("convolution", d, CONVOLUTION_PRE_PADDINGS, 2, r->padding);
  SAME_LIST("convolution", d, CONVOLUTION_POST_PADDINGS, 2, r->padding);
  SAME_LIST("convolution", d, CONVOLUTION_FILTER_STRIDES, 2, r->stride);
  SAME_LIST("convolution", d, CONVOLUTION_DILATIONS, 2, r->dilation);
}

static void same_fractions(findings *f, const char *name, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t attribute, const int64_t *want)
{
  cudnnFraction_t got[2] = {{0, 0}, {0, 0}};
  int64_t n = 0;
  cudnnBackendGetAttribute(d, attribute, CUDNN_TYPE_FRACTION, 2, &n, got);
  f->compared++;
  for (int i = 0; i < 2; i++)
    if (n != 2 || got[i].numerator != want[i] || got[i].denominator != 1)
      wrong(f, "pool: %s is not what the record says", name);
}
#define SAME_FRACTIONS(NAME, want) same_fractions(f, #NAME, d, CUDNN_ATTR_##NAME, want)

static void same_pool(findings *f, const dnn_record *r, cudnnBackendDescriptor_t d)
{
  SAME_FRACTIONS(RESAMPLE_WINDOW_DIMS, r->kernel);
  SAME_FRACTIONS(RESAMPLE_STRIDES, r->stride);
  SAME_FRACTIONS(RESAMPLE_PRE_PADDINGS, r->padding);
}

void expect_descriptors(const dnn_record *record, const dnn_graph *g, findings *f)
{
  tensors need;
  int in_memory = 0, made = 0;
  needed_tensors(&need, record);
  for (int i = 0; i < need.count; i++) {
    const tensor *t = &need.list[i];
    if (t->uid > DNN_ROLES) continue;
    in_memory++;
    if (!g->tensor[t->uid - 1]) wrong(f, "tensor %" PRId64 " is missing", t->uid);
    else same_tensor(f, t, g->tensor[t->uid - 1]);
  }
  for (int role = 0; role < DNN_ROLES; role++) made += g->tensor[role] != NULL;
  if (made != in_memory) wrong(f, "%d tensors were made, %d are needed", made, in_memory);
  if (record->kind <= DNN_CONV_GRAD_W) same_window(f, record, g->window);
  else if (g->window) same_pool(f, record, g->window);
}

/* ---- the graph that a plan writes down ---------------------------------------------------------------- */

/* One operation: pairs of key and value as JSON. */
typedef struct {
  const char *operation;
  struct {
    const char *key;
    char value[64];
  } pair[24];
  int count;
} node;

typedef struct {
  node list[DNN_OPS];
  int count;
} nodes;

static void say(node *n, const char *key, const char *fmt, ...) CAPL_PRINTF(3, 4);
static void say(node *n, const char *key, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  n->pair[n->count].key = key;
  vsnprintf(n->pair[n->count].value, sizeof n->pair[n->count].value, fmt, args);
  n->count++;
  va_end(args);
}

static void say_word(node *n, const char *key, const char *word) { say(n, key, "\"%s\"", word); }
static void say_tensor(node *n, const char *key, int64_t uid) { say(n, key, "\"%" PRId64 "\"", uid); }
static void say_two(node *n, const char *key, const int64_t *v) { say(n, key, "[%" PRId64 ",%" PRId64 "]", v[0], v[1]);
    }
static void say_fractions(node *n, const char *key, int64_t a, int64_t b)
{
  say(n, key, "[[%" PRId64 ",1],[%" PRId64 ",1]]", a, b);
}

static node *add_node(nodes *all, const char *operation)
{
  node *n = &all->list[all->count++];
  *n = (node){.operation = operation};
  return n;
}

static node *add_conv(nodes *all, const dnn_record *r, const char *operation)
{
  node *n = add_node(all, operation);
  say_word(n, "mode", "CUDNN_CROSS_CORRELATION");
  say_word(n, "mathPrec", "CUDNN_DATA_FLOAT");
  say(n, "alpha", "1");
  say(n, "beta", "0");
  say_two(n, "pad", r->padding);
  say_two(n, "stride", r->stride);
  say_two(n, "dilation", r->dilation);
  if (r->groups > 1) say(n, "groupCount", "%" PRId64, r->groups);
  return n;
}

static node *add_pointwise(nodes *all, const char *mode, int64_t from, int64_t to)
{
  node *n = add_node(all, "CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR");
  say_word(n, "pointwiseMode", mode);
  say_word(n, "mathPrec", "CUDNN_DATA_FLOAT");
  say(n, "alpha1", "1");
  say(n, "alpha2", "1");
  say_tensor(n, "X", from);
  say_tensor(n, "Y", to);
  return n;
}

/* What follows: + addend, relu; the last one writes y. */
static void add_epilogue(nodes *all, const dnn_record *r, bool sum, int64_t addend)
{
  int64_t from = DNN_UID_BETWEEN + 1;
  if (sum) {
    int64_t to = r->relu ? from + 1 : UID(Y);
    say_tensor(add_pointwise(all, "CUDNN_POINTWISE_ADD", from, to), "B", addend);
    from = to;
  }
  if (!r->relu) return;
  node *n = add_pointwise(all, "CUDNN_POINTWISE_RELU_FWD", from, UID(Y));
  say(n, "lowerClip", "0");
  say(n, "lowerClipSlope", "0");
}

static void say_norm(node *n, const dnn_record *r, bool fused)
{
  say_word(n, "mode", "CUDNN_BATCH_NORM");
  say_word(n, "fmode", "CUDNN_NORM_FWD_TRAINING");
  say_tensor(n, "X", UID(X));
  say_tensor(n, "Y", fused ? DNN_UID_BETWEEN + 1 : UID(Y));
  say_tensor(n, "Mean", UID(MEAN));
  say_tensor(n, "InvVariance", UID(INVSTD));
  say_tensor(n, "Scale", UID(SCALE));
  say_tensor(n, "Bias", UID(SHIFT));
  say_tensor(n, "epsilonDesc", DNN_UID_EPS);
  if (!r->running) return;
  say_tensor(n, "InRunningMean", UID(RUNNING_MEAN));
  say_tensor(n, "InRunningVar", UID(RUNNING_VAR));
  say_tensor(n, "OutRunningMean", DNN_UID_NEW_MEAN);
  say_tensor(n, "OutRunningVar", DNN_UID_NEW_VAR);
  say_tensor(n, "expavgfactorDesc", DNN_UID_MOMENTUM);
}

static void say_norm_grad(node *n)
{
  say_word(n, "mode", "CUDNN_BATCH_NORM");
  say_tensor(n, "X", UID(X));
  say_tensor(n, "DY", UID(DY));
  say_tensor(n, "DX", UID(DX));
  say_tensor(n, "Mean", UID(MEAN));
  say_tensor(n, "InvVariance", UID(INVSTD));
  say_tensor(n, "Scale", UID(SCALE));
  say_tensor(n, "DScale", UID(DSCALE));
  say_tensor(n, "DBias", UID(DSHIFT));
}

/* Padding behind: as before, or as much as the last window needs (ceil_mode). */
static int64_t behind(const dnn_record *r, int axis)
{
  int64_t last_end = (r->y[2 + axis] - 1) * r->stride[axis] - r->padding[axis] + r->kernel[axis];
  int64_t over = last_end - r->x[2 + axis];
  return over > r->padding[axis] ? over : r->padding[axis];
}

static void add_pool(nodes *all, const dnn_record *r, bool max, bool forward)
{
  node *n = add_node(all, forward ? "CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR"
                                  : "CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR");
  const char *average = r->count_pad ? "CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING"
      : "CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING";
  say_word(n, "mode", max ? "CUDNN_RESAMPLE_MAXPOOL" : average);
  say_word(n, "paddingMode", max ? "CUDNN_NEG_INF_PAD" : "CUDNN_ZERO_PAD");
  say_word(n, "nanOpt", max ? "CUDNN_PROPAGATE_NAN" : "CUDNN_NOT_PROPAGATE_NAN");
  say_word(n, "compType", "CUDNN_DATA_FLOAT");
  say(n, "nbSpatialDims", "2");
  say_fractions(n, "windowDim", r->kernel[0], r->kernel[1]);
  say_fractions(n, "stride", r->stride[0], r->stride[1]);
  say_fractions(n, "prePad", r->padding[0], r->padding[1]);
  say_fractions(n, "postPad", behind(r, 0), behind(r, 1));
  say(n, "alpha", "1");
  say(n, "beta", "0");
  if (forward) say_tensor(n, "X", UID(X)), say_tensor(n, "Y", UID(Y));
  else say_tensor(n, "dX", UID(DX)), say_tensor(n, "dY", UID(DY));
  if (max && (r->index || !forward)) say_tensor(n, "Idx", UID(INDEX));
}

static void needed_nodes(nodes *all, const dnn_record *r)
{
  node *n;
  all->count = 0;
  switch (r->kind) {
    case DNN_CONV:
      n = add_conv(all, r, "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR");
      say_tensor(n, "X", UID(X)), say_tensor(n, "W", UID(W));
      say_tensor(n, "Y", r->bias || r->relu ? DNN_UID_BETWEEN + 1 : UID(Y));
      add_epilogue(all, r, r->bias, UID(BIAS));
      break;
    case DNN_CONV_GRAD_X:
      n = add_conv(all, r, "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR");
      say_tensor(n, "dY", UID(DY)), say_tensor(n, "W", UID(W)), say_tensor(n, "dX", UID(DX));
      break;
    case DNN_CONV_GRAD_W:
      n = add_conv(all, r, "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR");
      say_tensor(n, "X", UID(X)), say_tensor(n, "dY", UID(DY)), say_tensor(n, "dW", UID(DW));
      break;
    case DNN_NORM:
      say_norm(add_node(all, "CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR"), r, r->add || r->relu);
      add_epilogue(all, r, r->add, UID(ADD));
      break;
    case DNN_NORM_GRAD: say_norm_grad(add_node(all, "CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR")); break;
    case DNN_MAX_POOL: add_pool(all, r, true, true); break;
    case DNN_MAX_POOL_GRAD: add_pool(all, r, true, false); break;
    case DNN_AVG_POOL: add_pool(all, r, false, true); break;
    default: add_pool(all, r, false, false);
  }
}

/* ---- comparing JSON ------------------------------------------------------------------------------------ */

static void same_value(findings *f, const char *where, const cJSON *object, const char *key, const char *want)
{
  char *got = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(object, key));
  f->compared++;
  if (!got || strcmp(got, want) != 0) wrong(f, "%s: %s is %s, not %s", where, key, got ? got : "missing", want);
  free(got);
}

static void same_node(findings *f, const cJSON *got, const node *want)
{
  char operation[96];
  snprintf(operation, sizeof operation, "\"%s\"", want->operation);
  same_value(f, "a node", got, "operation", operation);
  for (int i = 0; i < want->count; i++) same_value(f, want->operation, got, want->pair[i].key, want->pair[i].value);
  for (const cJSON *item = got->child; item; item = item->next) {
    bool known = strcmp(item->string, "operation") == 0;
    for (int i = 0; i < want->count; i++) known |= strcmp(item->string, want->pair[i].key) == 0;
    if (!known) other(f, item->string);
  }
}

static void same_json_tensor(findings *f, const cJSON *got, const tensor *want)
{
  char where[32], value[128];
  int64_t stride[4];
  const int64_t *size = want->size;
  strides_of(size, stride);
  snprintf(where, sizeof where, "tensor %" PRId64 " of the plan", want->uid);
  snprintf(value, sizeof value, "\"%s\"", want->type);
  same_value(f, where, got, "dataType", value);
  snprintf(value, sizeof value, "[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", size[0], size[1], size[2],
           size[3]);
  same_value(f, where, got, "dim", value);
  snprintf(value, sizeof value, "[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", stride[0], stride[1], stride[2],
           stride[3]);
  same_value(f, where, got, "stride", value);
  same_value(f, where, got, "isVirtual", want->between ? "true" : "false");
  same_value(f, where, got, "isByValue", want->by_value ? "true" : "false");
  same_value(f, where, got, "ptrAlignment", "16");
  same_value(f, where, got, "vectCount", "1");
}

static const cJSON *tensor_named(const cJSON *list, int64_t uid)
{
  char name[32];
  const cJSON *item;
  snprintf(name, sizeof name, "%" PRId64, uid);
  cJSON_ArrayForEach(item, list) {
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(item, "name");
    if (cJSON_IsString(own) && strcmp(own->valuestring, name) == 0) return item;
  }
  return NULL;
}

static void same_graph(findings *f, const dnn_record *record, const cJSON *graph)
{
  const cJSON *got_tensors = cJSON_GetObjectItemCaseSensitive(graph, "tensors");
  const cJSON *got_nodes = cJSON_GetObjectItemCaseSensitive(graph, "nodes");
  tensors need;
  nodes all;
  needed_tensors(&need, record);
  needed_nodes(&all, record);
  if (cJSON_GetArraySize(got_tensors) != need.count)
    wrong(f, "the plan has %d tensors, %d are needed", cJSON_GetArraySize(got_tensors), need.count);
  if (cJSON_GetArraySize(got_nodes) != all.count)
    wrong(f, "the plan has %d operations, %d are needed", cJSON_GetArraySize(got_nodes), all.count);
  for (int i = 0; i < need.count && !f->wrong[0]; i++) {
    const cJSON *got = tensor_named(got_tensors, need.list[i].uid);
    if (!got) wrong(f, "the plan lacks tensor %" PRId64, need.list[i].uid);
    else same_json_tensor(f, got, &need.list[i]);
  }
  for (int i = 0; i < all.count && !f->wrong[0]; i++) same_node(f, cJSON_GetArrayItem(got_nodes, i), &all.list[i]);
}

void expect_plan(const dnn_record *record, const char *json, findings *f)
{
  cJSON *plan = cJSON_Parse(json);
  if (!plan) {
    wrong(f, "the plan's own text is no JSON");
    return;
  }
  same_graph(f, record, cJSON_GetObjectItemCaseSensitive(plan, "operationGraph"));
  cJSON_Delete(plan);
}
