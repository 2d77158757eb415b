/* buckets.c -- gradients in flat pieces that ranks average, the first of them while the backward pass still makes the
** last.
**
** A leaf's gradient is a view of its piece in the leaf's own memory order, so nothing is copied when a piece travels,
** and the optimizer reads the mean where it arrives. Behind the gradients a piece has one number per leaf: 1 where this
** rank had a gradient. Its mean shows a rank without one whether another had one; ranks that have all gradients never
** read it. Pieces are sent in their order whatever is complete first: every rank has to make the same calls.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "capl/dist.h"
#include "capl/tape.h"

enum { ALIGN_BYTES = 256 }; /* of each gradient: what vector loads of every backend want */
static const size_t MB = (size_t)1 << 20;

typedef struct {
  capl_tensor *flat, *marks; /* marks: the last `count` elements of flat */
  int first, count;          /* leaves */
  int left;                  /* of them still to be completed by the pass under way */
  capl_work *work;
} piece;

typedef struct {
  capl_tensor *leaf, *mark; /* mark: the leaf's element of its piece's marks */
  capl_grad_slot slot;
  int piece;
  size_t at; /* element of its piece at which the gradient begins */
  bool complete, absent, elsewhere; /* elsewhere: another rank had a gradient when this one was last without */
} member;

struct capl_buckets {
  capl_world *world;
  capl_buckets_options options;
  member *members;
  piece *pieces;
  int *order;
  int n, n_pieces, n_order, next; /* next: the piece that is sent next */
  bool open, watching;            /* open: begun, not finished; watching: a backward pass reports finished leaves */
  uint64_t sent, early;
};

static capl_status average(void *user, capl_tensor *flat, capl_work **work)
{
  return capl_all_reduce(user, flat, CAPL_REDUCE_MEAN, work);
}

/* ---- which leaf goes into which piece -------------------------------------------------------- */

static capl_dtype kept_as(const capl_tensor *leaf) { return leaf->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32; }

static size_t padded(size_t elements, capl_dtype dtype)
{
  size_t unit = ALIGN_BYTES / capl_dtype_size(dtype);
  return (elements + unit - 1) / unit * unit;
}

/* Whether a leaf begins a new piece after one that holds `used` elements. */
static bool begins_piece(const capl_buckets *b, const member *m, const piece *p, size_t used)
{
  capl_dtype dtype = kept_as(m->leaf);
  if (dtype != kept_as(b->members[p->first].leaf)) return true;
  size_t most = p == b->pieces ? b->options.first_bytes : b->options.bytes;
  return (used + padded((size_t)capl_tensor_numel(m->leaf), dtype)) * capl_dtype_size(dtype) > most;
}

/* Gives every leaf its piece and place; used[k]: elements of piece k without its marks. */
static void assign(capl_buckets *b, size_t *used)
{
  for (int i = 0; i < b->n; i++) {
    member *m = &b->members[i];
    piece *p = b->n_pieces ? &b->pieces[b->n_pieces - 1] : NULL;
    if (!p || begins_piece(b, m, p, used[b->n_pieces - 1])) {
      p = &b->pieces[b->n_pieces++];
      p->first = i;
    }
    m->piece = b->n_pieces - 1;
    m->at = used[m->piece];
    used[m->piece] += padded((size_t)capl_tensor_numel(m->leaf), kept_as(m->leaf));
    p->count++;
  }
}

static capl_status make_piece(piece *p, const member *first, size_t elements)
{
  int64_t size = (int64_t)elements + p->count, marks = p->count, one = 1;
  CAPL_TRY(capl_tensor_new(first->leaf->device, kept_as(first->leaf), 1, &size, CAPL_ROW, &p->flat));
  CAPL_TRY(capl_tensor_fill(p->flat, 0)); /* also what lies between the gradients, once */
  return capl_tensor_alias(p->flat, 1, &marks, &one, (int64_t)elements, &p->marks);
}

/* The strides of a gradient of leaf: the leaf's own where it is dense. */
static capl_status strides_of(const capl_tensor *leaf, int64_t *stride)
{
  capl_tensor *like;
  CAPL_TRY(capl_tensor_new_like(leaf, &like));
  memcpy(stride, like->stride, sizeof like->stride);
  capl_tensor_unref(like);
  return CAPL_OK;
}

static capl_status make_home(capl_buckets *b, int i)
{
  member *m = &b->members[i];
  piece *p = &b->pieces[m->piece];
  int64_t stride[CAPL_MAX_NDIM];
  CAPL_TRY(strides_of(m->leaf, stride));
  m->slot = (capl_grad_slot){.owner = b, .index = i};
  CAPL_TRY(capl_tensor_alias(p->marks, 0, NULL, NULL, p->marks->offset + i - p->first, &m->mark));
  return capl_tensor_alias(p->flat, m->leaf->ndim, m->leaf->size, stride, (int64_t)m->at, &m->slot.home);
}

/* A gradient the leaf has elsewhere moves in. */
static capl_status move_in(member *m)
{
  capl_tensor *leaf = m->leaf, *home = m->slot.home;
  if (!leaf->grad || leaf->grad == home) return CAPL_OK;
  CAPL_TRY(capl_tensor_copy(home, leaf->grad));
  capl_tensor_unref(leaf->grad);
  leaf->grad = capl_tensor_ref(home);
  return CAPL_OK;
}

static capl_status build(capl_buckets *b, capl_tensor *const *leaves)
{
  size_t *used = calloc((size_t)b->n + 1, sizeof *used);
  if (!used) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the gradients of %d parameters", b->n);
  for (int i = 0; i < b->n; i++) b->members[i].leaf = capl_tensor_ref(leaves[i]);
  assign(b, used);
  capl_status status = CAPL_OK;
  for (int k = 0; k < b->n_pieces && status == CAPL_OK; k++)
    status = make_piece(&b->pieces[k], &b->members[b->pieces[k].first], used[k]);
  free(used);
  for (int i = 0; i < b->n && status == CAPL_OK; i++) status = make_home(b, i);
  for (int i = 0; i < b->n && status == CAPL_OK; i++) status = move_in(&b->members[i]);
  return status;
}

static capl_status check_leaves(capl_tensor *const *leaves, int n)
{
  char text[160];
  for (int i = 0; i < n; i++) {
    if (!capl_dtype_is_float(leaves[i]->dtype) || leaves[i]->node)
      return CAPL_FAIL(CAPL_EVALUE, "parameter %d, %s, is no leaf of floating-point numbers", i + 1,
                       capl_tensor_describe(leaves[i], text, sizeof text));
    if (leaves[i]->device != leaves[0]->device)
      return CAPL_FAIL(CAPL_EVALUE, "parameter %d is on %s, the first one on %s: ranks average gradients of one device",
                       i + 1, leaves[i]->device->name, leaves[0]->device->name);
  }
  return CAPL_OK;
}

capl_status capl_buckets_new(capl_world *world, capl_tensor *const *leaves, int n, const capl_buckets_options *options,
                             capl_buckets **out)
{
  *out = NULL;
  CAPL_TRY(check_leaves(leaves, n));
  capl_buckets *b = calloc(1, sizeof *b);
  if (b) b->members = calloc((size_t)n + 1, sizeof *b->members);
  if (b) b->pieces = calloc((size_t)n + 1, sizeof *b->pieces);
  if (b) b->order = calloc((size_t)n + 1, sizeof *b->order);
  if (!b || !b->members || !b->pieces || !b->order) {
    capl_buckets_free(b);
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for the gradients of %d parameters", n);
  }
  if (options) b->options = *options;
  if (!b->options.first_bytes) b->options.first_bytes = MB;
  if (!b->options.bytes) b->options.bytes = 25 * MB;
  if (!b->options.average) b->options.average = average, b->options.user = world;
  b->world = world;
  b->n = n;
  capl_status status = build(b, leaves);
  if (status != CAPL_OK) return capl_buckets_free(b), status;
  for (int i = 0; i < n; i++) leaves[i]->slot = &b->members[i].slot;
  *out = b;
  return CAPL_OK;
}

void capl_buckets_free(capl_buckets *b)
{
  if (!b) return;
  capl_grad_listen(NULL, NULL);
  for (int i = 0; b->members && i < b->n; i++) {
    member *m = &b->members[i];
    if (m->leaf && m->leaf->slot == &m->slot) m->leaf->slot = NULL;
    capl_tensor_unref(m->leaf);
    capl_tensor_unref(m->slot.home);
    capl_tensor_unref(m->mark);
  }
  for (int k = 0; k < b->n_pieces; k++) { /* works that a failed pass has left hold what they need */
    capl_tensor_unref(b->pieces[k].flat);
    capl_tensor_unref(b->pieces[k].marks);
  }
  free(b->members);
  free(b->pieces);
  free(b->order);
  free(b);
}

static bool has_leaf(const capl_buckets *b, const capl_tensor *leaf)
{
  const capl_grad_slot *slot = leaf->slot;
  return slot && slot->owner == b && b->members[slot->index].leaf == leaf;
}

bool capl_buckets_fit(const capl_buckets *b, capl_tensor *const *leaves, int n)
{
  if (n != b->n) return false;
  for (int i = 0; i < n; i++)
    if (!has_leaf(b, leaves[i])) return false;
  return true;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* What travels for a leaf without a gradient: zeros, and the mark that says so. */
static capl_status fill_absent(member *m)
{
  m->absent = m->leaf->grad == NULL;
  if (!m->absent) return move_in(m);
  CAPL_TRY(capl_tensor_fill(m->slot.home, 0));
  return capl_tensor_fill(m->mark, 0);
}

static capl_status send_piece(capl_buckets *b, piece *p)
{
  CAPL_TRY(capl_tensor_fill(p->marks, 1));
  for (int i = p->first; i < p->first + p->count; i++) CAPL_TRY(fill_absent(&b->members[i]));
  CAPL_TRY(b->options.average(b->options.user, p->flat, &p->work));
  b->sent++;
  return CAPL_OK;
}

/* Sends the pieces whose turn it is, as far as they are complete, or all of them. */
static capl_status send(capl_buckets *b, bool all)
{
  for (; b->next < b->n_pieces && (all || b->pieces[b->next].left == 0); b->next++) {
    CAPL_TRY(send_piece(b, &b->pieces[b->next]));
    if (!all) b->early++;
  }
  return CAPL_OK;
}

static void complete(capl_buckets *b, member *m)
{
  if (m->complete) return;
  m->complete = true;
  b->pieces[m->piece].left--;
  b->order[b->n_order++] = m->slot.index;
}

static capl_status ready(void *owner, capl_grad_slot *slot)
{
  capl_buckets *b = owner;
  if (slot) complete(b, &b->members[slot->index]);
  for (int i = 0; !slot && i < b->n; i++)
    if (b->members[i].slot.pending == 0) complete(b, &b->members[i]);
  return send(b, false);
}

capl_status capl_buckets_begin(capl_buckets *b)
{
  if (b->open && b->next > 0) {
    CAPL_FAIL(CAPL_ESTATE, "the backward pass before this one failed after ranks had begun to exchange its gradients");
    capl_error_hint("a rank that leaves out a step makes the others wait: let the error end the run, or restart it");
    return CAPL_ESTATE;
  }
  for (int k = 0; k < b->n_pieces; k++) b->pieces[k].left = b->pieces[k].count;
  for (int i = 0; i < b->n; i++) b->members[i].complete = false, b->members[i].slot.pending = 0;
  b->n_order = b->next = 0;
  b->open = true;
  capl_grad_listen(b, ready);
  return CAPL_OK;
}

capl_status capl_buckets_finish(capl_buckets *b)
{
  if (!b->open) b->next = 0;
  b->open = true; /* until all is well: see begin */
  CAPL_TRY(send(b, true));
  for (int k = 0; k < b->n_pieces; k++) {
    capl_work *work = b->pieces[k].work;
    b->pieces[k].work = NULL;
    CAPL_TRY(capl_work_wait(work));
  }
  for (int i = 0; i < b->n; i++) b->members[i].slot.fresh = false;
  b->open = false;
  return CAPL_OK;
}

/* ---- leaves without a gradient here ---------------------------------------------------------- */

int capl_buckets_absent(const capl_buckets *b)
{
  int n = 0;
  for (int i = 0; i < b->n; i++) n += b->members[i].absent;
  return n;
}

static capl_status settle(member *m, bool look)
{
  double mark = 0;
  if (look) CAPL_TRY(capl_tensor_item(m->mark, &mark));
  if (look) m->elsewhere = mark > 0;
  if (m->elsewhere && !m->leaf->grad) m->leaf->grad = capl_tensor_ref(m->slot.home);
  return CAPL_OK;
}

capl_status capl_buckets_settle(capl_buckets *b, bool look)
{
  for (int i = 0; i < b->n; i++)
    if (b->members[i].absent) CAPL_TRY(settle(&b->members[i], look));
  return CAPL_OK;
}

bool capl_buckets_fresh(const capl_buckets *b)
{
  for (int i = 0; i < b->n; i++)
    if (b->members[i].slot.fresh) return true;
  return false;
}

capl_buckets_stats capl_buckets_stats_get(const capl_buckets *b)
{
  capl_buckets_stats f = {.pieces = b->n_pieces, .leaves = b->n, .sent = b->sent, .early = b->early,
                            .order = b->order, .n_order = b->n_order};
  for (int k = 0; k < b->n_pieces; k++) f.bytes += capl_tensor_bytes(b->pieces[k].flat);
  return f;
}
