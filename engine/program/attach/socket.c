/* socket.c -- where the sockets of runs are, and frames through them; the run's side is in server.c.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/attach/socket.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

_Static_assert(ATTACH_PATH <= sizeof((struct sockaddr_un *)0)->sun_path, "a socket's path is a socket's");

/* ---- places ---------------------------------------------------------------------------------- */

/* Only what belongs to this user and opens to nobody else is a place for sockets. */
static bool is_own_socket(const char *path, char why[ATTACH_WHY])
{
  struct stat info;
  if (lstat(path, &info) != 0) return snprintf(why, ATTACH_WHY, "%s: %s", path, capl_errno_text(errno)), false;
  if (!S_ISDIR(info.st_mode)) return snprintf(why, ATTACH_WHY, "%s is no folder", path), false;
  if (info.st_uid != geteuid()) return snprintf(why, ATTACH_WHY, "%s belongs to another user", path), false;
  if (info.st_mode & 077) return snprintf(why, ATTACH_WHY, "%s is open to others: chmod 700 %s", path, path), false;
  return true;
}

bool attach_folder(int which, char path[ATTACH_PATH], bool make, char why[ATTACH_WHY])
{
  const char *runtime = getenv("XDG_RUNTIME_DIR");
  bool named = runtime && *runtime == '/' && strlen(runtime) < ATTACH_PATH - 25;
  if (which == 0 && !named) return snprintf(why, ATTACH_WHY, "$XDG_RUNTIME_DIR names no folder"), false;
  if (which == 0) snprintf(path, ATTACH_PATH, "%s/capl", runtime);
  else snprintf(path, ATTACH_PATH, "/tmp/capl-%u", (unsigned)geteuid());
  if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
    return snprintf(why, ATTACH_WHY, "%s: %s", path, capl_errno_text(errno)), false;
  return is_own_socket(path, why);
}

bool attach_path(int which, pid_t pid, bool make, char path[ATTACH_PATH])
{
  char why[ATTACH_WHY];
  if (!attach_folder(which, path, make, why)) return false;
  size_t n = strlen(path);
  return snprintf(path + n, ATTACH_PATH - n, "/%d.sock", (int)pid) < (int)(ATTACH_PATH - n);
}

void attach_remove(pid_t pid)
{
  char path[ATTACH_PATH];
  for (int i = 0; i < ATTACH_FOLDERS; i++)
    if (attach_path(i, pid, false, path)) unlink(path);
}

/* ---- frames ---------------------------------------------------------------------------------- */

enum { HEAD = 5 };

static bool send_all(int fd, const char *bytes, size_t n)
{
  while (n > 0) {
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    n -= (size_t)sent;
  }
  return true;
}

bool attach_send(int fd, char kind, const char *text, size_t length)
{
  char head[HEAD];
  uint32_t n = (uint32_t)length;
  memcpy(head, &n, sizeof n);
  head[4] = kind;
  return length <= ATTACH_MOST && send_all(fd, head, HEAD) && send_all(fd, text, length);
}

static bool receive_all(int fd, char *bytes, size_t n)
{
  while (n > 0) {
    ssize_t got = recv(fd, bytes, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    n -= (size_t)got;
  }
  return true;
}

bool attach_receive(int fd, attach_frame *frame)
{
  char head[HEAD];
  uint32_t n;
  *frame = (attach_frame){0};
  if (!receive_all(fd, head, HEAD)) return false;
  memcpy(&n, head, sizeof n);
  if (n > ATTACH_MOST) return false;
  char *text = malloc((size_t)n + 1);
  if (!text) return false;
  if (!receive_all(fd, text, n)) return free(text), false;
  text[n] = '\0';
  *frame = (attach_frame){.kind = head[4], .length = n, .text = text};
  return true;
}

void attach_patience(int fd, int receive_ms, int send_ms)
{
  struct timeval r = {receive_ms / 1000, receive_ms % 1000 * 1000}, s = {send_ms / 1000, send_ms % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &r, sizeof r);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &s, sizeof s);
}

/* ---- the client's side ---------------------------------------------------------------------- */

/* Whoever listens there may only be this user, or root. */
static bool is_run_of_ours(int fd)
{
  struct ucred peer;
  socklen_t n = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static int connect_to(const char *path, char why[ATTACH_WHY])
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, path, ATTACH_PATH);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return snprintf(why, ATTACH_WHY, "no socket: %s", capl_errno_text(errno)), -1;
  attach_patience(fd, ATTACH_ANSWER_MS, ATTACH_ANSWER_MS); /* also for connect: a run that is stopped takes nobody
                                                           ** from the queue */
  bool there = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (there && is_run_of_ours(fd)) return fd;
  if (there) errno = EACCES; /* somebody listens there who is not this user */
  if (errno == ECONNREFUSED) unlink(path); /* left by a process that was killed */
  else if (errno == EAGAIN) snprintf(why, ATTACH_WHY, "it does not answer");
  else if (errno != ENOENT) snprintf(why, ATTACH_WHY, "%s: %s", path, capl_errno_text(errno));
  close(fd);
  return -1;
}

void attach_sweep(void)
{
  char path[ATTACH_PATH], why[ATTACH_WHY];
  for (int i = 0; i < ATTACH_FOLDERS; i++) {
    DIR *folder = attach_folder(i, path, false, why) ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
      pid_t pid = atoi(entry->d_name);
      if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH) continue;
      int fd = attach_connect(pid, why); /* it takes the socket away if nobody listens; one may, in another container */
      if (fd >= 0) close(fd);
    }
    if (folder) closedir(folder);
  }
}

int attach_connect(pid_t pid, char why[ATTACH_WHY])
{
  char path[ATTACH_PATH];
  int fd = -1;
  snprintf(why, ATTACH_WHY, "process %d accepts no connection", (int)pid);
  for (int i = 0; i < ATTACH_FOLDERS && fd < 0; i++)
    if (attach_path(i, pid, false, path)) fd = connect_to(path, why);
  return fd;
}
