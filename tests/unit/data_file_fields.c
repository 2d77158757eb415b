/* data_file_fields.c -- tests of points, boxes and numbers in lists: every cut and many flips of such a list.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>

#include "data/list_file.h"

static const char *const corners[] = {"l", "t", "r", "b"}, *const ends[] = {"x", "y"}, *const two[] = {"n", "m"};
static const char *const keys[] = {"p", "q"}, *const boxes[] = {"b"}, *const one[] = {"n"};

/* Of a table, and of JSON lines. */
static const capl_list_options options[] = {
  {.images = {.fields = {.mask = {.column = "mask"}, .n_numbers = 3,
                         .numbers = {{"points", CAPL_FIELD_POINTS, ends, 2, 2},
                                     {"boxes", CAPL_FIELD_BOXES, corners, 4, 4},
                                     {"numbers", CAPL_FIELD_VALUES, two, 2, 1}}}}},
  {.images = {.fields = {.mask = {.column = "mask"}, .n_numbers = 3,
                         .numbers = {{"points", CAPL_FIELD_POINTS, keys, 2, 1},
                                     {"boxes", CAPL_FIELD_BOXES, boxes, 1, 1},
                                     {"numbers", CAPL_FIELD_VALUES, one, 1, 1}}}}}};
static const char *const lists[][2] = {
  {"a.csv", "path,mask,x,y,l,t,r,b,n,m\na.png,am.png,1,2.5,0,0,3,4,-1e3,5\nb.png,bm.png,,,,,,,7,8\n"},
  {"a.jsonl", "{\"path\": \"a.png\", \"mask\": \"am.png\", \"p\": [[1, 2], [3, 4, 0]], \"q\": [5, 6], \"b\": [], \"n\": 7}\n"
              "{\"path\": \"b.png\", \"mask\": \"bm.png\", \"p\": [[null, 2]], \"q\": [5, 6], \"b\": [[1, 2, 3, 4, 5]], \"n\": 7}\n"}};
enum { LISTS = sizeof lists / sizeof *lists };

/* Whether it was read; then all is there, and finite. */
static bool reads(int k, const char *text, size_t size)
{
  list_lines l = {0};
  char *exact = malloc(size + 1);
  memcpy(exact, text, size);
  assert_ok(file_fields_begin(&l.fields, &options[k].images.fields, lists[k][0]));
  capl_status status = list_lines_parse(exact, size, lists[k][0], &options[k], false, &l);
  for (int n = 0; status == CAPL_OK && n < l.fields.n_numbers; n++) {
    const field_numbers *f = &l.fields.numbers[n];
    assert_int_equal(f->samples, l.path.count);
    assert_int_equal(l.fields.path.count, l.path.count);
    for (size_t i = 0; i < f->rows * (size_t)f->width; i++) assert_true(isfinite(f->at[i]));
  }
  if (status != CAPL_OK) assert_true(strncmp(capl_error_last()->message, "a.", 2) == 0); /* the file is named */
  list_lines_fini(&l);
  free(exact);
  return status == CAPL_OK;
}

static void each_list_reads(void **state)
{
  (void)state;
  for (int k = 0; k < LISTS; k++) assert_true(reads(k, lists[k][1], strlen(lists[k][1])));
}

static void cut_lists_are_read_whole_or_refused(void **state)
{
  (void)state;
  for (int k = 0; k < LISTS; k++)
    for (size_t keep = 0; keep < strlen(lists[k][1]); keep++) reads(k, lists[k][1], keep);
}

static void flipped_bytes_are_read_or_refused(void **state)
{
  (void)state;
  char text[512];
  for (int k = 0; k < LISTS; k++) {
    size_t size = strlen(lists[k][1]);
    for (size_t at = 0; at < size; at++) {
      for (int to = 0; to < 256; to += 3) {
        memcpy(text, lists[k][1], size);
        text[at] = (char)to;
        reads(k, text, size);
      }
    }
  }
}

static void wrong_rows_are_refused(void **state)
{
  (void)state;
  field_numbers f = {0};
  capl_number_columns of = {"points", CAPL_FIELD_POINTS, corners, 4, 4};
  assert_fails(field_numbers_begin(&f, &of), CAPL_EVALUE,
               "points: 4 columns of 4 to a row; a row is \"x y\", or \"x y visible\" with 1 or 0");
  of = (capl_number_columns){"boxes", CAPL_FIELD_BOXES, corners, 3, 4};
  assert_int_equal(field_numbers_begin(&f, &of), CAPL_EVALUE);
  of = (capl_number_columns){"numbers", CAPL_FIELD_VALUES, corners, 0, 1};
  assert_int_equal(field_numbers_begin(&f, &of), CAPL_EVALUE);
}

static void folders_have_no_columns(void **state)
{
  (void)state;
  capl_source *source;
  const capl_folder_options of_folder = {.fields = {.mask = {.column = "m"}}};
  assert_fails(capl_source_folder_new("set", &of_folder, &source), CAPL_EVALUE,
               "set: a folder has no column m; masks lie beside the images");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_list_reads),
    cmocka_unit_test(cut_lists_are_read_whole_or_refused),
    cmocka_unit_test(flipped_bytes_are_read_or_refused),
    cmocka_unit_test(wrong_rows_are_refused),
    cmocka_unit_test(folders_have_no_columns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
