/* letter_store.c -- rendered letters that threads share, within a number of bytes.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/letter_store.h"

#include <stdlib.h>

capl_status letter_store_init(letter_store *store, size_t n, size_t most)
{
  *store = (letter_store){.n = n, .most = most};
  store->slot = calloc(n ? n : 1, sizeof *store->slot);
  return store->slot ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a table of %zu letters", n);
}

void letter_store_fini(letter_store *store)
{
  for (size_t i = 0; store->slot && i < store->n; i++) free(letter_store_get(store, i));
  free(store->slot);
  *store = (letter_store){0};
}

/* A letter that was not kept is one that the caller has, or one too many. */
static void give_back(letter_store *store, size_t bytes)
{
  atomic_fetch_sub_explicit(&store->used, bytes, memory_order_relaxed);
}

void *letter_store_put(letter_store *store, size_t i, void *letter, size_t bytes, bool *kept)
{
  void *there = NULL;
  *kept = atomic_fetch_add_explicit(&store->used, bytes, memory_order_relaxed) + bytes <= store->most;
  if (!*kept) {
    give_back(store, bytes);
    return letter;
  }
  if (atomic_compare_exchange_strong_explicit(&store->slot[i], &there, letter, memory_order_acq_rel,
                                              memory_order_acquire))
    return letter;
  give_back(store, bytes);
  free(letter);
  return there;
}

size_t letter_store_bytes(const letter_store *store)
{
  return atomic_load_explicit(&store->used, memory_order_relaxed) + store->n * sizeof *store->slot;
}
