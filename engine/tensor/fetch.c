/* fetch.c -- reading a single number of a device without waiting for it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/fetch.h"

#include "capl/backend.h"
#include "tensor/storage.h"
#include "tensor/watch.h"

capl_status capl_fetch_begin(const capl_tensor *t, capl_fetch *out)
{
  char text[160];
  *out = (capl_fetch){.dtype = t->dtype};
  if (capl_tensor_numel(t) != 1)
    return CAPL_FAIL(CAPL_ESHAPE, "only one number can be fetched, the tensor is %s",
                     capl_tensor_describe(t, text, sizeof text));
  if (!t->device->backend->fetch_begin) return capl_tensor_item(t, &out->value);
  CAPL_TRY(watch_read(t));
  CAPL_TRY(t->device->backend->fetch_begin(capl_tensor_data(t), capl_tensor_bytes(t), &out->ticket));
  out->device = t->device;
  return CAPL_OK;
}

capl_status capl_fetch_done(const capl_fetch *fetch, bool *done)
{
  *done = true;
  return fetch->device ? fetch->device->backend->fetch_done(fetch->ticket, done) : CAPL_OK;
}

capl_status capl_fetch_value(capl_fetch *fetch, double *value)
{
  if (fetch->device) {
    unsigned char bytes[CAPL_FETCH_BYTES];
    capl_device *device = fetch->device;
    capl_status status = device->backend->fetch_end(fetch->ticket, bytes, capl_dtype_size(fetch->dtype));
    if (status != CAPL_ESTATE) fetch->device = NULL; /* else it is too early */
    CAPL_TRY(status);
    fetch->value = value_load(bytes, fetch->dtype);
  }
  *value = fetch->value;
  return CAPL_OK;
}

void capl_fetch_drop(capl_fetch *fetch)
{
  if (fetch->device) fetch->device->backend->fetch_end(fetch->ticket, NULL, 0);
  fetch->device = NULL;
}

capl_status capl_pace(capl_device *device, int ahead)
{
  return device->backend->pace ? device->backend->pace(ahead) : CAPL_OK;
}
