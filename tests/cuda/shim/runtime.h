/* runtime.h -- what the shim's files share: settings, errors, streams, memory.
**
** One lock guards everything; kernels run under it, on the thread that waits for them.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_RUNTIME_H
#define SHIM_RUNTIME_H

#include <stdint.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "include/cuda_runtime_api.h"
#include "include/shim.h"

/* ---- settings, from the environment (README.md) ---------------------------------------------- */

/* When queued work runs. */
enum shim_async {
  AT_ONCE, /* when it is queued */
  LATE,    /* when somebody waits for it */
  FIRST_LATE, /* that of the stream made first when somebody waits for it, others at once */
};

struct shim_settings {
  shim_async async;
  bool backwards;      /* threads and blocks from the last to the first */
  int devices;
  int driver;          /* version, 0 = none */
  int capability;      /* 90 */
  int multiprocessors; /* 4 */
  bool refuses_capture;
  double launch_us;    /* what events take each launch for; 0 = they tell the time */
  size_t memory;       /* bytes of the device */
  int fail_code;       /* 0 = never */
  uint64_t fail_at;    /* the call to fail, counted from 1 */
  bool fail_on;        /* also all later ones */
  bool race_goes_on;   /* a race is only reported */
  bool eager;          /* kernels are on the GPU from the beginning */
};
extern shim_settings settings;
extern shim_counts counts;

/* ---- entering and leaving a call ------------------------------------------------------------- */

enum shim_call { ORDINARY, ALLOCATES, ASKS /* starts no GPU */ };

/* Locks, counts, and says whether the call may go on (result() == cudaSuccess). Its end remembers the last error. */
class call {
public:
  explicit call(shim_call kind = ORDINARY);
  ~call();
  bool refused() const { return error != cudaSuccess; }
  cudaError_t result() const { return error; }
  cudaError_t leave(cudaError_t e) { return error = e; }

private:
  std::lock_guard<std::recursive_mutex> guard;
  cudaError_t error;
};

/* The GPU this thread works on. */
int current_device();
/* The GPU is lost: every later call fails with this. */
void become_lost(cudaError_t why);
bool is_lost();

/* Text for shim_fault and for stderr. -> error */
cudaError_t fault_set(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- memory (memory.cc) ---------------------------------------------------------------------- */

/* Whether all of it is in one cudaMalloc block; in one page-locked block. */
bool on_device(const void *p, size_t bytes);
bool page_locked(const void *p, size_t bytes);
bool begins_on_device(const void *p);
/* Bytes of address space for device memory; where in it p is; which byte of which block. */
size_t device_room();
size_t device_offset(const void *p);
void device_place(const void *p, char *out, size_t len);
/* The host can read and write device memory only while work of a stream runs. */
void device_memory_open(bool open);
/* The kernel, or the function of shim_enqueue, that uses it now. */
void device_memory_used_by(const void *code);
/* The same of all of it, and of whole pages of it, to read or also to write; false for what is no device memory. */
void device_memory_protect(bool open);
bool device_memory_let(const void *at, size_t bytes, bool write);
void memory_reset();

/* ---- streams (stream.cc) --------------------------------------------------------------------- */

struct event_state {
  int number = 0; /* for the trace */
  uint64_t recorded = 0, done = 0; /* number of the last record queued, of the last one reached */
  struct shim_stream *stream = nullptr; /* of the last record */
  double seconds = 0;
  struct capture *captured = nullptr; /* the capture it was recorded in, if that was the last; it may have ended */
  uint64_t captured_at = 0;           /* work queued on its stream when recorded there */
};

/* One piece of queued work. */
struct work {
  enum { RUN, RECORD, WAIT } kind = RUN;
  std::function<cudaError_t()> run;
  std::string name; /* for the ledger; of kernels only where there is one */
  std::shared_ptr<event_state> event;
  uint64_t version = 0;
  struct shim_stream *source = nullptr; /* WAIT: where the record is queued */
};

struct shim_stream {
  std::deque<work> queue;
  int number = 0; /* for the trace */
  int device = 0;        /* the one that was current when it was made */
  bool blocking = false; /* ordered with the legacy stream */
  bool first = false;
  struct capture *capturing = nullptr;
  uint64_t captured_work = 0, joined_work = 0; /* queued in the capture; seen by its origin */
};

struct shim_event {
  int device = 0; /* the one that was current when it was made */
  bool timed = true;
  std::shared_ptr<event_state> state = std::make_shared<event_state>();
};

/* The stream behind a handle (NULL is the legacy stream), nullptr if it was never made or is destroyed. */
shim_stream *stream_of(cudaStream_t handle);
/* Queues work, or records it in the stream's capture. */
cudaError_t queue_work(shim_stream *s, work w);
/* Runs all that is queued. */
cudaError_t run_all(shim_stream *s);
cudaError_t run_everything();
void streams_reset();

/* ---- capture (graph.cc) ---------------------------------------------------------------------- */

cudaError_t capture_add(shim_stream *s, work w);
/* For calls that would break a capture: cudaErrorStreamCaptureUnsupported if this thread has one, which is then
** void. */
cudaError_t refuse_in_capture();
/* Likewise if this stream is being captured, or if any is. */
cudaError_t refuse_captured(shim_stream *s);
cudaError_t refuse_while_any_is_captured();
/* cudaErrorCapturedEvent if the event was recorded in a capture, which is then void. */
cudaError_t refuse_captured_event(const event_state *e);
/* The legacy stream waits for blocking streams, so it can take no work while one of them is captured. */
cudaError_t refuse_legacy(const shim_stream *s);
cudaError_t capture_record(shim_stream *s, event_state *e);
cudaError_t capture_wait(shim_stream *s, event_state *e);
void capture_reset();

/* ---- the ledger (ledger.cc) ------------------------------------------------------------------- */

bool ledger_on();
void ledger_line(const char *text);
/* Runs a node and says what it read and wrote. */
cudaError_t ledger_run(const work &node);

#endif
