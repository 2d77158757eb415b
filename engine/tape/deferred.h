/* deferred.h -- gradients of leaves that get their values at the end of a backward pass, all of them together.
**
** Some gradients only have to be put into the leaf's type and place, or are zeros: of each that would be a launch of
** its own on a GPU. Until the end nobody reads them but a sum of gradients, which has them made first.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TAPE_DEFERRED_H
#define CAPL_TAPE_DEFERRED_H

#include "capl/tensor.h"

/* dst := src when the backward pass ends; NULL: zeros. Both get a reference. */
capl_status deferred_copy(capl_tensor *dst, capl_tensor *src);
/* A tensor of zeros for a gradient, like that of a vector of n. */
capl_status deferred_zeros(capl_device *device, capl_dtype dtype, int64_t n, capl_tensor **out);
bool deferred_has(const capl_tensor *dst);
/* Makes them all, if t is one of them; NULL-safe. */
capl_status deferred_settle(const capl_tensor *t);
capl_status deferred_flush(void);

#endif
