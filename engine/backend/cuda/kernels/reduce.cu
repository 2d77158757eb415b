/* reduce.cu -- sums, means and largest values over any dims, and argmax.
**
** Floats are summed in float, by many threads and then pairwise among them; integers in 64 bits, exactly.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/reduce.h"

#include <math.h>

#include "backend/cuda/kernels/any.h"

namespace {

/* ---- elements of x --------------------------------------------------------------------------- */

/* Stands for the integer dtypes. */
struct whole {};

template <class T> struct value_of { typedef float type; };
template <> struct value_of<whole> { typedef int64_t type; };

template <class T, int N> __device__ __forceinline__ void load(const reduce_args &a, int64_t at, float *v)
{
  cu_pack<T, N> pack = cu_load<T, N>((const T *)a.x + at);
  for (int j = 0; j < N; j++) v[j] = cu_float(pack.v[j]);
}

template <class T, int N> __device__ __forceinline__ void load(const reduce_args &a, int64_t at, int64_t *v)
{
  *v = cu_get_whole(a.from, a.x, at);
}

/* NaN beats numbers, equals do not beat. */
__device__ __forceinline__ bool beats(float a, float b) { return a > b || (a != a && b == b); }
__device__ __forceinline__ bool beats(int64_t a, int64_t b) { return a > b; }

/* ---- two ways to fold: to a value, or to the place of the largest ---------------------------- */

__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

__device__ __forceinline__ void lowest(float *v) { *v = -INFINITY; }
__device__ __forceinline__ void lowest(int64_t *v) { *v = INT64_MIN; }

template <class R> struct folding {
  typedef R part;
  static __device__ __forceinline__ R nothing(const reduce_args &a)
  {
    R least;
    lowest(&least);
    return a.op == REDUCE_MAX ? least : (R)0;
  }
  static __device__ __forceinline__ R make(R value, int64_t) { return value; }
  static __device__ __forceinline__ R fold(const reduce_args &a, R p, R q)
  {
    return a.op != REDUCE_MAX ? plus(p, q) : beats(q, p) ? q : p;
  }
  static __device__ __forceinline__ void store(const reduce_args &a, int64_t at, float p)
  {
    cu_set_real(a.to, a.y, at, a.op == REDUCE_MEAN ? p / (float)a.count : p);
  }
  static __device__ __forceinline__ void store(const reduce_args &a, int64_t at, int64_t p)
  {
    cu_set_whole(a.to, a.y, at, p);
  }
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
  static __device__ __forceinline__ part nothing(const reduce_args &)
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
  static __device__ __forceinline__ part fold(const reduce_args &, part p, part q)
  {
    if (p.index < 0 || q.index < 0) return p.index < 0 ? q : p;
    if (beats(p.value, q.value)) return p;
    return beats(q.value, p.value) || q.index < p.index ? q : p;
  }
  static __device__ __forceinline__ void store(const reduce_args &a, int64_t at, part p) { ((int32_t *)a.y)[at] = p.index; }
};

template <class K> struct folder {
  const reduce_args &a;
  __device__ __forceinline__ typename K::part operator()(typename K::part p, typename K::part q) const
  {
    return K::fold(a, p, q);
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

/* Folds what this thread reads of one output, or of N side by side: steps first, first + depth ... of over, from x on.
** Two loads are under way at a time: one would leave the memory idle. */
template <class T, class K, int N, class F>
__device__ __forceinline__ void walk(const reduce_args &a, int64_t x, int64_t first, int64_t end, F take)
{
  typedef typename value_of<T>::type R;
  int64_t depth = a.team.depth;
  for (int64_t i = first; i < end; i += 2 * depth) {
    int64_t at[1], next[1];
    R v[N], w[N];
    bool both = i + depth < end;
    cu_locate<1>(a.over, i, at);
    cu_locate<1>(a.over, both ? i + depth : i, next);
    load<T, N>(a, x + at[0], v);
    load<T, N>(a, x + next[0], w);
    for (int j = 0; j < N; j++) take(j, K::make(v[j], i));
    for (int j = 0; both && j < N; j++) take(j, K::make(w[j], i + depth));
  }
}

template <class T, class K, int N> __global__ void __launch_bounds__(CU_TEAM_THREADS, REDUCE_BLOCKS) reduce_rows(reduce_args a)
{
  __shared__ typename K::part room[CU_TEAM_THREADS];
  team_place me = team_find(a.team);
  int64_t items = a.kept.total * a.splits;
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < items; base += (int64_t)gridDim.x * me.groups) {
    int64_t item = base + me.group, s, o = quotient(item, a.splits, &s), at[2] = {0, 0};
    typename K::part p = K::nothing(a);
    if (item < items) {
      cu_locate<2>(a.kept, o, at);
      walk<T, K, N>(a, at[0], s * a.chunk + me.y, last_step(a, s),
                    [&](int, typename K::part q) { p = K::fold(a, p, q); });
    }
    p = team_fold(a.team, p, room, folder<K>{a});
    if (item < items && me.y == 0) finish<K>(a, o, s, at[1], p);
  }
}

template <class T, class K, int N> __global__ void __launch_bounds__(CU_TEAM_THREADS, REDUCE_BLOCKS) reduce_columns(reduce_args a)
{
  __shared__ typename K::part room[CU_TEAM_THREADS];
  team_place me = team_find(a.team);
  int64_t items = a.kept.total * a.tiles * a.splits;
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < items; base += (int64_t)gridDim.x * me.groups) {
    int64_t item = base + me.group, s, tile, outer = quotient(quotient(item, a.splits, &s), a.tiles, &tile);
    int64_t column = (tile * a.team.width + me.x) * N, at[2] = {0, 0};
    bool active = item < items && column < a.columns;
    typename K::part p[N];
    for (int j = 0; j < N; j++) p[j] = K::nothing(a);
    if (active) {
      cu_locate<2>(a.kept, outer, at);
      walk<T, K, N>(a, at[0] + column * a.x_column, s * a.chunk + me.y, last_step(a, s),
                    [&](int j, typename K::part q) { p[j] = K::fold(a, p[j], q); });
    }
    for (int j = 0; j < N; j++) {
      p[j] = team_fold(a.team, p[j], room, folder<K>{a});
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
    typename K::part p = K::nothing(a);
    if (o < a.kept.total)
      for (int64_t s = me.y; s < a.splits; s += a.team.depth)
        p = K::fold(a, p, ((const typename K::part *)a.parts)[o * a.splits + s]);
    p = team_fold(a.team, p, room, folder<K>{a});
    if (o >= a.kept.total || me.y != 0) continue;
    cu_locate<2>(a.kept, o, at);
    K::store(a, at[1], p);
  }
}

} // namespace

#define OF_FLOATS(kernel, kind, n)                                                             \
  CU_ENTRY(kernel<float, kind<float>, (n) ? 4 : 1>), CU_ENTRY(kernel<cu_f16, kind<float>, (n) ? 8 : 1>), \
    CU_ENTRY(kernel<cu_bf16, kind<float>, (n) ? 8 : 1>)

CU_TABLE(cu_reduce_table, OF_FLOATS(reduce_rows, folding, 0), OF_FLOATS(reduce_rows, folding, 1),
         OF_FLOATS(reduce_columns, folding, 0), OF_FLOATS(reduce_columns, folding, 1),
         OF_FLOATS(reduce_rows, placing, 0), OF_FLOATS(reduce_columns, placing, 0),
         CU_ENTRY(reduce_rows<whole, folding<int64_t>, 1>), CU_ENTRY(reduce_columns<whole, folding<int64_t>, 1>),
         CU_ENTRY(reduce_rows<whole, placing<int64_t>, 1>), CU_ENTRY(reduce_columns<whole, placing<int64_t>, 1>),
         CU_ENTRY(reduce_parts<folding<float>>), CU_ENTRY(reduce_parts<folding<int64_t>>),
         CU_ENTRY(reduce_parts<placing<float>>), CU_ENTRY(reduce_parts<placing<int64_t>>))
