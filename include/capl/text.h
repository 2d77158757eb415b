/* text.h -- from class scores per time step to a text: CTC decoding.
**
** A path chooses a class at each time step; joining equal neighbours and dropping blanks makes it a text. Greedy
** decoding reads the most probable path, a beam search looks for the text whose paths are most probable together. Both
** keep to limits: which characters there are, how many, and which ones at each place. Scores may be logits or log
** probabilities; they are normalized here. Memory is that of one call.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TEXT_H
#define CAPL_TEXT_H

#include <stdint.h>

#include "capl/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scores of one sample: class k at time t is scores[t * step + k * class_step]. Finite or -infinity. */
typedef struct {
  const float *scores;
  int64_t T, K;
  int64_t step, class_step; /* 0: K and 1 */
  int64_t blank;
} capl_ctc_scores;

/* What a text may be. All zero: anything. */
typedef struct {
  int64_t min_length, max_length; /* characters; max_length 0 = any number */
  const uint8_t *allowed;         /* K flags, 0 = never this class; NULL = all. The blank's is not looked at */
  const uint8_t *places;          /* n_places times K flags, one row for each place from the first; NULL = all */
  int64_t n_places;               /* places behind the last row are free */
} capl_ctc_limits;

/* A decoded text. The caller owns the arrays and gives each room for T entries; those it does not want are NULL. */
typedef struct {
  int64_t length;
  double log_prob;    /* of the text: the sum over all its paths, limits or not; exact */
  int32_t *classes;   /* never NULL */
  float *confidences; /* per character: its largest probability while the text's best path is on it, 0..1 */
  int32_t *steps;     /* per character: the time step of that, from 0 */
} capl_ctc_text;

/* The most probable path within limits (NULL = none), read as a text.
** EVALUE: a score that is NaN or +infinity, a time step without a possible class, limits that contradict each other or
** that no text of T steps keeps to. ENOMEM: limits of length take T * (length + 1) * K numbers. */
CAPL_API capl_status capl_ctc_greedy(const capl_ctc_scores *s, const capl_ctc_limits *limits, capl_ctc_text *out);

/* Prefix beam search. width: texts that go on at each step; top: classes that each may go on with, 0 = all.
** The up to n best texts found, the best one first, *found of them: at least one, and never less probable than
** greedy's. Errors as above; EVALUE for width < 1 or n < 1. */
CAPL_API capl_status capl_ctc_beam(const capl_ctc_scores *s, const capl_ctc_limits *limits, int64_t width, int64_t top,
                                   int64_t n, capl_ctc_text *out, int64_t *found);

/* Log probability of a given text: -infinity if T steps cannot spell it. classes: length of them, 0 <= class < K. */
CAPL_API capl_status capl_ctc_log_prob(const capl_ctc_scores *s, const int32_t *classes, int64_t length, double *out);

#ifdef __cplusplus
}
#endif
#endif
