/* seccomp.c -- the system calls that a process with a recipe in it does not get.
**
** A list of what is refused, for drivers of GPUs are not known well enough for a list of what is allowed; but a call
** that is newer than this list is refused like one that does not exist. Refused are programs and processes, sockets,
** other processes' memory and signals, rights and owners of files, the terminal's input, and what manages the machine.
** What is refused for some arguments only has a rule of its own below the list.
**
** Written as a program for the kernel, not by libseccomp: that cannot refuse every call above a number and at the same
** time all but some values of an argument, and takes several times as long to make 400 rules.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "sandbox/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

#if defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0 /* the search for leaks at the end of a sanitized process needs a clone of it, which traces it */
#endif

enum { LAST_KNOWN = 469, X32 = 0x40000000, MOST_STEPS = 1024 };

/* Calls younger than the headers of Debian 12; their numbers are the same on all processors. */
enum {
  CACHESTAT = 451, FCHMODAT2 = 452, MAP_SHADOW_STACK = 453, STATMOUNT = 457, LISTMOUNT = 458, SETXATTRAT = 463,
  REMOVEXATTRAT = 466, OPEN_TREE_ATTR = 467, FILE_SETATTR = 469,
};

/* ---- refused altogether ------------------------------------------------------------------------ */

static const int refused[] = {
  /* programs and processes */
  SYS_execve, SYS_execveat, SYS_setsid, SYS_setpgid, SYS_unshare, SYS_setns,
#ifdef SYS_fork
  SYS_fork, SYS_vfork,
#endif
  /* sockets: those that are open stay, new ones lead out, also those of the file system (a container's daemon, a
  ** display) */
  SYS_socket, SYS_connect, SYS_bind, SYS_listen,
  /* other processes; signals have a rule */
#if !SANITIZED
  SYS_ptrace,
#endif
  SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_process_mrelease, SYS_kcmp, SYS_pidfd_open,
      SYS_pidfd_getfd,
  SYS_pidfd_send_signal, SYS_tkill, SYS_migrate_pages, SYS_move_pages, SYS_setpriority, SYS_ioprio_set,
  /* memory and messages that processes of one user share by a number */
  SYS_shmget, SYS_shmat, SYS_shmctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_semget, SYS_semop,
      SYS_semtimedop, SYS_semctl,
  SYS_mq_open, SYS_mq_unlink,
  /* rights, owners, times and attributes of files, which Landlock does not guard */
#ifdef SYS_chmod
  SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_mknod, SYS_symlink, SYS_uselib,
#endif
  SYS_fchmod, SYS_fchmodat, FCHMODAT2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr,
      SYS_fsetxattr, SETXATTRAT,
  SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, REMOVEXATTRAT, FILE_SETATTR, SYS_mknodat, SYS_symlinkat,
  SYS_truncate,
  /* ways around paths */
  SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_fanotify_init, SYS_fanotify_mark, SYS_inotify_add_watch, SYS_chroot,
      SYS_pivot_root,
  SYS_mount, SYS_umount2, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_move_mount, SYS_open_tree,
  OPEN_TREE_ATTR, SYS_mount_setattr, STATMOUNT, LISTMOUNT,
  /* who this is */
  SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_setfsuid,
      SYS_setfsgid, SYS_capset,
  SYS_personality,
  /* the kernel's wide doors */
  SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
      SYS_add_key,
  SYS_request_key, SYS_keyctl, SYS_vhangup,
#ifdef SYS_modify_ldt
  SYS_modify_ldt, SYS_iopl, SYS_ioperm,
#endif
  /* the machine */
  SYS_reboot, SYS_sethostname, SYS_setdomainname, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
#ifdef SYS_kexec_file_load
  SYS_kexec_file_load,
#endif
  SYS_swapon, SYS_swapoff, SYS_quotactl, SYS_quotactl_fd, SYS_acct, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex,
  SYS_clock_adjtime, SYS_syslog, SYS_lookup_dcookie, SYS_nfsservctl,
};

/* ---- the program ------------------------------------------------------------------------------- */

typedef struct {
  struct sock_filter steps[MOST_STEPS];
  int n;
} program;

static void add(program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
  if (p->n < MOST_STEPS) p->steps[p->n++] = (struct sock_filter){code, yes, no, k};
}

static void load(program *p, size_t offset) { add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0); }
/* The half of an argument that the kernel looks at: these are ints to it, whatever stands above. */
static void load_argument(program *p, int i) { load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)i); }
static void answer(program *p, uint32_t what) { add(p, BPF_RET | BPF_K, what, 0, 0); }
static void refuse_if_equal(program *p, uint32_t value, int error)
{
  add(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  answer(p, SECCOMP_RET_ERRNO | (uint32_t)error);
}

static void begin(program *p)
{
  load(p, offsetof(struct seccomp_data, arch));
  add(p, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
  answer(p, SECCOMP_RET_KILL_PROCESS);
  load(p, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
  add(p, BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1);
  answer(p, SECCOMP_RET_KILL_PROCESS);
#endif
  add(p, BPF_JMP | BPF_JGT | BPF_K, LAST_KNOWN, 0, 1);
  answer(p, SECCOMP_RET_ERRNO | ENOSYS);
}

/* From here until end_rule the steps are for one call alone. -> where its length is to be noted. */
static int begin_rule(program *p, int call)
{
  add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 0);
  return p->n - 1;
}

static void end_rule(program *p, int at)
{
  answer(p, SECCOMP_RET_ALLOW);
  if (p->n < MOST_STEPS) p->steps[at].jf = (uint8_t)(p->n - at - 1);
}

/* The call is for what one of two values at argument names, and for nothing else. */
static void rule_only(program *p, int call, int argument, uint32_t this, uint32_t or_that)
{
  int at = begin_rule(p, call);
  load_argument(p, argument);
  add(p, BPF_JMP | BPF_JEQ | BPF_K, this, 2, 0);
  add(p, BPF_JMP | BPF_JEQ | BPF_K, or_that, 1, 0);
  answer(p, SECCOMP_RET_ERRNO | EPERM);
  end_rule(p, at);
}

static void rule_except(program *p, int call, int argument, const uint32_t *values, size_t n)
{
  int at = begin_rule(p, call);
  load_argument(p, argument);
  for (size_t i = 0; i < n; i++) refuse_if_equal(p, values[i], EPERM);
  end_rule(p, at);
}

/* Signals to this process alone: raise() and pthread_kill() go on working. */
static void rules_of_signals(program *p)
{
  uint32_t self = (uint32_t)getpid();
  static const int calls[] = {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) rule_only(p, calls[i], 0, self, self);
  rule_only(p, SYS_prlimit64, 0, 0, self);
  rule_only(p, SYS_sched_setscheduler, 0, 0, self);
  rule_only(p, SYS_sched_setparam, 0, 0, self);
  rule_only(p, SYS_sched_setattr, 0, 0, self);
}

/* A thread is not a process. clone3 hides its flags from filters; without it the C library takes clone. */
static void rules_of_threads(program *p)
{
  refuse_if_equal(p, SYS_clone3, ENOSYS);
  int at = begin_rule(p, SYS_clone);
  load_argument(p, 0);
  add(p, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD | (SANITIZED ? CLONE_UNTRACED : 0), 1, 0);
  answer(p, SECCOMP_RET_ERRNO | EPERM);
  end_rule(p, at);
}

static void rules_of_devices(program *p)
{
  enum { STI = 0x5412, LINUX = 0x541c, CONS = 0x541d, SCTTY = 0x540e, NOTTY = 0x5422, SPGRP = 0x5410, SETD = 0x5423,
        VHANGUP = 0x5437,
         SETOWN = 0x8901, SIOCSPGRP_ = 0x8902 };
  /* what types for the user, takes the terminal away, or lets the kernel signal another process */
  static const uint32_t ioctls[] = {STI, LINUX, CONS, SCTTY, NOTTY, SPGRP, SETD, VHANGUP, SETOWN, SIOCSPGRP_};
  enum { F_SETOWN_ = 8, F_SETSIG_ = 10, F_SETOWN_EX_ = 15, F_SETLEASE_ = 1024, F_NOTIFY_ = 1026 };
  static const uint32_t fcntls[] = {F_SETOWN_, F_SETSIG_, F_SETOWN_EX_, F_SETLEASE_, F_NOTIFY_};
  enum { SET_PDEATHSIG = 1, SET_MM = 35, SET_PTRACER = 0x59616d61 };
  /* it would outlive its supervisor; lie; be traced */
  static const uint32_t prctls[] = {SET_PDEATHSIG, SET_MM, SET_PTRACER};
  rule_except(p, SYS_ioctl, 1, ioctls, sizeof ioctls / sizeof *ioctls);
  rule_except(p, SYS_fcntl, 1, fcntls, sizeof fcntls / sizeof *fcntls);
  rule_except(p, SYS_prctl, 0, prctls, sizeof prctls / sizeof *prctls);
}

/* A pair of datagram sockets can send to any socket of the file system; a pair of streams is a pipe. */
static void rule_of_pairs(program *p)
{
  enum { DATAGRAM = 2, KINDS = 15 };
  int at = begin_rule(p, SYS_socketpair);
  load_argument(p, 1);
  add(p, BPF_ALU | BPF_AND | BPF_K, KINDS, 0, 0);
  refuse_if_equal(p, DATAGRAM, EPERM);
  end_rule(p, at);
}

static void write_program(program *p)
{
  begin(p);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) refuse_if_equal(p, (uint32_t)refused[i], EPERM);
  rules_of_signals(p);
  rules_of_threads(p);
  rules_of_devices(p);
  rule_of_pairs(p);
  answer(p, SECCOMP_RET_ALLOW);
}

/* ---- raising it -------------------------------------------------------------------------------- */

bool seccomp_possible(char *why, size_t room)
{
  uint32_t kill = SECCOMP_RET_KILL_PROCESS;
  if (!ARCHITECTURE) return snprintf(why, room, "no list of system calls for this kind of processor"), false;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill) == 0) return true;
  const char *text = errno == ENOSYS ? "this kernel filters no system calls"
      : "seccomp is forbidden here, as in some containers";
  return snprintf(why, room, "%s", text), false;
}

capl_status seccomp_enable(void)
{
  static program p;
  p.n = 0;
  write_program(&p);
  if (p.n >= MOST_STEPS)
    return CAPL_FAIL(CAPL_EINTERNAL, "the filter of system calls has more than %d steps", MOST_STEPS);
  struct sock_fprog filter = {.len = (unsigned short)p.n, .filter = p.steps};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return CAPL_FAIL(CAPL_EIO, "no_new_privs: %s", capl_errno_text(errno));
  long thread = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
  if (thread > 0) return CAPL_FAIL(CAPL_EIO, "thread %ld has its own filter", thread);
  if (thread < 0) return CAPL_FAIL(CAPL_EIO, "system calls cannot be filtered: %s", capl_errno_text(errno));
  return CAPL_OK;
}
