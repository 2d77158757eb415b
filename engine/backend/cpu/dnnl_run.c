/* dnnl_run.c -- runs a plan: reorders its arguments, executes the primitive, reorders the results back.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/dnnl_api.h"

static dnnl_status_t run_reorder(const plan_arg *a, void *user, void *inside)
{
  dnnl_memory_t m_user = NULL, m_inside = NULL;
  dnnl_status_t status = dnnl_memory_create(&m_user, a->user, dn_engine, user);
  if (!status) status = dnnl_memory_create(&m_inside, a->inside, dn_engine, inside);
  if (!status) {
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, a->output ? m_inside : m_user},
                               {DNNL_ARG_TO, a->output ? m_user : m_inside}};
    status = dnnl_primitive_execute(a->reorder, dn_stream, 2, args);
  }
  dnnl_memory_destroy(m_user);
  dnnl_memory_destroy(m_inside);
  return status;
}

static dnnl_status_t run_primitive(const dn_plan *plan, void *const inside[DN_ARGS], void *scratch)
{
  dnnl_exec_arg_t args[DN_ARGS + 1];
  int n = 0;
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < DN_ARGS && !status; i++) {
    if (!plan->arg[i].id) continue;
    args[n].arg = plan->arg[i].id;
    status = dnnl_memory_create(&args[n].memory, plan->arg[i].inside, dn_engine, inside[i]);
    n += !status;
  }
  if (!status && plan->scratch_bytes) {
    args[n].arg = DNNL_ARG_SCRATCHPAD;
    status = dnnl_memory_create(&args[n].memory, plan->scratch, dn_engine, scratch);
    n += !status;
  }
  if (!status) status = dnnl_primitive_execute(plan->primitive, dn_stream, n, args);
  if (!status) status = dnnl_stream_wait(dn_stream);
  while (n > 0) dnnl_memory_destroy(args[--n].memory);
  return status;
}

/* The frozen weights in the primitive's layout, made when they are not there yet. *out: NULL = they are not kept. */
static capl_status kept_weight(const plan_arg *a, const capl_tensor *weight, void *data, void **out)
{
  bool fresh;
  *out = NULL;
  if (!a->reorder || !a->form) return CAPL_OK;
  CAPL_TRY(capl_weight_form(weight, a->form, a->bytes, out, &fresh));
  if (!*out || !fresh) return CAPL_OK;
  DNNL_TRY(run_reorder(a, data, *out));
  capl_weight_form_filled(weight, a->form);
  return CAPL_OK;
}

static capl_status run_in(const dn_plan *plan, void *const data[DN_ARGS], const capl_tensor *weight, char *scratch)
{
  void *inside[DN_ARGS], *kept;
  char *next = scratch + plan->scratch_bytes;
  CAPL_TRY(kept_weight(&plan->arg[DN_W], weight, data[DN_W], &kept));
  for (int i = 0; i < DN_ARGS; i++) {
    const plan_arg *a = &plan->arg[i];
    inside[i] = i == DN_W && kept ? kept : data[i];
    if (!a->reorder || inside[i] == kept) continue;
    inside[i] = next;
    next += a->bytes;
    if (!a->output) DNNL_TRY(run_reorder(a, data[i], inside[i]));
  }
  DNNL_TRY(run_primitive(plan, inside, scratch));
  for (int i = 0; i < DN_ARGS; i++)
    if (plan->arg[i].reorder && plan->arg[i].output) DNNL_TRY(run_reorder(&plan->arg[i], data[i], inside[i]));
  return CAPL_OK;
}

capl_status dn_run(const dn_plan *plan, capl_device *device, void *const data[DN_ARGS], const capl_tensor *weight)
{
  void *scratch = NULL;
  if (plan->total_bytes) CAPL_TRY(capl_scratch_get(device, plan->total_bytes, &scratch));
  capl_status status = run_in(plan, data, weight, scratch);
  if (scratch) capl_scratch_put(device, scratch);
  return status;
}
