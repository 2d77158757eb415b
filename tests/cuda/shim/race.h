/* race.h -- finds accesses of two threads to the same memory that nothing orders, in kernels built with
** -fsanitize=thread. SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_RACE_H
#define SHIM_RACE_H

#include "block.h"

/* block.cc says what runs. */
void race_launch_begins(const launch *l);
/* Whether the launch was free of races, or its races are to be reported only. */
bool race_launch_ends();
void race_block_begins();
/* All threads of the block have met. */
void race_block_barrier();
/* All lanes of a warp that have not returned have met. */
void race_warp_barrier(int warp);
/* This thread of the block runs from here on. */
void race_turn(int thread);

#endif
