/* launch.c -- runs a job in as many processes as it asks for.
**
** A recipe of one process has a supervisor and a worker. GPU ranks of this machine are several workers of one
** supervisor, which are joined by sockets made before they are forked. Ranks on CPUs are started by mpirun, one capl
** each with a supervisor and a worker of its own; so are those of a launcher that was there before.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "program/launch/allow.h"
#include "program/launch/gpus.h"
#include "program/launch/grants.h"
#include "program/launch/mpirun.h"
#include "program/launch/ranks.h"
#include "program/launch/restart.h"
#include "sandbox/policy.h"
#include "sandbox/spawner.h"
#include "program/launch/supervise.h"
#include "program/worker.h"

enum { DESCRIPTORS = 64, DESCRIPTORS_EACH = 8 }; /* measured: a small training needs 14, mpirun of 2 ranks between 32
                                                 ** and 40 */

static int say_error(void)
{
  const capl_error *e = capl_error_last();
  fprintf(stderr, "%s%s\n", strncmp(e->message, "capl: ", 6) == 0 ? "" : "capl: ", e->message);
  if (*e->hint) fprintf(stderr, "  hint: %s\n", e->hint);
  return EXIT_ERROR;
}

/* Seen by the processes on both sides; NULL where there is no memory for it. */
static atomic_bool *new_flags(int n)
{
  void *page = mmap(NULL, (size_t)n * sizeof(atomic_bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? NULL : page;
}

static char *new_path(void)
{
  void *page = mmap(NULL, CAPL_POLICY_PATH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? NULL : page;
}

static time_hold *new_hold(void)
{
  void *page = mmap(NULL, sizeof(time_hold), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? NULL : page;
}

static void set_number(const char *name, int n)
{
  char digits[16];
  snprintf(digits, sizeof digits, "%d", n);
  setenv(name, digits, 1);
}

/* ---- what ranks find in their environment ------------------------------------------------------ */

/* Processors are shared by the ranks of a host. */
static void share_processors(int ranks, bool bound)
{
  if (getenv("OMP_NUM_THREADS") || getenv("CAPL_THREADS")) return;
  int n = capl_cpu_count() / (bound ? 1 : ranks);
  set_number("OMP_NUM_THREADS", n > 0 ? n : 1);
}

/* Whether another launcher has given each rank processors of its own. */
static bool has_own_processors(int ranks)
{
  cpu_set_t mask;
  return sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) * ranks <= sysconf(_SC_NPROCESSORS_ONLN);
}

/* Takes --device=cuda out of the words: each rank has a GPU of its own now. */
static void drop_device(capl_job *job)
{
  int kept = 0;
  for (int i = 0; i < job->argc; i++)
    if (strcmp(job->argv[i], "--device=cuda") != 0) job->argv[kept++] = job->argv[i];
  job->argc = kept;
}

/* The GPU of a rank, where the user has named none: that of its number among the gpus of this host. Slurm may show each
** rank its own and no other. */
static capl_status choose_gpu(launch *l, int local_rank, int local_size, int gpus)
{
  char name[24];
  const char *device = ranks_device(l->job.argc, l->job.argv);
  if (gpus == 0 || (device && strcmp(device, "cuda") != 0)) return CAPL_OK;
  bool own = gpus == 1 && getenv("CUDA_VISIBLE_DEVICES");
  if (local_size > gpus && !own) return ranks_too_many(local_size, gpus);
  snprintf(name, sizeof name, "cuda:%d", own ? 0 : local_rank);
  setenv("CAPL_DEVICE", name, 1);
  drop_device(&l->job);
  return CAPL_OK;
}

/* A terminal that ranks cannot see: rank 0 draws its bar so many columns wide. */
static void announce_terminal(void)
{
  struct winsize size;
  if (!isatty(STDOUT_FILENO)) return;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  set_number("CAPL_BAR", known ? size.ws_col : 80);
}

/* What a worker_group of workers needs: who confines them starts for them what they may not start. */
static worker_group workers_of(const launch *l, worker_group c)
{
  int requests = l->job.confined ? capl_spawner_open() : -1;
  if (requests < 0) return c;
  c.request = capl_spawner_serve;
  c.requests = requests;
  return c;
}

/* ---- one process ------------------------------------------------------------------------------ */

static int run_worker(void *user, int index)
{
  launch *l = user;
  capl_spawner_enter();
  if (l->job.saving) l->job.saving += index;
  if (l->job.ranks > 1) setvbuf(stdout, NULL, _IOLBF, 0); /* a pipe, whose lines are shown as they come */
  return l->flush(capl_worker_run(&l->job));
}

static int launch_alone(launch *l)
{
  l->job.saving = new_flags(1);
  l->job.hold = new_hold();
  worker_group c = workers_of(l, (worker_group){.count = 1, .run = run_worker, .user = l, .ranks = 1,
                                                .output = OUTPUT_OWN, .lost = &l->lost,
                             .limit = l->seconds, .hold = l->job.hold, .saving = l->job.saving});
  return supervise(&c);
}

/* ---- ranks forked here ------------------------------------------------------------------------- */

/* sockets[r]: those between ranks 0 and r, [0] rank 0's end. */
typedef struct {
  launch *l;
  int ranks;
  int (*sockets)[2];
} forked;

static void join_ranks(const forked *f, int rank)
{
  size_t room = 12 * (size_t)f->ranks, n = 0;
  char *list = malloc(room);
  for (int r = 1; r < f->ranks; r++) {
    int mine = f->sockets[r][rank != 0];
    bool keep = rank == 0 || rank == r;
    close(f->sockets[r][rank == 0]);
    if (!keep) close(mine);
    else if (list) n += (size_t)snprintf(list + n, room - n, "%s%d", n ? "," : "", mine);
  }
  if (list) setenv("CAPL_CONTROL_SOCKETS", list, 1);
  free(list);
}

static int run_forked(void *user, int rank)
{
  forked *f = user;
  join_ranks(f, rank);
  f->l->job.rank = rank;
  set_number("CAPL_RANK", rank);
  set_number("CAPL_LOCAL_RANK", rank);
  choose_gpu(f->l, rank, f->ranks, f->ranks);
  if (rank > 0) unsetenv("CAPL_BAR");
  int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in >= 0) dup2(in, STDIN_FILENO), close(in); /* several readers of one input would each get a part */
  return run_worker(f->l, rank);
}

static bool make_sockets(forked *f)
{
  f->sockets = calloc((size_t)f->ranks, sizeof *f->sockets);
  for (int r = 1; f->sockets && r < f->ranks; r++)
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->sockets[r]) != 0) return false;
  return f->sockets != NULL;
}

/* Only the ranks keep their ends: a dead rank is detected when no process holds its socket. */
static void close_sockets(void *user)
{
  const forked *f = user;
  for (int r = 1; r < f->ranks; r++) close(f->sockets[r][0]), close(f->sockets[r][1]);
}

static int launch_forked(launch *l, int ranks)
{
  forked f = {.l = l, .ranks = ranks};
  if (!make_sockets(&f))
    return fprintf(stderr, "capl: cannot make sockets for %d ranks: %s\n", ranks, strerror(errno)), EXIT_ERROR;
  set_number("CAPL_WORLD_SIZE", ranks);
  set_number("CAPL_LOCAL_SIZE", ranks);
  share_processors(ranks, false);
  announce_terminal();
  l->job.saving = new_flags(ranks);
  l->job.hold = new_hold();
  worker_group c = workers_of(l, (worker_group){.count = ranks, .run = run_forked, .started = close_sockets,
                                                .user = &f, .ranks = ranks,
                             .output = OUTPUT_TAGGED, .lost = &l->lost, .limit = l->seconds, .hold = l->job.hold,
                             .saving = l->job.saving});
  int status = supervise(&c);
  free(f.sockets);
  return status;
}

/* ---- ranks by mpirun --------------------------------------------------------------------------- */

static int exec_mpirun(void *user, int index)
{
  const char **words = user;
  (void)index;
  int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in >= 0) dup2(in, STDIN_FILENO); /* it reads ahead for rank 0, and stops when it may not read from the terminal */
  execv(words[0], (char *const *)words);
  dprintf(STDERR_FILENO, "capl: cannot start %s: %s\n", words[0], strerror(errno));
  return EXIT_ERROR;
}

static int launch_mpirun(launch *l, int ranks, int argc, char **argv)
{
  char path[512], self[4096];
  if (mpirun_find(ranks, path, sizeof path) != CAPL_OK) return say_error();
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) self[n] = '\0', argv[0] = self;
  setenv("CAPL_PROGRAM", l->job.program, 1); /* hints name the program as the user did */
  setenv("CAPL_MPIRUN", "1", 1);
  if (mpirun_environment() != CAPL_OK) return say_error();
  announce_terminal();
  const char **words = mpirun_command(path, ranks, argc, (const char *const *)argv);
  if (!words) return fprintf(stderr, "capl: no memory to call mpirun\n"), EXIT_ERROR;
  int status = supervise(&(worker_group){.count = 1, .run = exec_mpirun, .user = words, .ranks = ranks,
                                         .output = OUTPUT_MPIRUN, .run_folder = l->job.run_folder,
                                         .lost = &l->lost, .apart = true, .limit = l->seconds});
  free(words);
  return status == MPIRUN_LOST_HOST ? EXIT_LOST : status;
}

/* ---- a rank of a launcher ----------------------------------------------------------------------- */

static int run_rank(void *user, int index)
{
  return run_worker(user, index);
}

static int launch_rank(launch *l, const capl_place *place)
{
  bool ours = getenv("CAPL_MPIRUN") != NULL;
  char why[RANKS_WHY];
  if (choose_gpu(l, place->local_rank, place->local_size, gpus_count(why, sizeof why)) != CAPL_OK) return say_error();
  setenv("OMPI_MCA_opal_signal", "", 0); /* a crash is reported by this program, not by Open MPI's traceback */
  if (place->rank > 0) unsetenv("CAPL_BAR");
  l->job.rank = place->rank;
  /* ours binds nobody: a narrow mask is a container's */
  share_processors(place->local_size, !ours && has_own_processors(place->local_size));
  if (getenv("CAPL_PROGRAM")) l->job.program = getenv("CAPL_PROGRAM");
  l->job.saving = new_flags(1);
  worker_output output = ours ? OUTPUT_FRAMES : place->rank > 0 ? OUTPUT_TAGGED : OUTPUT_OWN;
  worker_group c = workers_of(l, (worker_group){.count = 1, .run = run_rank, .user = l, .first = place->rank,
                                                .ranks = place->size,
                             .host = place->local_size < place->size ? place->host : NULL, .output = output,
                             .apart = true, .reported_elsewhere = ours || place->rank > 0, .limit = ours ? 0
                                 : l->seconds,
                             .saving = l->job.saving, .run_folder = l->job.run_folder});
  return supervise(&c);
}

/* ---- again ------------------------------------------------------------------------------------- */

static int launch_group(launch *l, const ranks_decision *d, int argc, char **argv)
{
  if (d->how == LAUNCH_FORK) return launch_forked(l, d->ranks);
  if (d->how == LAUNCH_MPIRUN) return launch_mpirun(l, d->ranks, argc, argv);
  return launch_alone(l);
}

/* A GPU that is lost may come back within a minute; else those that are left go on. 0 = none is left. *signal: somebody
** has ended the job meanwhile. */
static int gpus_back(int ranks, int *signal)
{
  enum { EVERY_S = 5, PATIENCE_S = 60 };
  char why[RANKS_WHY];
  int n = gpus_count(why, sizeof why);
  for (int waited = 0; n < ranks && waited < PATIENCE_S && !*signal; waited += EVERY_S) {
    if (waited == 0) fprintf(stderr, "capl: waiting up to %d s for %d of %d GPUs\n", PATIENCE_S, ranks - n, ranks);
    *signal = restart_wait(EVERY_S);
    n = gpus_count(why, sizeof why);
  }
  return restart_ranks(ranks, n);
}

/* Which ranks go on. -> 0, or the exit status of the job. */
static int settle_again(const ranks_decision *first, ranks_decision *d)
{
  int signal = restart_wait(1);
  *d = *first;
  if (first->how == LAUNCH_FORK && !signal) d->ranks = gpus_back(first->ranks, &signal);
  if (signal) return 128 + signal;
  if (d->ranks == 0) return fprintf(stderr, "capl: no GPU is left to go on with\n"), EXIT_LOST;
  if (d->ranks == 1 && first->ranks > 1) {
    d->how = LAUNCH_ALONE;
    unsetenv("CAPL_WORLD_SIZE"), unsetenv("CAPL_LOCAL_SIZE");
  }
  return 0;
}

static void say_again(const launch *l, int number, int status, const ranks_decision *first, const ranks_decision *d)
{
  char ranks[48] = "";
  const char *folder = l->job.run_folder ? l->job.run_folder : "";
  if (d->ranks != first->ranks) snprintf(ranks, sizeof ranks, " on %d of %d ranks", d->ranks, first->ranks);
  if (*folder)
    fprintf(stderr, "capl: restart %d of %d (the job ended with status %d): resuming %s%s\n", number, l->restarts, status,
            folder, ranks);
  else
    fprintf(stderr, "capl: restart %d of %d (the job ended with status %d): it begins again, for it has no checkpoint "
            "yet%s\n", number, l->restarts, status, ranks);
}

/* Runs the job, and after the loss of a process again, from its last checkpoint. The limit counts all of it. */
static int launch_with_restarts(launch *l, const ranks_decision *first, int argc, char **argv)
{
  ranks_decision d = *first;
  int left_out = RANKS_UNSAID;
  bool mpirun = d.how == LAUNCH_MPIRUN; /* whose ranks learn their number from it, and are started again here */
  if (mpirun && ranks_take(&argc, argv, &left_out) != CAPL_OK) return say_error();
  if (mpirun && restart_take(&argc, argv, &left_out) != CAPL_OK) return say_error();
  const double begin = clock_now(), limit = l->seconds;
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  for (int number = 1;; number++) {
    l->lost = false;
    int status = launch_group(l, &d, argc, argv);
    if (!l->lost || l->restarts == 0) return status;
    if (number > l->restarts)
      return fprintf(stderr, "capl: lost again; --restart=%d allows no more\n", l->restarts), status;
    int wrong = settle_again(first, &d);
    if (wrong) return wrong;
    if (limit > 0 && clock_now() - begin >= limit) return EXIT_TIME;
    if (limit > 0) l->seconds = limit - (clock_now() - begin);
    if (l->job.run_folder && !restart_has_checkpoint(l->job.run_folder)) *l->job.run_folder = '\0';
    say_again(l, number, status, first, &d);
    if (restart_announce(number, l->restarts, status, first->ranks, l->job.run_folder ? l->job.run_folder : "")
        != CAPL_OK)
      return say_error();
    sigprocmask(SIG_SETMASK, &mask, NULL); /* supervise() has blocked what it waited for */
  }
}

/* ---- which of them ----------------------------------------------------------------------------- */

static capl_status settle(const launch *l, const capl_place *place, ranks_decision *d)
{
  ranks_wish wish = {.asked = l->asked, .header = l->job.recipe ? l->job.header.ranks : 1,
                     .device = ranks_device(l->job.argc, l->job.argv)};
  if (l->starts || l->plans) return ranks_settle(&wish, place, gpus_count, d);
  *d = (ranks_decision){.how = LAUNCH_ALONE, .ranks = 1};
  return CAPL_OK;
}

static int say_alone(const launch *l, int ranks)
{
  fprintf(stderr, "capl: -i is for a run in one process, and this one has %d\n  hint: %s\n", ranks,
          l->asked == RANKS_UNSAID ? "--ranks=1 does it in one"
          : "run without --ranks, or use 'capl attach' with several ranks");
  return EXIT_USAGE;
}

static int say_not_ours(void)
{
  fputs("capl: --restart is for ranks that capl starts itself; another launcher has started these\n"
        "  hint: docs/distributed.md says how a batch system or a script starts such a job again\n", stderr);
  return EXIT_USAGE;
}

/* Where descriptors run out, mpirun waits for ever and libraries say that they are missing: too few are refused
** before. */
static capl_status need_descriptors(int processes)
{
  const rlim_t least = DESCRIPTORS + DESCRIPTORS_EACH * (rlim_t)processes;
  struct rlimit have;
  if (getrlimit(RLIMIT_NOFILE, &have) != 0 || have.rlim_cur >= least) return CAPL_OK;
  CAPL_FAIL(CAPL_EIO, "at most %d files may be open here (ulimit -n), and this needs %d", (int)have.rlim_cur,
            (int)least);
  capl_error_hint("in the shell that starts capl: ulimit -n 1024; in a container: --ulimit nofile=1024");
  return CAPL_EIO;
}

static int start_job(launch *l, int argc, char **argv)
{
  capl_place place;
  ranks_decision d;
  if ((l->starts || l->plans) && capl_place_detect(&place) != CAPL_OK) return say_error();
  if (settle(l, &place, &d) != CAPL_OK || need_descriptors(d.ranks) != CAPL_OK) return say_error();
  if (l->job.interactive && d.how != LAUNCH_ALONE && d.how != LAUNCH_PLAN) return say_alone(l, d.ranks);
  if (l->restarts > 0 && d.how == LAUNCH_RANK) return say_not_ours();
  int wrong = allow_settle(&l->job, d.how == LAUNCH_RANK && place.rank > 0);
  if (wrong) return wrong;
  l->job.ranks = l->plans && l->asked == RANKS_UNSAID ? 0 : d.ranks;
  if (d.how == LAUNCH_PLAN && l->starts) l->job.plan_reason = d.why;
  if (l->plans || d.how == LAUNCH_PLAN) return launch_alone(l);
  return d.how == LAUNCH_RANK ? launch_rank(l, &place) : launch_with_restarts(l, &d, argc, argv);
}

int launch_job(launch *l, int argc, char **argv)
{
  l->job.run_folder = new_path();
  int status = start_job(l, argc, argv);
  grants_tidy(&l->job);
  return status;
}
