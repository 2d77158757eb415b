/* resample.h -- bicubic resizing of planes of floats, with the taps and the order of Pillow.
**
** A plane is a list of lines; resizing mixes neighbouring lines into new ones, so that the inner
** loop runs along a line and vectorizes. Both directions are done by transposing in between.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_RESAMPLE_H
#define CAPL_DATA_RESAMPLE_H

#include "capl/error.h"

/* For output line i: lines first[i] .. first[i] + count[i] - 1 of the input, weighted. */
typedef struct {
  int max_out, max_taps;
  int *first, *count;
  float *weight; /* [i * max_taps + k]; the weights of a line sum to 1 */
} capl_taps;

/* Room for resizing to at most max_out lines, never shrinking more than max_shrink times. */
capl_status capl_taps_init(capl_taps *taps, int max_out, float max_shrink);
void capl_taps_fini(capl_taps *taps);

/* The taps for n_in -> n_out lines (a = -0.5; the kernel widens when shrinking). */
void capl_taps_set(capl_taps *taps, int n_in, int n_out);

/* out line i = weighted sum of in's lines, both of `length` floats `stride` apart. */
void capl_taps_mix(const capl_taps *taps, int n_out, const float *in, int in_stride, float *out, int out_stride,
                   int length);

#endif
