/* sys.c -- files, date and terminal for capl's own Lua library.
**
** The library has no io and no os; what it needs of the system is here, in small checked functions. Calls that may
** legitimately fail return nil and a sentence. Recipes never see this table.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "bind/core/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/user_dirs.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/write.h"
#include "bind/core/core.h"
#include "capl/backend.h"
#include "capl/data.h"

static int fail(lua_State *L, const char *verb, const char *path)
{
  lua_pushnil(L);
  lua_pushfstring(L, "cannot %s %s: %s", verb, path, capl_errno_text(errno));
  return 2;
}

/* date() -> "2025-01-31T12:00:00Z" */
static int sys_date(lua_State *L)
{
  char text[32];
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  lua_pushstring(L, text);
  return 1;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static volatile sig_atomic_t bar_shown;

void capl_sys_bar_clear(void)
{
  if (!bar_shown) return;
  bar_shown = false;
  fputs("\r\033[K", stdout);
  fflush(stdout);
}

void capl_sys_bar_leave(void)
{
  if (bar_shown && write(STDOUT_FILENO, "\n", 1) < 0) return; /* the process is about to end anyway */
}

/* bar(text): redraws the line at the bottom of the terminal; any other output takes its place. */
static int sys_bar(lua_State *L)
{
  fprintf(stdout, "\r%s\033[K", luaL_checkstring(L, 1));
  fflush(stdout);
  bar_shown = true;
  return 0;
}

/* A rank prints into a pipe, also where its lines end on a terminal: what started it says so, with the width. */
static int columns_elsewhere;

int capl_sys_columns(int columns)
{
  int former = columns_elsewhere;
  columns_elsewhere = columns;
  return former;
}

static int bar_columns(void)
{
  if (columns_elsewhere > 0) return columns_elsewhere;
  const char *columns = getenv("CAPL_BAR");
  return columns ? atoi(columns) : 0;
}

/* columns() -> width of the terminal that standard output is, 80 when nobody knows */
static int sys_columns(lua_State *L)
{
  struct winsize size;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  lua_pushinteger(L, known ? size.ws_col : bar_columns() > 0 ? bar_columns() : 80);
  return 1;
}

static int put_raw(lua_State *L, FILE *file)
{
  size_t n;
  const char *text = luaL_checklstring(L, -1, &n);
  capl_sys_bar_clear();
  bind_count_output(n);
  fwrite(text, 1, n, file);
  fflush(file);
  return 0;
}

/* Names of files and labels may hold commands to a terminal; it gets to see them as \x1b. So does whoever reads errors,
** or what a recipe has printed, elsewhere: those end in a terminal, too. */
static int put(lua_State *L, FILE *file)
{
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  if (file == stderr || isatty(fileno(file)) || bar_columns() > 0 || capl_policy_is_closed()) {
    char *shown = lua_newuserdata(L, 4 * n + 16);
    size_t used = 0, piece;
    for (size_t at = 0; at < n; used += piece) at += (size_t)capl_text_show_char(text + at, true, shown + used, &piece);
    lua_pushlstring(L, shown, used);
  } else {
    lua_pushvalue(L, 1);
  }
  return put_raw(L, file);
}

/* draw(text): to standard output, with the commands to the terminal in it */
static int sys_draw(lua_State *L) { return put_raw(L, stdout); }

/* out(text), err(text): to standard output and standard error, at once */
static int sys_out(lua_State *L) { return put(L, stdout); }
static int sys_err(lua_State *L) { return put(L, stderr); }

/* mute(true): standard output goes nowhere until mute(false); mute("stderr"): to standard error. For commands whose own
** output is for machines. */
static int sys_mute(lua_State *L)
{
  static int kept = -1;
  bool mute = lua_toboolean(L, 1);
  fflush(stdout);
  if (mute && kept < 0) {
    bool aside = lua_type(L, 1) == LUA_TSTRING;
    int nowhere = aside ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) : open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0) return fail(L, "open", aside ? "standard error" : "/dev/null");
    kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
  } else if (!mute && kept >= 0) {
    dup2(kept, STDOUT_FILENO);
    close(kept);
    kept = -1;
  }
  return 0;
}

/* isatty(fd) -> whether it is a terminal, or goes to one */
static int sys_isatty(lua_State *L)
{
  int fd = (int)luaL_checkinteger(L, 1);
  lua_pushboolean(L, isatty(fd) || (fd == STDOUT_FILENO && bar_columns() > 0));
  return 1;
}

/* getenv(name) -> text or nil */
static int sys_getenv(lua_State *L)
{
  lua_pushstring(L, getenv(luaL_checkstring(L, 1)));
  return 1;
}

/* cpus() -> processors this process may use */
static int sys_cpus(lua_State *L)
{
  lua_pushinteger(L, capl_cpu_count());
  return 1;
}

/* workers_most() -> threads that can usefully read or draw images: one per processor, as many as the engine takes */
static int sys_workers_most(lua_State *L)
{
  int n = capl_cpu_count();
  lua_pushinteger(L, n < CAPL_WORKERS_MAX ? n : CAPL_WORKERS_MAX);
  return 1;
}

/* threads() -> compute threads, by the rule of the cpu backend: $CAPL_THREADS, $OMP_NUM_THREADS, else the processors */
static int sys_threads(lua_State *L)
{
  const char *text = getenv("CAPL_THREADS");
  if (!text || !*text) text = getenv("OMP_NUM_THREADS");
  int n = text ? atoi(text) : 0;
  lua_pushinteger(L, n > 0 ? n : capl_cpu_count());
  return 1;
}

/* peak_rss() -> bytes of memory this process held at most */
static int sys_peak_rss(lua_State *L)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  lua_pushnumber(L, (double)usage.ru_maxrss * 1024);
  return 1;
}

/* rss() -> bytes of memory this process holds now, 0 where unknown */
static int sys_rss(lua_State *L)
{
  char text[128] = "";
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t n = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  const char *resident = n > 0 ? strchr(text, ' ') : NULL;
  lua_pushnumber(L, resident ? strtod(resident, NULL) * (double)sysconf(_SC_PAGESIZE) : 0);
  return 1;
}

/* time() -> seconds since 1970 */
static int sys_time(lua_State *L)
{
  lua_pushnumber(L, (double)time(NULL));
  return 1;
}

/* kind(path) -> "file", "folder" or nil */
static int sys_kind(lua_State *L)
{
  struct stat info;
  if (stat(bind_check_path(L, 1, CAPL_MAY_READ), &info) != 0) return 0;
  lua_pushstring(L, S_ISDIR(info.st_mode) ? "folder" : "file");
  return 1;
}

/* stamp(path) -> a text that changes when the file does, "unreadable" when it cannot be looked at, nil when there is
** none; cheap */
static int sys_stamp(lua_State *L)
{
  struct stat info;
  char text[96];
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  if (stat(path, &info) != 0)
    return lstat(path, &info) != 0 && errno == ENOENT ? 0 : (lua_pushliteral(L, "unreadable"), 1);
  snprintf(text, sizeof text, "%lld.%09ld %lld %llu", (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
           (long long)info.st_size, (unsigned long long)info.st_ino);
  lua_pushstring(L, text);
  return 1;
}

/* mkdir(path) -> true: makes the folder and those above it */
static int sys_mkdir(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_WRITE);
  char part[4096];
  if (strlen(path) >= sizeof part) return errno = ENAMETOOLONG, fail(L, "make folder", path);
  for (size_t i = 1, n = strlen(path); i <= n; i++) {
    if (path[i] != '/' && path[i] != '\0') continue;
    memcpy(part, path, i);
    part[i] = '\0';
    if (mkdir(part, 0777) != 0 && errno != EEXIST) return fail(L, "make folder", part);
  }
  struct stat info;
  if (stat(path, &info) != 0) return fail(L, "make folder", path);
  if (!S_ISDIR(info.st_mode)) return errno = ENOTDIR, fail(L, "make folder", path);
  lua_pushboolean(L, true);
  return 1;
}

/* mkdir_new(path) -> true; false when something of that name is there already */
static int sys_mkdir_new(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_WRITE);
  bool made = mkdir(path, 0777) == 0;
  if (!made && errno != EEXIST) return fail(L, "make folder", path);
  lua_pushboolean(L, made);
  return 1;
}

enum { READ_FIRST = 16384, READ_MOST = 512 << 20 }; /* bytes that a text of this library may have */

/* What has no end, or waits for somebody to write, is no file to read; standard input is asked for by its name, and
** waited for. */
static bool is_readable(int fd, const char *path, const struct stat *info)
{
  bool asked = strcmp(path, "/dev/stdin") == 0;
  if (S_ISDIR(info->st_mode)) return errno = EISDIR, false;
  if (!S_ISREG(info->st_mode) && !asked) return errno = ENOTBLK, false;
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* Pushes all bytes up to READ_MOST; the buffer is Lua's, so that an error of memory loses nothing. -> nothing is
** wrong */
static bool read_rest(lua_State *L, int fd, size_t size)
{
  char *text = lua_newuserdata(L, size);
  size_t len = 0;
  for (ssize_t n; (n = read(fd, text + len, size - len)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if ((len += (size_t)n) < size) continue;
    if (len > READ_MOST) return errno = EFBIG, false;
    char *more = lua_newuserdata(L, size *= 2);
    text = memcpy(more, text, len);
    lua_replace(L, -2);
  }
  lua_pushlstring(L, text, len);
  return true;
}

static int read_fail(lua_State *L, const char *path, const struct stat *info)
{
  if (errno == ENOTBLK) {
    lua_pushnil(L);
    lua_pushfstring(L, "cannot read %s: it is a pipe or a device, not a file", path);
    return 2;
  }
  if (errno != EFBIG) return fail(L, "read", path);
  lua_pushnil(L);
  lua_pushfstring(L, "cannot read %s: it has %f bytes, more than the %d that make sense here", path,
                  (double)info->st_size, READ_MOST);
  return 2;
}

/* lock(folder) -> false when another process holds it. Held until this process ends, however it does, or locks another
** one; where a file system knows no locks, everybody gets one. */
static int sys_lock(lua_State *L)
{
  static int held = -1;
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  if (held >= 0) close(held);
  held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  lua_pushboolean(L, held < 0 || flock(held, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
  return 1;
}

/* read(path[, last]) -> text; of its last bytes alone, when that many are asked for */
static int sys_read(lua_State *L)
{
  struct stat info = {0};
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  double last = luaL_optnumber(L, 2, 0);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
  if (fd < 0) return fail(L, "read", path);
  bool fine = fstat(fd, &info) == 0 && is_readable(fd, path, &info);
  if (fine && last > 0 && last < (double)info.st_size)
    fine = lseek(fd, -(off_t)last, SEEK_END) >= 0, info.st_size = (off_t)last;
  if (fine && info.st_size > READ_MOST) fine = false, errno = EFBIG;
  fine = fine && read_rest(L, fd, info.st_size > 0 ? (size_t)info.st_size + 1 : READ_FIRST);
  int cause = errno;
  close(fd);
  return fine ? 1 : (errno = cause, read_fail(L, path, &info));
}

/* write(path, text) -> true: to a temporary name, which then replaces path */
static int sys_write(lua_State *L)
{
  size_t n;
  const char *path = bind_check_path(L, 1, CAPL_MAY_WRITE), *text = luaL_checklstring(L, 2, &n);
  bind_count_output(n);
  char temporary[4096];
  if (snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof temporary)
    return errno = ENAMETOOLONG, fail(L, "write", path);
  int fd = capl_file_create_new(temporary);
  if (fd < 0) return fail(L, "write", path);
  bool written = base_write(fd, text, n) && fsync(fd) == 0;
  int cause = errno;
  close(fd);
  if (written && rename(temporary, path) == 0) return lua_pushboolean(L, true), 1;
  if (!written) errno = cause;
  fail(L, "write", path);
  unlink(temporary);
  return 2;
}

/* append(path, text[, sync]) -> true: all of it or nothing, so that a file of lines never ends within one. sync: it is
** on the disk when this returns. */
static int sys_append(lua_State *L)
{
  size_t n;
  const char *path = bind_check_path(L, 1, CAPL_MAY_WRITE), *text = luaL_checklstring(L, 2, &n);
  bind_count_output(n);
  bool sync = lua_toboolean(L, 3);
  struct stat info;
  /* nobody may read the pipe it is */
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file < 0) return fail(L, "write", path);
  if (fstat(file, &info) == 0 && !S_ISREG(info.st_mode)) return close(file), errno = EINVAL, fail(L, "write", path);
  off_t former = lseek(file, 0, SEEK_END);
  bool whole = base_write(file, text, n), written = whole && (!sync || fsync(file) == 0);
  int cause = errno;
  if (!whole && ftruncate(file, former) != 0) cause = errno;
  close(file);
  if (written) return lua_pushboolean(L, true), 1;
  return errno = cause, fail(L, "write", path);
}

/* cut(path, bytes) -> true: shortens the file to its first bytes; nil and a sentence when it has fewer */
static int sys_cut(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_WRITE);
  double bytes = luaL_checknumber(L, 2);
  struct stat info;
  if (stat(path, &info) != 0) return fail(L, "shorten", path);
  if (!(bytes >= 0 && bytes <= (double)info.st_size)) {
    lua_pushnil(L);
    lua_pushfstring(L, "cannot shorten %s to %f bytes: it has %f", path, bytes, (double)info.st_size);
    return 2;
  }
  int file = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK); /* truncate() by path is refused in the sandbox */
  bool done = file >= 0 && ftruncate(file, (off_t)bytes) == 0;
  int why = errno;
  if (file >= 0) close(file);
  errno = why;
  if (!done) return fail(L, "shorten", path);
  lua_pushboolean(L, true);
  return 1;
}

/* size(path) -> bytes of a file, nil when it is not there */
static int sys_size(lua_State *L)
{
  struct stat info;
  if (stat(bind_check_path(L, 1, CAPL_MAY_READ), &info) != 0) return 0;
  lua_pushnumber(L, (double)info.st_size);
  return 1;
}

/* list(path) -> names in the folder, sorted bytewise, without . and .. */
static int sys_list(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  struct dirent **names;
  int n = scandir(path, &names, NULL, alphasort);
  if (n < 0) return fail(L, "list folder", path);
  lua_createtable(L, n, 0);
  int kept = 0;
  for (int i = 0; i < n; i++) {
    if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
      lua_pushstring(L, names[i]->d_name);
      lua_rawseti(L, -2, ++kept);
    }
    free(names[i]);
  }
  free(names);
  return 1;
}

/* remove(path) -> true: a file or an empty folder */
static int sys_remove(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_WRITE);
  if (remove(path) != 0) return fail(L, "remove", path);
  lua_pushboolean(L, true);
  return 1;
}

int capl_sys_push(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"date", sys_date},         {"out", sys_out},   {"err", sys_err},
    {"isatty", sys_isatty}, {"getenv", sys_getenv},     {"cpus", sys_cpus}, {"workers_most", sys_workers_most},
    {"peak_rss", sys_peak_rss}, {"rss", sys_rss},       {"time", sys_time},   {"cut", sys_cut},
    {"size", sys_size}, {"kind", sys_kind},     {"stamp", sys_stamp}, {"mkdir", sys_mkdir},
    {"mkdir_new", sys_mkdir_new},       {"read", sys_read}, {"write", sys_write}, {"append", sys_append},
    {"bar", sys_bar},           {"columns", sys_columns}, {"list", sys_list}, {"draw", sys_draw},
    {"remove", sys_remove},     {"threads", sys_threads}, {"lock", sys_lock}, {"mute", sys_mute}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  capl_sys_add_processes(L);
  capl_sys_add_hashes(L);
  capl_sys_add_used(L);
  return 1;
}
