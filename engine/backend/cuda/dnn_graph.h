/* dnn_graph.h -- a record as an operation graph of cuDNN 9. The only place with cuDNN's header.
**
** The graph needs neither a handle nor a GPU: plans are made from it for the GPU of this process (dnn_run.c), or for
** any GPU by description (tests/cuda/graphs).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_DNN_GRAPH_H
#define CAPL_CUDA_DNN_GRAPH_H

#include <cudnn_graph.h>

#include "backend/cuda/dnn.h"

/* Descriptions of GPUs, which only tests and CAPL_DNN_DEVICE need; a library before 9.8 refuses them. */
#if CUDNN_VERSION < 90800
#define CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR ((cudnnBackendDescriptorType_t)38)
#define CUDNN_ATTR_ENGINEHEUR_DEVICEPROP ((cudnnBackendAttributeName_t)204)
#define CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP ((cudnnBackendAttributeName_t)407)
#define CUDNN_ATTR_DEVICEPROP_DEVICE_ID ((cudnnBackendAttributeName_t)2700)
#define CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION ((cudnnBackendAttributeName_t)2702)
#endif

enum { DNN_LEAST = 90100 }; /* cudnnGetVersion() of the oldest library that has all that graphs and plans here need */

/* Numbers of tensors in cuDNN's graphs ("unique ids"): role + 1, and these. */
enum {
  DNN_UID_EPS = 100, /* by value: one f32 on the host */
  DNN_UID_MOMENTUM,
  DNN_UID_NEW_MEAN, /* updated running statistics; the roles are what they were */
  DNN_UID_NEW_VAR,
  DNN_UID_BETWEEN = 200, /* results that stay inside a fused kernel; DNN_UID_BETWEEN + 1 and so on */
};

enum { DNN_DESCRIPTORS = 40, DNN_OPS = 4 };

/* Descriptors are kept in the order they were made. The first failure is recorded (CAPL_FAIL) and ends all later
** work. */
typedef struct {
  cudnnBackendDescriptor_t all[DNN_DESCRIPTORS];
  int count;
  cudnnBackendDescriptor_t tensor[DNN_ROLES]; /* NULL where the record has none */
  cudnnBackendDescriptor_t window;            /* of a convolution or pool, NULL for norms */
  cudnnBackendDescriptor_t ops[DNN_OPS];
  int n_ops;
  cudnnBackendDescriptor_t graph;
  int between; /* virtual tensors made so far */
  capl_status status;
} dnn_graph;

/* Builds and finalises the graph. handle may be NULL. After a failure too, dnn_graph_free is due. */
capl_status dnn_graph_build(dnn_graph *g, const dnn_record *record, cudnnHandle_t handle);
void dnn_graph_free(dnn_graph *g);

/* CAPL_OK, or EDEVICE (EUNSUPPORTED where cuDNN says "not supported") with cuDNN's words. */
capl_status dnn_status(cudnnStatus_t status, const char *doing);
#define DNN_TRY(call, doing) CAPL_TRY(dnn_status((call), (doing)))

#endif
