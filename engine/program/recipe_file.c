/* recipe_file.c -- a recipe's text, read once and held against the hash that it was asked for by.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/recipe_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sha256.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECIPE_BYTES = 16 << 20, DIGITS = 64 }; /* far more than anybody writes; a data file given by mistake has more */
static const char MARK[] = "#sha256=", OWN_MARK[] = "#bytes=";

/* ---- the word -------------------------------------------------------------------------------- */

/* Where the path ends, NULL = at the end of the word. */
static const char *find_mark(const char *word)
{
  const char *mark = strstr(word, MARK);
  return mark ? mark : strstr(word, OWN_MARK);
}

bool capl_recipe_is_pinned(const char *word) { return find_mark(word) != NULL; }

const char *capl_recipe_path(const char *word)
{
  const char *mark = find_mark(word);
  return mark ? strndup(word, (size_t)(mark - word)) : word;
}

static capl_status check_digits(const char *word, const char *digits)
{
  size_t n = strspn(digits, "0123456789abcdefABCDEF");
  if (digits[n])
    return CAPL_FAIL(CAPL_EVALUE, "%s: #sha256= is followed by %d hexadecimal digits, not '%c'", word, DIGITS,
                     isprint((unsigned char)digits[n]) ? digits[n] : '?');
  if (n == DIGITS) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "%s: the hash has %zu digits of %d", word, n, DIGITS);
  capl_error_hint("a part of a hash is not secure: another text with the same prefix can be constructed; capl recipe "
                  "info FILE prints the whole hash");
  return CAPL_EVALUE;
}

static capl_status check_hash(const char *word, capl_recipe_file *file)
{
  const char *mark = find_mark(word);
  if (!mark) return CAPL_OK;
  const char *digits = strchr(mark, '=') + 1;
  CAPL_TRY(check_digits(word, digits));
  file->pinned = strncmp(mark, MARK, sizeof MARK - 1) == 0;
  if (strcasecmp(digits, file->sha256) == 0) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "%s is not the recipe that was asked for; nothing of it was run", file->path);
  capl_error_context("asked for  sha256 %s\nthe file   sha256 %s", digits, file->sha256);
  capl_error_hint("get the matching file from the source of the hash, or read this file before you run it without "
                  "the hash");
  return CAPL_EVALUE;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* A recipe is read as a whole: pipes and devices cannot be one. Asked before the file is opened, which a pipe would
** answer only when somebody writes. */
static capl_status need_text_file(const char *path, const struct stat *info)
{
  if (S_ISDIR(info->st_mode)) return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: it is a folder", path);
  if (!S_ISREG(info->st_mode))
    return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: it is a pipe or a device, not a file", path);
  if (info->st_size > RECIPE_BYTES)
    return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: it has %lld bytes, a recipe is a text of at most %d", path,
                     (long long)info->st_size, RECIPE_BYTES);
  return CAPL_OK;
}

static capl_status cannot_read(const char *path, int why)
{
  return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: %s", path, strerror(why));
}

/* All bytes of fd, up to one more than a recipe may have: it may grow meanwhile. */
static capl_status read_all(int fd, size_t room, capl_recipe_file *file)
{
  char *text = malloc(room + 1);
  if (!text) return CAPL_FAIL(CAPL_ENOMEM, "no memory for recipe %s", file->path);
  size_t n = 0;
  for (ssize_t got; n < room && (got = read(fd, text + n, room - n)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return free(text), cannot_read(file->path, errno);
    n += (size_t)got;
  }
  text[n] = '\0';
  file->text = text;
  file->size = n;
  return CAPL_OK;
}

static capl_status read_open(int fd, capl_recipe_file *file)
{
  struct stat info;
  if (fstat(fd, &info) != 0) return cannot_read(file->path, errno);
  CAPL_TRY(need_text_file(file->path, &info));
  CAPL_TRY(read_all(fd, (size_t)info.st_size + 1, file));
  if (file->size <= (size_t)info.st_size) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "cannot read recipe %s: it grows while it is read", file->path);
}

capl_status capl_recipe_file_read(const char *word, capl_recipe_file *file)
{
  struct stat info;
  *file = (capl_recipe_file){.path = capl_recipe_path(word)};
  if (!file->path) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the name of a recipe");
  if (stat(file->path, &info) != 0) return cannot_read(file->path, errno);
  CAPL_TRY(need_text_file(file->path, &info));
  int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cannot_read(file->path, errno);
  capl_status status = read_open(fd, file);
  close(fd);
  CAPL_TRY(status);
  SHA256Data((const uint8_t *)file->text, file->size, file->sha256);
  return check_hash(word, file);
}
