/* checkpoint.h -- a tree of state in one file: its tensors as safetensors, all else as JSON text in the header.
**
** Any reader of safetensors can look in. The last tensor, "sha256" u8 (32), is the SHA-256 of every byte before it, so
** damage anywhere is found before a value is used; a checkpoint is whole or it is an error. Written while it is hashed,
** under a temporary name, fsynced, renamed: a reader sees the former file or the new one, also after a power cut.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_CHECKPOINT_H
#define CAPL_IO_CHECKPOINT_H

#include "capl/io.h"

enum { CHECKPOINT_VERSION = 1 };

/* tree: any text without NUL. Names of tensors must differ from each other and from "sha256". EIO, EVALUE, ENOMEM. */
CAPL_API capl_status checkpoint_save(const char *path, const char *tree, const capl_named_tensor *list, int n);
/* *tree: caller frees; *list: on device, caller frees with capl_named_tensors_free. EIO; EFORMAT with what is wrong:
** cut short, changed, of another version, no checkpoint. */
CAPL_API capl_status checkpoint_load(const char *path, capl_device *device, char **tree, capl_named_tensor **list,
                                     int *n);
/* checkpoint_load on len bytes; path stands for them in messages. */
CAPL_API capl_status checkpoint_parse(const char *path, const char *data, size_t len, capl_device *device, char **tree,
                                      capl_named_tensor **list, int *n);

#endif
