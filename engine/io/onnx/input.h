/* input.h -- a model's preprocessing as ONNX nodes: from levels of any size to what the network reads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_ONNX_INPUT_H
#define CAPL_IO_ONNX_INPUT_H

#include "io/meta.h"
#include "io/onnx/write.h"

/* levels: whole numbers 0..255, f32 (N,H,W,C) with C gray, gray and alpha, RGB, or RGB and alpha, of any size ->
** f32 (N,C,H,W) as the network reads it. Sets b->width where the model has several. */
const char *onnx_image(onnx_build *b, const model_meta *meta, const char *levels);
/* Numbers in their units, f32 of D numbers in the last dim -> (x - mean) / std. described: of meta.json. */
const char *onnx_scaled(onnx_build *b, const cJSON *described, const char *x);

#endif
