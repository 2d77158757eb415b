/* ddddocr.c -- what ddddocr needs: class 0 is CTC's blank, and every text is read as CTC's.
**
** A text of one classifier per position becomes one of time steps by a row of a certain blank behind each position, so
** that "AA" stays two letters. SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/ddddocr.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static capl_status refuse(const char *path, const char *why)
{
  CAPL_FAIL(CAPL_EUNSUPPORTED, "%s cannot be written for ddddocr: %s", path, why);
  capl_error_hint("--format=onnx writes any model");
  return CAPL_EUNSUPPORTED;
}

capl_status ddddocr_check(const char *path, const model_meta *m)
{
  if (m->n_inputs != 1 || m->width == 0) return refuse(path, "it gives a network one image and nothing else");
  if (m->n_outputs != 1) return refuse(path, "it reads one output, and this model has several");
  if (!m->outputs[0].kind->spelled) return refuse(path, "it reads texts, and this model gives none");
  return CAPL_OK;
}

/* Whether it keeps an image's proportions and gives it the height alone. */
static bool any_width(const model_meta *m) { return m->n_widths > 0 || m->letterbox.on; }

const char *ddddocr_input(onnx_build *b, const model_meta *m)
{
  static const char *const free[] = {"N", "C", "H", "W"};
  int64_t size[] = {1, -1, m->height, any_width(m) ? -1 : m->width};
  onnx_input(b, "image", ONNX_F32, 4, size, free);
  const char *levels = onnx_with(b, "Add", onnx_with(b, "Mul", "image", ONNX_F32, 255), ONNX_F32, 0.5);
  return ONNX_PERMUTE(b, ONNX(b, "Floor", levels), 0, 2, 3, 1);
}

enum { NEVER = -10000 }; /* a score whose softmax is 0 */

/* (T,1,n) of one number; like: (T,1,K) */
static const char *filled(onnx_build *b, const char *like, int64_t n, double number)
{
  const char *size = ONNX(b, "Concat", onnx_dim(b, like, 0), ONNX_LIST(b, 1, n));
  onnx_int(b, "axis", 0);
  return ONNX(b, "Expand", onnx_number(b, ONNX_F32, number), size);
}

static const char *beside(onnx_build *b, const char *one, const char *other, int64_t axis)
{
  const char *y = ONNX(b, "Concat", one, other);
  onnx_int(b, "axis", axis);
  return y;
}

const char *ddddocr_output(onnx_build *b, const model_field *text, bool ctc, const char *scores)
{
  int64_t K = capl_vocab_count(text->vocab);
  const char *y = ONNX(b, "Reshape", scores, ONNX_LIST(b, -1, 1, ctc ? K + 1 : K));
  if (ctc) return beside(b, onnx_slice(b, y, 2, K, K + 1), onnx_slice(b, y, 2, 0, K), 2);
  const char *place = beside(b, filled(b, y, 1, NEVER), y, 2);
  const char *between = beside(b, filled(b, y, 1, 0), filled(b, y, K, NEVER), 2);
  return ONNX(b, "Reshape", beside(b, place, between, 1), ONNX_LIST(b, -1, 1, K + 1));
}

static bool add_symbols(cJSON *root, const capl_vocab *vocab)
{
  cJSON *list = cJSON_AddArrayToObject(root, "charset");
  bool good = list && cJSON_AddItemToArray(list, cJSON_CreateString(""));
  for (int32_t k = 0; good && k < capl_vocab_count(vocab); k++)
    good = cJSON_AddItemToArray(list, cJSON_CreateString(capl_vocab_name(vocab, k)));
  return good;
}

capl_status ddddocr_charset(const model_meta *m, char **text)
{
  JSON_OWNED *root = cJSON_CreateObject();
  const int image[] = {any_width(m) ? -1 : m->width, m->height};
  bool good = root && add_symbols(root, m->outputs[0].vocab) && cJSON_AddBoolToObject(root, "word", false) &&
              cJSON_AddItemToObject(root, "image", cJSON_CreateIntArray(image, 2)) &&
              cJSON_AddNumberToObject(root, "channel", m->channels);
  *text = good ? json_print(root, false) : NULL;
  return *text ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for charsets.json");
}
