/* data_cache.c -- tests of what a loader keeps between epochs: the same bytes from memory; what is told and refused.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_loading.h"


#include "capl/synth.h"
#include "data/source.h"

static capl_loader_options options_of(capl_cache cache, int workers)
{
  return (capl_loader_options){
    .batch = 7, .workers = workers, .shuffle = true, .seed = 5, .augment = &augment, .cache = cache};
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

static void check_path(capl_loader *loader, const char *expected)
{
  assert_ok(capl_loader_epoch(loader, 0));
  if (!strstr(capl_loader_path(loader), expected)) fail_msg("\"%s\" is not in \"%s\"", expected, capl_loader_path(loader));
}

/* ---- the same bytes -------------------------------------------------------------------------- */

static void caches_do_not_change_the_bytes(void **state)
{
  (void)state;
  static const int threads[] = {0, 1, 2, 3, 7};
  uint64_t expected[2];
  expect(expected);
  for (int cache = CAPL_CACHE_AUTO; cache <= CAPL_CACHE_RAM; cache++) {
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
      capl_loader_options options = options_of((capl_cache)cache, threads[i]);
      check_same(open_files(), &options, expected);
    }
  }
}

static void the_second_epoch_needs_no_file(void **state)
{
  capl_loader_options options = options_of(CAPL_CACHE_RAM, 2);
  uint64_t expected[2];
  int samples;
  expect(expected);
  capl_loader *loader = make(open_files(), &options);
  assert_true(hash_epoch(loader, 0, &samples) == expected[0]);
  const capl_source *source = capl_loader_source(loader);
  for (uint32_t i = 0; i < N_FILES; i++) assert_int_equal(unlink(in_folder(capl_source_name(source, i))), 0);
  assert_true(hash_epoch(loader, 1, &samples) == expected[1]);
  capl_loader_free(loader);
  remove_folder(state);
  assert_int_equal(make_captchas(state), 0);
}

static void labels_are_those_of_this_run(void **state)
{
  (void)state;
  for (int run = 0; run < 2; run++) {
    capl_source *source = open_files();
    assert_ok(capl_source_set_label(source, 0, run ? "ABCD" : "DCBA"));
    capl_loader_options options = {.batch = 1, .cache = CAPL_CACHE_RAM};
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

/* Fixed sources that differ in one thing each. */
static capl_source *open_fixed(int i)
{
  static const char *const styles[] = {"lepture", "lepture", "lepture", "free", "free", "free"};
  static const capl_captcha_options options[] = {
    {0}, {0}, {.often = "0O", .times = 3}, {0}, {.rotate = {true, -5, 5}}, {.ink = {true, {0, 0, 0}, {9, 9, 9}}}};
  capl_source *source;
  if (i >= 6) {
    const capl_scene_set set = {.seed = 3, .count = N_FILES, .fixed = true, .channels = 1};
    if (i == 6) assert_ok(capl_source_faces_new(64, &set, &source));
    else assert_ok(capl_source_slider_new(&(capl_slider_options){.width = 240, .height = 120, .size_lo = 32 + 2 * i}, &set, &source));
    return source;
  }
  capl_captcha *gen;
  assert_ok(capl_captcha_new(styles[i], &options[i], &gen));
  assert_ok(capl_source_captcha_new(gen, i == 1 ? 4 : 3, 1, N_FILES, true, &source));
  capl_captcha_unref(gen);
  return source;
}

static void hashes_tell_what_a_generator_draws(void **state)
{
  (void)state;
  enum { KINDS = 9 };
  char seen[KINDS][CAPL_SOURCE_HASH_TEXT], again[CAPL_SOURCE_HASH_TEXT];
  for (int i = 0; i < KINDS; i++) {
    capl_source *source = open_fixed(i), *same = open_fixed(i);
    assert_ok(capl_source_hash(source, seen[i]));
    assert_ok(capl_source_hash(same, again));
    assert_string_equal(seen[i], again);
    for (int k = 0; k < i; k++) assert_string_not_equal(seen[k], seen[i]);
    capl_source_unref(source);
    capl_source_unref(same);
  }
}

static void bad_samples_stay_bad(void **state)
{
  for (int cache = CAPL_CACHE_NONE; cache <= CAPL_CACHE_RAM; cache++) {
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
  }
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void what_is_chosen_is_told(void **state)
{
  (void)state;
  capl_loader_options options = {.batch = 4};
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

static void caches_that_cannot_be_are_refused(void **state)
{
  (void)state;
  capl_loader *loader;
  capl_source *fresh = open_generator(10, false);
  capl_loader_options options = {.batch = 4, .cache = CAPL_CACHE_RAM};
  assert_fails(capl_loader_new(fresh, &options, &loader), CAPL_EVALUE, "cache is ram, but the source gives other images in every epoch");
  capl_source_unref(fresh);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(caches_do_not_change_the_bytes),
    cmocka_unit_test(the_second_epoch_needs_no_file),
    cmocka_unit_test(labels_are_those_of_this_run),
    cmocka_unit_test(hashes_tell_what_a_generator_draws),
    cmocka_unit_test(bad_samples_stay_bad),
    cmocka_unit_test(what_is_chosen_is_told),
    cmocka_unit_test(caches_that_cannot_be_are_refused),
  };
  return cmocka_run_group_tests(tests, make_captchas, remove_folder);
}
