/* blas.c -- runs records of matrix products through cuBLASLt; the only file that includes its header.
**
** cuBLASLt thinks in columns: a row-major matrix is the transposed column-major one, so y = a * b becomes y' = b' * a'.
** Its A is our b, its B our a, its m our N, its n our M; a vector per column of y (a bias) is one per row for it, and
** the row sums of a are sums over its B.
** Plans (descriptors and the chosen algorithm) are kept, one per record, up to PLANS_MAX: then the half that was not
** used for the longest time goes. They are the host's alone: what is queued or recorded has no part of them. Choices
** made by timing are also kept on disk (plan_cache.h), so that the next run makes the same ones. All products share one
** workspace, which is safe on one stream.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/blas.h"

#include <cublasLt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/plan_cache.h"

/* ---- the library ------------------------------------------------------------------------------ */

enum { BUCKETS = 256, PLANS_MAX = 4096, CANDIDATES = 8, TIMED_RUNS = 5 };

/* What the library needs to know about one record. */
typedef struct {
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t a, b, y; /* as the record has them, not swapped */
} descriptors;

typedef struct plan {
  struct plan *next;
  blas_record record;
  descriptors d;
  bool found; /* the library has an algorithm */
  bool tuned; /* its candidates were timed */
  cublasLtMatmulAlgo_t algo;
  uint64_t used; /* lib.clock of the last call */
} plan;

static struct {
  cublasLtHandle_t handle;
  void *workspace;
  size_t workspace_bytes;
  char scope[400]; /* of choices on disk */
  plan *plans[BUCKETS];
  size_t count;
  uint64_t clock;
} lib;

static capl_status blas_status(cublasStatus_t status, const char *doing)
{
  if (status == CUBLAS_STATUS_SUCCESS) return CAPL_OK;
  capl_status code = status == CUBLAS_STATUS_ALLOC_FAILED ? CAPL_ENOMEM : CAPL_EDEVICE;
  return CAPL_FAIL(code, "cuBLASLt failed %s: %s", doing, cublasLtGetStatusString(status));
}
/* The library has nothing for this combination of types, sizes and epilogue, and nothing was done. */
static bool is_refusal(cublasStatus_t status)
{
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}
#define BLAS_TRY(call, doing) CAPL_TRY(blas_status((call), (doing)))

const char *blas_version(void)
{
  static char text[32];
  size_t v = cublasLtGetVersion();
  snprintf(text, sizeof text, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
  return text;
}

/* Hopper's algorithms want more room than those before it. */
static size_t workspace_wanted(void)
{
  return (size_t)(cu.capability >= 90 ? 32 : 4) << 20;
}

static capl_status open_library(void)
{
  if (lib.handle) return CAPL_OK;
  if (cu.capturing) return CAPL_FAIL(CAPL_ESTATE, "the first matrix product cannot be inside a captured step");
  CU_TRY(cudaMalloc(&lib.workspace, workspace_wanted()), "allocating cuBLASLt's workspace");
  lib.workspace_bytes = workspace_wanted();
  capl_status status = blas_status(cublasLtCreate(&lib.handle), "to start");
  if (status == CAPL_OK) return CAPL_OK;
  cudaFree(lib.workspace);
  lib.workspace = NULL;
  lib.handle = NULL;
  return status;
}

/* ---- descriptors ------------------------------------------------------------------------------ */

static cudaDataType_t type_of(capl_dtype dtype)
{
  return dtype == CAPL_F16 ? CUDA_R_16F : dtype == CAPL_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* ORDER blas_epilogue. Row sums of our a are sums over the library's B. */
static const uint32_t epilogues[BLAS_EPILOGUES] = {
  [BLAS_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
  [BLAS_BIAS] = CUBLASLT_EPILOGUE_BIAS,
  [BLAS_RELU] = CUBLASLT_EPILOGUE_RELU,
  [BLAS_BIAS_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS,
  [BLAS_ROW_SUMS] = CUBLASLT_EPILOGUE_BGRADB,
};

#define SET(descriptor, attribute, value) cublasLtMatmulDescSetAttribute(descriptor, attribute, &(value), sizeof(value))

/* The vector's address is set before each run; heuristics only look at how it is aligned, so any will do that is
** aligned the same. The workspace is aligned to 256 bytes. */
static capl_status describe_product(const blas_record *r, cublasLtMatmulDesc_t product)
{
  int32_t turn_a = r->b.turned ? CUBLAS_OP_T : CUBLAS_OP_N, turn_b = r->a.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  uint32_t epilogue = epilogues[r->epilogue];
  int32_t vector_type = type_of(r->y.dtype);
  void *vector = (void *)((uintptr_t)lib.workspace + (uintptr_t)r->vector_alignment);
  BLAS_TRY(SET(product, CUBLASLT_MATMUL_DESC_TRANSA, turn_a), "to take a transposition");
  BLAS_TRY(SET(product, CUBLASLT_MATMUL_DESC_TRANSB, turn_b), "to take a transposition");
  BLAS_TRY(SET(product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue), "to take an epilogue");
  if (!blas_has_vector(r->epilogue)) return CAPL_OK;
  BLAS_TRY(SET(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, vector_type), "to take a bias type");
  return blas_status(SET(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector), "to take a bias");
}

/* The layout of a stored matrix of rows x columns, column-major for the library: columns x rows. */
static capl_status describe_matrix(const blas_record *r, const blas_matrix *m, int64_t rows, int64_t columns,
                                   cublasLtMatrixLayout_t *out)
{
  int64_t stored_rows = m->turned ? columns : rows, stored_columns = m->turned ? rows : columns;
  BLAS_TRY(cublasLtMatrixLayoutCreate(out, type_of(m->dtype), (uint64_t)stored_columns, (uint64_t)stored_rows,
                                      m->row_step),
           "to describe a matrix");
  if (r->batch == 1) return CAPL_OK;
  int32_t batch = (int32_t)r->batch;
  if (batch != r->batch) return CAPL_FAIL(CAPL_EUNSUPPORTED, "cuBLASLt takes at most 2^31-1 matrices in a batch");
  BLAS_TRY(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
           "to take a batch");
  return blas_status(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch_step,
                                                      sizeof m->batch_step), "to take a batch step");
}

static void drop_descriptors(descriptors *d)
{
  if (d->product) cublasLtMatmulDescDestroy(d->product);
  if (d->a) cublasLtMatrixLayoutDestroy(d->a);
  if (d->b) cublasLtMatrixLayoutDestroy(d->b);
  if (d->y) cublasLtMatrixLayoutDestroy(d->y);
  memset(d, 0, sizeof *d);
}

static capl_status fill_descriptors(const blas_record *r, descriptors *d)
{
  cublasComputeType_t compute = r->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  BLAS_TRY(cublasLtMatmulDescCreate(&d->product, compute, CUDA_R_32F), "to describe a product");
  CAPL_TRY(describe_product(r, d->product));
  CAPL_TRY(describe_matrix(r, &r->a, r->M, r->K, &d->a));
  CAPL_TRY(describe_matrix(r, &r->b, r->K, r->N, &d->b));
  return describe_matrix(r, &r->y, r->M, r->N, &d->y);
}

static capl_status make_descriptors(const blas_record *r, descriptors *d)
{
  memset(d, 0, sizeof *d);
  capl_status status = fill_descriptors(r, d);
  if (status != CAPL_OK) drop_descriptors(d);
  return status;
}

/* ---- choosing an algorithm -------------------------------------------------------------------- */

static capl_status set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which,
                                  const void *value, size_t bytes)
{
  return blas_status(cublasLtMatmulPreferenceSetAttribute(preference, which, value, bytes), "to take a preference");
}

/* Split sums may be added up in f32 scratch memory, never in 16 bits; in deterministic mode there are none. */
static capl_status fill_preference(const blas_record *r, cublasLtMatmulPreference_t preference)
{
  uint64_t workspace = workspace_wanted();
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
  if (!r->deterministic) schemes |= CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const struct {
    cublasLtMatmulPreferenceAttributes_t which;
    uint32_t bytes;
  } alignments[] = {
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)r->b.alignment},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)r->a.alignment},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)r->y.alignment},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)r->y.alignment},
  };
  CAPL_TRY(set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
  CAPL_TRY(set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes));
  for (size_t k = 0; k < sizeof alignments / sizeof *alignments; k++)
    CAPL_TRY(set_preference(preference, alignments[k].which, &alignments[k].bytes, sizeof alignments[k].bytes));
  return CAPL_OK;
}

/* The library's best candidates, best first; *n may be 0. */
static capl_status find_candidates(const plan *p, cublasLtMatmulHeuristicResult_t *list, int *n)
{
  cublasLtMatmulPreference_t preference;
  BLAS_TRY(cublasLtMatmulPreferenceCreate(&preference), "to make a preference");
  capl_status status = fill_preference(&p->record, preference);
  int returned = 0;
  *n = 0;
  if (status == CAPL_OK) {
    cublasStatus_t asked = cublasLtMatmulAlgoGetHeuristic(lib.handle, p->d.product, p->d.b, p->d.a, p->d.y, p->d.y,
                                                          preference, CANDIDATES, list, &returned);
    status = is_refusal(asked) ? CAPL_OK : blas_status(asked, "to choose an algorithm");
  }
  for (int k = 0; status == CAPL_OK && k < returned; k++)
    if (list[k].state == CUBLAS_STATUS_SUCCESS && list[k].workspaceSize <= lib.workspace_bytes) list[(*n)++] = list[k];
  cublasLtMatmulPreferenceDestroy(preference);
  return status;
}

static cublasStatus_t queue(const plan *p, const blas_pointers *at, const cublasLtMatmulAlgo_t *algo)
{
  float one = 1, zero = 0;
  return cublasLtMatmul(lib.handle, p->d.product, &one, at->b, p->d.b, at->a, p->d.a, &zero, at->y, p->d.y, at->y,
                        p->d.y, algo, lib.workspace, lib.workspace_bytes, cu.stream);
}

/* ---- choices on disk -------------------------------------------------------------------------- */

static const char *scope(void)
{
  struct cudaDeviceProp gpu;
  if (!lib.scope[0] && cudaGetDeviceProperties(&gpu, cu.index) == cudaSuccess)
    snprintf(lib.scope, sizeof lib.scope, "%.200s sm_%d, %d multiprocessors, cuBLASLt %s", gpu.name, cu.capability,
             cu.multiprocessors, blas_version());
  return lib.scope;
}

/* The algorithm that was the fastest in another run; false if none is known, or it is no longer any good. */
static bool recall(plan *p)
{
  char key[BLAS_TEXT];
  size_t len;
  cublasLtMatmulHeuristicResult_t result;
  cublasLtMatmulAlgo_t algo;
  blas_describe(&p->record, key, sizeof key);
  char *kept = plan_cache_read("product", scope(), key, &len);
  if (!kept) return false;
  bool good = len == sizeof algo;
  if (good) memcpy(&algo, kept, sizeof algo);
  free(kept);
  good = good && cublasLtMatmulAlgoCheck(lib.handle, p->d.product, p->d.b, p->d.a, p->d.y, p->d.y, &algo, &result) ==
                   CUBLAS_STATUS_SUCCESS && result.workspaceSize <= lib.workspace_bytes;
  if (good) p->algo = algo;
  else plan_cache_drop("product", scope(), key, "cuBLASLt does not take it");
  return good;
}

static void remember(const plan *p)
{
  char key[BLAS_TEXT];
  plan_cache_write("product", scope(), blas_describe(&p->record, key, sizeof key), &p->algo, sizeof p->algo);
}

/* ---- timing candidates (autotune) ------------------------------------------------------------- */

/* Milliseconds of one run; a run that fails takes for ever. */
static float time_candidate(const plan *p, const blas_pointers *at, const cublasLtMatmulAlgo_t *algo, cudaEvent_t start,
                            cudaEvent_t end)
{
  float ms = 0;
  if (queue(p, at, algo) != CUBLAS_STATUS_SUCCESS) return 1e30f; /* the first run also loads the kernel */
  if (cudaEventRecord(start, cu.stream) != cudaSuccess) return 1e30f;
  for (int k = 0; k < TIMED_RUNS; k++)
    if (queue(p, at, algo) != CUBLAS_STATUS_SUCCESS) return 1e30f;
  if (cudaEventRecord(end, cu.stream) != cudaSuccess || cudaEventSynchronize(end) != cudaSuccess) return 1e30f;
  return cudaEventElapsedTime(&ms, start, end) == cudaSuccess ? ms / TIMED_RUNS : 1e30f;
}

/* The fastest of the candidates, known or timed on the call's own tensors; y is written again and again with the same
** values. */
static capl_status tune(plan *p, const blas_pointers *at)
{
  cublasLtMatmulHeuristicResult_t list[CANDIDATES];
  int n;
  cudaEvent_t start, end;
  if (recall(p)) return CAPL_OK;
  CAPL_TRY(find_candidates(p, list, &n));
  CU_TRY(cudaEventCreate(&start), "timing products");
  capl_status status = cu_status(cudaEventCreate(&end), "timing products");
  if (status != CAPL_OK) {
    cudaEventDestroy(start);
    return status;
  }
  float best = 1e30f;
  for (int k = 0; k < n; k++) {
    float ms = time_candidate(p, at, &list[k].algo, start, end);
    if (cudaGetLastError() != cudaSuccess) ms = 1e30f; /* this candidate's alone: the next one must not meet it */
    if (ms < best * 0.95f) { /* a near tie keeps what the library put first */
      best = ms;
      p->algo = list[k].algo;
    }
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  CU_TRY(cudaGetLastError(), "timing products"); /* what is still there: the GPU is lost */
  if (best < 1e30f) remember(p);
  return CAPL_OK;
}

/* ---- plans ------------------------------------------------------------------------------------ */

static void drop_plan(plan *p)
{
  drop_descriptors(&p->d);
  free(p);
}

static int by_age(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Drops the half that was not used for the longest time; none where there is no memory to find it. */
static void make_room(void)
{
  size_t n = 0;
  uint64_t *used = malloc(lib.count * sizeof *used);
  if (!used) return;
  for (int k = 0; k < BUCKETS; k++)
    for (const plan *p = lib.plans[k]; p; p = p->next) used[n++] = p->used;
  qsort(used, n, sizeof *used, by_age);
  for (int k = 0; k < BUCKETS; k++)
    for (plan **at = &lib.plans[k]; *at;) {
      plan *p = *at;
      if (p->used > used[n / 2]) {
        at = &p->next;
        continue;
      }
      *at = p->next;
      drop_plan(p);
      lib.count--;
    }
  free(used);
}

static capl_status choose(plan *p)
{
  cublasLtMatmulHeuristicResult_t list[CANDIDATES];
  int n;
  CAPL_TRY(make_descriptors(&p->record, &p->d));
  CAPL_TRY(find_candidates(p, list, &n));
  p->found = n > 0;
  if (p->found) p->algo = list[0].algo;
  return CAPL_OK;
}

/* The plan of a record, made at its first call. */
static capl_status plan_of(const blas_record *record, plan **out)
{
  plan **bucket = &lib.plans[blas_hash(record) % BUCKETS];
  for (plan *p = *bucket; p; p = p->next)
    if (blas_same(&p->record, record)) {
      p->used = ++lib.clock;
      *out = p;
      return CAPL_OK;
    }
  char text[BLAS_TEXT];
  if (cu.capturing)
    return CAPL_FAIL(CAPL_ESTATE, "a captured step has a matrix product that the steps before it had not: %s",
                     blas_describe(record, text, sizeof text));
  CAPL_TRY(open_library());
  if (lib.count >= PLANS_MAX) make_room();
  plan *p = calloc(1, sizeof *p);
  if (!p) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the plan of a matrix product");
  p->record = *record;
  capl_status status = choose(p);
  if (status != CAPL_OK) {
    capl_error_context("%s", blas_describe(record, text, sizeof text));
    drop_plan(p);
    return status;
  }
  p->used = ++lib.clock;
  p->next = *bucket;
  *bucket = *out = p;
  lib.count++;
  return CAPL_OK;
}

/* ---- running ---------------------------------------------------------------------------------- */

capl_status blas_supports(const blas_record *record, bool *found)
{
  plan *p;
  CAPL_TRY(plan_of(record, &p));
  *found = p->found;
  return CAPL_OK;
}

static capl_status fail_refused(const blas_record *record)
{
  char text[BLAS_TEXT];
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "cuBLASLt %s has no algorithm for %s", blas_version(),
                   blas_describe(record, text, sizeof text));
}

/* Timing waits for the GPU, so never in a captured step; two runs of one seed may choose differently. */
static bool wants_tuning(const plan *p)
{
  return cu.autotune && !p->record.deterministic && !p->tuned && !cu.capturing;
}

capl_status blas_run(const blas_record *record, const blas_pointers *at)
{
  char text[BLAS_TEXT];
  plan *p;
  CAPL_TRY(plan_of(record, &p));
  if (!p->found) return fail_refused(record);
  if (blas_has_vector(record->epilogue))
    BLAS_TRY(SET(p->d.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at->vector), "to take a bias");
  if (wants_tuning(p)) {
    p->tuned = true;
    CAPL_TRY(tune(p, at));
  }
  cublasStatus_t queued = queue(p, at, &p->algo);
  if (is_refusal(queued)) { /* the heuristics were wrong: never again */
    p->found = false;
    return fail_refused(record);
  }
  capl_status status = blas_status(queued, "to run a product");
  if (status != CAPL_OK) capl_error_context("%s", blas_describe(record, text, sizeof text));
  return status;
}

void blas_close(void)
{
  for (int k = 0; k < BUCKETS; k++)
    while (lib.plans[k]) {
      plan *p = lib.plans[k];
      lib.plans[k] = p->next;
      drop_plan(p);
    }
  if (lib.handle) cublasLtDestroy(lib.handle);
  if (lib.workspace) cudaFree(lib.workspace);
  memset(&lib, 0, sizeof lib);
}

/* ---- reading back ----------------------------------------------------------------------------- */

/* One number of a layout or of a product's description, whatever its width; -1 where the library has none. */
static int64_t layout_number(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which, size_t bytes)
{
  int64_t value = 0;
  size_t written;
  return cublasLtMatrixLayoutGetAttribute(layout, which, &value, bytes, &written) == CUBLAS_STATUS_SUCCESS ? value : -1;
}

static int64_t product_number(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t which, size_t bytes)
{
  int64_t value = 0;
  size_t written;
  return cublasLtMatmulDescGetAttribute(product, which, &value, bytes, &written) == CUBLAS_STATUS_SUCCESS ? value : -1;
}

/* " A=bf16 3x5 ld=5 batch=2:15" */
static size_t print_layout(char *text, size_t len, const char *name, cublasLtMatrixLayout_t layout)
{
  int64_t type = layout_number(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, 4);
  int used = snprintf(text, len,
                      " %s=%s %" PRId64 "x%" PRId64 " ld=%" PRId64 " batch=%" PRId64 ":%" PRId64 " order=%" PRId64,
                      name, type == CUDA_R_32F ? "f32" : type == CUDA_R_16F ? "f16" : type == CUDA_R_16BF ? "bf16"
                      : "?", layout_number(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, 8),
                      layout_number(layout, CUBLASLT_MATRIX_LAYOUT_COLS, 8),
                      layout_number(layout, CUBLASLT_MATRIX_LAYOUT_LD, 8),
                      layout_number(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4),
                      layout_number(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8),
                      layout_number(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, 4));
  return (size_t)used < len ? (size_t)used : len;
}

capl_status blas_read_back(const blas_record *record, char *text, size_t len)
{
  descriptors d;
  CAPL_TRY(make_descriptors(record, &d));
  size_t used = (size_t)snprintf(text, len, "compute=%" PRId64 " scale=%" PRId64 " turn=%" PRId64 ",%" PRId64
                                 " epilogue=%" PRId64 " vector=%" PRId64,
                                 product_number(d.product, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 4),
                                 product_number(d.product, CUBLASLT_MATMUL_DESC_SCALE_TYPE, 4),
                                 product_number(d.product, CUBLASLT_MATMUL_DESC_TRANSA, 4),
                                 product_number(d.product, CUBLASLT_MATMUL_DESC_TRANSB, 4),
                                 product_number(d.product, CUBLASLT_MATMUL_DESC_EPILOGUE, 4),
                                 product_number(d.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4));
  if (used > len) used = len;
  used += print_layout(text + used, len - used, "A", d.b);
  used += print_layout(text + used, len - used, "B", d.a);
  print_layout(text + used, len - used, "D", d.y);
  drop_descriptors(&d);
  return CAPL_OK;
}
