/* json.h -- JSON on cJSON: read within limits, written so that every number reads back as it was.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_JSON_H
#define CAPL_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "capl/error.h"

static inline void json_release(cJSON **item) { cJSON_Delete(*item); }
#define JSON_OWNED __attribute__((cleanup(json_release))) cJSON

typedef struct {
  const char *name;     /* of the file, for messages; NULL = none */
  unsigned line;        /* of the file on which the text begins; 0 = the first */
  size_t most_bytes;    /* 0 = as many as there are */
  int most_values;      /* 0 = 2097152 */
  int most_depth;       /* 0 = 200 */
  bool unique;          /* a key that an object has twice is an error: of two readers each may take another one */
  bool no_null;
} json_rules;

/* Reads a text of len bytes, which holds one value and blanks; zero bytes, control characters in texts and numbers
** beyond doubles are refused. *root: caller deletes. rules: NULL = none of them.
** EFORMAT, with file, line and column; ENOMEM. */
CAPL_API capl_status json_read(const json_rules *rules, const char *text, size_t len, cJSON **root);

/* Whether item is a whole number from low to high, as such. */
CAPL_API bool json_whole(const cJSON *item, double low, double high, int64_t *out);
/* *key: one that an object has twice, NULL = there is none. false: no memory. */
CAPL_API bool json_twice(const cJSON *object, const char **key);

/* The text of a tree: a line for each key, or one for all; NULL: no memory. Caller frees it. */
CAPL_API char *json_print(cJSON *root, bool lines);

/* A number as the shortest text that is read as the same double, or with so many digits (0 = as many as it takes); what
** JSON does not know, NaN and infinities, as null. */
CAPL_API void json_put_number(FILE *out, double x, int digits);
/* A text of len bytes in quotes; each byte that is no UTF-8 becomes U+FFFD. */
CAPL_API void json_put_text(FILE *out, const char *text, size_t len);

#endif
