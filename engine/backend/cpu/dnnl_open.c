/* dnnl.c -- the one place that knows oneDNN's API, versions 2 and 3.
**
** Version 3 made memory descriptors opaque and dropped operation descriptors; the block "versions"
** hides both. Plans sit in a hash table of limited size, oldest out first: images may have any number of widths.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/dnnl.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/parallel.h"
#include "base/assume.h"

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

static dnnl_engine_t engine;
static dnnl_stream_t stream;

/* ---- versions ---- */

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t md_own;
typedef const_dnnl_memory_desc_t md_ref;

static void md_free(md_own md)
{
  if (md) dnnl_memory_desc_destroy(md);
}

static dnnl_status_t md_strided(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type,
                                const int64_t *stride)
{
  return dnnl_memory_desc_create_with_strides(out, ndim, size, type, stride);
}

static dnnl_status_t md_any(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type)
{
  return dnnl_memory_desc_create_with_tag(out, ndim, size, type, dnnl_format_tag_any);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha)
{
  return dnnl_post_ops_append_eltwise(ops, alg, alpha, 0);
}

/* A layout as bytes; false: this version does not tell. */
static bool md_bytes(md_ref md, uint8_t *bytes, size_t *n)
{
#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MINOR >= 4
  size_t room = *n;
  return dnnl_memory_desc_get_blob(NULL, n, md) == dnnl_success && *n <= room
      && dnnl_memory_desc_get_blob(bytes, n, md) == dnnl_success;
#else
  (void)md, (void)bytes, (void)n;
  return false;
#endif
}

static dnnl_status_t conv_pd(const dn_spec *s, dnnl_alg_kind_t alg, const md_own *md, dnnl_primitive_desc_t hint,
                             const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  switch (s->kind) {
  case DN_CONV:
    return dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training, alg, md[DN_X], md[DN_W],
                                                          md[DN_B], md[DN_Y], s->stride, s->dilation, s->pad_low,
                                                          s->pad_high, attr);
  case DN_CONV_GRAD_X:
    return dnnl_convolution_backward_data_primitive_desc_create(out, engine, alg, md[DN_X], md[DN_W], md[DN_Y],
                                                                s->stride, s->dilation, s->pad_low, s->pad_high,
                                                                hint, attr);
  default:
    return dnnl_convolution_backward_weights_primitive_desc_create(out, engine, alg, md[DN_X], md[DN_W], md[DN_B],
                                                                   md[DN_Y], s->stride, s->dilation, s->pad_low,
                                                                   s->pad_high, hint, attr);
  }
}

static dnnl_status_t product_pd(const dn_spec *s, const md_own *md, dnnl_primitive_desc_t hint,
                                const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  switch (s->kind) {
  case DN_MATMUL: return dnnl_matmul_primitive_desc_create(out, engine, md[DN_X], md[DN_W], md[DN_B], md[DN_Y], attr);
  case DN_LINEAR:
    return dnnl_inner_product_forward_primitive_desc_create(out, engine, dnnl_forward_training, md[DN_X], md[DN_W],
                                                            md[DN_B], md[DN_Y], attr);
  case DN_LINEAR_GRAD_X:
    return dnnl_inner_product_backward_data_primitive_desc_create(out, engine, md[DN_X], md[DN_W], md[DN_Y], hint,
                                                                  attr);
  default:
    return dnnl_inner_product_backward_weights_primitive_desc_create(out, engine, md[DN_X], md[DN_W], md[DN_B],
                                                                     md[DN_Y], hint, attr);
  }
}

#else

typedef dnnl_memory_desc_t *md_own;
typedef const dnnl_memory_desc_t *md_ref;

static void md_free(md_own md)
{
  free(md);
}

static dnnl_status_t md_alloc(md_own *out)
{
  *out = calloc(1, sizeof **out);
  return *out ? dnnl_success : dnnl_out_of_memory;
}

static dnnl_status_t md_strided(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type,
                                const int64_t *stride)
{
  dnnl_status_t status = md_alloc(out);
  return status ? status : dnnl_memory_desc_init_by_strides(*out, ndim, size, type, stride);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha)
{
  return dnnl_post_ops_append_eltwise(ops, 1, alg, alpha, 0);
}

static bool md_bytes(md_ref md, uint8_t *bytes, size_t *n)
{
  if (*n < sizeof *md) return false;
  *n = sizeof *md;
  memcpy(bytes, md, *n);
  return true;
}

static dnnl_status_t md_any(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type)
{
  dnnl_status_t status = md_alloc(out);
  return status ? status : dnnl_memory_desc_init_by_tag(*out, ndim, size, type, dnnl_format_tag_any);
}

static dnnl_status_t conv_pd(const dn_spec *s, dnnl_alg_kind_t alg, const md_own *md, dnnl_primitive_desc_t hint,
                             const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  dnnl_convolution_desc_t desc;
  dnnl_status_t status;
  switch (s->kind) {
  case DN_CONV:
    status = dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_training, alg, md[DN_X], md[DN_W],
                                                        md[DN_B], md[DN_Y], s->stride, s->dilation, s->pad_low,
                                                        s->pad_high);
    break;
  case DN_CONV_GRAD_X:
    status = dnnl_dilated_convolution_backward_data_desc_init(&desc, alg, md[DN_X], md[DN_W], md[DN_Y], s->stride,
                                                              s->dilation, s->pad_low, s->pad_high);
    break;
  default:
    status = dnnl_dilated_convolution_backward_weights_desc_init(&desc, alg, md[DN_X], md[DN_W], md[DN_B], md[DN_Y],
                                                                 s->stride, s->dilation, s->pad_low, s->pad_high);
  }
  return status ? status : dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

static dnnl_status_t product_pd(const dn_spec *s, const md_own *md, dnnl_primitive_desc_t hint,
                                const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  dnnl_status_t status;
  if (s->kind == DN_MATMUL) {
    dnnl_matmul_desc_t desc;
    status = dnnl_matmul_desc_init(&desc, md[DN_X], md[DN_W], md[DN_B], md[DN_Y]);
    return status ? status : dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
  }
  dnnl_inner_product_desc_t desc;
  switch (s->kind) {
  case DN_LINEAR:
    status = dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_training, md[DN_X], md[DN_W], md[DN_B],
                                                  md[DN_Y]);
    break;
  case DN_LINEAR_GRAD_X:
    status = dnnl_inner_product_backward_data_desc_init(&desc, md[DN_X], md[DN_W], md[DN_Y]);
    break;
  default: status = dnnl_inner_product_backward_weights_desc_init(&desc, md[DN_X], md[DN_W], md[DN_B], md[DN_Y]);
  }
  return status ? status : dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

#endif

/* ---- plans ---- */

enum { BUCKETS = 256, NAME_LEN = 64 };

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
  char name[NAME_LEN];
};

static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;
static dn_plan *plans[BUCKETS];
static dn_plan_statistics statistics;
static int64_t plan_limit = DN_PLAN_LIMIT;
static int holders;

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

void dn_spec_init(dn_spec *spec, dn_kind kind)
{
  memset(spec, 0, sizeof *spec);
  spec->kind = (int32_t)kind;
  for (int i = 0; i < 2; i++) spec->stride[i] = 1;
}

void dn_layout_set(dn_layout *layout, capl_dtype dtype, int ndim, const int64_t *size, const int *order)
{
  layout->dtype = (int32_t)dtype;
  layout->ndim = ndim;
  int64_t step = 1;
  for (int i = ndim - 1; i >= 0; i--) {
    int dim = order ? order[i] : i;
    layout->size[dim] = size[dim];
    layout->stride[dim] = step;
    step *= size[dim];
  }
}

/* Descriptors of all arguments: as the caller has them; or, with_any, as the primitive may choose. */
static dnnl_status_t make_mds(const dn_spec *spec, bool with_any, md_own *md)
{
  for (int i = 0; i < DN_ARGS; i++) {
    const dn_layout *l = &spec->arg[i];
    if (!l->ndim) continue;
    bool any = with_any && (spec->any >> i & 1);
    dnnl_data_type_t type = with_any && spec->mode != DN_PLAIN ? dnnl_f32 : type_of(l);
    dnnl_status_t status = any ? md_any(&md[i], l->ndim, l->size, type)
                               : md_strided(&md[i], l->ndim, l->size, type, l->stride);
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
  status = append_eltwise(ops, alg, alpha);
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
    status = spec->kind <= DN_CONV_GRAD_W ? conv_pd(spec, alg, md, hint, attr, out)
                                          : product_pd(spec, md, hint, attr, out);
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
  for (int i = 0; i < DN_ARGS; i++) md_free(md[i]);
  return status;
}

static dnnl_status_t make_pd(const dn_spec *spec, dnnl_primitive_desc_t *out)
{
  dnnl_primitive_desc_t hint = NULL;
  md_own md[DN_ARGS] = {0};
  dnnl_status_t status = make_hint(spec, &hint);
  if (!status) status = make_mds(spec, true, md);
  if (!status) status = make_pd_for(spec, md, hint, out);
  for (int i = 0; i < DN_ARGS; i++) md_free(md[i]);
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
  uint64_t hash = md_bytes(md, bytes, &n) ? hash_of(bytes, n) : 0;
  return hash < KERNELS_OWN ? 0 : hash;
}

static capl_status plan_reorder(plan_arg *a)
{
  md_ref from = a->output ? a->inside : a->user, to = a->output ? a->user : a->inside;
  dnnl_primitive_desc_t pd;
  DNNL_TRY(dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL));
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

static void plan_free(dn_plan *plan)
{
  for (int i = 0; i < DN_ARGS; i++) {
    md_free(plan->arg[i].user);
    if (plan->arg[i].reorder) dnnl_primitive_destroy(plan->arg[i].reorder);
  }
  if (plan->primitive) dnnl_primitive_destroy(plan->primitive);
  if (plan->pd) dnnl_primitive_desc_destroy(plan->pd);
  free(plan);
}

static uint32_t spec_hash(const dn_spec *spec)
{
  uint64_t hash = 14695981039346656037u, word; /* FNV-1a, eight bytes at a time */
  for (size_t i = 0; i + sizeof word <= sizeof *spec; i += sizeof word) {
    memcpy(&word, (const char *)spec + i, sizeof word);
    hash = (hash ^ word) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return (uint32_t)(hash % BUCKETS);
}

static void alone_no_more(bool *alone) { (void)alone, cpu_parallel_alone(false); }

/* oneDNN asks libgomp for the calling thread's number of threads when it makes a primitive. */
static capl_status plan_make(dn_plan *plan)
{
  __attribute__((cleanup(alone_no_more))) bool alone = plan->spec.alone; /* a thrown exception ends it, too */
  cpu_parallel_alone(alone);
  return plan_fill(plan);
}

static capl_status find_locked(const dn_spec *spec, dn_plan **out)
{
  dn_plan **bucket = &plans[spec_hash(spec)];
  uint64_t now = statistics.hits + statistics.misses;
  for (dn_plan *p = *bucket; p; p = p->next)
    if (!memcmp(&p->spec, spec, sizeof *spec)) return statistics.hits++, p->used = now, *out = p, CAPL_OK;
  statistics.misses++;
  dn_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a oneDNN plan");
  plan->spec = *spec;
  plan->used = now;
  capl_status status = plan_make(plan);
  if (status != CAPL_OK) return plan_free(plan), status;
  plan->next = *bucket;
  *bucket = *out = plan;
  statistics.kept++;
  return CAPL_OK;
}

static void unlock(pthread_mutex_t **lock) { pthread_mutex_unlock(*lock); }

capl_status dn_find(const dn_spec *spec, const dn_plan **out)
{
  dn_plan *plan = NULL;
  pthread_mutex_lock(&plans_lock);
  __attribute__((cleanup(unlock), unused)) pthread_mutex_t *locked = &plans_lock; /* also where oneDNN throws */
  capl_status status = find_locked(spec, &plan);
  *out = plan && plan->primitive ? plan : NULL;
  return status;
}

const char *dn_plan_name(const dn_plan *plan)
{
  return plan->name;
}

dn_plan_statistics dn_plan_statistics_get(void)
{
  pthread_mutex_lock(&plans_lock);
  dn_plan_statistics now = statistics;
  pthread_mutex_unlock(&plans_lock);
  return now;
}

/* ---- how many plans are kept ---- */

/* Where the plan hangs that was not used for longest. There is one. */
static dn_plan **oldest(void)
{
  dn_plan **found = NULL;
  for (int b = 0; b < BUCKETS; b++)
    for (dn_plan **at = &plans[b]; *at; at = &(*at)->next)
      if (!found || (*at)->used < (*found)->used) found = at;
  return found;
}

static void drop_oldest(void)
{
  dn_plan **at = oldest(), *plan = *at;
  *at = plan->next;
  plan_free(plan);
  statistics.kept--;
}

static void keep_to_limit(void)
{
  while (holders == 0 && statistics.kept > plan_limit) drop_oldest();
}

void dn_plans_forget(void)
{
  pthread_mutex_lock(&plans_lock);
  while (holders == 0 && statistics.kept > 0) drop_oldest();
  pthread_mutex_unlock(&plans_lock);
}

void dn_hold(void)
{
  pthread_mutex_lock(&plans_lock);
  holders++;
  pthread_mutex_unlock(&plans_lock);
}

void dn_release(void)
{
  pthread_mutex_lock(&plans_lock);
  holders--;
  keep_to_limit();
  pthread_mutex_unlock(&plans_lock);
}

void dn_plan_limit_set(int64_t limit)
{
  pthread_mutex_lock(&plans_lock);
  plan_limit = limit < 1 ? 1 : limit;
  keep_to_limit();
  pthread_mutex_unlock(&plans_lock);
}

/* ---- running ---- */

static dnnl_status_t run_reorder(const plan_arg *a, void *user, void *inside)
{
  dnnl_memory_t m_user = NULL, m_inside = NULL;
  dnnl_status_t status = dnnl_memory_create(&m_user, a->user, engine, user);
  if (!status) status = dnnl_memory_create(&m_inside, a->inside, engine, inside);
  if (!status) {
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, a->output ? m_inside : m_user},
                               {DNNL_ARG_TO, a->output ? m_user : m_inside}};
    status = dnnl_primitive_execute(a->reorder, stream, 2, args);
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
    status = dnnl_memory_create(&args[n].memory, plan->arg[i].inside, engine, inside[i]);
    n += !status;
  }
  if (!status && plan->scratch_bytes) {
    args[n].arg = DNNL_ARG_SCRATCHPAD;
    status = dnnl_memory_create(&args[n].memory, plan->scratch, engine, scratch);
    n += !status;
  }
  if (!status) status = dnnl_primitive_execute(plan->primitive, stream, n, args);
  if (!status) status = dnnl_stream_wait(stream);
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

/* ---- opening ---- */

static bool has_bf16, has_amx, bf16_is_fast;

/* dnnl_get_effective_cpu_isa does not report emulated bf16; any AVX-512 runs it. */
static void ask_bf16(void)
{
#if defined(__x86_64__)
  has_bf16 = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
#else
  has_bf16 = false;
#endif
}

/* A processor that is assumed to be fast takes bf16 where such a one would, and multiplies as well as it can. */
static void ask_bf16_speed(void)
{
  int64_t native;
#if defined(__x86_64__)
  enum { AMX_BITS = dnnl_cpu_isa_avx512_core_amx & ~dnnl_cpu_isa_avx512_core_bf16 };
  __builtin_cpu_init();
  has_amx = (dnnl_get_effective_cpu_isa() & AMX_BITS) == AMX_BITS;
  bf16_is_fast = has_bf16 && (__builtin_cpu_is("amd") || has_amx);
#else
  bf16_is_fast = has_bf16;
#endif
  if (capl_assumed(CAPL_ASSUME_BF16, &native)) bf16_is_fast = native != 0;
}

capl_status dn_open(const char *isa)
{
#if defined(__x86_64__)
  if (!strcmp(isa, "avx2")) DNNL_TRY(dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2));
  if (!strcmp(isa, "portable")) DNNL_TRY(dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41));
#else
  (void)isa;
#endif
  DNNL_TRY(dnnl_set_primitive_cache_capacity(0)); /* it would keep what is dropped here */
  DNNL_TRY(dnnl_engine_create(&engine, dnnl_cpu, 0));
  DNNL_TRY(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
  ask_bf16();
  ask_bf16_speed();
  return CAPL_OK;
}

const char *dn_version(void)
{
  static char text[32];
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

bool dn_has_bf16(void)
{
  return has_bf16;
}

bool dn_bf16_is_fast(void)
{
  return bf16_is_fast;
}

bool dn_has_amx(void)
{
  return has_amx;
}
