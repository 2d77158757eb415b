/* server.h -- a server, as the files of libcapl_serve know it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SERVE_SERVER_H
#define CAPL_SERVE_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include <microhttpd.h>

#include "capl/image.h"
#include "program/serve/serve.h"

/* ---- connections (peers.c) ----------------------------------------------------------------------------- */

/* What a connection is doing; those that take too long are ended. */
typedef enum {
  PEER_NEW,       /* nothing has come yet */
  PEER_IDLE,      /* between two requests */
  PEER_RECEIVING, /* a request is arriving */
  PEER_BUSY,      /* the server has it: no deadline */
  PEER_ENDING,    /* it was answered before its request was whole; what still comes is dropped */
} peer_state;

typedef struct peer {
  int fd;
  peer_state state; /* under peers.lock, like since */
  double since;
  struct peer *next, **link;
} peer;

typedef struct {
  pthread_mutex_t lock;
  peer *first;
  int count;
  double patience; /* seconds */
  atomic_bool over;
  pthread_t watch; /* the thread that looks for deadlines */
  bool watched;
  struct counters *counters;
} peers;

capl_status peers_start(peers *p, double patience, struct counters *counters);
void peers_stop(peers *p);
peer *peers_add(peers *p, int fd);
void peers_remove(peers *p, peer *one);
/* false: it is ending, and stays so. */
bool peers_set(peers *p, peer *one, peer_state state);
/* Answers in the middle of a request, which libmicrohttpd cannot: the connection ends with it. */
void peers_refuse(peers *p, peer *one, int status, const char *why);

/* ---- counters (counters.c) ----------------------------------------------------------------------------- */

enum { STATUS_MAX = 600, SECONDS_BUCKETS = 12 };

typedef struct counters {
  double start;
  atomic_llong by_status[STATUS_MAX], bytes_in, batches, images, waited;
  atomic_llong buckets[SECONDS_BUCKETS], waited_us, computed_us; /* of requests that have left the queue */
} counters;

void counters_status(counters *c, int status);
void counters_waited(counters *c, double seconds);
/* {"error": "…"}; NULL: no memory. Caller frees it. */
char *error_json(const char *why);
/* The text of /metrics and of /health; NULL: no memory. Caller frees it. */
char *counters_metrics(const counters *c, int waiting, int connections);
char *counters_health(const counters *c, const serve_options *o, bool stopping, int waiting);

/* ---- requests (queue.c) -------------------------------------------------------------------------------- */

typedef struct request {
  serve_server *server;
  struct MHD_Connection *connection;
  peer *peer;
  char *type;          /* Content-Type; NULL = none */
  char *body;
  size_t size, room;
  size_t held;         /* bytes that count as the server's memory */
  body_parts parts;
  capl_image image;
  int status;          /* 0 = no answer yet */
  char *answer;        /* JSON */
  bool dropped;        /* it was answered before it was whole */
  double since;        /* when it was put into the queue */
  struct request *next;
} request;

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  request *first, **last;
  int waiting;
  bool closed; /* nobody takes requests any more */
} queue;

capl_status queue_start(queue *q);
void queue_end(queue *q);
/* Suspends the connection and puts its request behind the others. false: most of them wait already. */
bool queue_push(queue *q, request *r, int most);
/* Takes up to most requests, as soon as there are so many or the first has waited so long. -> how many; 0: none came
** within patience. Seconds. */
int queue_take(queue *q, int most, double wait, double patience, request **taken);
/* Sets a request's answer, which it frees, and wakes its connection. */
void request_answer(request *r, int status, char *json);
void request_free(request *r);
/* So many more bytes for a request. false: the server's limit would be passed. */
bool request_hold(request *r, size_t bytes);

/* ---- the server (http.c) ------------------------------------------------------------------------------- */

struct serve_server {
  serve_options o;
  int listener, port;
  struct MHD_Daemon *daemon;
  peers peers;
  queue queue;
  counters counters;
  atomic_bool stopping;
  atomic_int in_progress;
  atomic_size_t held;
  /* the batch that is being computed */
  int n_taken;
  double taken_at;
  request *taken[SERVE_BATCH_MAX];
  capl_model_sample samples[SERVE_BATCH_MAX];
  const float *values[SERVE_BATCH_MAX][BODY_INPUTS_MAX];
};

/* Opens a listening socket (listen.c). EVALUE, EIO. */
capl_status listen_open(const char *host, int port, int *fd, int *got);

#endif
