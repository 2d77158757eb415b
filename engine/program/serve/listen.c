/* listen.c -- the socket at which clients arrive.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "program/serve/server.h"

enum { BACKLOG = 511 };

/* -1 with errno: it cannot be had. */
static int open_at(const struct addrinfo *a)
{
  int on = 1, fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
  int why = errno;
  close(fd);
  return errno = why, -1;
}

static int port_of(int fd)
{
  struct sockaddr_storage a;
  socklen_t n = sizeof a;
  if (getsockname(fd, (struct sockaddr *)&a, &n) != 0) return 0;
  return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
}

static capl_status fail_to_listen(const char *host, int port, int why)
{
  CAPL_FAIL(CAPL_EIO, "cannot listen at port %d of %s: %s", port, host, capl_errno_text(why));
  if (why == EADDRINUSE) capl_error_hint("--port=N names another port, --port=0 takes any that is free");
  if (why == EACCES) capl_error_hint("ports below 1024 are the system's: --port=8080, with a proxy before it");
  if (why == EADDRNOTAVAIL) capl_error_hint("--host is an address of this machine; 0.0.0.0 and :: are all of them");
  return CAPL_EIO;
}

capl_status listen_open(const char *host, int port, int *fd, int *got)
{
  struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  int failed = getaddrinfo(host, service, &wanted, &list);
  if (failed) {
    CAPL_FAIL(CAPL_EVALUE, "--host=%.200s: %s", host, gai_strerror(failed));
    capl_error_hint("127.0.0.1 is this machine alone; 0.0.0.0 and :: are all of its addresses");
    return CAPL_EVALUE;
  }
  *fd = -1;
  for (const struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) *fd = open_at(a);
  failed = errno;
  freeaddrinfo(list);
  if (*fd < 0) return fail_to_listen(host, port, failed);
  *got = port_of(*fd);
  return CAPL_OK;
}
