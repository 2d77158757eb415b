/* synth.h -- what the binding calls of libcapl_synth, which is loaded when the first of it is called.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_DATA_SYNTH_H
#define CAPL_BIND_DATA_SYNTH_H

#include "bind/data/data.h"
#include "capl/synth.h"

/* Without capl_. The names are looked up once; their types are those of synth.h. */
#define DATA_SYNTH_FUNCTIONS(X)                                                                                      \
  X(style_option_at) X(captcha_preset_has) X(captcha_preset_name) X(captcha_new) X(captcha_unref) X(captcha_width)   \
  X(captcha_widths) X(captcha_height) X(captcha_length) X(captcha_font) X(captcha_charset) X(captcha_member)         \
  X(captcha_draw) X(captcha_text) X(captcha_save) X(captcha_pack) X(captcha_save_folders) X(source_captcha_new)      \
  X(source_captcha_widths_new)                                                                                       \
  X(source_slider_new) X(source_faces_new) X(scene_save) X(scene_pack) X(captcha_save_list) X(pm25_make)             \
  X(synth_version)

typedef struct {
#define X(name) __typeof__(capl_##name) *name;
  DATA_SYNTH_FUNCTIONS(X)
#undef X
} data_synth_functions;

/* Raises "unsupported" where the library is missing, or of another version of capl. */
const data_synth_functions *data_synth(lua_State *L);

#endif
