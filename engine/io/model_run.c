/* model_run.c -- an open model: checks it against its meta data, prepares images, runs them width by width.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/model_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "capl/io.h"
#include "capl/op.h"
#include "data/resize.h"
#include "io/graph.h"

struct capl_model {
  char *path;
  capl_device *device;
  capl_graph *graph;
  model_meta meta;
  capl_precision precision; /* low == CAPL_F32: nothing runs in 16 bits */
  int steps[GRAPH_WIDTHS_MAX]; /* T at each width */
  double *output;  /* [batch * T*K] */
  int batch;       /* images that the graph computes at once, at most MODEL_BATCH */
  uint8_t *room;   /* [3*H*W], for one image in the channels given */
  uint8_t *levels; /* [MODEL_BATCH][C*H*W] */
  capl_image scratch;
  model_decoding *decoding;
};

const char *model_path(const capl_model *m) { return m->path; }
capl_device *model_device(const capl_model *m) { return m->device; }
const model_meta *model_meta_of(const capl_model *m) { return &m->meta; }
model_decoding *model_decoding_of(const capl_model *m) { return m->decoding; }
int model_widths(const capl_model *m) { return m->meta.n_widths ? m->meta.n_widths : 1; }
int model_width(const capl_model *m, int w) { return m->meta.n_widths ? m->meta.widths[w] : m->meta.width; }
int model_steps(const capl_model *m, int w) { return m->steps[w]; }
int model_outputs(const capl_model *m, int w) { return m->steps[w] * m->meta.classes; }
size_t model_levels(const capl_model *m)
{
  return (size_t)m->meta.width * (size_t)m->meta.height * (size_t)m->meta.channels;
}
bool model_is_low(const capl_model *m) { return m->precision.low != CAPL_F32; }

/* ---- opening ----------------------------------------------------------------------------------- */

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

/* "96|128|160" or "160" */
static const char *describe_widths(const int *widths, int n, int one, char *buf, size_t room)
{
  size_t len = (size_t)snprintf(buf, room, "%d", n ? widths[0] : one);
  for (int w = 1; w < n && len < room; w++) len += (size_t)snprintf(buf + len, room - len, "|%d", widths[w]);
  return buf;
}

/* A graph of one width says it as its size, also where meta.json lists it. */
static bool same_widths(const capl_graph *g, const model_meta *meta)
{
  if (g->n_widths == 0 && meta->n_widths <= 1) return g->inputs[0].size[3] == meta->width;
  if (g->n_widths != meta->n_widths) return false;
  return memcmp(g->width, meta->widths, (size_t)meta->n_widths * sizeof *g->width) == 0;
}

static capl_status check_input(const capl_model *m)
{
  const model_meta *meta = &m->meta;
  const capl_graph *g = m->graph;
  const graph_input *input = &g->inputs[0];
  const int64_t *size = input->size;
  if (g->n_inputs > 1 || g->n_outputs > 1) return mismatch(m, "the graph has several inputs or outputs");
  if (input->ndim == 4 && input->dtype == CAPL_F32 && size[1] == meta->channels && size[2] == meta->height
      && same_widths(g, meta))
    return CAPL_OK;
  char text[1024], shape[128], ours[256], theirs[256];
  int n = input->ndim > 1 ? input->ndim - 2 : 0;
  capl_shape_describe(n, size + 1, shape, sizeof shape);
  shape[strlen(shape) - 1] = '\0';
  snprintf(text, sizeof text, "the graph takes (N,%s%s%s) %s, meta.json describes images (N,%d,%d,%s) f32", shape + 1,
           n ? "," : "", describe_widths(g->width, g->n_widths, (int)size[n + 1], theirs, sizeof theirs),
           capl_dtype_name(input->dtype), meta->channels, meta->height,
           describe_widths(meta->widths, meta->n_widths, meta->width, ours, sizeof ours));
  return mismatch(m, text);
}

/* CTC: (N,T,K), T as the graph says. */
static capl_status check_steps(capl_model *m, int w, int ndim, const int64_t *size)
{
  enum { MOST = 1 << 16 };
  if (ndim == 3 && size[0] == 3 && size[2] == m->meta.classes && size[1] >= 1 && size[1] <= MOST)
    return m->steps[w] = (int)size[1], CAPL_OK;
  char text[320], shape[128];
  capl_shape_describe(ndim, size, shape, sizeof shape);
  snprintf(text, sizeof text, "the graph gives %s for 3 images, meta.json describes time steps of %d characters and "
                              "a blank: (3,T,%d)",
           shape, m->meta.characters, m->meta.classes);
  return mismatch(m, text);
}

/* What the graph gives, and what meta.json says that it does. */
static void describe_output(const model_meta *meta, const char *shape, char *text, size_t room)
{
  int K = meta->classes;
  switch (meta->kind) {
    case CAPL_MODEL_TEXT:
      snprintf(text, room,
               "the graph gives %s for 3 images, meta.json describes %d characters out of a charset of %d: (3,%d,%d)",
               shape, meta->length, K, meta->length, K);
      break;
    case CAPL_MODEL_CLASS:
      snprintf(text, room, "the graph gives %s for 3 images, meta.json describes one of %d classes: (3,%d)", shape, K, K);
      break;
    case CAPL_MODEL_NUMBERS:
      snprintf(text, room, "the graph gives %s for 3 images, meta.json describes %d numbers: (3,%d)", shape, K, K);
      break;
    case CAPL_MODEL_POINTS:
      snprintf(text, room, "the graph gives %s for 3 images, meta.json describes %d points: (3,%d,2)", shape, K, K);
      break;
  }
}

/* The output is (N,T,K), or without CTC the same numbers in fewer dims. */
static capl_status check_output(capl_model *m, int w)
{
  int ndim;
  int64_t size[CAPL_MAX_NDIM], numbers = 1;
  if (graph_shape(m->graph, 3, w, 0, &ndim, size) != CAPL_OK) {
    capl_error e = *capl_error_last();
    return mismatch(m, e.message);
  }
  if (m->meta.decoding == META_CTC) return check_steps(m, w, ndim, size);
  m->steps[w] = m->meta.length;
  for (int d = 1; d < ndim; d++) numbers *= size[d];
  if (ndim >= 2 && size[0] == 3 && numbers == model_outputs(m, w)) return CAPL_OK;
  char text[256], shape[128];
  capl_shape_describe(ndim, size, shape, sizeof shape);
  describe_output(&m->meta, shape, text, sizeof text);
  return mismatch(m, text);
}

/* Room for a batch of images and for what the graph says of them. With tens of thousands of symbols that is a hundred
** thousand numbers for each image: then fewer are computed at once. */
static capl_status make_room(capl_model *m)
{
  enum { NUMBERS = 4 << 20 };
  int most = 1;
  for (int w = 0; w < model_widths(m); w++) most = model_outputs(m, w) > most ? model_outputs(m, w) : most;
  m->batch = NUMBERS / most < 1 ? 1 : NUMBERS / most < MODEL_BATCH ? NUMBERS / most : MODEL_BATCH;
  m->output = malloc((size_t)m->batch * (size_t)most * sizeof *m->output);
  m->room = malloc(3 * (size_t)m->meta.width * (size_t)m->meta.height);
  m->levels = malloc(MODEL_BATCH * model_levels(m));
  m->decoding = calloc(1, sizeof *m->decoding);
  return m->output && m->room && m->levels
      && m->decoding ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to run %s", m->path);
}

static capl_status prepare(capl_model *m, const capl_model_options *o)
{
  CAPL_TRY(check_input(m));
  for (int w = 0; w < model_widths(m); w++) CAPL_TRY(check_output(m, w));
  CAPL_TRY(choose_precision(m, o ? o->precision : NULL));
  if (!o || !o->plain) CAPL_TRY(graph_fold(m->graph));
  if (model_is_low(m)) CAPL_TRY(graph_lower(m->graph, m->precision.low));
  return make_room(m);
}

static capl_status load(capl_model *m, const char *path, const capl_model_options *o)
{
  char *text, member[4096 + 32];
  m->path = strdup(path);
  if (!m->path) return CAPL_FAIL(CAPL_ENOMEM, "no memory to open %s", path);
  CAPL_TRY(capl_device_open(o && o->device ? o->device : "cpu", &m->device));
  CAPL_TRY(capl_model_load(path, m->device, &m->graph, &text));
  snprintf(member, sizeof member, "%s/meta.json", path);
  capl_status status = meta_parse(member, text, &m->meta);
  free(text);
  return status == CAPL_OK ? prepare(m, o) : status;
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
  if (m->decoding) free(m->decoding->allowed);
  free(m->decoding);
  meta_fini(&m->meta);
  capl_image_fini(&m->scratch);
  free(m->output);
  free(m->room);
  free(m->levels);
  free(m->path);
  free(m);
}

void capl_model_info_get(const capl_model *m, capl_model_info *info)
{
  const model_meta *meta = &m->meta;
  *info = (capl_model_info){.kind = meta->kind, .vocab = meta->vocab, .width = meta->width, .height = meta->height,
                            .channels = meta->channels, .n_widths = meta->n_widths, .widths = meta->widths,
                            .length_min = meta->length_min, .length = meta->length, .ctc = meta->decoding == META_CTC,
                            .charset = capl_vocab_text(meta->vocab),
                            .precision = m->precision.name};
}

/* ---- running ----------------------------------------------------------------------------------- */

/* From px of the model's input to those of the image: model_fit stretches it, or keeps its proportions where the model
** has several widths. */
static void scale_points(const capl_model *m, capl_reading *reading)
{
  double y = (double)reading->height / m->meta.height;
  double x = m->meta.n_widths ? y : (double)reading->width / m->meta.width;
  for (int k = 0; reading->width > 0 && k < reading->n_values; k += 2) {
    reading->values[k] *= x;
    reading->values[k + 1] *= y;
  }
}

static void decode_keeping_size(const capl_model *m, const double *output, int w, capl_reading *reading)
{
  int width = reading->width, height = reading->height;
  model_decode(m, output, w, reading);
  reading->width = width;
  reading->height = height;
  if (m->meta.kind == CAPL_MODEL_POINTS) scale_points(m, reading);
}

static capl_status run_graph(const capl_model *m, capl_tensor *x, capl_tensor **y)
{
  capl_tensor *there = NULL;
  if (x->device != m->device) CAPL_TRY(capl_tensor_to(x, m->device, &there));
  capl_dtype before = capl_autocast_set(m->precision.low);
  capl_status status = capl_graph_run(m->graph, there ? there : x, y);
  capl_autocast_set(before);
  capl_tensor_unref(there);
  return status;
}

static capl_status new_input(const capl_model *m, int n, int w, capl_tensor **x)
{
  int64_t size[4] = {n, m->meta.channels, m->meta.height, model_width(m, w)};
  capl_device *device = m->device;
  if (device->backend->arithmetic && !device->backend->host_memory) CAPL_TRY(capl_device_open("ref", &device));
  return capl_tensor_new(device, CAPL_F32, 4, size, CAPL_AUTO, x);
}

static capl_status read_outputs(capl_model *m, capl_tensor *x, double *values)
{
  capl_tensor *y;
  CAPL_TRY(run_graph(m, x, &y));
  capl_status status = capl_tensor_to_doubles(y, values);
  capl_tensor_unref(y);
  return status;
}

/* The images of one width: at[0..n) are their numbers. */
static capl_status read_width(capl_model *m, const uint8_t *levels, size_t stride, int w, const int *at, int n,
                              capl_reading *readings, double *output)
{
  size_t n_pixels = (size_t)model_width(m, w) * (size_t)m->meta.height, values = n_pixels * (size_t)m->meta.channels;
  capl_tensor *x;
  CAPL_TRY(new_input(m, n, w, &x));
  float *row = capl_tensor_data(x);
  for (int i = 0; i < n; i++)
    capl_convert(&m->meta.conversion, levels + (size_t)at[i] * stride, n_pixels, m->meta.channels,
                 row + (size_t)i * values);
  double *out = output ? output : m->output;
  capl_status status = read_outputs(m, x, out);
  capl_tensor_unref(x);
  for (int i = 0; status == CAPL_OK && i < n; i++)
    if (readings[at[i]].status == CAPL_OK)
      decode_keeping_size(m, out + (size_t)i * (size_t)model_outputs(m, w), w, &readings[at[i]]);
  return status;
}

capl_status model_read_levels(capl_model *m, const uint8_t *levels, size_t stride, const int *w, int n,
                              capl_reading *readings, double *output)
{
  for (int wanted = 0; wanted < model_widths(m); wanted++) {
    int at[MODEL_BATCH], count = 0;
    for (int i = 0; i < n; i++)
      if (w[i] == wanted) at[count++] = i;
    for (int first = 0; first < count; first += m->batch) {
      int some = count - first < m->batch ? count - first : m->batch;
      double *out = output ? output + (size_t)first * (size_t)model_outputs(m, wanted) : NULL;
      CAPL_TRY(read_width(m, levels, stride, wanted, at + first, some, readings, out));
    }
  }
  return CAPL_OK;
}

/* ---- images ------------------------------------------------------------------------------------ */

void model_reading_fail(capl_reading *reading, capl_status status, const char *message)
{
  *reading = (capl_reading){.status = status};
  snprintf(reading->error, sizeof reading->error, "%s", message);
}

static capl_status read_pixels(capl_model *m, const capl_model_image *image, uint8_t *levels, int *w)
{
  const char *path = image->path;
  if (path) CAPL_TRY(capl_image_read(path, m->meta.channels, &m->scratch));
  capl_model_image given = *image;
  if (path)
    given = (capl_model_image){NULL, m->scratch.pixels, m->scratch.width, m->scratch.height, m->scratch.channels};
  if (!given.pixels || given.width < 1 || given.height < 1 || (given.channels != 1 && given.channels != 3))
    return CAPL_FAIL(CAPL_EVALUE, "an image needs a path, or pixels with width, height and 1 or 3 channels; it is %d "
                                  "x %d px of %d channels",
                     given.width, given.height, given.channels);
  capl_status status = model_fit(&m->meta, given.pixels, given.width, given.height, given.channels, m->room, levels, w);
  if (status == CAPL_OK || !path) return status;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(e.code, "%s: %s", path, e.message);
}

static void image_size(const capl_model *m, const capl_model_image *image, capl_reading *reading)
{
  reading->width = image->path ? m->scratch.width : image->width;
  reading->height = image->path ? m->scratch.height : image->height;
}

capl_status model_run_batch(capl_model *m, const capl_model_image *images, int n, capl_reading *readings,
                            double *output)
{
  size_t stride = model_levels(m);
  int w[MODEL_BATCH] = {0};
  for (int i = 0; i < n; i++) {
    readings[i] = (capl_reading){.status = CAPL_OK};
    if (read_pixels(m, &images[i], m->levels + (size_t)i * stride, &w[i]) == CAPL_OK) {
      image_size(m, &images[i], &readings[i]);
      continue;
    }
    model_reading_fail(&readings[i], capl_error_last()->code, capl_error_last()->message);
    memset(m->levels + (size_t)i * stride, 0, stride);
  }
  return model_read_levels(m, m->levels, stride, w, n, readings, output);
}

capl_status capl_model_run(capl_model *m, const capl_model_image *images, int n, capl_reading *readings)
{
  for (int from = 0; from < n; from += MODEL_BATCH) {
    int rest = n - from < MODEL_BATCH ? n - from : MODEL_BATCH;
    CAPL_TRY(model_run_batch(m, images + from, rest, readings + from, NULL));
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
                   height, channels, describe_widths(meta->widths, meta->n_widths, meta->width, widths, sizeof widths),
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
