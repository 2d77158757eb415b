/* call.c -- capl_op_call: from a name and some tensors to a finished, recorded op.
**
** The stations of a call, in order: arguments are counted, autocast casts them, the shape rule
** checks them and describes the outputs, inputs get the memory order the kernel relies on, a
** kernel is found (or a fused op expanded, or the fallback backend asked), outputs are allocated,
** the kernel runs, the tape remembers.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "ops/autocast.h"
#include "ops/run_kernel.h"
#include "ops/shadow.h"
#include "tape/tape.h"
#include "tensor/storage.h"
#include "tensor/watch.h"

/* How many inputs an op takes, read once from its .ins text. */
typedef struct {
  bool known, variadic;
  int most, least; /* least: required ones come first or are checked by mask */
  uint32_t optional;
} arity;

static arity arities[CAPL_OP_COUNT];

static const arity *arity_of(capl_op_id id, const capl_op *op)
{
  arity *a = &arities[id];
  if (__atomic_load_n(&a->known, __ATOMIC_ACQUIRE)) return a;
  arity fresh = {.known = false};
  for (const char *p = op->ins; p && *p;) {
    const char *end = strchr(p, ',');
    size_t n = end ? (size_t)(end - p) : strlen(p);
    if (n >= 3 && memcmp(p + n - 3, "...", 3) == 0) fresh.variadic = true;
    else if (memchr(p, '?', n)) fresh.optional |= 1u << fresh.most;
    else fresh.least = fresh.most + 1;
    fresh.most++;
    p = end ? end + 1 : NULL;
  }
  a->variadic = fresh.variadic; /* two threads may get here at once: both write the same */
  a->most = fresh.most;
  a->least = fresh.least;
  a->optional = fresh.optional;
  __atomic_store_n(&a->known, true, __ATOMIC_RELEASE);
  return a;
}

/* Name of input i out of "x, weight, bias?" into buf. */
static const char *input_name(const capl_op *op, int i, char *buf, size_t len)
{
  const char *p = op->ins;
  for (; i > 0 && p && (p = strchr(p, ',')); i--) p++;
  snprintf(buf, len, "input");
  if (!p) return buf;
  while (*p == ' ') p++;
  snprintf(buf, len, "%.*s", (int)strcspn(p, ",?&. "), p);
  return buf;
}

/* Puts "op: " before the message and the inputs below it. */
static capl_status annotate(const capl_op *op, capl_tensor *const *in, int n_in, capl_status status)
{
  capl_error e = *capl_error_last();
  size_t len = strlen(op->name);
  if (strncmp(e.message, op->name, len) != 0 || e.message[len] != ':') {
    capl_fail_at(e.file, e.line, e.code, "%s: %s", op->name, e.message);
    if (e.context[0]) capl_error_context("%s", e.context);
    if (e.hint[0]) capl_error_hint("%s", e.hint);
  }
  if (e.context[0]) return status;
  char line[1024] = "", name[64], text[160];
  size_t used = 0;
  for (int i = 0; i < n_in && i < 6 && used < sizeof line; i++) {
    if (!in[i]) continue;
    used += (size_t)snprintf(line + used, sizeof line - used, "%s%s %s", used ? "   " : "",
                             input_name(op, i, name, sizeof name), capl_tensor_describe(in[i], text, sizeof text));
  }
  if (used) capl_error_context("%s", line);
  return status;
}

static capl_status check_inputs(capl_op_id id, const capl_op *op, capl_tensor *const *in, int n_in,
                                capl_device **device)
{
  const arity *a = arity_of(id, op);
  if (n_in < a->least || (n_in > a->most && !a->variadic))
    return CAPL_FAIL(CAPL_EVALUE, "%s takes %s (%s), not %d inputs", op->name,
                     a->variadic ? "any number of tensors" : "other inputs", op->ins, n_in);
  *device = NULL;
  for (int i = 0; i < n_in; i++) {
    char name[64];
    if (!in[i]) {
      bool may = a->variadic || (i < 32 && (a->optional >> i & 1u));
      if (!may) return CAPL_FAIL(CAPL_EVALUE, "%s: %s is missing", op->name, input_name(op, i, name, sizeof name));
      continue;
    }
    if (!in[i]->storage)
      return CAPL_FAIL(CAPL_ESTATE, "%s: %s was released", op->name, input_name(op, i, name, sizeof name));
    if (!*device) *device = in[i]->device;
    if (in[i]->device != *device) {
      CAPL_FAIL(CAPL_EVALUE, "%s: %s is on %s, an earlier input on %s", op->name,
                input_name(op, i, name, sizeof name), in[i]->device->name, (*device)->name);
      capl_error_hint("move it with :to(\"%s\")", (*device)->name);
      return CAPL_EVALUE;
    }
  }
  if (!*device) return CAPL_FAIL(CAPL_EVALUE, "%s: no input tensor given", op->name);
  return CAPL_OK;
}

/* x with its dims in memory order order[0..ndim), slowest first, without gaps. */
static capl_status copy_in_order(capl_tensor *x, const int *order, capl_tensor **out)
{
  int64_t size[CAPL_MAX_NDIM], stride[CAPL_MAX_NDIM];
  for (int k = 0; k < x->ndim; k++) {
    size[k] = x->size[order[k]];
    stride[k] = x->stride[order[k]];
  }
  capl_tensor *turned, *copy = NULL;
  CAPL_TRY(capl_tensor_alias(x, x->ndim, size, stride, x->offset, &turned));
  capl_status status = capl_op_call(CAPL_OP_contiguous, &turned, 1, NULL, &copy);
  capl_tensor_unref(turned);
  if (status != CAPL_OK) return status;
  for (int k = 0; k < x->ndim; k++) stride[order[k]] = copy->stride[k];
  status = capl_tensor_alias(copy, x->ndim, x->size, stride, copy->offset, out);
  capl_tensor_unref(copy);
  capl_counter_add(CAPL_COUNT_layout_copies);
  return status;
}

/* Dims of t from slowest to fastest. */
static void memory_order(const capl_tensor *t, int *order)
{
  for (int d = 0; d < t->ndim; d++) {
    int k = d;
    for (; k > 0 && t->stride[order[k - 1]] < t->stride[d]; k--) order[k] = order[k - 1];
    order[k] = d;
  }
}

static const int row_order[CAPL_MAX_NDIM] = {0, 1, 2, 3, 4, 5};
static const int nhwc_order[4] = {0, 2, 3, 1};

/* A new reference to x, or to a copy in the order that layout asks for. first: the first input as it was
** laid out, x itself if it is that. */
static capl_status lay_out(capl_layout layout, capl_tensor *first, capl_tensor *x, capl_tensor **out)
{
  int order[CAPL_MAX_NDIM];
  *out = capl_tensor_ref(x);
  if (!x || layout == CAPL_LAYOUT_ANY) return CAPL_OK;
  const int *wanted = row_order;
  bool fits;
  if (layout == CAPL_LAYOUT_IMAGE && x->ndim == 4) {
    fits = capl_tensor_is_nhwc(x);
    wanted = nhwc_order;
  } else if (layout == CAPL_LAYOUT_DENSE) {
    bool like_first = first && capl_tensor_same_shape(x, first) && capl_tensor_is_dense(first);
    fits = capl_tensor_is_dense(x) && (!like_first || capl_tensor_same_layout(x, first));
    memory_order(like_first ? first : x, order);
    wanted = order;
  } else {
    fits = capl_tensor_is_row(x);
  }
  if (fits) return CAPL_OK;
  capl_tensor_unref(*out);
  *out = NULL;
  bool before = capl_grad_set_enabled(false);
  capl_status status = copy_in_order(x, wanted, out);
  capl_grad_set_enabled(before);
  return status;
}

static capl_status allocate(const capl_call *call, const capl_out_spec *spec, capl_tensor **out)
{
  const capl_tensor *like = spec->like;
  bool follow = like && like->ndim == spec->ndim && capl_tensor_is_dense(like);
  for (int d = 0; follow && d < spec->ndim; d++) follow = like->size[d] == spec->size[d];
  if (!follow) return capl_tensor_new(call->device, spec->dtype, spec->ndim, spec->size, spec->format, out);
  capl_tensor as_like = *like;
  as_like.dtype = spec->dtype;
  as_like.device = call->device;
  return capl_tensor_new_like(&as_like, out);
}

/* A fresh output that has a 4-d size-1 dim may satisfy several orders; nothing else to decide here. */
static capl_status allocate_outputs(const capl_call *call, const capl_out_spec *specs)
{
  for (int k = 0; k < call->op->n_out; k++) CAPL_TRY(allocate(call, &specs[k], &call->out[k]));
  return CAPL_OK;
}

static capl_status no_kernel(const capl_call *call)
{
  char have[256] = "";
  size_t used = 0;
  const capl_backend_facts *is;
  const char *why;
  for (int i = 0; (is = capl_backend_at(i)); i++) {
    const capl_backend *backend;
    if ((is->gpu && !capl_gpu_possible(&why)) || capl_backend_find(is->name, &backend) != CAPL_OK) continue;
    if (!capl_backend_kernel(backend, call->id)) continue;
    used += (size_t)snprintf(have + used, sizeof have - used, "%s%s", used ? ", " : "", is->name);
  }
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s has no %s kernel for these inputs; available: %s", call->op->name,
                   call->device->name, used ? have : "none");
}

/* The kernel for a call, and in *name the backend it belongs to. */
static const capl_kernel *find_kernel(const capl_call *call, const char **name)
{
  *name = call->device->name;
  const capl_kernel *k = device_kernel(call->device, call);
  if (k || call->op->expand) return k;
  const capl_device *fallback = device_fallback(call->device);
  if (!fallback) return NULL;
  *name = fallback->name;
  return device_kernel(fallback, call);
}

static void count_fallback(const capl_call *call)
{
  static bool logged[CAPL_OP_COUNT];
  capl_counter_add(CAPL_COUNT_ref_fallbacks);
  if (__atomic_exchange_n(&logged[call->id], true, __ATOMIC_RELAXED)) return;
  char text[160];
  capl_log("%s: no %s kernel for %s, the slow reference runs instead", call->op->name, call->device->name,
           call->in[0] ? capl_tensor_describe(call->in[0], text, sizeof text) : "these inputs");
}

static void count_features(const capl_call *call)
{
  if (call->op->expand) capl_counter_add(CAPL_COUNT_fused_ops);
}

/* Whether the kernel writes input i; of an optimizer step's groups the second is gradients, and behind them is a
** control. */
static bool is_written(const capl_call *call, int i)
{
  int groups = call->op->step_groups;
  if (!groups) return i < 32 && (call->op->mutates >> i & 1u);
  int n = call->n_in / groups;
  return i < groups * n && i / n != 1;
}

static void bump_versions(const capl_call *call)
{
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i] && is_written(call, i)) storage_written(call->in[i]->storage);
}

static void (*profiler)(void *user, const capl_profile_event *event);
static void *profiler_user;
static _Thread_local const char *layer;

void capl_profile_set(void (*callback)(void *user, const capl_profile_event *event), void *user)
{
  profiler = callback;
  profiler_user = user;
}

bool capl_profile_on(void)
{
  return profiler != NULL;
}

void capl_profile_label_set(const char *label)
{
  layer = label;
}

const char *capl_profile_label_get(void)
{
  return layer;
}

static capl_status run_profiled(const capl_kernel *k, const capl_call *call, const char *backend)
{
  double start = clock_now();
  CAPL_TRY(k->run(call));
  if (call->device->backend->sync) CAPL_TRY(call->device->backend->sync());
  capl_profile_event event = {.call = call, .label = layer, .backend = backend, .seconds = clock_now() - start};
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i]) event.bytes += (double)capl_tensor_bytes(call->in[i]);
  for (int o = 0; o < call->op->n_out; o++) event.bytes += (double)capl_tensor_bytes(call->out[o]);
  if (call->op->macs) event.macs = call->op->macs(call);
  profiler(profiler_user, &event);
  return CAPL_OK;
}

/* Laid-out inputs are ready and the outputs are allocated: arithmetic. */
static capl_status run_kernel(const capl_call *call, const capl_kernel *k, const char *backend)
{
  count_features(call);
  if (backend != call->device->name) count_fallback(call);
  shadows_hold(call);
  bump_versions(call);
  shadows_follow(call);
  capl_status status = profiler ? run_profiled(k, call, backend) : k->run(call);
  if (status != CAPL_OK) shadows_drop(call);
  return status;
}

capl_status op_call_into(capl_op_id id, capl_tensor *const *in, int n_in, const capl_attr *attr, capl_tensor **out)
{
  capl_tensor *none[CAPL_MAX_OUT] = {NULL}; /* outputs are not there while kernels say what they support */
  capl_call call = {.op = capl_op_get(id), .in = in, .n_in = n_in, .out = none, .attr = attr, .id = id,
                    .device = in[0]->device};
  if (!call.device->backend->arithmetic) return CAPL_OK;
  const char *backend;
  const capl_kernel *kernel = find_kernel(&call, &backend);
  if (!kernel) return no_kernel(&call);
  call.out = out;
  return run_kernel(&call, kernel, backend);
}

static void drop_outputs(const capl_call *call)
{
  for (int k = 0; k < call->op->n_out; k++) {
    capl_tensor_unref(call->out[k]);
    call->out[k] = NULL;
  }
}

static capl_status expand_call(const capl_call *call)
{
  capl_counter_add(CAPL_COUNT_expanded_ops);
  return call->op->expand(call);
}

/* Outputs that follow an input follow it as it was laid out for the kernel. */
static void follow_laid_out(const capl_call *call, capl_tensor *const *history, capl_out_spec *specs)
{
  for (int k = 0; k < call->op->n_out; k++)
    for (int i = 0; i < call->n_in && specs[k].like; i++)
      if (specs[k].like == history[i]) specs[k].like = call->in[i];
}

/* Inputs are cast; runs the op on them and records it. history: the inputs as the tape knows them. */
static capl_status execute(capl_call *call, capl_tensor **laid)
{
  const capl_op *op = call->op;
  capl_tensor *const *history = call->in;
  capl_out_spec specs[CAPL_MAX_OUT] = {{.ndim = 0}};
  bool arithmetic = call->device->backend->arithmetic;
  if (op->view) {
    CAPL_TRY(op->view(call));
    return tape_wants(op, history, call->n_in) ? tape_record(call, history) : CAPL_OK;
  }
  CAPL_TRY(op->shape(call, specs));
  for (int i = 0; i < call->n_in; i++)
    CAPL_TRY(lay_out(op->layout, i > 0 ? laid[0] : history[0], history[i], &laid[i]));
  call->in = laid;
  follow_laid_out(call, history, specs);
  const char *backend = NULL;
  const capl_kernel *kernel = arithmetic ? find_kernel(call, &backend) : NULL;
  if (arithmetic && !kernel && op->expand) {
    call->in = history;
    return expand_call(call);
  }
  if (arithmetic && !kernel) return no_kernel(call);
  if (backend == call->device->name && call->device->backend->reserve) call->device->backend->reserve(call, specs);
  CAPL_TRY(allocate_outputs(call, specs));
  if (arithmetic) CAPL_TRY(run_kernel(call, kernel, backend));
  return tape_wants(op, history, call->n_in) ? tape_record(call, history) : CAPL_OK;
}

/* Small calls keep their pointer arrays on the stack; optimizer steps take thousands of tensors. */
enum { FEW = 16 };

static void unref_all(capl_tensor **list, int n)
{
  for (int i = 0; i < n; i++) capl_tensor_unref(list[i]);
}

static capl_status call_with(capl_call *call, capl_tensor **cast, capl_tensor **laid)
{
  capl_tensor *const *given = call->in;
  capl_status status = autocast_inputs(call->op, given, call->n_in, cast);
  call->in = cast;
  if (status == CAPL_OK) status = execute(call, laid);
  if (status != CAPL_OK) {
    drop_outputs(call);
    status = annotate(call->op, given, call->n_in, status);
  }
  unref_all(laid, call->n_in);
  unref_all(cast, call->n_in);
  return status;
}

static capl_status call_with_lists(capl_call *call)
{
  if (call->n_in <= FEW) {
    capl_tensor *cast[FEW] = {NULL}, *laid[FEW] = {NULL};
    return call_with(call, cast, laid);
  }
  capl_tensor **lists = calloc(2 * (size_t)call->n_in, sizeof *lists);
  if (!lists) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %d inputs", call->op->name, call->n_in);
  capl_status status = call_with(call, lists, lists + call->n_in);
  free(lists);
  return status;
}

static void (*observer)(void *user, const capl_call *call);
static void *observer_user;
static _Thread_local int depth; /* calls made by calls (casts, copies, expansions) are not observed */
static _Thread_local bool paused;

void capl_observe_set(void (*callback)(void *user, const capl_call *call), void *user)
{
  observer = callback;
  observer_user = user;
}

bool capl_observe_pause(bool on)
{
  bool before = paused;
  paused = on;
  return before;
}

capl_status op_call_unread(capl_op_id id, capl_tensor *const *in, int n_in, const capl_attr *attr, uint32_t unread,
                           capl_tensor **out)
{
  const capl_op *op = capl_op_get(id);
  if (!op) return CAPL_FAIL(CAPL_EVALUE, "there is no op number %d", (int)id);
  capl_attr defaults[CAPL_MAX_ATTR];
  if (!attr) {
    capl_attr_defaults(op, defaults);
    attr = defaults;
  }
  capl_tensor *none[CAPL_MAX_OUT];
  if (!out) out = none;
  for (int k = 0; k < op->n_out; k++) out[k] = NULL;
  capl_call call = {.op = op, .in = in, .n_in = n_in, .out = out, .attr = attr, .id = id,
                    .unread = observer ? 0 : unread};
  CAPL_TRY(check_inputs(id, op, in, n_in, &call.device));
  if (depth == 0) CAPL_TRY(watch_call(&call));
  depth++;
  capl_status status = call_with_lists(&call);
  depth--;
  CAPL_TRY(status);
  if (observer && depth == 0 && !paused) {
    call.in = in;
    observer(observer_user, &call);
  }
  if (out == none) drop_outputs(&call); /* nobody asked for them */
  return CAPL_OK;
}

capl_status capl_op_call(capl_op_id id, capl_tensor *const *in, int n_in, const capl_attr *attr, capl_tensor **out)
{
  return op_call_unread(id, in, n_in, attr, 0, out);
}
