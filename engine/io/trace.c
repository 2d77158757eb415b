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
  capl_tensor *input;
  const capl_named_tensor *named;
  int n_named, weight_room;
  bool *needed; /* per call */
} builder;

/* Marks the calls that lead to t. Calls are in order, so one sweep backwards suffices. */
static void mark_needed(builder *b, const capl_tensor *output)
{
  int o, root = maker_of(output, (int)trace.count, &o);
  if (root >= 0) b->needed[root] = true;
  for (int k = (int)trace.count - 1; k >= 0; k--) {
    if (!b->needed[k]) continue;
    for (int i = 0; i < trace.calls[k].n_in; i++) {
      const capl_tensor *t = trace.calls[k].in[i];
      int from = t && t != b->input ? maker_of(t, k, &o) : -1;
      if (from >= 0) b->needed[from] = true;
    }
  }
}

static const char *name_of(const builder *b, const capl_tensor *t)
{
  for (int k = 0; k < b->n_named; k++)
    if (same_values(b->named[k].tensor, t)) return b->named[k].name;
  return NULL;
}

/* Number of a weight or constant, added when new. */
static capl_status weight_value(builder *b, capl_tensor *t, int *value)
{
  capl_graph *g = b->graph;
  for (int k = 0; k < g->n_weights; k++)
    if (same_values(g->weights[k].tensor, t)) return *value = 1 + k, CAPL_OK;
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
  *value = g->n_weights;
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
      if (!t || t == b->input || maker_of(t, k, &o) >= 0) continue;
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
    int o = 0, from = c->in[i] ? maker_of(c->in[i], k, &o) : -1;
    if (!c->in[i]) node->in[i] = GRAPH_ABSENT;
    else if (c->in[i] == b->input) node->in[i] = 0;
    else if (from >= 0) node->in[i] = first_value[from] + o;
    else CAPL_TRY(weight_value(b, c->in[i], &node->in[i]));
  }
  first_value[k] = g->n_values;
  for (int o = 0; o < capl_op_get(c->op)->n_out; o++) node->out[o] = g->n_values++;
  return CAPL_OK;
}

static capl_status build(builder *b, capl_tensor *output, int *first_value)
{
  capl_graph *g = b->graph;
  int o = 0, root = maker_of(output, (int)trace.count, &o);
  if (root < 0) return CAPL_FAIL(CAPL_EVALUE, "the model's output was not made by any op: nothing to record");
  mark_needed(b, output);
  CAPL_TRY(collect_weights(b));
  g->n_values = 1 + g->n_weights;
  for (int k = 0; k < (int)trace.count; k++)
    if (b->needed[k]) CAPL_TRY(add_node(b, k, first_value));
  g->output = first_value[root] + o;
  return CAPL_OK;
}

static void describe_input(capl_graph *g, const capl_tensor *input)
{
  g->input_dtype = input->dtype;
  g->input_ndim = input->ndim;
  memcpy(g->input_size, input->size, sizeof g->input_size);
}

capl_status capl_trace_end(capl_tensor *input, capl_tensor *output, const capl_named_tensor *named, int n,
                           capl_graph **out)
{
  if (!trace.active) return CAPL_FAIL(CAPL_ESTATE, "no trace is running");
  capl_observe_set(NULL, NULL);
  builder b = {.input = input, .named = named, .n_named = n};
  b.graph = calloc(1, sizeof *b.graph);
  b.needed = calloc(trace.count + 1, sizeof *b.needed);
  int *first_value = calloc(trace.count + 1, sizeof *first_value);
  capl_status status = CAPL_OK;
  if (b.graph) b.graph->nodes = calloc(trace.count + 1, sizeof *b.graph->nodes);
  if (trace.failed || !b.graph || !b.graph->nodes || !b.needed || !first_value)
    status = CAPL_FAIL(CAPL_ENOMEM, "no memory to trace %zu op calls", trace.count);
  if (status == CAPL_OK) {
    describe_input(b.graph, input);
    status = build(&b, output, first_value);
  }
  free(b.needed);
  free(first_value);
  capl_trace_cancel();
  if (status == CAPL_OK) *out = b.graph;
  else capl_graph_free(b.graph);
  return status;
}
