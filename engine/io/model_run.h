/* model_run.h -- what the files around an open model share.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_MODEL_RUN_H
#define CAPL_IO_MODEL_RUN_H

#include "capl/model.h"
#include "capl/tensor.h"
#include "io/meta.h"

enum { MODEL_BATCH = 64 };

const char *model_path(const capl_model *model);
capl_device *model_device(const capl_model *model);
const model_meta *model_meta_of(const capl_model *model);
int model_widths(const capl_model *model);          /* how many; 1 for a model of one width */
int model_width(const capl_model *model, int w);    /* px of the w-th */
int model_steps(const capl_model *model, int w);    /* T there */
int model_outputs(const capl_model *model, int w);  /* numbers per image, T*K */
size_t model_levels(const capl_model *model);       /* bytes of an image of the greatest width */
bool model_is_low(const capl_model *model);         /* computes in 16 bits */

/* An image of any size and 1 or 3 channels as the model sees it: (H,W,C) u8 of the *w-th width, at the beginning of
** out, which has room for model_levels bytes. room: for as many with 3 channels. EVALUE, ENOMEM. */
capl_status model_fit(const model_meta *meta, const uint8_t *in, int width, int height, int channels, uint8_t *room,
                      uint8_t *out, int *w);

/* The settings of capl_model_decoding_set; all zero at first. */
typedef struct {
  int beam, length_min, length_max;
  uint8_t *allowed; /* [K] flags; NULL = all are; owned */
} model_decoding;
model_decoding *model_decoding_of(const capl_model *model);

/* The output of one image at its width, T*K numbers, as text and confidence; its other fields are set to 0. */
void model_decode(const capl_model *model, const double *output, int w, capl_reading *reading);
/* Images as model_fit gives them, `stride` bytes apart, width w[i] each -> readings' text and confidence. Bad readings
** (status set) stay as they are. output: n*T*K numbers, or NULL; all images are of one width then. n <= MODEL_BATCH. */
capl_status model_read_levels(capl_model *model, const uint8_t *levels, size_t stride, const int *w, int n,
                              capl_reading *readings, double *output);
/* capl_model_run for at most MODEL_BATCH images; output as above. */
capl_status model_run_batch(capl_model *model, const capl_model_image *images, int n, capl_reading *readings,
                            double *output);
/* A reading of an image that cannot be read. */
void model_reading_fail(capl_reading *reading, capl_status status, const char *message);

#endif
