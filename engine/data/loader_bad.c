/* loader_bad.c -- bad samples are reported, and an epoch with too many fails.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/loader.h"

bool capl_loader_bad_get(capl_loader *l, uint32_t i, uint32_t *id, const char **message)
{
  pthread_mutex_lock(&l->lock);
  const bad_sample *bad = bad_list_get(&l->bad, l->bad_until, i);
  if (bad) {
    *id = bad->id;
    *message = bad->message ? bad->message : "";
  }
  pthread_mutex_unlock(&l->lock);
  return bad != NULL;
}

/* How many rows of an epoch may stand in for bad samples: a share of all, but one at least. */
static uint64_t bad_allowed(const capl_loader *l)
{
  double allowed = l->max_bad * (double)loader_rows_from(l, 0);
  return allowed > 1 ? (uint64_t)allowed : 1;
}

static capl_status too_many_bad(const capl_loader *l, uint64_t met)
{
  const bad_sample *first = bad_list_get(&l->bad, l->bad_until, 0);
  CAPL_FAIL(CAPL_EFORMAT, "epoch %llu has met %llu bad samples; max_bad = %g of its %llu allows %llu",
            (unsigned long long)l->epoch, (unsigned long long)met, l->max_bad,
            (unsigned long long)loader_rows_from(l, 0), (unsigned long long)bad_allowed(l));
  if (first && first->message) capl_error_context("the first of them: %s", first->message);
  capl_error_hint("repair or remove them, or set max_bad of the loader to the share that may be replaced");
  return CAPL_EFORMAT;
}

capl_status loader_check(capl_loader *l, const slot *s)
{
  uint64_t met = l->substituted + (uint64_t)s->substituted;
  bool too_many = met > bad_allowed(l);
  if (s->failed_row < 0 && !too_many) return CAPL_OK;
  l->bad_until = l->bad_from + s->batch + 1;
  if (s->failed_row < 0) return too_many_bad(l, met);
  capl_error_restore(&s->error);
  return s->error.code;
}
