/* golden.h -- golden pairs of a model file: images, and what the model said of them when it was saved.
**
** golden/00.png, golden/01.png … and golden.safetensors with one tensor, output (n,...) f32, in the same order; of a
** model of several widths with one for each, narrow ones first. Outputs with names are tensors of these names. Where
** the model takes something else than images, golden/inputs.safetensors has it under the names of the inputs (input
** where there is none).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_GOLDEN_H
#define CAPL_IO_GOLDEN_H

#include "capl/io.h"
#include "capl/model.h"

/* Writes them into the folder, which has none yet. several: of a model of several widths, whose outputs are tensors
** output.96, output.128 … */
capl_status golden_write(const char *folder, const capl_golden *golden, bool several);
/* How far outputs may differ whose greatest was largest; low: computed in 16 bits. */
double golden_tolerance(bool low, double largest);
/* Removes what golden_write writes; anything else stays. */
void golden_remove(const char *folder);

#endif
