/* shared.h -- where the __shared__ arrays of a kernel are, so that they can be filled with garbage before each block.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_SHARED_H
#define SHIM_SHARED_H

#include <stddef.h>

struct shared_list;

/* The static arrays of the kernel, and those of all functions that are no kernels (which it may call). Never null. */
const shared_list *shared_of_kernel(const void *code);
void shared_spoil(const shared_list *arrays);
/* Bytes of them. */
size_t shared_bytes(const shared_list *arrays);

/* Readable name of a kernel, from the symbols of its library. */
void shared_kernel_name(const void *code, char *out, size_t len);

#endif
