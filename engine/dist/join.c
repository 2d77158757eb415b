/* join.c -- how the ranks of a control channel find each other: sockets with a greeting on both sides.
**
** Rank 0 of several hosts may be reachable by any network of its host, so it listens on all of them; that of one
** host is open there alone. Whoever comes has to say the job's secret in a greeting of fixed size. Strangers, greetings
** that never end and ranks that come twice are turned away without the others waiting for them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "dist/join.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "capl/capl.h"

enum { CLIENTS = 256, GREETING_S = 5, VERSION = 24 };

typedef struct {
  unsigned char secret[JOIN_SECRET];
  int32_t rank, size, process;
  uint32_t bytes; /* of a heartbeat: sides that differ in it are not of one program */
  char version[VERSION];
  char host[CAPL_HOST_NAME];
} greeting;

static int wait_ms(double deadline)
{
  double left = deadline - clock_now();
  return left <= 0 ? 0 : left > 1 ? 1000 : (int)(left * 1000) + 1;
}

static void greeting_make(const join_options *o, greeting *g)
{
  *g = (greeting){.rank = o->rank, .size = o->size, .process = (int32_t)getpid(), .bytes = sizeof(watchdog_status)};
  memcpy(g->secret, o->secret, JOIN_SECRET);
  snprintf(g->version, sizeof g->version, "%s", capl_version());
  snprintf(g->host, sizeof g->host, "%s", o->host);
}

/* Takes as long for a wrong secret as for a right one. */
static bool same_secret(const unsigned char *a, const unsigned char *b)
{
  unsigned char differ = 0;
  for (int i = 0; i < JOIN_SECRET; i++) differ |= a[i] ^ b[i];
  return differ == 0;
}

/* ---- rank 0 ----------------------------------------------------------------------------------- */

typedef struct {
  const join_options *o;
  wire *links;
  rank_identity *members;
  int joined;
  wire clients[CLIENTS]; /* connected, greeting not read yet */
  double since[CLIENTS];
} server_state;

/* Without a free slot, the connection that has been silent longest is dropped: a rank greets at once, so unrelated
** connections cannot block it. */
static void client_add(server_state *p, int fd)
{
  int at = 0;
  for (int i = 0; i < CLIENTS && p->clients[at].fd >= 0; i++)
    if (p->clients[i].fd < 0 || p->since[i] < p->since[at]) at = i;
  wire_close(&p->clients[at]);
  wire_open(&p->clients[at], fd, sizeof(greeting));
  p->since[at] = clock_now();
}

/* Errors of a rank of this job; other connections are closed silently. */
static capl_status greeting_check(server_state *p, const greeting *g, bool *ours)
{
  *ours = same_secret(g->secret, p->o->secret) && memchr(g->host, 0, sizeof g->host) && memchr(g->version, 0, VERSION);
  if (!*ours) return CAPL_OK;
  if (strcmp(g->version, capl_version()) != 0 || g->bytes != sizeof(watchdog_status)) {
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "rank %d (host %s) runs capl %s, rank 0 capl %s", g->rank, g->host, g->version,
                     capl_version());
  }
  if (g->size != p->o->size)
    return CAPL_FAIL(CAPL_EVALUE, "rank %d (host %s) was started as one of %d ranks, rank 0 as one of %d", g->rank,
                     g->host, g->size, p->o->size);
  if (g->rank < 1 || g->rank >= p->o->size)
    return CAPL_FAIL(CAPL_EVALUE, "a rank on host %s reports that it is rank %d of %d", g->host, g->rank, p->o->size);
  if (p->links[g->rank].fd >= 0)
    return CAPL_FAIL(CAPL_EVALUE, "two processes report that they are rank %d: on host %s and on host %s", g->rank,
                     p->members[g->rank].host, g->host);
  return CAPL_OK;
}

static capl_status client_read(server_state *p, wire *client)
{
  bool open = wire_receive(client);
  wire_frame f;
  int got = wire_next(client, &f);
  if (got == 0 && open) return CAPL_OK;
  greeting g;
  bool ours = got == 1 && f.kind == WIRE_HELLO && f.len == sizeof g;
  capl_status status = CAPL_OK;
  if (ours) {
    memcpy(&g, f.data, sizeof g);
    status = greeting_check(p, &g, &ours);
  }
  if (!ours || status != CAPL_OK) return wire_close(client), status;
  wire_took(client, &f);
  p->links[g.rank] = *client;
  *client = (wire){.fd = -1};
  memcpy(p->members[g.rank].host, g.host, sizeof g.host);
  p->members[g.rank].process = g.process;
  p->joined++;
  return CAPL_OK;
}

/* Lists the listener and the clients: poll takes no more entries than this process may have descriptors. -> how many.
** */
static int server_polls(server_state *p, int listener, struct pollfd *polls, wire **whose)
{
  int n = 0;
  polls[n++] = (struct pollfd){.fd = listener, .events = POLLIN};
  for (int i = 0; i < CLIENTS; i++) {
    if (p->clients[i].fd >= 0 && listener >= 0 && clock_now() - p->since[i] > GREETING_S) wire_close(&p->clients[i]);
    if (p->clients[i].fd < 0) continue;
    whose[n] = &p->clients[i];
    polls[n++] = (struct pollfd){.fd = p->clients[i].fd, .events = POLLIN};
  }
  return n;
}

bool join_same_user(int fd)
{
  struct ucred peer;
  socklen_t n = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid();
}

static capl_status client_accept(server_state *p, int listener)
{
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE))
    return CAPL_FAIL(CAPL_EIO, "rank 0 cannot let the other ranks in: %s", capl_errno_text(errno));
  if (fd < 0) return CAPL_OK; /* the client is gone */
  if (p->o->same_user && !join_same_user(fd)) return close(fd), CAPL_OK;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  client_add(p, fd);
  return CAPL_OK;
}

/* One round of waiting: new connections and greetings. */
static capl_status server_wait(server_state *p, int listener, double deadline)
{
  struct pollfd polls[CLIENTS + 1];
  wire *whose[CLIENTS + 1];
  int n = server_polls(p, listener, polls, whose), ready = poll(polls, (nfds_t)n, wait_ms(deadline));
  if (ready < 0 && errno != EINTR)
    return CAPL_FAIL(CAPL_EIO, "rank 0 cannot wait for the other ranks: %s", capl_errno_text(errno));
  if (ready <= 0) return CAPL_OK;
  for (int i = 1; i < n; i++)
    if (polls[i].revents) CAPL_TRY(client_read(p, whose[i]));
  return polls[0].revents ? client_accept(p, listener) : CAPL_OK;
}

static capl_status missing(const server_state *p)
{
  char list[160] = "";
  size_t at = 0;
  int count = 0;
  for (int r = 1; r < p->o->size; r++) {
    if (p->links[r].fd >= 0) continue;
    if (at < sizeof list - 24) at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", count ? ", " : "", r);
    else if (at < sizeof list - 8) at += (size_t)snprintf(list + at, sizeof list - at, " …");
    count++;
  }
  CAPL_FAIL(CAPL_EIO, "%s %s of %d %s not joined within %.3g s", count == 1 ? "rank" : "ranks", list, p->o->size,
            count == 1 ? "has" : "have", p->o->seconds);
  capl_error_hint("their output contains the reason; between hosts a firewall may block them: the ranks connect to a "
                  "port that "
                  "rank 0's host chooses");
  return CAPL_EIO;
}

static capl_status server_run(server_state *p, int listener)
{
  double deadline = clock_now() + p->o->seconds;
  while (p->joined < p->o->size - 1) {
    if (clock_now() > deadline) return missing(p);
    CAPL_TRY(server_wait(p, listener, deadline));
  }
  return CAPL_OK;
}

capl_status join_server(const join_options *o, int listener, const int *sockets, wire *links, rank_identity *members)
{
  server_state p = {.o = o, .links = links, .members = members};
  for (int i = 0; i < CLIENTS; i++) p.clients[i].fd = -1;
  for (int r = 0; r < o->size; r++) links[r] = (wire){.fd = -1};
  snprintf(members[0].host, sizeof members[0].host, "%s", o->host);
  members[0].process = (int32_t)getpid();
  for (int r = 1; sockets && r < o->size; r++) client_add(&p, sockets[r - 1]);
  capl_status status = server_run(&p, listener);
  for (int i = 0; i < CLIENTS; i++) wire_close(&p.clients[i]);
  for (int r = 1; r < o->size; r++) {
    if (status != CAPL_OK) wire_close(&links[r]);
    else wire_put(&links[r], WIRE_MEMBERS, members, sizeof *members * (size_t)o->size, NULL, 0);
  }
  return status;
}

/* ---- the others ------------------------------------------------------------------------------- */

static capl_status members_take(const join_options *o, const wire_frame *f, rank_identity *members)
{
  size_t bytes = sizeof *members * (size_t)o->size;
  if (f->kind != WIRE_MEMBERS || f->len != bytes) return CAPL_FAIL(CAPL_EIO,
      "rank 0 sends something else than its ranks");
  memcpy(members, f->data, bytes);
  for (int r = 0; r < o->size; r++) members[r].host[CAPL_HOST_NAME - 1] = '\0';
  return CAPL_OK;
}

capl_status join_client(const join_options *o, wire *link, rank_identity *members, double deadline)
{
  greeting g;
  greeting_make(o, &g);
  if (!wire_put(link, WIRE_HELLO, &g, sizeof g, NULL, 0)) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a message");
  for (;;) {
    wire_frame f;
    bool open = wire_send(link) && wire_receive(link);
    int got = wire_next(link, &f);
    if (got == 1) {
      CAPL_TRY(members_take(o, &f, members));
      wire_took(link, &f);
      return CAPL_OK;
    }
    if (got < 0) return CAPL_FAIL(CAPL_EIO, "what answers there is no rank 0 of capl");
    if (!open) return CAPL_FAIL(CAPL_EIO, "rank 0 closed the connection: it ended, or is of another job");
    if (clock_now() > deadline) return CAPL_FAIL(CAPL_EIO, "not all ranks have joined within %.3g s", o->seconds);
    struct pollfd poll_one = {.fd = link->fd, .events = (short)(POLLIN | (link->out.len ? POLLOUT : 0))};
    poll(&poll_one, 1, wait_ms(deadline));
  }
}
