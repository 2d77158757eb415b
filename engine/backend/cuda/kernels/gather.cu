/* gather.cu -- labels of a batch from those of the whole set, and as ones among zeros.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/gather.h"

#include "backend/cuda/kernels/kernel.h"

__global__ void gather_labels(gather_labels_args a)
{
  int64_t stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += stride) {
    int64_t n = i / a.length, t = i % a.length;
    a.out[i] = a.labels[(int64_t)a.rows[n].image * a.length + t];
  }
}

__global__ void one_hot(one_hot_args a)
{
  int64_t stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += stride)
    a.out[i] = a.labels[i / a.classes] == i % a.classes ? 1.0f : 0.0f;
}

/* ORDER gather_kernel */
CU_TABLE(cu_gather_table, CU_ENTRY(gather_labels), CU_ENTRY(one_hot))
