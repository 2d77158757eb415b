/* conv_rows.h -- convolutions with few channels and their gradient of x, without oneDNN.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_ROWS_H
#define CAPL_CPU_CONV_ROWS_H

#include "capl/backend.h"

/* Whether a conv2d or conv2d_act call is one for conv_rows, a conv2d_grad_x call one for conv_rows_grad_x; w: the
** sizes (O,C,kh,kw). */
bool conv_rows_fits(const capl_call *call, const int64_t *w);
bool conv_rows_grad_x_fits(const capl_call *call, const int64_t *w);

/* relu: of y. ENOMEM. */
capl_status conv_rows(const capl_call *call, bool relu);
capl_status conv_rows_grad_x(const capl_call *call);

#endif
