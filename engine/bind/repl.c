/* repl.c -- the prompt: lines from libedit or a pipe, meaning from lua/capl/repl.
**
** lua/capl/repl answers three questions: compile(text) -> "more" | nil | function or false, message;
** run(function) prints what it returns; complete(word) -> text to insert, list to show.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "repl.h"

#include <ctype.h>
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind.h"

enum { HISTORY_LINES = 5000, PATH_LENGTH = 4096 };

typedef struct {
  lua_State *L;
  capl_repl_options o;
  char *text; /* what was typed since the last complete piece */
  int errors;
} repl;

static repl *current; /* the one prompt of this process, for the callbacks of libedit */

static void show_error(repl *r)
{
  fflush(stdout);
  fprintf(stderr, "%s\n", capl_bind_error_text(r->L, -1, r->o.verbose));
  r->errors++;
}

static void forget_text(repl *r)
{
  free(r->text);
  r->text = NULL;
}

/* Runs the function on top of the stack. */
static void run_piece(repl *r)
{
  if (capl_bind_call_module(r->L, r->o.module, "run", 1, 0) != 0) show_error(r);
  fflush(stdout);
}

/* Takes one more line. Returns whether the text so far is complete and has been dealt with. */
static bool take_line(repl *r, const char *line)
{
  char *longer;
  if (asprintf(&longer, "%s%s", r->text ? r->text : "", line) < 0) return true;
  free(r->text);
  r->text = longer;
  lua_settop(r->L, 0);
  lua_pushstring(r->L, r->text);
  if (capl_bind_call_module(r->L, r->o.module, "compile", 1, 1) != 0) {
    show_error(r);
    return true;
  }
  if (lua_type(r->L, -1) == LUA_TSTRING) return false; /* "more" */
  if (lua_isfunction(r->L, -1)) run_piece(r);
  return true;
}

/* ---- piped ----------------------------------------------------------------------------------- */

static int run_pipe(repl *r)
{
  char *line = NULL;
  size_t size = 0;
  while (!capl_worker_stopped() && getline(&line, &size, stdin) >= 0)
    if (take_line(r, line)) forget_text(r);
  free(line);
  if (capl_worker_stopped()) return 128 + capl_worker_stopped();
  if (r->text) {
    fprintf(stderr, "the input ends in the middle of a statement\n");
    r->errors++;
    forget_text(r);
  }
  return r->errors > 0;
}

/* ---- terminal -------------------------------------------------------------------------------- */

static char *prompt(EditLine *editor)
{
  (void)editor;
  static char first[] = "capl> ", further[] = "    > ";
  return current->text ? further : first;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || c == ':'; }

static unsigned char complete(EditLine *editor, int key)
{
  (void)key;
  lua_State *L = current->L;
  const LineInfo *info = el_line(editor);
  const char *word = info->cursor;
  while (word > info->buffer && is_word(word[-1])) word--;
  lua_settop(L, 0);
  lua_pushlstring(L, word, (size_t)(info->cursor - word));
  if (capl_bind_call_module(L, current->o.module, "complete", 1, 2) != 0) return CC_REFRESH_BEEP;
  const char *insert = lua_tostring(L, -2), *list = lua_tostring(L, -1);
  unsigned char answer = CC_REFRESH_BEEP;
  if (insert && *insert) {
    el_insertstr(editor, insert);
    answer = CC_REFRESH;
  }
  if (list) {
    printf("\n%s\n", list);
    answer = CC_REDISPLAY;
  }
  return answer;
}

/* $CAPL_HISTORY, else capl/history below $XDG_STATE_HOME or ~/.local/state; "" for none. */
static void history_path(char path[PATH_LENGTH])
{
  const char *own = getenv("CAPL_HISTORY"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char folder[PATH_LENGTH - 16] = "";
  path[0] = '\0';
  if (own) {
    snprintf(path, PATH_LENGTH, "%s", own);
    return;
  }
  if (state && *state)
    snprintf(folder, sizeof folder, "%s/capl", state);
  else if (home && *home)
    snprintf(folder, sizeof folder, "%s/.local/state/capl", home);
  if (!*folder) return;
  for (char *p = folder + 1; *p; p++) {
    if (*p != '/') continue;
    *p = '\0';
    mkdir(folder, 0700);
    *p = '/';
  }
  if (mkdir(folder, 0700) == 0 || errno == EEXIST) snprintf(path, PATH_LENGTH, "%s/history", folder);
}

static void remember(History *history_list, const char *path, const char *text)
{
  HistEvent event;
  char *line = strdup(text);
  if (!line) return;
  size_t n = strlen(line);
  while (n > 0 && isspace((unsigned char)line[n - 1])) line[--n] = '\0';
  for (char *p = line; *p; p++)
    if (*p == '\n') *p = ' ';
  if (n > 0) {
    history(history_list, &event, H_ENTER, line);
    if (*path) history(history_list, &event, H_SAVE, path);
  }
  free(line);
}

static EditLine *open_editor(History *history_list)
{
  EditLine *editor = el_init("capl", stdin, stdout, stderr);
  if (!editor) return NULL;
  el_set(editor, EL_PROMPT, prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_SIGNAL, 0);
  el_set(editor, EL_HIST, history, history_list);
  el_set(editor, EL_ADDFN, "capl-complete", "complete a name", complete);
  el_set(editor, EL_BIND, "\t", "capl-complete", NULL);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_source(editor, NULL);
  return editor;
}

static void read_lines(repl *r, EditLine *editor, History *history_list, const char *path)
{
  for (;;) {
    int n = 0;
    errno = 0;
    capl_worker_prompt(true);
    const char *line = el_gets(editor, &n);
    int cause = errno;
    capl_worker_prompt(false);
    if (!line && (n < 0 || cause == EINTR)) { /* Ctrl-C */
      printf("^C\n");
      forget_text(r);
      el_reset(editor);
      continue;
    }
    if (!line || n == 0) break;
    if (!take_line(r, line)) continue;
    if (capl_worker_stopped() == SIGTERM) break;
    remember(history_list, path, r->text);
    forget_text(r);
  }
  printf("\n");
}

static int run_terminal(repl *r)
{
  HistEvent event;
  char path[PATH_LENGTH];
  setlocale(LC_CTYPE, "");
  history_path(path);
  History *history_list = history_init();
  if (!history_list) return 1;
  history(history_list, &event, H_SETSIZE, HISTORY_LINES);
  history(history_list, &event, H_SETUNIQUE, 1);
  if (*path) history(history_list, &event, H_LOAD, path);
  EditLine *editor = open_editor(history_list);
  if (editor) {
    printf("%s\n", r->o.greeting);
    read_lines(r, editor, history_list, path);
    el_end(editor);
  }
  history_end(history_list);
  if (capl_worker_stopped()) return 128 + capl_worker_stopped();
  return editor ? 0 : 1;
}

int capl_repl_run(lua_State *L, const capl_repl_options *options)
{
  repl r = {.L = L, .o = *options};
  if (!r.o.module) r.o.module = "repl";
  if (!r.o.greeting) r.o.greeting = "capl: ?name explains, TAB completes, Ctrl-D leaves";
  current = &r;
  int status = isatty(STDIN_FILENO) ? run_terminal(&r) : run_pipe(&r);
  forget_text(&r);
  return status;
}
