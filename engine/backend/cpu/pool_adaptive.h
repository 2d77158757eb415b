/* pool_adaptive.h -- adaptive pools that lists of taps (pool.c) do not serve.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_POOL_ADAPTIVE_H
#define CAPL_CPU_POOL_ADAPTIVE_H

#include "capl/backend.h"

/* Windows of any size. */
capl_status cpu_adaptive_avg_pool2d_wide(const capl_call *call);
capl_status cpu_adaptive_max_pool2d(const capl_call *call);
capl_status cpu_adaptive_max_pool2d_grad(const capl_call *call);

#endif
