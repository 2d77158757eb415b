/* scene_compare.c -- draws a scene's pictures again: their hash, and whether files still hold them.
**
** The hash is a SHA-256 over the SHA-256 of each picture and mask, in order, so threads can share the work.
** SPDX-License-Identifier: Apache-2.0
*/
#include <sha256.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/synth.h"
#include "synth/scenes/scene_each.h"
#include "data/source.h"

typedef struct {
  const capl_source *source;
  const char *dir; /* NULL: nothing to compare with */
  int digits;
  uint8_t *digest; /* [index][SHA256_DIGEST_LENGTH] */
} job;

static capl_status compare_plane(const job *j, uint32_t index, const char *ending, const uint8_t *drawn, int channels)
{
  char path[4096];
  capl_image kept = {0};
  int length = snprintf(path, sizeof path, "%s/%0*u%s.png", j->dir, j->digits, index, ending);
  if (length >= (int)sizeof path) return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", j->dir);
  capl_status status = capl_png_read(path, channels, &kept);
  size_t bytes = (size_t)j->source->width * (size_t)j->source->height * (size_t)channels, at = 0;
  if (status == CAPL_OK && (kept.width != j->source->width || kept.height != j->source->height))
    status = CAPL_FAIL(CAPL_EVALUE, "%s is %dx%d, drawn again it is %dx%d", path, kept.width, kept.height, j->source->width, j->source->height);
  if (status == CAPL_OK && memcmp(kept.pixels, drawn, bytes) != 0) {
    while (kept.pixels[at] == drawn[at]) at++;
    size_t pixel = at / (size_t)channels, width = (size_t)j->source->width;
    status = CAPL_FAIL(CAPL_EVALUE, "%s: pixel (%zu,%zu) is not what is drawn again: %d, now %d", path, pixel % width, pixel / width,
                       kept.pixels[at], drawn[at]);
  }
  capl_image_fini(&kept);
  return status;
}

static capl_status compare_one(void *context, uint32_t index, const uint8_t *pixels, const uint8_t *mask)
{
  const job *j = context;
  size_t area = (size_t)j->source->width * (size_t)j->source->height;
  SHA256_CTX hash;
  SHA256Init(&hash);
  SHA256Update(&hash, pixels, area * (size_t)j->source->channels);
  if (mask) SHA256Update(&hash, mask, area);
  SHA256Final(j->digest + (size_t)index * SHA256_DIGEST_LENGTH, &hash);
  if (!j->dir) return CAPL_OK;
  CAPL_TRY(compare_plane(j, index, "", pixels, j->source->channels));
  return mask ? compare_plane(j, index, "_mask", mask, 1) : CAPL_OK;
}

capl_status capl_scene_compare(capl_source *source, uint32_t n, const char *dir, int threads, char sha256[65])
{
  CAPL_TRY(scene_each_check(source, n, threads));
  job j = {.source = source, .dir = dir, .digits = scene_digits(n), .digest = malloc((size_t)n * SHA256_DIGEST_LENGTH + 1)};
  if (!j.digest) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the hashes of %u pictures", n);
  capl_status status = scene_each(source, n, threads, compare_one, &j);
  if (status == CAPL_OK) SHA256Data(j.digest, (size_t)n * SHA256_DIGEST_LENGTH, sha256);
  free(j.digest);
  return status;
}
