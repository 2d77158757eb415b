/* beam.c -- the most probable text: prefix beam search.
**
** At each step it keeps the most probable prefixes, each with the log probability of its paths that end in a blank and
** of those that end in its last character; a path may stay with its prefix or go on by one character. Sources: Graves:
** Supervised Sequence Labelling, 2012, section 7.5; Hannun, Maas, Jurafsky, Ng: First-Pass Large Vocabulary Continuous
** Speech Recognition, 2014. Prefixes are nodes of a tree, so that each exists once however it was reached. What is left
** over at the end is ranked by the exact probability, beside the text of greedy decoding.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fields/text/ctc.h"

typedef struct {
  int32_t parent, k, depth; /* the root has no class: -1 */
  int32_t child, sibling;   /* 0 = none: the root is nobody's */
  int32_t slot;             /* its place among the prefixes, if that one points back */
} node;

/* A prefix: log probabilities of its paths that end in a blank, and in its last character. */
typedef struct {
  int32_t node;
  double blank, last;
} prefix;

/* What may become a prefix: `from` as it is (k = -1), or with class k behind it. */
typedef struct {
  int32_t from, k;
  double blank, last, both;
} candidate;

typedef struct {
  const ctc_table *table;
  const capl_ctc_limits *limits;
  int64_t width, top;
  node *nodes;
  int32_t n_nodes;
  prefix *now, *next; /* width each */
  int64_t n_now;
  candidate *stays;   /* one for each prefix */
  candidate *best;    /* width, the most probable first */
  int64_t n_best;
  int32_t *classes;   /* those looked at in this step */
  int64_t n_classes;
  int32_t *child;     /* [K] nodes of the prefix at hand that go on with a class; 0 = none */
} beam;

static double both_of(const prefix *p)
{
  return ctc_log_add(p->blank, p->last);
}

/* ---- nodes ---- */

static int32_t find_child(const beam *b, int32_t parent, int32_t k)
{
  int32_t i = b->nodes[parent].child;
  while (i && b->nodes[i].k != k) i = b->nodes[i].sibling;
  return i;
}

/* At most width new nodes are made per step, so there is room. */
static int32_t child_of(beam *b, int32_t parent, int32_t k)
{
  int32_t i = find_child(b, parent, k);
  if (i) return i;
  i = b->n_nodes++;
  b->nodes[i] = (node){.parent = parent, .k = k, .depth = b->nodes[parent].depth + 1,
                       .sibling = b->nodes[parent].child};
  b->nodes[parent].child = i;
  return i;
}

/* The prefix of this node, -1 if it is none now. */
static int32_t slot_of(const beam *b, int32_t i)
{
  int32_t slot = b->nodes[i].slot;
  return i && slot < b->n_now && b->now[slot].node == i ? slot : -1;
}

/* ---- one step ---- */

/* The top most probable characters of a step, in any order if these are all: sorting tens of thousands of them would
** take longer than the search. Ties: the first. */
static void choose_classes(beam *b, int64_t t)
{
  const ctc_table *table = b->table;
  bool all = b->top == table->K;
  b->n_classes = 0;
  for (int64_t k = 0; k < table->K; k++) {
    double score = ctc_at(table, t, k);
    if (k == table->blank || score == -INFINITY || (b->limits->allowed && !b->limits->allowed[k])) continue;
    if (all) {
      b->classes[b->n_classes++] = (int32_t)k;
      continue;
    }
    if (b->n_classes == b->top && score <= ctc_at(table, t, b->classes[b->top - 1])) continue;
    int64_t i = b->n_classes < b->top ? b->n_classes++ : b->top - 1;
    for (; i > 0 && score > ctc_at(table, t, b->classes[i - 1]); i--) b->classes[i] = b->classes[i - 1];
    b->classes[i] = (int32_t)k;
  }
}

/* Puts c among the best if it is. Ties: the earlier one. */
static void propose(beam *b, candidate c)
{
  c.both = ctc_log_add(c.blank, c.last);
  if (c.both == -INFINITY || (b->n_best == b->width && c.both <= b->best[b->n_best - 1].both)) return;
  int64_t i = b->n_best < b->width ? b->n_best++ : b->n_best - 1;
  for (; i > 0 && c.both > b->best[i - 1].both; i--) b->best[i] = b->best[i - 1];
  b->best[i] = c;
}

/* Children of a node by their class, which a walk through them would look for K times. */
static void mark_children(beam *b, int32_t of, bool on)
{
  for (int32_t i = b->nodes[of].child; i; i = b->nodes[i].sibling) b->child[b->nodes[i].k] = on ? i : 0;
}

/* Prefix i, whose children are marked, goes on with class k. both: both_of(it). Where that is a prefix already, its
** stay takes the probability over. */
static void go_on(beam *b, int64_t t, int32_t i, int32_t k, double both)
{
  const prefix *p = &b->now[i];
  const node *at = &b->nodes[p->node];
  /* behind the same character a blank must have been */
  double last = (k == at->k ? p->blank : both) + ctc_at(b->table, t, k);
  int32_t slot = slot_of(b, b->child[k]);
  if (slot >= 0) b->stays[slot].last = ctc_log_add(b->stays[slot].last, last);
  else if (b->n_best < b->width || last > b->best[b->n_best - 1].both)
    propose(b, (candidate){i, k, -INFINITY, last, 0}); /* which nearly none of tens of thousands is worth */
}

static void make_stays(beam *b, int64_t t)
{
  for (int32_t i = 0; i < b->n_now; i++) {
    const prefix *p = &b->now[i];
    int32_t k = b->nodes[p->node].k;
    b->stays[i] = (candidate){i, -1, both_of(p) + ctc_at(b->table, t, b->table->blank),
                              k < 0 ? -INFINITY : p->last + ctc_at(b->table, t, k), 0};
  }
}

static void take_best(beam *b)
{
  for (int64_t i = 0; i < b->n_best; i++) {
    const candidate *c = &b->best[i];
    int32_t from = b->now[c->from].node;
    b->next[i] = (prefix){c->k < 0 ? from : child_of(b, from, c->k), c->blank, c->last};
  }
  prefix *was = b->now;
  b->now = b->next;
  b->next = was;
  b->n_now = b->n_best;
  for (int32_t i = 0; i < b->n_now; i++) b->nodes[b->now[i].node].slot = i;
}

/* left: steps behind this one. Prefixes that cannot become long enough in them are dropped. */
static void beam_step(beam *b, int64_t t)
{
  const capl_ctc_limits *limits = b->limits;
  int64_t left = b->table->T - 1 - t;
  b->n_best = 0;
  choose_classes(b, t);
  make_stays(b, t);
  for (int32_t i = 0; i < b->n_now; i++) {
    int64_t depth = b->nodes[b->now[i].node].depth;
    if ((limits->max_length && depth >= limits->max_length) || depth + 1 + left < limits->min_length) continue;
    double both = both_of(&b->now[i]);
    mark_children(b, b->now[i].node, true);
    for (int64_t c = 0; c < b->n_classes; c++)
      if (ctc_may(b->table, limits, depth, b->classes[c])) go_on(b, t, i, b->classes[c], both);
    mark_children(b, b->now[i].node, false);
  }
  for (int32_t i = 0; i < b->n_now; i++)
    if (b->nodes[b->now[i].node].depth + left >= limits->min_length) propose(b, b->stays[i]);
  take_best(b);
}

/* ---- the texts at the end ---- */

typedef struct {
  double log_prob;
  int64_t length;
  int32_t *classes;
} found_text;

static void spell(const beam *b, int32_t i, found_text *text)
{
  text->length = b->nodes[i].depth;
  for (int64_t at = text->length - 1; at >= 0; at--, i = b->nodes[i].parent) text->classes[at] = b->nodes[i].k;
}

static bool same_text(const found_text *a, const found_text *b)
{
  return a->length == b->length && memcmp(a->classes, b->classes, (size_t)a->length * sizeof *a->classes) == 0;
}

/* Adds the last of texts, unless it is there; the most probable one stays first. */
static capl_status rank(const ctc_table *table, found_text *texts, int64_t *count)
{
  found_text text = texts[*count];
  int64_t i = *count;
  for (int64_t j = 0; j < i; j++)
    if (same_text(&texts[j], &text)) return CAPL_OK;
  CAPL_TRY(ctc_text_log_prob(table, text.classes, text.length, &text.log_prob));
  for (; i > 0 && text.log_prob > texts[i - 1].log_prob; i--) texts[i] = texts[i - 1];
  texts[i] = text;
  ++*count;
  return CAPL_OK;
}

static capl_status hand_over(const ctc_table *table, const found_text *from, capl_ctc_text *to)
{
  to->length = from->length;
  memcpy(to->classes, from->classes, (size_t)from->length * sizeof *to->classes);
  return ctc_describe(table, to);
}

/* The n best prefixes that are long enough, and the text of the best path. */
static capl_status collect(const beam *b, int64_t n, capl_ctc_text *out, int64_t *found)
{
  CTC_ROOM found_text *texts = NULL;
  CTC_ROOM int32_t *classes = NULL;
  int64_t count = 0, T = b->table->T;
  CAPL_TRY(ctc_room_get(n + 1, sizeof *texts, "texts", &texts));
  CAPL_TRY(ctc_room_get((n + 1) * T, sizeof *classes, "characters of texts", &classes));
  for (int64_t i = 0; i <= n; i++) texts[i].classes = classes + i * T;
  CAPL_TRY(ctc_best_path(b->table, b->limits, texts[0].classes, &texts[0].length));
  CAPL_TRY(rank(b->table, texts, &count));
  for (int64_t i = 0; i < b->n_now && count <= n; i++) {
    if (b->nodes[b->now[i].node].depth < b->limits->min_length) continue;
    spell(b, b->now[i].node, &texts[count]);
    CAPL_TRY(rank(b->table, texts, &count));
  }
  *found = count < n ? count : n;
  for (int64_t i = 0; i < *found; i++) CAPL_TRY(hand_over(b->table, &texts[i], &out[i]));
  return CAPL_OK;
}

static capl_status search(beam *b, int64_t n, capl_ctc_text *out, int64_t *found)
{
  CTC_ROOM node *nodes = NULL;
  CTC_ROOM prefix *prefixes = NULL;
  CTC_ROOM candidate *candidates = NULL;
  CTC_ROOM int32_t *classes = NULL, *child = NULL;
  CAPL_TRY(ctc_room_get(b->table->T * b->width + 1, sizeof *nodes, "prefixes of a beam search: a lower width", &nodes));
  CAPL_TRY(ctc_room_get(2 * b->width, sizeof *prefixes, "prefixes of a beam search", &prefixes));
  CAPL_TRY(ctc_room_get(2 * b->width, sizeof *candidates, "prefixes of a beam search", &candidates));
  CAPL_TRY(ctc_room_get(b->top, sizeof *classes, "classes", &classes));
  CAPL_TRY(ctc_room_get(b->table->K, sizeof *child, "classes", &child));
  b->nodes = nodes;
  b->now = prefixes;
  b->next = prefixes + b->width;
  b->stays = candidates;
  b->best = candidates + b->width;
  b->classes = classes;
  b->child = child;
  b->nodes[0] = (node){.parent = -1, .k = -1};
  b->n_nodes = 1;
  b->now[0] = (prefix){0, 0, -INFINITY};
  b->n_now = 1;
  for (int64_t t = 0; t < b->table->T; t++) beam_step(b, t);
  return collect(b, n, out, found);
}

capl_status capl_ctc_beam(const capl_ctc_scores *s, const capl_ctc_limits *limits, int64_t width, int64_t top,
                          int64_t n, capl_ctc_text *out, int64_t *found)
{
  static const int64_t widest = 1 << 20;
  CTC_TABLE table;
  *found = 0;
  CAPL_TRY(ctc_table_init(&table, s));
  if (!limits) limits = &ctc_no_limits;
  CAPL_TRY(ctc_check_limits(&table, limits));
  if (width < 1 || width > widest || n < 1 || n > widest || top < 0)
    return CAPL_FAIL(CAPL_EVALUE, "a beam of width %" PRId64 " over %" PRId64 " classes for %" PRId64 " texts", width,
                     top, n);
  if (n > width) width = n;
  beam b = {.table = &table, .limits = limits, .width = width, .top = top == 0 || top > s->K ? s->K : top};
  return search(&b, n, out, found);
}
