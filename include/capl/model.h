/* model.h -- a trained model: images in, texts, classes, numbers or points out, without the recipe that trained it.
**
** A model file is a folder NAME.capl (io.h, docs/model-file.md). Opening it checks everything in it, folds batch norm
** into the convolutions and chooses the precision. Images may have any size: they become gray or RGB as the model
** wants, are stretched to its size with a bicubic filter and normalized as in training. A model of several widths keeps
** their proportions: they are brought to its height and put into the narrowest of its widths that holds them.
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

#ifdef __cplusplus
extern "C" {
#endif

typedef struct capl_model capl_model;

typedef struct {
  const char *device;    /* NULL = "cpu" */
  const char *precision; /* "fp32", "bf16", "fp16" or "auto"; NULL = "auto": 16 bits where they are faster */
  bool plain;            /* run the graph as it was written, without folding: slower, for comparisons */
} capl_model_options;

/* path: the folder. options: NULL = defaults. *model: caller closes. EIO: no such folder; EFORMAT: damaged, of another
** version, or one that gives something else, with the file's name; EVALUE: unknown precision; EUNSUPPORTED:
** one that the device does not offer; ENOMEM. */
CAPL_API capl_status capl_model_open(const char *path, const capl_model_options *options, capl_model **model);
CAPL_API void capl_model_close(capl_model *model); /* NULL is fine */

/* What a model gives for an image. */
typedef enum {
  CAPL_MODEL_TEXT,  /* a text */
  CAPL_MODEL_CLASS, /* one of its classes */
  CAPL_MODEL_NUMBERS, /* D numbers, in their units */
  CAPL_MODEL_POINTS,  /* P points of the image: x, y in px */
} capl_model_kind;

typedef struct {
  capl_model_kind kind;
  int width, height, channels; /* px that images are resized to; 1 gray, 3 RGB */
  int n_widths;                /* 0: all are stretched to width; else the widths that there are */
  const int *widths;           /* ascending, the last is width; borrowed from the model */
  int length_min, length;      /* characters of a text; 1 for a class */
  bool ctc;                    /* texts of any length, read from time steps; else a character at each of `length`
                               ** places */
  const capl_vocab *vocab;     /* the characters, or the names of classes, numbers or points; borrowed from the model */
  const char *charset;         /* the characters, in the order of their ids; "" for classes; borrowed likewise */
  const char *precision;       /* what it computes in: "fp32", "bf16" or "fp16" */
} capl_model_info;
CAPL_API void capl_model_info_get(const capl_model *model, capl_model_info *info);

/* How texts are read from what the graph says, from the next image on. */
typedef struct {
  int beam;                    /* CTC: texts that a beam search goes on with at each step; 0 = the most probable path */
  const char *characters;      /* only these, of the charset; may hold ranges; NULL = all */
  int length_min, length_max;  /* characters of a text; 0 = any */
} capl_model_decoding;
/* NULL = as at the beginning: no beam, all characters, any length. EVALUE: a model that gives no texts, a beam or
** lengths without CTC, characters
** that the charset does not have, lengths that contradict each other or that no width has the time steps for;
** ENOMEM. */
CAPL_API capl_status capl_model_decoding_set(capl_model *model, const capl_model_decoding *decoding);

/* One image: a PNG file, or its levels in memory. */
typedef struct {
  const char *path;            /* NULL: */
  const uint8_t *pixels;       /* (H,W,C) u8 */
  int width, height, channels; /* of pixels; channels 1 or 3 */
} capl_model_image;

enum {
  CAPL_READING_MAX = 256, /* characters; what a model reads beyond them is cut */
  CAPL_TOP_MAX = 16,      /* classes of a reading */
  CAPL_VALUES_MAX = 64,   /* numbers of a reading, coordinates of points */
};

typedef struct {
  int32_t id;
  const char *name;  /* borrowed from the model */
  float probability; /* its softmax value, 0..1 */
} capl_class_score;

/* What was read off an image. */
typedef struct {
  char text[4 * CAPL_READING_MAX + 1]; /* UTF-8; the name of a class; "" if the image is bad */
  int length;                    /* characters of a text; 1 for a class */
  double confidence;             /* 0..1: product over the places of the greatest softmax value; for CTC of the text,
                                 ** over all its paths */
  int n_top;                     /* of classes: the most probable ones, best first */
  capl_class_score top[CAPL_TOP_MAX];
  int n_values;                  /* of numbers: D; of points: 2 P, x and y of each, px of the image that was given */
  double values[CAPL_VALUES_MAX];
  float sure[CAPL_READING_MAX];  /* of each character: its softmax value, for CTC the greatest of its time steps */
  int width, height;             /* px the image had */
  capl_status status;            /* CAPL_OK, or why this image could not be read */
  char error[1024];              /* "" or the same in words, the path first */
} capl_reading;

/* Reads n images, in batches. readings: n entries, in the same order. A bad image has its status set and does not
** stop the others; the call fails only when nothing can be read (ENOMEM, …). */
CAPL_API capl_status capl_model_run(capl_model *model, const capl_model_image *images, int n, capl_reading *readings);

/* Many files: `workers` threads decode and resize while earlier images are computed. */
typedef struct capl_model_files capl_model_files;

/* paths: n PNG files, copied. workers: threads; 0 = the calling one, -1 = one per processor. The model must outlive
** it. */
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
  int same_texts;    /* of n */
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
