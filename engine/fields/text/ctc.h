/* ctc.h -- what the decoders share: normalized scores, limits, and what is known of a text once it is found.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TEXT_CTC_H
#define CAPL_TEXT_CTC_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "capl/text.h"

/* Probabilities and their logarithms; those of each time step sum to 1. */
typedef struct {
  int64_t T, K, blank;
  double *log_prob, *prob; /* [T][K] */
} ctc_table;

static inline double ctc_at(const ctc_table *table, int64_t t, int64_t k)
{
  return table->log_prob[t * table->K + k];
}

/* Frees what a function owns when its scope is left. */
#define CTC_TABLE __attribute__((cleanup(ctc_table_fini))) ctc_table
#define CTC_ROOM __attribute__((cleanup(ctc_room_free)))
capl_status ctc_table_init(ctc_table *table, const capl_ctc_scores *s);
void ctc_table_fini(ctc_table *table);
void ctc_room_free(void *room);
/* Memory for count things of size bytes; ENOMEM says what for. */
capl_status ctc_room_get(int64_t count, size_t size, const char *what, void *out);

extern const capl_ctc_limits ctc_no_limits;
/* EVALUE unless the limits can be kept by a text of T steps, as far as the numbers show. */
capl_status ctc_check_limits(const ctc_table *table, const capl_ctc_limits *limits);

/* Whether class k may be the character at a place, counted from 0. Never the blank. */
static inline bool ctc_may(const ctc_table *table, const capl_ctc_limits *limits, int64_t place, int64_t k)
{
  if (k == table->blank || (limits->allowed && !limits->allowed[k])) return false;
  return !limits->places || place >= limits->n_places || limits->places[place * table->K + k];
}

/* log(exp(a) + exp(b)) */
static inline double ctc_log_add(double a, double b)
{
  double most = a > b ? a : b, least = a > b ? b : a;
  return least == -INFINITY ? most : most + log1p(exp(least - most));
}

/* Log probability of a text. */
capl_status ctc_text_log_prob(const ctc_table *table, const int32_t *classes, int64_t length, double *out);
/* The most probable path within limits, as a text: classes has room for T. */
capl_status ctc_best_path(const ctc_table *table, const capl_ctc_limits *limits, int32_t *classes, int64_t *length);
/* Fills all of a text but its classes and length. */
capl_status ctc_describe(const ctc_table *table, capl_ctc_text *text);

#endif
