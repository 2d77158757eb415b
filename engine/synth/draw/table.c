/* table.c -- the kernels of one instruction set.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/draw/lanes.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const draw_kernels DRAW(kernels) = {
  .isa = TEXT(DRAW_ISA),
  .taps = DRAW(taps),
  .turn = DRAW(turn),
  .stretch = DRAW(stretch),
  .place = DRAW(place),
  .squeeze = DRAW(squeeze),
  .smooth = DRAW(smooth),
  .colour = DRAW(colour),
};
