/* blas.h -- cuBLASLt behind one type: a record of a matrix product, and running it.
**
** A record says everything that decides which algorithm can run it, in plain numbers. Matrices are row-major:
** y (M,N) = a (M,K) * b (K,N), then the epilogue; `turned` operands are stored the other way round, (K,M) or (N,K).
** Steps between rows and between the matrices of a batch are in elements; a batch step of 0 uses one matrix again and
** again (inputs only). Sums are f32. Like dnn.h's, a record has one text form, which names it in messages and tests.
** The first run of a record asks the library's heuristics and keeps the answer; later runs only queue the product on
** cu.stream. Callers ask blas_supports first and have their own kernel where it says no. Only blas.c includes
** cuBLASLt's header; the tests-only build has blas.c of its own, which asks the ref backend.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_BLAS_H
#define CAPL_CUDA_BLAS_H

#include "backend/cuda/cuda.h"

/* What happens to a product before it is stored: code, text. vector is blas_pointers.vector. */
#define BLAS_EPILOGUE_MAP(X)                                                                  \
  X(PLAIN, "")                                                                                \
  X(BIAS, "bias")           /* y + vector (N), of the dtype of y */                           \
  X(RELU, "relu")           /* the larger of 0 and y */                                       \
  X(BIAS_RELU, "bias_relu") /* the larger of 0 and y + vector (N) */                          \
  X(ROW_SUMS, "row_sums")   /* also: vector (M), of the dtype of y := sums over k of a (M,K) */

typedef enum {
#define X(code, text) BLAS_##code,
  BLAS_EPILOGUE_MAP(X)
#undef X
  BLAS_EPILOGUES
} blas_epilogue;

/* One matrix, or a batch of them. */
typedef struct {
  capl_dtype dtype;
  bool turned;       /* a: stored (K,M); b: stored (N,K) */
  int64_t row_step;  /* elements from one stored row to the next */
  int64_t batch_step; /* from one matrix to the next */
  int alignment;     /* bytes: 1 to 64, a power of two */
} blas_matrix;

/* Start from blas_begin. */
typedef struct {
  int64_t M, N, K, batch; /* all at least 1 */
  blas_matrix a, b, y;    /* y is of the dtype of a and b, or f32 */
  blas_epilogue epilogue;
  int vector_alignment;   /* bytes, as for matrices */
  bool tf32;              /* f32 products may be rounded to tf32 */
  bool deterministic;     /* no split sums */
} blas_record;

/* Device memory. vector: as the epilogue says, else NULL. y may not overlap the others. */
typedef struct {
  const void *a, *b;
  void *y, *vector;
} blas_pointers;

/* ---- records (blas_record.c) ------------------------------------------------------------------ */

/* Whether an epilogue reads or writes blas_pointers.vector. */
bool blas_has_vector(blas_epilogue epilogue);
/* A record of dense matrices in one dtype with the active switches (cu.tf32, cu.deterministic). */
blas_record blas_begin(capl_dtype dtype, int64_t M, int64_t N, int64_t K, bool a_turned, bool b_turned);
/* Whether two records are the same in everything, and a number that is the same for such. */
bool blas_same(const blas_record *a, const blas_record *b);
uint32_t blas_hash(const blas_record *record);
/* Notes how p's addresses are aligned. */
void blas_align(blas_record *record, const blas_pointers *p);
/* "bf16 1024x256x512 a=turned y=f32 row_sums" into buf; returns buf. BLAS_TEXT bytes are always enough. */
enum { BLAS_TEXT = 320 };
const char *blas_describe(const blas_record *record, char *buf, size_t len);
/* Adds one to the counter of the type that its arithmetic is in (fp32_kernels, tf32_kernels ...). */
void blas_count(const blas_record *record);

/* ---- running with a fallback (matmul.c) ---------------------------------------------------------- */

/* By the library where it can, if need be with the epilogue behind it; else by an own kernel, which stores y without
** gaps. All epilogues but row_sums. */
capl_status cu_product(blas_record *record, const blas_pointers *p);
/* By the library alone: *done is false where it has no algorithm, and nothing happened. */
capl_status cu_library_product(blas_record *record, const blas_pointers *p, bool *done);

/* ---- running (blas.c) ------------------------------------------------------------------------- */

/* Whether the library has an algorithm for the record. *found is set with CAPL_OK only. ESTATE for a new record while
** cu.capturing; EDEVICE with the library's own words. */
capl_status blas_supports(const blas_record *record, bool *found);
/* Queues the product on cu.stream. EUNSUPPORTED where blas_supports says no, or would now: then nothing was queued.
** Else as there. */
capl_status blas_run(const blas_record *record, const blas_pointers *p);

/* What the library itself holds of the record, read back attribute by attribute: "m=3 n=5 ..." into text; for tests,
** and for messages of products that fail. Works without a GPU. */
capl_status blas_read_back(const blas_record *record, char *text, size_t len);

/* "13.1.0", or why there is none. Works without a GPU. */
const char *blas_version(void);
/* Frees plans and workspace; the next run begins anew. */
void blas_close(void);

#endif
