/* conv_winograd_table.h -- for which bf16 convolutions Winograd's algorithm is faster than oneDNN's direct one.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_WINOGRAD_TABLE_H
#define CAPL_CPU_CONV_WINOGRAD_TABLE_H

#include "capl/backend.h"

/* Whether op id (conv2d, its gradients, conv_transpose2d) with a 3x3 kernel is faster so, by a table that depends on
** shape, instruction set and threads only. x (N,C,H,W), weight (O,C,3,3) as shapes; padding of height and width.
** frozen: the weights are those of a model file; then N does not matter, so that an image alone and one of many are
** read with the same bits. CAPL_ASSUME=winograd=always|never overrules it. */
bool conv_winograd_bf16_pays(capl_op_id id, const int64_t *x, const int64_t *padding, const int64_t *weight,
                             bool frozen);

/* Whether the table has rows for this processor, or is overruled with always. */
bool conv_winograd_bf16_is_on(void);

#endif
