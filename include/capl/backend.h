/* backend.h -- what a device offers: memory, and a table of kernels.
**
** A backend is one constant table. Kernels get inputs in the layout their op's descriptor asks for
** and outputs already allocated by the shape rule; they never print, never record, never know Lua.
** Temporary memory comes from capl_scratch, which is a list look-up in the steady state.
**
** When a backend has no kernel for a call (no row, or supports() says no): a fused op is expanded;
** otherwise the fallback backend runs it, counted ("ref_fallbacks") and logged once per op; without
** a fallback the call fails with EUNSUPPORTED, naming the op and the backends that have it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BACKEND_H
#define CAPL_BACKEND_H

#include "capl/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef capl_status (*capl_kernel_fn)(const capl_call *call);

#define CAPL_BIT(dtype) (1u << (dtype))

/* One row: who computes this op, and on which inputs. Lists end with run == NULL. */
typedef struct {
  capl_op_id op;
  capl_kernel_fn run;
  bool (*supports)(const capl_call *call); /* NULL = every call. Outputs are not made yet: call->out is NULL */
  uint32_t dtypes; /* CAPL_BIT per dtype of the first floating input (of the first, if none is); 0 = every dtype */
} capl_kernel;

enum { CAPL_MARKS = 4096 };

/* Gets a kind of product ("conv2d_grad_w"), how many different ones ran, and how many of those on own kernels. */
typedef void (*capl_own_fn)(void *user, const char *kind, int own, int total);

/* An algorithm that timing chose (switch "autotune"), and for which calls. */
typedef struct {
  const char *call;      /* "conv2d bf16 x=64,32,15,40 w=64,32,3,3 stride=1,1 ..." */
  const char *algorithm; /* "winograd", "onednn" ... */
  const char *usual;     /* what computes the call without; NULL where this process has not timed it */
  const char *times;     /* "onednn 3.010 ms, winograd 1.920 ms"; "" likewise */
  bool in_use;           /* it computes the call; else it was only timed */
} capl_algorithm;
typedef void (*capl_algorithm_fn)(void *user, const capl_algorithm *algorithm);

typedef struct capl_backend {
  int abi; /* CAPL_BACKEND_ABI, always first */
  const char *name;
  bool host_memory; /* tensors can be read by the CPU directly */
  bool arithmetic;  /* false: meta, shapes only */
  const capl_kernel *const *families; /* NULL-ended list of kernel lists, one per op family */
  const char *fallback; /* backend that may run what this one lacks, NULL = none */
  capl_status (*open)(int index);         /* optional: once, before first use; index as in "cuda:1" */
  capl_status (*mem_alloc)(size_t bytes, void **out); /* raw memory, 64-byte aligned at least */
  void (*mem_free)(void *p, size_t bytes);
  capl_status (*mem_fill)(void *p, int byte, size_t bytes);
  capl_status (*sync)(void);               /* optional: waits for queued work, and reports what failed in it */
  const char *(*describe)(void);           /* optional: one line for `capl info` */
  capl_dtype (*auto_precision)(const char **why); /* optional: what precision "auto" is here, and the reason */
  uint32_t (*precisions)(void); /* CAPL_BIT of each capl_precision_kind the open device offers; NULL = fp32 only */

  /* Devices whose memory the host cannot read have these three. All keep the order of the device's work. */
  capl_status (*copy_in)(void *device, const void *host, size_t bytes);  /* host is free again on return */
  capl_status (*copy_out)(void *host, const void *device, size_t bytes); /* waits for the values */
  capl_status (*copy)(capl_tensor *dst, const capl_tensor *src); /* on one device: any strides and dtypes, same sizes */
  capl_status (*fill)(capl_tensor *t, double value);             /* every element */
  /* Optional: several copies as few launches; src[i] NULL = zeros. */
  capl_status (*copy_many)(capl_tensor *const *dst, capl_tensor *const *src, int n);

  /* Optional: what this backend finds on the machine, a line or more for `capl info`. Works before open, and when
  ** open would fail: then it says why. */
  capl_status (*report)(char *text, size_t len);
  /* Optional, all or none: a step as one launch (capl/capture.h). From begin to end the calling thread's work is
  ** recorded, not run. end: *graph becomes launchable; graph == NULL throws the recording away. launch: offset is added
  ** to the dropout offsets recorded. free waits for launches still running. */
  capl_status (*capture_begin)(void);
  capl_status (*capture_end)(void **graph);
  capl_status (*capture_launch)(void *graph, int64_t offset);
  void (*capture_free)(void *graph);

  /* Optional, all or none: a few bytes read without waiting (tensor.h, capl_fetch). begin queues the copy of at most
  ** CAPL_FETCH_BYTES; done asks; end waits and hands them over, or drops them when host is NULL. Dropping never waits
  ** inside a captured step; done and end fail with ESTATE there, and the fetch stays. */
  capl_status (*fetch_begin)(const void *device, size_t bytes, int *ticket);
  capl_status (*fetch_done)(int ticket, bool *done);
  capl_status (*fetch_end)(int ticket, void *host, size_t bytes);

  /* Optional: waits until at most `ahead` of the calls of pace before this one have work unfinished: so that a program
  ** does not run ahead of its device by more than that many steps. */
  capl_status (*pace)(int ahead);
  /* Optional, both or none: the device's own clock. mark notes the moment its work reaches in slot 0..CAPL_MARKS-1;
  ** between waits for both and gives the seconds from one to the other. */
  capl_status (*mark)(int slot);
  capl_status (*between)(int from, int to, double *seconds);
  /* Optional: bytes free and in all on the device, other processes' use included. */
  capl_status (*mem_info)(size_t *free, size_t *total);

  /* Optional: its PCI bus id ("00000000:3B:00.0") and UUID, by which the driver's other libraries know it. */
  capl_status (*identity)(char *bus_id, size_t len, uint8_t uuid[16]);

  /* Optional: "tf32", "deterministic", "autotune", "one_thread" on or off. EUNSUPPORTED names what it has. */
  capl_status (*set_switch)(const char *name, bool on);
  /* Optional: makes a loader's batches on the device (feed.h). */
  const struct capl_feed_ops *feed;
  /* Optional: how many devices of it this process sees. EUNSUPPORTED says why none. */
  capl_status (*count)(int *count);
  /* Optional: the products that ran so far, where a vendor's library should run them and own kernels are the slow way
  ** out. */
  void (*own_kernels)(capl_own_fn fn, void *user);
  /* Optional, both or none: the algorithms that the switch "autotune" chose, and those to use from now on: of rank 0,
  ** or of a checkpoint. EVALUE: there is none of that name. */
  void (*algorithms)(capl_algorithm_fn fn, void *user);
  capl_status (*algorithm_use)(const char *call, const char *algorithm);
  /* Optional: changes the dtypes of outputs that only the backward pass reads: named reserve, or a weight's gradient,
  ** for calls that this backend's kernels take. */
  void (*reserve)(const capl_call *call, capl_out_spec *out);
  /* Optional: while on, this thread computes its calls alone: waking other threads costs more than small calls. */
  void (*alone)(bool on);
  int (*threads)(void); /* optional: that share the work of a call */
  /* Optional: task(arg, i) of each i below n, shared by those threads; waits. No task depends on another one. */
  void (*for_each)(int64_t n, void (*task)(void *arg, int64_t i), void *arg);
} capl_backend;

enum { CAPL_FETCH_BYTES = 64 };

/* Stamp of the interface: a backend library of another build has other ops or other structs. */
enum {
  CAPL_BACKEND_ABI = 1000003 * CAPL_OP_COUNT + 4001 * (int)sizeof(capl_tensor) + 211 * (int)sizeof(capl_op) +
                     17 * (int)sizeof(capl_call) + (int)sizeof(capl_backend)
};

/* Memory of one device, in bytes. cached = free blocks kept for reuse; captured = free blocks that belong to captured
** steps. */
typedef struct {
  size_t live, peak, cached, captured;
  uint64_t allocations, reuses;
} capl_memory_stats;

struct capl_device {
  const char *name; /* "cpu", "ref", "meta", "cuda:0" */
  const capl_backend *backend;
  int index;
  const capl_kernel *kernels[CAPL_OP_COUNT]; /* NULL = none */
  struct capl_allocator *allocator;
};

/* Opens a device by name, loading its backend when needed: "cpu", "ref", "meta", "cuda", "cuda:1", "auto".
** cuda is cuda:0; in one of several ranks on a host the one of the rank's number among them, where the process sees
** more than one GPU. auto is $CAPL_DEVICE if set, else a GPU where there is one that works, else cpu. The pointer stays
** valid until the process ends. A process uses one GPU. EUNSUPPORTED says why a device is not available. */
CAPL_API capl_status capl_device_open(const char *name, capl_device **out);
/* Whether there may be a GPU, without loading anything of CUDA; why: why not, borrowed text. */
CAPL_API bool capl_gpu_possible(const char **why);
/* Why "auto" is what it is here: "an NVIDIA GPU", "no NVIDIA driver", ... Borrowed text. */
CAPL_API const char *capl_device_auto_why(void);
/* A backend's own report on the machine (its .report), without opening a device. EUNSUPPORTED as for opening. */
CAPL_API capl_status capl_device_report(const char *backend, char *text, size_t len);
/* Switches "tf32", "deterministic" or "autotune" of a device's backend. EUNSUPPORTED where it has no such switch. */
CAPL_API capl_status capl_device_switch(capl_device *device, const char *name, bool on);
/* Calls fn for each kind of product that this device has run; never for a device without own_kernels. */
CAPL_API void capl_device_own_kernels(const capl_device *device, capl_own_fn fn, void *user);
/* Calls fn for each algorithm that timing chose on this device; never for a device without a choice. */
CAPL_API void capl_device_algorithms(const capl_device *device, capl_algorithm_fn fn, void *user);
/* Uses an algorithm for calls from now on. EVALUE: there is none of that name; EUNSUPPORTED: the device has no
** choice. */
CAPL_API capl_status capl_device_algorithm_use(const capl_device *device, const char *call, const char *algorithm);
CAPL_API void capl_memory_stats_get(const capl_device *device, capl_memory_stats *out);
CAPL_API void capl_memory_peak_reset(capl_device *device);
/* Gives cached free blocks back to the system. */
CAPL_API void capl_memory_trim(capl_device *device);
/* Live bytes above this fail with ENOMEM; 0 = no limit. For tests and small machines. */
CAPL_API void capl_memory_limit_set(capl_device *device, size_t bytes);
CAPL_API size_t capl_memory_limit_get(const capl_device *device);

/* Temporary memory for one kernel call, 64-byte aligned. */
CAPL_API capl_status capl_scratch_get(capl_device *device, size_t bytes, void **out);
CAPL_API void capl_scratch_put(capl_device *device, void *p);

/* Weights in 16 bits, kept beside f32 ones ("shadows"). *out: t's elements in dtype, a new reference; NULL where t is
** no weight whose casts are kept: then the caller casts. Runs a cast only when t was written since the last one. */
CAPL_API capl_status capl_shadow_get(const capl_tensor *t, capl_dtype dtype, capl_tensor **out);
/* For kernels of ops with step_groups: whether param's 16-bit elements are to be written as param is, rounded as by a
** cast; a step that is skipped writes neither. *low: a tensor over them with param's sizes and strides, for the call
** only. */
CAPL_API bool capl_shadow_of(const capl_tensor *param, capl_tensor *low);
/* Says that t's storage holds weights, also where t wants no gradient: casts of it are kept. ENOMEM. */
CAPL_API capl_status capl_weight_mark(capl_tensor *t);

/* Weights that never change, as those of an open model: kernels may keep them in another form ("packed"), made once.
** Only a tensor that is all of its storage can be frozen; others stay as they are. */
CAPL_API void capl_weight_freeze(capl_tensor *t);
CAPL_API bool capl_weight_is_frozen(const capl_tensor *t);
/* Memory for the form `key` of frozen weights t, kept until they are written or freed; a key's forms are of one size.
** *out: NULL where t is not frozen (or NULL), and the kernel makes the form for the call; *fresh: the kernel has to
** fill it, and says when it has. ENOMEM. */
CAPL_API capl_status capl_weight_form(const capl_tensor *t, uint64_t key, size_t bytes, void **out, bool *fresh);
CAPL_API void capl_weight_form_filled(const capl_tensor *t, uint64_t key);

/* Whether device has its own row for op (any dtype). */
CAPL_API bool capl_device_has(const capl_device *device, capl_op_id op);

/* ---- the registry: the backends a build may have, each once (backend.c) ---- */

typedef struct {
  const char *name;
  bool gpu;     /* its devices are GPUs of this machine: "cuda:0", "cuda:1" ... */
  bool chosen;  /* device "auto" may be one of it: settings may differ by it */
} capl_backend_facts;

/* Backend i, NULL past the last one. */
CAPL_API const capl_backend_facts *capl_backend_at(int i);
/* The table of a backend, whose library is loaded when needed; no device is opened. EUNSUPPORTED says why there is
** none. */
CAPL_API capl_status capl_backend_find(const char *name, const capl_backend **out);
/* Its row for op, NULL if it has none. */
CAPL_API const capl_kernel *capl_backend_kernel(const capl_backend *backend, capl_op_id op);

/* ---- precision: what a setting "precision" means, interpreted here only (precision.c) ---- */

/* X(name, dtype autocast computes in) */
#define CAPL_PRECISION_MAP(X) X(bf16, CAPL_BF16) X(fp16, CAPL_F16) X(fp32, CAPL_F32) X(tf32, CAPL_F32)
typedef enum {
#define X(name, dtype) CAPL_PRECISION_##name,
  CAPL_PRECISION_MAP(X)
#undef X
  CAPL_PRECISION_COUNT
} capl_precision_kind;

typedef struct {
  capl_precision_kind kind;
  const char *name; /* "bf16", "fp16", "fp32", "tf32" */
  capl_dtype low;   /* what autocast computes in; tf32 keeps f32 tensors, products round their factors */
  const char *why;  /* the reason of "auto"; NULL when it was asked for */
} capl_precision;

/* What "auto", a name, or the dtype's name "f16" or "f32" means on a device. EVALUE: no such name; EUNSUPPORTED: the
** device does not offer it, and the hint names what to write. device NULL: only whether there is such a name. */
CAPL_API capl_status capl_precision_read(const capl_device *device, const char *given, capl_precision *out);
/* "bf16, fp32": what a device offers, into text; returns text. */
CAPL_API const char *capl_precision_offers(const capl_device *device, char *text, size_t len);

/* How often each feature was in effect; capl_counter_get (op.h) reads them by name. *_kernels count products
** (convolution, linear, matmul) that a backend really ran in that type. */
#define CAPL_COUNTER_MAP(X)                                                                                       \
  X(fused_ops) X(expanded_ops) X(ref_fallbacks) X(layout_copies) X(fp32_kernels) X(tf32_kernels) X(fp16_kernels)   \
  X(bf16_kernels) X(winograd_bf16_kernels) X(autotuned_kernels) X(captured_steps) X(weight_casts)
typedef enum {
#define X(name) CAPL_COUNT_##name,
  CAPL_COUNTER_MAP(X)
#undef X
  CAPL_COUNTER_COUNT
} capl_counter;
CAPL_API void capl_counter_add(capl_counter which);

/* Asked for when memory runs out, before failing: frees what it can (the binding collects garbage).
** Returns whether it is worth trying again. */
CAPL_API void capl_memory_pressure_set(bool (*callback)(void *user), void *user);

#ifdef __cplusplus
}
#endif
#endif
