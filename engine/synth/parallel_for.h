/* parallel_for.h -- one job for each of many images, shared out among threads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_PARALLEL_FOR_H
#define CAPL_DATA_PARALLEL_FOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

/* The job of image `index`. room: bytes of the thread's own. */
typedef capl_status (*parallel_job)(void *context, uint32_t index, uint8_t *room);

/* Jobs 0..n-1, begun in this order, by `threads` threads (0 = the calling one alone). After a failure no more begin;
** the error is that of the lowest number that failed. stop: asked before each, may be NULL; true: EINTERRUPT. EVALUE
** for too many threads or images; ENOMEM. */
capl_status parallel_for(uint32_t n, int threads, size_t room, bool (*stop)(void), parallel_job job, void *context);

#endif
