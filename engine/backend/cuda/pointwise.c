/* pointwise.c -- pointwise programs as one kernel each, generated and compiled at their first call.
**
** A kernel is made for a program, the dtypes, and the way the inputs lie beside y; sizes are arguments. Kernels are
** kept as long as the process lives.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/pointwise.h"
#include "backend/cuda/pointwise_source.h"
#include "backend/cuda/rtc.h"

_Static_assert(PROGRAM_INPUTS == 8 && CAPL_MAX_NDIM == 6, "pointwise_args has room for all of them");

_Static_assert(sizeof(pointwise_form) == (5 + 2 * PROGRAM_INPUTS) * sizeof(int),
               "no padding: forms are compared as bytes");

enum { WIDTH = 4, BUCKETS = 64 };

/* ---- how the operands lie --------------------------------------------------------------------- */

/* y's dims from slowest to fastest without those of size 1, joined where all inputs allow it. */
typedef struct {
  int ndim;
  int64_t size[CAPL_MAX_NDIM], y[CAPL_MAX_NDIM], x[PROGRAM_INPUTS][CAPL_MAX_NDIM];
} layout;

static int64_t stride_along(const capl_tensor *t, int ndim, int d)
{
  int own = d - (ndim - t->ndim);
  return own < 0 || t->size[own] == 1 ? 0 : t->stride[own];
}

static void copy_dim(layout *to, int d, const layout *from, int e, int inputs)
{
  to->size[d] = from->size[e];
  to->y[d] = from->y[e];
  for (int i = 0; i < inputs; i++) to->x[i][d] = from->x[i][e];
}

/* The dims of y, slowest first. */
static void sort_dims(layout *sorted, const capl_tensor *y, capl_tensor *const *in, int inputs)
{
  sorted->ndim = 0;
  for (int d = 0; d < y->ndim; d++) {
    layout one;
    if (y->size[d] == 1) continue;
    one.size[0] = y->size[d];
    one.y[0] = y->stride[d];
    for (int i = 0; i < inputs; i++) one.x[i][0] = stride_along(in[i], y->ndim, d);
    int at = sorted->ndim++;
    for (; at > 0 && sorted->y[at - 1] < one.y[0]; at--) copy_dim(sorted, at, sorted, at - 1, inputs);
    copy_dim(sorted, at, &one, 0, inputs);
  }
}

/* Whether dim d goes on where dim `slower` ends, for y and all inputs. */
static bool goes_on(const layout *all, int slower, const layout *from, int d, int inputs)
{
  if (all->y[slower] != from->y[d] * from->size[d]) return false;
  for (int i = 0; i < inputs; i++)
    if (all->x[i][slower] != from->x[i][d] * from->size[d]) return false;
  return true;
}

static layout layout_of(const capl_tensor *y, capl_tensor *const *in, int inputs)
{
  layout sorted = {0}, joined = {0};
  sort_dims(&sorted, y, in, inputs);
  for (int d = 0; d < sorted.ndim; d++) {
    int last = joined.ndim - 1;
    if (last >= 0 && goes_on(&joined, last, &sorted, d, inputs)) {
      int64_t size = joined.size[last] * sorted.size[d];
      copy_dim(&joined, last, &sorted, d, inputs);
      joined.size[last] = size;
    } else {
      copy_dim(&joined, joined.ndim++, &sorted, d, inputs);
    }
  }
  return joined;
}

static pointwise_place place_of(const layout *all, int i)
{
  bool alike = true, one = true;
  for (int d = 0; d < all->ndim; d++) {
    if (all->x[i][d] != all->y[d]) alike = false;
    if (all->x[i][d] != 0) one = false;
  }
  return one ? POINTWISE_ONE : alike ? POINTWISE_ALIKE : POINTWISE_STRIDED;
}

static bool reads(const program *p, int i)
{
  int tensors, numbers;
  for (int k = 0; k < p->n; k++) {
    if (p->step[k].op == PROGRAM_CONST) continue;
    program_takes((capl_op_id)p->step[k].op, &tensors, &numbers);
    for (int n = 0; n < tensors; n++)
      if (p->step[k].arg[n] == i) return true;
  }
  return false;
}

static bool aligned(const capl_tensor *t)
{
  return (uintptr_t)capl_tensor_data(t) % (WIDTH * capl_dtype_size(t->dtype)) == 0;
}

static pointwise_form form_of(const capl_call *call, const program *p, const layout *all)
{
  const capl_tensor *y = call->out[0];
  pointwise_form form;
  memset(&form, 0, sizeof form); /* what an unused input has does not count */
  form.inputs = p->inputs;
  form.y = y->dtype;
  form.wide = capl_tensor_numel(y) > INT32_MAX / 2; /* i + step must not pass 2^32 */
  bool strided = false, packs = aligned(y) && capl_tensor_numel(y) >= WIDTH;
  for (int i = 0; i < p->inputs; i++) {
    if (!reads(p, i)) continue;
    form.x[i] = call->in[i]->dtype;
    form.place[i] = place_of(all, i);
    if (form.place[i] == POINTWISE_STRIDED) strided = true;
    if (form.place[i] == POINTWISE_ALIKE && !aligned(call->in[i])) packs = false;
  }
  form.ndim = strided ? all->ndim : 0;
  form.width = packs && !strided ? WIDTH : 1;
  return form;
}

/* ---- kernels there are ------------------------------------------------------------------------ */

typedef struct kept_kernel {
  struct kept_kernel *next;
  int program;
  pointwise_form form;
  cu_entry entry;
} kept_kernel;

static kept_kernel *kernels[BUCKETS]; /* by program */

static capl_status make_kernel(const program *p, const pointwise_form *form, cu_entry *out)
{
  char *source = pointwise_source(p, form);
  if (!source) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the source of a kernel");
  capl_status status = rtc_kernel("pointwise", source, out);
  if (status != CAPL_OK) capl_error_context("program: %s", p->text);
  free(source);
  return status;
}

static capl_status kernel_of(const program *p, const pointwise_form *form, cu_entry *out)
{
  kept_kernel **bucket = &kernels[p->id % BUCKETS];
  for (kept_kernel *k = *bucket; k; k = k->next)
    if (k->program == p->id && memcmp(&k->form, form, sizeof *form) == 0) return *out = k->entry, CAPL_OK;
  CAPL_TRY(make_kernel(p, form, out));
  kept_kernel *k = calloc(1, sizeof *k);
  if (!k) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a kernel's entry");
  k->program = p->id;
  memcpy(&k->form, form, sizeof *form);
  k->entry = *out;
  k->next = *bucket;
  *bucket = k;
  return CAPL_OK;
}

/* ---- rows ------------------------------------------------------------------------------------- */

static capl_status cu_pointwise(const capl_call *call)
{
  const program *p = program_get(call->attr[AT(pointwise, program)].i);
  const capl_tensor *y = call->out[0];
  int64_t n = capl_tensor_numel(y);
  if (n == 0) return CAPL_OK;
  layout all = layout_of(y, call->in, p->inputs);
  pointwise_form form = form_of(call, p, &all);
  pointwise_args args = {.y = capl_tensor_data(y), .n = n};
  memcpy(args.size, all.size, sizeof args.size);
  memcpy(args.stride, all.x, sizeof args.stride);
  for (int i = 0; i < p->inputs; i++) args.x[i] = capl_tensor_data(call->in[i]);
  cu_entry entry;
  CAPL_TRY(kernel_of(p, &form, &entry));
  return cu_launch(entry, cu_blocks((n + form.width - 1) / form.width, CU_THREADS), CU_THREADS, 0, &args);
}

static bool supports_pointwise(const capl_call *call)
{
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i]->dtype == CAPL_F64) return false;
  return program_is_real(program_get(call->attr[AT(pointwise, program)].i), call->in, call->n_in) && rtc_available();
}

const capl_kernel cu_pointwise_kernels[] = {
  {CAPL_OP_pointwise, cu_pointwise, supports_pointwise, 0},
  {0},
};
