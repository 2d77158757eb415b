/* build.c -- puts an ONNX graph together in memory.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES, INITIALIZERS, INPUTS, OUTPUTS };

onnx_type onnx_type_of(capl_dtype dtype)
{
  static const onnx_type types[CAPL_DTYPE_COUNT] = {
    [CAPL_F32] = ONNX_F32, [CAPL_F16] = ONNX_F32, [CAPL_BF16] = ONNX_F32, [CAPL_U8] = ONNX_U8,
    [CAPL_I32] = ONNX_I32, [CAPL_I64] = ONNX_I64, [CAPL_BOOL] = ONNX_BOOL, [CAPL_F64] = ONNX_F64};
  return types[dtype];
}

void onnx_build_init(onnx_build *b)
{
  *b = (onnx_build){.graph = ONNX__GRAPH_PROTO__INIT};
}

void onnx_build_fini(onnx_build *b) { room_free(b->room); }

void *onnx_alloc(onnx_build *b, size_t n)
{
  void *p = b->status == CAPL_OK ? room_alloc(&b->room, n ? n : 1) : NULL;
  if (!p && b->status == CAPL_OK) b->status = CAPL_FAIL(CAPL_ENOMEM, "no memory for an ONNX file");
  return p;
}

const char *onnx_text(onnx_build *b, const char *format, ...)
{
  va_list list;
  char text[512];
  va_start(list, format);
  int n = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  char *copy = onnx_alloc(b, (size_t)(n < 0 ? 0 : n) + 1);
  if (copy) snprintf(copy, sizeof text < (size_t)n + 1 ? sizeof text : (size_t)n + 1, "%s", text);
  return copy ? copy : "";
}

void onnx_scope(onnx_build *b, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  vsnprintf(b->scope, sizeof b->scope, format, list);
  va_end(list);
}

/* Adds an entry to a list of pointers that the graph's memory holds; it doubles. */
static void append(onnx_build *b, int which, void ***list, size_t *n, void *entry)
{
  if (!entry) return;
  if (*n == b->rooms[which]) {
    size_t room = *n ? 2 * *n : 64;
    void **grown = onnx_alloc(b, room * sizeof *grown);
    if (!grown) return;
    if (*n) memcpy(grown, *list, *n * sizeof *grown);
    *list = grown;
    b->rooms[which] = room;
  }
  (*list)[(*n)++] = entry;
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static char **names_with(onnx_build *b, char *const *list, size_t n, const char *one)
{
  char **out = onnx_alloc(b, (n + 1) * sizeof *out);
  if (!out) return NULL;
  if (n) memcpy(out, list, n * sizeof *out);
  out[n] = (char *)one;
  return out;
}

const char *onnx_node(onnx_build *b, const char *type, const char *const *in)
{
  Onnx__NodeProto *node = onnx_alloc(b, sizeof *node);
  size_t n = 0;
  while (in[n]) n++;
  if (!node) return "";
  onnx__node_proto__init(node);
  node->input = onnx_alloc(b, n * sizeof *node->input);
  if (node->input) memcpy(node->input, in, n * sizeof *node->input);
  node->n_input = n;
  while (node->n_input > 0 && !*in[node->n_input - 1]) node->n_input--;
  node->op_type = (char *)onnx_text(b, "%s", type);
  node->name = (char *)onnx_text(b, "%s/%s_%d", b->scope, type, ++b->count);
  node->output = names_with(b, NULL, 0, node->name);
  node->n_output = 1;
  append(b, NODES, (void ***)&b->graph.node, &b->graph.n_node, node);
  b->last = node;
  return b->status == CAPL_OK ? node->name : "";
}

const char *onnx_also(onnx_build *b)
{
  if (b->status != CAPL_OK) return "";
  Onnx__NodeProto *node = b->last;
  const char *name = onnx_text(b, "%s.%zu", node->name, node->n_output);
  node->output = names_with(b, node->output, node->n_output, name);
  node->n_output++;
  return name;
}

static Onnx__AttributeProto *attribute(onnx_build *b, const char *name, Onnx__AttributeProto__AttributeType type)
{
  Onnx__AttributeProto *a = onnx_alloc(b, sizeof *a);
  if (!a) return NULL;
  Onnx__NodeProto *node = b->last;
  Onnx__AttributeProto **list = onnx_alloc(b, (node->n_attribute + 1) * sizeof *list);
  if (!list) return NULL;
  if (node->n_attribute) memcpy(list, node->attribute, node->n_attribute * sizeof *list);
  onnx__attribute_proto__init(a);
  a->name = (char *)onnx_text(b, "%s", name);
  a->has_type = true;
  a->type = type;
  list[node->n_attribute++] = a;
  node->attribute = list;
  return a;
}

void onnx_int(onnx_build *b, const char *name, int64_t value)
{
  Onnx__AttributeProto *a = attribute(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  if (a) a->has_i = true, a->i = value;
}

void onnx_ints(onnx_build *b, const char *name, int n, const int64_t *values)
{
  Onnx__AttributeProto *a = attribute(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  if (!a) return;
  a->ints = onnx_alloc(b, (size_t)n * sizeof *values);
  if (!a->ints) return;
  memcpy(a->ints, values, (size_t)n * sizeof *values);
  a->n_ints = (size_t)n;
}

void onnx_real(onnx_build *b, const char *name, double value)
{
  Onnx__AttributeProto *a = attribute(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  if (a) a->has_f = true, a->f = (float)value;
}

void onnx_word(onnx_build *b, const char *name, const char *value)
{
  Onnx__AttributeProto *a = attribute(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  if (!a) return;
  a->has_s = true;
  a->s.len = strlen(value);
  a->s.data = (uint8_t *)onnx_text(b, "%s", value);
}

/* ---- constants --------------------------------------------------------------------------------- */

static size_t bytes_of(onnx_type type)
{
  return type == ONNX_F32 || type == ONNX_I32 ? 4 : type == ONNX_I64 || type == ONNX_F64 ? 8 : 1;
}

/* Its bytes, to be filled; NULL where status is set. */
static void *new_constant(onnx_build *b, const char *name, onnx_type type, int ndim, const int64_t *size)
{
  Onnx__TensorProto *t = onnx_alloc(b, sizeof *t);
  size_t n = bytes_of(type);
  if (!t) return NULL;
  onnx__tensor_proto__init(t);
  t->name = (char *)name;
  t->has_data_type = t->has_raw_data = true;
  t->data_type = (int32_t)type;
  t->n_dims = (size_t)ndim;
  t->dims = onnx_alloc(b, (size_t)ndim * sizeof *t->dims);
  for (int d = 0; t->dims && d < ndim; d++) t->dims[d] = size[d], n *= (size_t)size[d];
  t->raw_data.len = n;
  t->raw_data.data = onnx_alloc(b, n);
  append(b, INITIALIZERS, (void ***)&b->graph.initializer, &b->graph.n_initializer, t);
  return b->status == CAPL_OK ? t->raw_data.data : NULL;
}

const char *onnx_constant(onnx_build *b, const char *name, onnx_type type, int ndim, const int64_t *size,
                          const void *bytes)
{
  if (!name) name = onnx_text(b, "%s/constant_%d", b->scope, ++b->count);
  size_t n = bytes_of(type);
  for (int d = 0; d < ndim; d++) n *= (size_t)size[d];
  void *to = new_constant(b, name, type, ndim, size);
  if (to && n) memcpy(to, bytes, n);
  return name;
}

/* n numbers as type. */
static void convert(const double *from, size_t n, onnx_type type, void *to)
{
  for (size_t i = 0; i < n; i++) switch (type) {
      case ONNX_F32: ((float *)to)[i] = (float)from[i]; break;
      case ONNX_F64: ((double *)to)[i] = from[i]; break;
      case ONNX_I32: ((int32_t *)to)[i] = (int32_t)from[i]; break;
      case ONNX_I64: ((int64_t *)to)[i] = (int64_t)from[i]; break;
      default: ((uint8_t *)to)[i] = (uint8_t)from[i];
    }
}

const char *onnx_weight(onnx_build *b, const char *name, const capl_tensor *t)
{
  size_t n = (size_t)capl_tensor_numel(t);
  onnx_type type = onnx_type_of(t->dtype);
  void *to = new_constant(b, name, type, t->ndim, t->size);
  double *values = malloc((n + 1) * sizeof *values);
  if (!values && b->status == CAPL_OK) b->status = CAPL_FAIL(CAPL_ENOMEM, "no memory for the weight %s", name);
  if (to && values) b->status = capl_tensor_to_doubles(t, values);
  if (to && values) convert(values, n, type, to);
  free(values);
  return name;
}

const char *onnx_list(onnx_build *b, int n, const int64_t *values)
{
  return onnx_constant(b, NULL, ONNX_I64, 1, (const int64_t[]){n}, values);
}

const char *onnx_number(onnx_build *b, onnx_type type, double value)
{
  int64_t room;
  convert(&value, 1, type, &room);
  return onnx_constant(b, NULL, type, 0, NULL, &room);
}

const char *onnx_floats(onnx_build *b, int n, const float *values)
{
  return onnx_constant(b, NULL, ONNX_F32, 1, (const int64_t[]){n}, values);
}

/* ---- short forms ------------------------------------------------------------------------------- */

const char *onnx_cast(onnx_build *b, const char *x, onnx_type type)
{
  const char *y = ONNX(b, "Cast", x);
  onnx_int(b, "to", (int64_t)type);
  return y;
}

const char *onnx_with(onnx_build *b, const char *op, const char *x, onnx_type type, double number)
{
  return ONNX(b, op, x, onnx_number(b, type, number));
}

const char *onnx_dim(onnx_build *b, const char *x, int dim)
{
  const char *y = ONNX(b, "Shape", x);
  onnx_int(b, "start", dim);
  onnx_int(b, "end", dim + 1);
  return y;
}

const char *onnx_permute(onnx_build *b, const char *x, int n, const int64_t *dims)
{
  const char *y = ONNX(b, "Transpose", x);
  onnx_ints(b, "perm", n, dims);
  return y;
}

const char *onnx_slice(onnx_build *b, const char *x, int64_t dim, int64_t from, int64_t to)
{
  const char *start = ONNX_LIST(b, from), *end = ONNX_LIST(b, to), *axis = ONNX_LIST(b, dim);
  return ONNX(b, "Slice", x, start, end, axis);
}

const char *onnx_batch(onnx_build *b)
{
  if (!b->batch) b->batch = onnx_dim(b, b->first_input, 0);
  return b->batch;
}

/* ---- the ends ---------------------------------------------------------------------------------- */

static Onnx__TensorShapeProto *new_shape(onnx_build *b, int ndim, const int64_t *size, const char *const *free)
{
  Onnx__TensorShapeProto *shape = onnx_alloc(b, sizeof *shape);
  Onnx__TensorShapeProto__Dimension *dims = onnx_alloc(b, (size_t)ndim * sizeof *dims);
  Onnx__TensorShapeProto__Dimension **list = onnx_alloc(b, (size_t)ndim * sizeof *list);
  if (!shape || !dims || !list) return NULL;
  onnx__tensor_shape_proto__init(shape);
  shape->n_dim = (size_t)ndim;
  shape->dim = list;
  for (int d = 0; d < ndim; d++) {
    list[d] = &dims[d];
    onnx__tensor_shape_proto__dimension__init(list[d]);
    if (size[d] < 0) list[d]->dim_param = (char *)free[d];
    else list[d]->has_dim_value = true, list[d]->dim_value = size[d];
  }
  return shape;
}

static Onnx__ValueInfoProto *new_port(onnx_build *b, const char *name, onnx_type type, int ndim, const int64_t *size,
                                      const char *const *free)
{
  Onnx__ValueInfoProto *port = onnx_alloc(b, sizeof *port);
  Onnx__TypeProto *of = onnx_alloc(b, sizeof *of);
  Onnx__TypeProto__Tensor *tensor = onnx_alloc(b, sizeof *tensor);
  if (!port || !of || !tensor) return NULL;
  onnx__value_info_proto__init(port);
  onnx__type_proto__init(of);
  onnx__type_proto__tensor__init(tensor);
  port->name = (char *)name;
  port->type = of;
  of->tensor_type = tensor;
  tensor->has_elem_type = true;
  tensor->elem_type = (int32_t)type;
  tensor->shape = new_shape(b, ndim, size, free);
  return port;
}

void onnx_input(onnx_build *b, const char *name, onnx_type type, int ndim, const int64_t *size,
                const char *const *free)
{
  append(b, INPUTS, (void ***)&b->graph.input, &b->graph.n_input, new_port(b, name, type, ndim, size, free));
}

void onnx_output(onnx_build *b, const char *value, const char *name, onnx_type type, int ndim, const int64_t *size,
                 const char *const *free)
{
  ONNX(b, "Identity", value);
  if (b->status == CAPL_OK) b->last->output[0] = (char *)name;
  append(b, OUTPUTS, (void ***)&b->graph.output, &b->graph.n_output, new_port(b, name, type, ndim, size, free));
}
