/* stage.h -- batches made on the GPU: staging buffers and copies (stage.c), the kernels that make them (data.c).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_STAGE_H
#define CAPL_CUDA_STAGE_H

#include "capl/feed.h"

/* The table of capl_backend.feed. */
extern const capl_feed_ops cu_feed_ops;

/* Queues the kernels of a job on cu.stream. buffer: device memory that the job's offsets count from. */
capl_status cu_make_batch(capl_device *device, const uint8_t *buffer, const capl_feed_job *job);
/* capl_feed_ops.one_hot */
capl_status cu_one_hot(const int32_t *labels, int64_t n, int64_t T, int64_t K, float *out);

#endif
