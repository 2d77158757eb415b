/* data_fields.c -- tests of what samples have beside image and text: fields come with their rows, images or not.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "data/source.h"
#include "unit.h"

enum { WIDTH = 6, HEIGHT = 4, POINTS = 2, N = 50 };

/* What field i of sample id holds in its place at. */
static float expected(uint32_t epoch, uint32_t id, int i, size_t at)
{
  return (float)((epoch * 7 + id * 3 + (uint32_t)i * 31 + (uint32_t)at) % 251);
}

static capl_status numbered_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  (void)scratch;
  if (what->id == 13) return CAPL_FAIL(CAPL_EFORMAT, "13 is bad");
  for (int i = 0; i < source->n_fields; i++) {
    const capl_field *field = &source->field[i];
    for (size_t at = 0; at < capl_field_count(field); at++) {
      float value = expected(source->fixed ? 0 : what->epoch, what->id, i, at);
      if (field->kind == CAPL_FIELD_MASK) ((uint8_t *)to->field[i])[at] = (uint8_t)value;
      else ((float *)to->field[i])[at] = value;
    }
  }
  for (int i = 0; i < source->width * source->height; i++) to->pixels[i] = (uint8_t)what->id;
  return CAPL_OK;
}

static void numbered_close(capl_source *source)
{
  free(source);
}

/* Its samples' numbers tell which sample they are of. */
static capl_source *numbered(bool images)
{
  static const capl_source_ops ops = {.read = numbered_read, .close = numbered_close};
  capl_source *s = malloc(sizeof *s);
  assert_non_null(s);
  *s = (capl_source){.ops = &ops, .refs = 1, .count = N, .n_fields = 2, .fixed = false};
  if (images) {
    s->width = WIDTH, s->height = HEIGHT, s->channels = 1;
    s->field[0] = (capl_field){"mask", CAPL_FIELD_MASK, 2, {HEIGHT, WIDTH}};
    s->field[1] = (capl_field){"points", CAPL_FIELD_POINTS, 2, {POINTS, 3}};
  } else {
    s->field[0] = (capl_field){"input", CAPL_FIELD_VALUES, 3, {5, 2, 3}};
    s->field[1] = (capl_field){"value", CAPL_FIELD_VALUES, 1, {1}};
  }
  return s;
}

static void check_row(const capl_source *source, const capl_batch *b, uint32_t epoch, int row)
{
  for (int i = 0; i < source->n_fields; i++) {
    const capl_field *field = &source->field[i];
    size_t count = capl_field_count(field);
    for (size_t at = 0; at < count; at++) {
      size_t place = (size_t)row * count + at;
      float got = field->kind == CAPL_FIELD_MASK ? ((const uint8_t *)b->field[i])[place]
          : ((const float *)b->field[i])[place];
      assert_true(got == expected(epoch, b->ids[row], i, at));
    }
  }
}

static int check_epoch(capl_loader *loader, uint32_t number, uint32_t epoch)
{
  const capl_source *source = capl_loader_source(loader);
  capl_batch b;
  int samples = 0;
  assert_ok(capl_loader_epoch(loader, number));
  for (;;) {
    assert_ok(capl_loader_next(loader, &b));
    if (b.count == 0) return samples;
    assert_int_equal(b.images != NULL, source->width > 0);
    assert_null(b.labels);
    for (int i = 0; i < CAPL_FIELDS_MAX; i++) assert_int_equal(b.field[i] != NULL, i < source->n_fields);
    for (int row = 0; row < b.count; row++) {
      check_row(source, &b, epoch, row);
      if (b.images) assert_int_equal(((const uint8_t *)b.images)[row * WIDTH * HEIGHT], b.ids[row]);
    }
    samples += b.count;
  }
}

/* Fixed samples are those of epoch 0, from wherever they are kept. */
static void check_loader(bool images, const capl_augment_options *augment, bool fixed)
{
  for (int workers = 0; workers <= 3; workers++) {
    capl_source *source = numbered(images);
    source->fixed = fixed;
    capl_loader_options o = {.batch = 7, .workers = workers, .shuffle = true, .on_error = CAPL_ON_ERROR_SKIP,
                             .type = CAPL_PIXEL_U8, .augment = augment};
    capl_loader *loader;
    assert_ok(capl_loader_new(source, &o, &loader));
    capl_source_unref(source);
    for (uint32_t epoch = 0; epoch < 3; epoch++) assert_int_equal(check_epoch(loader, epoch, fixed ? 0 : epoch), N);
    capl_loader_free(loader);
  }
}

static void fields_come_with_their_images(void **state)
{
  (void)state;
  check_loader(true, NULL, false);
}

static void samples_without_images_are_loaded_too(void **state)
{
  (void)state;
  check_loader(false, NULL, false);
}

static void fields_are_kept_with_their_samples(void **state)
{
  (void)state;
  check_loader(true, NULL, true);
  check_loader(false, NULL, true);
}

static void a_field_knows_its_size(void **state)
{
  (void)state;
  capl_source *source = numbered(true);
  assert_int_equal(capl_source_fields(source), 2);
  assert_string_equal(capl_source_field(source, 1)->name, "points");
  assert_null(capl_source_field(source, 2));
  assert_int_equal(capl_field_bytes(capl_source_field(source, 0)), WIDTH * HEIGHT);
  assert_int_equal(capl_field_bytes(capl_source_field(source, 1)), POINTS * 3 * 4);
  capl_source_unref(source);
}

static void augmentation_needs_images(void **state)
{
  (void)state;
  capl_source *source = numbered(false);
  capl_loader *loader;
  capl_loader_options o = {.batch = 4, .augment = &(capl_augment_options){.noise = {1, 2}}};
  assert_fails(capl_loader_new(source, &o, &loader), CAPL_EVALUE, "augment changes images, and the source has none");
  capl_source_unref(source);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fields_come_with_their_images),
    cmocka_unit_test(samples_without_images_are_loaded_too),
    cmocka_unit_test(fields_are_kept_with_their_samples),
    cmocka_unit_test(a_field_knows_its_size),
    cmocka_unit_test(augmentation_needs_images),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
