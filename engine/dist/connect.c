/* connect.c -- opens the control channel of this launch: over inherited sockets, at the launcher's port, or at an
** address that rank 0 sends through MPI.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/control.h"
#include "dist/watchdog.h"
#include "dist/world.h"

static control_options options_of(capl_world *w)
{
  return (control_options){.rank = w->place.rank, .size = w->place.size, .host = w->place.host, .watchdog = w->watchdog,
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
      return CAPL_FAIL(CAPL_EVALUE, "CAPL_CONTROL_SOCKETS is '%s', not the numbers of %d sockets", text ? text : "", n);
    sockets[i] = (int)fd;
    at = end + 1;
  }
  return CAPL_OK;
}

static capl_status open_inherited(capl_world *w)
{
  int n = w->place.rank ? 1 : w->place.size - 1, *sockets = calloc((size_t)n, sizeof *sockets);
  control_options o = options_of(w);
  if (!sockets) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d sockets", n);
  capl_status status = read_sockets(getenv("CAPL_CONTROL_SOCKETS"), n, sockets);
  if (status == CAPL_OK) status = control_open_sockets(&o, sockets, &w->control);
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
  control_options o = options_of(w);
  const char *own = getenv("CAPL_JOB_KEY"), *address = getenv("MASTER_ADDR");
  o.secret = own && *own ? own : getenv("TORCHELASTIC_RUN_ID");
  int port = port_of(getenv("MASTER_PORT"));
  o.one_host = o.one_host && getenv("LOCAL_WORLD_SIZE"); /* else ranks guess, and each another way */
  if (!o.one_host) return control_open_tcp(&o, address ? address : "", port, &w->control);
  char name[16];
  snprintf(name, sizeof name, "%d", port);
  return control_open_local(&o, name, &w->control);
}

/* ---- mpirun ------------------------------------------------------------------------------------- */

/* Where rank 0 listens, on every rank; empty when it cannot. */
static capl_status share_address(capl_world *w, char where[CONTROL_ADDRESS])
{
  int64_t ticket;
  CAPL_TRY(w->mpi.table->broadcast(w->mpi.state, where, CONTROL_ADDRESS, 0, &ticket));
  return w->mpi.table->wait(w->mpi.state, ticket);
}

static capl_status open_host(capl_world *w)
{
  control_options o = options_of(w);
  char where[CONTROL_ADDRESS] = "";
  control_listener *listener = NULL;
  capl_status listening = control_listen(o.one_host, where, &listener);
  if (listening != CAPL_OK) {
    capl_error why = *capl_error_last();
    memset(where, 0, sizeof where);
    share_address(w, where);
    return CAPL_FAIL(listening, "%s", why.message);
  }
  CAPL_TRY(share_address(w, where));
  return control_accept(listener, &o, &w->control);
}

static capl_status open_guest(capl_world *w)
{
  control_options o = options_of(w);
  char where[CONTROL_ADDRESS] = "";
  CAPL_TRY(share_address(w, where));
  if (!*where) return CAPL_FAIL(CAPL_EIO, "rank 0 cannot listen for the other ranks; its output contains the reason");
  where[CONTROL_ADDRESS - 1] = '\0';
  return control_connect(&o, where, &w->control);
}

static capl_status open_control(capl_world *w)
{
  switch (w->place.launch) {
    case CAPL_LAUNCH_LOCAL: return open_inherited(w);
    case CAPL_LAUNCH_TORCHRUN: return open_named(w);
    default: return w->place.rank == 0 ? open_host(w) : open_guest(w);
  }
}

capl_status world_connect(capl_world *w)
{
  CAPL_TRY(open_control(w));
  for (int r = 0; r < w->place.size; r++) snprintf(w->hosts[r], CAPL_HOST_NAME, "%s",
                                                   control_member(w->control, r)->host);
  return CAPL_OK;
}
