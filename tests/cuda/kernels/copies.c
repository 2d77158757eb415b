/* copies.c -- casts and copies on cuda give what ref gives, between all dtypes, in and out of any layout.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capl/backend.h"
#include "capl/capl.h"

static capl_device *ref, *cuda;

#define OK(call)                                                                     \
  do {                                                                               \
    if ((call) != CAPL_OK) fail_msg("%s: %s", #call, capl_error_last()->message);    \
  } while (0)

/* What rounding, cutting and saturating could go wrong at. */
static const double edges[] = {
  0, 1, -1, 0.5, -0.5, 1.5, 2.5, -1.7, 254.9, 255, 256, 300, -300, 65504, 65519, 65520, -65520, 1e30, -1e30, 3e9, -3e9,
  2147483647, 2147483648.0, -2147483648.0, 16777217, 33554435, 0x1p-24, 0x1p-25, 0x1.8p-25, 0x1p-149, 1 + 0x1p-8,
  1 + 0x1.8p-7, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-30, 9007199254740993.0, 4611686018427387904.0,
  1e19, -1e19, INFINITY, -INFINITY, NAN, 3, 7, 100, 127, 128, 200,
};
enum { EDGES = sizeof edges / sizeof *edges };

/* (rows, columns) of dtype on ref, filled with edges; booleans with 0 and 1. */
static capl_tensor *make(capl_dtype dtype, int64_t rows, int64_t columns)
{
  int64_t size[2] = {rows, columns};
  double *values = malloc((size_t)(rows * columns) * sizeof *values);
  for (int64_t i = 0; i < rows * columns; i++) {
    double v = edges[i * 7 % EDGES];
    bool whole = !capl_dtype_is_float(dtype);
    if (whole && (v != v || fabs(v) > 9e18)) v = 5;
    values[i] = dtype == CAPL_BOOL ? v > 1 : v;
  }
  capl_tensor *t;
  OK(capl_tensor_from_doubles(ref, dtype, 2, size, values, &t));
  free(values);
  return t;
}

static capl_tensor *on_cuda(capl_tensor *t)
{
  capl_tensor *copy;
  OK(capl_tensor_new(cuda, t->dtype, t->ndim, t->size, CAPL_ROW, &copy));
  OK(capl_tensor_copy(copy, t));
  return copy;
}

static void assert_same(const capl_tensor *got, const capl_tensor *want, const char *what)
{
  int64_t n = capl_tensor_numel(want);
  double *a = malloc((size_t)(n + 1) * sizeof *a), *b = malloc((size_t)(n + 1) * sizeof *b);
  assert_int_equal(capl_tensor_numel(got), n);
  assert_int_equal(got->dtype, want->dtype);
  OK(capl_tensor_to_doubles(got, a));
  OK(capl_tensor_to_doubles(want, b));
  for (int64_t i = 0; i < n; i++)
    if (!(a[i] == b[i] && signbit(a[i]) == signbit(b[i])) && !(a[i] != a[i] && b[i] != b[i]))
      fail_msg("%s to %s: element %lld is %.17g, ref has %.17g", what, capl_dtype_name(want->dtype), (long long)i, a[i],
               b[i]);
  free(a);
  free(b);
}

/* Views of the same kind of tensors on both devices. */
typedef enum { PLAIN, TURNED, INNER, REPEATED, LAYOUTS } layout;

static capl_tensor *view(capl_tensor *t, layout how)
{
  int64_t size[2] = {t->size[0], t->size[1]}, stride[2] = {t->stride[0], t->stride[1]}, offset = t->offset;
  if (how == TURNED) {
    size[0] = t->size[1], size[1] = t->size[0];
    stride[0] = t->stride[1], stride[1] = t->stride[0];
  }
  if (how == INNER) {
    size[0] -= 1, size[1] -= 3;
    offset += stride[0] + 1;
  }
  if (how == REPEATED) {
    size[0] = 3;
    stride[0] = 0;
  }
  capl_tensor *v;
  OK(capl_tensor_alias(t, 2, size, stride, offset, &v));
  return v;
}

static void cast_of(capl_tensor *x, capl_dtype to, capl_tensor **y)
{
  char attrs[32];
  snprintf(attrs, sizeof attrs, "dtype=%s", capl_dtype_name(to));
  OK(capl_run(CAPL_OP_cast, &x, 1, attrs, y));
}

/* dst, twice as wide and filled with 1, gets src in its odd columns. */
static capl_tensor *spread(capl_device *device, capl_dtype to, capl_tensor *src)
{
  int64_t size[2] = {src->size[0], 2 * src->size[1]}, stride[2];
  capl_tensor *wide, *odd;
  OK(capl_tensor_new(device, to, 2, size, CAPL_ROW, &wide));
  OK(capl_tensor_fill(wide, 1));
  stride[0] = wide->stride[0], stride[1] = 2;
  OK(capl_tensor_alias(wide, 2, src->size, stride, wide->offset + 1, &odd));
  OK(capl_tensor_copy(odd, src));
  capl_tensor_unref(odd);
  return wide;
}

static void check_pair(capl_dtype from, capl_dtype to, int64_t rows, int64_t columns, layout how)
{
  char what[64];
  capl_tensor *x = make(from, rows, columns), *copy = on_cuda(x), *v = view(x, how), *v_copy = view(copy, how);
  capl_tensor *want, *got;
  snprintf(what, sizeof what, "layout %d of %lldx%lld %s", how, (long long)rows, (long long)columns,
           capl_dtype_name(from));
  cast_of(v, to, &want);
  cast_of(v_copy, to, &got);
  assert_same(got, want, what);
  capl_tensor *spread_want = spread(ref, to, want), *spread_got = spread(cuda, to, v_copy);
  assert_same(spread_got, spread_want, what);
  capl_tensor *all[] = {x, copy, v, v_copy, want, got, spread_want, spread_got};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) capl_tensor_unref(all[k]);
}

static void casts_are_those_of_ref(void **unused)
{
  (void)unused;
  const int64_t sizes[][2] = {{4, 16}, {5, 7}, {33, 40}};
  for (int from = 0; from < CAPL_DTYPE_COUNT; from++)
    for (int to = 0; to < CAPL_DTYPE_COUNT; to++)
      for (int how = 0; how < LAYOUTS; how++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
          check_pair((capl_dtype)from, (capl_dtype)to, sizes[k][0], sizes[k][1], (layout)how);
}

static void fills_reach_every_element_and_no_other(void **unused)
{
  (void)unused;
  for (int dtype = 0; dtype < CAPL_DTYPE_COUNT; dtype++)
    for (int how = 0; how < LAYOUTS - 1; how++) {
      capl_tensor *x = make((capl_dtype)dtype, 5, 12), *copy = on_cuda(x);
      capl_tensor *v = view(x, (layout)how), *v_copy = view(copy, (layout)how);
      double value = dtype == CAPL_BOOL ? 1 : 42.3;
      OK(capl_tensor_fill(v, value));
      OK(capl_tensor_fill(v_copy, value));
      assert_same(copy, x, "a fill");
      capl_tensor *all[] = {x, copy, v, v_copy};
      for (int k = 0; k < 4; k++) capl_tensor_unref(all[k]);
    }
}

static int setup(void **unused)
{
  (void)unused;
  if (capl_device_open("ref", &ref) != CAPL_OK || capl_device_open("cuda", &cuda) != CAPL_OK) {
    fprintf(stderr, "%s\n", capl_error_last()->message);
    return -1;
  }
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(casts_are_those_of_ref),
    cmocka_unit_test(fills_reach_every_element_and_no_other),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
