/* hooks.c -- connects the calls of a world to the watchdog and the control channel.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "dist/control.h"
#include "dist/watchdog.h"
#include "dist/world.h"

/* ---- collectives, called by collectives.c ---------------------------------------------------------- */

void watchdog_begin(capl_world *w, const char *name, uint64_t number, uint64_t bytes, int peer)
{
  (void)number; /* the watchdog counts the same calls */
  watchdog_queue(w->watchdog, name, (size_t)bytes, peer);
}

void watchdog_ticket(capl_world *w, uint64_t number, int64_t ticket) { watchdog_set_ticket(w->watchdog, number,
                                                            ticket); }

/* A GPU's wait does not block the host: the library is queried for completion instead. */
void watchdog_end(capl_world *w, uint64_t number)
{
  if (w->collectives.table && w->collectives.table->device_memory) return;
  watchdog_finish(w->watchdog, number);
}

static bool is_done(void *user, int64_t ticket)
{
  capl_world *w = user;
  bool done = false;
  return w->collectives.table->done(w->collectives.state, ticket, &done) == CAPL_OK && done;
}

void watchdog_library(capl_world *w, bool open) { watchdog_set_query(w->watchdog, open ? is_done : NULL, w); }

/* ---- dist.h ------------------------------------------------------------------------------------- */

/* In a world of one, or where nothing is computed and no rank was joined: every rank would send the same. */
static capl_status gather_alone(const capl_world *w, const void *mine, size_t len, capl_messages *all)
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

capl_status capl_world_all_gather_bytes(capl_world *w, const void *mine, size_t len, capl_messages *all)
{
  *all = (capl_messages){0};
  return w->control ? control_all_gather(w->control, mine, len, all) : gather_alone(w, mine, len, all);
}

void capl_world_step(capl_world *w, int64_t step) { watchdog_set_step(w->watchdog, step); }
void capl_world_watchdog(capl_world *w, double seconds) { watchdog_set_seconds(w->watchdog, seconds); }
void capl_world_hold(capl_world *w, const char *reason) { watchdog_set_hold(w->watchdog, reason); }

bool capl_world_fail(int status, const char *message)
{
  capl_world *w = capl_world_get();
  return !w || !w->control || control_fail(w->control, status, message);
}
