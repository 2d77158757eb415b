/* letter_store.h -- rendered letters by number: each made at its first use, by any thread, kept while there is room.
**
** Who looks a letter up takes no lock. Two threads that need the same letter at the same time both render it; one of
** the two, which are equal, is kept.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SYNTH_LETTER_STORE_H
#define CAPL_SYNTH_LETTER_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

typedef struct {
  size_t n;
  _Atomic(void *) *slot; /* [n], NULL until rendered */
  atomic_size_t used;    /* bytes of the letters that are kept */
  size_t most;           /* of used */
} letter_store;

/* most: bytes of letters to keep. ENOMEM. Finish with _fini either way. */
capl_status letter_store_init(letter_store *store, size_t n, size_t most);
void letter_store_fini(letter_store *store);

/* Letter i, NULL if it is not there. Borrowed. */
static inline void *letter_store_get(const letter_store *store, size_t i)
{
  return atomic_load_explicit(&store->slot[i], memory_order_acquire);
}

/* Gives letter i, one block of malloc of so many bytes, to the store, which frees it. Returns the letter to use: this
** one, or an equal one that was there first. *kept: false = there is no room, and the caller frees it. */
void *letter_store_put(letter_store *store, size_t i, void *letter, size_t bytes, bool *kept);

/* Bytes of letters and of the table. */
size_t letter_store_bytes(const letter_store *store);

#endif
