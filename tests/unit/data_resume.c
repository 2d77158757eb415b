/* data_resume.c -- tests of loaders that are stopped anywhere and go on elsewhere, and of what they leave behind.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_loading.h"

#include <dirent.h>
#include <time.h>

#include "capl/rng.h"

/* ---- stopped anywhere ------------------------------------------------------------------------ */

/* A trial's dice. */
static uint32_t below(capl_rng *rng, uint32_t n)
{
  return capl_rng_below(rng, n);
}

static capl_loader_options options_of(capl_rng *rng)
{
  static char cache_dir[300];
  int world = 1 + (int)below(rng, 3);
  snprintf(cache_dir, sizeof cache_dir, "%s/cache", folder);
  return (capl_loader_options){
    .batch = 1 + (int)below(rng, 9),
    .seed = below(rng, 1000),
    .shuffle = below(rng, 4) > 0,
    .drop_last = below(rng, 2),
    .world = world,
    .rank = (int)below(rng, (uint32_t)world),
    .once = below(rng, 2),
    .on_error = CAPL_ON_ERROR_SKIP,
    .max_bad = 1,
    .type = CAPL_PIXEL_U8,
    .augment = below(rng, 2) ? &augment : NULL,
    .cache = (capl_cache)below(rng, 4),
    .cache_dir = cache_dir,
  };
}

/* How fast batches are made, which may not matter. */
static void hurry(capl_rng *rng, capl_loader_options *options)
{
  options->workers = (int)below(rng, 4);
  options->prefetch = 1 + (int)below(rng, 5);
}

static uint64_t hash_to_the_next_epochs_end(capl_loader *loader, uint64_t epoch)
{
  int samples;
  uint64_t rest = hash_rest(loader, &samples);
  return rest * 31 + hash_epoch(loader, epoch + 1, &samples);
}

static void check_trial(capl_source *source, capl_rng *rng)
{
  capl_loader_options options = options_of(rng);
  if (options.cache == CAPL_CACHE_DISK && !capl_source_name(source, 0)) options.cache = CAPL_CACHE_NONE;
  uint64_t epoch = below(rng, 5), expected;
  uint8_t bytes[CAPL_LOADER_STATE_BYTES];
  capl_loader_state state;
  capl_batch b;
  hurry(rng, &options);
  capl_loader *loader = make(capl_source_ref(source), &options);
  uint32_t batches = below(rng, (uint32_t)capl_loader_batches(loader) + 1);
  assert_ok(capl_loader_epoch(loader, epoch));
  for (uint32_t i = 0; i < batches; i++) assert_ok(capl_loader_next(loader, &b));
  capl_loader_state_get(loader, &state);
  capl_loader_state_pack(&state, bytes);
  if (below(rng, 2)) { /* the state stays good while the loader goes on */
    expected = hash_to_the_next_epochs_end(loader, epoch);
    capl_loader_free(loader);
  } else { /* its threads are ahead of it when it ends */
    capl_loader_free(loader);
    loader = make(capl_source_ref(source), &options);
    assert_ok(capl_loader_epoch(loader, epoch));
    for (uint32_t i = 0; i < batches; i++) assert_ok(capl_loader_next(loader, &b));
    expected = hash_to_the_next_epochs_end(loader, epoch);
    capl_loader_free(loader);
  }
  options.seed = 77; /* the state brings its own */
  hurry(rng, &options);
  loader = make(capl_source_ref(source), &options);
  capl_loader_state_unpack(bytes, &state);
  assert_ok(capl_loader_state_set(loader, &state));
  assert_true(hash_to_the_next_epochs_end(loader, epoch) == expected);
  capl_loader_free(loader);
}

static void a_run_goes_on_from_any_batch_of_any_loader(void **state)
{
  (void)state;
  enum { TRIALS = 60 };
  capl_source *files = open_files(), *fixed = open_generator(N_FILES, true);
  cut_file(in_folder(capl_source_name(files, 9)), 3000);
  for (uint32_t trial = 0; trial < TRIALS; trial++) {
    capl_rng rng;
    capl_rng_init(&rng, 3, trial, 0, 0);
    check_trial(trial % 3 ? files : fixed, &rng);
  }
  capl_source_unref(files);
  capl_source_unref(fixed);
}

/* ---- what is left behind --------------------------------------------------------------------- */

static int entries(const char *path)
{
  int n = 0;
  DIR *dir = opendir(path);
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
  closedir(dir);
  return n;
}

/* Threads of this process that bear the loader's name. */
static int loader_threads(void)
{
  DIR *dir = opendir("/proc/self/task");
  int named = 0;
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
    FILE *f = fopen(path, "r");
    if (!f) continue;
    if (fgets(name, sizeof name, f)) named += strcmp(name, "capl-loader\n") == 0;
    fclose(f);
  }
  closedir(dir);
  return named;
}

/* A list of a million lines that name the same few files. */
static capl_source *open_million(void)
{
  enum { LINES = 1000000 };
  capl_source *files = open_files(), *source;
  const char *list = in_folder("list.tsv");
  FILE *f = fopen(list, "w");
  assert_non_null(f);
  for (uint32_t i = 0; i < LINES; i++) {
    const char *name = capl_source_name(files, i % N_FILES);
    fprintf(f, "%s\t%.4s\n", name, name);
  }
  assert_int_equal(fclose(f), 0);
  assert_ok(capl_source_list_new(list, &(capl_list_options){.images = {.charset = "0-9A-Z"}}, &source));
  assert_int_equal(capl_source_count(source), LINES);
  capl_source_unref(files);
  return source;
}

static double milliseconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void a_million_files_take_no_more_descriptors_than_threads(void **state)
{
  (void)state;
  enum { WORKERS = 3 };
  capl_source *source = open_million();
  int before = entries("/proc/self/fd");
  capl_loader_options options = {.batch = 100, .workers = WORKERS, .shuffle = true, .cache = CAPL_CACHE_NONE,
                                 .prefetch = 6};
  capl_loader *loader = make(source, &options);
  capl_batch b;
  assert_ok(capl_loader_epoch(loader, 0));
  for (int i = 0; i < 20; i++) {
    assert_ok(capl_loader_next(loader, &b));
    int open = entries("/proc/self/fd");
    if (open > before + WORKERS) fail_msg("%d descriptors are open, %d before", open, before);
  }
  assert_int_equal(loader_threads(), WORKERS);
  double since = milliseconds();
  capl_loader_free(loader);
  double took = milliseconds() - since;
  if (took > 500) fail_msg("stopping took %g ms", took); /* a few on an idle machine */
  assert_int_equal(entries("/proc/self/fd"), before);
  assert_int_equal(loader_threads(), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_million_files_take_no_more_descriptors_than_threads),
    cmocka_unit_test(a_run_goes_on_from_any_batch_of_any_loader),
  };
  return cmocka_run_group_tests(tests, make_captchas, remove_folder);
}
