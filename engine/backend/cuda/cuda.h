/* cuda.h -- what the files of the cuda backend share: the one GPU of this process, errors, launching kernels.
**
** A process uses one GPU (several GPUs mean several processes), so its state is one struct. All arithmetic is queued on
** one stream; memory freed by the host goes back to the caching allocator at once and may be handed to the next call,
** which is safe because that call's work comes later on the same stream. Nothing waits for the GPU but copy_out and
** sync. A kernel that fails on the GPU is reported by the next call that asks (CU_TRY); the GPU is then lost to this
** process. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_H
#define CAPL_CUDA_H

#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/types.h"
#include "capl/backend.h"
#include "ops/attrs.h"

typedef struct {
  int index;            /* number of the GPU among those this process sees */
  int capability;       /* 90 for compute capability 9.0 */
  int multiprocessors;
  cudaStream_t stream;  /* all arithmetic */
  cudaStream_t copies;  /* host to device copies that overlap it (stage.c) */
  bool tf32;            /* f32 products may be rounded to tf32 */
  bool deterministic;   /* same seed, same bits: only engines and kernels that keep their order of sums */
  bool autotune;        /* the first call of a shape times its candidates */
  int64_t *rng_delta;   /* device memory: what a replayed step adds to the dropout offsets recorded in it; 0 in eager
                        ** steps */
  unsigned *counters;   /* device memory: blocks of a launch count themselves there; 0 between launches
                        ** (kernels/join.h) */
  bool capturing;       /* the stream is being recorded into a graph: nothing may wait, build plans or ask the driver */
  int graphs;           /* recorded steps that may be launched */
  unsigned graph_age;   /* how often the last of them was let go: a plan that was recorded in this age may be part of
                        ** one */
} cu_context;

extern cu_context cu;

/* ---- errors ---------------------------------------------------------------------------------- */

/* CAPL_OK, or the error with what was being done: "out of memory", "the GPU was lost ..." and so on. */
capl_status cu_status(cudaError_t error, const char *doing);
#define CU_TRY(call, doing) CAPL_TRY(cu_status((call), (doing)))

/* ---- launching (launch.c) -------------------------------------------------------------------- */

/* Queues kernel on cu.stream. args: the kernel's one argument struct, copied before the call returns. blocks == 0 is
** nothing to do. Grids of more than 2^31-1 blocks fail: let threads loop instead. */
capl_status cu_launch(cu_entry entry, int64_t blocks, int threads, size_t shared, const void *args);
/* Likewise with blocks in y (at most 65535). */
capl_status cu_launch_2d(cu_entry entry, int64_t blocks_x, int64_t blocks_y, int threads, size_t shared,
                         const void *args);

/* Blocks of `threads` for n items, one each; at most what keeps the GPU busy, for kernels whose threads loop on with
** a stride of gridDim.x * blockDim.x. */
int64_t cu_blocks(int64_t n, int threads);

/* Counters for a launch of so many blocks that joins what they leave (kernels/join.h). */
capl_status cu_counters(int64_t blocks_x, int64_t blocks_y, unsigned **out);

enum { CU_COUNTERS = 1 << 12 }; /* that there are: blocks that all run at once need far fewer */
enum { CU_THREADS = 256 }; /* per block, where nothing speaks for another number */

/* ---- small helpers --------------------------------------------------------------------------- */

/* Number of a floating type in kernel tables; CU_TYPES for others. */
static inline cu_type cu_type_of(capl_dtype dtype)
{
  return dtype == CAPL_F32 ? CU_F32 : dtype == CAPL_F16 ? CU_F16 : dtype == CAPL_BF16 ? CU_BF16 : CU_TYPES;
}

/* For the dtypes column of kernel rows. */
enum { CU_REAL = CAPL_BIT(CAPL_F32) | CAPL_BIT(CAPL_F16) | CAPL_BIT(CAPL_BF16) };

/* ---- kernels, one table per family ----------------------------------------------------------- */

extern const capl_kernel cu_conv_kernels[];
extern const capl_kernel cu_matmul_kernels[];
extern const capl_kernel cu_norm_kernels[];
extern const capl_kernel cu_layer_norm_kernels[];
extern const capl_kernel cu_attention_kernels[];
extern const capl_kernel cu_pool_kernels[];
extern const capl_kernel cu_rnn_kernels[];
extern const capl_kernel cu_elementwise_kernels[];
extern const capl_kernel cu_activation_kernels[];
extern const capl_kernel cu_pointwise_kernels[];
extern const capl_kernel cu_shape_kernels[];
extern const capl_kernel cu_take_kernels[];
extern const capl_kernel cu_sample_kernels[];
extern const capl_kernel cu_reduce_kernels[];
extern const capl_kernel cu_softmax_kernels[];
extern const capl_kernel cu_loss_kernels[];
extern const capl_kernel cu_ctc_kernels[];
extern const capl_kernel cu_region_kernels[];
extern const capl_kernel cu_optim_kernels[];

/* capl_backend.reserve: bn_act_pool keeps the values of x that won (norm.c), weight gradients of convolutions the type
** that cuDNN sums them into (conv.c). */
void cu_norm_reserve(const capl_call *call, capl_out_spec *out);
void cu_conv_reserve(const capl_call *call, capl_out_spec *out);

/* capl_backend.copy_many (optim.c). */
capl_status cu_copy_many(capl_tensor *const *dst, capl_tensor *const *src, int n);

/* dst := src on this GPU, any strides and dtypes (shape.c). */
capl_status cu_copy_tensor(capl_tensor *dst, const capl_tensor *src);
/* *out := t in dtype, a new reference: t itself, its shadow, or a copy. NULL stays NULL (shape.c). */
capl_status cu_alike(capl_tensor *t, capl_dtype dtype, capl_tensor **out);
/* Every element of t := value (shape.c). */
capl_status cu_fill_tensor(capl_tensor *t, double value);
/* sums (columns) f32 := x (rows, columns), row-major, summed over its rows; the order of the sums depends on the sizes
** and the GPU alone (reduce.c). */
capl_status cu_column_sums(capl_device *device, capl_dtype dtype, const void *x, int64_t rows, int64_t columns,
                           float *sums);

#endif
