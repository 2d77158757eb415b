/* capture.h -- a training step as one recording: watched, compared with itself, and replayed by the device.
**
** A step may be replayed without its program only when it does the same every time. capl_watch looks at all op calls,
** fills and copies of this thread while a step runs, and compares them with those of the step before: the ops in order,
** shapes and dtypes, attributes, constants, and which tensors they read and write. What may change from step to step
** are the values of the arguments, numbers that live in device memory, dropout's offset (counted from the step's first
** random stream) and the rate, step number and gradient factor of optimizer steps.
** A step that was seen to be the same can be captured: its kernels are recorded instead of run, with memory of a pool
** that belongs to the recording, and launched again and again. Devices without captures run it as before.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CAPTURE_H
#define CAPL_CAPTURE_H

#include "capl/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct capl_watch capl_watch;
typedef struct capl_capture capl_capture;

/* ---- watching -------------------------------------------------------------------------------- */

/* device: where the step works. The watch holds a reference to every tensor's storage that the step used and did not
** make. */
CAPL_API capl_status capl_watch_new(capl_device *device, capl_watch **out);
CAPL_API void capl_watch_free(capl_watch *watch); /* NULL-safe */

/* Watches this thread until capl_watch_end. args: the n tensors that change from step to step. streams: number of
** random streams opened so far (dropout's offset is compared relative to it). strict: what differs from the step
** before, from the third step on, and what cannot be captured at all, fails with ESTATE at the call that does it; else
** it is noted and the step goes on. ESTATE when a watch is on already. */
CAPL_API capl_status capl_watch_begin(capl_watch *watch, capl_tensor *const *args, int n, uint64_t streams,
                                      bool strict);
/* Ends the step. ESTATE when strict and the step ended earlier than the one before. */
CAPL_API capl_status capl_watch_end(capl_watch *watch);
/* What this thread does until it is called with false is no part of the step. */
CAPL_API void capl_watch_pause(capl_watch *watch, bool on);
/* Ends a step that failed: it counts for nothing. */
CAPL_API void capl_watch_cancel(capl_watch *watch);

/* Steps since the last difference, the last one included: 2 = a step and its like. */
CAPL_API int capl_watch_alike(const capl_watch *watch);
/* Steps watched. */
CAPL_API int capl_watch_steps(const capl_watch *watch);
/* Whether this step, or the last one, was not like the one before. */
CAPL_API bool capl_watch_differs(const capl_watch *watch);
/* What differed last, or what cannot be captured; "" = nothing. Borrowed. */
CAPL_API const char *capl_watch_difference(const capl_watch *watch);
/* Something no graph can hold was done in the last step: a host read, values from the host. */
CAPL_API bool capl_watch_refused(const capl_watch *watch);
/* Whether a tensor that the step used was replaced by another since: nothing but the watch holds it any more. */
CAPL_API bool capl_watch_stale(const capl_watch *watch);
/* Number of calls watched in the last step. */
CAPL_API size_t capl_watch_calls(const capl_watch *watch);

/* Called for "recipe.lua:41" when a difference is noted without an error. */
CAPL_API void capl_watch_where_set(void (*where)(char *buf, size_t len));

/* ---- capturing ------------------------------------------------------------------------------- */

/* Whether device can capture. */
CAPL_API bool capl_capture_possible(const capl_device *device);
/* From here on this thread's work on device is recorded, not run. EUNSUPPORTED, EDEVICE with the driver's reason. */
CAPL_API capl_status capl_capture_begin(capl_device *device, capl_capture **out);
/* The recording ends and becomes launchable. On errors it is still to be freed. */
CAPL_API capl_status capl_capture_end(capl_capture *capture);
/* Runs it once, behind what is queued. offset: added to the dropout offsets recorded. */
CAPL_API capl_status capl_capture_launch(capl_capture *capture, int64_t offset);
/* Ends a recording still going on; its memory returns to the device. NULL-safe. */
CAPL_API void capl_capture_free(capl_capture *capture);

#ifdef __cplusplus
}
#endif
#endif
