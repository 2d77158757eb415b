/* preload.c -- makes the n-th system call or allocation of a program fail: LD_PRELOAD of the fault tests.
**
**   CAPL_FAULT_CALL   which calls are counted:
**                       write read open fsync rename mkdir   of regular files (stdio's, too)
**                       send recv poll                       of pipes and sockets
**                       socket                               socket, socketpair, bind, listen, accept, connect, pipe
**                       malloc mmap thread fork              memory, pthread_create, new processes
**                       clock                                readings of the time of day, which never fail: they jump
**   CAPL_FAULT_BELOW  of files, only those whose path holds this text
**   CAPL_FAULT_AT     the number of the call that fails, from 1 on; 0 = none
**   CAPL_FAULT_ERRNO  with what: ENOSPC, EIO, EACCES, EMFILE, EINTR … as a number
**   CAPL_FAULT_SINCE  1 = every call from that one on fails, as on a disk that stays full; 2 = every second of them
**   CAPL_FAULT_SHORT  1 = such a call fails by transferring half of its bytes: write, read, send, recv
**   CAPL_FAULT_SLEEP  milliseconds: such a call takes so long instead, and then does what it should
**   CAPL_FAULT_JUMP   seconds by which the time of day is wrong when it is due
**   CAPL_FAULT_SIZE   malloc: only requests of this many bytes or more
**   CAPL_FAULT_COUNT  a file of 16 bytes: how many calls were counted, and how many of them failed
**   CAPL_FAULT_SHOW   1 = prints where the call that fails comes from
** Forked processes count on together. In a build with AddressSanitizer, _exit looks for leaks (CAPL_FAULT_LEAKS=1).
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *call = "", *below = "";
static long at, since, size_from, sleep_ms, jump;
static int error = ENOSPC;
static bool shorten, show, leaks, ready;
static struct { atomic_long counted, failed; } alone, *shared = &alone;

/* The next library's function of the same name. */
#define NEXT(name)                                         \
  static __typeof__(&name) next;                           \
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name)

static long number(const char *name, long otherwise)
{
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}

/* Memory that forked processes share; with the file, also those that were started. */
static void share_count(const char *path)
{
  int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
  void *p = (void *)syscall(SYS_mmap, NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                            fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
  if (fd >= 0) syscall(SYS_close, fd);
  if (p != MAP_FAILED) shared = p;
}

__attribute__((constructor)) static void begin(void)
{
  if (getenv("CAPL_FAULT_CALL")) call = getenv("CAPL_FAULT_CALL");
  if (getenv("CAPL_FAULT_BELOW")) below = getenv("CAPL_FAULT_BELOW");
  at = number("CAPL_FAULT_AT", 0);
  error = (int)number("CAPL_FAULT_ERRNO", ENOSPC);
  since = number("CAPL_FAULT_SINCE", 0);
  shorten = number("CAPL_FAULT_SHORT", 0);
  sleep_ms = number("CAPL_FAULT_SLEEP", 0);
  jump = number("CAPL_FAULT_JUMP", 0);
  size_from = number("CAPL_FAULT_SIZE", 65536);
  show = number("CAPL_FAULT_SHOW", 0);
  leaks = number("CAPL_FAULT_LEAKS", 0);
  share_count(getenv("CAPL_FAULT_COUNT"));
  ready = true;
}

static void print_place(void)
{
  static _Thread_local bool within; /* backtrace allocates the first time */
  void *frames[24];
  if (within) return;
  within = true;
  backtrace_symbols_fd(frames, backtrace(frames, 24), STDERR_FILENO);
  within = false;
}

/* Counts one call; whether it is to fail. */
static bool due(void)
{
  long n = atomic_fetch_add(&shared->counted, 1) + 1;
  if (!at || n < at || (n > at && !since) || (since == 2 && (n - at) % 2)) return false;
  atomic_fetch_add(&shared->failed, 1);
  if (show) print_place();
  return true;
}

static bool fails(void)
{
  if (!due()) return false;
  if (sleep_ms) {
    struct timespec rest = {sleep_ms / 1000, sleep_ms % 1000 * 1000000};
    /* as a slow disk: a signal does not cut it short */
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) continue;
    return false;
  }
  errno = error;
  return true;
}

/* How many of n bytes a call transfers; -1: it fails. */
static ssize_t granted(size_t n)
{
  if (!shorten) return fails() ? -1 : (ssize_t)n;
  return n > 1 && due() ? (ssize_t)(n / 2) : (ssize_t)n;
}

/* ---- leaks ----------------------------------------------------------------------------------- */

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* The worker ends with _exit, where LeakSanitizer does not look. */
void _exit(int status)
{
  if (leaks && __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()) status = 99;
  for (;;) syscall(SYS_exit_group, status);
}

/* ---- files, pipes and sockets ---------------------------------------------------------------- */

static bool is_call(const char *name) { return ready && strcmp(call, name) == 0; }

static bool watched_path(const char *name, const char *path) { return is_call(name) && path && strstr(path, below); }

/* Regular files by their path. */
static bool watched_fd(const char *name, int fd)
{
  if (!is_call(name)) return false;
  struct stat st;
  char link[64], path[4096];
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return false;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return false;
  path[n] = '\0';
  return strstr(path, below) != NULL;
}

static bool watched_pipe(const char *name, int fd)
{
  struct stat st;
  return is_call(name) && fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

static bool watched(const char *of_files, const char *of_pipes, int fd)
{
  return watched_fd(of_files, fd) || watched_pipe(of_pipes, fd);
}

#define TRANSFER(of_files, of_pipes, n)                                  \
  ssize_t part = watched(of_files, of_pipes, fd) ? granted(n) : (ssize_t)(n); \
  if (part < 0) return -1

ssize_t write(int fd, const void *data, size_t n)
{
  TRANSFER("write", "send", n);
  return syscall(SYS_write, fd, data, part);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t place)
{
  TRANSFER("write", "send", n);
  return syscall(SYS_pwrite64, fd, data, part, place);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t place) { return pwrite(fd, data, n, place); }

ssize_t writev(int fd, const struct iovec *parts, int count)
{
  TRANSFER("write", "send", parts[0].iov_len);
  return (size_t)part < parts[0].iov_len ? syscall(SYS_write, fd, parts[0].iov_base, part)
                                         : syscall(SYS_writev, fd, parts, count);
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
  TRANSFER("write", "send", n);
  return syscall(SYS_sendto, fd, data, part, flags, NULL, 0);
}

ssize_t read(int fd, void *data, size_t n)
{
  TRANSFER("read", "recv", n);
  return syscall(SYS_read, fd, data, part);
}

ssize_t pread(int fd, void *data, size_t n, off_t place)
{
  TRANSFER("read", "recv", n);
  return syscall(SYS_pread64, fd, data, part, place);
}

ssize_t pread64(int fd, void *data, size_t n, off_t place) { return pread(fd, data, n, place); }

ssize_t recv(int fd, void *data, size_t n, int flags)
{
  TRANSFER("read", "recv", n);
  return syscall(SYS_recvfrom, fd, data, part, flags, NULL, NULL);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  if (watched_pipe("send", fd) && !shorten && fails()) return -1;
  return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
  if (watched_pipe("recv", fd) && !shorten && fails()) return -1;
  return syscall(SYS_recvmsg, fd, message, flags);
}

int poll(struct pollfd *list, nfds_t n, int ms)
{
  NEXT(poll);
  return is_call("poll") && fails() ? -1 : next(list, n, ms);
}

int fsync(int fd) { return watched_fd("fsync", fd) && fails() ? -1 : (int)syscall(SYS_fsync, fd); }

int fdatasync(int fd) { return watched_fd("fsync", fd) && fails() ? -1 : (int)syscall(SYS_fdatasync, fd); }

int rename(const char *from, const char *to)
{
  if (watched_path("rename", to) && fails()) return -1;
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode)
{
  if (watched_path("mkdir", path) && fails()) return -1;
  return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static int open_real(int folder, const char *path, int flags, va_list args)
{
  mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPEN_BODY(folder)                                         \
  {                                                               \
    if (watched_path("open", path) && fails()) return -1;         \
    va_list args;                                                 \
    va_start(args, flags);                                        \
    int fd = open_real(folder, path, flags, args);                \
    va_end(args);                                                 \
    return fd;                                                    \
  }
int open(const char *path, int flags, ...) OPEN_BODY(AT_FDCWD)
int open64(const char *path, int flags, ...) OPEN_BODY(AT_FDCWD)
int openat(int folder, const char *path, int flags, ...) OPEN_BODY(folder)
int openat64(int folder, const char *path, int flags, ...) OPEN_BODY(folder)

DIR *opendir(const char *path)
{
  NEXT(opendir);
  return watched_path("open", path) && fails() ? NULL : next(path);
}

/* scandir and stdio call the system inside libc, out of reach of the functions above. */
int scandir(const char *path, struct dirent ***names, int (*wanted)(const struct dirent *),
            int (*order)(const struct dirent **, const struct dirent **))
{
  NEXT(scandir);
  return watched_path("open", path) && fails() ? -1 : next(path, names, wanted, order);
}

FILE *fopen(const char *path, const char *mode)
{
  NEXT(fopen);
  return watched_path("open", path) && fails() ? NULL : next(path, mode);
}

FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

/* A stream that goes on after EINTR and short transfers by itself; other errors mark it. */
static bool stream_fails(const char *of_files, const char *of_pipes, FILE *file)
{
  if (shorten || error == EINTR || !watched(of_files, of_pipes, fileno(file)) || !fails()) return false;
  file->_flags |= 0x20; /* glibc's _IO_ERR_SEEN: what ferror looks at */
  return true;
}

size_t fwrite(const void *data, size_t size, size_t n, FILE *file)
{
  NEXT(fwrite);
  return stream_fails("write", "-", file) ? 0 : next(data, size, n, file);
}

size_t fread(void *data, size_t size, size_t n, FILE *file)
{
  NEXT(fread);
  return stream_fails("read", "-", file) ? 0 : next(data, size, n, file);
}

char *fgets(char *text, int n, FILE *file)
{
  NEXT(fgets);
  return stream_fails("read", "-", file) ? NULL : next(text, n, file);
}

/* What stdio kept back is written here: this may fail where fwrite did not. */
int fclose(FILE *file)
{
  NEXT(fclose);
  bool writes = (fcntl(fileno(file), F_GETFL) & O_ACCMODE) != O_RDONLY;
  bool failed = writes && stream_fails("write", "-", file);
  int reason = errno, status = next(file);
  if (failed) errno = reason;
  return failed ? EOF : status;
}

/* ---- sockets --------------------------------------------------------------------------------- */

#define SOCKET_CALL(name, declared, ...)                 \
  int name declared                                      \
  {                                                      \
    NEXT(name);                                          \
    return is_call("socket") && fails() ? -1 : next(__VA_ARGS__); \
  }
SOCKET_CALL(socket, (int domain, int type, int protocol), domain, type, protocol)
SOCKET_CALL(socketpair, (int domain, int type, int protocol, int fds[2]), domain, type, protocol, fds)
SOCKET_CALL(bind, (int fd, const struct sockaddr *to, socklen_t n), fd, to, n)
SOCKET_CALL(listen, (int fd, int n), fd, n)
SOCKET_CALL(accept4, (int fd, struct sockaddr *from, socklen_t *n, int flags), fd, from, n, flags)
SOCKET_CALL(connect, (int fd, const struct sockaddr *to, socklen_t n), fd, to, n)
SOCKET_CALL(pipe2, (int fds[2], int flags), fds, flags)

/* ---- the time of day ------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *t)
{
  NEXT(clock_gettime);
  int status = next(clock, t);
  if (status == 0 && clock == CLOCK_REALTIME && is_call("clock") && due()) t->tv_sec += jump;
  return status;
}

time_t time(time_t *out)
{
  struct timespec t = {0};
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}

/* ---- memory, threads, processes -------------------------------------------------------------- */

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
/* AddressSanitizer's own, if it is there: its free would not know memory of libc's. */
extern void *__interceptor_malloc(size_t n) __attribute__((weak));
extern void *__interceptor_calloc(size_t n, size_t size) __attribute__((weak));
extern void *__interceptor_realloc(void *p, size_t n) __attribute__((weak));
extern void *__interceptor_memalign(size_t align, size_t n) __attribute__((weak));
#define REAL(name) (__interceptor_##name ? __interceptor_##name : __libc_##name)

/* oneDNN runs code that it could not place and uses what it was not given, and so do libgcc (for compiled Lua) and the
** dynamic linker: they crash. dnnl_plan.c looks for memory before oneDNN has to; that it ends between the two is not
** played.
*/
static bool is_spared(void *caller)
{
  Dl_info info;
  if (!at || atomic_load(&shared->counted) + 1 < at) return false;
  static const char *const spared[] = {"libdnnl", "libgcc_s", "/ld-linux"};
  for (int i = 0; i < 3; i++)
    if (dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, spared[i])) return true;
  return false;
}
#define CALLER __builtin_return_address(0)

static bool no_memory(size_t n, void *caller)
{
  if ((long)n < size_from || !is_call("malloc") || is_spared(caller) || !fails()) return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t n) { return no_memory(n, CALLER) ? NULL : REAL(malloc)(n); }
void *calloc(size_t n, size_t size) { return no_memory(n * size, CALLER) ? NULL : REAL(calloc)(n, size); }
void *realloc(void *p, size_t n) { return no_memory(n, CALLER) ? NULL : REAL(realloc)(p, n); }
void *memalign(size_t align, size_t n) { return no_memory(n, CALLER) ? NULL : REAL(memalign)(align, n); }
void *aligned_alloc(size_t align, size_t n) { return no_memory(n, CALLER) ? NULL : REAL(memalign)(align, n); }

int posix_memalign(void **out, size_t align, size_t n)
{
  void *p = no_memory(n, CALLER) ? NULL : REAL(memalign)(align, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

void *mmap(void *where, size_t n, int protection, int flags, int fd, off_t from)
{
  NEXT(mmap);
  return is_call("mmap") && !is_spared(CALLER) && fails() ? MAP_FAILED : next(where, n, protection, flags, fd, from);
}

void *mmap64(void *where, size_t n, int protection, int flags, int fd, off_t from)
{
  return mmap(where, n, protection, flags, fd, from);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
  NEXT(pthread_create);
  return is_call("thread") && fails() ? error : next(thread, attr, run, arg);
}

pid_t fork(void)
{
  NEXT(fork);
  return is_call("fork") && fails() ? -1 : next();
}
