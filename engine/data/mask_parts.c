/* mask_parts.c -- masks in several files, one for each part of an image.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/mask_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/beside.h"
#include "data/listing.h"

enum { DEPTH_MAX = 16, WHITE = 128 };

/* Of "b/00012.jpg" 12 and its end: what images and parts are matched by. */
static const char *stem_of(const char *name, size_t *length)
{
  const char *slash = strrchr(name, '/'), *at = slash ? slash + 1 : name, *dot = strrchr(at, '.');
  size_t n = dot ? (size_t)(dot - at) : strlen(at);
  while (n > 1 && at[0] == '0' && at[1] >= '0' && at[1] <= '9') at++, n--;
  *length = n;
  return at;
}

/* ---- opening --------------------------------------------------------------------------------- */

static capl_status no_part(const mask_parts *p, const char *path)
{
  char all[512] = "";
  for (uint32_t k = 0; k < p->name.count; k++) {
    size_t used = strlen(all);
    snprintf(all + used, sizeof all - used, "%s%s", k ? ", " : "", texts_get(&p->name, k));
  }
  CAPL_FAIL(CAPL_EVALUE, "%s: its name ends in none of the %u parts", path, p->name.count);
  capl_error_hint("a file is called IMAGE_PART.png; parts of mask has, in the order of their classes: %s", all);
  return CAPL_EVALUE;
}

/* Its entry in the list: image, part, path. */
static capl_status add_file(mask_parts *p, const char *path)
{
  char text[BESIDE_ROOM + 300];
  size_t n;
  const char *stem = stem_of(path, &n);
  for (uint32_t k = 0; k < p->name.count; k++) {
    const char *part = texts_get(&p->name, k);
    size_t m = strlen(part);
    if (n < m + 2 || stem[n - m - 1] != '_' || strncmp(stem + n - m, part, m) != 0) continue;
    snprintf(text, sizeof text, "%.*s\1%03u\1%s", (int)(n - m - 1), stem, k + 1, path);
    return texts_add(&p->file, text);
  }
  return no_part(p, path);
}

static capl_status list(mask_parts *p, const char *folder, int depth)
{
  DIR *dir;
  if (depth > DEPTH_MAX) return CAPL_FAIL(CAPL_EIO, "%s: more than %d folders deep", folder, DEPTH_MAX);
  CAPL_TRY(listing_open(folder, &dir));
  capl_status status = CAPL_OK;
  for (struct dirent *entry; status == CAPL_OK && (entry = readdir(dir));) {
    char path[BESIDE_ROOM];
    const char *name = entry->d_name, *dot = strrchr(name, '.');
    if (*name == '.') continue;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
      status = CAPL_FAIL(CAPL_EIO, "%s/%s: the path is too long", folder, name);
    else if (dot && strcasecmp(dot, ".png") == 0) status = add_file(p, path);
    else if (listing_is_folder(dir, entry)) status = list(p, path, depth + 1);
  }
  closedir(dir);
  return status;
}

capl_status mask_parts_open(mask_parts *p, const capl_mask_files *of)
{
  p->root = strdup(of->root ? of->root : ".");
  if (!p->root) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the parts of masks");
  for (size_t n = strlen(p->root); n > 1 && p->root[n - 1] == '/'; n--) p->root[n - 1] = 0;
  for (int k = 0; k < of->n_parts; k++) CAPL_TRY(texts_add(&p->name, of->part[k]));
  CAPL_TRY(list(p, p->root, 0));
  texts_sort(&p->file);
  return CAPL_OK;
}

void mask_parts_fini(mask_parts *p)
{
  free(p->root);
  texts_fini(&p->name);
  texts_fini(&p->file);
  *p = (mask_parts){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Whether an entry of the list is before, at or behind those of an image. */
static int compare(const char *entry, const char *stem, size_t n)
{
  int order = strncmp(entry, stem, n);
  return order ? order : (unsigned char)entry[n] - '\1';
}

/* The k-th entry of an image. */
static const char *find(const mask_parts *p, const char *name, uint32_t k)
{
  size_t n;
  const char *stem = stem_of(name, &n);
  uint32_t lo = 0, hi = p->file.count;
  while (lo < hi) {
    uint32_t middle = lo + (hi - lo) / 2;
    if (compare(texts_get(&p->file, middle), stem, n) < 0) lo = middle + 1;
    else hi = middle;
  }
  if (lo + k >= p->file.count) return NULL;
  const char *entry = texts_get(&p->file, lo + k);
  return compare(entry, stem, n) == 0 ? entry + n + 1 : NULL;
}

const char *mask_parts_path(const mask_parts *p, const char *name, uint32_t k)
{
  const char *entry = find(p, name, k);
  return entry ? entry + 4 : NULL;
}

static capl_status check_size(const char *path, const capl_image *part, const char *first, const capl_image *mask)
{
  if (part->width == mask->width && part->height == mask->height) return CAPL_OK;
  CAPL_FAIL(CAPL_ESHAPE, "%s: the part is %d x %d px, but %s is %d x %d", path, part->width, part->height, first,
            mask->width, mask->height);
  capl_error_hint("all parts of an image have one size; that of the image may be another one");
  return CAPL_ESHAPE;
}

/* Starts with the size of the first part, all 0. */
static capl_status begin(const char *path, const capl_image *part, const char *title, int width, int height,
                         capl_image *mask)
{
  CAPL_TRY(capl_image_resize(mask, part->width, part->height, 1));
  memset(mask->pixels, 0, (size_t)part->width * (size_t)part->height);
  if (!width || (int64_t)part->width * height == (int64_t)part->height * width) return CAPL_OK;
  CAPL_FAIL(CAPL_ESHAPE, "%s: the part is %d x %d px, and its image %s is %d x %d: other proportions", path,
            part->width, part->height, title, width, height);
  capl_error_hint("parts have the proportions of their image; their size may be another one");
  return CAPL_ESHAPE;
}

static capl_status add_part(const mask_parts *p, const char *name, uint32_t k, const char *title, int width, int height,
                            capl_image *part, capl_image *mask)
{
  const char *entry = find(p, name, k), *path = entry + 4;
  CAPL_TRY(capl_png_read(path, 1, part));
  if (k == 0) CAPL_TRY(begin(path, part, title, width, height, mask));
  CAPL_TRY(check_size(path, part, mask_parts_path(p, name, 0), mask));
  uint8_t class_of = (uint8_t)atoi(entry);
  size_t n = (size_t)mask->width * (size_t)mask->height;
  for (size_t at = 0; at < n; at++)
    if (part->pixels[at] >= WHITE) mask->pixels[at] = class_of;
  return CAPL_OK;
}

capl_status mask_parts_read(const mask_parts *p, const char *name, const char *title, int width, int height,
                            capl_image *mask)
{
  capl_image part = {0};
  size_t n;
  const char *stem = stem_of(name, &n);
  if (!find(p, name, 0)) {
    CAPL_FAIL(CAPL_EIO, "%s: %s has no part of it, such as %.*s_%s.png", title, p->root, (int)n, stem,
              texts_get(&p->name, 0));
    capl_error_hint("every image has one part at least; on_error = \"skip\" of the loader leaves others out");
    return CAPL_EIO;
  }
  capl_status status = CAPL_OK;
  for (uint32_t k = 0; status == CAPL_OK && find(p, name, k); k++)
    status = add_part(p, name, k, title, width, height, &part, mask);
  capl_image_fini(&part);
  return status;
}
