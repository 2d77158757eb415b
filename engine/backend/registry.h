/* registry.h -- what the dispatcher needs of devices beyond the public interface.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BACKEND_REGISTRY_H
#define CAPL_BACKEND_REGISTRY_H

#include "capl/backend.h"

extern const capl_backend capl_backend_ref;
extern const capl_backend capl_backend_meta;

/* The row of device's own table that can run call, NULL = none. */
const capl_kernel *device_kernel(const capl_device *device, const capl_call *call);
/* The device named by device->backend->fallback, NULL = none. */
capl_device *device_fallback(const capl_device *device);

#endif
