/* data_folder.c -- tests of the folder source: listing, labels, sizes.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <sys/stat.h>

#include "data/resize.h"

static void write_image(const char *name, int width, int height)
{
  static uint8_t pixels[64 * 64 * 3];
  for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 29 + i / 3);
  assert_ok(capl_png_write(in_folder(name), pixels, width, height, 3));
}

static int make_files(void **state)
{
  if (make_folder(state) != 0) return -1;
  static const char *const folders[] = {"set", "set/b", "set/b/deep", "set/.hidden", "empty"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
    if (mkdir(in_folder(folders[i]), 0777) != 0) return -1;
  }
  static const char *const files[] = {"set/zz_1.png", "set/AB_1.PNG", "set/b/aa_2.png", "set/b/deep/Q_1.png",
                                      "set/b.png", "set/.hidden/no.png", "set/.no.png"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) write_image(files[i], 8, 6);
  write_bytes(in_folder("set/readme.txt"), "x", 1);
  return symlink(in_folder("set"), in_folder("set/b/loop")) == 0 ? 0 : -1;
}

static capl_source *open_set(const capl_folder_options *options)
{
  capl_source *source;
  assert_ok(capl_source_folder_new(in_folder("set"), options, &source));
  return source;
}

/* what, with the test's folder put where %s stands. */
static const char *said(const char *what)
{
  static char text[1024];
  snprintf(text, sizeof text, what, folder);
  return text;
}

static void files_are_listed_bytewise_by_path(void **state)
{
  (void)state;
  capl_source *source = open_set(NULL);
  static const char *const expected[] = {"AB_1.PNG", "b.png", "b/aa_2.png", "b/deep/Q_1.png", "zz_1.png"};
  assert_int_equal(capl_source_count(source), 5);
  for (uint32_t i = 0; i < 5; i++) assert_string_equal(capl_source_name(source, i), expected[i]);
  assert_null(capl_source_name(source, 5));
  assert_int_equal(capl_source_width(source) * 100 + capl_source_height(source), 806);
  assert_int_equal(capl_source_length(source), 0);
  capl_source_unref(source);
}

static void a_folder_that_cannot_be_used_is_named(void **state)
{
  (void)state;
  capl_source *source;
  assert_fails(capl_source_folder_new("/no/such", NULL, &source), CAPL_EIO,
               "/no/such: cannot be listed: No such file or directory");
  assert_fails(capl_source_folder_new(in_folder("empty"), NULL, &source), CAPL_EVALUE,
               said("%s/empty: holds no *.png, *.jpg or *.jpeg file"));
  assert_fails(capl_source_folder_new(in_folder("set"), &(capl_folder_options){.width = 8}, &source), CAPL_EVALUE,
               said("%s/set: image size is 8 x 0 px; give both sides, or neither"));
  assert_fails(capl_source_folder_new(in_folder("set"), &(capl_folder_options){.charset = "a", .length = 40}, &source),
               CAPL_EVALUE, said("%s/set: label length is 40; it must be 1..32"));
}

static void images_that_are_not_read_are_counted(void **state)
{
  (void)state;
  const char *first;
  capl_source *source = open_set(NULL);
  assert_int_equal(capl_source_left_out(source, &first), 0);
  assert_null(first);
  capl_source_unref(source);
  write_bytes(in_folder("set/z.gif"), "x", 1);
  write_bytes(in_folder("set/b/y.WebP"), "x", 1);
  source = open_set(NULL);
  assert_int_equal(capl_source_left_out(source, &first), 2);
  assert_string_equal(first, "b/y.WebP");
  capl_source_unref(source);
  source = NULL;
  assert_ok(capl_source_folder_new(in_folder("set/b"), NULL, &source));
  assert_int_equal(capl_source_left_out(source, &first), 1);
  capl_source *part;
  assert_ok(capl_source_subset_new(source, &(uint32_t){0}, 1, &part));
  assert_int_equal(capl_source_left_out(part, &first), 0);
  capl_source_unref(part);
  capl_source_unref(source);
  assert_int_equal(remove(in_folder("set/z.gif")), 0);
  assert_int_equal(remove(in_folder("set/b/y.WebP")), 0);
}

static void labels_become_class_ids(void **state)
{
  (void)state;
  capl_source *source = open_set(&(capl_folder_options){.charset = "A-Z", .length = 3, .variable = true});
  uint8_t pixels[48];
  int32_t labels[3];
  assert_ok(capl_source_set_label(source, 0, "CAB"));
  assert_ok(capl_source_read(source, 0, 0, &(capl_sample){.pixels = pixels, .labels = labels}));
  assert_memory_equal(labels, ((int32_t[]){2, 0, 1}), sizeof labels);
  assert_ok(capl_source_set_label(source, 0, "Z"));
  assert_ok(capl_source_read(source, 0, 0, &(capl_sample){.pixels = pixels, .labels = labels}));
  assert_memory_equal(labels, ((int32_t[]){25, -1, -1}), sizeof labels);
  capl_source_unref(source);
}

static void a_label_that_does_not_fit_names_the_file_and_the_character(void **state)
{
  (void)state;
  capl_source *source = open_set(&(capl_folder_options){.charset = "A-Z", .length = 3});
  uint8_t pixels[48];
  int32_t labels[3];
  const char *outside = "%s/set/b.png: label \"AaB\" has 'a' at position 2, which is not in the charset "
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ (it has 'A')";
  assert_fails(capl_source_set_label(source, 1, "AaB"), CAPL_EVALUE, said(outside));
  assert_fails(capl_source_read(source, 0, 1, &(capl_sample){.pixels = pixels, .labels = labels}), CAPL_EVALUE,
               said(outside));
  assert_fails(capl_source_set_label(source, 1, "AB"), CAPL_EVALUE,
               said("%s/set/b.png: label \"AB\" has 2 characters; expected 3"));
  assert_fails(capl_source_read(source, 0, 2, &(capl_sample){.pixels = pixels, .labels = labels}), CAPL_ESTATE,
               said("%s/set/b/aa_2.png: has no label"));
  assert_fails(capl_source_set_label(source, 5, "ABC"), CAPL_EVALUE, "sample 5 does not exist; the source has 5");
  capl_source_unref(source);
  source = open_set(NULL);
  assert_fails(capl_source_set_label(source, 0, "A"), CAPL_ESTATE,
               said("%s/set: labels need a charset; data.folder was called without one"));
  capl_source_unref(source);
}

static void an_image_of_another_size_names_the_file_and_both_sizes(void **state)
{
  (void)state;
  uint8_t pixels[64 * 64 * 3];
  capl_source *source = open_set(&(capl_folder_options){.width = 10, .height = 6, .channels = 3});
  assert_fails(capl_source_read(source, 0, 4, &(capl_sample){.pixels = pixels}), CAPL_ESHAPE,
               said("%s/set/zz_1.png: the image is 8 x 6 px; expected 10 x 6"));
  capl_source_unref(source);
}

static void resizing_fits_every_file(void **state)
{
  (void)state;
  uint8_t pixels[10 * 7 * 3], expected[sizeof pixels];
  capl_image image = {0};
  capl_source *source = open_set(&(capl_folder_options){.width = 10, .height = 7, .channels = 3, .resize = true});
  for (uint32_t i = 0; i < capl_source_count(source); i++) {
    char name[64];
    snprintf(name, sizeof name, "set/%s", capl_source_name(source, i));
    assert_ok(capl_png_read(in_folder(name), 3, &image));
    assert_ok(resize_image(image.pixels, image.width, image.height, 3, 10, 7, expected));
    assert_ok(capl_source_read(source, 0, i, &(capl_sample){.pixels = pixels}));
    assert_memory_equal(pixels, expected, sizeof pixels);
  }
  capl_image_fini(&image);
  capl_source_unref(source);
}

static void a_broken_first_file_says_how_to_go_on(void **state)
{
  (void)state;
  capl_source *source;
  cut_file(in_folder("set/AB_1.PNG"), 20);
  assert_fails(capl_source_folder_new(in_folder("set"), NULL, &source), CAPL_EFORMAT,
               said("%s/set/AB_1.PNG: damaged PNG: the file ends too early"));
  assert_string_equal(capl_error_last()->hint,
                      "the first file sets the image size; repair it, or give width and height");
  source = open_set(&(capl_folder_options){.width = 8, .height = 6});
  capl_source_unref(source);
  write_image("set/AB_1.PNG", 8, 6);
}

static void a_pipe_among_the_images_is_named_and_not_waited_for(void **state)
{
  (void)state;
  uint8_t pixels[48];
  assert_int_equal(mkfifo(in_folder("set/a_pipe.png"), 0600), 0);
  capl_source *source = open_set(NULL);
  assert_string_equal(capl_source_name(source, 1), "a_pipe.png");
  assert_fails(capl_source_read(source, 0, 1, &(capl_sample){.pixels = pixels}), CAPL_EIO,
               said("%s/set/a_pipe.png: cannot be read: it is a pipe, not a file"));
  capl_source_unref(source);
  assert_int_equal(unlink(in_folder("set/a_pipe.png")), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(files_are_listed_bytewise_by_path),
    cmocka_unit_test(a_folder_that_cannot_be_used_is_named),
    cmocka_unit_test(images_that_are_not_read_are_counted),
    cmocka_unit_test(labels_become_class_ids),
    cmocka_unit_test(a_label_that_does_not_fit_names_the_file_and_the_character),
    cmocka_unit_test(an_image_of_another_size_names_the_file_and_both_sizes),
    cmocka_unit_test(resizing_fits_every_file),
    cmocka_unit_test(a_broken_first_file_says_how_to_go_on),
    cmocka_unit_test(a_pipe_among_the_images_is_named_and_not_waited_for),
  };
  return cmocka_run_group_tests(tests, make_files, remove_folder);
}
