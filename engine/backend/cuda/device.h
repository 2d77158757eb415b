/* device.h -- what GPUs this process sees, and exactly why one cannot be used.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_DEVICE_H
#define CAPL_CUDA_DEVICE_H

#include <stddef.h>

#include "capl/error.h"

typedef struct {
  char name[128];
  int capability; /* 90 for 9.0 */
  int multiprocessors;
  size_t memory; /* bytes, as the driver says */
  int l2_bytes;
  char bus[32]; /* PCI bus id, the same for every tool */
} device_facts;

/* The least NVIDIA driver for a CUDA runtime (12080 for 12.8): 525; 0 where it is not known. */
int device_least_driver(int runtime);
/* How many GPUs this process sees. EUNSUPPORTED says exactly why none: no driver, driver too old, none visible. */
capl_status device_count(int *count);
/* Facts about one GPU. */
capl_status device_facts_get(int index, device_facts *out);
/* Makes GPU index the one of this process, after checking that this build has code for it. */
capl_status device_choose(int index, device_facts *out);
/* One line: "NVIDIA H200, compute capability 9.0, 132 SMs, 150.1 GB". */
void device_describe(const device_facts *facts, char *text, size_t len);
/* The environment report of `capl info`, a line per fact (report.c); OK also when there is no GPU: then it says why. */
capl_status device_report(char *text, size_t len);

#endif
