/* model_run.c -- samples through an open model: prepared, computed width by width, and what was said decoded.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/model_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/room.h"
#include "data/resize.h"

/* ---- what was said ----------------------------------------------------------------------------- */

void model_reading_fail(capl_reading *reading, capl_status status, const char *message)
{
  room_free(reading->memory);
  *reading = (capl_reading){.status = status, .width = reading->width, .height = reading->height};
  snprintf(reading->error, sizeof reading->error, "%s", message);
}

void capl_readings_free(capl_reading *readings, int n)
{
  for (int i = 0; i < n; i++) {
    room_free(readings[i].memory);
    readings[i].memory = NULL;
    readings[i].n_outputs = 0;
  }
}

/* Where model_fit put the image. */
static field_place place_of(const capl_model *m, int w, const capl_reading *reading)
{
  field_place p = {reading->width, reading->height, model_width(m, w), m->meta.height, 0, 0, 1, 1};
  if (reading->width <= 0 || m->meta.width <= 0) return p;
  resize_area area = resize_place(&m->meta.letterbox, p.width, p.height, m->meta.width, m->meta.height);
  if (m->meta.n_widths)
    resize_choose(p.width, p.height, m->meta.height, m->meta.widths, m->meta.n_widths, &area.width);
  p.left = area.left, p.top = area.top;
  p.x = (double)p.width / area.width, p.y = (double)p.height / area.height;
  return p;
}

static capl_status decode(const capl_model *m, double *const *numbers, int w, const field_place *place,
                          capl_reading *reading)
{
  for (int o = 0; o < m->meta.n_outputs; o++) {
    const model_field *f = &m->meta.outputs[o];
    const model_shape *shape = model_shape_of(m, o, w);
    field_scores scores = {numbers[o], shape->ndim, {0}};
    memcpy(scores.size, shape->size, sizeof scores.size);
    capl_output *out = &reading->outputs[o];
    *out = (capl_output){.name = f->name, .kind = f->kind->name, .text = ""};
    CAPL_TRY(f->kind->decode(f, &scores, place, &reading->memory, out));
  }
  reading->n_outputs = m->meta.n_outputs;
  return CAPL_OK;
}

void model_decode(const capl_model *m, double *const *numbers, int w, capl_reading *reading)
{
  char text[1024];
  field_place place = place_of(m, w, reading);
  capl_status status = decode(m, numbers, w, &place, reading);
  if (status == CAPL_OK) return;
  snprintf(text, sizeof text, "%s: %.900s", m->path, capl_error_last()->message);
  model_reading_fail(reading, status, text);
}

/* ---- computing --------------------------------------------------------------------------------- */

/* Tensors of a call; x and y in the order of the graph. */
typedef struct {
  capl_tensor *x[CAPL_GRAPH_PORTS_MAX], *y[CAPL_GRAPH_PORTS_MAX];
} call;

static void end_call(call *c)
{
  for (int i = 0; i < CAPL_GRAPH_PORTS_MAX; i++) {
    capl_tensor_unref(c->x[i]);
    capl_tensor_unref(c->y[i]);
  }
}

static capl_status new_input(const capl_model *m, const graph_input *input, int n, int w, capl_tensor **x)
{
  int64_t size[CAPL_MAX_NDIM];
  memcpy(size, input->size, sizeof size);
  size[0] = n;
  if (m->meta.n_widths) size[input->ndim - 1] = model_width(m, w);
  capl_device *device = m->device;
  if (device->backend->arithmetic && !device->backend->host_memory) CAPL_TRY(capl_device_open("ref", &device));
  return capl_tensor_new(device, CAPL_F32, input->ndim, size, CAPL_AUTO, x);
}

/* The samples at[0..n) of a batch, all of width w. */
typedef struct {
  const model_batch *batch;
  const int *at;
  int n, w;
} part;

/* task(job, i) of each i below n, by as many threads as compute. */
static void for_each(const capl_model *m, int n, void (*task)(void *job, int64_t i), void *job)
{
  const capl_backend *backend = m->device->backend;
  if (backend->for_each) backend->for_each(n, task, job);
  else
    for (int i = 0; i < n; i++) task(job, i);
}

typedef struct {
  const capl_model *m;
  const part *p;
  float *to;
} image_job;

static void convert_image(void *arg, int64_t i)
{
  const image_job *job = arg;
  const capl_model *m = job->m;
  const model_batch *batch = job->p->batch;
  size_t n_pixels = (size_t)model_width(m, job->p->w) * (size_t)m->meta.height, C = (size_t)m->meta.channels;
  capl_convert(&m->meta.conversion, batch->levels + (size_t)job->p->at[i] * batch->stride, n_pixels, m->meta.channels,
               job->to + (size_t)i * n_pixels * C);
}

/* number: among the inputs that are no image. */
static void fill_values(const capl_model *m, const part *p, int input, int number, float *to)
{
  const model_field *f = &m->meta.inputs[input];
  size_t count = m->inputs[input].numbers;
  for (int i = 0; i < p->n; i++)
    f->kind->encode(f, p->batch->values[p->at[i]].values[number], count, to + (size_t)i * count);
}

static capl_status fill_inputs(const capl_model *m, const part *p, call *c)
{
  int number = 0;
  for (int i = 0; i < m->meta.n_inputs; i++) {
    capl_tensor *t = NULL, **x = &c->x[m->in_port[i]];
    CAPL_TRY(new_input(m, &m->graph->inputs[m->in_port[i]], p->n, p->w, &t));
    *x = t;
    if (m->meta.inputs[i].kind) fill_values(m, p, i, number++, capl_tensor_data(t));
    else for_each(m, p->n, convert_image, &(image_job){m, p, capl_tensor_data(t)});
    if (t->device == m->device) continue;
    CAPL_TRY(capl_tensor_to(t, m->device, x));
    capl_tensor_unref(t);
  }
  return CAPL_OK;
}

/* Multiplications below which waking another thread costs more than it computes. */
enum { ALONE_MACS = 4 << 20 };

static capl_status run_graph(const capl_model *m, const part *p, call *c)
{
  capl_named_tensor list[CAPL_GRAPH_PORTS_MAX];
  int n = m->meta.n_inputs;
  for (int i = 0; i < n; i++) list[i] = (capl_named_tensor){(char *)capl_graph_input_name(m->graph, i), c->x[i]};
  void (*alone)(bool) = m->device->backend->alone;
  bool small = alone && p->n * model_shape_of(m, 0, p->w)->cost.macs < ALONE_MACS;
  capl_dtype before = capl_autocast_set(m->precision.low);
  if (small) alone(true);
  capl_status status = capl_graph_run_named(m->graph, list, n, c->y);
  if (small) alone(false);
  capl_autocast_set(before);
  return status;
}

static capl_status compute(const capl_model *m, const part *p, double *const *outputs)
{
  call c = {{NULL}, {NULL}};
  capl_status status = fill_inputs(m, p, &c);
  if (status == CAPL_OK) status = run_graph(m, p, &c);
  for (int o = 0; status == CAPL_OK && o < m->meta.n_outputs; o++)
    status = capl_tensor_to_doubles(c.y[m->out_port[o]], outputs[o]);
  end_call(&c);
  return status;
}

typedef struct {
  const capl_model *m;
  const part *p;
  capl_reading *readings;
  double *const *outputs;
} decode_job;

static void decode_sample(void *arg, int64_t i)
{
  const decode_job *job = arg;
  const capl_model *m = job->m;
  double *numbers[CAPL_GRAPH_PORTS_MAX] = {NULL};
  capl_reading *reading = &job->readings[job->p->at[i]];
  for (int o = 0; o < m->meta.n_outputs; o++)
    numbers[o] = job->outputs[o] + (size_t)i * model_shape_of(m, o, job->p->w)->count;
  if (reading->status == CAPL_OK) model_decode(m, numbers, job->p->w, reading);
}

static capl_status read_part(const capl_model *m, const part *p, capl_reading *readings, double *const *outputs)
{
  CAPL_TRY(compute(m, p, outputs));
  for_each(m, p->n, decode_sample, &(decode_job){m, p, readings, outputs});
  return CAPL_OK;
}

capl_status model_read_batch(capl_model *m, const model_batch *batch, capl_reading *readings,
                             double *const *outputs)
{
  for (int w = 0; w < model_widths(m); w++) {
    int at[MODEL_BATCH], count = 0;
    for (int i = 0; i < batch->n; i++)
      if (batch->w[i] == w) at[count++] = i;
    for (int first = 0; first < count; first += m->batch) {
      part p = {batch, at + first, count - first < m->batch ? count - first : m->batch, w};
      double *to[CAPL_GRAPH_PORTS_MAX] = {NULL};
      for (int o = 0; o < m->meta.n_outputs; o++)
        to[o] = outputs ? outputs[o] + (size_t)first * model_shape_of(m, o, w)->count : m->numbers[o];
      CAPL_TRY(read_part(m, &p, readings, to));
    }
  }
  return CAPL_OK;
}

/* ---- samples ----------------------------------------------------------------------------------- */

static capl_status find_pixels(capl_model *m, const capl_model_sample *s, capl_model_sample *out)
{
  capl_image *image = &m->scratch;
  int C = m->meta.channels;
  *out = *s;
  if (s->path) CAPL_TRY(capl_image_read(s->path, C, image));
  else if (s->file) CAPL_TRY(capl_image_decode(s->file, s->file_bytes, "the image in memory", C, image));
  if (s->path || s->file) {
    out->pixels = image->pixels;
    out->width = image->width, out->height = image->height, out->channels = image->channels;
  }
  if (out->pixels && out->width >= 1 && out->height >= 1 && (out->channels == 1 || out->channels == 3)) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "an image needs a path, or pixels with width, height and 1 or 3 channels; it is %d x %d "
                                "px of %d channels",
                   out->width, out->height, out->channels);
}

static capl_status read_image(capl_model *m, const capl_model_sample *s, uint8_t *levels, int *w, capl_reading *r)
{
  capl_model_sample found;
  CAPL_TRY(find_pixels(m, s, &found));
  capl_status status = model_fit(&m->meta, found.pixels, found.width, found.height, found.channels, m->room, levels, w);
  r->width = found.width, r->height = found.height;
  if (status == CAPL_OK || !s->path) return status;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(e.code, "%s: %s", s->path, e.message);
}

/* The inputs beside the image are there. */
static capl_status check_values(const capl_model *m, const capl_model_sample *samples, int n)
{
  int wanted = m->meta.n_inputs - (m->meta.width > 0);
  for (int i = 0; wanted > 0 && i < n; i++)
    for (int k = 0; k < wanted; k++)
      if (!samples[i].values || !samples[i].values[k])
        return CAPL_FAIL(CAPL_EVALUE, "%s takes %d inputs beside images; sample %d has no values for them", m->path,
                         wanted, i + 1);
  return CAPL_OK;
}

capl_status model_run_batch(capl_model *m, const capl_model_sample *samples, int n, capl_reading *readings,
                            double *const *outputs)
{
  bool images = m->meta.width > 0;
  model_batch batch = {.n = n, .levels = images ? m->levels : NULL, .stride = model_levels(m), .values = samples};
  CAPL_TRY(check_values(m, samples, n));
  for (int i = 0; i < n; i++) {
    uint8_t *levels = m->levels + (size_t)i * batch.stride;
    readings[i] = (capl_reading){.status = CAPL_OK};
    if (!images || read_image(m, &samples[i], levels, &batch.w[i], &readings[i]) == CAPL_OK) continue;
    model_reading_fail(&readings[i], capl_error_last()->code, capl_error_last()->message);
    memset(levels, 0, batch.stride);
  }
  capl_status status = model_read_batch(m, &batch, readings, outputs);
  if (status != CAPL_OK) capl_readings_free(readings, n);
  return status;
}

capl_status capl_model_run(capl_model *m, const capl_model_sample *samples, int n, capl_reading *readings)
{
  for (int from = 0; from < n; from += MODEL_BATCH) {
    int rest = n - from < MODEL_BATCH ? n - from : MODEL_BATCH;
    capl_status status = model_run_batch(m, samples + from, rest, readings + from, NULL);
    if (status == CAPL_OK) continue;
    capl_readings_free(readings, from);
    return status;
  }
  return CAPL_OK;
}

static capl_status check_size(const model_meta *meta, int width, int height, int channels)
{
  bool fits = meta->n_widths == 0 && meta->width == width;
  for (int w = 0; w < meta->n_widths; w++) fits = fits || meta->widths[w] == width;
  if (fits && meta->height == height && meta->channels == channels) return CAPL_OK;
  char widths[256];
  return CAPL_FAIL(CAPL_ESHAPE,
                   "the images are %d x %d px of %d channels, the meta data of the model %s x %d px of %d", width,
                   height, channels, model_describe_widths(meta->widths, meta->n_widths, meta->width, widths,
                                                           sizeof widths),
                   meta->height, meta->channels);
}

capl_status capl_model_prepare(const char *meta_json, const uint8_t *images, int n, int width, int height, int channels,
                               float *out)
{
  model_meta meta;
  char *stamped;
  CAPL_TRY(meta_stamp(meta_json, &stamped));
  capl_status status = meta_parse("the model's meta data", stamped, &meta);
  free(stamped);
  CAPL_TRY(status);
  status = check_size(&meta, width, height, channels);
  size_t n_pixels = (size_t)width * (size_t)height, values = n_pixels * (size_t)channels;
  for (int i = 0; status == CAPL_OK && i < n; i++)
    capl_convert(&meta.conversion, images + (size_t)i * values, n_pixels, channels, out + (size_t)i * values);
  meta_fini(&meta);
  return status;
}
