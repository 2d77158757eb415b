/* http.c -- the server: libmicrohttpd reads requests, which become samples of a batch, and sends the answers.
**
** A request for the model is suspended while it waits. Everything that is wrong with one is found before that, by the
** thread that has read it: its kind, its size, its image.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "program/serve/base64.h"
#include "program/serve/server.h"

enum { FIRST_ROOM = 16384, LINGER_S = 5, SPARE_FILES = 64 };

/* ---- answers ----------------------------------------------------------------------------------- */

typedef struct MHD_Connection connection;

static const char page_policy[] = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                  "img-src blob: data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
                                  "frame-ancestors 'none'";

static void add_headers(const serve_server *s, struct MHD_Response *response, int status, const char *type)
{
  MHD_add_response_header(response, "Content-Type", type);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "Cache-Control", "no-store");
  if (strncmp(type, "text/html", 9) == 0) MHD_add_response_header(response, "Content-Security-Policy", page_policy);
  if (status == MHD_HTTP_TOO_MANY_REQUESTS || status == MHD_HTTP_SERVICE_UNAVAILABLE)
    MHD_add_response_header(response, "Retry-After", "1");
  if (atomic_load(&s->stopping)) MHD_add_response_header(response, "Connection", "close");
}

/* text: freed here; NULL: there was no memory for it. */
static enum MHD_Result reply(serve_server *s, connection *c, int status, const char *type, char *text,
                             const char *allow)
{
  size_t n = text ? strlen(text) : 0;
  struct MHD_Response *response = MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE);
  if (!response) return free(text), MHD_NO;
  if (!text) status = MHD_HTTP_INTERNAL_SERVER_ERROR;
  add_headers(s, response, status, type);
  if (allow) MHD_add_response_header(response, "Allow", allow);
  enum MHD_Result queued = MHD_queue_response(c, (unsigned)status, response);
  MHD_destroy_response(response);
  counters_status(&s->counters, status);
  return queued;
}

static enum MHD_Result reply_json(serve_server *s, connection *c, int status, char *text)
{
  return reply(s, c, status, "application/json", text, NULL);
}

__attribute__((format(printf, 3, 4))) static void refuse(request *r, int status, const char *fmt, ...)
{
  char why[BODY_WHY + 200];
  va_list args;
  va_start(args, fmt);
  vsnprintf(why, sizeof why, fmt, args);
  va_end(args);
  if (r->status == 0) r->status = status, r->answer = error_json(why);
}

/* Before the request is whole. */
__attribute__((format(printf, 3, 4))) static void refuse_now(request *r, int status, const char *fmt, ...)
{
  char why[BODY_WHY];
  va_list args;
  va_start(args, fmt);
  vsnprintf(why, sizeof why, fmt, args);
  va_end(args);
  peers_refuse(&r->server->peers, r->peer, status, why);
  r->dropped = true;
}

/* ---- what needs no model ----------------------------------------------------------------------- */

static int connections_of(serve_server *s)
{
  pthread_mutex_lock(&s->peers.lock);
  int n = s->peers.count;
  pthread_mutex_unlock(&s->peers.lock);
  return n;
}

static int waiting_of(serve_server *s)
{
  pthread_mutex_lock(&s->queue.lock);
  int n = s->queue.waiting;
  pthread_mutex_unlock(&s->queue.lock);
  return n;
}

static enum MHD_Result give_page(serve_server *s, connection *c)
{
  return reply(s, c, MHD_HTTP_OK, "text/html; charset=utf-8", strdup(s->o.page), NULL);
}

static enum MHD_Result give_health(serve_server *s, connection *c)
{
  bool stopping = atomic_load(&s->stopping);
  return reply_json(s, c, stopping ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
                    counters_health(&s->counters, &s->o, stopping, waiting_of(s)));
}

static enum MHD_Result give_metrics(serve_server *s, connection *c)
{
  return reply(s, c, MHD_HTTP_OK, "text/plain; version=0.0.4",
               counters_metrics(&s->counters, waiting_of(s), connections_of(s)), NULL);
}

static const struct {
  const char *path;
  enum MHD_Result (*give)(serve_server *, connection *); /* NULL: there is nothing to get */
  bool takes;                                            /* images */
} places[] = {{"/", give_page, true}, {"/predict", NULL, true}, {"/health", give_health, false},
              {"/metrics", give_metrics, false}};
enum { PLACES = sizeof places / sizeof *places };

static int find_place(const char *path)
{
  for (int i = 0; i < PLACES; i++)
    if (strcmp(places[i].path, path) == 0) return i;
  return -1;
}

static bool is_read(const char *method) { return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0; }

/* The answer to a request that brings no image. */
static enum MHD_Result give(serve_server *s, connection *c, const char *path, const char *method)
{
  int at = find_place(path);
  if (at < 0)
    return reply_json(s, c, MHD_HTTP_NOT_FOUND,
                      error_json("no such page; there are POST /predict, and GET /, /health and /metrics"));
  if (is_read(method) && places[at].give) return places[at].give(s, c);
  const char *allow = !places[at].takes ? "GET, HEAD" : places[at].give ? "GET, HEAD, POST" : "POST";
  return reply(s, c, MHD_HTTP_METHOD_NOT_ALLOWED, "application/json",
               error_json(places[at].takes ? "images are sent by POST" : "this page is read by GET"), allow);
}

/* ---- a request arrives ------------------------------------------------------------------------- */

static peer *peer_of(connection *c)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

static const char *header_of(connection *c, const char *name)
{
  return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static void refuse_size(request *r)
{
  refuse_now(r, MHD_HTTP_CONTENT_TOO_LARGE, "the body has more than %.6g MB, the limit of this server (--body)",
             r->server->o.body / 1e6);
}

static void refuse_memory(request *r)
{
  refuse_now(r, MHD_HTTP_TOO_MANY_REQUESTS,
             "the requests at work hold %.6g MB, the limit of this server (--memory); try again later",
             r->server->o.memory / 1e6);
}

/* The headers are there. */
static request *begin(serve_server *s, connection *c, const char *path, const char *method)
{
  int at = find_place(path);
  request *r = calloc(1, sizeof *r);
  peer *p = peer_of(c);
  if (!r || !p) return free(r), NULL;
  *r = (request){.server = s, .connection = c, .peer = p};
  atomic_fetch_add(&s->in_progress, 1);
  if (strcmp(method, "POST") != 0 || at < 0 || !places[at].takes) return r;
  const char *type = header_of(c, "Content-Type"), *length = header_of(c, "Content-Length");
  if (type) r->type = strdup(type);
  if (length && strtod(length, NULL) > s->o.body) refuse_size(r);
  else if (atomic_load(&s->stopping)) refuse(r, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping");
  return r;
}

static bool grow(request *r, size_t more)
{
  if (r->size + more <= r->room) return true;
  size_t room = r->room ? 2 * r->room : FIRST_ROOM;
  while (room < r->size + more) room *= 2;
  if (!request_hold(r, room - r->room)) return false;
  char *body = realloc(r->body, room);
  if (!body) return false;
  r->body = body;
  r->room = room;
  return true;
}

/* Bytes of the body; those of a request that is refused are read and dropped. */
static void receive(request *r, const char *data, size_t n)
{
  serve_server *s = r->server;
  atomic_fetch_add(&s->counters.bytes_in, (long long)n);
  if (r->dropped) return;
  if ((double)(r->size + n) > s->o.body) return refuse_size(r);
  if (r->status) return (void)(r->size += n);
  if (!grow(r, n)) return refuse_memory(r);
  memcpy(r->body + r->size, data, n);
  r->size += n;
}

/* ---- it is whole ------------------------------------------------------------------------------- */

/* Behind "the image: " of a message of the decoder. */
static const char *reason(void)
{
  const char *message = capl_error_last()->message;
  return strncmp(message, "the image: ", 11) == 0 ? message + 11 : message;
}

/* The pixels of the image, before anything is decoded its size is known. */
static void decode(request *r)
{
  serve_server *s = r->server;
  const body_parts *p = &r->parts;
  capl_image_info info;
  capl_status status = capl_image_probe(p->image, p->image_bytes, "the image", &info);
  if (status == CAPL_EVALUE)
    return refuse(r, MHD_HTTP_CONTENT_TOO_LARGE, "the image: %s; the limit of this server is %.6g (--pixels)", reason(),
                  s->o.pixels / 1e6);
  if (status != CAPL_OK) return refuse(r, HTTP_BAD, "the image: %s", reason());
  double pixels = (double)info.width * info.height;
  if (pixels > s->o.pixels)
    return refuse(r, MHD_HTTP_CONTENT_TOO_LARGE,
                  "the image has %d x %d px, more than %.6g megapixels, the limit of this server (--pixels)", info.width,
                  info.height, s->o.pixels / 1e6);
  if (!request_hold(r, (size_t)pixels * 4))
    return refuse(r, MHD_HTTP_TOO_MANY_REQUESTS, "the requests at work hold %.6g MB, the limit of this server (--memory); "
                                                 "try again later", s->o.memory / 1e6);
  if (capl_image_decode(p->image, p->image_bytes, "the image", s->o.channels, &r->image) != CAPL_OK)
    refuse(r, capl_error_last()->code == CAPL_ENOMEM ? HTTP_FAILED : HTTP_BAD, "the image: %s", reason());
}

/* Reads the body, and lets go of it. */
static void read_body(request *r)
{
  serve_server *s = r->server;
  char why[BODY_WHY];
  int wrong = body_read(&s->o.takes, r->type, r->body, r->size, &r->parts, why);
  if (wrong) refuse(r, wrong, "%s", why);
  else if (s->o.takes.image) decode(r);
  atomic_fetch_sub(&s->held, r->room);
  r->held -= r->room;
  r->room = 0;
  free(r->body);
  free(r->parts.own);
  r->body = NULL;
  r->parts.own = NULL;
}

static enum MHD_Result send_answer(request *r)
{
  char *answer = r->answer;
  r->answer = NULL;
  return reply_json(r->server, r->connection, r->status, answer);
}

/* Into the queue, or at once the answer to what is wrong with it. */
static enum MHD_Result finish(request *r, const char *path, const char *method)
{
  serve_server *s = r->server;
  if (!peers_set(&s->peers, r->peer, PEER_BUSY) || r->dropped) return MHD_NO;
  int at = find_place(path);
  if (strcmp(method, "POST") != 0 || at < 0 || !places[at].takes) return give(s, r->connection, path, method);
  if (r->status == 0) read_body(r);
  if (r->status == 0 && queue_push(&s->queue, r, s->o.queue)) return MHD_YES;
  if (atomic_load(&s->stopping)) refuse(r, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping");
  refuse(r, MHD_HTTP_TOO_MANY_REQUESTS, "%d requests wait already, the limit of this server (--queue); try again later",
         s->o.queue);
  return send_answer(r);
}

static enum MHD_Result handle(void *user, connection *c, const char *path, const char *method, const char *version,
                              const char *data, size_t *size, void **mine)
{
  (void)version;
  request *r = *mine;
  if (!r) return (*mine = begin(user, c, path, method)) ? MHD_YES : MHD_NO;
  if (*size > 0) return receive(r, data, *size), *size = 0, MHD_YES;
  return r->status && r->since > 0 ? send_answer(r) : finish(r, path, method);
}

/* ---- what libmicrohttpd says ------------------------------------------------------------------- */

/* A request's first line is there. */
static void *on_line(void *user, const char *line, connection *c)
{
  serve_server *s = user;
  peer *p = peer_of(c);
  (void)line;
  if (p) peers_set(&s->peers, p, PEER_RECEIVING);
  return NULL;
}

static void on_completed(void *user, connection *c, void **mine, enum MHD_RequestTerminationCode how)
{
  serve_server *s = user;
  peer *p = peer_of(c);
  (void)how;
  if (p) peers_set(&s->peers, p, PEER_IDLE);
  if (!*mine) return;
  request_free(*mine);
  *mine = NULL;
  atomic_fetch_sub(&s->in_progress, 1);
}

static void on_connection(void *user, connection *c, void **context, enum MHD_ConnectionNotificationCode what)
{
  serve_server *s = user;
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) *context = info ? peers_add(&s->peers, info->connect_fd) : NULL;
  else peers_remove(&s->peers, *context);
}

/* What clients do wrong is theirs to hear. */
static void log_nothing(void *user, const char *fmt, va_list args) { (void)user, (void)fmt, (void)args; }

/* ---- the life of a server ---------------------------------------------------------------------- */

static void stop(serve_server *s)
{
  if (atomic_exchange(&s->stopping, true) || !s->daemon) return;
  s->listener = MHD_quiesce_daemon(s->daemon); /* closed when no thread can use it any more */
  if (s->listener >= 0) shutdown(s->listener, SHUT_RDWR);
}

/* Whoever still waits gets an answer: libmicrohttpd does not end with suspended connections. */
static void answer_all(serve_server *s)
{
  request *r;
  pthread_mutex_lock(&s->queue.lock);
  s->queue.closed = true;
  pthread_mutex_unlock(&s->queue.lock);
  for (int i = 0; i < s->n_taken; i++)
    if (s->taken[i]) request_answer(s->taken[i], MHD_HTTP_SERVICE_UNAVAILABLE, error_json("the server has stopped"));
  while (queue_take(&s->queue, 1, 0, 0, &r) == 1)
    request_answer(r, MHD_HTTP_SERVICE_UNAVAILABLE, error_json("the server has stopped"));
}

static void close_server(serve_server *s)
{
  if (!s) return;
  if (s->daemon) stop(s), answer_all(s), MHD_stop_daemon(s->daemon);
  peers_stop(&s->peers);
  if (s->listener >= 0) close(s->listener);
  queue_end(&s->queue);
  pthread_mutex_destroy(&s->peers.lock);
  free(s);
}

/* Each connection is an open file. */
static capl_status need_descriptors(int connections)
{
  struct rlimit now;
  rlim_t least = (rlim_t)connections + SPARE_FILES;
  if (getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur >= least) return CAPL_OK;
  now.rlim_cur = least < now.rlim_max ? least : now.rlim_max;
  if (now.rlim_cur == least && setrlimit(RLIMIT_NOFILE, &now) == 0) return CAPL_OK;
  CAPL_FAIL(CAPL_EIO, "%d connections need %d open files, and at most %d are allowed here (ulimit -n)", connections,
            (int)least, (int)now.rlim_max);
  capl_error_hint("--connections=%d, or more open files: ulimit -n %d",
                  now.rlim_max > SPARE_FILES ? (int)(now.rlim_max - SPARE_FILES) : 1, (int)least);
  return CAPL_EIO;
}

static capl_status open_server(const serve_options *o, serve_server **out)
{
  CAPL_TRY(need_descriptors(o->connections));
  serve_server *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a server");
  s->o = *o;
  s->listener = -1;
  s->counters.start = clock_now();
  pthread_mutex_init(&s->peers.lock, NULL);
  capl_status status = queue_start(&s->queue);
  if (status == CAPL_OK) status = listen_open(o->host, o->port, &s->listener, &s->port);
  if (status != CAPL_OK) return close_server(s), status;
  *out = s;
  return CAPL_OK;
}

static int port_of(const serve_server *s) { return s->port; }

/* libmicrohttpd's threads take no signals: those are for the thread that runs Lua. */
static void start_daemon(serve_server *s)
{
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  s->daemon = MHD_start_daemon(
    MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, (uint16_t)s->port, NULL, NULL, handle,
    s, MHD_OPTION_EXTERNAL_LOGGER, log_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, s->listener,
    MHD_OPTION_THREAD_POOL_SIZE, (unsigned)s->o.threads, MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->o.connections,
    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(s->o.time + LINGER_S), MHD_OPTION_URI_LOG_CALLBACK, on_line, s,
    MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
    MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  pthread_sigmask(SIG_SETMASK, &former, NULL);
}

static capl_status start_server(serve_server *s)
{
  CAPL_TRY(peers_start(&s->peers, s->o.time, &s->counters));
  errno = 0;
  start_daemon(s);
  int why = errno;
  if (s->daemon) return s->listener = -1, CAPL_OK; /* it is libmicrohttpd's now */
  CAPL_FAIL(CAPL_EIO, "libmicrohttpd %s cannot serve %d connections with %d threads%s%s", MHD_get_version(),
            s->o.connections, s->o.threads, why ? ": " : "", why ? strerror(why) : "");
  capl_error_hint("fewer --connections, or more open files: ulimit -n 4096");
  return CAPL_EIO;
}

static int take(serve_server *s, double patience, const capl_model_sample **samples)
{
  request *r[SERVE_BATCH_MAX];
  int n = queue_take(&s->queue, s->o.batch, s->o.wait, patience, r);
  double now = clock_now();
  s->n_taken = 0;
  for (int i = 0; i < n; i++) {
    if (now - r[i]->since > s->o.time) {
      request_answer(r[i], MHD_HTTP_SERVICE_UNAVAILABLE,
                     error_json("the request waited longer than --time of this server for the model; try again later"));
      continue;
    }
    int k = s->n_taken++;
    s->taken[k] = r[i];
    for (int v = 0; v < BODY_INPUTS_MAX; v++) s->values[k][v] = r[i]->parts.numbers[v];
    s->samples[k] = (capl_model_sample){.pixels = r[i]->image.pixels, .width = r[i]->image.width,
                                        .height = r[i]->image.height, .channels = r[i]->image.channels,
                                        .values = s->values[k]};
  }
  s->taken_at = now;
  *samples = s->samples;
  if (s->n_taken > 0) atomic_fetch_add(&s->counters.batches, 1);
  atomic_fetch_add(&s->counters.images, s->n_taken);
  return s->n_taken;
}

static void answer(serve_server *s, int i, int status, const char *json, size_t n)
{
  if (i < 0 || i >= s->n_taken || !s->taken[i]) return;
  request *r = s->taken[i];
  s->taken[i] = NULL;
  if (i == 0) atomic_fetch_add(&s->counters.computed_us, (long long)(1e6 * (clock_now() - s->taken_at)));
  request_answer(r, status, strndup(json, n));
}

static int left(serve_server *s) { return atomic_load(&s->in_progress); }

extern const serve_functions *serve_entry(void);
CAPL_API const serve_functions *serve_entry(void)
{
  static const serve_functions functions = {SERVE_ABI, open_server, port_of, start_server, take, answer, stop, left,
                                            close_server, base64_encode};
  return &functions;
}
