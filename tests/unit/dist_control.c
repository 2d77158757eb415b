/* dist_control.c -- the control channel: joining over sockets and TCP, messages, leaving, unrelated clients.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dist/control.h"
#include "dist/wire.h"
#include "unit.h"

enum { MOST = 5, ROUNDS = 50 };

typedef struct {
  int rank, size, socket, sockets[MOST];
  const char *where, *port, *name, *secret;
  control_listener *listener;
  double seconds;
  int rounds;
  char error[1024];
} rank_job;

/* ---- a rank as a thread ----------------------------------------------------------------------- */

static capl_status open_control(const rank_job *j, watchdog *w, control **s)
{
  char host[8];
  snprintf(host, sizeof host, "h%d", j->rank);
  control_options o = {.rank = j->rank, .size = j->size, .host = host, .seconds = j->seconds, .watchdog = w,
                    .secret = j->secret ? j->secret : "job 7, and 16 characters"};
  if (j->name) return control_open_local(&o, j->name, s);
  if (j->port) return control_open_tcp(&o, "127.0.0.1", atoi(j->port), s);
  if (j->where) return j->rank == 0 ? control_accept(j->listener, &o, s) : control_connect(&o, j->where, s);
  return control_open_sockets(&o, j->rank == 0 ? j->sockets : &j->socket, s);
}

/* Gathers texts whose lengths differ by rank and round; every rank gets them all. */
static capl_status talk(const rank_job *j, control *s)
{
  char text[4096];
  for (int round = 0; round < j->rounds; round++) {
    size_t len = (size_t)((round * 131 + j->rank * 17) % 4000);
    memset(text, 'a' + (j->rank + round) % 26, len);
    capl_messages all;
    CAPL_TRY(control_all_gather(s, text, len, &all));
    for (int r = 0; r < j->size; r++) {
      size_t want = (size_t)((round * 131 + r * 17) % 4000);
      bool fine = all.len[r] == want && (!want || (all.data[r][0] == 'a' + (r + round) % 26 &&
                                                   all.data[r][want - 1] == all.data[r][0]));
      if (!fine) return CAPL_FAIL(CAPL_EINTERNAL, "rank %d, round %d: not what rank %d sent", j->rank, round, r);
    }
    capl_messages_free(&all);
  }
  return CAPL_OK;
}

static void *be_rank(void *arg)
{
  rank_job *j = arg;
  watchdog *w;
  control *s = NULL;
  capl_status status = watchdog_new(j->rank, j->size, 3, &w);
  if (status == CAPL_OK) status = open_control(j, w, &s);
  if (status == CAPL_OK) status = talk(j, s);
  if (status == CAPL_OK) snprintf(j->error, sizeof j->error, "%s of %d", control_member(s, j->size - 1)->host, j->size);
  else snprintf(j->error, sizeof j->error, "%s", capl_error_last()->message);
  if (s) control_leave(s, status == CAPL_OK ? 0 : 1, "not well");
  control_close(s);
  watchdog_free(w);
  return NULL;
}

static void run_ranks(rank_job *jobs, int n)
{
  pthread_t threads[MOST];
  for (int r = 0; r < n; r++) pthread_create(&threads[r], NULL, be_rank, &jobs[r]);
  for (int r = 0; r < n; r++) pthread_join(threads[r], NULL);
}

static void make_pairs(rank_job *jobs, int n)
{
  for (int r = 0; r < n; r++) jobs[r] = (rank_job){.rank = r, .size = n, .seconds = 10, .rounds = ROUNDS};
  for (int r = 1; r < n; r++) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    jobs[0].sockets[r - 1] = pair[0];
    jobs[r].socket = pair[1];
  }
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void ranks_tell_each_other_over_inherited_sockets(void **state)
{
  (void)state;
  for (int n = 2; n <= MOST; n++) {
    rank_job jobs[MOST];
    char want[32];
    make_pairs(jobs, n);
    run_ranks(jobs, n);
    snprintf(want, sizeof want, "h%d of %d", n - 1, n);
    for (int r = 0; r < n; r++) assert_string_equal(jobs[r].error, want);
  }
}

static int connect_to(const char *where)
{
  const char *port = strchr(where, ';');
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port + 1)),
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
  return fd;
}

static void strangers_at_the_door_are_turned_away_and_keep_nobody_waiting(void **state)
{
  (void)state;
  enum { N = 3, STRANGERS = 5 };
  char where[CONTROL_ADDRESS];
  control_listener *listener;
  assert_ok(control_listen(false, where, &listener));
  int fds[STRANGERS];
  static const unsigned char huge[16] = {'c', 'a', 'p', 'l', 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
  static char wrong[4096];
  for (int i = 0; i < STRANGERS; i++) fds[i] = connect_to(where);
  wire w;
  wire_open(&w, fds[0], sizeof wrong);
  /* a greeting with no secret */
  assert_true(wire_put(&w, WIRE_HELLO, wrong, 16 + 4 * 4 + 24 + CAPL_HOST_NAME, NULL, 0));
  assert_true(wire_send(&w));
  assert_int_equal(send(fds[1], huge, sizeof huge, 0), sizeof huge);   /* a length that no memory has */
  assert_int_equal(send(fds[2], "GET / HTTP/1.1\r\n\r\n", 18, 0), 18); /* somebody else's protocol */
  assert_int_equal(send(fds[3], huge, 7, 0), 7);                       /* half a greeting, and nothing more */
  close(fds[4]);
  rank_job jobs[N];
  for (int r = 0; r < N; r++)
    jobs[r] = (rank_job){.rank = r, .size = N, .seconds = 10, .rounds = 3, .where = where, .listener = listener};
  run_ranks(jobs, N);
  for (int r = 0; r < N; r++) assert_string_equal(jobs[r].error, "h2 of 3");
  wire_close(&w);
  for (int i = 1; i < 4; i++) close(fds[i]);
}

/* Three ranks meet where rank 0 says that it is. -> the seconds that took. */
static double meet_at(control_listener *listener, const char *where)
{
  enum { N = 3 };
  rank_job jobs[N];
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int r = 0; r < N; r++)
    jobs[r] = (rank_job){.rank = r, .size = N, .where = where, .listener = listener, .seconds = 10, .rounds = 2};
  run_ranks(jobs, N);
  clock_gettime(CLOCK_MONOTONIC, &to);
  for (int r = 0; r < N; r++) assert_string_equal(jobs[r].error, "h2 of 3");
  return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

static void a_crowd_of_silent_strangers_keeps_nobody_out(void **state)
{
  (void)state;
  enum { CROWD = 300 }; /* more than there is room for */
  char where[CONTROL_ADDRESS];
  control_listener *listener;
  int fds[CROWD];
  assert_ok(control_listen(false, where, &listener));
  for (int i = 0; i < CROWD; i++) fds[i] = connect_to(where);
  assert_true(meet_at(listener, where) < 4); /* their patience is 5 */
  for (int i = 0; i < CROWD; i++) close(fds[i]);
}

static void ranks_meet_where_few_files_may_be_open(void **state)
{
  (void)state;
  char where[CONTROL_ADDRESS];
  control_listener *listener;
  struct rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, before.rlim_max}), 0);
  assert_ok(control_listen(false, where, &listener));
  meet_at(listener, where);
  setrlimit(RLIMIT_NOFILE, &before);
}

static void a_wrong_secret_does_not_get_in(void **state)
{
  (void)state;
  char where[CONTROL_ADDRESS], forged[CONTROL_ADDRESS];
  control_listener *listener;
  assert_ok(control_listen(false, where, &listener));
  strcpy(forged, where);
  char *last = forged + strlen(forged) - 1;
  *last = *last == '0' ? '1' : '0';
  rank_job jobs[2] = {{.rank = 0, .size = 2, .seconds = 0.5, .where = where, .listener = listener},
                      {.rank = 1, .size = 2, .seconds = 0.5, .where = forged}};
  run_ranks(jobs, 2);
  assert_string_equal(jobs[0].error, "rank 1 of 2 has not joined within 0.5 s");
  assert_non_null(strstr(jobs[1].error, "rank")); /* 0 has closed the connection, or not all have joined in time */
}

static void ranks_meet_at_an_address_whoever_comes_first(void **state)
{
  (void)state;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof a;
  char port[16];
  assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
  close(fd);
  snprintf(port, sizeof port, "%d", ntohs(a.sin_port));
  rank_job jobs[3];
  pthread_t threads[3];
  for (int r = 2; r >= 0; r--) {
    jobs[r] = (rank_job){.rank = r, .size = 3, .seconds = 10, .rounds = 3, .port = port};
    pthread_create(&threads[r], NULL, be_rank, &jobs[r]);
    poll(NULL, 0, 30); /* the others connect_name before anybody listens */
  }
  for (int r = 0; r < 3; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < 3; r++) assert_string_equal(jobs[r].error, "h2 of 3");
}

/* No port: a name, which ends with the socket, so that it may be used again. */
static void ranks_of_one_host_meet_at_a_name(void **state)
{
  (void)state;
  char name[32];
  snprintf(name, sizeof name, "test-%d", (int)getpid());
  for (int round = 0; round < 2; round++) {
    rank_job jobs[3];
    for (int r = 0; r < 3; r++) jobs[r] = (rank_job){.rank = r, .size = 3, .seconds = 10, .rounds = 3, .name = name};
    run_ranks(jobs, 3);
    for (int r = 0; r < 3; r++) assert_string_equal(jobs[r].error, "h2 of 3");
  }
}

/* Another user's process, as far as it may be one: as root. */
static void another_user_is_no_rank_of_this_host(void **state)
{
  (void)state;
  char name[32];
  if (geteuid() != 0) skip();
  snprintf(name, sizeof name, "test-%d", (int)getpid());
  pid_t other = fork();
  if (other == 0) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "capl-0-%s", name), fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (setuid(65534) != 0 || bind(fd, (struct sockaddr *)&a,
                                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0)
      _exit(1);
    listen(fd, 8);
    for (;;) pause();
  }
  poll(NULL, 0, 200);
  rank_job job = {.rank = 1, .size = 2, .seconds = 0.5, .name = name};
  run_ranks(&job, 1);
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
  assert_string_equal(job.error,
                      "rank 0 of this host cannot be reached within 0.5 s: it has ended, or is another user's");
}

static void ranks_of_several_hosts_need_a_secret(void **state)
{
  (void)state;
  rank_job job = {.rank = 0, .size = 2, .seconds = 0.5, .port = "1", .secret = "none"};
  run_ranks(&job, 1);
  assert_string_equal(job.error,
                      "ranks of several hosts meet at a port that others may reach, and have no secret to know each "
                      "other by");
}

static void rank_0_of_one_host_listens_there_alone(void **state)
{
  (void)state;
  char where[CONTROL_ADDRESS];
  control_listener *listener;
  assert_ok(control_listen(true, where, &listener));
  assert_int_equal(strncmp(where, "127.0.0.1", 9), 0);
  char port[16], wanted[32], line[512];
  snprintf(port, sizeof port, "%.5s", strchr(where, ';') + 1);
  snprintf(wanted, sizeof wanted, "0100007F:%04X ", (unsigned)atoi(port));
  bool found = false;
  FILE *file = fopen("/proc/net/tcp", "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) found = found || strstr(line, wanted);
  fclose(file);
  assert_true(found);
  meet_at(listener, where);
}

static void ranks_that_are_not_of_one_job_are_named(void **state)
{
  (void)state;
  rank_job jobs[3];
  make_pairs(jobs, 3);
  jobs[2].rank = 1; /* two that say they are rank 1 */
  run_ranks(jobs, 3);
  assert_non_null(strstr(jobs[0].error, "two processes report that they are rank 1"));
  make_pairs(jobs, 2);
  jobs[1].size = 3;
  run_ranks(jobs, 2);
  assert_string_equal(jobs[0].error, "rank 1 (host h1) was started as one of 3 ranks, rank 0 as one of 2");
}

/* A rank that has joined, and then sends what no rank sends. */
static void *be_strange(void *arg)
{
  rank_job *j = arg;
  watchdog *w;
  control *s;
  int copy = dup(j->socket);
  if (watchdog_new(j->rank, j->size, 3, &w) != CAPL_OK || open_control(j, w, &s) != CAPL_OK) return NULL;
  static const char garbage[64] = "capl, but then something else altogether";
  if (send(copy, garbage, sizeof garbage, MSG_NOSIGNAL) < 0) return NULL;
  poll(NULL, 0, 600);
  close(copy);
  control_close(s);
  watchdog_free(w);
  return NULL;
}

static void garbage_from_a_rank_ends_its_connection_and_the_call(void **state)
{
  (void)state;
  rank_job jobs[2];
  pthread_t threads[2];
  make_pairs(jobs, 2);
  pthread_create(&threads[0], NULL, be_rank, &jobs[0]);
  pthread_create(&threads[1], NULL, be_strange, &jobs[1]);
  for (int r = 0; r < 2; r++) pthread_join(threads[r], NULL);
  assert_non_null(strstr(jobs[0].error, "rank 1 (host h1, process"));
  assert_non_null(strstr(jobs[0].error, "died before the first step"));
}

static void a_message_of_many_megabytes_is_refused_by_name(void **state)
{
  (void)state;
  rank_job jobs[2];
  make_pairs(jobs, 2);
  jobs[1].rounds = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, be_rank, &jobs[1]);
  watchdog *w;
  control *s;
  capl_messages all;
  static char text[1];
  assert_ok(watchdog_new(0, 2, 3, &w));
  assert_ok(open_control(&jobs[0], w, &s));
  assert_fails(control_all_gather(s, text, (size_t)CONTROL_MESSAGE + 1, &all), CAPL_EVALUE,
               "a message between ranks has at most 16 MiB, not 16.0: tensors go by collectives");
  control_leave(s, 0, NULL);
  control_close(s);
  watchdog_free(w);
  pthread_join(thread, NULL);
}

int main(void)
{
  alarm(60);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ranks_tell_each_other_over_inherited_sockets),
    cmocka_unit_test(strangers_at_the_door_are_turned_away_and_keep_nobody_waiting),
    cmocka_unit_test(a_crowd_of_silent_strangers_keeps_nobody_out),
    cmocka_unit_test(ranks_meet_where_few_files_may_be_open),
    cmocka_unit_test(a_wrong_secret_does_not_get_in),
    cmocka_unit_test(ranks_meet_at_an_address_whoever_comes_first),
    cmocka_unit_test(ranks_of_one_host_meet_at_a_name),
    cmocka_unit_test(another_user_is_no_rank_of_this_host),
    cmocka_unit_test(ranks_of_several_hosts_need_a_secret),
    cmocka_unit_test(rank_0_of_one_host_listens_there_alone),
    cmocka_unit_test(ranks_that_are_not_of_one_job_are_named),
    cmocka_unit_test(garbage_from_a_rank_ends_its_connection_and_the_call),
    cmocka_unit_test(a_message_of_many_megabytes_is_refused_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
