/* repl.h -- the prompt.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_REPL_H
#define CAPL_BIND_REPL_H

#include <lua.h>
#include <stdbool.h>

typedef struct {
  bool verbose;         /* tracebacks with errors */
  const char *module;   /* of Lua, which says what lines mean: compile, run and complete of repl.c; NULL = "repl" */
  int watch;            /* descriptor: when something arrives there, no further key is waited for; 0 = none */
  const bool *over;     /* true: no further line is asked for; may be NULL */
  const char *greeting; /* first line on a terminal; NULL = the usual one */
} capl_repl_options;

/* Reads and runs lines until the end of input; returns the exit status. Piped input gets no prompt, and its first
** error does not stop it but makes the status 1. */
int capl_repl_run(lua_State *L, const capl_repl_options *options);

/* Async-signal-safe: ends the line that is being typed. */
void capl_repl_wake(void);

/* While waiting at the prompt, Ctrl-C ends the line and not the process (worker.c). */
void capl_worker_prompt(bool waiting);
/* SIGINT or SIGTERM when one has ended what ran last, else 0. */
int capl_worker_stopped(void);

#endif
