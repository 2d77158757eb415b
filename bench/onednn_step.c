/* onednn_step.c -- one training step of captcha_cnn written against oneDNN alone: the yardstick for capl.
**
** No framework, no data, no autograd: every primitive and every buffer is made once, then a step runs
** the list. What capl adds on top of this (tape, modules, allocator, Lua) must cost next to nothing.
** Left out on purpose: dropout and BN's running averages. Buffers are never shared between tensors, so
** the memory value is an upper bound for a step that frees nothing.
**
** usage: onednn_step {f32|bf16} {nhwc|blocked|winograd} BATCH STEPS      (prints one line of JSON)
**   nhwc      every activation is plain N,H,W,C
**   blocked   layouts of oneDNN's choice, direct convolution
**   winograd  layouts of oneDNN's choice, dnnl_convolution_auto (f32 only)
** SPDX-License-Identifier: Apache-2.0
*/
#include "onednn_api.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

enum { N_CONV = 7, N_LINEAR = 2, N_OUT = 144, N_CLASSES = 36, N_WARM_UP = 3 };
enum { MAX_STAGES = 200, MAX_PARAMETERS = 40, MAX_ARGS = 12 };

/* ---- what was asked for, and the state shared by all that follows ---- */

static struct {
  bool bf16, nhwc;
  dnnl_dim_t batch;
  int steps;
  dnnl_data_type_t dtype; /* of activations and of the weights the primitives read */
  dnnl_alg_kind_t conv_alg;
} config;

static dnnl_engine_t engine;
static dnnl_stream_t stream;

/* A step is this list, run in order: a oneDNN primitive, or one of our own functions. */
typedef struct {
  dnnl_primitive_t primitive;
  void (*function)(void); /* used when primitive is NULL */
  dnnl_exec_arg_t args[MAX_ARGS];
  int n_args;
} stage;
static stage stages[MAX_STAGES];
static int n_stages;

/* f32 master weights with their gradient and AdamW moments; all in one memory order. */
typedef struct {
  float *w, *grad, *m, *v;
  size_t count;
} parameter;
static parameter parameters[MAX_PARAMETERS];
static int n_parameters;

/* ---- buffers ---- */

static void *zeroed(size_t bytes)
{
  size_t align = bytes >= (1u << 20) ? 2u << 20 : 64; /* big ones start on a huge page */
  void *p = aligned_alloc(align, (bytes + align - 1) / align * align + align);
  if (!p) exit(1);
  return memset(p, 0, bytes);
}

static desc desc_of(dnnl_memory_t t)
{
  desc d;
  DNNL_CHECK(dnnl_memory_get_memory_desc(t, &d));
  return d;
}

static void *data_of(dnnl_memory_t t)
{
  void *p;
  DNNL_CHECK(dnnl_memory_get_data_handle(t, &p));
  return p;
}

static dnnl_memory_t tensor_new(desc d)
{
  dnnl_memory_t t;
  DNNL_CHECK(dnnl_memory_create(&t, d, engine, zeroed(dnnl_memory_desc_get_size(d))));
  return t;
}

/* The same bytes under another shape. */
static dnnl_memory_t tensor_view(desc d, dnnl_memory_t of)
{
  dnnl_memory_t t;
  DNNL_CHECK(dnnl_memory_create(&t, d, engine, data_of(of)));
  return t;
}

/* Uniform in [0,1): splitmix64 of a running number. */
static float uniform(void)
{
  static uint64_t count;
  uint64_t z = ++count * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (float)((z ^ (z >> 31)) >> 40) * 0x1p-24f;
}

static uint16_t to_bf16(float f)
{
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static float from_bf16(uint16_t h)
{
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static void fill_uniform(dnnl_memory_t t, float low, float high)
{
  bool is_bf16 = desc_dtype(desc_of(t)) == dnnl_bf16;
  size_t count = dnnl_memory_desc_get_size(desc_of(t)) / (is_bf16 ? 2 : 4);
  for (size_t i = 0; i < count; i++) {
    float u = low + (high - low) * uniform();
    if (is_bf16)
      ((uint16_t *)data_of(t))[i] = to_bf16(u);
    else
      ((float *)data_of(t))[i] = u;
  }
}

/* ---- the list of stages ---- */

static stage *stage_new(void)
{
  if (n_stages == MAX_STAGES) exit(1);
  return &stages[n_stages++];
}

static void stage_run(const stage *s)
{
  if (s->primitive) {
    DNNL_CHECK(dnnl_primitive_execute(s->primitive, stream, s->n_args, s->args));
    DNNL_CHECK(dnnl_stream_wait(stream));
  } else {
    s->function();
  }
}

/* args ends at the first one without memory. */
static void append(plan p, const dnnl_exec_arg_t *args)
{
  stage *s = stage_new();
  DNNL_CHECK(dnnl_primitive_create(&s->primitive, p));
  for (; args->memory; args++) s->args[s->n_args++] = *args;
}
#define APPEND(plan, ...) append((plan), (dnnl_exec_arg_t[]){__VA_ARGS__, {0, NULL}})

static void append_reorder(dnnl_memory_t from, dnnl_memory_t to)
{
  plan p;
  DNNL_CHECK(dnnl_reorder_primitive_desc_create(&p, desc_of(from), engine, desc_of(to), engine, NULL));
  APPEND(p, {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to});
}

/* t itself if it already has the wanted layout, else a copy that every step refreshes. */
static dnnl_memory_t in_layout(dnnl_memory_t t, desc wanted)
{
  if (dnnl_memory_desc_equal(desc_of(t), wanted)) return t;
  dnnl_memory_t copy = tensor_new(wanted);
  append_reorder(t, copy);
  return copy;
}

static desc wants(plan p, dnnl_query_t what) { return dnnl_primitive_desc_query_md(p, what, 0); }

/* ---- shapes ---- */

#define DIMS(...) ((const dnnl_dim_t[]){__VA_ARGS__})

static desc image(dnnl_dim_t c, dnnl_dim_t h, dnnl_dim_t w)
{
  dnnl_format_tag_t tag = config.nhwc ? dnnl_nhwc : dnnl_format_tag_any;
  return desc_new(4, DIMS(config.batch, c, h, w), config.dtype, tag);
}

static desc rows(dnnl_dim_t width) { return desc_new(2, DIMS(config.batch, width), config.dtype, dnnl_nc); }

static desc vector(dnnl_dim_t n) { return desc_new(1, &n, dnnl_f32, dnnl_x); }

/* ---- parameters ---- */

static void parameter_add(dnnl_memory_t w, dnnl_memory_t grad)
{
  size_t bytes = dnnl_memory_desc_get_size(desc_of(w));
  if (n_parameters == MAX_PARAMETERS) exit(1);
  parameters[n_parameters++] =
      (parameter){data_of(w), data_of(grad), zeroed(bytes), zeroed(bytes), bytes / sizeof(float)};
}

/* A weight as the optimizer sees it (master) and as the forward primitive reads it (used). In f32 they
** are one buffer in the primitive's layout; in bf16 the master is plain f32 and copied every step. */
typedef struct {
  dnnl_memory_t master, used;
} weight;

static weight weight_new(desc plain_f32, desc wanted, float bound)
{
  weight w;
  if (config.bf16) {
    w.master = tensor_new(plain_f32);
    w.used = tensor_new(wanted);
    append_reorder(w.master, w.used);
  } else {
    w.master = w.used = tensor_new(wanted);
  }
  fill_uniform(w.master, -bound, bound);
  return w;
}

/* ---- conv + BN + ReLU (+ pool) ---- */

typedef struct {
  dnnl_dim_t c_in, c_out, h, w;
  bool pool;
  plan conv, bn, pooling;
  dnnl_memory_t x, y, z, out; /* x -conv-> y -bn,relu-> z -pool-> out */
  dnnl_memory_t bias, mean, variance, scale, shift, bn_workspace, pool_workspace;
  weight weight;
} block;

static block blocks[N_CONV] = {
    {.c_in = 1, .c_out = 32, .h = 60, .w = 160, .pool = true},
    {.c_in = 32, .c_out = 64, .h = 30, .w = 80},
    {.c_in = 64, .c_out = 64, .h = 30, .w = 80, .pool = true},
    {.c_in = 64, .c_out = 128, .h = 15, .w = 40},
    {.c_in = 128, .c_out = 128, .h = 15, .w = 40},
    {.c_in = 128, .c_out = 128, .h = 15, .w = 40, .pool = true},
    {.c_in = 128, .c_out = 128, .h = 7, .w = 20},
};

/* One input channel gains nothing from Winograd, nor from a blocked input. */
static dnnl_alg_kind_t block_alg(const block *b)
{
  return b->c_in == 1 ? dnnl_convolution_direct : config.conv_alg;
}

static desc block_input(const block *b)
{
  if (b->c_in > 1) return image(b->c_in, b->h, b->w);
  return desc_new(4, DIMS(config.batch, 1, b->h, b->w), config.dtype, config.nhwc ? dnnl_nhwc : dnnl_nchw);
}

static desc conv_weight(const block *b, dnnl_data_type_t dtype, dnnl_format_tag_t tag)
{
  return desc_new(4, DIMS(b->c_out, b->c_in, 3, 3), dtype, tag);
}

static void conv_forward(block *b, dnnl_memory_t x)
{
  float bound = sqrtf(6.0f / (float)(9 * b->c_in));
  b->conv = plan_conv(engine, block_alg(b), block_input(b), conv_weight(b, config.dtype, dnnl_format_tag_any),
                      vector(b->c_out), image(b->c_out, b->h, b->w));
  b->x = in_layout(x, wants(b->conv, dnnl_query_src_md));
  b->weight = weight_new(conv_weight(b, dnnl_f32, dnnl_oihw), wants(b->conv, dnnl_query_weights_md), bound);
  b->bias = tensor_new(vector(b->c_out));
  b->y = tensor_new(wants(b->conv, dnnl_query_dst_md));
  APPEND(b->conv, {DNNL_ARG_SRC, b->x}, {DNNL_ARG_WEIGHTS, b->weight.used}, {DNNL_ARG_BIAS, b->bias},
         {DNNL_ARG_DST, b->y});
}

static void bn_relu_forward(block *b)
{
  b->bn = plan_bn_relu(engine, desc_of(b->y));
  b->mean = tensor_new(vector(b->c_out));
  b->variance = tensor_new(vector(b->c_out));
  b->scale = tensor_new(vector(b->c_out));
  b->shift = tensor_new(vector(b->c_out));
  fill_uniform(b->scale, 1, 1);
  b->z = tensor_new(wants(b->bn, dnnl_query_dst_md));
  b->bn_workspace = tensor_new(wants(b->bn, dnnl_query_workspace_md));
  APPEND(b->bn, {DNNL_ARG_SRC, b->y}, {DNNL_ARG_MEAN, b->mean}, {DNNL_ARG_VARIANCE, b->variance},
         {DNNL_ARG_SCALE, b->scale}, {DNNL_ARG_SHIFT, b->shift}, {DNNL_ARG_WORKSPACE, b->bn_workspace},
         {DNNL_ARG_DST, b->z});
}

static void pool_forward(block *b)
{
  b->pooling = plan_max_pool(engine, desc_of(b->z), image(b->c_out, b->h / 2, b->w / 2));
  b->out = tensor_new(wants(b->pooling, dnnl_query_dst_md));
  b->pool_workspace = tensor_new(wants(b->pooling, dnnl_query_workspace_md));
  APPEND(b->pooling, {DNNL_ARG_SRC, b->z}, {DNNL_ARG_WORKSPACE, b->pool_workspace}, {DNNL_ARG_DST, b->out});
}

static dnnl_memory_t block_forward(block *b, dnnl_memory_t x)
{
  conv_forward(b, x);
  bn_relu_forward(b);
  b->out = b->z;
  if (b->pool) pool_forward(b);
  return b->out;
}

static dnnl_memory_t pool_backward(block *b, dnnl_memory_t dy)
{
  dnnl_memory_t dx = tensor_new(desc_of(b->z));
  APPEND(plan_max_pool_grad(engine, desc_of(b->z), desc_of(b->out), b->pooling), {DNNL_ARG_DIFF_DST, dy},
         {DNNL_ARG_WORKSPACE, b->pool_workspace}, {DNNL_ARG_DIFF_SRC, dx});
  return dx;
}

static dnnl_memory_t bn_relu_backward(block *b, dnnl_memory_t dz)
{
  dnnl_memory_t dy = tensor_new(desc_of(b->y));
  dnnl_memory_t dscale = tensor_new(vector(b->c_out)), dshift = tensor_new(vector(b->c_out));
  APPEND(plan_bn_relu_grad(engine, desc_of(b->y), desc_of(b->z), b->bn), {DNNL_ARG_SRC, b->y},
         {DNNL_ARG_MEAN, b->mean}, {DNNL_ARG_VARIANCE, b->variance}, {DNNL_ARG_DIFF_DST, dz},
         {DNNL_ARG_SCALE, b->scale}, {DNNL_ARG_WORKSPACE, b->bn_workspace}, {DNNL_ARG_DIFF_SRC, dy},
         {DNNL_ARG_DIFF_SCALE, dscale}, {DNNL_ARG_DIFF_SHIFT, dshift},
         {DNNL_ARG_SHIFT, bn_grad_shift(b->shift)}); /* last: may be NULL, which ends the list */
  parameter_add(b->scale, dscale);
  parameter_add(b->shift, dshift);
  return dy;
}

static void conv_backward_weight(block *b, dnnl_memory_t dy)
{
  plan p =
      plan_conv_grad_w(engine, block_alg(b), block_input(b), conv_weight(b, dnnl_f32, dnnl_format_tag_any),
                       vector(b->c_out), image(b->c_out, b->h, b->w), b->conv);
  dnnl_memory_t dw = tensor_new(wants(p, dnnl_query_diff_weights_md)), db = tensor_new(vector(b->c_out));
  dnnl_memory_t x = in_layout(b->x, wants(p, dnnl_query_src_md));
  APPEND(p, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, in_layout(dy, wants(p, dnnl_query_diff_dst_md))},
         {DNNL_ARG_DIFF_WEIGHTS, dw}, {DNNL_ARG_DIFF_BIAS, db});
  parameter_add(b->weight.master, in_layout(dw, desc_of(b->weight.master)));
  parameter_add(b->bias, db);
}

static dnnl_memory_t conv_backward_input(block *b, dnnl_memory_t dy)
{
  plan p = plan_conv_grad_x(engine, block_alg(b), block_input(b),
                            conv_weight(b, config.dtype, dnnl_format_tag_any), image(b->c_out, b->h, b->w),
                            b->conv);
  dnnl_memory_t dx = tensor_new(wants(p, dnnl_query_diff_src_md));
  dnnl_memory_t w = in_layout(b->weight.used, wants(p, dnnl_query_weights_md));
  APPEND(p, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_DST, in_layout(dy, wants(p, dnnl_query_diff_dst_md))},
         {DNNL_ARG_DIFF_SRC, dx});
  return dx;
}

/* Returns the gradient of the block's input, NULL for the first block. */
static dnnl_memory_t block_backward(block *b, dnnl_memory_t dout)
{
  dnnl_memory_t d = in_layout(dout, desc_of(b->out));
  if (b->pool) d = pool_backward(b, d);
  d = bn_relu_backward(b, d);
  conv_backward_weight(b, d);
  return b == blocks ? NULL : conv_backward_input(b, d);
}

/* ---- fully connected ---- */

typedef struct {
  dnnl_dim_t in, out;
  plan forward;
  dnnl_memory_t x, y, bias;
  weight weight;
} linear;

static linear linears[N_LINEAR] = {{.in = 17920, .out = 1024}, {.in = 1024, .out = N_OUT}};
static plan relu_plan;

/* The first layer reads the 128x7x20 image: as rows where that is only a view, as an image otherwise. */
static bool reads_image(const linear *l) { return l == linears && !config.nhwc; }

static desc linear_input(const linear *l) { return reads_image(l) ? image(128, 7, 20) : rows(l->in); }

static desc linear_weight(const linear *l, dnnl_data_type_t dtype, bool plain)
{
  if (reads_image(l))
    return desc_new(4, DIMS(l->out, 128, 7, 20), dtype, plain ? dnnl_oihw : dnnl_format_tag_any);
  return desc_new(2, DIMS(l->out, l->in), dtype, plain ? dnnl_oi : dnnl_format_tag_any);
}

static dnnl_memory_t linear_forward(linear *l, dnnl_memory_t x)
{
  float bound = 1.0f / sqrtf((float)l->in);
  l->forward = plan_linear(engine, linear_input(l), linear_weight(l, config.dtype, false), vector(l->out),
                           rows(l->out));
  l->x = in_layout(x, wants(l->forward, dnnl_query_src_md));
  l->weight = weight_new(linear_weight(l, dnnl_f32, true), wants(l->forward, dnnl_query_weights_md), bound);
  l->bias = tensor_new(vector(l->out));
  l->y = tensor_new(rows(l->out));
  APPEND(l->forward, {DNNL_ARG_SRC, l->x}, {DNNL_ARG_WEIGHTS, l->weight.used}, {DNNL_ARG_BIAS, l->bias},
         {DNNL_ARG_DST, l->y});
  return l->y;
}

static void linear_backward_weight(linear *l, dnnl_memory_t dy)
{
  plan p = plan_linear_grad_w(engine, linear_input(l), linear_weight(l, dnnl_f32, false), vector(l->out),
                              rows(l->out), l->forward);
  dnnl_memory_t dw = tensor_new(wants(p, dnnl_query_diff_weights_md)), db = tensor_new(vector(l->out));
  dnnl_memory_t x = in_layout(l->x, wants(p, dnnl_query_src_md));
  APPEND(p, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw},
         {DNNL_ARG_DIFF_BIAS, db});
  parameter_add(l->weight.master, in_layout(dw, desc_of(l->weight.master)));
  parameter_add(l->bias, db);
}

static dnnl_memory_t linear_backward(linear *l, dnnl_memory_t dy)
{
  linear_backward_weight(l, dy);
  plan p = plan_linear_grad_x(engine, linear_input(l), linear_weight(l, config.dtype, false), rows(l->out),
                              l->forward);
  dnnl_memory_t dx = tensor_new(wants(p, dnnl_query_diff_src_md));
  dnnl_memory_t w = in_layout(l->weight.used, wants(p, dnnl_query_weights_md));
  APPEND(p, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx});
  return dx;
}

static dnnl_memory_t relu_forward(dnnl_memory_t x)
{
  dnnl_memory_t y = tensor_new(desc_of(x));
  relu_plan = plan_relu(engine, desc_of(x));
  APPEND(relu_plan, {DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y});
  return y;
}

static dnnl_memory_t relu_backward(dnnl_memory_t x, dnnl_memory_t dy)
{
  dnnl_memory_t dx = tensor_new(desc_of(x));
  APPEND(plan_relu_grad(engine, desc_of(x), desc_of(dy), relu_plan), {DNNL_ARG_SRC, x},
         {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx});
  return dx;
}

/* ---- loss and optimizer ---- */

static dnnl_memory_t logits, dlogits;
static float *target; /* one 1 in each block of N_CLASSES */
static double loss;

/* Multi-label soft margin: the mean over all logits of binary cross-entropy; dlogits on the way. */
static void run_loss(void)
{
  size_t count = (size_t)config.batch * N_OUT;
  void *x = data_of(logits), *dx = data_of(dlogits);
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    float z = config.bf16 ? from_bf16(((uint16_t *)x)[i]) : ((float *)x)[i];
    float dz = (1 / (1 + expf(-z)) - target[i]) / (float)count;
    sum += fmaxf(z, 0) - z * target[i] + log1pf(expf(-fabsf(z)));
    if (config.bf16)
      ((uint16_t *)dx)[i] = to_bf16(dz);
    else
      ((float *)dx)[i] = dz;
  }
  loss = sum / (double)count;
}

static void adamw_parameter(const parameter *p, float lr, float v_correction)
{
  const float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, decay = 1 - 6e-4f * 1e-4f;
  float *restrict w = p->w, *restrict m = p->m, *restrict v = p->v;
  const float *restrict grad = p->grad;
#pragma omp parallel for simd schedule(static)
  for (size_t i = 0; i < p->count; i++) {
    float g = grad[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    w[i] = w[i] * decay - lr * m[i] / (sqrtf(v[i]) * v_correction + eps);
  }
}

/* lr 6e-4, betas .9/.999, eps 1e-8, weight decay 1e-4. */
static void run_adamw(void)
{
  static int t;
  t++;
  float lr = 6e-4f / (1 - powf(0.9f, (float)t));
  float v_correction = 1 / sqrtf(1 - powf(0.999f, (float)t));
  for (int i = 0; i < n_parameters; i++) adamw_parameter(&parameters[i], lr, v_correction);
}

/* ---- the step ---- */

static dnnl_memory_t build_forward(void)
{
  dnnl_memory_t t = tensor_new(block_input(&blocks[0]));
  fill_uniform(t, 0, 1);
  for (int i = 0; i < N_CONV; i++) t = block_forward(&blocks[i], t);
  if (config.nhwc) t = tensor_view(rows(linears[0].in), t);
  t = relu_forward(linear_forward(&linears[0], t));
  return linear_forward(&linears[1], t);
}

static void build_loss(void)
{
  dlogits = tensor_new(desc_of(logits));
  target = zeroed((size_t)config.batch * N_OUT * sizeof *target);
  for (dnnl_dim_t row = 0; row < config.batch * N_OUT / N_CLASSES; row++)
    target[row * N_CLASSES + (int)(uniform() * N_CLASSES)] = 1;
  stage_new()->function = run_loss;
}

static void build_backward(void)
{
  dnnl_memory_t d = linear_backward(&linears[1], dlogits);
  d = linear_backward(&linears[0], relu_backward(linears[0].y, d));
  if (config.nhwc) d = tensor_view(desc_of(blocks[N_CONV - 1].out), d);
  for (int i = N_CONV - 1; i >= 0; i--) d = block_backward(&blocks[i], d);
}

static void build_step(void)
{
  logits = build_forward();
  build_loss();
  build_backward();
  stage_new()->function = run_adamw;
}

static double now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double run_step_ms(void)
{
  double start = now_ms();
  for (int i = 0; i < n_stages; i++) stage_run(&stages[i]);
  return now_ms() - start;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The convolution code that really ran: "auto" finds no Winograd in oneDNN 3 on x86. */
static const char *conv_name(void)
{
  const char *name;
  DNNL_CHECK(dnnl_primitive_desc_query(blocks[N_CONV - 1].conv, dnnl_query_impl_info_str, 0, &name));
  return name;
}

static void report(double *ms, double loss_first)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  qsort(ms, (size_t)config.steps, sizeof *ms, by_value);
  double median = ms[config.steps / 2];
  printf("{\"images_per_s\": %.1f, \"step_ms\": %.2f, \"min_ms\": %.2f, \"peak_bytes\": %lld, "
         "\"loss_first\": %.5f, \"loss_last\": %.5f, \"onednn\": \"%d.%d.%d\", \"conv\": \"%s\"}\n",
         (double)config.batch * 1e3 / median, median, ms[0], (long long)usage.ru_maxrss * 1024, loss_first,
         loss, dnnl_version()->major, dnnl_version()->minor, dnnl_version()->patch, conv_name());
}

static int usage(void)
{
  fprintf(stderr, "usage: onednn_step {f32|bf16} {nhwc|blocked|winograd} BATCH STEPS\n"
                  "winograd is for f32 only: oneDNN has no bf16 Winograd convolution.\n");
  return 2;
}

/* False if the arguments make no sense. */
static bool configure(int argc, char **argv)
{
  if (argc != 5) return false;
  bool f32 = !strcmp(argv[1], "f32"), blocked = !strcmp(argv[2], "blocked"),
       winograd = !strcmp(argv[2], "winograd");
  config.bf16 = !strcmp(argv[1], "bf16");
  config.nhwc = !strcmp(argv[2], "nhwc");
  config.batch = atoi(argv[3]);
  config.steps = atoi(argv[4]);
  config.dtype = config.bf16 ? dnnl_bf16 : dnnl_f32;
  config.conv_alg = winograd ? dnnl_convolution_auto : dnnl_convolution_direct;
  bool known = (f32 || config.bf16) && (config.nhwc || blocked || winograd);
  return known && !(config.bf16 && winograd) && config.batch > 0 && config.steps > 0;
}

int main(int argc, char **argv)
{
  if (!configure(argc, argv)) return usage();
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040); /* denormals are zero, before the thread pool copies the setting */
#endif
  DNNL_CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
  DNNL_CHECK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
  build_step();
  double *ms = zeroed((size_t)config.steps * sizeof *ms);
  run_step_ms();
  double loss_first = loss;
  for (int i = 1; i < N_WARM_UP; i++) run_step_ms();
  for (int i = 0; i < config.steps; i++) ms[i] = run_step_ms();
  report(ms, loss_first);
  return 0;
}
