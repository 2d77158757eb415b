/* list_file.c -- a source made of the images that a list names: path TAB label, JSON lines, or CSV.
**
** The first mistake in a list ends its reading, with file and line: a list is made by a program, and where one line is
** broken the others are seldom what was meant.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/list_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "data/beside.h"
#include "data/csv.h"
#include "data/image.h"
#include "data/image_set.h"
#include "sandbox/policy.h"

enum { PATH_ROOM = 4096 };

void list_lines_fini(list_lines *l)
{
  texts_fini(&l->path);
  texts_fini(&l->label);
  free(l->line);
  file_fields_fini(&l->fields);
  *l = (list_lines){0};
}

/* ---- one line -------------------------------------------------------------------------------- */

/* Columns of a table that has a header. */
typedef struct {
  int path, label, mask, target; /* but for path -1 = none */
  int *numbers;          /* of all fields, one after another; free() */
} columns;

typedef struct {
  csv table;
  columns at;
  const capl_list_options *options;
  bool labels; /* each line must have one */
  list_lines *out;
} reading;

static capl_status broken(const reading *r, const char *what)
{
  return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: %s", r->table.name, r->table.line, what);
}

static capl_status keep_line(reading *r)
{
  list_lines *l = r->out;
  if (l->path.count > l->lines) {
    uint32_t lines = l->path.count + l->path.count / 2 + 256;
    uint32_t *grown = realloc(l->line, lines * sizeof *grown);
    if (!grown) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %u lines", r->table.name, lines);
    l->line = grown;
    l->lines = lines;
  }
  l->line[l->path.count - 1] = r->table.line;
  return CAPL_OK;
}

static capl_status no_utf8(const reading *r, const char *what)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s:%u: the %s is no UTF-8", r->table.name, r->table.line, what);
  capl_error_hint("write the list in UTF-8: 'iconv -f GB18030 -t UTF-8' converts Chinese texts");
  return CAPL_EFORMAT;
}

static capl_status check_path(const reading *r, const char *path, const char *what)
{
  const char *wrong = !*path ? "is empty" : strlen(path) >= PATH_ROOM ? "is longer than 4095 bytes"
                      : NULL;
  if (!wrong) return capl_text_is_utf8(path) ? CAPL_OK : no_utf8(r, what);
  return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: the %s %s", r->table.name, r->table.line, what, wrong);
}

static capl_status keep_mask(reading *r, const char *path)
{
  CAPL_TRY(check_path(r, path, "path of the mask"));
  return texts_add(&r->out->fields.path, path);
}

static capl_status keep_target(reading *r, const char *path)
{
  CAPL_TRY(check_path(r, path, "path of the target image"));
  return texts_add(&r->out->fields.target_path, path);
}

/* label: NULL = the line has none. */
static capl_status keep(reading *r, const char *path, const char *label)
{
  CAPL_TRY(check_path(r, path, "path"));
  if (label && !capl_text_is_utf8(label)) return no_utf8(r, "label");
  if (label && strlen(label) >= PATH_ROOM) return broken(r, "the label is longer than 4095 bytes");
  CAPL_TRY(texts_add(&r->out->path, path));
  CAPL_TRY(texts_add(&r->out->label, label));
  return keep_line(r);
}

/* ---- the formats ----------------------------------------------------------------------------- */

static capl_status read_tabs(reading *r)
{
  csv *t = &r->table;
  if (t->n_fields > 2)
    return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: has %d fields; a path, a TAB and a label are expected", t->name, t->line,
                     t->n_fields);
  if (t->n_fields == 1 && r->labels) return broken(r, "has no TAB between a path and a label");
  return keep(r, t->field[0], t->n_fields == 2 ? t->field[1] : NULL);
}

/* The first of the keys that an object has, or the one that was asked for. */
static const cJSON *member(const cJSON *object, const char *wanted, const char *const *usual)
{
  if (wanted) return cJSON_GetObjectItemCaseSensitive(object, wanted);
  const cJSON *found = NULL;
  for (; !found && *usual; usual++) found = cJSON_GetObjectItemCaseSensitive(object, *usual);
  return found;
}

static const char *const path_keys[] = {"path", "file", "filename", "image", NULL};
static const char *const label_keys[] = {"label", "text", NULL};

static capl_status no_text(const reading *r, const cJSON *value, const char *key, const char *example)
{
  if (!value) return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: has no key \"%s\"", r->table.name, r->table.line, key);
  return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: \"%s\" is no text; write \"%s\": \"%s\"", r->table.name, r->table.line, key,
                   key, example);
}

/* The path of a file that an object has under a key; NULL = that has no text, which is an error. */
static const char *path_of(const reading *r, const cJSON *object, const char *key, const char *example)
{
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
  if (cJSON_IsString(value)) return value->valuestring;
  no_text(r, value, key, example);
  return NULL;
}

/* Numbers, the mask and the target image of the object of this line. */
static capl_status read_fields_of(reading *r, const cJSON *object)
{
  char where[PATH_ROOM];
  file_fields *fields = &r->out->fields;
  snprintf(where, sizeof where, "%s:%u", r->table.name, r->table.line);
  for (int k = 0; k < fields->n_numbers; k++)
    CAPL_TRY(field_numbers_add_object(&fields->numbers[k], where, object));
  if (fields->mask.column) {
    const char *mask = path_of(r, object, fields->mask.column, "a_mask.png");
    CAPL_TRY(mask ? keep_mask(r, mask) : CAPL_EFORMAT);
  }
  if (!fields->target.column) return CAPL_OK;
  const char *target = path_of(r, object, fields->target.column, "a_target.png");
  return target ? keep_target(r, target) : CAPL_EFORMAT;
}

/* A label that is a list of names. */
static capl_status keep_joined(reading *r, const char *path, const cJSON *label, const cJSON *object)
{
  char where[PATH_ROOM], *text = NULL;
  snprintf(where, sizeof where, "%s:%u", r->table.name, r->table.line);
  CAPL_TRY(beside_join(label, where, r->options->images.several, &text));
  capl_status status = keep(r, path, text);
  free(text);
  return status == CAPL_OK ? read_fields_of(r, object) : status;
}

static capl_status read_object(reading *r, const cJSON *object)
{
  const capl_list_options *o = r->options;
  if (!cJSON_IsObject(object))
    return broken(r, "is no JSON object, such as {\"path\": \"a.png\", \"label\": \"7K0Q\"}");
  const cJSON *path = member(object, o->path_key, path_keys), *label = member(object, o->label_key, label_keys);
  if (!cJSON_IsString(path)) return no_text(r, path, o->path_key ? o->path_key : path_keys[0], "a.png");
  if (cJSON_IsArray(label) && o->images.several) return keep_joined(r, path->valuestring, label, object);
  if (!cJSON_IsString(label) && (r->labels || label))
    return no_text(r, label, o->label_key ? o->label_key : label_keys[0], "0042");
  CAPL_TRY(keep(r, path->valuestring, label ? label->valuestring : NULL));
  return read_fields_of(r, object);
}

static capl_status read_json(reading *r)
{
  const csv *t = &r->table;
  JSON_OWNED *object = NULL;
  if (t->n_fields != 1) return broken(r, "holds a control character");
  CAPL_TRY(json_read(&(json_rules){.name = t->name, .line = t->line}, t->field[0], strlen(t->field[0]), &object));
  return read_object(r, object);
}

static capl_status read_record(reading *r)
{
  const columns *at = &r->at;
  file_fields *fields = &r->out->fields;
  CAPL_TRY(keep(r, r->table.field[at->path], at->label < 0 ? NULL : r->table.field[at->label]));
  const int *column = at->numbers;
  for (int k = 0; k < fields->n_numbers; column += fields->numbers[k++].of.n_columns)
    CAPL_TRY(field_numbers_add_record(&fields->numbers[k], &r->table, column));
  if (at->mask >= 0) CAPL_TRY(keep_mask(r, r->table.field[at->mask]));
  return at->target < 0 ? CAPL_OK : keep_target(r, r->table.field[at->target]);
}

static int find_column(const csv *t, const char *wanted, const char *const *usual)
{
  int found = wanted ? csv_column(t, wanted) : -1;
  for (; !wanted && found < 0 && *usual; usual++) found = csv_column(t, *usual);
  return found;
}

static capl_status find_number_columns(reading *r)
{
  const file_fields *fields = &r->out->fields;
  int n = 0, from = 0;
  for (int k = 0; k < fields->n_numbers; k++) n += fields->numbers[k].of.n_columns;
  r->at.numbers = malloc((size_t)(n + 1) * sizeof *r->at.numbers);
  if (!r->at.numbers) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %d columns", r->table.name, n);
  for (int k = 0; k < fields->n_numbers; from += fields->numbers[k++].of.n_columns)
    CAPL_TRY(field_numbers_find(&fields->numbers[k], &r->table, r->at.numbers + from));
  return CAPL_OK;
}

static capl_status find_columns(reading *r)
{
  const capl_list_options *o = r->options;
  const char *mask = r->out->fields.mask.column, *target = r->out->fields.target.column;
  CAPL_TRY(csv_header(&r->table));
  r->at.path = find_column(&r->table, o->path_key, path_keys);
  r->at.label = find_column(&r->table, o->label_key, label_keys);
  r->at.mask = mask ? csv_column(&r->table, mask) : -1;
  r->at.target = target ? csv_column(&r->table, target) : -1;
  if (r->at.path < 0) return csv_no_column(&r->table, o->path_key ? o->path_key : "path", "path");
  if (r->at.label < 0 && (r->labels || o->label_key))
    return csv_no_column(&r->table, o->label_key ? o->label_key : "label", "label");
  if (mask && r->at.mask < 0) return csv_no_column(&r->table, mask, "mask");
  if (target && r->at.target < 0) return csv_no_column(&r->table, target, "target_image");
  return find_number_columns(r);
}

/* ---- all lines ------------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *ending)
{
  size_t n = strlen(name), m = strlen(ending);
  return n > m && strcasecmp(name + n - m, ending) == 0;
}

/* By the name, else by the first line. bytes: the beginning of the list, NUL-ended. */
static capl_list_format guess(const char *name, const char *bytes)
{
  if (ends_in(name, ".tsv")) return CAPL_LIST_TSV;
  if (ends_in(name, ".csv")) return CAPL_LIST_CSV;
  if (ends_in(name, ".jsonl") || ends_in(name, ".ndjson") || ends_in(name, ".json")) return CAPL_LIST_JSONL;
  bytes += strspn(bytes, "\r\n ");
  if (*bytes == '{') return CAPL_LIST_JSONL;
  size_t line = strcspn(bytes, "\r\n");
  return memchr(bytes, '\t', line) || !memchr(bytes, ',', line) ? CAPL_LIST_TSV : CAPL_LIST_CSV;
}

static csv_style style_of(const capl_list_options *options, capl_list_format format)
{
  switch (format) {
  case CAPL_LIST_CSV: return (csv_style){.separator = options->separator};
  case CAPL_LIST_TSV: return (csv_style){.separator = '\t', .plain = true};
  default: return (csv_style){.separator = '\x1f', .plain = true}; /* which no JSON holds: a line is a field */
  }
}

/* Fields are columns, and these have names: then a list with tabs has a header too. */
static bool has_header(const reading *r, capl_list_format format)
{
  const file_fields *fields = &r->out->fields;
  bool columns = fields->n_numbers || fields->mask.column || fields->target.column;
  return format == CAPL_LIST_CSV || (format == CAPL_LIST_TSV && columns);
}

static capl_status read_line(reading *r, capl_list_format format, bool header)
{
  if (header) return read_record(r);
  return format == CAPL_LIST_TSV ? read_tabs(r) : read_json(r);
}

static capl_status read_lines(reading *r, capl_list_format format)
{
  bool header = has_header(r, format);
  if (header) CAPL_TRY(find_columns(r));
  for (bool more = true;;) {
    CAPL_TRY(csv_next(&r->table, &more));
    if (!more) break;
    CAPL_TRY(read_line(r, format, header));
  }
  return r->out->path.count ? CAPL_OK : CAPL_FAIL(CAPL_EVALUE, "%s: names no image", r->table.name);
}

capl_status list_lines_parse(const void *bytes, size_t size, const char *name, const capl_list_options *options,
                             bool labels, list_lines *l)
{
  char head[1024] = "";
  memcpy(head, bytes, size < sizeof head - 1 ? size : sizeof head - 1);
  capl_list_format format = options->format ? options->format : guess(name, head);
  reading r = {.options = options, .labels = labels, .out = l};
  capl_status status = csv_from(&r.table, bytes, size, name, style_of(options, format));
  if (status == CAPL_OK) status = read_lines(&r, format);
  free(r.at.numbers);
  csv_fini(&r.table);
  return status;
}

/* The first bytes, NUL-ended; none where csv_open will say why. A pipe is not waited for. */
static void read_head(const char *file, char head[1024])
{
  int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t n = fd < 0 || capl_policy_opened(fd, file) != CAPL_OK ? 0 : read(fd, head, 1023);
  head[n > 0 ? n : 0] = '\0';
  if (fd >= 0) close(fd);
}

capl_status list_lines_read(const char *file, const capl_list_options *options, bool labels, list_lines *l)
{
  char head[1024];
  read_head(file, head);
  capl_list_format format = options->format ? options->format : guess(file, head);
  reading r = {.options = options, .labels = labels, .out = l};
  capl_status status = csv_open(&r.table, file, style_of(options, format));
  if (status == CAPL_OK) status = read_lines(&r, format);
  free(r.at.numbers);
  csv_fini(&r.table);
  return status;
}

/* ---- the source ------------------------------------------------------------------------------ */

typedef struct {
  image_set set;
  char *root; /* with a slash at the end, or empty */
  uint32_t *line;
} list_source;

static void list_title(const image_set *set, uint32_t i, char *out, size_t room)
{
  const char *name = texts_get(&set->name, i);
  snprintf(out, room, "%s%s", *name == '/' ? "" : ((const list_source *)set)->root, name);
}

static void list_place(const image_set *set, uint32_t i, char *out, size_t room)
{
  snprintf(out, room, "%s:%u: ", set->where, ((const list_source *)set)->line[i]);
}

static capl_status list_encoded(const image_set *set, uint32_t i, const char *title, encoded_bytes *bytes)
{
  file_bytes file;
  const char *root = ((const list_source *)set)->root;
  if (strlen(root) + strlen(texts_get(&set->name, i)) >= PATH_ROOM)
    return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", title);
  CAPL_TRY(file_bytes_read(title, &file));
  *bytes = (encoded_bytes){.at = file.at, .size = file.size, .owned = file.at};
  return CAPL_OK;
}

static void list_fini(image_set *set)
{
  free(((list_source *)set)->root);
  free(((list_source *)set)->line);
}

/* "sets/a.tsv" -> "sets/", "a.tsv" -> "", a root that was given -> that. */
static capl_status set_root(list_source *s, const char *file, const char *root)
{
  const char *slash = strrchr(file, '/');
  size_t length = root ? strlen(root) : slash ? (size_t)(slash - file) + 1 : 0;
  s->root = malloc(length + 2);
  if (!s->root) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to open it", file);
  memcpy(s->root, root ? root : file, length);
  if (length && s->root[length - 1] != '/') s->root[length++] = '/';
  s->root[length] = '\0';
  return CAPL_OK;
}

static capl_status open_list(list_source *s, const char *file, const capl_list_options *options)
{
  list_lines l = {.fields = s->set.fields};
  CAPL_TRY(set_root(s, file, options->root));
  s->set.root = s->root;
  capl_status status = list_lines_read(file, options, s->set.base.length > 0, &l);
  s->set.name = l.path; /* all that was read is the source's now */
  s->set.label = l.label;
  s->set.fields = l.fields;
  s->line = l.line;
  return status == CAPL_OK ? image_set_settle(&s->set) : status;
}

capl_status capl_source_list_new(const char *file, const capl_list_options *options, capl_source **source)
{
  static const image_set_kind kind = {
    .ops = IMAGE_SET_OPS, .opener = "data.list", .title = list_title, .place = list_place, .encoded = list_encoded,
    .fini = list_fini};
  static const capl_list_options defaults;
  image_set *set;
  if (!options) options = &defaults;
  CAPL_TRY(image_set_new(&kind, sizeof(list_source), file, &options->images, &set));
  capl_status status = open_list((list_source *)set, file, options);
  if (status == CAPL_OK) *source = &set->base;
  else capl_source_unref(&set->base);
  return status;
}
