/* mpirun.c -- Open MPI's launcher: how it is called, and which of its own words the user gets to see.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/mpirun.h"

#include <ctype.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"

extern char **environ;

/* ---- the call -------------------------------------------------------------------------------- */

static bool find_in_path(const char *name, char *path, size_t room)
{
  const char *p = getenv("PATH");
  while (p && *p) {
    size_t n = strcspn(p, ":");
    if (n > 0 && snprintf(path, room, "%.*s/%s", (int)n, p, name) < (int)room && access(path, X_OK) == 0) return true;
    p += n + (p[n] == ':');
  }
  return false;
}

/* Debian lets another MPI own the plain name. */
capl_status mpirun_find(int ranks, char *path, size_t room)
{
  if (find_in_path("mpirun.openmpi", path, room) || find_in_path("mpirun", path, room)) return CAPL_OK;
  return CAPL_FAIL(CAPL_EUNSUPPORTED,
                   "capl: --ranks=%d needs Open MPI: sudo apt install openmpi-bin libopenmpi-dev, then scripts/build",
                   ranks);
}

/* A cluster's batch system says how many processes a host may have; a hand-written list of hosts does too. */
static bool hosts_are_given(void)
{
  static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "OMPI_MCA_orte_default_hostfile"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (getenv(names[i])) return true;
  return false;
}

typedef struct {
  const char **words;
  int n;
} command;

static void add(command *c, const char *word) { c->words[c->n++] = word; }

/* mpirun hands its environment to processes of its own host; to others only what is listed. */
static void add_variables(command *c, char *names)
{
  for (char **e = environ; *e; e++) {
    if (strncmp(*e, "CAPL_", 5) != 0 && strncmp(*e, "OMP_", 4) != 0) continue;
    size_t n = strcspn(*e, "=");
    add(c, "-x");
    add(c, memcpy(names, *e, n));
    names[n] = '\0';
    names += n + 1;
  }
}

static size_t environment_bytes(int *count)
{
  size_t bytes = 0;
  *count = 0;
  for (char **e = environ; *e; e++, ++*count) bytes += strlen(*e) + 1;
  return bytes;
}

/* mpirun waits for ever for a host that is cut off, unless it finds out by itself: by probes that last a little longer
** than the watchdog, whose message comes first. text: room for two numbers. */
static void add_probes(command *c, int argc, const char *const *argv, char *text, size_t room)
{
  enum { MOST = 100 }; /* probes; TCP has at most 127 */
  double seconds = 60;
  for (int i = 0; i < argc; i++)
    if (strncmp(argv[i], "--watchdog=", 11) == 0) seconds = strtod(argv[i] + 11, NULL);
  if (!(seconds >= 1 && seconds <= 86400)) seconds = 60; /* the settings refuse it */
  int every = (int)(seconds / MOST) + 1;
  snprintf(text, room, "%d", every);
  snprintf(text + room, room, "%d", (int)(seconds / every) + 1);
  add(c, "--mca"), add(c, "oob_tcp_keepalive_time"), add(c, text);
  add(c, "--mca"), add(c, "oob_tcp_keepalive_intvl"), add(c, text);
  add(c, "--mca"), add(c, "oob_tcp_keepalive_probes"), add(c, text + room);
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { PRELOADS = 0 }; /* the sanitizer's own library has to come first */
#else
enum { PRELOADS = 1 };
#endif

/* On one host nobody listens beyond loopback: mpirun by loopback.c, its ranks by what mpirun_command leaves out. */
static capl_status stay_on_host(void)
{
  char path[4096], all[8192];
  const char *others = getenv("LD_PRELOAD");
  if (!PRELOADS || hosts_are_given()) return CAPL_OK;
  if (!library_path("libcapl_loopback.so", path, sizeof path))
    return CAPL_FAIL(CAPL_EUNSUPPORTED,
                     "libcapl_loopback.so is not beside libcapl.so: this build of capl is not whole");
  if (others && strncmp(others, path, strlen(path)) == 0) return CAPL_OK; /* a job that is started again */
  bool more = others && *others;
  if (snprintf(all, sizeof all, "%s%s%s", path, more ? ":" : "", more ? others : "") >= (int)sizeof all)
    return CAPL_FAIL(CAPL_EVALUE, "LD_PRELOAD is too long for another library");
  return setenv("LD_PRELOAD", all, 1) == 0 ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory to call mpirun");
}

/* Open MPI 5 does nothing for a user without HOME, as services and small containers are; and its hwloc complains where
** there is no /sys. */
capl_status mpirun_environment(void)
{
  const struct passwd *user = getenv("HOME") ? NULL : getpwuid(geteuid());
  setenv("HOME", user && *user->pw_dir ? user->pw_dir : "/", 0);
  setenv("HWLOC_HIDE_ERRORS", "2", 0);
  return stay_on_host();
}

/* Ranks of one host meet in shared memory, and by no transport that listens on a network; the user's own choice is
** kept. */
static void add_transports(command *c)
{
  if (!getenv("OMPI_MCA_pml")) add(c, "--mca"), add(c, "pml"), add(c, "ob1");
  if (!getenv("OMPI_MCA_btl")) add(c, "--mca"), add(c, "btl"), add(c, "^tcp,openib,ofi,usnic,uct");
}

/* yield_when_idle: a rank that waits for the others leaves them its processor; where there are fewer processors than
** ranks, that makes a small exchange a hundred times faster. */
const char **mpirun_command(const char *path, int ranks, int argc, const char *const *argv)
{
  enum { OWN = 31, DIGITS = 16, NUMBERS = 3 * DIGITS };
  int variables;
  size_t text = environment_bytes(&variables) + NUMBERS;
  size_t words = (size_t)(OWN + 2 * variables + argc + 1);
  command c = {.words = malloc(words * sizeof *c.words + text)}; /* the texts stand behind the words */
  if (!c.words) return NULL;
  char *digits = (char *)(c.words + words);
  snprintf(digits, DIGITS, "%d", ranks);
  add(&c, path);
  add(&c, "--bind-to"), add(&c, "none");
  add(&c, "--mca"), add(&c, "mpi_yield_when_idle"), add(&c, "1");
  if (geteuid() == 0) add(&c, "--allow-run-as-root");
  if (!hosts_are_given()) add(&c, "--oversubscribe"); /* it counts cores, each of which may be several processors */
  if (!hosts_are_given()) add_transports(&c);
  if (hosts_are_given()) add_probes(&c, argc, argv, digits + DIGITS, DIGITS);
  add(&c, "-n"), add(&c, digits);
  add_variables(&c, digits + NUMBERS);
  for (int i = 0; i < argc; i++) add(&c, argv[i]);
  c.words[c.n] = NULL;
  return c.words;
}

/* ---- its words ------------------------------------------------------------------------------- */

/* Notes on the end of ranks, with single spaces: versions of mpirun break their lines at other words. */
static const char *const said_by_ranks[] = {
  "Primary job terminated normally, but",
  "processes exited with non-zero status, thus causing",
  "MPI_ABORT was invoked on rank",
  "exiting improperly",
  "without calling \"finalize\"",
  "ORTE has lost communication with a remote daemon",
};

/* A rank that was ended by a signal with its supervisor, so that no process of capl could report it. */
static bool put_killed(mpirun_words *w)
{
  int rank, number;
  char host[64], line[256];
  const char *p = strstr(w->text, "noticed that process rank ");
  if (!p || sscanf(p, "noticed that process rank %d with PID %*d on node %63s exited on signal %d", &rank, host,
                   &number) != 3)
    return false;
  int n = snprintf(line, sizeof line, "capl: rank %d (host %s) was ended by signal %d (%s)\n", rank, host, number,
                   strsignal(number));
  w->put(w->user, line, (size_t)n);
  return true;
}

/* "mpirun: Forwarding signal 10 to job": what this program has asked for. */
static bool is_ours(const char *line)
{
  return strstr(line, ": Forwarding signal ") || strstr(line, "more process has sent help message") ||
         strstr(line, "more processes have sent help message") || strstr(line, "_base_help_aggregate\"");
}

/* Single spaces between words. to has room for all of from. */
static void squeeze(char *to, const char *from)
{
  for (; *from; from++) {
    bool space = isspace((unsigned char)*from);
    if (!space || !isspace((unsigned char)from[1])) *to++ = space ? ' ' : *from;
  }
  *to = '\0';
}

static void put_note(mpirun_words *w)
{
  w->text[w->len] = '\0';
  char flat[sizeof w->text];
  squeeze(flat, w->text);
  bool known = put_killed(w);
  for (size_t i = 0; i < sizeof said_by_ranks / sizeof *said_by_ranks; i++)
    known = known || strstr(flat, said_by_ranks[i]);
  if (!known && w->len > 0) w->put(w->user, w->text, w->len);
  w->len = 0;
}

static bool is_rule(const char *line, size_t len)
{
  return len > 20 && strspn(line, "-") == len - 1;
}

/* A whole line, which stands from at on. */
static void take_line(mpirun_words *w, size_t at)
{
  w->text[w->len] = '\0';
  if (is_rule(w->text + at, w->len - at)) {
    w->len = at;
    if (w->note) put_note(w);
    w->note = !w->note;
  } else if (!w->note) {
    if (!is_ours(w->text)) w->put(w->user, w->text, w->len);
    w->len = 0;
  }
}

void mpirun_words_feed(mpirun_words *w, const char *text, size_t len)
{
  for (size_t i = 0; i < len; i++) {
    if (w->len == sizeof w->text - 2) w->put(w->user, w->text, w->len), w->len = 0;
    w->text[w->len++] = text[i] ? text[i] : ' ';
    if (text[i] != '\n') continue;
    size_t at = w->len - 1;
    while (at > 0 && w->text[at - 1] != '\n') at--;
    take_line(w, at);
  }
}

void mpirun_words_end(mpirun_words *w)
{
  if (w->len == 0) return;
  if (w->text[w->len - 1] != '\n') w->text[w->len++] = '\n';
  put_note(w);
}
