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
int model_outputs(const capl_model *model); /* numbers per image, T*K */
bool model_is_low(const capl_model *model); /* computes in 16 bits */

/* The output of one image, T*K numbers, as text and confidence; its other fields are set to 0. */
void model_decode(const capl_model *model, const double *output, capl_reading *reading);
/* Levels (n,H,W,C) f32 as the graph wants them -> readings' text and confidence. x is a model's own size. output: n*T*K
** numbers, or NULL. Bad readings (status set) stay as they are. */
capl_status model_read_tensor(capl_model *model, capl_tensor *x, capl_reading *readings, double *output);
/* capl_model_run for at most MODEL_BATCH images; output as above. */
capl_status model_run_batch(capl_model *model, const capl_model_image *images, int n, capl_reading *readings,
                            double *output);
/* A fresh (n,C,H,W) tensor in the model's input type. */
capl_status model_new_input(const capl_model *model, int n, capl_tensor **x);
/* A reading of an image that cannot be read. */
void model_reading_fail(capl_reading *reading, capl_status status, const char *message);

#endif
