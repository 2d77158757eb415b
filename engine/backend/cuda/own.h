/* own.h -- how many products run on own kernels, for want of a vendor library's: so that no slow path is silent.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_OWN_H
#define CAPL_CUDA_OWN_H

#include "capl/backend.h"

/* A record ran: by own kernels, or by the library. kind: a constant text; hash: of the record. */
void own_note(const char *kind, uint64_t hash, bool own);
/* capl_backend.own_kernels */
void own_report(capl_own_fn fn, void *user);

#endif
