/* counters.c -- what a server has done so far, as JSON and for Prometheus.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "program/serve/server.h"

static const double bounds[SECONDS_BUCKETS] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10};

void counters_status(counters *c, int status)
{
  if (status > 0 && status < STATUS_MAX) atomic_fetch_add(&c->by_status[status], 1);
}

void counters_waited(counters *c, double seconds)
{
  for (int i = 0; i < SECONDS_BUCKETS; i++)
    if (seconds <= bounds[i]) atomic_fetch_add(&c->buckets[i], 1);
  atomic_fetch_add(&c->waited, 1);
  atomic_fetch_add(&c->waited_us, (long long)(seconds * 1e6));
}

/* The text of a stream that is closed here; NULL where there was no memory. */
static char *finish(FILE *out, char **text)
{
  if (out && fclose(out) == 0) return *text;
  free(*text);
  return NULL;
}

char *error_json(const char *why)
{
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  if (!out) return NULL;
  fputs("{\"error\": ", out);
  json_put_text(out, why, strlen(why));
  fputs("}\n", out);
  return finish(out, &text);
}

/* ---- /metrics ------------------------------------------------------------------------------------------ */

static void put_head(FILE *out, const char *name, const char *kind, const char *help)
{
  fprintf(out, "# HELP capl_serve_%s %s\n# TYPE capl_serve_%s %s\n", name, help, name, kind);
}

static void put_one(FILE *out, const char *name, const char *kind, const char *help, double value)
{
  put_head(out, name, kind, help);
  fprintf(out, "capl_serve_%s %.15g\n", name, value);
}

static void put_requests(FILE *out, const counters *c)
{
  put_head(out, "requests_total", "counter", "Answered requests by HTTP status.");
  for (int s = 0; s < STATUS_MAX; s++) {
    long long n = atomic_load(&c->by_status[s]);
    if (n > 0 || s == 200) fprintf(out, "capl_serve_requests_total{status=\"%d\"} %lld\n", s, n);
  }
}

static void put_seconds(FILE *out, const counters *c)
{
  long long all = atomic_load(&c->waited);
  put_head(out, "seconds", "histogram", "Seconds from a request's last byte to its answer, of requests for the model.");
  for (int i = 0; i < SECONDS_BUCKETS; i++)
    fprintf(out, "capl_serve_seconds_bucket{le=\"%g\"} %lld\n", bounds[i], atomic_load(&c->buckets[i]));
  fprintf(out, "capl_serve_seconds_bucket{le=\"+Inf\"} %lld\ncapl_serve_seconds_sum %.6f\ncapl_serve_seconds_count %lld\n",
          all, 1e-6 * (double)atomic_load(&c->waited_us), all);
}

char *counters_metrics(const counters *c, int waiting, int connections)
{
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  if (!out) return NULL;
  put_requests(out, c);
  put_seconds(out, c);
  put_one(out, "images_total", "counter", "Requests that the model was given.", (double)atomic_load(&c->images));
  put_one(out, "batches_total", "counter", "Batches that they were computed in.", (double)atomic_load(&c->batches));
  put_one(out, "model_seconds_total", "counter", "Seconds that the model computed.",
          1e-6 * (double)atomic_load(&c->computed_us));
  put_one(out, "received_bytes_total", "counter", "Bytes of bodies.", (double)atomic_load(&c->bytes_in));
  put_one(out, "queue", "gauge", "Requests that wait for the model.", waiting);
  put_one(out, "connections", "gauge", "Open connections.", connections);
  put_one(out, "uptime_seconds", "gauge", "Seconds since the start.", clock_now() - c->start);
  return finish(out, &text);
}

/* ---- /health ------------------------------------------------------------------------------------------- */

static long long answered(const counters *c, int from, int to)
{
  long long n = 0;
  for (int s = from; s < to; s++) n += atomic_load(&c->by_status[s]);
  return n;
}

char *counters_health(const counters *c, const serve_options *o, bool stopping, int waiting)
{
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  if (!out) return NULL;
  fprintf(out, "{\"status\": \"%s\", \"model\": ", stopping ? "stopping" : "ok");
  json_put_text(out, o->model, strlen(o->model));
  fprintf(out, ", \"version\": \"%s\", \"uptime_s\": %.1f, \"images\": %lld, \"batches\": %lld, \"queue\": %d, "
               "\"status_2xx\": %lld, \"status_4xx\": %lld, \"status_5xx\": %lld}\n",
          o->version, clock_now() - c->start, atomic_load(&c->images), atomic_load(&c->batches), waiting,
          answered(c, 200, 300), answered(c, 400, 500), answered(c, 500, STATUS_MAX));
  return finish(out, &text);
}
