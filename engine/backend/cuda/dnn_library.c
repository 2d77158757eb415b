/* dnn_library.c -- starts cuDNN: its version, its handle, and the GPU that plans on disk are for.
** SPDX-License-Identifier: Apache-2.0
*/
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn_list.h"
#include "backend/cuda/dnn_state.h"
#include "base/log.h"
#include "base/text.h"

struct dnn_state dnn_state;

dnn_statistics dnn_statistics_get(void)
{
  return dnn_state.statistics;
}

static void version_text(size_t version, char *text, size_t len)
{
  snprintf(text, len, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

const char *dnn_version(void)
{
  static char text[32];
  version_text(cudnnGetVersion(), text, sizeof text);
  return text;
}

capl_status dnn_check(void)
{
  size_t found = cudnnGetVersion();
  if (found / 10000 == DNN_LEAST / 10000 && found >= DNN_LEAST) return CAPL_OK;
  char least[32];
  version_text(DNN_LEAST, least, sizeof least);
  capl_status status = CAPL_FAIL(CAPL_EUNSUPPORTED,
                                 "device cuda is not available: cuDNN %s is installed, capl needs %s or a "
                                 "later 9.x", dnn_version(), least);
  capl_error_hint("install a newer cuDNN 9, or take it out of LD_LIBRARY_PATH if there are several");
  return status;
}

static capl_status set_scope(void)
{
  device_facts facts;
  CAPL_TRY(device_facts_get(cu.index, &facts));
  snprintf(dnn_state.scope, sizeof dnn_state.scope, "%s sm_%d, %d multiprocessors, cuDNN %s", facts.name,
           facts.capability, facts.multiprocessors, dnn_version());
  return CAPL_OK;
}

/* $CAPL_DNN_DEVICE=FILE: this GPU in cuDNN's own words, as tests/cuda/graphs/devices has them typed from data
** sheets. */
static capl_status write_description(const char *path)
{
  dnn_target gpu;
  char *json;
  CAPL_TRY(dnn_target_of_gpu(cu.index, &gpu));
  capl_status status = dnn_target_text(&gpu, &json);
  dnn_target_free(&gpu);
  if (status != CAPL_OK) return status;
  FILE *f = fopen(path, "w");
  bool ok = f && fprintf(f, "%s\n", json) > 0;
  if (f && fclose(f) != 0) ok = false;
  free(json);
  return ok ? CAPL_OK : CAPL_FAIL(CAPL_EIO, "%s cannot be written: %s", path, capl_errno_text(errno));
}

static void describe_gpu(void)
{
  const char *path = getenv("CAPL_DNN_DEVICE");
  if (path && *path && write_description(path) != CAPL_OK)
    capl_log("no description of the GPU: %s", capl_error_last()->message);
}

capl_status dnn_open(void)
{
  if (dnn_state.handle) return CAPL_OK;
  CAPL_TRY(dnn_check());
  CAPL_TRY(set_scope());
  dnn_state.listing = dnn_list_path() != NULL;
  DNN_TRY(cudnnCreate(&dnn_state.handle), "starting");
  capl_status status = dnn_status(cudnnSetStream(dnn_state.handle, cu.stream), "taking a stream");
  if (status != CAPL_OK) dnn_close();
  else describe_gpu();
  return status;
}
void dnn_close(void)
{
  dnn_table_clear();
  dnn_state.norms_timed = 0;
  dnn_state.timing_s = 0;
  if (dnn_state.handle) cudnnDestroy(dnn_state.handle);
  dnn_state.handle = NULL;
}
