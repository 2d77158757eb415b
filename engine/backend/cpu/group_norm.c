/* group_norm.c -- group norm: images one by one, divided among the threads.
**
** Sums are taken per channel, by batch norm's kernels where pixels lie channels-last, else run by run; the channels of
** a group are then joined. dx = k_dy * dy + k_x * x + k_1, as in batch norm.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/float16.h"
#include "ops/attrs.h"

/* One thread's numbers per channel. */
enum { FLOATS = 4, DOUBLES = 4 };

typedef struct {
  float *center, *k[3];              /* k: scale, shift; or k_dy, k_x, k_1 */
  double *first, *second;            /* sums of one image */
  double *dweight, *dbias;           /* sums over the thread's images */
} channel_room;

typedef struct {
  capl_dtype real;
  int64_t channels, pixels, groups;
  bool last;       /* channels lie last: pixels of channels, else channels of pixels */
  double eps;
  const float *weight, *bias;
  const void *x, *dy;
  void *y; /* dx */
  float *mean, *invstd;
  const float *mean_in, *invstd_in;
  int64_t padded;
  char *room;
} group_job;

static size_t room_bytes(const group_job *job)
{
  return (size_t)job->padded * (FLOATS * sizeof(float) + DOUBLES * sizeof(double));
}

static channel_room room_of(const group_job *job, int thread)
{
  double *d = (double *)(job->room + (size_t)thread * room_bytes(job));
  float *f = (float *)(d + DOUBLES * job->padded);
  int64_t n = job->padded;
  return (channel_room){f, {f + n, f + 2 * n, f + 3 * n}, d, d + n, d + 2 * n, d + 3 * n};
}

static const void *image_at(const group_job *job, const void *p, int64_t n)
{
  return cpu_at(p, job->real, n * job->channels * job->pixels);
}

static const void *run_at(const group_job *job, const void *image, int64_t c)
{
  return cpu_at(image, job->real, c * job->pixels);
}

static float first_value(const group_job *job, const void *image, int64_t c)
{
  int64_t i = job->last ? c : c * job->pixels;
  return job->real == CAPL_BF16 ? capl_bf16_to_float(((const uint16_t *)image)[i]) : ((const float *)image)[i];
}

static vec_pixels pixels_of(const group_job *job)
{
  return (vec_pixels){job->real, job->pixels, job->channels, VEC_NO_ACT};
}

/* ---- forward ---- */

/* Per channel, the sum of x - center and of its square. */
static void channel_sums(const group_job *job, const channel_room *r, const void *x)
{
  vec_pixels p = pixels_of(job);
  for (int64_t c = 0; c < job->channels; c++) r->center[c] = first_value(job, x, c), r->first[c] = r->second[c] = 0;
  if (job->last) cpu_now->norm_sums(&p, x, r->center, r->first, r->second);
  else
    for (int64_t c = 0; c < job->channels; c++)
      cpu_now->run_moments(job->real, job->pixels, run_at(job, x, c), r->center[c], &r->first[c], &r->second[c]);
}

/* Joins the channels [c0, c1): mean and variance of all their values. */
static void join(const group_job *job, const channel_room *r, int64_t c0, int64_t c1, double *mean, double *variance)
{
  double pixels = (double)job->pixels, sum = 0, squares = 0;
  for (int64_t c = c0; c < c1; c++) sum += r->center[c] + r->first[c] / pixels;
  *mean = sum / (double)(c1 - c0);
  for (int64_t c = c0; c < c1; c++) {
    double off = r->center[c] + r->first[c] / pixels - *mean;
    squares += r->second[c] - r->first[c] * r->first[c] / pixels + pixels * off * off;
  }
  *variance = squares < 0 ? 0 : squares / (pixels * (double)(c1 - c0));
}

static void apply(const group_job *job, const channel_room *r, const void *x, void *y)
{
  vec_pixels p = pixels_of(job);
  vec_norm n = {.scale = r->k[0], .shift = r->k[1]};
  if (job->last) cpu_now->norm_apply(&p, &n, x, y, false);
  else
    for (int64_t c = 0; c < job->channels; c++)
      cpu_now->unary(VEC_affine, job->real, job->pixels, run_at(job, x, c), (void *)run_at(job, y, c), r->k[0][c],
                     r->k[1][c]);
}

static void forward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const group_job *job = arg;
  channel_room r = room_of(job, thread);
  int64_t each = job->channels / job->groups;
  for (int64_t n = begin; n < end; n++) {
    channel_sums(job, &r, image_at(job, job->x, n));
    for (int64_t g = 0; g < job->groups; g++) {
      double mean, variance;
      join(job, &r, g * each, (g + 1) * each, &mean, &variance);
      double invstd = 1 / sqrt(variance + job->eps);
      job->mean[n * job->groups + g] = (float)mean;
      job->invstd[n * job->groups + g] = (float)invstd;
      for (int64_t c = g * each; c < (g + 1) * each; c++) {
        double scale = invstd * (job->weight ? job->weight[c] : 1);
        r.k[0][c] = (float)scale;
        r.k[1][c] = (float)((job->bias ? job->bias[c] : 0) - mean * r.k[0][c]);
      }
    }
    apply(job, &r, image_at(job, job->x, n), (void *)image_at(job, job->y, n));
  }
}

/* ---- backward ---- */

/* Per channel, the sums of dy and of dy * (x - mean). */
static void grad_sums(const group_job *job, const channel_room *r, const void *x, const void *dy)
{
  vec_pixels p = pixels_of(job);
  vec_norm n = {.center = r->center, .scale = r->center, .shift = r->center}; /* the last two: for relu, unused */
  for (int64_t c = 0; c < job->channels; c++) r->first[c] = r->second[c] = 0;
  if (job->last) cpu_now->norm_grad_sums(&p, &n, x, dy, NULL, r->first, r->second);
  else
    for (int64_t c = 0; c < job->channels; c++)
      cpu_now->run_grad_sums(job->real, job->pixels, run_at(job, x, c), run_at(job, dy, c), r->center[c], &r->first[c],
                             &r->second[c]);
}

static void grad_apply(const group_job *job, const channel_room *r, const void *x, const void *dy, void *dx)
{
  vec_pixels p = pixels_of(job);
  vec_norm n = {.scale = r->center, .shift = r->center, .center = r->center, .k_dy = r->k[0], .k_x = r->k[1],
                .k_1 = r->k[2]};
  if (job->last) cpu_now->norm_grad_apply(&p, &n, x, dy, dx, false);
  else
    for (int64_t c = 0; c < job->channels; c++)
      cpu_now->run_grad(job->real, job->pixels, run_at(job, x, c), run_at(job, dy, c), r->k[0][c], r->k[1][c],
                        r->k[2][c], (void *)run_at(job, dx, c));
}

/* The factors of group g's channels, from its sums; adds to the parameters' gradients. */
static void grad_group(const group_job *job, const channel_room *r, int64_t g, double mean, double invstd)
{
  int64_t each = job->channels / job->groups, first = g * each, last = first + each;
  double sum = 0, sum_xhat = 0, count = (double)(each * job->pixels);
  for (int64_t c = first; c < last; c++) {
    double weight = job->weight ? job->weight[c] : 1;
    sum += weight * r->first[c];
    sum_xhat += weight * r->second[c] * invstd;
    r->dweight[c] += r->second[c] * invstd;
    r->dbias[c] += r->first[c];
  }
  double k_x = -invstd * invstd * sum_xhat / count;
  for (int64_t c = first; c < last; c++) {
    r->k[0][c] = (float)(invstd * (job->weight ? job->weight[c] : 1));
    r->k[1][c] = (float)k_x;
    r->k[2][c] = (float)(-invstd * sum / count - k_x * mean);
  }
}

static void backward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const group_job *job = arg;
  channel_room r = room_of(job, thread);
  int64_t each = job->channels / job->groups;
  for (int64_t n = begin; n < end; n++) {
    const void *x = image_at(job, job->x, n), *dy = image_at(job, job->dy, n);
    const float *mean = job->mean_in + n * job->groups, *invstd = job->invstd_in + n * job->groups;
    for (int64_t c = 0; c < job->channels; c++) r.center[c] = mean[c / each];
    grad_sums(job, &r, x, dy);
    for (int64_t g = 0; g < job->groups; g++) grad_group(job, &r, g, mean[g], invstd[g]);
    grad_apply(job, &r, x, dy, (void *)image_at(job, job->y, n));
  }
}

static void add_up(const group_job *job, float *dweight, float *dbias)
{
  for (int64_t c = 0; c < job->channels; c++) {
    double w = 0, b = 0;
    for (int t = 0; t < cpu_threads(); t++) {
      channel_room r = room_of(job, t);
      w += r.dweight[c];
      b += r.dbias[c];
    }
    dweight[c] = (float)w;
    dbias[c] = (float)b;
  }
}

/* ---- kernels ---- */

static capl_status job_begin(const capl_call *call, const capl_tensor *weight, group_job *job)
{
  const capl_tensor *x = call->in[0];
  void *room;
  *job = (group_job){.real = x->dtype, .channels = x->size[1], .groups = call->attr[GROUP_NORM_GROUPS].i,
                     .x = capl_tensor_data(x), .y = capl_tensor_data(call->out[0])};
  job->pixels = capl_tensor_numel(x) / (x->size[0] * x->size[1]);
  job->last = x->ndim == 4 || job->pixels == 1;
  job->padded = (job->channels + 15) / 16 * 16;
  if (weight) job->weight = capl_tensor_data(weight);
  CAPL_TRY(capl_scratch_get(call->device, (size_t)cpu_threads() * room_bytes(job), &room));
  memset(room, 0, (size_t)cpu_threads() * room_bytes(job));
  job->room = room;
  return CAPL_OK;
}

static void run(const capl_call *call, group_job *job, cpu_task task)
{
  int64_t each = job->channels * job->pixels;
  cpu_parallel(call->in[0]->size[0], CPU_GRAIN / each + 1, task, job);
}

static capl_status cpu_group_norm(const capl_call *call)
{
  const capl_tensor *bias = call_input(call, 2);
  group_job job;
  CAPL_TRY(job_begin(call, call_input(call, 1), &job));
  if (bias) job.bias = capl_tensor_data(bias);
  job.eps = call->attr[GROUP_NORM_EPS].f;
  job.mean = capl_tensor_data(call->out[1]);
  job.invstd = capl_tensor_data(call->out[2]);
  run(call, &job, forward_part);
  capl_scratch_put(call->device, job.room);
  return CAPL_OK;
}

static capl_status cpu_group_norm_grad(const capl_call *call)
{
  group_job job;
  CAPL_TRY(job_begin(call, call->in[2], &job));
  job.dy = capl_tensor_data(call->in[1]);
  job.mean_in = capl_tensor_data(call->in[3]);
  job.invstd_in = capl_tensor_data(call->in[4]);
  run(call, &job, backward_part);
  add_up(&job, capl_tensor_data(call->out[1]), capl_tensor_data(call->out[2]));
  capl_scratch_put(call->device, job.room);
  return CAPL_OK;
}

static bool supports_groups(const capl_call *call)
{
  return cpu_supports_first(call) && capl_tensor_numel(call->in[0]) > 0;
}

const capl_kernel cpu_group_norm_kernels[] = {
  {CAPL_OP_group_norm, cpu_group_norm, supports_groups, CPU_REAL},
  {CAPL_OP_group_norm_grad, cpu_group_norm_grad, supports_groups, CPU_REAL},
  {0},
};
