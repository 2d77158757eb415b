/* captcha_presets.c -- the list of presets: a style each, with its numbers.
**
** An option that only some presets have is an option of those whose row gives it.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <string.h>

#include "synth/captcha.h"
#include "synth/fonts.h"

#define RANGE(least, most) {true, least, most}
#define GRAY(least, most) {true, {least, least, least}, {most, most, most}}

/* 100 symbols, each a class of its own. */
#define ICONS \
  "☀☁☂☃☄★☆☉☎☏☑☒☕☘☚☛☝☟☠☢☣☮☯☹☺☻☼☽☾☿♀♁♂♃♄♅♆♇♈♉♊♋♌♍♎♏♐♑♒♓" \
  "♔♕♖♗♘♚♛♜♝♞♟♠♡♢♣♥♦♨♩♪♫♭♮♯♻♾⚀⚁⚂⚃⚄⚅⚐⚑⚒⚓⚔⚖⚗⚙⚛⚠⚡✂✈✉✌✎❄❤"

static const captcha_preset presets[] = {
  {.name = "lepture", .style = &captcha_lepture,
   .options = {.charset = "0-9A-Z", .length = 4, .width = 160, .height = 60, .fonts = {CAPL_FONT_NOTO_MONO}},
   .lepture = {{42, 50, 56}, {0.1f, 0.2f, 0}, {0.2f, 0.1f, 0}, true}},
  {.name = "lepture-0.7.1", .style = &captcha_lepture,
   .options = {.charset = "0-9A-Z", .length = 4, .width = 160, .height = 60, .fonts = {CAPL_FONT_NOTO_MONO}},
   .lepture = {{42, 50, 56}, {0, 0.2f, 0.1f}, {0, 0.1f, 0.2f}, false}},
  {.name = "gd-security", .style = &captcha_gd,
   .options = {.charset = "0-9A-Z", .length = 6, .width = 360, .height = 110, .fonts = {CAPL_FONT_DEJAVU},
               .style = "default",
    .size = RANGE(33, 33), .lines = RANGE(10, 10), .dots = RANGE(0, 400), .background = GRAY(225, 255),
    .ink = GRAY(0, 110), .line_ink = GRAY(100, 200)}},
  {.name = "seed-custom", .style = &captcha_seed,
   .options = {.charset = "0-9A-Z", .length = 4, .width = 160, .height = 60, .fonts = {CAPL_FONT_DEJAVU}}},
  {.name = "mixed", .style = &captcha_mixed,
   .options = {.charset = "0-9A-Z", .length = 4, .width = 160, .height = 60,
               .fonts = {CAPL_FONT_NOTO_MONO, CAPL_FONT_DEJAVU}},
   .lepture = {{42, 50, 56}, {0.1f, 0.2f, 0}, {0.2f, 0.1f, 0}, true}},
  {.name = "gradient-curve", .style = &captcha_gradient,
   .options = {.charset = "2-8b-gmnpwxy", .length = 5, .width = 200, .height = 50, .fonts = {CAPL_FONT_DEJAVU_BOLD}}},
  {.name = "free", .style = &captcha_free,
   .options = {.charset = "0-9A-Z", .length = 4, .width = 160, .height = 60, .fonts = {CAPL_FONT_DEJAVU},
               .size = RANGE(34, 42),
    .rotate = RANGE(-20, 20), .warp = RANGE(0, 0.1f), .spacing = RANGE(-0.1f, 0.15f), .rise = RANGE(-0.1f, 0.1f),
    .lines = RANGE(0, 2), .arcs = RANGE(0, 1), .curves = RANGE(0, 1), .line_width = RANGE(1, 2), .dots = RANGE(0, 40),
    .dot_size = RANGE(1, 2.5f), .grain = RANGE(0, 0), .smooth = RANGE(0, 0), .background = GRAY(225, 255),
    .ink = GRAY(0, 130), .line_ink = GRAY(0, 160), .contrast = RANGE(0, 0), .backdrop = "plain", .ink_per = "image",
    .line_place = "over"}},
  {.name = "varied", .style = &captcha_free,
   .options = {.charset = "0-9A-Z", .length = 4, .length_max = 20, .width = 140, .pitch = 40, .height = 64,
               .fonts = {CAPL_FONT_DEJAVU, CAPL_FONT_DEJAVU_BOLD}, .size = RANGE(20, 60),
    .rotate = RANGE(-15, 15), .warp = RANGE(0, 0.06f), .spacing = RANGE(0, 0.3f), .rise = RANGE(-0.05f, 0.05f),
    .lines = RANGE(0, 6), .arcs = RANGE(0, 0), .curves = RANGE(0, 0), .line_width = RANGE(1, 3), .dots = RANGE(0, 40),
    .dot_size = RANGE(1, 2.5f), .grain = RANGE(0, 2), .smooth = RANGE(0, 0), .background = GRAY(160, 255),
    .ink = GRAY(0, 255), .line_ink = GRAY(0, 255), .contrast = RANGE(8, 200), .backdrop = "plain",
    .ink_per = "letter", .line_place = "any"}},
  {.name = "icons", .style = &captcha_free,
   .options = {.charset = ICONS, .length = 1, .width = 48, .height = 48, .fonts = {CAPL_FONT_DEJAVU},
               .size = RANGE(24, 38),
    .rotate = RANGE(-30, 30), .warp = RANGE(0, 0.06f), .rise = RANGE(-0.1f, 0.1f), .lines = RANGE(0, 2),
    .arcs = RANGE(0, 1), .curves = RANGE(0, 1), .line_width = RANGE(1, 2), .dots = RANGE(0, 8),
    .dot_size = RANGE(1, 2.5f), .grain = RANGE(0, 20), .smooth = RANGE(0, 0), .background = GRAY(150, 255),
    .ink = GRAY(0, 150), .line_ink = GRAY(0, 160), .contrast = RANGE(0, 0), .backdrop = "gradient",
    .ink_per = "image", .line_place = "over"}},
  {.name = "zh-word", .style = &captcha_lepture,
   .options = {.charset = "gb2312-1:500", .length = 4, .width = 240, .height = 64, .fonts = {CAPL_FONTS_CHINESE}},
   .lepture = {{44, 50, 56}, {0.05f, 0.15f, 0}, {0.1f, 0.1f, 0}, true}, .some_fonts = 3},
};
enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const char *capl_captcha_preset_name(int i)
{
  return i >= 0 && i < N_PRESETS ? presets[i].name : NULL;
}

bool capl_captcha_preset_has(int preset, const capl_style_option *option)
{
  return preset >= 0 && preset < N_PRESETS && captcha_option_given(&presets[preset].options, option);
}

capl_status captcha_preset_find(const char *name, const captcha_preset **found)
{
  char names[256] = "";
  for (int i = 0; i < N_PRESETS; i++) {
    *found = &presets[i];
    if (name && strcmp(name, presets[i].name) == 0) return CAPL_OK;
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", presets[i].name);
  }
  return CAPL_FAIL(CAPL_EVALUE, "no captcha preset \"%s\"; there are: %s", name ? name : "", names);
}

const char *capl_synth_version(void)
{
  return CAPL_VERSION;
}
