/* dnnl_plans.c -- the table of plans: images may have any number of widths, so those that were not used for longest go.
** SPDX-License-Identifier: Apache-2.0
*/
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/dnnl_api.h"

enum { BUCKETS = 256 };

static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;
static dn_plan *plans[BUCKETS];
static dn_plan_statistics statistics;
static int64_t plan_limit = DN_PLAN_LIMIT;
static int holders;

static uint32_t spec_hash(const dn_spec *spec)
{
  uint64_t hash = 14695981039346656037u, word; /* FNV-1a, eight bytes at a time */
  for (size_t i = 0; i + sizeof word <= sizeof *spec; i += sizeof word) {
    memcpy(&word, (const char *)spec + i, sizeof word);
    hash = (hash ^ word) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return (uint32_t)(hash % BUCKETS);
}

static capl_status find_locked(const dn_spec *spec, dn_plan **out)
{
  dn_plan **bucket = &plans[spec_hash(spec)];
  uint64_t now = statistics.hits + statistics.misses;
  for (dn_plan *p = *bucket; p; p = p->next)
    if (!memcmp(&p->spec, spec, sizeof *spec)) return statistics.hits++, p->used = now, *out = p, CAPL_OK;
  statistics.misses++;
  dn_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a oneDNN plan");
  plan->spec = *spec;
  plan->used = now;
  capl_status status = dn_plan_make(plan);
  if (status != CAPL_OK) return dn_plan_free(plan), status;
  plan->next = *bucket;
  *bucket = *out = plan;
  statistics.kept++;
  return CAPL_OK;
}

static void unlock(pthread_mutex_t **lock) { pthread_mutex_unlock(*lock); }

capl_status dn_find(const dn_spec *spec, const dn_plan **out)
{
  dn_plan *plan = NULL;
  pthread_mutex_lock(&plans_lock);
  __attribute__((cleanup(unlock), unused)) pthread_mutex_t *locked = &plans_lock; /* also where oneDNN throws */
  capl_status status = find_locked(spec, &plan);
  *out = plan && plan->primitive ? plan : NULL;
  return status;
}

dn_plan_statistics dn_plan_statistics_get(void)
{
  pthread_mutex_lock(&plans_lock);
  dn_plan_statistics now = statistics;
  pthread_mutex_unlock(&plans_lock);
  return now;
}

/* ---- how many plans are kept ---- */

/* Where the plan hangs that was not used for longest. There is one. */
static dn_plan **oldest(void)
{
  dn_plan **found = NULL;
  for (int b = 0; b < BUCKETS; b++)
    for (dn_plan **at = &plans[b]; *at; at = &(*at)->next)
      if (!found || (*at)->used < (*found)->used) found = at;
  return found;
}

static void drop_oldest(void)
{
  dn_plan **at = oldest(), *plan = *at;
  *at = plan->next;
  dn_plan_free(plan);
  statistics.kept--;
}

static void keep_to_limit(void)
{
  while (holders == 0 && statistics.kept > plan_limit) drop_oldest();
}

void dn_plans_forget(void)
{
  pthread_mutex_lock(&plans_lock);
  while (holders == 0 && statistics.kept > 0) drop_oldest();
  pthread_mutex_unlock(&plans_lock);
}

void dn_hold(void)
{
  pthread_mutex_lock(&plans_lock);
  holders++;
  pthread_mutex_unlock(&plans_lock);
}

void dn_release(void)
{
  pthread_mutex_lock(&plans_lock);
  holders--;
  keep_to_limit();
  pthread_mutex_unlock(&plans_lock);
}

void dn_plan_limit_set(int64_t limit)
{
  pthread_mutex_lock(&plans_lock);
  plan_limit = limit < 1 ? 1 : limit;
  keep_to_limit();
  pthread_mutex_unlock(&plans_lock);
}
