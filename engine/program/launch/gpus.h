/* gpus.h -- how many GPUs this machine lets the program use.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_GPUS_H
#define CAPL_LAUNCH_GPUS_H

#include <stddef.h>

/* Number of GPUs that CUDA shows (CUDA_VISIBLE_DEVICES is respected); 0 with a reason in why. Asked by a process of its
** own: CUDA does not work in processes forked after its first call. */
int gpus_count(char *why, size_t room);

#endif
