/* product.c -- chooses among oneDNN's implementations of one product, and supplies f32 where bf16 lacks.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/product.h"

#include <string.h>

#include "backend/cpu/cpu.h"

static bool is_convolution(const dn_spec *spec)
{
  return spec->kind <= DN_CONV_GRAD_W;
}

static bool is_low(const dn_spec *spec)
{
  return spec->arg[DN_X].dtype == CAPL_BF16;
}

/* Winograd wants f32 in blocked layouts, so x and y are reordered around it. From about this many
** channels on it is still 1.3 (one image) to 1.7 times as fast as direct convolution in f32, and 3 times
** as fast as bf16 where that is slow; bf16 arguments are then converted on the way, and the sums are
** more exact. */
enum { WINOGRAD_CHANNELS = 32, WINOGRAD_PIXELS = 3 }; /* it computes tiles of 4x4 pixels */

static bool has_winograd_shape(const dn_spec *spec)
{
  const dn_layout *w = &spec->arg[DN_W];
  const int64_t *y = spec->arg[DN_Y].size;
  if (!is_convolution(spec) || w->ndim != 4 || w->size[2] != 3 || w->size[3] != 3) return false;
  return y[2] >= WINOGRAD_PIXELS && y[3] >= WINOGRAD_PIXELS;
}

static bool may_be_winograd(const dn_spec *spec)
{
  const dn_layout *w = &spec->arg[DN_W];
  if (!has_winograd_shape(spec) || (is_low(spec) && dn_bf16_is_fast())) return false;
  return w->size[0] >= WINOGRAD_CHANNELS && w->size[1] >= WINOGRAD_CHANNELS;
}

/* Products per element read or written from which computing in f32 pays for converting slow bf16. */
enum { WIDE_PRODUCTS = 64 };

static bool may_be_wide(const dn_spec *spec)
{
  const dn_layout *w = &spec->arg[DN_W];
  if (!is_convolution(spec) || w->ndim != 4 || !is_low(spec) || !dn_has_bf16() || dn_bf16_is_fast()) return false;
  return w->size[0] * w->size[1] * w->size[2] * w->size[3] >= WIDE_PRODUCTS * (w->size[0] + w->size[1]);
}

bool cpu_product_differs(const dn_spec *spec, product_order order)
{
  if (order == PRODUCT_DIRECT) return may_be_winograd(spec) || may_be_wide(spec);
  return order == PRODUCT_WINOGRAD_F32 && has_winograd_shape(spec) && !may_be_winograd(spec);
}

/* "ref:any" and the like: right but hundreds of times slower. */
static bool is_slow(const dn_plan *plan)
{
  return !plan || strncmp(dn_plan_name(plan), "ref", 3) == 0;
}

/* The plan with other freedoms for oneDNN, kept if it is better than what *best has. */
static capl_status try_plan(const dn_spec *spec, uint32_t any, dn_mode mode, const dn_plan **best)
{
  const dn_plan *plan;
  dn_spec variant = *spec;
  variant.any = any;
  variant.mode = mode;
  variant.order = PRODUCT_USUAL;
  variant.alone = spec->alone || cpu_alone();
  CAPL_TRY(dn_find(&variant, &plan));
  if (!plan || (*best && is_slow(plan))) return CAPL_OK;
  *best = plan;
  return CAPL_OK;
}

static capl_status best_plan(const dn_spec *spec, const dn_plan **best)
{
  const uint32_t all = DN_BIT_X | DN_BIT_W | DN_BIT_Y;
  *best = NULL;
  if (is_low(spec) && !dn_has_bf16()) return CAPL_OK;
  bool winograd = spec->order == PRODUCT_WINOGRAD_F32, usual = spec->order == PRODUCT_USUAL;
  if (winograd || (usual && may_be_winograd(spec))) CAPL_TRY(try_plan(spec, all, DN_WINOGRAD, best));
  if (winograd) return CAPL_OK;
  if (is_slow(*best) && usual && may_be_wide(spec)) CAPL_TRY(try_plan(spec, all, DN_WIDE, best));
  if (is_slow(*best)) CAPL_TRY(try_plan(spec, spec->any, DN_PLAIN, best));
  if (is_slow(*best)) CAPL_TRY(try_plan(spec, all, DN_PLAIN, best));
  return CAPL_OK;
}

static int64_t elements(const dn_layout *layout)
{
  int64_t n = layout->ndim ? 1 : 0;
  for (int d = 0; d < layout->ndim; d++) n *= layout->size[d];
  return n;
}

static uint32_t written(const dn_spec *spec)
{
  switch (spec->kind) {
  case DN_CONV_GRAD_X:
  case DN_LINEAR_GRAD_X: return DN_BIT_X;
  case DN_CONV_GRAD_W:
  case DN_LINEAR_GRAD_W: return DN_BIT_W | DN_BIT_B;
  default: return DN_BIT_Y;
  }
}

/* Runs the f32 twin on copies of the bf16 arguments. scratch holds them all. */
static capl_status run_converted(const dn_spec *spec, capl_device *device, void *const data[DN_ARGS], char *scratch)
{
  dn_spec wide = *spec;
  void *copies[DN_ARGS];
  uint32_t out = written(spec);
  for (int i = 0; i < DN_ARGS; i++) {
    copies[i] = data[i];
    if (spec->arg[i].dtype != CAPL_BF16) continue;
    wide.arg[i].dtype = CAPL_F32;
    copies[i] = scratch;
    scratch += (4 * elements(&spec->arg[i]) + 63) / 64 * 64;
    if (!(out >> i & 1)) cpu_convert(CAPL_BF16, data[i], CAPL_F32, copies[i], elements(&spec->arg[i]));
  }
  CAPL_TRY(cpu_product(&wide, device, copies, NULL));
  for (int i = 0; i < DN_ARGS; i++)
    if ((out >> i & 1) && spec->arg[i].dtype == CAPL_BF16)
      cpu_convert(CAPL_F32, copies[i], CAPL_BF16, data[i], elements(&spec->arg[i]));
  return CAPL_OK;
}

static capl_status run_in_f32(const dn_spec *spec, capl_device *device, void *const data[DN_ARGS])
{
  size_t bytes = 0;
  void *scratch;
  for (int i = 0; i < DN_ARGS; i++)
    if (spec->arg[i].dtype == CAPL_BF16) bytes += 4 * (size_t)elements(&spec->arg[i]) + 64;
  if (bytes == 0)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "oneDNN %s has no implementation for these sizes", dn_version());
  CAPL_TRY(capl_scratch_get(device, bytes, &scratch));
  capl_status status = run_converted(spec, device, data, scratch);
  capl_scratch_put(device, scratch);
  return status;
}

static capl_status run_whole(const dn_spec *spec, capl_device *device, void *const data[DN_ARGS],
                             const capl_tensor *weight)
{
  const dn_plan *plan;
  CAPL_TRY(best_plan(spec, &plan));
  if (!plan || (is_low(spec) && is_slow(plan))) return run_in_f32(spec, device, data);
  return dn_run(plan, device, data, weight);
}

/* ---- weight gradients, each thread a part of the batch ----
**
** oneDNN's direct kernels make threads wait for each other inside the primitive, spinning without end:
** beside other busy processes a gradient of 5 ms took 200. Here they meet only at the end. */

typedef struct {
  const dn_spec *spec;
  capl_device *device;
  void *const *data;
  const dn_plan *plans[2]; /* for parts of n and n + 1 images */
  int64_t images, parts, n_weight, n_bias;
  float *partial; /* (parts - 1) times weights and biases; the first part writes the result itself */
  bool failed;
  capl_error error; /* of the first part that failed */
} split_job;

static void split_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  split_job *job = arg;
  const dn_spec *spec = job->spec;
  for (int64_t part = begin; part < end; part++) {
    int64_t first = job->images * part / job->parts, last = job->images * (part + 1) / job->parts;
    float *sums = job->partial + (part - 1) * (job->n_weight + job->n_bias);
    void *data[DN_ARGS] = {job->data[DN_X], job->data[DN_W], job->data[DN_B], job->data[DN_Y]};
    data[DN_X] = cpu_at(data[DN_X], spec->arg[DN_X].dtype, first * elements(&spec->arg[DN_X]) / job->images);
    data[DN_Y] = cpu_at(data[DN_Y], spec->arg[DN_Y].dtype, first * elements(&spec->arg[DN_Y]) / job->images);
    if (part > 0) data[DN_W] = sums, data[DN_B] = sums + job->n_weight;
    capl_status status = dn_run(job->plans[last - first > job->images / job->parts], job->device, data, NULL);
    if (status != CAPL_OK && !__atomic_exchange_n(&job->failed, true, __ATOMIC_ACQ_REL))
      job->error = *capl_error_last();
  }
}

/* The plans for parts of the batch, or NULL where a part has no good one. */
static capl_status split_plans(split_job *job)
{
  for (int i = 0; i < 2; i++) {
    dn_spec part = *job->spec;
    part.alone = 1;
    part.arg[DN_X].size[0] = part.arg[DN_Y].size[0] = job->images / job->parts + i;
    CAPL_TRY(best_plan(&part, &job->plans[i]));
    if (is_slow(job->plans[i])) job->plans[i] = NULL;
  }
  return CAPL_OK;
}

static capl_status run_split(split_job *job)
{
  int64_t n = job->n_weight + job->n_bias;
  void *scratch;
  CAPL_TRY(capl_scratch_get(job->device, (size_t)((job->parts - 1) * n) * sizeof(float), &scratch));
  job->partial = scratch;
  cpu_parallel(job->parts, 1, split_part, job);
  for (int64_t part = 1; part < job->parts; part++) {
    float *sums = job->partial + (part - 1) * n;
    cpu_now->binary(VEC_add, CAPL_F32, job->n_weight, job->data[DN_W], 1, sums, 1, job->data[DN_W]);
    cpu_now->binary(VEC_add, CAPL_F32, job->n_bias, job->data[DN_B], 1, sums + job->n_weight, 1, job->data[DN_B]);
  }
  capl_scratch_put(job->device, scratch);
  if (job->failed) capl_error_restore(&job->error);
  return job->failed ? job->error.code : CAPL_OK;
}

/* Largest gradient that every thread sums for itself, in elements. */
enum { SPLIT_WEIGHTS = 4 << 20 };

static bool may_be_split(const dn_spec *spec)
{
  return spec->kind == DN_CONV_GRAD_W && cpu_threads() > 1 && spec->arg[DN_X].size[0] >= cpu_threads() &&
         elements(&spec->arg[DN_W]) <= SPLIT_WEIGHTS;
}

static capl_status product(const dn_spec *spec, capl_device *device, void *const data[DN_ARGS],
                           const capl_tensor *weight)
{
  if (!may_be_split(spec) || (is_low(spec) && !dn_has_bf16())) return run_whole(spec, device, data, weight);
  split_job job = {.spec = spec, .device = device, .data = data, .images = spec->arg[DN_X].size[0],
                   .parts = cpu_threads(), .n_weight = elements(&spec->arg[DN_W]),
                   .n_bias = elements(&spec->arg[DN_B])};
  CAPL_TRY(split_plans(&job));
  return job.plans[0] && job.plans[1] ? run_split(&job) : run_whole(spec, device, data, weight);
}

capl_status cpu_product(const dn_spec *spec, capl_device *device, void *const data[DN_ARGS], const capl_tensor *weight)
{
  dn_hold();
  capl_status status = product(spec, device, data, weight);
  dn_release();
  return status;
}
