/* dice.c -- areas of predicted and labelled regions, and their gradient.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/region.h"
#include "ops/attrs.h"

static region_places places_of(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *labels = call->in[1];
  int64_t parts = (x->size[1] + REGION_THREADS / 32 - 1) / (REGION_THREADS / 32);
  return (region_places){.images = x->size[0], .places = x->size[1], .classes = x->size[2],
                         .groups = (x->size[2] + 31) / 32, .parts = parts < REGION_PARTS ? parts : REGION_PARTS,
                         .x = capl_tensor_data(x), .labels = capl_tensor_data(labels),
                         .label_dtype = (int)labels->dtype, .softmax = call->attr[REGION_ACTIVATION].i == 0,
                         .ignore = call->attr[REGION_IGNORE].i};
}

static cu_entry entry_of(int kernel, const capl_tensor *x)
{
  return cu_region_table[kernel * CU_TYPES + (int)cu_type_of(x->dtype)];
}

static capl_status cu_dice_sums(const capl_call *call)
{
  dice_sums_args args = {.r = places_of(call)};
  int64_t blocks = args.r.images * args.r.groups * args.r.parts;
  void *memory;
  if (capl_tensor_numel(call->out[0]) == 0) return CAPL_OK;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(blocks * REGION_SUMS * 32 + 1) * sizeof(float), &memory));
  args.partial = memory;
  region_total_args total = {args.r, memory, capl_tensor_data(call->out[0])};
  capl_status status = blocks ? cu_launch(entry_of(REGION_SUM, call->in[0]), blocks, REGION_THREADS, 0, &args)
      : CAPL_OK;
  int64_t sums = capl_tensor_numel(call->out[0]);
  if (status == CAPL_OK)
    status = cu_launch(cu_region_table[REGION_TOTAL_ENTRY], cu_blocks(sums, REGION_THREADS), REGION_THREADS, 0, &total);
  capl_scratch_put(call->device, memory);
  return status;
}

static capl_status cu_dice_sums_grad(const capl_call *call)
{
  const capl_tensor *dsums = call->in[2];
  region_grad_args args = {.r = places_of(call), .dsums = capl_tensor_data(dsums), .dsums_dtype = (int)dsums->dtype,
                           .dx = capl_tensor_data(call->out[0])};
  int64_t rows = args.r.images * args.r.places;
  if (rows * args.r.classes == 0) return CAPL_OK;
  return cu_launch(entry_of(REGION_GRAD, call->in[0]), cu_blocks(rows * 32, REGION_THREADS), REGION_THREADS, 0, &args);
}

static bool supports_regions(const capl_call *call)
{
  return call->n_in < 3 || call->in[2]->dtype != CAPL_F64;
}

const capl_kernel cu_region_kernels[] = {
  {CAPL_OP_dice_sums, cu_dice_sums, supports_regions, CU_REAL},
  {CAPL_OP_dice_sums_grad, cu_dice_sums_grad, supports_regions, CU_REAL},
  {0},
};
