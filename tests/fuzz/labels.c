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

static void check_label(capl_source *source, const char *charset, const char *text)
{
  uint8_t pixels[4 * 2];
  int32_t ids[CAPL_LABEL_MAX];
  capl_status status = capl_source_set_label(source, 0, text);
  fuzz_status(status);
  FUZZ_CHECK(capl_source_read(source, 0, 0, &(capl_sample){.pixels = pixels, .labels = ids}) == status);
  for (size_t t = 0; status == CAPL_OK && t < strlen(text); t++) FUZZ_CHECK(charset[ids[t]] == text[t]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *folder;
  if (!folder) folder = folder_with_image();
  char *spec = malloc(size + 2), expanded[CAPL_CHARSET_MAX + 1];
  memcpy(spec, data, size);
  spec[size] = spec[size + 1] = '\0';
  const char *text = spec + strlen(spec) + (strlen(spec) < size);
  check_shown(text);
  capl_status status = capl_charset_expand(spec, expanded);
  fuzz_status(status);
  capl_source *source;
  capl_folder_options options = {.charset = spec, .length = 8, .variable = size % 2};
  if (status == CAPL_OK) {
    FUZZ_CHECK(capl_source_folder_new(folder, &options, &source) == CAPL_OK);
    check_label(source, expanded, text);
    capl_source_unref(source);
  }
  free(spec);
  return 0;
}
