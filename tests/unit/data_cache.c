/* data_cache.c -- tests of what a loader keeps between epochs: the same bytes from memory, from a file, after a
** restart, after damage, after a kill; and what becomes of it when there is no room.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_loading.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include "capl/synth.h"
#include "data/source.h"

static char cache_dir[300];

static capl_loader_options options_of(capl_cache cache, int workers)
{
  return (capl_loader_options){
    .batch = 7, .workers = workers, .shuffle = true, .seed = 5, .augment = &augment, .cache = cache,
    .cache_dir = cache_dir};
}

/* Two epochs of a new loader; source is given up. */
static void hash_two(capl_source *source, const capl_loader_options *options, uint64_t hash[2])
{
  capl_loader *loader = make(source, options);
  for (uint64_t epoch = 0; epoch < 2; epoch++) {
    int samples;
    hash[epoch] = hash_epoch(loader, epoch, &samples);
    assert_int_equal(samples, N_FILES);
  }
  capl_loader_free(loader);
}

static void check_same(capl_source *source, const capl_loader_options *options, const uint64_t expected[2])
{
  uint64_t hash[2];
  hash_two(source, options, hash);
  assert_true(hash[0] == expected[0] && hash[1] == expected[1]);
}

static void expect(uint64_t expected[2])
{
  capl_loader_options none = options_of(CAPL_CACHE_NONE, 0);
  hash_two(open_files(), &none, expected);
}

/* The one file of the cache; false = there is none. */
static bool cache_file(char path[600])
{
  DIR *dir = opendir(cache_dir);
  bool found = false;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.') continue;
    assert_false(found);
    snprintf(path, 600, "%s/%s", cache_dir, e->d_name);
    found = true;
  }
  if (dir) closedir(dir);
  return found;
}

/* All of it: a process that is killed between link and rename leaves a second name. */
static void forget_cache(void)
{
  char path[600];
  DIR *dir = opendir(cache_dir);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", cache_dir, e->d_name);
    assert_int_equal(unlink(path), 0);
  }
  if (dir) closedir(dir);
}

static void check_path(capl_loader *loader, const char *expected)
{
  assert_ok(capl_loader_epoch(loader, 0));
  if (!strstr(capl_loader_path(loader), expected))
    fail_msg("\"%s\" is not in \"%s\"", expected, capl_loader_path(loader));
}

/* ---- the same bytes -------------------------------------------------------------------------- */

static void caches_do_not_change_the_bytes(void **state)
{
  (void)state;
  static const int threads[] = {0, 1, 2, 3, 7};
  uint64_t expected[2];
  expect(expected);
  for (int cache = CAPL_CACHE_AUTO; cache <= CAPL_CACHE_DISK; cache++) {
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
      capl_loader_options options = options_of((capl_cache)cache, threads[i]);
      if (i % 2 == 0) forget_cache(); /* else the file is of the loader before */
      check_same(open_files(), &options, expected);
    }
  }
}

static void the_second_epoch_needs_no_file(void **state)
{
  for (int cache = CAPL_CACHE_RAM; cache <= CAPL_CACHE_DISK; cache++) {
    capl_loader_options options = options_of((capl_cache)cache, 2);
    uint64_t expected[2];
    int samples;
    expect(expected);
    forget_cache();
    capl_loader *loader = make(open_files(), &options);
    assert_true(hash_epoch(loader, 0, &samples) == expected[0]);
    const capl_source *source = capl_loader_source(loader);
    for (uint32_t i = 0; i < N_FILES; i++) assert_int_equal(unlink(in_folder(capl_source_name(source, i))), 0);
    assert_true(hash_epoch(loader, 1, &samples) == expected[1]);
    capl_loader_free(loader);
    remove_folder(state);
    assert_int_equal(make_captchas(state), 0);
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", folder);
  }
}

static void labels_are_those_of_this_run(void **state)
{
  (void)state;
  for (int cache = CAPL_CACHE_RAM; cache <= CAPL_CACHE_DISK; cache++) {
    for (int run = 0; run < 2; run++) {
      capl_source *source = open_files();
      assert_ok(capl_source_set_label(source, 0, run ? "ABCD" : "DCBA"));
      capl_loader_options options = {.batch = 1, .cache = (capl_cache)cache, .cache_dir = cache_dir};
      capl_loader *loader = make(source, &options);
      for (uint64_t epoch = 0; epoch < 2; epoch++) {
        capl_batch b;
        assert_ok(capl_loader_epoch(loader, epoch));
        assert_ok(capl_loader_next(loader, &b));
        assert_int_equal(b.labels[0], run ? 10 : 13);
      }
      capl_loader_free(loader);
    }
  }
}

/* Fixed sources that differ in one thing each. */
static capl_source *open_fixed(int i)
{
  static const char *const styles[] = {"lepture", "lepture", "lepture", "free", "free", "free"};
  static const capl_captcha_options options[] = {
    {0}, {0}, {.often = "0O", .times = 3}, {0}, {.rotate = {true, -5, 5}}, {.ink = {true, {0, 0, 0}, {9, 9, 9}}}};
  capl_source *source;
  if (i >= 6) {
    const capl_scene_set set = {.seed = 3, .count = N_FILES, .fixed = true, .channels = 1};
    if (i == 6) assert_ok(capl_source_faces_new(64, CAPL_FACE_PAINTED, &set, &source));
    else assert_ok(capl_source_slider_new(&(capl_slider_options){.width = 240, .height = 120, .size_lo = 32 + 2 * i},
                                          &set, &source));
    return source;
  }
  capl_captcha *gen;
  assert_ok(capl_captcha_new(styles[i], &options[i], &gen));
  assert_ok(capl_source_captcha_new(gen, i == 1 ? 4 : 3, 1, N_FILES, true, &source));
  capl_captcha_unref(gen);
  return source;
}

static void later_runs_find_what_a_generator_drew(void **state)
{
  (void)state;
  enum { KINDS = 9 };
  char seen[KINDS][600];
  for (int i = 0; i < KINDS; i++) {
    uint64_t expected[2];
    struct stat first, second;
    capl_loader_options none = {.batch = 7, .cache = CAPL_CACHE_NONE};
    capl_loader_options options = {.batch = 7, .workers = i % 3, .cache = CAPL_CACHE_DISK, .cache_dir = cache_dir};
    hash_two(open_fixed(i), &none, expected);
    forget_cache();
    check_same(open_fixed(i), &options, expected);
    assert_true(cache_file(seen[i]));
    assert_int_equal(stat(seen[i], &first), 0);
    check_same(open_fixed(i), &options, expected);
    assert_int_equal(stat(seen[i], &second), 0);
    /* nothing was written anew */
    assert_true(first.st_ino == second.st_ino && first.st_mtim.tv_nsec == second.st_mtim.tv_nsec);
    for (int k = 0; k < i; k++) assert_string_not_equal(seen[k], seen[i]);
  }
  forget_cache();
}

static void parts_of_a_folder_share_a_file(void **state)
{
  (void)state;
  forget_cache();
  capl_source *all = open_files(), *part[2];
  uint32_t ids[2][N_FILES / 2];
  for (uint32_t i = 0; i < N_FILES; i++) ids[i % 2][i / 2] = i;
  for (int cached = 0; cached < 2; cached++) {
    static uint64_t expected[2];
    for (int p = 0; p < 2; p++) {
      int samples;
      capl_loader_options options = {.batch = 8, .workers = 2, .cache = cached ? CAPL_CACHE_DISK : CAPL_CACHE_NONE,
                                     .cache_dir = cache_dir};
      assert_ok(capl_source_subset_new(all, ids[p], N_FILES / 2, &part[p]));
      capl_loader *loader = make(part[p], &options);
      for (uint64_t epoch = 0; epoch < 2; epoch++) {
        uint64_t hash = hash_epoch(loader, epoch, &samples);
        if (!cached && epoch == 0) expected[p] = hash;
        assert_true(hash == expected[p]);
      }
      capl_loader_free(loader);
    }
  }
  char path[600];
  assert_true(cache_file(path)); /* one for both */
  capl_source_unref(all);
}

static void bad_samples_stay_bad(void **state)
{
  for (int cache = CAPL_CACHE_NONE; cache <= CAPL_CACHE_DISK; cache++) {
    capl_source *source = open_files();
    cut_file(in_folder(capl_source_name(source, 5)), 3000);
    capl_loader_options options = options_of((capl_cache)cache, 2);
    options.on_error = CAPL_ON_ERROR_SKIP;
    static uint64_t expected[2];
    uint64_t hash[2];
    hash_two(capl_source_ref(source), &options, hash);
    if (cache == CAPL_CACHE_NONE) memcpy(expected, hash, sizeof hash);
    assert_memory_equal(hash, expected, sizeof hash);
    options.on_error = CAPL_ON_ERROR_STOP;
    options.shuffle = false;
    options.batch = 5;
    capl_loader *loader = make(source, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
      capl_batch b;
      assert_ok(capl_loader_epoch(loader, epoch));
      assert_ok(capl_loader_next(loader, &b));
      assert_int_equal(capl_loader_next(loader, &b), CAPL_EFORMAT);
    }
    capl_loader_free(loader);
    remove_folder(state);
    assert_int_equal(make_captchas(state), 0);
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", folder);
  }
}

/* ---- the file -------------------------------------------------------------------------------- */

static off_t size_of(const char *path)
{
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  return st.st_size;
}

/* Adds 1 to every `step`-th byte. */
static void spoil(const char *path, long step)
{
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  for (long at = step / 2; at < size_of(path); at += step) {
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c + 1, f);
  }
  fclose(f);
}

static void a_damaged_file_is_mended(void **state)
{
  (void)state;
  uint64_t expected[2];
  char path[600];
  capl_loader_options options = options_of(CAPL_CACHE_DISK, 2);
  expect(expected);
  forget_cache();
  check_same(open_files(), &options, expected);
  assert_true(cache_file(path));
  off_t whole = size_of(path);
  for (long step = 100; step < 200000; step *= 7) {
    spoil(path, step);
    check_same(open_files(), &options, expected);
    assert_int_equal(size_of(path), whole);
  }
  for (off_t keep = 0; keep < whole; keep += whole / 7) {
    cut_file(path, keep);
    check_same(open_files(), &options, expected);
    assert_int_equal(size_of(path), whole);
  }
}

static void a_file_that_is_cut_between_epochs_is_mended(void **state)
{
  (void)state;
  uint64_t expected[2];
  char path[600];
  int samples;
  capl_loader_options options = options_of(CAPL_CACHE_DISK, 2);
  expect(expected);
  for (long keep = 0; keep <= 5000; keep += 5000) { /* nothing, and the header with some hashes */
    forget_cache();
    capl_loader *loader = make(open_files(), &options);
    assert_true(hash_epoch(loader, 0, &samples) == expected[0]);
    assert_true(cache_file(path));
    off_t whole = size_of(path);
    cut_file(path, keep);
    assert_true(hash_epoch(loader, 1, &samples) == expected[1]);
    assert_true(hash_epoch(loader, 0, &samples) == expected[0]);
    assert_int_equal(size_of(path), whole);
    capl_loader_free(loader);
    check_same(open_files(), &options, expected); /* later runs take it up again */
  }
}

static void changed_images_are_read_anew(void **state)
{
  uint64_t expected[2], hash[2];
  capl_loader_options options = options_of(CAPL_CACHE_DISK, 2), none = options_of(CAPL_CACHE_NONE, 2);
  hash_two(open_files(), &options, expected);
  capl_source *source = open_files();
  uint8_t black[160 * 60] = {0};
  const char *name = in_folder(capl_source_name(source, 3));
  assert_ok(capl_png_write(name, black, 160, 60, 1));
  assert_int_equal(utime(name, &(struct utimbuf){1000000, 1000000}), 0);
  hash_two(capl_source_ref(source), &none, hash);
  assert_true(hash[0] != expected[0]);
  check_same(source, &options, hash);
  remove_folder(state);
  assert_int_equal(make_captchas(state), 0);
  snprintf(cache_dir, sizeof cache_dir, "%s/cache", folder);
}

static void without_room_the_run_goes_on(void **state)
{
  (void)state;
  uint64_t expected[2];
  char path[600];
  expect(expected);
  forget_cache();
  capl_loader_options options = options_of(CAPL_CACHE_DISK, 2);
  struct rlimit before, small = {100000, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &before);
  small.rlim_max = before.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  check_same(open_files(), &options, expected);
  capl_loader *loader = make(open_files(), &options);
  check_path(loader, ".u8: cannot be made: File too large");
  capl_loader_free(loader);
  setrlimit(RLIMIT_FSIZE, &before);
  assert_false(cache_file(path));
  options.cache_dir = in_folder("no/folder");
  write_bytes(in_folder("no"), "", 0);
  check_same(open_files(), &options, expected);
  loader = make(open_files(), &options);
  check_path(loader, "made on the host, not cached: ");
  check_path(loader, ": cannot be made: Not a directory");
  capl_loader_free(loader);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Reads both epochs in a process of its own. */
static pid_t reader(const capl_loader_options *options)
{
  fflush(NULL);
  pid_t pid = fork();
  if (pid != 0) return pid;
  uint64_t hash[2];
  hash_two(open_files(), options, hash);
  _exit(0);
}

static void a_killed_process_leaves_a_file_that_can_be_used(void **state)
{
  (void)state;
  uint64_t expected[2];
  expect(expected);
  capl_loader_options options = options_of(CAPL_CACHE_DISK, 2);
  for (int round = 0; round < 12; round++) {
    if (round % 4 == 0) forget_cache();
    pid_t pid = reader(&options);
    usleep((useconds_t)(round * 600));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (round % 4 == 3) check_same(open_files(), &options, expected);
  }
}

static void several_processes_fill_a_file_together(void **state)
{
  (void)state;
  enum { PROCESSES = 4 };
  uint64_t expected[2];
  pid_t pid[PROCESSES];
  expect(expected);
  capl_loader_options options = options_of(CAPL_CACHE_DISK, 1);
  forget_cache();
  for (int i = 0; i < PROCESSES; i++) pid[i] = reader(&options);
  for (int i = 0; i < PROCESSES; i++) {
    int status;
    assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
    assert_int_equal(status, 0);
  }
  char path[600];
  assert_true(cache_file(path)); /* and nothing temporary */
  check_same(open_files(), &options, expected);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void what_is_chosen_is_told(void **state)
{
  (void)state;
  capl_loader_options options = {.batch = 4, .cache_dir = cache_dir};
  capl_loader *loader = make(open_files(), &options);
  assert_string_equal(capl_loader_path(loader), "made on the host");
  check_path(loader, "made on the host, cached in memory, 0.4 MB");
  capl_loader_free(loader);
  loader = make(open_generator(10, false), &options);
  assert_ok(capl_loader_epoch(loader, 0));
  assert_string_equal(capl_loader_path(loader), "made on the host");
  capl_loader_free(loader);
  loader = make(open_generator(UINT32_MAX, true), &options);
  check_path(loader, "made on the host, not cached: its 41506");
  check_path(loader, " MB are more than half of the ");
  capl_loader_free(loader);
  options.cache = CAPL_CACHE_RAM;
  loader = make(open_generator(UINT32_MAX, true), &options);
  assert_int_equal(capl_loader_epoch(loader, 0), CAPL_ENOMEM);
  assert_non_null(strstr(capl_error_last()->message, "cache is ram, but its 41506"));
  capl_loader_free(loader);
}

static void close_unknown(capl_source *source)
{
  free(source);
}

/* Of a source that cannot tell what its samples are. */
static const capl_source_ops unknown_ops = {.close = close_unknown};

static void caches_that_cannot_be_are_refused(void **state)
{
  (void)state;
  capl_loader *loader;
  capl_source *fresh = open_generator(10, false);
  capl_loader_options options = {.batch = 4, .cache = CAPL_CACHE_RAM, .cache_dir = cache_dir};
  assert_fails(capl_loader_new(fresh, &options, &loader), CAPL_EVALUE,
               "cache is ram, but the source gives other images in every epoch");
  options.cache = CAPL_CACHE_DISK;
  assert_fails(capl_loader_new(fresh, &options, &loader), CAPL_EVALUE,
               "cache is disk, but the source gives other images in every epoch");
  capl_source *unknown = malloc(sizeof *unknown);
  *unknown = (capl_source){.ops = &unknown_ops, .refs = 1, .count = 4, .width = 8, .height = 8, .channels = 1,
                           .fixed = true};
  loader = make(unknown, &options);
  assert_fails(capl_loader_epoch(loader, 0), CAPL_EUNSUPPORTED,
               "cache is disk, but nothing identifies these samples in another run");
  capl_loader_free(loader);
  capl_source_unref(fresh);
}

static int make_all(void **state)
{
  if (make_captchas(state) != 0) return -1;
  snprintf(cache_dir, sizeof cache_dir, "%s/cache", folder);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(caches_do_not_change_the_bytes),
    cmocka_unit_test(the_second_epoch_needs_no_file),
    cmocka_unit_test(labels_are_those_of_this_run),
    cmocka_unit_test(later_runs_find_what_a_generator_drew),
    cmocka_unit_test(parts_of_a_folder_share_a_file),
    cmocka_unit_test(bad_samples_stay_bad),
    cmocka_unit_test(a_damaged_file_is_mended),
    cmocka_unit_test(a_file_that_is_cut_between_epochs_is_mended),
    cmocka_unit_test(changed_images_are_read_anew),
    cmocka_unit_test(without_room_the_run_goes_on),
    cmocka_unit_test(a_killed_process_leaves_a_file_that_can_be_used),
    cmocka_unit_test(several_processes_fill_a_file_together),
    cmocka_unit_test(what_is_chosen_is_told),
    cmocka_unit_test(caches_that_cannot_be_are_refused),
  };
  return cmocka_run_group_tests(tests, make_all, remove_folder);
}
