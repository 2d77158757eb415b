/* shipped.c -- finds the recipes and models that come with the program.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/shipped.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_ROOM = 64, MOST = 128 };

static bool is_kind(const char *path, mode_t kind)
{
  struct stat info;
  return stat(path, &info) == 0 && (info.st_mode & S_IFMT) == kind;
}

/* The folder of this program, without a slash at its end. */
static bool program_folder(char *path, size_t room)
{
  ssize_t n = readlink("/proc/self/exe", path, room - 1);
  if (n <= 0) return false;
  path[n] = '\0';
  char *slash = strrchr(path, '/');
  if (!slash) return false;
  *slash = '\0';
  return true;
}

/* The folder "recipes" or "models" beside the program, or the one that a variable names. */
static bool find_folder(const char *what, const char *variable, char *path, size_t room)
{
  static const char *const places[] = {"../share/capl/", "", "../"}; /* installed, build, bundle */
  const char *named = getenv(variable);
  char folder[4096];
  if (named && *named) return (size_t)snprintf(path, room, "%s", named) < room && is_kind(path, S_IFDIR);
  if (!program_folder(folder, sizeof folder)) return false;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char joined[4200], *real;
    snprintf(joined, sizeof joined, "%s/%s%s", folder, places[i], what);
    if (!is_kind(joined, S_IFDIR) || !(real = realpath(joined, NULL))) continue;
    bool fits = (size_t)snprintf(path, room, "%s", real) < room;
    free(real);
    if (fits) return true;
  }
  return false;
}

bool shipped_folder(char *path, size_t room) { return find_folder("recipes", "CAPL_RECIPES", path, room); }
bool shipped_models(char *path, size_t room) { return find_folder("models", "CAPL_MODELS", path, room); }

/* "recipes/captcha.lua" -> "captcha"; false for what no recipe here can be called. */
static bool bare_name(const char *word, char name[NAME_ROOM])
{
  if (strncmp(word, "recipes/", 8) == 0) word += 8;
  size_t n = strlen(word);
  if (n > 4 && strcmp(word + n - 4, ".lua") == 0) n -= 4;
  if (n == 0 || n >= NAME_ROOM || strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") < n)
    return false;
  memcpy(name, word, n);
  name[n] = '\0';
  return true;
}

bool shipped_find(const char *word, char *path, size_t room)
{
  char folder[4096], name[NAME_ROOM];
  if (!bare_name(word, name) || !shipped_folder(folder, sizeof folder)) return false;
  return (size_t)snprintf(path, room, "%s/%s.lua", folder, name) < room && is_kind(path, S_IFREG);
}

void shipped_suggest(capl_suggestion *s)
{
  static char names[MOST][NAME_ROOM];
  char folder[4096];
  DIR *dir = shipped_folder(folder, sizeof folder) ? opendir(folder) : NULL;
  const struct dirent *entry;
  for (int n = 0; dir && n < MOST && (entry = readdir(dir));) {
    size_t length = strlen(entry->d_name);
    if (length > 4 && strcmp(entry->d_name + length - 4, ".lua") == 0 && bare_name(entry->d_name, names[n]))
      capl_suggest(s, names[n++]);
  }
  if (dir) closedir(dir);
}
