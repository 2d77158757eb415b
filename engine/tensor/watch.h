/* watch.h -- what copies, fills and the dispatcher note in the watch of a captured step (tape/capture.c), if one is
** on.
**
** Each is one comparison of a thread's pointer when nothing watches.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TENSOR_WATCH_H
#define CAPL_TENSOR_WATCH_H

#include "capl/op.h"

typedef struct capl_watch capl_watch;
extern _Thread_local capl_watch *watch_now;

capl_status watch_note_call(const capl_call *call);
capl_status watch_note_fill(const capl_tensor *t, double value);
capl_status watch_note_copy(const capl_tensor *dst, const capl_tensor *src);
bool watch_is_of(const capl_tensor *t);
capl_status watch_refuse(const char *what, const char *hint);

/* An op call of the recipe's, before anything is done. */
static inline capl_status watch_call(const capl_call *call) { return watch_now ? watch_note_call(call) : CAPL_OK; }
/* Every element of t becomes value. */
static inline capl_status watch_fill(const capl_tensor *t, double value)
{
  return watch_now ? watch_note_fill(t, value) : CAPL_OK;
}
/* dst := src. */
static inline capl_status watch_copy(const capl_tensor *dst, const capl_tensor *src)
{
  return watch_now ? watch_note_copy(dst, src) : CAPL_OK;
}
/* The host reads values of t. */
static inline capl_status watch_read(const capl_tensor *t)
{
  return watch_now && watch_is_of(t)
  ? watch_refuse("values are read by the host inside a captured step, which is replayed without it",
                                  "read them after the step, from what it returns")
                   : CAPL_OK;
}
/* The host gives t its values. */
static inline capl_status watch_write(const capl_tensor *t)
{
  return watch_now && watch_is_of(t)
  ? watch_refuse("values come from the host inside a captured step, where they would stay what they are now",
                                  "make the tensor before the step, or pass it as an argument")
                   : CAPL_OK;
}

#endif
