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
#include "backend/cuda/kernels/norm.cu"

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

/* Where a thread's turn number t is, in elements of x and of y, by plain arithmetic. */
static void check_window(const cu_pixels &p, const norm_windows &w, int64_t n, const window_place &at)
{
  cu_cursor window = cu_cursor_at(n, w.windows_h, w.windows_w);
  assert_true(at.h == window.h && at.w == window.w);
  assert_true(at.corner == ((window.n * w.H + 2 * window.h) * w.W + 2 * window.w) * p.channels);
  if (2 * window.h + 1 >= w.H || 2 * window.w + 1 >= w.W) return; /* cut by the edge: no value of y */
  assert_true(at.pooled == ((window.n * (w.H / 2) + window.h) * (w.W / 2) + window.w) * p.channels);
}

/* Windows walked from `first` on, by blocks of so many. */
static void walk_windows(int64_t pixels, int64_t channels, int H, int W, bool cut_ones_too, int64_t first)
{
  cu_pixels p = cu_pixels_of(pixels, channels, 1, 12);
  norm_windows w = norm_windows_of(H, W, cut_ones_too, &p);
  cu_place at = {};
  at.first = first;
  window_place window = window_at(w, at, p.channels);
  for (int turn = 0; turn < 500; turn++, window_move(w, window)) check_window(p, w, first + (int64_t)turn * p.height, window);
}

static void windows_are_walked_without_products(void **)
{
  for (int k = 0; k < 200; k++) {
    int H = 2 + (int)(draw() % 40), W = 2 + (int)(draw() % 40);
    walk_windows(1 << 20, 1 + (int64_t)(draw() % 300), H, W, k % 2 == 0, (int64_t)(draw() % 5000));
  }
}

/* 2^36 windows of 64 channels: offsets of 44 bits. */
static void windows_beyond_32_bits(void **)
{
  walk_windows(INT64_C(1) << 36, 64, 60, 160, false, (INT64_C(1) << 36) - 100000);
  walk_windows(INT64_C(1) << 36, 64, 59, 161, true, (INT64_C(1) << 36) - 100000);
}

/* A thread counts its pixels in 32 bits, so no block has more than 2^30 of them. */
static void blocks_share_any_number_of_pixels(void **)
{
  for (int64_t pixels = 1; pixels < INT64_C(1) << 44; pixels = 3 * pixels + 1) {
    cu_pixels p = cu_pixels_of(pixels, 1, 1, 4);
    assert_true(p.chunk > 0 && p.chunk <= CU_PIXEL_CHUNK);
    assert_true(cu_pixel_blocks(&p) * p.chunk >= pixels && (cu_pixel_blocks(&p) - 1) * p.chunk < pixels);
    cu_place at = {};
    at.first = (cu_pixel_blocks(&p) - 1) * p.chunk;
    at.last = pixels;
    assert_true(cu_turns(p, at) == cu_divide_up(at.last - at.first, p.height));
  }
}

/* Every number of turns loads what is there and uses each pixel once, in order. */
static void loads_ahead_miss_nothing(void **)
{
  for (int turns = 0; turns < 20; turns++) {
    int from = 0, place[4] = {-1, -1, -1, -1}, used = 0;
    auto load = [&](int k, int i) {
      assert_true(from + i < turns);
      place[k] = from + i;
    };
    auto use = [&](int k) { assert_int_equal(place[k], used++); };
    cu_ahead<4>(turns, load, use, [&] { from += 4; });
    assert_int_equal(used, turns);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_numbers_are_those_of_the_host),
    cmocka_unit_test(indices_are_split_as_by_division),
    cmocka_unit_test(indices_beyond_31_bits_are_split_too),
    cmocka_unit_test(doubles_are_rounded_once),
    cmocka_unit_test(windows_are_walked_without_products),
    cmocka_unit_test(windows_beyond_32_bits),
    cmocka_unit_test(blocks_share_any_number_of_pixels),
    cmocka_unit_test(loads_ahead_miss_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
