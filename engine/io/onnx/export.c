/* export.c -- a saved model, or a graph alone, as an ONNX file in memory.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "capl/backend.h"
#include "capl/capl.h"
#include "io/onnx.h"
#include "io/onnx/ddddocr.h"
#include "io/onnx/input.h"

enum { IR_VERSION = 8, OPSET = 17 };

/* ---- what is known of each value --------------------------------------------------------------- */

typedef struct {
  const capl_graph *graph;
  onnx_value *values;
  int next; /* node */
  bool again; /* of other sizes: what differs follows them */
} watch;

static void note_value(onnx_value *v, capl_dtype dtype, int ndim, const int64_t *size, bool again)
{
  for (int d = 0; d < ndim; d++) v->size[d] = again && v->size[d] != size[d] ? -1 : size[d];
  v->dtype = dtype;
  v->ndim = ndim;
}

static void note_call(void *user, const capl_call *call)
{
  watch *w = user;
  if (w->next == w->graph->n_nodes) return;
  const graph_node *node = &w->graph->nodes[w->next];
  for (int o = 0; o < call->op->n_out; o++) {
    onnx_value *v = &w->values[node->out[o]];
    note_value(v, call->out[o]->dtype, call->out[o]->ndim, call->out[o]->size, w->again);
    v->maker = w->next;
  }
  w->next++;
}

static capl_status run_shapes(const onnx_export *e, int64_t batch, int w, bool again)
{
  watch user = {.graph = e->graph, .values = e->values, .again = again};
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  capl_observe_set(note_call, &user);
  capl_status status = graph_shape(e->graph, batch, w, 0, &ndim, size, NULL);
  capl_observe_set(NULL, NULL);
  return status;
}

static void note_ends(const onnx_export *e, bool fixed)
{
  const capl_graph *g = e->graph;
  for (int i = 0; i < g->n_inputs; i++) {
    const graph_input *in = &g->inputs[i];
    onnx_value *v = &e->values[i];
    note_value(v, in->dtype, in->ndim, in->size, false);
    if (!fixed) v->size[0] = -1;
    if (g->n_widths) v->size[in->ndim - 1] = -1;
  }
  for (int k = 0; k < g->n_weights; k++) {
    const capl_tensor *t = g->weights[k].tensor;
    note_value(&e->values[g->n_inputs + k], t->dtype, t->ndim, t->size, false);
  }
}

/* fixed: of the batch size as traced alone. */
static capl_status learn_values(onnx_export *e, bool fixed)
{
  const capl_graph *g = e->graph;
  e->values = onnx_alloc(e->b, (size_t)g->n_values * sizeof *e->values);
  if (!e->values) return e->b->status;
  for (int v = 0; v < g->n_values; v++) e->values[v].maker = -1;
  note_ends(e, fixed);
  CAPL_TRY(run_shapes(e, fixed ? g->inputs[0].size[0] : 3, 0, false));
  return fixed ? CAPL_OK : run_shapes(e, 5, g->n_widths ? g->n_widths - 1 : 0, true);
}

/* ---- nodes ------------------------------------------------------------------------------------- */

/* A weight gets its name where a node first reads it. Names without a dot could be those of inputs and outputs. */
static void name_weight(onnx_export *e, int value, onnx_file *file)
{
  const capl_graph *g = e->graph;
  int k = value - g->n_inputs;
  if (k < 0 || k >= g->n_weights || e->values[value].name) return;
  const char *name = g->weights[k].name;
  name = onnx_text(e->b, graph_name_ok(name) ? "weight/%s" : "%s", name);
  e->values[value].name = onnx_weight(e->b, name, g->weights[k].tensor);
  file->n_16_bit += capl_dtype_is_16_bit(g->weights[k].tensor->dtype);
}

/* An output that its op's writer gave no name. */
static void no_value(onnx_export *e, int value)
{
  int maker = e->values[value].maker, o = 0;
  const graph_node *node = &e->graph->nodes[maker];
  while (node->out[o] != value) o++;
  onnx_call c = {.x = e, .op = node->op, .number = maker, .node = node};
  onnx_fail(e->b, &c, "another op reads its output %d, of '%s'", o + 1, capl_op_get(node->op)->outs);
}

static void write_node(onnx_export *e, int k, onnx_file *file)
{
  onnx_build *b = e->b;
  const graph_node *node = &e->graph->nodes[k];
  const capl_op *op = capl_op_get(node->op);
  onnx_value out[CAPL_MAX_OUT];
  const onnx_value **in = onnx_alloc(b, (size_t)(node->n_in + 1) * sizeof *in);
  if (!in) return;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] < 0) continue;
    name_weight(e, node->in[i], file);
    in[i] = &e->values[node->in[i]];
    if (!in[i]->name) no_value(e, node->in[i]);
  }
  for (int o = 0; o < op->n_out; o++) out[o] = e->values[node->out[o]];
  onnx_call c = {.x = e, .op = node->op, .number = k, .node = node, .attr = node->attr, .n_in = node->n_in, .in = in,
                 .out = out};
  onnx_writer *write = onnx_writer_of(node->op);
  onnx_scope(b, "%d_%s", k + 1, op->name);
  if (!write) onnx_fail(b, &c, "it has no form there");
  else if (b->status == CAPL_OK) write(b, &c);
  for (int o = 0; o < op->n_out; o++) e->values[node->out[o]].name = out[o].name;
}

static capl_status write_nodes(onnx_export *e, onnx_file *file)
{
  for (int k = 0; k < e->graph->n_nodes && e->b->status == CAPL_OK; k++) write_node(e, k, file);
  return e->b->status;
}

static const char *value_of(onnx_export *e, int value)
{
  if (!e->values[value].name) no_value(e, value);
  return e->values[value].name ? e->values[value].name : "";
}

static void write_output(onnx_export *e, const char *value, const onnx_value *of, const char *name)
{
  const char *free[CAPL_MAX_NDIM] = {"N"};
  for (int d = 1; d < of->ndim; d++) free[d] = onnx_text(e->b, "%s_%d", name, d);
  onnx_output(e->b, value, name, onnx_type_of(of->dtype), of->ndim, of->size, free);
}

/* ---- a model ----------------------------------------------------------------------------------- */

typedef struct {
  onnx_export *e;
  const model_meta *meta;
  const cJSON *root; /* of meta.json */
  const char *text;
  bool ddddocr;
} model_export;

/* The description of input or output i; key: "inputs" or "outputs". */
static const cJSON *described(const model_export *m, const char *key, int i)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(m->root, key);
  return list ? cJSON_GetArrayItem(list, i) : m->root;
}

static bool says(const cJSON *object, const char *key, const char *word)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(item) && strcmp(item->valuestring, word) == 0;
}

static const char *input_name(const model_field *f)
{
  return *f->name ? f->name : field_input_kind(f)->name;
}

/* An only input and an only output of kind image would have one name. */
static const char *output_name(const model_export *m, const model_field *f)
{
  if (*f->name) return f->name;
  for (int i = 0; i < m->meta->n_inputs; i++)
    if (strcmp(input_name(&m->meta->inputs[i]), f->kind->name) == 0) return "output";
  return f->kind->name;
}

/* The graph's number of a field by its name; an only one is found without. */
static int port_of(const model_field *f, int n, const capl_graph *g, const char *(*name_of)(const capl_graph *, int))
{
  for (int i = 0; i < n; i++)
    if (strcmp(f->name, name_of(g, i)) == 0) return i;
  return 0;
}

/* What input.c knows, so that a way of a later version is not left out. */
static capl_status check_resize(const model_export *m, const cJSON *image)
{
  const cJSON *resize = cJSON_GetObjectItemCaseSensitive(image, "resize");
  if (!resize || says(image, "resize", "bicubic") || says(resize, "mode", "letterbox")) return CAPL_OK;
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s: its resize in meta.json is neither bicubic nor letterbox, so it cannot be "
                                      "written as ONNX", m->e->path);
}

static capl_status write_image(model_export *m, const model_field *f, const cJSON *image, const char **out)
{
  static const char *const free[] = {"N", "H", "W", "C"};
  static const int64_t any[] = {-1, -1, -1, -1};
  onnx_build *b = m->e->b;
  CAPL_TRY(check_resize(m, image));
  if (m->ddddocr) *out = onnx_image(b, m->meta, ddddocr_input(b, m->meta));
  else {
    onnx_input(b, input_name(f), ONNX_U8, 4, any, free);
    *out = onnx_image(b, m->meta, onnx_cast(b, input_name(f), ONNX_F32));
  }
  return b->status;
}

static capl_status write_inputs(model_export *m)
{
  static const char *const free[] = {"N", "", "", "", "", ""};
  onnx_export *e = m->e;
  for (int i = 0; i < m->meta->n_inputs; i++) {
    const model_field *f = &m->meta->inputs[i];
    onnx_value *v = &e->values[port_of(f, e->graph->n_inputs, e->graph, capl_graph_input_name)];
    const char *name = input_name(f);
    if (i == 0) e->b->first_input = name;
    onnx_scope(e->b, "prepare_%s", name);
    if (!f->kind) CAPL_TRY(write_image(m, f, described(m, "inputs", i), &v->name));
    else {
      onnx_input(e->b, name, ONNX_F32, v->ndim, v->size, free);
      v->name = onnx_scaled(e->b, described(m, "inputs", i), name);
    }
  }
  return e->b->status;
}

static capl_status write_outputs(model_export *m)
{
  onnx_export *e = m->e;
  for (int o = 0; o < m->meta->n_outputs; o++) {
    const model_field *f = &m->meta->outputs[o];
    int value = e->graph->outputs[port_of(f, e->graph->n_outputs, e->graph, capl_graph_output_name)].value;
    const char *scores = value_of(e, value);
    bool ctc = says(described(m, "outputs", o), "decoding", "ctc");
    int64_t steps[] = {-1, 1, capl_vocab_count(f->vocab) + 1};
    onnx_scope(e->b, "output_%s", output_name(m, f));
    if (!m->ddddocr) write_output(e, scores, &e->values[value], output_name(m, f));
    else onnx_output(e->b, ddddocr_output(e->b, f, ctc, scores), output_name(m, f), ONNX_F32, 3, steps,
                     (const char *const[]){"T", "", ""});
  }
  return e->b->status;
}

/* ---- metadata ---------------------------------------------------------------------------------- */

static const char *copy_text(onnx_build *b, const char *text)
{
  size_t n = strlen(text) + 1;
  char *copy = onnx_alloc(b, n);
  if (copy) memcpy(copy, text, n);
  return copy;
}

static void add_property(onnx_build *b, Onnx__ModelProto *model, const char *key, const char *value)
{
  Onnx__StringStringEntryProto *entry = onnx_alloc(b, sizeof *entry);
  if (!entry) return;
  onnx__string_string_entry_proto__init(entry);
  entry->key = (char *)key;
  entry->value = (char *)copy_text(b, value);
  model->metadata_props[model->n_metadata_props++] = entry;
}

/* The names as a JSON list. */
static void add_vocabulary(onnx_build *b, Onnx__ModelProto *model, const char *key, const capl_vocab *vocab)
{
  JSON_OWNED *list = cJSON_CreateArray();
  for (int32_t k = 0; list && k < capl_vocab_count(vocab); k++)
    cJSON_AddItemToArray(list, cJSON_CreateString(capl_vocab_name(vocab, k)));
  char *text = list ? json_print(list, false) : NULL;
  if (text) add_property(b, model, key, text);
  else if (b->status == CAPL_OK) b->status = CAPL_FAIL(CAPL_ENOMEM, "no memory for a vocabulary");
  free(text);
}

static void add_field(onnx_build *b, Onnx__ModelProto *model, const char *what, const char *name, const model_field *f)
{
  add_property(b, model, onnx_text(b, "capl_%s.%s.kind", what, name), field_input_kind(f)->name);
  if (f->vocab) add_vocabulary(b, model, onnx_text(b, "capl_%s.%s.vocabulary", what, name), f->vocab);
}

static void add_properties(model_export *m, Onnx__ModelProto *model)
{
  onnx_build *b = m->e->b;
  model->metadata_props = onnx_alloc(b, (3 + 4 * CAPL_GRAPH_PORTS_MAX) * sizeof *model->metadata_props);
  if (!model->metadata_props) return;
  add_property(b, model, "capl_version", capl_version());
  add_property(b, model, "capl_format", m->ddddocr ? "ddddocr" : "onnx");
  add_property(b, model, "capl_meta", m->text);
  for (int i = 0; i < m->meta->n_inputs; i++)
    add_field(b, model, "input", input_name(&m->meta->inputs[i]), &m->meta->inputs[i]);
  for (int o = 0; o < m->meta->n_outputs; o++)
    add_field(b, model, "output", output_name(m, &m->meta->outputs[o]), &m->meta->outputs[o]);
}

/* ---- the file ---------------------------------------------------------------------------------- */

static capl_status pack(onnx_export *e, Onnx__ModelProto *model, onnx_file *file)
{
  Onnx__OperatorSetIdProto *opset = onnx_alloc(e->b, sizeof *opset);
  model->opset_import = onnx_alloc(e->b, sizeof *model->opset_import);
  if (!opset || !model->opset_import) return e->b->status;
  onnx__operator_set_id_proto__init(opset);
  opset->domain = "";
  opset->has_version = true;
  opset->version = OPSET;
  e->b->graph.name = "capl";
  model->has_ir_version = true;
  model->ir_version = IR_VERSION;
  model->producer_name = "capl";
  model->producer_version = (char *)capl_version();
  model->graph = &e->b->graph;
  model->n_opset_import = 1;
  *model->opset_import = opset;
  if (e->b->status != CAPL_OK) return e->b->status;
  size_t n = onnx__model_proto__get_packed_size(model);
  if (n > INT32_MAX)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s: its ONNX file has %zu bytes; ONNX allows 2 GiB", e->path, n);
  file->bytes = malloc(n);
  if (!file->bytes) return CAPL_FAIL(CAPL_ENOMEM, "no memory for an ONNX file of %zu bytes", n);
  file->n_bytes = onnx__model_proto__pack(model, file->bytes);
  file->n_nodes = (int)e->b->graph.n_node;
  return CAPL_OK;
}

static capl_status export_model(model_export *m, onnx_file *file)
{
  Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
  if (m->ddddocr) CAPL_TRY(ddddocr_check(m->e->path, m->meta));
  CAPL_TRY(learn_values(m->e, false));
  CAPL_TRY(write_inputs(m));
  CAPL_TRY(write_nodes(m->e, file));
  CAPL_TRY(write_outputs(m));
  add_properties(m, &model);
  CAPL_TRY(pack(m->e, &model, file));
  return m->ddddocr ? ddddocr_charset(m->meta, &file->charset) : CAPL_OK;
}

static capl_status with_meta(const char *path, bool ddddocr, const capl_graph *graph, const char *text,
                             onnx_file *file)
{
  char name[4096 + 16];
  model_meta meta;
  JSON_OWNED *root = NULL;
  onnx_build b;
  snprintf(name, sizeof name, "%s/meta.json", path);
  CAPL_TRY(json_read(&(json_rules){.name = name}, text, strlen(text), &root));
  CAPL_TRY(meta_parse(name, text, &meta));
  onnx_build_init(&b);
  onnx_export e = {.b = &b, .path = path, .graph = graph};
  model_export m = {&e, &meta, root, text, ddddocr};
  capl_status status = export_model(&m, file);
  onnx_build_fini(&b);
  meta_fini(&meta);
  return status;
}

static capl_status pack_model(const char *path, bool ddddocr, onnx_file *file)
{
  capl_device *device;
  capl_graph *graph;
  char *text;
  *file = (onnx_file){0};
  CAPL_TRY(capl_device_open("cpu", &device));
  CAPL_TRY(capl_model_load(path, device, &graph, &text));
  capl_status status = with_meta(path, ddddocr, graph, text, file);
  capl_graph_free(graph);
  free(text);
  return status;
}

/* Inputs without preprocessing: for tests of single ops. */
static capl_status export_graph(onnx_export *e, onnx_file *file)
{
  static const char *const free[CAPL_MAX_NDIM] = {"", "", "", "", "", ""};
  Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
  const capl_graph *g = e->graph;
  CAPL_TRY(learn_values(e, true));
  for (int i = 0; i < g->n_inputs; i++) {
    onnx_value *v = &e->values[i];
    v->name = *g->inputs[i].name ? g->inputs[i].name : "input";
    onnx_input(e->b, v->name, onnx_type_of(v->dtype), v->ndim, v->size, free);
  }
  e->b->first_input = e->values[0].name;
  CAPL_TRY(write_nodes(e, file));
  for (int o = 0; o < g->n_outputs; o++) {
    const graph_output *out = &g->outputs[o];
    write_output(e, value_of(e, out->value), &e->values[out->value], *out->name ? out->name : "output");
  }
  return pack(e, &model, file);
}

static capl_status pack_graph(const capl_graph *graph, onnx_file *file)
{
  onnx_build b;
  onnx_build_init(&b);
  onnx_export e = {.b = &b, .path = "the graph", .graph = graph};
  *file = (onnx_file){0};
  capl_status status = export_graph(&e, file);
  onnx_build_fini(&b);
  return status;
}

const onnx_packing *onnx_packing_entry(void)
{
  static const onnx_packing packing = {.abi = ONNX_ABI, .model = pack_model, .graph = pack_graph};
  return &packing;
}
