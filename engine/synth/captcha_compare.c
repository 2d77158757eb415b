/* captcha_compare.c -- draws captchas again: their hash, and whether files still hold them.
**
** The hash is a SHA-256 over the SHA-256 of each image, in order; that of an image covers its pixels and its text. So
** threads can share the work, and the hash is the same whatever the images are kept in.
** SPDX-License-Identifier: Apache-2.0
*/
#include <sha256.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/synth.h"
#include "synth/parallel_for.h"

typedef struct {
  const capl_captcha *gen;
  uint64_t seed;
  size_t bytes;      /* of the widest image */
  uint8_t *digest;   /* [index][SHA256_DIGEST_LENGTH] */
  capl_source *kept; /* NULL: nothing to compare with */
  uint32_t *sample;  /* [index], its number in kept */
} job;

static const uint32_t missing = UINT32_MAX;

static size_t width_of(const job *j, uint32_t index)
{
  return (size_t)capl_captcha_width(capl_captcha_member(j->gen, j->seed, index, NULL));
}

static size_t bytes_of(const job *j, uint32_t index)
{
  return width_of(j, index) * (size_t)capl_captcha_height(j->gen) * 3;
}

static void hash_image(const job *j, uint32_t index, const uint8_t *pixels, const char *text)
{
  SHA256_CTX context;
  SHA256Init(&context);
  SHA256Update(&context, pixels, bytes_of(j, index));
  SHA256Update(&context, (const uint8_t *)text, strlen(text));
  SHA256Final(j->digest + (size_t)index * SHA256_DIGEST_LENGTH, &context);
}

/* What an image is called in messages. */
static void name_image(const job *j, uint32_t index, char *name, size_t size)
{
  const char *file = capl_source_name(j->kept, j->sample[index]);
  if (file) snprintf(name, size, "image %u, %s", index, file);
  else snprintf(name, size, "image %u", index);
}

static capl_status compare_pixels(const job *j, uint32_t index, const char *name, const uint8_t *drawn, const uint8_t *kept)
{
  if (memcmp(drawn, kept, bytes_of(j, index)) == 0) return CAPL_OK;
  size_t at = 0, width = width_of(j, index);
  while (drawn[at] == kept[at]) at++;
  const uint8_t *a = kept + at / 3 * 3, *b = drawn + at / 3 * 3;
  return CAPL_FAIL(CAPL_EVALUE, "%s: pixel (%zu,%zu) is (%d,%d,%d), drawn again it is (%d,%d,%d)", name, at / 3 % width,
                   at / 3 / width, a[0], a[1], a[2], b[0], b[1], b[2]);
}

static capl_status compare_one(const job *j, uint32_t index, const uint8_t *drawn, const int32_t *labels, uint8_t *kept)
{
  char name[600];
  int32_t kept_labels[CAPL_LABEL_MAX];
  if (j->sample[index] == missing) return CAPL_FAIL(CAPL_EVALUE, "image %u is missing", index);
  name_image(j, index, name, sizeof name);
  int width = capl_source_width_of(j->kept, j->sample[index]);
  if ((size_t)width != width_of(j, index)) return CAPL_FAIL(CAPL_EVALUE, "%s: it is %d px wide, drawn again it is %zu", name, width, width_of(j, index));
  CAPL_TRY(capl_source_read(j->kept, 0, j->sample[index], &(capl_sample){.pixels = kept, .labels = kept_labels}));
  if (memcmp(labels, kept_labels, (size_t)capl_captcha_length(j->gen) * sizeof *labels)) {
    char is[CAPL_LABEL_MAX + 1], drawn_text[CAPL_LABEL_MAX + 1];
    capl_captcha_text(j->gen, kept_labels, is);
    capl_captcha_text(j->gen, labels, drawn_text);
    return CAPL_FAIL(CAPL_EVALUE, "%s: its text is %s, drawn again it is %s", name, is, drawn_text);
  }
  return compare_pixels(j, index, name, drawn, kept);
}

static capl_status draw_again(void *context, uint32_t index, uint8_t *pixels)
{
  const job *j = context;
  int32_t labels[CAPL_LABEL_MAX];
  char text[CAPL_LABEL_MAX + 1];
  CAPL_TRY(capl_captcha_draw(j->gen, j->seed, index, 3, pixels, labels));
  capl_captcha_text(j->gen, labels, text);
  hash_image(j, index, pixels, text);
  return j->kept ? compare_one(j, index, pixels, labels, pixels + j->bytes) : CAPL_OK;
}

/* ---- which sample is which image --------------------------------------------------------------- */

/* TEXT_INDEX.png -> INDEX; samples without names and the records of a database (image-000000001) are in order. */
static capl_status image_of(const capl_source *kept, uint32_t sample, uint32_t n, uint32_t *index)
{
  const char *name = capl_source_name(kept, sample), *number = name ? strrchr(name, '_') : NULL;
  *index = sample;
  if (!name || (!number && !strncmp(name, "image-", 6))) return CAPL_OK;
  char *end = NULL;
  unsigned long value = number ? strtoul(number + 1, &end, 10) : n;
  if (!number || end == number + 1 || value >= n) {
    return CAPL_FAIL(CAPL_EVALUE, "%s is none of the %u images, whose names are TEXT_INDEX.png", name, n);
  }
  *index = (uint32_t)value;
  return CAPL_OK;
}

static capl_status check_shape(const capl_captcha *gen, const capl_source *kept)
{
  int width = capl_captcha_width(gen), height = capl_captcha_height(gen);
  if (capl_source_width(kept) != width || capl_source_height(kept) != height || capl_source_channels(kept) != 3) {
    return CAPL_FAIL(CAPL_EVALUE, "the images are %d x %d px with %d channels, drawn again %d x %d with 3", capl_source_width(kept),
                     capl_source_height(kept), capl_source_channels(kept), width, height);
  }
  if (capl_source_length(kept) == capl_captcha_length(gen) && !strcmp(capl_source_charset(kept), capl_captcha_charset(gen))) {
    return CAPL_OK;
  }
  return CAPL_FAIL(CAPL_EVALUE, "the images have texts of %d characters out of %s, drawn again of %d out of %s",
                   capl_source_length(kept), capl_source_charset(kept), capl_captcha_length(gen), capl_captcha_charset(gen));
}

static capl_status find_samples(job *j, uint32_t n)
{
  CAPL_TRY(check_shape(j->gen, j->kept));
  uint32_t count = capl_source_count(j->kept);
  for (uint32_t i = 0; i < n; i++) j->sample[i] = missing;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t index;
    CAPL_TRY(image_of(j->kept, i, n, &index));
    if (index >= n) return CAPL_FAIL(CAPL_EVALUE, "there are %u images, not %u", count, n);
    if (j->sample[index] != missing) return CAPL_FAIL(CAPL_EVALUE, "image %u is there twice", index);
    j->sample[index] = i;
  }
  return CAPL_OK;
}

/* ---- all of them ------------------------------------------------------------------------------- */

static capl_status compare_all(job *j, uint32_t n, int threads, bool (*stop)(void))
{
  if (!j->digest || !j->sample) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the hashes of %u images", n);
  if (j->kept) CAPL_TRY(find_samples(j, n));
  return parallel_for(n, threads, 2 * j->bytes, stop, draw_again, j);
}

capl_status capl_captcha_compare(const capl_captcha *gen, uint64_t seed, uint32_t n, capl_source *kept, int threads,
                                 bool (*stop)(void), char sha256[CAPL_SHA256_TEXT])
{
  job j = {.gen = gen, .seed = seed, .kept = kept};
  j.bytes = (size_t)capl_captcha_width(gen) * (size_t)capl_captcha_height(gen) * 3;
  j.digest = malloc((size_t)n * SHA256_DIGEST_LENGTH + 1);
  j.sample = malloc((size_t)n * sizeof *j.sample + 1);
  capl_status status = compare_all(&j, n, threads, stop);
  if (status == CAPL_OK) SHA256Data(j.digest, (size_t)n * SHA256_DIGEST_LENGTH, sha256);
  free(j.digest);
  free(j.sample);
  return status;
}
