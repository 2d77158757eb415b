/* backward.c -- walks the recorded calls backwards and sums gradients into the leaves.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "ops/attrs.h"
#include "tape/deferred.h"
#include "tape/tape.h"
#include "tensor/storage.h"

typedef struct {
  capl_node **items;
  size_t count, room;
} node_list;

/* Adds a node once; done marks membership until the walk, which clears it. */
static capl_status add_node(node_list *list, capl_node *node)
{
  if (!node || node->done) return CAPL_OK;
  if (list->count == list->room) {
    size_t room = list->room ? 2 * list->room : 256;
    capl_node **items = realloc(list->items, room * sizeof *items);
    if (!items) return CAPL_FAIL(CAPL_ENOMEM, "no memory to sort %zu recorded calls", list->count);
    list->items = items;
    list->room = room;
  }
  node->done = true;
  node->refs++;
  list->items[list->count++] = node;
  return CAPL_OK;
}

static capl_status collect(node_list *list, capl_node *root)
{
  CAPL_TRY(add_node(list, root));
  for (size_t k = 0; k < list->count; k++) {
    capl_node *node = list->items[k];
    for (int i = 0; i < node->n_in; i++) CAPL_TRY(add_node(list, node->edges[i].node));
  }
  return CAPL_OK;
}

static int newest_first(const void *a, const void *b)
{
  uint64_t x = (*(capl_node *const *)a)->sequence, y = (*(capl_node *const *)b)->sequence;
  return x < y ? 1 : x > y ? -1 : 0;
}

static capl_status sum_of(capl_tensor *a, capl_tensor *b, capl_tensor **out)
{
  CAPL_TRY(deferred_settle(a));
  CAPL_TRY(deferred_settle(b));
  return capl_op_call(CAPL_OP_add, (capl_tensor *[]){a, b}, 2, NULL, out);
}

static capl_status to_dtype(capl_tensor *t, capl_dtype dtype, capl_tensor **out)
{
  if (t->dtype == dtype) return *out = capl_tensor_ref(t), CAPL_OK;
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(dtype)};
  return capl_op_call(CAPL_OP_cast, &t, 1, attr, out);
}

/* The cast of a weight: gradients of a 16-bit product may come in 16 bits, but are summed in f32. */
static bool is_leaf_cast(const capl_node *node)
{
  return node->op == capl_op_get(CAPL_OP_cast) && node->edges[0].leaf;
}

/* The gradient of an output of node += dx. Out of place: dx may be shared with another input. */
static capl_status accumulate(capl_node *node, int output, capl_tensor *dx)
{
  capl_tensor **total = &node->dy[output], *wide, *sum;
  if (!*total) {
    *total = capl_tensor_ref(dx);
    return CAPL_OK;
  }
  capl_dtype dtype = (*total)->dtype;
  if (is_leaf_cast(node) && dtype != CAPL_F64) dtype = CAPL_F32;
  CAPL_TRY(deferred_settle(*total));
  CAPL_TRY(to_dtype(*total, dtype, &wide));
  capl_status status = sum_of(wide, dx, &sum);
  capl_tensor_unref(wide);
  CAPL_TRY(status);
  capl_tensor_unref(*total);
  *total = sum;
  return CAPL_OK;
}

/* Room for a leaf's gradient: in the leaf's memory order, but of a 16-bit leaf, which has an f32 one. */
static capl_status new_gradient(const capl_tensor *leaf, capl_dtype dtype, capl_tensor **out)
{
  if (leaf->dtype == dtype) return capl_tensor_new_like(leaf, out);
  return capl_tensor_new(leaf->device, dtype, leaf->ndim, leaf->size, CAPL_AUTO, out);
}

/* A gradient the leaf can keep: in the leaf's memory order, and nobody else's. */
static capl_status own_gradient(capl_tensor *leaf, capl_tensor *g, capl_tensor **out)
{
  bool exclusive = g->storage && g->storage->refs == 1 && g->refs <= 2;
  if (exclusive && capl_tensor_same_layout(g, leaf)) return *out = capl_tensor_ref(g), CAPL_OK;
  capl_tensor *copy;
  CAPL_TRY(new_gradient(leaf, g->dtype, &copy));
  capl_status status = capl_tensor_copy(copy, g);
  if (status != CAPL_OK) return capl_tensor_unref(copy), status;
  *out = copy;
  return CAPL_OK;
}

/* dx into the leaf's place among others: += where it has a gradient, which may have come from elsewhere. */
static capl_status give_slot(capl_tensor *leaf, capl_tensor *dx)
{
  capl_tensor *home = leaf->slot->home, *g, *sum;
  leaf->slot->fresh = true;
  CAPL_TRY(deferred_settle(dx));
  if (leaf->grad) {
    CAPL_TRY(to_dtype(dx, home->dtype, &g));
    capl_status status = sum_of(leaf->grad, g, &sum);
    capl_tensor_unref(g);
    CAPL_TRY(status);
    status = capl_tensor_copy(home, sum);
    capl_tensor_unref(sum);
    CAPL_TRY(status);
  } else {
    CAPL_TRY(capl_tensor_copy(home, dx));
  }
  capl_tensor_unref(leaf->grad);
  leaf->grad = capl_tensor_ref(home);
  return CAPL_OK;
}

/* The leaf's first gradient where it only has to be made f32, or is zeros: its values come at the end. */
static capl_status give_later(capl_tensor *leaf, capl_tensor *dx)
{
  if (deferred_has(dx)) return leaf->grad = capl_tensor_ref(dx), CAPL_OK;
  capl_tensor *g;
  CAPL_TRY(new_gradient(leaf, CAPL_F32, &g));
  capl_status status = deferred_copy(g, dx);
  if (status == CAPL_OK) leaf->grad = g;
  else capl_tensor_unref(g);
  return status;
}

static capl_status give_leaf(capl_tensor *leaf, capl_tensor *dx)
{
  if (!capl_tensor_same_shape(leaf, dx)) {
    char a[160], b[160];
    return CAPL_FAIL(CAPL_EINTERNAL, "gradient %s does not fit its leaf %s",
                     capl_tensor_describe(dx, a, sizeof a), capl_tensor_describe(leaf, b, sizeof b));
  }
  if (leaf->slot) return give_slot(leaf, dx);
  bool later = capl_dtype_is_16_bit(dx->dtype) || deferred_has(dx);
  if (!leaf->grad && leaf->dtype != CAPL_F64 && later) return give_later(leaf, dx);
  capl_tensor *g, *sum;
  CAPL_TRY(deferred_settle(dx));
  CAPL_TRY(to_dtype(dx, leaf->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32, &g));
  capl_status status = leaf->grad ? sum_of(leaf->grad, g, &sum) : own_gradient(leaf, g, &sum);
  capl_tensor_unref(g);
  if (status != CAPL_OK) return status;
  capl_tensor_unref(leaf->grad);
  leaf->grad = sum;
  return CAPL_OK;
}

static capl_status distribute(capl_node *node, capl_tensor **dx)
{
  capl_status status = CAPL_OK;
  for (int i = 0; i < node->n_in; i++) {
    capl_edge *edge = &node->edges[i];
    if (status == CAPL_OK && dx[i] && edge->node) status = accumulate(edge->node, edge->output, dx[i]);
    if (status == CAPL_OK && dx[i] && edge->leaf) status = give_leaf(edge->leaf, dx[i]);
    capl_tensor_unref(dx[i]);
  }
  return status;
}

static capl_status check_versions(const capl_node *node)
{
  for (int i = 0; i < node->n_in; i++) {
    const capl_tensor *t = node->in[i];
    if (t && t->storage && t->storage->version != node->in_version[i])
      return CAPL_FAIL(CAPL_ESTATE, "backward of %s: its input %d was changed in place after the forward pass",
                       node->op->name, i + 1);
  }
  return CAPL_OK;
}

/* Casts, views and segments hand on what they get: the f32 gradient of a weight keeps its bits on the way to the
** weight. */
static bool takes_any_dtype(const capl_node *node)
{
  return node->segment || node->op->view || node->op == capl_op_get(CAPL_OP_cast);
}

/* Gradients summed over a broadcast or a batch are f32; the rule of a 16-bit output reads a 16-bit gradient. */
static capl_status cast_gradients(capl_node *node)
{
  if (takes_any_dtype(node)) return CAPL_OK;
  for (int k = 0; k < node->op->n_out; k++) {
    capl_tensor *dy = node->dy[k], *same;
    if (!dy || dy->dtype == node->out[k]->dtype) continue;
    CAPL_TRY(to_dtype(dy, node->out[k]->dtype, &same));
    capl_tensor_unref(dy);
    node->dy[k] = same;
  }
  return CAPL_OK;
}

static capl_status run_rule(capl_node *node)
{
  bool any = false;
  for (int k = 0; k < node->op->n_out; k++) any |= node->dy[k] != NULL;
  if (!any) return CAPL_OK;
  if (!node->out[0] && node->op->n_out > 0)
    return CAPL_FAIL(CAPL_ESTATE, "backward runs a second time through the same %s: run the forward pass again",
                     node->op->name);
  CAPL_TRY(check_versions(node));
  if (node->segment) CAPL_TRY(deferred_flush()); /* it may run a recipe's functions, which see gradients */
  for (int k = 0; k < node->op->n_out; k++) CAPL_TRY(deferred_settle(node->dy[k]));
  CAPL_TRY(cast_gradients(node));
  capl_tensor **dx = calloc((size_t)node->n_in, sizeof *dx);
  if (!dx) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the gradients of %s", node->op->name);
  const char *label = capl_profile_label_get();
  capl_profile_label_set(node->label);
  capl_status status = node->op->grad(node, node->dy, dx);
  if (status == CAPL_OK) {
    node_release(node); /* before the sums: their memory is free for the next gradients */
    status = distribute(node, dx);
  } else {
    for (int i = 0; i < node->n_in; i++) capl_tensor_unref(dx[i]);
  }
  capl_profile_label_set(label);
  free(dx);
  return status;
}

/* ---- who waits for gradients ------------------------------------------------------------------ */

/* Segments run calls that are not known before: while one is to come, no leaf is out of reach. */
static _Thread_local struct {
  void *owner;
  capl_grad_ready ready; /* NULL = nobody waits */
  int segments;
} waiting;

void capl_grad_listen(void *owner, capl_grad_ready ready)
{
  waiting.owner = owner;
  waiting.ready = ready;
  waiting.segments = 0;
}

static capl_grad_slot *awaited(const capl_edge *edge)
{
  capl_grad_slot *slot = edge->leaf ? edge->leaf->slot : NULL;
  return slot && slot->owner == waiting.owner ? slot : NULL;
}

/* Every call of the list may bring something to the leaves it read. */
static void count_awaited(const node_list *list)
{
  if (!waiting.ready) return;
  for (size_t k = 0; k < list->count; k++) {
    const capl_node *node = list->items[k];
    if (segment_runs_calls(node)) waiting.segments++;
    for (int i = 0; i < node->n_in; i++) {
      capl_grad_slot *slot = awaited(&node->edges[i]);
      if (slot) slot->pending++;
    }
  }
}

/* A call of the list has brought what it had to bring. */
static capl_status tell_ready(const capl_node *node, bool segment)
{
  for (int i = 0; i < node->n_in; i++) {
    capl_grad_slot *slot = awaited(&node->edges[i]);
    if (slot && --slot->pending == 0 && waiting.segments == 0) CAPL_TRY(waiting.ready(waiting.owner, slot));
  }
  if (segment && --waiting.segments == 0) return waiting.ready(waiting.owner, NULL);
  return CAPL_OK;
}

static capl_status run_all(const node_list *list)
{
  for (size_t k = 0; k < list->count; k++) {
    capl_node *node = list->items[k];
    bool segment = segment_runs_calls(node);
    CAPL_TRY(run_rule(node));
    if (waiting.ready) CAPL_TRY(tell_ready(node, segment));
  }
  return CAPL_OK;
}

/* ---- the walk --------------------------------------------------------------------------------- */

/* Where backward starts: a number, or a tensor whose value may still be on its way. */
typedef struct {
  double number;
  capl_tensor *tensor; /* NULL = the number */
} seed_value;

static capl_status seed_gradient(capl_tensor *loss, seed_value seed, capl_tensor **out)
{
  capl_tensor *shaped;
  int64_t stride[CAPL_MAX_NDIM] = {0};
  if (!seed.tensor) {
    CAPL_TRY(capl_tensor_new(loss->device, loss->dtype, loss->ndim, loss->size, CAPL_AUTO, out));
    return capl_tensor_fill(*out, seed.number);
  }
  CAPL_TRY(capl_tensor_alias(seed.tensor, loss->ndim, loss->size, stride, seed.tensor->offset, &shaped));
  capl_status status = to_dtype(shaped, loss->dtype, out);
  capl_tensor_unref(shaped);
  return status;
}

static capl_status walk(node_list *list, capl_tensor *loss, seed_value seed)
{
  CAPL_TRY(collect(list, loss->node));
  if (list->count > 1) qsort(list->items, list->count, sizeof *list->items, newest_first);
  capl_tensor_unref(loss->node->dy[loss->node_output]);
  loss->node->dy[loss->node_output] = NULL;
  CAPL_TRY(seed_gradient(loss, seed, &loss->node->dy[loss->node_output]));
  count_awaited(list);
  if (waiting.ready && waiting.segments == 0) CAPL_TRY(waiting.ready(waiting.owner, NULL));
  return run_all(list);
}

static void free_list(node_list *list)
{
  for (size_t k = 0; k < list->count; k++) {
    capl_node *node = list->items[k];
    node->done = false;
    for (int o = 0; o < CAPL_MAX_OUT; o++) { /* left over only when the walk failed */
      capl_tensor_unref(node->dy[o]);
      node->dy[o] = NULL;
    }
  }
  for (size_t k = 0; k < list->count; k++) capl_node_unref(list->items[k]);
  free(list->items);
}

/* Where the gradient of an output of a segment goes: to the call that made it, to a leaf, or nowhere. */
static capl_status start_from(node_list *list, capl_tensor *out, capl_tensor *dy, uint64_t first)
{
  if (!out || !dy) return CAPL_OK;
  if (!out->node) return out->requires_grad ? give_leaf(out, dy) : CAPL_OK;
  if (out->node->sequence > first) CAPL_TRY(add_node(list, out->node));
  return accumulate(out->node, out->node_output, dy);
}

/* What is older than the segment waits for its turn in the walk that is going on, of which it has to be a part. */
static capl_status collect_within(node_list *list, uint64_t first)
{
  for (size_t k = 0; k < list->count; k++) {
    capl_node *node = list->items[k];
    for (int i = 0; i < node->n_in; i++) {
      const capl_node *past = node->edges[i].node;
      if (past && past->sequence <= first && !past->done)
        return CAPL_FAIL(CAPL_ESTATE, "checkpoint: a tensor made before it by %s is used in it, but is not one of its "
                                      "arguments: its gradient would be lost", past->op->name);
      CAPL_TRY(add_node(list, node->edges[i].node));
    }
  }
  return CAPL_OK;
}

capl_status backward_within(capl_tensor *const *out, capl_tensor *const *dy, int n, uint64_t first)
{
  node_list list = {0};
  capl_status status = CAPL_OK;
  for (int k = 0; k < n && status == CAPL_OK; k++) status = start_from(&list, out[k], dy[k], first);
  if (status == CAPL_OK) status = collect_within(&list, first);
  if (list.count > 1) qsort(list.items, list.count, sizeof *list.items, newest_first);
  count_awaited(&list);
  if (status == CAPL_OK) status = run_all(&list);
  free_list(&list);
  return status;
}

static capl_status backward(capl_tensor *loss, seed_value seed)
{
  char text[160];
  if (capl_tensor_numel(loss) != 1)
    return CAPL_FAIL(CAPL_ESHAPE, "backward starts from one number, this tensor is %s: use mean() or sum() first",
                     capl_tensor_describe(loss, text, sizeof text));
  if (!loss->node)
    return CAPL_FAIL(CAPL_ESTATE, "backward: nothing was recorded for this tensor: no parameter that requires a "
                                  "gradient took part, or it was made inside capl.no_grad");
  bool before = capl_grad_set_enabled(false);
  capl_dtype low = capl_autocast_set(CAPL_F32);
  node_list list = {0};
  /* leaves have theirs also after a failure */
  capl_status status = walk(&list, loss, seed), settled = deferred_flush();
  if (status == CAPL_OK) status = settled;
  free_list(&list);
  capl_autocast_set(low);
  capl_grad_set_enabled(before);
  return status;
}

capl_status capl_backward(capl_tensor *loss, double seed)
{
  capl_status status = backward(loss, (seed_value){.number = seed});
  capl_grad_listen(NULL, NULL);
  return status;
}

static capl_status backward_from(capl_tensor *loss, capl_tensor *seed)
{
  char text[160];
  if (capl_tensor_numel(seed) != 1 || !capl_dtype_is_float(seed->dtype))
    return CAPL_FAIL(CAPL_ESHAPE, "backward: the seed is one floating-point number, not %s",
                     capl_tensor_describe(seed, text, sizeof text));
  if (seed->device != loss->device)
    return CAPL_FAIL(CAPL_EVALUE, "backward: the seed is on %s, the loss on %s", seed->device->name,
                     loss->device->name);
  return backward(loss, (seed_value){.tensor = seed});
}

capl_status capl_backward_from(capl_tensor *loss, capl_tensor *seed)
{
  capl_status status = backward_from(loss, seed);
  capl_grad_listen(NULL, NULL);
  return status;
}

static bool node_has(const capl_node *node, capl_dtype dtype)
{
  if (node->segment && segment_has(node->segment, dtype)) return true;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] && node->in[i]->dtype == dtype) return true;
  for (int k = 0; k < node->op->n_out; k++)
    if (node->out[k] && node->out[k]->dtype == dtype) return true;
  return false;
}

capl_status capl_history_has(const capl_tensor *t, capl_dtype dtype, bool *out)
{
  node_list list = {0};
  *out = false;
  capl_status status = collect(&list, t->node);
  for (size_t k = 0; status == CAPL_OK && k < list.count && !*out; k++) *out = node_has(list.items[k], dtype);
  free_list(&list);
  return status;
}
