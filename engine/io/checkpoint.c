/* checkpoint.c -- a tree of state in one file, with a hash over all of it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "io/file.h"
#include "io/safetensors.h"

#define DIGEST "sha256"
#define VERSION "capl_checkpoint"
#define TREE "tree"

enum { HASH = SHA256_DIGEST_LENGTH };
static const size_t limit = (size_t)1 << 38; /* bytes of a file */

/* ---- writing --------------------------------------------------------------------------------- */

/* The caller's tensors and behind them the hash, whose bytes come last of all. */
static capl_status with_digest(const capl_named_tensor *list, int n, capl_named_tensor **all)
{
  capl_device *host;
  CAPL_TRY(capl_device_open("ref", &host));
  *all = malloc(((size_t)n + 1) * sizeof **all);
  if (!*all) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a checkpoint");
  if (n) memcpy(*all, list, (size_t)n * sizeof *list);
  capl_named_tensor *digest = *all + n;
  digest->name = (char *)DIGEST; /* never written to */
  capl_status status = capl_tensor_new(host, CAPL_U8, 1, (int64_t[]){HASH}, CAPL_ROW, &digest->tensor);
  if (status != CAPL_OK) free(*all);
  return status;
}

static capl_status write_all(file_writer *w, const char *header, size_t len, const capl_named_tensor *list, int n)
{
  SHA2_CTX hash;
  uint8_t digest[HASH];
  SHA256Init(&hash);
  w->digest = &hash;
  capl_status status = safetensors_append(w, header, len, list, n);
  w->digest = NULL;
  SHA256Final(digest, &hash);
  return status == CAPL_OK ? file_append(w, digest, HASH) : status;
}

static capl_status write_file(const char *path, const char *header, size_t len, const capl_named_tensor *list, int n)
{
  file_writer w;
  CAPL_TRY(file_begin(&w, path));
  capl_status status = write_all(&w, header, len, list, n);
  if (status == CAPL_OK) return file_commit(&w);
  file_abandon(&w);
  return status;
}

capl_status checkpoint_save(const char *path, const char *tree, const capl_named_tensor *list, int n)
{
  char version[16], *header;
  size_t len;
  capl_named_tensor *all;
  snprintf(version, sizeof version, "%d", CHECKPOINT_VERSION);
  const safetensors_note notes[] = {{"format", "capl checkpoint"}, {VERSION, version}, {TREE, tree}, {NULL, NULL}};
  CAPL_TRY(with_digest(list, n, &all));
  capl_status status = safetensors_header(all, n + 1, notes, &header, &len);
  if (status == CAPL_OK) {
    status = write_file(path, header, len, list, n);
    free(header);
  }
  capl_tensor_unref(all[n].tensor);
  free(all);
  return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static capl_status damaged(const char *path, const char *what)
{
  CAPL_FAIL(CAPL_EFORMAT, "the checkpoint %s is damaged: %s", path, what);
  capl_error_hint("the run's other checkpoints may be whole; this one has to come from a copy");
  return CAPL_EFORMAT;
}

static void to_hex(const uint8_t *digest, char *out)
{
  for (int i = 0; i < HASH; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* Whether it is a sound file of tensors that never was a checkpoint. */
static bool is_other(const char *path, const char *data, size_t len)
{
  char *version, *tree = NULL;
  bool readable = safetensors_read_note(path, data, len, VERSION, &version) == CAPL_OK &&
                  safetensors_read_note(path, data, len, TREE, &tree) == CAPL_OK;
  bool other = readable && !version && !tree;
  free(version);
  free(tree);
  return other;
}

static capl_status no_checkpoint(const char *path)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s is no checkpoint, only tensors", path);
  capl_error_hint("--init_from=%s starts with its weights", path);
  return CAPL_EFORMAT;
}

/* Says how the bytes differ from those that were saved. */
static capl_status mismatch(const char *path, const char *data, size_t len, const uint8_t *found)
{
  if (is_other(path, data, len)) return no_checkpoint(path);
  char what[256], was[2 * HASH + 1], is[2 * HASH + 1];
  size_t meant = safetensors_length(data, len);
  if (meant == 0 && data[8] != '{') return CAPL_FAIL(CAPL_EFORMAT, "%s is no checkpoint and no safetensors file", path);
  if (meant == 0) return damaged(path, "its header cannot be read");
  if (meant != len) {
    snprintf(what, sizeof what, "it has %zu bytes of the %zu it should have", len, meant);
    return damaged(path, what);
  }
  to_hex((const uint8_t *)data + len - HASH, was);
  to_hex(found, is);
  snprintf(what, sizeof what, "its bytes are not those that were saved (SHA-256 is %.16s…, was %.16s…)", is, was);
  return damaged(path, what);
}

static capl_status check_version(const char *path, const char *data, size_t len)
{
  char *text;
  CAPL_TRY(safetensors_read_note(path, data, len, VERSION, &text));
  if (!text) return damaged(path, "it has no version");
  bool known = atoi(text) == CHECKPOINT_VERSION;
  if (!known)
    CAPL_FAIL(CAPL_EFORMAT, "the checkpoint %s is of version %.16s; this program reads version %d", path, text,
              CHECKPOINT_VERSION);
  free(text);
  return known ? CAPL_OK : CAPL_EFORMAT;
}

static capl_status check_hash(const char *path, const char *data, size_t len)
{
  SHA2_CTX hash;
  uint8_t digest[HASH];
  if (len < 8 + HASH) return damaged(path, len ? "it is cut short" : "it is empty");
  SHA256Init(&hash);
  SHA256Update(&hash, (const uint8_t *)data, len - HASH);
  SHA256Final(digest, &hash);
  return memcmp(digest, data + len - HASH, HASH) == 0 ? CAPL_OK : mismatch(path, data, len, digest);
}

/* Takes the hash off the list: it is no state. */
static void drop_digest(capl_named_tensor *list, int *n)
{
  for (int i = 0; i < *n; i++) {
    if (strcmp(list[i].name, DIGEST) != 0) continue;
    free(list[i].name);
    capl_tensor_unref(list[i].tensor);
    list[i] = list[--*n];
    return;
  }
}

capl_status checkpoint_parse(const char *path, const char *data, size_t len, capl_device *device, char **tree,
                             capl_named_tensor **list, int *n)
{
  *tree = NULL;
  *list = NULL;
  *n = 0;
  CAPL_TRY(check_hash(path, data, len));
  CAPL_TRY(check_version(path, data, len));
  CAPL_TRY(safetensors_read_note(path, data, len, TREE, tree));
  if (!*tree) return damaged(path, "it has no tree");
  capl_status status = safetensors_parse(path, data, len, device, list, n);
  if (status == CAPL_OK) return drop_digest(*list, n), CAPL_OK;
  free(*tree);
  *tree = NULL;
  return status;
}

/* What is longer than its header says is not read. Whatever else is wrong has a better name once it has been, if it is
** short. */
static capl_status check_length(const char *path)
{
  enum { SHORT = 128 << 20 };
  char what[96];
  uint64_t meant = 0, size = 0;
  capl_status status = safetensors_measure(path, &meant, &size);
  if (status != CAPL_OK) return size > SHORT ? status : CAPL_OK;
  if (size <= meant) return CAPL_OK;
  snprintf(what, sizeof what, "it has %llu bytes of the %llu it should have", (unsigned long long)size,
           (unsigned long long)meant);
  return damaged(path, what);
}

capl_status checkpoint_load(const char *path, capl_device *device, char **tree, capl_named_tensor **list, int *n)
{
  char *data;
  size_t len;
  *tree = NULL;
  *list = NULL;
  *n = 0;
  CAPL_TRY(check_length(path));
  CAPL_TRY(file_read(path, limit, &data, &len));
  capl_status status = checkpoint_parse(path, data, len, device, tree, list, n);
  free(data);
  return status;
}
