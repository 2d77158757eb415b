/* thread_start.c -- tests of the engine's worker threads and of the number of processors.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"

typedef struct {
  sigset_t mask;
  char name[16];
} seen;

static void *look_around(void *out)
{
  seen *s = out;
  pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
  pthread_getname_np(pthread_self(), s->name, sizeof s->name);
  return NULL;
}

static void a_thread_blocks_every_signal(void **state)
{
  (void)state;
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGPROF, SIGCHLD};
  seen s;
  pthread_t thread;
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  assert_ok(capl_thread_start(&thread, "looker", look_around, &s));
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    assert_true(sigismember(&s.mask, signals[i]));
    assert_int_equal(sigismember(&before, signals[i]), sigismember(&after, signals[i]));
  }
}

static int gate[2];

static void *wait_at_gate(void *out)
{
  char byte;
  assert_int_equal(read(gate[0], &byte, 1), 1);
  return look_around(out);
}

static void names_are_shown_and_cut_to_fifteen_characters(void **state)
{
  (void)state;
  static const struct {
    const char *given, *shown;
  } cases[] = {{"loader 3", "loader 3"}, {"a name much too long", "a name much too"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    seen s;
    pthread_t thread;
    assert_int_equal(pipe(gate), 0);
    assert_ok(capl_thread_start(&thread, cases[i].given, wait_at_gate, &s));
    assert_int_equal(write(gate[1], "x", 1), 1); /* named by now: the thread may look */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(s.name, cases[i].shown);
    close(gate[0]);
    close(gate[1]);
  }
}

static void the_cpu_count_respects_the_affinity_mask(void **state)
{
  (void)state;
  cpu_set_t before, one;
  assert_true(capl_cpu_count() >= 1);
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(capl_cpu_count(), 1);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* ---- the cgroup's quota: trees as kernels and containers show them ---- */

static char root[64];

static void put(const char *file, const char *text)
{
  char path[512];
  snprintf(path, sizeof path, "%s%s", root, file);
  for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = '\0';
    mkdir(path, 0755);
  }
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static int make_root(void **state)
{
  (void)state;
  strcpy(root, "/tmp/capl-cgroup-XXXXXX");
  return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
  (void)st, (void)kind, (void)where;
  return remove(path);
}

static int remove_root(void **state)
{
  (void)state;
  return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void no_cgroup_is_no_limit(void **state)
{
  (void)state;
  assert_int_equal(capl_cgroup_cpus(root), 0); /* no /proc at all */
  put("/proc/self/cgroup", "0::/\n");
  assert_int_equal(capl_cgroup_cpus(root), 0);
  put("/sys/fs/cgroup/cpu.max", "max 100000\n");
  assert_int_equal(capl_cgroup_cpus(root), 0);
}

static void version_2_rounds_up_and_the_least_of_the_path_counts(void **state)
{
  (void)state;
  put("/proc/self/cgroup", "0::/user/job\n");
  put("/sys/fs/cgroup/user/cpu.max", "150000 100000\n");
  assert_int_equal(capl_cgroup_cpus(root), 2);
  put("/sys/fs/cgroup/user/job/cpu.max", "400000 100000\n");
  assert_int_equal(capl_cgroup_cpus(root), 2);
  put("/sys/fs/cgroup/user/job/cpu.max", "10000 100000\n");
  assert_int_equal(capl_cgroup_cpus(root), 1);
}

static void a_container_with_its_own_group_on_top_is_limited(void **state)
{
  (void)state;
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  assert_int_equal(capl_cgroup_cpus(root), 3);
}

static void version_1_beside_other_controllers(void **state)
{
  (void)state;
  put("/proc/self/cgroup", "9:name=systemd:/\n4:cpuset:/one\n3:cpu,cpuacct:/docker/abc\n0::/\n");
  put("/sys/fs/cgroup/cpuset/one/cpu.cfs_quota_us", "100000\n"); /* not where quotas are */
  put("/sys/fs/cgroup/cpuset/one/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  assert_int_equal(capl_cgroup_cpus(root), 0);
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n"); /* the host's path is not visible inside */
  assert_int_equal(capl_cgroup_cpus(root), 3);
}

static void nonsense_is_no_limit(void **state)
{
  (void)state;
  put("/proc/self/cgroup", "nonsense\n0::\n\n0::/no/such/folder\n");
  put("/sys/fs/cgroup/cpu.max", "100000 0\n");
  assert_int_equal(capl_cgroup_cpus(root), 0);
  put("/sys/fs/cgroup/cpu.max", "-5 100000\n");
  assert_int_equal(capl_cgroup_cpus(root), 0);
}

static void memory_is_what_machine_and_groups_leave(void **state)
{
  (void)state;
  assert_int_equal(capl_memory_available(root), 0); /* no /proc at all */
  put("/proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    2000000 kB\nSwapFree: 5 kB\n");
  assert_int_equal(capl_memory_available(root), 2048000000);
  put("/proc/self/cgroup", "0::/user/job\n");
  put("/sys/fs/cgroup/user/job/memory.max", "1000000000\n");
  assert_int_equal(capl_memory_available(root), 2048000000); /* nothing says what is used */
  put("/sys/fs/cgroup/user/job/memory.current", "400000000\n");
  assert_int_equal(capl_memory_available(root), 600000000);
  put("/sys/fs/cgroup/user/job/memory.stat", "anon 7\nactive_file 5\ninactive_file 100000000\n");
  assert_int_equal(capl_memory_available(root), 700000000);
  put("/sys/fs/cgroup/user/memory.max", "max\n");
  put("/sys/fs/cgroup/user/memory.current", "900000000\n");
  assert_int_equal(capl_memory_available(root), 700000000);
  put("/sys/fs/cgroup/user/job/memory.current", "1200000000\n");
  assert_int_equal(capl_memory_available(root), 0);
}

static void memory_of_version_1_groups(void **state)
{
  (void)state;
  put("/proc/meminfo", "MemAvailable:    2000000 kB\n");
  put("/proc/self/cgroup", "5:memory:/docker/abc\n0::/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* no limit */
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
  assert_int_equal(capl_memory_available(root), 2048000000);
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500000000\n");
  put("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 3\n");
  assert_int_equal(capl_memory_available(root), 499999998);
}

static void this_machine_has_memory(void **state)
{
  (void)state;
  assert_true(capl_memory_available("") > 0);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_thread_blocks_every_signal),
    cmocka_unit_test(names_are_shown_and_cut_to_fifteen_characters),
    cmocka_unit_test(the_cpu_count_respects_the_affinity_mask),
    IN_TREE(no_cgroup_is_no_limit),
    IN_TREE(version_2_rounds_up_and_the_least_of_the_path_counts),
    IN_TREE(a_container_with_its_own_group_on_top_is_limited),
    IN_TREE(version_1_beside_other_controllers),
    IN_TREE(nonsense_is_no_limit),
    IN_TREE(memory_is_what_machine_and_groups_leave),
    IN_TREE(memory_of_version_1_groups),
    cmocka_unit_test(this_machine_has_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
