/* native_count.c -- the distinct records that ran, by kind, in a table of fixed size: a look-up for each product.
**
** A record counts as own once an own kernel has run it. Records beyond ROOM are not counted; 4096 are those of a
** network of 7 convolutions with images of some 50 widths.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/native_count.h"

enum { KINDS = 8, SLOTS = 8192, ROOM = SLOTS / 2, OWN = 1, USED = 2 };

static struct {
  const char *kind;
  int own, total;
} kinds[KINDS];

static uint64_t seen[SLOTS]; /* a hash whose two lowest bits say USED and OWN */
static int n_seen;

static int number_of(const char *kind)
{
  int k = 0;
  while (k < KINDS - 1 && kinds[k].kind && kinds[k].kind != kind) k++;
  kinds[k].kind = kind;
  return k;
}

void native_count_note(const char *kind, uint64_t hash, bool own)
{
  uint64_t key = (hash & ~(uint64_t)3) | USED;
  size_t i = (size_t)(hash >> 2) & (SLOTS - 1);
  while (seen[i] && (seen[i] | OWN) != (key | OWN)) i = (i + 1) & (SLOTS - 1);
  bool is_new = !seen[i];
  if (is_new && n_seen == ROOM) return;
  if (!is_new && (!own || seen[i] & OWN)) return;
  int k = number_of(kind);
  kinds[k].total += is_new;
  kinds[k].own += own;
  n_seen += is_new;
  seen[i] = key | (own ? OWN : 0);
}

void native_count_report(capl_own_fn fn, void *user)
{
  for (int k = 0; k < KINDS && kinds[k].kind; k++) fn(user, kinds[k].kind, kinds[k].own, kinds[k].total);
}
