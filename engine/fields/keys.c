/* keys.c -- the values of a JSON object that describes a field.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fields/keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { SHOWN = 48 /* bytes of a value that a message repeats */, WANTED = 160 };

/* What an item is, for messages: 12, "abc", null, a list. */
static const char *describe(const cJSON *item, char *buf, size_t len)
{
  char shown[SHOWN] = "";
  if (cJSON_IsString(item)) capl_text_show(shown, sizeof shown, item->valuestring, false);
  if (!item) return "missing";
  if (cJSON_IsNumber(item)) snprintf(buf, len, "%g", item->valuedouble);
  else if (cJSON_IsString(item)) snprintf(buf, len, "\"%s\"", shown);
  else snprintf(buf, len, "%s", cJSON_IsArray(item) ? "a list" : cJSON_IsObject(item) ? "an object"
                                : cJSON_IsNull(item) ? "null" : cJSON_IsTrue(item) ? "true" : "false");
  return buf;
}

const cJSON *keys_get(const field_keys *k, const char *key)
{
  return cJSON_GetObjectItemCaseSensitive(k->object, key);
}

capl_status keys_wrong(const field_keys *k, const char *key, const char *wanted, const cJSON *item)
{
  char given[64];
  CAPL_FAIL(CAPL_EFORMAT, "%s: %s%s is %s, not %s", k->path, k->part, key, wanted,
            describe(item, given, sizeof given));
  capl_error_hint("the file is damaged, or not of a model that this capl reads");
  return CAPL_EFORMAT;
}

capl_status keys_whole(const field_keys *k, const char *key, int most, int *out)
{
  const cJSON *item = keys_get(k, key);
  int64_t v;
  char wanted[WANTED];
  snprintf(wanted, sizeof wanted, "a whole number from 1 to %d", most);
  if (!json_whole(item, 1, most, &v)) return keys_wrong(k, key, wanted, item);
  *out = (int)v;
  return CAPL_OK;
}

capl_status keys_number(const field_keys *k, const char *key, double low, double high, double fallback, double *out)
{
  const cJSON *item = keys_get(k, key);
  char wanted[WANTED];
  *out = item ? item->valuedouble : fallback;
  if (!item || (cJSON_IsNumber(item) && *out >= low && *out <= high)) return CAPL_OK;
  snprintf(wanted, sizeof wanted, "a number from %g to %g", low, high);
  return keys_wrong(k, key, wanted, item);
}

capl_status keys_word(const field_keys *k, const char *key, const char *const *words, int *out)
{
  const cJSON *item = keys_get(k, key);
  char wanted[WANTED] = "";
  *out = 0;
  if (!item) return CAPL_OK;
  for (int w = 0; words[w]; w++) {
    if (cJSON_IsString(item) && strcmp(item->valuestring, words[w]) == 0) return *out = w, CAPL_OK;
    size_t len = strlen(wanted);
    snprintf(wanted + len, sizeof wanted - len, "%s\"%s\"", w == 0 ? "" : words[w + 1] ? ", " : " or ", words[w]);
  }
  return keys_wrong(k, key, wanted, item);
}

/* A list of 1 to most strings, borrowed; caller frees *names. */
static capl_status list_strings(const field_keys *k, const char *key, int most, const char ***names)
{
  char wanted[WANTED];
  const cJSON *list = keys_get(k, key), *item;
  int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0, i = 0;
  snprintf(wanted, sizeof wanted, "a list of 1 to %d names", most);
  if (n < 1 || n > most) return keys_wrong(k, key, wanted, list);
  const char **made = malloc((size_t)n * sizeof *made);
  if (!made) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d names", n);
  cJSON_ArrayForEach(item, list)
  {
    if (!cJSON_IsString(item)) return free(made), keys_wrong(k, key, wanted, item);
    made[i++] = item->valuestring;
  }
  *names = made;
  return CAPL_OK;
}

capl_status keys_names(const field_keys *k, const char *key, int most, capl_vocab **vocab)
{
  const char **names = NULL;
  CAPL_TRY(list_strings(k, key, most, &names));
  capl_status status = capl_vocab_names(names, cJSON_GetArraySize(keys_get(k, key)), vocab);
  free(names);
  if (status == CAPL_OK) return CAPL_OK;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(e.code == CAPL_ENOMEM ? CAPL_ENOMEM : CAPL_EFORMAT, "%s: %s%s: %s", k->path, k->part, key,
                   e.message);
}

capl_status keys_numbers(const field_keys *k, const char *key, int n, bool above_0, double fallback, double *out)
{
  const cJSON *list = keys_get(k, key), *item;
  char wanted[WANTED];
  int i = 0;
  for (int d = 0; d < n; d++) out[d] = fallback;
  if (!list) return CAPL_OK;
  snprintf(wanted, sizeof wanted, "a list of %d numbers%s, one for each name", n, above_0 ? " above 0" : "");
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n) return keys_wrong(k, key, wanted, list);
  cJSON_ArrayForEach(item, list)
  {
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (!isfinite(v) || (above_0 && v <= 0)) return keys_wrong(k, key, wanted, item);
    out[i++] = v;
  }
  return CAPL_OK;
}
