/* world.c -- joining the ranks this process was started with, and leaving them.
**
** By mpirun: MPI first, which needs nothing but its own environment, then the star at an address that rank 0 tells through it.
** Otherwise the star first, over sockets that the launcher made, then NCCL with an id that rank 0 tells through the star.
** SPDX-License-Identifier: Apache-2.0
*/
#include "dist/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "dist/star.h"
#include "dist/watch.h"

static capl_world *joined;

/* ---- the library of collectives ---------------------------------------------------------------- */

static const struct {
  const char *name, *library;
} libraries[] = {{"mpi", "libcapl_mpi.so"}, {"nccl", "libcapl_cuda.so"}};

static const char MPI_HINT[] = "sudo apt install libopenmpi-dev openmpi-bin, then build anew: scripts/build";

static capl_status not_there(int which, const char *why)
{
  CAPL_FAIL(CAPL_EUNSUPPORTED, "the collectives of %s are not available: %s", libraries[which].name,
            *why ? why : "this build has none");
  if (which == 0) capl_error_hint(MPI_HINT);
  return CAPL_EUNSUPPORTED;
}

static capl_status load(int which, const capl_collectives **out)
{
  char why[1024] = "";
  const capl_collectives *(*entry)(void) = NULL;
  void *library = library_open(libraries[which].library, why, sizeof why);
  if (!library) return not_there(which, why);
  library_find(library, "capl_collectives_entry", &entry);
  if (!entry) return not_there(which, "");
  *out = entry();
  if ((*out)->abi != CAPL_COLLECTIVES_ABI) return not_there(which, "its library is of another build of capl; build both anew");
  return CAPL_OK;
}

static const char *launch_name(capl_launch launch) { return launch == CAPL_LAUNCH_TORCHRUN ? "torchrun" : "capl"; }

/* Tensors of processors travel by MPI, which only its own launcher can start. */
static capl_status choose(const capl_world *w, int *which)
{
  *which = w->device->backend->host_memory ? 0 : 1;
  if (*which == 1 || w->place.launch == CAPL_LAUNCH_MPI) return CAPL_OK;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "%d ranks that %s started are on device %s, where they need MPI", w->place.size,
            launch_name(w->place.launch), w->device->name);
  capl_error_hint("start them by MPI: capl RECIPE --device=cpu --ranks=%d, or mpirun -n %d capl RECIPE", w->place.size, w->place.size);
  return CAPL_EUNSUPPORTED;
}

static capl_status open_collectives(capl_world *w)
{
  int which;
  const capl_collectives *table;
  if (!w->device->backend->arithmetic) return CAPL_OK;
  CAPL_TRY(choose(w, &which));
  CAPL_TRY(load(which, &table));
  CAPL_TRY(table->open(w, &w->state));
  w->table = table;
  return CAPL_OK;
}

/* ---- joining ------------------------------------------------------------------------------------ */

static capl_world *new_world(const capl_world_options *o, const capl_place *place)
{
  capl_world *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->hosts = calloc((size_t)place->size, sizeof *w->hosts);
  if (!w->hosts) return free(w), NULL;
  w->place = *place;
  w->device = o->device;
  w->watchdog = o->watchdog > 0 ? o->watchdog : 60;
  for (int i = 0; i < WORLD_WORKS; i++) {
    w->works[i].next_free = w->free_works;
    w->free_works = &w->works[i];
  }
  return w;
}

/* ---- the star ----------------------------------------------------------------------------------- */

/* The collectives carry the text to the others once, before there are messages. */
static capl_status tell_where(capl_world *w, char *where)
{
  int64_t ticket;
  CAPL_TRY(w->table->broadcast(w->state, where, STAR_WHERE, 0, &ticket));
  return w->table->wait(w->state, ticket);
}

static capl_status star_by_mpi(capl_world *w, const star_options *o)
{
  char where[STAR_WHERE] = "";
  star_door *door = NULL;
  capl_status listens = w->place.rank == 0 ? star_listen(where, &door) : CAPL_OK;
  CAPL_TRY(tell_where(w, where)); /* also when rank 0 has no door: the others must not wait for it */
  CAPL_TRY(listens);
  return w->place.rank == 0 ? star_accept(door, o, &w->star) : star_connect(o, where, &w->star);
}

/* "5,6,7" -> 5, 6, 7 */
static capl_status star_by_sockets(capl_world *w, const star_options *o)
{
  int n = w->place.rank == 0 ? w->place.size - 1 : 1, count = 0;
  const char *text = getenv("CAPL_STAR");
  int *sockets = calloc((size_t)n, sizeof *sockets);
  if (!sockets) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d sockets", n);
  for (const char *p = text; p && *p && count < n; count++) {
    char *end;
    sockets[count] = (int)strtol(p, &end, 10);
    p = *end == ',' ? end + 1 : NULL;
  }
  capl_status status = count == n ? star_open_sockets(o, sockets, &w->star)
                                  : CAPL_FAIL(CAPL_EVALUE, "CAPL_STAR names %d of %d sockets", count, n);
  free(sockets);
  return status;
}

static capl_status star_by_torchrun(capl_world *w, star_options *o)
{
  const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
  bool taken = getenv("TORCHELASTIC_USE_AGENT_STORE") != NULL; /* its agent listens there itself */
  o->secret = getenv("TORCHELASTIC_RUN_ID");
  return star_open_tcp(o, address ? address : "", (port ? atoi(port) : 0) + taken, &w->star);
}

static capl_status open_star(capl_world *w)
{
  star_options o = {.rank = w->place.rank, .size = w->place.size, .host = w->place.host, .watch = w->watch};
  switch (w->place.launch) {
    case CAPL_LAUNCH_LOCAL: CAPL_TRY(star_by_sockets(w, &o)); break;
    case CAPL_LAUNCH_TORCHRUN: CAPL_TRY(star_by_torchrun(w, &o)); break;
    default: CAPL_TRY(star_by_mpi(w, &o));
  }
  for (int r = 0; r < w->place.size; r++) snprintf(w->hosts[r], CAPL_HOST_NAME, "%s", star_member(w->star, r)->host);
  return CAPL_OK;
}

static capl_status join_others(capl_world *w)
{
  bool mpi = w->place.launch == CAPL_LAUNCH_MPI;
  CAPL_TRY(watch_new(w->place.rank, w->place.size, w->watchdog, &w->watch));
  if (!w->device->backend->arithmetic) return CAPL_OK; /* nothing is computed, so nobody is waited for */
  if (!mpi) CAPL_TRY(open_star(w));
  CAPL_TRY(open_collectives(w));
  if (mpi) CAPL_TRY(open_star(w));
  if (w->table) watch_library(w, true);
  return CAPL_OK;
}

static void free_world(capl_world *w)
{
  star_close(w->star);
  watch_free(w->watch);
  free(w->hosts);
  free(w);
}

capl_status capl_world_join(const capl_world_options *options, capl_world **out)
{
  capl_place place;
  *out = joined;
  if (joined) return CAPL_FAIL(CAPL_ESTATE, "this process has joined its ranks already");
  CAPL_TRY(capl_place_detect(&place));
  capl_world *w = new_world(options, &place);
  if (!w) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a world of %d ranks", place.size);
  snprintf(w->hosts[place.rank], CAPL_HOST_NAME, "%s", place.host);
  capl_status status = place.size > 1 ? join_others(w) : CAPL_OK;
  if (status != CAPL_OK) return free_world(w), status;
  *out = joined = w;
  return CAPL_OK;
}

capl_world *capl_world_get(void) { return joined; }

/* ---- leaving ------------------------------------------------------------------------------------ */

/* MPI ends by an agreement of all ranks: who ends with an error does not wait for the others to be done too. */
void capl_world_leave(int status)
{
  capl_world *w = joined;
  if (!w) return;
  if (w->star) star_leave(w->star, status, NULL); /* a rank that is lost meanwhile ends this process here */
  joined = NULL;
  if (status != 0) return; /* threads may still use it, and the process ends */
  watch_library(w, false);
  if (w->table) w->table->close(w->state);
  free_world(w);
}

/* ---- asking ------------------------------------------------------------------------------------- */

const capl_place *capl_world_place(const capl_world *w) { return &w->place; }

const char *capl_world_backend(const capl_world *w) { return w->table ? w->table->name : "one"; }

const char *capl_world_host(const capl_world *w, int rank)
{
  return rank >= 0 && rank < w->place.size ? w->hosts[rank] : "";
}
