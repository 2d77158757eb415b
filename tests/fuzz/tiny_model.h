/* tiny_model.h -- the sound parts of a model file, around the one part that is fuzzed.
**
** The model reads two characters of "ab" off images of 4x2 px: one linear layer.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FUZZ_TINY_MODEL_H
#define CAPL_FUZZ_TINY_MODEL_H

#include "fuzz.h"

static const char tiny_meta[] =
  "{\"capl_model\":1,\"capl\":\"0.1.0\",\"channels\":1,\"charset\":\"ab\",\"decoding\":\"argmax\",\"height\":2,\"length\":2,"
  "\"normalize\":\"standardize\",\"output\":\"text\",\"resize\":\"bicubic\",\"width\":4}";

static const char tiny_graph[] =
  "{\"capl_graph\":1,\"input\":{\"size\":[\"N\",1,2,4],\"dtype\":\"f32\"},\"weights\":[\"w\",\"b\"],\"nodes\":["
  "{\"op\":\"reshape\",\"in\":[0],\"out\":[3],\"attrs\":{\"size\":[{\"batch\":1},8]}},"
  "{\"op\":\"linear\",\"in\":[3,1,2],\"out\":[4],\"attrs\":{}},"
  "{\"op\":\"reshape\",\"in\":[4],\"out\":[5],\"attrs\":{\"size\":[{\"batch\":1},2,2]}}],\"output\":5}";

static const char tiny_header[] =
  "{\"w\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[0,128]},\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[128,144]}}  ";

/* Writes weights, graph and meta; the target writes its own over one of them. */
static inline const char *tiny_model(void)
{
  enum { HEADER = sizeof tiny_header - 1, BYTES = 8 + HEADER + 144 };
  static uint8_t weights[BYTES];
  const char *folder = fuzz_folder();
  weights[0] = (uint8_t)HEADER;
  memcpy(weights + 8, tiny_header, HEADER);
  for (int i = 0; i < 36; i++) memcpy(weights + 8 + HEADER + 4 * i, &(float){0.1f * (float)(i % 7)}, 4);
  fuzz_put(folder, "weights.safetensors", weights, BYTES);
  fuzz_put(folder, "graph.json", tiny_graph, sizeof tiny_graph - 1);
  fuzz_put(folder, "meta.json", tiny_meta, sizeof tiny_meta - 1);
  return folder;
}

#endif
