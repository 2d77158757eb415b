/* scene.c -- what sources of generated pictures share.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/synth.h"
#include "synth/scenes/scene.h"

#include <string.h>

/* Epoch numbers stop at 2^31 - 1, so the fixed set's is one that no training run reaches. */
static const uint32_t FIXED_EPOCH = 0xffffffff;

capl_status scene_begin(scene_source *s, const capl_source_ops *ops, const capl_scene_set *set)
{
  int channels = set->channels ? set->channels : 3;
  if (channels != 1 && channels != 3) return CAPL_FAIL(CAPL_EVALUE, "a picture has 1 or 3 channels, not %d", channels);
  s->seed = set->seed;
  s->base = (capl_source){
    .ops = ops, .refs = 1, .count = set->count ? set->count : UINT32_MAX, .channels = channels, .fixed = set->fixed};
  return CAPL_OK;
}

void scene_field(capl_source *s, const char *name, capl_field_kind kind, int ndim, int size0, int size1)
{
  capl_field *field = &s->field[s->n_fields++];
  *field = (capl_field){.kind = kind, .ndim = ndim, .size = {size0, size1}};
  strncpy(field->name, name, sizeof field->name - 1);
}

void scene_rng(const scene_source *s, const capl_read *what, uint32_t stream, capl_rng *rng)
{
  capl_rng_init(rng, s->seed, what->id, s->base.fixed ? FIXED_EPOCH : what->epoch, stream);
}
