/* scene_save.c -- a source's first samples as files (pictures, masks, lines of JSON), and as an LMDB database.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "capl/synth.h"
#include "base/text.h"
#include "synth/lines.h"
#include "synth/parallel_for.h"
#include "data/source.h"

typedef struct {
  capl_source *source;
  const char *dir;
  uint32_t n;
  int digits; /* of the largest index */
  int mask;   /* number of the field that is one, -1 = none */
} job;

/* ---- pictures -------------------------------------------------------------------------------- */

static capl_status save_plane(const job *j, uint32_t index, const char *ending, const uint8_t *pixels, int channels)
{
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/%0*u%s.png", j->dir, j->digits, index, ending);
  if (length >= (int)sizeof path) return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", j->dir);
  return capl_png_write(path, pixels, j->source->width, j->source->height, channels);
}

/* room: a picture, and behind it its mask. */
static capl_status save_one(void *context, uint32_t index, uint8_t *room)
{
  const job *j = context;
  capl_image scratch = {0};
  capl_sample to = {.pixels = room};
  uint8_t *mask = room + 3 * (size_t)j->source->width * (size_t)j->source->height;
  if (j->mask >= 0) to.field[j->mask] = mask;
  capl_status status = capl_source_read_with(j->source, &(capl_read){.id = index}, &scratch, &to);
  capl_image_fini(&scratch);
  CAPL_TRY(status);
  CAPL_TRY(save_plane(j, index, "", room, j->source->channels));
  return j->mask >= 0 ? save_plane(j, index, "_mask", mask, 1) : CAPL_OK;
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Numbers of a field, in as many brackets as it has dimensions. */
static void write_numbers(FILE *f, const capl_field *field, const float *x)
{
  size_t n = capl_field_count(field), row = (size_t)(field->ndim == 2 ? field->size[1] : 0);
  fputs(row ? "[[" : "[", f);
  for (size_t i = 0; i < n; i++) fprintf(f, "%s%.9g", i == 0 ? "" : row && i % row == 0 ? "], [" : ", ", (double)x[i]);
  fputs(row ? "]]" : "]", f);
}

/* The fields of a sample but for its mask, with a comma between them. */
static void write_fields(const capl_source *source, void *const field[CAPL_FIELDS_MAX], FILE *f)
{
  const char *comma = "";
  for (int k = 0; k < source->n_fields; k++) {
    if (source->field[k].kind == CAPL_FIELD_MASK) continue;
    fprintf(f, "%s\"%s\": ", comma, source->field[k].name);
    write_numbers(f, &source->field[k], field[k]);
    comma = ", ";
  }
}

/* Room for the fields of a sample but for its mask; all is freed at once with *room. */
static capl_status room_for_fields(const capl_source *source, uint8_t **room, capl_sample *to)
{
  size_t bytes = 0;
  for (int k = 0; k < source->n_fields; k++) bytes += capl_field_bytes(&source->field[k]);
  uint8_t *at = *room = malloc(bytes + 1);
  if (!at) return CAPL_FAIL(CAPL_ENOMEM, "no memory to save labels");
  for (int k = 0; k < source->n_fields; k++) {
    if (source->field[k].kind == CAPL_FIELD_MASK) continue;
    to->field[k] = at;
    at += capl_field_bytes(&source->field[k]);
  }
  return CAPL_OK;
}

static capl_status write_lines(const void *context, FILE *f)
{
  const job *j = context;
  capl_image scratch = {0};
  capl_sample to = {0};
  uint8_t *room;
  CAPL_TRY(room_for_fields(j->source, &room, &to));
  capl_status status = CAPL_OK;
  for (uint32_t i = 0; i < j->n && status == CAPL_OK; i++) {
    status = capl_source_read_with(j->source, &(capl_read){.id = i}, &scratch, &to);
    fprintf(f, "{\"file\": \"%0*u.png\", ", j->digits, i);
    write_fields(j->source, to.field, f);
    fputs("}\n", f);
  }
  free(room);
  capl_image_fini(&scratch);
  return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static capl_status make_folder(const char *dir)
{
  if (mkdir(dir, 0777) == 0 || errno == EEXIST) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "%s: cannot be made: %s", dir, capl_errno_text(errno));
}

static int mask_of(const capl_source *source)
{
  for (int k = 0; k < source->n_fields; k++)
    if (source->field[k].kind == CAPL_FIELD_MASK) return k;
  return -1;
}

static bool has_numbers(const capl_source *source) { return source->n_fields > (mask_of(source) >= 0); }

static capl_status check_scenes(const capl_source *source, uint32_t n)
{
  if (source->width == 0) return CAPL_FAIL(CAPL_EVALUE, "this source has no pictures to save");
  if (n > source->count) return CAPL_FAIL(CAPL_EVALUE, "cannot save %u pictures of %u", n, source->count);
  return CAPL_OK;
}

capl_status capl_scene_save(capl_source *source, uint32_t n, const char *dir, int threads)
{
  CAPL_TRY(check_scenes(source, n));
  CAPL_TRY(make_folder(dir));
  job j = {.source = source, .n = n, .dir = dir, .digits = snprintf(NULL, 0, "%u", n ? n - 1 : 0),
           .mask = mask_of(source)};
  CAPL_TRY(parallel_for(n, threads, 4 * (size_t)source->width * (size_t)source->height, NULL, save_one, &j));
  return has_numbers(source) ? lines_save(dir, write_lines, &j) : CAPL_OK;
}

/* ---- as a database ----------------------------------------------------------------------------- */

enum { BLOCK = 64 }; /* pictures encoded by all threads before one thread appends them in order */

typedef struct {
  capl_source *source;
  uint32_t first; /* number of the block's first picture */
  int mask;
  bool numbers;
  struct {
    uint8_t *image, *mask;
    size_t image_bytes, mask_bytes;
    char *fields;
  } record[BLOCK];
} block;

static capl_status encode_fields(const capl_source *source, const capl_sample *s, char **text)
{
  size_t size;
  FILE *f = open_memstream(text, &size);
  if (!f) return CAPL_FAIL(CAPL_ENOMEM, "no memory to save labels");
  fputc('{', f);
  write_fields(source, s->field, f);
  fputc('}', f);
  return fclose(f) == 0 ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to save labels");
}

static capl_status encode_sample(block *b, uint32_t i, const capl_sample *s)
{
  const capl_source *source = b->source;
  __typeof__(&b->record[0]) r = &b->record[i];
  CAPL_TRY(capl_png_encode(s->pixels, source->width, source->height, source->channels, &r->image, &r->image_bytes));
  if (b->mask >= 0)
    CAPL_TRY(capl_png_encode(s->field[b->mask], source->width, source->height, 1, &r->mask, &r->mask_bytes));
  return b->numbers ? encode_fields(source, s, &r->fields) : CAPL_OK;
}

static capl_status encode_one(void *context, uint32_t i, uint8_t *pixels)
{
  block *b = context;
  capl_image scratch = {0};
  capl_sample s = {.pixels = pixels};
  uint8_t *room;
  CAPL_TRY(room_for_fields(b->source, &room, &s));
  if (b->mask >= 0) s.field[b->mask] = pixels + 3 * (size_t)b->source->width * (size_t)b->source->height;
  capl_status status = capl_source_read_with(b->source, &(capl_read){.id = b->first + i}, &scratch, &s);
  if (status == CAPL_OK) status = encode_sample(b, i, &s);
  capl_image_fini(&scratch);
  free(room);
  return status;
}

static capl_status append_block(const block *b, uint32_t n, capl_lmdb_writer *writer)
{
  for (uint32_t i = 0; i < n; i++)
    CAPL_TRY(capl_lmdb_append_record(writer, &(capl_lmdb_record){
      .image = b->record[i].image, .image_bytes = b->record[i].image_bytes, .mask = b->record[i].mask,
      .mask_bytes = b->record[i].mask_bytes, .fields = b->record[i].fields}));
  return CAPL_OK;
}

static capl_status pack_block(block *b, uint32_t n, int threads, bool (*stop)(void), capl_lmdb_writer *writer)
{
  memset(b->record, 0, sizeof b->record);
  size_t room = 4 * (size_t)b->source->width * (size_t)b->source->height;
  capl_status status = parallel_for(n, threads, room, stop, encode_one, b);
  if (status == CAPL_OK) status = append_block(b, n, writer);
  for (uint32_t i = 0; i < n; i++) free(b->record[i].image), free(b->record[i].mask), free(b->record[i].fields);
  return status;
}

capl_status capl_scene_pack(capl_source *source, uint32_t n, const char *dir, int threads, bool (*stop)(void))
{
  capl_lmdb_writer *writer;
  CAPL_TRY(check_scenes(source, n));
  block b = {.source = source, .mask = mask_of(source), .numbers = has_numbers(source)};
  CAPL_TRY(capl_lmdb_create(dir, &writer));
  capl_status status = CAPL_OK;
  for (b.first = 0; status == CAPL_OK && b.first < n; b.first += BLOCK)
    status = pack_block(&b, n - b.first < BLOCK ? n - b.first : BLOCK, threads, stop, writer);
  if (status == CAPL_OK) status = capl_lmdb_commit(writer);
  capl_lmdb_free(writer);
  return status;
}
