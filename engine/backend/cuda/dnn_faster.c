/* dnn_faster.c -- whether cuDNN or own kernels are the faster for a record: timed once, kept in memory and on disk.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/dnn_list.h"
#include "backend/cuda/dnn_state.h"
#include "backend/cuda/plan_cache.h"

enum { NORMS_TIMED = 6 }; /* of one process: cuDNN compiles the engines of each norm for a second or two */

static void choice_key(const dnn_record *record, char *key, size_t len)
{
  char text[DNN_TEXT];
  snprintf(key, len, "%s cudnn or own", dnn_describe(record, text, sizeof text));
}

static dnn_choice recall(const dnn_record *record)
{
  char key[DNN_TEXT + 16];
  size_t len;
  choice_key(record, key, sizeof key);
  char *text = dnn_state.listing ? NULL : plan_cache_read("choice", dnn_state.scope, key, &len);
  dnn_choice found = !text ? NOT_CHOSEN : strcmp(text, "cudnn") == 0 ? DNN_FASTER : OWN_FASTER;
  free(text);
  return found;
}

static void remember(const dnn_record *record, dnn_choice c)
{
  char key[DNN_TEXT + 16];
  const char *text = c == DNN_FASTER ? "cudnn" : "own";
  choice_key(record, key, sizeof key);
  plan_cache_write("choice", dnn_state.scope, key, text, strlen(text));
}

static void list_native(const dnn_record *record, float ms, bool chosen)
{
  dnn_list_row(&(dnn_row){.record = record, .engine = DNN_OWN, .ms = ms, .chosen = chosen});
}

/* An engine that fails where it is timed is the slower one. */
static capl_status time_both(const dnn_record *record, const dnn_slots *s, const dnn_work *own, dnn_choice *out)
{
  float own_ms, dnn_ms;
  *out = OWN_FASTER;
  CAPL_TRY(dnn_make(record, s));
  const dnn_entry *e = dnn_table_find(record);
  CAPL_TRY(dnn_time(own, 0, &own_ms));
  bool ran = e->plan.plan && dnn_time_plan(&e->plan, s, own_ms, &dnn_ms) == CAPL_OK;
  if (ran && dnn_ms < own_ms) *out = DNN_FASTER;
  list_native(record, own_ms, *out == OWN_FASTER);
  return CAPL_OK;
}

/* Running statistics stay what they are while they are timed: copies in room take their place. */
static capl_status divert_statistics(const dnn_record *record, dnn_pointers *p, float *room)
{
  if (!record->running) return CAPL_OK;
  for (int role = DNN_RUNNING_MEAN; role <= DNN_RUNNING_VAR; role++, room += record->x[1]) {
    CU_TRY(cudaMemcpyAsync(room, p->at[role], (size_t)record->x[1] * sizeof *room, cudaMemcpyDeviceToDevice, cu.stream),
           "timing a norm");
    p->at[role] = room;
  }
  return CAPL_OK;
}

static capl_status stage_and_time(capl_device *device, const dnn_record *record, dnn_pointers p, const dnn_work *own,
                                  dnn_choice *out)
{
  void *room;
  dnn_slots s;
  CAPL_TRY(capl_scratch_get(device, (size_t)record->x[1] * 2 * sizeof(float), &room));
  capl_status status = divert_statistics(record, &p, room);
  if (status == CAPL_OK) status = dnn_stage(&s, device, dnn_state.handle, record, &p);
  if (status == CAPL_OK) {
    status = time_both(record, &s, own, out);
    dnn_release(&s);
  }
  capl_scratch_put(device, room);
  return status;
}

/* Whether timing the record would go beyond NORMS_TIMED: then own kernels run untimed. */
static bool takes_too_long(const dnn_record *record)
{
  return dnn_is_norm(record) && ++dnn_state.norms_timed > NORMS_TIMED && !dnn_state.listing;
}

/* Known from an earlier run, or timed now. */
static capl_status settle(capl_device *device, const dnn_record *record, const dnn_pointers *p, const dnn_work *own,
                          dnn_choice *out)
{
  const char *how = "faster";
  *out = recall(record);
  if (*out == NOT_CHOSEN && takes_too_long(record)) *out = OWN_FASTER, how = "untimed";
  if (*out == NOT_CHOSEN) {
    CAPL_TRY(stage_and_time(device, record, *p, own, out));
    remember(record, *out);
  }
  if (*out == OWN_FASTER) dnn_list_plan(record, DNN_OWN, 0, how);
  return CAPL_OK;
}

capl_status dnn_faster(capl_device *device, const dnn_record *record, const dnn_pointers *p, const dnn_work *own,
                       bool *faster)
{
  *faster = false;
  if (!dnn_tunes(record) || dnn_refusal_here(record)) return CAPL_OK;
  dnn_entry *e = dnn_table_find(record);
  if (!e || e->choice == NOT_CHOSEN) {
    dnn_choice chosen;
    if (cu.capturing) return CAPL_OK;
    CAPL_TRY(dnn_open());
    CAPL_TRY(settle(device, record, p, own, &chosen));
    CAPL_TRY(dnn_table_entry(record, &e));
    e->choice = chosen;
  }
  e->ran = ++dnn_state.clock;
  *faster = e->choice == DNN_FASTER;
  return CAPL_OK;
}

capl_status dnn_list_native(const dnn_record *record, const dnn_work *own)
{
  enum { WORTH_MS = 5 }; /* native kernels may take many times an engine's time: one run is enough */
  float ms;
  CAPL_TRY(dnn_open());
  if (!dnn_state.listing || cu.capturing || !dnn_tunes(record) || dnn_table_find(record)) return CAPL_OK;
  CAPL_TRY(dnn_time(own, WORTH_MS, &ms));
  list_native(record, ms, false);
  return CAPL_OK;
}
