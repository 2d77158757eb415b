/* window.c -- checks and messages about windows that conv.c, norm.c and pool.c share.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/window.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ops/rules.h"

const char *window_pair_text(const int64_t pair[2], char *buf, size_t len)
{
  if (pair[0] == pair[1])
    snprintf(buf, len, "%" PRId64, pair[0]);
  else
    snprintf(buf, len, "%" PRId64 "x%" PRId64, pair[0], pair[1]);
  return buf;
}

capl_status window_need_image(const capl_tensor *t, const char *name)
{
  CAPL_TRY(need_float(t, name));
  return need_ndim(t, name, 4);
}

capl_status window_need_size(const capl_tensor *t, const char *name, int ndim, const int64_t *size,
                             const char *what)
{
  if (t->ndim == ndim && memcmp(t->size, size, sizeof size[0] * (size_t)ndim) == 0) return CAPL_OK;
  char have[96], want[96];
  return CAPL_FAIL(CAPL_ESHAPE, "%s is %s, %s %s", name,
                   capl_shape_describe(t->ndim, t->size, have, sizeof have), what,
                   capl_shape_describe(ndim, size, want, sizeof want));
}
