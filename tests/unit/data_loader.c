/* data_loader.c -- tests of the loader: same bytes for any number of threads, resuming, bad samples.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_loading.h"

#include <math.h>
#include <time.h>

#include "base/float16.h"
#include "data/source.h"

enum { SLOW_US = 2000 };

/* ---- order ----------------------------------------------------------------------------------- */

static void the_shuffle_is_a_bijection_for_any_size(void **state)
{
  (void)state;
  static uint8_t seen[70000];
  static const uint32_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097, 65536, 70000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    memset(seen, 0, sizeof seen);
    for (uint32_t p = 0; p < sizes[i]; p++) {
      uint32_t id = capl_shuffle(42, i, sizes[i], p);
      assert_true(id < sizes[i]);
      assert_int_equal(seen[id]++, 0);
    }
  }
  assert_true(capl_shuffle(1, 2, UINT32_MAX, 3) != capl_shuffle(1, 3, UINT32_MAX, 3));
}

static void the_shuffle_leaves_no_pattern(void **state)
{
  (void)state;
  enum { N = 10000 };
  double sum = 0, fixed = 0;
  for (uint32_t p = 0; p < N; p++) {
    uint32_t id = capl_shuffle(7, 1, N, p);
    sum += (p - (N - 1) / 2.0) * (id - (N - 1) / 2.0);
    fixed += id == p;
  }
  double correlation = sum / (N * ((double)N * N - 1) / 12);
  assert_true(fabs(correlation) < 0.05); /* 5 sigma */
  assert_true(fixed < 10);
}

/* ---- the same bytes -------------------------------------------------------------------------- */

static void batches_are_the_same_for_any_number_of_threads(void **state)
{
  (void)state;
  for (int files = 0; files < 2; files++) {
    uint64_t expected[2] = {0};
    for (int workers = 0; workers <= 3; workers++) {
      capl_loader_options options = {.batch = 24, .workers = workers, .shuffle = true, .seed = 5, .augment = &augment};
      capl_loader *loader = make(files ? open_files() : open_generator(110, false), &options);
      for (uint64_t epoch = 0; epoch < 2; epoch++) {
        int samples;
        uint64_t hash = hash_epoch(loader, epoch, &samples);
        assert_int_equal(samples, files ? N_FILES : 110);
        if (workers == 0) expected[epoch] = hash;
        assert_true(hash == expected[epoch]);
      }
      assert_true(expected[0] != expected[1]);
      capl_loader_free(loader);
    }
  }
}

static void prefetch_does_not_change_the_bytes(void **state)
{
  (void)state;
  uint64_t expected = 0;
  for (int prefetch = 1; prefetch <= 9; prefetch += 4) {
    capl_loader *loader = make(open_generator(200, false),
                               &(capl_loader_options){.batch = 7, .workers = 2, .prefetch = prefetch});
    int samples;
    uint64_t hash = hash_epoch(loader, 1, &samples);
    if (!expected) expected = hash;
    assert_true(hash == expected);
    capl_loader_free(loader);
  }
}

static void a_run_resumes_in_the_middle_of_an_epoch(void **state)
{
  (void)state;
  for (int workers = 0; workers <= 2; workers++) {
    capl_loader_options options = {.batch = 16, .workers = workers, .shuffle = true, .seed = 77, .augment = &augment};
    capl_loader *loader = make(open_generator(150, false), &options);
    capl_batch b;
    capl_loader_state s;
    int rest, resumed;
    assert_ok(capl_loader_epoch(loader, 4));
    for (int i = 0; i < 3; i++) assert_ok(capl_loader_next(loader, &b));
    capl_loader_state_get(loader, &s);
    assert_true(s.seed == 77 && s.epoch == 4 && s.position == 48);
    uint64_t expected = hash_rest(loader, &rest);
    options.seed = 1; /* the state brings its own */
    capl_loader *other = make(open_generator(150, false), &options);
    assert_ok(capl_loader_state_set(other, &s));
    assert_true(hash_rest(other, &resumed) == expected);
    assert_int_equal(resumed, 150 - 48);
    assert_int_equal(rest, resumed);
    capl_loader_state_get(other, &s);
    assert_int_equal(s.position, 150);
    assert_ok(capl_loader_state_set(loader, &s));
    assert_ok(capl_loader_next(loader, &b));
    assert_int_equal(b.count, 0);
    capl_loader_free(loader);
    capl_loader_free(other);
  }
}

static void an_epoch_can_be_left_in_the_middle(void **state)
{
  (void)state;
  capl_loader *loader = make(open_generator(500, false),
                             &(capl_loader_options){.batch = 50, .workers = 2, .prefetch = 4});
  capl_batch b;
  int samples;
  uint64_t expected = hash_epoch(loader, 2, &samples);
  for (int i = 0; i < 10; i++) {
    assert_ok(capl_loader_epoch(loader, (uint64_t)i + 10));
    assert_ok(capl_loader_next(loader, &b));
  }
  assert_true(hash_epoch(loader, 2, &samples) == expected);
  capl_loader_free(loader);
}

static void a_fixed_generator_repeats_itself_and_a_fresh_one_does_not(void **state)
{
  (void)state;
  int samples;
  capl_loader_options options = {.batch = 10};
  capl_loader *fixed = make(open_generator(30, true), &options), *fresh = make(open_generator(30, false), &options);
  uint64_t first = hash_epoch(fixed, 1, &samples);
  assert_true(hash_epoch(fixed, 2, &samples) == first);
  assert_true(hash_epoch(fresh, 1, &samples) != hash_epoch(fresh, 2, &samples));
  assert_true(hash_epoch(fresh, 1, &samples) != first);
  capl_loader_free(fixed);
  capl_loader_free(fresh);
}

/* ---- sizes of epochs ------------------------------------------------------------------------- */

static void the_tail_is_kept_or_dropped(void **state)
{
  (void)state;
  int samples;
  capl_loader *exact = make(open_generator(50, true), &(capl_loader_options){.batch = 16});
  capl_loader *cut = make(open_generator(50, true), &(capl_loader_options){.batch = 16, .drop_last = true});
  hash_epoch(exact, 0, &samples);
  assert_int_equal(samples, 50);
  assert_int_equal(capl_loader_batches(exact), 4);
  hash_epoch(cut, 0, &samples);
  assert_int_equal(samples, 48);
  assert_int_equal(capl_loader_samples(cut), 48);
  capl_loader_free(exact);
  capl_loader_free(cut);
}

static void ranks_share_an_epoch_without_overlap(void **state)
{
  (void)state;
  enum { N = 50, WORLD = 4 };
  int seen[N] = {0}, padded = 0;
  for (int rank = 0; rank < WORLD; rank++) {
    capl_loader_options options = {.batch = 5, .workers = 1, .shuffle = true, .rank = rank, .world = WORLD};
    capl_loader *loader = make(open_generator(N, true), &options);
    capl_batch b;
    assert_int_equal(capl_loader_samples(loader), rank < 2 ? 13 : 12); /* 10 are left of the last step */
    assert_int_equal(capl_loader_all_samples(loader), N);
    assert_ok(capl_loader_epoch(loader, 3));
    for (;;) {
      assert_ok(capl_loader_next(loader, &b));
      if (b.count == 0) break;
      padded += b.padded;
      for (int i = 0; i < b.count - b.padded; i++) seen[b.ids[i]]++;
    }
    capl_loader_free(loader);
  }
  assert_int_equal(padded, 0);
  for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void images_are_normalized_as_asked(void **state)
{
  (void)state;
  capl_source *source = open_generator(4, true);
  static uint8_t level[160 * 60];
  int32_t labels[4];
  assert_ok(capl_source_read(source, 0, 0, &(capl_sample){.pixels = level, .labels = labels}));
  double sum = 0, squares = 0;
  for (int i = 0; i < 9600; i++) sum += level[i], squares += (double)level[i] * level[i];
  double mean = sum / 9600, deviation = sqrt(squares / 9600 - mean * mean);
  static const capl_norm norms[] = {CAPL_NORM_UNIT, CAPL_NORM_STANDARDIZE, CAPL_NORM_MEAN_STD};
  for (int k = 0; k < 3; k++) {
    for (int type = CAPL_PIXEL_F32; type <= CAPL_PIXEL_F16; type++) {
      capl_loader_options o = {.batch = 2, .norm = norms[k], .type = (capl_pixel_type)type, .mean = {0.5f},
                               .std = {0.25f}};
      capl_loader *loader = make(capl_source_ref(source), &o);
      capl_batch b;
      assert_ok(capl_loader_epoch(loader, 0));
      assert_ok(capl_loader_next(loader, &b));
      assert_int_equal((uintptr_t)b.images % 64, 0);
      assert_memory_equal(b.labels, labels, sizeof labels);
      for (int i = 0; i < 9600; i++) {
        double unit = level[i] / 255.0, value[3] = {unit, (level[i] - mean) / deviation, (unit - 0.5) / 0.25};
        float got = type == CAPL_PIXEL_F32 ? ((const float *)b.images)[i] : 0;
        if (type == CAPL_PIXEL_U8) assert_int_equal(((const uint8_t *)b.images)[i], level[i]);
        if (type == CAPL_PIXEL_U8) continue;
        if (type == CAPL_PIXEL_BF16) {
          uint32_t bits = (uint32_t)((const uint16_t *)b.images)[i] << 16;
          memcpy(&got, &bits, sizeof got);
        }
        if (type == CAPL_PIXEL_F16) got = capl_f16_to_float(((const uint16_t *)b.images)[i]);
        double tolerance = type == CAPL_PIXEL_F16 ? 1e-4 + fabs(value[k]) / 2048 : type == CAPL_PIXEL_F32 ? 1e-4
            : 1e-4 + fabs(value[k]) / 256;
        if (fabs(got - value[k]) > tolerance) fail_msg("pixel %d is %g; expected %g", i, got, value[k]);
      }
      capl_loader_free(loader);
    }
  }
  capl_source_unref(source);
}

static void statistics_count_what_was_handed_out(void **state)
{
  (void)state;
  capl_loader *loader = make(open_generator(64, false), &(capl_loader_options){.batch = 16, .augment = &augment});
  capl_batch b;
  capl_loader_stats stats;
  assert_ok(capl_loader_epoch(loader, 0));
  for (int i = 0; i < 3; i++) assert_ok(capl_loader_next(loader, &b));
  capl_loader_stats_get(loader, &stats);
  assert_int_equal(stats.batches, 3);
  assert_int_equal(stats.samples, 48);
  assert_int_equal(stats.augmented, 48);
  capl_loader_free(loader);
  loader = make(open_generator(64, false),
                &(capl_loader_options){.batch = 16, .augment = &(capl_augment_options){.invert = 0}});
  assert_ok(capl_loader_epoch(loader, 0));
  assert_ok(capl_loader_next(loader, &b));
  capl_loader_stats_get(loader, &stats);
  assert_int_equal(stats.augmented, 0);
  capl_loader_free(loader);
}

/* Takes its time over each sample. */
static capl_status read_slowly(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  (void)what, (void)scratch;
  usleep(SLOW_US);
  memset(to->pixels, 0, (size_t)source->width * (size_t)source->height);
  return CAPL_OK;
}

static void close_slow(capl_source *source)
{
  free(source);
}

static capl_source *open_slow(uint32_t count)
{
  static const capl_source_ops ops = {.read = read_slowly, .close = close_slow};
  capl_source *source = calloc(1, sizeof *source);
  assert_non_null(source);
  *source = (capl_source){.ops = &ops, .refs = 1, .count = count, .width = 8, .height = 8, .channels = 1};
  return source;
}

static void work_that_the_caller_does_itself_is_waiting(void **state)
{
  (void)state;
  capl_loader *loader = make(open_slow(8), &(capl_loader_options){.batch = 2});
  capl_batch b;
  capl_loader_stats stats;
  assert_ok(capl_loader_epoch(loader, 0));
  for (int i = 0; i < 3; i++) assert_ok(capl_loader_next(loader, &b));
  capl_loader_stats_get(loader, &stats);
  assert_true(stats.wait_seconds >= 6 * SLOW_US * 1e-6 && stats.wait_seconds <= stats.seconds);
  capl_loader_free(loader);
}

static void the_last_batchs_step_is_part_of_the_epochs_time(void **state)
{
  (void)state;
  capl_loader *loader = make(open_generator(8, false), &(capl_loader_options){.batch = 8});
  capl_batch b;
  capl_loader_stats before, after;
  assert_ok(capl_loader_epoch(loader, 0));
  assert_ok(capl_loader_next(loader, &b));
  capl_loader_stats_get(loader, &before);
  usleep(20000); /* what is done with it */
  for (int again = 0; again < 2; again++) { /* the end is told once */
    assert_ok(capl_loader_next(loader, &b));
    assert_int_equal(b.count, 0);
    capl_loader_stats_get(loader, &after);
    assert_true(again ? after.seconds == before.seconds : after.seconds - before.seconds >= 0.02);
    before = after;
    usleep(1000);
  }
  assert_true(after.wait_seconds < after.seconds - 0.019);
  capl_loader_free(loader);
}

/* ---- options, shutdown ----------------------------------------------------------------------- */

static void options_that_cannot_be_met_are_refused(void **state)
{
  (void)state;
  capl_source *source = open_generator(10, true);
  capl_loader *loader;
  static const struct {
    capl_loader_options options;
    const char *message;
  } cases[] = {
    {{.batch = 0}, "batch is 0; it must be at least 1"},
    {{.batch = 1, .workers = -1}, "workers is -1; it must be 0..256"},
    {{.batch = 1, .prefetch = 5000}, "prefetch is 5000; it must be 0..1024"},
    {{.batch = 1, .max_bad = 2}, "max_bad is 2; it is a share, 0..1"},
    {{.batch = 1, .rank = 2, .world = 2}, "rank 2 of 2 does not exist"},
    {{.batch = 11, .drop_last = true},
     "batch is 11 but there are only 10 samples, so drop_last leaves no batch at all"},
    {{.batch = 1, .norm = CAPL_NORM_MEAN_STD}, "channel 0: mean 0 and std 0; std must be above 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_fails(capl_loader_new(source, &cases[i].options, &loader), CAPL_EVALUE, cases[i].message);
  }
  loader = make(capl_source_ref(source), &(capl_loader_options){.batch = 4});
  capl_batch b;
  assert_fails(capl_loader_next(loader, &b), CAPL_ESTATE, "no epoch has been begun; call capl_loader_epoch first");
  assert_fails(capl_loader_epoch(loader, 1ull << 31), CAPL_EVALUE,
               "epoch is 2147483648; the last possible one is 2147483647");
  assert_fails(capl_loader_state_set(loader, &(capl_loader_state){.position = 11}), CAPL_EVALUE,
               "the state is at sample 11 of an epoch of 10; it was taken from another source");
  capl_loader_free(loader);
  assert_fails(capl_loader_new(source, &(capl_loader_options){.batch = 1, .pin = CAPL_PIN_ON}, &loader),
               CAPL_EUNSUPPORTED, "pin is true, but batches are made on the host: only a GPU copies from page-locked "
                                  "memory");
  capl_source_unref(source);
}

static void a_state_is_24_bytes_in_a_file(void **state)
{
  (void)state;
  static const uint8_t expected[24] = {8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  uint8_t bytes[CAPL_LOADER_STATE_BYTES];
  capl_loader_state s;
  capl_loader_state_pack(&(capl_loader_state){0x0102030405060708, 9, 256}, bytes);
  assert_memory_equal(bytes, expected, sizeof expected);
  capl_loader_state_unpack(bytes, &s);
  assert_true(s.seed == 0x0102030405060708 && s.epoch == 9 && s.position == 256);
}

static void a_loader_stops_within_milliseconds(void **state)
{
  (void)state;
  capl_loader *loader = make(open_generator(0, false),
                             &(capl_loader_options){.batch = 512, .workers = 3, .prefetch = 8});
  assert_ok(capl_loader_epoch(loader, 0));
  usleep(20000);
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  capl_loader_free(loader);
  clock_gettime(CLOCK_MONOTONIC, &to);
  double ms = 1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec);
  if (ms > 500) fail_msg("stopping took %g ms", ms); /* 1 ms on an idle machine */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_shuffle_is_a_bijection_for_any_size),
    cmocka_unit_test(the_shuffle_leaves_no_pattern),
    cmocka_unit_test(batches_are_the_same_for_any_number_of_threads),
    cmocka_unit_test(prefetch_does_not_change_the_bytes),
    cmocka_unit_test(a_run_resumes_in_the_middle_of_an_epoch),
    cmocka_unit_test(an_epoch_can_be_left_in_the_middle),
    cmocka_unit_test(a_fixed_generator_repeats_itself_and_a_fresh_one_does_not),
    cmocka_unit_test(the_tail_is_kept_or_dropped),
    cmocka_unit_test(ranks_share_an_epoch_without_overlap),
    cmocka_unit_test(images_are_normalized_as_asked),
    cmocka_unit_test(statistics_count_what_was_handed_out),
    cmocka_unit_test(work_that_the_caller_does_itself_is_waiting),
    cmocka_unit_test(the_last_batchs_step_is_part_of_the_epochs_time),
    cmocka_unit_test(options_that_cannot_be_met_are_refused),
    cmocka_unit_test(a_state_is_24_bytes_in_a_file),
    cmocka_unit_test(a_loader_stops_within_milliseconds),
  };
  return cmocka_run_group_tests(tests, make_captchas, remove_folder);
}
