/* capture.c -- watches the calls of a step and compares them with those of the step before.
**
** One list of calls is kept: that of the last step. A step runs along the list; where it differs, the list is cut and
** what follows is the new one. Tensors are compared by where they come from: an argument, made in the step (then by the
** order in which the step met them), or from outside (then it must be the same storage).
** SPDX-License-Identifier: Apache-2.0
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/backend.h"
#include "capl/capture.h"
#include "ops/shadow.h"
#include "tensor/pool.h"
#include "tensor/storage.h"
#include "tensor/watch.h"

typedef enum { FROM_ARGUMENT, MADE_HERE, FROM_OUTSIDE } origin;

/* A tensor as a call met it. */
typedef struct {
  bool absent;
  origin from;
  int number; /* of its storage, in the order in which the step met them */
  uint64_t serial;
  capl_dtype dtype;
  int ndim;
  int64_t size[CAPL_MAX_NDIM], offset;
} met_tensor;

typedef enum { NOTED_CALL, NOTED_FILL, NOTED_COPY } noted_kind;

typedef struct {
  noted_kind kind;
  capl_op_id op;
  int n;
  met_tensor *tensors;
  capl_attr attr[CAPL_MAX_ATTR];
  double value;
} noted;

typedef struct {
  uint64_t serial; /* 0 = free */
  int number;
  origin from;
} met_storage;

struct capl_watch {
  capl_device *device;
  noted *list; /* of the last step; up to `at` also of this one */
  size_t count, room, at;
  met_storage *met; /* storages of this step by serial, open addressing */
  int n_met, met_room;
  capl_storage **outside; /* referenced: those of FROM_OUTSIDE */
  int n_outside, outside_room;
  uint64_t first_serial; /* storages from this one on were made in the step */
  uint64_t streams;
  int steps, alike;
  bool strict, same, refused;
  char difference[320];
};

_Thread_local capl_watch *watch_now;
static void (*where_)(char *buf, size_t len);

void capl_watch_where_set(void (*where)(char *buf, size_t len))
{
  where_ = where;
}

capl_status capl_watch_new(capl_device *device, capl_watch **out)
{
  *out = calloc(1, sizeof **out);
  if (!*out) return CAPL_FAIL(CAPL_ENOMEM, "no memory to watch a step");
  (*out)->device = device;
  return CAPL_OK;
}

static void cut(capl_watch *w, size_t count)
{
  for (size_t k = count; k < w->count; k++) free(w->list[k].tensors);
  if (count < w->count) w->count = count;
}

static void let_outside_go(capl_watch *w)
{
  for (int k = 0; k < w->n_outside; k++) capl_storage_unref(w->outside[k]);
  w->n_outside = 0;
}

void capl_watch_free(capl_watch *w)
{
  if (!w) return;
  if (watch_now == w) watch_now = NULL;
  cut(w, 0);
  let_outside_go(w);
  free(w->list);
  free(w->met);
  free(w->outside);
  free(w);
}

/* ---- where a tensor comes from --------------------------------------------------------------- */

static met_storage *place_of(met_storage *met, int room, uint64_t serial)
{
  size_t at = serial * (size_t)0x9E3779B97F4A7C15u >> 20;
  for (at &= (size_t)room - 1; met[at].serial && met[at].serial != serial;) at = (at + 1) & ((size_t)room - 1);
  return &met[at];
}

static capl_status grow_met(capl_watch *w)
{
  int room = w->met_room ? 2 * w->met_room : 256;
  met_storage *met = calloc((size_t)room, sizeof *met);
  if (!met) return CAPL_FAIL(CAPL_ENOMEM, "no memory to watch a step");
  for (int k = 0; k < w->met_room; k++)
    if (w->met[k].serial) *place_of(met, room, w->met[k].serial) = w->met[k];
  free(w->met);
  w->met = met;
  w->met_room = room;
  return CAPL_OK;
}

static capl_status hold(capl_watch *w, capl_storage *s)
{
  for (int k = 0; k < w->n_outside; k++)
    if (w->outside[k] == s) return CAPL_OK;
  if (w->n_outside == w->outside_room) {
    int room = w->outside_room ? 2 * w->outside_room : 64;
    capl_storage **list = realloc(w->outside, (size_t)room * sizeof *list);
    if (!list) return CAPL_FAIL(CAPL_ENOMEM, "no memory to watch a step");
    w->outside = list;
    w->outside_room = room;
  }
  w->outside[w->n_outside++] = capl_storage_ref(s);
  return CAPL_OK;
}

/* Notes that the step meets storage s, and how. */
static capl_status meet(capl_watch *w, capl_storage *s, origin from, met_storage **out)
{
  if (2 * w->n_met >= w->met_room) CAPL_TRY(grow_met(w));
  met_storage *m = place_of(w->met, w->met_room, s->serial);
  if (!m->serial) {
    *m = (met_storage){.serial = s->serial, .number = w->n_met++, .from = from};
    if (from == FROM_OUTSIDE) CAPL_TRY(hold(w, s));
  }
  *out = m;
  return CAPL_OK;
}

static capl_status describe(capl_watch *w, const capl_tensor *t, met_tensor *out)
{
  *out = (met_tensor){.absent = t == NULL || t->storage == NULL};
  if (out->absent) return CAPL_OK;
  met_storage *m;
  CAPL_TRY(meet(w, t->storage, t->storage->serial >= w->first_serial ? MADE_HERE : FROM_OUTSIDE, &m));
  out->from = m->from;
  out->number = m->number;
  out->serial = m->from == FROM_OUTSIDE ? m->serial : 0;
  out->offset = m->from == FROM_OUTSIDE ? t->offset : 0;
  out->dtype = t->dtype;
  out->ndim = t->ndim;
  memcpy(out->size, t->size, (size_t)t->ndim * sizeof *t->size);
  return CAPL_OK;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* The attributes as they are to be compared: without what changes from step to step, streams counted from 0. */
static void comparable(const capl_watch *w, const capl_call *call, capl_attr *out)
{
  const capl_op *op = call->op;
  memset(out, 0, CAPL_MAX_ATTR * sizeof *out);
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) {
    const capl_attr_spec *spec = &op->attrs[k];
    const capl_attr *a = &call->attr[k];
    if (spec->per_step) continue;
    if (spec->kind == CAPL_ATTR_REAL) out[k].f = a->f;
    else if (spec->kind == CAPL_ATTR_INTS) out[k].n = a->n, memcpy(out[k].v, a->v, (size_t)a->n * sizeof *a->v);
    else out[k].i = a->i;
    if (spec->stream) out[k].i -= (int64_t)w->streams;
  }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static const char *name_of(const noted *e)
{
  return e->kind == NOTED_CALL ? capl_op_get(e->op)->name : e->kind == NOTED_FILL ? "fill_" : "copy_";
}

static const char *origin_text(const met_tensor *t)
{
  return t->from == FROM_ARGUMENT ? "an argument" : t->from == MADE_HERE ? "made in the step" : "made outside of it";
}

/* The difference of two tensors, into buf; false when there is none. */
static bool tensors_differ(const met_tensor *a, const met_tensor *b, int i, char *buf, size_t len)
{
  char before[96], now[96];
  if (a->absent != b->absent)
    return snprintf(buf, len, "input %d was %s before", i + 1, a->absent ? "absent" : "there"), true;
  if (a->absent) return false;
  if (a->dtype != b->dtype)
    return snprintf(buf, len, "input %d was %s, now %s", i + 1, capl_dtype_name(a->dtype), capl_dtype_name(b->dtype)),
        true;
  if (a->ndim != b->ndim || memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) != 0)
    return snprintf(buf, len, "input %d was %s, now %s", i + 1,
                    capl_shape_describe(a->ndim, a->size, before, sizeof before),
                    capl_shape_describe(b->ndim, b->size, now, sizeof now)), true;
  if (a->from != b->from)
    return snprintf(buf, len, "input %d was %s, now %s", i + 1, origin_text(a), origin_text(b)), true;
  if (a->number == b->number && a->serial == b->serial && a->offset == b->offset) return false;
  snprintf(buf, len, "input %d is another tensor than in the step before%s", i + 1,
           a->from == FROM_OUTSIDE ? "; pass what changes as an argument" : "");
  return true;
}

static bool attrs_differ(const noted *a, const noted *b, char *buf, size_t len)
{
  const capl_op *op = capl_op_get(a->op);
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) {
    const capl_attr *x = &a->attr[k], *y = &b->attr[k];
    if (memcmp(x, y, sizeof *x) == 0) continue;
    if (op->attrs[k].kind == CAPL_ATTR_REAL)
      snprintf(buf, len, "%s was %.9g, now %.9g", op->attrs[k].name, x->f, y->f);
    else if (op->attrs[k].kind == CAPL_ATTR_INTS)
      snprintf(buf, len, "%s differs from the step before", op->attrs[k].name);
    else
      snprintf(buf, len, "%s was %lld, now %lld", op->attrs[k].name, (long long)x->i, (long long)y->i);
    return true;
  }
  return false;
}

static bool entries_differ(const noted *a, const noted *b, char *buf, size_t len)
{
  if (a->kind != b->kind || a->op != b->op)
    return snprintf(buf, len, "the step before had %s here", name_of(a)), true;
  if (a->n != b->n) return snprintf(buf, len, "it had %d inputs before, now %d", a->n, b->n), true;
  for (int i = 0; i < a->n; i++)
    if (tensors_differ(&a->tensors[i], &b->tensors[i], i, buf, len)) return true;
  if (a->kind == NOTED_CALL) return attrs_differ(a, b, buf, len);
  if (memcmp(&a->value, &b->value, sizeof a->value) == 0) return false;
  return snprintf(buf, len, "the value was %.9g, now %.9g", a->value, b->value), true;
}

/* ---- noting ---------------------------------------------------------------------------------- */

static capl_status append(capl_watch *w, noted *e)
{
  if (w->count == w->room) {
    size_t room = w->room ? 2 * w->room : 256;
    noted *list = realloc(w->list, room * sizeof *list);
    if (!list) return CAPL_FAIL(CAPL_ENOMEM, "no memory to watch a step");
    w->list = list;
    w->room = room;
  }
  w->list[w->count++] = *e;
  e->tensors = NULL;
  w->at = w->count;
  return CAPL_OK;
}

static void set_difference(capl_watch *w, const char *name, const char *what)
{
  char where[160] = "";
  if (where_) where_(where, sizeof where);
  snprintf(w->difference, sizeof w->difference, "%.150s%s%s: %s", where, *where ? ": " : "", name, what);
}

static capl_status differs(capl_watch *w, const noted *e, const char *what)
{
  if (!w->refused) set_difference(w, name_of(e), what); /* what was refused is the reason, whatever differs besides */
  w->same = false;
  if (!w->strict || w->steps < 2) return CAPL_OK;
  CAPL_FAIL(CAPL_ESTATE, "%s: the captured step is not the same every time: %s", name_of(e), what);
  capl_error_hint("a captured step is replayed without its Lua code: keep what changes out of it, or in its arguments");
  return CAPL_ESTATE;
}

/* Compares e with its like of the step before, or makes it part of the list. */
static capl_status note(capl_watch *w, noted *e)
{
  char what[200];
  if (w->same && w->at < w->count && !entries_differ(&w->list[w->at], e, what, sizeof what)) {
    w->at++;
    return CAPL_OK;
  }
  if (w->same) {
    if (w->at >= w->count) snprintf(what, sizeof what, "the step before ended before this");
    CAPL_TRY(differs(w, e, what));
    cut(w, w->at);
  }
  return append(w, e);
}

static capl_status note_with(capl_watch *w, noted *e, capl_tensor *const *tensors, int n)
{
  watch_now = NULL; /* nothing below is the step's */
  capl_status status = CAPL_OK;
  e->n = n;
  e->tensors = calloc((size_t)n + 1, sizeof *e->tensors);
  if (!e->tensors) status = CAPL_FAIL(CAPL_ENOMEM, "no memory to watch a step");
  for (int i = 0; i < n && status == CAPL_OK; i++) status = describe(w, tensors[i], &e->tensors[i]);
  if (status == CAPL_OK) status = note(w, e);
  free(e->tensors);
  watch_now = w;
  return status;
}

capl_status watch_note_call(const capl_call *call)
{
  noted e = {.kind = NOTED_CALL, .op = call->id};
  if (call->device != watch_now->device) return CAPL_OK; /* work of another device is no part of the graph */
  comparable(watch_now, call, e.attr);
  return note_with(watch_now, &e, call->in, call->n_in);
}

capl_status watch_note_fill(const capl_tensor *t, double value)
{
  noted e = {.kind = NOTED_FILL, .value = value};
  if (!watch_is_of(t)) return CAPL_OK;
  return note_with(watch_now, &e, (capl_tensor *[]){(capl_tensor *)t}, 1);
}

capl_status watch_note_copy(const capl_tensor *dst, const capl_tensor *src)
{
  noted e = {.kind = NOTED_COPY};
  if (src->device != dst->device) return watch_is_of(src) ? watch_read(src) : watch_write(dst);
  if (!watch_is_of(dst)) return CAPL_OK;
  return note_with(watch_now, &e, (capl_tensor *[]){(capl_tensor *)dst, (capl_tensor *)src}, 2);
}

bool watch_is_of(const capl_tensor *t)
{
  return t->device == watch_now->device;
}

/* The first step may make what later steps only use: an optimizer's state, constants of a layer. */
capl_status watch_refuse(const char *what, const char *hint)
{
  capl_watch *w = watch_now;
  bool from_host = strncmp(what, "values come", 11) == 0;
  if (from_host && w->steps == 0) return CAPL_OK;
  set_difference(w, "a step that is to be captured", what);
  w->refused = true;
  if (!w->strict) return CAPL_OK;
  CAPL_FAIL(CAPL_ESTATE, "%s", what);
  capl_error_hint("%s", hint);
  return CAPL_ESTATE;
}

/* ---- steps ----------------------------------------------------------------------------------- */

capl_status capl_watch_begin(capl_watch *w, capl_tensor *const *args, int n, uint64_t streams, bool strict)
{
  if (watch_now) return CAPL_FAIL(CAPL_ESTATE, "a captured step runs inside another");
  w->first_serial = storage_next_serial();
  if (w->met) memset(w->met, 0, (size_t)w->met_room * sizeof *w->met);
  w->n_met = 0;
  w->at = 0;
  w->same = w->steps > 0;
  w->refused = false;
  w->strict = strict;
  w->streams = streams;
  met_storage *m;
  for (int i = 0; i < n; i++)
    if (args[i] && args[i]->storage) CAPL_TRY(meet(w, args[i]->storage, FROM_ARGUMENT, &m));
  watch_now = w;
  return CAPL_OK;
}

capl_status capl_watch_end(capl_watch *w)
{
  watch_now = NULL;
  capl_status status = CAPL_OK;
  if (w->same && w->at < w->count) {
    noted ended = w->list[w->at];
    status = differs(w, &ended, "the step ended before this call of the step before");
    cut(w, w->at);
  }
  w->alike = w->same ? w->alike + 1 : 1;
  w->steps++;
  return status;
}

void capl_watch_pause(capl_watch *w, bool on)
{
  watch_now = on ? NULL : w;
}

void capl_watch_cancel(capl_watch *w)
{
  if (watch_now == w) watch_now = NULL;
  cut(w, 0);
  let_outside_go(w);
  w->steps = w->alike = 0;
}

int capl_watch_alike(const capl_watch *w) { return w->alike; }
int capl_watch_steps(const capl_watch *w) { return w->steps; }
const char *capl_watch_difference(const capl_watch *w) { return w->difference; }
bool capl_watch_differs(const capl_watch *w) { return !w->same; }
bool capl_watch_refused(const capl_watch *w) { return w->refused; }
size_t capl_watch_calls(const capl_watch *w) { return w->count; }

bool capl_watch_stale(const capl_watch *w)
{
  for (int k = 0; k < w->n_outside; k++)
    if (w->outside[k]->refs == 1) return true;
  return false;
}

/* ---- capturing ------------------------------------------------------------------------------- */

struct capl_capture {
  capl_device *device;
  capl_pool *pool;
  void *graph;
  bool recording;
  capl_recorded recorded;
};

bool capl_capture_possible(const capl_device *device)
{
  return device->backend->capture_begin != NULL;
}

/* Casts of weights that autocast keeps were made outside of the recording, or would outlive it. */
static void forget_casts(void)
{
  capl_autocast_set(capl_autocast_get());
}

capl_status capl_capture_begin(capl_device *device, capl_capture **out)
{
  if (!capl_capture_possible(device))
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s cannot capture steps", device->name);
  capl_capture *c = calloc(1, sizeof *c);
  if (!c) return CAPL_FAIL(CAPL_ENOMEM, "no memory to capture a step");
  c->device = device;
  forget_casts();
  capl_status status = capl_pool_begin(device, &c->pool);
  if (status == CAPL_OK) status = device->backend->capture_begin();
  c->recording = status == CAPL_OK;
  if (status == CAPL_OK) return recorded_begin(&c->recorded), *out = c, CAPL_OK;
  capl_capture_free(c);
  return status;
}

capl_status capl_capture_end(capl_capture *c)
{
  forget_casts();
  capl_status status = c->device->backend->capture_end(&c->graph), noted = recorded_end(&c->recorded);
  c->recording = false;
  capl_pool_end(c->pool);
  return status != CAPL_OK ? status : noted;
}

/* Weights were written since the last launch, by load_state_dict or a swap with averages: the graph reads what its own
** last step left in their shadows. */
static capl_status refresh_shadows(const capl_recorded *r)
{
  capl_shadow *stale[SHADOWS_TOGETHER];
  int n = 0;
  for (size_t k = 0; k < r->count; k++) {
    capl_shadow *h = r->list[k].shadow;
    if (!r->list[k].needed || !h->of || shadow_is_fresh(h)) continue;
    if (n == SHADOWS_TOGETHER || (n > 0 && stale[0]->of->device != h->of->device)) {
      CAPL_TRY(shadows_refresh(stale, n));
      n = 0;
    }
    stale[n++] = h;
  }
  return shadows_refresh(stale, n);
}

capl_status capl_capture_launch(capl_capture *c, int64_t offset)
{
  CAPL_TRY(refresh_shadows(&c->recorded));
  capl_counter_add(CAPL_COUNT_captured_steps);
  capl_status status = c->device->backend->capture_launch(c->graph, offset);
  recorded_ran(&c->recorded, status == CAPL_OK);
  return status;
}

void capl_capture_free(capl_capture *c)
{
  if (!c) return;
  if (c->recording) {
    forget_casts();
    c->device->backend->capture_end(NULL);
  }
  recorded_free(&c->recorded);
  if (c->graph) c->device->backend->capture_free(c->graph);
  capl_pool_free(c->device, c->pool);
  free(c);
}
