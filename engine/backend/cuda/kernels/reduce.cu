/* reduce.cu -- sums, means and largest values over any dims, and argmax.
**
** Floats are summed in float, by many threads and then pairwise among them; integers in 64 bits, exactly.
** Kernels are made for one way to fold each, and walk in a straight line where one dim is folded: so loads follow each
** other without a use in between (tests/cuda/sass counts them in the machine code).
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/reduce.h"

#include <math.h>

#include "backend/cuda/kernels/any.h"
#include "backend/cuda/kernels/vector.h"

namespace {

/* ---- elements of x --------------------------------------------------------------------------- */

/* Stands for the integer dtypes. */
struct whole {};

template <class T> struct value_of { typedef float type; };
template <> struct value_of<whole> { typedef int64_t type; };

/* N elements as they are in memory. */
template <class T, int N> struct elements {
  cu_pack<T, N> pack;
  __device__ __forceinline__ void load(const reduce_args &a, int64_t at) { pack = cu_load<T, N>((const T *)a.x + at); }
  __device__ __forceinline__ float value(int j) const { return cu_float(pack.v[j]); }
};
template <int N> struct elements<whole, N> {
  int64_t whole_value;
  __device__ __forceinline__ void load(const reduce_args &a, int64_t at) { whole_value = cu_get_whole(a.from, a.x, at);
      }
  __device__ __forceinline__ int64_t value(int) const { return whole_value; }
};

/* NaN beats numbers, equals do not beat. */
__device__ __forceinline__ bool beats(float a, float b) { return a > b || (a != a && b == b); }
__device__ __forceinline__ bool beats(int64_t a, int64_t b) { return a > b; }

/* ---- three ways to fold: to a sum, to the largest value, to its place ---------------------------- */

__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

__device__ __forceinline__ void lowest(float *v) { *v = -INFINITY; }
__device__ __forceinline__ void lowest(int64_t *v) { *v = INT64_MIN; }

/* Where a value goes, divided by the count in a mean. */
__device__ __forceinline__ void store_value(const reduce_args &a, int64_t at, float p)
{
  cu_set_real(a.to, a.y, at, a.op == REDUCE_MEAN ? p / (float)a.count : p);
}
__device__ __forceinline__ void store_value(const reduce_args &a, int64_t at,
                                            int64_t p) { cu_set_whole(a.to, a.y, at, p); }

template <class R> struct adding {
  typedef R part;
  static __device__ __forceinline__ R nothing() { return 0; }
  static __device__ __forceinline__ R make(R value, int64_t) { return value; }
  static __device__ __forceinline__ R fold(R p, R q) { return plus(p, q); }
  static __device__ __forceinline__ void store(const reduce_args &a, int64_t at, R p) { store_value(a, at, p); }
};

template <class R> struct largest {
  typedef R part;
  static __device__ __forceinline__ R nothing()
  {
    R least;
    lowest(&least);
    return least;
  }
  static __device__ __forceinline__ R make(R value, int64_t) { return value; }
  static __device__ __forceinline__ R fold(R p, R q) { return beats(q, p) ? q : p; }
  static __device__ __forceinline__ void store(const reduce_args &a, int64_t at, R p) { store_value(a, at, p); }
};

template <class R> struct place {
  R value;
  int32_t index; /* -1 = none yet */
};

template <class R> __device__ __forceinline__ place<R> team_swap(place<R> p, int step)
{
  place<R> q = {::team_swap(p.value, step), ::team_swap(p.index, step)};
  return q;
}

template <class R> struct placing {
  typedef place<R> part;
  static __device__ __forceinline__ part nothing()
  {
    part p = {(R)0, -1};
    return p;
  }
  static __device__ __forceinline__ part make(R value, int64_t index)
  {
    part p = {value, (int32_t)index};
    return p;
  }
  /* The larger value; of equals the first. */
  static __device__ __forceinline__ part fold(part p, part q)
  {
    if (p.index < 0 || q.index < 0) return p.index < 0 ? q : p;
    if (beats(p.value, q.value)) return p;
    return beats(q.value, p.value) || q.index < p.index ? q : p;
  }
  static __device__ __forceinline__ void store(const reduce_args &a, int64_t at,
                                               part p) { ((int32_t *)a.y)[at] = p.index; }
};

template <class K> struct folder {
  __device__ __forceinline__ typename K::part operator()(typename K::part p, typename K::part q) const
  {
    return K::fold(p, q);
  }
};

/* Part s of output o, or the output itself if there is but one part. */
template <class K>
__device__ __forceinline__ void finish(const reduce_args &a, int64_t o, int64_t s, int64_t at_y, typename K::part p)
{
  if (a.splits > 1) ((typename K::part *)a.parts)[o * a.splits + s] = p;
  else K::store(a, at_y, p);
}

/* Most often there is nothing to divide by. */
__device__ __forceinline__ int64_t quotient(int64_t n, int64_t by, int64_t *rest)
{
  int64_t q = by == 1 ? n : n / by;
  *rest = n - q * by;
  return q;
}

__device__ __forceinline__ int64_t last_step(const reduce_args &a, int64_t s)
{
  int64_t end = (s + 1) * a.chunk;
  return end < a.over.total ? end : a.over.total;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Loads under way at a time in a straight line, and else, where each takes more instructions to find. */
enum { AHEAD = 4, ELSEWHERE = 2 };

/* Steps first, first + depth ... of `turns`, where x moves on by the same number of elements each time. */
template <class T, class K, int N, class F>
__device__ __forceinline__ void walk_line(const reduce_args &a, int64_t x, int64_t first, int64_t turns, F take)
{
  const int64_t depth = a.team.depth, step = depth * a.over.stride[0][0];
  int64_t i = first, at = x + first * a.over.stride[0][0];
  elements<T, N> v[AHEAD];
  auto load = [&](int k, int i) { v[k].load(a, at + i * step); };
  auto use = [&](int k) {
#pragma unroll
    for (int j = 0; j < N; j++) take(j, K::make(v[k].value(j), i + k * depth));
  };
  cu_ahead<AHEAD>(turns, load, use, [&] { at += AHEAD * step, i += AHEAD * depth; });
}

/* Likewise over several dims. */
template <class T, class K, int N, class F>
__device__ __forceinline__ void walk_dims(const reduce_args &a, int64_t x, int64_t first, int64_t turns, F take)
{
  const int64_t depth = a.team.depth;
  int64_t i = first;
  elements<T, N> v[ELSEWHERE];
  auto load = [&](int k, int n) {
    int64_t at[1];
    cu_locate<1>(a.over, i + n * depth, at);
    v[k].load(a, x + at[0]);
  };
  auto use = [&](int k) {
#pragma unroll
    for (int j = 0; j < N; j++) take(j, K::make(v[k].value(j), i + k * depth));
  };
  cu_ahead<ELSEWHERE>(turns, load, use, [&] { i += ELSEWHERE * depth; });
}

/* Folds what this thread reads of one output, or of N side by side: steps first, first + depth ... of over, from x
** on. */
template <class T, class K, int N, class F>
__device__ __forceinline__ void walk(const reduce_args &a, int64_t x, int64_t first, int64_t end, F take)
{
  if (first >= end) return;
  int64_t turns = (end - first - 1) / a.team.depth + 1;
  if (a.over.ndim == 1) walk_line<T, K, N>(a, x, first, turns, take);
  else walk_dims<T, K, N>(a, x, first, turns, take);
}

template <class T, class K, int N> __global__ void __launch_bounds__(CU_TEAM_THREADS,
    REDUCE_BLOCKS) reduce_rows(reduce_args a)
{
  __shared__ typename K::part room[CU_TEAM_THREADS];
  team_place me = team_find(a.team);
  int64_t items = a.kept.total * a.splits;
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < items; base += (int64_t)gridDim.x * me.groups) {
    int64_t item = base + me.group, s, o = quotient(item, a.splits, &s), at[2] = {0, 0};
    typename K::part p = K::nothing();
    if (item < items) {
      cu_locate<2>(a.kept, o, at);
      walk<T, K, N>(a, at[0], s * a.chunk + me.y, last_step(a, s),
                    [&](int, typename K::part q) { p = K::fold(p, q); });
    }
    p = team_fold(a.team, p, room, folder<K>{});
    if (item < items && me.y == 0) finish<K>(a, o, s, at[1], p);
  }
}

template <class T, class K, int N> __global__ void __launch_bounds__(CU_TEAM_THREADS,
    N == 8 ? 3 : REDUCE_BLOCKS) reduce_columns(reduce_args a)
{
  __shared__ typename K::part room[CU_TEAM_THREADS];
  team_place me = team_find(a.team);
  int64_t items = a.kept.total * a.tiles * a.splits;
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < items; base += (int64_t)gridDim.x * me.groups) {
    int64_t item = base + me.group, s, tile, outer = quotient(quotient(item, a.splits, &s), a.tiles, &tile);
    int64_t column = (tile * a.team.width + me.x) * N, at[2] = {0, 0};
    bool active = item < items && column < a.columns;
    typename K::part p[N];
    for (int j = 0; j < N; j++) p[j] = K::nothing();
    if (active) {
      cu_locate<2>(a.kept, outer, at);
      walk<T, K, N>(a, at[0] + column * a.x_column, s * a.chunk + me.y, last_step(a, s),
                    [&](int j, typename K::part q) { p[j] = K::fold(p[j], q); });
    }
    for (int j = 0; j < N; j++) {
      p[j] = team_fold(a.team, p[j], room, folder<K>{});
      if (active && me.y == 0)
        finish<K>(a, outer * a.columns + column + j, s, at[1] + (column + j) * a.y_column, p[j]);
    }
  }
}

/* A warp folds the parts of one output; kept is as in reduce_rows. */
template <class K> __global__ void __launch_bounds__(CU_TEAM_THREADS) reduce_parts(reduce_args a)
{
  __shared__ typename K::part room[CU_TEAM_THREADS];
  team_place me = team_find(a.team);
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < a.kept.total; base += (int64_t)gridDim.x * me.groups) {
    int64_t o = base + me.group, at[2];
    typename K::part p = K::nothing();
    if (o < a.kept.total)
      for (int64_t s = me.y; s < a.splits; s += a.team.depth)
        p = K::fold(p, ((const typename K::part *)a.parts)[o * a.splits + s]);
    p = team_fold(a.team, p, room, folder<K>{});
    if (o >= a.kept.total || me.y != 0) continue;
    cu_locate<2>(a.kept, o, at);
    K::store(a, at[1], p);
  }
}

} // namespace

#define OF_FLOATS(kernel, kind, n)                                                             \
  CU_ENTRY(kernel<float, kind<float>, (n) ? 4 : 1>), CU_ENTRY(kernel<cu_f16, kind<float>, (n) ? 8 : 1>), \
    CU_ENTRY(kernel<cu_bf16, kind<float>, (n) ? 8 : 1>)

CU_TABLE(cu_reduce_table, OF_FLOATS(reduce_rows, adding, 0), OF_FLOATS(reduce_rows, adding, 1),
         OF_FLOATS(reduce_columns, adding, 0), OF_FLOATS(reduce_columns, adding, 1),
         OF_FLOATS(reduce_rows, largest, 0), OF_FLOATS(reduce_rows, largest, 1),
         OF_FLOATS(reduce_columns, largest, 0), OF_FLOATS(reduce_columns, largest, 1),
         OF_FLOATS(reduce_rows, placing, 0), OF_FLOATS(reduce_columns, placing, 0),
         CU_ENTRY(reduce_rows<whole, adding<int64_t>, 1>), CU_ENTRY(reduce_columns<whole, adding<int64_t>, 1>),
         CU_ENTRY(reduce_rows<whole, largest<int64_t>, 1>), CU_ENTRY(reduce_columns<whole, largest<int64_t>, 1>),
         CU_ENTRY(reduce_rows<whole, placing<int64_t>, 1>), CU_ENTRY(reduce_columns<whole, placing<int64_t>, 1>),
         CU_ENTRY(reduce_parts<adding<float>>), CU_ENTRY(reduce_parts<adding<int64_t>>),
         CU_ENTRY(reduce_parts<largest<float>>), CU_ENTRY(reduce_parts<largest<int64_t>>),
         CU_ENTRY(reduce_parts<placing<float>>), CU_ENTRY(reduce_parts<placing<int64_t>>))
