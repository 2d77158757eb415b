/* native_count.h -- counts matmul and conv calls that run on capl's kernels instead of the vendor library's.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_NATIVE_COUNT_H
#define CAPL_CUDA_NATIVE_COUNT_H

#include "capl/backend.h"

/* A record ran: by own kernels, or by the library. kind: a constant text; hash: of the record. */
void native_count_note(const char *kind, uint64_t hash, bool own);
/* capl_backend.own_kernels */
void native_count_report(capl_own_fn fn, void *user);

#endif
