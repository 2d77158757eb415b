/* model_run.h -- an open model, as the files around it know it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_MODEL_RUN_H
#define CAPL_IO_MODEL_RUN_H

#include "capl/backend.h"
#include "capl/model.h"
#include "capl/op.h"
#include "capl/tensor.h"
#include "io/graph.h"
#include "io/meta.h"

enum { MODEL_BATCH = 64 };

/* Of one sample. */
typedef struct {
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  size_t count; /* numbers */
  graph_cost cost; /* of the whole network, for a sample */
} model_shape;

/* Inputs and outputs are in the order of meta.json; port: their numbers in the graph, which sorts them by name. */
struct capl_model {
  char *path, *text; /* text: of meta.json */
  capl_device *device;
  capl_graph *graph;
  model_meta meta;
  capl_precision precision; /* low == CAPL_F32: nothing runs in 16 bits */
  int in_port[CAPL_GRAPH_PORTS_MAX], out_port[CAPL_GRAPH_PORTS_MAX];
  model_shape *shapes;                   /* [n_outputs][widths] */
  double *numbers[CAPL_GRAPH_PORTS_MAX]; /* of each output: [batch * numbers of the greatest width] */
  capl_model_field inputs[CAPL_GRAPH_PORTS_MAX], outputs[CAPL_GRAPH_PORTS_MAX];
  int batch;       /* samples that the graph computes at once, at most MODEL_BATCH */
  uint8_t *room;   /* [3*H*W], for one image in the channels given */
  uint8_t *levels; /* [MODEL_BATCH][C*H*W] */
  capl_image scratch;
};

int model_widths(const capl_model *model);        /* how many; 1 for a model of one width */
int model_width(const capl_model *model, int w);  /* px of the w-th */
size_t model_levels(const capl_model *model);     /* bytes of an image of the greatest width */
bool model_is_low(const capl_model *model);       /* computes in 16 bits */
const model_shape *model_shape_of(const capl_model *model, int output, int w);

/* "96|128|160" or "160" */
const char *model_describe_widths(const int *widths, int n, int one, char *buf, size_t room);

/* An image of any size and 1 or 3 channels as the model sees it: (H,W,C) u8 of the *w-th width, at the beginning of
** out, which has room for model_levels bytes. room: for as many with 3 channels. EVALUE, ENOMEM. */
capl_status model_fit(const model_meta *meta, const uint8_t *in, int width, int height, int channels, uint8_t *room,
                      uint8_t *out, int *w);

/* n <= MODEL_BATCH samples as the model sees them. */
typedef struct {
  int n;
  const uint8_t *levels;       /* images as model_fit gives them, `stride` bytes apart; NULL: no input is an image */
  size_t stride;
  int w[MODEL_BATCH];          /* the width of each */
  const capl_model_sample *values; /* where the other inputs are; NULL: there are none */
} model_batch;

/* What the model says of them -> outputs of the readings. Those with a status stay as they are. outputs: [n_outputs] of
** n samples' numbers each, or NULL; all are of one width then. */
capl_status model_read_batch(capl_model *model, const model_batch *batch, capl_reading *readings,
                             double *const *outputs);
/* capl_model_run for at most MODEL_BATCH samples; outputs as above. */
capl_status model_run_batch(capl_model *model, const capl_model_sample *samples, int n, capl_reading *readings,
                            double *const *outputs);
/* One sample's numbers of each output as outputs of a reading, whose width and height are those of its image. */
void model_decode(const capl_model *model, double *const *numbers, int w, capl_reading *reading);
/* A reading of a sample that cannot be read; what it held is freed. */
void model_reading_fail(capl_reading *reading, capl_status status, const char *message);

#endif
