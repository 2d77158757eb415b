/* http.c -- fuzz target: any bytes at the port of `capl serve`: each request gets an answer, or the connection ends.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "fuzz.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "program/serve/serve.h"

extern const serve_functions *serve_entry(void);

enum { IDLE_MOST = 10 };

static const serve_functions *serve;

static serve_server *open_server(void)
{
  static const serve_options options = {
    .host = "127.0.0.1", .batch = 4, .queue = 8, .body = 4096, .memory = 1 << 20, .pixels = 10000, .time = 2, .connections = 8,
    .threads = 1, .page = "<!doctype html>", .model = "model", .version = "0", .takes = {.image = "image"}, .channels = 1};
  serve_server *server;
  serve = serve_entry();
  FUZZ_CHECK(serve->open(&options, &server) == CAPL_OK && serve->start(server) == CAPL_OK);
  return server;
}

static int connect_to(int port)
{
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  FUZZ_CHECK(fd >= 0);
  /* no port stays taken behind the connection */
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
  while (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EISCONN) /* the fuzzer's timer interrupts it */
    FUZZ_CHECK(errno == EINTR || errno == EALREADY);
  return fd;
}

/* What the model would say. */
static void compute(serve_server *server)
{
  const capl_model_sample *samples;
  int n = serve->take(server, 0, &samples);
  for (int i = 0; i < n; i++) {
    FUZZ_CHECK(samples[i].width > 0 && samples[i].height > 0 && samples[i].channels == 1);
    serve->answer(server, i, 200, "{}", 2);
  }
}

static void check_answer(const char *text, size_t n)
{
  int status = 0;
  if (n == 0) return;
  FUZZ_CHECK(n > 12 && sscanf(text, "HTTP/1.%*d %d", &status) == 1);
  FUZZ_CHECK(status == 100 || status == 200 || (status >= 400 && status < 500) || status == 501 || status == 503 || status == 505);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static serve_server *server;
  char text[65536];
  size_t n = 0;
  if (!server) server = open_server();
  int fd = connect_to(serve->port(server));
  ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  int idle = 0; /* milliseconds; the server waits for the rest of what is no whole request */
  for (ssize_t got = 1; sent >= 0 && got != 0 && n < sizeof text - 1 && idle < IDLE_MOST; idle++) {
    compute(server);
    got = recv(fd, text + n, sizeof text - 1 - n, MSG_DONTWAIT);
    if (got > 0) n += (size_t)got, idle = 0;
    else if (got < 0 && errno != EAGAIN && errno != EINTR) break; /* the server has reset it */
    else if (got < 0) poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1);
  }
  text[n] = '\0';
  check_answer(text, n);
  close(fd);
  while (serve->left(server) > 0) compute(server);
  return 0;
}
