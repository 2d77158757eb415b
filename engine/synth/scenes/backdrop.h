/* backdrop.h -- pictures to hide things in: landscapes, towns, leaves, lights, patterns.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCENES_BACKDROP_H
#define CAPL_DATA_SCENES_BACKDROP_H

#include "synth/scenes/canvas.h"

/* Covers the canvas with picture number id of seed: a pure function of both and of the canvas's size. */
void backdrop_draw(canvas *c, uint64_t seed, uint32_t id, outline *o);
/* The same of other pictures: walls, boards, pebbles, what is out of focus. */
void texture_draw(canvas *c, uint64_t seed, uint32_t id, outline *o);

#endif
