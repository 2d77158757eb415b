/* libcuda.c -- stands in for the NVIDIA driver where GPUs are counted: FAKE_GPUS says how many.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);

int cuInit(unsigned flags)
{
  enum { NO_DEVICE = 100 };
  (void)flags;
  return getenv("FAKE_GPUS") ? 0 : NO_DEVICE;
}

int cuDeviceGetCount(int *count)
{
  *count = atoi(getenv("FAKE_GPUS"));
  return 0;
}
