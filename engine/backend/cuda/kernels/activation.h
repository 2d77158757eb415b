/* activation.h -- kernels of activations and their gradients: arguments and numbers.
**
** Each exists for vectors of 16 bytes and for single elements of any strides. What each computes is the one list of
** ops/activation.h.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_ACTIVATION_H
#define CAPL_CUDA_KERNELS_ACTIVATION_H

#include "backend/cuda/kernels/loop.h"
#include "ops/activation.h"

#define ACTIVATION_KIND(X, op, numbers) KIND_##op,
typedef enum { FUNCTION_MAP(ACTIVATION_KIND, ) ACTIVATION_MAP(ACTIVATION_KIND, ) SATURATING_MAP(ACTIVATION_KIND,
) KIND_COUNT } activation_kind;
#undef ACTIVATION_KIND

/* Operands of the loop: out, x, and dy in gradients. The tail follows the loop's last step, see loop_widen. */
typedef struct {
  cu_loop loop;
  int64_t tail;
  void *out;
  const void *x, *dy;
  int kind;   /* activation_kind */
  float p, q; /* the op's numbers */
} activation_args;

/* + cu_type; + CU_TYPES for vectors */
enum { ACTIVATION_FORWARD = 0, ACTIVATION_BACKWARD = 6 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_activation_table[];
#ifdef __cplusplus
}
#endif

#endif
