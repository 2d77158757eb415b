/* rules.h -- building blocks for shape rules and gradient rules.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_RULES_H
#define CAPL_OPS_RULES_H

#include "base/count.h"
#include "ops/attrs.h"
#include "capl/tape.h"

/* A local reference that is given back when its scope is left: TEMP capl_tensor *t = NULL; */
#define TEMP __attribute__((cleanup(temp_unref)))
static inline void temp_unref(capl_tensor **t)
{
  capl_tensor_unref(*t);
}

/* First in every descriptor: the op's name, and its attributes as ops.def lists them. */
#define NAME_AND_ATTRS(op) .name = #op, .attrs = capl_attrs_##op
/* Its outputs, OUTS(y, index): names and number. */
#define OUTS(...) .outs = #__VA_ARGS__, .n_out = COUNT_OUTS(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define COUNT_OUTS(a, b, c, d, e, f, g, h, n, ...) n

/* Shape rules. */

/* Output 0 has the shape, dtype and memory order of input 0. */
capl_status rule_like_first(const capl_call *call, capl_out_spec *out);
/* Output 0 has the broadcast shape and the promoted dtype of all inputs, and the memory order of the
** first dense one of that shape. */
capl_status rule_broadcast(const capl_call *call, capl_out_spec *out);
/* Broadcast of the inputs' shapes into out's sizes; ESHAPE names the two inputs and the dim. */
capl_status broadcast_sizes(const capl_call *call, capl_out_spec *out);
/* What a value of either dtype fits into: floats before integers, then the wider (PyTorch's rule). */
capl_dtype promote(capl_dtype a, capl_dtype b);
/* Fills one spec without a memory order / with that of t. */
void spec_set(capl_out_spec *out, capl_dtype dtype, int ndim, const int64_t *size);
void spec_like(capl_out_spec *out, const capl_tensor *t);

/* Checks with messages in the house style; name is the input's name in op->ins. */
capl_status need_ndim(const capl_tensor *t, const char *name, int ndim);
capl_status need_float(const capl_tensor *t, const char *name);
capl_status need_dtype(const capl_tensor *t, const char *name, capl_dtype dtype);
capl_status need_same_dtype(const capl_tensor *a, const char *a_name, const capl_tensor *b, const char *b_name);
capl_status need_same_shape(const capl_tensor *a, const char *a_name, const capl_tensor *b, const char *b_name);
/* bias may stay f32 beside 16-bit x: it is added to f32 sums. */
capl_status need_bias_dtype(const capl_tensor *x, const capl_tensor *bias);
/* t must be 1-d of length n; what says why, e.g. "output channels". */
capl_status need_vector(const capl_tensor *t, const char *name, int64_t n, const char *what);
/* dim in [-ndim, ndim) -> [0, ndim); EVALUE otherwise. Exported for kernels in a library of their own. */
CAPL_API capl_status normalize_dim(int64_t dim, int ndim, int *out);

/* Gradient rules: short calls of ordinary ops. */

/* One op with up to four inputs and up to three attributes in order; attrs NULL = the defaults. */
capl_status grad_call(capl_op_id id, int n_in, capl_tensor *const *in, const capl_attr *attr, capl_tensor **out);
#define GRAD_CALL(id, attr, out, ...)                                             \
  grad_call((id), (int)(sizeof((capl_tensor *[]){__VA_ARGS__}) / sizeof(capl_tensor *)), \
            (capl_tensor *[]){__VA_ARGS__}, (attr), (out))
/* dy summed over the dims in which an input of `like`'s shape was broadcast. New reference. */
capl_status grad_unbroadcast(capl_tensor *dy, const capl_tensor *like, capl_tensor **out);
/* The gradient may have been summed with keepdim or not: gives dy the shape of x with every reduced
** dim kept as 1 (dims as in the reductions' attribute), then expands it to x. New reference. */
capl_status grad_expand_reduced(capl_tensor *dy, const capl_tensor *x, const capl_attr *dims, capl_tensor **out);
/* y = scale * x + shift */
capl_status grad_affine(capl_tensor *x, double scale, double shift, capl_tensor **out);

#endif
