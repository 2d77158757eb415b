/* collectives.c -- collectives on tensors: checked, counted, noted by the watchdog, handed to NCCL or MPI.
**
** In a world of one, and on devices that compute nothing, there is nothing to hand over: what is to be copied is copied
** at once, and there is no work to wait for.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "base/clock.h"
#include "dist/world.h"
#include "tensor/storage.h"

/* ---- checks ------------------------------------------------------------------------------------- */

static capl_status check_device(const capl_world *w, const char *name, const capl_tensor *t)
{
  if (!w->collectives.table) return CAPL_OK;
  bool host = w->device->backend->host_memory;
  if (t->device == w->device || (host && t->device->backend->host_memory) || !t->device->backend->arithmetic)
    return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s: the tensor is on %s, the ranks work on %s", name, t->device->name,
                   w->device->name);
}

/* Dims of one element may have any stride, and what has no element may have anything. */
static capl_status check_dense(const char *name, const char *what, const capl_tensor *t)
{
  char text[160];
  if (capl_tensor_is_dense(t) || capl_tensor_numel(t) == 0) return CAPL_OK;
  CAPL_FAIL(CAPL_ESHAPE, "%s: %s%s has gaps or repeats in memory", name, what,
            capl_tensor_describe(t, text, sizeof text));
  capl_error_hint("x:contiguous() is a copy without");
  return CAPL_ESHAPE;
}

static capl_status check(const capl_world *w, const char *name, const capl_tensor *t)
{
  CAPL_TRY(check_device(w, name, t));
  return check_dense(name, "", t);
}

static capl_status check_reduction(const char *name, const capl_tensor *t, capl_reduction reduction)
{
  enum { SUMS = CAPL_BIT(CAPL_F32) | CAPL_BIT(CAPL_F64) | CAPL_BIT(CAPL_F16) | CAPL_BIT(CAPL_BF16)
        | CAPL_BIT(CAPL_I32) |
                CAPL_BIT(CAPL_I64) };
  if (!(CAPL_BIT(t->dtype) & SUMS))
    return CAPL_FAIL(CAPL_EDTYPE, "%s: tensors of %s are not reduced; f32, f64, f16, bf16, i32 and i64 are", name,
                     capl_dtype_name(t->dtype));
  if (reduction == CAPL_REDUCE_MEAN && !capl_dtype_is_float(t->dtype))
    return CAPL_FAIL(CAPL_EDTYPE, "%s: the mean of %s is no %s; ask for the sum", name, capl_dtype_name(t->dtype),
                     capl_dtype_name(t->dtype));
  return CAPL_OK;
}

static capl_status check_rank(const capl_world *w, const char *name, int rank)
{
  if (rank >= 0 && rank < w->place.size) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s: there is no rank %d; there are 0 to %d", name, rank, w->place.size - 1);
}

static bool same_order(const capl_tensor *whole, const capl_tensor *part)
{
  if (whole->ndim != part->ndim + 1) return false;
  for (int d = 0; d < part->ndim; d++) {
    if (whole->size[d + 1] != part->size[d]) return false;
    if (part->size[d] > 1 && whole->stride[d + 1] != part->stride[d]) return false;
  }
  return true;
}

/* whole (ranks, …) is made of parts (…), one behind the other in memory. */
static capl_status check_parts(const capl_world *w, const char *name, const capl_tensor *whole, const capl_tensor *part)
{
  char a[160], b[160];
  int64_t n = capl_tensor_numel(part);
  CAPL_TRY(check(w, name, whole));
  CAPL_TRY(check(w, name, part));
  if (whole->dtype != part->dtype)
    return CAPL_FAIL(CAPL_EDTYPE, "%s: in and out are %s and %s", name, capl_dtype_name(part->dtype),
                     capl_dtype_name(whole->dtype));
  bool fits = same_order(whole, part) && whole->size[0] == w->place.size;
  if (fits && (w->place.size == 1 || n == 0 || whole->stride[0] == n)) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "%s: %s is not %d contiguous parts like %s", name,
                   capl_tensor_describe(whole, a, sizeof a), w->place.size, capl_tensor_describe(part, b, sizeof b));
}

/* ---- works -------------------------------------------------------------------------------------- */

static capl_work *take_work(capl_world *w)
{
  capl_work *work = w->free_works;
  if (!work) return calloc(1, sizeof *work);
  w->free_works = work->next_free;
  return work;
}

static void give_work(capl_work *work)
{
  capl_world *w = work->world;
  for (int i = 0; i < 2; i++) capl_tensor_unref(work->held[i]), work->held[i] = NULL;
  if (work < w->works || work >= w->works + WORLD_WORKS) {
    free(work);
    return;
  }
  work->next_free = w->free_works;
  w->free_works = work;
}

static capl_status wait_for(capl_world *w, int64_t ticket, uint64_t number)
{
  double start = clock_now();
  capl_status status = w->collectives.table->wait(w->collectives.state, ticket);
  watchdog_end(w, number);
  w->waited += clock_now() - start;
  return status;
}

/* Whether anything is to be sent at all. */
static bool alone(const capl_world *w, const capl_tensor *t)
{
  return !w->collectives.table || !t->device->backend->arithmetic;
}

static void begin_with(capl_world *w, const char *name, size_t bytes, int peer)
{
  w->calls++;
  w->bytes += bytes;
  watchdog_begin(w, name, w->calls, bytes, peer);
}

static void begin(capl_world *w, const char *name, size_t bytes) { begin_with(w, name, bytes, -1); }

/* The call was queued, or not: waits, or gives the work that holds both tensors until it is done. */
static capl_status queued(capl_world *w, capl_status status, int64_t ticket, capl_tensor *a, capl_tensor *b,
                          capl_work **out)
{
  uint64_t number = w->calls;
  if (status != CAPL_OK) return watchdog_end(w, number), status;
  w->last_ticket = ticket;
  watchdog_ticket(w, number, ticket);
  if (!out) return wait_for(w, ticket, number);
  capl_work *work = take_work(w);
  if (!work) return wait_for(w, ticket, number);
  *work = (capl_work){.world = w, .ticket = ticket, .number = number, .held = {capl_tensor_ref(a), capl_tensor_ref(b)}};
  *out = work;
  return CAPL_OK;
}

capl_status capl_work_wait(capl_work *work)
{
  if (!work) return CAPL_OK;
  capl_status status = wait_for(work->world, work->ticket, work->number);
  give_work(work);
  return status;
}

capl_status capl_work_done(capl_work *work, bool *done)
{
  *done = true;
  return work ? work->world->collectives.table->done(work->world->collectives.state, work->ticket, done) : CAPL_OK;
}

/* ---- the collectives ---------------------------------------------------------------------------- */

static void no_work(capl_work **work)
{
  if (work) *work = NULL;
}

capl_status capl_all_reduce(capl_world *w, capl_tensor *t, capl_reduction reduction, capl_work **work)
{
  static const char name[] = "all_reduce";
  int64_t ticket = 0;
  no_work(work);
  CAPL_TRY(check(w, name, t));
  CAPL_TRY(check_reduction(name, t, reduction));
  if (alone(w, t)) return CAPL_OK;
  begin(w, name, capl_tensor_bytes(t));
  storage_written(t->storage);
  capl_status status = w->collectives.table->all_reduce(w->collectives.state, capl_tensor_data(t),
                                                        (size_t)capl_tensor_numel(t), t->dtype, reduction, &ticket);
  return queued(w, status, ticket, t, NULL, work);
}

capl_status capl_broadcast(capl_world *w, capl_tensor *t, int root, capl_work **work)
{
  static const char name[] = "broadcast";
  int64_t ticket = 0;
  no_work(work);
  CAPL_TRY(check(w, name, t));
  CAPL_TRY(check_rank(w, name, root));
  if (alone(w, t)) return CAPL_OK;
  begin(w, name, capl_tensor_bytes(t));
  storage_written(t->storage);
  capl_status status = w->collectives.table->broadcast(w->collectives.state, capl_tensor_data(t), capl_tensor_bytes(t),
                                                       root, &ticket);
  return queued(w, status, ticket, t, NULL, work);
}

/* The only part there is, as a tensor of the whole's dims. */
static capl_status copy_part(capl_tensor *whole, capl_tensor *part, bool out_of_whole)
{
  capl_tensor *view;
  if (!whole->device->backend->arithmetic) return CAPL_OK;
  CAPL_TRY(capl_tensor_alias(whole, part->ndim, part->size, whole->stride + 1, whole->offset, &view));
  capl_status status = out_of_whole ? capl_tensor_copy(part, view) : capl_tensor_copy(view, part);
  capl_tensor_unref(view);
  return status;
}

capl_status capl_all_gather(capl_world *w, capl_tensor *in, capl_tensor *out, capl_work **work)
{
  static const char name[] = "all_gather";
  int64_t ticket = 0;
  no_work(work);
  CAPL_TRY(check_parts(w, name, out, in));
  if (alone(w, in)) return copy_part(out, in, false);
  begin(w, name, capl_tensor_bytes(in));
  storage_written(out->storage);
  capl_status status = w->collectives.table->all_gather(w->collectives.state, capl_tensor_data(in),
                                                        capl_tensor_data(out), capl_tensor_bytes(in), &ticket);
  return queued(w, status, ticket, in, out, work);
}

capl_status capl_reduce_scatter(capl_world *w, capl_tensor *in, capl_tensor *out, capl_reduction reduction,
                                capl_work **work)
{
  static const char name[] = "reduce_scatter";
  int64_t ticket = 0;
  no_work(work);
  CAPL_TRY(check_parts(w, name, in, out));
  CAPL_TRY(check_reduction(name, in, reduction));
  if (alone(w, in)) return copy_part(in, out, true);
  begin(w, name, capl_tensor_bytes(in));
  storage_written(out->storage);
  capl_status status = w->collectives.table->reduce_scatter(w->collectives.state, capl_tensor_data(in),
                                                            capl_tensor_data(out),
                                                              (size_t)capl_tensor_numel(out), in->dtype, reduction,
                                                              &ticket);
  return queued(w, status, ticket, in, out, work);
}

static capl_status check_pair(const capl_world *w, const char *name, const capl_tensor *send, const capl_tensor *recv)
{
  char a[160], b[160];
  CAPL_TRY(check(w, name, send));
  CAPL_TRY(check(w, name, recv));
  if (send->storage == recv->storage && capl_tensor_numel(send) > 0)
    return CAPL_FAIL(CAPL_EVALUE, "%s: sends from and receives into the same memory", name);
  if (send->dtype == recv->dtype && capl_tensor_same_layout(send, recv)) return CAPL_OK;
  return CAPL_FAIL(send->dtype == recv->dtype ? CAPL_ESHAPE : CAPL_EDTYPE, "%s: sends %s and receives %s", name,
                   capl_tensor_describe(send, a, sizeof a), capl_tensor_describe(recv, b, sizeof b));
}

capl_status capl_exchange(capl_world *w, int peer, capl_tensor *send, capl_tensor *recv, capl_work **work)
{
  static const char name[] = "exchange";
  int64_t ticket = 0;
  no_work(work);
  CAPL_TRY(check_pair(w, name, send, recv));
  CAPL_TRY(check_rank(w, name, peer));
  if (!send->device->backend->arithmetic) return CAPL_OK;
  if (alone(w, send) || peer == w->place.rank) return capl_tensor_copy(recv, send);
  begin_with(w, name, capl_tensor_bytes(send), peer);
  storage_written(recv->storage);
  capl_status status = w->collectives.table->exchange(w->collectives.state, peer, capl_tensor_data(send),
                                                      capl_tensor_data(recv), capl_tensor_bytes(send), &ticket);
  return queued(w, status, ticket, send, recv, work);
}

/* Messages are an exchange of all with all, so nobody has its answer before all have come. */
capl_status capl_barrier(capl_world *w)
{
  capl_messages all;
  if (!w->collectives.table) return CAPL_OK;
  begin(w, "barrier", 0);
  uint64_t number = w->calls;
  double start = clock_now();
  capl_status status = w->last_ticket ? w->collectives.table->wait(w->collectives.state, w->last_ticket) : CAPL_OK;
  if (status == CAPL_OK && w->collectives.table->device_memory && w->device->backend->sync)
    status = w->device->backend->sync();
  if (status == CAPL_OK) status = capl_world_all_gather_bytes(w, "", 0, &all);
  if (status == CAPL_OK) capl_messages_free(&all);
  w->waited += clock_now() - start;
  watchdog_end(w, number);
  return status;
}

capl_status capl_world_traffic(capl_world *w, capl_traffic *out)
{
  *out = (capl_traffic){.calls = w->calls, .bytes = w->bytes, .busy = w->waited, .waited = w->waited};
  if (!w->collectives.table || !w->collectives.table->busy) return CAPL_OK;
  double device = 0;
  capl_status status = w->collectives.table->busy(w->collectives.state, &out->busy, &device);
  out->waited += device;
  return status;
}
