/* race.cc -- accesses of two threads to the same memory that nothing orders.
**
** gcc and clang call the __tsan_ functions before every access of code that is built with -fsanitize=thread; here they are
** ours. What CUDA orders is little: accesses of one thread; those of a block before and after __syncthreads; those of a
** warp before and after __syncwarp of all its lanes. Shuffles, votes, and atomics order nothing, blocks of one launch
** are never ordered. Two accesses to one byte that are not ordered race unless both read, or both are atomic; also when
** both write the same value. Every byte of device memory and of shared memory keeps its last write and as many reads and
** atomics as it takes to find every race with a later access. So what is found does not depend on the order in which
** threads run here.
** SPDX-License-Identifier: Apache-2.0
*/
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <utility>
#include <vector>

#include "runtime.h"
#include "shared.h"

enum kind { READ, WRITE, ATOMIC };
static const char *const verbs[] = {"reads", "writes", "atomically changes"};

/* What one thread does between two barriers. */
struct segment {
  uint32_t block;
  uint32_t since_block, since_warp; /* number of the last barrier of its block, of its warp */
  uint16_t thread;
};

struct mark {
  uint32_t segment; /* 0 = none */
  int32_t caller;   /* distance from the kernel's begin */
};

/* Of one byte, or of four that were always used together. Two reads are enough (note). */
struct cell {
  mark written, reads[2], atomics[2];
};

enum { WORD = 4 };

/* Four bytes: one cell until a part of them is used alone, then four. */
struct word {
  cell whole;
  uint32_t split_since; /* `oldest` of then: another launch, or block, begins whole */
  uint32_t parts;       /* where they are in `split` */
};

static const uint32_t MOST_SEGMENTS = 3u << 30, MOST_TOUCHES = 8u << 20;
static const size_t DEVICE_ROOM = device_room();

static const launch *running;
static std::vector<segment> &segments = *new std::vector<segment>; /* of this launch: segment k is [k - first_of_launch] */
static uint32_t first_of_launch = 1, first_of_block = 1;
static uint32_t block, barriers, block_barrier, warp_barriers[MAX_THREADS / 32];
static uint32_t latest[MAX_THREADS]; /* segment of each thread */
static uint32_t now;                 /* of the thread that runs; 0: not asked yet */
static int thread_now = -1;
static uint32_t touches; /* since what is known of device memory was last forgotten */
static bool found, ready, used; /* a race; memory for what this launch touches; by any launch */
static word *of_device, *of_static, *of_dynamic;
static std::vector<cell> &split = *new std::vector<cell>; /* of this launch, four for each split word */
static shared_span statics;
static std::set<std::pair<int32_t, int32_t>> &reported = *new std::set<std::pair<int32_t, int32_t>>;

/* ---- what runs ------------------------------------------------------------------------------- */

static size_t room_for(size_t bytes) { return (bytes / WORD + 1) * sizeof(word); }

static word *words_for(size_t bytes)
{
  void *p = mmap(nullptr, room_for(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) abort();
  return (word *)p;
}

static void forget_device()
{
  madvise(of_device, room_for(DEVICE_ROOM), MADV_DONTNEED);
  touches = 0;
}

static void forget_all()
{
  forget_device();
  madvise(of_static, room_for(statics.bytes), MADV_DONTNEED);
  madvise(of_dynamic, room_for(MAX_SHARED), MADV_DONTNEED);
  first_of_launch = 1;
}

/* From a multiple of WORD on. */
static void use_statics(shared_span span)
{
  size_t before = (uintptr_t)span.begin % WORD;
  span = {span.begin - before, span.bytes + before};
  if (of_static && span.begin == statics.begin && span.bytes == statics.bytes) return;
  if (of_static) munmap(of_static, room_for(statics.bytes));
  of_static = words_for(span.bytes);
  statics = span;
}

void race_launch_begins(const launch *l)
{
  running = l;
  first_of_launch += (uint32_t)segments.size();
  segments.clear();
  split.clear();
  reported.clear();
  found = ready = false;
  block = 0;
}

/* Only kernels that are built for it get here. */
static void get_ready()
{
  if (!of_device) of_device = words_for(DEVICE_ROOM);
  if (!of_dynamic) of_dynamic = words_for(MAX_SHARED);
  use_statics(shared_span_of(running->kernel->code));
  if (first_of_launch > MOST_SEGMENTS) forget_all();
  if (touches > MOST_TOUCHES) forget_device();
  ready = used = true;
}

/* Kernels whose races were to be found, but that were built without it, would seem to have none. */
__attribute__((destructor)) static void check_use()
{
  const char *asked = getenv("CAPL_SHIM_RACE");
  if (!asked || !*asked || used) return;
  fprintf(stderr, "cuda shim: CAPL_SHIM_RACE=%s, but no kernel built with -fsanitize=thread ran\n", asked);
  _exit(1);
}

bool race_launch_ends()
{
  thread_now = -1;
  return !found || settings.race_goes_on;
}

void race_block_begins()
{
  block++;
  first_of_block = first_of_launch + (uint32_t)segments.size();
  race_block_barrier();
}

void race_block_barrier()
{
  block_barrier = ++barriers;
  for (uint32_t &warp : warp_barriers) warp = block_barrier;
  now = 0;
}

void race_warp_barrier(int warp)
{
  warp_barriers[warp] = ++barriers;
  now = 0;
}

void race_turn(int thread)
{
  thread_now = thread;
  now = 0;
}

static const segment &segment_of(uint32_t number) { return segments[number - first_of_launch]; }

static uint32_t segment_now()
{
  uint32_t *own = &latest[thread_now], since_warp = warp_barriers[thread_now / 32];
  if (*own >= first_of_block && segment_of(*own).since_warp == since_warp) return *own;
  segments.push_back({block, block_barrier, since_warp, (uint16_t)thread_now});
  return *own = first_of_launch + (uint32_t)segments.size() - 1;
}

/* ---- what races ------------------------------------------------------------------------------ */

static bool is_ordered(const segment &a, const segment &b)
{
  if (a.block != b.block) return false;
  if (a.thread == b.thread || a.since_block != b.since_block) return true;
  return a.thread / 32 == b.thread / 32 && a.since_warp != b.since_warp;
}

static void describe(const segment &s, char *out, size_t len)
{
  const dim3 &g = running->grid;
  uint64_t k = s.block - 1, b = settings.backwards ? (uint64_t)g.x * g.y * g.z - 1 - k : k;
  snprintf(out, len, "thread %d of block (%d,%d,%d)", s.thread, (int)(b % g.x), (int)(b / g.x % g.y), (int)(b / g.x / g.y));
}

static void report(const mark &before, kind earlier, const mark &after, kind later, const void *at)
{
  char name[256], place[160], who[2][80], where[2][160];
  const char *code = (const char *)running->kernel->code;
  found = true;
  if (!reported.insert({before.caller, after.caller}).second) return;
  shared_kernel_name(code, name, sizeof name);
  if (begins_on_device(at)) device_place(at, place, sizeof place);
  else shared_place(code, at, place, sizeof place);
  describe(segment_of(before.segment), who[0], sizeof who[0]);
  describe(segment_of(after.segment), who[1], sizeof who[1]);
  shared_line(code + before.caller, where[0], sizeof where[0]);
  shared_line(code + after.caller, where[1], sizeof where[1]);
  fault_set(cudaErrorLaunchFailure, "race in %s on %s: %s %s it at %s, %s %s it at %s, and nothing orders the two", name,
            place, who[0], verbs[earlier], where[0], who[1], verbs[later], where[1]);
}

static void compare(const mark &before, kind earlier, const mark &after, kind later, uint32_t oldest, const void *at)
{
  if (before.segment < oldest || before.segment == after.segment) return;
  if (!is_ordered(segment_of(before.segment), segment_of(after.segment))) report(before, earlier, after, later, at);
}

/* Keeps of all accesses of a kind two that are not ordered, in this sense: those of two blocks if there are, else of two
** warps since the block's last barrier, else of two lanes since their warp's. A later access that races with any races
** with one of these. */
static void note(mark m[2], const mark &after, uint32_t oldest)
{
  if (m[0].segment < oldest) {
    m[0] = after;
    m[1].segment = 0;
    return;
  }
  if (m[0].segment == after.segment) return;
  const segment &first = segment_of(m[0].segment), &latest = segment_of(after.segment);
  bool two = m[1].segment >= oldest;
  if (two && segment_of(m[1].segment).block != first.block) return;
  if (first.block != latest.block) {
    m[1] = after;
  } else if (first.since_block != latest.since_block) {
    m[0] = after;
    m[1].segment = 0;
  } else if (first.thread / 32 != latest.thread / 32) {
    m[1] = after;
  } else if (two && segment_of(m[1].segment).thread / 32 != first.thread / 32) {
    return;
  } else if (first.since_warp != latest.since_warp) {
    m[0] = after;
    m[1].segment = 0;
  } else if (first.thread != latest.thread) {
    m[1] = after;
  }
}

static void touch_cell(cell *c, kind k, const mark &after, uint32_t oldest, const void *at)
{
  compare(c->written, WRITE, after, k, oldest, at);
  for (const mark &a : c->atomics)
    if (k != ATOMIC) compare(a, ATOMIC, after, k, oldest, at);
  for (const mark &r : c->reads)
    if (k != READ) compare(r, READ, after, k, oldest, at);
  if (k == READ) note(c->reads, after, oldest);
  else if (k == ATOMIC) note(c->atomics, after, oldest);
  else *c = {after, {}, {}}; /* what races with the earlier ones races with this write */
}

/* Four cells instead of one, each with what the one knows. */
static cell *split_word(word *w, uint32_t oldest)
{
  if (w->split_since >= oldest) return &split[w->parts];
  if (w->split_since < first_of_launch) { /* else an earlier block had it split */
    w->parts = (uint32_t)split.size();
    split.resize(split.size() + WORD);
  }
  w->split_since = oldest;
  for (int i = 0; i < WORD; i++) split[w->parts + i] = w->whole;
  return &split[w->parts];
}

/* The words of memory that threads share, and p's byte among theirs; nullptr: none of that, such as a thread's stack. */
static word *words_of(const char *p, size_t *offset, uint32_t *oldest)
{
  *oldest = first_of_launch;
  *offset = device_offset(p);
  if (begins_on_device(p)) return of_device;
  *oldest = first_of_block;
  *offset = (size_t)(p - statics.begin);
  if (*offset < statics.bytes) return of_static;
  *offset = (size_t)(p - (char *)shim_dynamic_shared());
  return *offset < MAX_SHARED ? of_dynamic : nullptr;
}

static void touch(const void *p, size_t bytes, kind k, const void *caller)
{
  uint32_t oldest;
  size_t at;
  if (thread_now < 0) return;
  if (!ready) get_ready();
  word *words = words_of((const char *)p, &at, &oldest);
  if (!words) return;
  if (!now) now = segment_now();
  touches++;
  mark after = {now, (int32_t)((const char *)caller - (const char *)running->kernel->code)};
  for (size_t end = at + bytes; at < end;) {
    word *w = &words[at / WORD];
    const char *address = (const char *)p + bytes - (end - at);
    if (at % WORD == 0 && end - at >= WORD && w->split_since < oldest) {
      touch_cell(&w->whole, k, after, oldest, address);
      at += WORD;
    } else {
      touch_cell(split_word(w, oldest) + at % WORD, k, after, oldest, address);
      at++;
    }
  }
}

/* ---- what the compiler calls ----------------------------------------------------------------- */

#define HOOK extern "C" __attribute__((visibility("default"))) void
#define CALLER __builtin_return_address(0)
#define HOOKS(bytes)                                                                    \
  HOOK __tsan_read##bytes(void *p) { touch(p, bytes, READ, CALLER); }                   \
  HOOK __tsan_write##bytes(void *p) { touch(p, bytes, WRITE, CALLER); }                 \
  HOOK __tsan_unaligned_read##bytes(void *p) { touch(p, bytes, READ, CALLER); }         \
  HOOK __tsan_unaligned_write##bytes(void *p) { touch(p, bytes, WRITE, CALLER); }       \
  HOOK __tsan_volatile_read##bytes(void *p) { touch(p, bytes, READ, CALLER); }          \
  HOOK __tsan_volatile_write##bytes(void *p) { touch(p, bytes, WRITE, CALLER); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

HOOK __tsan_read_range(void *p, size_t bytes) { touch(p, bytes, READ, CALLER); }
HOOK __tsan_write_range(void *p, size_t bytes) { touch(p, bytes, WRITE, CALLER); }
/* clang's calls for what is copied whole. */
extern "C" __attribute__((visibility("default"))) void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
  touch(from, bytes, READ, CALLER);
  touch(to, bytes, WRITE, CALLER);
  return memcpy(to, from, bytes);
}

extern "C" __attribute__((visibility("default"))) void *__tsan_memset(void *to, int byte, size_t bytes)
{
  touch(to, bytes, WRITE, CALLER);
  return memset(to, byte, bytes);
}

HOOK __tsan_init() {}
HOOK __tsan_func_entry(void *) {}
HOOK __tsan_func_exit() {}

HOOK shim_atomic(const void *p, size_t bytes, const void *caller) { touch(p, bytes, ATOMIC, caller); }
