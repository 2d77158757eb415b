/* file_fields.c -- masks, points, boxes and numbers that lie in files: where they are, and how they become fields.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/file_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/hash64.h"

enum { IGNORED = 255 };

/* ---- opening --------------------------------------------------------------------------------- */

static capl_status copy_text(const char **text, const char *where)
{
  if (!*text) return CAPL_OK;
  *text = strdup(*text);
  return *text ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to open it", where);
}

static capl_status begin_mask(file_fields *f, const capl_mask_files *of, const char *where)
{
  f->mask = (capl_mask_files){.classes = of->classes, .n_values = of->n_values};
  int most = of->n_values ? of->n_values : of->classes ? of->classes : 256;
  if (of->classes < 0 || of->classes > 256 || (of->n_values && of->n_values != of->classes))
    return CAPL_FAIL(CAPL_EVALUE, "%s: a mask has 1 to 256 classes, and a value for each; not %d of %d", where,
                     of->n_values, of->classes);
  for (int level = 0; level < 256; level++) f->class_of[level] = (int16_t)(level < most && !of->n_values ? level : -1);
  f->class_of[IGNORED] = IGNORED;
  for (int k = of->n_values - 1; k >= 0; k--) f->class_of[of->value[k]] = (int16_t)k;
  f->mask.ending = of->ending, f->mask.column = of->column, f->mask.root = of->root;
  f->mask.n_parts = of->n_parts;
  capl_status status = copy_text(&f->mask.ending, where);
  if (copy_text(&f->mask.column, where) != CAPL_OK || copy_text(&f->mask.root, where) != CAPL_OK) status = CAPL_ENOMEM;
  return status == CAPL_OK && of->n_parts ? mask_parts_open(&f->parts, of) : status;
}

capl_status file_fields_begin(file_fields *f, const capl_file_fields *of, const char *where)
{
  CAPL_TRY(begin_mask(f, &of->mask, where));
  CAPL_TRY(target_files_begin(&f->target, &of->target, where));
  int n = of->n_numbers + file_fields_has_mask(f) + target_files_has(&f->target);
  if (n > CAPL_FIELDS_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "%s: %d fields; a sample has at most %d beside image and label", where, n,
                     CAPL_FIELDS_MAX);
  for (; f->n_numbers < of->n_numbers; f->n_numbers++)
    CAPL_TRY(field_numbers_begin(&f->numbers[f->n_numbers], &of->numbers[f->n_numbers]));
  return CAPL_OK;
}

void file_fields_fini(file_fields *f)
{
  free((char *)f->mask.ending);
  free((char *)f->mask.column);
  free((char *)f->mask.root);
  texts_fini(&f->path);
  texts_fini(&f->target_path);
  mask_parts_fini(&f->parts);
  target_files_fini(&f->target);
  for (int k = 0; k < f->n_numbers; k++) field_numbers_fini(&f->numbers[k]);
  *f = (file_fields){0};
}

bool file_fields_has_mask(const file_fields *f) { return f->mask.ending || f->mask.column || f->mask.n_parts; }

static bool ends_in(const char *name, const char *ending)
{
  size_t n = strlen(name), m = ending ? strlen(ending) : 0;
  return m > 0 && n > m && strcmp(name + n - m, ending) == 0;
}

bool file_fields_is_beside(const file_fields *f, const char *name)
{
  return (!f->mask.root && ends_in(name, f->mask.ending)) || (!f->target.root && ends_in(name, f->target.ending));
}

static capl_status describe(const field_numbers *numbers, capl_source *source, const char *where)
{
  int most = field_numbers_most(numbers);
  capl_field *field = &source->field[source->n_fields];
  *field = (capl_field){.kind = numbers->of.kind, .ndim = 1, .size = {most, 0, 0}};
  memcpy(field->name, numbers->of.name, sizeof field->name);
  if (field->kind != CAPL_FIELD_VALUES) {
    field->ndim = 2;
    field->size[1] = numbers->width;
  }
  if (most == 0) return CAPL_FAIL(CAPL_EVALUE, "%s: no sample has %s", where, field->name);
  source->n_fields++;
  return CAPL_OK;
}

capl_status file_fields_settle(const file_fields *f, capl_source *source, const char *where)
{
  if (file_fields_has_mask(f)) {
    source->field[source->n_fields++] = (capl_field){
      .name = "mask", .kind = CAPL_FIELD_MASK, .ndim = 2, .size = {source->height, source->width, 0}};
  }
  for (int k = 0; k < f->n_numbers; k++) CAPL_TRY(describe(&f->numbers[k], source, where));
  return target_files_settle(&f->target, source, where);
}

/* ---- files beside images --------------------------------------------------------------------- */

capl_status file_fields_add_beside(file_fields *f, const char *image)
{
  char path[BESIDE_ROOM];
  JSON_OWNED *object = NULL;
  if (f->n_numbers == 0) return CAPL_OK;
  CAPL_TRY(beside_json(image, path, &object));
  for (int k = 0; k < f->n_numbers; k++) CAPL_TRY(field_numbers_add_object(&f->numbers[k], path, object));
  return CAPL_OK;
}

/* ---- masks ----------------------------------------------------------------------------------- */

capl_status file_fields_mask_path(const file_fields *f, const file_sample *s, uint32_t k, char path[BESIDE_ROOM])
{
  const char *part = f->mask.n_parts ? mask_parts_path(&f->parts, s->name, k) : NULL;
  if (f->mask.n_parts || k > 0) return snprintf(path, BESIDE_ROOM, "%s", part ? part : ""), CAPL_OK;
  if (f->mask.ending) return beside_path(f->mask.root ? f->mask.root : "", f->mask.root ? s->name : s->title,
                                         f->mask.ending, path);
  return beside_listed(f->mask.root ? f->mask.root : s->root, texts_get(&f->path, s->i), s->title, "mask", path);
}

static target_of target_at(const file_fields *f, const file_sample *s)
{
  return (target_of){.source = s->source, .title = s->title, .name = s->name, .root = s->root,
                     .listed = f->target.column ? texts_get(&f->target_path, s->i) : NULL,
                     .held_title = s->target_title, .held = s->target, .width = s->width, .height = s->height};
}

capl_status file_fields_target_bytes(const file_fields *f, const file_sample *s, char title[BESIDE_ROOM],
                                     encoded_bytes *bytes)
{
  target_of of = target_at(f, s);
  return target_files_bytes(&f->target, &of, title, bytes);
}

capl_status file_fields_read_target(const file_fields *f, const file_sample *s, capl_image *scratch)
{
  target_of of = target_at(f, s);
  return target_files_decode(&f->target, &of, scratch);
}

capl_status file_fields_path(const file_fields *f, const file_sample *s, uint32_t k, char path[BESIDE_ROOM])
{
  target_of of = target_at(f, s);
  path[0] = '\0';
  if (k == 0 && target_files_has(&f->target)) return target_files_path(&f->target, &of, path);
  return file_fields_has_mask(f) ? file_fields_mask_path(f, s, k - target_files_has(&f->target), path) : CAPL_OK;
}

capl_status file_fields_mask_bytes(const file_fields *f, const file_sample *s, char title[BESIDE_ROOM],
                                   encoded_bytes *bytes)
{
  file_bytes file;
  if (f->mask.n_parts)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s: its mask lies in several files, one for each part; a database takes one",
                     s->title);
  if (s->mask_title) {
    snprintf(title, BESIDE_ROOM, "%s", s->mask_title);
    *bytes = s->mask;
    return CAPL_OK;
  }
  CAPL_TRY(file_fields_mask_path(f, s, 0, title));
  CAPL_TRY(beside_read(title, s->title, "mask", &file));
  *bytes = (encoded_bytes){.at = file.at, .size = file.size, .owned = file.at};
  return CAPL_OK;
}

static capl_status wrong_size(const file_sample *s, const char *path, const capl_image *mask)
{
  CAPL_FAIL(CAPL_ESHAPE, "%s: the mask is %d x %d px, but its image %s is %d x %d", path, mask->width, mask->height,
            s->title, s->width, s->height);
  capl_error_hint("a mask has its image's size; resize = true brings both to another one");
  return CAPL_ESHAPE;
}

static capl_status no_class(const file_fields *f, const char *path, const capl_image *mask, size_t at)
{
  int x = (int)(at % (size_t)mask->width), y = (int)(at / (size_t)mask->width);
  CAPL_FAIL(CAPL_EVALUE, "%s: level %d at x = %d, y = %d is none of the %d classes", path, mask->pixels[at], x, y,
            f->mask.classes);
  capl_error_hint("classes of mask says how many there are, values the level of each; 255 is for pixels that do not "
                  "count");
  return CAPL_EVALUE;
}

/* Levels to classes, in place. */
static capl_status classify(const file_fields *f, const char *path, capl_image *mask)
{
  size_t n = (size_t)mask->width * (size_t)mask->height;
  for (size_t at = 0; at < n; at++) {
    int class_of = f->class_of[mask->pixels[at]];
    if (class_of < 0) return no_class(f, path, mask, at);
    mask->pixels[at] = (uint8_t)class_of;
  }
  return CAPL_OK;
}

capl_status file_fields_read_mask(const file_fields *f, const file_sample *s, capl_image *scratch)
{
  char path[BESIDE_ROOM];
  encoded_bytes bytes;
  if (f->mask.n_parts) return mask_parts_read(&f->parts, s->name, s->title, s->width, s->height, scratch);
  CAPL_TRY(file_fields_mask_bytes(f, s, path, &bytes));
  capl_status status = capl_png_decode_indices(bytes.at, bytes.size, path, scratch);
  free(bytes.owned);
  CAPL_TRY(status);
  if (scratch->width != s->width || scratch->height != s->height) return wrong_size(s, path, scratch);
  return classify(f, path, scratch);
}

/* The pixel whose place holds the centre of the output's, in the image's area; those outside of it do not count. */
static void resize_nearest(const capl_image *in, const resize_area *to, int row_width, int height, uint8_t *out)
{
  memset(out, IGNORED, (size_t)row_width * (size_t)height);
  for (int y = 0; y < to->height; y++) {
    const uint8_t *from = in->pixels + (size_t)((2 * (int64_t)y + 1) * in->height / (2 * to->height)) *
                                           (size_t)in->width;
    uint8_t *row = out + (size_t)(to->top + y) * (size_t)row_width + to->left;
    for (int x = 0; x < to->width; x++) row[x] = from[(2 * (int64_t)x + 1) * in->width / (2 * to->width)];
  }
}

/* ---- points and boxes ------------------------------------------------------------------------ */

static capl_status outside(const file_sample *s, const capl_field *field, int row, const float *x)
{
  bool box = field->kind == CAPL_FIELD_BOXES;
  if (box)
    CAPL_FAIL(CAPL_EVALUE, "%s: row %d of %s is %g, %g to %g, %g: no box within the image of %d x %d px", s->title,
              row + 1, field->name, (double)x[0], (double)x[1], (double)x[2], (double)x[3], s->width, s->height);
  else
    CAPL_FAIL(CAPL_EVALUE, "%s: row %d of %s is %g, %g: outside the image of %d x %d px", s->title, row + 1,
              field->name, (double)x[0], (double)x[1], s->width, s->height);
  capl_error_hint("%s; on_error = \"skip\" of the loader leaves such images out",
                  box ? "left, top, right and bottom are px from the left and upper edge, in this order"
                      : "x and y are px from the left and upper edge; visible = 0 is for a point that is not there");
  return CAPL_EVALUE;
}

static bool is_within(const capl_field *field, const float *x, float width, float height)
{
  if (field->kind == CAPL_FIELD_BOXES)
    return x[0] >= 0 && x[1] >= 0 && x[0] <= x[2] && x[1] <= x[3] && x[2] <= width && x[3] <= height;
  return x[2] <= 0 || (x[0] >= 0 && x[1] >= 0 && x[0] <= width && x[1] <= height);
}

/* Of the image's file to those of the sample. */
static void scale(const file_sample *s, float *x, int n)
{
  double by[] = {(double)s->area.width / s->width, (double)s->area.height / s->height};
  double first[] = {s->area.left, s->area.top};
  for (int k = 0; k < n; k++) x[k] = (float)(x[k] * by[k % 2] + first[k % 2]);
}

static capl_status read_places(const field_numbers *numbers, const file_sample *s, const capl_field *field, float *out)
{
  int rows, n = numbers->width;
  const float *x = field_numbers_of(numbers, s->i, &rows);
  bool box = field->kind == CAPL_FIELD_BOXES;
  for (int row = 0; row < rows; row++, x += n, out += n) {
    bool none = box && x[4] < 0;
    if (!none && !is_within(field, x, (float)s->width, (float)s->height)) return outside(s, field, row, x);
    memcpy(out, x, (size_t)n * sizeof *x);
    scale(s, out, box ? 4 : 2);
  }
  for (int row = rows; row < field->size[0]; row++, out += n) {
    memset(out, 0, (size_t)n * sizeof *out);
    if (box) out[4] = -1;
  }
  return CAPL_OK;
}

static capl_status read_numbers(const field_numbers *numbers, const file_sample *s, const capl_field *field, void *out)
{
  int rows;
  if (field->kind != CAPL_FIELD_VALUES) return read_places(numbers, s, field, out);
  const float *x = field_numbers_of(numbers, s->i, &rows);
  memcpy(out, x, (size_t)rows * sizeof *x);
  return CAPL_OK;
}

capl_status file_fields_read(const file_fields *f, const file_sample *s, capl_image *scratch, const capl_sample *to)
{
  int first = file_fields_has_mask(f);
  if (first && to->field[0]) {
    CAPL_TRY(file_fields_read_mask(f, s, scratch));
    resize_nearest(scratch, &s->area, s->row, s->source->height, to->field[0]);
  }
  for (int k = 0; k < f->n_numbers; k++) {
    int i = first + k;
    if (to->field[i]) CAPL_TRY(read_numbers(&f->numbers[k], s, &s->source->field[i], to->field[i]));
  }
  float *target = target_files_has(&f->target) ? to->field[first + f->n_numbers] : NULL;
  target_of of = target_at(f, s);
  return target ? target_files_read(&f->target, &of, scratch, target) : CAPL_OK;
}

uint64_t file_fields_hash(const file_fields *f, uint64_t h)
{
  if (file_fields_has_mask(f)) h = hash64_bytes(h, f->class_of, sizeof f->class_of);
  for (int k = 0; k < f->n_numbers; k++) {
    const field_numbers *n = &f->numbers[k];
    h = hash64_text(h, n->of.name);
    h = hash64_bytes(h, n->at, n->rows * (size_t)n->width * sizeof *n->at);
    h = hash64_bytes(h, n->end, n->samples * sizeof *n->end);
  }
  return h;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The column k of all fields, one after another; NULL past the last. */
static const char *column_of(const file_fields *f, int k)
{
  for (int i = 0; i < f->n_numbers; k -= f->numbers[i++].of.n_columns)
    if (k < f->numbers[i].of.n_columns) return f->numbers[i].of.column[k];
  return NULL;
}

/* An object has each key once. */
static capl_status check_keys(const file_fields *f)
{
  for (int i = 0; column_of(f, i); i++)
    for (int k = 0; k < i; k++)
      if (strcmp(column_of(f, i), column_of(f, k)) == 0)
        return CAPL_FAIL(CAPL_EVALUE, "%s is a column or key of two numbers; a database needs one for each",
                         column_of(f, i));
  return CAPL_OK;
}

capl_status file_fields_write(const file_fields *f, uint32_t i, FILE *out)
{
  CAPL_TRY(check_keys(f));
  fputc('{', out);
  for (int k = 0; k < f->n_numbers; k++) {
    if (k) fputs(", ", out);
    field_numbers_write(&f->numbers[k], i, out);
  }
  fputc('}', out);
  return CAPL_OK;
}
