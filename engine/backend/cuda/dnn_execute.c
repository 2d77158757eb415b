/* dnn_execute.c -- a record's tensors as cuDNN takes them, and execution.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/dnn_execute.h"

enum { ALIGNMENT = 16 };

/* ---- what a plan is given -------------------------------------------------------------------------- */

static void add_slot(dnn_slots *s, dnn_slot one)
{
  one.at = one.origin;
  s->list[s->count++] = one;
}

static void add_role(dnn_slots *s, const dnn_record *record, const dnn_pointers *p, dnn_role role)
{
  dnn_tensor t = dnn_tensor_of(record, role);
  if (!t.used) return;
  size_t bytes = (size_t)(t.size[0] * t.size[1] * t.size[2] * t.size[3]) * capl_dtype_size(t.dtype);
  bool in_place = t.read && t.written;
  add_slot(s, (dnn_slot){.uid = role + 1, .origin = p->at[role], .bytes = bytes, .read = t.read,
                     .written = t.written && !in_place, .copied = in_place});
  if (!in_place) return;
  /* Running statistics: old and new ones are two tensors to cuDNN, which nowhere says that they may be one. */
  int64_t uid = role == DNN_RUNNING_MEAN ? DNN_UID_NEW_MEAN : DNN_UID_NEW_VAR;
  add_slot(s, (dnn_slot){.uid = uid, .origin = p->at[role], .bytes = bytes, .written = true});
}

static void list_slots(dnn_slots *s, capl_device *device, cudnnHandle_t handle, const dnn_record *record,
                       const dnn_pointers *p)
{
  *s = (dnn_slots){.device = device, .handle = handle};
  for (int role = 0; role < DNN_ROLES; role++) add_role(s, record, p, (dnn_role)role);
  if (record->kind != DNN_NORM) return;
  add_slot(s, (dnn_slot){.uid = DNN_UID_EPS, .origin = (void *)&p->eps});
  if (record->running) add_slot(s, (dnn_slot){.uid = DNN_UID_MOMENTUM, .origin = (void *)&p->momentum});
}

static capl_status move(void *to, const void *from, size_t bytes)
{
  return cu_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cu.stream), "aligning a tensor");
}

void dnn_release(dnn_slots *s)
{
  for (int i = 0; i < s->count; i++)
    if (s->list[i].at != s->list[i].origin) capl_scratch_put(s->device, s->list[i].at);
}

/* Scratch memory, filled, for what the plan cannot have as it is. */
static capl_status stage_slot(dnn_slots *s, dnn_slot *one)
{
  if (!one->bytes || (!one->copied && (uintptr_t)one->origin % ALIGNMENT == 0)) return CAPL_OK;
  void *scratch;
  CAPL_TRY(capl_scratch_get(s->device, one->bytes, &scratch));
  one->at = scratch;
  return one->read ? move(one->at, one->origin, one->bytes) : CAPL_OK;
}

capl_status dnn_stage(dnn_slots *s, capl_device *device, cudnnHandle_t handle, const dnn_record *record,
                      const dnn_pointers *p)
{
  list_slots(s, device, handle, record, p);
  for (int i = 0; i < s->count; i++) {
    capl_status status = stage_slot(s, &s->list[i]);
    if (status != CAPL_OK) {
      dnn_release(s);
      return status;
    }
  }
  return CAPL_OK;
}

capl_status dnn_unstage(dnn_slots *s)
{
  capl_status status = CAPL_OK;
  for (int i = 0; i < s->count && status == CAPL_OK; i++) {
    const dnn_slot *one = &s->list[i];
    if (one->written && one->at != one->origin) status = move(one->origin, one->at, one->bytes);
  }
  dnn_release(s);
  return status;
}

/* ---- execution ------------------------------------------------------------------------------------- */

static capl_status fill_pack(cudnnBackendDescriptor_t pack, const dnn_slots *s, void *workspace)
{
  void *pointers[DNN_SLOTS];
  int64_t uids[DNN_SLOTS];
  for (int i = 0; i < s->count; i++) {
    pointers[i] = s->list[i].at;
    uids[i] = s->list[i].uid;
  }
  DNN_TRY(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, s->count,
                                   pointers),
          "taking the tensors");
  DNN_TRY(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, s->count, uids),
          "taking the tensors");
  DNN_TRY(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace),
          "taking the workspace");
  return dnn_status(cudnnBackendFinalize(pack), "taking the tensors");
}

static capl_status execute_packed(const dnn_plan *plan, cudnnHandle_t handle, cudnnBackendDescriptor_t pack)
{
  cudnnStatus_t status = cudnnBackendExecute(handle, plan->plan, pack);
  if (status == CUDNN_STATUS_SUCCESS) return CAPL_OK;
  CU_TRY(cudaPeekAtLastError(), "running a plan of cuDNN"); /* says more, if the GPU is lost */
  return dnn_status(status, "running a plan");
}

static capl_status execute_with(const dnn_plan *plan, const dnn_slots *s, void *workspace)
{
  cudnnBackendDescriptor_t pack = NULL;
  DNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), "making a descriptor");
  capl_status status = fill_pack(pack, s, workspace);
  if (status == CAPL_OK) status = execute_packed(plan, s->handle, pack);
  cudnnBackendDestroyDescriptor(pack);
  return status;
}

capl_status dnn_execute(const dnn_plan *plan, const dnn_slots *s)
{
  void *workspace = NULL;
  if (plan->workspace > 0) CAPL_TRY(capl_scratch_get(s->device, (size_t)plan->workspace, &workspace));
  capl_status status = execute_with(plan, s, workspace);
  if (workspace) capl_scratch_put(s->device, workspace);
  return status;
}

