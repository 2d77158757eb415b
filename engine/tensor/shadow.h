/* shadow.h -- 16-bit copies of f32 weights, kept beside them, and what a recorded step does with both.
**
** Under autocast products read weights in 16 bits. A storage's shadow holds all of its elements so, at an address that
** stays while the storage lives, so that recorded steps may read it. The shadow is fresh while the storage has the
** version that it was made from; who needs a stale one casts the weights again, in place (ops/shadow.c). Optimizer
** steps write weights and shadow together.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TENSOR_SHADOW_H
#define CAPL_TENSOR_SHADOW_H

#include "tensor/storage.h"

typedef struct capl_shadow {
  int refs;          /* of the storage, and of recordings */
  capl_storage *of;  /* not referenced; NULL: it was freed */
  capl_storage *low; /* its elements in dtype; NULL until somebody asks for them */
  capl_dtype dtype;  /* CAPL_BF16 or CAPL_F16 */
  uint64_t version;  /* of `of` when low was made */
  bool kept;         /* casts of the storage's elements are kept here */
  bool held;         /* an optimizer step that is about to run writes low, too */
  size_t place;      /* in the list of a recording */
} capl_shadow;

/* s's shadow, made without elements if there is none; NULL without memory. */
capl_shadow *shadow_track(capl_storage *s);
void shadow_unref(capl_shadow *h); /* NULL-safe */

static inline bool shadow_is_fresh(const capl_shadow *h)
{
  return h && h->of && h->low && h->version == h->of->version;
}

/* low is stale, whatever the storage's version is. */
static inline void shadow_forget(capl_shadow *h)
{
  h->version = UINT64_MAX;
}

/* ---- recording ------------------------------------------------------------------------------- */

/* What the recorded step does with a storage that was there before it. */
typedef struct {
  capl_shadow *shadow; /* referenced */
  bool needed;  /* low as it was before the step is read, or may stay as it is */
  bool made;    /* low is written from the weights of that moment */
  bool written; /* the weights are written */
  bool fresh;   /* after the step low is fresh */
} recorded_storage;

typedef struct capl_recorded {
  recorded_storage *list;
  size_t count, room;
  uint64_t first_serial; /* storages from this one on were made in the step */
  bool failed;           /* no memory for the list */
} capl_recorded;

/* Of this thread; NULL = nothing is recorded. */
extern _Thread_local capl_recorded *recorded_now;

void recorded_begin(capl_recorded *r);
/* ENOMEM: something was not noted, the recording is of no use. What it made has not been made yet: it is stale. */
capl_status recorded_end(capl_recorded *r);
void recorded_free(capl_recorded *r);
/* The step was launched: counts what it wrote. well: it did, so that what was fresh at its end is. */
void recorded_ran(capl_recorded *r, bool well);

/* For those that read or write low, and weights, during a recording. */
void recorded_need(capl_shadow *h);
void recorded_make(capl_shadow *h);
void recorded_write(capl_storage *s);

#endif
