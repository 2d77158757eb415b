/* fetch.h -- reading a single number of a device without waiting for it, and not running too far ahead of a device.
**
** A loss is the result of work that is queued; reading it at once makes the program wait until the device has nothing
** left to do. A fetch queues the copy behind that work and is asked later. Devices in host memory answer at once.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FETCH_H
#define CAPL_FETCH_H

#include "capl/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  capl_device *device; /* NULL once the value is here */
  capl_dtype dtype;
  int ticket;
  double value;
} capl_fetch;

/* Queues the reading of a one-element tensor. ESHAPE for others. Every begun fetch is ended by capl_fetch_value or
** capl_fetch_drop. */
CAPL_API capl_status capl_fetch_begin(const capl_tensor *t, capl_fetch *out);
/* Whether the value has arrived. */
CAPL_API capl_status capl_fetch_done(const capl_fetch *fetch, bool *done);
/* The value; waits for it if need be. May be asked again, also after ESTATE: inside a captured step nothing can be
** waited for. */
CAPL_API capl_status capl_fetch_value(capl_fetch *fetch, double *value);
CAPL_API void capl_fetch_drop(capl_fetch *fetch);

/* Waits until at most `ahead` earlier calls of it have queued work that device has not finished. */
CAPL_API capl_status capl_pace(capl_device *device, int ahead);

#ifdef __cplusplus
}
#endif
#endif
