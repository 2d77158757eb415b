/* golden.h -- golden pairs of a model file: images, and what the model said of them when it was saved.
**
** golden/00.png, golden/01.png … and golden.safetensors with one tensor, output (n,...) f32, in the same order.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_GOLDEN_H
#define CAPL_IO_GOLDEN_H

#include "capl/io.h"
#include "capl/model.h"

/* Writes them into the folder, which has none yet. */
capl_status golden_write(const char *folder, const capl_golden *golden);
/* Removes what golden_write writes; anything else stays. */
void golden_remove(const char *folder);

#endif
