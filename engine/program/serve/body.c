/* body.c -- reads the body of a request by its Content-Type: an image as it is, a form, JSON.
** SPDX-License-Identifier: Apache-2.0
*/
#include "program/serve/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"
#include "program/serve/base64.h"

enum { DEPTH = 8, SHOWN = 40 };

static bool is_image(const uint8_t *bytes, size_t n)
{
  return (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) || (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0);
}

static bool begins(const char *type, const char *with)
{
  size_t n = strlen(with);
  return type && strncasecmp(type, with, n) == 0 && (!type[n] || type[n] == ';' || type[n] == ' ');
}

static bool is_json(const char *type) { return begins(type, "application/json") || begins(type, "text/json"); }

/* ---- JSON -------------------------------------------------------------------------------------- */

/* "image, t2m": what a model takes. */
static const char *known_keys(const body_rules *rules, char *out, size_t room)
{
  size_t n = (size_t)snprintf(out, room, "%s", rules->image ? "image" : "");
  for (int i = 0; i < rules->n_inputs && n < room; i++)
    n += (size_t)snprintf(out + n, room - n, "%s%s", n ? ", " : "", rules->inputs[i].name);
  return out;
}

/* Behind "data:image/png;base64," of a data URL. */
static const char *skip_url(const char *text)
{
  const char *comma = strncmp(text, "data:", 5) == 0 ? strchr(text, ',') : NULL;
  return comma ? comma + 1 : text;
}

static int read_base64(const char *key, const cJSON *item, body_parts *parts, char why[BODY_WHY])
{
  if (!cJSON_IsString(item)) return snprintf(why, BODY_WHY, "%s is to be a text in base64", key), HTTP_BAD;
  if (parts->own) return snprintf(why, BODY_WHY, "two images; a request has one"), HTTP_BAD;
  const char *text = skip_url(item->valuestring);
  size_t n = strlen(text), wrong;
  parts->own = malloc(base64_room(n));
  if (!parts->own) return snprintf(why, BODY_WHY, "no memory for an image"), HTTP_FAILED;
  if (!base64_decode(text, n, parts->own, &parts->image_bytes, &wrong)) {
    if (wrong == n) snprintf(why, BODY_WHY, "%s: the base64 ends in the middle of a group of four characters", key);
    else snprintf(why, BODY_WHY, "%s: character %zu is not base64 (A-Z a-z 0-9 + / =)", key, wrong + 1);
    return HTTP_BAD;
  }
  parts->image = parts->own;
  return 0;
}

/* All numbers of a list of lists, in their order. -> false: something else is among them. */
static bool flatten(const cJSON *item, float *to, size_t room, size_t *n)
{
  if (cJSON_IsNumber(item)) {
    if (*n < room) to[*n] = (float)item->valuedouble;
    return ++*n, true;
  }
  if (!cJSON_IsArray(item)) return false;
  for (const cJSON *one = item->child; one; one = one->next)
    if (!flatten(one, to, room, n)) return false;
  return true;
}

static int read_numbers(const body_input *input, const cJSON *item, float **numbers, char why[BODY_WHY])
{
  size_t n = 0;
  *numbers = calloc(input->numbers, sizeof **numbers);
  if (!*numbers) return snprintf(why, BODY_WHY, "no memory for %zu numbers", input->numbers), HTTP_FAILED;
  if (!flatten(item, *numbers, input->numbers, &n))
    return snprintf(why, BODY_WHY, "%.*s is to be a list of numbers", SHOWN, input->name), HTTP_BAD;
  if (n == input->numbers) return 0;
  snprintf(why, BODY_WHY, "%.*s has %zu numbers; the model takes %zu", SHOWN, input->name, n, input->numbers);
  return HTTP_BAD;
}

static int read_key(const body_rules *rules, const cJSON *item, body_parts *parts, char why[BODY_WHY])
{
  char known[160], shown[SHOWN];
  const char *key = item->string;
  if (rules->image && (strcmp(key, "image") == 0 || strcmp(key, rules->image) == 0))
    return read_base64("image", item, parts, why);
  for (int i = 0; i < rules->n_inputs; i++)
    if (strcmp(key, rules->inputs[i].name) == 0)
      return read_numbers(&rules->inputs[i], item, &parts->numbers[i], why);
  capl_text_show(shown, sizeof shown, key, false);
  snprintf(why, BODY_WHY, "unknown key '%s'; the model takes %s", shown, known_keys(rules, known, sizeof known));
  return HTTP_BAD;
}

static int read_json(const body_rules *rules, const char *body, size_t size, body_parts *parts, char why[BODY_WHY])
{
  static const json_rules strict = {.most_depth = DEPTH, .unique = true};
  JSON_OWNED *root = NULL;
  capl_status status = json_read(&strict, body, size, &root);
  if (status != CAPL_OK) {
    snprintf(why, BODY_WHY, "JSON: %.300s", capl_error_last()->message);
    return status == CAPL_ENOMEM ? HTTP_FAILED : HTTP_BAD;
  }
  if (!cJSON_IsObject(root)) return snprintf(why, BODY_WHY, "JSON: an object was expected: {\"image\": \"…\"}"), HTTP_BAD;
  for (const cJSON *item = root->child; item; item = item->next) {
    int wrong = read_key(rules, item, parts, why);
    if (wrong) return wrong;
  }
  return 0;
}

/* ---- all kinds --------------------------------------------------------------------------------- */

static int read_by_type(const body_rules *rules, const char *type, const char *body, size_t size, body_parts *parts,
                        char why[BODY_WHY])
{
  if (is_json(type)) return read_json(rules, body, size, parts, why);
  if (begins(type, "multipart/form-data") && rules->image)
    return multipart_image(type, rules->image, body, size, parts, why);
  parts->image = (const uint8_t *)body;
  parts->image_bytes = size;
  return 0;
}

/* All that the model takes is there, and the image is one. */
static int check_parts(const body_rules *rules, const char *type, const body_parts *parts, char why[BODY_WHY])
{
  for (int i = 0; i < rules->n_inputs; i++)
    if (!parts->numbers[i]) {
      snprintf(why, BODY_WHY, "the model takes %zu numbers as %.*s: send JSON, {\"%.*s\": [1, 2]}", rules->inputs[i].numbers,
               SHOWN, rules->inputs[i].name, SHOWN, rules->inputs[i].name);
      return is_json(type) ? HTTP_BAD : HTTP_KIND;
    }
  if (!rules->image) return 0;
  if (!parts->image) return snprintf(why, BODY_WHY, "there is no image: {\"image\": \"base64\"}"), HTTP_BAD;
  if (parts->image_bytes == 0) return snprintf(why, BODY_WHY, "the image is empty"), HTTP_BAD;
  if (is_image(parts->image, parts->image_bytes)) return 0;
  snprintf(why, BODY_WHY, "the image is neither a PNG nor a JPEG file; it is sent as it is, as multipart/form-data, or as "
                          "base64 in JSON");
  return HTTP_KIND;
}

int body_read(const body_rules *rules, const char *type, const char *body, size_t size, body_parts *parts,
              char why[BODY_WHY])
{
  *why = '\0';
  if (size == 0) return snprintf(why, BODY_WHY, "the body of the request is empty"), HTTP_BAD;
  int wrong = read_by_type(rules, type, body, size, parts, why);
  return wrong ? wrong : check_parts(rules, type, parts, why);
}

void body_free(body_parts *parts)
{
  free(parts->own);
  for (int i = 0; i < BODY_INPUTS_MAX; i++) free(parts->numbers[i]);
  *parts = (body_parts){0};
}
