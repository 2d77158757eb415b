/* onnx.h -- saved models as ONNX files: opset 17, IR version 8, which ONNX Runtime 1.16 reads.
**
** The file takes images as levels, u8 (N,H,W,C) of any size, and prepares them as capl does; numbers and series are in
** their units. Its outputs are what the network returns, under the names of the fields. Kinds, vocabularies and the
** text of meta.json are in its metadata. Messages are put together by libcapl_proto.so (onnx/), loaded when asked for.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_ONNX_H
#define CAPL_IO_ONNX_H

#include <stdbool.h>
#include <stdint.h>

#include "capl/io.h"

typedef struct {
  uint8_t *bytes;     /* the file; NULL once it is written */
  size_t n_bytes;
  char *charset;      /* of charsets.json, for ddddocr */
  int n_nodes;        /* of the ONNX graph */
  int n_16_bit;       /* weights that were f16 or bf16 and are f32 in the file */
} onnx_file;

/* The model folder as path. charset_path: NULL, or where charsets.json goes: the file is for ddddocr then. file: facts
** alone. EIO, EFORMAT; EUNSUPPORTED: an op or a preprocessing that ONNX or ddddocr cannot express, with the layer's
** name, or libcapl_proto.so is missing. */
CAPL_API capl_status onnx_save_model(const char *model, const char *path, const char *charset_path, onnx_file *file);
/* A graph alone, as traced: its batch size is fixed, its inputs are tensors. For tests of ops. */
CAPL_API capl_status onnx_save_graph(const capl_graph *graph, const char *path);

/* ---- the door of libcapl_proto ------------------------------------------------------------------- */

enum { ONNX_ABI = 1 };

typedef struct {
  int abi;
  /* Fill *file; caller frees bytes and charset. */
  capl_status (*model)(const char *model, bool ddddocr, onnx_file *file);
  capl_status (*graph)(const capl_graph *graph, onnx_file *file);
} onnx_packing;

CAPL_API const onnx_packing *onnx_packing_entry(void);

#endif
