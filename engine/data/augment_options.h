/* augment_options.h -- the list of ops: their names, ranges and limits.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_AUGMENT_OPTIONS_H
#define CAPL_DATA_AUGMENT_OPTIONS_H

#include "capl/data.h"

typedef enum {
  OP_RANGE,       /* options hold a capl_range, and skip and coin count */
  OP_PROBABILITY, /* options hold a float, the probability */
  OP_MIX          /* mixup and cutmix, which exclude each other */
} op_kind;

typedef struct {
  const char *name;
  op_kind kind;
  size_t offset; /* in capl_augment_options */
  float least, most;
  float idle; /* where a range changes nothing */
} op_row;

/* ORDER capl_augment_op */
extern const op_row augment_ops[CAPL_AUGMENT_OPS];

/* Of an op with a range. */
capl_range augment_range(const capl_augment_options *options, capl_augment_op op);
static inline bool augment_is_on(capl_range range)
{
  return range.lo != 0 || range.hi != 0;
}
/* Of an op that is a probability. */
float augment_probability(const capl_augment_options *options, capl_augment_op op);
/* Whether some sample may get the op. */
bool augment_is_asked_for(const capl_augment_options *options, capl_augment_op op);

/* Whether samples may be mixed at all. */
bool capl_augment_mixes(const capl_augment_options *options);

#endif
