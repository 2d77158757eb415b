/* trace.c -- notes the op calls of a forward pass and makes a graph of them.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/graph.h"

typedef struct {
  capl_op_id op;
  int n_in;
  capl_tensor **in; /* referenced, so that no address is used twice during the trace */
  capl_tensor *out[CAPL_MAX_OUT];
  capl_attr attr[CAPL_MAX_ATTR];
} noted_call;

static struct {
  bool active, failed;
  noted_call *calls;
  size_t count, room;
} trace;

static bool make_room(void)
{
  if (trace.count < trace.room) return true;
  size_t room = trace.room ? 2 * trace.room : 256;
  noted_call *calls = realloc(trace.calls, room * sizeof *calls);
  if (!calls) return false;
  trace.calls = calls;
  trace.room = room;
  return true;
}

static void note(void *user, const capl_call *call)
{
  (void)user;
  capl_tensor **in = calloc((size_t)call->n_in, sizeof *in);
  if (!in || !make_room()) {
    free(in);
    trace.failed = true;
    return;
  }
  noted_call *c = &trace.calls[trace.count++];
  *c = (noted_call){.op = call->id, .n_in = call->n_in, .in = in};
  for (int i = 0; i < call->n_in; i++) in[i] = capl_tensor_ref(call->in[i]);
  for (int k = 0; k < call->op->n_out; k++) c->out[k] = capl_tensor_ref(call->out[k]);
  memcpy(c->attr, call->attr, sizeof c->attr);
}

capl_status capl_trace_begin(void)
{
  if (trace.active) return CAPL_FAIL(CAPL_ESTATE, "a trace is running already");
  memset(&trace, 0, sizeof trace);
  trace.active = true;
  capl_observe_set(note, NULL);
  return CAPL_OK;
}

void capl_trace_cancel(void)
{
  capl_observe_set(NULL, NULL);
  for (size_t k = 0; k < trace.count; k++) {
    noted_call *c = &trace.calls[k];
    for (int i = 0; i < c->n_in; i++) capl_tensor_unref(c->in[i]);
    for (int o = 0; o < CAPL_MAX_OUT; o++) capl_tensor_unref(c->out[o]);
    free(c->in);
  }
  free(trace.calls);
  memset(&trace, 0, sizeof trace);
}

/* ---- from calls to a graph ------------------------------------------------------------------- */

/* Two handles may stand for one parameter: the same storage and the same view of it. */
static bool same_values(const capl_tensor *a, const capl_tensor *b)
{
  return a == b || (a->storage == b->storage && a->offset == b->offset && a->dtype == b->dtype && a->storage &&
                    capl_tensor_same_layout(a, b));
}

/* Call that made t, -1 = none. */
static int maker_of(const capl_tensor *t, int before, int *output)
{
  for (int k = before - 1; k >= 0; k--)
    for (int o = 0; o < CAPL_MAX_OUT; o++)
      if (trace.calls[k].out[o] == t) return *output = o, k;
  return -1;
}

typedef struct {
  capl_graph *graph;
  const capl_traced *traced;
  int weight_room;
  bool *needed; /* per call */
} builder;

/* Number of the input that t is, -1 = none. */
static int input_of(const builder *b, const capl_tensor *t)
{
  for (int i = 0; i < b->traced->n_inputs; i++)
    if (b->traced->inputs[i].tensor == t) return i;
  return -1;
}

/* Marks the calls that lead to the outputs. Calls are in order, so one sweep backwards suffices. */
static void mark_needed(builder *b)
{
  int o;
  for (int k = 0; k < b->traced->n_outputs; k++)
    b->needed[maker_of(b->traced->outputs[k].tensor, (int)trace.count, &o)] = true;
  for (int k = (int)trace.count - 1; k >= 0; k--) {
    if (!b->needed[k]) continue;
    for (int i = 0; i < trace.calls[k].n_in; i++) {
      const capl_tensor *t = trace.calls[k].in[i];
      int from = t && input_of(b, t) < 0 ? maker_of(t, k, &o) : -1;
      if (from >= 0) b->needed[from] = true;
    }
  }
}

static const char *name_of(const builder *b, const capl_tensor *t)
{
  for (int k = 0; k < b->traced->n_weights; k++)
    if (same_values(b->traced->weights[k].tensor, t)) return b->traced->weights[k].name;
  return NULL;
}

/* Number of a weight or constant, added when new. */
static capl_status weight_value(builder *b, capl_tensor *t, int *value)
{
  capl_graph *g = b->graph;
  for (int k = 0; k < g->n_weights; k++)
    if (same_values(g->weights[k].tensor, t)) return *value = g->n_inputs + k, CAPL_OK;
  if (g->n_weights == b->weight_room) {
    int room = b->weight_room ? 2 * b->weight_room : 64;
    capl_named_tensor *list = realloc(g->weights, (size_t)room * sizeof *list);
    if (!list) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the graph's weights");
    g->weights = list;
    b->weight_room = room;
  }
  char constant[32];
  snprintf(constant, sizeof constant, "constant.%d", g->n_weights);
  const char *name = name_of(b, t);
  char *copy = strdup(name ? name : constant);
  if (!copy) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the graph's weights");
  g->weights[g->n_weights++] = (capl_named_tensor){copy, capl_tensor_ref(t)};
  *value = g->n_inputs + g->n_weights - 1;
  return CAPL_OK;
}

/* First pass: every tensor that no needed call made is a weight or a constant. */
static capl_status collect_weights(builder *b)
{
  for (int k = 0; k < (int)trace.count; k++) {
    if (!b->needed[k]) continue;
    for (int i = 0; i < trace.calls[k].n_in; i++) {
      capl_tensor *t = trace.calls[k].in[i];
      int o, value;
      if (!t || input_of(b, t) >= 0 || maker_of(t, k, &o) >= 0) continue;
      CAPL_TRY(weight_value(b, t, &value));
    }
  }
  return CAPL_OK;
}

/* Second pass: numbers for the inputs, now that the weights are counted. first_value: per call. */
static capl_status add_node(builder *b, int k, int *first_value)
{
  capl_graph *g = b->graph;
  const noted_call *c = &trace.calls[k];
  graph_node *node = &g->nodes[g->n_nodes];
  *node = (graph_node){.op = c->op, .n_in = c->n_in, .in = calloc((size_t)c->n_in, sizeof *node->in)};
  if (!node->in) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the graph");
  g->n_nodes++;
  memcpy(node->attr, c->attr, sizeof node->attr);
  for (int i = 0; i < c->n_in; i++) {
    int o = 0, from = c->in[i] ? maker_of(c->in[i], k, &o) : -1, input = input_of(b, c->in[i]);
    if (!c->in[i]) node->in[i] = GRAPH_ABSENT;
    else if (input >= 0) node->in[i] = input;
    else if (from >= 0) node->in[i] = first_value[from] + o;
    else CAPL_TRY(weight_value(b, c->in[i], &node->in[i]));
  }
  first_value[k] = g->n_values;
  for (int o = 0; o < capl_op_get(c->op)->n_out; o++) node->out[o] = g->n_values++;
  return CAPL_OK;
}

static capl_status build(builder *b, int *first_value)
{
  capl_graph *g = b->graph;
  mark_needed(b);
  CAPL_TRY(collect_weights(b));
  g->n_values = g->n_inputs + g->n_weights;
  for (int k = 0; k < (int)trace.count; k++)
    if (b->needed[k]) CAPL_TRY(add_node(b, k, first_value));
  for (int i = 0; i < g->n_outputs; i++) {
    int o = 0, root = maker_of(b->traced->outputs[i].tensor, (int)trace.count, &o);
    g->outputs[i].value = first_value[root] + o;
  }
  return CAPL_OK;
}

/* ---- inputs and outputs ------------------------------------------------------------------------ */

/* One of n names of what ("input", "output"), the others being list. */
static capl_status check_name(const char *what, const capl_named_tensor *list, int n, int at)
{
  const char *name = list[at].name;
  if (n == 1 && (!name || !*name)) return CAPL_OK;
  if (!graph_name_ok(name)) {
    CAPL_FAIL(CAPL_EVALUE, "'%.80s' is no name for an %s of a model", name ? name : "", what);
    capl_error_hint("a name has letters, digits and _, begins with no digit, and is at most %d bytes long",
                    CAPL_GRAPH_NAME_MAX - 1);
    return CAPL_EVALUE;
  }
  for (int k = 0; k < at; k++)
    if (strcmp(list[k].name, name) == 0)
      return CAPL_FAIL(CAPL_EVALUE, "two %ss of the model are named '%s'", what, name);
  return CAPL_OK;
}

static capl_status check_names(const char *what, const capl_named_tensor *list, int n)
{
  if (n < 1 || n > CAPL_GRAPH_PORTS_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "the model has %d %ss; 1 to %d can be recorded", n, what, CAPL_GRAPH_PORTS_MAX);
  for (int k = 0; k < n; k++) CAPL_TRY(check_name(what, list, n, k));
  return CAPL_OK;
}

static capl_status take_inputs(const capl_traced *t, capl_graph *g)
{
  CAPL_TRY(check_names("input", t->inputs, t->n_inputs));
  for (int k = 0; k < t->n_inputs; k++) {
    const capl_tensor *x = t->inputs[k].tensor;
    const char *name = t->inputs[k].name ? t->inputs[k].name : "";
    graph_input *input = &g->inputs[g->n_inputs++];
    if (x->ndim < 1 || x->size[0] != t->inputs[0].tensor->size[0])
      return CAPL_FAIL(CAPL_EVALUE, "the first dim of every input is the batch; '%s' has no such dim, or another batch",
                       name);
    *input = (graph_input){.dtype = x->dtype, .ndim = x->ndim};
    snprintf(input->name, sizeof input->name, "%s", name);
    memcpy(input->size, x->size, sizeof input->size);
  }
  return CAPL_OK;
}

static capl_status take_outputs(const capl_traced *t, capl_graph *g)
{
  CAPL_TRY(check_names("output", t->outputs, t->n_outputs));
  for (int k = 0; k < t->n_outputs; k++) {
    int o;
    const char *name = t->outputs[k].name ? t->outputs[k].name : "";
    if (maker_of(t->outputs[k].tensor, (int)trace.count, &o) < 0)
      return CAPL_FAIL(CAPL_EVALUE, "the model's output%s%s was not made by any op: nothing to record",
                       *name ? " " : "", name);
    snprintf(g->outputs[g->n_outputs++].name, sizeof g->outputs->name, "%s", name);
  }
  return CAPL_OK;
}

static int port_order(const void *a, const void *b)
{
  return strcmp(((const capl_named_tensor *)a)->name, ((const capl_named_tensor *)b)->name);
}

/* list in the order of its names, in room. */
static const capl_named_tensor *sorted(const capl_named_tensor *list, int n, capl_named_tensor *room)
{
  if (n <= 1 || n > CAPL_GRAPH_PORTS_MAX) return list;
  for (int k = 0; k < n; k++) {
    if (!list[k].name) return list; /* refused by check_names */
    room[k] = list[k];
  }
  qsort(room, (size_t)n, sizeof *room, port_order);
  return room;
}

static capl_status make_graph(const capl_traced *traced, capl_graph *g)
{
  builder b = {.graph = g, .traced = traced, .needed = calloc(trace.count + 1, sizeof *b.needed)};
  int *first_value = calloc(trace.count + 1, sizeof *first_value);
  g->nodes = calloc(trace.count + 1, sizeof *g->nodes);
  capl_status status = CAPL_OK;
  if (trace.failed || !g->nodes || !b.needed || !first_value)
    status = CAPL_FAIL(CAPL_ENOMEM, "no memory to trace %zu op calls", trace.count);
  if (status == CAPL_OK) status = take_inputs(traced, g);
  if (status == CAPL_OK) status = take_outputs(traced, g);
  if (status == CAPL_OK) status = build(&b, first_value);
  free(b.needed);
  free(first_value);
  return status;
}

capl_status capl_trace_end_named(const capl_traced *traced, capl_graph **out)
{
  capl_named_tensor inputs[CAPL_GRAPH_PORTS_MAX], outputs[CAPL_GRAPH_PORTS_MAX];
  capl_traced t = *traced;
  if (!trace.active) return CAPL_FAIL(CAPL_ESTATE, "no trace is running");
  capl_observe_set(NULL, NULL);
  t.inputs = sorted(t.inputs, t.n_inputs, inputs);
  t.outputs = sorted(t.outputs, t.n_outputs, outputs);
  capl_graph *g = calloc(1, sizeof *g);
  capl_status status = g ? make_graph(&t, g) : CAPL_FAIL(CAPL_ENOMEM, "no memory to trace %zu op calls", trace.count);
  capl_trace_cancel();
  if (status == CAPL_OK) *out = g;
  else capl_graph_free(g);
  return status;
}

capl_status capl_trace_end(capl_tensor *input, capl_tensor *output, const capl_named_tensor *named, int n,
                           capl_graph **out)
{
  capl_named_tensor x = {NULL, input}, y = {NULL, output};
  return capl_trace_end_named(&(capl_traced){&x, 1, &y, 1, named, n}, out);
}
