/* model_open.c -- opens a model: graph and meta data must fit together, then the graph is made cheaper.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "io/graph_passes.h"
#include "io/model_run.h"

int model_widths(const capl_model *m) { return m->meta.n_widths ? m->meta.n_widths : 1; }
int model_width(const capl_model *m, int w) { return m->meta.n_widths ? m->meta.widths[w] : m->meta.width; }
size_t model_levels(const capl_model *m)
{
  return (size_t)m->meta.width * (size_t)m->meta.height * (size_t)m->meta.channels;
}
bool model_is_low(const capl_model *m) { return m->precision.low != CAPL_F32; }
const model_shape *model_shape_of(const capl_model *m, int output, int w)
{
  return &m->shapes[output * model_widths(m) + w];
}

static capl_status choose_precision(capl_model *m, const char *wanted)
{
  CAPL_TRY(capl_precision_read(m->device, wanted ? wanted : "auto", &m->precision));
  if (m->precision.kind != CAPL_PRECISION_tf32) return CAPL_OK;
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "a model file computes in bf16, fp16 or fp32, not in tf32");
}

static capl_status mismatch(const capl_model *m, const char *what)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s: %s", m->path, what);
  capl_error_hint("graph.json and meta.json do not belong together, or one of them is damaged");
  return CAPL_EFORMAT;
}

/* ---- names ------------------------------------------------------------------------------------- */

static capl_status no_port(const capl_model *m, const char *what, const char *name)
{
  char text[160];
  snprintf(text, sizeof text, "meta.json describes the %s '%s', which the graph does not have", what, name);
  return mismatch(m, text);
}

/* The graph's numbers of the fields, by name; an only one is found without. */
static capl_status find_ports(const capl_model *m, const char *what, const model_field *fields, int n, int n_graph,
                              const char *(*name_of)(const capl_graph *, int), int *port)
{
  char text[160];
  snprintf(text, sizeof text, "the graph has %d %ss, meta.json describes %d", n_graph, what, n);
  if (n != n_graph) return mismatch(m, text);
  for (int f = 0; f < n; f++) {
    port[f] = n == 1 && (!*fields[0].name || !*name_of(m->graph, 0)) ? 0 : -1;
    for (int i = 0; port[f] < 0 && i < n_graph; i++)
      if (strcmp(fields[f].name, name_of(m->graph, i)) == 0) port[f] = i;
    if (port[f] < 0) return no_port(m, what, fields[f].name);
  }
  return CAPL_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------ */

const char *model_describe_widths(const int *widths, int n, int one, char *buf, size_t room)
{
  size_t len = (size_t)snprintf(buf, room, "%d", n ? widths[0] : one);
  for (int w = 1; w < n && len < room; w++) len += (size_t)snprintf(buf + len, room - len, "|%d", widths[w]);
  return buf;
}

/* A graph of one width says it as its size, also where meta.json lists it. */
static bool same_widths(const capl_graph *g, const graph_input *input, const model_meta *meta)
{
  if (g->n_widths == 0 && meta->n_widths <= 1) return input->size[3] == meta->width;
  if (g->n_widths != meta->n_widths) return false;
  return memcmp(g->width, meta->widths, (size_t)meta->n_widths * sizeof *g->width) == 0;
}

/* "the graph takes (N,3,60,160) f32, meta.json describes …" */
static capl_status wrong_input(const capl_model *m, const graph_input *input, const char *described)
{
  const capl_graph *g = m->graph;
  char text[1024], shape[128], widths[256];
  int n = input->ndim > 1 ? input->ndim - 2 : 0;
  capl_shape_describe(n, input->size + 1, shape, sizeof shape);
  shape[strlen(shape) - 1] = '\0';
  snprintf(text, sizeof text, "the graph takes (N,%s%s%s) %s, meta.json describes %s", shape + 1, n ? "," : "",
           model_describe_widths(g->width, g->n_widths, (int)input->size[n + 1], widths, sizeof widths),
           capl_dtype_name(input->dtype), described);
  return mismatch(m, text);
}

static capl_status check_image(capl_model *m, const graph_input *input)
{
  const model_meta *meta = &m->meta;
  const int64_t *size = input->size;
  char described[320], widths[256];
  if (input->ndim == 4 && input->dtype == CAPL_F32 && size[1] == meta->channels && size[2] == meta->height
      && same_widths(m->graph, input, meta))
    return CAPL_OK;
  snprintf(described, sizeof described, "images (N,%d,%d,%s) f32", meta->channels, meta->height,
           model_describe_widths(meta->widths, meta->n_widths, meta->width, widths, sizeof widths));
  return wrong_input(m, input, described);
}

static capl_status check_inputs(capl_model *m)
{
  model_meta *meta = &m->meta;
  CAPL_TRY(find_ports(m, "input", meta->inputs, meta->n_inputs, m->graph->n_inputs, capl_graph_input_name, m->in_port));
  for (int i = 0; i < meta->n_inputs; i++) {
    model_field *f = &meta->inputs[i];
    const graph_input *input = &m->graph->inputs[m->in_port[i]];
    char described[160];
    size_t count = field_numbers(input->ndim - 1, input->size + 1);
    m->inputs[i] = (capl_model_field){f->name, field_input_kind(f)->name, f->vocab, count};
    if (!f->kind) CAPL_TRY(check_image(m, input));
    else if (input->dtype != CAPL_F32 || !f->kind->fits(f, input->ndim - 1, input->size + 1)) {
      f->kind->expects(f, described, sizeof described);
      return wrong_input(m, input, described);
    }
  }
  return CAPL_OK;
}

/* ---- outputs ----------------------------------------------------------------------------------- */

/* Output o at width w: its shape, which must be what meta.json describes. */
static capl_status check_output(capl_model *m, int o, int w)
{
  model_field *f = &m->meta.outputs[o];
  model_shape *s = &m->shapes[o * model_widths(m) + w];
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  enum { BATCH = 3 };
  if (graph_shape(m->graph, BATCH, w, m->out_port[o], &ndim, size, &s->cost) != CAPL_OK) {
    capl_error e = *capl_error_last();
    return mismatch(m, e.message);
  }
  bool rows = ndim >= 2 && size[0] == BATCH;
  s->cost.macs /= BATCH, s->cost.largest /= BATCH;
  s->ndim = rows ? ndim - 1 : 0;
  for (int d = 0; d < s->ndim; d++) s->size[d] = size[d + 1];
  s->count = field_numbers(s->ndim, s->size);
  if (rows && f->kind->fits(f, s->ndim, s->size)) return CAPL_OK;
  char text[2048], shape[128], described[256];
  capl_shape_describe(s->ndim, s->size, shape, sizeof shape);
  f->kind->expects(f, described, sizeof described);
  snprintf(text, sizeof text, "the graph gives %s%s%s%s, meta.json describes %s", rows ? "(N," : "no row for each image",
           rows ? shape + 1 : "", *f->name ? " as " : "", f->name, described);
  return mismatch(m, text);
}

static capl_status check_outputs(capl_model *m)
{
  const model_meta *meta = &m->meta;
  int widths = model_widths(m);
  CAPL_TRY(find_ports(m, "output", meta->outputs, meta->n_outputs, m->graph->n_outputs, capl_graph_output_name,
                      m->out_port));
  m->shapes = calloc((size_t)(meta->n_outputs * widths), sizeof *m->shapes);
  if (!m->shapes) return CAPL_FAIL(CAPL_ENOMEM, "no memory to open %s", m->path);
  for (int o = 0; o < meta->n_outputs; o++) {
    const model_field *f = &meta->outputs[o];
    for (int w = 0; w < widths; w++) CAPL_TRY(check_output(m, o, w));
    m->outputs[o] = (capl_model_field){f->name, f->kind->name, f->vocab, model_shape_of(m, o, widths - 1)->count};
  }
  return CAPL_OK;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

/* Numbers of an output at its greatest. */
static size_t most_numbers(const capl_model *m, int o)
{
  size_t most = 1;
  for (int w = 0; w < model_widths(m); w++)
    if (model_shape_of(m, o, w)->count > most) most = model_shape_of(m, o, w)->count;
  return most;
}

/* Samples whose largest results fit the caches beside each other: of more, each op reads from memory what the one
** before it wrote. f32 captchas of 160x60, one thread: 0.37 ms each in eights, 0.44 in 64s. A power of two. */
static int samples_in_caches(const capl_model *m)
{
  enum { CACHE_BYTES = 3 << 20 /* for each thread */ };
  const capl_backend *backend = m->device->backend;
  size_t largest = model_shape_of(m, 0, model_widths(m) - 1)->cost.largest / (model_is_low(m) ? 2 : 1) + 1;
  size_t room = (size_t)CACHE_BYTES * (size_t)(backend->threads ? backend->threads() : 1);
  int n = 1;
  while (backend->host_memory && n < MODEL_BATCH && 2 * (size_t)n * largest <= room) n *= 2;
  return backend->host_memory ? n : MODEL_BATCH;
}

/* Room for a batch of samples and for what the graph says of them. A mask, or tens of thousands of symbols, is a
** hundred thousand numbers for each image: then fewer are computed at once. */
static capl_status make_room(capl_model *m)
{
  enum { NUMBERS = 4 << 20 };
  size_t all = 1;
  bool good = true;
  for (int o = 0; o < m->meta.n_outputs; o++) all += most_numbers(m, o);
  m->batch = samples_in_caches(m);
  if ((size_t)m->batch > NUMBERS / all) m->batch = NUMBERS / all < 1 ? 1 : (int)(NUMBERS / all);
  for (int o = 0; o < m->meta.n_outputs; o++) {
    m->numbers[o] = malloc((size_t)m->batch * most_numbers(m, o) * sizeof **m->numbers);
    good = good && m->numbers[o];
  }
  m->room = malloc(3 * (size_t)m->meta.width * (size_t)m->meta.height + 1);
  m->levels = malloc(MODEL_BATCH * model_levels(m) + 1);
  return good && m->room && m->levels ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to run %s", m->path);
}

static capl_status prepare(capl_model *m, const capl_model_options *o)
{
  bool plain = o && o->plain;
  CAPL_TRY(check_inputs(m));
  CAPL_TRY(check_outputs(m));
  CAPL_TRY(choose_precision(m, o ? o->precision : NULL));
  if (!plain) CAPL_TRY(graph_optimize(m->graph, m->device));
  if (model_is_low(m)) CAPL_TRY(graph_lower(m->graph, m->precision.low));
  for (int k = 0; !plain && k < m->graph->n_weights; k++)
    if (m->graph->weights[k].tensor) capl_weight_freeze(m->graph->weights[k].tensor);
  return make_room(m);
}

static capl_status load(capl_model *m, const char *path, const capl_model_options *o)
{
  char member[4096 + 32];
  m->path = strdup(path);
  if (!m->path) return CAPL_FAIL(CAPL_ENOMEM, "no memory to open %s", path);
  CAPL_TRY(capl_device_open(o && o->device ? o->device : "cpu", &m->device));
  CAPL_TRY(capl_model_load(path, m->device, &m->graph, &m->text));
  snprintf(member, sizeof member, "%s/meta.json", path);
  CAPL_TRY(meta_parse(member, m->text, &m->meta));
  return prepare(m, o);
}

capl_status capl_model_open(const char *path, const capl_model_options *options, capl_model **model)
{
  *model = NULL;
  capl_model *m = calloc(1, sizeof *m);
  if (!m) return CAPL_FAIL(CAPL_ENOMEM, "no memory to open %s", path);
  capl_status status = load(m, path, options);
  if (status == CAPL_OK) *model = m;
  else capl_model_close(m);
  return status;
}

void capl_model_close(capl_model *m)
{
  if (!m) return;
  capl_graph_free(m->graph);
  for (int o = 0; o < m->meta.n_outputs; o++) free(m->numbers[o]);
  meta_fini(&m->meta);
  capl_image_fini(&m->scratch);
  free(m->shapes);
  free(m->room);
  free(m->levels);
  free(m->text);
  free(m->path);
  free(m);
}

void capl_model_info_get(const capl_model *m, capl_model_info *info)
{
  const model_meta *meta = &m->meta;
  *info = (capl_model_info){.width = meta->width, .height = meta->height, .channels = meta->channels,
                            .letterbox = meta->letterbox, .n_widths = meta->n_widths, .widths = meta->widths,
                            .n_inputs = meta->n_inputs,
                            .n_outputs = meta->n_outputs, .inputs = m->inputs, .outputs = m->outputs,
                            .precision = m->precision.name, .meta = m->text};
}

/* Which kinds of texts there are is theirs to know. */
static capl_status no_text(const capl_model *m)
{
  return CAPL_FAIL(CAPL_EVALUE, "beam, characters and length are for texts; %s gives %s", m->path,
                   m->meta.n_outputs == 1 ? m->meta.outputs[0].kind->name : "none");
}

capl_status capl_model_decoding_set(capl_model *m, const capl_text_decoding *decoding)
{
  static const capl_text_decoding none = {0};
  const capl_text_decoding *o = decoding ? decoding : &none;
  bool any = false;
  for (int k = 0; k < m->meta.n_outputs; k++) {
    model_field *f = &m->meta.outputs[k];
    if (!f->kind->decoding) continue;
    any = true;
    CAPL_TRY(f->kind->decoding(f, o));
  }
  bool asked = o->beam != 0 || o->characters || o->length_min != 0 || o->length_max != 0;
  return any || !asked ? CAPL_OK : no_text(m);
}
