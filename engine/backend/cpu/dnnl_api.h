/* dnnl_api.h -- oneDNN's own types and what a plan is made of: for the files dnnl*.c only.
**
** Version 3 made memory descriptors opaque and dropped operation descriptors; dnnl_version.c hides both.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_DNNL_API_H
#define CAPL_CPU_DNNL_API_H

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

#include "backend/cpu/dnnl.h"

#define STATUS_NAME(status) \
  ((status) == dnnl_out_of_memory ? "out of memory" : (status) == dnnl_invalid_arguments ? "invalid arguments" \
   : (status) == dnnl_unimplemented ? "unimplemented" : (status) == dnnl_runtime_error ? "runtime error" : "failed")

#define DNNL_TRY(expr)                                                                              \
  do {                                                                                              \
    dnnl_status_t dnnl_status_ = (expr);                                                            \
    if (dnnl_status_ != dnnl_success)                                                               \
      return CAPL_FAIL(dnnl_status_ == dnnl_out_of_memory ? CAPL_ENOMEM : CAPL_EINTERNAL,           \
                       "oneDNN: %s (%d) in %s", STATUS_NAME(dnnl_status_), (int)dnnl_status_, #expr); \
  } while (0)

/* Of the process, made by dn_open. */
extern dnnl_engine_t dn_engine;
extern dnnl_stream_t dn_stream;

/* ---- versions 2 and 3 (dnnl_version.c) ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t md_own;
typedef const_dnnl_memory_desc_t md_ref;
#else
typedef dnnl_memory_desc_t *md_own;
typedef const dnnl_memory_desc_t *md_ref;
#endif

void dn_md_free(md_own md);
dnnl_status_t dn_md_strided(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type, const int64_t *stride);
/* A layout that the primitive may choose. */
dnnl_status_t dn_md_any(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type);
/* A layout as bytes, of which there is room for *n; false: this version does not tell. */
bool dn_md_bytes(md_ref md, uint8_t *bytes, size_t *n);
dnnl_status_t dn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha);
/* The descriptor of a convolution, and of a matmul or linear layer. hint: the forward one, of gradients. */
dnnl_status_t dn_conv_pd(const dn_spec *s, dnnl_alg_kind_t alg, const md_own *md, dnnl_primitive_desc_t hint,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out);
dnnl_status_t dn_product_pd(const dn_spec *s, const md_own *md, dnnl_primitive_desc_t hint,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out);

/* ---- plans (dnnl_plan.c) ---- */

enum { DN_NAME = 64 };

typedef struct {
  int id;          /* DNNL_ARG_...; 0 = absent */
  bool output;
  md_own user;     /* layout of the caller's memory */
  md_ref inside;   /* layout the primitive wants, owned by the primitive's descriptor */
  size_t bytes;    /* of a buffer in that layout; 0 = the caller's memory is used */
  uint64_t form;   /* that layout as a key of capl_weight_form; 0 = unknown */
  dnnl_primitive_t reorder;
} plan_arg;

struct dn_plan {
  dn_spec spec;
  struct dn_plan *next;
  uint64_t used; /* when it was found last, counted in calls of dn_find */
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t primitive; /* NULL: oneDNN has no implementation */
  plan_arg arg[DN_ARGS];
  md_ref scratch;
  size_t scratch_bytes, total_bytes;
  char name[DN_NAME];
};

/* Fills a plan whose spec is set. .primitive stays NULL where oneDNN has no implementation. */
capl_status dn_plan_make(dn_plan *plan);
void dn_plan_free(dn_plan *plan);

#endif
