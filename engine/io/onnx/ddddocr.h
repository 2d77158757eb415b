/* ddddocr.h -- the input and output that ddddocr (pypi.org/project/ddddocr) gives to and reads of a network.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_ONNX_DDDDOCR_H
#define CAPL_IO_ONNX_DDDDOCR_H

#include "io/onnx/input.h"

/* EUNSUPPORTED: what ddddocr cannot run. */
capl_status ddddocr_check(const char *path, const model_meta *meta);
/* Its image, f32 (1,C,H,W) of levels / 255, as what onnx_image takes. */
const char *ddddocr_input(onnx_build *b, const model_meta *meta);
/* Scores of a text (1,T,K) or (1,T*K) -> (T',1,K+1), the blank first, repeats to be merged. */
const char *ddddocr_output(onnx_build *b, const model_field *text, bool ctc, const char *scores);
/* The text of charsets.json; caller frees. */
capl_status ddddocr_charset(const model_meta *meta, char **text);

#endif
