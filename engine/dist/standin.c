/* standin.c -- what place.c, star.c and watch.c will do, as far as ranks that mpirun started need it; theirs win where both
** are linked. Messages go through the collectives here, and nobody watches.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dist/world.h"

#define WEAK __attribute__((weak))

static int number(const char *name, int otherwise)
{
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

WEAK capl_status capl_place_detect(capl_place *out)
{
  *out = (capl_place){.launch = CAPL_LAUNCH_ONE, .size = 1, .local_size = 1};
  gethostname(out->host, sizeof out->host - 1);
  out->size = number("OMPI_COMM_WORLD_SIZE", 1);
  if (out->size <= 1) return CAPL_OK;
  out->launch = CAPL_LAUNCH_MPI;
  out->rank = number("OMPI_COMM_WORLD_RANK", 0);
  out->local_rank = number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  out->local_size = number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  return CAPL_OK;
}

static capl_status gather(capl_world *w, const void *in, void *out, size_t bytes)
{
  int64_t ticket;
  CAPL_TRY(w->table->all_gather(w->state, in, out, bytes, &ticket));
  return w->table->wait(w->state, ticket);
}

/* len[r] of every rank, then all texts at the length of the longest. */
WEAK capl_status capl_world_tell(capl_world *w, const void *mine, size_t len, capl_messages *all)
{
  int n = w->place.size;
  *all = (capl_messages){.count = n, .data = calloc((size_t)n, sizeof(char *)), .len = calloc((size_t)n, sizeof(size_t))};
  size_t longest = 0;
  capl_status status = CAPL_OK;
  if (w->table) status = gather(w, &len, all->len, sizeof len);
  for (int r = 0; r < n; r++) {
    if (!w->table) all->len[r] = len;
    if (all->len[r] > longest) longest = all->len[r];
  }
  char *own = calloc(1, longest + 1), *every = calloc((size_t)n, longest + 1);
  memcpy(own, mine, len);
  if (status == CAPL_OK && w->table && longest) status = gather(w, own, every, longest);
  for (int r = 0; r < n; r++) {
    all->data[r] = calloc(1, longest + 1);
    memcpy(all->data[r], w->table ? every + (size_t)r * longest : own, all->len[r]);
  }
  free(own);
  free(every);
  if (status != CAPL_OK) capl_messages_free(all);
  return status;
}

WEAK void capl_messages_free(capl_messages *m)
{
  for (int r = 0; r < m->count; r++) free(m->data[r]);
  free(m->data);
  free(m->len);
  *m = (capl_messages){0};
}

WEAK void capl_world_step(capl_world *world, int64_t step) { (void)world, (void)step; }
WEAK void capl_world_hold(capl_world *world, const char *reason) { (void)world, (void)reason; }
WEAK void watch_begin(capl_world *w, const char *name, uint64_t n, uint64_t bytes) { (void)w, (void)name, (void)n, (void)bytes; }
WEAK void watch_wait(capl_world *w, uint64_t n) { (void)w, (void)n; }
WEAK void watch_end(capl_world *w, uint64_t n) { (void)w, (void)n; }
