/* storage.c -- the caching allocator, and storages made from it.
**
** Freed blocks stay in a free list of their size class and are handed out again without asking the
** system: a training step repeats the same sizes, so after the first step nothing is mapped,
** faulted or zeroed any more (malloc and free of big tensors cost other engines a quarter of their
** CPU step). Size classes are powers of two with eight steps between, so at most 12 % is wasted.
** SPDX-License-Identifier: Apache-2.0
*/
#include "tensor/storage.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer cached blocks, and the slack behind a block's last byte, are out of bounds:
** without this the cache would hide every overrun and use after free. Only host memory is so marked. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(device, p, bytes) ((device)->backend->host_memory ? __asan_poison_memory_region((p), (bytes)) : (void)0)
#define PERMIT(device, p, bytes) ((device)->backend->host_memory ? __asan_unpoison_memory_region((p), (bytes)) : (void)0)
#else
#define FORBID(device, p, bytes) ((void)(p))
#define PERMIT(device, p, bytes) ((void)(p))
#endif

enum {
  SMALLEST = 64,       /* bytes of the first class */
  STEPS = 8,           /* classes per power of two */
  CLASSES = 44 * STEPS /* up to 2^50 bytes */
};

typedef struct free_block {
  struct free_block *next;
  void *data;
} free_block;

struct capl_allocator {
  pthread_mutex_t lock; /* loaders and the step may both allocate */
  free_block *free[CLASSES];
  free_block *spare; /* list cells without a block */
  struct scratch_note *scratch; /* sizes of scratch blocks that are out, on devices the host cannot write to */
  capl_memory_stats stats;
  size_t limit;
};

static bool (*pressure_)(void *user);
static void *pressure_user_;

void capl_memory_pressure_set(bool (*callback)(void *user), void *user)
{
  pressure_ = callback;
  pressure_user_ = user;
}

capl_status capl_allocator_new(capl_allocator **out)
{
  *out = calloc(1, sizeof **out);
  if (!*out) return CAPL_FAIL(CAPL_ENOMEM, "no memory for an allocator");
  pthread_mutex_init(&(*out)->lock, NULL);
  return CAPL_OK;
}

/* Class of a size and, in *rounded, the bytes a block of that class has. */
static int size_class(size_t bytes, size_t *rounded)
{
  if (bytes <= SMALLEST) {
    *rounded = SMALLEST;
    return 0;
  }
  int exponent = 63 - __builtin_clzll(bytes - 1); /* 2^exponent < bytes <= 2^(exponent+1) */
  size_t base = (size_t)1 << exponent, step = base / STEPS;
  size_t k = (bytes - base + step - 1) / step; /* 1..STEPS */
  *rounded = base + k * step;
  return (exponent - 6) * STEPS + (int)k;
}

/* Takes a cached block of the class, NULL if there is none. Called locked. */
static void *take_cached(capl_allocator *a, int class, size_t rounded)
{
  free_block *cell = a->free[class];
  if (!cell) return NULL;
  a->free[class] = cell->next;
  void *p = cell->data;
  cell->next = a->spare;
  a->spare = cell;
  a->stats.cached -= rounded;
  a->stats.reuses++;
  return p;
}

static void count_live(capl_allocator *a, size_t rounded)
{
  a->stats.live += rounded;
  if (a->stats.live > a->stats.peak) a->stats.peak = a->stats.live;
}

static capl_status out_of_memory(capl_device *device, size_t bytes)
{
  capl_memory_stats s;
  capl_memory_stats_get(device, &s);
  CAPL_FAIL(CAPL_ENOMEM, "%s is out of memory: asked for %.1f MB, %.1f MB in use, peak %.1f MB", device->name,
            (double)bytes / 1e6, (double)s.live / 1e6, (double)s.peak / 1e6);
  capl_error_hint("use a smaller batch, or release tensors earlier with capl.scope");
  return CAPL_ENOMEM;
}

/* One attempt: the cache, then the system. Sets *p, NULL when there is no memory. */
static void try_get(capl_device *device, int class, size_t rounded, void **p)
{
  capl_allocator *a = device->allocator;
  pthread_mutex_lock(&a->lock);
  *p = NULL;
  bool allowed = a->limit == 0 || a->stats.live + rounded <= a->limit;
  if (allowed) {
    *p = take_cached(a, class, rounded);
    if (*p) count_live(a, rounded);
  }
  pthread_mutex_unlock(&a->lock);
  if (*p || !allowed) return;
  if (device->backend->mem_alloc(rounded, p) != CAPL_OK || !*p) {
    *p = NULL;
    return;
  }
  pthread_mutex_lock(&a->lock);
  a->stats.allocations++;
  count_live(a, rounded);
  pthread_mutex_unlock(&a->lock);
}

/* The cache, the system, the system after giving the cache back, and again after freeing what the program can. */
static bool get_somehow(capl_device *device, int class, size_t rounded, void **out)
{
  try_get(device, class, rounded, out);
  if (*out) return true;
  capl_memory_trim(device);
  try_get(device, class, rounded, out);
  if (*out) return true;
  if (!pressure_ || !pressure_(pressure_user_)) return false;
  capl_memory_trim(device);
  try_get(device, class, rounded, out);
  return *out != NULL;
}

capl_status capl_block_get(capl_device *device, size_t bytes, void **out)
{
  *out = NULL;
  if (bytes >> 48) return out_of_memory(device, bytes);
  size_t rounded;
  int class = size_class(bytes, &rounded);
  if (!get_somehow(device, class, rounded, out)) return out_of_memory(device, bytes);
  PERMIT(device, *out, bytes);
  FORBID(device, (char *)*out + bytes, rounded - bytes);
  return CAPL_OK;
}

void capl_block_put(capl_device *device, void *p, size_t bytes)
{
  if (!p) return;
  capl_allocator *a = device->allocator;
  size_t rounded;
  int class = size_class(bytes, &rounded);
  pthread_mutex_lock(&a->lock);
  a->stats.live -= rounded;
  free_block *cell = a->spare;
  if (cell) a->spare = cell->next;
  else cell = malloc(sizeof *cell);
  if (cell) {
    *cell = (free_block){.next = a->free[class], .data = p};
    a->free[class] = cell;
    a->stats.cached += rounded;
    FORBID(device, p, rounded);
  }
  pthread_mutex_unlock(&a->lock);
  if (cell) return;
  PERMIT(device, p, rounded);
  device->backend->mem_free(p, rounded);
}

/* Bytes of a block of a class: the inverse of size_class. */
static size_t class_bytes(int class)
{
  if (class == 0) return SMALLEST;
  int exponent = 6 + (class - 1) / STEPS, k = (class - 1) % STEPS + 1;
  return ((size_t)1 << exponent) + (size_t)k * (((size_t)1 << exponent) / STEPS);
}

void capl_memory_trim(capl_device *device)
{
  capl_allocator *a = device->allocator;
  pthread_mutex_lock(&a->lock);
  for (int class = 0; class < CLASSES; class++) {
    while (a->free[class]) {
      free_block *cell = a->free[class];
      a->free[class] = cell->next;
      PERMIT(device, cell->data, class_bytes(class));
      device->backend->mem_free(cell->data, class_bytes(class));
      free(cell);
    }
  }
  a->stats.cached = 0;
  pthread_mutex_unlock(&a->lock);
}

void capl_memory_stats_get(const capl_device *device, capl_memory_stats *out)
{
  pthread_mutex_lock(&device->allocator->lock);
  *out = device->allocator->stats;
  pthread_mutex_unlock(&device->allocator->lock);
}

void capl_memory_peak_reset(capl_device *device)
{
  pthread_mutex_lock(&device->allocator->lock);
  device->allocator->stats.peak = device->allocator->stats.live;
  pthread_mutex_unlock(&device->allocator->lock);
}

void capl_memory_limit_set(capl_device *device, size_t bytes)
{
  pthread_mutex_lock(&device->allocator->lock);
  device->allocator->limit = bytes;
  pthread_mutex_unlock(&device->allocator->lock);
}

/* ---- scratch --------------------------------------------------------------------------------- */

/* A scratch block's size is written in front of it, a cache line long to keep the alignment; where the host cannot
** write there, it is kept in a list: few blocks are out at a time. */
enum { SCRATCH_HEAD = 64, SCRATCH_LARGE = 1 << 20 };

typedef struct scratch_note {
  struct scratch_note *next;
  void *block;
  size_t bytes;
} scratch_note;

static bool notes_apart(const capl_device *device)
{
  return !device->backend->host_memory;
}

static capl_status note_scratch(capl_device *device, void *block, size_t bytes)
{
  if (!notes_apart(device)) {
    memcpy(block, &bytes, sizeof bytes);
    return CAPL_OK;
  }
  scratch_note *note = malloc(sizeof *note);
  if (!note) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a note on scratch");
  capl_allocator *a = device->allocator;
  pthread_mutex_lock(&a->lock);
  *note = (scratch_note){a->scratch, block, bytes};
  a->scratch = note;
  pthread_mutex_unlock(&a->lock);
  return CAPL_OK;
}

/* The size noted for a block; the note is gone then. */
static size_t scratch_noted(capl_device *device, void *block)
{
  size_t bytes = 0;
  if (!notes_apart(device)) {
    memcpy(&bytes, block, sizeof bytes);
    return bytes;
  }
  capl_allocator *a = device->allocator;
  pthread_mutex_lock(&a->lock);
  scratch_note **at = &a->scratch;
  while (*at && (*at)->block != block) at = &(*at)->next;
  scratch_note *found = *at;
  if (found) {
    bytes = found->bytes;
    *at = found->next;
  }
  pthread_mutex_unlock(&a->lock);
  free(found);
  return bytes;
}

/* Large scratch takes the smallest cached block that is big enough: scratch sizes differ from layer to
** layer, and a block kept for each was 400 MB of a batch-64 step that needs 92 MB at a time. */
static size_t scratch_size(capl_allocator *a, size_t bytes)
{
  size_t rounded;
  if (bytes < SCRATCH_LARGE || bytes >> 48) return bytes;
  int class = size_class(bytes, &rounded);
  pthread_mutex_lock(&a->lock);
  while (class < CLASSES && !a->free[class]) class++;
  pthread_mutex_unlock(&a->lock);
  return class < CLASSES ? class_bytes(class) : bytes;
}

capl_status capl_scratch_get(capl_device *device, size_t bytes, void **out)
{
  void *block;
  size_t head = notes_apart(device) ? 0 : SCRATCH_HEAD;
  size_t whole = scratch_size(device->allocator, bytes + head);
  capl_status status = capl_block_get(device, whole, &block);
  if (status != CAPL_OK && whole > bytes + head) /* a limit may forbid the larger block */
    status = capl_block_get(device, whole = bytes + head, &block);
  if (status != CAPL_OK) return status;
  status = note_scratch(device, block, whole);
  if (status != CAPL_OK) {
    capl_block_put(device, block, whole);
    return status;
  }
  *out = (char *)block + head;
  return CAPL_OK;
}

void capl_scratch_put(capl_device *device, void *p)
{
  if (!p) return;
  char *block = (char *)p - (notes_apart(device) ? 0 : SCRATCH_HEAD);
  size_t bytes = scratch_noted(device, block);
  capl_block_put(device, block, bytes);
}

capl_status capl_storage_new(capl_device *device, size_t bytes, capl_storage **out)
{
  capl_storage *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a tensor's header");
  *s = (capl_storage){.refs = 1, .device = device, .bytes = bytes};
  if (bytes > 0) {
    capl_status status = capl_block_get(device, bytes, &s->data);
    if (status != CAPL_OK) {
      free(s);
      return status;
    }
  }
  *out = s;
  return CAPL_OK;
}

capl_storage *capl_storage_ref(capl_storage *s)
{
  if (s) s->refs++;
  return s;
}

void capl_storage_unref(capl_storage *s)
{
  if (!s || --s->refs > 0) return;
  capl_block_put(s->device, s->data, s->bytes);
  free(s);
}
