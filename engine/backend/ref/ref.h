/* ref.h -- the ref backend: plain loops in double precision, the oracle of all other backends.
**
** Kernels here are written to be obviously right, never to be fast: every element is read and
** written as a double, whatever its dtype, through ref_get and ref_set, and every stride is honoured.
** One file per op family, each ending in its table of kernels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_REF_H
#define CAPL_REF_H

#include "capl/backend.h"
#include "ops/attrs.h"

extern const capl_backend capl_backend_ref;

extern const capl_kernel ref_conv_kernels[];
extern const capl_kernel ref_matmul_kernels[];
extern const capl_kernel ref_norm_kernels[];
extern const capl_kernel ref_layer_norm_kernels[];
extern const capl_kernel ref_attention_kernels[];
extern const capl_kernel ref_pool_kernels[];
extern const capl_kernel ref_rnn_kernels[];
extern const capl_kernel ref_elementwise_kernels[];
extern const capl_kernel ref_activation_kernels[];
extern const capl_kernel ref_pointwise_kernels[];
extern const capl_kernel ref_shape_kernels[];
extern const capl_kernel ref_take_kernels[];
extern const capl_kernel ref_sample_kernels[];
extern const capl_kernel ref_reduce_kernels[];
extern const capl_kernel ref_softmax_kernels[];
extern const capl_kernel ref_loss_kernels[];
extern const capl_kernel ref_region_kernels[];
extern const capl_kernel ref_optim_kernels[];
extern const capl_kernel ref_ctc_kernels[];

/* supports() of kernels that take every dtype. */
bool ref_supports_any(const capl_call *call);

/* Elements: i counts elements from capl_tensor_data(t), strides already multiplied in. */

double ref_get(const capl_tensor *t, int64_t i);
/* Rounds to nearest, ties to even. Integers are cut towards zero and kept in range; NaN gives 0. */
void ref_set(capl_tensor *t, int64_t i, double v);
/* Exact for all 64 bits. For integer and bool tensors only. */
int64_t ref_get_int(const capl_tensor *t, int64_t i);
void ref_set_int(capl_tensor *t, int64_t i, int64_t v);
/* dst[i] := src[j], converted; exact when both are integers. */
void ref_move(capl_tensor *dst, int64_t i, const capl_tensor *src, int64_t j);

/* Offset in elements of logical index (n,c,h,w) of a 4-d tensor. */
static inline int64_t ref_at4(const capl_tensor *t, int64_t n, int64_t c, int64_t h, int64_t w)
{
  return n * t->stride[0] + c * t->stride[1] + h * t->stride[2] + w * t->stride[3];
}

/* Visits every logical index of a shape in row-major order, with the element offset of up to
** REF_WALK_MAX tensors at that index. Tensors are broadcast to the shape of the first one.
**
**   ref_walk w;
**   for (REF_WALK(&w, y, a, b); w.more; ref_walk_next(&w))
**     ref_set(y, w.at[0], ref_get(a, w.at[1]) + ref_get(b, w.at[2]));
*/
enum { REF_WALK_MAX = 6 };

typedef struct {
  bool more;
  int64_t at[REF_WALK_MAX];    /* element offset in each tensor */
  int64_t index[CAPL_MAX_NDIM]; /* logical index */
  int64_t count;               /* row-major number of this index */
  int ndim, n_tensors;
  int64_t size[CAPL_MAX_NDIM];
  int64_t stride[REF_WALK_MAX][CAPL_MAX_NDIM];
} ref_walk;

void ref_walk_start(ref_walk *w, int n, const capl_tensor *const *tensors);
void ref_walk_next(ref_walk *w);
#define REF_WALK(w, ...)                                                              \
  ref_walk_start((w), (int)(sizeof((const capl_tensor *[]){__VA_ARGS__}) / sizeof(capl_tensor *)), \
                 (const capl_tensor *[]){__VA_ARGS__})

#endif
