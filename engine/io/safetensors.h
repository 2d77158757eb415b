/* safetensors.h -- the safetensors reader on memory.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_SAFETENSORS_H
#define CAPL_IO_SAFETENSORS_H

#include "capl/io.h"

/* capl_safetensors_load on len bytes; path stands for them in messages. */
CAPL_API capl_status safetensors_parse(const char *path, const char *data, size_t len, capl_device *device,
                                       capl_named_tensor **list, int *n);

#endif
