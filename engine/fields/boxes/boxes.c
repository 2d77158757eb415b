/* boxes.c -- things with the rectangle around them: keys boxes, names of their classes, threshold (0.5) and overlap
** (0.5). Output (B,4+K): left, top, right, bottom in px of the model's input, and the logit of each class. A box counts
** where the sigmoid of its best class is at least threshold; of two of a class whose intersection is more than overlap
** of their union the surer one stays (greedy non-maximum suppression).
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fields/kind.h"

enum { CLASSES_MAX = 4096, BOXES_MAX = 1 << 16, ROW = 6 /* left, top, right, bottom, class, confidence */ };

typedef struct {
  double threshold, overlap;
} boxes_own;

static capl_status read(const field_keys *k, model_field *f)
{
  boxes_own *b = f->own;
  CAPL_TRY(keys_names(k, "boxes", CLASSES_MAX, &f->vocab));
  CAPL_TRY(keys_number(k, "threshold", 0, 1, 0.5, &b->threshold));
  return keys_number(k, "overlap", 0, 1, 0.5, &b->overlap);
}

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  return ndim == 2 && size[1] == 4 + capl_vocab_count(f->vocab) && size[0] >= 1 && size[0] <= BOXES_MAX;
}

static void expects(const model_field *f, char *text, size_t room)
{
  int K = capl_vocab_count(f->vocab);
  snprintf(text, room, "boxes of %d classes: (N,B,%d)", K, 4 + K);
}

static int by_confidence(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return x[5] != y[5] ? (x[5] < y[5] ? 1 : -1) : x[0] < y[0] ? -1 : x[0] > y[0];
}

/* Those above the threshold, as rows. -> how many */
static int collect(const model_field *f, const field_scores *s, const field_place *p, double *rows)
{
  int K = capl_vocab_count(f->vocab), n = 0;
  double px_x = p->width > 0 ? p->x : 1, px_y = p->width > 0 ? p->y : 1;
  for (int64_t b = 0; b < s->size[0]; b++) {
    const double *from = s->numbers + b * (4 + K), *logits = from + 4;
    int best = 0;
    for (int k = 1; k < K; k++)
      if (logits[k] > logits[best]) best = k;
    double sure = 1 / (1 + exp(-logits[best])), *row = rows + (size_t)n * ROW;
    if (sure < ((const boxes_own *)f->own)->threshold) continue;
    for (int d = 0; d < 4; d++) row[d] = d % 2 ? (from[d] - p->top) * px_y : (from[d] - p->left) * px_x;
    row[4] = best, row[5] = sure;
    n++;
  }
  return n;
}

static double area(double left, double top, double right, double bottom)
{
  return right > left && bottom > top ? (right - left) * (bottom - top) : 0;
}

/* Intersection over union. */
static double overlap_of(const double *a, const double *b)
{
  double both = area(fmax(a[0], b[0]), fmax(a[1], b[1]), fmin(a[2], b[2]), fmin(a[3], b[3]));
  double all = area(a[0], a[1], a[2], a[3]) + area(b[0], b[1], b[2], b[3]) - both;
  return all > 0 ? both / all : 0;
}

/* rows: the surest first. -> how many stay */
static int suppress(double *rows, int n, double most)
{
  int kept = 0;
  for (int i = 0; i < n; i++) {
    const double *row = rows + (size_t)i * ROW;
    bool stays = true;
    for (int j = 0; stays && j < kept; j++) {
      const double *other = rows + (size_t)j * ROW;
      stays = other[4] != row[4] || overlap_of(other, row) <= most;
    }
    for (int d = 0; stays && d < ROW; d++) rows[(size_t)kept * ROW + (size_t)d] = row[d];
    kept += stays;
  }
  return kept;
}

static capl_status decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out)
{
  if (!field_finite(s->numbers, field_numbers(s->ndim, s->size))) return field_not_finite();
  double *rows = room_alloc(room, (size_t)s->size[0] * ROW * sizeof *rows);
  if (!rows) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d boxes", (int)s->size[0]);
  int n = collect(f, s, place, rows);
  qsort(rows, (size_t)n, ROW * sizeof *rows, by_confidence);
  out->n_values = ROW * suppress(rows, n, ((const boxes_own *)f->own)->overlap);
  out->values = rows, out->per_row = ROW;
  return CAPL_OK;
}

const field_kind field_kind_boxes = {.name = "boxes", .own_size = sizeof(boxes_own), .read = read, .fits = fits,
                                     .expects = expects, .decode = decode};
