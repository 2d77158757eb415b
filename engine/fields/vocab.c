/* vocab.c -- vocabularies: the names of classes, or the symbols of texts, and their ids.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fields/gb2312.h"
#include "fields/unicode.h"

struct capl_vocab {
  atomic_int refs;
  bool symbols;       /* of texts; else names of classes */
  int32_t count;
  char *bytes;        /* all names, each NUL-ended */
  size_t used, room;
  uint32_t *at;       /* where name k begins */
  int32_t at_room;
  int32_t *slot;      /* ids by hash of the name, -1 = free; open addressing */
  uint32_t n_slots;   /* power of two, at least twice the names */
  char *charset;      /* all symbols in order; "" for names */
};

static capl_status no_memory(const capl_vocab *v)
{
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for a vocabulary of %d names", v->count + 1);
}

/* ---- looking up ---------------------------------------------------------------------------------------- */

/* FNV-1a: names are short. */
static uint32_t hash_of(const char *name, size_t bytes)
{
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ (unsigned char)name[i]) * 16777619u;
  return h ^ h >> 15;
}

/* The slot of a name, or the free one where it would be. */
static uint32_t slot_of(const capl_vocab *v, const char *name, size_t bytes)
{
  uint32_t s = hash_of(name, bytes) & (v->n_slots - 1);
  for (; v->slot[s] >= 0; s = (s + 1) & (v->n_slots - 1)) {
    const char *other = v->bytes + v->at[v->slot[s]];
    if (strncmp(other, name, bytes) == 0 && other[bytes] == '\0') break;
  }
  return s;
}

int32_t capl_vocab_find(const capl_vocab *v, const char *name, size_t bytes)
{
  return v->slot[slot_of(v, name, bytes)];
}

/* ---- building ------------------------------------------------------------------------------------------ */

static capl_status grow_slots(capl_vocab *v)
{
  uint32_t n = v->n_slots ? 2 * v->n_slots : 256;
  int32_t *slot = malloc(n * sizeof *slot);
  if (!slot) return no_memory(v);
  free(v->slot);
  v->slot = slot;
  v->n_slots = n;
  memset(slot, 0xff, n * sizeof *slot);
  for (int32_t id = 0; id < v->count; id++) {
    const char *name = v->bytes + v->at[id];
    slot[slot_of(v, name, strlen(name))] = id;
  }
  return CAPL_OK;
}

static capl_status make_room(capl_vocab *v, size_t bytes)
{
  if (2 * (uint32_t)(v->count + 1) > v->n_slots) CAPL_TRY(grow_slots(v));
  if (v->count == v->at_room) {
    int32_t room = 2 * v->at_room + 64;
    uint32_t *at = realloc(v->at, (size_t)room * sizeof *at);
    if (!at) return no_memory(v);
    v->at = at;
    v->at_room = room;
  }
  if (v->used + bytes + 1 > v->room) {
    size_t room = 2 * v->room + bytes + 256;
    char *grown = realloc(v->bytes, room);
    if (!grown) return no_memory(v);
    v->bytes = grown;
    v->room = room;
  }
  return CAPL_OK;
}

/* Appends a name -> false if it is there already. */
static capl_status add(capl_vocab *v, const char *name, size_t bytes, bool *added)
{
  *added = false;
  CAPL_TRY(make_room(v, bytes));
  uint32_t s = slot_of(v, name, bytes);
  if (v->slot[s] >= 0) return CAPL_OK;
  memcpy(v->bytes + v->used, name, bytes);
  v->bytes[v->used + bytes] = '\0';
  v->at[v->count] = (uint32_t)v->used;
  v->used += bytes + 1;
  v->slot[s] = v->count++;
  *added = true;
  return CAPL_OK;
}

static capl_status new_vocab(bool symbols, capl_vocab **out)
{
  capl_vocab *v = calloc(1, sizeof *v);
  if (!v) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a vocabulary");
  v->refs = 1;
  v->symbols = symbols;
  capl_status status = grow_slots(v);
  if (status == CAPL_OK) *out = v;
  else capl_vocab_unref(v);
  return status;
}

capl_vocab *capl_vocab_ref(capl_vocab *v)
{
  if (v) atomic_fetch_add(&v->refs, 1);
  return v;
}

void capl_vocab_unref(capl_vocab *v)
{
  if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
  free(v->bytes);
  free(v->at);
  free(v->slot);
  free(v->charset);
  free(v);
}

/* ---- symbols of texts ---------------------------------------------------------------------------------- */

static const char *shown(const char *text, char room[128])
{
  capl_text_show(room, 128, text, false);
  return room;
}

static capl_status add_symbol(capl_vocab *v, int32_t code, const char *spec)
{
  char symbol[UNICODE_BYTES + 1], room[128], *normal = NULL;
  int bytes = unicode_write(code, symbol);
  if (!bytes || !unicode_is_visible(code))
    return CAPL_FAIL(CAPL_EVALUE, "charset \"%s\" holds U+%04X; symbols are visible characters, no blanks", shown(spec, room),
                     (unsigned)code);
  CAPL_TRY(capl_text_normalize(symbol, NULL, &normal));
  bool same = strcmp(normal, symbol) == 0, added;
  if (!same)
    CAPL_FAIL(CAPL_EVALUE, "charset \"%s\" holds U+%04X, which is written '%s' in Unicode's normal form C",
              shown(spec, room), (unsigned)code, normal);
  free(normal);
  if (!same) return CAPL_EVALUE;
  if (v->count == CAPL_VOCAB_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "charset \"%s\" has more than %d characters", shown(spec, room), CAPL_VOCAB_MAX);
  CAPL_TRY(add(v, symbol, (size_t)bytes, &added));
  return added ? CAPL_OK : CAPL_FAIL(CAPL_EVALUE, "charset \"%s\" holds '%s' twice", shown(spec, room), symbol);
}

/* A '-' between two characters is a range, unless `literal`. */
static capl_status add_spec(capl_vocab *v, const char *spec, bool literal)
{
  char room[128];
  int bytes;
  for (const char *p = spec; *p;) {
    int32_t first = unicode_at(p, &bytes), last = first;
    p += bytes;
    const char *from = p - bytes, *to = p;
    if (!literal && p[0] == '-' && p[1]) {
      to = p + 1;
      last = unicode_at(to, &bytes);
      p = to + bytes;
    }
    if (last < first)
      return CAPL_FAIL(CAPL_EVALUE, "charset \"%s\": the range %.*s runs backwards", shown(spec, room),
                       (int)(p - from), from);
    for (int32_t code = first; code <= last; code++) CAPL_TRY(add_symbol(v, code, spec));
  }
  return CAPL_OK;
}

/* All names in one, which for symbols is the charset. */
static capl_status join(capl_vocab *v)
{
  char *to = v->charset = malloc(v->used + 1);
  if (!to) return no_memory(v);
  for (int32_t id = 0; v->symbols && id < v->count; id++) {
    size_t n = strlen(v->bytes + v->at[id]);
    memcpy(to, v->bytes + v->at[id], n);
    to += n;
  }
  *to = '\0';
  return CAPL_OK;
}

/* A literal one is a charset as join() wrote it: normal form C of the whole would join and reorder combining marks that
** are symbols of their own. */
static capl_status fill_symbols(capl_vocab *v, const char *spec, bool literal)
{
  char *normal = NULL;
  CAPL_TRY(capl_text_normalize(spec, NULL, &normal));
  capl_status status = add_spec(v, literal ? spec : normal, literal);
  free(normal);
  return status == CAPL_OK ? join(v) : status;
}

static capl_status new_symbols(const char *spec, bool literal, capl_vocab **out)
{
  capl_vocab *v;
  *out = NULL;
  if (!spec || !*spec) return CAPL_FAIL(CAPL_EVALUE, "the charset is empty");
  CAPL_TRY(new_vocab(true, &v));
  capl_status status = fill_symbols(v, spec, literal);
  if (status == CAPL_OK) *out = v;
  else capl_vocab_unref(v);
  return status;
}

capl_status capl_vocab_charset(const char *spec, capl_vocab **vocab)
{
  char *symbols;
  if (!spec || !gb2312_is_named(spec)) return new_symbols(spec, false, vocab);
  *vocab = NULL;
  CAPL_TRY(gb2312_symbols(spec, &symbols));
  capl_status status = new_symbols(symbols, true, vocab);
  free(symbols);
  return status;
}

capl_status capl_vocab_symbols(const char *symbols, capl_vocab **vocab)
{
  return new_symbols(symbols, true, vocab);
}

/* ---- names of classes ---------------------------------------------------------------------------------- */

static capl_status check_name(const char *name, int32_t id)
{
  char room[128];
  if (!*name) return CAPL_FAIL(CAPL_EVALUE, "name %d of the classes is empty", id + 1);
  if (strlen(name) > CAPL_NAME_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "the class name \"%s\" has more than %d bytes", shown(name, room), CAPL_NAME_MAX);
  for (const unsigned char *p = (const unsigned char *)name; *p; p++)
    if (*p < ' ' || *p == 0x7f)
      return CAPL_FAIL(CAPL_EVALUE, "the class name \"%s\" has a control character", shown(name, room));
  return CAPL_OK;
}

static capl_status add_name(capl_vocab *v, const char *name)
{
  char room[128], *normal = NULL;
  bool added = false;
  CAPL_TRY(check_name(name, v->count));
  CAPL_TRY(capl_text_normalize(name, NULL, &normal));
  bool same = strcmp(normal, name) == 0;
  capl_status status = add(v, normal, strlen(normal), &added);
  free(normal);
  if (status != CAPL_OK || added) return status;
  if (same) return CAPL_FAIL(CAPL_EVALUE, "class %s is named twice", shown(name, room));
  return CAPL_FAIL(CAPL_EVALUE, "class %s is named twice, in two spellings of Unicode", shown(name, room));
}

static capl_status fill_names(capl_vocab *v, const char *const *names, int32_t n)
{
  for (int32_t i = 0; i < n; i++) CAPL_TRY(add_name(v, names[i]));
  return join(v);
}

capl_status capl_vocab_names(const char *const *names, int32_t n, capl_vocab **vocab)
{
  capl_vocab *v;
  *vocab = NULL;
  if (n < 1 || n > CAPL_VOCAB_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "%d classes; there are 1 to %d", n, CAPL_VOCAB_MAX);
  CAPL_TRY(new_vocab(false, &v));
  capl_status status = fill_names(v, names, n);
  if (status == CAPL_OK) *vocab = v;
  else capl_vocab_unref(v);
  return status;
}

/* ---- reading it ---------------------------------------------------------------------------------------- */

int32_t capl_vocab_count(const capl_vocab *v)
{
  return v ? v->count : 0;
}

bool capl_vocab_is_symbols(const capl_vocab *v)
{
  return v && v->symbols;
}

const char *capl_vocab_name(const capl_vocab *v, int32_t id)
{
  return id >= 0 && id < v->count ? v->bytes + v->at[id] : NULL;
}

const char *capl_vocab_text(const capl_vocab *v)
{
  return v ? v->charset : "";
}

bool capl_vocab_equal(const capl_vocab *a, const capl_vocab *b)
{
  if (a == b) return true;
  return a && b && a->symbols == b->symbols && a->count == b->count && a->used == b->used &&
         memcmp(a->bytes, b->bytes, a->used) == 0;
}

const char *capl_vocab_describe(const capl_vocab *v, char *room, size_t size)
{
  enum { WHOLE = 100 }; /* bytes of a charset that messages show in full */
  if (!v->symbols) snprintf(room, size, "%d classes", v->count);
  else if (strlen(v->charset) <= WHOLE) snprintf(room, size, "%s", v->charset);
  else snprintf(room, size, "of %d characters", v->count);
  return room;
}

/* The id of the symbol at p, -1 = there is none, and its bytes. */
static int32_t symbol_at(const capl_vocab *v, const char *p, int *bytes)
{
  int n = capl_text_char(p);
  *bytes = n ? n : 1;
  return n ? capl_vocab_find(v, p, (size_t)n) : -1;
}

int capl_vocab_encode(const capl_vocab *v, const char *text, int32_t *ids, int room, const char **wrong)
{
  int n = 0, bytes;
  *wrong = NULL;
  if (!v->symbols) {
    ids[0] = capl_vocab_find(v, text, strlen(text));
    if (ids[0] < 0) *wrong = text;
    return 1;
  }
  for (const char *p = text; *p; p += bytes, n++) {
    int32_t id = symbol_at(v, p, &bytes);
    if (id < 0) return *wrong = p, n;
    if (n < room) ids[n] = id;
  }
  return n;
}
