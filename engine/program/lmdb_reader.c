/* lmdb_reader.c -- the program capl-lmdb: reads one LMDB database and says what is in it on standard output.
**
** liblmdb trusts the file it maps: a damaged or crafted one ends the process that reads it. This is that process. It is
** started by data/lmdb.c, holds nothing but the file and a pipe, may use little more memory than the file has bytes and
** not much time, and speaks as lmdb_stream.h says.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <lmdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "data/lmdb_stream.h"

#if defined __SANITIZE_ADDRESS__
#define SANITIZED
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

/* ---- speaking -------------------------------------------------------------------------------- */

/* All parts in one go where the pipe takes them. Ends the program when nobody listens any more. */
enum { PARTS = 5 }; /* image, label, mask, target, fields */
static bool say(const lmdb_frame *frame, const MDB_val value[PARTS])
{
  struct iovec part[1 + PARTS] = {{(void *)frame, sizeof *frame}};
  for (int k = 0; k < PARTS; k++) part[1 + k] = (struct iovec){value[k].mv_data, value[k].mv_size};
  for (int first = 0; first <= PARTS;) {
    ssize_t n = writev(STDOUT_FILENO, part + first, 1 + PARTS - first);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EFAULT) return false; /* the value lies outside the file */
    if (n < 0) _exit(2);
    for (; first <= PARTS && (size_t)n >= part[first].iov_len; first++) n -= (ssize_t)part[first].iov_len;
    if (first <= PARTS) {
      part[first].iov_base = (char *)part[first].iov_base + n;
      part[first].iov_len -= (size_t)n;
    }
  }
  return true;
}

static unsigned long long bytes_there, bytes_wanted; /* of the file */

/* Whatever is wrong, a file that is shorter than it says is the likely cause. */
__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *fmt, ...)
{
  char text[1024];
  va_list args;
  va_start(args, fmt);
  int used = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (bytes_there < bytes_wanted && used < 900)
    snprintf(text + used, sizeof text - (size_t)used, "; the file is cut short: it has %llu bytes of %llu", bytes_there,
             bytes_wanted);
  uint32_t length = (uint32_t)strlen(text);
  say(&(lmdb_frame){.kind = LMDB_ERROR, .label = length}, (MDB_val[PARTS]){{0}, {length, text}});
  _exit(1);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void limit(int what, uint64_t most)
{
  setrlimit(what, &(struct rlimit){most, most});
}

static void confine(uint64_t file_size)
{
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_range(3, ~0u, 0);
#ifndef SANITIZED /* sanitizers reserve terabytes of addresses */
  limit(RLIMIT_AS, file_size + (256u << 20));
#endif
  limit(RLIMIT_CPU, 60 + file_size / (10 << 20));
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 16);
  limit(RLIMIT_CORE, 0);
}

/* ---- sandbox ------------------------------------------------------------------------------------- */

/* Code that a crafted file smuggles in finds a process that can do nothing but read this file and write to its pipe.
** Kernels without Landlock or filters do without. */

#if !defined SANITIZED && defined __x86_64__
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, ALL_RIGHTS = (1 << 13) - 1, READ = 1 << 2 | 1 << 3 };

static void see_only(const char *path, bool folder)
{
  uint64_t handled = ALL_RIGHTS;
  struct {
    uint64_t allowed;
    int32_t parent;
  } __attribute__((packed)) rule = {folder ? READ : 1 << 2, open(path, O_PATH | O_CLOEXEC)};
  int rules = (int)syscall(CREATE_RULESET, &handled, sizeof handled, 0);
  if (rules < 0 || rule.parent < 0) return;
  if (syscall(ADD_RULE, rules, 1, &rule, 0) == 0) syscall(RESTRICT_SELF, rules, 0);
  close(rules);
  close(rule.parent);
}

/* The calls that reading a database takes. */
static void call_only_what_reading_takes(void)
{
  static const int calls[] = {
    SYS_read, SYS_write, SYS_writev, SYS_pread64, SYS_openat, SYS_close, SYS_fstat, SYS_newfstatat, SYS_stat, SYS_lseek,
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_fcntl, SYS_futex, SYS_getpid, SYS_uname, SYS_getrandom,
    SYS_rt_sigreturn, SYS_exit, SYS_exit_group, SYS_rt_sigprocmask, SYS_fstatfs, SYS_statfs};
  enum { N = sizeof calls / sizeof *calls };
  struct sock_filter steps[N + 6] = {
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch)},
    {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)}};
  for (int i = 0; i < N; i++)
    steps[4 + i] = (struct sock_filter){BPF_JMP | BPF_JEQ | BPF_K, (unsigned char)(N - i), 0, (unsigned)calls[i]};
  steps[4 + N] = (struct sock_filter){BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM};
  steps[5 + N] = (struct sock_filter){BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){N + 6, steps});
}

static void enable_sandbox(const char *path, bool folder)
{
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
  see_only(path, folder);
  call_only_what_reading_takes();
}
#else
static void enable_sandbox(const char *path, bool folder) { (void)path, (void)folder; }
#endif

/* ---- reading --------------------------------------------------------------------------------- */

static void check(int status, const char *what)
{
  if (status != MDB_SUCCESS) fail("%s: %s", what, mdb_strerror(status));
}

static void note_size(MDB_env *env, uint64_t size)
{
  MDB_envinfo info;
  MDB_stat pages;
  if (mdb_env_info(env, &info) != MDB_SUCCESS || mdb_env_stat(env, &pages) != MDB_SUCCESS) return;
  bytes_there = size;
  bytes_wanted = (info.me_last_pgno + 1ull) * pages.ms_psize;
}

static MDB_txn *open_database(const char *path, const struct stat *st, uint64_t size, MDB_dbi *records)
{
  MDB_env *env;
  MDB_txn *txn;
  check(mdb_env_create(&env), "no memory");
  mdb_env_set_mapsize(env, (size + 4095) / 4096 * 4096); /* what the file asks for may be anything */
  check(mdb_env_open(env, path, MDB_RDONLY | MDB_NOLOCK | (S_ISDIR(st->st_mode) ? 0 : MDB_NOSUBDIR), 0),
        "the database cannot be opened");
  note_size(env, size);
  check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "the database cannot be read");
  check(mdb_dbi_open(txn, NULL, 0, records), "the database cannot be read");
  return txn;
}

/* false: there is no such key. */
static bool get(MDB_txn *txn, MDB_dbi records, const char *key, MDB_val *value)
{
  MDB_val k = {strlen(key), (void *)key};
  int status = mdb_get(txn, records, &k, value);
  if (status != MDB_SUCCESS && status != MDB_NOTFOUND) fail("%s: %s", key, mdb_strerror(status));
  return status == MDB_SUCCESS;
}

static bool get_numbered(MDB_txn *txn, MDB_dbi records, const char *prefix, uint32_t number, MDB_val *value)
{
  char key[32];
  snprintf(key, sizeof key, "%s-%09u", prefix, number);
  return get(txn, records, key, value);
}

/* What the database has instead of what is expected. */
_Noreturn static void fail_without_count(MDB_txn *txn, MDB_dbi records)
{
  MDB_cursor *cursor;
  MDB_val key, value;
  check(mdb_cursor_open(txn, records, &cursor), "the database cannot be read");
  if (mdb_cursor_get(cursor, &key, &value, MDB_FIRST) != MDB_SUCCESS)
    fail("the database is empty: it has no key num-samples");
  fail("has no key num-samples, which data sets of text images have; its first key is '%.*s'",
       (int)(key.mv_size < 60 ? key.mv_size : 60), (const char *)key.mv_data);
}

static uint32_t get_count(MDB_txn *txn, MDB_dbi records)
{
  MDB_val value;
  char text[16] = "";
  if (!get(txn, records, "num-samples", &value)) fail_without_count(txn, records);
  memcpy(text, value.mv_data, value.mv_size < sizeof text - 1 ? value.mv_size : sizeof text - 1);
  text[strcspn(text, "\n")] = '\0';
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 9 || text[digits])
    fail("num-samples is '%s', no number of records up to %d", text, LMDB_COUNT_MAX);
  return (uint32_t)strtoul(text, NULL, 10);
}

static void send_record(MDB_txn *txn, MDB_dbi records, uint32_t number, uint32_t count)
{
  static const struct {
    const char *name;
    size_t most; /* bytes */
  } parts[PARTS] = {{"image", LMDB_IMAGE_MAX}, {"label", LMDB_LABEL_MAX}, {"mask", LMDB_IMAGE_MAX},
                    {"target", LMDB_IMAGE_MAX}, {"fields", LMDB_FIELDS_MAX}};
  MDB_val value[PARTS] = {{0}};
  bool there[PARTS];
  for (int k = 0; k < PARTS; k++) {
    there[k] = get_numbered(txn, records, parts[k].name, number, &value[k]);
    if (!there[k]) value[k] = (MDB_val){0};
    if (value[k].mv_size > parts[k].most)
      fail("%s-%09u has %zu bytes; at most %zu are read", parts[k].name, number, value[k].mv_size, parts[k].most);
  }
  if (!there[0]) fail("image-%09u is missing; num-samples says %u", number, count);
  lmdb_frame frame = {LMDB_RECORD, number, (uint32_t)value[0].mv_size,
                      there[1] ? (uint32_t)value[1].mv_size : LMDB_NO_LABEL, (uint32_t)value[2].mv_size,
                      (uint32_t)value[3].mv_size, (uint32_t)value[4].mv_size};
  if (!say(&frame, value)) _exit(3);
}

int main(int argc, char **argv)
{
  struct stat st, data;
  char path[4096];
  if (argc != 2) return 2;
  if (stat(argv[1], &st) != 0) return 2;
  snprintf(path, sizeof path, "%s%s", argv[1], S_ISDIR(st.st_mode) ? "/data.mdb" : "");
  if (stat(path, &data) != 0) return 2;
  confine((uint64_t)data.st_size);
  enable_sandbox(argv[1], S_ISDIR(st.st_mode));
  MDB_dbi records;
  MDB_txn *txn = open_database(argv[1], &st, (uint64_t)data.st_size, &records);
  uint32_t count = get_count(txn, records);
  MDB_val more, nothing[PARTS] = {{0}};
  say(&(lmdb_frame){.kind = LMDB_COUNT, .number = count}, nothing);
  for (uint32_t i = 1; i <= count; i++) send_record(txn, records, i, count);
  if (count < LMDB_COUNT_MAX && get_numbered(txn, records, "image", count + 1, &more))
    fail("num-samples says %u, but there is image-%09u", count, count + 1);
  say(&(lmdb_frame){.kind = LMDB_END, .number = count}, nothing);
  _exit(0); /* the system takes the memory back */
}
