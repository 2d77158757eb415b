/* meta_fields.c -- meta.json: what goes into a model and what comes out, with every value checked.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/graph.h"
#include "io/meta.h"

/* ---- images ------------------------------------------------------------------------------------ */

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

static capl_status read_normalize(const field_keys *k, int channels, capl_conversion *out)
{
  static const char wanted[] = "\"standardize\", \"unit\" or {mean, std} with one number per channel, std above 0";
  const cJSON *item = keys_get(k, "normalize");
  *out = (capl_conversion){.type = CAPL_PIXEL_F32, .std = {1, 1, 1}};
  if (cJSON_IsString(item) && strcmp(item->valuestring, "standardize") == 0) out->norm = CAPL_NORM_STANDARDIZE;
  else if (cJSON_IsString(item) && strcmp(item->valuestring, "unit") == 0) out->norm = CAPL_NORM_UNIT;
  else if (read_channels(cJSON_GetObjectItemCaseSensitive(item, "mean"), channels, -1e7, out->mean) &&
           read_channels(cJSON_GetObjectItemCaseSensitive(item, "std"), channels, 1e-7, out->std))
    out->norm = CAPL_NORM_MEAN_STD;
  else return keys_wrong(k, "normalize", wanted, item);
  return CAPL_OK;
}

static capl_status read_widths(const field_keys *k, model_meta *m)
{
  static const char wanted[] = "a list of at most 64 ascending widths in px";
  const cJSON *list = keys_get(k, "widths"), *item;
  if (!list) return keys_whole(k, "width", META_SIDE_MAX, &m->width);
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < 1 || cJSON_GetArraySize(list) > META_WIDTHS_MAX)
    return keys_wrong(k, "widths", wanted, list);
  cJSON_ArrayForEach(item, list)
  {
    int64_t v;
    if (!json_whole(item, m->width + 1, META_SIDE_MAX, &v)) return keys_wrong(k, "widths", wanted, item);
    m->width = m->widths[m->n_widths++] = (int)v;
  }
  return CAPL_OK;
}

/* {"mode": "letterbox", "position": "center", "fill": [255, 255, 255]}: a level per channel. */
static capl_status read_letterbox(const field_keys *k, model_meta *m)
{
  static const char *const modes[] = {"letterbox", NULL}, *const positions[] = {"center", "top-left", NULL};
  int word;
  const cJSON *fill = keys_get(k, "fill"), *item;
  if (m->n_widths > 0) return keys_wrong(k, "mode", "\"bicubic\" where there are widths", keys_get(k, "mode"));
  CAPL_TRY(keys_word(k, "mode", modes, &word));
  CAPL_TRY(keys_word(k, "position", positions, &word));
  m->letterbox = (capl_letterbox){.on = true, .top_left = word == 1};
  static const char wanted[] = "a list of levels 0 to 255, one for each channel";
  int c = 0;
  if (!cJSON_IsArray(fill) || cJSON_GetArraySize(fill) != m->channels) return keys_wrong(k, "fill", wanted, fill);
  cJSON_ArrayForEach(item, fill)
  {
    int64_t level;
    if (!json_whole(item, 0, 255, &level)) return keys_wrong(k, "fill", wanted, item);
    m->letterbox.fill[c++] = (uint8_t)level;
  }
  return CAPL_OK;
}

static capl_status read_resize(const field_keys *k, model_meta *m)
{
  const cJSON *resize = keys_get(k, "resize");
  char part[64];
  snprintf(part, sizeof part, "%.40sresize.", k->part);
  if (cJSON_IsObject(resize)) return read_letterbox(&(field_keys){k->path, part, resize}, m);
  if (!resize || (cJSON_IsString(resize) && strcmp(resize->valuestring, "bicubic") == 0)) return CAPL_OK;
  return keys_wrong(k, "resize", "\"bicubic\" or {mode = \"letterbox\", position, fill}", resize);
}

static capl_status read_image(const field_keys *k, model_meta *m)
{
  CAPL_TRY(read_widths(k, m));
  CAPL_TRY(keys_whole(k, "height", META_SIDE_MAX, &m->height));
  CAPL_TRY(keys_whole(k, "channels", 3, &m->channels));
  if (m->channels == 2) return keys_wrong(k, "channels", "1 or 3", keys_get(k, "channels"));
  CAPL_TRY(read_resize(k, m));
  return read_normalize(k, m->channels, &m->conversion);
}

/* ---- lists of named fields --------------------------------------------------------------------- */

enum { PART = CAPL_GRAPH_NAME_MAX + 16 };

/* Its name, which no field before has; part: what messages call it, "outputs.gap.". */
static capl_status read_name(field_keys *k, const char *list, int i, model_field *fields, char *part)
{
  const cJSON *name = keys_get(k, "name");
  snprintf(part, PART, "%s[%d].", list, i + 1);
  k->part = part;
  if (!cJSON_IsString(name) || !graph_name_ok(name->valuestring))
    return keys_wrong(k, "name", "a name of letters, digits and _", name);
  for (int j = 0; j < i; j++)
    if (strcmp(fields[j].name, name->valuestring) == 0)
      return keys_wrong(k, "name", "another one than those before", name);
  snprintf(fields[i].name, sizeof fields[i].name, "%s", name->valuestring);
  snprintf(part, PART, "%s.%s.", list, fields[i].name);
  return CAPL_OK;
}

static capl_status no_input(const field_keys *k)
{
  return keys_wrong(k, "kind", "\"image\", \"numbers\" or \"series\"", keys_get(k, "kind"));
}

/* An image, of which there is one at most, or numbers. */
static capl_status read_input(const field_keys *k, model_meta *m, model_field *f)
{
  const cJSON *kind = keys_get(k, "kind");
  if (cJSON_IsString(kind) && field_kind_named(kind->valuestring) == field_kind_pixels()) {
    if (m->width > 0) return keys_wrong(k, "kind", "another kind: one input is an image already", kind);
    return read_image(k, m);
  }
  CAPL_TRY(model_field_read(k, "kind", NULL, f));
  if (f->kind->encode) return CAPL_OK;
  model_field_fini(f);
  return no_input(k);
}

static capl_status read_output(const field_keys *k, model_meta *m, model_field *f)
{
  (void)m;
  return model_field_read(k, "kind", NULL, f);
}

static capl_status read_list(const char *path, const cJSON *root, const char *key, model_meta *m, model_field *fields,
                             int *n, capl_status (*read)(const field_keys *, model_meta *, model_field *))
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, key), *item;
  int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
  char part[PART];
  if (count < 1 || count > CAPL_GRAPH_PORTS_MAX)
    return keys_wrong(&(field_keys){path, "", root}, key, "a list of 1 to 16 objects", list);
  cJSON_ArrayForEach(item, list)
  {
    field_keys k = {path, "", item};
    if (!cJSON_IsObject(item)) return keys_wrong(&(field_keys){path, "", root}, key, "a list of objects", item);
    CAPL_TRY(read_name(&k, key, *n, fields, part));
    CAPL_TRY(read(&k, m, &fields[*n]));
    ++*n;
  }
  return CAPL_OK;
}

/* ---- the whole --------------------------------------------------------------------------------- */

bool meta_is_described(const cJSON *root)
{
  return cJSON_HasObjectItem(root, "output") || cJSON_HasObjectItem(root, "outputs");
}

/* Without any: a model of a recipe that said nothing of what it gives. */
static capl_status check_described(const char *path, const cJSON *root)
{
  if (meta_is_described(root) || cJSON_HasObjectItem(root, "charset")) return CAPL_OK;
  CAPL_FAIL(CAPL_EFORMAT, "%s does not say what the model gives: no output and no charset", path);
  capl_error_hint("capl.model(model, {output = \"points\", names = {…}}) in its recipe says it; capl.io.load_model runs "
                  "any model");
  return CAPL_EFORMAT;
}

/* One image is said by keys of its own, anything else by a list. */
static capl_status read_inputs(const char *path, const cJSON *root, model_meta *m)
{
  if (cJSON_HasObjectItem(root, "inputs"))
    return read_list(path, root, "inputs", m, m->inputs, &m->n_inputs, read_input);
  m->n_inputs = 1;
  return read_image(&(field_keys){path, "", root}, m);
}

/* Likewise an only output without a name; the first files had texts alone. */
static capl_status read_outputs(const char *path, const cJSON *root, model_meta *m)
{
  if (cJSON_HasObjectItem(root, "outputs"))
    return read_list(path, root, "outputs", m, m->outputs, &m->n_outputs, read_output);
  CAPL_TRY(model_field_read(&(field_keys){path, "", root}, "output", field_kind_first()->name, &m->outputs[0]));
  m->n_outputs = 1;
  return CAPL_OK;
}

capl_status meta_read_fields(const char *path, const cJSON *root, model_meta *m)
{
  CAPL_TRY(check_described(path, root));
  CAPL_TRY(read_inputs(path, root, m));
  return read_outputs(path, root, m);
}
