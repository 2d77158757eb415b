/* product.h -- running a oneDNN product (convolution, linear, matmul) in whatever dtype it has.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_PRODUCT_H
#define CAPL_CPU_PRODUCT_H

#include "backend/cpu/dnnl.h"

/* What is tried of oneDNN's algorithms, spec->order. */
typedef enum {
  PRODUCT_USUAL,       /* all, in an order that does not depend on timing */
  PRODUCT_DIRECT,      /* direct convolution, in the dtype of the images */
  PRODUCT_WINOGRAD_F32 /* Winograd in f32; bf16 is converted on the way */
} product_order;

/* Whether another order than the usual one computes the convolution by another algorithm than that, if oneDNN has
** it. */
bool cpu_product_differs(const dn_spec *spec, product_order order);

/* Runs the best plan for spec; where oneDNN has none in bf16, through f32 copies of the arguments.
** EUNSUPPORTED if it has none in f32 either. weight: as for dn_run. */
capl_status cpu_product(const dn_spec *spec, capl_device *device, void *const data[DN_ARGS], const capl_tensor *weight);

/* Counts a product by the type of its factors. A processor without bf16 multiplies them, exactly, in f32. */
static inline void cpu_count_product(const capl_call *call)
{
  capl_counter_add(call->in[0]->dtype == CAPL_BF16 ? CAPL_COUNT_bf16_kernels : CAPL_COUNT_fp32_kernels);
}

#endif
