/* op.c -- the table of descriptors, made from ops.def.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/op.h"

#include <string.h>

#include "ops/activation.h"
#include "ops/attrs.h"

/* const capl_attr_spec capl_attrs_conv2d[CAPL_MAX_ATTR + 1] = {{.name = "stride", ...}, ..., {0}}; an OP ends the list
** before it. */
const capl_attr_spec capl_attrs_of_no_op[] = {
#define OP(op) {0}}; const capl_attr_spec capl_attrs_##op[CAPL_MAX_ATTR + 1] = {
#define ATTR(which, attribute, ...) {.name = #attribute, .kind = CAPL_ATTR_##which, __VA_ARGS__},
#include "capl/ops.def"
{0}};

#define OP(op) static_assert(sizeof(struct attrs_##op) <= CAPL_MAX_ATTR * sizeof(capl_attr), "attributes of " #op);
#include "capl/ops.def"

/* A line of ops.def without a descriptor is an undefined reference to capl_op_<name> here. */
#define OP(name) extern const capl_op capl_op_##name;
#include "capl/ops.def"

static const capl_op *const table[CAPL_OP_COUNT] = {
#define OP(name) &capl_op_##name,
#include "capl/ops.def"
};

const capl_op *capl_op_get(capl_op_id id)
{
  return (unsigned)id < CAPL_OP_COUNT ? table[id] : NULL;
}

const capl_op *capl_op_find(const char *name)
{
  for (int id = 0; id < CAPL_OP_COUNT; id++)
    if (strcmp(table[id]->name, name) == 0) return table[id];
  return NULL;
}

capl_op_id capl_op_id_of(const capl_op *op)
{
  for (int id = 0; id < CAPL_OP_COUNT; id++)
    if (table[id] == op) return (capl_op_id)id;
  return CAPL_OP_COUNT;
}
