/* autocast.h -- casting the inputs of a call as its op's amp class asks.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_AUTOCAST_H
#define CAPL_OPS_AUTOCAST_H

#include "capl/op.h"

/* cast[i] := new reference to in[i] or to its cast (recorded); NULL stays NULL. */
capl_status autocast_inputs(const capl_op *op, capl_tensor *const *in, int n_in, capl_tensor **cast);

/* The dtype that input i of a call of op is computed in. in: shells will do. */
capl_dtype autocast_dtype(const capl_op *op, capl_tensor *const *in, int n_in, int i);

#endif
