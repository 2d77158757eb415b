/* allow.c -- asks whether a recipe may have what its header says it needs, and keeps the answer.
**
** Kept in $XDG_STATE_HOME/capl/allowed: a line for each text that was allowed something, its SHA-256 and that of what
** it was. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/allow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/user_dirs.h"
#include "base/text.h"
#include "base/write.h"
#include "program/launch/grants.h"
#include "program/launch/supervise.h"

enum { LINE = 2 * 64 + 3, FILE_NAME = 4096, MOST = 1 << 18 };

/* ---- what was allowed before ------------------------------------------------------------------- */

static bool state_file(char *path)
{
  return capl_user_path("XDG_STATE_HOME", ".local/state", "allowed", path, FILE_NAME - 128);
}

/* Only whole lines, and of very many the later half: what is forgotten is asked again. */
static void keep_whole_lines(char *text, size_t n)
{
  while (n > 0 && text[n - 1] != '\n') n--;
  text[n] = '\0';
  if (n < MOST - LINE) return;
  const char *half = strchr(text + n / 2, '\n');
  if (half) memmove(text, half + 1, strlen(half + 1) + 1);
}

/* The kept lines; freed by the caller. Of a file that is somebody else's nothing is believed. */
static char *read_kept(const char *path)
{
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return NULL;
  char *text = malloc(MOST + 1);
  ssize_t n = text && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()
      && !(st.st_mode & 022) ? read(fd, text, MOST) : -1;
  close(fd);
  if (n < 0) return free(text), NULL;
  keep_whole_lines(text, (size_t)n);
  return text;
}

static void make_line(char line[LINE], const capl_job *job, const grants_asked *asked)
{
  snprintf(line, LINE, "%.64s %.64s\n", job->file.sha256, asked->sha256);
}

static bool is_kept(const char *text, const char *line)
{
  const char *at = text ? strstr(text, line) : NULL;
  return at && (at == text || at[-1] == '\n');
}

static bool was_allowed(const capl_job *job, const grants_asked *asked)
{
  char path[FILE_NAME], line[LINE];
  if (!state_file(path)) return false;
  make_line(line, job, asked);
  char *text = read_kept(path);
  bool found = is_kept(text, line);
  free(text);
  return found;
}

/* Whole or not at all. */
static bool write_kept(const char *path, const char *text, const char *line)
{
  char temporary[FILE_NAME];
  if (snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid()) >= (int)sizeof temporary)
    return errno = ENAMETOOLONG, false;
  unlink(temporary);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool written = base_write(fd, text, text ? strlen(text) : 0) && base_write(fd, line, strlen(line)) && fsync(fd) == 0;
  int cause = errno;
  close(fd);
  if (written && rename(temporary, path) == 0) return true;
  if (written) cause = errno;
  unlink(temporary);
  return errno = cause, false;
}

static void keep(const capl_job *job, const grants_asked *asked)
{
  char path[FILE_NAME], line[LINE];
  if (!state_file(path)) return;
  capl_make_parent_dirs(path);
  make_line(line, job, asked);
  char *text = read_kept(path);
  if (!is_kept(text, line) && !write_kept(path, text, line))
    fprintf(stderr, "capl: the answer cannot be saved in %s: %s\n", path, capl_errno_text(errno));
  free(text);
}

/* ---- asking ------------------------------------------------------------------------------------ */

static bool asks_here(void) { return isatty(STDIN_FILENO) && isatty(STDERR_FILENO); }

/* The first letter of a line of the terminal. */
static bool answers_yes(void)
{
  char first = '\0', c = '\0';
  for (ssize_t n; (n = read(STDIN_FILENO, &c, 1)) == 1 && c != '\n';)
    if (!first && c != ' ') first = c;
  return first == 'y' || first == 'Y';
}

static bool ask(const capl_job *job, const char *name, const grants_asked *asked)
{
  fprintf(stderr, "Allow it, now and whenever this very text is run? [y/N] ");
  fflush(stderr);
  if (!answers_yes()) return fprintf(stderr, "capl: %s was not allowed what it needs; nothing was run\n", name), false;
  keep(job, asked);
  return true;
}

static int refuse(const char *program, const char *name)
{
  fprintf(stderr,
          "capl: %s needs more than a recipe gets unasked; nothing was run\n"
          "  hint: %s --allow %s allows it; on a terminal capl asks. A folder named on the command line, as in "
          "--data=DIR, is "
          "allowed anyway; %s --trust %s runs it without the sandbox\n",
          name, program, name, program, name);
  return EXIT_ERROR;
}

static int say_error(bool quiet)
{
  const capl_error *e = capl_error_last();
  if (!quiet) fprintf(stderr, "capl: %s\n", e->message);
  if (!quiet && *e->hint) fprintf(stderr, "  hint: %s\n", e->hint);
  return EXIT_ERROR;
}

/* Help says what a recipe is before anybody allows it anything. */
static bool wants_help(const capl_job *job)
{
  for (int i = 0; i < job->argc; i++)
    if (strcmp(job->argv[i], "--help") == 0 || strcmp(job->argv[i], "-h") == 0) return true;
  return false;
}

/* Shown in full, whoever has allowed it; what another capl has shown is not shown again. */
static int settle_asked(capl_job *job, const grants_asked *asked, bool quiet)
{
  const char *said = getenv("CAPL_SANDBOX");
  bool preset = said && strcmp(said, "allow") == 0;
  char name[512];
  capl_text_show(name, sizeof name, job->recipe, false);
  if (!preset && !quiet) fprintf(stderr, "capl: %s needs:\n%s", name, asked->text);
  if (!preset && !job->allowed && !was_allowed(job, asked)) {
    if (!asks_here()) return quiet ? EXIT_ERROR : refuse(job->program, name);
    if (!ask(job, name, asked)) return EXIT_ERROR;
  }
  job->allowed = true;
  return grants_give_asked(job, asked) == CAPL_OK ? 0 : say_error(quiet);
}

static int settle_needs(capl_job *job, bool quiet)
{
  grants_asked asked;
  if (wants_help(job)) return 0;
  int wrong = grants_ask(job, &asked) != CAPL_OK ? say_error(quiet) : 0;
  if (!wrong && *asked.text) wrong = settle_asked(job, &asked, quiet);
  grants_forget(&asked);
  return wrong;
}

int allow_settle(capl_job *job, bool quiet)
{
  job->confined = grants_wanted(job);
  if (job->confined) {
    if (grants_give(job) != CAPL_OK) return say_error(quiet);
    int wrong = job->recipe ? settle_needs(job, quiet) : 0;
    if (wrong) return wrong;
  }
  if (job->trusted) setenv("CAPL_SANDBOX", "trust", 1);
  else if (job->allowed) setenv("CAPL_SANDBOX", "allow", 1);
  return 0;
}
