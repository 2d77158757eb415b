/* model.h -- a trained model: images in, texts, classes, masks, points, numbers out, without the recipe that trained
** it.
**
** A model file is a folder NAME.capl (io.h, docs/model-file.md). Opening it checks everything in it, makes its graph
** cheaper to run (batch norm folded, activations in the kernels before them, constants computed, weights packed at the
** first small batch) and chooses the precision. Images may have any size: they become gray or RGB as the model
** wants, are brought to its size with a bicubic filter, stretched or in a letterbox as in training, and normalized
** likewise. A model of several widths keeps their proportions: they are brought to its height and put into the
** narrowest of its widths that holds them.
**
** Threads: one model may be used by one thread at a time. Two models may be used by two threads at once, but compute
** threads are shared, so that is no faster than one after the other.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_MODEL_H
#define CAPL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "capl/data.h"
#include "capl/error.h"
#include "capl/field.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct capl_model capl_model;

typedef struct {
  const char *device;    /* NULL = "cpu" */
  const char *precision; /* "fp32", "bf16", "fp16" or "auto"; NULL = "auto": 16 bits where they are faster */
  bool plain;            /* run the graph as it was written, nothing folded, fused or packed: for comparisons */
} capl_model_options;

/* path: the folder. options: NULL = defaults. *model: caller closes. EIO: no such folder; EFORMAT: damaged, of another
** version, or one that does not describe what it gives, with the file's name; EVALUE: unknown precision; EUNSUPPORTED:
** one that the device does not offer; ENOMEM. */
CAPL_API capl_status capl_model_open(const char *path, const capl_model_options *options, capl_model **model);
CAPL_API void capl_model_close(capl_model *model); /* NULL is fine */

/* An input or output. */
typedef struct {
  const char *name;        /* "" = an only one without */
  const char *kind;        /* of outputs as in field.h; of inputs "image", "numbers" or "series" */
  const capl_vocab *vocab; /* the characters, or the names of classes, points or numbers; NULL = it has none */
  size_t numbers;          /* that a sample has; of several widths at the greatest */
} capl_model_field;

enum { CAPL_MODEL_FIELDS_MAX = 16 /* inputs, and outputs */ };

/* All borrowed from the model. */
typedef struct {
  int width, height, channels; /* px that images are resized to, 1 gray or 3 RGB; 0: the model sees no image */
  capl_letterbox letterbox;    /* how, unless it has several widths */
  int n_widths;                /* 0: all are brought to width; else the widths that there are */
  const int *widths;           /* ascending, the last is width */
  int n_inputs, n_outputs;
  const capl_model_field *inputs, *outputs; /* in the order of the file */
  const char *precision;       /* what it computes in: "fp32", "bf16" or "fp16" */
  const char *meta;            /* the text of meta.json, which says all there is */
} capl_model_info;
CAPL_API void capl_model_info_get(const capl_model *model, capl_model_info *info);

/* How its texts are read from the next image on. NULL = as at the beginning: no beam, all characters, any length.
** EVALUE: a model that gives no texts, a beam or lengths without CTC, characters that the charset does not have,
** lengths that contradict each other or that no width has the time steps for; ENOMEM. */
CAPL_API capl_status capl_model_decoding_set(capl_model *model, const capl_text_decoding *decoding);

/* One sample. Its image is a PNG or JPEG file, the bytes of one, or levels in memory. */
typedef struct {
  const char *path;            /* NULL: */
  const void *file;            /* bytes of a PNG or JPEG file; NULL: */
  size_t file_bytes;
  const uint8_t *pixels;       /* (H,W,C) u8 */
  int width, height, channels; /* of pixels; channels 1 or 3 */
  const float *const *values;  /* the inputs that are no image, in the order of capl_model_info: as many numbers as each
                               ** has, in their units; NULL where there are none */
} capl_model_sample;

/* What a model says of a sample. */
typedef struct {
  int n_outputs;
  capl_output outputs[CAPL_MODEL_FIELDS_MAX]; /* in the order of capl_model_info; field.h says what each kind fills */
  int width, height;           /* px the image had */
  capl_status status;          /* CAPL_OK, or why this sample could not be read; n_outputs is 0 then */
  char error[1024];            /* "" or the same in words, the path first */
  struct base_room *memory;    /* of what outputs point to */
} capl_reading;

/* Reads n samples, in batches. readings: n entries, in the same order; caller frees them with capl_readings_free before
** the model is closed. A bad sample has its status set and does not stop the others; the call fails only when nothing
** can be read (ENOMEM, …), and nothing is to be freed then. */
CAPL_API capl_status capl_model_run(capl_model *model, const capl_model_sample *samples, int n, capl_reading *readings);
CAPL_API void capl_readings_free(capl_reading *readings, int n);

/* Many files: `workers` threads decode and resize while earlier images are computed. */
typedef struct capl_model_files capl_model_files;

/* paths: n PNG or JPEG files, copied. workers: threads; 0 = the calling one, -1 = one per processor. The model must
** outlive it. EUNSUPPORTED: a model with inputs beside the image. */
CAPL_API capl_status capl_model_files_begin(capl_model *model, const char *const *paths, uint32_t n, int workers,
                                            capl_model_files **files);
/* Likewise the files of a source of files, which is kept; its labels and its size are not looked at. ESTATE: it has
** none. */
CAPL_API capl_status capl_model_source_begin(capl_model *model, capl_source *source, int workers,
                                             capl_model_files **files);
/* The next batch, in the order of paths; *n = 0 after the last. Borrowed until the next call. */
CAPL_API capl_status capl_model_files_next(capl_model_files *files, const capl_reading **readings, int *n);
CAPL_API void capl_model_files_end(capl_model_files *files); /* NULL is fine */

/* How well this machine repeats what the model said when it was saved. */
typedef struct {
  int n;             /* golden pairs */
  double difference; /* greatest |output now - output then| */
  double largest;    /* greatest |output then| */
  int same_texts;    /* of n: those whose texts and classes are the same in all outputs */
  double tolerance;  /* of difference: 1e-3 of largest in fp32, 5e-2 in bf16, at least 1e-4 */
  bool ok;           /* difference within tolerance; in fp32 also same_texts == n */
} capl_model_verdict;

/* Replays the golden pairs. EFORMAT: the model has none, or they are damaged. */
CAPL_API capl_status capl_model_verify(capl_model *model, capl_model_verdict *verdict);
/* The same for a model folder whose golden pairs are tensors (golden/inputs.safetensors), in fp32: no texts are
** compared. device: NULL = "cpu". */
CAPL_API capl_status capl_model_verify_tensors(const char *path, const char *device, capl_model_verdict *verdict);

/* What a model with this meta data sees: images u8 (n,H,W,C) of its size -> out f32 (n,H,W,C), normalized. meta_json
** needs no version. EFORMAT for wrong meta data; ESHAPE for another size. */
CAPL_API capl_status capl_model_prepare(const char *meta_json, const uint8_t *images, int n, int width, int height,
                                        int channels, float *out);

#ifdef __cplusplus
}
#endif
#endif
