/* scene_each.h -- the first samples of a generated source, one after the other, drawn by several threads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCENES_SCENE_EACH_H
#define CAPL_DATA_SCENES_SCENE_EACH_H

#include "capl/synth.h"

/* What to do with a sample; mask is NULL if the source has none. By several threads at once. */
typedef capl_status scene_use(void *context, uint32_t index, const uint8_t *pixels, const uint8_t *mask);

/* Whether scene_each can. EVALUE. */
capl_status scene_each_check(const capl_source *source, uint32_t n, int threads);
/* Samples 0..n-1 of epoch 0, in any order; the first failure stops it. ENOMEM, and what use fails with. */
capl_status scene_each(capl_source *source, uint32_t n, int threads, scene_use *use, void *context);
/* Digits of the largest of n numbers from 0. */
int scene_digits(uint32_t n);

#endif
