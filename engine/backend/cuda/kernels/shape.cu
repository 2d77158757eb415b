/* shape.cu -- copies in another order, as bits: elements are moved, never looked at.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/shape.h"

#include <string.h>

#include "backend/cuda/kernels/kernel.h"

namespace {

struct alignas(16) unit16 {
  uint64_t v[2];
};

template <class U> __global__ void copy(copy_args g)
{
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[2];
    cu_locate<2>(g.loop, i, at);
    ((U *)g.y)[at[0]] = ((const U *)g.x)[at[1]];
  }
}

template <class U> __global__ void fill(fill_args g)
{
  U unit;
  memcpy(&unit, g.bits, sizeof unit);
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[1];
    cu_locate<1>(g.loop, i, at);
    ((U *)g.y)[at[0]] = unit;
  }
}

/* A tile's row of x lies along its column of y. One row of the tile has one element more than it holds, so that the
** elements of a column lie in different banks. */
template <class U> __global__ void __launch_bounds__(TRANSPOSE_THREADS) transpose(transpose_args g)
{
  __shared__ U tile[TRANSPOSE_TILE][TRANSPOSE_TILE + 1];
  int lane = threadIdx.x % TRANSPOSE_TILE, line = threadIdx.x / TRANSPOSE_TILE;
  const int lines = TRANSPOSE_THREADS / TRANSPOSE_TILE;
  int64_t tiles = g.loop.total * g.tiles_r * g.tiles_c;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    int64_t at[2], plane = t / (g.tiles_r * g.tiles_c);
    int64_t r0 = t / g.tiles_c % g.tiles_r * TRANSPOSE_TILE, c0 = t % g.tiles_c * TRANSPOSE_TILE;
    cu_locate<2>(g.loop, plane, at);
    for (int k = line; k < TRANSPOSE_TILE; k += lines)
      if (r0 + lane < g.rows && c0 + k < g.columns)
        tile[k][lane] = ((const U *)g.x)[at[1] + r0 + lane + (c0 + k) * g.x_column];
    __syncthreads();
    for (int k = line; k < TRANSPOSE_TILE; k += lines)
      if (r0 + k < g.rows && c0 + lane < g.columns)
        ((U *)g.y)[at[0] + (r0 + k) * g.y_row + c0 + lane] = tile[lane][k];
    __syncthreads();
  }
}

} // namespace

#define UNITS(kernel) \
  CU_ENTRY(kernel<uint8_t>), CU_ENTRY(kernel<uint16_t>), CU_ENTRY(kernel<uint32_t>), CU_ENTRY(kernel<uint64_t>)

CU_TABLE(cu_shape_table, UNITS(copy), CU_ENTRY(copy<unit16>), UNITS(fill), CU_ENTRY(fill<unit16>), UNITS(transpose))
