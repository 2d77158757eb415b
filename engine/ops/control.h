/* control.h -- the step control: a small vector by which the device itself decides about an optimizer's step.
**
** A step must not wait for the host: whether its gradients are finite, by how much they are clipped, which loss scale
** the next step uses and how many steps were made are numbers in device memory. The op step_control writes them, the
** optimizer steps (sgd_step ...) read them when they get the vector as their last tensor, and the host reads them when
** somebody asks. So a step that is replayed from a recording meets new values. Counts are exact up to 2^24.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_CONTROL_H
#define CAPL_OPS_CONTROL_H

#include "ops/attrs.h"

/* Elements of the vector. Rates of all parameter groups follow from CONTROL_LR on; the host writes them. */
enum {
  CONTROL_SCALE,      /* loss scale: the gradient of the loss that backward starts from; 1 without scaling */
  CONTROL_TRACKER,    /* finite steps since the scale changed */
  CONTROL_STEPS,      /* steps made, the present one included; skipped ones do not count */
  CONTROL_SKIPPED,    /* steps left out because a gradient was not finite */
  CONTROL_MULTIPLIER, /* what the gradients of this step are multiplied by: 1 / scale, and clipping */
  CONTROL_SKIP,       /* 1: this step changes nothing */
  CONTROL_NORM,       /* of the last gradients, without the scale */
  CONTROL_GROWTHS,    /* how often the scale grew */
  CONTROL_LR
};

/* Attributes of step_control. */
enum {
  CONTROL_MAX_NORM = AT(step_control, max_norm),
  CONTROL_SCALING = AT(step_control, scaling),
  CONTROL_GROWTH = AT(step_control, growth_factor),
  CONTROL_BACKOFF = AT(step_control, backoff_factor),
  CONTROL_INTERVAL = AT(step_control, growth_interval),
};

/* Attributes that all steps share: lr is the first one; these follow each other after those of the method. */
enum { STEP_LR = AT(sgd_step, lr) };
SAME_PLACE(sgd_step, adam_step, lr);
SAME_PLACE(adam_step, amsgrad_step, lr);
SAME_PLACE(adam_step, amsgrad_step, grad_scale);
SAME_PLACE(sgd_step, rmsprop_step, lr);
SAME_PLACE(sgd_step, muon_step, lr);
enum { /* counted from the position of grad_scale */
  STEP_GRAD_SCALE,
  STEP_GROUP = AT(sgd_step, group) - AT(sgd_step, grad_scale),
  STEP_BEHIND = AT(sgd_step, behind) - AT(sgd_step, grad_scale),
};

#endif
