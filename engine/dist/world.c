/* world.c -- joining the ranks this process was started with, and leaving them.
**
** MPI comes first where mpirun has started the ranks: it needs nothing but its own environment. Then the control
** channel (connect.c), which may need MPI to send its address. Then NCCL, whose id rank 0 sends through the control
** channel. SPDX-License-Identifier: Apache-2.0
*/
#include "dist/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "dist/control.h"
#include "dist/watchdog.h"

static capl_world *joined;

/* ---- the library of collectives ---------------------------------------------------------------- */

enum { OF_MPI, OF_NCCL };
static const struct {
  const char *name, *library;
} libraries[] = {{"MPI", "libcapl_mpi.so"}, {"NCCL", "libcapl_cuda.so"}};

static const char MPI_HINT[] = "sudo apt install libopenmpi-dev openmpi-bin, then build anew: scripts/build";

/* why: dlopen's words, which name the library itself when its file is missing. */
static capl_status not_there(int which, const char *why)
{
  char absent[128];
  snprintf(absent, sizeof absent, "%s: cannot open shared object file: No such file", libraries[which].library);
  if (!*why || strstr(why, absent))
    CAPL_FAIL(CAPL_EUNSUPPORTED, "ranks need %s, and this build has no %s (it was made without)", libraries[which].name,
              libraries[which].library);
  else
    CAPL_FAIL(CAPL_EUNSUPPORTED, "ranks need %s, which does not work: %s", libraries[which].name, why);
  if (which == OF_MPI) capl_error_hint(MPI_HINT);
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
  if ((*out)->abi != CAPL_COLLECTIVES_ABI)
    return not_there(which, "its library is of another build of capl; build both anew");
  return CAPL_OK;
}

static capl_status open_library(capl_world *w, int which, world_library *out)
{
  const capl_collectives *table;
  CAPL_TRY(load(which, &table));
  CAPL_TRY(table->open(w, &out->state));
  out->table = table;
  return CAPL_OK;
}

/* Tensors of processors travel by MPI, which only its own launcher can start. */
static capl_status check_launch(const capl_world *w, const char *recipe)
{
  int n = w->place.size;
  if (!w->device->backend->host_memory || w->place.launch == CAPL_LAUNCH_MPI) return CAPL_OK;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "%d ranks that %s started are on device %s, where they need MPI", n,
            w->place.launch == CAPL_LAUNCH_TORCHRUN ? "torchrun" : "capl", w->device->name);
  capl_error_hint("start them by MPI: capl %s --device=cpu --ranks=%d, or mpirun -n %d capl %s --device=cpu", recipe, n,
                  n, recipe);
  return CAPL_EUNSUPPORTED;
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
  w->watchdog_s = o->watchdog > 0 ? o->watchdog : 60;
  for (int i = 0; i < WORLD_WORKS; i++) {
    w->works[i].next_free = w->free_works;
    w->free_works = &w->works[i];
  }
  return w;
}

static capl_status join_others(capl_world *w, const char *recipe)
{
  CAPL_TRY(watchdog_new(w->place.rank, w->place.size, w->watchdog_s, &w->watchdog));
  if (!w->device->backend->arithmetic) return CAPL_OK; /* nothing is computed, so nobody is waited for */
  CAPL_TRY(check_launch(w, recipe ? recipe : "RECIPE"));
  if (w->place.launch == CAPL_LAUNCH_MPI) CAPL_TRY(open_library(w, OF_MPI, &w->mpi));
  CAPL_TRY(world_connect(w));
  if (w->device->backend->host_memory) w->collectives = w->mpi;
  else CAPL_TRY(open_library(w, OF_NCCL, &w->collectives));
  watchdog_library(w, true);
  return CAPL_OK;
}

/* For whoever tests that library: a world of one that goes through it, as more ranks do. */
static capl_status join_itself(capl_world *w)
{
  const char *wish = getenv("CAPL_COLLECTIVES");
  if (!wish || strcmp(wish, "nccl") != 0 || !w->device || w->device->backend->host_memory
      || !w->device->backend->arithmetic)
    return CAPL_OK;
  return open_library(w, OF_NCCL, &w->collectives);
}

static void free_world(capl_world *w)
{
  control_close(w->control);
  watchdog_free(w->watchdog);
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
  capl_status status = place.size > 1 ? join_others(w, options->recipe) : join_itself(w);
  if (status != CAPL_OK) return free_world(w), status;
  *out = joined = w;
  return CAPL_OK;
}

capl_world *capl_world_get(void) { return joined; }

/* ---- warming up --------------------------------------------------------------------------------- */

enum { WARM_BYTES = 1 << 18 }; /* more than libraries send in one go, so that they settle how they send much */

static capl_status wait_for(const world_library *l, capl_status queued, const int64_t *ticket)
{
  CAPL_TRY(queued);
  return l->table->wait(l->state, *ticket);
}

/* Every pair once: in round s the ranks meet whose sum is s, and none waits for one that waits for another. */
static capl_status warm_pairs(capl_world *w, const world_library *l, char *send, char *recv)
{
  int64_t ticket;
  for (int s = 0; s < w->place.size; s++) {
    int peer = (s - w->place.rank + w->place.size) % w->place.size;
    if (peer == w->place.rank) continue;
    CAPL_TRY(wait_for(l, l->table->exchange(l->state, peer, send, recv, WARM_BYTES, &ticket), &ticket));
  }
  return CAPL_OK;
}

static capl_status warm(capl_world *w, const world_library *l, char *a, char *b)
{
  size_t n = WARM_BYTES / sizeof(float), part = WARM_BYTES / (size_t)w->place.size / 16 * 16;
  int64_t ticket;
  CAPL_TRY(warm_pairs(w, l, a, b));
  CAPL_TRY(wait_for(l, l->table->all_reduce(l->state, a, n, CAPL_F32, CAPL_REDUCE_SUM, &ticket), &ticket));
  CAPL_TRY(wait_for(l, l->table->broadcast(l->state, a, WARM_BYTES, 0, &ticket), &ticket));
  if (part == 0) return CAPL_OK;
  CAPL_TRY(wait_for(l, l->table->all_gather(l->state, a, b, part, &ticket), &ticket));
  return wait_for(l, l->table->reduce_scatter(l->state, b, a, part / sizeof(float), CAPL_F32, CAPL_REDUCE_SUM, &ticket),
                  &ticket);
}

static capl_status warm_library(capl_world *w, const world_library *l, capl_device *device)
{
  capl_tensor *a = NULL, *b = NULL;
  int64_t n = WARM_BYTES / (int64_t)sizeof(float);
  CAPL_TRY(capl_tensor_new(device, CAPL_F32, 1, &n, CAPL_ROW, &a));
  capl_status status = capl_tensor_new(device, CAPL_F32, 1, &n, CAPL_ROW, &b);
  if (status == CAPL_OK && device->backend->host_memory)
    memset(capl_tensor_data(a), 0, WARM_BYTES), memset(capl_tensor_data(b), 0, WARM_BYTES);
  if (status == CAPL_OK) status = warm(w, l, capl_tensor_data(a), capl_tensor_data(b));
  capl_tensor_unref(a);
  capl_tensor_unref(b);
  return status;
}

capl_status capl_world_warm(capl_world *w)
{
  capl_device *host;
  if (!w->collectives.table || w->place.size < 2) return CAPL_OK;
  CAPL_TRY(warm_library(w, &w->collectives, w->device));
  if (!w->mpi.table || w->mpi.table == w->collectives.table) return CAPL_OK;
  CAPL_TRY(capl_device_open("ref", &host));
  return warm_library(w, &w->mpi, host);
}

/* ---- leaving ------------------------------------------------------------------------------------ */

/* MPI ends by an agreement of all ranks: who ends with an error does not wait for the others to be done too. */
void capl_world_leave(int status)
{
  capl_world *w = joined;
  if (!w) return;
  if (w->control) control_leave(w->control, status, NULL); /* a rank that is lost meanwhile ends this process here */
  joined = NULL;
  if (status != 0) return; /* threads may still use it, and the process ends */
  watchdog_library(w, false);
  if (w->collectives.table && w->collectives.table != w->mpi.table) w->collectives.table->close(w->collectives.state);
  if (w->mpi.table) w->mpi.table->close(w->mpi.state);
  free_world(w);
}

capl_status capl_world_mpi(const char **text)
{
  const capl_collectives *table;
  CAPL_TRY(load(OF_MPI, &table));
  *text = table->describe ? table->describe() : table->name;
  return CAPL_OK;
}

/* ---- asking ------------------------------------------------------------------------------------- */

const capl_place *capl_world_place(const capl_world *w) { return &w->place; }

const char *capl_world_backend(const capl_world *w) { return w->collectives.table ? w->collectives.table->name : "one";
                                                     }

const char *capl_world_host(const capl_world *w, int rank)
{
  return rank >= 0 && rank < w->place.size ? w->hosts[rank] : "";
}
