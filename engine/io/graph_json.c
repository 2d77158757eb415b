/* graph_json.c -- graphs as JSON: readable, and nothing in it can run code.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "capl/capl.h"
#include "io/graph.h"

enum {
  VERSION = 1,
  WIDTHS_VERSION = 2, /* of graphs with several widths */
  NAMES_VERSION = 3,  /* of graphs whose inputs or outputs have names */
  MOST_NODES = 100000
};

/* ---- writing --------------------------------------------------------------------------------- */

/* A number of a node's attribute k, element d. */
static int64_t number_at(const graph_node *node, int w, int k, int d)
{
  const capl_attr *a = &graph_attrs(node, w)[k];
  return capl_op_get(node->op)->attrs[k].kind == CAPL_ATTR_INTS ? a->v[d] : a->i;
}

/* 5, or {"widths": [5, 7]} where it differs from width to width. */
static cJSON *widths_json(const graph_node *node, int n_widths, int k, int d)
{
  if (!(node->follows_width[k] >> d & 1)) return cJSON_CreateNumber((double)number_at(node, 0, k, d));
  cJSON *item = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(item, "widths");
  for (int w = 0; w < n_widths; w++) cJSON_AddItemToArray(list, cJSON_CreateNumber((double)number_at(node, w, k, d)));
  return item;
}

/* That, or {"batch": that} for so many times N. */
static cJSON *number_json(const graph_node *node, int n_widths, int k, int d)
{
  cJSON *number = widths_json(node, n_widths, k, d);
  if (!(node->follows_batch[k] >> d & 1)) return number;
  cJSON *item = cJSON_CreateObject();
  cJSON_AddItemToObject(item, "batch", number);
  return item;
}

static cJSON *choice_json(const char *choices, int64_t index)
{
  for (const char *p = choices; p; index--) {
    size_t n = strcspn(p, "|");
    if (index == 0) {
      char word[64] = "";
      memcpy(word, p, n < sizeof word ? n : sizeof word - 1);
      return cJSON_CreateString(word);
    }
    p = p[n] ? p + n + 1 : NULL;
  }
  return cJSON_CreateNull();
}

static cJSON *attr_json(const graph_node *node, int n_widths, int k)
{
  const capl_attr_spec *spec = &capl_op_get(node->op)->attrs[k];
  const capl_attr *a = &node->attr[k];
  switch (spec->kind) {
  case CAPL_ATTR_REAL: return cJSON_CreateNumber(a->f);
  case CAPL_ATTR_BOOL: return cJSON_CreateBool(a->i != 0);
  case CAPL_ATTR_ENUM: return choice_json(spec->choices, a->i);
  case CAPL_ATTR_DTYPE: return cJSON_CreateString(capl_dtype_name((capl_dtype)a->i));
  case CAPL_ATTR_PROGRAM: return cJSON_CreateString(capl_attr_program_text(a));
  case CAPL_ATTR_INT: return number_json(node, n_widths, k, 0);
  default: break;
  }
  cJSON *list = cJSON_CreateArray();
  for (int d = 0; d < a->n; d++) cJSON_AddItemToArray(list, number_json(node, n_widths, k, d));
  return list;
}

static cJSON *node_json(const graph_node *node, int n_widths)
{
  const capl_op *op = capl_op_get(node->op);
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "op", op->name);
  cJSON *in = cJSON_AddArrayToObject(item, "in"), *out = cJSON_AddArrayToObject(item, "out");
  for (int i = 0; i < node->n_in; i++)
    cJSON_AddItemToArray(in, node->in[i] < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(node->in[i]));
  for (int k = 0; k < op->n_out; k++) cJSON_AddItemToArray(out, cJSON_CreateNumber(node->out[k]));
  cJSON *attrs = cJSON_AddObjectToObject(item, "attrs");
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++)
    cJSON_AddItemToObject(attrs, op->attrs[k].name, attr_json(node, n_widths, k));
  return item;
}

/* "N", 50, or [96, 128, 160] for the widths. */
static cJSON *size_json(const capl_graph *g, const graph_input *input, int d)
{
  if (d == 0) return cJSON_CreateString("N");
  if (g->n_widths == 0 || d < input->ndim - 1) return cJSON_CreateNumber((double)input->size[d]);
  return cJSON_CreateIntArray(g->width, g->n_widths);
}

static cJSON *input_json(const capl_graph *g, const graph_input *input)
{
  cJSON *item = cJSON_CreateObject();
  if (*input->name) cJSON_AddStringToObject(item, "name", input->name);
  cJSON *size = cJSON_AddArrayToObject(item, "size");
  cJSON_AddStringToObject(item, "dtype", capl_dtype_name(input->dtype));
  for (int d = 0; d < input->ndim; d++) cJSON_AddItemToArray(size, size_json(g, input, d));
  return item;
}

/* "input": {…}, or "inputs": [{"name": …}, …] where they have names. */
static void add_inputs(cJSON *root, const capl_graph *g)
{
  if (!*g->inputs[0].name) {
    cJSON_AddItemToObject(root, "input", input_json(g, &g->inputs[0]));
    return;
  }
  cJSON *list = cJSON_AddArrayToObject(root, "inputs");
  for (int i = 0; i < g->n_inputs; i++) cJSON_AddItemToArray(list, input_json(g, &g->inputs[i]));
}

/* "output": 5, or "outputs": [{"name": …, "value": 5}, …] where they have names. */
static void add_outputs(cJSON *root, const capl_graph *g)
{
  if (!*g->outputs[0].name) {
    cJSON_AddNumberToObject(root, "output", g->outputs[0].value);
    return;
  }
  cJSON *list = cJSON_AddArrayToObject(root, "outputs");
  for (int o = 0; o < g->n_outputs; o++) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", g->outputs[o].name);
    cJSON_AddNumberToObject(item, "value", g->outputs[o].value);
    cJSON_AddItemToArray(list, item);
  }
}

static int version_of(const capl_graph *g)
{
  if (*g->inputs[0].name || *g->outputs[0].name) return NAMES_VERSION;
  return g->n_widths ? WIDTHS_VERSION : VERSION;
}

capl_status graph_to_json(const capl_graph *g, char **text)
{
  cJSON *root = cJSON_CreateObject();
  cJSON_AddNumberToObject(root, "capl_graph", version_of(g));
  add_inputs(root, g);
  cJSON *weights = cJSON_AddArrayToObject(root, "weights");
  for (int k = 0; k < g->n_weights; k++) cJSON_AddItemToArray(weights, cJSON_CreateString(g->weights[k].name));
  cJSON *nodes = cJSON_AddArrayToObject(root, "nodes");
  for (int k = 0; k < g->n_nodes; k++) cJSON_AddItemToArray(nodes, node_json(&g->nodes[k], g->n_widths));
  add_outputs(root, g);
  *text = json_print(root, true);
  cJSON_Delete(root);
  return *text ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for the graph's text");
}

/* ---- reading --------------------------------------------------------------------------------- */

static capl_status bad(const char *path, const char *why)
{
  return CAPL_FAIL(CAPL_EFORMAT, "%s is no capl graph: %s", path, why);
}

/* 5, or {"widths": [5, 7, …]}: values gets one for each of n widths. */
static bool read_widths(const cJSON *item, double low, double high, int n, int64_t *values, bool *follows)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "widths");
  *follows = list != NULL;
  if (list && (!cJSON_IsArray(list) || n == 0 || cJSON_GetArraySize(list) != n)) return false;
  for (int w = 0; w < (n ? n : 1); w++)
    if (!json_whole(list ? cJSON_GetArrayItem(list, w) : item, low, high, &values[w])) return false;
  return true;
}

typedef struct {
  bool batch, width;
  int64_t at[GRAPH_WIDTHS_MAX]; /* for each width; [0] when there are none */
} read_number;

/* That, or {"batch": that}. */
static bool read_one(const cJSON *item, int n_widths, read_number *number)
{
  const cJSON *factor = cJSON_GetObjectItemCaseSensitive(item, "batch");
  number->batch = factor != NULL;
  return read_widths(factor ? factor : item, factor ? 0 : -0x1p53, factor ? 1 << 24 : 0x1p53, n_widths, number->at,
                     &number->width);
}

/* An op's own complaint about an attribute, with the file in front. */
static capl_status bad_attr(const char *path)
{
  char why[256];
  snprintf(why, sizeof why, "%.250s", capl_error_last()->message);
  return bad(path, why);
}

static capl_status wrong_kind(const char *path, const capl_op *op, int k)
{
  return CAPL_FAIL(CAPL_EFORMAT, "%s is no capl graph: %s of %s is of the wrong kind", path, op->attrs[k].name,
                   op->name);
}

/* Sets attribute k to what it is at the w-th width, checked by the op's own bounds; factors of the batch only by their
** size, as the op checks the product. */
static capl_status set_numbers(const char *path, const capl_op *op, int k, int n, int w, const read_number *numbers,
                               capl_attr *attrs)
{
  const capl_attr_spec *spec = &op->attrs[k];
  bool list = spec->kind == CAPL_ATTR_INTS;
  double values[CAPL_MAX_NDIM];
  for (int d = 0; d < n; d++) values[d] = numbers[d].batch ? fmax(spec->min, 1) : (double)numbers[d].at[w];
  if ((n > 0 || !list) && capl_attr_set(op, attrs, spec->name, n, values) != CAPL_OK) return bad_attr(path);
  attrs[k].n = list ? n : 0;
  for (int d = 0; d < n; d++) *(list ? &attrs[k].v[d] : &attrs[k].i) = numbers[d].at[w];
  return CAPL_OK;
}

static capl_status read_numbers(const char *path, const capl_graph *g, int k, const cJSON *item, graph_node *node)
{
  const capl_op *op = capl_op_get(node->op);
  const capl_attr_spec *spec = &op->attrs[k];
  bool list = spec->kind == CAPL_ATTR_INTS;
  int n = list ? cJSON_GetArraySize(item) : 1;
  read_number numbers[CAPL_MAX_NDIM];
  if ((list && !cJSON_IsArray(item)) || n > CAPL_MAX_NDIM || (list && spec->n && n != spec->n))
    return wrong_kind(path, op, k);
  for (int d = 0; d < n; d++) {
    if (!read_one(list ? cJSON_GetArrayItem(item, d) : item, g->n_widths, &numbers[d])) return wrong_kind(path, op, k);
    if (numbers[d].batch) node->follows_batch[k] |= (uint8_t)(1u << d);
    if (numbers[d].width) node->follows_width[k] |= (uint8_t)(1u << d);
  }
  CAPL_TRY(set_numbers(path, op, k, n, 0, numbers, node->attr));
  if (node->follows_width[k] && !node->by_width) CAPL_TRY(graph_node_widths(node, 0, g->n_widths));
  for (int w = 0; node->follows_width[k] && w < g->n_widths; w++)
    CAPL_TRY(set_numbers(path, op, k, n, w, numbers, node->by_width + (size_t)w * CAPL_MAX_ATTR));
  return CAPL_OK;
}

static capl_status read_attr(const char *path, const capl_graph *g, int k, const cJSON *item, graph_node *node)
{
  const capl_op *op = capl_op_get(node->op);
  const capl_attr_spec *spec = &op->attrs[k];
  bool word = spec->kind == CAPL_ATTR_ENUM || spec->kind == CAPL_ATTR_DTYPE || spec->kind == CAPL_ATTR_PROGRAM;
  bool real = spec->kind == CAPL_ATTR_REAL;
  capl_status status = CAPL_OK;
  if (spec->kind == CAPL_ATTR_INTS || spec->kind == CAPL_ATTR_INT) return read_numbers(path, g, k, item, node);
  if (real && cJSON_IsNumber(item)) status = capl_attr_set(op, node->attr, spec->name, 1, &item->valuedouble);
  else if (spec->kind == CAPL_ATTR_BOOL && cJSON_IsBool(item)) node->attr[k].i = cJSON_IsTrue(item);
  else if (word && cJSON_IsString(item)) status = capl_attr_set_word(op, node->attr, spec->name, item->valuestring);
  else return wrong_kind(path, op, k);
  return status == CAPL_OK ? CAPL_OK : bad_attr(path);
}

/* Attributes that do not follow the width are the same at each. */
static void share_attrs(const capl_graph *g, graph_node *node)
{
  for (int w = 0; node->by_width && w < g->n_widths; w++)
    for (int k = 0; k < CAPL_MAX_ATTR; k++)
      if (!node->follows_width[k]) node->by_width[w * CAPL_MAX_ATTR + k] = node->attr[k];
}

static capl_status read_attrs(const char *path, const capl_graph *g, const cJSON *attrs, graph_node *node)
{
  const capl_op *op = capl_op_get(node->op);
  const cJSON *item;
  unsigned seen = 0;
  capl_attr_defaults(op, node->attr);
  cJSON_ArrayForEach(item, attrs)
  {
    int k = item->string ? capl_attr_index(op, item->string) : -1;
    if (k < 0) return bad(path, "an attribute is unknown here; it may come from a newer capl");
    seen |= 1u << k;
    CAPL_TRY(read_attr(path, g, k, item, node));
  }
  share_attrs(g, node);
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++)
    if (op->attrs[k].required && !(seen >> k & 1u))
      return CAPL_FAIL(CAPL_EFORMAT, "%s is no capl graph: %s lacks %s", path, op->name, op->attrs[k].name);
  return CAPL_OK;
}

/* defined: per value, whether an earlier node (or the input, or a weight) has made it. */
static capl_status read_node(const char *path, const cJSON *item, capl_graph *g, bool *defined)
{
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "op");
  const cJSON *in = cJSON_GetObjectItemCaseSensitive(item, "in"), *out = cJSON_GetObjectItemCaseSensitive(item, "out");
  const capl_op *op = cJSON_IsString(name) ? capl_op_find(name->valuestring) : NULL;
  if (!op || op->mutates & ~0x18u || op->step_groups)
    return bad(path, "an op is unknown here; it may come from a newer capl");
  if (!cJSON_IsArray(in) || cJSON_GetArraySize(out) != op->n_out) return bad(path, "a node lacks inputs or outputs");
  graph_node *node = &g->nodes[g->n_nodes++];
  node->op = capl_op_id_of(op);
  node->n_in = cJSON_GetArraySize(in);
  node->in = calloc((size_t)node->n_in + 1, sizeof *node->in);
  if (!node->in) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the graph of %s", path);
  const cJSON *v;
  int i = 0;
  cJSON_ArrayForEach(v, in)
  {
    int64_t value = GRAPH_ABSENT;
    bool ok = cJSON_IsNull(v) || (json_whole(v, 0, g->n_values - 1, &value) && defined[value]);
    if (!ok) return bad(path, "a node reads a value that nothing made before");
    node->in[i++] = (int)value;
  }
  i = 0;
  cJSON_ArrayForEach(v, out)
  {
    int64_t value;
    if (!json_whole(v, 0, g->n_values - 1, &value) || defined[value]) return bad(path, "a value is made twice");
    defined[value] = true;
    node->out[i++] = (int)value;
  }
  return read_attrs(path, g, cJSON_GetObjectItemCaseSensitive(item, "attrs"), node);
}

/* The widths that the last dimension may have: a list of ascending numbers. */
static bool read_input_widths(const cJSON *list, capl_graph *g)
{
  int n = cJSON_GetArraySize(list);
  int64_t width = 0;
  if (n < 1 || n > GRAPH_WIDTHS_MAX) return false;
  for (; g->n_widths < n; g->width[g->n_widths++] = (int)width)
    if (!json_whole(cJSON_GetArrayItem(list, g->n_widths), (double)width + 1, 1 << 24, &width)) return false;
  g->inputs[0].size[g->inputs[0].ndim - 1] = g->width[0];
  return true;
}

/* The key name of an item, different from those of the others before it in list. */
static bool read_name(const cJSON *item, const cJSON *list, char *name)
{
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
  if (!graph_name_ok(text)) return false;
  for (const cJSON *other = list->child; other != item; other = other->next)
    if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(other, "name")), text) == 0) return false;
  strcpy(name, text);
  return true;
}

/* Items of a list of inputs or outputs, 0 = it is none. */
static int count_ports(const cJSON *list)
{
  int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
  return n <= CAPL_GRAPH_PORTS_MAX ? n : 0;
}

/* several: it is one of those, which have no widths. */
static capl_status read_input(const char *path, const cJSON *input, bool several, capl_graph *g)
{
  graph_input *x = &g->inputs[g->n_inputs++];
  const cJSON *size = cJSON_GetObjectItemCaseSensitive(input, "size");
  const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(input, "dtype");
  int n = cJSON_GetArraySize(size);
  if (!cJSON_IsArray(size) || n < 1 || n > CAPL_MAX_NDIM || !cJSON_IsString(dtype)) return bad(path, "it has no input");
  if (capl_dtype_parse(dtype->valuestring, &x->dtype) != CAPL_OK) return bad_attr(path);
  x->ndim = n;
  for (int d = 1; d < n; d++) {
    const cJSON *item = cJSON_GetArrayItem(size, d);
    bool list = d == n - 1 && !several && cJSON_IsArray(item);
    if (list ? !read_input_widths(item, g) : !json_whole(item, 0, 1 << 24, &x->size[d]))
      return bad(path, "its input size is no size");
  }
  return CAPL_OK;
}

static capl_status read_inputs(const char *path, const cJSON *root, capl_graph *g)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "inputs"), *item;
  int n = count_ports(list);
  if (!list) return read_input(path, cJSON_GetObjectItemCaseSensitive(root, "input"), false, g);
  if (n == 0) return bad(path, "it has no inputs, or too many");
  cJSON_ArrayForEach(item, list)
  {
    if (!read_name(item, list, g->inputs[g->n_inputs].name)) return bad(path, "the name of an input is no name");
    CAPL_TRY(read_input(path, item, n > 1, g));
  }
  return CAPL_OK;
}

typedef struct {
  const char *name;
  int at; /* in the list, -1 = it was taken */
} weight_name;

static int by_name(const void *a,
                   const void *b) { return strcmp(((const weight_name *)a)->name, ((const weight_name *)b)->name); }

/* The list's names in order; caller frees. */
static weight_name *sort_names(const capl_named_tensor *list, int n)
{
  weight_name *names = malloc(((size_t)n + 1) * sizeof *names);
  for (int k = 0; names && k < n; k++) names[k] = (weight_name){list[k].name, k};
  if (names) qsort(names, (size_t)n, sizeof *names, by_name);
  return names;
}

static capl_status take_named(const char *path, const cJSON *list_of_names, weight_name *names, int n,
                              capl_named_tensor *list, capl_graph *g)
{
  const cJSON *name;
  cJSON_ArrayForEach(name, list_of_names)
  {
    if (!cJSON_IsString(name)) return bad(path, "a weight has no name");
    weight_name *found = bsearch(&(weight_name){.name = name->valuestring}, names, (size_t)n, sizeof *names, by_name);
    if (!found || found->at < 0)
      return CAPL_FAIL(CAPL_EFORMAT, "%s needs the weight '%.80s', which weights.safetensors does not have", path,
                       name->valuestring);
    g->weights[g->n_weights++] = list[found->at];
    list[found->at] = (capl_named_tensor){NULL, NULL};
    found->at = -1;
  }
  return CAPL_OK;
}

/* Takes the tensors the graph names out of list, in the graph's order. */
static capl_status take_weights(const char *path, const cJSON *root, capl_named_tensor *list, int n, capl_graph *g)
{
  const cJSON *wanted = cJSON_GetObjectItemCaseSensitive(root, "weights");
  if (!cJSON_IsArray(wanted)) return bad(path, "it lists no weights");
  g->weights = calloc((size_t)cJSON_GetArraySize(wanted) + 1, sizeof *g->weights);
  weight_name *names = sort_names(list, n);
  capl_status status = g->weights && names ? take_named(path, wanted, names, n, list, g)
                                           : CAPL_FAIL(CAPL_ENOMEM, "no memory for the graph of %s", path);
  free(names);
  return status;
}

static capl_status read_output(const char *path, const cJSON *item, capl_graph *g, const bool *defined)
{
  int64_t value = 0;
  if (!json_whole(item, 0, g->n_values - 1, &value) || !defined[value])
    return bad(path, "its output is made by no node");
  g->outputs[g->n_outputs++].value = (int)value;
  return CAPL_OK;
}

static capl_status read_outputs(const char *path, const cJSON *root, capl_graph *g, const bool *defined)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "outputs"), *item;
  if (!list) return read_output(path, cJSON_GetObjectItemCaseSensitive(root, "output"), g, defined);
  if (count_ports(list) == 0) return bad(path, "it has no outputs, or too many");
  cJSON_ArrayForEach(item, list)
  {
    if (!read_name(item, list, g->outputs[g->n_outputs].name)) return bad(path, "the name of an output is no name");
    CAPL_TRY(read_output(path, cJSON_GetObjectItemCaseSensitive(item, "value"), g, defined));
  }
  return CAPL_OK;
}

static capl_status read_nodes(const char *path, const cJSON *root, capl_graph *g)
{
  const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(root, "nodes"), *item;
  int count = cJSON_GetArraySize(nodes);
  if (!cJSON_IsArray(nodes) || count < 1 || count > MOST_NODES) return bad(path, "it has no nodes");
  g->n_values = g->n_inputs + g->n_weights;
  cJSON_ArrayForEach(item, nodes) g->n_values += cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(item, "out"));
  g->nodes = calloc((size_t)count, sizeof *g->nodes);
  bool *defined = calloc((size_t)g->n_values, sizeof *defined);
  capl_status status = CAPL_OK;
  if (!g->nodes || !defined) status = CAPL_FAIL(CAPL_ENOMEM, "no memory for the graph of %s", path);
  for (int v = 0; defined && v < g->n_inputs + g->n_weights; v++) defined[v] = true;
  if (status == CAPL_OK) {
    cJSON_ArrayForEach(item, nodes)
    {
      status = read_node(path, item, g, defined);
      if (status == CAPL_OK) continue;
      const cJSON *op = cJSON_GetObjectItemCaseSensitive(item, "op");
      capl_error_context("node %d of %d: %.40s", g->n_nodes, count, cJSON_IsString(op) ? op->valuestring : "no op");
      break;
    }
  }
  if (status == CAPL_OK) status = read_outputs(path, root, g, defined);
  free(defined);
  return status;
}

static capl_status read_graph(const char *path, const cJSON *root, capl_named_tensor *list, int n, capl_graph *g)
{
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(root, "capl_graph");
  if (!cJSON_IsNumber(version)) return bad(path, "it is no JSON object with the key capl_graph");
  if (version->valuedouble < VERSION || version->valuedouble > NAMES_VERSION
      || version->valuedouble != floor(version->valuedouble))
    return CAPL_FAIL(CAPL_EFORMAT, "%s is a graph of version %g; capl %s reads versions %d to %d", path,
                     version->valuedouble, capl_version(), VERSION, NAMES_VERSION);
  CAPL_TRY(read_inputs(path, root, g));
  CAPL_TRY(take_weights(path, root, list, n, g));
  return read_nodes(path, root, g);
}

capl_status graph_from_json(const char *path, const char *text, capl_named_tensor *list, int n, capl_graph **out)
{
  cJSON *root;
  CAPL_TRY(json_read(&(json_rules){.name = path, .unique = true}, text, strlen(text), &root));
  capl_graph *g = calloc(1, sizeof *g);
  capl_status status = g ? read_graph(path, root, list, n, g)
      : CAPL_FAIL(CAPL_ENOMEM, "no memory for the graph of %s", path);
  cJSON_Delete(root);
  if (status == CAPL_OK) return *out = g, CAPL_OK;
  capl_graph_free(g);
  return status;
}
