/* main.c -- the program: reads the command line and the recipe's header; launch/ does the rest.
**
** The supervisor runs no Lua. It starts the job's workers (bind/worker.h), forwards SIGINT, SIGTERM and SIGHUP to them, stops
** them when the minutes the recipe asked for are over, and ends with their exit status:
**   0 done, 1 error, 2 wrong command line, 75 a rank was lost, 124 out of time, 130 Ctrl-C, 128+n ended by signal n.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/names.h"
#include "bind/worker.h"
#include "capl/capl.h"
#include "commands.h"
#include "header.h"
#include "launch/launch.h"
#include "launch/ranks.h"
#include "launch/supervise.h"
#include "recipe_file.h"

static int print_help(void)
{
  int n;
  const capl_command *commands = capl_commands(&n);
  printf("capl %s: trains captcha recognisers\n\n", capl_version());
  for (int i = 0; i < n; i++) printf("  %s\n      %s\n", commands[i].usage, commands[i].help);
  printf("\nBegin with:    capl recipes/captcha.lua --max_time=1m\n"
         "Your captchas: capl recipes/folder.lua --data=DIR\n"
         "Before the command: -v shows tracebacks; --minutes=N replaces the recipe's own time limit (0 = none).\n"
         "Several processes: --ranks=N behind a recipe; GPUs here, else processors by mpirun (--ranks=gpus: one per GPU).\n"
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
  for (const char *line = e->context; *line; line += strspn(line, "\n")) {
    int n = (int)strcspn(line, "\n");
    fprintf(stderr, "  %.*s\n", n, line);
    line += n;
  }
  if (*e->hint) fprintf(stderr, "  hint: %s\n", e->hint);
  return EXIT_ERROR;
}

static int unknown_command(const char *word)
{
  capl_suggestion s = {.wanted = word};
  capl_commands_suggest(&s);
  if (s.nearest) return usage_error("there is no command or recipe '%s'; did you mean '%s'?", word, s.nearest);
  return usage_error("there is no command or recipe '%s'", word);
}

/* ---- command line ---------------------------------------------------------------------------- */

typedef struct {
  launch l;
  double minutes; /* from --minutes; below 0 = not given */
  char *ranks;    /* the word --ranks=N before the command, or NULL */
  char ranks_word[24]; /* the same, wherever it stood */
} options;

/* A word is a recipe when it looks like a path; recipes without .lua or a slash are found when they exist. */
static bool is_recipe(const char *word)
{
  size_t n = strlen(word);
  return strchr(word, '/') || capl_recipe_is_pinned(word) || (n > 4 && strcmp(word + n - 4, ".lua") == 0) || access(word, F_OK) == 0;
}

/* Reads the words before the command. Returns their number, or -1 after saying what is wrong. */
static int read_globals(int argc, char **argv, options *o)
{
  int i = 1;
  for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "-e") != 0; i++) {
    char *end;
    if (strcmp(argv[i], "-v") == 0) {
      o->l.job.verbose = true;
    } else if (strcmp(argv[i], "-i") == 0) {
      o->l.job.interactive = true;
    } else if (strcmp(argv[i], "--trust") == 0) {
      o->l.job.trusted = true;
    } else if (strcmp(argv[i], "--allow") == 0) {
      o->l.job.allowed = true;
    } else if (strncmp(argv[i], "--minutes=", 10) == 0) {
      o->minutes = strtod(argv[i] + 10, &end);
      if (*end || end == argv[i] + 10 || !(o->minutes >= 0))
        return usage_error("--minutes is a number of minutes, not '%s'", argv[i] + 10), -1;
    } else if (strncmp(argv[i], "--ranks", 7) == 0) {
      o->ranks = argv[i];
    } else {
      capl_suggestion s = {.wanted = argv[i]};
      static const char *const known[] = {"-e", "-i", "-v", "--minutes=", "--ranks=", "--trust", "--allow", "--help", "--version"};
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
static bool stands_alone(const capl_command *c, const char *word)
{
  return (c->recipe == RECIPE_OR_RUN && is_folder(word)) || (c->recipe == RECIPE_OR_DIST && strcmp(word, "dist") == 0);
}

/* Settles command, recipe and further words. Returns 0, or the exit status after saying what is wrong. */
static int read_command(int argc, char **argv, int i, options *o)
{
  const capl_command *c;
  if (i == argc) {
    c = capl_command_find("repl");
  } else if (strcmp(argv[i], "-e") == 0) {
    if (i + 1 == argc) return usage_error("-e needs a line of Lua after it");
    c = capl_command_find("eval-code");
    i++;
  } else if ((c = capl_command_find(argv[i]))) {
    i++;
  } else {
    if (!is_recipe(argv[i])) return unknown_command(argv[i]);
    c = capl_command_find("run");
  }
  bool help = i < argc && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0);
  if (c->recipe && !help && !(i < argc && stands_alone(c, argv[i]))) {
    if (!bring_recipe(argc, argv, i)) return usage_error("usage: %s", c->usage);
    o->l.job.recipe = argv[i++];
  }
  o->l.job.program = argv[0];
  o->l.job.command = c->name;
  o->l.job.usage = c->usage;
  o->l.job.help = c->help;
  o->l.job.argc = argc - i;
  o->l.job.argv = argv + i;
  return 0;
}

/* The command's words with a --ranks that stood before it, in an array of their own. */
static void bring_ranks(options *o)
{
  capl_job *job = &o->l.job;
  char **words = calloc((size_t)job->argc + 2, sizeof *words);
  if (!words) return;
  memcpy(words, job->argv, (size_t)job->argc * sizeof *words);
  job->argv = words;
  if (o->ranks) words[job->argc++] = o->ranks;
}

static bool has_word(const capl_job *job, const char *word)
{
  for (int i = 0; i < job->argc; i++)
    if (strcmp(job->argv[i], word) == 0) return true;
  return false;
}

/* Whether the job is done by one process: help, and a learning curve, whose runs start ranks of their own. */
static bool is_alone(const capl_job *job)
{
  for (int i = 0; i < job->argc; i++)
    if (strncmp(job->argv[i], "--learning_curve", 16) == 0 || strncmp(job->argv[i], "--learning-curve", 16) == 0) return true;
  return has_word(job, "--help") || has_word(job, "-h");
}

/* -i may stand before the run or among its words. Returns 0, or the exit status after saying what is wrong. */
static int read_interactive(options *o)
{
  capl_job *job = &o->l.job;
  bool run = strcmp(job->command, "run") == 0;
  int kept = 0;
  for (int i = 0; i < job->argc; i++) {
    if (run && strcmp(job->argv[i], "-i") == 0) job->interactive = true;
    else job->argv[kept++] = job->argv[i];
  }
  job->argc = kept;
  if (job->interactive && !run && strcmp(job->command, "repl") != 0)
    return usage_error("-i gives a prompt after a run; '%s' is none: capl -i RECIPE", job->command);
  if (has_word(job, "--help") || has_word(job, "-h")) job->interactive = false;
  return 0;
}

/* Takes --ranks from the words of a recipe's command; `bench dist --simulate` reads it itself. Returns 0, or the exit status
** after saying what is wrong. */
static int read_ranks(options *o)
{
  launch *l = &o->l;
  const capl_command *c = capl_command_find(l->job.command);
  l->asked = RANKS_UNSAID;
  if (!o->ranks && !c->recipe) return 0;
  bring_ranks(o);
  if (c->ranks && has_word(&l->job, "--simulate")) return 0;
  if (ranks_take(&l->job.argc, l->job.argv, &l->asked) != CAPL_OK) return usage_error("%s", capl_error_last()->message);
  if (l->asked != RANKS_UNSAID && !c->ranks)
    return usage_error("'%s' works in one process; --ranks is for runs, bench and check", c->name);
  if (l->asked != RANKS_UNSAID) {
    if (l->asked == RANKS_GPUS) strcpy(o->ranks_word, "--ranks=gpus");
    else snprintf(o->ranks_word, sizeof o->ranks_word, "--ranks=%d", l->asked);
    l->job.ranks_word = o->ranks_word;
  }
  l->plans = c->ranks == RANKS_PLANS;
  l->starts = c->ranks == RANKS_STARTS && !is_alone(&l->job);
  return 0;
}

/* From here on the recipe is these bytes, whatever becomes of the file. */
static capl_status read_recipe(capl_job *job)
{
  CAPL_TRY(capl_recipe_file_read(job->recipe, &job->file));
  job->recipe = job->file.path;
  return capl_header_parse(job->recipe, job->file.text, job->file.size, &job->header);
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
  if (!wrong) wrong = read_ranks(&o);
  if (!wrong) wrong = read_interactive(&o);
  if (wrong) return wrong;
  launch *l = &o.l;
  if (l->job.recipe && read_recipe(&l->job) != CAPL_OK) return print_error();
  if (o.minutes >= 0) l->job.header.minutes = o.minutes;
  l->seconds = l->job.header.minutes * 60;
  l->flush = flush_output;
  return launch_job(l, argc, argv);
}
