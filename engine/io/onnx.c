/* onnx.c -- writes ONNX files; their contents come from libcapl_proto.so.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx.h"

#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "io/file.h"

static capl_status open_packing(const onnx_packing **out)
{
  static const library_part part = {"libcapl_proto.so", "onnx_packing_entry", ONNX_ABI,
                                    "ONNX files cannot be written here", "install the Debian package libprotobuf-c1"};
  static const void *packing;
  capl_status status = library_table(&part, &packing);
  *out = packing;
  return status;
}

static capl_status save(const char *path, onnx_file *file)
{
  capl_status status = file_write(path, file->bytes, file->n_bytes);
  free(file->bytes);
  file->bytes = NULL;
  return status;
}

capl_status onnx_save_model(const char *model, const char *path, const char *charset_path, onnx_file *file)
{
  const onnx_packing *packing;
  *file = (onnx_file){0};
  CAPL_TRY(open_packing(&packing));
  CAPL_TRY(packing->model(model, charset_path != NULL, file));
  capl_status status = save(path, file);
  if (status == CAPL_OK && charset_path) status = file_write(charset_path, file->charset, strlen(file->charset));
  free(file->charset);
  file->charset = NULL;
  return status;
}

capl_status onnx_save_graph(const capl_graph *graph, const char *path)
{
  const onnx_packing *packing;
  onnx_file file = {0};
  CAPL_TRY(open_packing(&packing));
  CAPL_TRY(packing->graph(graph, &file));
  return save(path, &file);
}
