/* greedy.c -- the most probable path, read as a text.
**
** Without limits of length or place each step takes its best class by itself. With them the best path is found step by
** step over pairs of (characters so far, class), Viterbi's way; the last number of characters stands for itself and any
** more when there is no upper limit.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <string.h>

#include "fields/text/ctc.h"

/* ---- each step by itself ---- */

static int64_t best_class(const ctc_table *table, const capl_ctc_limits *limits, int64_t t)
{
  int64_t best = table->blank;
  for (int64_t k = 0; k < table->K; k++)
    if (ctc_at(table, t, k) > ctc_at(table, t, best) && ctc_may(table, limits, INT64_MAX, k)) best = k;
  return best;
}

static capl_status no_text(const ctc_table *table)
{
  CAPL_FAIL(CAPL_EVALUE, "no text of %" PRId64 " time steps keeps to the limits of length and characters", table->T);
  capl_error_hint("equal characters side by side need a time step between them; -infinity as a score rules a class "
                  "out");
  return CAPL_EVALUE;
}

static capl_status collapse(const ctc_table *table, const capl_ctc_limits *limits, int32_t *classes, int64_t *length)
{
  int64_t before = table->blank;
  *length = 0;
  for (int64_t t = 0; t < table->T; t++) {
    int64_t k = best_class(table, limits, t);
    if (ctc_at(table, t, k) == -INFINITY) return no_text(table);
    if (k != table->blank && k != before) classes[(*length)++] = (int32_t)k;
    before = k;
  }
  return CAPL_OK;
}

/* ---- within limits ---- */

/* How a path came to (count, class) at a step: the class before, and what was new. */
typedef struct {
  int32_t before;
  bool begins;  /* a character */
  bool counted; /* and the number of characters grew */
} move;

typedef struct {
  const ctc_table *table;
  const capl_ctc_limits *limits;
  int64_t counts; /* 0 to counts - 1 characters */
  bool open;      /* the last count stands for more, too */
  double *now, *next; /* [counts][K] */
  move *moves;        /* [T][counts][K] */
} search;

/* The best two of a row: what a new character may follow is the best of another class. */
typedef struct {
  int64_t first, second;
} best_two;

static best_two best_two_of(const search *s, int64_t count)
{
  const double *row = s->now + count * s->table->K;
  best_two b = {0, -1};
  for (int64_t k = 1; k < s->table->K; k++) {
    if (row[k] > row[b.first]) b = (best_two){k, b.first};
    else if (b.second < 0 || row[k] > row[b.second]) b.second = k;
  }
  return b;
}

/* Offers a way to (count, k) at step t. */
static void offer(search *s, int64_t t, int64_t count, int64_t k, int64_t from_count, int64_t from, bool begins)
{
  int64_t K = s->table->K, to = count * K + k;
  double score = s->now[from_count * K + from] + ctc_at(s->table, t, k);
  if (!(score > s->next[to])) return;
  s->next[to] = score;
  s->moves[t * s->counts * K + to] = (move){(int32_t)from, begins, count != from_count};
}

/* A character of class k begins, after the best path of another class that has from_count of them. */
static void begin_character(search *s, int64_t t, int64_t count, int64_t k, int64_t from_count, best_two b)
{
  int64_t from = b.first == k ? b.second : b.first;
  if (from >= 0 && ctc_may(s->table, s->limits, from_count, k)) offer(s, t, count, k, from_count, from, true);
}

static void step(search *s, int64_t t)
{
  int64_t K = s->table->K, last = s->counts - 1;
  best_two below = {0, -1};
  for (int64_t i = 0; i < s->counts * K; i++) s->next[i] = -INFINITY;
  for (int64_t count = 0; count < s->counts; count++) {
    best_two here = best_two_of(s, count);
    offer(s, t, count, s->table->blank, count, here.first, false);
    for (int64_t k = 0; k < K; k++) {
      if (k == s->table->blank) continue;
      offer(s, t, count, k, count, k, false);
      if (count > 0) begin_character(s, t, count, k, count - 1, below);
      if (s->open && count == last) begin_character(s, t, count, k, count, here);
    }
    below = here;
  }
  double *was = s->now;
  s->now = s->next;
  s->next = was;
}

/* Follows the moves back from the end; classes come out last first. */
static int64_t read_back(const search *s, int64_t count, int64_t k, int32_t *classes)
{
  int64_t length = 0, K = s->table->K;
  for (int64_t t = s->table->T - 1; t >= 0; t--) {
    const move *m = &s->moves[(t * s->counts + count) * K + k];
    if (m->begins) classes[length++] = (int32_t)k;
    count -= m->counted;
    k = m->before;
  }
  for (int64_t i = 0; i < length / 2; i++) {
    int32_t other = classes[i];
    classes[i] = classes[length - 1 - i];
    classes[length - 1 - i] = other;
  }
  return length;
}

static capl_status finish(const search *s, int32_t *classes, int64_t *length)
{
  int64_t K = s->table->K, best = -1;
  for (int64_t i = s->limits->min_length * K; i < s->counts * K; i++)
    if (s->now[i] > -INFINITY && (best < 0 || s->now[i] > s->now[best])) best = i;
  if (best < 0) return no_text(s->table);
  *length = read_back(s, best / K, best % K, classes);
  return CAPL_OK;
}

static capl_status limited(const ctc_table *table, const capl_ctc_limits *limits, int32_t *classes, int64_t *length)
{
  CTC_ROOM double *rows = NULL;
  CTC_ROOM move *moves = NULL;
  search s = {.table = table, .limits = limits};
  int64_t most = limits->max_length;
  s.open = most == 0;
  if (s.open) most = limits->min_length > limits->n_places ? limits->min_length : limits->n_places;
  s.counts = (most < table->T ? most : table->T) + 1;
  int64_t cells = s.counts * table->K;
  CAPL_TRY(ctc_room_get(2 * cells, sizeof *rows, "numbers of a decoder", &rows));
  CAPL_TRY(ctc_room_get(table->T * cells, sizeof *moves, "moves of a decoder: give texts a max_length", &moves));
  s.now = rows;
  s.next = rows + cells;
  s.moves = moves;
  for (int64_t i = 0; i < cells; i++) s.now[i] = -INFINITY;
  s.now[table->blank] = 0;
  for (int64_t t = 0; t < table->T; t++) step(&s, t);
  return finish(&s, classes, length);
}

capl_status ctc_best_path(const ctc_table *table, const capl_ctc_limits *limits, int32_t *classes, int64_t *length)
{
  if (limits->min_length || limits->max_length || limits->places) return limited(table, limits, classes, length);
  return collapse(table, limits, classes, length);
}
