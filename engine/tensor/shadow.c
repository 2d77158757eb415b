/* shadow.c -- 16-bit copies of f32 weights, kept beside them, and what a recorded step does with both.
** SPDX-License-Identifier: Apache-2.0
*/
#include "tensor/shadow.h"

#include <stdlib.h>

capl_shadow *shadow_track(capl_storage *s)
{
  if (s->shadow) return s->shadow;
  s->shadow = calloc(1, sizeof *s->shadow);
  if (s->shadow) *s->shadow = (capl_shadow){.refs = 1, .of = s};
  return s->shadow;
}

void shadow_unref(capl_shadow *h)
{
  if (!h || --h->refs > 0) return;
  capl_storage_unref(h->low);
  free(h);
}

void storage_leave_shadow(capl_storage *s)
{
  if (s->shadow) s->shadow->of = NULL;
  shadow_unref(s->shadow);
}

void storage_written(capl_storage *s)
{
  if (!s) return;
  s->version++;
  if (s->forms) storage_leave_forms(s);
  if (recorded_now) recorded_write(s);
}

/* ---- recording ------------------------------------------------------------------------------- */

_Thread_local capl_recorded *recorded_now;

void recorded_begin(capl_recorded *r)
{
  *r = (capl_recorded){.first_serial = storage_next_serial()};
  recorded_now = r;
}

static bool make_room(capl_recorded *r)
{
  if (r->count < r->room) return true;
  size_t room = r->room ? 2 * r->room : 256;
  recorded_storage *list = realloc(r->list, room * sizeof *list);
  if (!list) return false;
  r->list = list;
  r->room = room;
  return true;
}

/* The list's entry of a shadow, a new one if there is none. NULL: it is none of the list's business, or there is no
** memory. */
static recorded_storage *entry_of(capl_shadow *h)
{
  capl_recorded *r = recorded_now;
  if (!r || !h || !h->of || h->of->serial >= r->first_serial) return NULL;
  if (h->place < r->count && r->list[h->place].shadow == h) return &r->list[h->place];
  if (!make_room(r)) {
    r->failed = true;
    return NULL;
  }
  h->place = r->count++;
  h->refs++;
  r->list[h->place] = (recorded_storage){.shadow = h};
  return &r->list[h->place];
}

void recorded_need(capl_shadow *h)
{
  recorded_storage *e = entry_of(h);
  if (e && !e->made) e->needed = true;
}

void recorded_make(capl_shadow *h)
{
  recorded_storage *e = entry_of(h);
  if (e) e->made = true;
}

void recorded_write(capl_storage *s)
{
  if (s->serial >= recorded_now->first_serial) return;
  capl_shadow *h = shadow_track(s); /* who casts these weights after the recording has to see that launches write
                                    ** them */
  if (!h) recorded_now->failed = true;
  recorded_storage *e = entry_of(h);
  if (e) e->written = true;
}

capl_status recorded_end(capl_recorded *r)
{
  if (recorded_now == r) recorded_now = NULL;
  for (size_t k = 0; k < r->count; k++) {
    recorded_storage *e = &r->list[k];
    e->fresh = shadow_is_fresh(e->shadow);
    if (e->made) shadow_forget(e->shadow);
  }
  return r->failed ? CAPL_FAIL(CAPL_ENOMEM, "no memory for the list of what a recorded step writes") : CAPL_OK;
}

void recorded_free(capl_recorded *r)
{
  if (recorded_now == r) recorded_end(r);
  for (size_t k = 0; k < r->count; k++) shadow_unref(r->list[k].shadow);
  free(r->list);
  *r = (capl_recorded){0};
}

void recorded_ran(capl_recorded *r, bool well)
{
  for (size_t k = 0; k < r->count; k++) {
    const recorded_storage *e = &r->list[k];
    capl_shadow *h = e->shadow;
    if (!h->of) continue;
    if (e->written) h->of->version++;
    if (e->fresh && well) h->version = h->of->version;
    if (h->low && (e->written || e->made)) h->low->version++;
  }
}
