/* dnn_record.c -- records as data: their tensors, their text form, and which of them cuDNN can run.
**
** Knows no cuDNN, so that the same rules hold in every build of the backend.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/dnn.h"
#include "base/names.h"

/* ---- fields, in the order of the text form ------------------------------------------------------ */

/* Lists of numbers. A list full of its default is left out of the text. */
static const struct {
  const char *name;
  size_t offset;
  int count;
  int64_t normal;
} numbers[] = {
  {"x", offsetof(dnn_record, x), 4, 0},
  {"y", offsetof(dnn_record, y), 4, 0},
  {"kernel", offsetof(dnn_record, kernel), 2, 1},
  {"stride", offsetof(dnn_record, stride), 2, 1},
  {"padding", offsetof(dnn_record, padding), 2, 0},
  {"dilation", offsetof(dnn_record, dilation), 2, 1},
  {"groups", offsetof(dnn_record, groups), 1, 1},
};

static const struct {
  const char *name;
  size_t offset;
} flags[] = {
  {"relu", offsetof(dnn_record, relu)},
  {"add", offsetof(dnn_record, add)},
  {"running", offsetof(dnn_record, running)},
  {"index", offsetof(dnn_record, index)},
  {"count_pad", offsetof(dnn_record, count_pad)},
  {"tf32", offsetof(dnn_record, tf32)},
  {"deterministic", offsetof(dnn_record, deterministic)},
};

enum { NUMBERS = sizeof numbers / sizeof *numbers, FLAGS = sizeof flags / sizeof *flags };

static const char *const kind_names[DNN_KINDS] = {
#define X(code, text) [DNN_##code] = text,
  DNN_KIND_MAP(X)
#undef X
};

static const char *const role_names[DNN_ROLES] = {
#define X(code, text) [DNN_##code] = text,
  DNN_ROLE_MAP(X)
#undef X
};

static int64_t *number_field(dnn_record *record, int i)
{
  return (int64_t *)(void *)((char *)record + numbers[i].offset);
}

static bool *flag_field(dnn_record *record, int i)
{
  return (bool *)((char *)record + flags[i].offset);
}

/* The fields in one list of numbers, for comparing and hashing: a struct may have gaps. */
enum { KEY_NUMBERS = 2 + 4 + 4 + 4 * 2 + 1 + 2 + FLAGS };

static void key_of(const dnn_record *record, int64_t *key)
{
  dnn_record r = *record;
  *key++ = r.kind;
  *key++ = r.dtype;
  for (int i = 0; i < NUMBERS; i++)
    for (int k = 0; k < numbers[i].count; k++) *key++ = number_field(&r, i)[k];
  *key++ = r.bias;
  *key++ = r.bias ? (int64_t)r.bias_dtype : 0;
  for (int i = 0; i < FLAGS; i++) *key++ = *flag_field(&r, i);
}

uint64_t dnn_hash(const dnn_record *record)
{
  int64_t key[KEY_NUMBERS];
  uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a, a number at a time */
  key_of(record, key);
  for (int i = 0; i < KEY_NUMBERS; i++) hash = (hash ^ (uint64_t)key[i]) * 0x100000001B3u;
  return hash ^ hash >> 32;
}

bool dnn_same(const dnn_record *a, const dnn_record *b)
{
  int64_t of_a[KEY_NUMBERS], of_b[KEY_NUMBERS];
  key_of(a, of_a);
  key_of(b, of_b);
  return memcmp(of_a, of_b, sizeof of_a) == 0;
}

void dnn_record_init(dnn_record *record, dnn_kind kind, capl_dtype dtype)
{
  memset(record, 0, sizeof *record);
  record->kind = kind;
  record->dtype = dtype;
  record->bias_dtype = dtype;
  for (int i = 0; i < NUMBERS; i++)
    for (int k = 0; k < numbers[i].count; k++) number_field(record, i)[k] = numbers[i].normal;
}

/* ---- text ------------------------------------------------------------------------------------------ */

/* Grows a text in a buffer of fixed size; what does not fit is cut. */
typedef struct {
  char *buf;
  size_t len, used;
} writer;

static void put(writer *w, const char *fmt, ...) CAPL_PRINTF(2, 3);
static void put(writer *w, const char *fmt, ...)
{
  if (w->used >= w->len) return;
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(w->buf + w->used, w->len - w->used, fmt, args);
  va_end(args);
  if (n > 0) w->used += (size_t)n;
}

static bool all_normal(const int64_t *values, int i)
{
  for (int k = 0; k < numbers[i].count; k++)
    if (values[k] != numbers[i].normal) return false;
  return true;
}

const char *dnn_describe(const dnn_record *record, char *buf, size_t len)
{
  dnn_record r = *record;
  writer w = {buf, len, 0};
  put(&w, "%s %s", kind_names[r.kind], capl_dtype_name(r.dtype));
  for (int i = 0; i < NUMBERS; i++) {
    const int64_t *values = number_field(&r, i);
    if (all_normal(values, i)) continue;
    put(&w, " %s=%" PRId64, numbers[i].name, values[0]);
    for (int k = 1; k < numbers[i].count; k++) put(&w, ",%" PRId64, values[k]);
  }
  if (r.bias) put(&w, " bias=%s", capl_dtype_name(r.bias_dtype));
  for (int i = 0; i < FLAGS; i++)
    if (*flag_field(&r, i)) put(&w, " %s", flags[i].name);
  return buf;
}

static capl_status unknown(const char *what, const char *word, const char *const *names, int count)
{
  capl_suggestion nearest = {.wanted = word};
  for (int i = 0; i < count; i++) capl_suggest(&nearest, names[i]);
  capl_status status = CAPL_FAIL(CAPL_EVALUE, "a record has no %s '%s'", what, word);
  if (nearest.nearest) capl_error_hint("did you mean '%s'?", nearest.nearest);
  return status;
}

static capl_status parse_kind(const char *word, dnn_kind *kind)
{
  for (int i = 0; i < DNN_KINDS; i++)
    if (strcmp(word, kind_names[i]) == 0) {
      *kind = (dnn_kind)i;
      return CAPL_OK;
    }
  return unknown("kind", word, kind_names, DNN_KINDS);
}

static capl_status parse_numbers(const char *word, const char *text, int i, dnn_record *out)
{
  int64_t *values = number_field(out, i);
  for (int k = 0; k < numbers[i].count; k++) {
    char *end;
    values[k] = strtoll(text, &end, 10);
    bool last = k + 1 == numbers[i].count;
    if (end == text || *end != (last ? '\0' : ','))
      return CAPL_FAIL(CAPL_EVALUE, "'%s' of a record: %d numbers are needed, separated by commas", word,
                       numbers[i].count);
    text = end + 1;
  }
  return CAPL_OK;
}

/* "name=values" or a flag. */
static capl_status parse_field(const char *word, dnn_record *out)
{
  size_t name = strcspn(word, "=");
  for (int i = 0; i < NUMBERS && word[name]; i++)
    if (strlen(numbers[i].name) == name && strncmp(word, numbers[i].name, name) == 0)
      return parse_numbers(word, word + name + 1, i, out);
  if (strncmp(word, "bias=", 5) == 0) {
    out->bias = true;
    return capl_dtype_parse(word + 5, &out->bias_dtype);
  }
  const char *names[FLAGS];
  for (int i = 0; i < FLAGS; i++) {
    names[i] = flags[i].name;
    if (strcmp(word, names[i]) != 0) continue;
    *flag_field(out, i) = true;
    return CAPL_OK;
  }
  return unknown("field", word, names, FLAGS);
}

capl_status dnn_parse(const char *text, dnn_record *out)
{
  char copy[DNN_TEXT];
  if (strlen(text) >= sizeof copy) return CAPL_FAIL(CAPL_EVALUE, "a record of %zu characters", strlen(text));
  strcpy(copy, text);
  char *rest = NULL, *word = strtok_r(copy, " \n", &rest);
  dnn_kind kind = DNN_CONV;
  capl_dtype dtype = CAPL_F32;
  CAPL_TRY(parse_kind(word ? word : "", &kind));
  word = strtok_r(NULL, " \n", &rest);
  CAPL_TRY(capl_dtype_parse(word ? word : "", &dtype));
  dnn_record_init(out, kind, dtype);
  while ((word = strtok_r(NULL, " \n", &rest))) CAPL_TRY(parse_field(word, out));
  return CAPL_OK;
}

/* ---- tensors --------------------------------------------------------------------------------------- */

#define ROLE(role) (1u << DNN_##role)

static const struct {
  uint32_t reads, writes;
} kind_tensors[DNN_KINDS] = {
  [DNN_CONV] = {ROLE(X) | ROLE(W), ROLE(Y)},
  [DNN_CONV_GRAD_X] = {ROLE(DY) | ROLE(W), ROLE(DX)},
  [DNN_CONV_GRAD_W] = {ROLE(X) | ROLE(DY), ROLE(DW)},
  [DNN_NORM] = {ROLE(X) | ROLE(SCALE) | ROLE(SHIFT), ROLE(Y) | ROLE(MEAN) | ROLE(INVSTD)},
  [DNN_NORM_GRAD] = {ROLE(X) | ROLE(DY) | ROLE(SCALE) | ROLE(MEAN) | ROLE(INVSTD),
                     ROLE(DX) | ROLE(DSCALE) | ROLE(DSHIFT)},
  [DNN_MAX_POOL] = {ROLE(X), ROLE(Y)},
  [DNN_MAX_POOL_GRAD] = {ROLE(DY) | ROLE(INDEX), ROLE(DX)},
  [DNN_AVG_POOL] = {ROLE(X), ROLE(Y)},
  [DNN_AVG_POOL_GRAD] = {ROLE(DY), ROLE(DX)},
};

static uint32_t roles_read(const dnn_record *r)
{
  return kind_tensors[r->kind].reads | (r->bias ? ROLE(BIAS) : 0) | (r->add ? ROLE(ADD) : 0) |
         (r->running ? ROLE(RUNNING_MEAN) | ROLE(RUNNING_VAR) : 0);
}

static uint32_t roles_written(const dnn_record *r)
{
  return kind_tensors[r->kind].writes | (r->index ? ROLE(INDEX) : 0) |
         (r->running ? ROLE(RUNNING_MEAN) | ROLE(RUNNING_VAR) : 0);
}

static void set_size(dnn_tensor *t, capl_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w)
{
  t->dtype = dtype;
  memcpy(t->size, (int64_t[4]){n, c, h, w}, sizeof t->size);
}

dnn_tensor dnn_tensor_of(const dnn_record *r, dnn_role role)
{
  uint32_t bit = 1u << role, image_of_x = ROLE(X) | ROLE(DX), image_of_y = ROLE(Y) | ROLE(DY) | ROLE(ADD);
  dnn_tensor t = {.read = roles_read(r) & bit, .written = roles_written(r) & bit};
  t.used = t.read || t.written;
  if (bit & image_of_x) set_size(&t, r->dtype, r->x[0], r->x[1], r->x[2], r->x[3]);
  else if (bit & image_of_y) set_size(&t, r->dtype, r->y[0], r->y[1], r->y[2], r->y[3]);
  else if (role == DNN_INDEX) set_size(&t, CAPL_U8, r->y[0], r->y[1], r->y[2], r->y[3]);
  else if (role == DNN_W || role == DNN_DW)
    set_size(&t, r->dtype, r->y[1], r->x[1] / (r->groups > 0 ? r->groups : 1), r->kernel[0], r->kernel[1]);
  else if (role == DNN_BIAS) set_size(&t, r->bias_dtype, 1, r->y[1], 1, 1);
  else set_size(&t, CAPL_F32, 1, r->x[1], 1, 1);
  return t;
}

const char *dnn_kind_name(dnn_kind kind)
{
  return kind_names[kind];
}

const char *dnn_role_name(dnn_role role)
{
  return role_names[role];
}

/* ---- rules ----------------------------------------------------------------------------------------- */

static bool is_conv(const dnn_record *r) { return r->kind <= DNN_CONV_GRAD_W; }
static bool is_norm(const dnn_record *r) { return r->kind == DNN_NORM || r->kind == DNN_NORM_GRAD; }

static bool has_empty_tensor(const dnn_record *r)
{
  for (int i = 0; i < 4; i++)
    if (r->x[i] < 1 || r->y[i] < 1) return true;
  return r->kernel[0] < 1 || r->kernel[1] < 1;
}

static const char *conv_refusal(const dnn_record *r)
{
  if (r->groups < 1 || r->x[1] % r->groups || r->y[1] % r->groups) return "groups do not divide the channels";
  return NULL;
}

/* cuDNN's batch norm engines load 16 bytes of channels at a time. */
static const char *norm_refusal(const dnn_record *r)
{
  enum { LOAD_BYTES = 16 };
  if ((r->x[1] * (int64_t)capl_dtype_size(r->dtype)) % LOAD_BYTES)
    return r->dtype == CAPL_F32 ? "channels are not a multiple of 4" : "channels are not a multiple of 8";
  return memcmp(r->x, r->y, sizeof r->x) ? "x and y differ in size" : NULL;
}

/* What the last window along an axis reaches beyond the padding: ceil_mode's surplus. */
static bool overhangs(const dnn_record *r)
{
  for (int i = 0; i < 2; i++)
    if ((r->y[2 + i] - 1) * r->stride[i] + r->kernel[i] > r->x[2 + i] + 2 * r->padding[i]) return true;
  return false;
}

static const char *pool_refusal(const dnn_record *r)
{
  enum { INDEX_MAX = 127 };
  if (r->x[1] != r->y[1] || r->x[0] != r->y[0]) return "x and y differ in images or channels";
  bool indexed = r->index || r->kind == DNN_MAX_POOL_GRAD;
  if (indexed && r->kernel[0] * r->kernel[1] > INDEX_MAX) return "an i8 index cannot name the window's positions";
  if (r->count_pad && overhangs(r)) return "cuDNN would count what ceil_mode adds as padding";
  return NULL;
}

const char *dnn_refusal(const dnn_record *r)
{
  if (cu_type_of(r->dtype) == CU_TYPES) return "only f32, f16 and bf16";
  if (r->bias && cu_type_of(r->bias_dtype) == CU_TYPES) return "only f32, f16 and bf16 for bias";
  if (has_empty_tensor(r)) return "a tensor is empty";
  if (is_conv(r)) return conv_refusal(r);
  return is_norm(r) ? norm_refusal(r) : pool_refusal(r);
}

/* An eighth: the largest workspaces that fast engines want of batches of 1024 are 1.3 GB, which cards for such batches
** have eight times over, and the same block serves all records. 64 MiB: what nearly all others do with. */
int64_t dnn_workspace_share(size_t memory)
{
  const int64_t least = (int64_t)64 << 20, share = (int64_t)(memory / 8);
  return share > least ? share : least;
}

bool dnn_supports(const dnn_record *record)
{
  return dnn_refusal(record) == NULL;
}

void dnn_count(const dnn_record *record, bool tensor_cores)
{
  if (!is_conv(record)) return;
  switch (record->dtype) {
    case CAPL_F16: capl_counter_add(CAPL_COUNT_fp16_kernels); break;
    case CAPL_BF16: capl_counter_add(CAPL_COUNT_bf16_kernels); break;
    default: capl_counter_add(tensor_cores ? CAPL_COUNT_tf32_kernels : CAPL_COUNT_fp32_kernels);
  }
}
