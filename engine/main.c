/* main.c -- the program: reads the command line and the recipe's header, starts one worker and watches it.
**
** The supervisor runs no Lua. It forks the worker (bind/worker.h), forwards SIGINT, SIGTERM and SIGHUP to it, stops it
** when the minutes its recipe asked for are over, and ends with its exit status:
**   0 done, 1 error, 2 wrong command line, 124 out of time, 130 Ctrl-C, 128+n ended by signal n.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/names.h"
#include "bind/worker.h"
#include "capl/capl.h"
#include "header.h"

enum { EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_TIME = 124, GRACE_SECONDS = 5, SAVE_SECONDS = 120 };

/* ---- commands -------------------------------------------------------------------------------- */

enum { OR_RUN = 2, OR_DIST };

typedef struct {
  const char *name, *usage, *help;
  int recipe; /* its first word is a recipe; OR_RUN: or a run's folder, OR_DIST: or "dist", which stay among its words */
} command;

/* Each has a module lua/capl/cli/NAME.lua, which states its options. */
static const command commands[] = {
  {"run", "capl RECIPE [--key=value…]", "trains: runs a recipe, a whole experiment in one file; --help lists its settings", true},
  {"check", "capl check RECIPE [--key=value…]",
   "shows the layers, parameters and memory of a recipe, and its mistakes, without computing anything", true},
  {"predict", "capl predict MODEL IMAGE… [--json]",
   "reads PNG and JPEG files, folders of them or a list on standard input (-) with a trained model: path, text, confidence", false},
  {"eval", "capl eval MODEL --data=SOURCE [--label=PATTERN] [--errors=FILE] [--json]",
   "reads labelled PNG and JPEG files with a trained model and counts what it gets right", false},
  {"verify", "capl verify MODEL [--json]", "checks that a model says here what it said when it was saved", false},
  {"generate", "capl generate --out=DIR [--preset=P] [--n=N] [--seed=S] [--charset=C] [--length=T]",
   "writes captcha images as PNG files named by their text", false},
  {"data", "capl data stat|check|pack SOURCE [--val=SOURCE] [--charset=C] [--label=RULE] [--out=DIR]",
   "what is in a folder, a list or an LMDB database of images; what is wrong with it; packs it to LMDB", false},
  {"bench", "capl bench RECIPE [--steps=N] [--ab KEY=A,B] [--ops] [--augment] [--json] [--fixed] [--key=value…]",
   "measures how fast the training steps of a recipe are; --ab compares settings, turn by turn; `capl bench dist --ranks=N`: how fast "
   "ranks exchange, and with --simulate what that makes of a step on many", OR_DIST},
  {"sweep", "capl sweep RECIPE --grid KEY=A,B,C … [--random=N | --halving=N] [--metric=M] [--key=value…] | capl sweep --resume FOLDER",
   "trains a recipe with other settings again and again, side by side, and says which are best on the val images", false},
  {"lr", "capl lr RECIPE [--min_lr=A] [--max_lr=B] [--steps=N] [--out=FILE] [--json] [--key=value…]",
   "raises the learning rate of a recipe from step to step, draws the losses and suggests a rate", true},
  {"preview", "capl preview RECIPE [--epoch=N] [--out=FILE] [--samples=N] [--key=value…]",
   "draws training images of a recipe as its augmentation leaves them, with labels, masks, points and boxes, stage by stage", true},
  {"report", "capl report RUN|SWEEP [--out=FILE]",
   "writes the page of a run or a sweep from the files in its folder, also of one that was killed or is running", false},
  {"runs", "capl runs [FOLDER] [--sort=KEY] [--json]", "lists the runs in runs/ or FOLDER: state, steps, time, best figure", false},
  {"diff", "capl diff RUN RUN [--out=FILE] [--json]",
   "compares two runs: settings, data, model, curves, and whether their figures differ by more than chance", false},
  {"monitor", "capl monitor [RUN] [--every=SECONDS] [--count=N] [--json]",
   "shows power, load, memory, temperature and clocks of GPUs and processors as they are, and how runs are going", false},
  {"doctor", "capl doctor RECIPE|RUN [--json] [--key=value…]",
   "looks for what keeps a recipe from learning, or went wrong in a run, and says what to write", OR_RUN},
  {"info", "capl info [MODEL] [--json]",
   "what this program finds on this machine: processors, devices, variables that change what it does; or what a model is", false},
  {"ops", "capl ops [NAME]", "the table of operations by backend and type, or the page of one", false},
  {"eval-code", "capl -e CODE", "runs one line of Lua, such as 'print(capl.randn({2, 3}))'", false},
  {"repl", "capl", "a prompt for Lua; ?nn.Conv2d there explains a name", false},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const command *command_find(const char *name)
{
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  return NULL;
}

static int print_help(void)
{
  printf("capl %s: trains captcha recognisers\n\n", capl_version());
  for (int i = 0; i < N_COMMANDS; i++) printf("  %s\n      %s\n", commands[i].usage, commands[i].help);
  printf("\nBegin with:    capl recipes/captcha.lua --max_time=1m\n"
         "Your captchas: capl recipes/folder.lua --data=DIR\n"
         "Before the command: -v shows tracebacks; --minutes=N replaces the recipe's own time limit (0 = none).\n"
         "capl COMMAND --help lists the options of a command.\n");
  return EXIT_SUCCESS;
}

__attribute__((format(printf, 1, 2))) static int usage_error(const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  fputs("capl: ", stderr);
  vfprintf(stderr, fmt, args);
  fputs("\n  'capl --help' lists the commands\n", stderr);
  va_end(args);
  return EXIT_USAGE;
}

static int print_error(void)
{
  const capl_error *e = capl_error_last();
  fprintf(stderr, "%s\n", e->message);
  if (*e->context) fprintf(stderr, "  %s\n", e->context);
  if (*e->hint) fprintf(stderr, "  hint: %s\n", e->hint);
  return EXIT_ERROR;
}

static int unknown_command(const char *word)
{
  capl_suggestion s = {.wanted = word};
  for (int i = 0; i < N_COMMANDS; i++) capl_suggest(&s, commands[i].name);
  if (s.nearest) return usage_error("there is no command or recipe '%s'; did you mean '%s'?", word, s.nearest);
  return usage_error("there is no command or recipe '%s'", word);
}

/* ---- command line ---------------------------------------------------------------------------- */

typedef struct {
  capl_job job;
  double minutes; /* from --minutes; below 0 = not given */
} options;

/* A word is a recipe when it looks like a path; recipes without .lua or a slash are found when they exist. */
static bool is_recipe(const char *word)
{
  size_t n = strlen(word);
  return strchr(word, '/') || (n > 4 && strcmp(word + n - 4, ".lua") == 0) || access(word, F_OK) == 0;
}

/* Reads the words before the command. Returns their number, or -1 after saying what is wrong. */
static int read_globals(int argc, char **argv, options *o)
{
  int i = 1;
  for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "-e") != 0; i++) {
    char *end;
    if (strcmp(argv[i], "-v") == 0) {
      o->job.verbose = true;
    } else if (strncmp(argv[i], "--minutes=", 10) == 0) {
      o->minutes = strtod(argv[i] + 10, &end);
      if (*end || end == argv[i] + 10 || !(o->minutes >= 0))
        return usage_error("--minutes is a number of minutes, not '%s'", argv[i] + 10), -1;
    } else {
      capl_suggestion s = {.wanted = argv[i]};
      static const char *const known[] = {"-e", "-v", "--minutes=", "--help", "--version"};
      for (size_t k = 0; k < sizeof known / sizeof *known; k++) capl_suggest(&s, known[k]);
      return usage_error("unknown option '%s'%s%s%s", argv[i], s.nearest ? "; did you mean '" : "",
                         s.nearest ? s.nearest : "", s.nearest ? "'?" : ""), -1;
    }
  }
  return i;
}

/* Options may stand before a command's recipe: brings its word to place i. false = there is none. */
static bool bring_recipe(int argc, char **argv, int i)
{
  int at = i;
  while (at < argc && argv[at][0] == '-') at++;
  if (at == argc) return false;
  char *word = argv[at];
  memmove(argv + i + 1, argv + i, (size_t)(at - i) * sizeof *argv);
  argv[i] = word;
  return true;
}

static bool is_folder(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Whether a command's first word is no recipe. */
static bool stands_alone(const command *c, const char *word)
{
  return (c->recipe == OR_RUN && is_folder(word)) || (c->recipe == OR_DIST && strcmp(word, "dist") == 0);
}

/* Settles command, recipe and further words. Returns 0, or the exit status after saying what is wrong. */
static int read_command(int argc, char **argv, int i, options *o)
{
  const command *c;
  if (i == argc) {
    c = command_find("repl");
  } else if (strcmp(argv[i], "-e") == 0) {
    if (i + 1 == argc) return usage_error("-e needs a line of Lua after it");
    c = command_find("eval-code");
    i++;
  } else if ((c = command_find(argv[i]))) {
    i++;
  } else {
    if (!is_recipe(argv[i])) return unknown_command(argv[i]);
    c = command_find("run");
  }
  bool help = i < argc && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0);
  if (c->recipe && !help && !(i < argc && stands_alone(c, argv[i]))) {
    if (!bring_recipe(argc, argv, i)) return usage_error("usage: %s", c->usage);
    o->job.recipe = argv[i++];
  }
  o->job.program = argv[0];
  o->job.command = c->name;
  o->job.usage = c->usage;
  o->job.help = c->help;
  o->job.argc = argc - i;
  o->job.argv = argv + i;
  return 0;
}

/* A file opened later must not become standard output because that was closed: `capl … >&-`. What stands in for
** a closed stream fails as that would. */
static void hold_standard_streams(void)
{
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) return;
}

/* The exit status when all that was printed has arrived; else says so and makes success an error. */
static int flush_output(int status)
{
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fputs("capl: not everything could be written to standard output; is the disk full?\n", stderr);
  return status ? status : EXIT_ERROR;
}

/* ---- supervision ----------------------------------------------------------------------------- */

/* One process per GPU is one process on a machine without; several need the distribution part. */
static capl_status settle_ranks(capl_job *job)
{
  if (job->header.ranks == 0) job->header.ranks = 1;
  if (job->header.ranks == 1) return CAPL_OK;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "%s asks for ranks=%d; this build runs one process", job->recipe, job->header.ranks);
  capl_error_hint("write ranks=1, or ranks=gpus for one process per GPU");
  return CAPL_EUNSUPPORTED;
}

static pid_t start_worker(const capl_job *job, const sigset_t *former)
{
  pid_t supervisor = getpid(), pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != supervisor) _exit(128 + SIGTERM); /* it died before prctl */
  sigprocmask(SIG_SETMASK, former, NULL);
  int status = capl_worker_run(job);
  _exit(flush_output(status));
}

static int exit_status(int status, bool out_of_time)
{
  if (out_of_time) return EXIT_TIME;
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  int n = WTERMSIG(status);
  if (n == SIGPIPE) return 128 + n; /* `capl ops | head`: nobody reads on, nothing to say */
  if (n == SIGINT) return fputs("capl: interrupted\n", stderr), 128 + n; /* before it could take the signal itself */
  if (n == SIGTERM || n == SIGHUP) return 128 + n;
  const char *why = n == SIGKILL ? "often the system ran out of memory"
                    : n == SIGSEGV || n == SIGBUS || n == SIGFPE || n == SIGILL || n == SIGABRT
                      ? "this is a bug in capl, please report it with the recipe"
                      : "it was asked to end";
  fprintf(stderr, "capl: the worker was ended by signal %d (%s): %s\n", n, strsignal(n), why);
  return 128 + n;
}

static double seconds_since(const struct timespec *start)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

/* A worker that was asked to end and is still busy a second later: so that nobody takes it for stuck. */
static void tell_saving(void)
{
  fprintf(stderr, "%scapl: ending after this step, and saving; Ctrl-C again leaves at once\n", isatty(2) ? "\r\033[K" : "");
}

typedef struct {
  double limit;    /* seconds, 0 = none */
  double deadline; /* when something is to be done about it */
  bool over;       /* the worker was asked to end */
} time_limit;

/* Asks the worker to end, and ends it when it does not: but not while it saves. Returns the seconds until the next look. */
static double keep_time(time_limit *t, double elapsed, pid_t pid, const atomic_bool *saving)
{
  if (t->limit <= 0) return 3600;
  if (elapsed >= t->deadline) {
    bool may_save = t->over && saving && atomic_load(saving) && elapsed < t->limit + SAVE_SECONDS;
    if (!t->over) fprintf(stderr, "capl: stopped after %g minutes, the limit of this run\n", t->limit / 60);
    if (!may_save) kill(pid, t->over ? SIGKILL : SIGTERM);
    t->deadline = elapsed + (may_save ? 0.1 : GRACE_SECONDS);
    t->over = true;
  }
  double rest = t->deadline - elapsed;
  return rest < 0.001 ? 0.001 : rest < 3600 ? rest : 3600;
}

/* Waits for the worker while passing signals on. limit: seconds, 0 = none. */
static int watch(pid_t pid, double limit, const atomic_bool *saving, const sigset_t *signals)
{
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  time_limit t = {.limit = limit, .deadline = limit};
  double notice = 0; /* when to tell, 0 = never */
  for (;;) {
    int status;
    if (waitpid(pid, &status, WNOHANG) == pid) return exit_status(status, t.over);
    double elapsed = seconds_since(&start), rest = keep_time(&t, elapsed, pid, saving);
    if (notice > 0 && elapsed >= notice) {
      if (saving && atomic_load(saving)) tell_saving();
      notice = 0;
    }
    if (notice > 0 && notice - elapsed < rest) rest = notice - elapsed;
    struct timespec timeout = {(time_t)rest, (long)((rest - (double)(time_t)rest) * 1e9)};
    siginfo_t info;
    int n = sigtimedwait(signals, &info, &timeout);
    /* The terminal sends Ctrl-C to the worker itself; only what was sent to us alone is passed on. */
    if ((n == SIGINT || n == SIGTERM || n == SIGHUP) && info.si_code <= 0) kill(pid, n);
    if (n == SIGINT || n == SIGTERM) notice = seconds_since(&start) + 1;
  }
}

/* Seen by both processes; NULL where there is no memory for it. */
static atomic_bool *new_flag(void)
{
  void *page = mmap(NULL, sizeof(atomic_bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? NULL : page;
}

static int supervise(capl_job *job, double minutes)
{
  job->saving = new_flag();
  sigset_t signals, former;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (!capl_worker_ignored(SIGHUP)) sigaddset(&signals, SIGHUP); /* nohup's wish is respected */
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, &former);
  pid_t pid = start_worker(job, &former);
  if (pid < 0) return fprintf(stderr, "capl: cannot start a process: %s\n", strerror(errno)), EXIT_ERROR;
  return watch(pid, minutes * 60, job->saving, &signals);
}

int main(int argc, char **argv)
{
  hold_standard_streams();
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0))
    return flush_output(print_help());
  if (argc > 1 && strcmp(argv[1], "--version") == 0) {
    printf("capl %s\n", capl_version());
    return flush_output(EXIT_SUCCESS);
  }
  options o = {.minutes = -1};
  int first = read_globals(argc, argv, &o);
  if (first < 0) return EXIT_USAGE;
  int wrong = read_command(argc, argv, first, &o);
  if (wrong) return wrong;
  if (o.job.recipe) {
    if (capl_header_read(o.job.recipe, &o.job.header) != CAPL_OK) return print_error();
    if (settle_ranks(&o.job) != CAPL_OK) return print_error();
  }
  if (o.minutes >= 0) o.job.header.minutes = o.minutes;
  return supervise(&o.job, o.job.header.minutes);
}
