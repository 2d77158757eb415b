/* tape.h -- records op calls during forward so gradients can be computed by walking them backwards.
**
** capl_op_call makes one node per call while recording is on and an input needs a gradient. A node
** holds the values its gradient rule reads (op.save_in, save_out) and only the shapes of the rest;
** it lives as long as a tensor made by it, or by a later node, does. capl_backward visits nodes in
** reverse order of their calls and drops each one after use, so memory falls as it goes.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TAPE_H
#define CAPL_TAPE_H

#include "capl/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the gradient of one input goes: to an earlier call's output, or to a leaf's .grad. */
typedef struct {
  capl_node *node;
  int output;
  capl_tensor *leaf;
} capl_edge;

struct capl_node {
  int refs;
  uint64_t sequence; /* calls are numbered as they happen */
  const capl_op *op;
  int n_in;
  capl_tensor **in;               /* inputs without history; without storage unless in save_in; NULL = absent */
  capl_tensor *out[CAPL_MAX_OUT]; /* outputs without history; without storage unless in save_out */
  bool *needs;                    /* per input: a gradient is wanted */
  capl_edge *edges;               /* per input */
  uint64_t *in_version;           /* storage version of each saved input when recorded */
  capl_attr attr[CAPL_MAX_ATTR];
  char *label; /* layer that made the call, NULL = none */
  struct capl_segment *segment; /* of a part of the forward pass that is run again, NULL for calls */
  /* during backward */
  capl_tensor *dy[CAPL_MAX_OUT];
  bool done;
  struct capl_node *next; /* worklists */
};

/* Recording of this thread, on at start. Returns the former value. */
CAPL_API bool capl_grad_set_enabled(bool enabled);
CAPL_API bool capl_grad_enabled(void);

/* Gradients of the scalar loss with respect to every leaf that requires one, added to leaf.grad
** (f32; f64 for f64 leaves). seed: gradient of loss itself, e.g. a loss scale; 1 usually.
** ESHAPE if loss is no scalar; ESTATE if it has no history or its history was used already. */
CAPL_API capl_status capl_backward(capl_tensor *loss, double seed);
/* The same from a seed in the memory of loss's device, one floating-point number of any dtype: nothing waits for it,
** and a step that is replayed starts from what it holds then. */
CAPL_API capl_status capl_backward_from(capl_tensor *loss, capl_tensor *seed);

/* Runs a part of the forward pass again: gives n_out new references in out, recorded. in: the part's inputs with their
** history. Called inside capl_backward. */
typedef capl_status (*capl_segment_fn)(void *user, capl_tensor *const *in, int n_in, capl_tensor **out, int n_out);

/* Records a part of the forward pass as one node that keeps its inputs only (gradient checkpointing). The part ran with
** recording off and gave out, outside the tape; these become its outputs. In the backward pass fn runs it again under
** the present autocast, and gradients flow through it in the order in which they would have without. user: freed by
** drop when it is not needed any more, also on failure. ENOMEM. */
CAPL_API capl_status capl_segment_record(capl_tensor *const *in, int n_in, capl_tensor *const *out, int n_out,
                                         capl_segment_fn fn, void *user, void (*drop)(void *user));
/* Records a function whose gradient rule is fn: from the gradients of its outputs (NULL = none wanted), given as fn's
** in, those of its inputs, as fn's out: new references of their sizes, NULL = none. out: made by the caller with
** recording off, outside the tape. user as above. */
CAPL_API capl_status capl_gradient_record(capl_tensor *const *in, int n_in, capl_tensor *const *out, int n_out,
                                          capl_segment_fn fn, void *user, void (*drop)(void *user));
/* From on = true on, calls that would be recorded if recording were on are noted. Returns whether there were any since
** the last call. */
CAPL_API bool capl_grad_note(bool on);

/* Whether a call among those recorded for t read or made a tensor of dtype: with f16 gradients want a loss scale. */
CAPL_API capl_status capl_history_has(const capl_tensor *t, capl_dtype dtype, bool *out);

/* A place for the gradient of a leaf, among others that travel together. Whoever makes slots points leaf.slot at them,
** and takes that back before they go. What backward gives the leaf is then written into home, which becomes
** leaf.grad. */
typedef struct capl_grad_slot {
  capl_tensor *home; /* f32 (f64), the leaf's sizes */
  const void *owner;
  int index;   /* among the owner's */
  int pending; /* calls of the pass under way that may still bring something */
  bool fresh;  /* something was given since the owner last cleared this */
} capl_grad_slot;

/* The owner's slots are counted in the next backward pass of this thread. ready(owner, slot): nothing of that pass can
** reach the slot any more. ready(owner, NULL): look at all of them; those with pending == 0 are done. */
typedef capl_status (*capl_grad_ready)(void *owner, capl_grad_slot *slot);
CAPL_API void capl_grad_listen(void *owner, capl_grad_ready ready);

/* A new tensor sharing t's storage, outside the tape. */
CAPL_API capl_status capl_tensor_detach(capl_tensor *t, capl_tensor **out);

/* For tensors: drops one reference of a node, NULL-safe. */
CAPL_API void capl_node_unref(capl_node *node);

#ifdef __cplusplus
}
#endif
#endif
