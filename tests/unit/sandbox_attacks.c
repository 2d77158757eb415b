/* sandbox_attacks.c -- the sandbox against native code: what code that has escaped from Lua can still do.
**
** A child enables the sandbox as a worker does, with a thread that was there before and blocks all signals, and then
** tries everything below; first on the thread that enabled it, then on the old one. Each attempt is a test; those that
** must work show that the sandbox permits training.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/policy.h"
#include "sandbox/sandbox.h"

extern char **environ;

/* ---- the place: what is granted, and what is not ------------------------------------------------ */

static char place[] = "/tmp/capl-attacks-XXXXXX";
static pid_t victim;   /* a process of the same user */
static int terminal;   /* a descriptor that was open before */
static struct sockaddr_in listener;                        /* somebody listens there */
static struct sockaddr_un by_path, abstract, datagram; /* and there */

static const char *in(const char *rest)
{
  static _Thread_local char text[4][300];
  static _Thread_local int next;
  next = (next + 1) % 4;
  snprintf(text[next], sizeof text[next], "%s/%s", place, rest);
  return text[next];
}

static bool put(const char *rest, const char *text)
{
  FILE *file = fopen(in(rest), "w");
  return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

static socklen_t name(struct sockaddr_un *a, const char *path, bool hidden)
{
  a->sun_family = AF_UNIX;
  snprintf(a->sun_path + hidden, sizeof a->sun_path - 1, "%s", path);
  return (socklen_t)(sizeof a->sun_family + hidden + strlen(path) + !hidden);
}

static bool listen_at(int family, int kind, const struct sockaddr *at, socklen_t len)
{
  int fd = socket(family, kind, 0);
  return fd >= 0 && bind(fd, at, len) == 0 && (kind == SOCK_DGRAM || listen(fd, 5) == 0);
}

static bool open_doors(void)
{
  socklen_t len = sizeof listener;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  listener = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  bool tcp = bind(fd, (struct sockaddr *)&listener, len) == 0 && listen(fd, 5) == 0
      && getsockname(fd, (struct sockaddr *)&listener, &len) == 0;
  len = name(&by_path, in("socket"), false);
  bool path = listen_at(AF_UNIX, SOCK_STREAM, (struct sockaddr *)&by_path, len);
  len = name(&abstract, place, true);
  bool hidden = listen_at(AF_UNIX, SOCK_STREAM, (struct sockaddr *)&abstract, len);
  len = name(&datagram, in("datagrams"), false);
  return tcp && path && hidden && listen_at(AF_UNIX, SOCK_DGRAM, (struct sockaddr *)&datagram, len);
}

static bool make_place(void)
{
  if (!mkdtemp(place)) return false;
  static const char *const folders[] = {"recipe", "data", "runs", "runs/1", "home", "home/.ssh", NULL};
  for (int i = 0; folders[i]; i++)
    if (mkdir(in(folders[i]), 0755) != 0) return false;
  terminal = posix_openpt(O_RDWR | O_NOCTTY);
  victim = fork();
  if (victim == 0) pause(), _exit(0);
  return put("recipe/recipe.lua", "print(1)") && put("data/1.png", "x") && put("home/.ssh/key", "secret")
      && put("runs/old", "x") &&
         put("stranger", "x") && symlink(in("home/.ssh/key"), in("data/link")) == 0 && open_doors() && terminal >= 0
         && victim > 0;
}

static int remove_place(void **state)
{
  char command[64];
  (void)state;
  kill(victim, SIGKILL);
  waitpid(victim, NULL, 0);
  snprintf(command, sizeof command, "rm -rf %s", place);
  return system(command);
}

/* ---- attempts ---------------------------------------------------------------------------------- */

/* true: it was refused. */
static bool no(long result)
{
  return result < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS || errno == EXDEV);
}

static bool no_open(const char *path, int flags)
{
  int fd = open(path, flags | O_CLOEXEC, 0600);
  bool refused = no(fd);
  if (fd >= 0) close(fd);
  return refused;
}

static bool can_open(const char *path, int flags)
{
  int fd = open(path, flags | O_CLOEXEC, 0600);
  return fd >= 0 && close(fd) == 0;
}

static char *of_victim(const char *what)
{
  static _Thread_local char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)victim, what);
  return path;
}

/* Files. */
static bool read_passwd(void) { return no_open("/etc/passwd", O_RDONLY); }
static bool read_shadow(void) { return no_open("/etc/shadow", O_RDONLY); }
static bool read_home(void) { return no_open(in("home/.ssh/key"), O_RDONLY); }
static bool read_home_by_dots(void) { return no_open(in("data/../home/.ssh/key"), O_RDONLY); }
static bool read_home_by_link(void) { return no_open(in("data/link"), O_RDONLY); }
static bool read_home_by_proc(void) { char p[400]; snprintf(p, sizeof p, "/proc/self/root%s", in("home/.ssh/key"));
                                     return no_open(p, O_RDONLY); }
static bool list_home(void) { return no_open(in("home"), O_RDONLY | O_DIRECTORY); }
static bool list_root(void) { return no_open("/", O_RDONLY | O_DIRECTORY); }
static bool list_tmp(void) { return no_open("/tmp", O_RDONLY | O_DIRECTORY); }
static bool list_processes(void) { return no_open("/proc", O_RDONLY | O_DIRECTORY); }
static bool write_tmp(void) { return no_open("/tmp/capl-attack", O_WRONLY | O_CREAT); }
static bool make_unnamed_in_tmp(void) { return no_open("/tmp", O_TMPFILE | O_RDWR); }
static bool write_recipe(void) { return no_open(in("recipe/recipe.lua"), O_WRONLY); }
static bool cut_recipe(void) { return no(truncate(in("recipe/recipe.lua"), 0)); }
static bool add_to_recipe_folder(void) { return no_open(in("recipe/new.lua"), O_WRONLY | O_CREAT); }
static bool write_data(void) { return no_open(in("data/1.png"), O_WRONLY); }
static bool remove_data(void) { return no(unlink(in("data/1.png"))); }
static bool write_library(void) { return no_open("/usr/lib/capl-attack", O_WRONLY | O_CREAT); }
static bool cut_stranger(void) { return no(truncate(in("stranger"), 0)); }
static bool symlink_in_runs(void) { return no(symlink("/etc/passwd", in("runs/link"))); }
static bool symlink_at_in_runs(void) { return no(symlinkat("/etc/passwd", AT_FDCWD, in("runs/link"))); }
static bool hard_link_into_runs(void) { return no(link(in("data/1.png"), in("runs/hard"))); }
static bool hard_link_from_home(void) { return no(link(in("home/.ssh/key"), in("runs/key"))); }
static bool move_data_into_runs(void) { return no(rename(in("data/1.png"), in("runs/1.png"))); }
static bool move_runs_out(void) { return no(rename(in("runs/old"), in("old"))); }
static bool make_device(void) { return no(mknod(in("runs/disk"), S_IFBLK | 0600, 0x800)); }
static bool make_fifo(void) { return no(mkfifo(in("runs/fifo"), 0600)); }
static bool change_mode(void) { return no(chmod(in("home/.ssh/key"), 0666)); }
static bool change_mode_at(void) { return no(syscall(452, AT_FDCWD, in("home/.ssh/key"), 0666, 0)); }
static bool set_user_id(void) { return no(chmod(in("runs/old"), 04755)); }
static bool change_owner(void) { return no(chown(in("home/.ssh/key"), 1, 1)); }
static bool change_times(void) { return no(utimensat(AT_FDCWD, in("home/.ssh/key"), NULL, 0)); }
static bool set_attribute(void) { return no(syscall(SYS_setxattr, in("home/.ssh/key"), "user.x", "y", 1, 0)); }
static bool watch_home(void) { int fd = (int)syscall(SYS_inotify_init1, 0);
                              return no(syscall(SYS_inotify_add_watch, fd, in("home"), 0xfff)); }
static bool watch_all(void) { return no(syscall(SYS_fanotify_init, 0, 0)); }
static bool notice_home(void) { int fd = open(in("data"), O_RDONLY); bool refused = no(fcntl(fd, F_NOTIFY, DN_MODIFY));
                               close(fd); return refused; }
static bool name_a_handle(void) { char h[200] = {0}; int id; *(int *)h = 128;
                                 return no(syscall(SYS_name_to_handle_at, AT_FDCWD, "/etc/passwd", h, &id, 0)); }
static bool open_a_handle(void) { char h[200] = {0}; return no(syscall(SYS_open_by_handle_at, AT_FDCWD, h, O_RDONLY)); }
static bool change_root(void) { return no(chroot(in("home"))); }

/* Programs and processes. */
static bool run_a_shell(void) { return system("true") != 0; }
static bool run_execve(void) { char *a[] = {(char *)"true", NULL}; return no(execve("/bin/true", a, environ)); }
static bool run_spawn(void) { pid_t p; char *a[] = {(char *)"true", NULL};
                             return posix_spawn(&p, "/bin/true", NULL, NULL, a, environ) != 0; }
static bool run_loader(void) { char *a[] = {(char *)"ld", (char *)"/bin/true", NULL};
                              return no(execve("/lib64/ld-linux-x86-64.so.2", a, environ)); }
static bool run_memory(void)
{
  int fd = memfd_create("program", 0), from = open("/usr/lib/os-release", O_RDONLY);
  char *a[] = {(char *)"x", NULL};
  if (from >= 0) close(from);
  bool refused = no(syscall(SYS_execveat, fd, "", a, environ, AT_EMPTY_PATH));
  close(fd);
  return refused;
}
static bool leave(pid_t child)
{
  if (child == 0) _exit(0);
  if (child > 0) waitpid(child, NULL, 0);
  return child < 0;
}
static bool fork_once(void) { return leave(fork()); }
static bool fork_raw(void)
{
#ifdef SYS_fork
  return leave((pid_t)syscall(SYS_fork));
#else
  return true;
#endif
}
static bool clone_process(void) { return leave((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static bool clone_high_bits(void) { return leave((pid_t)syscall(SYS_clone, SIGCHLD | 1ul << 48, 0, 0, 0, 0)); }
static bool clone_namespace(void) { return leave((pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }
static bool clone3_process(void) { uint64_t a[11] = {0}; a[4] = SIGCHLD; return leave((pid_t)syscall(435, a, sizeof a));
                                  }
static bool signal_victim(void) { return no(kill(victim, SIGTERM)); }
static bool signal_parent(void) { return no(kill(getppid(), 0)); }
static bool signal_all(void) { return no(kill(-1, 0)); }
static bool signal_group(void) { return no(kill(0, 0)); }
static bool signal_with_high_bits(void) { return no(syscall(SYS_kill, (unsigned long)victim | 1ul << 40, SIGTERM)); }
static bool signal_thread_of_victim(void) { return no(syscall(SYS_tgkill, victim, victim, SIGTERM)); }
static bool signal_by_tkill(void) { return no(syscall(SYS_tkill, victim, SIGTERM)); }
static bool signal_by_queue(void) { siginfo_t i = {.si_code = SI_QUEUE};
                                   return no(syscall(SYS_rt_sigqueueinfo, victim, SIGTERM, &i)); }
static bool signal_by_descriptor(void) { return no(syscall(424, 0, SIGTERM, NULL, 0)); }
static bool hold_victim(void) { return no(syscall(434, victim, 0)); }
static bool steal_descriptor(void) { return no(syscall(438, 0, 0, 0)); }
static bool signal_by_owner(void) { return no(fcntl(terminal, F_SETOWN, victim)); }
static bool signal_by_owner_ioctl(void) { int p = victim; return no(ioctl(terminal, FIOSETOWN, &p)); }
static bool choose_owner_signal(void) { return no(fcntl(terminal, F_SETSIG, SIGKILL)); }
static bool trace_victim(void) { return no(syscall(SYS_ptrace, 16 /* attach */, victim, 0, 0)); }
static bool trace_by_parent(void) { return no(prctl(PR_SET_PTRACER, -1)); }
static bool read_victim(void) { return no(syscall(SYS_process_vm_readv, victim, NULL, 0, NULL, 0, 0)); }
static bool write_victim(void) { return no(syscall(SYS_process_vm_writev, victim, NULL, 0, NULL, 0, 0)); }
static bool memory_of_victim(void) { return no_open(of_victim("mem"), O_RDWR); }
static bool environment_of_victim(void) { return no_open(of_victim("environ"), O_RDONLY); }
static bool maps_of_victim(void) { return no_open(of_victim("maps"), O_RDONLY); }
static bool files_of_victim(void) { return no_open(of_victim("fd"), O_RDONLY); }
static bool words_of_victim(void) { return no_open(of_victim("cmdline"), O_RDONLY); }
static bool limits_of_victim(void) { struct rlimit64 l;
                                    return no(syscall(SYS_prlimit64, victim, RLIMIT_CORE, NULL, &l)); }
static bool priority_of_victim(void) { return no(setpriority(PRIO_PROCESS, (id_t)victim, 19)); }
static bool schedule_victim(void) { struct sched_param p = {0}; return no(sched_setscheduler(victim, SCHED_IDLE, &p)); }
static bool outlive_supervisor(void) { return no(prctl(PR_SET_PDEATHSIG, 0)); }
static bool leave_session(void) { return no(setsid()); }
static bool leave_group(void) { return no(setpgid(0, 0)); }
static bool compare_victim(void) { return no(syscall(SYS_kcmp, getpid(), victim, 0, 0, 0)); }

/* Sockets and messages. */
static bool no_socket(int family, int kind, int protocol)
{
  int fd = socket(family, kind, protocol);
  bool refused = no(fd);
  if (fd >= 0) close(fd);
  return refused;
}
static bool socket_inet(void) { return no_socket(AF_INET, SOCK_STREAM, 0); }
static bool socket_inet6(void) { return no_socket(AF_INET6, SOCK_STREAM, 0); }
static bool socket_udp(void) { return no_socket(AF_INET, SOCK_DGRAM, 0); }
static bool socket_raw(void) { return no_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP); }
static bool socket_unix(void) { return no_socket(AF_UNIX, SOCK_STREAM, 0); }
static bool socket_netlink(void) { return no_socket(AF_NETLINK, SOCK_RAW, 0); }
static bool socket_packet(void) { return no_socket(17, SOCK_RAW, 0); }
static bool socket_vsock(void) { return no_socket(40, SOCK_STREAM, 0); }
static bool socket_crypto(void) { return no_socket(38, 5, 0); }
static int kept[3] = {-1, -1, -1}; /* sockets that were open before the sandbox */
static bool connect_inet(void) { return no(connect(kept[0], (struct sockaddr *)&listener, sizeof listener)); }
static bool connect_path(void) { return no(connect(kept[1], (struct sockaddr *)&by_path, sizeof by_path)); }
static bool connect_abstract(void) { return no(connect(kept[1], (struct sockaddr *)&abstract,
                                                       (socklen_t)(3 + strlen(place)))); }
static bool bind_inet(void) { struct sockaddr_in a = {.sin_family = AF_INET};
                             return no(bind(kept[0], (struct sockaddr *)&a, sizeof a)); }
static bool listen_inet(void) { return no(listen(kept[0], 1)); }
static bool datagram_pair(void)
{
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) return no(-1);
  bool sent = sendto(pair[0], "x", 1, 0, (struct sockaddr *)&datagram, sizeof datagram) == 1;
  close(pair[0]), close(pair[1]);
  return !sent && false;
}
static bool datagram_pair_with_flags(void) { int pair[2];
                                            return no(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
    pair)); }
static bool shared_memory(void) { return no(syscall(SYS_shmget, 0x1234, 4096, 0600 | 01000)); }
static bool message_queue(void) { return no(syscall(SYS_msgget, 0x1234, 0600 | 01000)); }
static bool semaphores(void) { return no(syscall(SYS_semget, 0x1234, 1, 0600 | 01000)); }
static bool posix_queue(void) { return no(syscall(SYS_mq_open, "capl", O_CREAT | O_RDWR, 0600, NULL)); }

/* The kernel. */
static bool type_for_user(void) { return no(ioctl(terminal, TIOCSTI, "x")); }
static bool type_with_high_bits(void) { return no(syscall(SYS_ioctl, terminal, 0x100000000ul | TIOCSTI, "x")); }
static bool paste_for_user(void) { char c = 3; return no(ioctl(terminal, TIOCLINUX, &c)); }
static bool take_terminal(void) { return no(ioctl(terminal, TIOCSCTTY, 1)); }
static bool console_to_terminal(void) { return no(ioctl(terminal, TIOCCONS, 0)); }
static bool line_discipline(void) { int n = 2; return no(ioctl(terminal, TIOCSETD, &n)); }
static bool mount_something(void) { return no(syscall(SYS_mount, "x", "/mnt", "tmpfs", 0, 0)); }
static bool unmount_something(void) { return no(syscall(SYS_umount2, "/mnt", 0)); }
static bool mount_new_way(void) { return no(syscall(430, "tmpfs", 0)); }
static bool clone_a_mount(void) { return no(syscall(428, AT_FDCWD, "/", 1)); }
static bool user_namespace(void) { return no(unshare(CLONE_NEWUSER)); }
static bool enter_namespace(void) { return no(syscall(SYS_setns, 0, 0)); }
static bool use_io_uring(void) { char p[128] = {0}; return no(syscall(425, 4, p)); }
static bool use_bpf(void) { return no(syscall(SYS_bpf, 0, NULL, 0)); }
static bool use_perf(void) { return no(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)); }
static bool use_userfaultfd(void) { return no(syscall(SYS_userfaultfd, 0)); }
static bool use_keys(void) { return no(syscall(SYS_keyctl, 0, -3, 0)); }
static bool ask_for_a_key(void) { return no(syscall(SYS_request_key, "user", "x", NULL, 0)); }
static bool become_root(void) { return no(setuid(0)); }
static bool raise_capabilities(void) { unsigned h[2] = {0x20080522, 0}, d[6] = {0};
                                      return no(syscall(SYS_capset, h, d)); }
static bool other_personality(void) { return no(syscall(SYS_personality, 0x0040000)); }
static bool load_a_module(void) { return no(syscall(SYS_finit_module, -1, "", 0)); }
static bool load_a_kernel(void) { return no(syscall(SYS_kexec_load, 0, 0, 0, 0)); }
static bool restart_machine(void) { return no(syscall(SYS_reboot, 0, 0, 0, 0)); }
static bool set_clock(void) { struct timespec t = {1, 0}; return no(syscall(SYS_clock_settime, CLOCK_REALTIME, &t)); }
static bool read_kernel_log(void) { return no(syscall(SYS_syslog, 10, NULL, 0)); }
static bool newest_calls(void) { return syscall(4000) < 0 && errno == ENOSYS; }

/* What training needs goes on. */
static void *nothing(void *arg) { return arg; }
static atomic_int caught;
static void on_usr1(int n) { (void)n; atomic_fetch_add(&caught, 1); }
static bool works_read_data(void) { return can_open(in("data/1.png"), O_RDONLY)
                                   && can_open(in("data"), O_RDONLY | O_DIRECTORY); }
static bool works_read_recipe(void) { return can_open(in("recipe/recipe.lua"), O_RDONLY); }
static bool works_write_runs(void)
{
  bool made = can_open(in("runs/1/.tmp"), O_WRONLY | O_CREAT | O_TRUNC)
  && rename(in("runs/1/.tmp"), in("runs/1/best")) == 0;
  return made && mkdir(in("runs/1/d"), 0755) == 0 && rename(in("runs/1/d"), in("runs/1/e")) == 0
      && rmdir(in("runs/1/e")) == 0 &&
         unlink(in("runs/1/best")) == 0;
}
static bool works_unnamed_in_runs(void) { return can_open(in("runs"), O_TMPFILE | O_RDWR); }
static bool works_threads(void) { pthread_t t;
                                 return pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0; }
static bool works_own_signals(void) { signal(SIGUSR1, on_usr1); int before = caught; raise(SIGUSR1); kill(getpid(), 0);
                                     return caught == before + 1; }
static bool works_compiled_code(void)
{
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0 && munmap(page, 4096) == 0;
}
static bool works_pipes(void) { int a[2], b[2];
                               return pipe(a) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, b) == 0 && !close(a[0])
                               && !close(a[1]) && !close(b[0]) && !close(b[1]); }
static bool works_devices(void) { return can_open("/dev/null", O_RDWR) && can_open("/dev/urandom", O_RDONLY); }
static bool works_own_figures(void) { return can_open("/proc/self/statm", O_RDONLY)
                                     && can_open("/proc/meminfo", O_RDONLY) && can_open("/proc/self/maps", O_RDONLY); }
static bool works_limits(void) { struct rlimit l; return getrlimit(RLIMIT_NOFILE, &l) == 0; }
static bool works_terminal(void) { struct winsize s; return ioctl(terminal, TIOCGWINSZ, &s) == 0; }

typedef struct {
  const char *name;
  bool (*held)(void);
  bool calls; /* kept by the filter of calls, else by Landlock */
} attempt;

#define F(f) {#f, f, false}
#define C(f) {#f, f, true}
static const attempt attempts[] = {
  F(read_passwd), F(read_shadow), F(read_home), F(read_home_by_dots), F(read_home_by_link), F(read_home_by_proc),
  F(list_home), F(list_root), F(list_tmp), F(list_processes), F(write_tmp), F(make_unnamed_in_tmp), F(write_recipe),
  C(cut_recipe), F(add_to_recipe_folder), F(write_data), F(remove_data), F(write_library), C(cut_stranger),
  C(symlink_in_runs), C(symlink_at_in_runs), F(hard_link_into_runs), F(hard_link_from_home), F(move_data_into_runs),
  F(move_runs_out), C(make_device), C(make_fifo), C(change_mode), C(change_mode_at), C(set_user_id), C(change_owner),
  C(change_times), C(set_attribute), C(watch_home), C(watch_all), C(notice_home), C(name_a_handle), C(open_a_handle),
  C(change_root), C(run_a_shell), C(run_execve), C(run_spawn), C(run_loader), C(run_memory), C(fork_once), C(fork_raw),
  C(clone_process), C(clone_high_bits), C(clone_namespace), C(clone3_process), C(signal_victim), C(signal_parent),
  C(signal_all), C(signal_group), C(signal_with_high_bits), C(signal_thread_of_victim), C(signal_by_tkill),
  C(signal_by_queue), C(signal_by_descriptor), C(hold_victim), C(steal_descriptor), C(signal_by_owner),
  C(signal_by_owner_ioctl), C(choose_owner_signal), C(trace_victim), C(trace_by_parent), C(read_victim),
  C(write_victim), F(memory_of_victim), F(environment_of_victim), F(maps_of_victim), F(files_of_victim),
  F(words_of_victim), C(limits_of_victim), C(priority_of_victim), C(schedule_victim), C(outlive_supervisor),
  C(leave_session), C(leave_group), C(compare_victim), C(socket_inet), C(socket_inet6), C(socket_udp), C(socket_raw),
  C(socket_unix), C(socket_netlink), C(socket_packet), C(socket_vsock), C(socket_crypto), C(connect_inet),
  C(connect_path), C(connect_abstract), C(bind_inet), C(listen_inet), C(datagram_pair), C(datagram_pair_with_flags),
  C(shared_memory), C(message_queue), C(semaphores), C(posix_queue), C(type_for_user), C(type_with_high_bits),
  C(paste_for_user), C(take_terminal), C(console_to_terminal), C(line_discipline), C(mount_something),
  C(unmount_something), C(mount_new_way), C(clone_a_mount), C(user_namespace), C(enter_namespace), C(use_io_uring),
  C(use_bpf), C(use_perf), C(use_userfaultfd), C(use_keys), C(ask_for_a_key), C(become_root), C(raise_capabilities),
  C(other_personality), C(load_a_module), C(load_a_kernel), C(restart_machine), C(set_clock), C(read_kernel_log),
  C(newest_calls), F(works_read_data), F(works_read_recipe), F(works_write_runs), F(works_unnamed_in_runs),
  C(works_threads), C(works_own_signals), C(works_compiled_code), C(works_pipes), F(works_devices),
  F(works_own_figures), C(works_limits), C(works_terminal),
};
enum { N = sizeof attempts / sizeof *attempts };

/* ---- the child in the sandbox -------------------------------------------------------------------- */

enum { NOT_TRIED, HELD, BROKEN };
typedef struct {
  capl_sandbox wall;
  bool raised;
  char new_thread[N], old_thread[N];
} outcome;
static outcome *seen; /* shared with the child */

static void try_all(char *results)
{
  for (int i = 0; i < N; i++) {
    errno = 0;
    results[i] = attempts[i].held() ? HELD : BROKEN;
  }
}

static int start[2]; /* a pipe: the old thread begins */
static void *old_thread(void *arg)
{
  char byte;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  while (read(start[0], &byte, 1) != 1) continue;
  sigemptyset(&all); /* works_own_signals raises one */
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  try_all(seen->old_thread);
  return arg;
}

static void attack(void)
{
  pthread_t old;
  alarm(60);
  kept[0] = socket(AF_INET, SOCK_STREAM, 0);
  kept[1] = socket(AF_UNIX, SOCK_STREAM, 0);
  if (pipe(start) != 0 || pthread_create(&old, NULL, old_thread, NULL) != 0) _exit(1);
  if (capl_policy_grant(in("recipe"), CAPL_MAY_READ) != CAPL_OK
      || capl_policy_grant(in("data"), CAPL_MAY_READ) != CAPL_OK ||
      capl_policy_grant(in("runs"), CAPL_MAY_READ | CAPL_MAY_WRITE) != CAPL_OK)
    _exit(2);
  if (capl_sandbox_enable() != CAPL_ESTATE) _exit(3);
  capl_policy_close();
  if (capl_sandbox_enable() != CAPL_OK) fprintf(stderr, "%s\n", capl_error_last()->message), _exit(4);
  seen->wall = *capl_sandbox_state();
  seen->raised = true;
  try_all(seen->new_thread);
  if (write(start[1], "x", 1) != 1) _exit(5);
  pthread_join(old, NULL);
  _exit(0);
}

static int attack_in_a_child(void **state)
{
  int status;
  (void)state;
  seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!make_place() || seen == MAP_FAILED) return perror(place), 1;
  pid_t child = fork();
  if (child == 0) attack();
  if (waitpid(child, &status, 0) != child || status != 0)
    return fprintf(stderr, "the child ended with status 0x%x\n", (unsigned)status), 1;
  return 0;
}

static void is_held(void **state)
{
  const attempt *a = *state;
  long i = a - attempts;
  if (a->calls ? !seen->wall.calls : !seen->wall.files) skip();
  if (seen->new_thread[i] != HELD) fail_msg("%s, on the thread that enabled the sandbox", a->name);
  if (seen->old_thread[i] != HELD) fail_msg("%s, on a thread that was there before", a->name);
}

static void the_walls_stand_as_this_kernel_has_them(void **state)
{
  (void)state;
  capl_sandbox possible = capl_sandbox_possible();
  assert_true(seen->raised);
  assert_int_equal(seen->wall.files, possible.files);
  assert_int_equal(seen->wall.calls, possible.calls);
  assert_int_equal(*seen->wall.why != '\0', !possible.files || !possible.calls);
}

static void the_victim_is_alive(void **state)
{
  (void)state;
  assert_int_equal(waitpid(victim, NULL, WNOHANG), 0);
}

/* A child in the sandbox that makes one call -> its status. */
static int status_behind(void (*f)(void))
{
  int status;
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    capl_policy_close();
    if (capl_sandbox_enable() != CAPL_OK) _exit(99);
    f();
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void call_x32(void)
{
#ifdef __x86_64__
  syscall(0x40000000 | SYS_getpid);
#endif
}

static void call_32(void)
{
#ifdef __x86_64__
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "0"(20l) : "memory"); /* getpid of 32 bits */
#endif
}

static void calls_of_other_processor_modes_end_the_process(void **state)
{
  (void)state;
#ifdef __x86_64__
  if (!seen->wall.calls) skip();
  assert_int_equal(WTERMSIG(status_behind(call_x32)), SIGSYS);
  int status = status_behind(call_32);
  /* a kernel without them */
  assert_true(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV));
#else
  (void)call_x32, (void)call_32;
  skip();
#endif
}

static void switched_off_for_a_test_nothing_stands_and_it_says_so(void **state)
{
  (void)state;
  setenv("CAPL_ASSUME", "landlock=0,seccomp=none", 1);
  capl_sandbox none = capl_sandbox_possible();
  setenv("CAPL_ASSUME", "seccomp=none", 1);
  capl_sandbox files = capl_sandbox_possible();
  setenv("CAPL_ASSUME", "landlock=0", 1);
  capl_sandbox calls = capl_sandbox_possible();
  unsetenv("CAPL_ASSUME");
  assert_true(!none.files && !none.calls && !files.calls && !calls.files);
  assert_string_equal(none.why, "CAPL_ASSUME has landlock=0");
  assert_string_equal(none.calls_why, "CAPL_ASSUME has seccomp=none");
}

int main(void)
{
  static struct CMUnitTest tests[N + 4];
  int n = 0;
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_walls_stand_as_this_kernel_has_them);
  for (int i = 0; i < N; i++)
    tests[n++] = (struct CMUnitTest){.name = attempts[i].name, .test_func = is_held,
                                     .initial_state = (void *)&attempts[i]};
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_victim_is_alive);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(calls_of_other_processor_modes_end_the_process);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(switched_off_for_a_test_nothing_stands_and_it_says_so);
  return _cmocka_run_group_tests("attacks", tests, (size_t)n, attack_in_a_child, remove_place);
}
