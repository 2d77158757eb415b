/* block.cc -- the threads of a block as fibers: barriers, warps, shared memory, deadlocks.
**
** A fiber takes one CUDA thread after another until one of them has to wait, so a kernel without barriers runs as one
** plain loop. Threads start in ascending order, or in descending order where the test asks for it: what one thread reads
** before another has written it differs between the two. Shared memory holds garbage when a block begins.
** SPDX-License-Identifier: Apache-2.0
*/
#include "block.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "race.h"
#include "runtime.h"
#include "shared.h"
#include "switch.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

#ifdef SHIM_ASAN
enum { STACK = 256 << 10 };
#else
enum { STACK = 64 << 10 };
#endif
enum { GUARD = 4096, WARP = 32 };

enum state { READY, AT_BARRIER, AT_WARP, DONE };

/* A fiber and the CUDA thread it runs. */
struct fiber {
  place at;
  state now;
  int thread; /* number in the block; -1 = none */
  uint3 index;
  const char *file; /* the barrier it waits at */
  int line;
};

/* What a lane asked of its warp, until all lanes it named have come. */
struct request {
  fiber *who; /* nullptr = none */
  unsigned mask;
  int source;
  uint64_t value, result;
  bool barrier; /* __syncwarp */
};

static fiber fibers[MAX_THREADS];
static request requests[MAX_THREADS];
static bool finished[MAX_THREADS];
static unsigned alive[MAX_THREADS / WARP], waiting[MAX_THREADS / WARP]; /* lanes that run; that have a request */
static place scheduler;
static fiber *current;
static int threads, next_thread, used_fibers;
static bool from_last;
static const launch *running;
static unsigned char *dynamic_shared;
static unsigned char *stacks, *shared_room;

/* ---- fibers ---------------------------------------------------------------------------------- */

static void take_thread(fiber *f)
{
  int k = next_thread++;
  int number = from_last ? threads - 1 - k : k;
  const dim3 &b = blockDim;
  f->thread = number;
  f->index = {(unsigned)number % b.x, (unsigned)number / b.x % b.y, (unsigned)number / (b.x * b.y)};
  threadIdx = f->index;
  race_turn(number);
}

static void fiber_main()
{
  fiber *f = current;
  place_arrived(&f->at);
  for (;;) {
    while (next_thread < threads) {
      take_thread(f);
      running->kernel->call(running->args);
      finished[f->thread] = true;
      alive[f->thread / WARP] &= ~(1u << f->thread % WARP);
      f->thread = -1;
    }
    f->now = DONE;
    place_go(&f->at, &scheduler);
  }
}

/* All stacks in one piece, a page that faults below each. */
static unsigned char *stack_of(int k)
{
  const size_t each = STACK + GUARD;
  if (!stacks) {
    void *p = mmap(nullptr, each * MAX_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    stacks = (unsigned char *)p;
    for (int i = 0; i < MAX_THREADS; i++) mprotect(stacks + i * each, GUARD, PROT_NONE);
  }
  return stacks + (size_t)k * each + GUARD;
}

/* A fiber at its beginning. One that has finished its last thread waits in its loop and goes on from there; one that was
** given up in the middle of a thread starts anew, on a stack that AddressSanitizer has to forget. */
static void prepare(fiber *f, int k)
{
  if (!f->at.stack || f->now != DONE) {
    unsigned char *stack = stack_of(k);
#ifdef SHIM_ASAN
    __asan_unpoison_memory_region(stack, STACK);
#endif
    place_make(&f->at, stack, STACK, fiber_main);
  }
  f->thread = -1;
  f->now = READY;
}

static void resume(fiber *f)
{
  current = f;
  threadIdx = f->index;
  race_turn(f->thread);
  place_go(&scheduler, &f->at);
}

static void wait_as(state why, const char *file, int line)
{
  fiber *f = current;
  f->now = why;
  f->file = file;
  f->line = line;
  place_go(&f->at, &scheduler);
}

/* ---- barriers -------------------------------------------------------------------------------- */

void shim_syncthreads(const char *file, int line)
{
  if (threads > 1) wait_as(AT_BARRIER, file, line);
}

int shim_lane(void)
{
  return current->thread % WARP;
}

void *shim_dynamic_shared(void)
{
  return dynamic_shared;
}

static const uint64_t GARBAGE = 0xCBCBCBCBCBCBCBCBull;

/* Whether all lanes of a warp that still run have come to __syncwarp. One of fewer lanes is not known to the search for
** races, which then finds more than there are. */
static bool is_barrier(int warp, unsigned group)
{
  bool barrier = group == alive[warp];
  for (int k = 0; k < WARP; k++)
    if (group >> k & 1) barrier = barrier && requests[warp * WARP + k].barrier;
  return barrier;
}

/* Serves all lanes of one group at once. Reading from a lane that did not take part gives garbage, as on the card. */
static void serve(int warp, unsigned group)
{
  request *lanes = requests + warp * WARP;
  uint64_t ballot = 0;
  if (is_barrier(warp, group)) race_warp_barrier(warp);
  for (int k = 0; k < WARP; k++)
    if (group >> k & 1) ballot |= (lanes[k].value & 1) << k;
  for (int k = 0; k < WARP; k++) {
    if (!(group >> k & 1)) continue;
    int source = lanes[k].source;
    lanes[k].result = source < 0 ? ballot : group >> source & 1 ? lanes[source].value : GARBAGE;
  }
  for (int k = 0; k < WARP; k++) {
    if (!(group >> k & 1)) continue;
    lanes[k].who->now = READY;
    lanes[k].who = nullptr;
  }
  waiting[warp] &= ~group;
}

/* Serves the group of `mask` if all of it that still runs has come, with the same mask. */
static bool try_serve(int warp, unsigned mask)
{
  const request *lanes = requests + warp * WARP;
  unsigned group = mask & alive[warp];
  if (group & ~waiting[warp]) return false;
  for (int k = 0; k < WARP; k++)
    if (group >> k & 1 && lanes[k].mask != mask) return false;
  serve(warp, group);
  return true;
}

/* -> what the thread gets when its group has come. */
static uint64_t meet(request r, const char *file, int line)
{
  int t = current->thread;
  requests[t] = r;
  waiting[t / WARP] |= 1u << t % WARP;
  if (!try_serve(t / WARP, r.mask)) wait_as(AT_WARP, file, line);
  return requests[t].result;
}

uint64_t shim_warp(unsigned mask, uint64_t value, int source, const char *file, int line)
{
  return meet({current, mask, source < 0 ? -1 : source % WARP, value, 0, false}, file, line);
}

void shim_syncwarp(unsigned mask, const char *file, int line)
{
  meet({current, mask, 0, 0, 0, true}, file, line);
}

/* ---- one block ------------------------------------------------------------------------------- */

static bool release_warps()
{
  bool any = false;
  for (int t = 0; t < threads; t++)
    if (requests[t].who && try_serve(t / WARP, requests[t].mask)) any = true;
  return any;
}

static void report(const char *what)
{
  const fiber *first = nullptr;
  int barrier = 0, warp = 0, done = 0;
  for (int k = 0; k < used_fibers; k++) {
    fiber *f = &fibers[k];
    barrier += f->now == AT_BARRIER;
    warp += f->now == AT_WARP;
    if (!first && (f->now == AT_BARRIER || f->now == AT_WARP)) first = f;
  }
  for (int t = 0; t < threads; t++) done += finished[t];
  char name[512];
  shared_kernel_name(running->kernel->code, name, sizeof name);
  fault_set(cudaErrorLaunchFailure,
            "%s in %s, block (%u,%u,%u): %d threads at __syncthreads, %d at a warp function, %d returned; thread %d waits "
            "at %s:%d", what, name, blockIdx.x, blockIdx.y, blockIdx.z, barrier, warp, done, first ? first->thread : -1,
            first ? first->file : "?", first ? first->line : 0);
}

/* All threads that have not returned wait at __syncthreads: at the same one? */
static bool release_barrier()
{
  const fiber *first = nullptr;
  for (int k = 0; k < used_fibers; k++) {
    fiber *f = &fibers[k];
    if (f->now != AT_BARRIER) continue;
    if (first && (f->line != first->line || strcmp(f->file, first->file) != 0)) {
      report("threads of one block wait at different barriers");
      return false;
    }
    first = f;
  }
  race_block_barrier();
  for (int k = 0; k < used_fibers; k++)
    if (fibers[k].now == AT_BARRIER) fibers[k].now = READY;
  return true;
}

static bool any_is(state which)
{
  for (int k = 0; k < used_fibers; k++)
    if (fibers[k].now == which) return true;
  return false;
}

static void start_threads()
{
  used_fibers = 0;
  next_thread = 0;
  while (next_thread < threads) {
    fiber *f = &fibers[used_fibers];
    prepare(f, used_fibers++);
    resume(f);
  }
}

static bool resume_ready()
{
  bool any = false;
  for (int k = 0; k < used_fibers; k++) {
    if (fibers[k].now != READY) continue;
    resume(&fibers[k]);
    any = true;
  }
  return any;
}

static void wake_warps()
{
  for (int first = 0; first < threads; first += WARP) {
    alive[first / WARP] = threads - first < WARP ? (1u << (threads - first)) - 1 : ~0u;
    waiting[first / WARP] = 0;
  }
}

static bool run_block()
{
  wake_warps();
  memset(finished, 0, (size_t)threads * sizeof *finished);
  memset(requests, 0, (size_t)threads * sizeof *requests);
  race_block_begins();
  start_threads();
  for (;;) {
    if (resume_ready() || release_warps()) continue;
    if (any_is(AT_WARP)) {
      report("deadlock");
      return false;
    }
    if (!any_is(AT_BARRIER)) return true;
    if (!release_barrier()) return false;
  }
}

/* ---- all blocks ------------------------------------------------------------------------------ */

/* Room that ends exactly where the kernel's dynamic shared memory ends, for AddressSanitizer. */
static void take_dynamic_shared([[maybe_unused]] size_t bytes)
{
  const size_t all = MAX_SHARED + 4096;
  if (!shared_room) shared_room = (unsigned char *)aligned_alloc(4096, (all + 4095) / 4096 * 4096);
  if (!shared_room) abort();
  dynamic_shared = shared_room;
#ifdef SHIM_ASAN
  __asan_unpoison_memory_region(shared_room, all);
  __asan_poison_memory_region(shared_room + bytes, all - bytes);
#endif
}

bool block_run_all(const launch &l, bool backwards)
{
  blockDim = l.block;
  gridDim = l.grid;
  threads = (int)(l.block.x * l.block.y * l.block.z);
  from_last = backwards;
  running = &l;
  take_dynamic_shared(l.shared);
  const shared_list *arrays = shared_of_kernel(l.kernel->code);
  race_launch_begins(&l);
  uint64_t blocks = (uint64_t)l.grid.x * l.grid.y * l.grid.z;
  for (uint64_t k = 0; k < blocks; k++) {
    uint64_t b = backwards ? blocks - 1 - k : k;
    blockIdx = {(unsigned)(b % l.grid.x), (unsigned)(b / l.grid.x % l.grid.y), (unsigned)(b / l.grid.x / l.grid.y)};
    memset(dynamic_shared, 0xCB, l.shared);
    shared_spoil(arrays);
    if (!run_block()) return race_launch_ends(), false;
  }
  return race_launch_ends();
}
