/* plan_cache.h -- what took long to make, kept on disk: cuDNN's plans, compiled kernels.
**
** One file per entry in $XDG_CACHE_HOME/capl (else ~/.cache/capl): a checksum, the scope (GPU and library versions:
** what must be the same for the entry to be any good), the key, and the value. An entry that is damaged or belongs
** elsewhere is reported in one capl_log line and counts as absent; a folder that cannot be written is reported once.
** Nothing here is ever an error: whoever asks can make the value again. Knows no vendor library.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_PLAN_CACHE_H
#define CAPL_CUDA_PLAN_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* The value kept for key in this scope (texts without line breaks), with a NUL behind it, to be freed by the caller;
** NULL if there is none that is any good. kind: first part of the file's name, e.g. "plan". */
char *plan_cache_read(const char *kind, const char *scope, const char *key, size_t *len);

/* Keeps a value, replacing an older one. The file is complete or not there at all, whoever else writes. */
void plan_cache_write(const char *kind, const char *scope, const char *key, const void *value, size_t len);

/* Forgets the entry: its value passed the checksum but was of no use. */
void plan_cache_drop(const char *kind, const char *scope, const char *key, const char *why);

#endif
