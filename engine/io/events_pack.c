/* events_pack.c -- event records as protobuf messages; the only code of libcapl_proto.so.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "events.pb-c.h"
#include "io/events.h"

/* All messages of one value: they refer to each other by address. */
typedef struct {
  Pb__Summary__Value value;
  Pb__Image image;
  Pb__Histogram histogram;
  Pb__Text text;
  Pb__Shape shape;
  Pb__Shape__Dim dim, *dims;
  Pb__Metadata metadata;
  Pb__Metadata__Plugin plugin;
  ProtobufCBinaryData string;
} parts;

enum { DT_STRING = 7 }; /* of TensorFlow's types */

static ProtobufCBinaryData binary(const events_value *v)
{
  return (ProtobufCBinaryData){.len = v->n_bytes, .data = (uint8_t *)v->bytes};
}

static void fill_scalar(const events_value *v, parts *p)
{
  p->value.has_simple_value = true;
  p->value.simple_value = (float)v->number;
}

static void fill_image(const events_value *v, parts *p)
{
  pb__image__init(&p->image);
  p->image.width = v->width;
  p->image.height = v->height;
  p->image.colorspace = v->channels;
  p->image.encoded_image_string = binary(v);
  p->value.image = &p->image;
}

static void fill_histogram(const events_value *v, parts *p)
{
  const events_histogram *h = v->histogram;
  pb__histogram__init(&p->histogram);
  p->histogram.min = h->min;
  p->histogram.max = h->max;
  p->histogram.num = h->count;
  p->histogram.sum = h->sum;
  p->histogram.sum_squares = h->sum_squares;
  p->histogram.n_bucket_limit = p->histogram.n_bucket = h->n;
  p->histogram.bucket_limit = h->limit;
  p->histogram.bucket = h->bucket;
  p->value.histo = &p->histogram;
}

static void fill_text(const events_value *v, parts *p)
{
  pb__text__init(&p->text);
  pb__shape__init(&p->shape);
  pb__shape__dim__init(&p->dim);
  pb__metadata__init(&p->metadata);
  pb__metadata__plugin__init(&p->plugin);
  p->dim.size = 1;
  p->dims = &p->dim;
  p->shape.n_dim = 1;
  p->shape.dim = &p->dims;
  p->string = binary(v);
  p->text.dtype = DT_STRING;
  p->text.tensor_shape = &p->shape;
  p->text.n_string_val = 1;
  p->text.string_val = &p->string;
  p->plugin.plugin_name = "text";
  p->metadata.plugin_data = &p->plugin;
  p->value.tensor = &p->text;
  p->value.metadata = &p->metadata;
}

static void (*const fill[])(const events_value *, parts *) = {
  [EVENTS_SCALAR] = fill_scalar,
  [EVENTS_IMAGE] = fill_image,
  [EVENTS_HISTOGRAM] = fill_histogram,
  [EVENTS_TEXT] = fill_text,
};

static capl_status pack_message(const Pb__Event *event, size_t before, size_t after, uint8_t **bytes, size_t *len)
{
  *len = pb__event__get_packed_size(event);
  *bytes = malloc(before + *len + after);
  if (!*bytes) return CAPL_FAIL(CAPL_ENOMEM, "no memory for an event of %zu bytes", *len);
  pb__event__pack(event, *bytes + before);
  return CAPL_OK;
}

static capl_status pack(const events_record *record, size_t before, size_t after, uint8_t **bytes, size_t *len)
{
  Pb__Event event = PB__EVENT__INIT;
  Pb__Summary summary = PB__SUMMARY__INIT;
  parts *all = calloc(record->n + 1, sizeof *all);
  Pb__Summary__Value **list = calloc(record->n + 1, sizeof *list);
  capl_status status = CAPL_OK;
  if (!all || !list) status = CAPL_FAIL(CAPL_ENOMEM, "no memory for an event of %zu values", record->n);
  for (size_t i = 0; status == CAPL_OK && i < record->n; i++) {
    pb__summary__value__init(&all[i].value);
    all[i].value.tag = (char *)record->values[i].tag;
    fill[record->values[i].kind](&record->values[i], &all[i]);
    list[i] = &all[i].value;
  }
  event.wall_time = record->time;
  event.has_step = !record->version;
  event.step = record->step;
  event.file_version = (char *)record->version;
  summary.n_value = record->n;
  summary.value = list;
  if (record->n) event.summary = &summary;
  if (status == CAPL_OK) status = pack_message(&event, before, after, bytes, len);
  free(all);
  free(list);
  return status;
}

const events_packing *events_packing_entry(void)
{
  static const events_packing packing = {.abi = EVENTS_ABI, .pack = pack};
  return &packing;
}
