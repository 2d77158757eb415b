/* attention_products.h -- attention by products of the library, with all scores in memory.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_ATTENTION_PRODUCTS_H
#define CAPL_CUDA_ATTENTION_PRODUCTS_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/attention.h"

/* Whether matrices are large enough for products to pay, and all scores are no more than an eighth of the memory. */
bool attention_is_for_products(const attention_call *c, capl_dtype dtype, bool backward);

/* As ATTENTION does it, of matrices whose elements are next to each other. *done is false where layouts do not fit or
** the library has no algorithm: then results may hold anything, and the kernels with tiles are due. */
capl_status attention_by_products(capl_device *device, capl_dtype dtype, const attention_args *a, bool *done);

/* As ATTENTION_QUERIES_GRAD and ATTENTION_KEYS_GRAD do it. */
capl_status attention_grad_by_products(capl_device *device, capl_dtype dtype, const attention_grad_args *a, bool *done);

#endif
