/* loss.c -- cross-entropy, soft margin and losses of elements, forward and backward.
**
** Losses stay on the device and are never looked at here. A label outside 0..K-1, which ref and cpu refuse, makes the
** loss NaN: labels are checked where they are loaded.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/loss.h"

enum { MEAN, SUM, NONE };

static capl_status launch(int kernel, const capl_tensor *x, int64_t blocks, const void *args)
{
  return cu_launch(cu_loss_table[kernel * CU_TYPES + (int)cu_type_of(x->dtype)], blocks, LOSS_THREADS, 0, args);
}

/* Blocks with a warp for every row. */
static int64_t row_blocks(int64_t rows)
{
  return cu_blocks(rows * 32, LOSS_THREADS);
}

/* Runs a kernel that makes one number of all, by its arguments' *sum, of which factor and by_count are set. */
static capl_status sum_up(const capl_call *call, int kernel, int64_t blocks, const void *args, loss_sum *sum)
{
  void *memory;
  if (blocks == 0) blocks = 1; /* of nothing, too */
  CAPL_TRY(cu_counters(blocks, 1, &sum->counter));
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(2 * blocks + 2) * sizeof(float), &memory));
  sum->partial = memory;
  sum->loss = capl_tensor_data(call->out[0]);
  capl_status status = launch(kernel, call->in[0], blocks, args);
  capl_scratch_put(call->device, memory);
  return status;
}

/* ---- cross-entropy: label_smoothing, ignore_index, reduction, gamma ---- */


/* weight: the place of that input. */
static loss_rows rows_of(const capl_call *call, int place)
{
  const capl_tensor *weight = place < call->n_in ? call->in[place] : NULL;
  const capl_tensor *logits = call->in[0], *labels = call->in[1];
  const struct attrs_cross_entropy *a = ATTRS(call, cross_entropy);
  return (loss_rows){.rows = logits->size[0], .classes = logits->size[1], .logits = capl_tensor_data(logits),
                     .labels = capl_tensor_data(labels), .label_dtype = (int)labels->dtype,
                     .smoothing = (float)a->label_smoothing.f, .ignore = a->ignore_index.i,
                     .gamma = (float)a->gamma.f, .weight = weight ? capl_tensor_data(weight) : NULL,
                     .weight_dtype = weight ? (int)weight->dtype : 0};
}

static capl_status cu_cross_entropy(const capl_call *call)
{
  int64_t reduction = call->attr[AT(cross_entropy, reduction)].i;
  cross_entropy_args args = {.r = rows_of(call, 2)};
  int64_t blocks = row_blocks(args.r.rows);
  if (reduction != NONE) {
    args.sum = (loss_sum){.by_count = reduction == MEAN, .factor = 1};
    return sum_up(call, LOSS_CROSS_ENTROPY, blocks, &args, &args.sum);
  }
  args.each = capl_tensor_data(call->out[0]);
  return launch(LOSS_CROSS_ENTROPY, call->in[0], blocks, &args);
}

static capl_status count_labels(cross_entropy_grad_args *args, void *partial)
{
  count_labels_args count = {args->r, partial, args->r.weight ? partial : NULL};
  int64_t blocks = cu_blocks(args->r.rows, LOSS_THREADS);
  args->parts = (int)(blocks < LOSS_COUNT_BLOCKS ? blocks : LOSS_COUNT_BLOCKS);
  args->counted = partial;
  args->weights = count.weights;
  return cu_launch(cu_loss_table[LOSS_COUNT_LABELS_ENTRY], args->parts, LOSS_THREADS, 0, &count);
}

static capl_status cu_cross_entropy_grad(const capl_call *call)
{
  const capl_tensor *dloss = call->in[2];
  int64_t reduction = call->attr[AT(cross_entropy, reduction)].i;
  cross_entropy_grad_args args = {.r = rows_of(call, 3), .dloss = capl_tensor_data(dloss),
                                  .dloss_dtype = (int)dloss->dtype, .each = reduction == NONE,
                                  .dx = capl_tensor_data(call->out[0])};
  void *partial = NULL;
  capl_status status = CAPL_OK;
  if (reduction == MEAN) {
    CAPL_TRY(capl_scratch_get(call->device, LOSS_COUNT_BLOCKS * sizeof(int64_t), &partial));
    status = count_labels(&args, partial);
  }
  if (status == CAPL_OK) status = launch(LOSS_CROSS_ENTROPY_GRAD, call->in[0], row_blocks(args.r.rows), &args);
  if (partial) capl_scratch_put(call->device, partial);
  return status;
}

/* ---- element by element: reduction ---- */

static capl_status element_loss(const capl_call *call, loss_term term)
{
  const capl_tensor *x = call->in[0], *target = call->in[1];
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
  elements_args args = {.n = capl_tensor_numel(x), .term = term, .x = capl_tensor_data(x),
                        .target = capl_tensor_data(target), .target_dtype = (int)target->dtype,
                        .p = (float)call->attr[LOSS_FIRST].f, .q = (float)call->attr[LOSS_SECOND].f};
  int64_t blocks = cu_blocks(args.n, LOSS_THREADS);
  args.sum.factor = (float)(reduction == MEAN ? 1 / (double)args.n : 1);
  if (reduction != NONE) return sum_up(call, LOSS_ELEMENTS, blocks, &args, &args.sum);
  args.each = capl_tensor_data(call->out[0]);
  return launch(LOSS_ELEMENTS, x, blocks, &args);
}

static capl_status cu_bce_with_logits(const capl_call *call)
{
  return element_loss(call, LOSS_BCE);
}

static capl_status cu_mse(const capl_call *call)
{
  return element_loss(call, LOSS_SQUARED);
}

static capl_status margin_of_rows(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *target = call->in[1];
  margin_args args = {x->size[0], x->size[1], capl_tensor_data(x), capl_tensor_data(target), (int)target->dtype,
                      capl_tensor_data(call->out[0])};
  return launch(LOSS_MARGIN, x, row_blocks(args.rows), &args);
}

/* The mean over the classes of the rows' sums is that over all elements, but for the number of rows. */
static capl_status cu_multilabel_soft_margin(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *target = call->in[1];
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
  if (reduction == NONE) return margin_of_rows(call);
  elements_args args = {.n = capl_tensor_numel(x), .term = LOSS_BCE, .x = capl_tensor_data(x),
                        .target = capl_tensor_data(target), .target_dtype = (int)target->dtype};
  double count = (double)(reduction == MEAN ? args.n : x->size[1]);
  args.sum.factor = (float)(1 / count);
  return sum_up(call, LOSS_ELEMENTS, cu_blocks(args.n, LOSS_THREADS), &args, &args.sum);
}

static capl_status element_grad(const capl_call *call, loss_term term)
{
  const capl_tensor *x = call->in[0], *target = call->in[1], *dloss = call->in[2];
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
  element_grad_args args = {.n = capl_tensor_numel(x), .x = capl_tensor_data(x), .target = capl_tensor_data(target),
                        .dloss = capl_tensor_data(dloss), .target_dtype = (int)target->dtype,
                        .dloss_dtype = (int)dloss->dtype, .each = reduction == NONE,
                        .dx = capl_tensor_data(call->out[0]), .term = term, .p = (float)call->attr[LOSS_FIRST].f,
                        .q = (float)call->attr[LOSS_SECOND].f};
  args.share = reduction == MEAN ? (float)(1 / (double)args.n) : 1.0f;
  return launch(LOSS_ELEMENT_GRAD, x, cu_blocks(args.n, LOSS_THREADS), &args);
}

#define ELEMENT_GRAD(op, term) \
  static capl_status cu_##op##_grad(const capl_call *call) { return element_grad(call, term); }
#define ELEMENT_LOSS(op, term)                                                             \
  static capl_status cu_##op(const capl_call *call) { return element_loss(call, term); }   \
  ELEMENT_GRAD(op, term)
ELEMENT_GRAD(bce_with_logits, LOSS_BCE)
ELEMENT_LOSS(smooth_l1, LOSS_SMOOTH_L1)
ELEMENT_LOSS(sigmoid_focal, LOSS_FOCAL)

/* ---- rows ---- */

/* Targets, weights and gradients of losses may be anything but f64. */
static bool supports_loss(const capl_call *call)
{
  for (int i = 1; i < call->n_in; i++)
    if (call->in[i] && call->in[i]->dtype == CAPL_F64) return false;
  return true;
}

/* Kernels walk over x and target side by side: 0-sized dims aside, LAYOUT_DENSE has made them alike; rows need C
** order. */
static bool supports_margin(const capl_call *call)
{
  return supports_loss(call) && (call->attr[LOSS_REDUCTION].i != NONE || capl_tensor_is_row(call->in[0]));
}

const capl_kernel cu_loss_kernels[] = {
  {CAPL_OP_cross_entropy, cu_cross_entropy, supports_loss, CU_REAL},
  {CAPL_OP_cross_entropy_grad, cu_cross_entropy_grad, supports_loss, CU_REAL},
  {CAPL_OP_bce_with_logits, cu_bce_with_logits, supports_loss, CU_REAL},
  {CAPL_OP_bce_with_logits_grad, cu_bce_with_logits_grad, supports_loss, CU_REAL},
  {CAPL_OP_smooth_l1, cu_smooth_l1, supports_loss, CU_REAL},
  {CAPL_OP_smooth_l1_grad, cu_smooth_l1_grad, supports_loss, CU_REAL},
  {CAPL_OP_sigmoid_focal, cu_sigmoid_focal, supports_loss, CU_REAL},
  {CAPL_OP_sigmoid_focal_grad, cu_sigmoid_focal_grad, supports_loss, CU_REAL},
  {CAPL_OP_multilabel_soft_margin, cu_multilabel_soft_margin, supports_margin, CU_REAL},
  {CAPL_OP_mse, cu_mse, supports_loss, CU_REAL},
  {0},
};
