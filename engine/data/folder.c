/* folder.c -- a source made of the PNG files below a directory.
**
** The files are listed once and sorted by path, byte by byte, so that a sample's number does not depend on
** the file system. The caller reads the names and sets the labels: only it knows the naming rule.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/text.h"
#include "data/fit.h"
#include "data/image.h"
#include "data/source.h"

enum { DEPTH_MAX = 32 };

typedef struct {
  capl_source base;
  char *dir;
  char **name; /* [count], below dir */
  uint32_t capacity;
  bool variable, resize;
  char **text; /* [count] labels, NULL = not set; a bad one is kept too, its error comes again when it is read */
} folder_source;

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
static capl_status outside_charset(const folder_source *s, uint32_t i, const char *text, const char *p)
{
  int bytes = capl_text_char(p), position = 1;
  for (const char *q = text; q < p; position++) q += capl_text_char(q) ? capl_text_char(q) : 1;
  char other = isupper((unsigned char)*p) ? (char)tolower((unsigned char)*p) : (char)toupper((unsigned char)*p), has[32] = "";
  if (other != *p && strchr(s->base.charset, other)) snprintf(has, sizeof has, " (it has '%c')", other);
  return CAPL_FAIL(CAPL_EVALUE, "%s/%s: label \"%s\" has '%.*s' at position %d, which is not in the charset %s%s", s->dir,
                   s->name[i], text, bytes ? bytes : 1, p, position, s->base.charset, has);
}

static capl_status encode_label(const folder_source *s, uint32_t i, const char *text, int32_t *ids)
{
  for (const char *p = text; *p; p++)
    if (!strchr(s->base.charset, *p)) return outside_charset(s, i, text, p);
  int length = (int)strlen(text), most = s->base.length;
  if (length > most || length == 0 || (length < most && !s->variable)) {
    return CAPL_FAIL(CAPL_EVALUE, "%s/%s: label \"%s\" has %d characters; expected %s%d", s->dir, s->name[i], text,
                     count_chars(text), s->variable ? "1 to " : "", most);
  }
  for (int t = 0; t < most; t++) ids[t] = t < length ? (int32_t)(strchr(s->base.charset, text[t]) - s->base.charset) : -1;
  return CAPL_OK;
}

static capl_status folder_set_label(capl_source *source, uint32_t i, const char *text)
{
  folder_source *s = (folder_source *)source;
  if (source->length == 0) return CAPL_FAIL(CAPL_ESTATE, "%s: labels need a charset; this folder was opened without one", s->dir);
  char *copy = strdup(text);
  if (!copy) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the label of %s", s->name[i]);
  free(s->text[i]);
  s->text[i] = copy;
  int32_t ids[CAPL_LABEL_MAX];
  return encode_label(s, i, text, ids);
}

static capl_status copy_label(const folder_source *s, uint32_t i, int32_t *labels)
{
  if (!s->text[i]) return CAPL_FAIL(CAPL_ESTATE, "%s/%s: has no label", s->dir, s->name[i]);
  return encode_label(s, i, s->text[i], labels);
}

/* ---- reading --------------------------------------------------------------------------------- */

static capl_status read_file(const folder_source *s, uint32_t i, int channels, capl_image *image)
{
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/%s", s->dir, s->name[i]);
  if (length >= (int)sizeof path) return CAPL_FAIL(CAPL_EIO, "%s/%s: the path is too long", s->dir, s->name[i]);
  return capl_image_read(path, channels, image);
}

static capl_status wrong_size(const folder_source *s, uint32_t id, const capl_image *image)
{
  CAPL_FAIL(CAPL_ESHAPE, "%s/%s: the image is %d x %d px; expected %d x %d", s->dir, s->name[id], image->width, image->height,
            s->base.width, s->base.height);
  capl_error_hint("resize = true of data.folder stretches every image; on_error = \"skip\" of the loader leaves the file out");
  return CAPL_ESHAPE;
}

static capl_status folder_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  folder_source *s = (folder_source *)source;
  uint32_t id = what->id;
  if (to->labels && source->length > 0) CAPL_TRY(copy_label(s, id, to->labels));
  CAPL_TRY(read_file(s, id, source->channels, scratch));
  if (!s->resize && (scratch->width != source->width || scratch->height != source->height)) return wrong_size(s, id, scratch);
  if (fit_image(scratch->pixels, scratch->width, scratch->height, source->channels, source->width, source->height, to->pixels) == CAPL_OK)
    return CAPL_OK;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(e.code, "%s/%s: %s", s->dir, s->name[id], e.message);
}

static const char *folder_name(const capl_source *source, uint32_t i)
{
  return ((const folder_source *)source)->name[i];
}

static void folder_close(capl_source *source)
{
  folder_source *s = (folder_source *)source;
  for (uint32_t i = 0; i < source->count; i++) {
    free(s->name[i]);
    if (s->text) free(s->text[i]);
  }
  free(s->name);
  free(s->text);
  free(s->dir);
  free(s);
}

/* ---- listing --------------------------------------------------------------------------------- */

static bool is_png_name(const char *name)
{
  size_t length = strlen(name);
  return name[0] != '.' && length > 4 && strcasecmp(name + length - 4, ".png") == 0;
}

static capl_status add_name(folder_source *s, const char *name)
{
  if (s->base.count == s->capacity) {
    uint32_t capacity = s->capacity ? 2 * s->capacity : 256;
    char **grown = realloc(s->name, capacity * sizeof *grown);
    if (!grown) return CAPL_FAIL(CAPL_ENOMEM, "no memory to list %s", s->dir);
    s->name = grown;
    s->capacity = capacity;
  }
  char *copy = strdup(name);
  if (!copy) return CAPL_FAIL(CAPL_ENOMEM, "no memory to list %s", s->dir);
  s->name[s->base.count++] = copy;
  return CAPL_OK;
}

static capl_status list(folder_source *s, const char *below, int depth);

/* Links to files are followed, links to folders are not: they may lead back up. */
static capl_status list_entry(folder_source *s, DIR *dir, const char *below, const char *entry, int depth)
{
  char path[4096];
  if (snprintf(path, sizeof path, "%s%s%s", below, *below ? "/" : "", entry) >= (int)sizeof path) {
    return CAPL_FAIL(CAPL_EIO, "%s/%s: the path is too long", s->dir, below);
  }
  struct stat st;
  if (fstatat(dirfd(dir), entry, &st, AT_SYMLINK_NOFOLLOW) != 0) return CAPL_OK; /* gone since it was listed */
  if (is_png_name(entry)) return add_name(s, path); /* whatever it is: reading says when it is no file */
  return S_ISDIR(st.st_mode) ? list(s, path, depth + 1) : CAPL_OK;
}

static capl_status cannot_list(const char *path)
{
  bool missing = errno == ENOENT;
  CAPL_FAIL(CAPL_EIO, "%s: cannot be listed: %s", path, capl_errno_text(errno));
  if (missing && *path != '/') capl_error_hint("the path starts at the folder in which capl was started");
  return CAPL_EIO;
}

static capl_status list(folder_source *s, const char *below, int depth)
{
  char path[4096];
  if (depth > DEPTH_MAX) return CAPL_FAIL(CAPL_EIO, "%s/%s: more than %d folders deep", s->dir, below, DEPTH_MAX);
  if (snprintf(path, sizeof path, "%s%s%s", s->dir, *below ? "/" : "", below) >= (int)sizeof path) {
    return CAPL_FAIL(CAPL_EIO, "%s/%s: the path is too long", s->dir, below);
  }
  DIR *dir = opendir(path);
  if (!dir) return cannot_list(path);
  capl_status status = CAPL_OK;
  struct dirent *entry;
  while (status == CAPL_OK && (entry = readdir(dir))) {
    if (entry->d_name[0] != '.') status = list_entry(s, dir, below, entry->d_name, depth);
  }
  closedir(dir);
  return status;
}

static int by_bytes(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- opening --------------------------------------------------------------------------------- */

static capl_status set_options(folder_source *s, const capl_folder_options *options)
{
  capl_source *base = &s->base;
  base->width = options->width;
  base->height = options->height;
  base->channels = options->channels ? options->channels : 1;
  base->fixed = true;
  s->variable = options->variable;
  s->resize = options->resize;
  if (base->width < 0 || base->height < 0 || !base->width != !base->height) {
    return CAPL_FAIL(CAPL_EVALUE, "%s: image size is %d x %d px; give both sides, or neither", s->dir, base->width, base->height);
  }
  if (base->channels != 1 && base->channels != 3) return CAPL_FAIL(CAPL_EVALUE, "%s: channels must be 1 or 3, not %d", s->dir, base->channels);
  if (!options->charset) return CAPL_OK;
  base->length = options->length ? options->length : 4;
  if (base->length < 1 || base->length > CAPL_LABEL_MAX) {
    return CAPL_FAIL(CAPL_EVALUE, "%s: label length is %d; it must be 1..%d", s->dir, base->length, CAPL_LABEL_MAX);
  }
  return capl_charset_expand(options->charset, base->charset);
}

static capl_status size_of_first(folder_source *s)
{
  if (s->base.width) return CAPL_OK;
  capl_image image = {0};
  capl_status status = read_file(s, 0, 0, &image);
  s->base.width = image.width;
  s->base.height = image.height;
  capl_image_fini(&image);
  if (status != CAPL_OK) capl_error_hint("the first file sets the image size; repair it, or give width and height");
  return status;
}

static capl_status no_files(const char *dir)
{
  CAPL_FAIL(CAPL_EVALUE, "%s: holds no *.png file", dir);
  capl_error_hint("folders inside are searched too; other kinds of images must be converted to PNG first");
  return CAPL_EVALUE;
}

static capl_status open_folder(folder_source *s, const char *dir, const capl_folder_options *options)
{
  s->dir = strdup(dir);
  if (!s->dir) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a folder source");
  CAPL_TRY(set_options(s, options));
  CAPL_TRY(list(s, "", 0));
  if (s->base.count == 0) return no_files(dir);
  qsort(s->name, s->base.count, sizeof *s->name, by_bytes);
  CAPL_TRY(size_of_first(s));
  if (s->base.length == 0) return CAPL_OK;
  s->text = calloc(s->base.count, sizeof *s->text);
  return s->text ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for the labels of %s", dir);
}

capl_status capl_source_folder_new(const char *dir, const capl_folder_options *options, capl_source **source)
{
  static const capl_source_ops ops = {folder_read, folder_close, folder_name, folder_set_label};
  static const capl_folder_options defaults;
  folder_source *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a folder source");
  s->base.ops = &ops;
  s->base.refs = 1;
  capl_status status = open_folder(s, dir, options ? options : &defaults);
  if (status == CAPL_OK) {
    *source = &s->base;
  } else {
    folder_close(&s->base);
  }
  return status;
}
