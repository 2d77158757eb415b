/* dnn_run.c -- dnn.h for tests without cuDNN: every record is executed by the ref backend's own kernels.
**
** No arithmetic lives here: a record becomes calls of ref's kernels on tensors over the given memory, queued on the
** stream like any other work. CAPL_DNN_RECORDS=FILE appends the text form of each new record to FILE. CAPL_FAKE_DNN is
** a list of words: none makes every record one without an engine, so that callers take their own kernels, no:KIND those
** of one kind (no:conv2d_grad_w); faster makes it faster than own kernels; old is a library that is too old; zeros
** executes nothing and writes zeros, for runs that only collect records.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/dnn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/attrs.h"
#include "shim.h"
#include "tensor/storage.h"

/* What the stream runs later. */
typedef struct {
  dnn_record record;
  dnn_pointers pointers;
  capl_device *ref;
  bool zeros;
} job;

/* ---- tensors over given memory ---------------------------------------------------------------- */

typedef struct {
  capl_tensor t;
  capl_storage storage;
} view;

static capl_tensor *view_of(view *v, capl_device *ref, void *data, capl_dtype dtype, int ndim, const int64_t *size)
{
  memset(v, 0, sizeof *v);
  v->storage.refs = v->t.refs = 1;
  v->storage.device = v->t.device = ref;
  v->storage.data = data;
  v->t.storage = &v->storage;
  v->t.dtype = dtype;
  v->t.ndim = ndim;
  memcpy(v->t.size, size, (size_t)ndim * sizeof *size);
  capl_strides_row(ndim, size, v->t.stride);
  if (ndim == 4)
    memcpy(v->t.stride, (int64_t[4]){size[1] * size[2] * size[3], 1, size[3] * size[1], size[1]}, sizeof(int64_t[4]));
  return &v->t;
}

/* One number per channel is a list to ref; NULL where the record has no such tensor. */
static capl_tensor *role(view *v, const job *j, dnn_role role)
{
  dnn_tensor t = dnn_tensor_of(&j->record, role);
  if (!t.used) return NULL;
  bool image = role == DNN_X || role == DNN_Y || role == DNN_DX || role == DNN_DY || role == DNN_W || role == DNN_DW ||
               role == DNN_ADD || role == DNN_INDEX;
  return view_of(v, j->ref, j->pointers.at[role], t.dtype, image ? 4 : 1, image ? t.size : &t.size[1]);
}

static capl_status ref_call(const job *j, capl_op_id id, const capl_attr *attr, int n_in, capl_tensor *const *in,
                            capl_tensor **out)
{
  capl_attr defaults[CAPL_MAX_ATTR];
  capl_attr_defaults(capl_op_get(id), defaults);
  capl_call call = {.op = capl_op_get(id), .in = in, .n_in = n_in, .out = out, .attr = attr ? attr : defaults, .id = id,
                    .device = j->ref};
  return j->ref->kernels[id]->run(&call);
}

/* ---- what follows the main part ------------------------------------------------------------------ */

/* y := relu(exact + add), rounded once. */
static capl_status finish(const job *j, capl_tensor *exact, capl_tensor *y)
{
  view v;
  capl_tensor *add = role(&v, j, DNN_ADD);
  if (add) CAPL_TRY(ref_call(j, CAPL_OP_add, NULL, 2, (capl_tensor *[]){exact, add}, &exact));
  if (j->record.relu) CAPL_TRY(ref_call(j, CAPL_OP_relu, NULL, 1, &exact, &exact));
  return ref_call(j, CAPL_OP_cast, NULL, 1, &exact, &y);
}

/* y in double precision, for results that are not stored yet. */
static capl_tensor *exact_of(view *v, const job *j, void **memory)
{
  const int64_t *size = j->record.y;
  *memory = malloc((size_t)(size[0] * size[1] * size[2] * size[3]) * sizeof(double));
  return *memory ? view_of(v, j->ref, *memory, CAPL_F64, 4, size) : NULL;
}

/* ---- kinds ------------------------------------------------------------------------------------ */

static void conv_attrs(const dnn_record *r, capl_attr *attr)
{
  memset(attr, 0, CAPL_MAX_ATTR * sizeof *attr);
  attr[CONV_STRIDE] = CAPL_A_INTS2(r->stride[0], r->stride[1]);
  attr[CONV_PADDING] = CAPL_A_INTS2(r->padding[0], r->padding[1]);
  attr[CONV_DILATION] = CAPL_A_INTS2(r->dilation[0], r->dilation[1]);
  attr[CONV_GROUPS] = CAPL_A_INT(r->groups);
}

static capl_status run_conv(const job *j, capl_tensor *exact)
{
  view x, w, b, y;
  capl_attr attr[CAPL_MAX_ATTR];
  conv_attrs(&j->record, attr);
  capl_tensor *in[3] = {role(&x, j, DNN_X), role(&w, j, DNN_W), role(&b, j, DNN_BIAS)};
  CAPL_TRY(ref_call(j, CAPL_OP_conv2d, attr, 3, in, &exact));
  return finish(j, exact, role(&y, j, DNN_Y));
}

static capl_status run_conv_grad_x(const job *j, capl_tensor *exact)
{
  (void)exact;
  view dy, w, dx;
  capl_attr attr[CAPL_MAX_ATTR];
  conv_attrs(&j->record, attr);
  attr[CONV_SIZE] = CAPL_A_INTS2(j->record.x[2], j->record.x[3]);
  capl_tensor *in[2] = {role(&dy, j, DNN_DY), role(&w, j, DNN_W)}, *out = role(&dx, j, DNN_DX);
  return ref_call(j, CAPL_OP_conv2d_grad_x, attr, 2, in, &out);
}

static capl_status run_conv_grad_w(const job *j, capl_tensor *exact)
{
  view x, dy, dw, db;
  capl_attr attr[CAPL_MAX_ATTR];
  conv_attrs(&j->record, attr);
  attr[CONV_KERNEL] = CAPL_A_INTS2(j->record.kernel[0], j->record.kernel[1]);
  capl_tensor *in[2] = {role(&x, j, DNN_X), role(&dy, j, DNN_DY)};
  /* ref sums the bias too; cuDNN does not, so that goes where nobody reads. */
  capl_tensor *unused = view_of(&db, j->ref, capl_tensor_data(exact), CAPL_F64, 1, &j->record.y[1]);
  capl_tensor *out[2] = {role(&dw, j, DNN_DW), unused};
  return ref_call(j, CAPL_OP_conv2d_grad_w, attr, 2, in, out);
}

static capl_status run_norm(const job *j, capl_tensor *exact)
{
  view x, scale, shift, mean, var, out_mean, invstd, y;
  capl_attr attr[CAPL_MAX_ATTR] = {[NORM_EPS] = CAPL_A_REAL((double)j->pointers.eps),
                                   [NORM_MOMENTUM] = CAPL_A_REAL((double)j->pointers.momentum),
                                   [NORM_TRAINING] = CAPL_A_INT(1)};
  capl_tensor *in[5] = {role(&x, j, DNN_X), role(&scale, j, DNN_SCALE), role(&shift, j, DNN_SHIFT),
                        role(&mean, j, DNN_RUNNING_MEAN), role(&var, j, DNN_RUNNING_VAR)};
  capl_tensor *out[3] = {exact, role(&out_mean, j, DNN_MEAN), role(&invstd, j, DNN_INVSTD)};
  CAPL_TRY(ref_call(j, CAPL_OP_batch_norm, attr, 5, in, out));
  return finish(j, exact, role(&y, j, DNN_Y));
}

static capl_status run_norm_grad(const job *j, capl_tensor *exact)
{
  (void)exact;
  view x, dy, scale, mean, invstd, dx, dscale, dshift;
  capl_attr attr[CAPL_MAX_ATTR] = {[NORM_GRAD_TRAINING] = CAPL_A_INT(1)};
  capl_tensor *in[5] = {role(&x, j, DNN_X), role(&dy, j, DNN_DY), role(&scale, j, DNN_SCALE), role(&mean, j, DNN_MEAN),
                        role(&invstd, j, DNN_INVSTD)};
  capl_tensor *out[3] = {role(&dx, j, DNN_DX), role(&dscale, j, DNN_DSCALE), role(&dshift, j, DNN_DSHIFT)};
  return ref_call(j, CAPL_OP_batch_norm_grad, attr, 5, in, out);
}

/* of: max_pool2d_grad or avg_pool2d_grad, which have all that the pools before them have. */
static void pool_attrs(const dnn_record *r, capl_op_id of, capl_attr *attr)
{
  memset(attr, 0, CAPL_MAX_ATTR * sizeof *attr);
  attr[POOL_KERNEL] = CAPL_A_INTS2(r->kernel[0], r->kernel[1]);
  attr[POOL_STRIDE] = CAPL_A_INTS2(r->stride[0], r->stride[1]);
  attr[POOL_PADDING] = CAPL_A_INTS2(r->padding[0], r->padding[1]);
  bool average = of == CAPL_OP_avg_pool2d_grad;
  if (average) attr[AVG_POOL_COUNT_PAD] = CAPL_A_INT(r->count_pad);
  else attr[MAX_POOL_DILATION] = CAPL_A_INTS2(1, 1);
  attr[average ? AVG_POOL_SIZE : MAX_POOL_SIZE] = CAPL_A_INTS2(r->x[2], r->x[3]);
}

static capl_status run_max_pool(const job *j, capl_tensor *exact)
{
  view x, y, index;
  capl_attr attr[CAPL_MAX_ATTR];
  pool_attrs(&j->record, CAPL_OP_max_pool2d_grad, attr);
  capl_tensor *in = role(&x, j, DNN_X);
  capl_tensor *out[2] = {role(&y, j, DNN_Y), role(&index, j, DNN_INDEX)};
  if (!out[1]) out[1] = view_of(&index, j->ref, capl_tensor_data(exact), CAPL_U8, 4, j->record.y);
  return ref_call(j, CAPL_OP_max_pool2d, attr, 1, &in, out);
}

static capl_status run_max_pool_grad(const job *j, capl_tensor *exact)
{
  (void)exact;
  view dy, index, dx;
  capl_attr attr[CAPL_MAX_ATTR];
  pool_attrs(&j->record, CAPL_OP_max_pool2d_grad, attr);
  capl_tensor *in[2] = {role(&dy, j, DNN_DY), role(&index, j, DNN_INDEX)}, *out = role(&dx, j, DNN_DX);
  return ref_call(j, CAPL_OP_max_pool2d_grad, attr, 2, in, &out);
}

static capl_status run_avg_pool(const job *j, capl_tensor *exact)
{
  (void)exact;
  view x, y;
  capl_attr attr[CAPL_MAX_ATTR];
  pool_attrs(&j->record, CAPL_OP_avg_pool2d_grad, attr);
  capl_tensor *in = role(&x, j, DNN_X), *out = role(&y, j, DNN_Y);
  return ref_call(j, CAPL_OP_avg_pool2d, attr, 1, &in, &out);
}

static capl_status run_avg_pool_grad(const job *j, capl_tensor *exact)
{
  (void)exact;
  view dy, dx;
  capl_attr attr[CAPL_MAX_ATTR];
  pool_attrs(&j->record, CAPL_OP_avg_pool2d_grad, attr);
  capl_tensor *in = role(&dy, j, DNN_DY), *out = role(&dx, j, DNN_DX);
  return ref_call(j, CAPL_OP_avg_pool2d_grad, attr, 1, &in, &out);
}

/* exact: room for y in double precision. */
static capl_status (*const run[DNN_KINDS])(const job *j, capl_tensor *exact) = {
  [DNN_CONV] = run_conv,
  [DNN_CONV_GRAD_X] = run_conv_grad_x,
  [DNN_CONV_GRAD_W] = run_conv_grad_w,
  [DNN_NORM] = run_norm,
  [DNN_NORM_GRAD] = run_norm_grad,
  [DNN_MAX_POOL] = run_max_pool,
  [DNN_MAX_POOL_GRAD] = run_max_pool_grad,
  [DNN_AVG_POOL] = run_avg_pool,
  [DNN_AVG_POOL_GRAD] = run_avg_pool_grad,
};

/* What is read is touched, for the ledger. */
static void write_zeros(const job *j)
{
  for (int i = 0; i < DNN_ROLES; i++) {
    dnn_tensor t = dnn_tensor_of(&j->record, (dnn_role)i);
    size_t bytes = (size_t)(t.size[0] * t.size[1] * t.size[2] * t.size[3]) * capl_dtype_size(t.dtype);
    if (t.used && t.read) shim_touch(j->pointers.at[i], bytes);
    else if (t.written) memset(j->pointers.at[i], 0, bytes);
  }
}

/* Called by the stream; what fails there is a GPU that failed. */
static int execute(const void *queued)
{
  job j;
  memcpy(&j, queued, sizeof j);
  if (j.zeros) {
    write_zeros(&j);
    return 0;
  }
  view v;
  void *memory;
  capl_tensor *exact = exact_of(&v, &j, &memory);
  capl_status status = exact ? run[j.record.kind](&j, exact) : CAPL_ENOMEM;
  free(memory);
  return status == CAPL_OK ? 0 : (int)cudaErrorLaunchFailure;
}

/* ---- the list of records -------------------------------------------------------------------------- */

static dnn_record *seen;
static size_t n_seen;

/* Whether record is new; remembers it. Grows by doubling. */
static bool is_new(const dnn_record *record)
{
  for (size_t i = 0; i < n_seen; i++)
    if (dnn_same(&seen[i], record)) return false;
  if ((n_seen & (n_seen - 1)) == 0) {
    dnn_record *more = realloc(seen, (n_seen ? 2 * n_seen : 1) * sizeof *seen);
    if (!more) return true;
    seen = more;
  }
  seen[n_seen++] = *record;
  return true;
}

static capl_status note(const dnn_record *record)
{
  const char *path = getenv("CAPL_DNN_RECORDS");
  if (!path || !*path) return CAPL_OK;
  if (!is_new(record)) return CAPL_OK;
  FILE *f = fopen(path, "a");
  if (!f) return CAPL_FAIL(CAPL_EIO, "%s cannot be written: %s", path, strerror(errno));
  char text[DNN_TEXT];
  fprintf(f, "%s\n", dnn_describe(record, text, sizeof text));
  fclose(f);
  return CAPL_OK;
}

/* ---- dnn.h ------------------------------------------------------------------------------------ */

static dnn_statistics statistics;

/* Whether CAPL_FAKE_DNN has the word prefix + what. */
static bool fake_has(const char *prefix, const char *what)
{
  const char *list = getenv("CAPL_FAKE_DNN");
  size_t head = strlen(prefix), tail = strlen(what);
  for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == head + tail && strncmp(at, prefix, head) == 0 && strncmp(at + head, what, tail) == 0)
      return true;
  return false;
}

static const char *refusal_of(const dnn_record *record)
{
  char kind[DNN_TEXT];
  dnn_describe(record, kind, sizeof kind);
  kind[strcspn(kind, " ")] = '\0';
  return fake_has("", "none") || fake_has("no:", kind) ? "CAPL_FAKE_DNN" : dnn_refusal(record);
}

capl_status dnn_run(capl_device *device, const dnn_record *record, const dnn_pointers *p)
{
  (void)device;
  char text[DNN_TEXT];
  job j = {.record = *record, .pointers = *p, .zeros = fake_has("", "zeros")};
  const char *refusal = refusal_of(record);
  if (refusal)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "cuDNN has no engine for %s: %s", dnn_describe(record, text, sizeof text),
                     refusal);
  for (int i = 0; i < DNN_ROLES; i++)
    if (dnn_tensor_of(record, (dnn_role)i).used && !p->at[i])
      return CAPL_FAIL(CAPL_EINTERNAL, "%s without %s", dnn_describe(record, text, sizeof text),
                       dnn_role_name((dnn_role)i));
  CAPL_TRY(note(record));
  CAPL_TRY(capl_device_open("ref", &j.ref));
  dnn_describe(record, text, sizeof text);
  CU_TRY(shim_enqueue(cu.stream, execute, &j, sizeof j, text), text);
  dnn_count(record, record->tf32);
  statistics.runs++;
  return CAPL_OK;
}

capl_status dnn_faster(capl_device *device, const dnn_record *record, const dnn_pointers *p, const dnn_work *own,
                       bool *faster)
{
  (void)device, (void)p, (void)own;
  *faster = fake_has("", "faster") && !refusal_of(record);
  return CAPL_OK;
}

capl_status dnn_list_native(const dnn_record *record, const dnn_work *own)
{
  return (void)record, (void)own, CAPL_OK;
}

capl_status dnn_check(void)
{
  if (!fake_has("", "old")) return CAPL_OK;
  return CAPL_FAIL(CAPL_EUNSUPPORTED,
                   "device cuda is not available: cuDNN 9.0.0 is installed, capl needs 9.1.0 or a later 9.x");
}

capl_status dnn_open(void)
{
  return dnn_check();
}

void dnn_close(void)
{
  free(seen);
  seen = NULL;
  n_seen = 0;
}

const char *dnn_version(void)
{
  return "none: the ref backend runs its records";
}

dnn_statistics dnn_statistics_get(void)
{
  return statistics;
}
