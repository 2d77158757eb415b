/* image_set.c -- what folders, list files and databases of images share.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/image_set.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "data/fit.h"
#include "data/image.h"
#include "data/mix.h"
#include "data/widths.h"

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

static int count_chars(const char *text)
{
  int n = 0;
  for (; *text; n++) {
    int bytes = capl_text_char(text);
    text += bytes ? bytes : 1;
  }
  return n;
}

/* The character at p is none of the charset. Letters of the other case are the commonest such mistake. */
static capl_status outside_charset(const image_set *set, uint32_t i, const char *text, const char *p)
{
  char title[TITLE_ROOM], has[32] = "";
  int bytes = capl_text_char(p), position = 1;
  for (const char *q = text; q < p; position++) q += capl_text_char(q) ? capl_text_char(q) : 1;
  char other = isupper((unsigned char)*p) ? (char)tolower((unsigned char)*p) : (char)toupper((unsigned char)*p);
  if (other != *p && strchr(set->base.charset, other)) snprintf(has, sizeof has, " (it has '%c')", other);
  return CAPL_FAIL(CAPL_EVALUE, "%s: label \"%s\" has '%.*s' at position %d, which is not in the charset %s%s", whole_title(set, i, title), text,
                   bytes ? bytes : 1, p, position, set->base.charset, has);
}

static capl_status wrong_length(const image_set *set, uint32_t i, const char *text)
{
  char title[TITLE_ROOM], least[24] = "";
  int shortest = capl_source_length_min(&set->base);
  if (shortest < set->base.length) snprintf(least, sizeof least, "%d to ", shortest);
  if (!*text) return CAPL_FAIL(CAPL_EVALUE, "%s: its label is empty; expected %s%d characters", whole_title(set, i, title), least, set->base.length);
  return CAPL_FAIL(CAPL_EVALUE, "%s: label \"%s\" has %d characters; expected %s%d", whole_title(set, i, title), text, count_chars(text),
                   least, set->base.length);
}

static capl_status encode_label(const image_set *set, uint32_t i, const char *text, int32_t *ids)
{
  const char *charset = set->base.charset;
  for (const char *p = text; *p; p++)
    if (!strchr(charset, *p)) return outside_charset(set, i, text, p);
  int length = (int)strlen(text), most = set->base.length;
  if (length > most || length == 0 || length < capl_source_length_min(&set->base)) return wrong_length(set, i, text);
  for (int t = 0; t < most; t++) ids[t] = t < length ? (int32_t)(strchr(charset, text[t]) - charset) : -1;
  return CAPL_OK;
}

capl_status image_set_set_label(capl_source *source, uint32_t i, const char *text)
{
  image_set *set = (image_set *)source;
  if (source->length == 0)
    return CAPL_FAIL(CAPL_ESTATE, "%s: labels need a charset; %s was called without one", set->where, set->kind->opener);
  CAPL_TRY(texts_set(&set->label, i, text));
  texts_fold(&set->label, i, set->letters);
  int32_t ids[CAPL_LABEL_MAX];
  return encode_label(set, i, texts_get(&set->label, i), ids);
}

capl_status image_set_set_text(capl_source *source, uint32_t i, const char *text)
{
  image_set *set = (image_set *)source;
  if (!set->label.at) CAPL_TRY(texts_blank(&set->label, source->count));
  CAPL_TRY(texts_set(&set->label, i, text));
  texts_fold(&set->label, i, set->letters);
  return CAPL_OK;
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
  CAPL_FAIL(CAPL_ESHAPE, "%s: the image is %d x %d px; expected %d x %d", whole_title(set, i, title), image->width, image->height,
            set->base.width, set->base.height);
  capl_error_hint("resize = true of %s stretches every image; on_error = \"skip\" of the loader leaves the file out", set->kind->opener);
  return CAPL_ESHAPE;
}

/* fit_image does not know whose image it is. */
static capl_status cannot_fit(const image_set *set, uint32_t i)
{
  capl_error e = *capl_error_last();
  char title[TITLE_ROOM];
  return CAPL_FAIL(e.code, "%s: %s", whole_title(set, i, title), e.message);
}

capl_status image_set_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  const image_set *set = (const image_set *)source;
  uint32_t i = what->id;
  if (to->labels && source->length > 0) CAPL_TRY(copy_label(set, i, to->labels));
  CAPL_TRY(decode(set, i, source->channels, scratch));
  capl_status status;
  if (source->n_widths) {
    int used, width = capl_source_width_of(source, i);
    fit_choose(scratch->width, scratch->height, source->height, &width, 1, &used);
    status = fit_padded(scratch->pixels, scratch->width, scratch->height, source->channels, used, width, source->height, to->pixels);
    return status == CAPL_OK ? status : cannot_fit(set, i);
  }
  if (!set->resize && (scratch->width != source->width || scratch->height != source->height)) return wrong_size(set, i, scratch);
  status = fit_image(scratch->pixels, scratch->width, scratch->height, source->channels, source->width, source->height, to->pixels);
  return status == CAPL_OK ? status : cannot_fit(set, i);
}

/* ---- what samples depend on, for a cache ----------------------------------------------------- */

/* Name, size and time of a file; of what is none, the name alone: a folder's time says nothing of the images in it. */
static uint64_t mix_file(uint64_t h, const char *path)
{
  struct stat st;
  h = mix_text(h, path);
  if (stat(path, &st) != 0 || S_ISDIR(st.st_mode)) return h;
  int64_t of[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
  return mix_bytes(h, of, sizeof of);
}

/* Titles of samples are the paths of their files, unless a database holds them all. */
capl_status image_set_identity(capl_source *source, uint64_t *place, uint64_t *content)
{
  const image_set *set = (const image_set *)source;
  char path[TITLE_ROOM];
  int options[] = {source->width, source->height, source->channels, set->resize};
  *place = mix_text(0, realpath(set->where, path) ? path : set->where);
  *place = mix_bytes(*place, options, sizeof options);
  if (source->n_widths) *place = mix_bytes(*place, source->widths, sizeof source->widths);
  snprintf(path, sizeof path, "%s/data.mdb", set->where);
  *content = mix_file(mix_file(*place, set->where), path);
  for (uint32_t i = 0; i < source->count; i++) {
    set->kind->title(set, i, path, sizeof path);
    *content = mix_file(*content, path);
  }
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
    return CAPL_FAIL(CAPL_EVALUE, "%s: label length is %d..%d; the smaller number comes first", set->where, length_min, length);
  set->base.length = length;
  set->base.length_min = length_min;
  return CAPL_OK;
}

capl_status image_set_set_labels(capl_source *source, const char *charset, int length_min, int length)
{
  image_set *set = (image_set *)source;
  char expanded[CAPL_CHARSET_MAX + 1];
  if (charset) CAPL_TRY(capl_charset_expand(charset, expanded));
  if (!set->label.at) CAPL_TRY(texts_blank(&set->label, source->count));
  CAPL_TRY(set_length(set, length_min, length));
  if (charset) memcpy(source->charset, expanded, sizeof expanded);
  return CAPL_OK;
}

/* ---- several widths -------------------------------------------------------------------------- */

int image_set_width_of(const capl_source *source, uint32_t i)
{
  return widths_find(source->widths, source->n_widths, ((const image_set *)source)->px[i]);
}

int image_set_used(const capl_source *source, const capl_read *what)
{
  int px = ((const image_set *)source)->px[what->id], room = capl_source_width_of(source, what->id);
  return px < room ? px : room;
}

uint32_t capl_source_squeezed(const capl_source *source, uint32_t *id, int *px)
{
  if (!source->n_widths || source->ops->used != image_set_used) return 0;
  const image_set *set = (const image_set *)source;
  *id = set->widest;
  *px = set->squeezed ? set->px[set->widest] : 0;
  return set->squeezed;
}

static capl_status check_widths(const image_set *set, const capl_folder_options *o)
{
  if (!o->height || o->width || o->resize) {
    CAPL_FAIL(CAPL_EVALUE, "%s: widths go with a height, and without width and resize", set->where);
    capl_error_hint("images keep their proportions: height = 60, widths = \"auto\"");
    return CAPL_EVALUE;
  }
  for (int k = 0; k < o->n_widths; k++) {
    if (o->widths[k] < 1 || o->widths[k] > WIDTHS_PX_MAX || (k > 0 && o->widths[k] <= o->widths[k - 1]))
      return CAPL_FAIL(CAPL_EVALUE, "%s: widths are 1..%d px in ascending order, not %d", set->where, WIDTHS_PX_MAX, o->widths[k]);
  }
  return CAPL_OK;
}

static capl_status set_widths(image_set *set, const capl_folder_options *o)
{
  CAPL_TRY(check_widths(set, o));
  set->base.height = o->height;
  set->base.n_widths = o->n_widths;
  memcpy(set->base.widths, o->widths, sizeof set->base.widths);
  set->width_step = o->width_step;
  set->stop = o->stop;
  return CAPL_OK;
}

/* px that image i would be at the set's height; 0 = its header cannot be read. */
static int px_of(const image_set *set, const capl_scan *scan, uint32_t i)
{
  const capl_file_facts *f = capl_scan_facts(scan, i);
  return f->format ? widths_scaled(f->width, f->height, set->base.height) : 0;
}

/* The width that most images have: files that cannot be read go there, where there are others to stand in for them. */
static int commonest_width(const image_set *set)
{
  const capl_source *base = &set->base;
  uint32_t n[CAPL_WIDTHS_MAX] = {0};
  int most = 0;
  for (uint32_t i = 0; i < base->count; i++)
    if (set->px[i]) n[image_set_width_of(base, i)]++;
  for (int k = 1; k < base->n_widths; k++)
    if (n[k] > n[most]) most = k;
  return base->widths[most];
}

static capl_status find_widths(image_set *set)
{
  capl_source *base = &set->base;
  int *px = malloc((base->count + 1) * sizeof *px);
  uint32_t n = 0;
  if (!px) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to find the widths of its images", set->where);
  for (uint32_t i = 0; i < base->count; i++)
    if (set->px[i]) px[n++] = set->px[i];
  base->n_widths = n ? widths_choose(px, n, set->width_step, base->widths) : 0;
  free(px);
  if (base->n_widths) return CAPL_OK;
  return n ? CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to find the widths of its images", set->where)
           : CAPL_FAIL(CAPL_EFORMAT, "%s: none of its %u images can be read", set->where, base->count);
}

static void sort_in(image_set *set)
{
  capl_source *base = &set->base;
  int usual = commonest_width(set);
  base->width = base->widths[base->n_widths - 1];
  for (uint32_t i = 0; i < base->count; i++) {
    if (!set->px[i]) set->px[i] = (uint16_t)usual;
    if (set->px[i] > base->width) set->squeezed++;
    if (set->px[i] > set->px[set->widest]) set->widest = i;
  }
}

static capl_status measure(image_set *set)
{
  enum { THREADS = 4 };
  capl_source *base = &set->base;
  capl_scan *scan = NULL;
  set->px = calloc(base->count + 1, sizeof *set->px);
  if (!set->px) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to find the widths of its images", set->where);
  CAPL_TRY(capl_scan_new(base, false, THREADS, set->stop, &scan));
  for (uint32_t i = 0; i < base->count; i++) set->px[i] = (uint16_t)px_of(set, scan, i);
  capl_scan_free(scan);
  if (set->width_step) CAPL_TRY(find_widths(set));
  sort_in(set);
  return CAPL_OK;
}

static capl_status set_options(image_set *set, const capl_folder_options *options)
{
  capl_source *base = &set->base;
  base->width = options->width;
  base->height = options->height;
  base->channels = options->channels ? options->channels : 1;
  base->fixed = true;
  set->letters = options->letters;
  set->resize = options->resize;
  bool several = options->n_widths || options->width_step;
  if (several) CAPL_TRY(set_widths(set, options));
  if (!several && (base->width < 0 || base->height < 0 || !base->width != !base->height)) {
    return CAPL_FAIL(CAPL_EVALUE, "%s: image size is %d x %d px; give both sides, or neither", set->where, base->width, base->height);
  }
  if (base->channels != 1 && base->channels != 3) return CAPL_FAIL(CAPL_EVALUE, "%s: channels must be 1 or 3, not %d", set->where, base->channels);
  if (!options->charset) return CAPL_OK;
  CAPL_TRY(set_length(set, options->length_min ? options->length_min : options->variable, options->length ? options->length : 4));
  return capl_charset_expand(options->charset, base->charset);
}

capl_status image_set_new(const image_set_kind *kind, size_t size, const char *where, const capl_folder_options *options, image_set **out)
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
  else image_set_close(&set->base);
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
  for (uint32_t i = 0; i < set->label.count; i++) texts_fold(&set->label, i, set->letters);
  CAPL_TRY(set->base.n_widths || set->width_step ? measure(set) : size_of_first(set));
  return set->base.length && !set->label.at ? texts_blank(&set->label, set->base.count) : CAPL_OK;
}
