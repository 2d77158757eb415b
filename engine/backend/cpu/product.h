/* product.h -- running a oneDNN product (convolution, linear, matmul) in whatever dtype it has.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_PRODUCT_H
#define CAPL_CPU_PRODUCT_H

#include "backend/cpu/dnnl.h"

/* Runs the best plan for spec; where oneDNN has none in bf16, through f32 copies of the arguments.
** EUNSUPPORTED if it has none in f32 either. */
capl_status cpu_product(const dn_spec *spec, capl_device *device, void *const data[DN_ARGS]);

#endif
