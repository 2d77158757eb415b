/* rendezvous.c -- opens the control channel: over inherited sockets, at an address all ranks know, or at one that rank
** 0 sends. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sha2.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "dist/join.h"
#include "dist/control.h"

static const double JOIN_S = 60, TRY_S = 3, PAUSE_MS = 100;

struct control_listener {
  int fd;
  unsigned char secret[JOIN_SECRET];
};

/* Hashes a text of any length. */
static void secret_of(const char *text, unsigned char secret[JOIN_SECRET])
{
  SHA2_CTX hash;
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256Init(&hash);
  if (text) SHA256Update(&hash, (const uint8_t *)text, strlen(text));
  SHA256Final(digest, &hash);
  memcpy(secret, digest, JOIN_SECRET);
}

static join_options join_of(const control_options *o)
{
  join_options j = {.rank = o->rank, .size = o->size, .host = o->host, .seconds = o->seconds > 0 ? o->seconds : JOIN_S};
  secret_of(o->secret, j.secret);
  return j;
}

/* ---- both ends -------------------------------------------------------------------------------- */

static capl_status server_open(const control_options *options, const join_options *o, int listener, const int *sockets,
                             control **out)
{
  wire *links = calloc((size_t)o->size, sizeof *links);
  rank_identity *members = calloc((size_t)o->size, sizeof *members);
  capl_status status = links && members ? join_server(o, listener, sockets, links, members)
                                        : CAPL_FAIL(CAPL_ENOMEM, "no memory for a world of %d ranks", o->size);
  if (status == CAPL_OK) return control_start(options, links, members, out);
  free(links);
  free(members);
  return status;
}

static size_t members_bytes(int size)
{
  return sizeof(rank_identity) * (size_t)size;
}

/* Takes fd. */
static capl_status client_open(const control_options *options, const join_options *o, int fd, double deadline,
                               control **out)
{
  wire *link = calloc(1, sizeof *link);
  rank_identity *members = calloc((size_t)o->size, sizeof *members);
  capl_status status = CAPL_ENOMEM;
  if (link && members) {
    wire_open(link, fd, members_bytes(o->size));
    status = join_client(o, link, members, deadline);
    if (status == CAPL_OK) return control_start(options, link, members, out);
    wire_close(link);
  } else {
    CAPL_FAIL(CAPL_ENOMEM, "no memory for a world of %d ranks", o->size);
    close(fd);
  }
  free(link);
  free(members);
  return status;
}

capl_status control_open_sockets(const control_options *options, const int *sockets, control **out)
{
  join_options o = join_of(options);
  if (o.rank == 0) return server_open(options, &o, -1, sockets, out);
  return client_open(options, &o, sockets[0], clock_now() + o.seconds, out);
}

/* ---- rank 0's listener ---------------------------------------------------------------------------- */

/* Listens on all addresses of this host, of both families where the system has both, or on its loopback alone. port 0:
** a free one. */
static capl_status listener_open(int port, bool one_host, int *out)
{
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port),
                             .sin6_addr = one_host ? in6addr_loopback : in6addr_any};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY)};
  int err = 0;
  for (int k = 0; k < 2; k++) {
    int family = one_host ? !k : k; /* every host has 127.0.0.1 */
    const struct sockaddr *address = family ? (const struct sockaddr *)&four : (const struct sockaddr *)&six;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (!family) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    if (bind(fd, address, family ? sizeof four : sizeof six) == 0 && listen(fd, 1024) == 0) {
      fcntl(fd, F_SETFL, O_NONBLOCK); /* the client may be gone before accept */
      *out = fd;
      return CAPL_OK;
    }
    err = errno;
    close(fd);
  }
  return CAPL_FAIL(CAPL_EIO, "rank 0 cannot listen on port %d: %s", port, capl_errno_text(err));
}

static int listener_port(int fd)
{
  struct sockaddr_storage a;
  socklen_t len = sizeof a;
  if (getsockname(fd, (struct sockaddr *)&a, &len) != 0) return 0;
  return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
}

/* One address as text; false for what another process cannot use. */
static bool address_text(const struct ifaddrs *i, bool loopback, char *text, size_t len)
{
  if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || loopback != !!(i->ifa_flags & IFF_LOOPBACK)) return false;
  int family = i->ifa_addr->sa_family;
  if (family == AF_INET) return inet_ntop(family, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, text, (socklen_t)len);
  if (family != AF_INET6) return false;
  const struct in6_addr *a = &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
  return !IN6_IS_ADDR_LINKLOCAL(a) && inet_ntop(family, a, text, (socklen_t)len);
}

/* Loopback first: it answers at once on the same host, and is refused at once on others. */
static void addresses(bool one_host, char *where, size_t len)
{
  struct ifaddrs *all = NULL;
  if (getifaddrs(&all) != 0) all = NULL;
  size_t at = 0;
  for (int loopback = 1; loopback >= one_host; loopback--) {
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
      char text[INET6_ADDRSTRLEN];
      if (!address_text(i, loopback, text, sizeof text) || at + strlen(text) + 2 > len) continue;
      at += (size_t)snprintf(where + at, len - at, "%s%s", at ? "," : "", text);
    }
  }
  if (!at) snprintf(where, len, "127.0.0.1");
  freeifaddrs(all);
}

capl_status control_listen(bool one_host, char *where, control_listener **out)
{
  control_listener *listener = calloc(1, sizeof *listener);
  if (!listener) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a socket");
  capl_status status = listener_open(0, one_host, &listener->fd);
  unsigned char random[JOIN_SECRET];
  if (status == CAPL_OK && getrandom(random, sizeof random, 0) != sizeof random) {
    status = CAPL_FAIL(CAPL_EIO, "the system has no random numbers");
    close(listener->fd);
  }
  if (status != CAPL_OK) return free(listener), status;
  char hex[2 * JOIN_SECRET + 1];
  for (int i = 0; i < JOIN_SECRET; i++) snprintf(hex + 2 * i, 3, "%02x", random[i]);
  secret_of(hex, listener->secret);
  addresses(one_host, where, CONTROL_ADDRESS - 64);
  size_t at = strlen(where);
  snprintf(where + at, CONTROL_ADDRESS - at, ";%d;%s", listener_port(listener->fd), hex);
  *out = listener;
  return CAPL_OK;
}

capl_status control_accept(control_listener *listener, const control_options *options, control **out)
{
  join_options o = join_of(options);
  memcpy(o.secret, listener->secret, JOIN_SECRET);
  capl_status status = server_open(options, &o, listener->fd, NULL, out);
  close(listener->fd);
  free(listener);
  return status;
}

/* ---- the other ranks -------------------------------------------------------------------- */

/* A connected socket, or -1 with errno. */
static int connect_address(const struct addrinfo *a, double deadline)
{
  int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int err = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
  if (err == EINPROGRESS) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    double left = deadline - clock_now();
    int ready;
    do ready = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
    while (ready < 0 && errno == EINTR);
    socklen_t len = sizeof err;
    if (ready <= 0) err = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0) err = errno;
  }
  if (err == 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
  }
  close(fd);
  errno = err;
  return -1;
}

/* Connects to one address of a name. An unrelated process may listen at the same port of another host: the greeting
** detects it. */
static capl_status connect_name(const control_options *options, const join_options *o, const char *name, int port,
                         double deadline, control **out)
{
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
  int failed = getaddrinfo(name, service, &hints, &list);
  if (failed) return CAPL_FAIL(CAPL_EIO, "rank 0's host %s is not known here: %s", name, gai_strerror(failed));
  capl_status status = CAPL_EIO;
  for (struct addrinfo *a = list; a && status != CAPL_OK; a = a->ai_next) {
    double until = clock_now() + TRY_S;
    int fd = connect_address(a, until < deadline ? until : deadline);
    if (fd < 0)
      status = CAPL_FAIL(CAPL_EIO, "rank 0 cannot be reached at %s port %d: %s", name, port, capl_errno_text(errno));
    else status = client_open(options, o, fd, deadline, out);
  }
  freeaddrinfo(list);
  return status;
}

/* Tries all names in turn until one accepts. */
static capl_status connect_any(const control_options *options, const join_options *o, char *names, int port,
                               control **out)
{
  double deadline = clock_now() + o->seconds;
  char copy[CONTROL_ADDRESS];
  for (;;) {
    snprintf(copy, sizeof copy, "%s", names);
    char *rest = copy;
    for (char *name; (name = strsep(&rest, ","));)
      if (connect_name(options, o, name, port, deadline, out) == CAPL_OK) return CAPL_OK;
    if (clock_now() > deadline) {
      capl_error_hint("tried for %.3g s: %.300s port %d; a firewall may be closed, or rank 0 has ended", o->seconds,
                      names, port);
      return CAPL_EIO;
    }
    poll(NULL, 0, (int)PAUSE_MS);
  }
}

capl_status control_connect(const control_options *options, const char *where, control **out)
{
  join_options o = join_of(options);
  char copy[CONTROL_ADDRESS];
  snprintf(copy, sizeof copy, "%s", where);
  char *rest = copy, *names = strsep(&rest, ";"), *port = rest ? strsep(&rest, ";") : NULL;
  if (!port || !rest || !*names) return CAPL_FAIL(CAPL_EFORMAT, "rank 0 sent no address: '%.100s'", where);
  secret_of(rest, o.secret);
  return connect_any(options, &o, names, atoi(port), out);
}

static capl_status no_secret(void)
{
  CAPL_FAIL(CAPL_EVALUE, "ranks of several hosts meet at a port that others may reach, and have no secret to know "
                         "each other by");
  capl_error_hint("the same secret on every host: export CAPL_JOB_KEY=…, from openssl rand -hex 16; or torchrun "
                  "--rdzv_id of %d characters; "
                  "ranks of one host know that from LOCAL_WORLD_SIZE, and need none", CONTROL_SECRET);
  return CAPL_EVALUE;
}

capl_status control_open_tcp(const control_options *options, const char *address, int port, control **out)
{
  join_options o = join_of(options);
  char name[CONTROL_ADDRESS];
  snprintf(name, sizeof name, "%s", address);
  if (!options->secret || strlen(options->secret) < CONTROL_SECRET) return no_secret();
  if (o.rank != 0) return connect_any(options, &o, name, port, out);
  int listener;
  CAPL_TRY(listener_open(port, false, &listener));
  capl_status status = server_open(options, &o, listener, NULL, out);
  close(listener);
  return status;
}

/* ---- on one host ------------------------------------------------------------------------------ */

/* A name that is no file and ends with its socket. */
static socklen_t local_address(const char *name, struct sockaddr_un *a)
{
  *a = (struct sockaddr_un){.sun_family = AF_UNIX};
  int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "capl-%u-%s", (unsigned)geteuid(), name);
  size_t used = (size_t)n < sizeof a->sun_path - 1 ? (size_t)n : sizeof a->sun_path - 2;
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + used);
}

static capl_status local_server(const control_options *options, const join_options *o, const char *name, control **out)
{
  struct sockaddr_un a;
  socklen_t len = local_address(name, &a);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool open = listener >= 0 && bind(listener, (struct sockaddr *)&a, len) == 0 && listen(listener, 1024) == 0;
  capl_status status = open ? server_open(options, o, listener, NULL, out)
                            : CAPL_FAIL(CAPL_EIO, "rank 0 cannot listen as %s: %s", a.sun_path + 1,
                                        capl_errno_text(errno));
  if (listener >= 0) close(listener);
  return status;
}

/* A connected socket of the same user, or -1. */
static int local_connect(const char *name)
{
  struct sockaddr_un a;
  socklen_t len = local_address(name, &a);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&a, len) == 0 && join_same_user(fd)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

capl_status control_open_local(const control_options *options, const char *name, control **out)
{
  join_options o = join_of(options);
  o.same_user = true;
  if (o.rank == 0) return local_server(options, &o, name, out);
  double deadline = clock_now() + o.seconds;
  while (clock_now() <= deadline) {
    int fd = local_connect(name);
    if (fd >= 0 && client_open(options, &o, fd, deadline, out) == CAPL_OK) return CAPL_OK;
    poll(NULL, 0, (int)PAUSE_MS);
  }
  return CAPL_FAIL(CAPL_EIO, "rank 0 of this host cannot be reached within %.3g s: it has ended, or is another user's",
                   o.seconds);
}
