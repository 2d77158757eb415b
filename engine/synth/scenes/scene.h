/* scene.h -- what sources of generated pictures share: which random numbers belong to which sample.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCENES_SCENE_H
#define CAPL_DATA_SCENES_SCENE_H

#include "capl/rng.h"
#include "capl/synth.h"
#include "data/source.h"

/* First member of a scene's source. */
typedef struct {
  capl_source base;
  uint64_t seed;
} scene_source;

/* Fills in what set says; size and fields are the caller's. EVALUE. */
capl_status scene_begin(scene_source *s, const capl_source_ops *ops, const capl_scene_set *set);
/* The next field of the source; size of ndim numbers. */
void scene_field(capl_source *s, const char *name, capl_field_kind kind, int ndim, int size0, int size1);
/* The random numbers of a sample. */
void scene_rng(const scene_source *s, const capl_read *what, uint32_t stream, capl_rng *rng);

#endif
