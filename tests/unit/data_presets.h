/* data_presets.h -- the captcha presets that can be drawn here: those whose fonts are installed.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TESTS_DATA_PRESETS_H
#define CAPL_TESTS_DATA_PRESETS_H

#include "capl/synth.h"
#include "unit.h"

/* Whether there is a font for the preset zh-word; says so once where there is none. */
static inline bool have_chinese(void)
{
  static int have = -1;
  capl_captcha *gen;
  if (have >= 0) return have;
  have = capl_captcha_new("zh-word", NULL, &gen) == CAPL_OK;
  if (have) capl_captcha_unref(gen);
  else printf("# skipped, preset zh-word: %s\n", capl_error_last()->message);
  return have;
}

/* Name of the i-th preset, NULL past the last that can be drawn; the one that may lack its fonts is the last. */
static inline const char *drawable_preset(int i)
{
  const char *name = capl_captcha_preset_name(i);
  return name && strcmp(name, "zh-word") == 0 && !have_chinese() ? NULL : name;
}

/* A generator of a preset, for the caller to let go. */
static inline capl_captcha *make_preset(const char *preset, const capl_captcha_options *options)
{
  capl_captcha *gen;
  assert_ok(capl_captcha_new(preset, options, &gen));
  return gen;
}

/* Pixels of an image. */
static inline size_t preset_area(const capl_captcha *gen)
{
  return (size_t)capl_captcha_width(gen) * (size_t)capl_captcha_height(gen);
}

#endif
