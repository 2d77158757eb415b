/* sandbox.c -- Landlock: the files of the policy and what the engine itself reads, for every thread of this process.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assume.h"
#include "base/text.h"
#include "sandbox/seccomp.h"
#include "sandbox/policy.h"

/* ---- what the kernel speaks: newer than some headers ------------------------------------------ */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, RULE_PATH = 1, ASK_VERSION = 1, ASK_ERRATA = 2 };

typedef struct {
  uint64_t files, net, scoped;
} ruleset;

typedef struct {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed)) path_rule;

/* Rights to files, in the order of Landlock's bits. */
enum {
  EXECUTE = 1 << 0, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_DIR = 1 << 3, REMOVE_DIR = 1 << 4,
  REMOVE_FILE = 1 << 5, MAKE_CHAR = 1 << 6, MAKE_DIR = 1 << 7, MAKE_REG = 1 << 8, MAKE_SOCK = 1 << 9,
  MAKE_FIFO = 1 << 10, MAKE_BLOCK = 1 << 11, MAKE_SYM = 1 << 12, REFER = 1 << 13, TRUNCATE = 1 << 14,
  IOCTL_DEV = 1 << 15, FIRST_RIGHTS = (1 << 13) - 1,
  OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
  READ = READ_FILE | READ_DIR,
  WRITE = WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR | REFER,
  DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV,
};
enum { NET_TCP = 3, SCOPE_ABSTRACT = 1, SCOPE_SIGNAL = 2, SAME_PROCESS_FIXED = 1 << 1 };

static capl_sandbox state = {.why = "nothing is confined"};
static int rules = -1; /* descriptor, while Landlock is being enabled */

static int version(void)
{
  long v = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
  return v > 0 ? (int)v : 0;
}

/* Of the errno of a kernel that reports no version. A container's own filter answers in the kernel's place. */
static const char *why_no_files(int error)
{
  if (error == ENOSYS) return "this kernel has no Landlock: it is older than 5.13, or built without it";
  if (error == EOPNOTSUPP) return "this kernel was started without Landlock, which its parameter lsm= would name";
  return "Landlock is forbidden here, as in containers with a filter that does not know it";
}

static uint64_t rights_of(int abi)
{
  uint64_t rights = FIRST_RIGHTS;
  if (abi >= 2) rights |= REFER;
  if (abi >= 3) rights |= TRUNCATE;
  if (abi >= 5) rights |= IOCTL_DEV;
  return rights;
}

/* ---- the rules --------------------------------------------------------------------------------- */

/* What libraries, drivers, the monitor and the drawing of reports read; never a recipe's own code, which asks the
** policy. */
static const struct {
  const char *path;
  int rights;
} system_files[] = {
  {"/usr/lib", READ}, {"/lib", READ}, {"/usr/lib64", READ}, {"/lib64", READ}, {"/usr/local/lib", READ},
  {"/usr/local/cuda", READ}, {"/etc/ld.so.cache", READ}, {"/etc/localtime", READ}, {"/usr/share/zoneinfo", READ},
  {"/usr/share/locale", READ}, {"/usr/share/fonts", READ}, {"/usr/local/share/fonts", READ},
  {"/usr/share/fontconfig", READ}, {"/etc/fonts", READ}, {"/var/cache/fontconfig", READ}, {"/usr/share/openmpi", READ},
  {"/usr/share/terminfo", READ}, {"/etc/terminfo", READ}, {"/proc/self", READ}, {"/proc/meminfo", READ},
  {"/proc/stat", READ}, {"/proc/loadavg", READ}, {"/proc/cpuinfo", READ}, {"/proc/devices", READ},
  {"/proc/driver/nvidia", READ}, {"/proc/sys/vm", READ}, {"/sys/devices", READ}, {"/sys/class", READ},
  {"/sys/bus/pci", READ}, {"/sys/fs/cgroup", READ}, {"/sys/module/nvidia", READ}, {"/sys/module/nvidia_uvm", READ},
  {"/sys/kernel/mm", READ}, {"/dev/null", DEVICE}, {"/dev/zero", DEVICE}, {"/dev/full", DEVICE},
  {"/dev/urandom", READ_FILE}, {"/dev/random", READ_FILE},
};
static const char *const devices[] = {"/dev/nvidia*", "/dev/nvidia-caps/*"};

/* A grant says where its links led when it was made; one that has come there since is not followed. */
static int open_resolved(const char *path)
{
  struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  /* a container's filter */
  return fd < 0 && (errno == ENOSYS || errno == EPERM) ? open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW) : fd;
}

static void allow_at(int fd, uint64_t rights)
{
  struct stat st;
  if (fd < 0) return;
  rights &= rights_of(state.files);
  if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) rights &= OF_A_FILE;
  path_rule rule = {.allowed = rights, .parent = fd};
  syscall(ADD_RULE, rules, RULE_PATH, &rule, 0); /* one that fails allows less */
  close(fd);
}

/* What is not there cannot be used, so it needs no rule. */
static void allow(const char *path, uint64_t rights) { allow_at(open(path, O_PATH | O_CLOEXEC), rights); }

static void allow_grant(void *user, const char *path, int rights)
{
  char folder[CAPL_POLICY_PATH];
  (void)user;
  allow_at(open_resolved(path), (uint64_t)((rights & CAPL_MAY_READ ? READ : 0) | (rights & CAPL_MAY_WRITE ? WRITE : 0) |
                        (rights & CAPL_MAY_REMOVE ? REMOVE_FILE : 0)));
  if (!(rights & CAPL_MAY_BESIDE)) return;
  snprintf(folder, sizeof folder, "%s", path);
  *strrchr(folder, '/') = '\0';
  allow_at(open_resolved(*folder ? folder : "/"), WRITE);
}

static void allow_devices(void)
{
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    glob_t found;
    if (glob(devices[i], GLOB_NOSORT, NULL, &found) == 0)
      for (size_t k = 0; k < found.gl_pathc; k++) allow(found.gl_pathv[k], DEVICE);
    globfree(&found);
  }
}

/* A library that is loaded may load others that lie beside it, when they are first used. */
static int allow_library(struct dl_phdr_info *info, size_t size, void *user)
{
  char folder[CAPL_POLICY_PATH], *last = user;
  (void)size;
  if (!info->dlpi_name || info->dlpi_name[0] != '/' || !realpath(info->dlpi_name, folder)) return 0;
  *strrchr(folder, '/') = '\0';
  if (strcmp(folder, last) == 0 || capl_policy_is_too_wide(*folder ? folder : "/")) return 0;
  strcpy(last, folder);
  allow(folder, READ);
  return 0;
}

/* Some are not loaded before something asks for them, as NVIDIA's compiler is, and lie where the user says. */
static void allow_search_path(void)
{
  const char *from = getenv("LD_LIBRARY_PATH");
  char folder[CAPL_POLICY_PATH], real[CAPL_POLICY_PATH];
  for (size_t n; from && *from; from += n + (from[n] == ':')) {
    n = strcspn(from, ":");
    snprintf(folder, sizeof folder, "%.*s", (int)n, from);
    if (n < sizeof folder && folder[0] == '/' && realpath(folder, real) && !capl_policy_is_too_wide(real))
      allow(real, READ);
  }
}

static void allow_all(void)
{
  char last[CAPL_POLICY_PATH] = "";
  for (size_t i = 0; i < sizeof system_files / sizeof *system_files; i++)
    allow(system_files[i].path, (uint64_t)system_files[i].rights);
  allow_devices();
  dl_iterate_phdr(allow_library, last);
  allow_search_path();
  capl_policy_each(allow_grant, NULL);
}

/* ---- raising it -------------------------------------------------------------------------------- */

static bool restrict_this_thread(void)
{
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(RESTRICT_SELF, rules, 0) == 0;
}

/* A thread is a domain of its own, so signals are scoped only where the kernel knows that threads of a process may send
** them to each other all the same. The filter of calls keeps them in, too. */
static uint64_t scopes_of(int abi)
{
  if (abi < 6) return 0;
  long fixed = syscall(CREATE_RULESET, NULL, 0, ASK_ERRATA);
  return SCOPE_ABSTRACT | (fixed > 0 && (fixed & SAME_PROCESS_FIXED) ? SCOPE_SIGNAL : 0);
}

static capl_status guard_files(void)
{
  int abi = state.files;
  ruleset wanted = {rights_of(abi), abi >= 4 ? NET_TCP : 0, scopes_of(abi)};
  size_t size = abi >= 6 ? sizeof wanted : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
  rules = (int)syscall(CREATE_RULESET, &wanted, size, 0);
  if (rules < 0) return CAPL_FAIL(CAPL_EINTERNAL, "no Landlock ruleset: %s", capl_errno_text(errno));
  allow_all();
  capl_status status = run_on_other_threads(restrict_this_thread);
  if (status == CAPL_OK && !restrict_this_thread())
    status = CAPL_FAIL(CAPL_EIO, "Landlock: %s", capl_errno_text(errno));
  close(rules);
  return status;
}

/* Takes away what this kernel would lack by CAPL_ASSUME. */
static void drop_rights(capl_sandbox *w)
{
  int64_t assumed;
  if (capl_assumed(CAPL_ASSUME_SECCOMP, &assumed)) {
    w->calls = false;
    snprintf(w->calls_why, sizeof w->calls_why, "CAPL_ASSUME has seccomp=none");
    snprintf(w->why, sizeof w->why, "%s", w->calls_why);
  }
  if (!capl_assumed(CAPL_ASSUME_LANDLOCK, &assumed) || assumed >= w->files) return;
  w->files = (int)assumed;
  if (assumed == 0) snprintf(w->why, sizeof w->why, "CAPL_ASSUME has landlock=0");
}

capl_sandbox capl_sandbox_possible(void)
{
  capl_sandbox w = {.files = version()};
  if (!w.files) snprintf(w.why, sizeof w.why, "%s", why_no_files(errno));
  w.calls = seccomp_possible(w.calls_why, sizeof w.calls_why);
  if (w.files && !w.calls) snprintf(w.why, sizeof w.why, "%s", w.calls_why);
  drop_rights(&w);
  return w;
}

capl_status capl_sandbox_check_assumed(void)
{
  int64_t assumed;
  if (!capl_assumed(CAPL_ASSUME_LANDLOCK, &assumed) || assumed <= version()) return CAPL_OK;
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "CAPL_ASSUME: landlock is %d, this kernel has version %d", (int)assumed,
                   version());
}

/* The process may have confined some of its threads: it must end. */
static capl_status half_way(void)
{
  char why[sizeof capl_error_last()->message];
  snprintf(why, sizeof why, "%s", capl_error_last()->message);
  CAPL_FAIL(CAPL_EINTERNAL, "the sandbox cannot be raised: %.900s", why);
  capl_error_hint("--trust before the command runs your own recipe without it");
  return CAPL_EINTERNAL;
}

capl_status capl_sandbox_enable(void)
{
  if (!capl_policy_is_closed())
    return CAPL_FAIL(CAPL_ESTATE, "a sandbox layer without a policy would not protect anything");
  state = capl_sandbox_possible();
  if (state.files && guard_files() != CAPL_OK) return half_way();
  if (state.calls && seccomp_enable() != CAPL_OK) return half_way();
  return CAPL_OK;
}

const capl_sandbox *capl_sandbox_state(void) { return &state; }
