/* kinds.c -- the list of kinds, made from the folders beside it, and descriptions of fields of any kind.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields/kind.h"

#define KIND(name) extern const field_kind field_kind_##name;
#include "fields/kinds.inc"
#undef KIND

const field_kind *const field_kinds[] = {
#define KIND(name) &field_kind_##name,
#include "fields/kinds.inc"
#undef KIND
  NULL};

const field_kind *field_kind_named(const char *name)
{
  for (int k = 0; field_kinds[k]; k++)
    if (strcmp(field_kinds[k]->name, name) == 0) return field_kinds[k];
  return NULL;
}

const field_kind *field_kind_pixels(void)
{
  int k = 0;
  while (!field_kinds[k]->pixels) k++;
  return field_kinds[k];
}

const field_kind *field_kind_first(void)
{
  int k = 0;
  while (!field_kinds[k]->first) k++;
  return field_kinds[k];
}

const field_kind *field_input_kind(const model_field *f) { return f->kind ? f->kind : field_kind_pixels(); }

bool capl_field_kind_is_pixels(const char *name)
{
  const field_kind *kind = field_kind_named(name);
  return kind && kind->pixels;
}

const char *capl_field_kind_name(int k)
{
  int n = 0;
  while (field_kinds[n]) n++;
  return k >= 0 && k < n ? field_kinds[k]->name : NULL;
}

static capl_status no_kind(const field_keys *k, const char *key)
{
  char all[256] = "";
  for (int i = 0; field_kinds[i]; i++) {
    size_t len = strlen(all);
    snprintf(all + len, sizeof all - len, "%s\"%s\"", i == 0 ? "" : field_kinds[i + 1] ? ", " : " or ",
             field_kinds[i]->name);
  }
  return keys_wrong(k, key, all, keys_get(k, key));
}

static capl_status read_own(const field_keys *k, model_field *f)
{
  f->own = calloc(1, f->kind->own_size + 1);
  return f->own ? f->kind->read(k, f) : CAPL_FAIL(CAPL_ENOMEM, "no memory for the description of a model");
}

capl_status model_field_read(const field_keys *k, const char *key, const char *absent, model_field *f)
{
  const cJSON *item = keys_get(k, key);
  const char *name = cJSON_IsString(item) ? item->valuestring : item ? NULL : absent;
  f->kind = name ? field_kind_named(name) : NULL;
  if (!f->kind) return no_kind(k, key);
  capl_status status = read_own(k, f);
  if (status != CAPL_OK) model_field_fini(f);
  return status;
}

void model_field_fini(model_field *f)
{
  if (f->own && f->kind->fini) f->kind->fini(f);
  free(f->own);
  capl_vocab_unref(f->vocab);
  f->own = NULL;
  f->vocab = NULL;
}

capl_status field_not_finite(void)
{
  return CAPL_FAIL(CAPL_EVALUE, "the model's output for this image is not finite");
}

bool field_finite(const double *x, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

size_t field_numbers(int ndim, const int64_t *size)
{
  size_t n = 1;
  for (int d = 0; d < ndim; d++) n *= (size_t)size[d];
  return n;
}
