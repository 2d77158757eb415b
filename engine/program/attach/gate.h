/* gate.h -- the gate of a run: a socket by which a person's terminal comes in, `capl attach`.
**
** A run's worker opens it before it loads the recipe: PID.sock in $XDG_RUNTIME_DIR/capl or /tmp/capl-UID, which is the user's
** alone. A thread waits there and does nothing until somebody comes. It takes the visitor's frames, refuses a second visitor,
** and sets a flag that the run looks at between two steps; then the run answers.
**
** A frame is 4 bytes of length, 1 of kind, and text.
**   of the visitor: 'h' hello (JSON), 'l' a line to run, 't' a text to complete, 'i' stop what runs, 'q' go on without me, '?' who are you
**   of the run: 'h' the first lines, 'o' 'e' what a line prints, 'm' the line is not whole, 'd' it is done ("" or the error),
**   't' what completes a text, 'g' the visit is over (why), 'b' refused (why), '?' who it is (JSON)
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_GATE_H
#define CAPL_LAUNCH_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { GATE_PATH = 100, GATE_MOST = 1 << 20, GATE_WHY = 200, GATE_ANSWER_MS = 1000 };

typedef struct {
  char kind;
  size_t length;
  char *text; /* ends with a 0 that length does not count; free it */
} gate_frame;

/* The folders in which gates may be, 0 the first choice: a run and its visitor may have been started in different ways. make:
** makes it. false: why it cannot be trusted, or is not there. */
enum { GATE_FOLDERS = 2 };
bool gate_folder(int which, char path[GATE_PATH], bool make, char why[GATE_WHY]);
/* Takes away what is left of the socket of a process that has ended. */
void gate_remove(pid_t pid);

/* Sends a frame, waiting as long as it takes. false: nobody is there any more. */
bool gate_send(int fd, char kind, const char *text, size_t length);
/* Takes a frame that has begun to arrive. false: the other side is gone, or speaks otherwise. */
bool gate_receive(int fd, gate_frame *frame);
/* How long receiving and sending may take, each piece of it; 0: for ever. */
void gate_patience(int fd, int receive_ms, int send_ms);
/* Connects to the gate of a process of this user, with GATE_ANSWER_MS of patience. -> descriptor, or -1 and why. */
int gate_connect(pid_t pid, char why[GATE_WHY]);

/* ---- the run's side, of which there is one in a process ---------------------------------------- */

/* Opens the gate and starts its thread. interrupt: called by that thread to stop the line that runs. A run without a gate
** goes on: false. */
bool gate_open(void (*interrupt)(void));
/* Its folder is trusted, and path is a socket's in it; for gate_open. */
bool gate_path(int which, pid_t pid, bool make, char path[GATE_PATH]);
/* What '?' gets. */
void gate_describe(const char *json);
/* Whether somebody waits to be let in: one relaxed load. */
bool gate_is_wanted(void);
/* Whether it has asked, between two of its frames, that what it waits for should end, or has gone; until this is asked. */
bool gate_is_hurried(void);
/* Lets the visitor in. -> its hello, NULL: it has gone again. Borrowed until gate_leave. */
const char *gate_enter(void);
/* Waits for the next frame of the visitor; kind 0: it has gone; 'i': look for signals, and ask again. */
void gate_next(gate_frame *frame);
bool gate_answer(char kind, const char *text, size_t length);
/* What the process prints goes to the visitor until the next call; false: it cannot. The line in between may be stopped. */
bool gate_print_there(bool on);
/* Ends the visit; why: a line for the visitor. */
void gate_leave(const char *why);

#endif
