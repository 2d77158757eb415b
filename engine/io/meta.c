/* meta.c -- meta.json: read with every value checked, written with the version of the format.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/meta.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "capl/capl.h"

static const char version_key[] = "capl_model", hash_key[] = "weights_sha256";
enum { HASH_DIGITS = 64 };

enum { SHOWN = 48 }; /* bytes of a value that a message repeats */

static const char *shown(const char *text, char room[SHOWN])
{
  capl_text_show(room, SHOWN, text, false);
  return room;
}

/* What an item is, for messages: 12, "abc", null, a list. */
static const char *describe(const cJSON *item, char *buf, size_t len)
{
  char room[SHOWN];
  if (!item) return "missing";
  if (cJSON_IsNumber(item)) snprintf(buf, len, "%g", item->valuedouble);
  else if (cJSON_IsString(item)) snprintf(buf, len, "\"%s\"", shown(item->valuestring, room));
  else snprintf(buf, len, "%s", cJSON_IsArray(item) ? "a list" : cJSON_IsObject(item) ? "an object"
                                : cJSON_IsNull(item) ? "null" : cJSON_IsTrue(item) ? "true" : "false");
  return buf;
}

static capl_status wrong(const char *path, const char *key, const char *wanted, const cJSON *item)
{
  char given[64];
  CAPL_FAIL(CAPL_EFORMAT, "%s: %s is %s, not %s", path, key, wanted, describe(item, given, sizeof given));
  capl_error_hint("the file is damaged, or not of a model that this capl reads");
  return CAPL_EFORMAT;
}

static capl_status read_whole(const char *path, const cJSON *root, const char *key, int most, int *out)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
  double v = cJSON_IsNumber(item) ? item->valuedouble : 0;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "a whole number from 1 to %d", most);
  if (!(v >= 1 && v <= most) || v != floor(v)) return wrong(path, key, wanted, item);
  *out = (int)v;
  return CAPL_OK;
}

/* The only value known; its absence means it. */
static capl_status read_word(const char *path, const cJSON *root, const char *key, const char *known)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
  if (!item || (cJSON_IsString(item) && strcmp(item->valuestring, known) == 0)) return CAPL_OK;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "\"%s\"", known);
  return wrong(path, key, wanted, item);
}

/* ---- what the network sees -------------------------------------------------------------------- */

/* {"mean": [...], "std": [...]}: one number per channel. */
static bool read_channels(const cJSON *list, int channels, double least, float *out)
{
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != channels) return false;
  for (int c = 0; c < channels; c++) {
    const cJSON *item = cJSON_GetArrayItem(list, c);
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 1e6) || !(item->valuedouble > least)) return false;
    out[c] = (float)item->valuedouble;
  }
  return true;
}

static capl_status read_normalize(const char *path, const cJSON *root, int channels, capl_conversion *out)
{
  static const char wanted[] = "\"standardize\", \"unit\" or {mean, std} with one number per channel, std above 0";
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "normalize");
  *out = (capl_conversion){.type = CAPL_PIXEL_F32, .std = {1, 1, 1}};
  if (cJSON_IsString(item) && strcmp(item->valuestring, "standardize") == 0) out->norm = CAPL_NORM_STANDARDIZE;
  else if (cJSON_IsString(item) && strcmp(item->valuestring, "unit") == 0) out->norm = CAPL_NORM_UNIT;
  else if (read_channels(cJSON_GetObjectItemCaseSensitive(item, "mean"), channels, -1e7, out->mean) &&
           read_channels(cJSON_GetObjectItemCaseSensitive(item, "std"), channels, 1e-7, out->std))
    out->norm = CAPL_NORM_MEAN_STD;
  else return wrong(path, "normalize", wanted, item);
  return CAPL_OK;
}

static capl_status read_widths(const char *path, const cJSON *root, model_meta *m)
{
  static const char wanted[] = "a list of at most 64 ascending widths in px";
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "widths"), *item;
  if (!list) return read_whole(path, root, "width", META_SIDE_MAX, &m->width);
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < 1 || cJSON_GetArraySize(list) > META_WIDTHS_MAX)
    return wrong(path, "widths", wanted, list);
  cJSON_ArrayForEach(item, list)
  {
    double v = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(v > m->width && v <= META_SIDE_MAX) || v != floor(v)) return wrong(path, "widths", wanted, item);
    m->width = m->widths[m->n_widths++] = (int)v;
  }
  return CAPL_OK;
}

static capl_status read_input(const char *path, const cJSON *root, model_meta *m)
{
  CAPL_TRY(read_widths(path, root, m));
  CAPL_TRY(read_whole(path, root, "height", META_SIDE_MAX, &m->height));
  CAPL_TRY(read_whole(path, root, "channels", 3, &m->channels));
  if (m->channels == 2) return wrong(path, "channels", "1 or 3", cJSON_GetObjectItemCaseSensitive(root, "channels"));
  CAPL_TRY(read_word(path, root, "resize", "bicubic"));
  return read_normalize(path, root, m->channels, &m->conversion);
}

/* ---- what comes out ---------------------------------------------------------------------------- */

/* Ranges mean nothing here: a '-' is a '-'. */
static capl_status read_charset(const char *path, const cJSON *root, model_meta *m)
{
  const cJSON *charset = cJSON_GetObjectItemCaseSensitive(root, "charset");
  if (!cJSON_IsString(charset) || capl_vocab_symbols(charset->valuestring, &m->vocab) != CAPL_OK)
    return wrong(path, "charset", "1 to 65536 different visible characters", charset);
  m->characters = m->classes = capl_vocab_count(m->vocab);
  return CAPL_OK;
}

/* Texts of length_min to length_max characters; the blank is the class behind the charset, and said for readers. */
static capl_status read_ctc(const char *path, const cJSON *root, model_meta *m)
{
  const cJSON *blank = cJSON_GetObjectItemCaseSensitive(root, "blank");
  char wanted[96];
  m->decoding = META_CTC;
  m->classes = m->characters + 1;
  snprintf(wanted, sizeof wanted, "%d, the class after the %d characters of the charset", m->characters, m->characters);
  if (!cJSON_IsNumber(blank) || blank->valuedouble != m->characters) return wrong(path, "blank", wanted, blank);
  CAPL_TRY(read_whole(path, root, "length_max", CAPL_LABEL_MAX, &m->length));
  CAPL_TRY(read_whole(path, root, "length_min", CAPL_LABEL_MAX, &m->length_min));
  if (m->length_min > m->length)
    return wrong(path, "length_min", "at most length_max", cJSON_GetObjectItemCaseSensitive(root, "length_min"));
  return CAPL_OK;
}

static capl_status read_text(const char *path, const cJSON *root, model_meta *m)
{
  const cJSON *decoding = cJSON_GetObjectItemCaseSensitive(root, "decoding");
  bool ctc = cJSON_IsString(decoding) && strcmp(decoding->valuestring, "ctc") == 0;
  bool argmax = !decoding || (cJSON_IsString(decoding) && strcmp(decoding->valuestring, "argmax") == 0);
  if (!ctc && !argmax) return wrong(path, "decoding", "\"argmax\" or \"ctc\"", decoding);
  CAPL_TRY(read_charset(path, root, m));
  if (ctc) return read_ctc(path, root, m);
  if (m->n_widths > 0) return wrong(path, "decoding", "\"ctc\", as a model of several widths has", decoding);
  CAPL_TRY(read_whole(path, root, "length", CAPL_LABEL_MAX, &m->length));
  m->length_min = m->length;
  return CAPL_OK;
}

/* A list of 1 to most strings, borrowed; caller frees *names. */
static capl_status list_strings(const char *path, const char *key, const cJSON *list, int most, const char ***names)
{
  char wanted[64];
  const cJSON *item;
  int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0, i = 0;
  snprintf(wanted, sizeof wanted, "a list of 1 to %d names", most);
  if (n < 1 || n > most) return wrong(path, key, wanted, list);
  const char **made = malloc((size_t)n * sizeof *made);
  if (!made) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d names", n);
  cJSON_ArrayForEach(item, list)
  {
    if (!cJSON_IsString(item)) return free(made), wrong(path, key, wanted, item);
    made[i++] = item->valuestring;
  }
  *names = made;
  return CAPL_OK;
}

/* The vocabulary of root[key], a list of names. */
static capl_status read_names(const char *path, const cJSON *root, const char *key, int most, model_meta *m)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, key);
  const char **names = NULL;
  CAPL_TRY(list_strings(path, key, list, most, &names));
  capl_status status = capl_vocab_names(names, cJSON_GetArraySize(list), &m->vocab);
  free(names);
  m->characters = m->classes = capl_vocab_count(m->vocab);
  m->length = m->length_min = 1;
  if (status == CAPL_OK) return CAPL_OK;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(e.code == CAPL_ENOMEM ? CAPL_ENOMEM : CAPL_EFORMAT, "%s: %s: %s", path, key, e.message);
}

/* A score for each of the classes. */
static capl_status read_classes(const char *path, const cJSON *root, model_meta *m)
{
  m->kind = CAPL_MODEL_CLASS;
  return read_names(path, root, "classes", CAPL_VOCAB_MAX, m);
}

/* One number for each name; fallback where the key is missing. */
static capl_status read_scale(const char *path, const cJSON *root, const char *key, bool above_0, const model_meta *m,
                              double fallback, double *out)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, key), *item;
  char wanted[96];
  int i = 0;
  for (int k = 0; k < m->classes; k++) out[k] = fallback;
  if (!list) return CAPL_OK;
  snprintf(wanted, sizeof wanted, "a list of %d numbers%s, one for each name", m->classes, above_0 ? " above 0" : "");
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != m->classes) return wrong(path, key, wanted, list);
  cJSON_ArrayForEach(item, list)
  {
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (!isfinite(v) || (above_0 && v <= 0)) return wrong(path, key, wanted, item);
    out[i++] = v;
  }
  return CAPL_OK;
}

static capl_status read_numbers(const char *path, const cJSON *root, model_meta *m)
{
  m->kind = CAPL_MODEL_NUMBERS;
  CAPL_TRY(read_names(path, root, "numbers", CAPL_VALUES_MAX, m));
  CAPL_TRY(read_scale(path, root, "mean", false, m, 0, m->mean));
  return read_scale(path, root, "std", true, m, 1, m->std);
}

/* x and y of each, px of the model's input. */
static capl_status read_points(const char *path, const cJSON *root, model_meta *m)
{
  m->kind = CAPL_MODEL_POINTS;
  CAPL_TRY(read_names(path, root, "points", CAPL_VALUES_MAX / 2, m));
  m->length = m->length_min = 2;
  return CAPL_OK;
}

static const struct {
  const char *name;
  capl_status (*read)(const char *path, const cJSON *root, model_meta *m);
} outputs[] = {
  {"text", read_text}, {"class", read_classes}, {"numbers", read_numbers}, {"points", read_points}};

enum { OUTPUTS = sizeof outputs / sizeof *outputs };

static int output_of(const cJSON *root)
{
  const cJSON *output = cJSON_GetObjectItemCaseSensitive(root, "output");
  for (int k = 0; k < OUTPUTS; k++)
    if (output ? cJSON_IsString(output) && strcmp(output->valuestring, outputs[k].name) == 0 : k == 0) return k;
  return -1;
}

static capl_status read_output(const char *path, const cJSON *root, model_meta *m)
{
  int k = output_of(root);
  if (k >= 0) return outputs[k].read(path, root, m);
  return wrong(path, "output", "\"text\", \"class\", \"numbers\" or \"points\"",
               cJSON_GetObjectItemCaseSensitive(root, "output"));
}

/* ---- the whole --------------------------------------------------------------------------------- */

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

/* Without output and charset: a model of a recipe that said nothing of what it gives. */
static capl_status check_described(const char *path, const cJSON *root)
{
  if (cJSON_HasObjectItem(root, "output") || cJSON_HasObjectItem(root, "charset")) return CAPL_OK;
  CAPL_FAIL(CAPL_EFORMAT, "%s does not say what the model gives: no output and no charset", path);
  capl_error_hint("capl.model(model, {output = \"points\", names = {…}}) in its recipe says it; capl.io.load_model runs "
                  "any model");
  return CAPL_EFORMAT;
}

static capl_status parse_meta(const char *path, const char *text, model_meta *out)
{
  JSON_OWNED *root = NULL;
  CAPL_TRY(parse(path, text, &root));
  CAPL_TRY(check_root(path, root));
  CAPL_TRY(check_described(path, root));
  CAPL_TRY(read_input(path, root, out));
  return read_output(path, root, out);
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
  capl_vocab_unref(m->vocab);
  m->vocab = NULL;
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
  return !item || sound ? CAPL_OK : wrong(path, hash_key, "64 hexadecimal digits", item);
}

capl_status meta_with_hash(const char *text, const char *hex, char **out)
{
  JSON_OWNED *root = NULL;
  CAPL_TRY(parse("the model's meta data", text, &root));
  cJSON_DeleteItemFromObjectCaseSensitive(root, hash_key); /* that of the model from which the meta data came */
  *out = cJSON_AddStringToObject(root, hash_key, hex) ? json_print(root, true) : NULL;
  return *out ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a model's meta data");
}

static capl_status check_own(const cJSON *root, const char *text)
{
  if (!cJSON_HasObjectItem(root, "output") || output_of(root) < 0) return CAPL_OK;
  model_meta m;
  if (meta_parse("the model's meta data", text, &m) == CAPL_OK) return meta_fini(&m), CAPL_OK;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(CAPL_EVALUE, "%s", e.message);
}

capl_status meta_stamp(const char *text, char **out)
{
  JSON_OWNED *root = NULL;
  *out = NULL;
  if (parse("the model's meta data", text, &root) != CAPL_OK || !cJSON_IsObject(root))
    return CAPL_FAIL(CAPL_EVALUE, "a model's meta data must be a JSON object");
  char *stamped = add_versions(root) ? json_print(root, true) : NULL;
  capl_status status = stamped ? check_own(root, stamped) : CAPL_FAIL(CAPL_ENOMEM, "no memory for a model's meta data");
  if (status == CAPL_OK) *out = stamped;
  else free(stamped);
  return status;
}
