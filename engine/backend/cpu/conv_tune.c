/* conv_tune.c -- algorithms of convolutions chosen by timing: the switch "autotune".
**
** A call is known by its op, dtype, shapes and window, as text. Its first call is timed with every algorithm that can
** compute it, but computed by the usual one: all ranks change to the new algorithm at the same step, when Lua hands
** them rank 0's choices.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"
#include "ops/attrs.h"

static const char *const names[] = {
#define X(code, name) name,
  CONV_ALGORITHM_MAP(X)
#undef X
};

enum { CALL_TEXT = 192, TIMES_TEXT = 160, REPETITIONS = 3 };

/* A gain below the noise of the clock is none: then the usual algorithm stays. */
static const double LEAST_GAIN = 0.02;

/* Of one process, as on a GPU (dnn_run.c): images of many widths have hundreds of shapes. */
static const double SECONDS_MAX = 20;

typedef struct {
  char call[CALL_TEXT], times[TIMES_TEXT];
  conv_algorithm usual, by;
  bool in_use;
} choice;

static struct {
  bool on;
  choice *list;
  int count, room;
  double seconds;
} state;

/* ---- the list ---- */

static void describe(const capl_call *call, const int64_t *x, const int64_t *w, char *text)
{
  const capl_attr *a = call->attr;
  snprintf(text, CALL_TEXT, "%s %s x=%d,%d,%d,%d w=%d,%d,%d,%d stride=%d,%d padding=%d,%d dilation=%d,%d groups=%d",
           capl_op_get(call->id)->name, capl_dtype_name(call->in[0]->dtype), (int)x[0], (int)x[1], (int)x[2], (int)x[3],
           (int)w[0], (int)w[1], (int)w[2], (int)w[3], (int)a[CONV_STRIDE].v[0], (int)a[CONV_STRIDE].v[1],
           (int)a[CONV_PADDING].v[0], (int)a[CONV_PADDING].v[1], (int)a[CONV_DILATION].v[0],
           (int)a[CONV_DILATION].v[1], (int)a[CONV_GROUPS].i);
}

static choice *find(const char *call)
{
  for (int i = 0; i < state.count; i++)
    if (!strcmp(state.list[i].call, call)) return &state.list[i];
  return NULL;
}

static capl_status add(const choice *c)
{
  if (state.count == state.room) {
    int room = state.room ? 2 * state.room : 64;
    choice *list = realloc(state.list, (size_t)room * sizeof *list);
    if (!list) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %d choices of algorithms", room);
    state.list = list;
    state.room = room;
  }
  state.list[state.count++] = *c;
  return CAPL_OK;
}

void conv_tune_switch(bool on)
{
  state.on = on;
  if (!on) state.count = 0;
}

void conv_tune_list(capl_algorithm_fn fn, void *user)
{
  for (int i = 0; i < state.count; i++) {
    const choice *c = &state.list[i];
    const char *usual = c->usual < CONV_ALGORITHMS ? names[c->usual] : NULL;
    fn(user, &(capl_algorithm){c->call, names[c->by], usual, c->times, c->in_use});
  }
}

static capl_status unknown_name(const char *call, const char *name)
{
  char list[160] = "";
  capl_suggestion s = {.wanted = name};
  for (int i = 0; i < CONV_ALGORITHMS; i++) {
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", names[i]);
    capl_suggest(&s, names[i]);
  }
  CAPL_FAIL(CAPL_EVALUE, "%s: there is no algorithm '%s'; there are %s", call, name, list);
  if (s.nearest) capl_error_hint("did you mean %s?", s.nearest);
  return CAPL_EVALUE;
}

capl_status conv_tune_use(const char *call, const char *algorithm)
{
  int by = 0;
  while (by < CONV_ALGORITHMS && strcmp(names[by], algorithm) != 0) by++;
  if (by == CONV_ALGORITHMS) return unknown_name(call, algorithm);
  choice *known = find(call);
  choice c = known ? *known : (choice){.usual = CONV_ALGORITHMS};
  c.by = (conv_algorithm)by;
  c.in_use = true;
  if (known) return *known = c, CAPL_OK;
  snprintf(c.call, CALL_TEXT, "%s", call);
  return add(&c);
}

/* ---- timing ---- */

/* Least seconds of some runs after one that makes plans; infinite where there is no implementation. What takes over
** twice best is not timed any longer. */
static capl_status time_one(const capl_call *call, const conv_ways *ways, conv_algorithm by, double best,
                            double *seconds)
{
  *seconds = INFINITY;
  for (int i = 0; i <= REPETITIONS && (i < 2 || *seconds < 2 * best); i++) {
    double start = clock_now();
    capl_status status = ways->run(call, by);
    if (status == CAPL_EUNSUPPORTED) return CAPL_OK;
    CAPL_TRY(status);
    if (i > 0) *seconds = fmin(*seconds, clock_now() - start);
  }
  return CAPL_OK;
}

static void add_time(choice *c, conv_algorithm by, double seconds)
{
  size_t n = strlen(c->times);
  snprintf(c->times + n, sizeof c->times - n, "%s%s %.3f ms", n ? ", " : "", names[by], 1e3 * seconds);
}

static capl_status time_all(const capl_call *call, const conv_ways *ways, choice *c)
{
  double usual, best, seconds;
  CAPL_TRY(time_one(call, ways, c->usual, INFINITY, &usual));
  add_time(c, c->usual, usual);
  best = (1 - LEAST_GAIN) * usual;
  for (conv_algorithm by = 0; by < CONV_ALGORITHMS; by++) {
    if (by == c->usual || !ways->can(call, by)) continue;
    CAPL_TRY(time_one(call, ways, by, best, &seconds));
    if (isinf(seconds)) continue;
    add_time(c, by, seconds);
    if (seconds < best) best = seconds, c->by = by;
  }
  return CAPL_OK;
}

static void log_time_over(void)
{
  static bool logged;
  if (!logged)
    capl_log("autotune: timing convolutions took %d s: shapes from here on use the table's algorithm in this run",
             (int)SECONDS_MAX);
  logged = true;
}

static bool has_others(const capl_call *call, const conv_ways *ways, conv_algorithm usual)
{
  for (conv_algorithm by = 0; by < CONV_ALGORITHMS; by++)
    if (by != usual && ways->can(call, by)) return true;
  return false;
}

/* Past the limit the usual algorithm is the choice, so that a resumed run computes the same. */
static capl_status choose(const capl_call *call, const conv_ways *ways, conv_algorithm usual, const char *text)
{
  choice c = {.usual = usual, .by = usual};
  double start = clock_now();
  snprintf(c.call, CALL_TEXT, "%s", text);
  if (state.seconds < SECONDS_MAX) CAPL_TRY(time_all(call, ways, &c));
  else log_time_over();
  state.seconds += clock_now() - start;
  return add(&c);
}

/* ---- asking ---- */

static capl_status cannot(const choice *c)
{
  CAPL_FAIL(CAPL_EVALUE, "%s cannot be computed by algorithm %s", c->call, names[c->by]);
  capl_error_hint("the choice comes from a checkpoint of another build, or one that was edited; --autotune=false "
                  "--inexact resumes with the table's algorithms");
  return CAPL_EVALUE;
}

capl_status conv_tuned(const capl_call *call, const conv_ways *ways, const int64_t *x, const int64_t *weight,
                       conv_algorithm *by)
{
  char text[CALL_TEXT];
  if (!state.on && state.count == 0) return CAPL_OK;
  describe(call, x, weight, text);
  const choice *c = find(text);
  if (!c) return state.on && has_others(call, ways, *by) ? choose(call, ways, *by, text) : CAPL_OK;
  if (!c->in_use) return CAPL_OK;
  if (!ways->can(call, c->by)) return cannot(c);
  *by = c->by;
  capl_counter_add(CAPL_COUNT_autotuned_kernels);
  return CAPL_OK;
}
