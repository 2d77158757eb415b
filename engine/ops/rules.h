/* rules.h -- building blocks for shape rules and gradient rules.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_RULES_H
#define CAPL_OPS_RULES_H

#include "capl/op.h"
#include "capl/tape.h"

/* Shape rules. */

/* Output 0 has the shape, dtype and memory order of input 0. */
capl_status rule_like_first(const capl_call *call, capl_out_spec *out);
/* Output 0 has the broadcast shape of all inputs, dtype of input 0 (inputs are already unified). */
capl_status rule_broadcast(const capl_call *call, capl_out_spec *out);
/* Fills one spec; like may be NULL. */
void spec_set(capl_out_spec *out, capl_dtype dtype, int ndim, const int64_t *size);
void spec_like(capl_out_spec *out, const capl_tensor *t);

/* Checks with messages in the house style; name is the input's name in op->ins. */
capl_status need_ndim(const capl_tensor *t, const char *name, int ndim);
capl_status need_float(const capl_tensor *t, const char *name);
capl_status need_dtype(const capl_tensor *t, const char *name, capl_dtype dtype);
capl_status need_same_dtype(const capl_tensor *a, const char *a_name, const capl_tensor *b, const char *b_name);
capl_status need_same_shape(const capl_tensor *a, const char *a_name, const capl_tensor *b, const char *b_name);
/* t must be 1-d of length n; what says why, e.g. "output channels". */
capl_status need_vector(const capl_tensor *t, const char *name, int64_t n, const char *what);
/* dim in [-ndim, ndim) -> [0, ndim); EVALUE otherwise. */
capl_status normalize_dim(int64_t dim, int ndim, int *out);

/* Gradient rules: short calls of ordinary ops. */

/* One op with up to four inputs and up to three attributes in order; attrs NULL = the defaults. */
capl_status grad_call(capl_op_id id, int n_in, capl_tensor *const *in, const capl_attr *attr, capl_tensor **out);
#define GRAD_CALL(id, attr, out, ...)                                             \
  grad_call((id), (int)(sizeof((capl_tensor *[]){__VA_ARGS__}) / sizeof(capl_tensor *)), \
            (capl_tensor *[]){__VA_ARGS__}, (attr), (out))
/* dy summed over the dims in which an input of `like`'s shape was broadcast. New reference. */
capl_status grad_unbroadcast(capl_tensor *dy, const capl_tensor *like, capl_tensor **out);
/* y = scale * x + shift */
capl_status grad_affine(capl_tensor *x, double scale, double shift, capl_tensor **out);

#endif
