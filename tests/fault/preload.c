/* preload.c -- makes the n-th system call or allocation of a program fail: LD_PRELOAD of the fault tests.
**
**   CAPL_FAULT_CALL   write | open | fsync | rename | mkdir | malloc: which calls are counted
**   CAPL_FAULT_BELOW  only files whose path holds this text (not for malloc)
**   CAPL_FAULT_AT     the number of the call that fails, from 1 on; 0 = none
**   CAPL_FAULT_ERRNO  with what: ENOSPC, EIO, EACCES, EMFILE as a number
**   CAPL_FAULT_SINCE  1 = every call from that one on fails, as on a disk that stays full
**   CAPL_FAULT_SLEEP  milliseconds: such a call takes so long instead, and then does what it should
**   CAPL_FAULT_SIZE   malloc: only requests of this many bytes or more
**   CAPL_FAULT_COUNT  at exit, a file to which the number of calls counted is written
** Every process of the program counts for itself; only the one that calls at all writes the count.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *call = "", *below = "", *count_file;
static long at, size_from, sleep_ms;
static int error = ENOSPC;
static bool since, ready;
static atomic_long counted;

static long number(const char *name, long otherwise)
{
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void begin(void)
{
  if (getenv("CAPL_FAULT_CALL")) call = getenv("CAPL_FAULT_CALL");
  if (getenv("CAPL_FAULT_BELOW")) below = getenv("CAPL_FAULT_BELOW");
  count_file = getenv("CAPL_FAULT_COUNT");
  at = number("CAPL_FAULT_AT", 0);
  error = (int)number("CAPL_FAULT_ERRNO", ENOSPC);
  since = number("CAPL_FAULT_SINCE", 0);
  sleep_ms = number("CAPL_FAULT_SLEEP", 0);
  size_from = number("CAPL_FAULT_SIZE", 65536);
  ready = true;
}

/* Counts one call; whether it is to fail. */
static bool fails(void)
{
  long n = atomic_fetch_add(&counted, 1) + 1;
  if (!at || (since ? n < at : n != at)) return false;
  if (sleep_ms) {
    struct timespec rest = {sleep_ms / 1000, sleep_ms % 1000 * 1000000};
    /* as a slow disk: a signal does not cut it short */
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) continue;
    return false;
  }
  errno = error;
  return true;
}

/* The worker ends with _exit, so both ends are watched. */
static void write_count(void)
{
  long n = atomic_load(&counted);
  if (!count_file || !n) return;
  char text[32];
  int length = snprintf(text, sizeof text, "%ld\n", n);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, count_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 || syscall(SYS_write, fd, text, length) != length) return;
  syscall(SYS_close, fd);
}

__attribute__((destructor)) static void end(void) { write_count(); }

void _exit(int status)
{
  write_count();
  for (;;) syscall(SYS_exit_group, status);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool watched_path(const char *name, const char *path)
{
  return ready && strcmp(call, name) == 0 && path && strstr(path, below);
}

/* Only regular files: the terminal and pipes have other troubles. */
static bool watched_fd(const char *name, int fd)
{
  if (!ready || strcmp(call, name) != 0) return false;
  struct stat st;
  char link[64], path[4096];
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return false;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return false;
  path[n] = '\0';
  return strstr(path, below) != NULL;
}

ssize_t write(int fd, const void *data, size_t n)
{
  if (watched_fd("write", fd) && fails()) return -1;
  return syscall(SYS_write, fd, data, n);
}

int fsync(int fd)
{
  if (watched_fd("fsync", fd) && fails()) return -1;
  return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
  if (watched_path("rename", to) && fails()) return -1;
  return (int)syscall(SYS_rename, from, to);
}

int mkdir(const char *path, mode_t mode)
{
  if (watched_path("mkdir", path) && fails()) return -1;
  return (int)syscall(SYS_mkdir, path, mode);
}

static int open_real(const char *path, int flags, va_list args)
{
  mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define OPEN(name)                                                \
  int name(const char *path, int flags, ...)                      \
  {                                                               \
    if (watched_path("open", path) && fails()) return -1;         \
    va_list args;                                                 \
    va_start(args, flags);                                        \
    int fd = open_real(path, flags, args);                        \
    va_end(args);                                                 \
    return fd;                                                    \
  }
OPEN(open)
OPEN(open64)

/* stdio calls the system inside libc, out of reach of the functions above. */
FILE *fopen(const char *path, const char *mode)
{
  static FILE *(*real)(const char *, const char *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fopen");
  if (watched_path("open", path) && fails()) return NULL;
  return real(path, mode);
}

FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

size_t fwrite(const void *data, size_t size, size_t n, FILE *file)
{
  static size_t (*real)(const void *, size_t, size_t, FILE *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fwrite");
  if (watched_fd("write", fileno(file)) && fails()) return 0;
  return real(data, size, n, file);
}

/* What stdio kept back is written here: this may fail where fwrite did not. */
int fclose(FILE *file)
{
  static int (*real)(FILE *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fclose");
  bool failed = (fcntl(fileno(file), F_GETFL) & O_ACCMODE) != O_RDONLY && watched_fd("write", fileno(file)) && fails();
  int reason = errno, status = real(file);
  if (failed) errno = reason;
  return failed ? EOF : status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static bool no_memory(size_t n)
{
  if (!ready || (long)n < size_from || strcmp(call, "malloc") != 0 || !fails()) return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t n) { return no_memory(n) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return no_memory(n * size) ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return no_memory(n) ? NULL : __libc_realloc(p, n); }
void *memalign(size_t align, size_t n) { return no_memory(n) ? NULL : __libc_memalign(align, n); }
void *aligned_alloc(size_t align, size_t n) { return no_memory(n) ? NULL : __libc_memalign(align, n); }

int posix_memalign(void **out, size_t align, size_t n)
{
  void *p = no_memory(n) ? NULL : __libc_memalign(align, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
