/* io.c -- files for Lua: safetensors, traced models.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "bind/core/core.h"
#include "io/onnx.h"

#define GRAPH_TYPE "capl.graph"

/* ---- named tensors --------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
  return strcmp(((const capl_named_tensor *)a)->name, ((const capl_named_tensor *)b)->name);
}

capl_named_tensor *bind_check_named(lua_State *L, int i, int *n)
{
  bind_check_table(L, i);
  *n = 0;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) bind_arg_error(L, i, "a tensor's name must be a string");
    bind_check_tensor(L, lua_gettop(L));
    (*n)++;
  }
  capl_named_tensor *list = lua_newuserdata(L, ((size_t)*n + 1) * sizeof *list);
  int k = 0;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
    list[k].name = (char *)lua_tostring(L, -2);
    list[k++].tensor = bind_check_tensor(L, lua_gettop(L));
  }
  qsort(list, (size_t)*n, sizeof *list, by_name);
  return list;
}

capl_named_tensor *bind_check_ports(lua_State *L, int i, int *n, capl_named_tensor *one)
{
  if (lua_istable(L, i)) return bind_check_named(L, i, n);
  *one = (capl_named_tensor){NULL, bind_check_tensor(L, i)};
  *n = 1;
  return one;
}

void bind_push_named(lua_State *L, capl_named_tensor *list, int n)
{
  lua_newtable(L);
  for (int k = 0; k < n; k++) {
    capl_tensor *t = list[k].tensor;
    list[k].tensor = NULL;
    bind_push_tensor(L, t);
    lua_setfield(L, -2, list[k].name);
  }
  capl_named_tensors_free(list, n);
}

/* safetensors_save(path, {name = tensor}) */
static int core_safetensors_save(lua_State *L)
{
  const char *path = bind_check_product(L, 1);
  int n;
  capl_named_tensor *list = bind_check_named(L, 2, &n);
  bind_check(L, capl_safetensors_save(path, list, n), NULL);
  return 0;
}

/* safetensors_load(path[, device]) -> {name = tensor} */
static int core_safetensors_load(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  capl_device *device = bind_opt_device(L, 2);
  capl_named_tensor *list;
  int n;
  bind_check(L, capl_safetensors_load(path, device, &list, &n), NULL);
  bind_push_named(L, list, n);
  return 1;
}

/* model_weights(folder[, device]) -> {name = tensor}; of a model, checked against the hash in its meta.json */
static int core_model_weights(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  capl_device *device = bind_opt_device(L, 2);
  capl_named_tensor *list;
  int n;
  bind_check(L, capl_model_weights(path, device, &list, &n), NULL);
  bind_push_named(L, list, n);
  return 1;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static capl_graph **check_graph(lua_State *L, int i)
{
  capl_graph **g = luaL_checkudata(L, i, GRAPH_TYPE);
  if (!*g) bind_arg_error(L, i, "the graph was released");
  return g;
}

static capl_graph **push_graph(lua_State *L)
{
  capl_graph **g = lua_newuserdata(L, sizeof *g);
  *g = NULL;
  luaL_getmetatable(L, GRAPH_TYPE);
  lua_setmetatable(L, -2);
  return g;
}

static int core_trace_begin(lua_State *L)
{
  bind_check(L, capl_trace_begin(), NULL);
  return 0;
}

static int core_trace_cancel(lua_State *L)
{
  (void)L;
  capl_trace_cancel();
  return 0;
}

/* trace_end(input, output, {name = tensor}) -> graph; input and output: a tensor or {name = tensor} */
static int core_trace_end(lua_State *L)
{
  capl_named_tensor input, output;
  capl_traced t = {0};
  t.inputs = bind_check_ports(L, 1, &t.n_inputs, &input);
  t.outputs = bind_check_ports(L, 2, &t.n_outputs, &output);
  t.weights = bind_check_named(L, 3, &t.n_weights);
  capl_graph **g = push_graph(L);
  bind_check(L, capl_trace_end_named(&t, g), NULL);
  return 1;
}

/* graph_merge(a, b): the batch size becomes free */
static int core_graph_merge(lua_State *L)
{
  bind_check(L, capl_graph_merge_batch(*check_graph(L, 1), *check_graph(L, 2)), NULL);
  return 0;
}

/* graph_merge_width(a, b): a learns what b does at its width */
static int core_graph_merge_width(lua_State *L)
{
  bind_check(L, capl_graph_merge_width(*check_graph(L, 1), *check_graph(L, 2)), NULL);
  return 0;
}

/* One tensor, or {name = tensor} where the graph's outputs have names. */
static int push_outputs(lua_State *L, const capl_graph *g, capl_tensor **y)
{
  if (!*capl_graph_output_name(g, 0)) return bind_push_tensor(L, y[0]), 1;
  lua_newtable(L);
  for (int o = 0; o < capl_graph_outputs(g); o++) {
    bind_push_tensor(L, y[o]);
    lua_setfield(L, -2, capl_graph_output_name(g, o));
  }
  return 1;
}

/* graph_run(graph, x) -> y; x and y: a tensor or {name = tensor} */
static int core_graph_run(lua_State *L)
{
  capl_graph **g = check_graph(L, 1);
  capl_tensor *y[CAPL_GRAPH_PORTS_MAX] = {NULL};
  capl_named_tensor one;
  int n;
  capl_named_tensor *x = bind_check_ports(L, 2, &n, &one);
  bind_check(L, capl_graph_run_named(*g, x, n, y), NULL);
  return push_outputs(L, *g, y);
}

static int graph_gc(lua_State *L)
{
  capl_graph **g = luaL_checkudata(L, 1, GRAPH_TYPE);
  capl_graph_free(*g);
  *g = NULL;
  return 0;
}

/* model_save(path, graph, meta json[, inputs, outputs]): see model.c */
static int core_model_save(lua_State *L)
{
  return bind_model_save(L, *check_graph(L, 2));
}

/* model_load(path[, device]) -> graph, meta json */
static int core_model_load(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  capl_device *device = bind_opt_device(L, 2);
  capl_graph **g = push_graph(L);
  char *meta = NULL;
  bind_check(L, capl_model_load(path, device, g, &meta), NULL);
  lua_pushstring(L, meta);
  free(meta);
  return 2;
}

/* onnx_model(model, path[, charset path]) -> nodes, weights that were 16 bits: an ONNX file; with the third one for
** ddddocr */
static int core_onnx_model(lua_State *L)
{
  const char *model = bind_check_path(L, 1, CAPL_MAY_READ), *path = bind_check_product(L, 2);
  const char *charset = lua_isnoneornil(L, 3) ? NULL : bind_check_product(L, 3);
  onnx_file file;
  bind_check(L, onnx_save_model(model, path, charset, &file), NULL);
  lua_pushinteger(L, file.n_nodes);
  lua_pushinteger(L, file.n_16_bit);
  return 2;
}

/* onnx_graph(graph, path): without preprocessing, of the batch size as traced */
static int core_onnx_graph(lua_State *L)
{
  bind_check(L, onnx_save_graph(*check_graph(L, 1), bind_check_product(L, 2)), NULL);
  return 0;
}

void bind_open_io(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"safetensors_save", core_safetensors_save},
    {"safetensors_load", core_safetensors_load},
    {"model_weights", core_model_weights},
    {"trace_begin", core_trace_begin},
    {"trace_cancel", core_trace_cancel},
    {"trace_end", core_trace_end},
    {"graph_merge", core_graph_merge},
    {"graph_merge_width", core_graph_merge_width},
    {"graph_run", core_graph_run},
    {"model_save", core_model_save},
    {"model_load", core_model_load},
    {"onnx_model", core_onnx_model},
    {"onnx_graph", core_onnx_graph},
    {NULL, NULL},
  };
  luaL_newmetatable(L, GRAPH_TYPE);
  lua_pushcfunction(L, graph_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "graph");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
