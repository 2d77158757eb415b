/* dnnl_plan.c -- makes the plan of a specification: primitive, scratch size, and reorders around it.
** SPDX-License-Identifier: Apache-2.0
*/
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/dnnl_api.h"
#include "backend/cpu/parallel.h"

static const int arg_ids[DN_KINDS][DN_ARGS] = {
  [DN_CONV] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
  [DN_CONV_GRAD_X] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, 0, DNNL_ARG_DIFF_DST},
  [DN_CONV_GRAD_W] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST},
  [DN_MATMUL] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
  [DN_LINEAR] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
  [DN_LINEAR_GRAD_X] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, 0, DNNL_ARG_DIFF_DST},
  [DN_LINEAR_GRAD_W] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST},
};

static const uint32_t output_bits[DN_KINDS] = {
  [DN_CONV] = DN_BIT_Y,   [DN_CONV_GRAD_X] = DN_BIT_X,   [DN_CONV_GRAD_W] = DN_BIT_W | DN_BIT_B,
  [DN_MATMUL] = DN_BIT_Y, [DN_LINEAR] = DN_BIT_Y,        [DN_LINEAR_GRAD_X] = DN_BIT_X,
  [DN_LINEAR_GRAD_W] = DN_BIT_W | DN_BIT_B,
};

static size_t round64(size_t bytes)
{
  return (bytes + 63) & ~(size_t)63;
}

static dnnl_data_type_t type_of(const dn_layout *layout)
{
  return layout->dtype == CAPL_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* Descriptors of all arguments: as the caller has them; or, with_any, as the primitive may choose. */
static dnnl_status_t make_mds(const dn_spec *spec, bool with_any, md_own *md)
{
  for (int i = 0; i < DN_ARGS; i++) {
    const dn_layout *l = &spec->arg[i];
    if (!l->ndim) continue;
    bool any = with_any && (spec->any >> i & 1);
    dnnl_data_type_t type = with_any && spec->mode != DN_PLAIN ? dnnl_f32 : type_of(l);
    dnnl_status_t status = any ? dn_md_any(&md[i], l->ndim, l->size, type)
                               : dn_md_strided(&md[i], l->ndim, l->size, type, l->stride);
    if (status) return status;
  }
  return dnnl_success;
}

static dnnl_status_t append_act(dnnl_primitive_attr_t attr, int32_t act)
{
  dnnl_post_ops_t ops;
  dnnl_alg_kind_t alg = act == DN_SILU ? dnnl_eltwise_swish : dnnl_eltwise_relu;
  float alpha = act == DN_SILU ? 1 : 0;
  if (act == DN_NO_ACT) return dnnl_success;
  dnnl_status_t status = dnnl_post_ops_create(&ops);
  if (status) return status;
  status = dn_append_eltwise(ops, alg, alpha);
  if (!status) status = dnnl_primitive_attr_set_post_ops(attr, ops);
  dnnl_post_ops_destroy(ops);
  return status;
}

static dnnl_status_t make_pd_for(const dn_spec *spec, const md_own *md, dnnl_primitive_desc_t hint,
                                 dnnl_primitive_desc_t *out)
{
  dnnl_primitive_attr_t attr;
  dnnl_status_t status = dnnl_primitive_attr_create(&attr);
  if (status) return status;
  dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  dnnl_alg_kind_t alg = spec->mode == DN_WINOGRAD ? dnnl_convolution_winograd : dnnl_convolution_direct;
  status = append_act(attr, spec->act);
  if (!status)
    status = spec->kind <= DN_CONV_GRAD_W ? dn_conv_pd(spec, alg, md, hint, attr, out)
                                          : dn_product_pd(spec, md, hint, attr, out);
  dnnl_primitive_attr_destroy(attr);
  return status;
}

/* Backward primitives need the forward one as a hint; its weights have the type of x. */
static dnnl_status_t make_hint(const dn_spec *spec, dnnl_primitive_desc_t *out)
{
  *out = NULL;
  if (spec->kind == DN_CONV || spec->kind == DN_MATMUL || spec->kind == DN_LINEAR) return dnnl_success;
  dn_spec forward = *spec;
  forward.kind = spec->kind <= DN_CONV_GRAD_W ? DN_CONV : DN_LINEAR;
  forward.arg[DN_B].ndim = 0;
  forward.arg[DN_W].dtype = forward.arg[DN_X].dtype = forward.arg[DN_Y].dtype;
  md_own md[DN_ARGS] = {0};
  dnnl_status_t status = make_mds(&forward, true, md);
  if (!status) status = make_pd_for(&forward, md, NULL, out);
  for (int i = 0; i < DN_ARGS; i++) dn_md_free(md[i]);
  return status;
}

static dnnl_status_t make_pd(const dn_spec *spec, dnnl_primitive_desc_t *out)
{
  dnnl_primitive_desc_t hint = NULL;
  md_own md[DN_ARGS] = {0};
  dnnl_status_t status = make_hint(spec, &hint);
  if (!status) status = make_mds(spec, true, md);
  if (!status) status = make_pd_for(spec, md, hint, out);
  for (int i = 0; i < DN_ARGS; i++) dn_md_free(md[i]);
  if (hint) dnnl_primitive_desc_destroy(hint);
  return status;
}

static uint64_t hash_of(const void *data, size_t n)
{
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (size_t i = 0; i < n; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 1099511628211u;
  return hash;
}

static uint64_t form_of(md_ref md)
{
  enum { KERNELS_OWN = 16, ROOM = 4096 }; /* cpu.h numbers the forms of own kernels */
  uint8_t bytes[ROOM];
  size_t n = sizeof bytes;
  uint64_t hash = dn_md_bytes(md, bytes, &n) ? hash_of(bytes, n) : 0;
  return hash < KERNELS_OWN ? 0 : hash;
}

static capl_status plan_reorder(plan_arg *a)
{
  md_ref from = a->output ? a->inside : a->user, to = a->output ? a->user : a->inside;
  dnnl_primitive_desc_t pd;
  DNNL_TRY(dnnl_reorder_primitive_desc_create(&pd, from, dn_engine, to, dn_engine, NULL));
  dnnl_status_t status = dnnl_primitive_create(&a->reorder, pd);
  dnnl_primitive_desc_destroy(pd);
  DNNL_TRY(status);
  a->bytes = round64(dnnl_memory_desc_get_size(a->inside));
  a->form = form_of(a->inside);
  return CAPL_OK;
}

static capl_status plan_args(dn_plan *plan)
{
  md_own md[DN_ARGS] = {0};
  DNNL_TRY(make_mds(&plan->spec, false, md));
  for (int i = 0; i < DN_ARGS; i++) {
    if (!md[i]) continue;
    plan_arg *a = &plan->arg[i];
    a->id = arg_ids[plan->spec.kind][i];
    a->output = output_bits[plan->spec.kind] >> i & 1;
    a->user = md[i];
    a->inside = dnnl_primitive_desc_query_md(plan->pd, dnnl_query_exec_arg_md, a->id);
    if (!dnnl_memory_desc_equal(a->user, a->inside)) CAPL_TRY(plan_reorder(a));
    plan->total_bytes += a->bytes;
  }
  return CAPL_OK;
}

/* Makes the primitive's descriptor and says its implementation's name. */
static dnnl_status_t plan_choose(dn_plan *plan, const dn_spec *spec)
{
  const char *name = "";
  dnnl_status_t status = make_pd(spec, &plan->pd);
  if (!status) status = dnnl_primitive_desc_query(plan->pd, dnnl_query_impl_info_str, 0, &name);
  snprintf(plan->name, sizeof plan->name, "%s", name);
  return status;
}

/* oneDNN's 1x1 kernels before AVX-512 gather what a stride leaves in vectors of 8 channels, also where there are fewer:
** they write past the end of their scratch memory (seen with 2.6.3, 4 channels, a stride of 2). */
static bool overruns(const dn_plan *plan)
{
  const dn_spec *s = &plan->spec;
  bool strided = s->stride[0] > 1 || s->stride[1] > 1;
  return s->kind <= DN_CONV_GRAD_W && strided && s->arg[DN_X].size[1] % 8 != 0 &&
         strncmp(plan->name, "jit_1x1:", 8) == 0 && !strstr(plan->name, "avx512");
}

/* Those kernels want weights in a layout of their own. */
static dnnl_status_t plan_choose_other(dn_plan *plan)
{
  dn_spec plain = plan->spec;
  plain.any &= ~(uint32_t)DN_BIT_W;
  dnnl_primitive_desc_destroy(plan->pd);
  plan->pd = NULL;
  return plan_choose(plan, &plain);
}

enum { CODE_ROOM = 8 << 20 }; /* bytes; more than the code of one primitive */

/* oneDNN 2.6 runs code that it could not place, which crashes: memory for it is looked for first. */
static capl_status check_code_room(void)
{
  void *p = mmap(NULL, CODE_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return CAPL_FAIL(CAPL_ENOMEM, "no memory for oneDNN's code: %s", strerror(errno));
  munmap(p, CODE_ROOM);
  return CAPL_OK;
}

static capl_status plan_fill(dn_plan *plan)
{
  CAPL_TRY(check_code_room());
  dnnl_status_t status = plan_choose(plan, &plan->spec);
  if (!status && overruns(plan)) status = plan_choose_other(plan);
  if (status == dnnl_unimplemented || status == dnnl_invalid_arguments) return CAPL_OK;
  DNNL_TRY(status);
  plan->scratch = dnnl_primitive_desc_query_md(plan->pd, dnnl_query_scratchpad_md, 0);
  plan->scratch_bytes = round64(dnnl_memory_desc_get_size(plan->scratch));
  plan->total_bytes = plan->scratch_bytes;
  CAPL_TRY(plan_args(plan));
  DNNL_TRY(dnnl_primitive_create(&plan->primitive, plan->pd));
  return CAPL_OK;
}

void dn_plan_free(dn_plan *plan)
{
  for (int i = 0; i < DN_ARGS; i++) {
    dn_md_free(plan->arg[i].user);
    if (plan->arg[i].reorder) dnnl_primitive_destroy(plan->arg[i].reorder);
  }
  if (plan->primitive) dnnl_primitive_destroy(plan->primitive);
  if (plan->pd) dnnl_primitive_desc_destroy(plan->pd);
  free(plan);
}

static void alone_no_more(bool *alone) { (void)alone, cpu_parallel_alone(false); }

/* oneDNN asks libgomp for the calling thread's number of threads when it makes a primitive. */
capl_status dn_plan_make(dn_plan *plan)
{
  __attribute__((cleanup(alone_no_more))) bool alone = plan->spec.alone; /* a thrown exception ends it, too */
  cpu_parallel_alone(alone);
  return plan_fill(plan);
}
