/* hooks.c -- a world's calls, as the star and the watchdog see them.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "dist/control.h"
#include "dist/watchdog.h"
#include "dist/world.h"

/* ---- collectives, called by collectives.c ---------------------------------------------------------- */

void watch_begin(capl_world *w, const char *name, uint64_t number, uint64_t bytes, int peer)
{
  (void)number; /* the watchdog counts the same calls */
  watch_queue(w->watch, name, (size_t)bytes, peer);
}

void watch_ticket(capl_world *w, uint64_t number, int64_t ticket) { watch_set_ticket(w->watch, number, ticket); }

/* What a GPU waits for its processor does not: when that is done, the library has to be asked. */
void watch_end(capl_world *w, uint64_t number)
{
  if (w->collectives.table && w->collectives.table->device_memory) return;
  watch_finish(w->watch, number);
}

static bool is_done(void *user, int64_t ticket)
{
  capl_world *w = user;
  bool done = false;
  return w->collectives.table->done(w->collectives.state, ticket, &done) == CAPL_OK && done;
}

void watch_library(capl_world *w, bool open) { watch_ask(w->watch, open ? is_done : NULL, w); }

/* ---- dist.h ------------------------------------------------------------------------------------- */

/* Alone, or where nothing is computed and so nobody was joined: everybody would say the same. */
static capl_status tell_self(const capl_world *w, const void *mine, size_t len, capl_messages *all)
{
  size_t n = (size_t)w->place.size;
  *all = (capl_messages){.count = w->place.size, .data = calloc(n, sizeof *all->data),
                         .len = calloc(n, sizeof *all->len)};
  for (size_t r = 0; all->data && all->len && r < n; r++) {
    all->data[r] = malloc(len + 1);
    if (!all->data[r]) break;
    if (len) memcpy(all->data[r], mine, len);
    all->data[r][len] = '\0';
    all->len[r] = len;
    if (r == n - 1) return CAPL_OK;
  }
  capl_messages_free(all);
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for a message");
}

capl_status capl_world_tell(capl_world *w, const void *mine, size_t len, capl_messages *all)
{
  *all = (capl_messages){0};
  return w->star ? star_tell(w->star, mine, len, all) : tell_self(w, mine, len, all);
}

void capl_world_step(capl_world *w, int64_t step) { watch_set_step(w->watch, step); }
void capl_world_watchdog(capl_world *w, double seconds) { watch_set_seconds(w->watch, seconds); }
void capl_world_hold(capl_world *w, const char *reason) { watch_set_hold(w->watch, reason); }

bool capl_world_fail(int status, const char *message)
{
  capl_world *w = capl_world_get();
  return !w || !w->star || star_fail(w->star, status, message);
}
