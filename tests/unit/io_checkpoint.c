/* io_checkpoint.c -- tests of checkpoint files: what is written is what is read, and no damage passes for a checkpoint.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capl/capl.h"
#include "capl/io.h"
#include "io/checkpoint.h"

static char path[64];
static capl_device *host;

static int begin(void **state)
{
  (void)state;
  snprintf(path, sizeof path, "checkpoint_%d.capl", (int)getpid());
  return capl_device_open("ref", &host) == CAPL_OK ? 0 : -1;
}

static int end(void **state)
{
  (void)state;
  return unlink(path);
}

static capl_tensor *numbers(int64_t n, float first)
{
  capl_tensor *t;
  assert_int_equal(capl_tensor_new(host, CAPL_F32, 1, &n, CAPL_ROW, &t), CAPL_OK);
  for (int64_t i = 0; i < n; i++) ((float *)capl_tensor_data(t))[i] = first + (float)i;
  return t;
}

static void save(const char *tree)
{
  capl_named_tensor list[] = {{(char *)"a", numbers(5, 1)}, {(char *)"b.c", numbers(3, 0.5f)}};
  assert_int_equal(checkpoint_save(path, tree, list, 2), CAPL_OK);
  for (int i = 0; i < 2; i++) capl_tensor_unref(list[i].tensor);
}

static char *content(size_t *len)
{
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *data = calloc(1, 1 << 16);
  *len = fread(data, 1, 1 << 16, file);
  fclose(file);
  return data;
}

static capl_status parse(const char *data, size_t len)
{
  char *tree;
  capl_named_tensor *list;
  int n;
  capl_status status = checkpoint_parse("FILE", data, len, host, &tree, &list, &n);
  if (status == CAPL_OK) {
    capl_named_tensors_free(list, n);
  } else {
    assert_null(tree);
    assert_null(list);
  }
  free(tree);
  return status;
}

static void a_checkpoint_gives_back_its_tree_and_its_tensors(void **state)
{
  (void)state;
  char *tree;
  capl_named_tensor *list;
  int n;
  save("{\"step\": 3, \"text\": \"a \\\"quoted\\\" é\\n\"}");
  assert_int_equal(checkpoint_load(path, host, &tree, &list, &n), CAPL_OK);
  assert_string_equal(tree, "{\"step\": 3, \"text\": \"a \\\"quoted\\\" é\\n\"}");
  assert_int_equal(n, 2);
  assert_string_equal(list[0].name, "a");
  assert_true(((float *)capl_tensor_data(list[1].tensor))[2] == 2.5f);
  capl_named_tensors_free(list, n);
  free(tree);
}

static void any_reader_of_safetensors_can_look_into_a_checkpoint(void **state)
{
  (void)state;
  capl_named_tensor *list;
  int n;
  save("{}");
  assert_int_equal(capl_safetensors_load(path, host, &list, &n), CAPL_OK);
  assert_int_equal(n, 3); /* the hash is one of them */
  capl_named_tensors_free(list, n);
}

static void a_checkpoint_cut_at_any_byte_is_an_error(void **state)
{
  (void)state;
  size_t len;
  save("{\"step\": 1}");
  char *data = content(&len);
  for (size_t cut = 0; cut < len; cut++) {
    char *copy = malloc(cut + 1); /* so that the sanitizer sees a byte too many */
    memcpy(copy, data, cut);
    assert_int_equal(parse(copy, cut), CAPL_EFORMAT);
    assert_non_null(strstr(capl_error_last()->message, "FILE"));
    free(copy);
  }
  assert_int_equal(parse(data, len - 1), CAPL_EFORMAT);
  assert_non_null(strstr(capl_error_last()->message, "of the"));
  assert_int_equal(parse(data, len), CAPL_OK);
  free(data);
}

static void a_checkpoint_with_any_flipped_bit_is_an_error(void **state)
{
  (void)state;
  size_t len;
  save("{\"step\": 1}");
  char *data = content(&len);
  for (size_t i = 0; i < len; i++) {
    char flip = (char)(1 << i % 8);
    data[i] ^= flip;
    assert_int_equal(parse(data, len), CAPL_EFORMAT);
    data[i] ^= flip;
  }
  assert_int_equal(parse(data, len), CAPL_OK);
  free(data);
}

static void bytes_behind_the_end_of_a_checkpoint_are_an_error(void **state)
{
  (void)state;
  size_t len;
  save("{}");
  char *data = content(&len);
  assert_int_equal(parse(data, len + 8), CAPL_EFORMAT);
  free(data);
}

static void a_file_of_weights_is_no_checkpoint(void **state)
{
  (void)state;
  capl_named_tensor list[] = {{(char *)"a", numbers(50, 1)}};
  size_t len;
  assert_int_equal(capl_safetensors_save(path, list, 1), CAPL_OK);
  capl_tensor_unref(list[0].tensor);
  char *data = content(&len);
  assert_int_equal(parse(data, len), CAPL_EFORMAT);
  assert_string_equal(capl_error_last()->message, "FILE is no checkpoint, only tensors");
  assert_string_equal(capl_error_last()->hint, "--init_from=FILE starts with its weights");
  free(data);
}

/* 8 bytes of length, so many bytes of header, and the file made that long by a hole. */
static void write_file(uint64_t header_len, const char *header, uint64_t size)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite(&header_len, 1, sizeof header_len, file);
  fwrite(header, 1, strlen(header), file);
  fclose(file);
  if (size) assert_int_equal(truncate(path, (off_t)size), 0);
}

static char *many_tensors(int n)
{
  char *text = malloc((size_t)n * 64 + 16), *at = text;
  assert_non_null(text);
  *at++ = '{';
  for (int i = 0; i < n; i++)
    at += sprintf(at, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "", i);
  strcpy(at, "}");
  return text;
}

/* Within a second of processor time, whatever a stranger's file says of itself: the error it is refused with. */
static void assert_refused_at_once(const char *why)
{
  char *tree;
  capl_named_tensor *list;
  int n;
  clock_t from = clock();
  assert_int_equal(capl_safetensors_load(path, host, &list, &n), CAPL_EFORMAT);
  assert_non_null(strstr(capl_error_last()->message, why));
  assert_int_equal(checkpoint_load(path, host, &tree, &list, &n), CAPL_EFORMAT);
  assert_true(clock() - from < 2 * CLOCKS_PER_SEC); /* of two readers */
}

static void files_that_claim_too_much_are_refused_within_a_second(void **state)
{
  (void)state;
  char *many = many_tensors(300000);
  write_file(strlen(many), many, 0);
  assert_refused_at_once("JSON with more than 2097152 values");
  free(many);
  write_file(1ull << 34, "{}", 1ull << 34);
  assert_refused_at_once("its header length does not fit");
  write_file(UINT64_MAX, "{}", 100);
  assert_refused_at_once("its header length does not fit");
  write_file(2, "{}", 1ull << 34);
  assert_refused_at_once("17179869184 bytes of the 10 that its header names");
}

static void thousands_of_tensors_are_read_soon(void **state)
{
  (void)state;
  char *many = many_tensors(60000);
  capl_named_tensor *list;
  int n;
  write_file(strlen(many), many, 0);
  free(many);
  clock_t from = clock();
  assert_int_equal(capl_safetensors_load(path, host, &list, &n), CAPL_OK);
  assert_true(clock() - from < 3 * CLOCKS_PER_SEC);
  assert_int_equal(n, 60000);
  capl_named_tensors_free(list, n);
}

static void a_checkpoint_that_cannot_be_written_leaves_the_former_one(void **state)
{
  (void)state;
  size_t before, after;
  save("{\"step\": 1}");
  char *data = content(&before), name[80];
  capl_named_tensor list[] = {{(char *)"a", numbers(5, 1)}, {(char *)"a", NULL}};
  list[1].tensor = list[0].tensor;
  assert_int_equal(checkpoint_save(path, "{}", list, 2), CAPL_EVALUE);
  snprintf(name, sizeof name, "no/%s", path);
  assert_int_equal(checkpoint_save(name, "{}", list, 1), CAPL_EIO);
  capl_tensor_unref(list[0].tensor);
  char *now = content(&after);
  assert_true(before == after && memcmp(data, now, after) == 0);
  free(data);
  free(now);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_checkpoint_gives_back_its_tree_and_its_tensors),
    cmocka_unit_test(any_reader_of_safetensors_can_look_into_a_checkpoint),
    cmocka_unit_test(a_checkpoint_cut_at_any_byte_is_an_error),
    cmocka_unit_test(a_checkpoint_with_any_flipped_bit_is_an_error),
    cmocka_unit_test(bytes_behind_the_end_of_a_checkpoint_are_an_error),
    cmocka_unit_test(a_file_of_weights_is_no_checkpoint),
    cmocka_unit_test(files_that_claim_too_much_are_refused_within_a_second),
    cmocka_unit_test(thousands_of_tensors_are_read_soon),
    cmocka_unit_test(a_checkpoint_that_cannot_be_written_leaves_the_former_one),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
