/* scan.c -- looks at every file of a source once, on several threads: what it is, whether it can be read, which are the
** same.
**
** Files of which a 64-bit hash is the same are read once more and compared byte by byte, or pixel by pixel.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "data/image.h"
#include "data/source.h"

enum { TICKET = 16, TITLE_ROOM = 4096 };

struct capl_scan {
  capl_source *source;
  bool pixels;
  capl_file_facts *facts; /* [count] */
  uint32_t count;
  atomic_uint next;       /* sample that nobody has taken yet */
  atomic_bool give_up;
};

/* ---- hashes ---------------------------------------------------------------------------------- */

/* Eight bytes at a time; the last ones filled up with zeros, and their number. */
static uint64_t hash_bytes(uint64_t hash, const uint8_t *bytes, size_t size)
{
  hash ^= size * 0x9e3779b97f4a7c15u;
  for (; size > 0; bytes += 8) {
    uint64_t word = 0;
    size_t n = size < 8 ? size : 8;
    memcpy(&word, bytes, n);
    size -= n;
    hash = (hash ^ word) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  hash *= 0x94d049bb133111ebu;
  return hash ^ hash >> 31;
}

/* The image that is seen, whatever file it is in: gray is RGB with equal channels. */
static uint64_t hash_pixels(const capl_image *image)
{
  uint64_t size = (uint64_t)image->width << 32 | (uint64_t)image->height;
  return hash_bytes(size, image->pixels, (size_t)image->width * (size_t)image->height * 3);
}

/* ---- what is seen ---------------------------------------------------------------------------- */

/* Middle level of channel c along the four sides. */
static int border_level(const capl_image *image, int c)
{
  uint32_t seen[256] = {0}, n = 0, below = 0;
  int w = image->width, h = image->height, level = 0;
  for (int y = 0; y < h; y++) {
    int step = y == 0 || y == h - 1 || w == 1 ? 1 : w - 1;
    for (int x = 0; x < w; x += step, n++) seen[image->pixels[((size_t)y * (size_t)w + (size_t)x) * 3 + (size_t)c]]++;
  }
  while (2 * (below += seen[level]) < n) level++;
  return level;
}

enum { SEEN = 12 }; /* levels: more than noise */

static void look_at_pixels(const capl_image *image, capl_file_facts *facts)
{
  size_t n = (size_t)image->width * (size_t)image->height;
  int ground[3];
  double darker = 0, lighter = 0, differ = 0;
  size_t seen = 0, faded = 0;
  for (int c = 0; c < 3; c++) ground[c] = border_level(image, c);
  int luma = capl_luma((uint8_t)ground[0], (uint8_t)ground[1], (uint8_t)ground[2]);
  for (size_t i = 0; i < n; i++) {
    const uint8_t *p = image->pixels + 3 * i;
    int by = capl_luma(p[0], p[1], p[2]) - luma, most = 0;
    for (int c = 0; c < 3; c++) most = abs(p[c] - ground[c]) > most ? abs(p[c] - ground[c]) : most;
    if (by < 0) darker -= by;
    else lighter += by;
    differ += most;
    seen += most >= SEEN;
    faded += most >= SEEN && 4 * abs(by) < most;
  }
  facts->darker = (float)(darker / (double)n);
  facts->lighter = (float)(lighter / (double)n);
  facts->differ = (float)(differ / (double)n);
  facts->faded = seen ? (float)faded / (float)seen : 0;
}

/* ---- one file -------------------------------------------------------------------------------- */

static void note_failure(capl_file_facts *facts)
{
  facts->format = NULL;
  facts->message = strdup(capl_error_last()->message); /* without memory for it the file is still known to be bad */
}

static capl_status look_at(const capl_scan *scan, uint32_t i, const encoded_bytes *bytes, capl_image *scratch)
{
  capl_file_facts *facts = &scan->facts[i];
  capl_image_info info;
  char title[TITLE_ROOM];
  const char *name = capl_source_title(scan->source, i, title, sizeof title);
  facts->bytes = bytes->size;
  facts->content = hash_bytes(0, bytes->at, bytes->size);
  CAPL_TRY(capl_image_probe(bytes->at, bytes->size, name, &info));
  facts->format = info.format;
  facts->width = info.width;
  facts->height = info.height;
  facts->channels = info.channels;
  if (!scan->pixels) return CAPL_OK;
  CAPL_TRY(capl_image_decode(bytes->at, bytes->size, name, 3, scratch));
  facts->pixels = hash_pixels(scratch);
  look_at_pixels(scratch, facts);
  return CAPL_OK;
}

static void scan_one(const capl_scan *scan, uint32_t i, capl_image *scratch)
{
  encoded_bytes bytes = {0};
  capl_status status = capl_source_encoded(scan->source, i, &bytes);
  if (status == CAPL_OK) status = look_at(scan, i, &bytes, scratch);
  if (status != CAPL_OK) note_failure(&scan->facts[i]);
  free(bytes.owned);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void scan_tickets(capl_scan *scan, bool (*stop)(void))
{
  capl_image scratch = {0};
  for (;;) {
    uint32_t first = atomic_fetch_add(&scan->next, TICKET);
    if (first >= scan->count || atomic_load(&scan->give_up)) break;
    for (uint32_t i = first; i < first + TICKET && i < scan->count; i++) scan_one(scan, i, &scratch);
    if (stop && stop()) atomic_store(&scan->give_up, true);
  }
  capl_image_fini(&scratch);
}

static void *run_thread(void *arg)
{
  scan_tickets(arg, NULL);
  return NULL;
}

/* The calling thread works too, and is the one that asks whether to stop. */
static capl_status scan_all(capl_scan *scan, int threads, bool (*stop)(void))
{
  pthread_t thread[CAPL_WORKERS_MAX];
  int started = 0;
  while (started + 1 < threads && capl_thread_start(&thread[started], "capl-scan", run_thread, scan) == CAPL_OK)
    started++;
  scan_tickets(scan, stop);
  while (started > 0) pthread_join(thread[--started], NULL);
  return atomic_load(&scan->give_up) ? CAPL_FAIL(CAPL_EINTERRUPT, "interrupted") : CAPL_OK;
}

void capl_scan_free(capl_scan *scan)
{
  if (!scan) return;
  for (uint32_t i = 0; scan->facts && i < scan->count; i++) free(scan->facts[i].message);
  free(scan->facts);
  capl_source_unref(scan->source);
  free(scan);
}

capl_status capl_scan_new(capl_source *source, bool pixels, int threads, bool (*stop)(void), capl_scan **out)
{
  if (!source->ops->encoded) return CAPL_FAIL(CAPL_ESTATE, "this source has no files");
  if (threads < 0 || threads > CAPL_WORKERS_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "0 to %d threads, got %d", CAPL_WORKERS_MAX, threads);
  capl_scan *scan = calloc(1, sizeof *scan);
  if (!scan) return CAPL_FAIL(CAPL_ENOMEM, "no memory to check %u files", source->count);
  scan->source = capl_source_ref(source);
  scan->pixels = pixels;
  scan->count = source->count;
  scan->facts = calloc(source->count, sizeof *scan->facts);
  capl_status status = scan->facts ? scan_all(scan, threads, stop)
      : CAPL_FAIL(CAPL_ENOMEM, "no memory to check %u files", source->count);
  if (status == CAPL_OK) *out = scan;
  else capl_scan_free(scan);
  return status;
}

const capl_file_facts *capl_scan_facts(const capl_scan *scan, uint32_t i)
{
  return i < scan->count ? &scan->facts[i] : NULL;
}

/* ---- the same files -------------------------------------------------------------------------- */

typedef struct {
  uint64_t hash;
  uint32_t id;
  bool second; /* of the second scan */
} key;

/* Equal hashes together, the first scan's before the second's, lower numbers before higher ones. */
static int by_hash(const void *a, const void *b)
{
  const key *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  if (x->second != y->second) return x->second ? 1 : -1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static uint32_t add_keys(const capl_scan *scan, bool pixels, bool second, key *keys)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < scan->count; i++) {
    const capl_file_facts *f = &scan->facts[i];
    if (f->format) keys[n++] = (key){pixels ? f->pixels : f->content, i, second};
  }
  return n;
}

static int by_id(const void *a, const void *b)
{
  const capl_same *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* What two files are compared by. */
typedef struct {
  encoded_bytes file;
  capl_image image; /* as RGB; empty unless pixels are compared */
} contents;

typedef struct {
  const capl_scan *a, *b; /* b NULL = all files are of a */
  bool pixels;
  const key *earlier_key; /* whose contents `earlier` holds: the first of many equal files is read once */
  contents earlier, later;
} comparison;

static void forget(contents *c)
{
  free(c->file.owned);
  c->file = (encoded_bytes){0};
}

static capl_status load(const comparison *c, const key *k, contents *to)
{
  const capl_scan *scan = k->second ? c->b : c->a;
  char title[TITLE_ROOM];
  forget(to);
  CAPL_TRY(capl_source_encoded(scan->source, k->id, &to->file));
  if (!c->pixels) return CAPL_OK;
  const char *name = capl_source_title(scan->source, k->id, title, sizeof title);
  return capl_image_decode(to->file.at, to->file.size, name, 3, &to->image);
}

static bool same_bytes(const contents *x, const contents *y)
{
  return x->file.size == y->file.size && memcmp(x->file.at, y->file.at, x->file.size) == 0;
}

static bool same_image(const capl_image *x, const capl_image *y)
{
  return x->width == y->width && x->height == y->height &&
         memcmp(x->pixels, y->pixels, (size_t)x->width * (size_t)x->height * 3) == 0;
}

/* With c->later. reported: whether they are a pair that is looked for; with pixels, the same bytes are none. */
static capl_status compare(comparison *c, const key *earlier, bool *same, bool *reported)
{
  if (c->earlier_key != earlier) {
    c->earlier_key = NULL;
    CAPL_TRY(load(c, earlier, &c->earlier));
    c->earlier_key = earlier;
  }
  bool bytes = same_bytes(&c->earlier, &c->later);
  *same = bytes || (c->pixels && same_image(&c->earlier.image, &c->later.image));
  *reported = *same && bytes != c->pixels;
  return CAPL_OK;
}

/* Adds the pair of the last of some keys with equal hashes and the first of them that it is the same as, if there is
** one; of two scans only what lies across them. */
static capl_status add_pair(comparison *c, const key *first, const key *last, capl_same *pairs, uint32_t *found)
{
  if (first == last || (c->b && (first->second || !last->second))) return CAPL_OK;
  CAPL_TRY(load(c, last, &c->later));
  bool same = false, reported = false;
  for (const key *k = first; k < last && !same && !(c->b && k->second); k++) {
    CAPL_TRY(compare(c, k, &same, &reported));
    if (reported) pairs[(*found)++] = (capl_same){.id = last->id, .first = k->id};
  }
  return CAPL_OK;
}

static capl_status find_pairs(comparison *c, const key *keys, uint32_t n, capl_same *pairs, uint32_t *found)
{
  capl_status status = CAPL_OK;
  for (uint32_t k = 0, first = 0; k < n && status == CAPL_OK; k++) {
    if (keys[k].hash != keys[first].hash) first = k;
    status = add_pair(c, &keys[first], &keys[k], pairs, found);
  }
  forget(&c->earlier), forget(&c->later);
  capl_image_fini(&c->earlier.image), capl_image_fini(&c->later.image);
  qsort(pairs, *found, sizeof *pairs, by_id);
  return status;
}

capl_status capl_scan_same(const capl_scan *a, const capl_scan *b, bool pixels, capl_same **pairs, uint32_t *n)
{
  size_t count = (size_t)a->count + (b ? b->count : 0);
  if (pixels && (!a->pixels || (b && !b->pixels))) return CAPL_FAIL(CAPL_ESTATE, "the files were not decoded");
  key *keys = malloc((count + 1) * sizeof *keys);
  *pairs = malloc((count + 1) * sizeof **pairs);
  *n = 0;
  capl_status status = keys && *pairs ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to compare %zu files", count);
  if (status == CAPL_OK) {
    uint32_t used = add_keys(a, pixels, false, keys);
    if (b) used += add_keys(b, pixels, true, keys + used);
    qsort(keys, used, sizeof *keys, by_hash);
    status = find_pairs(&(comparison){.a = a, .b = b, .pixels = pixels}, keys, used, *pairs, n);
  }
  free(keys);
  if (status != CAPL_OK) free(*pairs), *pairs = NULL;
  return status;
}
