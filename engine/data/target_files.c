/* target_files.c -- target images in files: read, and brought to the size of the samples.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/target_files.h"

#include <stdlib.h>
#include <string.h>

capl_status target_files_begin(capl_target_files *t, const capl_target_files *of, const char *where)
{
  if (!of->ending) return CAPL_OK;
  if (of->channels != 0 && of->channels != 1 && of->channels != 3)
    return CAPL_FAIL(CAPL_EVALUE, "%s: a target image has 1 or 3 channels, not %d", where, of->channels);
  *t = (capl_target_files){.ending = strdup(of->ending), .root = of->root ? strdup(of->root) : NULL,
                           .channels = of->channels};
  if (t->ending && !t->root == !of->root) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to open it", where);
}

void target_files_fini(capl_target_files *t)
{
  free((char *)t->ending);
  free((char *)t->root);
  *t = (capl_target_files){0};
}

static int channels_of(const capl_target_files *t, const capl_source *source)
{
  return t->channels ? t->channels : source->channels;
}

capl_status target_files_settle(const capl_target_files *t, capl_source *source, const char *where)
{
  if (!t->ending) return CAPL_OK;
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
  return beside_path(t->root ? t->root : "", t->root ? s->name : s->title, t->ending, path);
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

static capl_status fit(const target_of *s, const char *path, const capl_image *target, int channels, float *out)
{
  const capl_source *source = s->source;
  size_t pixels = (size_t)source->width * (size_t)source->height;
  if (target->width != s->width || target->height != s->height) return wrong_size(s, path, target);
  uint8_t *levels = malloc(pixels * (size_t)channels);
  if (!levels) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to read it", path);
  capl_status status = resize_fit(&source->letterbox, target->pixels, target->width, target->height, channels,
                                  source->width, source->height, levels);
  if (status == CAPL_OK) planes(levels, pixels, (size_t)channels, out);
  free(levels);
  return status;
}

capl_status target_files_read(const capl_target_files *t, const target_of *s, capl_image *scratch, float *out)
{
  char path[BESIDE_ROOM];
  file_bytes file;
  int channels = channels_of(t, s->source);
  CAPL_TRY(target_files_path(t, s, path));
  CAPL_TRY(beside_read(path, s->title, "target image", &file));
  capl_status status = capl_image_decode((const uint8_t *)file.at, file.size, path, channels, scratch);
  free(file.at);
  return status == CAPL_OK ? fit(s, path, scratch, channels, out) : status;
}
