/* model_weights.c -- a model's weights are those that were saved: hashed when written, and again whenever they are
** read.
**
** Models of older versions have no hash in their meta.json; they are read as they are.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/model_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "io/file.h"
#include "io/meta.h"
#include "io/safetensors.h"

enum { PARALLEL = 1 << 18 }; /* bytes that are worth a thread */

capl_status model_weights_save(const char *path, const capl_named_tensor *list, int n, char *hex)
{
  SHA2_CTX hash;
  SHA256Init(&hash);
  CAPL_TRY(safetensors_save_hashed(path, list, n, &hash));
  SHA256End(&hash, hex);
  return CAPL_OK;
}

static void *hash_all(void *arg)
{
  model_weights *w = arg;
  SHA2_CTX hash;
  SHA256Init(&hash);
  SHA256Update(&hash, (const uint8_t *)w->data, w->len);
  SHA256End(&hash, w->found);
  return NULL;
}

capl_status model_weights_read(model_weights *w, const char *folder, const char *meta)
{
  *w = (model_weights){.len = 0};
  snprintf(w->path, sizeof w->path, "%s/meta.json", folder);
  CAPL_TRY(meta_weights_hash(w->path, meta, w->wanted));
  snprintf(w->path, sizeof w->path, "%s/weights.safetensors", folder);
  CAPL_TRY(safetensors_read(w->path, &w->data, &w->len));
  if (!w->wanted[0]) return CAPL_OK;
  w->running = w->len >= PARALLEL && capl_thread_start(&w->thread, "capl-hash", hash_all, w) == CAPL_OK;
  if (!w->running) hash_all(w);
  return CAPL_OK;
}

static void wait_for(model_weights *w)
{
  if (w->running) pthread_join(w->thread, NULL);
  w->running = false;
}

capl_status model_weights_check(model_weights *w)
{
  wait_for(w);
  if (!w->wanted[0] || strcmp(w->found, w->wanted) == 0) return CAPL_OK;
  CAPL_FAIL(CAPL_EFORMAT, "%s is not what was saved: its SHA-256 is %s, meta.json says %s", w->path, w->found,
            w->wanted);
  capl_error_hint("the file is damaged or was changed; copy the model again from where it came");
  return CAPL_EFORMAT;
}

void model_weights_free(model_weights *w)
{
  wait_for(w);
  free(w->data);
  w->data = NULL;
}

capl_status capl_model_weights(const char *folder, capl_device *device, capl_named_tensor **list, int *n)
{
  model_weights w;
  char path[4096 + 64], *meta = NULL;
  size_t len;
  *list = NULL;
  *n = 0;
  snprintf(path, sizeof path, "%s/meta.json", folder);
  bool alone = access(path, F_OK) != 0; /* weights that somebody put into a folder */
  if (!alone) CAPL_TRY(file_read(path, META_LIMIT, &meta, &len));
  capl_status status = model_weights_read(&w, folder, alone ? "{}" : meta);
  free(meta);
  if (status == CAPL_OK) status = safetensors_parse(w.path, w.data, w.len, device, list, n);
  if (status == CAPL_OK && (status = model_weights_check(&w)) != CAPL_OK) {
    capl_named_tensors_free(*list, *n);
    *list = NULL;
    *n = 0;
  }
  model_weights_free(&w);
  return status;
}
