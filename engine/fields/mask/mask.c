/* mask.c -- a class for each pixel: key classes, their names. Output (K,h,w): a score for each class and cell of the
** model's input, or (1,h,w) of two classes: the logit of the second. An image's pixel has the class of the cell that it
** is in.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <string.h>

#include "fields/kind.h"

enum { CLASSES_MAX = 256, SIDE_MAX = 1 << 14 };

static capl_status read(const field_keys *k, model_field *f)
{
  return keys_names(k, "classes", CLASSES_MAX, &f->vocab);
}

static bool fits(model_field *f, int ndim, const int64_t *size)
{
  int K = capl_vocab_count(f->vocab);
  return ndim == 3 && (size[0] == K || (size[0] == 1 && K == 2)) && size[1] >= 1 && size[2] >= 1 &&
         size[1] <= SIDE_MAX && size[2] <= SIDE_MAX;
}

static void expects(const model_field *f, char *text, size_t room)
{
  int K = capl_vocab_count(f->vocab);
  snprintf(text, room, "a mask of %d classes: (N,%d,H,W)%s", K, K, K == 2 ? " or (N,1,H,W)" : "");
}

/* Classes of the cells, of which there are n; the first of equal scores. */
static void choose(const double *scores, int K, size_t n, uint8_t *cells)
{
  memset(cells, 0, n);
  if (K == 1) {
    for (size_t i = 0; i < n; i++) cells[i] = scores[i] > 0;
    return;
  }
  for (int k = 1; k < K; k++)
    for (size_t i = 0; i < n; i++)
      if (scores[(size_t)k * n + i] > scores[cells[i] * n + i]) cells[i] = (uint8_t)k;
}

/* The cell, of n over in px, that the middle of pixel i as given is in; the image begins at px first of them. */
static int64_t cell_of(int i, double px, int first, int in, int64_t n)
{
  int64_t at = (int64_t)((first + (i + 0.5) / px) * (double)n / in);
  return at < n ? at : n - 1;
}

static void stretch(const uint8_t *cells, const int64_t *size, const field_place *p, uint8_t *levels)
{
  for (int y = 0; y < p->height; y++) {
    const uint8_t *row = cells + cell_of(y, p->y, p->top, p->in_height, size[1]) * size[2];
    for (int x = 0; x < p->width; x++) *levels++ = row[cell_of(x, p->x, p->left, p->in_width, size[2])];
  }
}

/* The share of the image that each class has. */
static capl_status count(const uint8_t *levels, size_t n, int K, base_room **room, capl_output *out)
{
  size_t counts[CLASSES_MAX] = {0};
  double *shares = room_alloc(room, (size_t)K * sizeof *shares);
  if (!shares) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d classes", K);
  for (size_t i = 0; i < n; i++) counts[levels[i]]++;
  for (int k = 0; k < K; k++) shares[k] = (double)counts[k] / (double)n;
  out->values = shares, out->n_values = K, out->per_row = K;
  return CAPL_OK;
}

static capl_status decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out)
{
  size_t n = (size_t)s->size[1] * (size_t)s->size[2];
  field_place own = {(int)s->size[2], (int)s->size[1], (int)s->size[2], (int)s->size[1], 0, 0, 1, 1};
  const field_place *p = place->width > 0 ? place : &own;
  size_t pixels = (size_t)p->width * (size_t)p->height;
  if (!field_finite(s->numbers, n * (size_t)s->size[0])) return field_not_finite();
  uint8_t *cells = room_alloc(room, n), *levels = room_alloc(room, pixels);
  if (!cells || !levels) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a mask of %d x %d px", p->width, p->height);
  choose(s->numbers, (int)s->size[0], n, cells);
  stretch(cells, s->size, p, levels);
  out->levels = levels, out->width = p->width, out->height = p->height, out->channels = 1;
  return count(levels, pixels, capl_vocab_count(f->vocab), room, out);
}

const field_kind field_kind_mask = {.name = "mask", .read = read, .fits = fits, .expects = expects, .decode = decode};
