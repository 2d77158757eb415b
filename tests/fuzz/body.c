/* body.c -- fuzz target: any bytes as the body of a request: the first byte chooses what the model takes, the first line is the
** Content-Type. What is read can be read whole; base64 that is read is written again.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

#include "program/serve/base64.h"
#include "program/serve/body.h"

static uint32_t sum; /* every byte is there to be read */

static void look_at(const body_rules *rules, const body_parts *parts)
{
  FUZZ_CHECK(!rules->image || (parts->image && parts->image_bytes > 2));
  for (size_t i = 0; rules->image && i < parts->image_bytes; i++) sum += parts->image[i];
  for (int k = 0; k < rules->n_inputs; k++)
    for (size_t i = 0; i < rules->inputs[k].numbers; i++) sum += parts->numbers[k][i] > 0;
}

static void code(const char *text, size_t n)
{
  uint8_t *bytes = malloc(base64_room(n)), *again = malloc(base64_room(n) + 4);
  size_t size, size_again, wrong = 0;
  if (base64_decode(text, n, bytes, &size, &wrong)) {
    char *written = base64_encode(bytes, size);
    FUZZ_CHECK(written && size <= base64_room(n));
    FUZZ_CHECK(base64_decode(written, strlen(written), again, &size_again, &wrong));
    FUZZ_CHECK(size_again == size && memcmp(again, bytes, size) == 0);
    free(written);
  } else FUZZ_CHECK(wrong <= n);
  free(bytes);
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const body_rules models[] = {{.image = "image"}, {.image = "photo", .n_inputs = 1, .inputs = {{"level", 3}}},
                                      {.n_inputs = 2, .inputs = {{"a", 1}, {"b", 4}}}};
  const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
  if (!line) return 0;
  const body_rules *rules = &models[data[0] % 3];
  char *type = strndup((const char *)data + 1, line > data ? (size_t)(line - data) - 1 : 0), why[BODY_WHY];
  size_t n = size - (size_t)(line + 1 - data);
  char *body = malloc(n); /* exactly as long, so that reading past the end is seen */
  memcpy(body, line + 1, n);
  body_parts parts = {0};
  int status = body_read(rules, *type ? type : NULL, body, n, &parts, why);
  FUZZ_CHECK(status == 0 || status == HTTP_BAD || status == HTTP_KIND);
  FUZZ_CHECK((status == 0) == (*why == '\0') && !strchr(why, '\n'));
  if (status == 0) look_at(rules, &parts);
  code(body, n);
  body_free(&parts);
  free(type);
  free(body);
  return sum == 0xffffffff;
}
