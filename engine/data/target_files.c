/* target_files.c -- target images in files: read, and brought to the size of the samples.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/target_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

capl_status target_files_begin(capl_target_files *t, const capl_target_files *of, const char *where)
{
  if (!target_files_has(of)) return CAPL_OK;
  if (of->channels != 0 && of->channels != 1 && of->channels != 3)
    return CAPL_FAIL(CAPL_EVALUE, "%s: a target image has 1 or 3 channels, not %d", where, of->channels);
  const char *from[] = {of->ending, of->column, of->root}, **to[] = {&t->ending, &t->column, &t->root};
  *t = (capl_target_files){.channels = of->channels};
  for (int k = 0; k < 3; k++)
    if (from[k] && !(*to[k] = strdup(from[k]))) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to open it", where);
  return CAPL_OK;
}

void target_files_fini(capl_target_files *t)
{
  free((char *)t->ending);
  free((char *)t->column);
  free((char *)t->root);
  *t = (capl_target_files){0};
}

bool target_files_has(const capl_target_files *t) { return t->ending || t->column; }

static int channels_of(const capl_target_files *t, const capl_source *source)
{
  return t->channels ? t->channels : source->channels;
}

capl_status target_files_settle(const capl_target_files *t, capl_source *source, const char *where)
{
  if (!target_files_has(t)) return CAPL_OK;
  if (source->n_widths) {
    CAPL_FAIL(CAPL_EVALUE, "%s: target images are of images of one size, and these have several widths", where);
    capl_error_hint("width and height with resize = true, in place of widths, bring both to one size");
    return CAPL_EVALUE;
  }
  source->field[source->n_fields++] = (capl_field){
    .name = "target_image", .kind = CAPL_FIELD_VALUES, .ndim = 3,
    .size = {channels_of(t, source), source->height, source->width}};
  return CAPL_OK;
}

capl_status target_files_path(const capl_target_files *t, const target_of *s, char path[BESIDE_ROOM])
{
  if (t->column) return beside_listed(t->root ? t->root : s->root, s->listed, s->title, "target image", path);
  return beside_path(t->root ? t->root : "", t->root ? s->name : s->title, t->ending, path);
}

capl_status target_files_bytes(const capl_target_files *t, const target_of *s, char title[BESIDE_ROOM],
                               encoded_bytes *bytes)
{
  file_bytes file;
  if (s->held_title) {
    snprintf(title, BESIDE_ROOM, "%s", s->held_title);
    *bytes = s->held;
    return CAPL_OK;
  }
  CAPL_TRY(target_files_path(t, s, title));
  CAPL_TRY(beside_read(title, s->title, "target image", &file));
  *bytes = (encoded_bytes){.at = file.at, .size = file.size, .owned = file.at};
  return CAPL_OK;
}

static capl_status wrong_size(const target_of *s, const char *path, const capl_image *target)
{
  CAPL_FAIL(CAPL_ESHAPE, "%s: the target image is %d x %d px, but its image %s is %d x %d", path, target->width,
            target->height, s->title, s->width, s->height);
  capl_error_hint("a target image has its image's size; resize = true brings both to another one");
  return CAPL_ESHAPE;
}

/* (H,W,C) levels -> (C,H,W) of 0..1 */
static void planes(const uint8_t *levels, size_t pixels, size_t channels, float *out)
{
  for (size_t c = 0; c < channels; c++)
    for (size_t i = 0; i < pixels; i++) out[c * pixels + i] = (float)levels[i * channels + c] / 255;
}

static capl_status fit(const target_of *s, const capl_image *target, int channels, float *out)
{
  const capl_source *source = s->source;
  size_t pixels = (size_t)source->width * (size_t)source->height;
  uint8_t *levels = malloc(pixels * (size_t)channels);
  if (!levels) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to read its target image", s->title);
  capl_status status = resize_fit(&source->letterbox, target->pixels, target->width, target->height, channels,
                                  source->width, source->height, levels);
  if (status == CAPL_OK) planes(levels, pixels, (size_t)channels, out);
  free(levels);
  return status;
}

capl_status target_files_decode(const capl_target_files *t, const target_of *s, capl_image *scratch)
{
  char path[BESIDE_ROOM];
  encoded_bytes bytes;
  CAPL_TRY(target_files_bytes(t, s, path, &bytes));
  capl_status status = capl_image_decode(bytes.at, bytes.size, path, channels_of(t, s->source), scratch);
  free(bytes.owned);
  CAPL_TRY(status);
  return scratch->width == s->width && scratch->height == s->height ? CAPL_OK : wrong_size(s, path, scratch);
}

capl_status target_files_read(const capl_target_files *t, const target_of *s, capl_image *scratch, float *out)
{
  CAPL_TRY(target_files_decode(t, s, scratch));
  return fit(s, scratch, channels_of(t, s->source), out);
}
