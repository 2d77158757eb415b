/* content.c -- the content hash of a set of images: names, texts and bytes of its files, wherever they lie.
**
** The same set has the same hash on every machine, as a copy, and read by any later version of the program: files are
** not decoded, and neither times nor folders above the set count.
** SPDX-License-Identifier: Apache-2.0
*/
#include <sha256.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/source.h"

/* A text with its length before it, so that two texts cannot be cut in another place; "-" where there is none. */
static void add_text(SHA256_CTX *hash, const char *text)
{
  char length[24];
  int n = text ? snprintf(length, sizeof length, "%zu:", strlen(text)) : snprintf(length, sizeof length, "-");
  SHA256Update(hash, (const uint8_t *)length, (size_t)n);
  if (text) SHA256Update(hash, (const uint8_t *)text, strlen(text));
}

static void add_bytes(SHA256_CTX *hash, const encoded_bytes *bytes)
{
  char length[24];
  int n = snprintf(length, sizeof length, "%zu:", bytes->size);
  SHA256Update(hash, (const uint8_t *)length, (size_t)n);
  SHA256Update(hash, bytes->at, bytes->size);
}

capl_status capl_source_content(capl_source *source, bool (*stop)(void), capl_content *out)
{
  SHA256_CTX hash;
  SHA256Init(&hash);
  *out = (capl_content){.files = source->count};
  if (!source->ops->encoded) return CAPL_FAIL(CAPL_ESTATE, "these samples are no files");
  for (uint32_t i = 0; i < source->count; i++) {
    encoded_bytes bytes = {0};
    if (stop && stop()) return CAPL_FAIL(CAPL_ESTATE, "stopped");
    CAPL_TRY(capl_source_encoded(source, i, &bytes));
    add_text(&hash, capl_source_name(source, i));
    add_text(&hash, capl_source_text(source, i));
    add_bytes(&hash, &bytes);
    out->bytes += bytes.size;
    free(bytes.owned);
  }
  SHA256End(&hash, out->sha256);
  return CAPL_OK;
}
