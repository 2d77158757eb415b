/* cpu.h -- what the files of the cpu backend share.
**
** One file per op family (conv.c, norm.c, ...), each ending in its table of kernels: it reads the
** call, splits the work with cpu_parallel and calls cpu_now's vector kernels, or oneDNN (dnnl.h).
** Outputs and, except in LAYOUT_ANY ops, inputs are dense when a kernel sees them.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_H
#define CAPL_CPU_H

#include "backend/cpu/parallel.h"
#include "backend/cpu/vec/vec.h"
#include "capl/backend.h"
#include "ops/attrs.h"

extern const capl_kernel cpu_conv_kernels[];
extern const capl_kernel cpu_matmul_kernels[];
extern const capl_kernel cpu_norm_kernels[];
extern const capl_kernel cpu_layer_norm_kernels[];
extern const capl_kernel cpu_group_norm_kernels[];
extern const capl_kernel cpu_attention_kernels[];
extern const capl_kernel cpu_pool_kernels[];
extern const capl_kernel cpu_rnn_kernels[], cpu_rnn_grad_kernels[];
extern const capl_kernel cpu_elementwise_kernels[];
extern const capl_kernel cpu_activation_kernels[];
extern const capl_kernel cpu_shape_kernels[];
extern const capl_kernel cpu_take_kernels[];
extern const capl_kernel cpu_sample_kernels[];
extern const capl_kernel cpu_reduce_kernels[];
extern const capl_kernel cpu_softmax_kernels[];
extern const capl_kernel cpu_loss_kernels[];
extern const capl_kernel cpu_region_kernels[];
extern const capl_kernel cpu_optim_kernels[], cpu_muon_kernels[];
extern const capl_kernel cpu_ctc_kernels[];

/* The vector kernels for this processor, chosen when the device is opened. */
extern const cpu_vec *cpu_now;

/* Elements a thread should get at least, where an element costs about a nanosecond. */
enum { CPU_GRAIN = 16384 };

/* For the dtypes column of kernel rows. */
enum { CPU_F32 = CAPL_BIT(CAPL_F32), CPU_REAL = CAPL_BIT(CAPL_F32) | CAPL_BIT(CAPL_BF16) };

/* f32 or bf16: what the vector kernels take. */
static inline bool cpu_real(const capl_tensor *t)
{
  return t->dtype == CAPL_F32 || t->dtype == CAPL_BF16;
}

/* p moved on by i elements of dtype. */
static inline void *cpu_at(const void *p, capl_dtype dtype, int64_t i)
{
  return (char *)p + i * (int64_t)capl_dtype_size(dtype);
}

/* supports(): input 0 is f32 or bf16. */
bool cpu_supports_first(const capl_call *call);
/* supports(): all inputs are f32 or bf16, of one dtype. */
bool cpu_supports_same(const capl_call *call);

/* Runs with other steps than 0 and 1 are packed piece by piece (elementwise.c). */
enum { CPU_PIECE = 512 };
/* The run itself when its step is 0 or 1 (*unit says which), else a packed copy in room, of at most CPU_PIECE
** elements. */
const void *cpu_packed(capl_dtype real, int64_t n, const void *p, int64_t step, float *room, int *unit);
/* n copies of one element, in room. */
const void *cpu_repeated(capl_dtype real, int64_t n, const void *p, float *room);

/* Which form of a weight a kernel keeps (capl_weight_form); oneDNN's are numbered by their layout (dnnl_plan.c). */
enum { CPU_FORM_WINOGRAD = 1, CPU_FORM_WINOGRAD_1D, CPU_FORM_RNN };

/* capl_weight_form where `rows` pixels or rows share the weights. Of many, making the form for each call costs less
** than a hundredth of the product: then weights are not held twice. */
static inline capl_status cpu_weight_form(const capl_tensor *w, int64_t rows, uint64_t key, size_t bytes, void **out,
                                          bool *fresh)
{
  enum { ROWS_MAX = 8192 };
  return capl_weight_form(rows <= ROWS_MAX ? w : NULL, key, bytes, out, fresh);
}

/* Image sizes by name. */
typedef struct {
  int64_t N, C, H, W;
} cpu_image;

static inline cpu_image cpu_image_of(const capl_tensor *t)
{
  return (cpu_image){t->size[0], t->size[1], t->size[2], t->size[3]};
}

/* Loops over strided operands (loop.c). The first operand is the output; the others are broadcast to
** its shape. Dims are sorted by the output's memory order and joined where all operands allow it. */
enum { CPU_LOOP_MAX = 4 };

typedef struct {
  int operands, ndim; /* ndim >= 1; the last dim is the innermost */
  int64_t size[CAPL_MAX_NDIM];
  int64_t stride[CPU_LOOP_MAX][CAPL_MAX_NDIM];
} cpu_loop;

/* One run along the innermost dim: n elements, operand k starting at element at[k] with steps of step[k]. */
typedef void (*cpu_loop_body)(void *arg, int64_t n, const int64_t *at, const int64_t *step);

void cpu_loop_init(cpu_loop *loop, int operands, const capl_tensor *const *t);
/* Exchanges two dims: another order of the same elements. */
void cpu_loop_swap(cpu_loop *loop, int a, int b);
/* Runs the body over everything, in parallel. */
void cpu_loop_run(const cpu_loop *loop, cpu_loop_body body, void *arg);
/* Runs the body over elements [begin, end), counted from outermost to innermost, in this thread. */
void cpu_loop_part(const cpu_loop *loop, int64_t begin, int64_t end, cpu_loop_body body, void *arg);
int64_t cpu_loop_total(const cpu_loop *loop);

/* dst[i] := src[i], n elements each, converted between f32 and bf16 where they differ; in parallel. */
void cpu_convert(capl_dtype from, const void *src, capl_dtype to, void *dst, int64_t n);

#endif
