/* model.c -- the model file: a folder with weights, graph and what the recipe says of them.
** SPDX-License-Identifier: Apache-2.0
*/
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "io/file.h"
#include "io/golden.h"
#include "io/graph.h"
#include "io/meta.h"
#include "io/model_weights.h"
#include "io/safetensors.h"

enum { PATH_ROOM = 4096 };

static const char *const members[] = {"weights.safetensors", "graph.json", "meta.json"};
enum { MEMBERS = sizeof members / sizeof *members };

static const char *member_path(const char *folder, const char *name, char *buf)
{
  snprintf(buf, PATH_ROOM + 64, "%s/%s", folder, name);
  return buf;
}

static void remove_folder(const char *folder)
{
  char path[PATH_ROOM + 64];
  for (int k = 0; k < MEMBERS; k++) unlink(member_path(folder, members[k], path));
  golden_remove(folder);
  rmdir(folder);
}

static capl_status write_members(const char *folder, const capl_graph *graph, const char *meta_json,
                                 const capl_golden *golden)
{
  char path[PATH_ROOM + 64], hash[SHA256_DIGEST_STRING_LENGTH], *text, *meta;
  CAPL_TRY(model_weights_save(member_path(folder, members[0], path), graph->weights, graph->n_weights, hash));
  CAPL_TRY(graph_to_json(graph, &text));
  capl_status status = file_write(member_path(folder, members[1], path), text, strlen(text));
  free(text);
  CAPL_TRY(status);
  CAPL_TRY(meta_with_hash(meta_json, hash, &meta));
  status = file_write(member_path(folder, members[2], path), meta, strlen(meta));
  free(meta);
  CAPL_TRY(status);
  return golden ? golden_write(folder, golden, graph->n_widths > 0) : CAPL_OK;
}

static bool is_model(const char *folder)
{
  char path[PATH_ROOM + 64];
  return access(member_path(folder, members[1], path), F_OK) == 0;
}

/* Where the file system cannot exchange two folders (network and some container ones), the older model steps aside
** for a moment; it comes back if the new one cannot take its place. */
static bool swap_in_turn(const char *temporary, const char *path)
{
  char aside[PATH_ROOM + 8];
  snprintf(aside, sizeof aside, "%s.old", temporary);
  if (rename(path, aside) != 0) return false;
  if (rename(temporary, path) != 0) {
    int cause = errno;
    if (rename(aside, path) == 0) errno = cause;
    return false;
  }
  remove_folder(aside);
  return true;
}

/* Puts the finished folder in place of an older one, in one step if the file system can. */
static capl_status put_in_place(const char *temporary, const char *path)
{
  if (rename(temporary, path) == 0) return CAPL_OK;
  bool taken = errno == EEXIST || errno == ENOTEMPTY;
  if (taken && !is_model(path))
    return CAPL_FAIL(CAPL_EIO, "cannot put the model in place: %s is a folder with other things in it", path);
  if (taken && syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
    remove_folder(temporary); /* now the older one */
    return CAPL_OK;
  }
  bool unable = errno == EINVAL || errno == ENOSYS;
  if (taken && unable && swap_in_turn(temporary, path)) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "cannot put %s in place: %s", path, capl_errno_text(errno));
}

static capl_status save_stamped(const char *path, const capl_graph *graph, const char *meta_json,
                                const capl_golden *golden)
{
  char clean[PATH_ROOM - 32], temporary[PATH_ROOM];
  size_t len = strlen(path);
  while (len > 1 && path[len - 1] == '/') len--;
  if (len == 0 || len >= sizeof clean) return CAPL_FAIL(CAPL_EIO, "'%.40s' is no usable path for a model", path);
  snprintf(clean, sizeof clean, "%.*s", (int)len, path);
  snprintf(temporary, sizeof temporary, "%s.tmp%ld", clean, (long)getpid());
  remove_folder(temporary);
  if (mkdir(temporary, 0777) != 0) return CAPL_FAIL(CAPL_EIO, "cannot make %s: %s", temporary, capl_errno_text(errno));
  capl_status status = write_members(temporary, graph, meta_json, golden);
  if (status == CAPL_OK) status = put_in_place(temporary, clean);
  if (status != CAPL_OK) remove_folder(temporary);
  return status;
}

capl_status capl_model_save(const char *path, const capl_graph *graph, const char *meta_json, const capl_golden *golden)
{
  char *stamped;
  CAPL_TRY(meta_stamp(meta_json, &stamped));
  capl_status status = save_stamped(path, graph, stamped, golden);
  free(stamped);
  return status;
}

static capl_status read_graph(const char *folder, const model_weights *w, capl_device *device, capl_graph **graph)
{
  char path[PATH_ROOM + 64], *text;
  size_t len;
  capl_named_tensor *list;
  int n;
  CAPL_TRY(safetensors_parse(w->path, w->data, w->len, device, &list, &n));
  capl_status status = file_read(member_path(folder, members[1], path), META_LIMIT, &text, &len);
  if (status == CAPL_OK) {
    status = graph_from_json(path, text, list, n, graph);
    free(text);
  }
  capl_named_tensors_free(list, n);
  return status;
}

/* The hash comes last: what is wrong with the form of a file says more than that it is another one. */
static capl_status load_graph(const char *folder, const char *meta, capl_device *device, capl_graph **graph)
{
  model_weights w;
  capl_status status = model_weights_read(&w, folder, meta);
  if (status == CAPL_OK) status = read_graph(folder, &w, device, graph);
  if (status == CAPL_OK && (status = model_weights_check(&w)) != CAPL_OK) {
    capl_graph_free(*graph);
    *graph = NULL;
  }
  model_weights_free(&w);
  return status;
}

/* A run's folder is easily taken for its model. */
static capl_status no_meta(const char *path)
{
  char inner[PATH_ROOM + 64];
  capl_error e = *capl_error_last();
  if (access(member_path(path, "best.capl", inner), F_OK) != 0) return e.code;
  CAPL_FAIL(CAPL_EFORMAT, "%s is a folder with a model in it, not a model", path);
  capl_error_hint("name the model: %s", inner);
  return CAPL_EFORMAT;
}

capl_status capl_model_load(const char *path, capl_device *device, capl_graph **graph, char **meta_json)
{
  struct stat st;
  char member[PATH_ROOM + 64];
  *graph = NULL;
  *meta_json = NULL;
  if (strlen(path) >= PATH_ROOM) return CAPL_FAIL(CAPL_EIO, "the path %.40s… is too long", path);
  if (stat(path, &st) != 0) return CAPL_FAIL(CAPL_EIO, "cannot open the model %s: %s", path, capl_errno_text(errno));
  if (!S_ISDIR(st.st_mode)) {
    CAPL_FAIL(CAPL_EFORMAT, "%s is a file; a capl model is a folder with weights.safetensors, graph.json and meta.json",
              path);
    return CAPL_EFORMAT;
  }
  size_t len;
  if (file_read(member_path(path, members[2], member), META_LIMIT, meta_json, &len) != CAPL_OK) return no_meta(path);
  capl_status status = meta_check_version(member, *meta_json);
  if (status == CAPL_OK) status = load_graph(path, *meta_json, device, graph);
  if (status == CAPL_OK) return CAPL_OK;
  free(*meta_json);
  *meta_json = NULL;
  return status;
}
