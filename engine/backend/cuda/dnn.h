/* dnn.h -- cuDNN behind one type: a record of what is wanted, and running it.
**
** A record says everything that decides which engine can run it, in plain numbers; images are NHWC in memory, weights
** O,kH,kW,I. It has one text form, which is the key of the plan caches, the wording of messages and the format of the
** tests' record files: "conv2d bf16 x=64,1,60,160 y=64,32,60,160 kernel=3,3 padding=1,1 bias=bf16". The first run of
** a record builds and keeps a plan (milliseconds to a second); later runs only queue it on cu.stream.
** Callers ask dnn_supports first and have their own kernel where it says no. Only dnn_graph.h includes cuDNN's header.
**
** $CAPL_DNN_ENGINES=FILE, with autotune: every record is tuned anew, all its candidates are timed to the end, and each
** becomes a line of JSON in FILE, as does the own kernel that would take the record's place:
**   {"record": "conv2d bf16 ...", "engine": 41, "candidate": 0, "workspace": 1024, "ms": 0.123456, "chosen": true,
**    "compiled": false, "notes": ["TENSOR_CORE"]}
** engine: cuDNN's number, or "own" (then there is no candidate); candidate: its place among what cuDNN's heuristics
** propose; workspace: bytes; ms: of one run, null beside "error" where it did not run; chosen: that is what runs from
** now on, or for an engine beside a chosen "own" the best of cuDNN; compiled: by NVRTC at run time; notes: cuDNN's
** numerical notes.
**
** $CAPL_DNN_PLANS=FILE: a line of JSON in FILE when a record gets its engine; of one record's lines the last one holds.
**   {"record": "conv2d bf16 ...", "engine": 41, "workspace": 1024, "how": "tuned"}
** how: tuned = the fastest of those timed now, loaded = from disk, first = cuDNN's first choice; with "own" faster =
** timed, now or in a run before, untimed = own kernels without a trial, none = cuDNN has no engine.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_DNN_H
#define CAPL_CUDA_DNN_H

#include "backend/cuda/cuda.h"

/* code, text, and the tensors read and written. f32 throughout: scale, shift, mean, invstd, running_*, dscale, dshift,
** of one number per channel. */
#define DNN_KIND_MAP(X)                                                                                       \
  X(CONV, "conv2d")                  /* x, w, bias? -> y */                                                   \
  X(CONV_GRAD_X, "conv2d_grad_x")    /* dy, w -> dx */                                                        \
  X(CONV_GRAD_W, "conv2d_grad_w")    /* x, dy -> dw, in the dtype of x */                                     \
  X(NORM, "batch_norm")              /* x, scale, shift, running_*?, add? -> y, mean, invstd; training only */ \
  X(NORM_GRAD, "batch_norm_grad")    /* x, dy, scale, mean, invstd -> dx, dscale, dshift; training only */    \
  X(MAX_POOL, "max_pool2d")          /* x -> y, index? (i8: position in the window, row by row) */            \
  X(MAX_POOL_GRAD, "max_pool2d_grad") /* dy, index -> dx */                                                   \
  X(AVG_POOL, "avg_pool2d")          /* x -> y */                                                             \
  X(AVG_POOL_GRAD, "avg_pool2d_grad") /* dy -> dx */

typedef enum {
#define X(code, text) DNN_##code,
  DNN_KIND_MAP(X)
#undef X
  DNN_KINDS
} dnn_kind;

/* Everything that decides what a plan is. Start from dnn_begin, then set what the kind has. */
typedef struct {
  dnn_kind kind;
  capl_dtype dtype;     /* of images, weights and their gradients: f32, f16, bf16 */
  int64_t x[4];         /* N,C,H,W of x, or of dx */
  int64_t y[4];         /* N,O,H',W' of y, or of dy; as x for norms */
  int64_t kernel[2];    /* kH,kW of convolutions and pools; 1,1 for norms */
  int64_t stride[2], padding[2], dilation[2];
  int64_t groups;
  bool bias;            /* CONV: + bias (O), of bias_dtype */
  capl_dtype bias_dtype;
  bool relu;            /* CONV, NORM: relu last */
  bool add;             /* NORM: + add, of the size and dtype of x, before relu */
  bool running;         /* NORM: updates running_mean, running_var, with the unbiased variance */
  bool index;           /* MAX_POOL: writes index */
  bool count_pad;       /* AVG_POOL*: the divisor counts padding too (but not what ceil_mode adds) */
  bool tf32;            /* f32 products may be rounded to tf32 */
  bool deterministic;   /* only engines that give the same bits every time */
} dnn_record;

/* Tensors by role. */
#define DNN_ROLE_MAP(X)                                                                                            \
  X(X, "x") X(W, "w") X(BIAS, "bias") X(Y, "y") X(DY, "dy") X(DX, "dx") X(DW, "dw") X(ADD, "add") X(SCALE, "scale") \
  X(SHIFT, "shift") X(MEAN, "mean") X(INVSTD, "invstd") X(RUNNING_MEAN, "running_mean")                             \
  X(RUNNING_VAR, "running_var") X(DSCALE, "dscale") X(DSHIFT, "dshift") X(INDEX, "index")

typedef enum {
#define X(code, text) DNN_##code,
  DNN_ROLE_MAP(X)
#undef X
  DNN_ROLES
} dnn_role;

/* Device memory of a record's tensors by role, NULL where it has none, and the numbers that may change from run to run.
** Any alignment will do, 16 bytes is fast. */
typedef struct {
  void *at[DNN_ROLES];
  float eps, momentum; /* NORM; momentum as in PyTorch: the weight of the new statistics */
} dnn_pointers;

/* ---- records (dnn_record.c) ------------------------------------------------------------------- */

/* A record of a kind without padding, bias and so on, all steps 1. */
void dnn_record_init(dnn_record *record, dnn_kind kind, capl_dtype dtype);
/* Whether cuDNN has an engine for it, by the rules that were found with the real library (tests/cuda/graphs): channels
** of norms in blocks of 16 bytes, i8 indices of windows up to 127 positions, no empty tensor, and so on. Checked again
** by dnn_run, which fails with EUNSUPPORTED. */
bool dnn_supports(const dnn_record *record);
/* Why not: NULL when dnn_supports, else borrowed text. */
const char *dnn_refusal(const dnn_record *record);
/* The text form into buf; returns buf. DNN_TEXT bytes are always enough. */
enum { DNN_TEXT = 320 };
const char *dnn_describe(const dnn_record *record, char *buf, size_t len);
/* The record of a text form. EVALUE names the word that is wrong. */
capl_status dnn_parse(const char *text, dnn_record *out);

/* For tables of records. */
uint64_t dnn_hash(const dnn_record *record);
const char *dnn_kind_name(dnn_kind kind);
bool dnn_same(const dnn_record *a, const dnn_record *b);
/* Counts a product that ran (fp32_kernels and so on). tensor_cores: its engine uses them, which for f32 means tf32. */
void dnn_count(const dnn_record *record, bool tensor_cores);

/* One tensor of a record: sizes in cuDNN's order N,C,H,W; memory is N,H,W,C without gaps. */
typedef struct {
  bool used, written, read; /* running_* are read and written */
  int64_t size[4];
  capl_dtype dtype; /* CAPL_U8 for index */
} dnn_tensor;
dnn_tensor dnn_tensor_of(const dnn_record *record, dnn_role role);
const char *dnn_role_name(dnn_role role);

/* Bytes that a workspace may take of so much memory: an eighth, at least 64 MiB. */
int64_t dnn_workspace_share(size_t memory);

/* ---- running (dnn_run.c) -------------------------------------------------------------------------- */

/* A record with the active switches (cu.tf32, cu.deterministic). */
static inline dnn_record dnn_begin(dnn_kind kind, capl_dtype dtype)
{
  dnn_record record;
  dnn_record_init(&record, kind, dtype);
  record.tf32 = cu.tf32 && dtype == CAPL_F32 && kind <= DNN_CONV_GRAD_W;
  record.deterministic = cu.deterministic;
  return record;
}

/* Queues the record on cu.stream; device: whose caching allocator gives the workspace. EUNSUPPORTED where no engine
** takes it; ESTATE for a record without a plan while cu.capturing; EDEVICE with cuDNN's own words. */
capl_status dnn_run(capl_device *device, const dnn_record *record, const dnn_pointers *p);

/* Checks the library's version (dnn_check), then starts it once. */
capl_status dnn_open(void);
void dnn_close(void);

/* Runs the record where cuDNN has an engine for it; else *done is false, and the caller's own kernel is to run. A
** library that cannot be used is an error, never "no engine". */
static inline capl_status dnn_try(capl_device *device, const dnn_record *record, const dnn_pointers *p, bool *done)
{
  *done = false;
  if (!dnn_supports(record)) return CAPL_OK;
  CAPL_TRY(dnn_open());
  capl_status status = dnn_run(device, record, p);
  *done = status == CAPL_OK;
  return status == CAPL_EUNSUPPORTED ? CAPL_OK : status;
}

/* Work queued on cu.stream; data is borrowed for the call. */
typedef struct {
  capl_status (*run)(const void *data);
  const void *data;
} dnn_work;

/* Whether cuDNN runs the record faster than own does on this GPU. Timed at the record's first call, with autotune alone
** and never while cu.capturing; kept in memory and on disk. The results of both are written, running statistics are
** not: own must leave them alone. At most a few norms of one process are timed, since cuDNN compiles their engines:
** false for more. */
capl_status dnn_faster(capl_device *device, const dnn_record *record, const dnn_pointers *p, const dnn_work *own,
                       bool *faster);
/* Adds own kernels to the list of engines, if there is to be one and the record is new: runs them a few times. */
capl_status dnn_list_native(const dnn_record *record, const dnn_work *own);

/* EUNSUPPORTED where the installed cuDNN is older than DNN_LEAST, or not a 9.x. Asks nothing of the GPU. */
capl_status dnn_check(void);
/* "9.19.0", or why there is none. Works without dnn_open and without a GPU. */
const char *dnn_version(void);

/* What happened so far. */
typedef struct {
  uint64_t runs;
  uint64_t plans;  /* built by heuristics */
  uint64_t loaded; /* read from the cache on disk */
  uint64_t tuned;  /* chosen by timing */
} dnn_statistics;
dnn_statistics dnn_statistics_get(void);

#endif
