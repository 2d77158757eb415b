/* bad_samples.h -- the bad samples that a loader has met: their numbers and what was wrong, in order.
**
** Threads meet samples ahead of time, so each entry says which batch needed it first: the content of a list up to a
** batch is the same for any number of threads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_BAD_SAMPLES_H
#define CAPL_DATA_BAD_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint32_t id;
  uint64_t batch; /* that needed it first */
  char *message;  /* NULL without memory for it */
} bad_sample;

typedef struct {
  bad_sample *sample; /* [count], by id */
  uint32_t count, capacity;
} bad_list;

void bad_list_fini(bad_list *list);
/* Keeps a message under the sample's number; of several, the first stays. Without memory for it, it is forgotten. */
void bad_list_add(bad_list *list, uint32_t id, uint64_t batch, const char *message);
/* What was met for this batch and later ones is unknown again. */
void bad_list_forget(bad_list *list, uint64_t from);
/* How many were needed by the batches before this one. */
uint32_t bad_list_count(const bad_list *list, uint64_t until);
/* The i-th of those; NULL past the last. */
const bad_sample *bad_list_get(const bad_list *list, uint64_t until, uint32_t i);

#endif
