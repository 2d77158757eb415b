/* choose.c -- which kernels this processor gets, and the memory of taps.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "synth/draw/draw.h"

capl_status draw_kernels_choose(const draw_kernels **kernels)
{
  capl_isa isa;
  CAPL_TRY(capl_isa_choose(&isa));
  *kernels = &draw_kernels_portable;
#if defined(__x86_64__)
  if (isa >= CAPL_ISA_AVX2) *kernels = &draw_kernels_avx2;
  if (isa >= CAPL_ISA_AVX512 && capl_isa_has_vbmi()) *kernels = &draw_kernels_avx512;
#endif
  return CAPL_OK;
}

void *draw_room(size_t bytes)
{
  size_t whole = (bytes + 63) / 64 * 64;
  void *room = aligned_alloc(64, whole);
  if (room) memset(room, 0, whole);
  return room;
}

capl_status draw_taps_init(draw_taps *taps, int max_out, float max_shrink)
{
  int max_taps = (int)ceilf(4 * fmaxf(max_shrink, 1.0f)) + 1;
  size_t outs = (size_t)draw_padded(max_out);
  *taps = (draw_taps){.max_out = (int)outs, .max_taps = max_taps};
  taps->first = draw_room(outs * sizeof *taps->first);
  taps->weight = draw_room(outs * (size_t)max_taps * sizeof *taps->weight);
  taps->exact = draw_room(DRAW_TAPS_TOGETHER * (size_t)max_taps * sizeof *taps->exact);
  if (taps->first && taps->weight && taps->exact) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d x %d resampling taps", max_out, max_taps);
}

void draw_taps_fini(draw_taps *taps)
{
  free(taps->first);
  free(taps->weight);
  free(taps->exact);
}
