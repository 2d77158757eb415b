/* mpi_calls.c -- one collective by MPI: first all ranks say which one they are about to make, then they make it.
**
** That costs a few microseconds, and buys two things. Ranks that make different calls all get an error that names both
** sides, where MPI would cut the message short or never return. And whoever is early sleeps until the last one has
** come: MPI itself waits by asking again and again, which takes the processor from the ranks that still compute.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "dist/mpi_calls.h"

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/float16.h"

enum { EAGER_TESTS = 200, LAZY_TESTS = 2000, NAP_NS = 50000, LONG_NAP_NS = 500000, HALVES = 1 << 18 };

atomic_bool mpi_given_up;

static MPI_Comm comm = MPI_COMM_NULL;
static bool ours; /* MPI was begun here, not by another part of the program */
static int size, own_rank;
static size_t piece = (size_t)1 << 30; /* bytes that one call of MPI takes, whose counts are ints */
static size_t halves = HALVES;         /* 16-bit numbers that one call takes, of all parts together */
static float *wide; /* 2 * HALVES numbers: 16-bit ones are reduced as f32 and rounded once */

/* ---- MPI's own words ---------------------------------------------------------------------------- */

static capl_status mpi_status(int code, const char *call)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int n = 0;
  if (code == MPI_SUCCESS) return CAPL_OK;
  MPI_Error_string(code, text, &n);
  return CAPL_FAIL(CAPL_EIO, "MPI failed in %s: %s", call, text);
}
#define MPI_TRY(call)                                        \
  do {                                                       \
    capl_status mpi_try_status = mpi_status(call, #call);    \
    if (mpi_try_status != CAPL_OK) return mpi_try_status;    \
  } while (0)

/* ---- waiting without keeping a processor busy --------------------------------------------------- */

static void nap(int tests)
{
  if (tests < EAGER_TESTS) {
    sched_yield();
    return;
  }
  /* after a tenth of a second nobody is in a hurry */
  struct timespec t = {0, tests < LAZY_TESTS ? NAP_NS : LONG_NAP_NS};
  nanosleep(&t, NULL);
}

static capl_status wait_quietly(MPI_Request *request)
{
  for (int tests = 0, done = 0;; tests++) {
    MPI_TRY(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) return CAPL_OK;
    if (atomic_load_explicit(&mpi_given_up, memory_order_relaxed)) return CAPL_FAIL(CAPL_EIO, "another rank is lost");
    nap(tests);
  }
}

/* ---- what all ranks are about to do ------------------------------------------------------------- */

static const char *const kinds[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "exchange"};
static const char *const reductions[] = {"sum", "mean", "max"};

typedef struct {
  int64_t what, count;
} intent;

/* Kind, dtype, reduction and root as one number; a peer is each rank's own. */
static intent intent_of(const mpi_job *job)
{
  int rank = job->kind == JOB_BROADCAST ? job->rank : 0;
  return (intent){(int64_t)job->kind | (int64_t)job->dtype << 8 | (int64_t)job->reduction << 16 | (int64_t)rank << 24,
                  (int64_t)job->count};
}

static mpi_kind kind_of(intent i) { return (mpi_kind)(i.what & 0xFF); }

static bool reduces(intent i) { return kind_of(i) == JOB_ALL_REDUCE || kind_of(i) == JOB_REDUCE_SCATTER; }

static const char *describe(intent i, char *buf, size_t len)
{
  const char *name = kinds[kind_of(i)];
  if (reduces(i))
    snprintf(buf, len, "%s (%s) of %lld x %s", name, reductions[i.what >> 16 & 0xFF], (long long)i.count,
             capl_dtype_name((capl_dtype)(i.what >> 8 & 0xFF)));
  else if (kind_of(i) == JOB_BROADCAST)
    snprintf(buf, len, "%s of %lld bytes from rank %d", name, (long long)i.count, (int)(i.what >> 24));
  else
    snprintf(buf, len, "%s of %lld bytes", name, (long long)i.count);
  return buf;
}

static capl_status differ(int rank_a, intent a, int rank_b, intent b)
{
  char text_a[160], text_b[160];
  capl_status code = a.what == b.what ? CAPL_ESHAPE : CAPL_ESTATE;
  if (reduces(a) && reduces(b) && (a.what >> 8 & 0xFF) != (b.what >> 8 & 0xFF)) code = CAPL_EDTYPE;
  CAPL_FAIL(code, "the ranks do not make the same call: rank %d %s, rank %d %s", rank_a,
            describe(a, text_a, sizeof text_a), rank_b, describe(b, text_b, sizeof text_b));
  capl_error_hint("every rank must make the same calls in the same order, with tensors of the same size: is one of "
                  "them inside "
                  "an if that not all ranks enter?");
  return code;
}

/* Names the first rank that differs from rank 0; the same on all ranks. */
static capl_status name_difference(intent mine)
{
  intent *all = malloc((size_t)size * sizeof *all);
  if (!all) return CAPL_FAIL(CAPL_ENOMEM, "no memory for what %d ranks are about to do", size);
  capl_status status = mpi_status(MPI_Allgather(&mine, 2, MPI_INT64_T, all, 2, MPI_INT64_T, comm), "MPI_Allgather");
  for (int r = 1; r < size && status == CAPL_OK; r++)
    if (all[r].what != all[0].what || all[r].count != all[0].count) status = differ(0, all[0], r, all[r]);
  free(all);
  return status;
}

/* The largest of (x, -x) over all ranks is (x, -x) where all have the same x. */
static capl_status agree(const mpi_job *job)
{
  intent mine = intent_of(job);
  int64_t most[4] = {mine.what, -mine.what, mine.count, -mine.count};
  MPI_Request request;
  MPI_TRY(MPI_Iallreduce(MPI_IN_PLACE, most, 4, MPI_INT64_T, MPI_MAX, comm, &request));
  CAPL_TRY(wait_quietly(&request));
  if (most[0] == -most[1] && most[2] == -most[3]) return CAPL_OK;
  return name_difference(mine);
}

/* Between two ranks, while others may do something else. */
static capl_status agree_with_peer(const mpi_job *job)
{
  intent mine = intent_of(job), theirs;
  MPI_Request request;
  MPI_TRY(MPI_Irecv(&theirs, 2, MPI_INT64_T, job->rank, 1, comm, &request));
  MPI_TRY(MPI_Send(&mine, 2, MPI_INT64_T, job->rank, 1, comm));
  CAPL_TRY(wait_quietly(&request));
  if (mine.what == theirs.what && mine.count == theirs.count) return CAPL_OK;
  return own_rank < job->rank ? differ(own_rank, mine, job->rank, theirs) : differ(job->rank, theirs, own_rank, mine);
}

/* ---- numbers ------------------------------------------------------------------------------------ */

static MPI_Datatype type_of(capl_dtype dtype)
{
  switch (dtype) {
    case CAPL_F64: return MPI_DOUBLE;
    case CAPL_I32: return MPI_INT32_T;
    case CAPL_I64: return MPI_INT64_T;
    default: return MPI_FLOAT;
  }
}

static MPI_Op op_of(capl_reduction reduction) { return reduction == CAPL_REDUCE_MAX ? MPI_MAX : MPI_SUM; }

/* By a power of two a product is as exact as a quotient, and takes a quarter of the time. */
static void divide_f32(float *data, size_t n)
{
  float by = (float)size, times = 1 / by;
  if ((size & (size - 1)) == 0)
    for (size_t i = 0; i < n; i++) data[i] *= times;
  else
    for (size_t i = 0; i < n; i++) data[i] /= by;
}

static void divide(void *data, size_t n, capl_dtype dtype)
{
  double *d = data;
  if (dtype == CAPL_F32) divide_f32(data, n);
  else
    for (size_t i = 0; i < n; i++) d[i] /= size;
}

static void widen(const uint16_t *from, float *to, size_t n, capl_dtype dtype)
{
  if (dtype == CAPL_BF16)
    for (size_t i = 0; i < n; i++) to[i] = capl_bf16_to_float(from[i]);
  else
    for (size_t i = 0; i < n; i++) to[i] = capl_f16_to_float(from[i]);
}

static void narrow(const float *from, uint16_t *to, size_t n, capl_dtype dtype)
{
  if (dtype == CAPL_BF16)
    for (size_t i = 0; i < n; i++) to[i] = capl_bf16_from_float(from[i]);
  else
    for (size_t i = 0; i < n; i++) to[i] = capl_f16_from_float(from[i]);
}

static capl_status need_wide(void)
{
  if (!wide) wide = malloc((size_t)2 * HALVES * sizeof *wide);
  return wide ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to sum 16-bit numbers of %d ranks", size);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- reductions --------------------------------------------------------------------------------- */

static capl_status all_reduce_half(const mpi_job *job)
{
  CAPL_TRY(need_wide());
  for (size_t at = 0; at < job->count; at += halves) {
    size_t n = least(halves, job->count - at);
    uint16_t *data = (uint16_t *)job->out + at;
    widen(data, wide, n, job->dtype);
    MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, wide, (int)n, MPI_FLOAT, op_of(job->reduction), comm));
    if (job->reduction == CAPL_REDUCE_MEAN) divide(wide, n, CAPL_F32);
    narrow(wide, data, n, job->dtype);
  }
  return CAPL_OK;
}

static capl_status all_reduce(const mpi_job *job)
{
  size_t each = capl_dtype_size(job->dtype), most = piece / each;
  if (capl_dtype_is_16_bit(job->dtype)) return all_reduce_half(job);
  for (size_t at = 0; at < job->count; at += most) {
    size_t n = least(most, job->count - at);
    char *data = (char *)job->out + at * each;
    MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, data, (int)n, type_of(job->dtype), op_of(job->reduction), comm));
    if (job->reduction == CAPL_REDUCE_MEAN) divide(data, n, job->dtype);
  }
  return CAPL_OK;
}

static capl_status reduce_scatter_half(const mpi_job *job)
{
  CAPL_TRY(need_wide());
  float *sum = wide + HALVES;
  size_t most = halves > (size_t)size ? halves / (size_t)size : 1; /* of each part: all of them are widened at once */
  for (size_t at = 0; at < job->count; at += most) {
    size_t n = least(most, job->count - at);
    for (int r = 0; r < size; r++)
      widen((const uint16_t *)job->in + (size_t)r * job->count + at, wide + (size_t)r * n, n, job->dtype);
    MPI_TRY(MPI_Reduce_scatter_block(wide, sum, (int)n, MPI_FLOAT, op_of(job->reduction), comm));
    if (job->reduction == CAPL_REDUCE_MEAN) divide(sum, n, CAPL_F32);
    narrow(sum, (uint16_t *)job->out + at, n, job->dtype);
  }
  return CAPL_OK;
}

/* Too much for one call: rank by rank, in pieces. */
static capl_status reduce_to_each(const mpi_job *job)
{
  size_t each = capl_dtype_size(job->dtype), most = piece / each;
  for (int r = 0; r < size; r++)
    for (size_t at = 0; at < job->count; at += most)
      MPI_TRY(MPI_Reduce((const char *)job->in + ((size_t)r * job->count + at) * each, (char *)job->out + at * each,
                         (int)least(most, job->count - at), type_of(job->dtype), op_of(job->reduction), r, comm));
  return CAPL_OK;
}

static capl_status reduce_scatter(const mpi_job *job)
{
  if (capl_dtype_is_16_bit(job->dtype)) return reduce_scatter_half(job);
  if (job->count * capl_dtype_size(job->dtype) > piece / (size_t)size)
    CAPL_TRY(reduce_to_each(job));
  else
    MPI_TRY(MPI_Reduce_scatter_block(job->in, job->out, (int)job->count, type_of(job->dtype), op_of(job->reduction),
                                     comm));
  if (job->reduction == CAPL_REDUCE_MEAN) divide(job->out, job->count, job->dtype);
  return CAPL_OK;
}

/* ---- copies ------------------------------------------------------------------------------------- */

static capl_status broadcast_bytes(char *data, size_t bytes, int root)
{
  for (size_t at = 0; at < bytes; at += piece)
    MPI_TRY(MPI_Bcast(data + at, (int)least(piece, bytes - at), MPI_BYTE, root, comm));
  return CAPL_OK;
}

static capl_status all_gather(const mpi_job *job)
{
  char *out = job->out;
  if (job->count <= piece / (size_t)size) {
    MPI_TRY(MPI_Allgather(job->in, (int)job->count, MPI_BYTE, out, (int)job->count, MPI_BYTE, comm));
    return CAPL_OK;
  }
  memcpy(out + (size_t)own_rank * job->count, job->in, job->count);
  for (int r = 0; r < size; r++) CAPL_TRY(broadcast_bytes(out + (size_t)r * job->count, job->count, r));
  return CAPL_OK;
}

static capl_status exchange(const mpi_job *job)
{
  for (size_t at = 0; at < job->count; at += piece) {
    int n = (int)least(piece, job->count - at);
    MPI_TRY(MPI_Sendrecv((const char *)job->in + at, n, MPI_BYTE, job->rank, 2, (char *)job->out + at, n, MPI_BYTE,
                         job->rank, 2, comm, MPI_STATUS_IGNORE));
  }
  return CAPL_OK;
}

/* ---- all of them -------------------------------------------------------------------------------- */

capl_status mpi_run(const mpi_job *job)
{
  CAPL_TRY(job->kind == JOB_EXCHANGE ? agree_with_peer(job) : agree(job));
  switch (job->kind) {
    case JOB_ALL_REDUCE: return job->count ? all_reduce(job) : CAPL_OK;
    case JOB_BROADCAST: return broadcast_bytes(job->out, job->count, job->rank);
    case JOB_ALL_GATHER: return job->count ? all_gather(job) : CAPL_OK;
    case JOB_REDUCE_SCATTER: return job->count ? reduce_scatter(job) : CAPL_OK;
    case JOB_EXCHANGE: return exchange(job);
  }
  return CAPL_OK;
}

/* ---- beginning and end -------------------------------------------------------------------------- */

/* Open MPI's own parts are loaded later, and look for its symbols among those that everybody sees. */
static void show_symbols(void)
{
  Dl_info where;
  if (dladdr((void *)MPI_Init_thread, &where) && where.dli_fname)
    dlopen(where.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/* For tests: pieces of what takes more than one call. */
static void read_piece(void)
{
  const char *text = getenv("CAPL_MPI_PIECE");
  long long bytes = text ? atoll(text) : 0;
  if (bytes >= 64 && bytes <= 1 << 30) piece = (size_t)bytes / 64 * 64;
  halves = least(halves, piece / 2);
}

/* mpirun of another MPI, or of an Open MPI of another age, starts processes that each take themselves for alone. */
static capl_status check_ranks(const capl_place *place)
{
  if (size == place->size && own_rank == place->rank) return CAPL_OK;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "the launcher reports rank %d of %d, MPI reports rank %d of %d", place->rank,
            place->size, own_rank, size);
  capl_error_hint("the mpirun that started this is of another MPI than the one that capl was built with: mpirun "
                  "--version");
  return CAPL_EUNSUPPORTED;
}

capl_status mpi_begin(const capl_place *place)
{
  int given, begun = 0;
  show_symbols();
  read_piece();
  MPI_TRY(MPI_Initialized(&begun));
  if (!begun) MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given));
  ours = !begun;
  MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &comm)); /* other users of MPI in this process have messages of their own */
  MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_TRY(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  MPI_TRY(MPI_Comm_size(comm, &size));
  MPI_TRY(MPI_Comm_rank(comm, &own_rank));
  return check_ranks(place);
}

const char *mpi_version(void)
{
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int n = 0;
  if (MPI_Get_library_version(text, &n) != MPI_SUCCESS) return "MPI";
  text[strcspn(text, ",\n")] = '\0'; /* behind it: who packed it, and where it was reported */
  return text;
}

void mpi_end(void)
{
  free(wide);
  wide = NULL;
  MPI_Comm_free(&comm);
  if (ours) MPI_Finalize();
}
