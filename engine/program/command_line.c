/* command_line.c -- reads the words of a call.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/command_line.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/launch/ranks.h"
#include "program/launch/restart.h"
#include "program/launch/supervise.h"
#include "program/recipe_file.h"
#include "program/shipped.h"

__attribute__((format(printf, 1, 2))) static int usage_error(const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  fputs("capl: ", stderr);
  vfprintf(stderr, fmt, args);
  fputs("\n  'capl help' lists the commands\n", stderr);
  va_end(args);
  return EXIT_USAGE;
}

static int no_memory(void) { return fputs("capl: no memory for the arguments\n", stderr), EXIT_ERROR; }

/* ---- kinds of words --------------------------------------------------------------------------- */

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }
static bool is_help(const char *word) { return is(word, "--help") || is(word, "-h"); }

static bool is_folder(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Not "-", which is standard input, and no negative number. */
static bool is_option(const char *word)
{
  return word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]) && word[1] != '.';
}

/* --key, whose value may be the next word. */
static bool is_bare_key(const char *word)
{
  return strncmp(word, "--", 2) == 0 && word[2] && !strchr(word, '=') && !is_help(word);
}

/* What may be a value may begin with one dash, as -0.5 does, but not with two. */
static bool is_value(const char *word)
{
  return strncmp(word, "--", 2) != 0 && !is(word, "-h") && !is(word, "-v") && !is(word, "-i") && !is(word, "-e");
}

static bool has_word(int argc, char *const *argv, bool (*fits)(const char *))
{
  for (int i = 0; i < argc && !is(argv[i], "--"); i++)
    if (fits(argv[i])) return true;
  return false;
}

/* ---- options of capl itself -------------------------------------------------------------------- */

/* The value of an option before the command, behind = or as the next word; NULL: argv[*i] is another option, or has
** none. */
static char *value_of(const char *name, int argc, char **argv, int *i)
{
  size_t n = strlen(name);
  if (strncmp(argv[*i], name, n) != 0) return NULL;
  if (argv[*i][n] == '=') return argv[*i] + n + 1;
  return argv[*i][n] == '\0' && *i + 1 < argc && is_value(argv[*i + 1]) ? argv[++*i] : NULL;
}

static int unknown_global(const char *word)
{
  if (is(word, "--minutes")) return usage_error("--minutes needs a number of minutes: --minutes=30");
  if (is(word, "--restart")) return usage_error("--restart needs a number of restarts: --restart=3");
  if (is(word, "--ranks")) return usage_error("--ranks needs a value: --ranks=2, or --ranks=gpus");
  int n;
  const capl_global *known = capl_globals(&n);
  capl_suggestion s = {.wanted = word};
  for (int k = 0; k < n; k++) capl_suggest(&s, known[k].name);
  if (s.nearest) return usage_error("unknown option '%s'; did you mean '%s'?", word, s.nearest);
  return usage_error("unknown option '%s'; settings of a recipe are given after it, or after 'run': capl RECIPE %s",
                     word, word);
}

static int read_minutes(const char *text, double *minutes)
{
  char *end;
  *minutes = strtod(text, &end);
  if (!*end && end != text && *minutes >= 0) return 0;
  return usage_error("--minutes is a number of minutes, not '%s'", text);
}

static char *word_of(const char *name, const char *value)
{
  char *word = NULL;
  return asprintf(&word, "%s=%s", name, value) < 0 ? NULL : word;
}

/* Reads the words before the command. Returns the place of the next, or -1 after saying what is wrong. */
static int read_globals(int argc, char **argv, command_line *c)
{
  capl_job *job = &c->l.job;
  int i = 1;
  for (char *value; i < argc && argv[i][0] == '-' && !is(argv[i], "-e") && !is_help(argv[i])
       && !is(argv[i], "--version"); i++) {
    if (is(argv[i], "-v")) job->verbose = true;
    else if (is(argv[i], "-i")) job->interactive = true;
    else if (is(argv[i], "--trust")) job->trusted = true;
    else if (is(argv[i], "--allow")) job->allowed = true;
    else if ((value = value_of("--ranks", argc, argv, &i))) c->ranks = word_of("--ranks", value);
    else if ((value = value_of("--restart", argc, argv, &i))) c->restart = word_of("--restart", value);
    else if (!(value = value_of("--minutes", argc, argv, &i))) return unknown_global(argv[i]), -1;
    else if (read_minutes(value, &c->minutes) != 0) return -1;
  }
  return i;
}

/* ---- the recipe among the words ---------------------------------------------------------------- */

typedef enum { UNLIKE, LIKE, ALIKE } likeness;

/* How much a word looks like a recipe. Without .lua or a slash it is one when it exists. */
static likeness like_recipe(const char *word, bool folders)
{
  char path[4096];
  size_t n = strlen(word);
  if ((n > 4 && is(word + n - 4, ".lua")) || capl_recipe_is_pinned(word)) return ALIKE;
  if (is_folder(word)) return folders ? LIKE : UNLIKE;
  return strchr(word, '/') || access(word, F_OK) == 0 || shipped_find(word, path, sizeof path) ? LIKE : UNLIKE;
}

typedef struct {
  int plain;        /* first plain word that is nobody's value */
  int certain;      /* … and looks like a recipe */
  int either[3][2]; /* by likeness: the first two that are perhaps the value of the --key before them */
} candidates;

static candidates look_for_recipe(int argc, char *const *argv, bool folders)
{
  candidates found = {-1, -1, {{-1, -1}, {-1, -1}, {-1, -1}}};
  for (int i = 0; i < argc && !is(argv[i], "--"); i++) {
    if (is_option(argv[i])) continue;
    likeness like = like_recipe(argv[i], folders);
    if (i > 0 && is_bare_key(argv[i - 1])) {
      int *two = found.either[like];
      if (two[0] < 0) two[0] = i;
      else if (two[1] < 0) two[1] = i;
    } else {
      if (found.plain < 0) found.plain = i;
      if (found.certain < 0 && like) found.certain = i;
    }
  }
  return found;
}

enum { NONE = -1, AMBIGUOUS = -2 };

static int ambiguous(char *const *argv, const int *two)
{
  usage_error("which argument is the recipe? Either %s, with '%s=%s', or %s, with '%s=%s'\n  write the value with =",
              argv[two[0]], argv[two[1] - 1], argv[two[1]], argv[two[1]], argv[two[0] - 1], argv[two[0]]);
  return AMBIGUOUS;
}

/* The place of the recipe among a command's words, NONE, or AMBIGUOUS after telling both readings. */
static int find_recipe(const capl_command *command, int argc, char *const *argv)
{
  candidates found = look_for_recipe(argc, argv, command->recipe == RECIPE_OR_RUN);
  if (found.certain >= 0) return found.certain;
  for (likeness like = ALIKE; like > UNLIKE; like--) {
    const int *two = found.either[like];
    if (two[1] >= 0) return ambiguous(argv, two);
    if (two[0] >= 0) return two[0];
  }
  return found.plain;
}

/* Whether a command's first word is no recipe. */
static bool stands_alone(const capl_command *c, const char *word)
{
  return c->recipe == RECIPE_OR_RUN && is_folder(word);
}

/* ---- the command's words ----------------------------------------------------------------------- */

static char **words; /* of the command; held here to the end of the program */

static bool add_word(capl_job *job, char *word)
{
  if (word) words[job->argc++] = word;
  return word != NULL;
}

/* All words but that at place `without`, with "--key value" as --key=value. */
static bool join_words(capl_job *job, int argc, char **argv, int without)
{
  for (int i = 0; i < argc; i++) {
    char *joined = argv[i];
    if (i == without) continue;
    if (is_bare_key(argv[i]) && i + 1 < argc && i + 1 != without && is_value(argv[i + 1])) {
      if (asprintf(&joined, "%s=%s", argv[i], argv[i + 1]) < 0) return false;
      i++;
    }
    if (!add_word(job, joined)) return false;
  }
  return true;
}

/* The word, or the path of a recipe that is not there but comes with the program; the hash it is asked for by stays
** with it. */
static char *shipped_path(char *word, command_line *c)
{
  const char *path = capl_recipe_path(word);
  if (!path || access(path, F_OK) == 0 || !shipped_find(path, c->shipped, sizeof c->shipped)) return word;
  size_t used = strlen(c->shipped);
  snprintf(c->shipped + used, sizeof c->shipped - used, "%s", word + strlen(path));
  return c->shipped;
}

/* Splits the words into the recipe and the rest. Returns 0, or the exit status after saying what is wrong. */
static int read_recipe_words(const capl_command *command, int argc, char **argv, command_line *c)
{
  capl_job *job = &c->l.job;
  int at = find_recipe(command, argc, argv);
  bool help = has_word(argc, argv, is_help);
  if (at == AMBIGUOUS) return EXIT_USAGE;
  c->help = help && (at == NONE || !is(command->name, "run"));
  if (at == NONE && !help && command->recipe != RECIPE_STAYS)
    return usage_error("no recipe is named; usage: %s", command->usage);
  if (at >= 0 && command->recipe == RECIPE_STAYS) add_word(job, shipped_path(argv[at], c));
  else if (at >= 0 && stands_alone(command, argv[at])) add_word(job, argv[at]);
  else if (at >= 0) job->recipe = shipped_path(argv[at], c);
  return join_words(job, argc, argv, at) ? 0 : no_memory();
}

/* Of a command and its first word, as in "bench dist": what took its place, NULL where nothing did. */
static const char *gone_form(const capl_command *command, int argc, char **argv)
{
  char form[64];
  if (argc == 0 || snprintf(form, sizeof form, "%s %s", command->name, argv[0]) >= (int)sizeof form) return NULL;
  return capl_gone(form);
}

static int read_words(const capl_command *command, int argc, char **argv, command_line *c)
{
  const char *instead = gone_form(command, argc, argv);
  if (instead) return usage_error("'capl %s %s' was removed: %s", command->name, argv[0], instead);
  capl_job *job = &c->l.job;
  words = calloc((size_t)argc + 3, sizeof *words); /* and --ranks and --restart that stood before the command */
  if (!words) return no_memory();
  job->command = command->name;
  job->usage = command->usage;
  job->help = command->help;
  job->exposed = command->confined;
  job->argv = words;
  if (command->recipe) return read_recipe_words(command, argc, argv, c);
  for (int i = 0; i < argc; i++) add_word(job, argv[i]);
  return 0;
}

/* ---- command ----------------------------------------------------------------------------------- */

static int unknown_command(const char *word)
{
  capl_suggestion s = {.wanted = word};
  const char *instead = capl_gone(word);
  if (instead) return usage_error("the command '%s' was removed: %s", word, instead);
  capl_commands_suggest(&s);
  shipped_suggest(&s);
  if (s.nearest) return usage_error("there is no command or recipe '%s'; did you mean '%s'?", word, s.nearest);
  return usage_error("there is no command or recipe '%s'", word);
}

/* Settles command, recipe and further words. Returns 0, or the exit status after saying what is wrong. */
static int read_command(int argc, char **argv, int i, command_line *c)
{
  const capl_command *command = capl_command_find(i == argc ? "repl" : argv[i]);
  bool named = i < argc && command;
  if (i < argc && is(argv[i], "-e")) {
    if (i + 1 == argc) return usage_error("-e needs a line of Lua after it");
    command = capl_command_find("eval-code");
    named = true;
  } else if (i < argc && is_help(argv[i])) {
    command = capl_command_find("help");
    named = true;
  } else if (i < argc && is(argv[i], "--version")) {
    command = capl_command_find("version");
    named = true;
  }
  if (!command && !like_recipe(argv[i], true)) return unknown_command(argv[i]);
  if (!command) command = capl_command_find("run");
  c->l.job.program = argv[0];
  return read_words(command, argc - i - named, argv + i + named, c);
}

/* ---- ranks ------------------------------------------------------------------------------------- */


static void tell_ranks(command_line *c)
{
  if (c->l.asked == RANKS_GPUS) strcpy(c->ranks_word, "--ranks=gpus");
  else snprintf(c->ranks_word, sizeof c->ranks_word, "--ranks=%d", c->l.asked);
  c->l.job.ranks_word = c->ranks_word;
}

/* Takes --ranks from the words of a recipe's command. Returns 0, or the exit status after saying what is wrong. */
static int read_ranks(command_line *c)
{
  launch *l = &c->l;
  const capl_command *command = capl_command_find(l->job.command);
  l->asked = RANKS_UNSAID;
  if (!c->ranks && (!command->recipe || command->recipe == RECIPE_STAYS)) return 0;
  if (c->ranks) add_word(&l->job, c->ranks);
  if (ranks_take(&l->job.argc, l->job.argv, &l->asked) != CAPL_OK) return usage_error("%s", capl_error_last()->message);
  if (l->asked != RANKS_UNSAID && !command->ranks)
    return usage_error("'%s' works in one process; --ranks is for runs, bench and check", command->name);
  if (l->asked != RANKS_UNSAID) tell_ranks(c);
  l->plans = command->ranks == RANKS_PLANS;
  l->starts = command->ranks == RANKS_STARTS && !has_word(l->job.argc, l->job.argv, is_help);
  return 0;
}

/* Takes --restart likewise. */
static int read_restarts(command_line *c)
{
  launch *l = &c->l;
  bool run = is(l->job.command, "run");
  if (!c->restart && !run) return 0;
  if (c->restart) add_word(&l->job, c->restart);
  if (!run) return usage_error("--restart is for runs of a recipe; '%s' is none", l->job.command);
  if (restart_take(&l->job.argc, l->job.argv, &l->restarts) != CAPL_OK)
    return usage_error("%s", capl_error_last()->message);
  if (l->restarts > 0 && l->job.interactive)
    return usage_error("-i waits for a person at a prompt, and --restart is for nobody there: give one of them");
  if (has_word(l->job.argc, l->job.argv, is_help)) l->restarts = 0;
  return 0;
}

/* -i may stand before the run or among its words. Returns 0, or the exit status after saying what is wrong. */
static int read_interactive(capl_job *job)
{
  bool run = is(job->command, "run");
  int kept = 0;
  for (int i = 0; i < job->argc; i++) {
    if (run && is(job->argv[i], "-i")) job->interactive = true;
    else job->argv[kept++] = job->argv[i];
  }
  job->argc = kept;
  if (job->interactive && !run && !is(job->command, "repl"))
    return usage_error("-i gives a prompt after a run; '%s' is none: capl -i RECIPE", job->command);
  if (has_word(job->argc, job->argv, is_help)) job->interactive = false;
  return 0;
}

int command_line_read(int argc, char **argv, command_line *c)
{
  *c = (command_line){.minutes = -1};
  int first = read_globals(argc, argv, c);
  if (first < 0) return EXIT_USAGE;
  int wrong = read_command(argc, argv, first, c);
  if (!wrong) wrong = read_ranks(c);
  if (!wrong) wrong = read_interactive(&c->l.job);
  if (!wrong) wrong = read_restarts(c);
  return wrong;
}
