/* dice.c -- areas of predicted and labelled regions, in pieces of so many places: sums do not depend on the threads.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/count.h"
#include "ops/attrs.h"

enum { STACK_SHARES = 1024, PLACES = 512 };

typedef struct {
  int64_t images, places, classes, pieces; /* pieces: of an image */
  const float *x, *dsums;
  const capl_tensor *labels;
  bool softmax;
  int64_t ignore;
  double *partial; /* [images][pieces][3][classes] */
  float *dx;
} region_job;

static int64_t label_of(const region_job *job, int64_t row)
{
  const void *p = capl_tensor_data(job->labels);
  return job->labels->dtype == CAPL_I64 ? ((const int64_t *)p)[row] : ((const int32_t *)p)[row];
}

static capl_status region_init(region_job *job, const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  *job = (region_job){.images = x->size[0], .places = x->size[1], .classes = x->size[2], .x = capl_tensor_data(x),
                      .labels = call->in[1], .softmax = call->attr[REGION_ACTIVATION].i == 0,
                      .ignore = call->attr[REGION_IGNORE].i, .pieces = (x->size[1] + PLACES - 1) / PLACES};
  for (int64_t row = 0; row < job->images * job->places; row++) {
    int64_t y = label_of(job, row);
    if (y != job->ignore && (y < 0 || y >= job->classes))
      return CAPL_FAIL(CAPL_EVALUE, "labels[%" PRId64 "][%" PRId64 "] is %" PRId64 ", classes are 0 to %" PRId64,
                       capl_counted(row / job->places), capl_counted(row % job->places), y, job->classes - 1);
  }
  return CAPL_OK;
}

static void softmax(const region_job *job, int64_t count, const float *x, float *y)
{
  cpu_now->softmax(&(vec_rows){CAPL_F32, false, count, job->classes, job->classes, 1}, x, y);
}

/* The classes' shares at places that follow each other; rows holds them where they are computed. */
static const float *shares(const region_job *job, int64_t first, int64_t count, float *rows)
{
  const float *x = job->x + first * job->classes;
  if (!job->softmax) return x;
  softmax(job, count, x, rows);
  return rows;
}

static void add_place(const region_job *job, int64_t label, const float *p, double *sums)
{
  int64_t n = job->classes;
  if (label == job->ignore) return;
  for (int64_t k = 0; k < n; k++) sums[REGION_PREDICTED * n + k] += (double)p[k];
  sums[REGION_SHARED * n + label] += (double)p[label];
  sums[REGION_LABELLED * n + label] += 1;
}

/* Places of [first, end) whose shares fit into STACK_SHARES. */
static int64_t places_at_once(const region_job *job, int64_t first, int64_t end)
{
  int64_t most = STACK_SHARES / job->classes;
  return end - first < most ? end - first : most;
}

static void sum_piece(const region_job *job, int64_t piece)
{
  int64_t n = job->classes, image = piece / job->pieces, begin = piece % job->pieces * PLACES, count;
  int64_t end = begin + PLACES < job->places ? begin + PLACES : job->places;
  double *sums = job->partial + piece * REGION_SUMS * n;
  float rows[STACK_SHARES];
  memset(sums, 0, (size_t)(REGION_SUMS * n) * sizeof *sums);
  for (int64_t first = begin; first < end; first += count) {
    int64_t at = image * job->places + first;
    count = places_at_once(job, first, end);
    const float *p = shares(job, at, count, rows);
    for (int64_t i = 0; i < count; i++) add_place(job, label_of(job, at + i), p + i * n, sums);
  }
}

static void sum_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  for (int64_t piece = begin; piece < end; piece++) sum_piece(arg, piece);
}

static void add_pieces(const region_job *job, float *out)
{
  int64_t n = REGION_SUMS * job->classes;
  for (int64_t image = 0; image < job->images; image++)
    for (int64_t k = 0; k < n; k++) {
      double sum = 0;
      for (int64_t piece = 0; piece < job->pieces; piece++) sum += job->partial[(image * job->pieces + piece) * n + k];
      out[image * n + k] = (float)sum;
    }
}

static capl_status cpu_dice_sums(const capl_call *call)
{
  region_job job;
  void *memory;
  CAPL_TRY(region_init(&job, call));
  CAPL_TRY(capl_scratch_get(call->device,
                            (size_t)(job.images * job.pieces * REGION_SUMS * job.classes) * sizeof(double), &memory));
  job.partial = memory;
  cpu_parallel(job.images * job.pieces, 1, sum_part, &job);
  add_pieces(&job, capl_tensor_data(call->out[0]));
  capl_scratch_put(call->device, memory);
  return CAPL_OK;
}

/* dx holds the shares, if there is a softmax. */
static void grad_place(const region_job *job, int64_t at, int64_t label)
{
  int64_t n = job->classes;
  const float *d = job->dsums + at / job->places * REGION_SUMS * n;
  float *dx = job->dx + at * n, own = d[REGION_SHARED * n + label], mean = 0;
  if (!job->softmax) {
    memcpy(dx, d + REGION_PREDICTED * n, (size_t)n * sizeof *dx);
    dx[label] += own;
    return;
  }
  for (int64_t k = 0; k < n; k++) mean += dx[k] * d[REGION_PREDICTED * n + k];
  mean += dx[label] * own;
  float extra = dx[label] * own;
  for (int64_t k = 0; k < n; k++) dx[k] *= d[REGION_PREDICTED * n + k] - mean;
  dx[label] += extra;
}

static void grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const region_job *job = arg;
  int64_t n = job->classes;
  if (job->softmax) softmax(job, end - begin, job->x + begin * n, job->dx + begin * n);
  for (int64_t at = begin; at < end; at++) {
    int64_t label = label_of(job, at);
    if (label == job->ignore) memset(job->dx + at * n, 0, (size_t)n * sizeof *job->dx);
    else grad_place(job, at, label);
  }
}

static capl_status cpu_dice_sums_grad(const capl_call *call)
{
  region_job job;
  CAPL_TRY(region_init(&job, call));
  job.dsums = capl_tensor_data(call->in[2]);
  job.dx = capl_tensor_data(call->out[0]);
  cpu_parallel(job.images * job.places, CPU_GRAIN / (8 * job.classes) + 1, grad_part, &job);
  return CAPL_OK;
}

static bool supports_regions(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  return x->dtype == CAPL_F32 && x->size[2] <= STACK_SHARES && capl_tensor_numel(x) > 0 &&
         (call->n_in < 3 || call->in[2]->dtype == CAPL_F32);
}

const capl_kernel cpu_region_kernels[] = {
  {CAPL_OP_dice_sums, cpu_dice_sums, supports_regions, CPU_F32},
  {CAPL_OP_dice_sums_grad, cpu_dice_sums_grad, supports_regions, CPU_F32},
  {0},
};
