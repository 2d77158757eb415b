/* library.c -- parts of capl in libraries of their own, loaded when first used.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Folder of this library, without a slash at the end; "." when unknown. */
static void own_folder(char *out, size_t len)
{
  Dl_info where;
  snprintf(out, len, ".");
  if (!dladdr((void *)own_folder, &where) || !where.dli_fname) return;
  snprintf(out, len, "%s", where.dli_fname);
  char *slash = strrchr(out, '/');
  if (slash) *slash = '\0';
  else snprintf(out, len, ".");
}

void *library_open(const char *name, char *why, size_t len)
{
  char folder[2048], path[4096];
  own_folder(folder, sizeof folder);
  const char *first = getenv("CAPL_BACKEND_PATH");
  for (int k = first ? 0 : 1; k < 3; k++) {
    snprintf(path, sizeof path, k == 2 ? "%s/capl/%s" : "%s/%s", k == 0 ? first : folder, name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
    if (k == 1 || access(path, F_OK) == 0) snprintf(why, len, "%s", dlerror());
    /* A file that is there but cannot be loaded (it may want a library that is missing) is told, not passed over. */
    if (access(path, F_OK) == 0) return NULL;
  }
  return NULL;
}

bool library_program(const char *name, char *path, size_t len)
{
  char folder[2048];
  own_folder(folder, sizeof folder);
  const char *first = getenv("CAPL_BACKEND_PATH");
  for (int k = first ? 0 : 1; k < 3; k++) {
    snprintf(path, len, k == 2 ? "%s/capl/%s" : "%s/%s", k == 0 ? first : folder, name);
    if (access(path, X_OK) == 0) return true;
  }
  return false;
}

void library_find(void *library, const char *entry, void *out)
{
  *(void **)out = dlsym(library, entry);
}
