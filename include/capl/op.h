/* op.h -- what an op is: its descriptor, its attributes, and calling it.
**
** ops.def lists every op once, with its attributes: from it come the ids, the table of descriptors and the positions of
** attributes. A descriptor holds the rest but arithmetic: shape rule, gradient rule, autocast class, which inputs are
** masks or written, and its documentation. Arithmetic lives in the
** backends (backend.h). capl_op_call is the one way to run an op: it checks the arguments, applies
** autocast, finds the kernel, allocates the outputs, and records the call for the backward pass.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OP_H
#define CAPL_OP_H

#include "capl/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
#define OP(name) CAPL_OP_##name,
#include "capl/ops.def"
  CAPL_OP_COUNT
} capl_op_id;

enum { CAPL_MAX_ATTR = 10, CAPL_MAX_OUT = 6 };

typedef enum {
  CAPL_ATTR_INT,   /* a whole number -> .i */
  CAPL_ATTR_REAL,  /* a number -> .f */
  CAPL_ATTR_BOOL,  /* true or false -> .i */
  CAPL_ATTR_ENUM,  /* one of choices -> .i, its position */
  CAPL_ATTR_INTS,  /* a list of whole numbers -> .n, .v; a single number is repeated to spec.n */
  CAPL_ATTR_DTYPE, /* a dtype's name -> .i */
  CAPL_ATTR_PROGRAM, /* text of a pointwise program (capl ops pointwise) -> .i, its number in this process */
} capl_attr_kind;

typedef struct {
  const char *name;
  capl_attr_kind kind;
  double def;          /* default; for ENUM the position, for INTS every element */
  double min, max;     /* bounds for numbers, used when min < max */
  int n;               /* INTS: required length, 0 = any up to CAPL_MAX_NDIM */
  const char *choices; /* ENUM: "mean|sum|none" */
  bool required;       /* no default: the caller must give it */
  bool dim;            /* counts dims of the first input: from 0 here, from 1 in Lua; negative from the end */
  bool index;          /* counts elements along a dim: from 0 here, from 1 in Lua */
  bool stream;         /* names a stream of random numbers: a captured step takes another one each time */
  bool per_step;       /* changes from step to step, also in a captured one: optimizers read it from the device then */
} capl_attr_spec;

typedef struct {
  int64_t i;
  double f;
  int n;
  int64_t v[CAPL_MAX_NDIM];
} capl_attr;

/* What autocast does to the floating inputs of an op. */
typedef enum {
  CAPL_AMP_KEEP,   /* unless said otherwise, nothing: the op accepts mixed inputs as they are */
  CAPL_AMP_LOW,    /* cast to the 16-bit type chosen by autocast */
  CAPL_AMP_F32,    /* cast to f32: sums and exponentials need the bits */
  CAPL_AMP_WIDEST, /* cast to the widest floating type among the inputs (also outside autocast) */
} capl_amp;

/* The memory order a kernel may rely on; capl_op_call makes inputs so before the kernel sees them. */
typedef enum {
  CAPL_LAYOUT_ANY,   /* unless said otherwise: any strides, broadcast ones too */
  CAPL_LAYOUT_IMAGE, /* 4-d inputs dense NHWC, others row-major */
  CAPL_LAYOUT_ROW,   /* all inputs row-major */
  CAPL_LAYOUT_DENSE, /* all inputs dense and with the same strides as the first one of their size */
} capl_layout;

typedef struct capl_op capl_op;

/* One call of an op, as kernels and rules see it. */
typedef struct capl_call {
  const capl_op *op;
  capl_tensor *const *in; /* n_in entries; NULL = optional input left out */
  int n_in;
  capl_tensor **out; /* op->n_out entries */
  const capl_attr *attr; /* in the order of op->attrs */
  capl_op_id id;
  capl_device *device;
  uint32_t unread; /* bits of outputs that nobody will read: kernels may leave their values undefined */
} capl_call;

/* What a shape rule decides about one output. */
typedef struct {
  capl_dtype dtype;
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  capl_format format;
  const capl_tensor *like; /* when set: memory order of this tensor if it is dense and of the same size */
} capl_out_spec;

struct capl_op {
  const char *name;
  const char *ins;  /* "x, weight, bias?": ? = optional; "xs..." = any number, last */
  const char *outs; /* "y, index" */
  int n_out;
  const capl_attr_spec *attrs; /* [CAPL_MAX_ATTR + 1], as ops.def lists them; behind the last they have no name */
  capl_amp amp;
  uint32_t low_in;   /* bit i: LOW casts input i: the factors, not a bias, which is added to f32 sums */
  uint32_t kernel_casts; /* bit i: F32 leaves input i in 16 bits where the device's kernel lists that dtype: it converts
                         ** elements as it reads them, and gives the same bits without a cast's pass over memory */
  uint32_t mask_in;  /* bit i: input i is a mask, no value: autocast leaves it alone */
  capl_layout layout;
  uint32_t mutates;  /* bit i: the kernel writes input i */
  uint32_t save_in;  /* bit i: grad reads the values of input i (else only its shape) */
  uint32_t save_out; /* bit i: grad reads the values of output i */
  uint32_t index_outs; /* bit i: output i never carries a gradient */
  int step_groups; /* optimizer steps: the inputs are that many groups of equal length, params, grads, states, and
                   ** perhaps a control. All groups but grads are written, and the shadows of params (backend.h) */

  /* Checks the inputs against each other and describes the outputs. The only place for ESHAPE. */
  capl_status (*shape)(const capl_call *call, capl_out_spec *out);
  /* View ops only: makes the outputs as aliases of the inputs; then there is no kernel. */
  capl_status (*view)(const capl_call *call);
  /* Gradients from ordinary ops: sets dx[i] for every input with needs[i]; leaves others NULL.
  ** dy[i] may be NULL (no gradient arrived); it has the dtype of output i, but of casts and views. dx[i] may be wider
  ** than input i: the walk casts it. NULL rule = not differentiable, said in doc. */
  capl_status (*grad)(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx);
  /* Fused ops only: the same thing in simpler ops. Used where a backend lacks the kernel. */
  capl_status (*expand)(const capl_call *call);
  /* Multiply-accumulates of one call, NULL = 0. */
  double (*macs)(const capl_call *call);

  const char *doc; /* first line: one sentence; then shapes, units, errors, source */
};

/* Descriptor of an op. */
CAPL_API const capl_op *capl_op_get(capl_op_id id);
/* By name; NULL if unknown. */
CAPL_API const capl_op *capl_op_find(const char *name);
CAPL_API capl_op_id capl_op_id_of(const capl_op *op);

/* Runs an op. in: n_in tensors of one device; attr: all attributes, or NULL for the defaults.
** out receives op->n_out new tensors (for ops that only mutate: none). */
CAPL_API capl_status capl_op_call(capl_op_id id, capl_tensor *const *in, int n_in, const capl_attr *attr,
                                  capl_tensor **out);

/* The same with attributes as text, "stride=2,2 padding=1 groups=4"; NULL or "" for the defaults. */
CAPL_API capl_status capl_run(capl_op_id id, capl_tensor *const *in, int n_in, const char *attrs,
                              capl_tensor **out);

/* Defaults of every attribute into attr[CAPL_MAX_ATTR]. */
CAPL_API void capl_attr_defaults(const capl_op *op, capl_attr *attr);
/* Position of an attribute, -1 if the op has none of that name. */
CAPL_API int capl_attr_index(const capl_op *op, const char *name);
/* Sets one attribute after checking kind, bounds and length. text as in capl_run. */
CAPL_API capl_status capl_attr_parse(const capl_op *op, capl_attr *attr, const char *name, const char *text);
/* Likewise from numbers (booleans as 0 and 1). */
CAPL_API capl_status capl_attr_set(const capl_op *op, capl_attr *attr, const char *name, int n,
                                   const double *values);
/* Sets an ENUM or DTYPE attribute by its word, a PROGRAM by its text. */
CAPL_API capl_status capl_attr_set_word(const capl_op *op, capl_attr *attr, const char *name, const char *word);

/* The text of a PROGRAM attribute, NULL if there is no such program. Borrowed for the life of the process. */
CAPL_API const char *capl_attr_program_text(const capl_attr *attr);

/* Attributes of a call in order, for rules and kernels: */
#define CAPL_A_INT(x) ((capl_attr){.i = (x)})
#define CAPL_A_REAL(x) ((capl_attr){.f = (x)})
#define CAPL_A_INTS2(a, b) ((capl_attr){.n = 2, .v = {(a), (b)}})

/* Autocast of this thread: low = CAPL_BF16 or CAPL_F16 switches it on, CAPL_F32 off.
** Returns the former value. Casts of leaves are cached until it is switched off. */
CAPL_API capl_dtype capl_autocast_set(capl_dtype low);
CAPL_API capl_dtype capl_autocast_get(void);

/* Called around every kernel when set; used by the profiler. label: capl_profile_label_set's text. */
typedef struct {
  const capl_call *call;
  const char *label;
  double seconds;
  double bytes; /* inputs read + outputs written */
  double macs;
  const char *backend;
} capl_profile_event;
CAPL_API void capl_profile_set(void (*callback)(void *user, const capl_profile_event *event), void *user);
/* Whether a profiler is set. */
CAPL_API bool capl_profile_on(void);
/* Borrowed text that names the layer now running; NULL = none. Remembered for its backward ops. */
CAPL_API void capl_profile_label_set(const char *label);
CAPL_API const char *capl_profile_label_get(void);

/* Called after every op call when set, with the inputs as given: for tracing a model into a graph. */
CAPL_API void capl_observe_set(void (*callback)(void *user, const capl_call *call), void *user);
/* Calls of this thread are not observed until it is called with false. Returns the former value. */
CAPL_API bool capl_observe_pause(bool on);

/* How often each feature was in effect, since the process started. */
CAPL_API uint64_t capl_counter_get(const char *name); /* "bf16_kernels", "fused_ops", "ref_fallbacks" … */

#ifdef __cplusplus
}
#endif
#endif
