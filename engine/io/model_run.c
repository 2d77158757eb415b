/* model_run.c -- an open model: checks it against its meta data, prepares images, decodes what the graph says.
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
#include "data/fit.h"
#include "io/graph.h"

struct capl_model {
  char *path;
  capl_device *device;
  capl_graph *graph;
  model_meta meta;
  capl_dtype low;  /* CAPL_F32: nothing runs in 16 bits */
  double *output;  /* [MODEL_BATCH * T*K] */
  uint8_t *levels; /* [3*H*W] as fitted in the channels given, then [C*H*W] in those of the model */
  capl_image scratch;
};

const char *model_path(const capl_model *m) { return m->path; }
capl_device *model_device(const capl_model *m) { return m->device; }
const model_meta *model_meta_of(const capl_model *m) { return &m->meta; }
int model_outputs(const capl_model *m) { return m->meta.length * m->meta.classes; }
bool model_is_low(const capl_model *m) { return m->low != CAPL_F32; }

/* ---- opening ----------------------------------------------------------------------------------- */

static capl_status choose_precision(capl_model *m, const char *wanted)
{
  const capl_backend *backend = m->device->backend;
  const char *why = NULL;
  m->low = CAPL_F32;
  if (!wanted || strcmp(wanted, "auto") == 0) m->low = backend->auto_precision ? backend->auto_precision(&why) : CAPL_F32;
  else if (strcmp(wanted, "bf16") == 0) m->low = CAPL_BF16;
  else if (strcmp(wanted, "fp32") != 0)
    return CAPL_FAIL(CAPL_EVALUE, "precision is \"auto\", \"fp32\" or \"bf16\", not \"%s\"", wanted);
  return CAPL_OK;
}

static capl_status mismatch(const capl_model *m, const char *what)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s: %s", m->path, what);
  capl_error_hint("graph.json and meta.json do not belong together, or one of them is damaged");
  return CAPL_EFORMAT;
}

static capl_status check_input(const capl_model *m)
{
  const model_meta *meta = &m->meta;
  const capl_graph *g = m->graph;
  const int64_t *size = g->input_size;
  if (g->input_ndim == 4 && g->input_dtype == CAPL_F32 && size[1] == meta->channels && size[2] == meta->height &&
      size[3] == meta->width)
    return CAPL_OK;
  char text[256], shape[128];
  capl_shape_describe(g->input_ndim - 1, size + 1, shape, sizeof shape);
  snprintf(text, sizeof text, "the graph takes (N,%s %s, meta.json describes images (N,%d,%d,%d) f32", shape + 1,
           capl_dtype_name(g->input_dtype), meta->channels, meta->height, meta->width);
  return mismatch(m, text);
}

/* The output is (N,T,K), or the same numbers in fewer dims. */
static capl_status check_output(const capl_model *m)
{
  int ndim;
  int64_t size[CAPL_MAX_NDIM], numbers = 1;
  if (graph_shape(m->graph, 3, &ndim, size) != CAPL_OK) {
    capl_error e = *capl_error_last();
    return mismatch(m, e.message);
  }
  for (int d = 1; d < ndim; d++) numbers *= size[d];
  if (ndim >= 2 && size[0] == 3 && numbers == model_outputs(m)) return CAPL_OK;
  char text[256], shape[128];
  capl_shape_describe(ndim, size, shape, sizeof shape);
  snprintf(text, sizeof text,
           "the graph gives %s for 3 images, meta.json describes %d characters out of a charset of %d: (3,%d,%d)", shape,
           m->meta.length, m->meta.classes, m->meta.length, m->meta.classes);
  return mismatch(m, text);
}

static capl_status prepare(capl_model *m, const capl_model_options *o)
{
  CAPL_TRY(check_input(m));
  CAPL_TRY(check_output(m));
  CAPL_TRY(choose_precision(m, o ? o->precision : NULL));
  if (!o || !o->plain) CAPL_TRY(graph_fold(m->graph));
  if (model_is_low(m)) CAPL_TRY(graph_lower(m->graph, m->low));
  size_t n_pixels = (size_t)m->meta.width * (size_t)m->meta.height, bytes = n_pixels * (size_t)m->meta.channels;
  m->output = malloc((size_t)MODEL_BATCH * (size_t)model_outputs(m) * sizeof *m->output);
  m->levels = malloc(3 * n_pixels + bytes);
  return m->output && m->levels ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to run %s", m->path);
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
  capl_image_fini(&m->scratch);
  free(m->output);
  free(m->levels);
  free(m->path);
  free(m);
}

void capl_model_info_get(const capl_model *m, capl_model_info *info)
{
  const model_meta *meta = &m->meta;
  *info = (capl_model_info){meta->width, meta->height, meta->channels, meta->length, meta->charset,
                            m->low == CAPL_BF16 ? "bf16" : m->low == CAPL_F16 ? "fp16" : "fp32"};
}

/* ---- decoding ---------------------------------------------------------------------------------- */

/* Class of the greatest of K numbers (first of ties), and its softmax value; -1 when one is no number. */
static int best_class(const double *row, int classes, double *share)
{
  int best = 0;
  double sum = 0;
  for (int k = 0; k < classes; k++) {
    if (!isfinite(row[k])) return -1;
    if (row[k] > row[best]) best = k;
  }
  for (int k = 0; k < classes; k++) sum += exp(row[k] - row[best]);
  *share = 1 / sum;
  return best;
}

void model_decode(const capl_model *m, const double *output, capl_reading *reading)
{
  *reading = (capl_reading){.confidence = 1};
  for (int t = 0; t < m->meta.length; t++) {
    double share = 0;
    int k = best_class(output + (size_t)t * (size_t)m->meta.classes, m->meta.classes, &share);
    if (k < 0) {
      *reading = (capl_reading){.status = CAPL_EVALUE};
      snprintf(reading->error, sizeof reading->error, "%s: the model's output for this image is not finite", m->path);
      return;
    }
    reading->text[t] = m->meta.charset[k];
    reading->confidence *= share;
  }
}

static void decode_keeping_size(const capl_model *m, const double *output, capl_reading *reading)
{
  int width = reading->width, height = reading->height;
  model_decode(m, output, reading);
  reading->width = width;
  reading->height = height;
}

static capl_status run_graph(const capl_model *m, capl_tensor *x, capl_tensor **y)
{
  capl_tensor *there = NULL;
  if (x->device != m->device) CAPL_TRY(capl_tensor_to(x, m->device, &there));
  capl_dtype before = capl_autocast_set(m->low);
  capl_status status = capl_graph_run(m->graph, there ? there : x, y);
  capl_autocast_set(before);
  capl_tensor_unref(there);
  return status;
}

capl_status model_read_tensor(capl_model *m, capl_tensor *x, capl_reading *readings, double *output)
{
  capl_tensor *y;
  capl_status status;
  CAPL_TRY(run_graph(m, x, &y));
  double *values = output ? output : m->output;
  status = capl_tensor_to_doubles(y, values);
  int64_t n = y->size[0];
  capl_tensor_unref(y);
  for (int64_t i = 0; status == CAPL_OK && i < n; i++)
    if (readings[i].status == CAPL_OK) decode_keeping_size(m, values + i * model_outputs(m), &readings[i]);
  return status;
}

/* ---- images ------------------------------------------------------------------------------------ */

void model_reading_fail(capl_reading *reading, capl_status status, const char *message)
{
  *reading = (capl_reading){.status = status};
  snprintf(reading->error, sizeof reading->error, "%s", message);
}

static capl_status read_pixels(capl_model *m, const capl_model_image *image, uint8_t *levels)
{
  const model_meta *meta = &m->meta;
  const char *path = image->path;
  if (path) CAPL_TRY(capl_image_read(path, meta->channels, &m->scratch));
  capl_model_image given = *image;
  if (path) given = (capl_model_image){NULL, m->scratch.pixels, m->scratch.width, m->scratch.height, m->scratch.channels};
  if (!given.pixels || given.width < 1 || given.height < 1 || (given.channels != 1 && given.channels != 3))
    return CAPL_FAIL(CAPL_EVALUE, "an image needs a path, or pixels with width, height and 1 or 3 channels; it is %d x %d px of %d channels",
                     given.width, given.height, given.channels);
  uint8_t *fitted = given.channels == meta->channels ? levels : m->levels;
  capl_status status = fit_image(given.pixels, given.width, given.height, given.channels, meta->width, meta->height, fitted);
  if (status != CAPL_OK && path) {
    capl_error e = *capl_error_last();
    return CAPL_FAIL(e.code, "%s: %s", path, e.message);
  }
  if (status == CAPL_OK && fitted != levels)
    fit_channels(fitted, (size_t)meta->width * (size_t)meta->height, given.channels, meta->channels, levels);
  return status;
}

static void image_size(const capl_model *m, const capl_model_image *image, capl_reading *reading)
{
  reading->width = image->path ? m->scratch.width : image->width;
  reading->height = image->path ? m->scratch.height : image->height;
}

capl_status model_new_input(const capl_model *m, int n, capl_tensor **x)
{
  int64_t size[4] = {n, m->meta.channels, m->meta.height, m->meta.width};
  capl_device *device = m->device;
  if (device->backend->arithmetic && !device->backend->host_memory) CAPL_TRY(capl_device_open("ref", &device));
  return capl_tensor_new(device, CAPL_F32, 4, size, CAPL_AUTO, x);
}

capl_status model_run_batch(capl_model *m, const capl_model_image *images, int n, capl_reading *readings, double *output)
{
  size_t n_pixels = (size_t)m->meta.width * (size_t)m->meta.height, values = n_pixels * (size_t)m->meta.channels;
  uint8_t *levels = m->levels + 3 * n_pixels;
  capl_tensor *x;
  CAPL_TRY(model_new_input(m, n, &x));
  float *row = capl_tensor_data(x);
  for (int i = 0; i < n; i++, row += values) {
    readings[i] = (capl_reading){.status = CAPL_OK};
    if (read_pixels(m, &images[i], levels) != CAPL_OK) {
      model_reading_fail(&readings[i], capl_error_last()->code, capl_error_last()->message);
      memset(row, 0, values * sizeof *row);
      continue;
    }
    image_size(m, &images[i], &readings[i]);
    capl_convert(&m->meta.conversion, levels, n_pixels, m->meta.channels, row);
  }
  capl_status status = model_read_tensor(m, x, readings, output);
  capl_tensor_unref(x);
  return status;
}

capl_status capl_model_run(capl_model *m, const capl_model_image *images, int n, capl_reading *readings)
{
  for (int from = 0; from < n; from += MODEL_BATCH) {
    int rest = n - from < MODEL_BATCH ? n - from : MODEL_BATCH;
    CAPL_TRY(model_run_batch(m, images + from, rest, readings + from, NULL));
  }
  return CAPL_OK;
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
  if (meta.width != width || meta.height != height || meta.channels != channels)
    return CAPL_FAIL(CAPL_ESHAPE, "the images are %d x %d px of %d channels, the model's meta data says %d x %d px of %d",
                     width, height, channels, meta.width, meta.height, meta.channels);
  size_t n_pixels = (size_t)width * (size_t)height, values = n_pixels * (size_t)channels;
  for (int i = 0; i < n; i++)
    capl_convert(&meta.conversion, images + (size_t)i * values, n_pixels, channels, out + (size_t)i * values);
  return CAPL_OK;
}
