/* meta.c -- meta.json: its version and hash, read and written; meta_fields.c has the rest.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "capl/capl.h"

static const char version_key[] = "capl_model", hash_key[] = "weights_sha256";
enum { HASH_DIGITS = 64 };

static capl_status check_root(const char *path, const cJSON *root)
{
  if (!cJSON_IsObject(root)) return CAPL_FAIL(CAPL_EFORMAT, "%s holds no JSON object", path);
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(root, version_key);
  if (!cJSON_IsNumber(version)) {
    CAPL_FAIL(CAPL_EFORMAT, "%s has no number %s: it is no model of this program, or an unfinished one", path,
              version_key);
    return CAPL_EFORMAT;
  }
  if (version->valuedouble == META_VERSION) return CAPL_OK;
  CAPL_FAIL(CAPL_EFORMAT, "%s is of format version %g; capl %s reads version %d", path, version->valuedouble,
            capl_version(), META_VERSION);
  capl_error_hint(version->valuedouble > META_VERSION ? "use a newer capl" : "save the model again with this capl");
  return CAPL_EFORMAT;
}

static capl_status parse(const char *path, const char *text, cJSON **root)
{
  return json_read(&(json_rules){.name = path, .unique = true}, text, strlen(text), root);
}

capl_status meta_check_version(const char *path, const char *text)
{
  JSON_OWNED *root = NULL;
  CAPL_TRY(parse(path, text, &root));
  return check_root(path, root);
}

static capl_status parse_meta(const char *path, const char *text, model_meta *out)
{
  JSON_OWNED *root = NULL;
  CAPL_TRY(parse(path, text, &root));
  CAPL_TRY(check_root(path, root));
  return meta_read_fields(path, root, out);
}

capl_status meta_parse(const char *path, const char *text, model_meta *out)
{
  *out = (model_meta){0};
  capl_status status = parse_meta(path, text, out);
  if (status != CAPL_OK) meta_fini(out);
  return status;
}

void meta_fini(model_meta *m)
{
  for (int i = 0; i < m->n_inputs; i++) model_field_fini(&m->inputs[i]);
  for (int o = 0; o < m->n_outputs; o++) model_field_fini(&m->outputs[o]);
  m->n_inputs = m->n_outputs = 0;
}

/* First in the object, where a reader of the file sees it. */
static bool put_first(cJSON *root, const char *key, cJSON *item)
{
  cJSON_DeleteItemFromObjectCaseSensitive(root, key);
  if (!item || !cJSON_AddItemToObject(root, key, item)) return cJSON_Delete(item), false;
  return cJSON_InsertItemInArray(root, 0, cJSON_DetachItemViaPointer(root, item));
}

static bool add_versions(cJSON *root)
{
  return put_first(root, "capl", cJSON_CreateString(capl_version())) &&
         put_first(root, version_key, cJSON_CreateNumber(META_VERSION));
}

capl_status meta_weights_hash(const char *path, const char *text, char *hex)
{
  JSON_OWNED *root = NULL;
  CAPL_TRY(parse(path, text, &root));
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, hash_key);
  bool sound = cJSON_IsString(item) && strlen(item->valuestring) == HASH_DIGITS &&
               strspn(item->valuestring, "0123456789abcdef") == HASH_DIGITS;
  snprintf(hex, HASH_DIGITS + 1, "%s", sound ? item->valuestring : "");
  if (!item || sound) return CAPL_OK;
  return keys_wrong(&(field_keys){path, "", root}, hash_key, "64 hexadecimal digits", item);
}

capl_status meta_with_hash(const char *text, const char *hex, char **out)
{
  JSON_OWNED *root = NULL;
  CAPL_TRY(parse("the model's meta data", text, &root));
  cJSON_DeleteItemFromObjectCaseSensitive(root, hash_key); /* that of the model from which the meta data came */
  *out = cJSON_AddStringToObject(root, hash_key, hex) ? json_print(root, true) : NULL;
  return *out ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a model's meta data");
}

/* What it says of inputs and outputs can be read back. */
static capl_status check_own(const cJSON *root, const char *text)
{
  const cJSON *output = cJSON_GetObjectItemCaseSensitive(root, "output");
  bool known = !cJSON_IsString(output) || field_kind_named(output->valuestring); /* else it is the recipe's own word */
  if (!meta_is_described(root) || !known) return CAPL_OK;
  model_meta m;
  if (meta_parse("the model's meta data", text, &m) == CAPL_OK) return meta_fini(&m), CAPL_OK;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(CAPL_EVALUE, "%s", e.message);
}

capl_status meta_stamp(const char *text, char **out)
{
  JSON_OWNED *root = NULL;
  *out = NULL;
  capl_status read = parse("the model's meta data", text, &root);
  if (read == CAPL_ENOMEM) return read;
  if (read != CAPL_OK || !cJSON_IsObject(root))
    return CAPL_FAIL(CAPL_EVALUE, "a model's meta data must be a JSON object");
  char *stamped = add_versions(root) ? json_print(root, true) : NULL;
  capl_status status = stamped ? check_own(root, stamped) : CAPL_FAIL(CAPL_ENOMEM, "no memory for a model's meta data");
  if (status == CAPL_OK) *out = stamped;
  else free(stamped);
  return status;
}
