/* memory.cc -- device memory, page-locked memory, copies.
**
** Device memory is one piece of address space that only the work of streams may touch: the rest of the time the host
** gets a fault there, as it would with a pointer of a real GPU. Fresh memory is filled with NaN. Under AddressSanitizer
** what lies between blocks is out of bounds.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <map>

#include "runtime.h"
#include "switch.h"

static const size_t ARENA = (size_t)64 << 30, ALIGNMENT = 512, GAP = 512;
enum { FRESH = 0xFF };

static char *arena;
static size_t unused; /* offset from which on no block ever was */
static std::multimap<size_t, size_t> &holes = *new std::multimap<size_t, size_t>; /* bytes -> offset of freed blocks */
static size_t high; /* bytes from the arena's begin that were ever in use, whole pages */
static int opened;
static bool reachable;     /* as the pages are protected now */
static const void *user; /* kernel or vendor's function that ran last */
static std::map<const void *, uint64_t> &closings = *new std::map<const void *, uint64_t>; /* by user */
static uint64_t seldom;
static std::map<size_t, size_t> &blocks = *new std::map<size_t, size_t>; /* offset -> bytes */
static std::map<const char *, size_t> &locked = *new std::map<const char *, size_t>;
static std::map<const char *, size_t> &made_locked = *new std::map<const char *, size_t>; /* of those, by cudaMallocHost */

/* ---- who may touch what ---------------------------------------------------------------------- */

#ifdef SHIM_ASAN
static void forbid(size_t offset, size_t bytes) { __asan_poison_memory_region(arena + offset, bytes); }
static void permit(size_t offset, size_t bytes) { __asan_unpoison_memory_region(arena + offset, bytes); }
#else
static void forbid(size_t, size_t) {}
static void permit(size_t, size_t) {}
#endif

static void protect(bool open)
{
  reachable = open;
  if (high) mprotect(arena, high, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void device_memory_protect(bool open)
{
  protect(open);
}

bool device_memory_let(const void *at, size_t bytes, bool write)
{
  if (!begins_on_device(at) || (size_t)((const char *)at - arena) >= high) return false;
  char *begin = arena + (size_t)((const char *)at - arena) / bytes * bytes;
  return mprotect(begin, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
}

void device_memory_used_by(const void *code)
{
  user = code;
}

/* Closing costs a walk over all pages. It is done the first times that work of each kind has run, then one time in 64: a
** host that touches device memory after work does so again and again. */
void device_memory_open(bool open)
{
  enum { FIRST = 32, SELDOM = 64 };
  opened += open ? 1 : -1;
  if (opened > 0) {
    if (!reachable) protect(true);
    return;
  }
  if (closings[user]++ < FIRST || ++seldom % SELDOM == 0) protect(false);
}

static bool inside(const std::map<const char *, size_t> &map, const void *p, size_t bytes)
{
  auto next = map.upper_bound((const char *)p);
  if (next == map.begin()) return false;
  --next;
  return (const char *)p + bytes <= next->first + next->second;
}

bool begins_on_device(const void *p)
{
  return arena && (const char *)p >= arena && (const char *)p < arena + ARENA;
}

bool on_device(const void *p, size_t bytes)
{
  if (!begins_on_device(p)) return false;
  size_t offset = (size_t)((const char *)p - arena);
  auto next = blocks.upper_bound(offset);
  if (next == blocks.begin()) return false;
  --next;
  return offset + bytes <= next->first + next->second;
}

size_t device_room()
{
  return ARENA;
}

size_t device_offset(const void *p)
{
  return (size_t)((const char *)p - arena);
}

void device_place(const void *p, char *out, size_t len)
{
  auto next = blocks.upper_bound(device_offset(p));
  if (next == blocks.begin()) return (void)snprintf(out, len, "device memory that nobody allocated");
  --next;
  snprintf(out, len, "byte %zu of %zu that were allocated", device_offset(p) - next->first, next->second);
}

bool page_locked(const void *p, size_t bytes)
{
  return inside(locked, p, bytes);
}

/* ---- device memory --------------------------------------------------------------------------- */

static bool open_arena()
{
  if (arena) return true;
  void *p = mmap(nullptr, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  arena = (char *)p;
  return true;
}

/* Where a block of as many bytes was, else behind all others that ever were, else the first gap that is wide enough. */
static size_t find_room(size_t bytes)
{
  auto hole = holes.find(bytes);
  if (hole != holes.end()) {
    size_t at = hole->second;
    holes.erase(hole);
    return at;
  }
  size_t end = (unused + bytes + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, at = unused;
  if (end <= ARENA) return unused = end, at;
  holes.clear();
  at = 0;
  for (auto &b : blocks) {
    if (b.first >= at + bytes + GAP) break;
    at = (b.first + b.second + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  return at;
}

static void grow_to(size_t end)
{
  size_t pages = (end + GAP + 4095) / 4096 * 4096;
  if (pages <= high) return;
  size_t old = high;
  high = pages;
  forbid(old, high - old);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
  call c(ALLOCATES);
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  if (bytes == 0) {
    *out = nullptr;
    return cudaSuccess;
  }
  if (counts.live_bytes + bytes > settings.memory || !open_arena()) return c.leave(cudaErrorMemoryAllocation);
  size_t at = find_room(bytes);
  if (at + bytes + GAP > ARENA) return c.leave(cudaErrorMemoryAllocation);
  grow_to(at + bytes);
  blocks[at] = bytes;
  permit(at, bytes);
  device_memory_open(true);
  protect(true); /* it may have grown */
  memset(arena + at, FRESH, bytes);
  device_memory_open(false);
  counts.allocations++;
  counts.live_bytes += bytes;
  *out = arena + at;
  return cudaSuccess;
}

/* Waits for queued work, as CUDA does. */
cudaError_t cudaFree(void *p)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  if (!p) return cudaSuccess;
  auto found = begins_on_device(p) ? blocks.find((size_t)((char *)p - arena)) : blocks.end();
  if (found == blocks.end()) return c.leave(cudaErrorInvalidValue);
  error = run_everything();
  forbid(found->first, found->second);
  if (found->second >= 1 << 20) {
    size_t begin = (found->first + 4095) / 4096 * 4096, end = (found->first + found->second) / 4096 * 4096;
    madvise(arena + begin, end - begin, MADV_DONTNEED);
  }
  holes.insert({found->second, found->first});
  counts.frees++;
  counts.live_bytes -= found->second;
  blocks.erase(found);
  return c.leave(error);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
  call c;
  if (c.refused()) return c.result();
  *free_bytes = settings.memory - counts.live_bytes;
  *total = settings.memory;
  return cudaSuccess;
}

void memory_reset()
{
  for (auto &b : blocks) forbid(b.first, b.second);
  blocks.clear();
  holes.clear();
  unused = 0;
  for (auto &m : made_locked) free((void *)m.first);
  made_locked.clear();
  locked.clear();
}

/* ---- page-locked host memory ----------------------------------------------------------------- */

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int)
{
  call c(ALLOCATES);
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  char *p = (char *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!p) return c.leave(cudaErrorMemoryAllocation);
  memset(p, FRESH, bytes);
  locked[p] = made_locked[p] = bytes;
  *out = p;
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
  return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  if (!p) return cudaSuccess;
  if (!made_locked.erase((char *)p)) return c.leave(cudaErrorInvalidValue);
  error = run_everything();
  locked.erase((char *)p);
  free(p);
  return c.leave(error);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int)
{
  call c(ALLOCATES);
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  if (!p || !bytes) return c.leave(cudaErrorInvalidValue);
  for (auto &l : locked)
    if (l.first < (char *)p + bytes && (char *)p < l.first + l.second) return c.leave(cudaErrorHostMemoryAlreadyRegistered);
  locked[(char *)p] = bytes;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  if (made_locked.count((char *)p) || !locked.count((char *)p)) return c.leave(cudaErrorHostMemoryNotRegistered);
  error = run_everything();
  locked.erase((char *)p);
  return c.leave(error);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Which way a copy really goes; false if that is not what was said, or if it leaves a block of device memory. */
static bool direction(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind said, enum cudaMemcpyKind *is)
{
  bool to = begins_on_device(dst), from = begins_on_device(src);
  if ((to && !on_device(dst, bytes)) || (from && !on_device(src, bytes))) return false;
  *is = to ? from ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice
           : from ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
  return said == cudaMemcpyDefault || said == *is;
}

static work copy_work(void *dst, const void *src, size_t bytes)
{
  work w;
  w.name = "copy";
  w.run = [=] {
    memmove(dst, src, bytes);
    return cudaSuccess;
  };
  return w;
}

/* The values as they are now, whatever becomes of the source. */
static work copy_of_now(void *dst, const void *src, size_t bytes)
{
  auto kept = std::make_shared<std::vector<char>>((const char *)src, (const char *)src + bytes);
  work w;
  w.name = "copy";
  w.run = [=] {
    memcpy(dst, kept->data(), bytes);
    return cudaSuccess;
  };
  return w;
}

static cudaError_t copy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind said, shim_stream *s)
{
  enum cudaMemcpyKind is;
  if (!direction(dst, src, bytes, said, &is)) return cudaErrorInvalidValue;
  const void *host = is == cudaMemcpyHostToDevice ? src : is == cudaMemcpyDeviceToHost ? dst : nullptr;
  bool pageable = is == cudaMemcpyHostToHost || (host && !page_locked(host, bytes));
  if (!pageable) return queue_work(s, copy_work(dst, src, bytes));
  cudaError_t error = refuse_captured(s);
  if (error != cudaSuccess) return error;
  if (is == cudaMemcpyHostToDevice) return queue_work(s, copy_of_now(dst, src, bytes));
  error = queue_work(s, copy_work(dst, src, bytes));
  counts.waits++;
  return error == cudaSuccess ? run_all(s) : error;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  return c.leave(bytes ? copy(dst, src, bytes, kind, s) : cudaSuccess);
}

/* Ordered after all blocking streams; done on return. */
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  shim_stream *s = stream_of(nullptr);
  if (bytes) error = copy(dst, src, bytes, kind, s);
  counts.waits++;
  return c.leave(error == cudaSuccess ? run_all(s) : error);
}

static cudaError_t set(void *p, int byte, size_t bytes, shim_stream *s)
{
  if (!on_device(p, bytes)) return cudaErrorInvalidValue;
  work w;
  w.name = "set";
  w.run = [=] {
    memset(p, byte, bytes);
    return cudaSuccess;
  };
  return queue_work(s, w);
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  return c.leave(bytes ? set(p, byte, bytes, s) : cudaSuccess);
}

cudaError_t cudaMemset(void *p, int byte, size_t bytes)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  return cudaMemsetAsync(p, byte, bytes, nullptr);
}
