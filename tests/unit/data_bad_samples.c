/* data_bad_samples.c -- tests of bad samples: the error that names them, replacements, the list, the limit.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_loading.h"

#include "data/bad_samples.h"

/* Samples 7, 19, 23 and 30 of the sorted folder become truncated, empty, missing and another kind of file. */
static capl_source *open_with_damage(void)
{
  capl_source *source = open_files();
  cut_file(in_folder(capl_source_name(source, 7)), 3000);
  cut_file(in_folder(capl_source_name(source, 19)), 0);
  unlink(in_folder(capl_source_name(source, 23)));
  write_bytes(in_folder(capl_source_name(source, 30)), "GIF89a", 6);
  return source;
}

static int restore_files(void **state)
{
  return remove_folder(state) || make_captchas(state);
}

static void stop_delivers_the_good_batches_and_then_names_the_file(void **state)
{
  (void)state;
  for (int workers = 0; workers <= 3; workers++) {
    capl_source *source = open_with_damage();
    capl_loader *loader = make(capl_source_ref(source),
                               &(capl_loader_options){.batch = 4, .workers = workers, .prefetch = 8});
    char expected[600];
    capl_batch b;
    assert_ok(capl_loader_epoch(loader, 2));
    assert_ok(capl_loader_next(loader, &b));
    assert_int_equal(b.count, 4);
    snprintf(expected, sizeof expected, "%s/%s: damaged PNG: the file ends too early", folder,
             capl_source_name(source, 7));
    for (int again = 0; again < 2; again++) {
      assert_fails(capl_loader_next(loader, &b), CAPL_EFORMAT, expected);
      assert_string_equal(capl_error_last()->context, "sample 7, epoch 2");
      assert_int_equal(b.count, 0);
    }
    capl_loader_free(loader);
    capl_source_unref(source);
    restore_files(state);
  }
}

static void skip_replaces_bad_samples_the_same_way_for_any_number_of_threads(void **state)
{
  (void)state;
  uint64_t expected = 0;
  capl_source *source = open_with_damage();
  for (int workers = 0; workers <= 3; workers++) {
    capl_loader_options options = {.batch = 16, .workers = workers, .shuffle = true, .on_error = CAPL_ON_ERROR_SKIP,
                                   .max_bad = 0.1};
    capl_loader *loader = make(capl_source_ref(source), &options);
    int samples;
    uint64_t hash = hash_epoch(loader, 1, &samples);
    if (workers == 0) expected = hash;
    assert_true(hash == expected);
    assert_int_equal(samples, N_FILES);
    capl_loader_stats stats;
    capl_loader_stats_get(loader, &stats);
    assert_int_equal(stats.substituted, 4);
    assert_int_equal(stats.bad, 4);
    capl_loader_free(loader);
  }
  capl_source_unref(source);
  restore_files(state);
}

static void skip_lists_the_bad_files_in_order(void **state)
{
  (void)state;
  static const uint32_t ids[] = {7, 19, 23, 30};
  static const char *const reasons[] = {"damaged PNG: the file ends too early", "the file is empty",
                                        "cannot be read: No such file or directory",
                                        "the file is GIF, not PNG or JPEG"};
  capl_source *source = open_with_damage();
  capl_loader_options options = {.batch = 16, .workers = 2, .shuffle = true, .on_error = CAPL_ON_ERROR_SKIP,
                                 .max_bad = 0.1};
  capl_loader *loader = make(capl_source_ref(source), &options);
  int samples;
  hash_epoch(loader, 1, &samples);
  uint32_t id;
  const char *message;
  for (uint32_t i = 0; i < 4; i++) {
    char expected[600];
    assert_true(capl_loader_bad_get(loader, i, &id, &message));
    assert_int_equal(id, ids[i]);
    snprintf(expected, sizeof expected, "%s/%s: %s", folder, capl_source_name(source, id), reasons[i]);
    assert_string_equal(message, expected);
  }
  assert_false(capl_loader_bad_get(loader, 4, &id, &message));
  capl_loader_free(loader);
  capl_source_unref(source);
  restore_files(state);
}

static void skip_gives_up_when_nothing_is_good(void **state)
{
  (void)state;
  capl_source *source = open_files();
  for (uint32_t i = 0; i < capl_source_count(source); i++) cut_file(in_folder(capl_source_name(source, i)), 50);
  capl_loader *loader = make(source, &(capl_loader_options){.batch = 8, .workers = 2, .on_error = CAPL_ON_ERROR_SKIP});
  capl_batch b;
  assert_ok(capl_loader_epoch(loader, 0));
  assert_int_equal(capl_loader_next(loader, &b), CAPL_EFORMAT);
  assert_string_equal(capl_error_last()->hint, "16 samples in a row were tried in place of a bad one; all are bad");
  capl_loader_free(loader);
  restore_files(state);
}

/* What a loader tells when its source has too many bad samples. */
static void check_failure(capl_source *source, int workers, double max_bad, int good, const char *expected,
                          uint32_t listed)
{
  capl_loader_options options = {.batch = 4, .workers = workers, .prefetch = 8, .on_error = CAPL_ON_ERROR_SKIP,
                                 .max_bad = max_bad};
  capl_loader *loader = make(capl_source_ref(source), &options);
  capl_loader_stats stats;
  capl_batch b;
  assert_ok(capl_loader_epoch(loader, 2));
  for (int i = 0; i < good; i++) {
    assert_ok(capl_loader_next(loader, &b));
    assert_int_equal(b.count, 4);
  }
  for (int again = 0; again < 2; again++) assert_fails(capl_loader_next(loader, &b), CAPL_EFORMAT, expected);
  assert_non_null(strstr(capl_error_last()->context, "damaged PNG"));
  capl_loader_stats_get(loader, &stats);
  assert_int_equal(stats.bad, listed);
  capl_loader_free(loader);
}

static void skip_fails_as_soon_as_too_many_are_bad(void **state)
{
  capl_source *source = open_with_damage();
  for (int workers = 0; workers <= 3; workers++) {
    check_failure(source, workers, 0, 4, "epoch 2 has met 2 bad samples; max_bad = 0.01 of its 40 allows 1", 2);
    check_failure(source, workers, 0.05, 5, "epoch 2 has met 3 bad samples; max_bad = 0.05 of its 40 allows 2", 3);
    check_failure(source, workers, 0.08, 7, "epoch 2 has met 4 bad samples; max_bad = 0.08 of its 40 allows 3", 4);
  }
  capl_source_unref(source);
  restore_files(state);
}

static void a_new_epoch_counts_its_bad_samples_anew(void **state)
{
  capl_source *source = open_with_damage();
  capl_loader_options options = {.batch = 4, .workers = 2, .on_error = CAPL_ON_ERROR_SKIP, .max_bad = 0.1};
  capl_loader *loader = make(source, &options);
  capl_loader_stats stats;
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    int samples;
    hash_epoch(loader, epoch, &samples);
    assert_int_equal(samples, N_FILES);
  }
  capl_loader_stats_get(loader, &stats);
  assert_int_equal(stats.bad, 4);
  assert_int_equal(stats.substituted, 12);
  capl_loader_free(loader);
  restore_files(state);
}

static void what_was_only_read_ahead_is_not_listed(void **state)
{
  capl_source *source = open_with_damage();
  capl_loader_options options = {.batch = 4, .workers = 3, .prefetch = 16, .on_error = CAPL_ON_ERROR_SKIP,
                                 .max_bad = 0.1};
  capl_loader *loader = make(source, &options);
  capl_loader_stats stats;
  capl_batch b;
  assert_ok(capl_loader_epoch(loader, 0));
  for (int i = 0; i < 2; i++) assert_ok(capl_loader_next(loader, &b));
  usleep(50000); /* enough for all of them */
  capl_loader_stats_get(loader, &stats);
  assert_int_equal(stats.bad, 1);
  assert_ok(capl_loader_epoch(loader, 0));
  assert_ok(capl_loader_next(loader, &b));
  capl_loader_stats_get(loader, &stats);
  assert_int_equal(stats.bad, 1);
  capl_loader_free(loader);
  restore_files(state);
}

static void the_list_stays_in_order_however_samples_come(void **state)
{
  (void)state;
  bad_list list = {0};
  enum { COUNT = 1000 };
  for (uint32_t i = 0; i < COUNT; i++) bad_list_add(&list, i * 7919 % COUNT, i, "first");
  bad_list_add(&list, 5, 0, "second");
  assert_int_equal(bad_list_count(&list, COUNT), COUNT);
  for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(bad_list_get(&list, COUNT, i)->id, i);
  assert_string_equal(bad_list_get(&list, COUNT, 5)->message, "first");
  assert_int_equal(bad_list_get(&list, COUNT, 5)->batch, 0);
  bad_list_forget(&list, 10);
  assert_int_equal(bad_list_count(&list, COUNT), 11);
  assert_null(bad_list_get(&list, COUNT, 11));
  bad_list_fini(&list);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(stop_delivers_the_good_batches_and_then_names_the_file),
    cmocka_unit_test(skip_replaces_bad_samples_the_same_way_for_any_number_of_threads),
    cmocka_unit_test(skip_lists_the_bad_files_in_order),
    cmocka_unit_test(skip_gives_up_when_nothing_is_good),
    cmocka_unit_test(skip_fails_as_soon_as_too_many_are_bad),
    cmocka_unit_test(a_new_epoch_counts_its_bad_samples_anew),
    cmocka_unit_test(what_was_only_read_ahead_is_not_listed),
    cmocka_unit_test(the_list_stays_in_order_however_samples_come),
  };
  return cmocka_run_group_tests(tests, make_captchas, remove_folder);
}
