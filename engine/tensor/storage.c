/* storage.c -- the caching allocator, and storages made from it.
**
** Freed blocks stay in a free list of their size class and are handed out again without asking the
** system: a training step repeats the same sizes, so after the first step nothing is mapped,
** faulted or zeroed any more (malloc and free of big tensors cost other engines a quarter of their
** CPU step). Size classes are powers of two with eight steps between, so at most 12 % is wasted.
** With CAPL_POISON=1, for tests, a block is filled with NaN when it comes back, behind the work that is
** queued: work that uses it later, though it was freed, computes NaN.
** SPDX-License-Identifier: Apache-2.0
*/
#include "tensor/storage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/pool.h"

/* Under AddressSanitizer cached blocks, and the slack behind a block's last byte, are out of bounds:
** without this the cache would hide every overrun and use after free. Only host memory is so marked. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(device, p, bytes) ((device)->backend->host_memory ? __asan_poison_memory_region((p), (bytes)) : (void)0)
#define PERMIT(device, p, bytes) ((device)->backend->host_memory ? __asan_unpoison_memory_region((p), (bytes)) \
                                  : (void)0)
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
  struct scratch_note *scratch, *spare_notes; /* sizes of scratch blocks that are out, on devices the host cannot
                                              ** write to */
  capl_pool *pools; /* blocks that belong to captured steps */
  capl_pool *recording; /* that of the step being captured by any thread; NULL = none */
  bool poison; /* CAPL_POISON */
  capl_memory_stats stats;
  size_t limit;
};

/* The capture this thread is making, if any: its blocks come from there. */
static _Thread_local capl_pool *pool_now;
static _Thread_local capl_device *pool_device;

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
  const char *poison = getenv("CAPL_POISON");
  (*out)->poison = poison && !strcmp(poison, "1");
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

/* ", 3000.0 of 85000.0 MB free on the card (other programs use 900.0 MB)", where the device reports it. */
static const char *card_text(capl_device *device, const capl_memory_stats *s, char *text, size_t len)
{
  size_t card_free = 0, total = 0;
  *text = '\0';
  if (!device->backend->mem_info || device->backend->mem_info(&card_free, &total) != CAPL_OK) return text;
  size_t ours = s->live + s->cached + s->captured, used = total - card_free;
  snprintf(text, len, ", %.1f MB cached; %.1f of %.1f MB free on the card (other programs and the driver use %.1f MB)",
           (double)(s->cached + s->captured) / 1e6, (double)card_free / 1e6, (double)total / 1e6,
           (double)(used > ours ? used - ours : 0) / 1e6);
  return text;
}

static capl_status out_of_memory(capl_device *device, size_t bytes)
{
  capl_memory_stats s;
  char card[200];
  capl_memory_stats_get(device, &s);
  card_text(device, &s, card, sizeof card);
  CAPL_FAIL(CAPL_ENOMEM, "%s is out of memory: asked for %.1f MB, %.1f MB in use, peak %.1f MB%s", device->name,
            (double)bytes / 1e6, (double)s.live / 1e6, (double)s.peak / 1e6, card);
  capl_error_hint("use a smaller batch, or release tensors earlier with capl.scope");
  return CAPL_ENOMEM;
}

/* One attempt: the cache, then the system. ENOMEM when there is no memory; a device may fail in other ways too. */
static capl_status try_get(capl_device *device, int class, size_t rounded, void **p)
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
  if (*p) return CAPL_OK;
  if (!allowed) return CAPL_ENOMEM;
  CAPL_TRY(device->backend->mem_alloc(rounded, p));
  if (!*p) return CAPL_ENOMEM;
  pthread_mutex_lock(&a->lock);
  a->stats.allocations++;
  count_live(a, rounded);
  pthread_mutex_unlock(&a->lock);
  return CAPL_OK;
}

/* A block of the capture's pool, which takes what it lacks. Nothing can be given back to the driver meanwhile. */
static capl_status get_pooled(capl_device *device, int class, size_t rounded, void **out)
{
  capl_allocator *a = device->allocator;
  pthread_mutex_lock(&a->lock);
  *out = pool_take(pool_now, class);
  if (*out) {
    a->stats.captured -= rounded;
    a->stats.reuses++;
    count_live(a, rounded);
  }
  pthread_mutex_unlock(&a->lock);
  if (*out) return CAPL_OK;
  CAPL_TRY(try_get(device, class, rounded, out));
  pthread_mutex_lock(&a->lock);
  capl_status status = pool_adopt(pool_now, *out, class);
  pthread_mutex_unlock(&a->lock);
  return status;
}

/* The cache, the system, the system after giving the cache back, and again after freeing what the program can. */
static capl_status get_somehow(capl_device *device, int class, size_t rounded, void **out)
{
  if (pool_now && pool_device == device) return get_pooled(device, class, rounded, out);
  capl_status status = try_get(device, class, rounded, out);
  if (status != CAPL_ENOMEM) return status;
  capl_memory_trim(device);
  status = try_get(device, class, rounded, out);
  if (status != CAPL_ENOMEM) return status;
  if (!pressure_ || !pressure_(pressure_user_)) return status;
  capl_memory_trim(device);
  return try_get(device, class, rounded, out);
}

capl_status capl_block_get(capl_device *device, size_t bytes, void **out)
{
  *out = NULL;
  if (bytes >> 48) return out_of_memory(device, bytes);
  size_t rounded;
  int class = size_class(bytes, &rounded);
  capl_status status = get_somehow(device, class, rounded, out);
  if (status != CAPL_OK) return status == CAPL_ENOMEM ? out_of_memory(device, bytes) : status;
  PERMIT(device, *out, bytes);
  FORBID(device, (char *)*out + bytes, rounded - bytes);
  return CAPL_OK;
}

/* The captured step that p went back to because it owns it, or NULL. Called locked. */
static capl_pool *put_pooled(capl_allocator *a, void *p, size_t rounded)
{
  for (capl_pool *pool = a->pools; pool; pool = pool->next)
    if (pool_put(pool, p)) {
      a->stats.captured += rounded;
      return pool;
    }
  return NULL;
}

/* Fills a block that came back. A recording would do so again with each launch, so it only fills blocks of its own; and
** nothing of other threads goes into it. Called locked: nobody gets the block before. */
static void poison(capl_device *device, const capl_pool *owner, void *p, size_t bytes)
{
  capl_allocator *a = device->allocator;
  if (a->recording && (owner != a->recording || pool_now != owner)) return;
  (void)device->backend->mem_fill(p, 0xFF, bytes); /* a lost GPU says so elsewhere */
}

/* Puts a block on its free list; false when there is no memory for the list. Called locked. */
static bool put_cached(capl_device *device, void *p, int class, size_t rounded)
{
  capl_allocator *a = device->allocator;
  free_block *cell = a->spare;
  if (cell) a->spare = cell->next;
  else cell = malloc(sizeof *cell);
  if (!cell) return false;
  *cell = (free_block){.next = a->free[class], .data = p};
  a->free[class] = cell;
  a->stats.cached += rounded;
  FORBID(device, p, rounded);
  return true;
}

void capl_block_put(capl_device *device, void *p, size_t bytes)
{
  if (!p) return;
  capl_allocator *a = device->allocator;
  size_t rounded;
  int class = size_class(bytes, &rounded);
  pthread_mutex_lock(&a->lock);
  a->stats.live -= rounded;
  capl_pool *owner = put_pooled(a, p, rounded);
  if (a->poison) poison(device, owner, p, bytes);
  bool kept = owner || put_cached(device, p, class, rounded);
  pthread_mutex_unlock(&a->lock);
  if (kept) return;
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
  if (pool_now && pool_device == device) return; /* freeing waits for the device, which a capture must not */
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

/* ---- pools of captured steps ----------------------------------------------------------------- */

capl_status capl_pool_begin(capl_device *device, capl_pool **out)
{
  if (pool_now) return CAPL_FAIL(CAPL_ESTATE, "a step is being captured already");
  *out = calloc(1, sizeof **out);
  if (!*out) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the list of a captured step's blocks");
  capl_allocator *a = device->allocator;
  pthread_mutex_lock(&a->lock);
  (*out)->next = a->pools;
  a->pools = a->recording = *out;
  pthread_mutex_unlock(&a->lock);
  pool_now = *out;
  pool_device = device;
  return CAPL_OK;
}

void capl_pool_end(capl_pool *pool)
{
  if (pool_now != pool) return;
  capl_allocator *a = pool_device->allocator;
  pthread_mutex_lock(&a->lock);
  a->recording = NULL;
  pthread_mutex_unlock(&a->lock);
  pool_now = NULL;
}

/* Called locked. A block that no list can hold is lost to the process: freeing here would wait for the device. */
static void give_back(void *user, void *p, int class)
{
  capl_device *device = user;
  device->allocator->stats.captured -= class_bytes(class);
  put_cached(device, p, class, class_bytes(class));
}

void capl_pool_free(capl_device *device, capl_pool *pool)
{
  if (!pool) return;
  capl_allocator *a = device->allocator;
  capl_pool_end(pool);
  pthread_mutex_lock(&a->lock);
  capl_pool **at = &a->pools;
  while (*at != pool) at = &(*at)->next;
  *at = pool->next;
  pool_drain(pool, give_back, device);
  pthread_mutex_unlock(&a->lock);
}

/* ---- metrics --------------------------------------------------------------------------------- */

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

size_t capl_memory_limit_get(const capl_device *device)
{
  pthread_mutex_lock(&device->allocator->lock);
  size_t limit = device->allocator->limit;
  pthread_mutex_unlock(&device->allocator->lock);
  return limit;
}

void capl_memory_limit_set(capl_device *device, size_t bytes)
{
  pthread_mutex_lock(&device->allocator->lock);
  device->allocator->limit = bytes;
  pthread_mutex_unlock(&device->allocator->lock);
}

/* ---- scratch --------------------------------------------------------------------------------- */

/* A scratch block's size is written in front of it, a cache line long to keep the alignment; where the host cannot
** write there, it is kept in a list: few blocks are out at a time. Notes of blocks that came back are used again. */
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

/* A spare note, or a new one; NULL without memory. Called locked. */
static scratch_note *take_note(capl_allocator *a)
{
  scratch_note *note = a->spare_notes;
  if (!note) return malloc(sizeof *note);
  a->spare_notes = note->next;
  return note;
}

static capl_status note_scratch(capl_device *device, void *block, size_t bytes)
{
  if (!notes_apart(device)) {
    memcpy(block, &bytes, sizeof bytes);
    return CAPL_OK;
  }
  capl_allocator *a = device->allocator;
  pthread_mutex_lock(&a->lock);
  scratch_note *note = take_note(a);
  if (note) {
    *note = (scratch_note){a->scratch, block, bytes};
    a->scratch = note;
  }
  pthread_mutex_unlock(&a->lock);
  return note ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a note on scratch");
}

/* The size noted for a block; the note is spare then. */
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
    found->next = a->spare_notes;
    a->spare_notes = found;
  }
  pthread_mutex_unlock(&a->lock);
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
  bool pooled = pool_now && pool_device->allocator == a;
  while (class < CLASSES && !a->free[class] && !(pooled && pool_has(pool_now, class))) class++;
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

static uint64_t storages_made;

uint64_t storage_next_serial(void)
{
  return __atomic_load_n(&storages_made, __ATOMIC_RELAXED) + 1;
}

capl_status capl_storage_new(capl_device *device, size_t bytes, capl_storage **out)
{
  capl_storage *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a tensor's header");
  uint64_t serial = __atomic_add_fetch(&storages_made, 1, __ATOMIC_RELAXED);
  *s = (capl_storage){.refs = 1, .device = device, .bytes = bytes, .serial = serial};
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
  storage_leave_shadow(s);
  storage_leave_forms(s);
  capl_block_put(s->device, s->data, s->bytes);
  free(s);
}
