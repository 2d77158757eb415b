/* build.h -- an ONNX graph being written: nodes, constants, inputs and outputs, values by name.
**
** A value is its name, which lives as long as the graph. The first failure stays in status; what is called after it
** does nothing, so writers check nothing.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_ONNX_BUILD_H
#define CAPL_IO_ONNX_BUILD_H

#include "base/room.h"
#include "capl/tensor.h"
#include "onnx.pb-c.h"

/* TensorProto.DataType */
typedef enum { ONNX_F32 = 1, ONNX_U8 = 2, ONNX_I32 = 6, ONNX_I64 = 7, ONNX_BOOL = 9, ONNX_F64 = 11 } onnx_type;
/* 16-bit types are f32 in a file. */
onnx_type onnx_type_of(capl_dtype dtype);

#define ONNX_NONE "" /* an optional input left out */

typedef struct {
  base_room *room; /* all that the graph consists of */
  capl_status status;
  Onnx__GraphProto graph;
  size_t rooms[4];    /* entries that its lists have room for: nodes, initializers, inputs, outputs */
  Onnx__NodeProto *last; /* that attributes are added to */
  char scope[128];    /* that new names begin with */
  int count;          /* of names made */
  const char *batch;  /* i64 (1): N; NULL = nobody has asked */
  const char *width;  /* i64 (): number of the width; NULL = there is one width */
  const char *first_input;
} onnx_build;

void onnx_build_init(onnx_build *b);
void onnx_build_fini(onnx_build *b);
/* n zero bytes of the graph's memory; NULL sets status. */
void *onnx_alloc(onnx_build *b, size_t n);
const char *onnx_text(onnx_build *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void onnx_scope(onnx_build *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- nodes ------------------------------------------------------------------------------------- */

/* A node with one output, whose name is returned. in: names, NULL behind the last. */
const char *onnx_node(onnx_build *b, const char *type, const char *const *in);
#define ONNX(b, type, ...) onnx_node(b, type, (const char *const[]){__VA_ARGS__, NULL})
/* Of the last node: one more output; attributes. */
const char *onnx_also(onnx_build *b);
void onnx_int(onnx_build *b, const char *name, int64_t value);
void onnx_ints(onnx_build *b, const char *name, int n, const int64_t *values);
void onnx_real(onnx_build *b, const char *name, double value);
void onnx_word(onnx_build *b, const char *name, const char *value);
#define ONNX_INTS(b, name, ...)                                                                   \
  onnx_ints(b, name, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

/* ---- constants --------------------------------------------------------------------------------- */

/* A copy of bytes in the file's order. */
const char *onnx_constant(onnx_build *b, const char *name, onnx_type type, int ndim, const int64_t *size,
                          const void *bytes);
/* A tensor with its name, row-major; 16 bits become f32. */
const char *onnx_weight(onnx_build *b, const char *name, const capl_tensor *t);
/* i64 (n) */
const char *onnx_list(onnx_build *b, int n, const int64_t *values);
#define ONNX_LIST(b, ...) \
  onnx_list(b, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
/* A number without dims. */
const char *onnx_number(onnx_build *b, onnx_type type, double value);
/* f32 (n) */
const char *onnx_floats(onnx_build *b, int n, const float *values);

/* ---- short forms ------------------------------------------------------------------------------- */

const char *onnx_cast(onnx_build *b, const char *x, onnx_type type);
/* x op number, of type */
const char *onnx_with(onnx_build *b, const char *op, const char *x, onnx_type type, double number);
/* i64 (1): size of a dim of x */
const char *onnx_dim(onnx_build *b, const char *x, int dim);
const char *onnx_permute(onnx_build *b, const char *x, int n, const int64_t *dims);
#define ONNX_PERMUTE(b, x, ...)                                                                      \
  onnx_permute(b, x, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
/* Positions from … to - 1 of a dim. */
const char *onnx_slice(onnx_build *b, const char *x, int64_t dim, int64_t from, int64_t to);
/* N as i64 (1) */
const char *onnx_batch(onnx_build *b);

/* ---- the ends ---------------------------------------------------------------------------------- */

/* size: -1 = the name in free, whatever it is. */
void onnx_input(onnx_build *b, const char *name, onnx_type type, int ndim, const int64_t *size,
                const char *const *free);
void onnx_output(onnx_build *b, const char *value, const char *name, onnx_type type, int ndim, const int64_t *size,
                 const char *const *free);

#endif
