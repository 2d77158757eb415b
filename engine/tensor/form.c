/* form.c -- weights that never change, as kernels want them: packed, transformed, in a library's layout. Made once,
** kept beside the weights, freed with them.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "tensor/storage.h"

typedef struct capl_form {
  struct capl_form *next;
  uint64_t key;
  size_t bytes;
  void *data;
  bool filled; /* false: a call failed before it was */
} capl_form;

/* A view of all of its storage, so that a key need not say which part. */
static bool is_whole(const capl_tensor *t)
{
  return t->storage && capl_tensor_bytes(t) == t->storage->bytes && capl_tensor_is_dense(t);
}

void capl_weight_freeze(capl_tensor *t)
{
  if (is_whole(t)) t->storage->frozen = true;
}

bool capl_weight_is_frozen(const capl_tensor *t)
{
  return t->storage && t->storage->frozen && is_whole(t);
}

void storage_leave_forms(capl_storage *s)
{
  while (s->forms) {
    capl_form *form = s->forms;
    s->forms = form->next;
    capl_block_put(s->device, form->data, form->bytes);
    free(form);
  }
}

static capl_form *find(const capl_storage *s, uint64_t key)
{
  capl_form *form = s->forms;
  while (form && form->key != key) form = form->next;
  return form;
}

static capl_status form_new(capl_storage *s, uint64_t key, size_t bytes, capl_form **out)
{
  capl_form *form = calloc(1, sizeof *form);
  if (!form) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a weight's form");
  *form = (capl_form){.next = s->forms, .key = key, .bytes = bytes};
  capl_status status = capl_block_get(s->device, bytes, &form->data);
  if (status != CAPL_OK) return free(form), status;
  *out = s->forms = form;
  return CAPL_OK;
}

capl_status capl_weight_form(const capl_tensor *t, uint64_t key, size_t bytes, void **out, bool *fresh)
{
  *out = NULL;
  *fresh = true;
  if (!t || !capl_weight_is_frozen(t)) return CAPL_OK;
  capl_form *form = find(t->storage, key);
  if (!form) CAPL_TRY(form_new(t->storage, key, bytes, &form));
  *fresh = !form->filled;
  *out = form->data;
  return CAPL_OK;
}

void capl_weight_form_filled(const capl_tensor *t, uint64_t key)
{
  capl_form *form = t->storage && t->storage->frozen ? find(t->storage, key) : NULL;
  if (form) form->filled = true;
}
