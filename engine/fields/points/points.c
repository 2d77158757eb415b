/* points.c -- places in an image: key points, their names; decoding "coordinates" or "heatmap". Output (P,2): x, y in
** px of the model's input, or (P,3) with the logit that the point is visible. Heat maps (P,h,w): the middle of the cell
** whose score, a logit, is the greatest; (3P,h,w): behind them x and y of each point within the cell, 0..1, for each
** cell.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>

#include "fields/kind.h"

enum { COORDINATES, HEATMAP, POINTS_MAX = 64, SIDE_MAX = 1 << 14 };

typedef struct {
  int decoding;
} points_own;

static capl_status read(const field_keys *k, model_field *f)
{
  static const char *const words[] = {"coordinates", "heatmap", NULL};
  CAPL_TRY(keys_names(k, "points", POINTS_MAX, &f->vocab));
  return keys_word(k, "decoding", words, &((points_own *)f->own)->decoding);
}

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  int64_t P = capl_vocab_count(f->vocab), numbers = (int64_t)field_numbers(ndim, size);
  if (((points_own *)f->own)->decoding == HEATMAP)
    return ndim == 3 && (size[0] == P || size[0] == 3 * P) && size[1] >= 1 && size[2] >= 1 && size[1] <= SIDE_MAX &&
           size[2] <= SIDE_MAX;
  return ndim >= 1 && (numbers == 2 * P || (numbers == 3 * P && (ndim == 1 || size[ndim - 1] == 3)));
}

static void expects(const model_field *f, char *text, size_t room)
{
  int P = capl_vocab_count(f->vocab);
  if (((const points_own *)f->own)->decoding == HEATMAP)
    snprintf(text, room, "heat maps of %d points: (N,%d,H,W), or (N,%d,H,W) with the place in the cell", P, P, 3 * P);
  else snprintf(text, room, "%d points: (N,%d,2), or (N,%d,3) with the logit of being visible", P, P, P);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void read_coordinates(const double *from, int P, int each, double *rows)
{
  for (int p = 0; p < P; p++, rows += 3, from += each) {
    rows[0] = from[0], rows[1] = from[1];
    rows[2] = each == 3 ? sigmoid(from[2]) : 1;
  }
}

/* in_width, in_height: px of the model's input. */
static void read_maps(const field_scores *s, int P, const field_place *in, double *rows)
{
  size_t n = (size_t)s->size[1] * (size_t)s->size[2];
  bool offsets = s->size[0] == 3 * P;
  for (int p = 0; p < P; p++, rows += 3) {
    const double *map = s->numbers + (size_t)p * n, *inside = s->numbers + (size_t)(P + 2 * p) * n;
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
      if (map[i] > map[best]) best = i;
    double x = (double)(best % (size_t)s->size[2]), y = (double)(best / (size_t)s->size[2]);
    rows[0] = (x + (offsets ? inside[best] : 0.5)) * in->in_width / (double)s->size[2];
    rows[1] = (y + (offsets ? inside[n + best] : 0.5)) * in->in_height / (double)s->size[1];
    rows[2] = sigmoid(map[best]);
  }
}

static capl_status decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out)
{
  int P = capl_vocab_count(f->vocab);
  size_t n = field_numbers(s->ndim, s->size);
  if (!field_finite(s->numbers, n)) return field_not_finite();
  double *rows = room_alloc(room, (size_t)P * 3 * sizeof *rows);
  if (!rows) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d points", P);
  if (((const points_own *)f->own)->decoding == HEATMAP) read_maps(s, P, place, rows);
  else read_coordinates(s->numbers, P, (int)n / P, rows);
  for (int p = 0; place->width > 0 && p < P; p++) {
    rows[3 * p] = (rows[3 * p] - place->left) * place->x;
    rows[3 * p + 1] = (rows[3 * p + 1] - place->top) * place->y;
  }
  out->values = rows, out->n_values = 3 * P, out->per_row = 3;
  return CAPL_OK;
}

const field_kind field_kind_points = {.name = "points", .own_size = sizeof(points_own), .read = read, .fits = fits,
                                      .expects = expects, .decode = decode};
