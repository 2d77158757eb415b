/* norm.c -- batch norm, alone and fused with relu or silu and 2x2 max pooling, forward and backward.
**
** Forward: one pass over x for the sums, one that reads x and writes y. The sums are taken around a
** pivot (the first pixel of each channel), so a large mean costs no accuracy. With pooling the second pass reads but a
** quarter: which x becomes the maximum follows from the sign of the weight, so the first pass writes that to y.
** Backward: one pass over x and dy for the sums, one that writes dx = k_dy * dz + k_x * x + k_1.
** Channels that do not fill whole vectors are folded: pixels lie one after the other, so some of them are one of more
** channels.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/float16.h"
#include "ops/attrs.h"

static vec_norm_act act_of(const capl_attr *attr)
{
  return attr->i == NORM_SILU ? VEC_THEN_SILU : VEC_THEN_RELU;
}

/* ---- room for per-channel numbers ---- */

enum { FLOAT_ROWS = 6, DOUBLE_ROWS = 2 };

typedef struct {
  void *memory;
  float *f[FLOAT_ROWS]; /* C floats each */
  double *sum, *square; /* [threads][C] */
  int64_t channels;
} norm_room;

static capl_status room_get(capl_device *device, int64_t channels, norm_room *room)
{
  int64_t padded = (channels + 15) / 16 * 16;
  size_t doubles = (size_t)cpu_threads() * (size_t)padded;
  size_t bytes = FLOAT_ROWS * (size_t)padded * sizeof(float) + DOUBLE_ROWS * doubles * sizeof(double);
  CAPL_TRY(capl_scratch_get(device, bytes, &room->memory));
  room->channels = padded;
  room->sum = room->memory;
  room->square = room->sum + doubles;
  for (int i = 0; i < FLOAT_ROWS; i++) room->f[i] = (float *)(room->square + doubles) + i * padded;
  memset(room->sum, 0, DOUBLE_ROWS * doubles * sizeof(double));
  return CAPL_OK;
}

/* ---- jobs ---- */

typedef struct {
  vec_pixels p;           /* x seen as rows of values: pixels, or entries of (N,C), some of them side by side */
  int64_t count, channels; /* all pixels, and channels of one */
  vec_norm n;
  norm_room *room;
  const void *x, *dy;
  void *y;
  bool stream;
  /* pooled */
  cpu_image image; /* of x */
  bool training;
  const uint8_t *index_in;
  uint8_t *index_out;
} norm_job;

/* Pixels side by side that fill whole vectors; 1 where one does, or where there are few of them. */
static int64_t fold_of(int64_t channels, int64_t count)
{
  int64_t fold = 1;
  while (channels * fold % cpu_now->lanes) fold++;
  return count < 16 * fold ? 1 : fold;
}

/* pool: windows need pixels apart. */
static norm_job job_of(const capl_tensor *x, vec_norm_act act, bool pool)
{
  int64_t channels = x->size[1], count = capl_tensor_numel(x) / channels, fold = pool ? 1 : fold_of(channels, count);
  return (norm_job){.p = {x->dtype, count / fold, channels * fold, act}, .count = count, .channels = channels,
                    .x = capl_tensor_data(x)};
}

/* Numbers per channel, for each of the pixels that lie side by side. */
static float *spread(const norm_job *job, float *of)
{
  for (int64_t c = job->channels; c < job->p.channels; c++) of[c] = of[c - job->channels];
  return of;
}

/* Stores past the caches pay for results that no cache holds until they are read. */
enum { STREAM_BYTES = 16 << 20 };

static bool streams(const vec_pixels *p, const void *y)
{
  int64_t row = p->channels * (int64_t)capl_dtype_size(p->real);
  return row % 64 == 0 && (uintptr_t)y % 64 == 0 && row * p->rows >= STREAM_BYTES;
}

static int64_t row_grain(int64_t channels)
{
  return CPU_GRAIN / channels + 1;
}

static const void *pixel(const norm_job *job, const void *base, int64_t row)
{
  return cpu_at(base, job->p.real, row * job->p.channels);
}

/* All pixels: those of the last row that is not whole as pixels of their own. */
static void run(const norm_job *job, void (*part)(void *, int64_t, int64_t, int))
{
  int64_t folded = job->p.rows * job->p.channels, rest = job->count - folded / job->channels;
  cpu_parallel(job->p.rows, row_grain(job->p.channels), part, (void *)job);
  if (rest == 0) return;
  norm_job last = *job;
  last.p.rows = rest;
  last.p.channels = job->channels;
  last.stream = false;
  last.x = cpu_at(job->x, job->p.real, folded);
  last.dy = cpu_at(job->dy, job->p.real, job->dy ? folded : 0);
  last.y = cpu_at(job->y, job->p.real, folded);
  part(&last, 0, rest, 0);
}

/* Sum over pixels side by side and threads, in their order. */
static double total(const norm_job *job, const double *sums, int64_t c)
{
  double sum = 0;
  for (int t = 0; t < cpu_threads(); t++)
    for (int64_t k = c; k < job->p.channels; k += job->channels) sum += sums[t * job->room->channels + k];
  return sum;
}

/* ---- statistics ---- */

static void sums_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const norm_job *job = arg;
  vec_pixels part = job->p;
  part.rows = end - begin;
  int64_t at = thread * job->room->channels;
  cpu_now->norm_sums(&part, pixel(job, job->x, begin), job->n.center, job->room->sum + at, job->room->square + at);
}

/* ---- pooling ---- */

static vec_pool_row pool_row_of(const norm_job *job)
{
  return (vec_pool_row){job->p.real, job->image.W, job->image.C};
}

/* First pixel of input row 2 * (r % H') of image r / H', for row r of all pooled rows. */
static int64_t top_pixel(const norm_job *job, int64_t r)
{
  int64_t pooled = job->image.H / 2;
  return (r / pooled * job->image.H + r % pooled * 2) * job->image.W;
}

static void pooled_rows(const norm_job *job, void (*part)(void *, int64_t, int64_t, int))
{
  int64_t rows = job->image.N * (job->image.H / 2);
  cpu_parallel(rows, CPU_GRAIN / (2 * job->image.W * job->p.channels) + 1, part, (void *)job);
}

/* Sums of pixels that lie in no window: of an odd width the last of both rows, of an odd height the last row. */
static void sums_outside(const norm_job *job, int64_t r, int thread)
{
  int64_t H = job->image.H, W = job->image.W, top = top_pixel(job, r);
  for (int64_t end = top + W; W % 2 && end <= top + 2 * W; end += W) sums_part((void *)job, end - 1, end, thread);
  if (H % 2 && r % (H / 2) == H / 2 - 1) sums_part((void *)job, top + 2 * W, top + 3 * W, thread);
}

static void pool_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const norm_job *job = arg;
  vec_pool_row row = pool_row_of(job);
  int64_t width = job->image.W / 2, channels = thread * job->room->channels;
  double *sum = job->training ? job->room->sum + channels : NULL, *square = job->room->square + channels;
  for (int64_t r = begin; r < end; r++) {
    int64_t top = top_pixel(job, r);
    cpu_now->norm_pool_row(&row, &job->n, pixel(job, job->x, top), pixel(job, job->x, top + job->image.W),
                           (void *)pixel(job, job->y, r * width), job->index_out + r * width * job->p.channels, sum,
                           square);
    if (sum) sums_outside(job, r, thread);
  }
}

/* y := the x that are greatest in their windows after multiplication by weight; in training sums, too. */
static void pool(norm_job *job, const float *weight)
{
  job->n.scale = weight;
  pooled_rows(job, pool_part);
}

static void read_first_pixel(const norm_job *job, float *pivot)
{
  for (int64_t c = 0; c < job->channels; c++)
    pivot[c] = job->p.real == CAPL_BF16 ? capl_bf16_to_float(((const uint16_t *)job->x)[c])
        : ((const float *)job->x)[c];
  spread(job, pivot);
}

static void update_running(const capl_call *call, int64_t c, double mean, double variance, int64_t count)
{
  capl_tensor *running_mean = call_input(call, NORM_RUNNING_MEAN), *running_var = call_input(call, NORM_RUNNING_VAR);
  double momentum = call->attr[NORM_MOMENTUM].f;
  if (!running_mean) return;
  float *m = (float *)capl_tensor_data(running_mean) + c, *v = (float *)capl_tensor_data(running_var) + c;
  double unbiased = variance * (double)count / (double)(count - 1);
  *m = (float)((1 - momentum) * *m + momentum * mean);
  *v = (float)((1 - momentum) * *v + momentum * unbiased);
}

static void batch_statistics(const capl_call *call, norm_job *job, float *mean, float *invstd)
{
  norm_room *room = job->room;
  float *pivot = room->f[0];
  int64_t count = job->count;
  read_first_pixel(job, pivot);
  job->n.center = pivot;
  if (job->index_out) pool(job, capl_tensor_data(call->in[NORM_WEIGHT]));
  else run(job, sums_part);
  for (int64_t c = 0; c < job->channels; c++) {
    double shift = total(job, room->sum, c) / (double)count;
    double variance = total(job, room->square, c) / (double)count - shift * shift;
    if (variance < 0) variance = 0;
    mean[c] = (float)(pivot[c] + shift);
    invstd[c] = (float)(1 / sqrt(variance + call->attr[NORM_EPS].f));
    update_running(call, c, pivot[c] + shift, variance, count);
  }
}

static void running_statistics(const capl_call *call, int64_t channels, float *mean, float *invstd)
{
  const float *running_mean = capl_tensor_data(call->in[NORM_RUNNING_MEAN]);
  const float *running_var = capl_tensor_data(call->in[NORM_RUNNING_VAR]);
  for (int64_t c = 0; c < channels; c++) {
    mean[c] = running_mean[c];
    invstd[c] = (float)(1 / sqrt(running_var[c] + call->attr[NORM_EPS].f));
  }
}

/* z = x * scale + shift; both passes must use these very numbers, or their relu masks differ. */
static void set_affine(norm_job *job, const float *weight, const float *bias, const float *mean, const float *invstd)
{
  float *scale = job->room->f[1], *shift = job->room->f[2];
  for (int64_t c = 0; c < job->channels; c++) {
    scale[c] = weight[c] * invstd[c];
    shift[c] = (float)(bias[c] - (double)mean[c] * scale[c]);
  }
  job->n.scale = spread(job, scale);
  job->n.shift = spread(job, shift);
}

/* ---- forward ---- */

/* The second pass goes backwards, some rows at a time, pooled ones one by one: what the first one read last is still in
** the cache, and whoever reads the result from the front finds that there. */
static int64_t rows_before(const norm_job *job, int64_t begin, int64_t end)
{
  int64_t rows = row_grain(job->p.channels);
  return end - begin < rows ? end - begin : rows;
}

static void apply_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const norm_job *job = arg;
  vec_pixels part = job->p;
  for (; begin < end; end -= part.rows) {
    part.rows = rows_before(job, begin, end);
    int64_t at = end - part.rows;
    cpu_now->norm_apply(&part, &job->n, pixel(job, job->x, at), (void *)pixel(job, job->y, at), job->stream);
  }
}

/* y := relu(norm(y)) */
static void apply_pooled(norm_job job)
{
  job.x = job.y;
  job.p.rows = job.image.N * (job.image.H / 2) * (job.image.W / 2);
  job.stream = false;
  cpu_parallel(job.p.rows, row_grain(job.p.channels), apply_part, &job);
}

static void forward(const capl_call *call, norm_job *job)
{
  float *mean = capl_tensor_data(call->out[NORM_MEAN]), *invstd = capl_tensor_data(call->out[NORM_INVSTD]);
  const float *weight = capl_tensor_data(call->in[NORM_WEIGHT]);
  if (job->training) batch_statistics(call, job, mean, invstd);
  else running_statistics(call, job->channels, mean, invstd);
  if (!job->training && job->index_out) pool(job, weight);
  set_affine(job, weight, capl_tensor_data(call->in[NORM_BIAS]), mean, invstd);
  if (job->index_out) apply_pooled(*job);
  else run(job, apply_part);
}

static capl_status normalize(const capl_call *call, vec_norm_act act, bool pooled)
{
  const capl_tensor *x = call->in[NORM_X];
  norm_room room;
  norm_job job = job_of(x, act, pooled);
  job.room = &room;
  job.y = capl_tensor_data(call->out[NORM_Y]);
  job.stream = streams(&job.p, job.y);
  job.training = call->attr[NORM_TRAINING].i;
  if (pooled) {
    job.image = cpu_image_of(x);
    job.index_out = capl_tensor_data(call->out[NORM_RESERVE]);
  }
  CAPL_TRY(room_get(call->device, job.p.channels, &room));
  forward(call, &job);
  capl_scratch_put(call->device, room.memory);
  return CAPL_OK;
}

static capl_status cpu_batch_norm(const capl_call *call)
{
  return normalize(call, VEC_NO_ACT, false);
}

static capl_status cpu_bn_act(const capl_call *call)
{
  return normalize(call, act_of(&call->attr[NORM_ACT]), false);
}

static capl_status cpu_bn_act_pool(const capl_call *call)
{
  return normalize(call, VEC_THEN_RELU, true);
}

/* ---- backward ---- */

static void grad_sums_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const norm_job *job = arg;
  vec_pixels part = job->p;
  part.rows = end - begin;
  int64_t at = thread * job->room->channels;
  cpu_now->norm_grad_sums(&part, &job->n, pixel(job, job->x, begin), pixel(job, job->dy, begin),
                          (void *)pixel(job, job->y, begin), job->room->sum + at, job->room->square + at);
}

static void grad_apply_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const norm_job *job = arg;
  vec_pixels part = job->p;
  for (; begin < end; end -= part.rows) {
    part.rows = rows_before(job, begin, end);
    int64_t at = end - part.rows;
    cpu_now->norm_grad_apply(&part, &job->n, pixel(job, job->x, at), pixel(job, job->dy, at),
                             (void *)pixel(job, job->y, at), job->stream);
  }
}

static void pool_grad_sums_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const norm_job *job = arg;
  vec_pool_row row = pool_row_of(job);
  int64_t width = job->image.W / 2, channels = job->p.channels, at = thread * job->room->channels;
  for (int64_t r = begin; r < end; r++) {
    int64_t top = top_pixel(job, r);
    cpu_now->norm_pool_grad_sums(&row, &job->n, pixel(job, job->x, top), pixel(job, job->x, top + job->image.W),
                                 pixel(job, job->dy, r * width), job->index_in + r * width * channels,
                                 job->room->sum + at, job->room->square + at);
  }
}

/* An odd last row lies in no window: dz is 0 there. */
static void grad_row_outside(const norm_job *job, int64_t first_pixel)
{
  vec_pixels p = {job->p.real, job->image.W, job->p.channels, VEC_NO_ACT};
  vec_norm n = {.scale = job->n.k_x, .shift = job->n.k_1};
  cpu_now->norm_apply(&p, &n, pixel(job, job->x, first_pixel), (void *)pixel(job, job->y, first_pixel), false);
}

static void pool_grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const norm_job *job = arg;
  vec_pool_row row = pool_row_of(job);
  int64_t W = job->image.W, width = W / 2, pooled = job->image.H / 2;
  for (int64_t r = end; r-- > begin;) {
    int64_t top = top_pixel(job, r);
    cpu_now->norm_pool_grad_row(&row, &job->n, pixel(job, job->x, top), pixel(job, job->x, top + W),
                                pixel(job, job->dy, r * width), job->index_in + r * width * job->p.channels,
                                (void *)pixel(job, job->y, top), (void *)pixel(job, job->y, top + W), job->stream);
    if (job->image.H % 2 && r % pooled == pooled - 1) grad_row_outside(job, top + 2 * W);
  }
}

/* dweight, dbias, and the factors of dx. xhat = (x - mean) * invstd;
** dx = scale * (dz - mean(dz) - xhat * mean(dz * xhat)), without the means when statistics are fixed. */
static void set_factors(norm_job *job, bool training, const float *mean, const float *invstd, float *dweight,
                        float *dbias)
{
  float *k_x = job->room->f[3], *k_1 = job->room->f[4];
  double count = training ? (double)job->count : INFINITY;
  for (int64_t c = 0; c < job->channels; c++) {
    double dz = total(job, job->room->sum, c), dzx = total(job, job->room->square, c) * invstd[c];
    dweight[c] = (float)dzx;
    dbias[c] = (float)dz;
    double slope = -(double)job->n.scale[c] * invstd[c] * (dzx / count);
    k_x[c] = (float)slope;
    k_1[c] = (float)(-(double)job->n.scale[c] * (dz / count) - slope * mean[c]);
  }
  job->n.k_dy = job->n.scale;
  job->n.k_x = spread(job, k_x);
  job->n.k_1 = spread(job, k_1);
}

static void backward(const capl_call *call, norm_job *job, const float *mean, const float *invstd)
{
  job->n.center = memcpy(job->room->f[5], mean, (size_t)job->channels * sizeof *mean);
  spread(job, job->room->f[5]);
  if (job->index_in) pooled_rows(job, pool_grad_sums_part);
  else run(job, grad_sums_part);
  set_factors(job, call->attr[NORM_GRAD_TRAINING].i, mean, invstd, capl_tensor_data(call->out[1]),
              capl_tensor_data(call->out[2]));
  if (job->p.act == VEC_THEN_SILU && job->p.real == CAPL_F32) { /* the sums have left dz where dx goes */
    job->dy = job->y;
    job->p.act = VEC_NO_ACT;
  }
  if (job->index_in) pooled_rows(job, pool_grad_part);
  else run(job, grad_apply_part);
}

/* In the fused ops bias stands before mean: in batch_norm_grad there is none. */
static capl_status differentiate(const capl_call *call, vec_norm_act act, const uint8_t *index)
{
  const capl_tensor *x = call->in[0];
  bool fused = act != VEC_NO_ACT;
  const float *weight = capl_tensor_data(call->in[2]), *bias = fused ? capl_tensor_data(call->in[3]) : weight;
  const float *mean = capl_tensor_data(call->in[fused ? 4 : 3]), *invstd = capl_tensor_data(call->in[fused ? 5 : 4]);
  norm_room room;
  norm_job job = job_of(x, act, index != NULL);
  job.room = &room;
  job.dy = capl_tensor_data(call->in[1]);
  job.y = capl_tensor_data(call->out[0]);
  job.index_in = index;
  job.stream = streams(&job.p, job.y);
  if (index) job.image = cpu_image_of(x);
  CAPL_TRY(room_get(call->device, job.p.channels, &room));
  set_affine(&job, weight, bias, mean, invstd);
  backward(call, &job, mean, invstd);
  capl_scratch_put(call->device, room.memory);
  return CAPL_OK;
}

static capl_status cpu_batch_norm_grad(const capl_call *call)
{
  return differentiate(call, VEC_NO_ACT, NULL);
}

static capl_status cpu_bn_act_grad(const capl_call *call)
{
  return differentiate(call, act_of(&call->attr[NORM_GRAD_ACT]), NULL);
}

static capl_status cpu_bn_act_pool_grad(const capl_call *call)
{
  return differentiate(call, VEC_THEN_RELU, capl_tensor_data(call->in[6]));
}

/* ---- rows ---- */

static bool supports_norm(const capl_call *call)
{
  return cpu_real(call->in[0]) && capl_tensor_numel(call->in[0]) > 0;
}

static bool supports_pooled_grad(const capl_call *call)
{
  return supports_norm(call) && call->in[6]->dtype == CAPL_U8;
}

const capl_kernel cpu_norm_kernels[] = {
  {CAPL_OP_batch_norm, cpu_batch_norm, supports_norm, CPU_REAL},
  {CAPL_OP_batch_norm_grad, cpu_batch_norm_grad, supports_norm, CPU_REAL},
  {CAPL_OP_bn_act, cpu_bn_act, supports_norm, CPU_REAL},
  {CAPL_OP_bn_act_grad, cpu_bn_act_grad, supports_norm, CPU_REAL},
  {CAPL_OP_bn_act_pool, cpu_bn_act_pool, supports_norm, CPU_REAL},
  {CAPL_OP_bn_act_pool_grad, cpu_bn_act_pool_grad, supports_pooled_grad, CPU_REAL},
  {0},
};
