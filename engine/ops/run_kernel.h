/* run_kernel.h -- running an op's kernel on outputs that are there already.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_RUN_KERNEL_H
#define CAPL_OPS_RUN_KERNEL_H

#include "capl/op.h"

/* Nothing is cast, laid out, checked or recorded: out has the sizes, dtypes and layout that the op would give it. */
capl_status op_call_into(capl_op_id id, capl_tensor *const *in, int n_in, const capl_attr *attr, capl_tensor **out);

/* capl_op_call where nobody reads the outputs in the bits of unread. */
CAPL_API capl_status op_call_unread(capl_op_id id, capl_tensor *const *in, int n_in, const capl_attr *attr,
                                    uint32_t unread, capl_tensor **out);

#endif
