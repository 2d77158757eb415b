/* reading.h -- what a model says of samples, for Lua.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_READING_H
#define CAPL_BIND_READING_H

#include "bind/data/data.h"
#include "capl/model.h"

#define MODEL_TYPE "capl.model"

/* table[key] = value of the table at the top */
void bind_set_text(lua_State *L, const char *key, const char *value);
void bind_set_number(lua_State *L, const char *key, double value);
void bind_set_flag(lua_State *L, const char *key, bool value);

/* u8 images (N,C,H,W) at i, on the host. */
capl_tensor *bind_check_images(lua_State *L, int i);
/* Their levels (N,H,W,C); they live in a userdata pushed on the stack. */
const uint8_t *bind_push_levels(lua_State *L, const capl_tensor *t);

/* n empty readings in userdata pushed on the stack, freed with it: pushing what they say may raise. */
capl_reading *bind_new_readings(lua_State *L, int64_t n);
/* Pushes {{outputs = {{text, confidence, sure, top = {{class = 0-based, name, probability}, …}, values = list, per_row,
** levels = u8 (H,W) or (H,W,C)}, …} in the order of the model, width, height, error = what is wrong or nil}, …}. Of an
** output a key is there where its kind has it (capl/field.h). Returns 1. */
int bind_push_readings(lua_State *L, const capl_reading *readings, int n);

/* model:read(images u8 (N,C,H,W) or nil[, {name = f32 (N,…)}]) -> list of readings, at most 64: of images, and of the
** inputs beside them in their units */
int bind_model_read(lua_State *L);

#endif
