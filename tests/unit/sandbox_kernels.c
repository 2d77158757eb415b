/* sandbox_kernels.c -- the sandbox on kernels that support less: older versions of Landlock, and calls that are
** refused.
**
** Old versions are played by a syscall() that stands before the C library's and knows no more rights than they did;
** missing ones by a filter, as containers have them. Each in a child: the sandbox cannot be left.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/policy.h"
#include "sandbox/sandbox.h"

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, VERSION = 1, ERRATA = 2, YOUNGEST = 7 };

/* ---- old versions ------------------------------------------------------------------------------- */

static int plays;        /* which version; 0: the kernel's own */
static int asked_beyond; /* rights or fields that the version does not know */

static long refuse(int error, bool beyond)
{
  asked_beyond += beyond;
  errno = error;
  return -1;
}

/* What each version knows: rights to files, and how many fields a ruleset has. */
static uint64_t files_of(int version) { return (1ull << (version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14
                                                         : 13)) - 1; }
static long fields_of(int version) { return version >= 6 ? 3 : version >= 4 ? 2 : 1; }

static bool is_beyond(const uint64_t *ruleset, long fields)
{
  bool beyond = (ruleset[0] & ~files_of(plays)) != 0;
  for (long i = fields_of(plays); i < fields; i++) beyond = beyond || ruleset[i];
  return beyond;
}

/* A rule is packed: it may lie anywhere. */
static uint64_t rights_of_rule(const void *rule)
{
  uint64_t rights;
  memcpy(&rights, rule, sizeof rights);
  return rights;
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
  static long (*real)(long, ...);
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  if (plays && number == CREATE_RULESET && a[2] == VERSION) return plays;
  if (plays && number == CREATE_RULESET && a[2] == ERRATA) return refuse(EINVAL, false);
  if (plays && number == CREATE_RULESET && is_beyond((const uint64_t *)a[0], a[1] / 8)) return refuse(EINVAL, true);
  if (plays && number == ADD_RULE && (rights_of_rule((const void *)a[2]) & ~files_of(plays)))
    return refuse(EINVAL, true);
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Of a child -> whether it ended with 0. */
static void assert_child(void (*f)(int), int with)
{
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    f(with);
    _exit(0);
  }
  waitpid(child, &status, 0);
  if (status != 0) fail_msg("%d: the child ended with status 0x%x", with, (unsigned)status);
}

static void stop_unless(bool right, int status)
{
  if (!right) _exit(status);
}

static void raise_as(int version)
{
  plays = version;
  stop_unless(capl_policy_grant("/usr/share", CAPL_MAY_READ) == CAPL_OK, 2);
  capl_policy_close();
  stop_unless(capl_sandbox_enable() == CAPL_OK, 3);
  stop_unless(capl_sandbox_state()->files == version && asked_beyond == 0, 4);
  stop_unless(open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES, 5);
  stop_unless(open("/usr/share", O_RDONLY | O_DIRECTORY) >= 0, 6);
}

static void every_version_is_asked_for_what_it_knows(void **state)
{
  (void)state;
  int own = capl_sandbox_possible().files;
  if (!own) skip();
  for (int version = 1; version <= own && version <= YOUNGEST; version++) assert_child(raise_as, version);
}

/* ---- calls that are refused --------------------------------------------------------------------- */

static void refuse_calls(const int *calls, int n, int error)
{
  struct sock_filter steps[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned short at = 1;
  for (int i = 0; i < n; i++) {
    steps[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0, 1);
    steps[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error);
  }
  steps[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {at, steps};
  stop_unless(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, 11);
  stop_unless(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0, 12);
}

/* The policy holds where the sandbox is incomplete. */
static void stop_unless_the_policy_holds(void)
{
  capl_policy_close();
  stop_unless(capl_sandbox_enable() == CAPL_OK, 21);
  stop_unless(capl_policy_check("/etc/passwd", CAPL_MAY_READ) == CAPL_EIO, 22);
}

static void without_landlock(int error)
{
  static const int calls[] = {CREATE_RULESET, ADD_RULE, RESTRICT_SELF};
  const char *says = error == ENOSYS ? "older than 5.13" : error == EOPNOTSUPP ? "started without Landlock"
      : "forbidden here";
  refuse_calls(calls, 3, error);
  capl_sandbox w = capl_sandbox_possible();
  stop_unless(w.files == 0 && strstr(w.why, says), 31);
  stop_unless(w.calls && !*w.calls_why, 32);
  stop_unless_the_policy_holds();
}

static void without_any(int error)
{
  static const int calls[] = {CREATE_RULESET, SYS_seccomp};
  refuse_calls(calls, 2, error);
  capl_sandbox w = capl_sandbox_possible();
  stop_unless(w.files == 0 && strstr(w.why, "Landlock"), 41);
  stop_unless(!w.calls && strstr(w.calls_why, error == ENOSYS ? "filters no system calls" : "seccomp is forbidden"),
              42);
  stop_unless_the_policy_holds();
}

static void what_is_missing_is_told_by_its_reason(void **state)
{
  (void)state;
  if (!capl_sandbox_possible().calls) skip(); /* nothing to play it with */
  static const int errors[] = {ENOSYS, EOPNOTSUPP, EPERM};
  for (int i = 0; i < 3; i++) assert_child(without_landlock, errors[i]);
  assert_child(without_any, ENOSYS);
  assert_child(without_any, EPERM);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_version_is_asked_for_what_it_knows),
    cmocka_unit_test(what_is_missing_is_told_by_its_reason),
  };
  return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
