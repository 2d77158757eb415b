/* graph.h -- a step as one CUDA graph (graph.c), numbers read later and not running ahead (fetch.c): the backend's
** hooks. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_GRAPH_H
#define CAPL_CUDA_GRAPH_H

#include "capl/backend.h"

/* As in capl_backend. */
capl_status cu_capture_begin(void);
capl_status cu_capture_end(void **graph);
capl_status cu_capture_launch(void *graph, int64_t offset);
void cu_capture_free(void *graph);

capl_status cu_fetch_begin(const void *device, size_t bytes, int *ticket);
capl_status cu_fetch_done(int ticket, bool *done);
capl_status cu_fetch_end(int ticket, void *host, size_t bytes);
capl_status cu_pace(int ahead);

#endif
