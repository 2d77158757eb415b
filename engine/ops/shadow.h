/* shadow.h -- casts of weights that are kept (tensor/shadow.h), and optimizer steps that keep them fresh.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_SHADOW_H
#define CAPL_OPS_SHADOW_H

#include "capl/op.h"
#include "tensor/shadow.h"

/* *out := t in dtype, a new reference over its shadow, made fresh; NULL where t's casts are not kept: it is no f32 leaf
** that wants gradients or is named a weight, or no view of all of its storage, or its shadow of another type is in
** use. */
capl_status shadow_get(capl_tensor *t, capl_dtype dtype, capl_tensor **out);

enum { SHADOWS_TOGETHER = 64 };

/* Casts the weights of n <= SHADOWS_TOGETHER shadows of one device again, in place: in one launch where the backend has
** copy_many. */
capl_status shadows_refresh(capl_shadow *const *list, int n);

/* Around the writes of an op with step_groups: hold before the versions of what it writes grow, follow after. Shadows
** of params that were fresh then count as fresh, and the kernel writes them; drop: it failed. */
void shadows_hold(const capl_call *call);
void shadows_follow(const capl_call *call);
void shadows_drop(const capl_call *call);

#endif
