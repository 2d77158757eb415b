/* nccl.h -- collectives between GPUs (nccl.c), as far as the rest of the backend must know of them.
**
** They run on a stream of their own, beside the arithmetic on cu.stream. Whoever lets work go on that is not ordered by
** that stream (recording a step, launching a recorded one) first joins the two.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_NCCL_H
#define CAPL_CUDA_NCCL_H

#include "capl/error.h"

/* Later work on cu.stream waits for every collective so far. Nothing is queued where it does so already. */
capl_status cu_join_collectives(void);
/* Likewise, before a step is recorded: collectives from here on belong to the recording as long as cu.capturing is
** set. */
capl_status cu_record_collectives(void);
/* Likewise, before the recording ends. */
capl_status cu_recorded_collectives(void);

#endif
