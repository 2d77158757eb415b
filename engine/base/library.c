/* library.c -- parts of capl in libraries of their own, loaded when first used.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capl/error.h"

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
    /* A file that is there but cannot be loaded (it may want a library that is missing) is an error, not ignored. */
    if (access(path, F_OK) == 0) return NULL;
  }
  return NULL;
}

void library_hint(const char *why, const char *otherwise)
{
  if (strstr(why, strerror(EMFILE))) capl_error_hint("a higher limit of open files: ulimit -n 1024");
  else if (strstr(why, strerror(ENOMEM)) || strstr(why, "failed to map segment"))
    capl_error_hint("more memory, or a higher ulimit -v");
  else capl_error_hint("%s", otherwise);
}

static bool find_part(const char *name, int mode, char *path, size_t len)
{
  char folder[2048];
  own_folder(folder, sizeof folder);
  const char *first = getenv("CAPL_BACKEND_PATH");
  for (int k = first ? 0 : 1; k < 3; k++) {
    snprintf(path, len, k == 2 ? "%s/capl/%s" : "%s/%s", k == 0 ? first : folder, name);
    if (access(path, mode) == 0) return true;
  }
  return false;
}

bool library_path(const char *name, char *path, size_t len) { return find_part(name, F_OK, path, len); }
bool library_program(const char *name, char *path, size_t len) { return find_part(name, X_OK, path, len); }

void library_find(void *library, const char *entry, void *out)
{
  *(void **)out = dlsym(library, entry);
}

static capl_status load_table(const library_part *part, const void **table)
{
  char why[512] = "";
  void *library = library_open(part->file, why, sizeof why);
  if (!library) {
    CAPL_FAIL(CAPL_EUNSUPPORTED, "%s: %s", part->lost, why);
    library_hint(why, part->remedy);
    return CAPL_EUNSUPPORTED;
  }
  const void *(*entry)(void);
  library_find(library, part->entry, &entry);
  const void *found = entry ? entry() : NULL;
  if (!found || *(const int *)found != part->abi)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s: %s is of another build of capl; build both anew", part->lost, part->file);
  *table = found;
  return CAPL_OK;
}

capl_status library_table(const library_part *part, const void **table)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  capl_status status = *table ? CAPL_OK : load_table(part, table);
  pthread_mutex_unlock(&lock);
  return status;
}
