/* repl.c -- the prompt: lines from libedit or a pipe, meaning from lua/capl/repl.
**
** lua/capl/repl answers three questions: compile(text, line) -> "more", "leave" or a function, line: the number of the
** text's first line in what is piped, 0 on a terminal; run(function) prints what it returns; complete(text) -> text to
** insert, list to show, text: all of the statement up to the cursor.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/prompt/repl.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <wchar.h>

#include "bind/bind.h"
#include "program/prompt/history.h"

typedef struct {
  lua_State *L;
  capl_repl_options o;
  char *text; /* what was typed since the last complete piece */
  int line;   /* of a pipe: the number of its first line; 0 on a terminal */
  int errors;
  bool left; /* by a line that says so: exit, quit */
} repl;

static repl *current; /* the one prompt of this process, for the callbacks of libedit */

static void show_error(repl *r)
{
  fflush(stdout);
  const char *text = capl_bind_error_text(r->L, -1, r->o.verbose);
  bool one_line = r->line == 0 && r->text && strchr(r->text, '\n') == r->text + strlen(r->text) - 1;
  if (one_line && strncmp(text, "prompt:1: ", 10) == 0) text += 10; /* it stands right above */
  fprintf(stderr, "%s\n", text);
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

/* What C ends texts with would hide what is behind it. */
static bool has_zero(repl *r, const char *line, size_t n)
{
  if (!memchr(line, '\0', n)) return false;
  fprintf(stderr, "stdin:%d: the line holds a zero byte: this is no text\n", r->line);
  r->errors++;
  return true;
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
  lua_pushinteger(r->L, r->line);
  if (capl_bind_call_module(r->L, r->o.module, "compile", 2, 1) != 0) {
    show_error(r);
    return true;
  }
  if (lua_type(r->L, -1) == LUA_TSTRING) return r->left = strcmp(lua_tostring(r->L, -1), "leave") == 0;
  if (lua_isfunction(r->L, -1)) run_piece(r);
  return true;
}

static bool is_over(const repl *r) { return r->left || (r->o.over && *r->o.over); }

/* ---- piped ----------------------------------------------------------------------------------- */

static int run_pipe(repl *r)
{
  char *line = NULL;
  size_t size = 0;
  ssize_t n;
  for (int number = 1; !capl_worker_stopped() && !is_over(r) && (n = getline(&line, &size, stdin)) >= 0; number++) {
    if (!r->text) r->line = number;
    if (has_zero(r, line, (size_t)n) || take_line(r, line)) forget_text(r);
  }
  free(line);
  if (capl_worker_stopped()) return 128 + capl_worker_stopped();
  if (ferror(stdin)) fprintf(stderr, "standard input cannot be read\n"), r->errors++;
  if (r->text) {
    fprintf(stderr, "the input ends inside the statement that starts in line %d\n", r->line);
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

/* Pushes the statement so far, up to the cursor. */
static void push_typed(lua_State *L, EditLine *editor)
{
  const LineInfo *info = el_line(editor);
  lua_pushstring(L, current->text ? current->text : "");
  lua_pushlstring(L, info->buffer, (size_t)(info->cursor - info->buffer));
  lua_concat(L, 2);
}

static unsigned char complete(EditLine *editor, int key)
{
  (void)key;
  lua_State *L = current->L;
  lua_settop(L, 0);
  push_typed(L, editor);
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

/* ---- what is typed ---------------------------------------------------------------------------- */

static volatile sig_atomic_t resized;

/* Ctrl-C waits here until a key is waited for, so that none is lost while names are completed, say. */
static int woken = -1;
static bool given_up; /* the line, by Ctrl-C; else no line means the end of input, be it a terminal that is gone */

void capl_repl_wake(void)
{
  static const uint64_t one = 1;
  if (woken >= 0 && write(woken, &one, sizeof one) < 0) return; /* it is full of them already */
}

static void on_resize(int signal)
{
  (void)signal;
  resized = 1;
}

/* Waits for a key. poll ends for every signal, also for those after which a read goes on: that of a window's new size
** needs no more than this, so nothing else that reads is disturbed by it. Returns false after Ctrl-C. */
static bool wait_for_key(EditLine *editor)
{
  struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0}, {woken, POLLIN, 0},
                       {current->o.watch > 0 ? current->o.watch : -1, POLLIN, 0}};
  while (poll(p, 3, -1) < 0) {
    if (errno != EINTR) return true; /* the read that comes next says what is wrong */
    if (!resized) continue;
    resized = 0;
    el_resize(editor);
    printf("\r\033[J");
    el_set(editor, EL_REFRESH, NULL);
  }
  uint64_t count;
  return !(p[1].revents & POLLIN) || read(woken, &count, sizeof count) < 0;
}

/* Whether there is something where a prompt watches beside its keys. */
static bool is_called(const repl *r)
{
  struct pollfd p = {r->o.watch, POLLIN, 0};
  return r->o.watch > 0 && poll(&p, 1, 0) > 0;
}

/* For libedit: one character. 1, 0 at the end of input, -1 with errno. */
static int get_key(EditLine *editor, wchar_t *key)
{
  char bytes[MB_LEN_MAX + 1];
  mbstate_t fresh = {0};
  for (size_t n = 0; n < sizeof bytes; n++) {
    ssize_t got;
    do { /* Ctrl-C throws away keys that poll has seen: the read then waits, until the signal ends it */
      if (n == 0 && !wait_for_key(editor)) return given_up = true, errno = EINTR, -1;
      if (n == 0 && is_called(current)) return 0;
      got = read(STDIN_FILENO, bytes + n, 1);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return (int)got;
    mbstate_t state = fresh;
    size_t length = mbrtowc(key, bytes, n + 1, &state);
    if (length == (size_t)-2) continue; /* more bytes belong to it */
    if (length == (size_t)-1) *key = L'?';
    return 1;
  }
  *key = L'?';
  return 1;
}

static EditLine *open_editor(const capl_history *h)
{
  EditLine *editor = el_init("capl", stdin, stdout, stderr);
  if (!editor) return NULL;
  el_set(editor, EL_PROMPT, prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_SIGNAL, 0);
  el_set(editor, EL_HIST, history, h->list);
  el_set(editor, EL_GETCFN, get_key);
  el_set(editor, EL_ADDFN, "capl-complete", "complete a name", complete);
  el_set(editor, EL_BIND, "\t", "capl-complete", NULL);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_source(editor, NULL);
  return editor;
}

static void read_lines(repl *r, EditLine *editor, capl_history *h)
{
  for (;;) {
    int n = 0;
    given_up = false;
    capl_worker_prompt(true);
    el_set(editor, EL_PREP_TERM, 1); /* before the prompt shows, not after: keys that come in between keep their
                                     ** meaning */
    const char *line = el_gets(editor, &n);
    capl_worker_prompt(false);
    if (!line && is_called(r)) break;
    if (!line && given_up) {
      printf("^C\n");
      forget_text(r);
      el_reset(editor);
      continue;
    }
    if (!line || n == 0) break;
    if (!take_line(r, line)) continue;
    if (is_over(r)) return;
    if (capl_worker_stopped() == SIGTERM) break;
    capl_history_add(h, r->text);
    forget_text(r);
    if (resized) el_resize(editor); /* while something ran */
    resized = 0;
  }
  printf("\n");
}

/* Lines have what the terminal sends while one is being waited for; what runs in between is not disturbed:
** SA_RESTART. */
static void watch_size(bool on)
{
  struct sigaction action = {.sa_handler = on ? on_resize : SIG_DFL, .sa_flags = CAPL_INTERRUPT_FLAGS | SA_RESTART};
  sigaction(SIGWINCH, &action, NULL);
}

static int run_terminal(repl *r)
{
  capl_history h;
  setlocale(LC_CTYPE, "");
  if (!capl_history_open(&h)) return 1;
  EditLine *editor = open_editor(&h);
  if (editor) {
    watch_size(true);
    woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    printf("%s\n", r->o.greeting);
    read_lines(r, editor, &h);
    el_end(editor);
    watch_size(false);
    if (woken >= 0) close(woken);
    woken = -1;
  }
  capl_history_close(&h);
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
