/* attr.c -- attributes of a call: defaults, checks, and reading them from text.
** SPDX-License-Identifier: Apache-2.0
*/
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "capl/op.h"
#include "ops/program.h"

void capl_attr_defaults(const capl_op *op, capl_attr *attr)
{
  memset(attr, 0, CAPL_MAX_ATTR * sizeof *attr);
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) {
    const capl_attr_spec *spec = &op->attrs[k];
    attr[k].f = spec->def;
    attr[k].i = (int64_t)spec->def;
    if (spec->kind != CAPL_ATTR_INTS) continue;
    attr[k].n = spec->n;
    for (int d = 0; d < spec->n; d++) attr[k].v[d] = (int64_t)spec->def;
  }
}

int capl_attr_index(const capl_op *op, const char *name)
{
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++)
    if (strcmp(op->attrs[k].name, name) == 0) return k;
  return -1;
}

static capl_status find_spec(const capl_op *op, const char *name, int *index)
{
  *index = capl_attr_index(op, name);
  if (*index >= 0) return CAPL_OK;
  capl_suggestion near = {.wanted = name};
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) capl_suggest(&near, op->attrs[k].name);
  CAPL_FAIL(CAPL_EVALUE, "%s has no attribute '%s'", op->name, name);
  if (near.nearest) capl_error_hint("did you mean '%s'?", near.nearest);
  return CAPL_EVALUE;
}

static bool is_word(capl_attr_kind kind)
{
  return kind == CAPL_ATTR_ENUM || kind == CAPL_ATTR_DTYPE || kind == CAPL_ATTR_PROGRAM;
}

static capl_status check_number(const capl_op *op, const capl_attr_spec *spec, double v)
{
  if (spec->kind != CAPL_ATTR_REAL && (v != floor(v) || fabs(v) > 0x1p53))
    return CAPL_FAIL(CAPL_EVALUE, "%s: %s must be a whole number, not %g", op->name, spec->name, v);
  if (spec->min < spec->max && !(v >= spec->min && v <= spec->max))
    return CAPL_FAIL(CAPL_EVALUE, "%s: %s must be in %g..%g, not %g", op->name, spec->name, spec->min, spec->max, v);
  return CAPL_OK;
}

static capl_status set_ints(const capl_op *op, const capl_attr_spec *spec, capl_attr *a, int n, const double *values)
{
  bool repeat = n == 1 && spec->n > 1;
  if (!repeat && (spec->n ? n != spec->n : n > CAPL_MAX_NDIM))
    return CAPL_FAIL(CAPL_EVALUE, "%s: %s needs %d numbers, not %d", op->name, spec->name,
                     spec->n ? spec->n : CAPL_MAX_NDIM, n);
  a->n = spec->n ? spec->n : n;
  for (int k = 0; k < a->n; k++) {
    double v = values[repeat ? 0 : k];
    CAPL_TRY(check_number(op, spec, v));
    a->v[k] = (int64_t)v;
  }
  return CAPL_OK;
}

capl_status capl_attr_set(const capl_op *op, capl_attr *attr, const char *name, int n, const double *values)
{
  int index;
  CAPL_TRY(find_spec(op, name, &index));
  const capl_attr_spec *spec = &op->attrs[index];
  capl_attr *a = &attr[index];
  if (spec->kind == CAPL_ATTR_INTS) return set_ints(op, spec, a, n, values);
  if (is_word(spec->kind))
    return CAPL_FAIL(CAPL_EVALUE, "%s: %s is a word%s%s, not a number", op->name, spec->name,
                     spec->choices ? ", one of " : "", spec->choices ? spec->choices : "");
  if (n != 1) return CAPL_FAIL(CAPL_EVALUE, "%s: %s is one number, not %d", op->name, spec->name, n);
  if (spec->kind == CAPL_ATTR_BOOL && values[0] != 0 && values[0] != 1)
    return CAPL_FAIL(CAPL_EVALUE, "%s: %s must be true or false", op->name, spec->name);
  CAPL_TRY(check_number(op, spec, values[0]));
  a->f = values[0];
  a->i = (int64_t)values[0];
  return CAPL_OK;
}

/* Position of word in "a|b|c", -1 if it is not there. */
static int choice_index(const char *choices, const char *word)
{
  size_t len = strlen(word);
  int index = 0;
  for (const char *p = choices; p; index++) {
    const char *end = strchr(p, '|');
    size_t n = end ? (size_t)(end - p) : strlen(p);
    if (n == len && memcmp(p, word, n) == 0) return index;
    p = end ? end + 1 : NULL;
  }
  return -1;
}

const char *capl_attr_program_text(const capl_attr *attr)
{
  const program *p = program_get(attr->i);
  return p ? p->text : NULL;
}

capl_status capl_attr_set_word(const capl_op *op, capl_attr *attr, const char *name, const char *word)
{
  int index;
  CAPL_TRY(find_spec(op, name, &index));
  const capl_attr_spec *spec = &op->attrs[index];
  if (spec->kind == CAPL_ATTR_DTYPE) {
    capl_dtype dtype;
    CAPL_TRY(capl_dtype_parse(word, &dtype));
    attr[index].i = dtype;
    return CAPL_OK;
  }
  if (spec->kind == CAPL_ATTR_PROGRAM) {
    const program *p;
    CAPL_TRY(program_parse(word, &p));
    attr[index].i = p->id;
    return CAPL_OK;
  }
  if (spec->kind != CAPL_ATTR_ENUM)
    return CAPL_FAIL(CAPL_EVALUE, "%s: %s is a number, not '%s'", op->name, spec->name, word);
  int choice = choice_index(spec->choices, word);
  if (choice < 0)
    return CAPL_FAIL(CAPL_EVALUE, "%s: %s must be one of %s, not '%s'", op->name, spec->name, spec->choices, word);
  attr[index].i = choice;
  return CAPL_OK;
}

capl_status capl_attr_parse(const capl_op *op, capl_attr *attr, const char *name, const char *text)
{
  int index;
  CAPL_TRY(find_spec(op, name, &index));
  capl_attr_kind kind = op->attrs[index].kind;
  if (is_word(kind)) return capl_attr_set_word(op, attr, name, text);
  if (kind == CAPL_ATTR_BOOL && strcmp(text, "true") == 0) return capl_attr_set(op, attr, name, 1, &(double){1});
  if (kind == CAPL_ATTR_BOOL && strcmp(text, "false") == 0) return capl_attr_set(op, attr, name, 1, &(double){0});
  double values[CAPL_MAX_NDIM];
  int n = 0;
  for (const char *p = text; p && *text; n++) {
    if (n == CAPL_MAX_NDIM)
      return CAPL_FAIL(CAPL_EVALUE, "%s: %s: '%s' has more than %d numbers", op->name, name, text, CAPL_MAX_NDIM);
    char *end;
    values[n] = strtod(p, &end);
    if (end == p || (*end && *end != ','))
      return CAPL_FAIL(CAPL_EVALUE, "%s: %s: '%s' is no number", op->name, name, text);
    p = *end ? end + 1 : NULL;
  }
  return capl_attr_set(op, attr, name, n, values);
}

/* "stride=2,2 padding=1": one name=value after the other. */
static capl_status parse_all(const capl_op *op, const char *text, capl_attr *attr)
{
  char word[256], copy[1024];
  if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
    return CAPL_FAIL(CAPL_EVALUE, "%s: attribute text is too long", op->name);
  char *save = NULL;
  for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
    char *equals = strchr(p, '=');
    if (!equals) return CAPL_FAIL(CAPL_EVALUE, "%s: '%s' is not name=value", op->name, p);
    snprintf(word, sizeof word, "%.*s", (int)(equals - p), p);
    CAPL_TRY(capl_attr_parse(op, attr, word, equals + 1));
  }
  return CAPL_OK;
}

capl_status capl_run(capl_op_id id, capl_tensor *const *in, int n_in, const char *attrs, capl_tensor **out)
{
  const capl_op *op = capl_op_get(id);
  if (!op) return CAPL_FAIL(CAPL_EVALUE, "there is no op number %d", (int)id);
  capl_attr attr[CAPL_MAX_ATTR];
  capl_attr_defaults(op, attr);
  if (attrs) CAPL_TRY(parse_all(op, attrs, attr));
  return capl_op_call(id, in, n_in, attr, out);
}
