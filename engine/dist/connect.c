/* connect.c -- the star of this launch: over sockets that were there before the fork, to a port that the launcher
** names, or at an address that rank 0 tells through MPI.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/control.h"
#include "dist/watchdog.h"
#include "dist/world.h"

static star_options options_of(capl_world *w)
{
  return (star_options){.rank = w->place.rank, .size = w->place.size, .host = w->place.host, .watch = w->watch,
                        .one_host = w->place.local_size >= w->place.size};
}

/* ---- forked ranks ------------------------------------------------------------------------------- */

/* "4,5,6" -> sockets; there have to be n. */
static capl_status read_sockets(const char *text, int n, int *sockets)
{
  const char *at = text;
  for (int i = 0; i < n; i++) {
    char *end;
    long fd = at ? strtol(at, &end, 10) : -1;
    bool last = i == n - 1;
    if (!at || end == at || fd < 0 || fd > 1 << 20 || *end != (last ? '\0' : ','))
      return CAPL_FAIL(CAPL_EVALUE, "CAPL_STAR is '%s', not the numbers of %d sockets", text ? text : "", n);
    sockets[i] = (int)fd;
    at = end + 1;
  }
  return CAPL_OK;
}

static capl_status open_inherited(capl_world *w)
{
  int n = w->place.rank ? 1 : w->place.size - 1, *sockets = calloc((size_t)n, sizeof *sockets);
  star_options o = options_of(w);
  if (!sockets) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d sockets", n);
  capl_status status = read_sockets(getenv("CAPL_STAR"), n, sockets);
  if (status == CAPL_OK) status = star_open_sockets(&o, sockets, &w->star);
  free(sockets);
  return status;
}

/* ---- torchrun ----------------------------------------------------------------------------------- */

/* torchrun's own agent may listen at the port it names; the next one is then as free as any. */
static int port_of(const char *text)
{
  const char *taken = getenv("TORCHELASTIC_USE_AGENT_STORE");
  int port = atoi(text ? text : "");
  bool next = taken && (strcmp(taken, "True") == 0 || strcmp(taken, "1") == 0);
  return next ? port + 1 : port;
}

static capl_status open_named(capl_world *w)
{
  star_options o = options_of(w);
  const char *own = getenv("CAPL_JOB_KEY"), *address = getenv("MASTER_ADDR");
  o.secret = own && *own ? own : getenv("TORCHELASTIC_RUN_ID");
  int port = port_of(getenv("MASTER_PORT"));
  o.one_host = o.one_host && getenv("LOCAL_WORLD_SIZE"); /* else ranks guess, and each another way */
  if (!o.one_host) return star_open_tcp(&o, address ? address : "", port, &w->star);
  char name[16];
  snprintf(name, sizeof name, "%d", port);
  return star_open_local(&o, name, &w->star);
}

/* ---- mpirun ------------------------------------------------------------------------------------- */

/* Where rank 0 listens, on every rank; empty when it cannot. */
static capl_status tell_where(capl_world *w, char where[STAR_WHERE])
{
  int64_t ticket;
  CAPL_TRY(w->mpi.table->broadcast(w->mpi.state, where, STAR_WHERE, 0, &ticket));
  return w->mpi.table->wait(w->mpi.state, ticket);
}

static capl_status open_host(capl_world *w)
{
  star_options o = options_of(w);
  char where[STAR_WHERE] = "";
  star_door *door = NULL;
  capl_status listening = star_listen(o.one_host, where, &door);
  if (listening != CAPL_OK) {
    capl_error why = *capl_error_last();
    memset(where, 0, sizeof where);
    tell_where(w, where);
    return CAPL_FAIL(listening, "%s", why.message);
  }
  CAPL_TRY(tell_where(w, where));
  return star_accept(door, &o, &w->star);
}

static capl_status open_guest(capl_world *w)
{
  star_options o = options_of(w);
  char where[STAR_WHERE] = "";
  CAPL_TRY(tell_where(w, where));
  if (!*where) return CAPL_FAIL(CAPL_EIO, "rank 0 cannot listen for the other ranks; its output contains the reason");
  where[STAR_WHERE - 1] = '\0';
  return star_connect(&o, where, &w->star);
}

static capl_status open_star(capl_world *w)
{
  switch (w->place.launch) {
    case CAPL_LAUNCH_LOCAL: return open_inherited(w);
    case CAPL_LAUNCH_TORCHRUN: return open_named(w);
    default: return w->place.rank == 0 ? open_host(w) : open_guest(w);
  }
}

capl_status world_connect(capl_world *w)
{
  CAPL_TRY(open_star(w));
  for (int r = 0; r < w->place.size; r++) snprintf(w->hosts[r], CAPL_HOST_NAME, "%s", star_member(w->star, r)->host);
  return CAPL_OK;
}
