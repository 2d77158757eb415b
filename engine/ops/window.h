/* window.h -- which input positions a sliding window covers, for convolution and pooling.
**
** Shape rules and kernels share these functions, so they cannot disagree about a border. Positions are
** along one axis; out position o of a window starts at o * stride - padding.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_WINDOW_H
#define CAPL_OPS_WINDOW_H

#include "capl/op.h"

/* Inputs from the first to the last of `kernel` taps. */
static inline int64_t window_reach(int64_t kernel, int64_t dilation) { return dilation * (kernel - 1) + 1; }

/* How many windows of `kernel` taps fit into `size` inputs with padding on both sides; 0 = none. */
static inline int64_t window_count(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                                   int64_t dilation)
{
  int64_t room = size + 2 * padding - window_reach(kernel, dilation);
  return room < 0 ? 0 : room / stride + 1;
}

/* The same for pooling. ceil_mode adds a last, partly empty window if it starts inside the input or
** the left padding (PyTorch's rule). */
static inline int64_t window_count_pool(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                                        bool ceil_mode)
{
  int64_t room = size + 2 * padding - kernel + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  int64_t count = room / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + padding) count--;
  return count;
}

/* One window of an adaptive pool: inputs [first, last) of `size` for output o of `count`. */
static inline int64_t window_adaptive_first(int64_t o, int64_t size, int64_t count)
{
  return o * size / count;
}

static inline int64_t window_adaptive_last(int64_t o, int64_t size, int64_t count)
{
  return ((o + 1) * size + count - 1) / count;
}

/* A pooling stride as given, 0 replaced by the kernel's size. */
static inline int64_t window_stride(const capl_attr *stride, const capl_attr *kernel, int axis)
{
  return stride->v[axis] ? stride->v[axis] : kernel->v[axis];
}

/* "3" or "3x5" for a pair, into buf; returns buf. */
const char *window_pair_text(const int64_t pair[2], char *buf, size_t len);
/* EVALUE unless every whole-number attribute of the call is there and within its bounds: a C caller may
** fill the array by hand, and kernels divide by strides. */
capl_status window_need_attrs(const capl_call *call);
/* EDTYPE, ESHAPE unless t is floating and 4-d. */
capl_status window_need_image(const capl_tensor *t, const char *name);
/* ESHAPE unless t has exactly these sizes; what completes "dy is (..), <what> (..)". */
capl_status window_need_size(const capl_tensor *t, const char *name, int ndim, const int64_t *size,
                             const char *what);

#endif
