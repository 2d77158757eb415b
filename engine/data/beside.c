/* beside.c -- files that lie beside an image and belong to it.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { JSON_BYTES_MAX = 16 << 20, LABEL_BYTES_MAX = 4095 };
static const char blanks[] = " \t\r\n";

capl_status beside_path(const char *root, const char *image, const char *ending, char path[BESIDE_ROOM])
{
  const char *slash = strrchr(image, '/'), *dot = strrchr(image, '.');
  size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - image) : strlen(image);
  size_t root_length = strlen(root);
  const char *between = root_length && root[root_length - 1] != '/' ? "/" : "";
  if (snprintf(path, BESIDE_ROOM, "%s%s%.*s%s", root, between, (int)stem, image, ending) < BESIDE_ROOM) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", image);
}

capl_status beside_listed(const char *root, const char *given, const char *image, const char *what,
                          char path[BESIDE_ROOM])
{
  if (*given == '/') root = "";
  const char *between = *root && root[strlen(root) - 1] != '/' ? "/" : "";
  if (snprintf(path, BESIDE_ROOM, "%s%s%s", root, between, given) < BESIDE_ROOM) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "%s: the path of its %s is too long", image, what);
}

capl_status beside_read(const char *path, const char *image, const char *what, file_bytes *file)
{
  if (file_bytes_read(path, file) == CAPL_OK) return CAPL_OK;
  capl_error_hint("it is the %s of %s: every image has one; write it, or move the image away", what, image);
  return capl_error_last()->code;
}

capl_status beside_json(const char *image, char path[BESIDE_ROOM], cJSON **object)
{
  file_bytes file;
  CAPL_TRY(beside_path("", image, ".json", path));
  CAPL_TRY(beside_read(path, image, "JSON file", &file));
  capl_status status =
    json_read(&(json_rules){.name = path, .most_bytes = JSON_BYTES_MAX}, (const char *)file.at, file.size, object);
  free(file.at);
  return status;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static capl_status copy_label(const char *path, const char *from, size_t bytes, char **text)
{
  *text = strndup(from, bytes);
  if (!*text) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its label", path);
  if (strlen(*text) == bytes && capl_text_is_utf8(*text) && bytes <= LABEL_BYTES_MAX) return CAPL_OK;
  free(*text);
  *text = NULL;
  CAPL_FAIL(CAPL_EFORMAT, "%s:1: the label %s", path, bytes > LABEL_BYTES_MAX ? "is longer than 4095 bytes"
            : "is no UTF-8");
  if (bytes <= LABEL_BYTES_MAX) capl_error_hint("write it in UTF-8: 'iconv -f GB18030 -t UTF-8' converts Chinese texts");
  return CAPL_EFORMAT;
}

capl_status beside_join(const cJSON *list, const char *where, char several, char **text)
{
  size_t size = 1;
  const cJSON *one;
  cJSON_ArrayForEach(one, list) {
    if (!cJSON_IsString(one)) return CAPL_FAIL(CAPL_EFORMAT, "%s: a label is a list of names, [\"cat\", \"dog\"]", where);
    if (strchr(one->valuestring, several)) {
      CAPL_FAIL(CAPL_EFORMAT, "%s: the name \"%s\" has '%c', which separates names", where, one->valuestring, several);
      capl_error_hint("several = \";\" takes another character");
      return CAPL_EFORMAT;
    }
    if (!capl_text_is_utf8(one->valuestring))
      return CAPL_FAIL(CAPL_EFORMAT, "%s: a name of its label is not UTF-8", where);
    size += strlen(one->valuestring) + 1;
  }
  if (size > LABEL_BYTES_MAX)
    return CAPL_FAIL(CAPL_EFORMAT, "%s: the names of its label have more than %d bytes", where, LABEL_BYTES_MAX);
  char *at = *text = malloc(size);
  if (!at) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its label", where);
  *at = '\0';
  cJSON_ArrayForEach(one, list) at += sprintf(at, "%s%s", one->valuestring, one->next ? (char[]){several, '\0'} : "");
  return CAPL_OK;
}

/* Lines to names with a separator between. */
static capl_status join_lines(const char *path, const char *from, const char *to, char several, char **text)
{
  capl_status status = copy_label(path, from, (size_t)(to - from), text);
  char *out = status == CAPL_OK ? *text : NULL;
  for (const char *p = out; p && *p; p++) {
    if (*p == '\r' || (*p == '\n' && out > *text && out[-1] == several)) continue;
    *out++ = (char)(*p == '\n' ? several : *p);
  }
  if (out) *out = '\0';
  return status;
}

static capl_status text_of_file(const char *image, const char *ending, char several, char **text)
{
  char path[BESIDE_ROOM];
  file_bytes file;
  CAPL_TRY(beside_path("", image, ending, path));
  CAPL_TRY(beside_read(path, image, "label", &file));
  const char *from = (const char *)file.at, *to = from + file.size;
  while (from < to && memchr(blanks, *from, sizeof blanks - 1)) from++;
  while (to > from && memchr(blanks, to[-1], sizeof blanks - 1)) to--;
  capl_status status = several ? join_lines(path, from, to, several, text)
    : memchr(from, '\n', (size_t)(to - from))
    ? CAPL_FAIL(CAPL_EFORMAT, "%s:2: the file has a second line; the label of an image is one line", path)
    : copy_label(path, from, (size_t)(to - from), text);
  free(file.at);
  return status;
}

static const cJSON *find_label(const cJSON *object, const char *key)
{
  static const char *const usual[] = {"label", "text", "class", NULL};
  if (key) return cJSON_GetObjectItemCaseSensitive(object, key);
  const cJSON *found = NULL;
  for (int k = 0; !found && usual[k]; k++) found = cJSON_GetObjectItemCaseSensitive(object, usual[k]);
  return found;
}

static capl_status text_of_json(const char *image, const char *key, char several, char **text)
{
  char path[BESIDE_ROOM], number[32];
  int64_t whole;
  JSON_OWNED *object = NULL;
  CAPL_TRY(beside_json(image, path, &object));
  const cJSON *label = find_label(object, key);
  if (several && cJSON_IsArray(label)) return beside_join(label, path, several, text);
  if (cJSON_IsString(label)) return copy_label(path, label->valuestring, strlen(label->valuestring), text);
  if (json_whole(label, -1e15, 1e15, &whole)) {
    snprintf(number, sizeof number, "%lld", (long long)whole);
    return copy_label(path, number, strlen(number), text);
  }
  CAPL_FAIL(CAPL_EFORMAT, label ? "%s: \"%s\" is neither a text nor a whole number" : "%s: has no key \"%s\"", path,
            key ? key : "label");
  capl_error_hint("label = \".json:KEY\" names another key; without one it is label, text or class");
  return CAPL_EFORMAT;
}

capl_status beside_label(const char *image, const char *ending, const char *key, char several, char **text)
{
  return strcmp(ending, ".json") == 0 ? text_of_json(image, key, several, text)
    : text_of_file(image, ending, several, text);
}
