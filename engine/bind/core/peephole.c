/* peephole.c -- core.normalize: a batch norm that waits for the next op, and runs as bn_act when that is its relu or
** silu.
**
** nn.BatchNorm2d and nn.BatchNorm1d call it, so that self.relu(self.bn1(x)) in a forward() of the user's own is fused
** like BatchNorm and ReLU in an nn.Sequential. One handle waits at most. Whatever looks at any tensor before the
** activation does (bind_to_handle) has the batch norm run first. After a fused op the handle of the batch norm has no
** tensor: who kept it, and reads it, gets it computed again from the same input, without counting the batch twice.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <stdlib.h>
#include <string.h>

#include "ops/attrs.h"
#include "tensor/storage.h"

enum { INPUTS = NORM_RUNNING_VAR + 1, OUTPUTS = NORM_INVSTD + 1 };

/* A batch norm that has not been run, or whose result nobody has. */
struct bind_later {
  capl_tensor *in[INPUTS];
  uint64_t version[INPUTS]; /* of their storages: others would give another result */
  capl_attr attr[CAPL_MAX_ATTR];
  capl_dtype low; /* autocast and recording, as where it was called */
  bool grad;
};

static capl_handle *waiting;

bool bind_is_waiting(void) { return waiting != NULL; }

/* ---- what is noted ---------------------------------------------------------------------------- */

static void note_versions(struct bind_later *later)
{
  for (int i = 0; i < INPUTS; i++) later->version[i] = later->in[i]->storage->version;
}

/* In training the running statistics are written, not read. */
static bool is_stale(const struct bind_later *later)
{
  int n = later->attr[NORM_TRAINING].i ? NORM_RUNNING_MEAN : INPUTS;
  for (int i = 0; i < n; i++)
    if (later->version[i] != later->in[i]->storage->version) return true;
  return false;
}

static void later_free(struct bind_later *later)
{
  for (int i = 0; i < INPUTS; i++) capl_tensor_unref(later->in[i]);
  free(later);
}

/* ---- running it ------------------------------------------------------------------------------- */

/* id: batch_norm or bn_act, which has one attribute more, act. counted: the running statistics have the batch. */
static capl_status run(const struct bind_later *later, capl_op_id id, int act, bool counted, capl_tensor **y)
{
  capl_tensor *in[INPUTS], *out[OUTPUTS];
  capl_attr attr[CAPL_MAX_ATTR];
  capl_attr_defaults(capl_op_get(id), attr);
  memcpy(attr, later->attr, sizeof *attr * (NORM_TRAINING + 1));
  if (id == CAPL_OP_bn_act) attr[NORM_ACT].i = act;
  memcpy(in, later->in, sizeof in);
  if (counted && attr[NORM_TRAINING].i) in[NORM_RUNNING_MEAN] = in[NORM_RUNNING_VAR] = NULL;
  capl_dtype low = capl_autocast_set(later->low);
  bool grad = capl_grad_set_enabled(later->grad);
  capl_status status = capl_op_call(id, in, INPUTS, attr, out);
  capl_grad_set_enabled(grad);
  capl_autocast_set(low);
  CAPL_TRY(status);
  *y = out[NORM_Y];
  capl_tensor_unref(out[NORM_MEAN]);
  capl_tensor_unref(out[NORM_INVSTD]);
  return CAPL_OK;
}

/* The batch norm of h, now: its handle has a tensor afterwards, or is as if released. */
static capl_status settle(capl_handle *h)
{
  struct bind_later *later = h->later;
  bool counted = waiting != h;
  capl_status status = CAPL_OK;
  h->later = NULL;
  if (!counted) waiting = NULL;
  if (is_stale(later)) {
    status = CAPL_FAIL(CAPL_ESTATE, "a batch norm was fused with the activation behind it, and its input or weights have "
                       "changed since: its own result cannot be had any more");
    capl_error_hint("read it before the weights change, or call capl.fuse(false) on top of the recipe");
  } else {
    status = run(later, CAPL_OP_batch_norm, 0, counted, &h->t);
  }
  later_free(later);
  return status;
}

void bind_settle(lua_State *L, capl_handle *h)
{
  if (waiting) bind_check(L, settle(waiting), NULL);
  if (h && h->later) bind_check(L, settle(h), NULL);
}

/* Without memory the running statistics lack a batch whose result nobody wanted; a finalizer cannot raise. */
void bind_later_drop(capl_handle *h)
{
  if (waiting == h && h->later->attr[NORM_TRAINING].i) {
    (void)settle(h);
    capl_tensor_unref(h->t);
    h->t = NULL;
    return;
  }
  if (waiting == h) waiting = NULL;
  later_free(h->later);
  h->later = NULL;
}

/* Whether the value at i is nil, or a table with nothing in it. */
static bool no_options(lua_State *L, int i)
{
  if (lua_gettop(L) < i) return true;
  if (lua_gettop(L) > i || !lua_istable(L, i)) return false;
  lua_pushnil(L);
  if (!lua_next(L, i)) return true;
  lua_pop(L, 2);
  return false;
}

bool bind_peephole(lua_State *L, capl_op_id id)
{
  capl_handle *h = waiting;
  if (!h || (id != CAPL_OP_relu && id != CAPL_OP_silu)) return false;
  if (luaL_testudata(L, 1, TENSOR_TYPE) != h || !no_options(L, 2)) return false;
  if (h->later->low != capl_autocast_get() || h->later->grad != capl_grad_enabled() || is_stale(h->later)) return false;
  capl_tensor *y;
  bind_use(L);
  waiting = NULL;
  bind_check(L, run(h->later, CAPL_OP_bn_act, id == CAPL_OP_silu ? NORM_SILU : NORM_RELU, false, &y), "bn_act");
  note_versions(h->later);
  bind_push_tensor(L, y);
  return true;
}

/* ---- core.normalize --------------------------------------------------------------------------- */

/* Whether the call is right; what is wrong with it is said where it is run. */
static bool is_sound(const struct bind_later *later)
{
  const capl_op *op = capl_op_get(CAPL_OP_batch_norm);
  capl_out_spec specs[CAPL_MAX_OUT] = {{.ndim = 0}};
  capl_call call = {.op = op, .in = later->in, .n_in = INPUTS, .attr = later->attr, .id = CAPL_OP_batch_norm,
                    .device = later->in[NORM_X]->device};
  for (int i = 0; i < INPUTS; i++)
    if (!later->in[i]->storage || later->in[i]->device != call.device) return false;
  return op->shape(&call, specs) == CAPL_OK;
}

static void read_number(lua_State *L, struct bind_later *later, const char *name, int i)
{
  double value = lua_isboolean(L, i) ? lua_toboolean(L, i) : bind_check_number(L, i);
  bind_check(L, capl_attr_set(capl_op_get(CAPL_OP_batch_norm), later->attr, name, 1, &value), "batch_norm");
}

/* core.normalize(x, weight, bias, running_mean, running_var, eps, momentum, training) -> y of batch_norm */
static int core_normalize(lua_State *L)
{
  struct bind_later given = {.low = capl_autocast_get(), .grad = capl_grad_enabled()};
  for (int i = 0; i < INPUTS; i++) given.in[i] = bind_check_tensor(L, i + 1);
  capl_attr_defaults(capl_op_get(CAPL_OP_batch_norm), given.attr);
  read_number(L, &given, "eps", INPUTS + 1);
  read_number(L, &given, "momentum", INPUTS + 2);
  read_number(L, &given, "training", INPUTS + 3);
  bind_use(L);
  bind_fuse_check(L, capl_op_get(CAPL_OP_batch_norm), given.in, INPUTS);
  bind_push_tensor(L, NULL);
  capl_handle *h = luaL_testudata(L, -1, TENSOR_TYPE);
  struct bind_later *later = is_sound(&given) ? malloc(sizeof *later) : NULL;
  if (!later) {
    bind_check(L, run(&given, CAPL_OP_batch_norm, 0, false, &h->t), "batch_norm");
    return 1;
  }
  *later = given;
  note_versions(later);
  for (int i = 0; i < INPUTS; i++) capl_tensor_ref(later->in[i]);
  h->later = later;
  waiting = h;
  return 1;
}

void bind_open_peephole(lua_State *L)
{
  lua_pushcfunction(L, core_normalize);
  lua_setfield(L, -2, "normalize");
}
