/* image_set.c -- what folders, list files and databases of images share.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/image_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "fields/unicode.h"
#include "data/resize.h"
#include "data/image.h"
#include "data/hash64.h"

enum { TITLE_ROOM = 4096 };

/* "list.tsv:12: set/a.png", what messages begin with. */
static const char *whole_title(const image_set *set, uint32_t i, char out[TITLE_ROOM])
{
  *out = '\0';
  if (set->kind->place) set->kind->place(set, i, out, TITLE_ROOM);
  size_t used = strlen(out);
  set->kind->title(set, i, out + used, TITLE_ROOM - used);
  return out;
}

void image_set_title(const capl_source *source, uint32_t i, char *out, size_t room)
{
  char title[TITLE_ROOM];
  snprintf(out, room, "%s", whole_title((const image_set *)source, i, title));
}

/* Puts the place before the last failure's message, which begins with the title already. */
static capl_status at_place(const image_set *set, uint32_t i)
{
  capl_error e = *capl_error_last(), placed = e;
  char place[TITLE_ROOM];
  if (!set->kind->place) return e.code;
  set->kind->place(set, i, place, sizeof place);
  size_t used = strnlen(place, sizeof placed.message - 1);
  memcpy(placed.message, place, used);
  snprintf(placed.message + used, sizeof placed.message - used, "%s", e.message);
  capl_error_restore(&placed);
  return e.code;
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Whether the vocabulary has this symbol in another case or width. */
static bool has_folded(const capl_vocab *vocab, const char *symbol, const capl_folding *folding, char *other,
                       size_t room)
{
  char *folded;
  if (capl_text_normalize(symbol, folding, &folded) != CAPL_OK) return false;
  bool has = strcmp(folded, symbol) != 0 && capl_vocab_find(vocab, folded, strlen(folded)) >= 0;
  snprintf(other, room, "%s", folded);
  free(folded);
  return has;
}

/* " (it has 'a')": letters of the other case are the commonest mistake, full-width ones the next. */
static void tell_folded(const capl_vocab *vocab, const char *symbol, char *out, size_t room)
{
  static const capl_folding tries[] = {{CAPL_CASE_LOWER, false}, {CAPL_CASE_UPPER, false}, {CAPL_CASE_KEEP, true}};
  char other[16];
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
    if (has_folded(vocab, symbol, &tries[i], other, sizeof other))
      return (void)snprintf(out, room, " (it has '%s')", other);
}

/* The character at p is none of the vocabulary. */
static capl_status outside_charset(const image_set *set, uint32_t i, const char *text, const char *p)
{
  char title[TITLE_ROOM], shown[256], all[128], symbol[8], has[32] = "";
  int bytes = capl_text_char(p), position = 1;
  for (const char *q = text; q < p; position++) q += capl_text_char(q) ? capl_text_char(q) : 1;
  whole_title(set, i, title);
  capl_text_show(shown, sizeof shown, text, false);
  capl_vocab_describe(set->base.vocab, all, sizeof all);
  if (!capl_vocab_is_symbols(set->base.vocab))
    return CAPL_FAIL(CAPL_EVALUE, "%s: '%s' is none of the %s", title, shown, all);
  if (!bytes)
    return CAPL_FAIL(CAPL_EVALUE, "%s: label \"%s\" is not UTF-8: byte 0x%02x at position %d", title, shown,
                     (unsigned char)*p, position);
  snprintf(symbol, sizeof symbol, "%.*s", bytes, p);
  tell_folded(set->base.vocab, symbol, has, sizeof has);
  return CAPL_FAIL(CAPL_EVALUE, "%s: label \"%s\" has '%s' at position %d, which is not in the charset %s%s", title, shown,
                   symbol, position, all, has);
}

static capl_status wrong_length(const image_set *set, uint32_t i, const char *text)
{
  char title[TITLE_ROOM], least[24] = "";
  int shortest = capl_source_length_min(&set->base);
  if (shortest < set->base.length) snprintf(least, sizeof least, "%d to ", shortest);
  if (!*text)
    return CAPL_FAIL(CAPL_EVALUE, "%s: its label is empty; expected %s%d characters", whole_title(set, i, title), least,
                     set->base.length);
  return CAPL_FAIL(CAPL_EVALUE, "%s: label \"%s\" has %d characters; expected %s%d", whole_title(set, i, title), text,
                   unicode_count(text), least, set->base.length);
}

/* The name of a class of several, from p to end, as id number n. */
static capl_status encode_name(const image_set *set, uint32_t i, const char *p, const char *end, int32_t *ids, int n)
{
  char title[TITLE_ROOM], name[256], shown[256];
  while (p < end && *p == ' ') p++;
  while (p < end && end[-1] == ' ') end--;
  int32_t id = capl_vocab_find(set->base.vocab, p, (size_t)(end - p));
  snprintf(name, sizeof name, "%.*s", (int)(end - p), p);
  if (id < 0) return outside_charset(set, i, name, name);
  whole_title(set, i, title);
  capl_text_show(shown, sizeof shown, name, false);
  for (int k = 0; k < n; k++)
    if (ids[k] == id) return CAPL_FAIL(CAPL_EVALUE, "%s: its label has '%s' twice", title, shown);
  if (n == set->base.length)
    return CAPL_FAIL(CAPL_EVALUE, "%s: its label has more than %d names of classes", title, set->base.length);
  return ids[n] = id, CAPL_OK;
}

/* Any number of names; an empty label is none of the classes. */
static capl_status encode_several(const image_set *set, uint32_t i, const char *text, int32_t *ids)
{
  const char separator[] = {set->base.several, '\0'}, *end;
  int n = 0;
  for (bool more = *text; more; n++, text = end + 1) {
    end = text + strcspn(text, separator);
    CAPL_TRY(encode_name(set, i, text, end, ids, n));
    more = *end;
  }
  for (; n < set->base.length; n++) ids[n] = -1;
  return CAPL_OK;
}

static capl_status encode_label(const image_set *set, uint32_t i, const char *text, int32_t *ids)
{
  if (set->base.several) return encode_several(set, i, text, ids);
  const char *wrong;
  int most = set->base.length, length = capl_vocab_encode(set->base.vocab, text, ids, most, &wrong);
  if (wrong) return outside_charset(set, i, text, wrong);
  if (length > most || length == 0 || length < capl_source_length_min(&set->base)) return wrong_length(set, i, text);
  for (int t = length; t < most; t++) ids[t] = -1;
  return CAPL_OK;
}

/* Names of classes are not folded: the folders are called so. */
static const capl_folding *folding_of(const image_set *set)
{
  return set->base.vocab && !capl_vocab_is_symbols(set->base.vocab) ? NULL : &set->folding;
}

/* Texts are kept folded; one that is no UTF-8 as it is: its error comes when it is read. */
static capl_status keep_text(image_set *set, uint32_t i, const char *text)
{
  char *folded;
  capl_status status = capl_text_normalize(text, folding_of(set), &folded);
  if (status == CAPL_EVALUE) return texts_set(&set->label, i, text);
  if (status == CAPL_OK) status = texts_set(&set->label, i, folded);
  free(folded);
  return status;
}

capl_status image_set_set_label(capl_source *source, uint32_t i, const char *text)
{
  image_set *set = (image_set *)source;
  if (source->length == 0)
    return CAPL_FAIL(CAPL_ESTATE, "%s: labels need a charset; %s was called without one", set->where,
                     set->kind->opener);
  CAPL_TRY(keep_text(set, i, text));
  int32_t ids[CAPL_LABEL_MAX];
  return encode_label(set, i, texts_get(&set->label, i), ids);
}

capl_status image_set_set_text(capl_source *source, uint32_t i, const char *text)
{
  image_set *set = (image_set *)source;
  if (!set->label.at) CAPL_TRY(texts_blank(&set->label, source->count));
  return keep_text(set, i, text);
}

const char *image_set_text(const capl_source *source, uint32_t i)
{
  return texts_get(&((const image_set *)source)->label, i);
}

static capl_status copy_label(const image_set *set, uint32_t i, int32_t *labels)
{
  char title[TITLE_ROOM];
  const char *text = texts_get(&set->label, i);
  if (!text) return CAPL_FAIL(CAPL_ESTATE, "%s: has no label", whole_title(set, i, title));
  return encode_label(set, i, text, labels);
}

capl_status image_set_check_label(const capl_source *source, uint32_t i)
{
  int32_t ids[CAPL_LABEL_MAX];
  return source->length ? copy_label((const image_set *)source, i, ids) : CAPL_OK;
}

capl_status image_set_labels(capl_source *source, uint32_t i, int32_t *labels)
{
  return source->length ? copy_label((const image_set *)source, i, labels) : CAPL_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

capl_status image_set_encoded(capl_source *source, uint32_t i, encoded_bytes *bytes)
{
  const image_set *set = (const image_set *)source;
  char title[TITLE_ROOM];
  set->kind->title(set, i, title, sizeof title);
  *bytes = (encoded_bytes){0};
  return set->kind->encoded(set, i, title, bytes) == CAPL_OK ? CAPL_OK : at_place(set, i);
}

static capl_status decode(const image_set *set, uint32_t i, int channels, capl_image *image)
{
  char title[TITLE_ROOM];
  encoded_bytes bytes;
  CAPL_TRY(image_set_encoded((capl_source *)set, i, &bytes));
  set->kind->title(set, i, title, sizeof title);
  capl_status status = capl_image_decode(bytes.at, bytes.size, title, channels, image);
  free(bytes.owned);
  return status == CAPL_OK ? status : at_place(set, i);
}

static capl_status wrong_size(const image_set *set, uint32_t i, const capl_image *image)
{
  char title[TITLE_ROOM];
  CAPL_FAIL(CAPL_ESHAPE, "%s: the image is %d x %d px; expected %d x %d", whole_title(set, i, title), image->width,
            image->height, set->base.width, set->base.height);
  capl_error_hint("resize = true of %s stretches every image, resize = \"letterbox\" keeps its proportions; on_error = "
                  "\"skip\" of the loader leaves the file out",
                  set->kind->opener);
  return CAPL_ESHAPE;
}

/* resize_image does not know whose image it is. */
static capl_status cannot_fit(const image_set *set, uint32_t i)
{
  capl_error e = *capl_error_last();
  char title[TITLE_ROOM];
  return CAPL_FAIL(e.code, "%s: %s", whole_title(set, i, title), e.message);
}

/* The decoded image, brought to the set's size. */
static capl_status copy_pixels(const image_set *set, uint32_t i, const capl_image *scratch, uint8_t *pixels)
{
  const capl_source *source = &set->base;
  capl_status status;
  if (source->n_widths) {
    int used, width = capl_source_width_of(source, i);
    resize_choose(scratch->width, scratch->height, source->height, &width, 1, &used);
    status = resize_padded(scratch->pixels, scratch->width, scratch->height, source->channels, used, width,
                           source->height, pixels);
    return status == CAPL_OK ? status : cannot_fit(set, i);
  }
  if (!set->resize && (scratch->width != source->width || scratch->height != source->height))
    return wrong_size(set, i, scratch);
  status = resize_fit(&source->letterbox, scratch->pixels, scratch->width, scratch->height, source->channels,
                      source->width, source->height, pixels);
  return status == CAPL_OK ? status : cannot_fit(set, i);
}

/* Of what a set holds itself. */
typedef struct {
  char mask[TITLE_ROOM], target[TITLE_ROOM];
} held_titles;

static file_sample file_sample_of(const image_set *set, uint32_t i, const char *title, int width, int height,
                                  held_titles *held)
{
  file_sample s = {.source = &set->base, .i = i, .title = title, .name = texts_get(&set->name, i),
                   .root = set->root ? set->root : "", .width = width, .height = height};
  s.row = set->base.width;
  if (width) s.area = resize_place(&set->base.letterbox, width, height, s.row, set->base.height);
  if (set->base.n_widths && width)
    resize_choose(width, height, set->base.height, &(int){s.row = capl_source_width_of(&set->base, i)}, 1,
                  &s.area.width);
  if (!set->kind->mask) return s;
  s.mask_title = held->mask;
  s.target_title = held->target;
  set->kind->mask(set, i, held->mask, TITLE_ROOM, &s.mask);
  set->kind->target(set, i, held->target, TITLE_ROOM, &s.target);
  return s;
}

/* Once the image is decoded; scratch holds it before, and a mask after. */
static capl_status read_fields(const image_set *set, uint32_t i, capl_image *scratch, const capl_sample *to)
{
  char title[TITLE_ROOM];
  held_titles held;
  set->kind->title(set, i, title, sizeof title);
  file_sample s = file_sample_of(set, i, title, scratch->width, scratch->height, &held);
  return file_fields_read(&set->fields, &s, scratch, to) == CAPL_OK ? CAPL_OK : at_place(set, i);
}

capl_status image_set_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  const image_set *set = (const image_set *)source;
  uint32_t i = what->id;
  if (to->labels && source->length > 0) CAPL_TRY(copy_label(set, i, to->labels));
  CAPL_TRY(decode(set, i, source->channels, scratch));
  if (to->pixels) CAPL_TRY(copy_pixels(set, i, scratch, to->pixels));
  return source->n_fields ? read_fields(set, i, scratch, to) : CAPL_OK;
}

/* ---- looking at fields ----------------------------------------------------------------------- */

/* The set of files that a source's sample lies in; NULL = it lies elsewhere. */
static const image_set *set_of(const capl_source *source, uint32_t *i)
{
  capl_source *root = source->ops->root ? source->ops->root((capl_source *)source, i) : (capl_source *)source;
  return root->ops->read == image_set_read && *i < root->count ? (const image_set *)root : NULL;
}

typedef capl_status (*field_reader)(const file_fields *f, const file_sample *s, capl_image *scratch);

/* A mask or target image in its file's size. */
static capl_status read_one(const image_set *set, uint32_t i, field_reader read, capl_image *out)
{
  char title[TITLE_ROOM];
  held_titles held;
  encoded_bytes bytes;
  capl_image_info info;
  set->kind->title(set, i, title, sizeof title);
  CAPL_TRY(image_set_encoded((capl_source *)set, i, &bytes));
  capl_status status = capl_image_probe(bytes.at, bytes.size, title, &info);
  free(bytes.owned);
  if (status != CAPL_OK) return at_place(set, i);
  file_sample s = file_sample_of(set, i, title, info.width, info.height, &held);
  return read(&set->fields, &s, out) == CAPL_OK ? CAPL_OK : at_place(set, i);
}

capl_status capl_source_mask_counts(capl_source *source, uint32_t i, uint64_t count[256])
{
  capl_image mask = {0};
  const image_set *set = i < source->count ? set_of(source, &i) : NULL;
  if (!set || !file_fields_has_mask(&set->fields)) return CAPL_FAIL(CAPL_ESTATE, "this source has no masks in files");
  memset(count, 0, 256 * sizeof *count);
  capl_status status = read_one(set, i, file_fields_read_mask, &mask);
  size_t n = status == CAPL_OK ? (size_t)mask.width * (size_t)mask.height : 0;
  for (size_t at = 0; at < n; at++) count[mask.pixels[at]]++;
  capl_image_fini(&mask);
  return status;
}

capl_status capl_source_target_levels(capl_source *source, uint32_t i, double level[3])
{
  capl_image target = {0};
  const image_set *set = i < source->count ? set_of(source, &i) : NULL;
  if (!set || !target_files_has(&set->fields.target))
    return CAPL_FAIL(CAPL_ESTATE, "this source has no target images in files");
  capl_status status = read_one(set, i, file_fields_read_target, &target);
  size_t n = status == CAPL_OK ? (size_t)target.width * (size_t)target.height * (size_t)target.channels : 0;
  uint8_t least = 255, greatest = 0;
  uint64_t sum = 0;
  for (size_t at = 0; at < n; at++) {
    if (target.pixels[at] < least) least = target.pixels[at];
    if (target.pixels[at] > greatest) greatest = target.pixels[at];
    sum += target.pixels[at];
  }
  level[0] = least / 255.0, level[1] = greatest / 255.0, level[2] = n ? (double)sum / (double)n / 255 : 0;
  capl_image_fini(&target);
  return status;
}

const float *capl_source_numbers(const capl_source *source, int field, uint32_t i, int *rows, int *width)
{
  const image_set *set = i < source->count ? set_of(source, &i) : NULL;
  int k = set ? field - file_fields_has_mask(&set->fields) : -1;
  if (k < 0 || k >= set->fields.n_numbers) return NULL;
  *width = set->fields.numbers[k].width;
  return field_numbers_of(&set->fields.numbers[k], i, rows);
}

/* ---- as files hold them, for a database ------------------------------------------------------ */

typedef capl_status (*bytes_reader)(const file_fields *f, const file_sample *s, char title[BESIDE_ROOM],
                                    encoded_bytes *bytes);

static capl_status part_bytes(const image_set *set, uint32_t i, bytes_reader read, encoded_bytes *bytes)
{
  char title[TITLE_ROOM], path[BESIDE_ROOM];
  held_titles held;
  set->kind->title(set, i, title, sizeof title);
  file_sample s = file_sample_of(set, i, title, 0, 0, &held);
  return read(&set->fields, &s, path, bytes) == CAPL_OK ? CAPL_OK : at_place(set, i);
}

static capl_status numbers_text(const image_set *set, uint32_t i, char **json)
{
  size_t size;
  if (!set->fields.n_numbers) return CAPL_OK;
  FILE *out = open_memstream(json, &size);
  if (!out) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its numbers", set->where);
  capl_status status = file_fields_write(&set->fields, i, out);
  if (fclose(out) != 0 && status == CAPL_OK)
    status = CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its numbers", set->where);
  return status;
}

capl_status image_set_parts(capl_source *source, uint32_t i, encoded_bytes *mask, encoded_bytes *target, char **json)
{
  const image_set *set = set_of(source, &i);
  *mask = *target = (encoded_bytes){0};
  *json = NULL;
  if (!set) return CAPL_OK;
  if (file_fields_has_mask(&set->fields)) CAPL_TRY(part_bytes(set, i, file_fields_mask_bytes, mask));
  if (target_files_has(&set->fields.target)) CAPL_TRY(part_bytes(set, i, file_fields_target_bytes, target));
  return numbers_text(set, i, json);
}

/* ---- what samples depend on, for a cache ----------------------------------------------------- */

/* Name, size and time of a file; of what is none, the name alone: a folder's time says nothing of the images in it. */
static uint64_t mix_file(uint64_t h, const char *path)
{
  struct stat st;
  h = hash64_text(h, path);
  if (stat(path, &st) != 0 || S_ISDIR(st.st_mode)) return h;
  int64_t of[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
  return hash64_bytes(h, of, sizeof of);
}

/* Titles of samples are the paths of their files, unless a database holds them all. */
capl_status image_set_identity(capl_source *source, uint64_t *place, uint64_t *content)
{
  const image_set *set = (const image_set *)source;
  char path[TITLE_ROOM];
  int options[] = {source->width, source->height, source->channels, set->resize};
  const capl_letterbox *box = &source->letterbox;
  uint8_t letterbox[] = {box->top_left, box->fill[0], box->fill[1], box->fill[2]};
  *place = hash64_text(0, realpath(set->where, path) ? path : set->where);
  *place = hash64_bytes(*place, options, sizeof options);
  if (box->on) *place = hash64_bytes(*place, letterbox, sizeof letterbox);
  if (source->n_widths) *place = hash64_bytes(*place, source->widths, sizeof source->widths);
  snprintf(path, sizeof path, "%s/data.mdb", set->where);
  *content = mix_file(mix_file(*place, set->where), path);
  for (uint32_t i = 0; i < source->count; i++) {
    set->kind->title(set, i, path, sizeof path);
    *content = mix_file(*content, path);
    if (set->kind->mask) continue;
    file_sample s = file_sample_of(set, i, path, 0, 0, NULL);
    char beside[BESIDE_ROOM] = "-";
    for (uint32_t k = 0; *beside; k++) {
      CAPL_TRY(file_fields_path(&set->fields, &s, k, beside));
      if (*beside) *content = mix_file(*content, beside);
    }
  }
  *content = file_fields_hash(&set->fields, *content);
  return CAPL_OK;
}

const char *image_set_name(const capl_source *source, uint32_t i)
{
  return texts_get(&((const image_set *)source)->name, i);
}

void image_set_close(capl_source *source)
{
  image_set *set = (image_set *)source;
  if (set->kind->fini) set->kind->fini(set);
  texts_fini(&set->name);
  texts_fini(&set->label);
  file_fields_fini(&set->fields);
  free(set->px);
  free(set->where);
  free(set);
}

/* ---- opening --------------------------------------------------------------------------------- */

static capl_status set_length(image_set *set, int length_min, int length)
{
  if (length < 1 || length > CAPL_LABEL_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "%s: label length is %d; it must be 1..%d", set->where, length, CAPL_LABEL_MAX);
  if (length_min < 0 || length_min > length)
    return CAPL_FAIL(CAPL_EVALUE, "%s: label length is %d..%d; the smaller number comes first", set->where, length_min,
                     length);
  set->base.length = length;
  set->base.length_min = length_min;
  return CAPL_OK;
}

static void replace_vocab(capl_source *source, capl_vocab *vocab)
{
  capl_vocab *old = source->vocab;
  source->vocab = capl_vocab_ref(vocab);
  capl_vocab_unref(old);
}

capl_status image_set_set_labels(capl_source *source, capl_vocab *vocab, int length_min, int length)
{
  image_set *set = (image_set *)source;
  if (!set->label.at) CAPL_TRY(texts_blank(&set->label, source->count));
  CAPL_TRY(set_length(set, length_min, length));
  if (vocab) replace_vocab(source, vocab);
  return CAPL_OK;
}

/* Texts over a charset, or one class for each image. */
static capl_status set_vocab(image_set *set, const capl_folder_options *options)
{
  set->base.several = options->several;
  if (options->classes) {
    set->base.vocab = capl_vocab_ref((capl_vocab *)options->classes);
    return options->several ? set_length(set, 0, CAPL_LABEL_MAX) : set_length(set, 1, 1);
  }
  if (!options->charset) return CAPL_OK;
  CAPL_TRY(set_length(set, options->length_min ? options->length_min : options->variable,
                      options->length ? options->length : 4));
  return capl_vocab_charset(options->charset, &set->base.vocab);
}

static capl_status set_options(image_set *set, const capl_folder_options *options)
{
  capl_source *base = &set->base;
  base->width = options->width;
  base->height = options->height;
  base->channels = options->channels ? options->channels : 1;
  base->fixed = true;
  set->folding = options->folding;
  set->stop = options->stop;
  set->resize = options->resize;
  if (set->resize) base->letterbox = options->letterbox;
  bool several = options->n_widths || options->width_step;
  if (several) CAPL_TRY(image_widths_set(set, options));
  if (!several && (base->width < 0 || base->height < 0 || !base->width != !base->height)) {
    return CAPL_FAIL(CAPL_EVALUE, "%s: image size is %d x %d px; give both sides, or neither", set->where, base->width,
                     base->height);
  }
  if (base->channels != 1 && base->channels != 3)
    return CAPL_FAIL(CAPL_EVALUE, "%s: channels must be 1 or 3, not %d", set->where, base->channels);
  CAPL_TRY(file_fields_begin(&set->fields, &options->fields, set->where));
  return set_vocab(set, options);
}

capl_status image_set_new(const image_set_kind *kind, size_t size, const char *where,
                          const capl_folder_options *options, image_set **out)
{
  static const capl_folder_options defaults;
  image_set *set = calloc(1, size);
  char *copy = strdup(where);
  if (!set || !copy) {
    free(set);
    free(copy);
    return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to open it", where);
  }
  set->base.ops = &kind->ops;
  set->base.refs = 1;
  set->kind = kind;
  set->where = copy;
  capl_status status = set_options(set, options ? options : &defaults);
  if (status == CAPL_OK) *out = set;
  else capl_source_unref(&set->base);
  return status;
}

/* What a list or database gave, brought to the form that labels are kept in. */
static capl_status refold(image_set *set, uint32_t i)
{
  char *folded;
  const char *text = texts_get(&set->label, i);
  capl_status status = capl_text_normalize(text, folding_of(set), &folded);
  if (status == CAPL_EVALUE) return CAPL_OK;
  if (status == CAPL_OK && strcmp(folded, text) != 0) status = texts_set(&set->label, i, folded);
  free(folded);
  return status;
}

static capl_status size_of_first(image_set *set)
{
  if (set->base.width) return CAPL_OK;
  capl_image image = {0};
  capl_status status = decode(set, 0, 0, &image);
  set->base.width = image.width;
  set->base.height = image.height;
  capl_image_fini(&image);
  if (status != CAPL_OK) capl_error_hint("the first file sets the image size; repair it, or give width and height");
  return status;
}

capl_status image_set_settle(image_set *set)
{
  set->base.count = set->name.count;
  texts_fit(&set->name);
  texts_fit(&set->label);
  for (uint32_t i = 0; i < set->label.count; i++)
    if (texts_get(&set->label, i)) CAPL_TRY(refold(set, i));
  CAPL_TRY(set->base.n_widths || set->width_step ? image_widths_measure(set) : size_of_first(set));
  CAPL_TRY(file_fields_settle(&set->fields, &set->base, set->where));
  return set->base.length && !set->label.at ? texts_blank(&set->label, set->base.count) : CAPL_OK;
}
