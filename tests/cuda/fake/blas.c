/* blas.c -- blas.h for tests without cuBLASLt: every record is executed by the ref backend's own kernels.
**
** No arithmetic lives here. The product is ref's matmul into double precision, the epilogues are ref's add, relu and
** sum, and the result is rounded once, by ref's cast. A record that the library would refuse can be had by
** CAPL_FAKE_BLAS=plain (no epilogues), late (none either, which shows only when a product is run) or none (no
** products): callers then take their own kernels. With =zeros every product is zeros, for runs that are not about
** values. SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "shim.h"
#include "tensor/storage.h"

/* What the stream runs later. */
typedef struct {
  blas_record record;
  blas_pointers pointers;
  capl_device *ref;
} job;

/* ---- tensors over given memory ---------------------------------------------------------------- */

typedef struct {
  capl_tensor t;
  capl_storage storage;
} view;

static capl_tensor *view_of(view *v, capl_device *ref, void *data, capl_dtype dtype, int ndim, const int64_t *size,
                            const int64_t *stride)
{
  memset(v, 0, sizeof *v);
  v->storage.refs = v->t.refs = 1;
  v->storage.device = v->t.device = ref;
  v->storage.data = data;
  v->t.storage = &v->storage;
  v->t.dtype = dtype;
  v->t.ndim = ndim;
  memcpy(v->t.size, size, (size_t)ndim * sizeof *size);
  if (stride) memcpy(v->t.stride, stride, (size_t)ndim * sizeof *stride);
  else capl_strides_row(ndim, size, v->t.stride);
  return &v->t;
}

/* A stored matrix, or a batch of them, as it lies in memory. */
static capl_tensor *matrix_of(view *v, capl_device *ref, const void *data, const blas_matrix *m, int64_t batch,
                              int64_t rows, int64_t columns)
{
  int64_t size[3] = {batch, m->turned ? columns : rows, m->turned ? rows : columns};
  return view_of(v, ref, (void *)data, m->dtype, 3, size, (int64_t[]){m->batch_step, m->row_step, 1});
}

/* ---- calling ref ------------------------------------------------------------------------------ */

static capl_status ref_call(capl_device *ref, capl_op_id id, const capl_attr *attr, capl_tensor *out, int n_in,
                            capl_tensor *const *in)
{
  capl_attr defaults[CAPL_MAX_ATTR];
  capl_attr_defaults(capl_op_get(id), defaults);
  capl_call call = {.op = capl_op_get(id), .in = in, .n_in = n_in, .out = &out, .attr = attr ? attr : defaults,
                    .id = id, .device = ref};
  return ref->kernels[id]->run(&call);
}

#define REF_CALL(id, attr, out, ...)                                                                            \
  ref_call(ref, CAPL_OP_##id, (attr), (out), (int)(sizeof((capl_tensor *[]){__VA_ARGS__}) / sizeof(capl_tensor *)), \
           (capl_tensor *[]){__VA_ARGS__})

/* vector (M) := sums over k of a (M,K) */
static capl_status row_sums(capl_device *ref, const blas_record *r, const blas_pointers *p, capl_tensor *a)
{
  view v;
  capl_tensor *sums = view_of(&v, ref, p->vector, r->y.dtype, 1, &r->M, NULL);
  capl_tensor *rows = a;
  rows->ndim = 2; /* without the batch: one matrix */
  memmove(rows->size, rows->size + 1, 2 * sizeof *rows->size);
  memmove(rows->stride, rows->stride + 1, 2 * sizeof *rows->stride);
  capl_attr attr[CAPL_MAX_ATTR];
  capl_attr_defaults(capl_op_get(CAPL_OP_sum), attr);
  attr[0] = (capl_attr){.n = 1, .v = {r->a.turned ? 0 : 1}};
  return REF_CALL(sum, attr, sums, rows);
}

static capl_status epilogue(capl_device *ref, const blas_record *r, const blas_pointers *p, capl_tensor *exact,
                            capl_tensor *a)
{
  view v;
  if (r->epilogue == BLAS_PLAIN) return CAPL_OK;
  if (r->epilogue == BLAS_ROW_SUMS) return row_sums(ref, r, p, a);
  if (blas_has_vector(r->epilogue))
    CAPL_TRY(REF_CALL(add, NULL, exact, exact, view_of(&v, ref, p->vector, r->y.dtype, 1, &r->N, NULL)));
  return r->epilogue == BLAS_BIAS ? CAPL_OK : REF_CALL(relu, NULL, exact, exact);
}

static bool fake_is(const char *what)
{
  const char *fake = getenv("CAPL_FAKE_BLAS");
  return fake && strcmp(fake, what) == 0;
}

static void touch(const void *at, const blas_matrix *m, int64_t rows, int64_t columns, int64_t batch)
{
  int64_t stored = m->turned ? columns : rows, wide = m->turned ? rows : columns;
  int64_t last = (batch - 1) * m->batch_step + (stored - 1) * m->row_step + wide;
  shim_touch(at, (size_t)last * capl_dtype_size(m->dtype));
}

/* Zeros stand for a product; what it reads is touched, for the ledger. */
static void leave_out(const blas_record *r, const blas_pointers *p)
{
  touch(p->a, &r->a, r->M, r->K, r->batch);
  touch(p->b, &r->b, r->K, r->N, r->batch);
}

static capl_status execute(capl_device *ref, const blas_record *r, const blas_pointers *p, double *room)
{
  view va, vb, vy, vr;
  capl_tensor *a = matrix_of(&va, ref, p->a, &r->a, r->batch, r->M, r->K);
  capl_tensor *b = matrix_of(&vb, ref, p->b, &r->b, r->batch, r->K, r->N);
  capl_tensor *y = matrix_of(&vy, ref, p->y, &r->y, r->batch, r->M, r->N);
  capl_tensor *exact = view_of(&vr, ref, room, CAPL_F64, 3, (int64_t[]){r->batch, r->M, r->N}, NULL);
  capl_attr turns[CAPL_MAX_ATTR] = {CAPL_A_INT(r->a.turned), CAPL_A_INT(r->b.turned)};
  if (fake_is("zeros")) leave_out(r, p);
  else CAPL_TRY(REF_CALL(matmul, turns, exact, a, b));
  CAPL_TRY(epilogue(ref, r, p, exact, a));
  return REF_CALL(cast, NULL, y, exact);
}

/* shim.h: 0, or the CUDA error that the GPU is lost with. */
static int run_job(const void *queued)
{
  const job *j = queued;
  double *room = calloc((size_t)(j->record.batch * j->record.M * j->record.N), sizeof *room);
  if (!room) return cudaErrorUnknown;
  capl_status status = execute(j->ref, &j->record, &j->pointers, room);
  free(room);
  return status == CAPL_OK ? cudaSuccess : cudaErrorUnknown;
}

/* ---- blas.h ----------------------------------------------------------------------------------- */

capl_status blas_supports(const blas_record *record, bool *found)
{
  *found = !fake_is("none") && (record->epilogue == BLAS_PLAIN || !fake_is("plain"));
  return CAPL_OK;
}

capl_status blas_run(const blas_record *record, const blas_pointers *p)
{
  bool found;
  char text[BLAS_TEXT];
  CAPL_TRY(blas_supports(record, &found));
  if (!found || (record->epilogue != BLAS_PLAIN && fake_is("late")))
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "no algorithm for %s", blas_describe(record, text, sizeof text));
  job j = {.record = *record, .pointers = *p};
  CAPL_TRY(capl_device_open("ref", &j.ref));
  blas_describe(record, text, sizeof text);
  return cu_status(shim_enqueue(cu.stream, run_job, &j, sizeof j, text), "a product by ref");
}

capl_status blas_read_back(const blas_record *record, char *text, size_t len)
{
  blas_describe(record, text, len);
  return CAPL_OK;
}

const char *blas_version(void)
{
  return "none: the ref backend runs matrix products";
}

void blas_close(void) {}
