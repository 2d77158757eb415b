/* dnnl.h -- oneDNN behind three types: a specification, the plan made from it, and running the plan.
**
** Kernels describe what they want in plain layouts (dn_spec); dn_find looks the plan up or makes it
** (primitive, scratch size, and reorders for those arguments whose layout the implementation may
** choose). Only the files dnnl*.c include oneDNN's headers (dnnl_api.h); they serve versions 2 and 3.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_DNNL_H
#define CAPL_CPU_DNNL_H

#include "capl/backend.h"

typedef enum {
  DN_CONV,
  DN_CONV_GRAD_X,
  DN_CONV_GRAD_W,
  DN_MATMUL,
  DN_LINEAR,
  DN_LINEAR_GRAD_X,
  DN_LINEAR_GRAD_W,
  DN_KINDS
} dn_kind;

/* Arguments by role; in gradient kinds the gradient stands in the place of its tensor. */
enum { DN_X, DN_W, DN_B, DN_Y, DN_ARGS };

enum { DN_BIT_X = 1 << DN_X, DN_BIT_W = 1 << DN_W, DN_BIT_B = 1 << DN_B, DN_BIT_Y = 1 << DN_Y };

enum { DN_MAX_DIMS = 12 };

/* Sizes and strides in oneDNN's order of dims (N,C,H,W; O,I,kH,kW or G,O,I,kH,kW). ndim 0: absent. */
typedef struct {
  int32_t dtype; /* CAPL_F32 or CAPL_BF16 */
  int32_t ndim;
  int64_t size[DN_MAX_DIMS]; /* as long as oneDNN's functions declare it */
  int64_t stride[DN_MAX_DIMS];
} dn_layout;

typedef enum {
  DN_PLAIN,    /* computes in the dtypes of its arguments */
  DN_WIDE,     /* computes in f32, reorders convert bf16 arguments */
  DN_WINOGRAD, /* likewise, by Winograd or not at all: oneDNN's own choice leaves it out below 16 images */
} dn_mode;

/* What follows the sums of DN_CONV and DN_LINEAR. */
typedef enum { DN_NO_ACT, DN_RELU, DN_SILU } dn_act;

/* Everything that decides what a primitive is. Compared byte by byte: start from dn_spec_init. */
typedef struct {
  int32_t kind;
  uint32_t any;     /* bit per argument: the implementation chooses its layout, reorders are added */
  int32_t mode;     /* dn_mode */
  int32_t act;      /* dn_act */
  int32_t alone;    /* 1: made for one thread, to be run by several threads on parts of a batch */
  int32_t order;    /* product_order, of product.c; 0 in plans */
  dn_layout arg[DN_ARGS];
  /* convolutions: two numbers each */
  int64_t stride[DN_MAX_DIMS], dilation[DN_MAX_DIMS], pad_low[DN_MAX_DIMS], pad_high[DN_MAX_DIMS];
} dn_spec;

typedef struct dn_plan dn_plan;

void dn_spec_init(dn_spec *spec, dn_kind kind);
/* size in oneDNN's order; order lists the dims from outermost to innermost in memory. */
void dn_layout_set(dn_layout *layout, capl_dtype dtype, int ndim, const int64_t *size, const int *order);

/* Plans are kept for the next call, the limit's number of them: beyond it those that were not used for longest are
** freed, but only while nobody holds plans. Every thread that finds plans, or has others run them, holds them
** meanwhile. */
void dn_hold(void);
void dn_release(void);
/* The plan for spec, for as long as plans are held. *out is NULL when oneDNN has no implementation. */
capl_status dn_find(const dn_spec *spec, const dn_plan **out);
/* Name of the implementation, e.g. "brgconv:avx512_core_bf16". */
const char *dn_plan_name(const dn_plan *plan);
/* Runs a plan; data[i] is NULL exactly where the argument is absent. weight: the tensor of data[DN_W], whose reordered
** form is kept where it is frozen; NULL: it is made for the call. */
capl_status dn_run(const dn_plan *plan, capl_device *device, void *const data[DN_ARGS], const capl_tensor *weight);

/* Creates engine and stream; isa: "avx512", "avx2" or "portable" limits what oneDNN may use. */
capl_status dn_open(const char *isa);
/* "2.6.3" */
const char *dn_version(void);
bool dn_has_bf16(void);
/* Whether this processor multiplies bf16 faster than f32: AMD, and Intel with AMX. Intel's AVX-512
** alone does not (measured on a Xeon model 207: 90 GF/s per core in bf16, 160 in f32). CAPL_ASSUME may say
** otherwise. */
bool dn_bf16_is_fast(void);
/* Whether oneDNN may multiply bf16 by matrix units. */
bool dn_has_amx(void);

/* Of all plans so far; kept: plans in memory now. */
typedef struct {
  uint64_t hits, misses;
  int64_t kept;
} dn_plan_statistics;
dn_plan_statistics dn_plan_statistics_get(void);
/* Drops all of them, unless somebody holds them. */
void dn_plans_forget(void);
/* Sets the limit, DN_PLAN_LIMIT at first; at least 1. A plan takes some 60 kB, mostly generated code, and a
** millisecond to make; a network has some dozens for each size of its images. */
enum { DN_PLAN_LIMIT = 1024 };
void dn_plan_limit_set(int64_t limit);

#endif
