/* captcha_save.c -- writes generated captchas: as PNG files TEXT_INDEX.png, TEXT/INDEX.png or INDEX.png with a list, as
** an LMDB database.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/text.h"
#include "capl/synth.h"
#include "synth/lines.h"
#include "synth/parallel_for.h"

typedef enum { BY_NAME, BY_FOLDER, BY_LIST } layout; /* where a text is: TEXT_INDEX.png, TEXT/INDEX.png, labels.jsonl */

typedef struct {
  const capl_captcha *gen;
  uint64_t seed;
  uint32_t n;
  int digits; /* of the largest index */
  const char *dir;
  layout layout;
  char (*text)[CAPL_LABEL_ROOM]; /* of all, for a list */
} job;

static capl_status make_folder(const char *dir)
{
  if (mkdir(dir, 0777) == 0 || errno == EEXIST) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "%s: cannot be made: %s", dir, capl_errno_text(errno));
}

static capl_status file_path(const job *j, const char *text, uint32_t index, char *path, size_t size)
{
  static const char *const between[] = {"_", "/", ""};
  if (j->layout == BY_FOLDER) {
    snprintf(path, size, "%s/%s", j->dir, text);
    CAPL_TRY(make_folder(path));
  }
  int length = snprintf(path, size, "%s/%s%s%0*u.png", j->dir, j->layout == BY_LIST ? "" : text, between[j->layout],
                        j->digits, index);
  return length < (int)size ? CAPL_OK : CAPL_FAIL(CAPL_EIO, "%s: the path is too long", j->dir);
}

static capl_status save_one(void *context, uint32_t index, uint8_t *pixels)
{
  const job *j = context;
  int32_t labels[CAPL_LABEL_MAX];
  char text[CAPL_LABEL_ROOM], path[4096];
  CAPL_TRY(capl_captcha_draw(j->gen, j->seed, index, 3, pixels, labels));
  capl_captcha_text(j->gen, labels, text);
  if (j->text) strcpy(j->text[index], text);
  CAPL_TRY(file_path(j, text, index, path, sizeof path));
  return capl_png_write(path, pixels, capl_captcha_width(capl_captcha_member(j->gen, j->seed, index, NULL)),
                        capl_captcha_height(j->gen), 3);
}

static capl_status check_charset(const capl_captcha *gen)
{
  const char *charset = capl_captcha_charset(gen), *unfit = strpbrk(charset, "/_.");
  if (!unfit) return CAPL_OK;
  char shown[128];
  capl_text_show(shown, sizeof shown, charset, false);
  CAPL_FAIL(CAPL_EVALUE, "charset %s holds '%c', which a file name cannot carry in its label", shown, *unfit);
  capl_error_hint("format = \"list\" writes the texts into labels.jsonl, \"lmdb\" into a database");
  return CAPL_EVALUE;
}

static capl_status write_lines(const void *context, FILE *f)
{
  const job *j = context;
  for (uint32_t i = 0; i < j->n; i++) {
    fprintf(f, "{\"file\": \"%0*u.png\", \"label\": ", j->digits, i);
    json_put_text(f, j->text[i], strlen(j->text[i]));
    fputs("}\n", f);
  }
  return CAPL_OK;
}

static capl_status save_list(job *j, size_t bytes, int threads, bool (*stop)(void))
{
  j->text = calloc((size_t)j->n + 1, sizeof *j->text);
  if (!j->text) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %u labels", j->dir, j->n);
  capl_status status = parallel_for(j->n, threads, bytes, stop, save_one, j);
  if (status == CAPL_OK) status = lines_save(j->dir, write_lines, j);
  free(j->text);
  return status;
}

static capl_status save(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir, int threads,
                        bool (*stop)(void), layout layout)
{
  if (layout != BY_LIST) CAPL_TRY(check_charset(gen));
  CAPL_TRY(make_folder(dir));
  job j = {.gen = gen, .seed = seed, .n = n, .dir = dir, .layout = layout};
  j.digits = snprintf(NULL, 0, "%u", n ? n - 1 : 0);
  size_t bytes = (size_t)capl_captcha_width(gen) * (size_t)capl_captcha_height(gen) * 3;
  if (layout == BY_LIST) return save_list(&j, bytes, threads, stop);
  return parallel_for(n, threads, bytes, stop, save_one, &j);
}

capl_status capl_captcha_save(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir, int threads,
                              bool (*stop)(void))
{
  return save(gen, seed, n, dir, threads, stop, BY_NAME);
}

capl_status capl_captcha_save_folders(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir, int threads,
                                      bool (*stop)(void))
{
  return save(gen, seed, n, dir, threads, stop, BY_FOLDER);
}

capl_status capl_captcha_save_list(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir, int threads,
                                   bool (*stop)(void))
{
  return save(gen, seed, n, dir, threads, stop, BY_LIST);
}

/* ---- as a database ----------------------------------------------------------------------------- */

enum { BLOCK = 256 }; /* images encoded by all threads before one thread appends them in order */

typedef struct {
  uint8_t *bytes;
  size_t size;
  char text[CAPL_LABEL_ROOM];
} record;

typedef struct {
  const capl_captcha *gen;
  uint64_t seed;
  uint32_t first; /* index of the block's first image */
  record record[BLOCK];
} block;

static capl_status encode_one(void *context, uint32_t i, uint8_t *pixels)
{
  block *b = context;
  int32_t labels[CAPL_LABEL_MAX];
  CAPL_TRY(capl_captcha_draw(b->gen, b->seed, (uint64_t)b->first + i, 3, pixels, labels));
  capl_captcha_text(b->gen, labels, b->record[i].text);
  int width = capl_captcha_width(capl_captcha_member(b->gen, b->seed, (uint64_t)b->first + i, NULL));
  return capl_png_encode(pixels, width, capl_captcha_height(b->gen), 3, &b->record[i].bytes,
                         &b->record[i].size);
}

static capl_status append_block(const block *b, uint32_t n, capl_lmdb_writer *writer)
{
  for (uint32_t i = 0; i < n; i++)
    CAPL_TRY(capl_lmdb_append(writer, b->record[i].bytes, b->record[i].size, b->record[i].text));
  return CAPL_OK;
}

static capl_status pack_block(block *b, uint32_t n, int threads, bool (*stop)(void), capl_lmdb_writer *writer)
{
  size_t bytes = (size_t)capl_captcha_width(b->gen) * (size_t)capl_captcha_height(b->gen) * 3;
  memset(b->record, 0, sizeof b->record);
  capl_status status = parallel_for(n, threads, bytes, stop, encode_one, b);
  if (status == CAPL_OK) status = append_block(b, n, writer);
  for (uint32_t i = 0; i < n; i++) free(b->record[i].bytes);
  return status;
}

capl_status capl_captcha_pack(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir, int threads,
                              bool (*stop)(void))
{
  capl_lmdb_writer *writer;
  block *b = malloc(sizeof *b);
  if (!b) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d captchas", BLOCK);
  b->gen = gen;
  b->seed = seed;
  capl_status status = capl_lmdb_create(dir, &writer);
  if (status == CAPL_OK) {
    for (b->first = 0; status == CAPL_OK && b->first < n; b->first += BLOCK) {
      status = pack_block(b, n - b->first < BLOCK ? n - b->first : BLOCK, threads, stop, writer);
    }
    if (status == CAPL_OK) status = capl_lmdb_commit(writer);
    capl_lmdb_free(writer);
  }
  free(b);
  return status;
}
