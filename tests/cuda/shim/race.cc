/* race.cc -- accesses of two threads to the same memory that nothing orders.
**
** gcc and clang call the __tsan_ functions before every access of code that is built with -fsanitize=thread; here they are
** ours. What CUDA orders is little: accesses of one thread; those of a block before and after __syncthreads; those of a
** warp before and after __syncwarp of all its lanes; and of two blocks what a thread does, or what its block did before its
** last __syncthreads, then __threadfence and an atomic of that thread on device memory, then an atomic on the same address
** and __threadfence of a thread of the other block, then what this thread does, or its block after its next __syncthreads.
** Shuffles, votes, and atomics without fences order nothing. Two accesses to one byte that are not ordered race unless both
** read, or both are atomic; also when both write the same value. Every byte of device memory and of shared memory keeps its
** last write and as many reads and atomics as it takes to find every race with a later access. So what is found does not
** depend on the order in which threads run here, but for one thing: an atomic is taken to see all that came before it here.
** SPDX-License-Identifier: Apache-2.0
*/
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime.h"
#include "shared.h"

enum kind { READ, WRITE, ATOMIC };
static const char *const verbs[] = {"reads", "writes", "atomically changes"};

/* What one thread does between two barriers or fences. */
struct segment {
  uint32_t block;
  uint32_t since_block, since_warp; /* number of the last barrier of its block, of its warp */
  uint16_t thread;
};

struct mark {
  uint32_t segment; /* 0 = none */
  int32_t caller;   /* distance from the kernel's begin */
};

/* Accesses of a kind, which do not race with each other: two of them are enough (note). crowded: those of two blocks, and
** there were others, of which fences may not tell: what follows is taken for unordered with those. */
struct marks {
  mark m[2];
  uint32_t crowded;
};

/* Of one byte, or of four that were always used together. */
struct cell {
  mark written;
  marks reads, atomics;
};

/* What is over of a block: segments that began before a barrier of it, and those of one thread below a number. */
struct span {
  uint32_t barrier, segment;
  uint16_t thread;
};

typedef std::map<uint32_t, span> knowledge; /* by block */

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
static std::map<const void *, knowledge> &released = *new std::map<const void *, knowledge>; /* by an atomic's address */
/* Of the block that runs: since its last barrier; of threads that learned more since then, that have yet to come to a fence,
** and of what they fenced last. */
static knowledge &known_to_block = *new knowledge;
static std::map<int, knowledge> &known = *new std::map<int, knowledge>, &seen = *new std::map<int, knowledge>,
                                &fenced = *new std::map<int, knowledge>;
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
  released.clear();
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
  known_to_block.clear();
  known.clear();
  seen.clear();
  fenced.clear();
  race_block_barrier();
}

/* Adds what is over. Of the threads of a block that went on in its latest part one is remembered: to know less is to find
** more races. */
static void learn(knowledge *k, const knowledge &more)
{
  for (const auto &[block, s] : more) {
    span *own = &k->insert({block, s}).first->second;
    if (s.barrier > own->barrier || (s.barrier == own->barrier && s.thread == own->thread && s.segment > own->segment)) *own = s;
  }
}

void race_block_barrier()
{
  for (const auto &[thread, k] : known) learn(&known_to_block, k);
  known.clear();
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

/* What the thread that runs knows to be over. */
static const knowledge &known_now()
{
  auto own = known.find(thread_now);
  return own == known.end() ? known_to_block : own->second;
}

static bool is_over(uint32_t number, const segment &a)
{
  const knowledge &k = known_now();
  auto s = k.find(a.block);
  if (s == k.end()) return false;
  return a.since_block < s->second.barrier || (a.thread == s->second.thread && number < s->second.segment);
}

/* b: of the thread that runs. */
static bool is_ordered(uint32_t earlier, const segment &a, const segment &b)
{
  if (a.block != b.block) return is_over(earlier, a);
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
  if (!is_ordered(before.segment, segment_of(before.segment), segment_of(after.segment))) report(before, earlier, after, later, at);
}

static void compare_all(const marks &before, kind earlier, const mark &after, kind later, uint32_t oldest, const void *at)
{
  if (earlier == later) return;
  for (const mark &m : before.m) compare(m, earlier, after, later, oldest, at);
  if (before.crowded && before.m[0].segment >= oldest) report(before.m[1], earlier, after, later, at);
}

/* Keeps of all accesses of a kind two that are not ordered, in this sense: those of two blocks if there are, else of two
** warps since the block's last barrier, else of two lanes since their warp's, else the latest of the one thread. A later
** access that races with any races with one of these, or finds them crowded. */
static void note(marks *all, const mark &after, uint32_t oldest)
{
  mark *m = all->m;
  if (m[0].segment < oldest) {
    *all = {{after, {}}, 0};
    return;
  }
  if (m[0].segment == after.segment) return;
  const segment &first = segment_of(m[0].segment), &latest = segment_of(after.segment);
  bool two = m[1].segment >= oldest;
  if (two && segment_of(m[1].segment).block != first.block) {
    all->crowded |= m[1].segment != after.segment;
  } else if (first.block != latest.block) {
    all->crowded |= two;
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
  } else {
    m[first.thread != latest.thread] = after;
  }
}

static void touch_cell(cell *c, kind k, const mark &after, uint32_t oldest, const void *at)
{
  compare(c->written, WRITE, after, k, oldest, at);
  compare_all(c->atomics, ATOMIC, after, k, oldest, at);
  compare_all(c->reads, READ, after, k, oldest, at);
  if (k == READ) note(&c->reads, after, oldest);
  else if (k == ATOMIC) note(&c->atomics, after, oldest);
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

/* ---- what blocks know of each other ---------------------------------------------------------- */

/* What the thread has seen in atomics is over for it; what is over now goes along with its next atomics. */
static void fence()
{
  if (!seen[thread_now].empty()) {
    known.insert({thread_now, known_to_block});
    learn(&known[thread_now], seen[thread_now]);
    seen.erase(thread_now);
  }
  knowledge own = known_now();
  own[block] = {block_barrier, first_of_launch + (uint32_t)segments.size(), (uint16_t)thread_now};
  fenced[thread_now] = own;
  latest[thread_now] = now = 0; /* what follows is another segment */
}

/* Of device memory: that of a block is another block's later. */
static void meet(const void *at)
{
  if (!begins_on_device(at) || (fenced.empty() && released.empty())) return;
  knowledge *left = &released[at];
  learn(&seen[thread_now], *left);
  auto own = fenced.find(thread_now);
  if (own != fenced.end()) learn(left, own->second);
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

HOOK shim_atomic(const void *p, size_t bytes, const void *caller)
{
  touch(p, bytes, ATOMIC, caller);
  if (thread_now >= 0) meet(p);
}

HOOK shim_fence(void)
{
  if (thread_now >= 0) fence();
}
