/* captcha_options.c -- the options that only some presets have: their list, their checks.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "synth/captcha.h"

const char *const captcha_grids[] = {"default", "rect", "circle", "ellipse", "ec", "box", "blank", "any", NULL};
const char *const captcha_backdrops[] = {"plain", "gradient", NULL};
const char *const captcha_ink_pers[] = {"image", "letter", NULL};
const char *const captcha_line_places[] = {"over", "under", "any", NULL};

#define AT(field) offsetof(capl_captcha_options, field)

static const capl_style_option style_options[] = {
  {"size", CAPL_STYLE_COUNT, AT(size), 6, 512, NULL, "px of the letters' font"},
  {"rotate", CAPL_STYLE_RANGE, AT(rotate), -180, 180, NULL, "degrees, counter-clockwise, by letter"},
  {"warp", CAPL_STYLE_RANGE, AT(warp), 0, 0.5f, NULL, "share of its size by which a letter's corners are pushed"},
  {"spacing", CAPL_STYLE_RANGE, AT(spacing), -0.8f, 3, NULL,
   "gap between letters as a share of their size; negative: they overlap"},
  {"rise", CAPL_STYLE_RANGE, AT(rise), -1, 1, NULL, "vertical offset of a letter, as a fraction of its size"},
  {"lines", CAPL_STYLE_COUNT, AT(lines), 0, 64, NULL, "straight lines"},
  {"arcs", CAPL_STYLE_COUNT, AT(arcs), 0, 64, NULL, "parts of ellipses"},
  {"curves", CAPL_STYLE_COUNT, AT(curves), 0, 64, NULL, "waves from side to side"},
  {"line_width", CAPL_STYLE_RANGE, AT(line_width), 0.5f, 20, NULL, "px of lines, arcs and curves"},
  {"dots", CAPL_STYLE_COUNT, AT(dots), 0, 20000, NULL, "dots"},
  {"dot_size", CAPL_STYLE_RANGE, AT(dot_size), 0.5f, 40, NULL, "px of a dot's diameter"},
  {"grain", CAPL_STYLE_RANGE, AT(grain), 0, 100, NULL, "standard deviation of the background's noise, in levels"},
  {"smooth", CAPL_STYLE_COUNT, AT(smooth), 0, 4, NULL, "times the finished image is smoothed"},
  {"contrast", CAPL_STYLE_RANGE, AT(contrast), 0, 255, NULL,
   "levels between a letter and the background, in the channel that differs most; 0: as ink says"},
  {"background", CAPL_STYLE_COLOUR, AT(background), 0, 0, NULL, "colour of the background"},
  {"ink", CAPL_STYLE_COLOUR, AT(ink), 0, 0, NULL, "colour of the letters"},
  {"line_ink", CAPL_STYLE_COLOUR, AT(line_ink), 0, 0, NULL, "colour of lines, arcs, curves and dots"},
  {"style", CAPL_STYLE_WORD, AT(style), 0, 0, captcha_grids,
   "what the lines form: default, rect, circle, ellipse, ec, box, blank or any"},
  {"backdrop", CAPL_STYLE_WORD, AT(backdrop), 0, 0, captcha_backdrops,
   "plain, or gradient: one background colour running into another"},
  {"ink_per", CAPL_STYLE_WORD, AT(ink_per), 0, 0, captcha_ink_pers,
   "image: all its letters have one colour; letter: each its own"},
  {"line_place", CAPL_STYLE_WORD, AT(line_place), 0, 0, captcha_line_places,
   "lines, arcs and curves are over the letters, under them, or any: some over, some under"},
};
enum { N_OPTIONS = sizeof style_options / sizeof style_options[0] };

const capl_style_option *capl_style_option_at(int i)
{
  return i >= 0 && i < N_OPTIONS ? &style_options[i] : NULL;
}

bool captcha_option_given(const capl_captcha_options *options, const capl_style_option *option)
{
  const char *field = (const char *)options + option->offset;
  if (option->kind == CAPL_STYLE_WORD) return *(const char *const *)field != NULL;
  if (option->kind == CAPL_STYLE_COLOUR) return ((const capl_captcha_colours *)field)->given;
  return ((const capl_captcha_range *)field)->given;
}

static size_t field_size(const capl_style_option *option)
{
  if (option->kind == CAPL_STYLE_WORD) return sizeof(const char *);
  return option->kind == CAPL_STYLE_COLOUR ? sizeof(capl_captcha_colours) : sizeof(capl_captcha_range);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static capl_status check_range(const capl_style_option *option, const capl_captcha_range *range)
{
  if (!(range->lo >= option->least && range->hi <= option->most && range->lo <= range->hi)) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha %s is %g..%g; it must be within %g..%g, the smaller number first",
                     option->name, (double)range->lo, (double)range->hi, (double)option->least, (double)option->most);
  }
  if (option->kind == CAPL_STYLE_RANGE || (range->lo == floorf(range->lo) && range->hi == floorf(range->hi)))
    return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "captcha %s is %g..%g; these are whole numbers", option->name, (double)range->lo,
                   (double)range->hi);
}

static capl_status check_colours(const capl_style_option *option, const capl_captcha_colours *colours)
{
  static const char *const channel[] = {"red", "green", "blue"};
  for (int c = 0; c < 3; c++) {
    if (colours->lo[c] > colours->hi[c]) {
      return CAPL_FAIL(CAPL_EVALUE, "captcha %s: %s is %d..%d; the darker level comes first", option->name, channel[c],
                       colours->lo[c], colours->hi[c]);
    }
  }
  return CAPL_OK;
}

static void join(char *list, size_t size, const char *word)
{
  size_t used = strlen(list);
  snprintf(list + used, size - used, "%s%s", used ? ", " : "", word);
}

int captcha_word_index(const char *const *words, const char *word)
{
  int i = 0;
  while (words[i] && strcmp(words[i], word) != 0) i++;
  return words[i] ? i : -1;
}

static capl_status check_word(const capl_style_option *option, const char *word)
{
  char list[256] = "";
  if (captcha_word_index(option->words, word) >= 0) return CAPL_OK;
  for (int i = 0; option->words[i]; i++) join(list, sizeof list, option->words[i]);
  return CAPL_FAIL(CAPL_EVALUE, "captcha %s cannot be \"%s\"; there are: %s", option->name, word, list);
}

static capl_status check_value(const capl_style_option *option, const void *field)
{
  if (option->kind == CAPL_STYLE_WORD) return check_word(option, *(const char *const *)field);
  return option->kind == CAPL_STYLE_COLOUR ? check_colours(option, field) : check_range(option, field);
}

/* The preset has no such option: say which ones do. */
static capl_status refuse(const captcha_preset *preset, const capl_style_option *option)
{
  char list[256] = "";
  for (int i = 0; capl_captcha_preset_name(i); i++) {
    if (capl_captcha_preset_has(i, option)) join(list, sizeof list, capl_captcha_preset_name(i));
  }
  return CAPL_FAIL(CAPL_EVALUE, "captcha preset \"%s\" has no option %s; it is an option of: %s", preset->name,
                   option->name, list);
}

capl_status captcha_options_resolve(const captcha_preset *preset, const capl_captcha_options *options,
                                    capl_captcha_options *resolved)
{
  *resolved = preset->options;
  for (int i = 0; i < N_OPTIONS; i++) {
    if (!captcha_option_given(options, &style_options[i])) continue;
    if (!captcha_option_given(&preset->options, &style_options[i])) return refuse(preset, &style_options[i]);
    const char *field = (const char *)options + style_options[i].offset;
    CAPL_TRY(check_value(&style_options[i], field));
    memcpy((char *)resolved + style_options[i].offset, field, field_size(&style_options[i]));
  }
  return CAPL_OK;
}
