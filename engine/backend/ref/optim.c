/* optim.c -- ref kernels of the optimizer steps, element by element as the papers write them.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include <string.h>

#include "backend/ref/ref.h"
#include "ops/control.h"

enum { MAX_GROUPS = 5, PARAM = 0, GRAD = 1 };

/* One element of a parameter and what belongs to it; absent states are 0 and not written back. */
typedef struct {
  double v[MAX_GROUPS];
} element;

typedef void (*step_fn)(const capl_attr *attr, element *e);

/* Where a method keeps the attributes that change from step to step; -1 = it has none. */
typedef struct {
  int step, first_step, grad_scale;
} places;

/* Attributes of the call, those that the control knows taken from it. Returns whether the step is to be made. */
static bool read_control(const capl_call *call, int n_groups, places at, capl_attr *attr)
{
  memcpy(attr, call->attr, CAPL_MAX_ATTR * sizeof *attr);
  if (call->n_in % n_groups == 0) return true;
  const capl_tensor *control = call->in[call->n_in - 1];
  int64_t number = (int64_t)ref_get(control, CONTROL_STEPS) - attr[at.grad_scale + STEP_BEHIND].i;
  attr[STEP_LR].f = ref_get(control, CONTROL_LR + attr[at.grad_scale + STEP_GROUP].i);
  attr[at.grad_scale].f *= ref_get(control, CONTROL_MULTIPLIER);
  if (at.step >= 0) attr[at.step].i = number < 1 ? 1 : number;
  if (at.first_step >= 0) attr[at.first_step].i = number <= 1;
  return ref_get(control, CONTROL_SKIP) == 0;
}

static void step_tensor(const capl_call *call, int i, int n, int n_groups, double grad_scale, const capl_attr *attr,
                        step_fn step)
{
  capl_tensor *member[MAX_GROUPS] = {NULL};
  const capl_tensor *walked[MAX_GROUPS];
  for (int g = 0; g < n_groups; g++) {
    member[g] = call->in[g * n + i];
    walked[g] = member[g] ? member[g] : member[PARAM];
  }
  capl_tensor low;
  bool shadowed = capl_shadow_of(member[PARAM], &low);
  ref_walk w;
  for (ref_walk_start(&w, n_groups, walked); w.more; ref_walk_next(&w)) {
    element e = {{0}};
    for (int g = 0; g < n_groups; g++)
      if (member[g]) e.v[g] = ref_get(member[g], w.at[g]);
    e.v[GRAD] *= grad_scale;
    step(attr, &e);
    for (int g = 0; g < n_groups; g++)
      if (member[g] && g != GRAD) ref_set(member[g], w.at[g], e.v[g]);
    if (shadowed) ref_set(&low, w.at[PARAM], ref_get(member[PARAM], w.at[PARAM])); /* rounded from f32, as by a cast */
  }
}

static capl_status step_all(const capl_call *call, int n_groups, places at, step_fn step)
{
  int n = call->n_in / n_groups;
  capl_attr attr[CAPL_MAX_ATTR];
  if (!read_control(call, n_groups, at, attr)) return CAPL_OK;
  for (int i = 0; i < n; i++)
    if (call->in[n + i]) step_tensor(call, i, n, n_groups, attr[at.grad_scale].f, attr, step);
  return CAPL_OK;
}

/* v: p, g, buffer */
static void sgd(const capl_attr *attr, element *e)
{
  const struct attrs_sgd_step *a = (const void *)attr;
  enum { BUFFER = 2 };
  double momentum = a->momentum.f;
  double g = e->v[GRAD] + a->weight_decay.f * e->v[PARAM];
  if (momentum != 0) {
    double b = a->first_step.i ? g : momentum * e->v[BUFFER] + (1 - a->dampening.f) * g;
    e->v[BUFFER] = b;
    g = a->nesterov.i ? g + momentum * b : b;
  }
  e->v[PARAM] -= a->lr.f * g;
}

static capl_status ref_sgd_step(const capl_call *call)
{
  places at = {.step = -1, .first_step = AT(sgd_step, first_step), .grad_scale = AT(sgd_step, grad_scale)};
  return step_all(call, 3, at, sgd);
}

enum { FIRST_MOMENT = 2, SECOND_MOMENT, LARGEST }; /* the last one: amsgrad */

/* rooted: the state whose root divides */
static void adam_by(const capl_attr *attr, element *e, int rooted)
{
  const struct attrs_adam_step *a = (const void *)attr;
  double lr = a->lr.f, beta1 = a->beta1.f, beta2 = a->beta2.f, step = (double)a->step.i;
  double g = e->v[GRAD];
  if (a->decoupled.i) e->v[PARAM] *= 1 - lr * a->weight_decay.f;
  else g += a->weight_decay.f * e->v[PARAM];
  double m = beta1 * e->v[FIRST_MOMENT] + (1 - beta1) * g;
  double v = beta2 * e->v[SECOND_MOMENT] + (1 - beta2) * g * g;
  e->v[FIRST_MOMENT] = m;
  e->v[SECOND_MOMENT] = v;
  if (rooted == LARGEST && !(e->v[LARGEST] > v)) e->v[LARGEST] = v;
  double unbiased_m = m / (1 - pow(beta1, step));
  double unbiased_v = e->v[rooted] / (1 - pow(beta2, step));
  e->v[PARAM] -= lr * unbiased_m / (sqrt(unbiased_v) + a->eps.f);
}

static void adam(const capl_attr *attr, element *e)
{
  adam_by(attr, e, SECOND_MOMENT);
}

static void amsgrad(const capl_attr *attr, element *e)
{
  adam_by(attr, e, LARGEST);
}

static capl_status ref_adam_step(const capl_call *call)
{
  places at = {.step = AT(adam_step, step), .first_step = -1, .grad_scale = AT(adam_step, grad_scale)};
  return step_all(call, 4, at, adam);
}

static capl_status ref_amsgrad_step(const capl_call *call)
{
  places at = {.step = AT(amsgrad_step, step), .first_step = -1, .grad_scale = AT(amsgrad_step, grad_scale)};
  return step_all(call, 5, at, amsgrad);
}

/* v: p, g, square_avg, buffer, grad_avg */
static void rmsprop(const capl_attr *attr, element *e)
{
  const struct attrs_rmsprop_step *a = (const void *)attr;
  enum { SQUARE = 2, BUFFER, AVERAGE };
  double alpha = a->alpha.f;
  double g = e->v[GRAD] + a->weight_decay.f * e->v[PARAM];
  double variance = e->v[SQUARE] = alpha * e->v[SQUARE] + (1 - alpha) * g * g;
  if (a->centered.i) {
    e->v[AVERAGE] = alpha * e->v[AVERAGE] + (1 - alpha) * g;
    variance -= e->v[AVERAGE] * e->v[AVERAGE];
  }
  double update = g / (sqrt(variance) + a->eps.f);
  if (a->momentum.f != 0) update = e->v[BUFFER] = a->momentum.f * e->v[BUFFER] + update;
  e->v[PARAM] -= a->lr.f * update;
}

static capl_status ref_rmsprop_step(const capl_call *call)
{
  places at = {.step = -1, .first_step = -1, .grad_scale = AT(rmsprop_step, grad_scale)};
  return step_all(call, 5, at, rmsprop);
}

/* ---- muon: as written down, every iterate in full ---- */

/* A matrix of rows x columns: the shorter side first, after turn the other way round. */
typedef struct {
  int64_t rows, columns;
  double *x, *next, *square, *factor; /* x and the next one; x x'; what multiplies x */
} muon_matrix;

static double dot(int64_t n, const double *a, int64_t a_step, const double *b, int64_t b_step)
{
  double sum = 0;
  for (int64_t k = 0; k < n; k++) sum += a[k * a_step] * b[k * b_step];
  return sum;
}

/* x := a x + (b x x' + c (x x')^2) x */
static void muon_iterate(muon_matrix *m)
{
  const double a = 3.4445, b = -4.7750, c = 2.0315;
  int64_t R = m->rows, C = m->columns;
  for (int64_t i = 0; i < R; i++)
    for (int64_t j = 0; j < R; j++) m->square[i * R + j] = dot(C, m->x + i * C, 1, m->x + j * C, 1);
  for (int64_t i = 0; i < R; i++)
    for (int64_t j = 0; j < R; j++)
      m->factor[i * R + j] = b * m->square[i * R + j] + c * dot(R, m->square + i * R, 1, m->square + j, R);
  for (int64_t i = 0; i < R; i++)
    for (int64_t j = 0; j < C; j++)
      m->next[i * C + j] = a * m->x[i * C + j] + dot(R, m->factor + i * R, 1, m->x + j, C);
  double *old = m->x;
  m->x = m->next;
  m->next = old;
}

/* The momentum of the step, its shorter side first, divided by its norm. turned: it has more rows than columns. */
static void muon_start(const capl_call *call, int i, double grad_scale, bool turned, muon_matrix *m)
{
  const struct attrs_muon_step *a = ATTRS(call, muon_step);
  int n = call->n_in / 3;
  capl_tensor *grad = call->in[n + i], *buffer = call->in[2 * n + i];
  double square = 1e-14;
  ref_walk w;
  for (REF_WALK(&w, grad, buffer); w.more; ref_walk_next(&w)) {
    double g = grad_scale * ref_get(grad, w.at[0]), b = a->momentum.f * ref_get(buffer, w.at[1]) + g;
    ref_set(buffer, w.at[1], b);
    double v = a->nesterov.i ? g + a->momentum.f * b : b;
    int64_t outer = turned ? w.count % m->rows : w.count / m->columns;
    int64_t inner = turned ? w.count / m->rows : w.count % m->columns;
    m->x[outer * m->columns + inner] = v;
    square += v * v;
  }
  for (int64_t k = 0; k < m->rows * m->columns; k++) m->x[k] /= sqrt(square);
}

static void muon_tensor(const capl_call *call, int i, const capl_attr *attr, double grad_scale, muon_matrix *m)
{
  const struct attrs_muon_step *a = (const void *)attr;
  capl_tensor *param = call->in[i], low;
  int64_t outputs = param->size[0], inputs = capl_tensor_numel(param) / outputs;
  bool turned = outputs > inputs, shadowed = capl_shadow_of(param, &low);
  double rate = a->lr.f * (turned ? sqrt((double)outputs / (double)inputs) : 1);
  muon_start(call, i, grad_scale, turned, m);
  for (int64_t k = 0; k < a->ns_steps.i; k++) muon_iterate(m);
  ref_walk w;
  for (REF_WALK(&w, param); w.more; ref_walk_next(&w)) {
    int64_t at = turned ? w.count % inputs * outputs + w.count / inputs : w.count;
    ref_set(param, w.at[0], ref_get(param, w.at[0]) * (1 - a->lr.f * a->weight_decay.f) - rate * m->x[at]);
    if (shadowed) ref_set(&low, w.at[0], ref_get(param, w.at[0]));
  }
}

static capl_status ref_muon_step(const capl_call *call)
{
  places at = {.step = -1, .first_step = -1, .grad_scale = AT(muon_step, grad_scale)};
  capl_attr attr[CAPL_MAX_ATTR];
  if (!read_control(call, 3, at, attr)) return CAPL_OK;
  for (int i = 0, n = call->n_in / 3; i < n; i++) {
    int64_t numel = capl_tensor_numel(call->in[i]), outputs = call->in[i]->size[0];
    if (!call->in[n + i] || numel == 0) continue;
    int64_t inputs = numel / outputs, R = outputs < inputs ? outputs : inputs;
    void *room;
    CAPL_TRY(capl_scratch_get(call->device, (size_t)(2 * numel + 2 * R * R) * sizeof(double), &room));
    double *x = room;
    muon_matrix m = {R, numel / R, x, x + numel, x + 2 * numel, x + 2 * numel + R * R};
    muon_tensor(call, i, attr, attr[at.grad_scale].f, &m);
    capl_scratch_put(call->device, room);
  }
  return CAPL_OK;
}

static capl_status ref_grad_norm(const capl_call *call)
{
  double sum = 0;
  ref_walk w;
  for (int i = 0; i < call->n_in; i++) {
    const capl_tensor *grad = call->in[i];
    if (!grad) continue;
    for (REF_WALK(&w, grad); w.more; ref_walk_next(&w)) {
      double g = ref_get(grad, w.at[0]);
      sum += g * g;
    }
  }
  ref_set(call->out[0], 0, sqrt(sum));
  return CAPL_OK;
}

/* ---- step_control ---- */

static void control_add(capl_tensor *state, int which, double amount)
{
  ref_set(state, which, ref_get(state, which) + amount);
}

/* The loss scale of the next step, as PyTorch's GradScaler finds it. */
static void next_scale(capl_tensor *state, const capl_attr *attr, bool finite)
{
  double scale = ref_get(state, CONTROL_SCALE), tracker = finite ? ref_get(state, CONTROL_TRACKER) + 1 : 0;
  if (!finite) ref_set(state, CONTROL_SCALE, scale * attr[CONTROL_BACKOFF].f);
  if (tracker >= (double)attr[CONTROL_INTERVAL].i) {
    tracker = 0;
    if (isfinite((float)(scale * attr[CONTROL_GROWTH].f))) {
      ref_set(state, CONTROL_SCALE, scale * attr[CONTROL_GROWTH].f);
      control_add(state, CONTROL_GROWTHS, 1);
    }
  }
  ref_set(state, CONTROL_TRACKER, tracker);
}

static capl_status ref_step_control(const capl_call *call)
{
  const capl_attr *attr = call->attr;
  capl_tensor *state = call->in[0], *norm = call->n_in > 1 ? call->in[1] : NULL;
  const capl_tensor *common = call->n_in > 2 ? call->in[2] : NULL;
  double multiplier = 1;
  if (common) multiplier = ref_get(common, CONTROL_MULTIPLIER);
  if (attr[CONTROL_SCALING].i) multiplier = 1 / ref_get(state, CONTROL_SCALE);
  double length = norm ? ref_get(norm, 0) * multiplier : 0;
  bool finite = isfinite(length), skip = !finite || (common && ref_get(common, CONTROL_SKIP) != 0);
  if (finite && attr[CONTROL_MAX_NORM].f > 0) multiplier *= fmin(1, attr[CONTROL_MAX_NORM].f / (length + 1e-6));
  if (attr[CONTROL_SCALING].i) next_scale(state, attr, finite);
  ref_set(state, CONTROL_NORM, length);
  ref_set(state, CONTROL_MULTIPLIER, skip ? 0 : multiplier);
  ref_set(state, CONTROL_SKIP, skip);
  control_add(state, skip ? CONTROL_SKIPPED : CONTROL_STEPS, 1);
  return CAPL_OK;
}

const capl_kernel ref_optim_kernels[] = {
  {CAPL_OP_sgd_step, ref_sgd_step, ref_supports_any, 0},
  {CAPL_OP_adam_step, ref_adam_step, ref_supports_any, 0},
  {CAPL_OP_amsgrad_step, ref_amsgrad_step, ref_supports_any, 0},
  {CAPL_OP_rmsprop_step, ref_rmsprop_step, ref_supports_any, 0},
  {CAPL_OP_muon_step, ref_muon_step, ref_supports_any, 0},
  {CAPL_OP_grad_norm, ref_grad_norm, ref_supports_any, 0},
  {CAPL_OP_step_control, ref_step_control, ref_supports_any, 0},
  {0},
};
