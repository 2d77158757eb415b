# The files of the cuda backend, one list for the real library and for the tests-only one (tests/cuda).
# SPDX-License-Identifier: Apache-2.0

# C that is the same in both.
set(CUDA_C_SOURCES
  entry.c
  device.c
  report.c
  launch.c
  graph.c
  nccl.c
  nccl_comm.c
  nccl_library.c
  fetch.c
  stage.c
  data.c
  loop.c
  conv.c
  conv_native.c
  conv_thin.c
  dnn_list.c
  dnn_record.c
  plan_cache.c
  blas_record.c
  matmul.c
  native_count.c
  norm.c
  attention.c
  attention_products.c
  layer_norm.c
  pool.c
  rnn.c
  elementwise.c
  activation.c
  pointwise.c
  pointwise_source.c
  shape.c
  fixed.c
  index.c
  sample.c
  reduce.c
  softmax.c
  loss.c
  dice.c
  ctc.c
  optim.c)

# Kernels: nvcc for the card, g++ or clang++ for the tests.
set(CUDA_KERNELS
  kernels/graph.cu
  kernels/augment.cu
  kernels/gather.cu
  kernels/elementwise.cu
  kernels/activation.cu
  kernels/shape.cu
  kernels/fixed.cu
  kernels/take.cu
  kernels/sample.cu
  kernels/reduce.cu
  kernels/softmax.cu
  kernels/matmul.cu
  kernels/norm.cu
  kernels/attention.cu
  kernels/layer_norm.cu
  kernels/optim.cu
  kernels/pool.cu
  kernels/rnn.cu
  kernels/loss.cu
  kernels/region.cu
  kernels/ctc.cu
  kernels/conv.cu
  kernels/conv_thin.cu
  kernels/conv_tiled.cu
  )

# Files that include a vendor library's headers beyond the runtime; the tests have their own instead.
set(CUDA_VENDOR_SOURCES
  dnn_run.c
  blas.c
  rtc.c)

# What those are made of, in the real library only.
set(CUDA_VENDOR_PARTS
  dnn_execute.c
  dnn_faster.c
  dnn_graph.c
  dnn_library.c
  dnn_plan.c
  dnn_table.c
  dnn_tune.c
  rtc_nvrtc.c)
