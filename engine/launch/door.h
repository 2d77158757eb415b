/* door.h -- the door of a run: a socket by which a person's terminal comes in, `capl attach`.
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
#ifndef CAPL_LAUNCH_DOOR_H
#define CAPL_LAUNCH_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { DOOR_PATH = 100, DOOR_MOST = 1 << 20, DOOR_WHY = 200 };

typedef struct {
  char kind;
  size_t length;
  char *text; /* ends with a 0 that length does not count; free it */
} door_frame;

/* The folders in which doors may be, 0 the first choice: a run and its visitor may have been started in different ways. make:
** makes it. false: why it cannot be trusted, or is not there. */
enum { DOOR_FOLDERS = 2 };
bool door_folder(int which, char path[DOOR_PATH], bool make, char why[DOOR_WHY]);
/* Takes away what is left of the socket of a process that has ended. */
void door_remove(pid_t pid);

/* Sends a frame, waiting as long as it takes. false: nobody is there any more. */
bool door_send(int fd, char kind, const char *text, size_t length);
/* Takes a frame that has begun to arrive. false: the other side is gone, or speaks otherwise. */
bool door_receive(int fd, door_frame *frame);
/* Connects to the door of a process of this user. -> descriptor, or -1 and why. */
int door_connect(pid_t pid, char why[DOOR_WHY]);

/* ---- the run's side, of which there is one in a process ---------------------------------------- */

/* Opens the door and starts its thread. interrupt: called by that thread to stop the line that runs. A run without a door
** goes on: false. */
bool door_open(void (*interrupt)(void));
/* Its folder is trusted, and path is a socket's in it; for door_open. */
bool door_path(int which, pid_t pid, bool make, char path[DOOR_PATH]);
/* What '?' gets. */
void door_describe(const char *json);
/* Whether somebody waits to be let in: one relaxed load. */
bool door_is_wanted(void);
/* Whether it has asked, between two of its frames, that what it waits for should end, or has gone; until this is asked. */
bool door_is_hurried(void);
/* Lets the visitor in. -> its hello, NULL: it has gone again. Borrowed until door_leave. */
const char *door_enter(void);
/* Waits for the next frame of the visitor; kind 0: it has gone; EINTR of a signal: kind 'i'. */
void door_next(door_frame *frame);
bool door_answer(char kind, const char *text, size_t length);
/* What the process prints goes to the visitor until the next call; false: it cannot. The line in between may be stopped. */
bool door_print_there(bool on);
/* Ends the visit; why: a line for the visitor. */
void door_leave(const char *why);

#endif
