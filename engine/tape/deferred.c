/* deferred.c -- gradients of leaves that get their values at the end of a backward pass, all of them together.
** SPDX-License-Identifier: Apache-2.0
*/
#include "tape/deferred.h"

enum { MOST = 64 };

static _Thread_local struct {
  capl_tensor *dst[MOST], *src[MOST];
  int n;
} waiting;

capl_status deferred_flush(void)
{
  int n = waiting.n;
  waiting.n = 0;
  capl_status status = n > 0 ? capl_tensor_copy_many(waiting.dst, waiting.src, n) : CAPL_OK;
  for (int i = 0; i < n; i++) {
    capl_tensor_unref(waiting.dst[i]);
    capl_tensor_unref(waiting.src[i]);
  }
  return status;
}

capl_status deferred_copy(capl_tensor *dst, capl_tensor *src)
{
  if (waiting.n == MOST) CAPL_TRY(deferred_flush());
  waiting.dst[waiting.n] = capl_tensor_ref(dst);
  waiting.src[waiting.n++] = src ? capl_tensor_ref(src) : NULL;
  return CAPL_OK;
}

capl_status deferred_zeros(capl_device *device, capl_dtype dtype, int64_t n, capl_tensor **out)
{
  CAPL_TRY(capl_tensor_new(device, dtype, 1, &n, CAPL_AUTO, out));
  capl_status status = deferred_copy(*out, NULL);
  if (status == CAPL_OK) return CAPL_OK;
  capl_tensor_unref(*out);
  *out = NULL;
  return status;
}

bool deferred_has(const capl_tensor *dst)
{
  for (int i = 0; i < waiting.n; i++)
    if (waiting.dst[i] == dst) return true;
  return false;
}

capl_status deferred_settle(const capl_tensor *t)
{
  return t && deferred_has(t) ? deferred_flush() : CAPL_OK;
}
