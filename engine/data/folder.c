/* folder.c -- a source made of the image files below a directory.
**
** The files are listed once and sorted by path, byte by byte, so that a sample's number does not depend on
** the file system. The caller reads the names and sets the labels: only it knows the naming rule.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "data/image.h"
#include "data/image_set.h"
#include "data/listing.h"

enum { DEPTH_MAX = 32, NAME_ROOM = 4096 };

typedef struct {
  image_set set;
  char other[NAME_ROOM]; /* the path of the first image file of a kind that is not read */
  uint32_t others; /* how many there are */
} folder_source;

/* ---- reading --------------------------------------------------------------------------------- */

static void folder_title(const image_set *set, uint32_t i, char *out, size_t room)
{
  snprintf(out, room, "%s/%s", set->where, texts_get(&set->name, i));
}

static capl_status folder_encoded(const image_set *set, uint32_t i, const char *title, encoded_bytes *bytes)
{
  file_bytes file;
  if (strlen(set->where) + strlen(texts_get(&set->name, i)) + 1 >= NAME_ROOM)
    return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", title);
  CAPL_TRY(file_bytes_read(title, &file));
  *bytes = (encoded_bytes){.at = file.at, .size = file.size, .owned = file.at};
  return CAPL_OK;
}

/* ---- listing --------------------------------------------------------------------------------- */

static bool ends_in_one_of(const char *name, const char *const *endings)
{
  const char *dot = strrchr(name, '.');
  for (; dot && dot > name && *endings; endings++)
    if (strcasecmp(dot + 1, *endings) == 0) return true;
  return false;
}

static bool is_image_name(const char *name)
{
  static const char *const read[] = {"png", "jpg", "jpeg", NULL};
  return ends_in_one_of(name, read);
}

static bool is_other_image(const char *name)
{
  static const char *const other[] = {"gif", "webp", "bmp", "tif", "tiff", "avif", "heic", "jxl", "jp2", NULL};
  return ends_in_one_of(name, other);
}

static capl_status list(folder_source *f, const char *below, int depth);

/* The first one by name: folders are listed in any order. */
static void note_other(folder_source *f, const char *path)
{
  if (f->others++ == 0 || strcmp(path, f->other) < 0) snprintf(f->other, sizeof f->other, "%s", path);
}

static capl_status list_entry(folder_source *f, DIR *dir, const char *below, const struct dirent *entry, int depth)
{
  char path[NAME_ROOM];
  const char *name = entry->d_name;
  if (snprintf(path, sizeof path, "%s%s%s", below, *below ? "/" : "", name) >= (int)sizeof path) {
    return CAPL_FAIL(CAPL_EIO, "%s/%s: the path is too long", f->set.where, below);
  }
  if (file_fields_is_beside(&f->set.fields, name)) return CAPL_OK;
  if (is_image_name(name)) return texts_add(&f->set.name, path); /* whatever it is: reading says when it is no file */
  if (listing_is_folder(dir, entry)) return list(f, path, depth + 1);
  if (is_other_image(name)) note_other(f, path);
  return CAPL_OK;
}

static capl_status list(folder_source *f, const char *below, int depth)
{
  const char *where = f->set.where;
  char path[NAME_ROOM];
  if (depth > DEPTH_MAX) return CAPL_FAIL(CAPL_EIO, "%s/%s: more than %d folders deep", where, below, DEPTH_MAX);
  if (snprintf(path, sizeof path, "%s%s%s", where, *below ? "/" : "", below) >= (int)sizeof path) {
    return CAPL_FAIL(CAPL_EIO, "%s/%s: the path is too long", where, below);
  }
  DIR *dir;
  struct dirent *entry;
  CAPL_TRY(listing_open(path, &dir));
  capl_status status = CAPL_OK;
  while (status == CAPL_OK && (entry = readdir(dir))) {
    if (entry->d_name[0] != '.') status = list_entry(f, dir, below, entry, depth);
  }
  closedir(dir);
  return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static capl_status no_files(const folder_source *f)
{
  CAPL_FAIL(CAPL_EVALUE, "%s: holds no *.png, *.jpg or *.jpeg file", f->set.where);
  if (*f->other) capl_error_hint("%s is of a kind that is not read; convert such images to PNG first", f->other);
  else capl_error_hint("folders inside are searched too; other kinds of images must be converted to PNG first");
  return CAPL_EVALUE;
}

static capl_status read_beside(folder_source *f)
{
  char title[NAME_ROOM];
  for (uint32_t i = 0; i < f->set.name.count; i++) {
    if (f->set.stop && i % 256 == 0 && f->set.stop())
      return CAPL_FAIL(CAPL_EINTERRUPT, "%s: interrupted while its JSON files were read", f->set.where);
    folder_title(&f->set, i, title, sizeof title);
    CAPL_TRY(file_fields_add_beside(&f->set.fields, title));
  }
  return CAPL_OK;
}

static capl_status open_folder(folder_source *f)
{
  CAPL_TRY(list(f, "", 0));
  if (f->set.name.count == 0) return no_files(f);
  texts_sort(&f->set.name);
  if (f->set.fields.n_numbers) CAPL_TRY(read_beside(f));
  return image_set_settle(&f->set);
}

static const image_set_kind folder_kind = {
    .ops = IMAGE_SET_OPS, .opener = "data.folder", .title = folder_title, .encoded = folder_encoded};

capl_status capl_source_folder_new(const char *dir, const capl_folder_options *options, capl_source **source)
{
  image_set *set;
  if (options && options->fields.mask.column)
    return CAPL_FAIL(CAPL_EVALUE, "%s: a folder has no column %s; masks lie beside the images", dir,
                     options->fields.mask.column);
  CAPL_TRY(image_set_new(&folder_kind, sizeof(folder_source), dir, options, &set));
  capl_status status = open_folder((folder_source *)set);
  if (status == CAPL_OK) *source = &set->base;
  else capl_source_unref(&set->base);
  return status;
}

capl_status capl_source_label_beside(const capl_source *source, uint32_t i, const char *ending, const char *key,
                                     char **text)
{
  char title[NAME_ROOM];
  if (source->ops != &folder_kind.ops || i >= source->count)
    return CAPL_FAIL(CAPL_ESTATE, "only images of folders have a label beside them");
  folder_title((const image_set *)source, i, title, sizeof title);
  return beside_label(title, ending, key, source->several, text);
}

uint32_t capl_source_left_out(const capl_source *source, const char **first)
{
  *first = NULL;
  if (source->ops != &folder_kind.ops) return 0;
  const folder_source *f = (const folder_source *)source;
  if (f->others > 0) *first = f->other;
  return f->others;
}
