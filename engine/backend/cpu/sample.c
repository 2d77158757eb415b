/* sample.c -- interpolate and grid_sample over channels-last images, and their gradients.
**
** interpolate treats the two axes one after the other: rows are blended into one, along which pixels are blended. Its
** gradient is the same with the table of weights turned round, so no two threads write the same place.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/sample.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/float16.h"

/* ---- tables of weights ---- */

/* For each target the sources it is a weighted sum of, in ascending order. */
typedef struct {
  vec_taps taps;
  int32_t *start, *from;
  float *weight;
} tap_table;

static size_t table_bytes(int64_t targets, int64_t taps)
{
  return (size_t)(targets + 1 + taps) * sizeof(int32_t) + (size_t)taps * sizeof(float);
}

static void table_place(tap_table *t, void *memory, int64_t targets, int64_t taps)
{
  t->start = memory;
  t->from = t->start + targets + 1;
  t->weight = (float *)(t->from + taps);
  t->taps = (vec_taps){t->start, t->from, t->weight};
}

/* Outputs as sums of inputs. A weight of 0 makes no tap: what it would multiply may be infinite. */
static void table_forward(tap_table *t, const sample_axis *a)
{
  int32_t n = 0;
  for (int64_t o = 0; o < a->out; o++) {
    sample_pair p = sample_pair_of(a, o);
    t->start[o] = n;
    t->from[n] = (int32_t)p.first;
    t->weight[n++] = (float)(1 - p.share);
    if (p.share == 0) continue;
    t->from[n] = (int32_t)p.second;
    t->weight[n++] = (float)p.share;
  }
  t->start[a->out] = n;
}

/* Inputs as sums of outputs: counted first, then filled; `start` is one ahead while it is filled. */
static void table_backward(tap_table *t, const sample_axis *a)
{
  memset(t->start, 0, (size_t)(a->in + 1) * sizeof *t->start);
  for (int64_t o = 0; o < a->out; o++) {
    sample_pair p = sample_pair_of(a, o);
    t->start[p.first]++;
    if (p.share != 0) t->start[p.second]++;
  }
  for (int64_t i = 1; i <= a->in; i++) t->start[i] += t->start[i - 1]; /* the end of each */
  for (int64_t o = a->out - 1; o >= 0; o--) {
    sample_pair p = sample_pair_of(a, o);
    int32_t at = --t->start[p.first];
    t->from[at] = (int32_t)o;
    t->weight[at] = (float)(1 - p.share);
    if (p.share == 0) continue;
    at = --t->start[p.second];
    t->from[at] = (int32_t)o;
    t->weight[at] = (float)p.share;
  }
}

/* ---- interpolate ---- */

enum { ROWS = 32 }; /* blended at once */

typedef struct {
  capl_dtype real;
  tap_table h, w;
  int64_t from_h, from_w, to_h, to_w, channels;
  const void *from;
  void *to;
  float *lines; /* one for each thread */
} resample_job;

/* Row h of image n as a blend of source rows: in `line`, or in the source itself. */
static const float *blended_row(const resample_job *job, int64_t n, int64_t h, float *line)
{
  const tap_table *t = &job->h;
  int64_t row = job->from_w * job->channels, first = t->start[h], last = t->start[h + 1];
  const void *rows[ROWS];
  int count = 0;
  for (int64_t k = first; k < last && count < ROWS; k++, count++)
    rows[count] = cpu_at(job->from, job->real, (n * job->from_h + t->from[k]) * row);
  if (count == 0) return memset(line, 0, (size_t)row * sizeof *line);
  if (last - first == 1 && t->weight[first] == 1 && job->real == CAPL_F32) return rows[0];
  cpu_now->blend_rows(job->real, row, count, rows, t->weight + first, line);
  for (int64_t k = first + count; k < last; k++)
    cpu_now->add_weighted(job->real, row, cpu_at(job->from, job->real, (n * job->from_h + t->from[k]) * row),
                          t->weight[k], line);
  return line;
}

static void resample_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const resample_job *job = arg;
  int64_t to_row = job->to_w * job->channels;
  float *line = job->lines + thread * job->from_w * job->channels;
  for (int64_t r = begin; r < end; r++) {
    const float *row = blended_row(job, r / job->to_h, r % job->to_h, line);
    cpu_now->blend_pixels(job->real, &job->w.taps, job->to_w, job->channels, row,
                          cpu_at(job->to, job->real, r * to_row));
  }
}

/* axes: of interpolate, whatever is computed here. memory: for both tables and the lines. */
static void resample(const capl_call *call, const sample_axis *axes, bool backward, void *memory)
{
  const capl_tensor *from = call->in[0];
  capl_tensor *to = call->out[0];
  resample_job job = {.real = from->dtype, .from_h = from->size[2], .from_w = from->size[3], .to_h = to->size[2],
                      .to_w = to->size[3], .channels = from->size[1], .from = capl_tensor_data(from),
                      .to = capl_tensor_data(to)};
  tap_table *tables[2] = {&job.h, &job.w};
  for (int k = 0; k < 2; k++) {
    table_place(tables[k], memory, to->size[2 + k], 2 * axes[k].out);
    memory = (char *)memory + table_bytes(to->size[2 + k], 2 * axes[k].out);
    if (backward) table_backward(tables[k], &axes[k]);
    else table_forward(tables[k], &axes[k]);
  }
  job.lines = memory;
  int64_t work = (job.to_w + job.from_w) * job.channels;
  cpu_parallel(to->size[0] * job.to_h, CPU_GRAIN / (work + 1) + 1, resample_part, &job);
}

/* x, y: the image and the result of interpolate, or dx and dy. */
static capl_status run_resample(const capl_call *call, const capl_tensor *x, const capl_tensor *y, bool backward)
{
  const sample_axis axes[2] = {sample_axis_for(call->attr, 0, x, y), sample_axis_for(call->attr, 1, x, y)};
  const capl_tensor *from = call->in[0], *to = call->out[0];
  size_t bytes = (size_t)(cpu_threads() * from->size[3] * from->size[1]) * sizeof(float);
  void *memory;
  if (capl_tensor_numel(to) == 0) return CAPL_OK;
  for (int k = 0; k < 2; k++) bytes += table_bytes(to->size[2 + k], 2 * axes[k].out);
  CAPL_TRY(capl_scratch_get(call->device, bytes, &memory));
  resample(call, axes, backward, memory);
  capl_scratch_put(call->device, memory);
  return CAPL_OK;
}

static capl_status cpu_interpolate(const capl_call *call)
{
  return run_resample(call, call->in[0], call->out[0], false);
}

static capl_status cpu_interpolate_grad(const capl_call *call)
{
  return run_resample(call, call->out[0], call->in[0], true);
}

/* ---- grid_sample ---- */

typedef struct {
  capl_dtype real;
  sample_mode mode;
  sample_padding padding;
  bool align;
  int64_t C, H, W, h, w; /* x (N,C,H,W), result (N,C,h,w) */
  const void *x, *dy, *grid;
  int64_t grid_stride[4];
  capl_tensor *dgrid;
  void *y, *to_grid;
  float *sums; /* dx */
} grid_job;

/* The pixels of x that one place of the grid reads; by_x, by_y: how their weights change with it. */
typedef struct {
  int n;
  int64_t row[4], pixel[4]; /* row of all images' rows, pixel of all pixels */
  float weight[4], by_x[4], by_y[4];
} reads;

static inline float value_at(const grid_job *job, const void *p, int64_t at)
{
  return job->real == CAPL_BF16 ? capl_bf16_to_float(((const uint16_t *)p)[at]) : ((const float *)p)[at];
}

static inline void store_at(capl_dtype real, void *p, int64_t at, float v)
{
  if (real == CAPL_BF16) ((uint16_t *)p)[at] = capl_bf16_from_float(v);
  else ((float *)p)[at] = v;
}

static inline void add_read(const grid_job *job, reads *r, int64_t n, int64_t h, int64_t w, double weight, double by_x,
                            double by_y)
{
  if (h < 0 || h >= job->H || w < 0 || w >= job->W || (weight == 0 && by_x == 0 && by_y == 0)) return;
  int k = r->n++;
  r->row[k] = n * job->H + h;
  r->pixel[k] = r->row[k] * job->W + w;
  r->weight[k] = (float)weight;
  r->by_x[k] = (float)by_x;
  r->by_y[k] = (float)by_y;
}

/* A place of the result; counted on without divisions. */
typedef struct {
  int64_t n, i, j;
} spot;

static spot spot_of(const grid_job *job, int64_t k)
{
  int64_t row = k / job->w;
  return (spot){row / job->h, row % job->h, k % job->w};
}

static inline void spot_next(const grid_job *job, spot *s)
{
  if (++s->j < job->w) return;
  s->j = 0;
  if (++s->i < job->h) return;
  s->i = 0;
  s->n++;
}

static inline void find_reads(const grid_job *job, const spot *s, reads *r)
{
  const int64_t *stride = job->grid_stride;
  int64_t n = s->n, at = n * stride[0] + s->i * stride[1] + s->j * stride[2];
  double slope_x, slope_y;
  double px = sample_position(value_at(job, job->grid, at), job->W, job->padding, job->align, &slope_x);
  double py = sample_position(value_at(job, job->grid, at + stride[3]), job->H, job->padding, job->align, &slope_y);
  r->n = 0;
  if (job->mode == SAMPLE_NEAREST) {
    add_read(job, r, n, sample_round(py), sample_round(px), 1, 0, 0);
    return;
  }
  int64_t left = sample_floor(px), top = sample_floor(py);
  double fx = px - (double)left, fy = py - (double)top;
  add_read(job, r, n, top, left, (1 - fx) * (1 - fy), -(1 - fy) * slope_x, -(1 - fx) * slope_y);
  add_read(job, r, n, top, left + 1, fx * (1 - fy), (1 - fy) * slope_x, -fx * slope_y);
  add_read(job, r, n, top + 1, left, (1 - fx) * fy, -fy * slope_x, (1 - fx) * slope_y);
  add_read(job, r, n, top + 1, left + 1, fx * fy, fy * slope_x, fx * slope_y);
}

/* Fewer channels are read one by one here: a call for each pixel would cost more than they do. */
enum { FEW = 8 };

/* The four pixels of a place that lies between four of them, all within the image: most places, so they skip the checks
** of find_reads; what is computed is the same. */
typedef struct {
  int64_t row, pixel; /* of the first; the others are one pixel, one row, and both further */
  double fx, fy, slope_x, slope_y;
} square;

static inline bool find_square(const grid_job *job, const spot *s, square *q)
{
  const int64_t *stride = job->grid_stride;
  int64_t at = s->n * stride[0] + s->i * stride[1] + s->j * stride[2];
  if (job->mode != SAMPLE_BILINEAR) return false;
  double px = sample_position(value_at(job, job->grid, at), job->W, job->padding, job->align, &q->slope_x);
  double py = sample_position(value_at(job, job->grid, at + stride[3]), job->H, job->padding, job->align, &q->slope_y);
  if (!(px > 0 && py > 0 && px < (double)(job->W - 1) && py < (double)(job->H - 1))) return false;
  int64_t left = (int64_t)px, top = (int64_t)py;
  q->fx = px - (double)left;
  q->fy = py - (double)top;
  q->row = s->n * job->H + top;
  q->pixel = q->row * job->W + left;
  return q->fx > 0 && q->fy > 0;
}

/* Shares of the four pixels. */
static inline void square_weights(const square *q, float *w)
{
  w[0] = (float)((1 - q->fx) * (1 - q->fy));
  w[1] = (float)(q->fx * (1 - q->fy));
  w[2] = (float)((1 - q->fx) * q->fy);
  w[3] = (float)(q->fx * q->fy);
}

static void blend_square(const grid_job *job, const square *q, int64_t at)
{
  int64_t C = job->C, one = q->pixel * C, below = one + job->W * C;
  float w[4];
  square_weights(q, w);
  for (int64_t c = 0; c < C; c++, one++, below++)
    store_at(job->real, job->y, at + c,
             w[0] * value_at(job, job->x, one) + w[1] * value_at(job, job->x, one + C)
             + w[2] * value_at(job, job->x, below) +
               w[3] * value_at(job, job->x, below + C));
}

/* The gradient of a place k: in x, and in y. */
static void slope_square(const grid_job *job, const square *q, int64_t k, float *gx, float *gy)
{
  int64_t C = job->C, one = q->pixel * C, below = one + job->W * C;
  float d[4] = {0};
  for (int64_t c = 0; c < C; c++, one++, below++) {
    float dy = value_at(job, job->dy, k * C + c);
    d[0] += dy * value_at(job, job->x, one);
    d[1] += dy * value_at(job, job->x, one + C);
    d[2] += dy * value_at(job, job->x, below);
    d[3] += dy * value_at(job, job->x, below + C);
  }
  *gx = (float)(((1 - q->fy) * (d[1] - d[0]) + q->fy * (d[3] - d[2])) * q->slope_x);
  *gy = (float)(((1 - q->fx) * (d[2] - d[0]) + q->fx * (d[3] - d[1])) * q->slope_y);
}

static void add_square(const grid_job *job, const square *q, int64_t k)
{
  int64_t C = job->C;
  float *one = job->sums + q->pixel * C, *below = one + job->W * C, w[4];
  square_weights(q, w);
  for (int64_t c = 0; c < C; c++) {
    float dy = value_at(job, job->dy, k * C + c);
    one[c] += w[0] * dy;
    one[c + C] += w[1] * dy;
    below[c] += w[2] * dy;
    below[c + C] += w[3] * dy;
  }
}

static void blend_few(const grid_job *job, const reads *r, int64_t at)
{
  for (int64_t c = 0; c < job->C; c++) {
    float sum = 0;
    for (int q = 0; q < r->n; q++) sum += r->weight[q] * value_at(job, job->x, r->pixel[q] * job->C + c);
    if (job->real == CAPL_BF16) ((uint16_t *)job->y)[at + c] = capl_bf16_from_float(sum);
    else ((float *)job->y)[at + c] = sum;
  }
}

/* Sum over the channels of dy of place k times x of a pixel. */
static float dot_at(const grid_job *job, int64_t k, int64_t pixel)
{
  float sum = 0;
  if (job->C >= FEW)
    return cpu_now->dot(job->real, job->C, cpu_at(job->dy, job->real, k * job->C),
                        cpu_at(job->x, job->real, pixel * job->C));
  for (int64_t c = 0; c < job->C; c++)
    sum += value_at(job, job->dy, k * job->C + c) * value_at(job, job->x, pixel * job->C + c);
  return sum;
}

static void add_at(const grid_job *job, int64_t k, float weight, int64_t pixel)
{
  float *to = job->sums + pixel * job->C;
  if (job->C >= FEW) cpu_now->add_weighted(job->real, job->C, cpu_at(job->dy, job->real, k * job->C), weight, to);
  else
    for (int64_t c = 0; c < job->C; c++) to[c] += weight * value_at(job, job->dy, k * job->C + c);
}

static void sample_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const grid_job *job = arg;
  const void *taps[4];
  spot s = spot_of(job, begin);
  square four;
  reads r;
  for (int64_t k = begin; k < end; k++, spot_next(job, &s)) {
    if (job->C < FEW && find_square(job, &s, &four)) {
      blend_square(job, &four, k * job->C);
      continue;
    }
    find_reads(job, &s, &r);
    if (job->C < FEW) {
      blend_few(job, &r, k * job->C);
      continue;
    }
    for (int q = 0; q < r.n; q++) taps[q] = cpu_at(job->x, job->real, r.pixel[q] * job->C);
    cpu_now->pool_sum(job->real, job->C, r.n, taps, r.weight, cpu_at(job->y, job->real, k * job->C));
  }
}

static void slope_reads(const grid_job *job, const reads *r, int64_t k, float *gx, float *gy)
{
  for (int q = 0; q < r->n && job->mode == SAMPLE_BILINEAR; q++) {
    float d = dot_at(job, k, r->pixel[q]);
    *gx += r->by_x[q] * d;
    *gy += r->by_y[q] * d;
  }
}

static inline void store_slope(const grid_job *job, const spot *s, float gx, float gy)
{
  const int64_t *stride = job->dgrid->stride;
  int64_t at = s->n * stride[0] + s->i * stride[1] + s->j * stride[2];
  store_at(job->real, job->to_grid, at, gx);
  store_at(job->real, job->to_grid, at + stride[3], gy);
}

/* Both gradients of whole images. */
static void images_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const grid_job *job = arg;
  int64_t places = job->h * job->w;
  spot s = spot_of(job, begin * places);
  square four;
  reads r;
  for (int64_t k = begin * places; k < end * places; k++, spot_next(job, &s)) {
    float gx = 0, gy = 0;
    if (job->C < FEW && find_square(job, &s, &four)) {
      add_square(job, &four, k);
      slope_square(job, &four, k, &gx, &gy);
    } else {
      find_reads(job, &s, &r);
      for (int q = 0; q < r.n; q++) add_at(job, k, r.weight[q], r.pixel[q]);
      slope_reads(job, &r, k, &gx, &gy);
    }
    store_slope(job, &s, gx, gy);
  }
}

static void dgrid_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const grid_job *job = arg;
  spot s = spot_of(job, begin);
  square four;
  reads r;
  for (int64_t k = begin; k < end; k++, spot_next(job, &s)) {
    float gx = 0, gy = 0;
    if (job->C < FEW && find_square(job, &s, &four)) slope_square(job, &four, k, &gx, &gy);
    else {
      find_reads(job, &s, &r);
      slope_reads(job, &r, k, &gx, &gy);
    }
    store_slope(job, &s, gx, gy);
  }
}

/* Rows begin..end-1 of dx, counted through all images: all that was read of these images is looked at, in one order. */
static void dx_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const grid_job *job = arg;
  int64_t places = job->h * job->w, first = begin / job->H * places, last = ((end - 1) / job->H + 1) * places;
  spot s = spot_of(job, first);
  square four;
  reads r;
  for (int64_t k = first; k < last; k++, spot_next(job, &s)) {
    if (job->C < FEW && find_square(job, &s, &four) && four.row >= begin && four.row + 1 < end) {
      add_square(job, &four, k);
      continue;
    }
    find_reads(job, &s, &r);
    for (int q = 0; q < r.n; q++)
      if (r.row[q] >= begin && r.row[q] < end) add_at(job, k, r.weight[q], r.pixel[q]);
  }
}

static grid_job grid_job_of(const capl_call *call, const capl_tensor *x, const capl_tensor *grid)
{
  const capl_attr *attr = call->attr;
  grid_job job = {.real = x->dtype, .mode = (sample_mode)attr[GRID_MODE].i,
                  .padding = (sample_padding)attr[GRID_PADDING].i,
                    .align = attr[GRID_ALIGN].i, .C = x->size[1], .H = x->size[2], .W = x->size[3], .h = grid->size[1],
                    .w = grid->size[2], .x = capl_tensor_data(x), .grid = capl_tensor_data(grid)};
  memcpy(job.grid_stride, grid->stride, sizeof job.grid_stride);
  return job;
}

/* A place costs some 30 ns besides its channels. */
static int64_t grain_of(const grid_job *job)
{
  return CPU_GRAIN / (4 * job->C + 32) + 1;
}

static capl_status cpu_grid_sample(const capl_call *call)
{
  capl_tensor *y = call->out[0];
  grid_job job = grid_job_of(call, call->in[0], call->in[1]);
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  job.y = capl_tensor_data(y);
  cpu_parallel(y->size[0] * job.h * job.w, grain_of(&job), sample_part, &job);
  return CAPL_OK;
}

/* By images where they are enough for the threads: places are found once for both gradients. Few images are split into
** rows of dx, and places of the grid; the sums have the same order. */
static void run_grads(grid_job *job, int64_t images)
{
  int64_t places = images * job->h * job->w, rows = images * job->H, parts = places / grain_of(job) + 1;
  if (images >= cpu_threads()) {
    cpu_parallel(images, (images + parts - 1) / parts, images_part, job);
    return;
  }
  cpu_parallel(rows, (rows + parts - 1) / parts, dx_part, job);
  cpu_parallel(places, grain_of(job), dgrid_part, job);
}

static capl_status cpu_grid_sample_grad(const capl_call *call)
{
  grid_job job = grid_job_of(call, call->in[1], call->in[2]);
  capl_tensor *dx = call->out[0];
  int64_t numel = capl_tensor_numel(dx);
  void *memory = NULL;
  job.dy = capl_tensor_data(call->in[0]);
  job.dgrid = call->out[1];
  job.to_grid = capl_tensor_data(job.dgrid);
  if (dx->dtype != CAPL_F32 && numel > 0)
    CAPL_TRY(capl_scratch_get(dx->device, (size_t)numel * sizeof(float), &memory));
  job.sums = memory ? memory : capl_tensor_data(dx);
  if (numel > 0) memset(job.sums, 0, (size_t)numel * sizeof(float));
  if (capl_tensor_numel(job.dgrid) > 0) run_grads(&job, dx->size[0]);
  if (memory) cpu_convert(CAPL_F32, memory, dx->dtype, capl_tensor_data(dx), numel);
  if (memory) capl_scratch_put(dx->device, memory);
  return CAPL_OK;
}

/* Tables count in 32 bits. */
static bool supports_sizes(const capl_call *call)
{
  const int64_t longest = 1 << 28;
  const capl_tensor *t = call->in[0];
  return cpu_real(t) && t->size[2] < longest && t->size[3] < longest;
}

const capl_kernel cpu_sample_kernels[] = {
  {CAPL_OP_interpolate, cpu_interpolate, supports_sizes, CPU_REAL},
  {CAPL_OP_interpolate_grad, cpu_interpolate_grad, supports_sizes, CPU_REAL},
  {CAPL_OP_grid_sample, cpu_grid_sample, cpu_supports_same, CPU_REAL},
  {CAPL_OP_grid_sample_grad, cpu_grid_sample_grad, cpu_supports_same, CPU_REAL},
  {0},
};
