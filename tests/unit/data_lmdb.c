/* data_lmdb.c -- tests of databases: there and back, what is wrong with one, and readers that die, hang or talk
** nonsense. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <dirent.h>
#include <sys/stat.h>

#include "data/lmdb.h"

enum { W = 8, H = 6, COUNT = 30 };

/* Readers built with sanitizers take long to start: they are started less often. */
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

static void draw(int i, uint8_t pixels[W * H])
{
  for (int k = 0; k < W * H; k++) pixels[k] = (uint8_t)(i * 31 + k * 5);
}

/* The next record of a database: image i, with the text "007" for 7. */
static capl_status append(capl_lmdb_writer *w, int i, bool labelled)
{
  uint8_t pixels[W * H], *bytes;
  size_t size;
  char text[16];
  draw(i, pixels);
  snprintf(text, sizeof text, "%03d", i);
  assert_ok(capl_png_encode(pixels, W, H, 1, &bytes, &size));
  capl_status status = capl_lmdb_append(w, bytes, size, labelled ? text : NULL);
  free(bytes);
  return status;
}

static void make_database(const char *name, int count, bool labelled)
{
  capl_lmdb_writer *w;
  assert_ok(capl_lmdb_create(in_folder(name), &w));
  for (int i = 0; i < count; i++) assert_ok(append(w, i, labelled));
  assert_ok(capl_lmdb_commit(w));
  capl_lmdb_free(w);
}

static const char *said(const char *what)
{
  static char text[1024];
  snprintf(text, sizeof text, what, folder);
  return text;
}

static const capl_lmdb_options digits = {.images = {.charset = "0-9", .length = 3}};

static void check_samples(capl_source *source)
{
  assert_int_equal(capl_source_count(source), COUNT);
  assert_int_equal(capl_source_width(source) * 100 + capl_source_height(source), W * 100 + H);
  for (int k = 0; k < 2 * COUNT; k++) {
    int i = k * 7 % COUNT; /* in any order, again and again */
    uint8_t pixels[W * H], expected[W * H];
    int32_t labels[3];
    draw(i, expected);
    assert_ok(capl_source_read(source, 0, (uint32_t)i, &(capl_sample){.pixels = pixels, .labels = labels}));
    assert_memory_equal(pixels, expected, sizeof pixels);
    assert_memory_equal(labels, ((int32_t[]){0, i / 10, i % 10}), sizeof labels);
  }
}

static void what_was_written_is_read(void **state)
{
  (void)state;
  capl_source *source;
  assert_ok(capl_source_lmdb_new(in_folder("set"), &digits, &source));
  check_samples(source);
  assert_string_equal(capl_source_name(source, 6), "image-000000007");
  assert_string_equal(capl_source_text(source, 6), "006");
  capl_source_unref(source);
  assert_ok(capl_source_lmdb_new(in_folder("set/data.mdb"), &digits, &source)); /* the file itself will do */
  check_samples(source);
  capl_source_unref(source);
}

static void more_than_fits_into_memory_lies_in_a_file_without_a_name(void **state)
{
  (void)state;
  capl_lmdb_options options = digits;
  options.memory = 700; /* some records in memory, the others not */
  setenv("TMPDIR", folder, 1);
  capl_source *source;
  assert_ok(capl_source_lmdb_new(in_folder("set"), &options, &source));
  check_samples(source);
  DIR *dir = opendir(folder);
  for (struct dirent *e; (e = readdir(dir));) assert_null(strstr(e->d_name, "capl-"));
  closedir(dir);
  capl_source_unref(source);
  setenv("TMPDIR", "/nowhere", 1);
  assert_fails(capl_source_lmdb_new(in_folder("set"), &options, &source), CAPL_EIO,
               "/nowhere: the temporary file for data larger than memory cannot be made: No such file or directory");
  unsetenv("TMPDIR");
}

static void many_databases_leave_no_descriptor_and_no_child(void **state)
{
  (void)state;
  int before = dup(0);
  close(before);
  for (int i = 0; i < 25; i++) {
    capl_source *source;
    assert_ok(capl_source_lmdb_new(in_folder("set"), NULL, &source));
    capl_source_unref(source);
  }
  int after = dup(0);
  close(after);
  assert_int_equal(after, before);
  char path[64], line[64] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *f = fopen(path, "r");
  if (f) assert_null(fgets(line, sizeof line, f));
  if (f) fclose(f);
}

static void a_folder_of_files_is_packed_as_it_is(void **state)
{
  (void)state;
  assert_int_equal(mkdir(in_folder("files"), 0777), 0);
  for (int i = 0; i < COUNT; i++) {
    char name[32];
    uint8_t pixels[W * H];
    draw(i, pixels);
    snprintf(name, sizeof name, "files/%03d.png", i);
    assert_ok(capl_png_write(in_folder(name), pixels, W, H, 1));
  }
  capl_source *source;
  assert_ok(capl_source_folder_new(in_folder("files"), NULL, &source));
  for (uint32_t i = 0; i < COUNT; i++) {
    char text[16];
    snprintf(text, sizeof text, "%03u", i);
    assert_ok(capl_source_set_text(source, i, text));
  }
  assert_ok(capl_lmdb_pack(source, in_folder("packed"), NULL));
  assert_fails(capl_lmdb_pack(source, in_folder("packed"), NULL), CAPL_EIO,
               said("%s/packed: is there already; a database is only written anew"));
  capl_source_unref(source);
  assert_ok(capl_source_lmdb_new(in_folder("packed"), &digits, &source));
  check_samples(source);
  capl_source_unref(source);
}

static bool is_there(const char *name)
{
  return access(in_folder(name), F_OK) == 0;
}

static int entries(void)
{
  int n = 0;
  DIR *dir = opendir(folder);
  while (readdir(dir)) n++;
  closedir(dir);
  return n;
}

static void what_is_not_committed_leaves_nothing(void **state)
{
  (void)state;
  int before = entries();
  capl_lmdb_writer *w;
  assert_ok(capl_lmdb_create(in_folder("half"), &w));
  assert_ok(append(w, 0, true));
  assert_fails(append(w, 1, false), CAPL_EVALUE,
               said("%s/half: record 2 has no label, the records before it have one"));
  assert_fails(capl_lmdb_append(w, "x", 0, "a"), CAPL_EVALUE,
               said("%s/half: record 2: an image has 1 byte to 64 MiB, not 0 bytes"));
  capl_lmdb_free(w);
  assert_ok(capl_lmdb_create(in_folder("half"), &w));
  assert_fails(capl_lmdb_commit(w), CAPL_EVALUE, said("%s/half: no record was written"));
  capl_lmdb_free(w);
  assert_false(is_there("half"));
  assert_int_equal(entries(), before);
  assert_int_equal(capl_lmdb_create(in_folder("no/such"), &w), CAPL_EIO);
  assert_non_null(strstr(capl_error_last()->message, "cannot be made: No such file or directory"));
}

static void a_large_database_grows_as_it_must(void **state)
{
  (void)state;
  enum { RECORDS = 150, BYTES = 1 << 20 };
  uint8_t *bytes = malloc(BYTES);
  capl_lmdb_writer *w;
  assert_ok(capl_lmdb_create(in_folder("large"), &w));
  for (int i = 0; i < RECORDS; i++) {
    memset(bytes, i, BYTES);
    assert_ok(capl_lmdb_append(w, bytes, BYTES, NULL));
  }
  assert_ok(capl_lmdb_commit(w));
  capl_lmdb_free(w);
  lmdb_stream s = {.where = in_folder("large")};
  assert_ok(lmdb_receive(&s, 10000, NULL));
  assert_int_equal(s.count, RECORDS);
  assert_ok(byte_store_seal(&s.bytes));
  for (int i = 0; i < RECORDS; i++) {
    assert_int_equal(s.at[LMDB_KEPT * i + 1] - s.at[LMDB_KEPT * i], BYTES);
    assert_int_equal(s.bytes.at[s.at[LMDB_KEPT * i]], i);
    assert_int_equal(s.bytes.at[s.at[LMDB_KEPT * i + 1] - 1], i);
  }
  lmdb_stream_fini(&s);
  free(bytes);
  assert_int_equal(unlink(in_folder("large/data.mdb")), 0);
}

/* ---- what is none, or wrong ------------------------------------------------------------------ */

static void what_is_no_database_is_told_from_one(void **state)
{
  (void)state;
  capl_source *source;
  assert_fails(capl_source_lmdb_new(in_folder("none"), NULL, &source), CAPL_EIO,
               said("%s/none: cannot be opened: No such file or directory"));
  assert_int_equal(mkdir(in_folder("empty"), 0777), 0);
  assert_fails(capl_source_lmdb_new(in_folder("empty"), NULL, &source), CAPL_EFORMAT,
               said("%s/empty: is no LMDB database: the folder has no file data.mdb"));
  assert_string_equal(capl_error_last()->hint,
                      "data.folder reads folders of image files, data.list those that a list names");
  write_bytes(in_folder("empty/data.mdb"), "", 0);
  assert_fails(capl_source_lmdb_new(in_folder("empty"), NULL, &source), CAPL_EFORMAT,
               said("%s/empty: is no LMDB database: the file is empty"));
  static const char text[] = "this is a text, not a database of any kind";
  write_bytes(in_folder("empty/data.mdb"), text, sizeof text);
  assert_fails(capl_source_lmdb_new(in_folder("empty"), NULL, &source), CAPL_EFORMAT,
               said("%s/empty: is no LMDB database: its header is invalid, or it was written on another kind of "
                    "machine"));
  assert_int_equal(unlink(in_folder("empty/data.mdb")), 0);
  assert_int_equal(mkfifo(in_folder("empty/data.mdb"), 0600), 0);
  assert_fails(capl_source_lmdb_new(in_folder("empty"), NULL, &source), CAPL_EFORMAT,
               said("%s/empty: is no LMDB database: data.mdb is no file"));
}

/* Replaces each occurrence of one text in a file by another of the same length. */
static int replace(const char *name, const char *from, const char *to)
{
  static char bytes[1 << 20];
  FILE *f = fopen(in_folder(name), "r+");
  size_t size = fread(bytes, 1, sizeof bytes, f);
  int n = 0;
  for (char *p = bytes; (p = memmem(p, size - (size_t)(p - bytes), from, strlen(from))); p += strlen(from), n++)
    memcpy(p, to, strlen(to));
  rewind(f);
  fwrite(bytes, 1, size, f);
  fclose(f);
  return n;
}

static void records_that_are_missing_or_too_many_are_named(void **state)
{
  (void)state;
  capl_source *source;
  make_database("wrong", COUNT, true);
  assert_true(replace("wrong/data.mdb", "num-samples30", "num-samples31") > 0);
  assert_fails(capl_source_lmdb_new(in_folder("wrong"), NULL, &source), CAPL_EFORMAT,
               said("%s/wrong: image-000000031 is missing; num-samples says 31"));
  assert_true(replace("wrong/data.mdb", "num-samples31", "num-samples29") > 0);
  assert_fails(capl_source_lmdb_new(in_folder("wrong"), NULL, &source), CAPL_EFORMAT,
               said("%s/wrong: num-samples says 29, but there is image-000000030"));
  replace("wrong/data.mdb", "num-samples29", "num-samples-1");
  assert_fails(capl_source_lmdb_new(in_folder("wrong"), NULL, &source), CAPL_EFORMAT,
               said("%s/wrong: num-samples is '-1', no number of records up to 999999999"));
  replace("wrong/data.mdb", "num-samples-1", "num-samples00");
  assert_fails(capl_source_lmdb_new(in_folder("wrong"), NULL, &source), CAPL_EVALUE,
               said("%s/wrong: the database is empty: num-samples is 0"));
  replace("wrong/data.mdb", "num-samples00", "num-sampler30");
  assert_fails(capl_source_lmdb_new(in_folder("wrong"), NULL, &source), CAPL_EFORMAT,
               said("%s/wrong: has no key num-samples, which data sets of text images have; its first key is "
                    "'image-000000001'"));
  replace("wrong/data.mdb", "num-sampler30", "num-samples30");
  replace("wrong/data.mdb", "image-000000017", "image-00000001x");
  assert_fails(capl_source_lmdb_new(in_folder("wrong"), NULL, &source), CAPL_EFORMAT,
               said("%s/wrong: image-000000017 is missing; num-samples says 30"));
  replace("wrong/data.mdb", "image-00000001x", "image-000000017");
  replace("wrong/data.mdb", "label-000000012", "label-00000001x");
  assert_fails(capl_source_lmdb_new(in_folder("wrong"), NULL, &source), CAPL_EFORMAT,
               said("%s/wrong: record 12: has no label, the records before it have one"));
  replace("wrong/data.mdb", "label-00000001x", "label-000000012");
  replace("wrong/data.mdb", "label-000000012011", "label-000000012\xff\xfe" "1");
  assert_fails(capl_source_lmdb_new(in_folder("wrong"), NULL, &source), CAPL_EFORMAT,
               said("%s/wrong: record 12: the label is no UTF-8"));
}

static void labels_are_checked_as_those_of_files_are(void **state)
{
  (void)state;
  capl_source *source;
  uint8_t pixels[W * H];
  int32_t labels[4];
  assert_ok(capl_source_lmdb_new(in_folder("set"), &(capl_lmdb_options){.images = {.charset = "0-8", .length = 3}},
                                 &source));
  assert_fails(capl_source_read(source, 0, 9, &(capl_sample){.pixels = pixels, .labels = labels}), CAPL_EVALUE,
               said("%s/set: image-000000010: label \"009\" has '9' at position 3, which is not in the charset "
                    "012345678"));
  capl_source_unref(source);
  make_database("bare", 3, false);
  assert_ok(capl_source_lmdb_new(in_folder("bare"), &digits, &source));
  assert_fails(capl_source_check_label(source, 0), CAPL_ESTATE, said("%s/bare: image-000000001: has no label"));
  capl_source_unref(source);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* A database with other bytes is an error that names it, or still one of COUNT samples; the process lives on. */
static bool survives(const char *name)
{
  capl_source *source;
  capl_lmdb_options options = digits;
  options.images.width = W;
  options.images.height = H;
  capl_status status = capl_source_lmdb_new(in_folder(name), &options, &source);
  if (status != CAPL_OK) {
    assert_true(status == CAPL_EFORMAT || status == CAPL_EVALUE || status == CAPL_EIO);
    assert_memory_equal(capl_error_last()->message, folder, strlen(folder));
    return false;
  }
  uint8_t pixels[W * H];
  int32_t labels[3];
  for (uint32_t i = 0; i < capl_source_count(source); i++)
    capl_source_read(source, 0, i, &(capl_sample){.pixels = pixels, .labels = labels});
  capl_source_unref(source);
  return true;
}

static void a_database_cut_anywhere_is_an_error_or_whole(void **state)
{
  (void)state;
  make_database("cut", COUNT, true);
  struct stat st;
  assert_int_equal(stat(in_folder("cut/data.mdb"), &st), 0);
  int refused = 0;
  for (long keep = st.st_size - 1; keep >= 0; keep -= keep % (512 * STRIDE) ? keep % (512 * STRIDE) : 512 * STRIDE) {
    cut_file(in_folder("cut/data.mdb"), keep);
    refused += !survives("cut");
  }
  assert_true(refused >= 10 / STRIDE);
}

static void no_damaged_page_takes_the_process_along(void **state)
{
  (void)state;
  make_database("flip", COUNT, true);
  FILE *f = fopen(in_folder("flip/data.mdb"), "r+");
  static uint8_t sound[1 << 20];
  long size = (long)fread(sound, 1, sizeof sound, f);
  int refused = 0, tried = 0;
  /* heads of pages closely, the rest here and there */
  for (long at = 0; at < size; at += STRIDE * (at % 4096 < 64 ? 3 : 211)) {
    fseek(f, at, SEEK_SET);
    fputc(sound[at] ^ (tried % 3 == 0 ? 0xff : tried % 3 == 1 ? 0x01 : 0x80), f);
    fflush(f);
    refused += !survives("flip");
    tried++;
    fseek(f, at, SEEK_SET);
    fputc(sound[at], f);
    fflush(f);
  }
  fclose(f);
  if (tried < 100 / STRIDE || refused < (STRIDE == 1 ? 10 : 1)) fail_msg("%d of %d were refused", refused, tried);
  assert_true(survives("flip"));
}

/* ---- readers that misbehave ------------------------------------------------------------------ */

/* Puts a script in the place of the program that reads databases. */
static void be_reader(const char *script)
{
  char text[600];
  mkdir(in_folder("fake"), 0777);
  int n = snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
  write_bytes(in_folder("fake/capl-lmdb"), text, (size_t)n);
  assert_int_equal(chmod(in_folder("fake/capl-lmdb"), 0755), 0);
  setenv("CAPL_BACKEND_PATH", in_folder("fake"), 1);
}

static void assert_reader(const char *script, capl_status code, const char *message)
{
  be_reader(script);
  char where[600];
  snprintf(where, sizeof where, "%s/set", folder);
  lmdb_stream s = {.where = where};
  capl_status status = lmdb_receive(&s, 300, NULL);
  unsetenv("CAPL_BACKEND_PATH");
  lmdb_stream_fini(&s);
  assert_fails(status, code, said(message));
}

static void a_reader_that_dies_is_an_error(void **state)
{
  (void)state;
  assert_reader("kill -BUS $$", CAPL_EFORMAT, "%s/set: the reader of LMDB files ended by signal 7 (Bus error) at "
                                              "record 1: the file is damaged or cut short");
  assert_reader("exit 3", CAPL_EFORMAT,
                "%s/set: the reader of LMDB files ended with status 3 at record 1: the file is damaged or cut short");
  assert_reader("printf 'CTN1\\005\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0RC'; kill -SEGV $$",
                CAPL_EFORMAT, "%s/set: the reader of LMDB files ended by signal 11 (Segmentation fault) at record 1: the file is "
                "damaged or cut short");
}

static void a_reader_that_hangs_is_given_up(void **state)
{
  (void)state;
  assert_reader("exec sleep 100", CAPL_EIO,
                "%s/set: the LMDB reader process did not respond for 0 seconds, after record 0");
}

/* A script that says there is one record, then begins another frame. */
#define ONE "printf 'CTN1\\001'; head -c 23 /dev/zero; printf '"
#define REST "\\001'; head -c 23 /dev/zero"

static void a_reader_that_talks_nonsense_is_not_believed(void **state)
{
  (void)state;
  static const char nonsense[] =
      "%s/set: the LMDB reader process sent an invalid message after record 0; the file is damaged";
  assert_reader("echo hello, this is not what you think", CAPL_EFORMAT, nonsense);
  assert_reader("cat /dev/zero", CAPL_EFORMAT, nonsense);
  assert_reader("printf 'ERR1' && head -c 24 /dev/zero", CAPL_EFORMAT, nonsense);
  assert_reader(ONE "CTN1" REST,
                CAPL_EFORMAT, nonsense);
  assert_reader(ONE "END1" REST,
                CAPL_EFORMAT, nonsense);
  assert_reader(ONE "REC1\\001\\0\\0\\0\\377\\377\\377\\377'; head -c 16 /dev/zero",
                CAPL_EFORMAT, "%s/set: record 1: the image has more than 64 MiB");
}

static void a_reader_is_looked_for_where_backends_are(void **state)
{
  (void)state;
  capl_source *source;
  assert_int_equal(unlink(in_folder("fake/capl-lmdb")), 0);
  setenv("CAPL_BACKEND_PATH", in_folder("fake"), 1);
  assert_ok(capl_source_lmdb_new(in_folder("set"), NULL, &source)); /* found at the next place */
  capl_source_unref(source);
  unsetenv("CAPL_BACKEND_PATH");
}

static bool stop_at_once(void)
{
  return true;
}

static void reading_can_be_interrupted(void **state)
{
  (void)state;
  be_reader("exec sleep 100");
  capl_source *source;
  assert_fails(capl_source_lmdb_new(in_folder("set"), &(capl_lmdb_options){.stop = stop_at_once}, &source),
               CAPL_EINTERRUPT, said("%s/set: interrupted"));
  unsetenv("CAPL_BACKEND_PATH");
}

static int make_set(void **state)
{
  if (make_folder(state) != 0) return -1;
  make_database("set", COUNT, true);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_was_written_is_read),
    cmocka_unit_test(more_than_fits_into_memory_lies_in_a_file_without_a_name),
    cmocka_unit_test(many_databases_leave_no_descriptor_and_no_child),
    cmocka_unit_test(a_folder_of_files_is_packed_as_it_is),
    cmocka_unit_test(what_is_not_committed_leaves_nothing),
    cmocka_unit_test(a_large_database_grows_as_it_must),
    cmocka_unit_test(what_is_no_database_is_told_from_one),
    cmocka_unit_test(records_that_are_missing_or_too_many_are_named),
    cmocka_unit_test(labels_are_checked_as_those_of_files_are),
    cmocka_unit_test(a_database_cut_anywhere_is_an_error_or_whole),
    cmocka_unit_test(no_damaged_page_takes_the_process_along),
    cmocka_unit_test(a_reader_that_dies_is_an_error),
    cmocka_unit_test(a_reader_that_hangs_is_given_up),
    cmocka_unit_test(a_reader_that_talks_nonsense_is_not_believed),
    cmocka_unit_test(a_reader_is_looked_for_where_backends_are),
    cmocka_unit_test(reading_can_be_interrupted),
  };
  return cmocka_run_group_tests(tests, make_set, remove_folder);
}
