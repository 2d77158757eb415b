/* serve.h -- what `capl serve` and libcapl_serve, which listens, share.
**
** The thread that runs Lua takes requests in batches, has the model compute them and answers. libmicrohttpd's threads
** read requests and decode images meanwhile.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SERVE_H
#define CAPL_SERVE_H

#include <stdint.h>

#include "capl/model.h"
#include "program/serve/body.h"

enum { SERVE_ABI = 1, SERVE_BATCH_MAX = 64 };

typedef struct serve_server serve_server;

typedef struct {
  const char *host; /* a name or an address */
  int port;         /* 0 = any that is free */
  int batch;        /* requests that are computed together, at most SERVE_BATCH_MAX */
  double wait;      /* seconds that the first of them waits for others */
  int queue;        /* requests that wait for the model */
  double body;      /* bytes of a request's body */
  double memory;    /* bytes of all bodies and images at once */
  double pixels;    /* of an image */
  double time;      /* seconds in which a request is to arrive, and those it may wait */
  int connections, threads;
  const char *page, *model, *version; /* HTML of /; what /health says */
  body_rules takes; /* its texts live as long as the server */
  int channels;     /* of the model's images */
} serve_options;

/* The library's functions. None but `answer` and `take` may be called by two threads at a time. */
typedef struct {
  int abi;
  /* Listens; nobody is let in yet. Everything that options point to lives until close. EVALUE: no such host; EIO: the
  ** port cannot be had; ENOMEM. */
  capl_status (*open)(const serve_options *options, serve_server **server);
  int (*port)(const serve_server *server);
  /* Lets clients in: in the sandbox, which allows no new listeners. EIO. */
  capl_status (*start)(serve_server *server);
  /* The next batch, borrowed until all of it is answered. -> how many; 0 = none came within so many seconds. */
  int (*take)(serve_server *server, double patience, const capl_model_sample **samples);
  /* The answer to sample i of the batch: an HTTP status and JSON of n bytes, which is copied. */
  void (*answer)(serve_server *server, int i, int status, const char *json, size_t n);
  void (*stop)(serve_server *server); /* from now on new requests get 503 */
  int (*left)(serve_server *server);  /* requests that are not answered yet */
  void (*close)(serve_server *server); /* NULL is fine */
  char *(*base64)(const void *bytes, size_t n); /* free() it; NULL: no memory */
} serve_functions;

#endif
