/* io.h -- tensors and models in files.
**
** safetensors: named tensors, little-endian, row-major in logical order (conv weights O,I,H,W), so
** any reader of the format sees what a PyTorch state_dict of the same model would hold.
**
** A model file is a folder NAME.capl: weights.safetensors, graph.json (the op calls of the eval-mode
** forward pass, batch size symbolic, no code), meta.json (version of the format, preprocessing, charset, score) and
** golden pairs (images with what the model said of them). Running it needs libcapl and this folder, never the recipe:
** see model.h. docs/model-file.md states the format.
**
** Everything is written under a temporary name, fsynced and renamed: a reader sees the old file or
** the new one. Files are checked on reading: damage is EFORMAT with path and reason, never a crash.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_H
#define CAPL_IO_H

#include "capl/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  char *name;
  capl_tensor *tensor;
} capl_named_tensor;

/* Writes n tensors; names must differ. EIO names path and reason. */
CAPL_API capl_status capl_safetensors_save(const char *path, const capl_named_tensor *list, int n);
/* Reads all tensors onto device (4-d ones become channels-last). *list: caller frees with
** capl_named_tensors_free. EIO, EFORMAT, ENOMEM. */
CAPL_API capl_status capl_safetensors_load(const char *path, capl_device *device, capl_named_tensor **list, int *n);
CAPL_API void capl_named_tensors_free(capl_named_tensor *list, int n); /* NULL-safe */

/* A recorded forward pass with its weights. */
typedef struct capl_graph capl_graph;

/* Starts noting every op call of this thread. One trace at a time; ESTATE otherwise. */
CAPL_API capl_status capl_trace_begin(void);
/* Ends it: the calls that lead from inputs to outputs become a graph. Tensors that no call made must be
** in weights (parameters, buffers) or become constants of the graph. Inputs and outputs are 1 to CAPL_GRAPH_PORTS_MAX,
** their names identifiers that differ; one alone may have none (NULL). The first dim of every input is the batch.
** EVALUE: a wrong name, or an output that no call made. */
enum { CAPL_GRAPH_PORTS_MAX = 16, CAPL_GRAPH_NAME_MAX = 64 /* bytes with the zero */ };
typedef struct {
  const capl_named_tensor *inputs;
  int n_inputs;
  const capl_named_tensor *outputs;
  int n_outputs;
  const capl_named_tensor *weights;
  int n_weights;
} capl_traced;
CAPL_API capl_status capl_trace_end_named(const capl_traced *traced, capl_graph **out);
/* The same for one input and one output without names. */
CAPL_API capl_status capl_trace_end(capl_tensor *input, capl_tensor *output, const capl_named_tensor *named, int n,
                                    capl_graph **out);
CAPL_API void capl_trace_cancel(void);
/* Merges two traces of the same model, made with different batch sizes: attributes that differ become
** multiples of the batch. EVALUE names the op whose attributes do not scale, or inputs or outputs that one of the
** traces lacks. a keeps the result. */
CAPL_API capl_status capl_graph_merge_batch(capl_graph *a, const capl_graph *b);
/* After that: a, traced at one width or several, learns what b, of the same batch and a greater width (last dimension),
** does. EVALUE: other ops or constants at another width; not ascending; several inputs. */
CAPL_API capl_status capl_graph_merge_width(capl_graph *a, const capl_graph *b);
CAPL_API void capl_graph_free(capl_graph *graph); /* NULL-safe */

/* Names of its inputs and outputs, 0 <= i < their number, sorted; "" where the only one has none. */
CAPL_API int capl_graph_inputs(const capl_graph *graph);
CAPL_API const char *capl_graph_input_name(const capl_graph *graph, int i);
CAPL_API int capl_graph_outputs(const capl_graph *graph);
CAPL_API const char *capl_graph_output_name(const capl_graph *graph, int i);

/* Runs the graph on its n inputs, given in any order (N as wanted, one of its widths, other sizes as traced, else
** ESHAPE; EVALUE for one that is missing or unknown). out: a new tensor for each output, in the graph's order. */
CAPL_API capl_status capl_graph_run_named(const capl_graph *graph, const capl_named_tensor *inputs, int n,
                                          capl_tensor **out);
/* The same for a graph of one input and one output, whatever their names. */
CAPL_API capl_status capl_graph_run(const capl_graph *graph, capl_tensor *input, capl_tensor **out);

/* A few inputs and the model's outputs for them: whoever loads the model can see whether it still says the same. */
enum { CAPL_GOLDEN_MAX = 32 };
typedef struct capl_golden {
  int n;                       /* 1..CAPL_GOLDEN_MAX, of all widths together */
  int width, height, channels; /* px; channels 1 or 3 */
  const uint8_t *images;       /* (n,H,W,C); NULL: inputs; both: inputs, and the levels of the image among them */
  capl_tensor *output;         /* (n,...) f32; NULL: outputs */
  const struct capl_golden *next; /* those of another width, NULL = no more */
  const capl_named_tensor *inputs, *outputs; /* (n,...), outputs in f32, in place of images and of output */
  int n_inputs, n_outputs;
} capl_golden;

/* Writes the folder path at once: weights, graph, meta_json (a JSON object as text; the version of the format is
** added) and golden pairs (NULL = none). EIO; EVALUE for meta data that capl_model_open would refuse. */
CAPL_API capl_status capl_model_save(const char *path, const capl_graph *graph, const char *meta_json,
                                     const capl_golden *golden);
/* Reads graph and meta data of any model. *meta_json: caller frees with free(). EIO; EFORMAT for damage or another
** version, with the file's name, and for weights that are not those that were saved (meta.json has their SHA-256). */
CAPL_API capl_status capl_model_load(const char *path, capl_device *device, capl_graph **graph, char **meta_json);
/* Its weights alone, checked likewise; also of a folder that has no more than weights.safetensors. *list: caller frees
** with capl_named_tensors_free. */
CAPL_API capl_status capl_model_weights(const char *path, capl_device *device, capl_named_tensor **list, int *n);

#ifdef __cplusplus
}
#endif
#endif
