/* conv_tune.h -- algorithms of convolutions chosen by timing: the switch "autotune".
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_TUNE_H
#define CAPL_CPU_CONV_TUNE_H

#include "capl/backend.h"

/* X(code, name): all ways to compute a convolution or a gradient of one. */
#define CONV_ALGORITHM_MAP(X)                                                                             \
  X(WINOGRAD, "winograd")         /* conv_winograd.c, in the dtype of the images */                       \
  X(WINOGRAD_1D, "winograd_1d")   /* conv_winograd_1d.c */                                                \
  X(PRODUCT, "product")           /* conv_weights.c */                                                    \
  X(ONEDNN, "onednn")             /* the first of oneDNN's algorithms that product.c finds */              \
  X(DIRECT, "direct")             /* oneDNN's direct one, where that is not the first */                   \
  X(WINOGRAD_F32, "winograd_f32") /* oneDNN's Winograd in f32, likewise; bf16 is converted on the way */

typedef enum {
#define X(code, name) CONV_##code,
  CONV_ALGORITHM_MAP(X)
#undef X
  CONV_ALGORITHMS
} conv_algorithm;

typedef struct {
  bool (*can)(const capl_call *call, conv_algorithm by);
  capl_status (*run)(const capl_call *call, conv_algorithm by); /* EUNSUPPORTED: oneDNN has no implementation */
} conv_ways;

/* *by: the usual algorithm of the call, replaced where another one was chosen (conv_tune_use). With the switch on, the
** first call of a shape runs all of them into its outputs; the caller then computes these. EVALUE: what was chosen
** cannot compute the call. x (N,C,H,W), weight (O,C/groups,kh,kw) as shapes. For one thread. */
capl_status conv_tuned(const capl_call *call, const conv_ways *ways, const int64_t *x, const int64_t *weight,
                       conv_algorithm *by);

/* Off forgets all choices. */
void conv_tune_switch(bool on);

/* The .algorithms and .algorithm_use of the backend. */
void conv_tune_list(capl_algorithm_fn fn, void *user);
capl_status conv_tune_use(const char *call, const char *algorithm);

#endif
