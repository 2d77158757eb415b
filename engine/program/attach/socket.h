/* socket.h -- the socket of a run, by which a terminal joins it: `capl attach`.
**
** A run's worker opens it before it loads the recipe: PID.sock in $XDG_RUNTIME_DIR/capl or /tmp/capl-UID, which is the
** user's alone. A thread waits there and does nothing until somebody comes. It takes the client's frames, refuses a
** second client, and sets a flag that the run looks at between two steps; then the run answers.
**
** A frame is 4 bytes of length, 1 of kind, and text.
**   of the client: 'h' hello (JSON), 'l' a line to run, 't' a text to complete, 'i' stop what runs, 'q' go on without
**   me, '?' who are you
**   of the run: 'h' the first lines, 'o' 'e' what a line prints, 'm' the line is not whole, 'd' it is done ("" or the
**   error),
**   't' what completes a text, 'g' the session is over (why), 'b' refused (why), '?' who it is (JSON)
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_ATTACH_SOCKET_H
#define CAPL_ATTACH_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { ATTACH_PATH = 100, ATTACH_MOST = 1 << 20, ATTACH_WHY = 200, ATTACH_ANSWER_MS = 1000 };

typedef struct {
  char kind;
  size_t length;
  char *text; /* ends with a 0 that length does not count; free it */
} attach_frame;

/* The folders in which sockets may be, 0 the first choice: a run and its client may have been started in different
** ways. make: makes it. false: why it cannot be trusted, or is not there. */
enum { ATTACH_FOLDERS = 2 };
bool attach_folder(int which, char path[ATTACH_PATH], bool make, char why[ATTACH_WHY]);
/* Takes away what is left of the socket of a process that has ended. */
void attach_remove(pid_t pid);

/* Sends a frame, waiting as long as it takes. false: nobody is there any more. */
bool attach_send(int fd, char kind, const char *text, size_t length);
/* Takes a frame that has begun to arrive. false: the other side is gone, or speaks otherwise. */
bool attach_receive(int fd, attach_frame *frame);
/* How long receiving and sending may take, each piece of it; 0: for ever. */
void attach_patience(int fd, int receive_ms, int send_ms);
/* Takes away what is left of the sockets of all processes that were killed. */
void attach_sweep(void);
/* Connects to the socket of a process of this user, with ATTACH_ANSWER_MS of patience. -> descriptor, or -1 and why. */
int attach_connect(pid_t pid, char why[ATTACH_WHY]);

/* ---- the run's side, of which there is one in a process ---------------------------------------- */

/* Opens the socket and starts its thread. interrupt: called by that thread to stop the line that runs. A run without a
** socket goes on: false. */
bool attach_open(void (*interrupt)(void));
/* Its folder is trusted, and path is a socket's in it; for attach_open. */
bool attach_path(int which, pid_t pid, bool make, char path[ATTACH_PATH]);
/* What '?' gets. */
void attach_describe(const char *json);
/* Whether somebody waits to be let in: one relaxed load. */
bool attach_is_wanted(void);
/* Whether it has asked, between two of its frames, that what it waits for should end, or has gone; until this is
** asked. */
bool attach_is_hurried(void);
/* Lets the client in. -> its hello, NULL: it has gone again. Borrowed until attach_leave. */
const char *attach_enter(void);
/* Waits for the next frame of the client; kind 0: it has gone; 'i': look for signals, and ask again. */
void attach_next(attach_frame *frame);
bool attach_answer(char kind, const char *text, size_t length);
/* What the process prints goes to the client until the next call; false: it cannot. The line in between may be
** stopped. */
bool attach_print_there(bool on);
/* Ends the session; why: a line for the client. */
void attach_leave(const char *why);

#endif
