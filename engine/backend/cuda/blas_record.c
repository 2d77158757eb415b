/* blas_record.c -- records of matrix products: making, describing and counting them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/blas.h"

#include <inttypes.h>
#include <stdio.h>

enum { WIDEST = 64 }; /* no algorithm asks for more than this; the allocator's blocks have it */

bool blas_has_vector(blas_epilogue epilogue)
{
  return epilogue == BLAS_BIAS || epilogue == BLAS_BIAS_RELU || epilogue == BLAS_ROW_SUMS;
}

static blas_matrix dense(capl_dtype dtype, bool turned, int64_t rows, int64_t columns)
{
  return (blas_matrix){.dtype = dtype,
                       .turned = turned,
                       .row_step = turned ? rows : columns,
                       .batch_step = rows * columns,
                       .alignment = WIDEST};
}

blas_record blas_begin(capl_dtype dtype, int64_t M, int64_t N, int64_t K, bool a_turned, bool b_turned)
{
  return (blas_record){.M = M,
                       .N = N,
                       .K = K,
                       .batch = 1,
                       .a = dense(dtype, a_turned, M, K),
                       .b = dense(dtype, b_turned, K, N),
                       .y = dense(dtype, false, M, N),
                       .vector_alignment = WIDEST,
                       .tf32 = cu.tf32 && dtype == CAPL_F32 && cu.capability >= 80,
                       .deterministic = cu.deterministic};
}

/* ---- comparing -------------------------------------------------------------------------------- */

static bool same_matrix(const blas_matrix *a, const blas_matrix *b)
{
  return a->dtype == b->dtype && a->turned == b->turned && a->row_step == b->row_step
  && a->batch_step == b->batch_step &&
         a->alignment == b->alignment;
}

bool blas_same(const blas_record *a, const blas_record *b)
{
  return a->M == b->M && a->N == b->N && a->K == b->K && a->batch == b->batch && same_matrix(&a->a, &b->a) &&
         same_matrix(&a->b, &b->b) && same_matrix(&a->y, &b->y) && a->epilogue == b->epilogue &&
         a->vector_alignment == b->vector_alignment && a->tf32 == b->tf32 && a->deterministic == b->deterministic;
}

uint32_t blas_hash(const blas_record *record)
{
  const int64_t sizes[] = {record->M, record->N, record->K, record->batch, record->epilogue, record->a.dtype,
                           record->a.turned};
  uint64_t hash = 14695981039346656037u;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) hash = (hash ^ (uint64_t)sizes[k]) * 1099511628211u;
  return (uint32_t)(hash >> 32);
}

/* ---- describing ------------------------------------------------------------------------------- */

static int alignment_of(const void *p)
{
  uintptr_t lowest = (uintptr_t)p & -(uintptr_t)p;
  return lowest == 0 || lowest > WIDEST ? WIDEST : (int)lowest;
}

void blas_align(blas_record *record, const blas_pointers *p)
{
  record->a.alignment = alignment_of(p->a);
  record->b.alignment = alignment_of(p->b);
  record->y.alignment = alignment_of(p->y);
  record->vector_alignment = alignment_of(p->vector); /* widest for NULL */
}

const char *blas_describe(const blas_record *record, char *buf, size_t len)
{
  static const char *const epilogues[BLAS_EPILOGUES] = {
#define X(code, text) text,
    BLAS_EPILOGUE_MAP(X)
#undef X
  };
  const char *epilogue = epilogues[record->epilogue];
  char batch[96] = "", steps[96] = "", out[16] = "";
  if (record->batch > 1)
    snprintf(batch, sizeof batch, " batch=%" PRId64 ":%" PRId64 ",%" PRId64 ",%" PRId64, record->batch,
             record->a.batch_step, record->b.batch_step, record->y.batch_step);
  snprintf(steps, sizeof steps, " rows=%" PRId64 ",%" PRId64 ",%" PRId64, record->a.row_step, record->b.row_step,
           record->y.row_step);
  if (record->y.dtype != record->a.dtype) snprintf(out, sizeof out, " y=%s", capl_dtype_name(record->y.dtype));
  snprintf(buf, len, "%s %" PRId64 "x%" PRId64 "x%" PRId64 "%s%s%s%s%s aligned=%d,%d,%d,%d%s%s%s%s",
           capl_dtype_name(record->a.dtype), record->M, record->N, record->K, batch,
           record->a.turned ? " a=turned" : "", record->b.turned ? " b=turned" : "", steps, out, record->a.alignment,
           record->b.alignment, record->y.alignment, record->vector_alignment, *epilogue ? " " : "", epilogue,
           record->tf32 ? " tf32" : "", record->deterministic ? " deterministic" : "");
  return buf;
}

void blas_count(const blas_record *record)
{
  switch (record->a.dtype) {
    case CAPL_F16: capl_counter_add(CAPL_COUNT_fp16_kernels); break;
    case CAPL_BF16: capl_counter_add(CAPL_COUNT_bf16_kernels); break;
    default: capl_counter_add(record->tf32 ? CAPL_COUNT_tf32_kernels : CAPL_COUNT_fp32_kernels);
  }
}
