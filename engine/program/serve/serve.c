/* serve.c -- `capl serve` for Lua: lua/capl/cli/serve.lua says what an answer looks like.
** SPDX-License-Identifier: Apache-2.0
*/
#include "program/serve/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "bind/model/reading.h"
#include "program/serve/serve.h"

#define SERVER_TYPE "capl.server"

static const serve_functions *functions;

static void load(lua_State *L)
{
  static const library_part part = {
    "libcapl_serve.so", "serve_entry", SERVE_ABI, "capl serve is not built here",
    "apt-get install libmicrohttpd-dev, then build again: libcapl_serve.so belongs beside libcapl.so or in its folder "
    "capl"};
  static const void *table;
  bind_check(L, library_table(&part, &table), NULL);
  functions = table;
}

/* What the model takes; its names live as long as the model. */
static body_rules takes_of(const capl_model_info *info)
{
  body_rules takes = {0};
  for (int i = 0; i < info->n_inputs; i++) {
    const capl_model_field *f = &info->inputs[i];
    bool image = capl_field_kind_is_pixels(f->kind);
    const char *name = *f->name ? f->name : image ? "image" : "values";
    if (image) takes.image = name;
    else takes.inputs[takes.n_inputs++] = (body_input){name, f->numbers};
  }
  return takes;
}

/* serve(model, {host, port, batch, wait, queue, body, memory, pixels, time, connections, threads, page, model,
** version}) -> server, which listens; the model and the table must be kept */
static int sys_serve(lua_State *L)
{
  static const bind_option_spec options[] = {
    {"host", BIND_TEXT(serve_options, host)},
    {"port", BIND_WHOLE(serve_options, port), .max = 65535},
    {"batch", BIND_WHOLE(serve_options, batch), .min = 1, .max = SERVE_BATCH_MAX},
    {"wait", BIND_NUMBER(serve_options, wait), .max = 10},
    {"queue", BIND_WHOLE(serve_options, queue), .min = 1, .max = 1 << 20},
    {"body", BIND_NUMBER(serve_options, body), .min = 1, .max = 1e9},
    {"memory", BIND_NUMBER(serve_options, memory), .min = 1, .max = 1e15},
    {"pixels", BIND_NUMBER(serve_options, pixels), .min = 1, .max = 64e6},
    {"time", BIND_NUMBER(serve_options, time), .min = 0.1, .max = 3600},
    {"connections", BIND_WHOLE(serve_options, connections), .min = 1, .max = 1 << 20},
    {"threads", BIND_WHOLE(serve_options, threads), .min = 1, .max = 256},
    {"page", BIND_TEXT(serve_options, page)},
    {"model", BIND_TEXT(serve_options, model)},
    {"version", BIND_TEXT(serve_options, version)},
    BIND_END};
  capl_model_info info;
  capl_model_info_get(data_check_box(L, 1, MODEL_TYPE), &info);
  serve_options o = {.takes = takes_of(&info), .channels = info.channels};
  bind_read_options(L, "serve", 2, options, &o);
  load(L);
  void **box = data_new_box(L, SERVER_TYPE);
  bind_check(L, functions->open(&o, (serve_server **)box), NULL);
  return 1;
}

static serve_server *check_server(lua_State *L) { return data_check_box(L, 1, SERVER_TYPE); }

/* server:port() -> the port at which it listens */
static int server_port(lua_State *L) { return lua_pushinteger(L, functions->port(check_server(L))), 1; }

/* server:start(): lets clients in */
static int server_start(lua_State *L) { return bind_check(L, functions->start(check_server(L)), NULL), 0; }

/* server:stop(): new requests are refused from now on */
static int server_stop(lua_State *L) { return functions->stop(check_server(L)), 0; }

/* server:left() -> requests that are not answered yet */
static int server_left(lua_State *L) { return lua_pushinteger(L, functions->left(check_server(L))), 1; }

/* server:read(model, seconds) -> n, readings of the next batch (reading.c); 0 when none came within so many seconds; or
** n, message when the model failed */
static int server_read(lua_State *L)
{
  serve_server *server = check_server(L);
  capl_model *model = data_check_box(L, 2, MODEL_TYPE);
  const capl_model_sample *samples;
  int n = functions->take(server, bind_check_number(L, 3), &samples);
  if (n == 0) return lua_pushinteger(L, 0), 1;
  capl_reading *readings = bind_new_readings(L, n);
  if (capl_model_run(model, samples, n, readings) != CAPL_OK) {
    lua_pushinteger(L, n);
    return lua_pushstring(L, capl_error_last()->message), 2;
  }
  lua_pushinteger(L, n);
  bind_push_readings(L, readings, n);
  capl_readings_free(readings, n);
  return 2;
}

/* server:answer(i, status, json): of the i-th reading */
static int server_answer(lua_State *L)
{
  size_t n;
  const char *json = luaL_checklstring(L, 4, &n);
  functions->answer(check_server(L), (int)bind_check_int(L, 2) - 1, (int)bind_check_int(L, 3), json, n);
  return 0;
}

static int server_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, SERVER_TYPE);
  if (box && *box) functions->close(*box), *box = NULL;
  return 0;
}

/* base64_png(picture u8 (C,H,W)) -> the PNG file of it, in base64 */
static int sys_base64_png(lua_State *L)
{
  uint8_t *bytes;
  size_t n;
  load(L);
  data_png_encode(L, 1, &bytes, &n);
  char *text = functions->base64(bytes, n);
  free(bytes);
  if (!text) return bind_fail(L, CAPL_ENOMEM, NULL, NULL, "no memory for a picture of %zu bytes", n);
  lua_pushstring(L, text);
  free(text);
  return 1;
}

void capl_serve_add(lua_State *L)
{
  static const luaL_Reg server[] = {{"port", server_port}, {"start", server_start}, {"stop", server_stop},
                                    {"left", server_left}, {"read", server_read}, {"answer", server_answer},
                                    {NULL, NULL}};
  static const luaL_Reg own[] = {{"serve", sys_serve}, {"base64_png", sys_base64_png}, {NULL, NULL}};
  data_open_type(L, SERVER_TYPE, server, server_release);
  luaL_setfuncs(L, own, 0);
}
