/* golden_graph.c -- golden pairs of a model that takes other things than images: replayed as tensors, whatever they
** mean. SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "capl/io.h"
#include "capl/model.h"
#include "io/golden.h"

enum { PATH_ROOM = 4096 + 96 };

typedef struct {
  const char *folder;
  capl_graph *graph;
  capl_named_tensor *inputs, *outputs; /* of the files */
  int n_inputs, n_outputs;
  capl_tensor *now[CAPL_GRAPH_PORTS_MAX];
} replay;

static capl_status load(replay *r, capl_device *device)
{
  char path[PATH_ROOM], *meta;
  CAPL_TRY(capl_model_load(r->folder, device, &r->graph, &meta));
  free(meta);
  snprintf(path, sizeof path, "%s/golden/inputs.safetensors", r->folder);
  CAPL_TRY(capl_safetensors_load(path, device, &r->inputs, &r->n_inputs));
  snprintf(path, sizeof path, "%s/golden.safetensors", r->folder);
  return capl_safetensors_load(path, device, &r->outputs, &r->n_outputs);
}

static capl_status run(replay *r)
{
  const capl_graph *g = r->graph;
  bool named = *capl_graph_input_name(g, 0);
  if (!named && r->n_inputs == 1) return capl_graph_run(g, r->inputs[0].tensor, r->now);
  return capl_graph_run_named(g, r->inputs, r->n_inputs, r->now);
}

static const capl_tensor *output_named(const replay *r, const char *name)
{
  for (int k = 0; k < r->n_outputs; k++)
    if (strcmp(r->outputs[k].name, *name ? name : "output") == 0) return r->outputs[k].tensor;
  return NULL;
}

/* Output o now and then: the greatest difference, and the greatest value then. */
static capl_status compare(const replay *r, int o, capl_model_verdict *v)
{
  const char *name = capl_graph_output_name(r->graph, o);
  const capl_tensor *now = r->now[o], *then = output_named(r, name);
  if (!then || !capl_tensor_same_shape(now, then))
    return CAPL_FAIL(CAPL_EFORMAT, "%s/golden.safetensors does not hold the output '%s' for its golden inputs",
                     r->folder, *name ? name : "output");
  size_t n = (size_t)capl_tensor_numel(now);
  double *x = malloc((n + 1) * sizeof *x), *y = malloc((n + 1) * sizeof *y);
  capl_status status = x && y ? capl_tensor_to_doubles(now, x)
                              : CAPL_FAIL(CAPL_ENOMEM, "no memory for the golden pairs of %s", r->folder);
  if (status == CAPL_OK) status = capl_tensor_to_doubles(then, y);
  for (size_t i = 0; status == CAPL_OK && i < n; i++) {
    double difference = fabs(x[i] - y[i]);
    if (!(difference <= v->difference)) v->difference = difference; /* NaN counts as the greatest */
    if (fabs(y[i]) > v->largest) v->largest = fabs(y[i]);
  }
  free(x);
  free(y);
  return status;
}

static capl_status replay_all(replay *r, capl_device *device, capl_model_verdict *v)
{
  CAPL_TRY(load(r, device));
  CAPL_TRY(run(r));
  for (int o = 0; o < capl_graph_outputs(r->graph); o++) CAPL_TRY(compare(r, o, v));
  v->n = (int)r->inputs[0].tensor->size[0];
  v->tolerance = golden_tolerance(false, v->largest);
  v->ok = v->difference <= v->tolerance;
  return CAPL_OK;
}

capl_status capl_model_verify_tensors(const char *path, const char *device_name, capl_model_verdict *verdict)
{
  capl_device *device;
  replay r = {.folder = path};
  *verdict = (capl_model_verdict){0};
  CAPL_TRY(capl_device_open(device_name ? device_name : "cpu", &device));
  capl_status status = replay_all(&r, device, verdict);
  for (int o = 0; o < CAPL_GRAPH_PORTS_MAX; o++) capl_tensor_unref(r.now[o]);
  capl_named_tensors_free(r.inputs, r.n_inputs);
  capl_named_tensors_free(r.outputs, r.n_outputs);
  capl_graph_free(r.graph);
  return status;
}
