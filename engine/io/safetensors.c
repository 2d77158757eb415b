/* safetensors.c -- named tensors in one file: 8 bytes of header length, a JSON header, the bytes.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "capl/backend.h"
#include "capl/io.h"
#include "capl/op.h"
#include "capl/tape.h"
#include "io/file.h"
#include "io/safetensors.h"

enum { HEADER_LIMIT = 100 << 20, ALIGN = 8, MOST_TENSORS = 1 << 16, MOST_ITEMS = 32 * MOST_TENSORS };
#define METADATA "__metadata__"

static const struct {
  const char *name;
  capl_dtype dtype;
} types[] = {
  {"F32", CAPL_F32}, {"F16", CAPL_F16}, {"BF16", CAPL_BF16}, {"U8", CAPL_U8},
  {"I32", CAPL_I32}, {"I64", CAPL_I64}, {"BOOL", CAPL_BOOL}, {"F64", CAPL_F64},
};
enum { TYPES = sizeof types / sizeof *types };

static const char *type_name(capl_dtype dtype)
{
  for (int k = 0; k < TYPES; k++)
    if (types[k].dtype == dtype) return types[k].name;
  return "?";
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool add_entry(cJSON *header, const capl_named_tensor *item, size_t *offset)
{
  const capl_tensor *t = item->tensor;
  cJSON *entry = cJSON_AddObjectToObject(header, item->name);
  if (!entry || !cJSON_AddStringToObject(entry, "dtype", type_name(t->dtype))) return false;
  cJSON *shape = cJSON_AddArrayToObject(entry, "shape"), *offsets = cJSON_AddArrayToObject(entry, "data_offsets");
  if (!shape || !offsets) return false;
  for (int d = 0; d < t->ndim; d++) cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->size[d]));
  cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)*offset));
  *offset += capl_tensor_bytes(t);
  cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)*offset));
  return true;
}

static bool add_notes(cJSON *header, const safetensors_note *notes)
{
  if (!notes) return true;
  cJSON *all = cJSON_AddObjectToObject(header, METADATA);
  for (; all && notes->key; notes++)
    if (!cJSON_AddStringToObject(all, notes->key, notes->text)) return false;
  return all != NULL;
}

capl_status safetensors_header(const capl_named_tensor *list, int n, const safetensors_note *notes, char **out,
                               size_t *len)
{
  const char *twice = NULL;
  if (n > MOST_TENSORS)
    return CAPL_FAIL(CAPL_EVALUE, "%d tensors are more than the %d that a file may have", n, MOST_TENSORS);
  JSON_OWNED *header = cJSON_CreateObject();
  size_t offset = 0;
  bool ok = header && add_notes(header, notes);
  for (int i = 0; ok && i < n; i++) ok = add_entry(header, &list[i], &offset);
  ok = ok && json_twice(header, &twice);
  if (twice) return CAPL_FAIL(CAPL_EVALUE, "two tensors are named '%s'", twice);
  char *text = ok ? json_print(header, false) : NULL;
  if (!text) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a safetensors header");
  size_t used = strlen(text), padded = (used + ALIGN - 1) / ALIGN * ALIGN;
  char *grown = malloc(padded + 1);
  if (grown) {
    memset(grown, ' ', padded);
    memcpy(grown, text, used);
  }
  free(text);
  if (!grown) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a safetensors header");
  *out = grown;
  *len = padded;
  return CAPL_OK;
}

/* Row-major, whatever t's own order is. */
static capl_status append_host_tensor(file_writer *w, capl_tensor *t)
{
  if (capl_tensor_is_row(t)) return file_append(w, capl_tensor_data(t), capl_tensor_bytes(t));
  capl_tensor *row;
  bool before = capl_grad_set_enabled(false);
  capl_status status = capl_op_call(CAPL_OP_contiguous, &t, 1, NULL, &row);
  capl_grad_set_enabled(before);
  if (status != CAPL_OK) return status;
  status = file_append(w, capl_tensor_data(row), capl_tensor_bytes(row));
  capl_tensor_unref(row);
  return status;
}

static capl_status append_tensor(file_writer *w, capl_tensor *t)
{
  capl_tensor *host;
  CAPL_TRY(capl_tensor_on_host(t, &host));
  capl_status status = append_host_tensor(w, host);
  capl_tensor_unref(host);
  return status;
}

capl_status safetensors_append(file_writer *w, const char *header, size_t len, const capl_named_tensor *list, int n)
{
  unsigned char size[8];
  for (int k = 0; k < 8; k++) size[k] = (unsigned char)((uint64_t)len >> (8 * k));
  CAPL_TRY(file_append(w, size, sizeof size));
  CAPL_TRY(file_append(w, header, len));
  for (int i = 0; i < n; i++) CAPL_TRY(append_tensor(w, list[i].tensor));
  return CAPL_OK;
}

capl_status safetensors_save_hashed(const char *path, const capl_named_tensor *list, int n, SHA2_CTX *hash)
{
  char *header = NULL;
  size_t len = 0;
  CAPL_TRY(safetensors_header(list, n, NULL, &header, &len));
  file_writer w;
  capl_status status = file_begin(&w, path);
  w.digest = hash;
  if (status == CAPL_OK) status = safetensors_append(&w, header, len, list, n);
  free(header);
  if (status == CAPL_OK) return file_commit(&w);
  file_abandon(&w);
  return status;
}

capl_status capl_safetensors_save(const char *path, const capl_named_tensor *list, int n)
{
  return safetensors_save_hashed(path, list, n, NULL);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
  capl_dtype dtype;
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  size_t begin, end;
} entry;

static capl_status damaged(const char *path, const char *name, const char *why)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s: tensor '%.80s': %s", path, name, why);
  capl_error_hint("the file is damaged or no safetensors file; copy or download it again");
  return CAPL_EFORMAT;
}

static capl_status read_shape(const char *path, const cJSON *item, entry *e)
{
  const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape"), *d;
  if (!cJSON_IsArray(shape)) return damaged(path, item->string, "it has no shape");
  if (cJSON_GetArraySize(shape) > CAPL_MAX_NDIM) return damaged(path, item->string, "it has more than 6 dims");
  cJSON_ArrayForEach(d, shape)
  {
    if (!json_whole(d, 0, 0x1p53, &e->size[e->ndim++]))
      return damaged(path, item->string, "its shape is no list of sizes");
  }
  return CAPL_OK;
}

static capl_status read_dtype(const char *path, const cJSON *item, entry *e)
{
  const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
  for (int k = 0; k < TYPES && cJSON_IsString(dtype); k++) {
    if (strcmp(types[k].name, dtype->valuestring) != 0) continue;
    e->dtype = types[k].dtype;
    return CAPL_OK;
  }
  return damaged(path, item->string, "its dtype is unknown here");
}

/* Checks one header entry against the size of the data part. */
static capl_status read_entry(const char *path, const cJSON *item, size_t data_len, entry *e)
{
  *e = (entry){.ndim = 0};
  if (!cJSON_IsObject(item)) return damaged(path, item->string, "its description is no object");
  CAPL_TRY(read_dtype(path, item, e));
  CAPL_TRY(read_shape(path, item, e));
  const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
  int64_t begin, end, bytes = (int64_t)capl_dtype_size(e->dtype);
  if (cJSON_GetArraySize(offsets) != 2 || !json_whole(cJSON_GetArrayItem(offsets, 0), 0, (double)data_len, &begin) ||
      !json_whole(cJSON_GetArrayItem(offsets, 1), 0, (double)data_len, &end) || begin > end)
    return damaged(path, item->string, "its data lies outside the file");
  int64_t span = bytes; /* also with sizes of 0 left out, as strides are computed */
  for (int d = 0; d < e->ndim; d++) {
    if (__builtin_mul_overflow(span, e->size[d] ? e->size[d] : 1, &span))
      return damaged(path, item->string, "it is too large");
    bytes *= e->size[d];
  }
  if (bytes != end - begin) return damaged(path, item->string, "its shape and the bytes it has differ");
  e->begin = (size_t)begin;
  e->end = (size_t)end;
  return CAPL_OK;
}

/* Row-major bytes from the file into a fresh tensor. */
static capl_status make_tensor(capl_device *device, const entry *e, const char *data, capl_tensor **out)
{
  capl_device *host;
  CAPL_TRY(capl_device_open("ref", &host));
  capl_tensor *row;
  CAPL_TRY(capl_tensor_new(host, e->dtype, e->ndim, e->size, CAPL_ROW, &row));
  if (e->end > e->begin) memcpy(capl_tensor_data(row), data + e->begin, e->end - e->begin);
  capl_status status = capl_tensor_new(device, e->dtype, e->ndim, e->size, CAPL_AUTO, out);
  if (status == CAPL_OK) {
    status = capl_tensor_copy(*out, row);
    if (status != CAPL_OK) capl_tensor_unref(*out);
  }
  capl_tensor_unref(row);
  return status;
}

static int by_begin(const void *a, const void *b)
{
  size_t x = ((const entry *)a)->begin, y = ((const entry *)b)->begin;
  return x < y ? -1 : x > y;
}

static capl_status check_overlap(const char *path, entry *entries, int n)
{
  if (n > 1) qsort(entries, (size_t)n, sizeof *entries, by_begin);
  for (int i = 1; i < n; i++)
    if (entries[i].begin < entries[i - 1].end)
      return CAPL_FAIL(CAPL_EFORMAT, "%s: two tensors share the same bytes", path);
  return CAPL_OK;
}

static capl_status load_entries(const char *path, const cJSON *header, const char *data, size_t data_len,
                                capl_device *device, entry *entries, capl_named_tensor *list, int *n)
{
  const cJSON *item;
  cJSON_ArrayForEach(item, header)
  {
    if (strcmp(item->string, METADATA) == 0) continue;
    entry e;
    CAPL_TRY(read_entry(path, item, data_len, &e));
    capl_named_tensor *slot = &list[*n];
    slot->name = strdup(item->string);
    if (!slot->name) return CAPL_FAIL(CAPL_ENOMEM, "no memory to read %s", path);
    entries[(*n)++] = e;
    CAPL_TRY(make_tensor(device, &e, data, &slot->tensor));
  }
  return check_overlap(path, entries, *n);
}

/* *header: caller deletes. */
static capl_status parse_header(const char *path, const char *data, size_t len, cJSON **header, uint64_t *header_len)
{
  *header_len = 0;
  for (int k = 0; len >= 8 && k < 8; k++) *header_len |= (uint64_t)(unsigned char)data[k] << (8 * k);
  if (len < 8 || *header_len > HEADER_LIMIT || *header_len > len - 8)
    return CAPL_FAIL(CAPL_EFORMAT, "%s is no safetensors file: its header length does not fit", path);
  json_rules rules = {.name = path, .most_values = MOST_ITEMS, .unique = true};
  CAPL_TRY(json_read(&rules, data + 8, (size_t)*header_len, header));
  if (cJSON_IsObject(*header) && cJSON_GetArraySize(*header) > MOST_TENSORS) {
    cJSON_Delete(*header);
    return CAPL_FAIL(CAPL_EFORMAT, "%s names more than the %d tensors that make sense here", path, MOST_TENSORS);
  }
  if (cJSON_IsObject(*header)) return CAPL_OK;
  cJSON_Delete(*header);
  return CAPL_FAIL(CAPL_EFORMAT, "%s is no safetensors file: its header is no JSON object", path);
}

capl_status safetensors_read_note(const char *path, const char *data, size_t len, const char *key, char **text)
{
  cJSON *header;
  uint64_t header_len;
  *text = NULL;
  CAPL_TRY(parse_header(path, data, len, &header, &header_len));
  const cJSON *note = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(header, METADATA), key);
  bool there = cJSON_IsString(note);
  if (there) *text = strdup(note->valuestring);
  cJSON_Delete(header);
  return there && !*text ? CAPL_FAIL(CAPL_ENOMEM, "no memory to read %s", path) : CAPL_OK;
}

static size_t meant_length(const char *path, const char *data, size_t len)
{
  cJSON *header, *item;
  uint64_t header_len;
  if (parse_header(path, data, len, &header, &header_len) != CAPL_OK) return 0;
  double end = 0;
  cJSON_ArrayForEach(item, header)
  {
    const cJSON *last = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), 1);
    if (cJSON_IsNumber(last) && last->valuedouble > end && last->valuedouble < 0x1p53) end = last->valuedouble;
  }
  cJSON_Delete(header);
  return 8 + (size_t)header_len + (size_t)end;
}

size_t safetensors_length(const char *data, size_t len) { return meant_length("", data, len); }

/* The header's length is read before the header, and that before the tensors: each may be a lie. */
static capl_status read_header(const char *path, char **data, size_t *len, uint64_t *size)
{
  uint64_t header_len = 0;
  CAPL_TRY(file_read_head(path, 8, data, len, size));
  for (size_t k = 0; *len == 8 && k < 8; k++) header_len |= (uint64_t)(unsigned char)(*data)[k] << (8 * k);
  bool fits = *len == 8 && header_len <= HEADER_LIMIT && header_len <= *size - 8;
  free(*data);
  *data = NULL;
  if (!fits) return CAPL_FAIL(CAPL_EFORMAT, "%s is no safetensors file: its header length does not fit", path);
  return file_read_head(path, 8 + (size_t)header_len, data, len, size);
}

capl_status safetensors_measure(const char *path, uint64_t *meant, uint64_t *size)
{
  char *data;
  size_t len;
  CAPL_TRY(read_header(path, &data, &len, size));
  *meant = meant_length(path, data, len);
  free(data);
  return *meant ? CAPL_OK : CAPL_EFORMAT;
}

capl_status safetensors_parse(const char *path, const char *data, size_t len, capl_device *device,
                              capl_named_tensor **list, int *n)
{
  *list = NULL;
  *n = 0;
  cJSON *header;
  uint64_t header_len;
  CAPL_TRY(parse_header(path, data, len, &header, &header_len));
  size_t room = (size_t)cJSON_GetArraySize(header) + 1;
  entry *entries = calloc(room, sizeof *entries);
  *list = calloc(room, sizeof **list);
  *n = 0;
  capl_status status = entries && *list ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to read %s", path);
  if (status == CAPL_OK)
    status = load_entries(path, header, data + 8 + header_len, len - 8 - (size_t)header_len, device, entries,
                          *list, n);
  free(entries);
  cJSON_Delete(header);
  if (status == CAPL_OK) return CAPL_OK;
  capl_named_tensors_free(*list, *n);
  *list = NULL;
  *n = 0;
  return status;
}

capl_status safetensors_read(const char *path, char **data, size_t *len)
{
  uint64_t meant, size;
  *data = NULL;
  CAPL_TRY(safetensors_measure(path, &meant, &size));
  if (size > meant)
    return CAPL_FAIL(CAPL_EFORMAT, "%s has %llu bytes of the %llu that its header names", path,
                     (unsigned long long)size, (unsigned long long)meant);
  return file_read(path, (size_t)meant, data, len);
}

capl_status capl_safetensors_load(const char *path, capl_device *device, capl_named_tensor **list, int *n)
{
  char *data;
  size_t len;
  *list = NULL;
  *n = 0;
  CAPL_TRY(safetensors_read(path, &data, &len));
  capl_status status = safetensors_parse(path, data, len, device, list, n);
  free(data);
  return status;
}

void capl_named_tensors_free(capl_named_tensor *list, int n)
{
  for (int i = 0; list && i < n; i++) {
    free(list[i].name);
    capl_tensor_unref(list[i].tensor);
  }
  free(list);
}
