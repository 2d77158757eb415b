/* program.c -- pointwise programs: from text and from steps, kept once each, with shapes and dtypes by the ops' rules.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/program.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/autocast.h"
#include "ops/rules.h"

enum { MOST = 4096, STEP_TEXT = 96 };

static const program *programs[MOST];
static int n_programs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- steps ------------------------------------------------------------------------------------ */

static const struct {
  capl_op_id op;
  int tensors, numbers;
} takes[] = {
#define X(name, tensors, numbers) {CAPL_OP_##name, tensors, numbers},
  POINTWISE_MAP(X)
#undef X
};

bool program_takes(capl_op_id op, int *tensors, int *numbers)
{
  for (size_t k = 0; k < sizeof takes / sizeof *takes; k++) {
    if (takes[k].op != op) continue;
    *tensors = takes[k].tensors;
    *numbers = takes[k].numbers;
    return true;
  }
  return false;
}

/* Likewise for steps, constants among them: their one tensor gives the dtype. */
static void step_takes(const program_step *step, int *tensors, int *numbers)
{
  *tensors = *numbers = 1;
  if (step->op != PROGRAM_CONST) program_takes((capl_op_id)step->op, tensors, numbers);
}

static bool same_step(const program_step *a, const program_step *b)
{
  int tensors, numbers;
  if (a->op != b->op) return false;
  step_takes(a, &tensors, &numbers);
  for (int k = 0; k < tensors; k++)
    if (a->arg[k] != b->arg[k]) return false;
  return memcmp(a->number, b->number, (size_t)numbers * sizeof *a->number) == 0 &&
         (a->op != CAPL_OP_cast || a->dtype == b->dtype);
}

capl_status program_add(program_draft *draft, const program_step *step, int *value)
{
  for (int k = 0; k < draft->n; k++)
    if (same_step(&draft->step[k], step)) return *value = PROGRAM_INPUTS + k, CAPL_OK;
  if (draft->n == PROGRAM_STEPS)
    return CAPL_FAIL(CAPL_EVALUE, "a pointwise program has at most %d steps, its gradients included", PROGRAM_STEPS);
  draft->step[draft->n] = *step;
  *value = PROGRAM_INPUTS + draft->n++;
  return CAPL_OK;
}

void program_attributes(const program_step *step, capl_attr *attr)
{
  memset(attr, 0, CAPL_MAX_ATTR * sizeof *attr);
  if (step->op == CAPL_OP_cast) attr[AT(cast, dtype)].i = step->dtype;
  if (step->op == CAPL_OP_cast || step->op == PROGRAM_CONST) return;
  const capl_op *op = capl_op_get((capl_op_id)step->op);
  for (int k = 0; k < 2; k++) {
    attr[k].f = step->number[k];
    if (op->attrs[k].name && op->attrs[k].kind == CAPL_ATTR_ENUM) attr[k].i = step->number[k] != 0;
  }
}

double program_number(capl_op_id op, const capl_attr *attr, int k)
{
  return capl_op_get(op)->attrs[k].kind == CAPL_ATTR_ENUM ? (double)attr[k].i : attr[k].f;
}

/* ---- text ------------------------------------------------------------------------------------- */

static size_t print_value(char *text, size_t len, int value)
{
  if (value < PROGRAM_INPUTS) return (size_t)snprintf(text, len, " %c", 'a' + value);
  return (size_t)snprintf(text, len, " t%d", value - PROGRAM_INPUTS);
}

/* The shortest of the ways to write v that reads back as v. */
static size_t print_number(char *text, size_t len, double v)
{
  char tried[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(tried, sizeof tried, "%.*g", digits, v);
    if (strtod(tried, NULL) == v) break;
  }
  return (size_t)snprintf(text, len, " %s", tried);
}

/* At most STEP_TEXT bytes, the end included. */
static size_t print_step(char *text, const program_step *step)
{
  int tensors, numbers;
  step_takes(step, &tensors, &numbers);
  bool constant = step->op == PROGRAM_CONST;
  size_t used = (size_t)snprintf(text, STEP_TEXT, "%s", constant ? "const" : capl_op_get((capl_op_id)step->op)->name);
  if (constant) used += print_number(text + used, STEP_TEXT - used, step->number[0]);
  for (int k = 0; k < tensors; k++) used += print_value(text + used, STEP_TEXT - used, step->arg[k]);
  for (int k = 0; !constant && k < numbers; k++) used += print_number(text + used, STEP_TEXT - used, step->number[k]);
  if (step->op == CAPL_OP_cast)
    used += (size_t)snprintf(text + used, STEP_TEXT - used, " %s", capl_dtype_name(step->dtype));
  return used;
}

/* The words of one step, cut out of text. */
typedef struct {
  int n;
  char word[6][40];
} words;

/* Splits up to the next ';'; returns what follows it, NULL at the end. A word that does not fit ends in dots: no number
** does. */
static const char *split(const char *text, words *out)
{
  out->n = 0;
  for (;;) {
    while (isspace((unsigned char)*text)) text++;
    if (*text == ';') return text + 1;
    if (!*text) return NULL;
    size_t n = strcspn(text, " \t\n\r\f\v;");
    bool cut = n >= sizeof out->word[0];
    if (out->n < 6)
      snprintf(out->word[out->n], sizeof out->word[0], "%.*s%s", cut ? 36 : (int)n, text, cut ? "..." : "");
    out->n++;
    text += n;
  }
}

static capl_status read_value(const char *word, int steps, int *value)
{
  if (word[0] >= 'a' && word[0] < 'a' + PROGRAM_INPUTS && !word[1]) return *value = word[0] - 'a', CAPL_OK;
  char *end = NULL;
  long k = word[0] == 't' && isdigit((unsigned char)word[1]) ? strtol(word + 1, &end, 10) : -1;
  if (k >= 0 && k < steps && !*end) return *value = PROGRAM_INPUTS + (int)k, CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE,
                   "pointwise program: '%s' is none of the inputs a to h, nor an earlier step, of which there are %d",
                   word, steps);
}

static capl_status read_number(const char *word, double *value)
{
  char *end;
  *value = strtod(word, &end);
  if (end != word && !*end) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "pointwise program: '%s' is no number", word);
}

static capl_status read_op(const char *word, program_step *step)
{
  int tensors, numbers;
  const capl_op *op = capl_op_find(word);
  step->op = PROGRAM_CONST;
  if (strcmp(word, "const") == 0) return CAPL_OK;
  if (op && program_takes(capl_op_id_of(op), &tensors, &numbers)) return step->op = (int)capl_op_id_of(op), CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "pointwise program: '%s' is no elementwise op", word);
}

static capl_status read_step(const words *w, int steps, program_step *step)
{
  int tensors, numbers, at = 1;
  memset(step, 0, sizeof *step);
  if (w->n == 0) return CAPL_FAIL(CAPL_EVALUE, "pointwise program: a step is empty");
  CAPL_TRY(read_op(w->word[0], step));
  step_takes(step, &tensors, &numbers);
  bool cast = step->op == CAPL_OP_cast, constant = step->op == PROGRAM_CONST;
  if (w->n != 1 + tensors + numbers + cast)
    return CAPL_FAIL(CAPL_EVALUE, "pointwise program: %s takes %d values and %d numbers, %d words follow it",
                     w->word[0], tensors, numbers + cast, w->n - 1);
  if (constant) CAPL_TRY(read_number(w->word[at++], &step->number[0]));
  for (int k = 0; k < tensors; k++) CAPL_TRY(read_value(w->word[at++], steps, &step->arg[k]));
  for (int k = 0; !constant && k < numbers; k++) CAPL_TRY(read_number(w->word[at++], &step->number[k]));
  return cast ? capl_dtype_parse(w->word[at], &step->dtype) : CAPL_OK;
}

/* Programs never change or go, so looking needs no lock. */
static const program *find_text(const char *text)
{
  int n = __atomic_load_n(&n_programs, __ATOMIC_ACQUIRE);
  for (int k = 0; k < n; k++)
    if (strcmp(programs[k]->text, text) == 0) return programs[k];
  return NULL;
}

capl_status program_parse(const char *text, const program **out)
{
  *out = find_text(text);
  if (*out) return CAPL_OK;
  program_draft draft = {0};
  int values[PROGRAM_STEPS], n = 0; /* equal steps are one: where each of the text's is */
  for (const char *p = text; p;) {
    words w;
    program_step step;
    p = split(p, &w);
    if (n == PROGRAM_STEPS) return CAPL_FAIL(CAPL_EVALUE, "a pointwise program has at most %d steps", PROGRAM_STEPS);
    CAPL_TRY(read_step(&w, n, &step));
    for (int k = 0; k < 3; k++)
      if (step.arg[k] >= PROGRAM_INPUTS) step.arg[k] = values[step.arg[k] - PROGRAM_INPUTS];
    CAPL_TRY(program_add(&draft, &step, &values[n++]));
  }
  return program_intern(&draft, values[n - 1], out);
}

/* ---- the programs there are ------------------------------------------------------------------- */

/* Copies the steps that value needs, in order; returns the number of inputs used. */
static int prune(const program_draft *draft, int value, program_draft *out)
{
  bool needed[PROGRAM_VALUES] = {false};
  int place[PROGRAM_VALUES], inputs = 0, tensors, numbers;
  needed[value] = true;
  for (int k = draft->n - 1; k >= 0; k--) {
    step_takes(&draft->step[k], &tensors, &numbers);
    for (int i = 0; needed[PROGRAM_INPUTS + k] && i < tensors; i++) needed[draft->step[k].arg[i]] = true;
  }
  for (int i = 0; i < PROGRAM_INPUTS; i++) {
    place[i] = i;
    if (needed[i]) inputs = i + 1;
  }
  out->n = 0;
  for (int k = 0; k < draft->n; k++) {
    if (!needed[PROGRAM_INPUTS + k]) continue;
    program_step *step = &out->step[out->n];
    *step = draft->step[k];
    step_takes(step, &tensors, &numbers);
    for (int i = 0; i < 3; i++) step->arg[i] = i < tensors ? place[step->arg[i]] : 0;
    place[PROGRAM_INPUTS + k] = PROGRAM_INPUTS + out->n++;
  }
  return inputs;
}

static program *program_new(const program_draft *draft, int inputs, const char *text)
{
  program *p = calloc(1, sizeof *p);
  program_step *step = malloc((size_t)draft->n * sizeof *step);
  char *copy = strdup(text);
  if (!p || !step || !copy) {
    free(p);
    free(step);
    free(copy);
    return NULL;
  }
  memcpy(step, draft->step, (size_t)draft->n * sizeof *step);
  *p = (program){.inputs = inputs, .n = draft->n, .step = step, .text = copy};
  return p;
}

/* Under lock. */
static capl_status find_or_add(const program_draft *draft, int inputs, const char *text, const program **out)
{
  *out = find_text(text);
  if (*out) return CAPL_OK;
  if (n_programs == MOST) {
    CAPL_FAIL(CAPL_EVALUE, "there are %d pointwise programs already: does a number in them change from call to call?",
              MOST);
    capl_error_hint("give a number that changes as a tensor without dims");
    return CAPL_EVALUE;
  }
  program *p = program_new(draft, inputs, text);
  if (!p) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a pointwise program");
  p->id = n_programs;
  programs[n_programs] = *out = p;
  __atomic_store_n(&n_programs, n_programs + 1, __ATOMIC_RELEASE);
  return CAPL_OK;
}

capl_status program_intern(const program_draft *draft, int value, const program **out)
{
  if (value < PROGRAM_INPUTS)
    return CAPL_FAIL(CAPL_EVALUE, "a pointwise program computes something: its result is input '%c' itself",
                     'a' + value);
  program_draft kept;
  char text[PROGRAM_STEPS * STEP_TEXT];
  size_t used = 0;
  int inputs = prune(draft, value, &kept);
  for (int k = 0; k < kept.n; k++) {
    if (k > 0) used += (size_t)snprintf(text + used, sizeof text - used, "; ");
    used += print_step(text + used, &kept.step[k]);
  }
  pthread_mutex_lock(&lock);
  capl_status status = find_or_add(&kept, inputs, text, out);
  pthread_mutex_unlock(&lock);
  return status;
}

const program *program_get(int64_t id)
{
  return id >= 0 && id < __atomic_load_n(&n_programs, __ATOMIC_ACQUIRE) ? programs[id] : NULL;
}

/* ---- shapes and dtypes ------------------------------------------------------------------------ */

/* What a step makes of the values so far; shells know only shapes. */
static capl_status infer_step(const program_step *step, const capl_tensor *values, capl_tensor *out)
{
  capl_attr attr[CAPL_MAX_ATTR];
  capl_out_spec spec = {0};
  int tensors, numbers;
  *out = values[step->arg[0]];
  out->ndim = 0;
  if (step->op == PROGRAM_CONST) return CAPL_OK;
  capl_tensor args[3], *list[3];
  capl_dtype dtypes[3];
  const capl_op *op = capl_op_get((capl_op_id)step->op);
  step_takes(step, &tensors, &numbers);
  for (int k = 0; k < tensors; k++) {
    args[k] = values[step->arg[k]];
    list[k] = &args[k];
  }
  for (int k = 0; k < tensors; k++) dtypes[k] = autocast_dtype(op, list, tensors, k);
  for (int k = 0; k < tensors; k++) args[k].dtype = dtypes[k];
  program_attributes(step, attr);
  capl_call call = {.op = op, .in = list, .n_in = tensors, .attr = attr, .id = (capl_op_id)step->op,
                    .device = args[0].device};
  CAPL_TRY(op->shape(&call, &spec));
  out->dtype = spec.dtype;
  out->ndim = spec.ndim;
  memcpy(out->size, spec.size, sizeof out->size);
  capl_strides_row(out->ndim, out->size, out->stride);
  return CAPL_OK;
}

capl_status program_infer(const program *p, capl_tensor *const *in, int n_in, capl_out_spec *out, capl_dtype *dtypes)
{
  capl_tensor values[PROGRAM_VALUES];
  if (n_in < p->inputs || n_in > PROGRAM_INPUTS)
    return CAPL_FAIL(CAPL_EVALUE, "the program (%.200s) has %d inputs, %d are given", p->text, p->inputs, n_in);
  memset(values, 0, (size_t)(PROGRAM_INPUTS + p->n) * sizeof *values);
  for (int i = 0; i < n_in; i++) {
    if (!in[i]) return CAPL_FAIL(CAPL_EVALUE, "input '%c' is missing", 'a' + i);
    values[i] = *in[i];
    values[i].storage = NULL;
  }
  for (int k = 0; k < p->n; k++) {
    capl_tensor *value = &values[PROGRAM_INPUTS + k];
    CAPL_TRY(infer_step(&p->step[k], values, value));
    value->storage = NULL;
  }
  const capl_tensor *y = &values[PROGRAM_INPUTS + p->n - 1];
  spec_set(out, y->dtype, y->ndim, y->size);
  for (int i = 0; i < n_in && !out->like; i++)
    if (capl_tensor_same_shape(in[i], y) && capl_tensor_is_dense(in[i])) out->like = in[i];
  for (int i = 0; dtypes && i < n_in; i++) dtypes[i] = values[i].dtype;
  for (int k = 0; dtypes && k < p->n; k++) dtypes[PROGRAM_INPUTS + k] = values[PROGRAM_INPUTS + k].dtype;
  return CAPL_OK;
}

bool program_is_real(const program *p, capl_tensor *const *in, int n_in)
{
  capl_dtype dtypes[PROGRAM_VALUES];
  capl_out_spec spec = {0};
  if (program_infer(p, in, n_in, &spec, dtypes) != CAPL_OK) return false;
  for (int v = 0; v < PROGRAM_INPUTS + p->n; v++) {
    bool used = v < n_in || v >= PROGRAM_INPUTS;
    if (used && !capl_dtype_is_float(dtypes[v]) && dtypes[v] != CAPL_BOOL) return false;
  }
  return true;
}
