/* data.h -- what the data parts of the binding share: userdata with one pointer, options, batches as tensors.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_L_DATA_H
#define CAPL_BIND_L_DATA_H

#include "bind/core/options.h"
#include "capl/data.h"

#define SOURCE_TYPE "capl.source"
#define LOADER_TYPE "capl.loader"

/* A box is a userdata holding one engine pointer, NULL once released. type: "capl.source" and the like. */
void **data_new_box(lua_State *L, const char *type);
void *data_check_box(lua_State *L, int i, const char *type);
/* Makes the metatable of a box type; release is its :free() and __gc. */
void data_open_type(lua_State *L, const char *type, const luaL_Reg *methods, lua_CFunction release);

/* A fresh (N,C,H,W) tensor, N,H,W,C in memory, on the default device. *data: what to fill in for data_sent, the
** tensor's own memory where the host can write it, else memory that lives on the Lua stack; NULL where it has none. */
void data_new_images(lua_State *L, capl_dtype dtype, int n, int c, int h, int w, capl_tensor **out,
                     void **data);
/* Brings what was filled in to the tensor. */
void data_sent(lua_State *L, capl_tensor *t, const void *data);
/* The image (C,H,W) at i as a PNG file; the caller frees *bytes with free(). Leaves values on the stack. */
void data_png_encode(lua_State *L, int i, uint8_t **bytes, size_t *size);
/* Pushes *t and sets it to NULL, so that the caller's OWNED lets go. */
void data_push_owned(lua_State *L, capl_tensor **t);
/* Pushes a copy of numbers in host memory as a tensor on the default device. */
void data_push_copy(lua_State *L, capl_dtype dtype, int ndim, const int64_t *size, const void *data);
/* One field of n samples: (n,…) u8 of a mask, f32 of others. */
void data_push_field(lua_State *L, const capl_field *field, int n, const void *data);
/* The same of field i of a source whose images are `width` px wide. */
void data_push_source_field(lua_State *L, const capl_source *source, int i, int width, int n, const void *data);
/* Pushes labels as a tensor (n,T) i32. */
void data_push_labels(lua_State *L, const capl_source *source, const int32_t *labels, int n);
/* Dims of a batch's labels: 2 (N,T) of texts, 1 (N) of classes. */
int data_label_dims(const capl_source *source);

/* Reads and checks the augmentation at i. */
capl_augment_options data_read_augment(lua_State *L, int i);
/* The list of stages at key of the options table at i, in memory that it leaves on the stack; NULL and n = 0
** without. */
const struct capl_stage *data_option_stages(lua_State *L, int i, const char *key, int *n);

/* The list of px at widths of the options table at i: how many, 0 = none is given. What is no whole number becomes
** 0. */
int data_option_widths(lua_State *L, const char *op, int i, int widths[CAPL_WIDTHS_MAX]);
/* Masks, points, boxes and numbers in files: option fields = {mask = {…}, numbers = {{…}, …}} of the table at i, in
** memory that it leaves on the stack. */
void data_option_fields(lua_State *L, const char *op, int i, capl_file_fields *fields);
/* A sample's number at i. */
uint32_t data_check_sample(lua_State *L, int i, const capl_source *source);

/* Adds sources of files and what sources of files can do. */
void bind_open_files(lua_State *L);
void bind_open_file_fields(lua_State *L);
/* A stage as another loader has it (schedule.c); false = not given. */
bool data_option_like(lua_State *L, int i, const char *key, struct capl_stage *stage);

/* Add data.captcha and data.captcha_source, and data.loader, to the table on top. */
void bind_open_captcha(lua_State *L);
void bind_open_loader(lua_State *L);
void bind_open_arrays(lua_State *L);
/* Add the scenes' sources and lists of names; time series. */
void bind_open_scenes(lua_State *L);
void bind_open_series(lua_State *L);
void bind_open_series_table(lua_State *L);
/* Adds what a schedule needs to the methods of loaders, and data.knobs and data.check_augment to the table on top. */
void bind_open_schedule(lua_State *L);

/* Pushes {name, …} of a vocabulary. */
void data_push_names(lua_State *L, const capl_vocab *vocab);

#endif
