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

/* Winograd wants f32 in blocked layouts, so x and y are reordered around it. From about this many
** channels on it is still 1.7x faster than direct convolution in f32, and 3x faster than in bf16 where
** that has no double rate; bf16 arguments are then converted on the way, and the sums are more exact. */
enum { WINOGRAD_CHANNELS = 32 };

static bool may_be_winograd(const dn_spec *spec)
{
  const dn_layout *w = &spec->arg[DN_W];
  bool wanted = spec->arg[DN_X].dtype == CAPL_F32 || !dn_bf16_is_fast();
  return wanted && is_convolution(spec) && w->ndim == 4 && w->size[2] == 3 &&
         w->size[3] == 3 && w->size[0] >= WINOGRAD_CHANNELS && w->size[1] >= WINOGRAD_CHANNELS;
}

/* "ref:any" and the like: right but hundreds of times slower. */
static bool is_slow(const dn_plan *plan)
{
  return !plan || strncmp(dn_plan_name(plan), "ref", 3) == 0;
}

/* The plan with other freedoms for oneDNN, kept if it is better than what *best has. */
static capl_status try_plan(const dn_spec *spec, uint32_t any, bool winograd, const dn_plan **best)
{
  const dn_plan *plan;
  dn_spec variant = *spec;
  variant.any = any;
  variant.winograd = winograd;
  CAPL_TRY(dn_find(&variant, &plan));
  if (!plan || (*best && is_slow(plan))) return CAPL_OK;
  if (winograd && !strstr(dn_plan_name(plan), "wino")) return CAPL_OK;
  *best = plan;
  return CAPL_OK;
}

static capl_status best_plan(const dn_spec *spec, const dn_plan **best)
{
  const uint32_t all = DN_BIT_X | DN_BIT_W | DN_BIT_Y;
  *best = NULL;
  if (may_be_winograd(spec)) CAPL_TRY(try_plan(spec, all, true, best));
  if (is_slow(*best)) CAPL_TRY(try_plan(spec, spec->any, false, best));
  if (is_slow(*best)) CAPL_TRY(try_plan(spec, all, false, best));
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
  CAPL_TRY(cpu_product(&wide, device, copies));
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

capl_status cpu_product(const dn_spec *spec, capl_device *device, void *const data[DN_ARGS])
{
  const dn_plan *plan = NULL;
  bool low = spec->arg[DN_X].dtype == CAPL_BF16;
  if (!low || dn_has_bf16() || may_be_winograd(spec)) CAPL_TRY(best_plan(spec, &plan));
  return !plan || (low && is_slow(plan)) ? run_in_f32(spec, device, data) : dn_run(plan, device, data);
}
