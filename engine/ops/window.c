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

/* One attribute; n values. A required one that was left out has its default, 0, which is out of bounds. */
static capl_status need_in_bounds(const capl_attr_spec *spec, int n, const int64_t *values)
{
  if (n != (spec->kind == CAPL_ATTR_INTS ? spec->n : 1))
    return CAPL_FAIL(CAPL_EVALUE, "%s needs %d numbers, not %d", spec->name, spec->n, n);
  for (int i = 0; i < n; i++) {
    double v = (double)values[i];
    if (v >= spec->min && v <= spec->max) continue;
    if (spec->required && values[i] == 0) return CAPL_FAIL(CAPL_EVALUE, "%s must be given", spec->name);
    return CAPL_FAIL(CAPL_EVALUE, "%s must be in %g..%g, not %g", spec->name, spec->min, spec->max, v);
  }
  return CAPL_OK;
}

capl_status window_need_attrs(const capl_call *call)
{
  const capl_attr_spec *specs = call->op->attrs;
  for (int k = 0; k < CAPL_MAX_ATTR && specs[k].name; k++) {
    if (specs[k].kind == CAPL_ATTR_INTS)
      CAPL_TRY(need_in_bounds(&specs[k], call->attr[k].n, call->attr[k].v));
    if (specs[k].kind == CAPL_ATTR_INT) CAPL_TRY(need_in_bounds(&specs[k], 1, &call->attr[k].i));
  }
  return CAPL_OK;
}

/* Sizes times a dilation or a number of groups (2^20 at most) must stay countable; only views made by expand
** and tensors without elements come near this. */
static const int64_t longest = (int64_t)1 << 40;

capl_status window_need_image(const capl_tensor *t, const char *name)
{
  CAPL_TRY(need_float(t, name));
  CAPL_TRY(need_ndim(t, name, 4));
  for (int d = 0; d < 4; d++)
    if (t->size[d] > longest)
      return CAPL_FAIL(CAPL_EVALUE, "%s has size %" PRId64 " in dim %d, at most %" PRId64 " is possible", name,
                       t->size[d], (int)capl_counted(d), longest);
  return CAPL_OK;
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
