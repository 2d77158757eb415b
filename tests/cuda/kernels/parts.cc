/* parts.cc -- what kernels are built from: random numbers, index arithmetic, conversions.
** SPDX-License-Identifier: Apache-2.0
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/cuda/kernels/any.h"
#include "backend/cuda/kernels/kernel.h"
#include "backend/cuda/kernels/loop.h"

extern "C" {
#include <cmocka.h>

#include "backend/cuda/loop.h"
#include "base/float16.h"
#include "capl/rng.h"

/* What loop.c needs of the backend. */
cu_context cu;
int64_t cu_blocks(int64_t n, int threads) { return (n + threads - 1) / threads; }
}

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static void random_numbers_are_those_of_the_host(void **)
{
  for (int k = 0; k < 1000; k++) {
    uint64_t key = draw();
    uint32_t c[4] = {(uint32_t)draw(), (uint32_t)draw(), (uint32_t)draw(), (uint32_t)draw()}, want[4], got[4];
    const uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    capl_philox(words, c, want);
    cu_philox(key, c[0], c[1], c[2], c[3], got);
    assert_memory_equal(got, want, sizeof want);
  }
}

/* The offset that plain division gives, with strides 1000^d. */
static int64_t located(const cu_loop *loop, int64_t i)
{
  int64_t at = 0;
  for (int d = loop->ndim - 1; d >= 0; d--) {
    at += i % loop->size[d] * loop->stride[0][d];
    i /= loop->size[d];
  }
  return at;
}

static void check_loop(int ndim, const int64_t *size)
{
  cu_loop loop;
  memset(&loop, 0, sizeof loop);
  loop.ndim = ndim;
  for (int d = 0; d < ndim; d++) {
    loop.size[d] = size[d];
    loop.stride[0][d] = (int64_t)(draw() % 1000003);
  }
  loop_finish(&loop);
  for (int k = 0; k < 3000; k++) {
    int64_t i = k < 40 ? k : k < 80 ? loop.total - 1 - (k - 40) : (int64_t)(draw() % (uint64_t)loop.total), at[1];
    if (i < 0 || i >= loop.total) continue;
    cu_locate<1>(loop, i, at);
    assert_int_equal(at[0], located(&loop, i));
  }
}

static void indices_are_split_as_by_division(void **)
{
  const int64_t sizes[][6] = {{1, 1}, {7, 3}, {2, 2147483647 / 2}, {5, 1}, {1000003, 2003}, {3, 5, 7, 11, 13, 17},
                              {64, 32, 60, 160}};
  const int dims[] = {2, 2, 2, 2, 2, 6, 4};
  for (size_t k = 0; k < sizeof dims / sizeof *dims; k++) check_loop(dims[k], sizes[k]);
  for (int k = 0; k < 300; k++) {
    int64_t size[3] = {1 + (int64_t)(draw() % 1200), 1 + (int64_t)(draw() % 1200), 1 + (int64_t)(draw() % 1200)};
    check_loop(3, size);
  }
}

static void indices_beyond_31_bits_are_split_too(void **)
{
  const int64_t sizes[][6] = {{2, 2147483648}, {3, 5000000000}, {1000003, 1000033, 9}, {1 << 20, 1 << 20, 1 << 20},
                              {4000000007, 1, 6}};
  const int dims[] = {2, 2, 3, 3, 3};
  for (size_t k = 0; k < sizeof dims / sizeof *dims; k++) check_loop(dims[k], sizes[k]);
}

/* 16-bit results of doubles between, at and just beside halves: one rounding only. */
static void doubles_are_rounded_once(void **)
{
  for (int k = 0; k < 60000; k++) {
    uint16_t bits = (uint16_t)draw() & 0x7BFF, up;
    double here = capl_f16_to_float(bits), next = capl_f16_to_float((uint16_t)(bits + 1)), half = (here + next) / 2;
    if (bits == 0x7BFF) continue;
    up = (uint16_t)(bits + 1);
    cu_f16 got[3];
    cu_set_real(CAPL_F16, got, 0, half - half * 0x1p-50);
    cu_set_real(CAPL_F16, got, 1, half);
    cu_set_real(CAPL_F16, got, 2, half + half * 0x1p-50);
    uint16_t want[3] = {bits, bits % 2 ? up : bits, up};
    assert_memory_equal(got, want, sizeof want);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_numbers_are_those_of_the_host),
    cmocka_unit_test(indices_are_split_as_by_division),
    cmocka_unit_test(indices_beyond_31_bits_are_split_too),
    cmocka_unit_test(doubles_are_rounded_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
