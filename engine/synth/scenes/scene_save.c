/* scene_save.c -- a source's first samples as files: pictures, masks, the rest as lines of JSON.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capl/synth.h"
#include "base/user_dirs.h"
#include "base/text.h"
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

static capl_status write_lines(const job *j, FILE *f, float *const room[CAPL_FIELDS_MAX])
{
  capl_image scratch = {0};
  capl_status status = CAPL_OK;
  for (uint32_t i = 0; i < j->n && status == CAPL_OK; i++) {
    capl_sample to = {0};
    for (int k = 0; k < CAPL_FIELDS_MAX; k++) to.field[k] = room[k];
    status = capl_source_read_with(j->source, &(capl_read){.id = i}, &scratch, &to);
    fprintf(f, "{\"file\": \"%0*u.png\"", j->digits, i);
    for (int k = 0; k < j->source->n_fields; k++) {
      if (!room[k]) continue;
      fprintf(f, ", \"%s\": ", j->source->field[k].name);
      write_numbers(f, &j->source->field[k], room[k]);
    }
    fputs("}\n", f);
  }
  capl_image_fini(&scratch);
  return status;
}

static capl_status write_file(const job *j, const char *path, float *const room[CAPL_FIELDS_MAX])
{
  char temporary[4200];
  snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid());
  int fd = capl_file_create_new(temporary);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) return CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, capl_errno_text(errno));
  capl_status status = write_lines(j, f, room);
  bool failed = ferror(f);
  if ((fclose(f) != 0 || failed || (status == CAPL_OK && rename(temporary, path) != 0)) && status == CAPL_OK)
    status = CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, capl_errno_text(errno));
  if (status != CAPL_OK) unlink(temporary);
  return status;
}

static capl_status save_labels(const job *j)
{
  char path[4096];
  float *room[CAPL_FIELDS_MAX] = {0};
  int n = 0;
  capl_status status = CAPL_OK;
  for (int k = 0; k < j->source->n_fields && status == CAPL_OK; k++) {
    if (j->source->field[k].kind == CAPL_FIELD_MASK) continue;
    room[k] = malloc(capl_field_bytes(&j->source->field[k]));
    if (!room[k]) status = CAPL_FAIL(CAPL_ENOMEM, "no memory to save labels");
    n++;
  }
  if (snprintf(path, sizeof path, "%s/labels.jsonl", j->dir) >= (int)sizeof path)
    status = CAPL_FAIL(CAPL_EIO, "%s: the path is too long", j->dir);
  if (status == CAPL_OK && n > 0) status = write_file(j, path, room);
  for (int k = 0; k < CAPL_FIELDS_MAX; k++) free(room[k]);
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

capl_status capl_scene_save(capl_source *source, uint32_t n, const char *dir, int threads)
{
  if (source->width == 0) return CAPL_FAIL(CAPL_EVALUE, "this source has no pictures to save");
  if (n > source->count) return CAPL_FAIL(CAPL_EVALUE, "cannot save %u pictures of %u", n, source->count);
  CAPL_TRY(make_folder(dir));
  job j = {.source = source, .n = n, .dir = dir, .digits = snprintf(NULL, 0, "%u", n ? n - 1 : 0),
           .mask = mask_of(source)};
  CAPL_TRY(parallel_for(n, threads, 4 * (size_t)source->width * (size_t)source->height, NULL, save_one, &j));
  return save_labels(&j);
}
