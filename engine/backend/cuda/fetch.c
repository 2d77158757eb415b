/* fetch.c -- numbers read from the GPU without waiting for it, and events that keep the host from running far ahead.
**
** A fetch copies a few bytes into page-locked memory behind the work that is queued; an event marks when they are
** there. The slots are made once. Fetches come from the thread that queues the work.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/graph.h"

enum { SLOTS = 32, PACE = 8 };

typedef struct {
  cudaEvent_t arrived;
  bool taken;
  bool dropped; /* while a step was recorded, when nothing may wait: free once its copy is done */
} fetch_slot;

static fetch_slot slots[SLOTS];
static unsigned char *landing; /* page-locked, CAPL_FETCH_BYTES for each slot */

static capl_status make_event(cudaEvent_t *event)
{
  if (*event) return CAPL_OK;
  return cu_status(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
}

static capl_status free_dropped(fetch_slot *slot)
{
  if (!slot->dropped) return CAPL_OK;
  CU_TRY(cudaEventSynchronize(slot->arrived), "waiting for a result");
  slot->dropped = slot->taken = false;
  return CAPL_OK;
}

static capl_status refuse_in_capture(void)
{
  return cu.capturing ? CAPL_FAIL(CAPL_ESTATE, "values were read from the GPU inside a captured step") : CAPL_OK;
}

static capl_status find_slot(int *ticket)
{
  if (!landing) CU_TRY(cudaMallocHost((void **)&landing, SLOTS * CAPL_FETCH_BYTES), "page-locking memory for results");
  for (*ticket = 0; *ticket < SLOTS; ++*ticket) {
    CAPL_TRY(free_dropped(&slots[*ticket]));
    if (!slots[*ticket].taken) return make_event(&slots[*ticket].arrived);
  }
  CAPL_FAIL(CAPL_ESTATE, "%d numbers of the GPU are being waited for already", SLOTS);
  capl_error_hint("ask for the values of earlier ones first");
  return CAPL_ESTATE;
}

capl_status cu_fetch_begin(const void *device, size_t bytes, int *ticket)
{
  CAPL_TRY(refuse_in_capture());
  CAPL_TRY(find_slot(ticket));
  fetch_slot *slot = &slots[*ticket];
  CU_TRY(cudaMemcpyAsync(landing + *ticket * CAPL_FETCH_BYTES, device, bytes, cudaMemcpyDeviceToHost, cu.stream),
         "copying a result from the GPU");
  CU_TRY(cudaEventRecord(slot->arrived, cu.stream), "recording an event");
  slot->taken = true;
  return CAPL_OK;
}

capl_status cu_fetch_done(int ticket, bool *done)
{
  CAPL_TRY(refuse_in_capture());
  cudaError_t error = cudaEventQuery(slots[ticket].arrived);
  *done = error == cudaSuccess;
  if (error == cudaErrorNotReady) return cudaGetLastError(), CAPL_OK; /* nobody else shall take it for a failure */
  return cu_status(error, "waiting for a result");
}

capl_status cu_fetch_end(int ticket, void *host, size_t bytes)
{
  if (cu.capturing && !host) return slots[ticket].dropped = true, CAPL_OK;
  CAPL_TRY(refuse_in_capture());
  slots[ticket].taken = false;
  /* Also when nobody wants it: the slot's next copy must not meet this one. */
  CU_TRY(cudaEventSynchronize(slots[ticket].arrived), "waiting for a result");
  if (host) memcpy(host, landing + ticket * CAPL_FETCH_BYTES, bytes);
  return CAPL_OK;
}

capl_status cu_pace(int ahead)
{
  static cudaEvent_t ends[PACE];
  static uint64_t calls;
  if (cu.capturing) return CAPL_OK;
  if (ahead < 0) ahead = 0;
  if (ahead > PACE - 1) ahead = PACE - 1;
  cudaEvent_t *mine = &ends[calls % PACE];
  CAPL_TRY(make_event(mine));
  CU_TRY(cudaEventRecord(*mine, cu.stream), "recording an event");
  uint64_t waited = calls++;
  if (waited < (uint64_t)ahead) return CAPL_OK;
  return cu_status(cudaEventSynchronize(ends[(waited - (uint64_t)ahead) % PACE]), "waiting for an earlier step");
}
