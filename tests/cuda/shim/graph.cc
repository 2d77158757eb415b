/* graph.cc -- recording a stream into a graph, and running graphs.
**
** While a stream is captured its work is noted instead of queued, with the arguments it has then. What CUDA forbids
** meanwhile is refused with CUDA's error, and makes the capture void.
** SPDX-License-Identifier: Apache-2.0
*/
#include <algorithm>
#include <thread>

#include "runtime.h"

struct capture {
  shim_stream *origin;
  std::vector<shim_stream *> streams; /* origin, and those that joined through events */
  std::vector<work> nodes;
  std::thread::id thread;
  enum cudaStreamCaptureMode mode;
  bool invalid = false;
};

struct shim_graph_node {};
struct shim_graph {
  std::shared_ptr<std::vector<work>> nodes;
};
struct shim_graph_exec {
  std::shared_ptr<std::vector<work>> nodes;
};

static std::vector<capture *> &captures = *new std::vector<capture *>;
static thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/* ---- what is forbidden ----------------------------------------------------------------------- */

/* The capture that keeps this thread from unsafe calls; CUDA's rule, by the modes of both. */
static capture *in_the_way()
{
  if (thread_mode == cudaStreamCaptureModeRelaxed) return nullptr;
  for (capture *k : captures) {
    bool own = k->thread == std::this_thread::get_id();
    if (own && k->mode != cudaStreamCaptureModeRelaxed) return k;
    if (!own && k->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal) return k;
  }
  return nullptr;
}

static cudaError_t spoil(capture *k, cudaError_t why)
{
  k->invalid = true;
  return why;
}

cudaError_t refuse_in_capture()
{
  capture *k = in_the_way();
  return k ? spoil(k, cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t refuse_captured(shim_stream *s)
{
  return s->capturing ? spoil(s->capturing, cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t refuse_while_any_is_captured()
{
  for (capture *k : captures) k->invalid = true;
  return captures.empty() ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

static bool is_live(const capture *k)
{
  return std::find(captures.begin(), captures.end(), k) != captures.end();
}

cudaError_t refuse_captured_event(const event_state *e)
{
  if (!e->captured) return cudaSuccess;
  return is_live(e->captured) ? spoil(e->captured, cudaErrorCapturedEvent) : cudaErrorCapturedEvent;
}

cudaError_t refuse_legacy(const shim_stream *s)
{
  if (s != stream_of(nullptr)) return cudaSuccess;
  for (capture *k : captures)
    for (const shim_stream *captured : k->streams)
      if (captured->blocking) return spoil(k, cudaErrorStreamCaptureImplicit);
  return cudaSuccess;
}

/* ---- recording ------------------------------------------------------------------------------- */

cudaError_t capture_add(shim_stream *s, work w)
{
  if (s->capturing->invalid) return cudaErrorStreamCaptureInvalidated;
  s->captured_work++;
  s->capturing->nodes.push_back(std::move(w));
  return cudaSuccess;
}

cudaError_t capture_record(shim_stream *s, event_state *e)
{
  if (s->capturing->invalid) return cudaErrorStreamCaptureInvalidated;
  e->captured = s->capturing;
  e->stream = s;
  e->captured_at = s->captured_work;
  return cudaSuccess;
}

/* A stream that waits for an event of a capture becomes part of it; the origin has seen what the event stands for. */
cudaError_t capture_wait(shim_stream *s, event_state *e)
{
  bool live = e->captured && is_live(e->captured);
  if (!live && !s->capturing) return cudaErrorCapturedEvent;
  if (!live) return spoil(s->capturing, cudaErrorStreamCaptureIsolation);
  if (s->capturing && s->capturing != e->captured) return spoil(s->capturing, cudaErrorStreamCaptureMerge);
  if (e->captured->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!s->capturing) {
    s->capturing = e->captured;
    s->captured_work = s->joined_work = 0;
    s->capturing->streams.push_back(s);
    s->captured_work = 1; /* joining alone must be joined back */
  }
  if (s == s->capturing->origin && e->captured_at > e->stream->joined_work) e->stream->joined_work = e->captured_at;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  if (!stream || settings.refuses_capture) return c.leave(cudaErrorStreamCaptureUnsupported);
  if (s->capturing) return c.leave(cudaErrorStreamCaptureInvalidated);
  capture *k = new capture;
  k->origin = s;
  k->streams = {s};
  k->thread = std::this_thread::get_id();
  k->mode = mode;
  s->capturing = k;
  captures.push_back(k);
  shim_trace("begin %d", s->number);
  return cudaSuccess;
}

static bool all_joined(const capture *k)
{
  for (const shim_stream *s : k->streams)
    if (s != k->origin && s->joined_work < s->captured_work) return false;
  return true;
}

static void end_capture(capture *k)
{
  for (shim_stream *s : k->streams) s->capturing = nullptr;
  for (size_t i = 0; i < captures.size(); i++)
    if (captures[i] == k) captures.erase(captures.begin() + (long)i--);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
  call c;
  if (c.refused()) return c.result();
  *out = nullptr;
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  capture *k = s->capturing;
  if (!k) return c.leave(cudaErrorInvalidValue);
  if (k->origin != s) return c.leave(spoil(k, cudaErrorStreamCaptureUnmatched));
  if (k->mode != cudaStreamCaptureModeRelaxed && k->thread != std::this_thread::get_id())
    return c.leave(cudaErrorStreamCaptureWrongThread);
  cudaError_t error = k->invalid ? cudaErrorStreamCaptureInvalidated : all_joined(k) ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
  end_capture(k);
  shim_trace("end %d %d", s->number, (int)error);
  if (error == cudaSuccess) *out = new shim_graph{std::make_shared<std::vector<work>>(std::move(k->nodes))};
  delete k;
  return c.leave(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s) return c.leave(cudaErrorInvalidResourceHandle);
  *out = !s->capturing           ? cudaStreamCaptureStatusNone
         : s->capturing->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

void capture_reset()
{
  while (!captures.empty()) {
    capture *k = captures.back();
    end_capture(k);
    delete k;
  }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
  call c(ALLOCATES);
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  *out = new shim_graph_exec{graph->nodes};
  counts.live_graphs++;
  return c.result();
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  return c.leave(s ? refuse_captured(s) : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
  call c;
  if (c.refused()) return c.result();
  shim_stream *s = stream_of(stream);
  if (!s || !exec) return c.leave(cudaErrorInvalidResourceHandle);
  cudaError_t error = refuse_captured(s);
  if (error != cudaSuccess) return c.leave(error);
  auto nodes = exec->nodes;
  work w;
  w.run = [=] {
    ledger_line("graph");
    for (const work &node : *nodes) {
      cudaError_t error = ledger_on() ? ledger_run(node) : node.run();
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  };
  counts.graph_launches++;
  shim_trace("graph %d", s->number);
  return c.leave(queue_work(s, std::move(w)));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
  call c;
  if (c.refused()) return c.result();
  if (nodes) return c.leave(cudaErrorNotSupported);
  *count = graph->nodes->size();
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = refuse_in_capture();
  if (error != cudaSuccess) return c.leave(error);
  counts.live_graphs--;
  delete exec;
  return c.result();
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  call c;
  if (!c.refused()) delete graph;
  return c.result();
}
