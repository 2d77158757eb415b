/* scaled.h -- numbers with names, each with its mean and standard deviation: once, or at each of several steps.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FIELDS_SCALED_H
#define CAPL_FIELDS_SCALED_H

#include "fields/kind.h"

enum { SCALED_MAX = 4096 /* names */ };

typedef struct {
  double *mean, *std; /* [D]; owned */
} scaled;

/* Names below `key`, mean (0) and std (1). */
capl_status scaled_read(const field_keys *k, const char *key, model_field *f);
void scaled_fini(model_field *f);
/* As of field_kind; the names go round. */
capl_status scaled_decode(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                          capl_output *out);
void scaled_encode(const model_field *f, const float *in, size_t n, float *out);

#endif
