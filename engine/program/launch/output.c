/* output.c -- what the processes of a worker group print: collected, named by rank, handed on.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "program/launch/mux.h"
#include "program/launch/mpirun.h"

/* One stream of one rank: its lines, and where they go. */
typedef struct {
  output *o;
  int rank;
  char which; /* '1' or '2' */
  tag line;
} stream;

typedef struct {
  int from, to; /* ends of the pipe, -1 = closed */
} source;

struct output {
  const worker_group *c;
  source *sources;      /* two per process: standard output, standard error */
  struct pollfd *polled;
  int n_sources, n_polled;
  int *polled_source;   /* which source each of them is */
  stream *streams;      /* two per rank that prints through here */
  int n_streams;
  screen out, err;
  bool amid;
  frame_reader frames;
  mpirun_words words;
  bool muted;           /* those are left out */
  char *saving;         /* by rank */
  bool folder_sent;
  int status, state;    /* first failure reported by a frame, -1 = none; the last output_state */
};

/* ---- where lines go --------------------------------------------------------------------------- */

static void put_screen(void *user, const char *text, size_t len)
{
  stream *s = user;
  screen_put(s->which == '1' ? &s->o->out : &s->o->err, text, len, s->line.live);
}

static void put_frame(void *user, const char *text, size_t len)
{
  stream *s = user;
  mux_write(STDERR_FILENO, s->rank, s->which, text, len);
}

void output_tell(output *o, const char *line, size_t len)
{
  static bool amid;
  screen own = {.fd = STDERR_FILENO, .terminal = isatty(STDERR_FILENO), .amid = &amid};
  if (o && o->c->output == OUTPUT_FRAMES) return mux_write(STDERR_FILENO, o->c->first, '2', line, len);
  amid = !o; /* a worker that prints itself may show its bar */
  screen_put(o ? &o->err : &own, line, len, false);
}

/* ---- frames of ranks behind mpirun ------------------------------------------------------------- */

static void note_status(output *o, const char *text, size_t len)
{
  char digits[8] = "";
  if (len < sizeof digits) memcpy(digits, text, len);
  int status = atoi(digits);
  if (o->status <= 0 || (o->status == EXIT_LOST && status > 0)) o->status = status;
}

/* One that is too long for a frame stays unknown. */
static void note_folder(const output *o, int rank, const char *text, size_t len)
{
  if (rank != 0 || !o->c->run_folder || len == 0 || memchr(text, '\0', len)) return;
  memcpy(o->c->run_folder, text, len);
  o->c->run_folder[len] = '\0';
}

static void on_frame(void *user, int rank, char which, const char *text, size_t len)
{
  output *o = user;
  if (rank >= o->c->ranks) return;
  if (which == '1' || which == '2')
    tag_feed(&o->streams[2 * rank + (which == '2')].line, text, len);
  else if (which == 's')
    o->saving[rank] = len > 0 && text[0] == '1';
  else if (which == 'x')
    note_status(o, text, len), o->saving[rank] = 0;
  else if (which == 'f')
    note_folder(o, rank, text, len);
}

static void on_words(void *user, const char *text, size_t len)
{
  output *o = user;
  mpirun_words_feed(&o->words, text, len);
}

static void put_words(void *user, const char *line, size_t len)
{
  output *o = user;
  if (!o->muted) screen_put(&o->err, line, len, false);
}

void output_mute(output *o)
{
  if (o) o->muted = true;
}

/* ---- making and freeing ----------------------------------------------------------------------- */

static void name_lines(const worker_group *c, int rank, char *name)
{
  if (rank == 0 || c->output == OUTPUT_MPIRUN) return; /* those behind mpirun have named theirs */
  if (c->host)
    snprintf(name, TAG_NAME, "[rank %d, %s] ", rank, c->host);
  else
    snprintf(name, TAG_NAME, "[rank %d] ", rank);
}

static void make_streams(output *o)
{
  const worker_group *c = o->c;
  bool bar = c->output == OUTPUT_FRAMES ? getenv("CAPL_BAR") != NULL : o->out.terminal;
  for (int i = 0; i < o->n_streams; i++) {
    stream *s = &o->streams[i];
    *s = (stream){.o = o, .rank = c->first + i / 2, .which = i % 2 ? '2' : '1'};
    s->line.put = c->output == OUTPUT_FRAMES ? put_frame : put_screen;
    s->line.user = s;
    s->line.live = bar && s->rank == 0;
    name_lines(c, s->rank, s->line.name);
  }
}

output *output_new(const worker_group *c)
{
  output *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  *o = (output){.c = c, .status = -1, .n_sources = 2 * c->count};
  o->n_streams = 2 * (c->output == OUTPUT_MPIRUN ? c->ranks : c->count);
  o->sources = calloc((size_t)o->n_sources, sizeof *o->sources);
  o->polled = calloc((size_t)o->n_sources + 2, sizeof *o->polled);
  o->polled_source = calloc((size_t)o->n_sources, sizeof *o->polled_source);
  o->streams = calloc((size_t)o->n_streams, sizeof *o->streams);
  o->saving = calloc((size_t)c->ranks, 1);
  if (!o->sources || !o->polled || !o->polled_source || !o->streams || !o->saving) return output_free(o), NULL;
  for (int i = 0; i < o->n_sources; i++) o->sources[i] = (source){-1, -1};
  o->out = (screen){.fd = STDOUT_FILENO, .terminal = isatty(STDOUT_FILENO), .amid = &o->amid};
  o->err = (screen){.fd = STDERR_FILENO, .terminal = isatty(STDERR_FILENO), .amid = &o->amid};
  o->frames = (frame_reader){.frame = on_frame, .other = on_words, .user = o};
  o->words = (mpirun_words){.put = put_words, .user = o};
  make_streams(o);
  if (c->output == OUTPUT_FRAMES) mux_pipe(STDERR_FILENO);
  return o;
}

void output_free(output *o)
{
  if (!o) return;
  if (o->frames.frame) mux_end(&o->frames);
  for (int i = 0; o->streams && i < o->n_streams; i++) tag_end(&o->streams[i].line);
  if (o->words.put) mpirun_words_end(&o->words);
  for (int i = 0; o->sources && i < o->n_sources; i++)
    if (o->sources[i].from >= 0) close(o->sources[i].from);
  free(o->sources);
  free(o->polled);
  free(o->polled_source);
  free(o->streams);
  free(o->saving);
  free(o);
}

/* ---- pipes ------------------------------------------------------------------------------------ */

bool output_open(output *o, int index)
{
  for (int k = 0; o && k < 2; k++) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    o->sources[2 * index + k] = (source){ends[0], ends[1]};
  }
  return true;
}

void output_enter(output *o, int index)
{
  if (!o) return;
  for (int k = 0; k < 2; k++) dup2(o->sources[2 * index + k].to, k ? STDERR_FILENO : STDOUT_FILENO);
  for (int i = 0; i < o->n_sources; i++) {
    if (o->sources[i].from >= 0) close(o->sources[i].from);
    if (o->sources[i].to >= 0) close(o->sources[i].to);
  }
}

void output_started(output *o, int index)
{
  for (int k = 0; o && k < 2; k++) {
    close(o->sources[2 * index + k].to);
    o->sources[2 * index + k].to = -1;
  }
}

struct pollfd *output_polled(output *o)
{
  if (!o) return NULL;
  o->n_polled = 0;
  for (int i = 0; i < o->n_sources; i++) {
    if (o->sources[i].from < 0) continue;
    o->polled[o->n_polled] = (struct pollfd){.fd = o->sources[i].from, .events = POLLIN};
    o->polled_source[o->n_polled++] = i;
  }
  return o->polled;
}

int output_count(const output *o) { return o ? o->n_polled : 0; }

static void take(output *o, int i, const char *bytes, size_t n)
{
  if (o->c->output != OUTPUT_MPIRUN)
    tag_feed(&o->streams[i].line, bytes, n);
  else if (i % 2)
    mux_feed(&o->frames, bytes, n);
  else
    on_words(o, bytes, n);
}

static void end(output *o, int i)
{
  close(o->sources[i].from);
  o->sources[i].from = -1;
  if (o->c->output == OUTPUT_MPIRUN) return;
  tag_end(&o->streams[i].line);
}

/* Standard output first: what a rank prints to standard error may follow a bar that it has taken away there. */
void output_read(output *o)
{
  char bytes[1 << 16];
  for (int k = 0; o && k < o->n_polled; k++) {
    if (!o->polled[k].revents) continue;
    int i = o->polled_source[k];
    ssize_t n = read(o->sources[i].from, bytes, sizeof bytes);
    if (n > 0) take(o, i, bytes, (size_t)n);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) end(o, i);
  }
  if (o) o->n_polled = 0;
}

const char *output_lost(void)
{
  struct rlimit size;
  bool limited = getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY;
  return limited ? "capl: not everything could be written to standard output; is the disk full, or the file as large "
                   "as ulimit -f allows?"
                 : "capl: not everything could be written to standard output; is the disk full?";
}

bool output_failed(const output *o) { return o->out.failed; }

bool output_left(const output *o)
{
  for (int i = 0; o && i < o->n_sources; i++)
    if (o->sources[i].from >= 0) return true;
  return false;
}

/* ---- what is known of the ranks ---------------------------------------------------------------- */

void output_state(output *o, bool saving)
{
  if (!o || o->c->output != OUTPUT_FRAMES || o->state == saving) return;
  o->state = saving;
  mux_write(STDERR_FILENO, o->c->first, 's', saving ? "1" : "0", 1);
}

void output_folder(output *o)
{
  if (!o || o->folder_sent || o->c->output != OUTPUT_FRAMES || !o->c->run_folder) return;
  if (!__atomic_load_n(o->c->run_folder, __ATOMIC_ACQUIRE)) return;
  o->folder_sent = true;
  size_t n = strnlen(o->c->run_folder, FRAME_BYTES);
  if (n < FRAME_BYTES - FRAME_HEAD) mux_write(STDERR_FILENO, o->c->first, 'f', o->c->run_folder, n);
}

void output_finish(output *o, int status)
{
  char text[8];
  if (!o || o->c->output != OUTPUT_FRAMES) return;
  for (int i = 0; i < o->n_streams; i++) tag_end(&o->streams[i].line);
  mux_write(STDERR_FILENO, o->c->first, 'x', text, (size_t)snprintf(text, sizeof text, "%d", status & 255));
}

bool output_saving(const output *o)
{
  return memchr(o->saving, 1, (size_t)o->c->ranks) != NULL;
}

int output_status(const output *o) { return o->status; }
