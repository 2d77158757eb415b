/* model_weights.h -- the weights of a model file, and the SHA-256 by which meta.json knows them.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_MODEL_WEIGHTS_H
#define CAPL_IO_MODEL_WEIGHTS_H

#include <pthread.h>
#include <sha2.h>

#include "capl/io.h"

/* The file of the weights in memory, hashed by a thread while others read it. */
typedef struct {
  char *data;
  size_t len;
  /* wanted: "" = nobody knows */
  char path[4096 + 64], found[SHA256_DIGEST_STRING_LENGTH], wanted[SHA256_DIGEST_STRING_LENGTH];
  pthread_t thread;
  bool running;
} model_weights;

/* Writes the file; hex: its hash, SHA256_DIGEST_STRING_LENGTH bytes with its NUL. */
capl_status model_weights_save(const char *path, const capl_named_tensor *list, int n, char *hex);
/* Reads folder/weights.safetensors and begins to hash it; meta: the text of the model's meta.json. */
capl_status model_weights_read(model_weights *w, const char *folder, const char *meta);
/* EFORMAT with both hashes if the file is another one than was saved. */
capl_status model_weights_check(model_weights *w);
void model_weights_free(model_weights *w);

#endif
