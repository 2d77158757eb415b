/* dtype.c -- element types and their names.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "base/names.h"
#include "capl/tensor.h"

typedef struct {
  const char *name;
  size_t bytes;
  bool real;
} dtype_info;

static const dtype_info info[CAPL_DTYPE_COUNT] = {
#define X(code, name, bytes, real) {name, bytes, real},
  CAPL_DTYPE_MAP(X)
#undef X
};

/* PyTorch's names for the same types. */
static const struct {
  const char *name;
  capl_dtype dtype;
} aliases[] = {
  {"float32", CAPL_F32}, {"float", CAPL_F32},   {"fp32", CAPL_F32},    {"float16", CAPL_F16},
  {"half", CAPL_F16},    {"fp16", CAPL_F16},    {"bfloat16", CAPL_BF16}, {"uint8", CAPL_U8},
  {"int32", CAPL_I32},   {"int", CAPL_I32},     {"int64", CAPL_I64},   {"long", CAPL_I64},
  {"float64", CAPL_F64}, {"double", CAPL_F64},
};

const char *capl_dtype_name(capl_dtype dtype)
{
  return (unsigned)dtype < CAPL_DTYPE_COUNT ? info[dtype].name : "?";
}

size_t capl_dtype_size(capl_dtype dtype)
{
  return info[dtype].bytes;
}

bool capl_dtype_is_float(capl_dtype dtype)
{
  return info[dtype].real;
}

capl_status capl_dtype_parse(const char *name, capl_dtype *out)
{
  capl_suggestion near = {.wanted = name};
  for (int d = 0; d < CAPL_DTYPE_COUNT; d++) {
    if (strcmp(name, info[d].name) == 0) return *out = (capl_dtype)d, CAPL_OK;
    capl_suggest(&near, info[d].name);
  }
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(name, aliases[i].name) == 0) return *out = aliases[i].dtype, CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "unknown dtype '%s'", name);
  capl_error_hint("%s%s%sdtypes are f32, f16, bf16, u8, i32, i64, bool and f64", near.nearest ? "did you mean '" : "",
                  near.nearest ? near.nearest : "", near.nearest ? "'? " : "");
  return CAPL_EVALUE;
}
