/* labels.c -- fuzz target: any charset and any text as the label of a file. The input is charset, NUL, label.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

#include "base/text.h"

static const char *folder_with_image(void)
{
  static const uint8_t pixels[4 * 2];
  const char *folder = fuzz_folder();
  char path[128];
  snprintf(path, sizeof path, "%s/AB_1.png", folder);
  FUZZ_CHECK(capl_png_write(path, pixels, 4, 2, 1) == CAPL_OK);
  return folder;
}

/* What is shown of a text holds nothing that a terminal obeys, and fits. */
static void check_shown(const char *text)
{
  char shown[64];
  capl_text_show(shown, sizeof shown, text, false);
  FUZZ_CHECK(strlen(shown) < sizeof shown);
  for (const char *p = shown; *p; p += capl_text_char(p)) FUZZ_CHECK(capl_text_char(p) > 0 && (unsigned char)*p >= ' ' && *p != 0x7f);
}

/* A label that is taken spells the same text again, in normal form C. */
static void check_label(capl_source *source, const char *text)
{
  uint8_t pixels[4 * 2];
  int32_t ids[CAPL_LABEL_MAX];
  char again[CAPL_LABEL_ROOM] = "", *normal;
  const capl_vocab *vocab = capl_source_vocab(source);
  capl_status status = capl_source_set_label(source, 0, text);
  fuzz_status(status);
  FUZZ_CHECK(capl_source_read(source, 0, 0, &(capl_sample){.pixels = pixels, .labels = ids}) == status);
  if (status != CAPL_OK) return;
  for (int t = 0; t < capl_source_length(source) && ids[t] >= 0; t++) strcat(again, capl_vocab_name(vocab, ids[t]));
  FUZZ_CHECK(capl_text_normalize(text, NULL, &normal) == CAPL_OK && strcmp(normal, again) == 0);
  free(normal);
}

/* Symbols are found by their names, and their text is a charset of the same symbols. */
static void check_vocab(const capl_vocab *vocab)
{
  capl_vocab *again;
  for (int32_t id = 0; id < capl_vocab_count(vocab); id++) {
    const char *name = capl_vocab_name(vocab, id);
    FUZZ_CHECK(capl_vocab_find(vocab, name, strlen(name)) == id);
  }
  FUZZ_CHECK(capl_vocab_symbols(capl_vocab_text(vocab), &again) == CAPL_OK && capl_vocab_equal(vocab, again));
  capl_vocab_unref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *folder;
  if (!folder) folder = folder_with_image();
  char *spec = malloc(size + 2);
  memcpy(spec, data, size);
  spec[size] = spec[size + 1] = '\0';
  const char *text = spec + strlen(spec) + (strlen(spec) < size);
  check_shown(text);
  capl_vocab *vocab;
  capl_status status = capl_vocab_charset(spec, &vocab);
  fuzz_status(status);
  capl_source *source;
  capl_folder_options options = {.charset = spec, .length = 8, .variable = size % 2};
  if (status == CAPL_OK) {
    check_vocab(vocab);
    FUZZ_CHECK(capl_source_folder_new(folder, &options, &source) == CAPL_OK);
    check_label(source, text);
    capl_source_unref(source);
    capl_vocab_unref(vocab);
  }
  free(spec);
  return 0;
}
