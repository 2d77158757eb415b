/* keys.h -- the values of a JSON object that describes a field, read one by one; what is wrong is named with its place.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FIELDS_KEYS_H
#define CAPL_FIELDS_KEYS_H

#include "base/json.h"
#include "capl/field.h"

/* An object of a file; part: of the file, for messages, such as "outputs.gap."; "" = the whole. */
typedef struct {
  const char *path, *part;
  const cJSON *object;
} field_keys;

/* NULL = missing. Borrowed. */
const cJSON *keys_get(const field_keys *k, const char *key);
/* EFORMAT: "PATH: KEY is WANTED, not ITEM". item may be one below the key's. */
capl_status keys_wrong(const field_keys *k, const char *key, const char *wanted, const cJSON *item);

/* A whole number from 1 to most. */
capl_status keys_whole(const field_keys *k, const char *key, int most, int *out);
/* A number from low to high; fallback where it is missing. */
capl_status keys_number(const field_keys *k, const char *key, double low, double high, double fallback, double *out);
/* One of the words of the list, which NULL ends; where it is missing the first. *out: its place. */
capl_status keys_word(const field_keys *k, const char *key, const char *const *words, int *out);
/* A list of 1 to most names as a vocabulary. *vocab: caller unrefs. */
capl_status keys_names(const field_keys *k, const char *key, int most, capl_vocab **vocab);
/* A list of n numbers, above 0 if asked; missing: each is fallback. */
capl_status keys_numbers(const field_keys *k, const char *key, int n, bool above_0, double fallback, double *out);

#endif
