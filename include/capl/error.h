/* error.h -- status codes and the thread's last error record.
**
** Every engine function that can fail returns a capl_status. The failing function states the
** contradiction once, with CAPL_FAIL; callers pass the status on with CAPL_TRY, and each layer may
** add what only it knows (capl_error_context, capl_error_hint). Nothing in the engine prints,
** exits or aborts. The record belongs to the calling thread and is overwritten by its next failure.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_ERROR_H
#define CAPL_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CAPL_API __attribute__((visibility("default")))
#define CAPL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define CAPL_API
#define CAPL_PRINTF(f, a)
#endif

/* code, the name recipes compare with err.code, what it means */
#define CAPL_STATUS_MAP(X)                                   \
  X(OK, "ok", "no error")                                    \
  X(ESHAPE, "shape", "sizes contradict each other")          \
  X(EDTYPE, "dtype", "element types contradict each other")  \
  X(EVALUE, "value", "an argument is out of range")          \
  X(ENOMEM, "nomem", "the device is out of memory")          \
  X(EIO, "io", "a file cannot be read or written")           \
  X(EFORMAT, "format", "a file is damaged or of another kind") \
  X(EUNSUPPORTED, "unsupported", "no backend here can do this") \
  X(ESTATE, "state", "the call does not fit the object's state") \
  X(EDEVICE, "device", "the device failed or is lost")       \
  X(EINTERRUPT, "interrupt", "stopped by the user")          \
  X(EINTERNAL, "internal", "a bug in capl")

typedef enum {
#define X(code, name, text) CAPL_##code,
  CAPL_STATUS_MAP(X)
#undef X
  CAPL_STATUS_COUNT
} capl_status;

typedef struct {
  capl_status code;
  char message[1024]; /* one line: the contradiction, both sides */
  char context[1024]; /* further lines: shapes, dtypes, devices; may be empty */
  char hint[512];     /* what to change; may be empty */
  const char *file;   /* C source of the failure, for capl's own developers */
  int line;
} capl_error;

/* Records a failure of this thread and returns code. Clears context and hint. */
CAPL_API capl_status capl_fail_at(const char *file, int line, capl_status code, const char *fmt, ...)
  CAPL_PRINTF(4, 5);
#define CAPL_FAIL(code, ...) capl_failed(capl_fail_at(__FILE__, __LINE__, code, __VA_ARGS__), code)
/* Lets compilers see that a failure is never CAPL_OK. */
static inline capl_status capl_failed(capl_status recorded, capl_status code)
{
  (void)recorded;
  return code;
}

/* Returns a non-OK status to the caller's caller. */
#define CAPL_TRY(expr)                                \
  do {                                                \
    capl_status try_status_ = (expr);                 \
    if (try_status_ != CAPL_OK) return try_status_;   \
  } while (0)

/* Adds a line to the record's context / sets its hint if it has none yet. */
CAPL_API void capl_error_context(const char *fmt, ...) CAPL_PRINTF(1, 2);
CAPL_API void capl_error_hint(const char *fmt, ...) CAPL_PRINTF(1, 2);

/* The thread's last record; borrowed, valid until the thread's next failure. */
CAPL_API const capl_error *capl_error_last(void);
/* Puts a copied record back, for errors carried from one thread to another. */
CAPL_API void capl_error_restore(const capl_error *record);

/* "shape" for CAPL_ESHAPE, and so on. */
CAPL_API const char *capl_status_name(capl_status code);

#ifdef __cplusplus
}
#endif
#endif
