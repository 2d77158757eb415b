/* expect.h -- what cuDNN must hold of a record, and comparing that with what it says it holds.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TESTS_EXPECT_H
#define CAPL_TESTS_EXPECT_H

#include "backend/cuda/dnn_graph.h"

/* Counts, and the first contradiction. */
typedef struct {
  int compared;
  char wrong[1024]; /* "" = none */
  char others[512]; /* names of attributes that were neither compared nor expected */
} findings;

/* Reads the graph's descriptors back, attribute by attribute. */
void expect_descriptors(const dnn_record *record, const dnn_graph *g, findings *f);

/* A finished plan writes the whole operation graph down: every tensor, every operation and what is joined to what. */
void expect_plan(const dnn_record *record, const char *json, findings *f);

#endif
