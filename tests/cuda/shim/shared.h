/* shared.h -- what the symbols of a kernel's library tell of it: its __shared__ arrays, which are filled with garbage
** before each block, its launch bounds and its name.
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
/* The most threads of a block that the kernel's __launch_bounds__ allow; those of any GPU where it has none. */
int shared_most_threads(const shared_list *arrays);

/* Where all static arrays of the kernel's library are. */
struct shared_span {
  char *begin;
  size_t bytes;
};
shared_span shared_span_of(const void *code);
/* "tile+16", "dynamic shared memory+8". */
void shared_place(const void *code, const void *p, char *out, size_t len);
/* Source line of what returns to an address, "FILE:LINE"; the address in the library where that cannot be found out. */
void shared_line(const void *returns_to, char *out, size_t len);

/* Readable name of a kernel, from the symbols of its library. */
void shared_kernel_name(const void *code, char *out, size_t len);

#endif
