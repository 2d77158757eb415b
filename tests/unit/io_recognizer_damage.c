/* io_recognizer_damage.c -- a recognizer's files with any value damaged: opened, run and verified, never a crash.
**
** What opening does beyond loading is in play here: shapes without arithmetic, folding, casting, decoding.
** SPDX-License-Identifier: Apache-2.0
*/
#include "damage.h"
#include "recognizer.h"

static char model_path[64];

static int setup(void **state)
{
  (void)state;
  capl_device *cpu;
  assert_ok(capl_device_open("cpu", &cpu));
  strcpy(model_path, "/tmp/capl-damaged-XXXXXX");
  assert_non_null(mkdtemp(model_path));
  strcat(model_path, "/m.capl");
  tiny_save(model_path, cpu);
  capl_memory_limit_set(cpu, 64 << 20);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%.*s'", (int)(strlen(model_path) - strlen("/m.capl")), model_path);
  return system(command);
}

/* Opens, verifies and reads an image; in 16 bits every other time. Returns whether all went well. */
static bool attempt(const char *path)
{
  static int turn;
  uint8_t levels[20 * 9] = {7};
  capl_model *m;
  capl_model_verdict v;
  capl_reading r;
  if (capl_model_open(path, &(capl_model_options){.precision = turn++ % 2 ? "bf16" : "fp32"}, &m) != CAPL_OK) {
    assert_true(*capl_error_last()->message != '\0');
    assert_null(m);
    return false;
  }
  bool ok = capl_model_verify(m, &v) == CAPL_OK && v.ok;
  capl_model_sample image = {.pixels = levels, .width = 20, .height = 9, .channels = 1};
  bool ran = capl_model_run(m, &image, 1, &r) == CAPL_OK;
  ok = ran && r.status == CAPL_OK && ok;
  if (ran) capl_readings_free(&r, 1);
  capl_model_close(m);
  return ok;
}

static void damage(const char *member, int step)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", model_path, member);
  assert_true(attempt(model_path));
  damage_every_value(path, step, attempt, model_path);
  assert_true(attempt(model_path));
}

static void any_value_of_graph_json_may_be_damaged(void **state)
{
  (void)state;
  damage("graph.json", 11);
}

static void any_value_of_meta_json_may_be_damaged(void **state)
{
  (void)state;
  damage("meta.json", 1);
}

/* Bytes of the file, 3 at a time replaced by bytes of JSON; then the file cut at many places. */
static void damage_bytes(const char *member)
{
  char path[128];
  size_t len;
  snprintf(path, sizeof path, "%s/%s", model_path, member);
  char *sound = read_text(path, &len), *copy = malloc(len);
  capl_rng rng;
  capl_rng_init(&rng, 8, 0, 0, 0);
  for (int round = 0; round < 300; round++) {
    size_t keep = round < 200 ? len : capl_rng_below(&rng, (uint32_t)len);
    memcpy(copy, sound, len);
    for (int k = 0; k < 3; k++)
      copy[capl_rng_below(&rng, (uint32_t)len)] = "0123456789-{}[],:\"FIe \xff"[capl_rng_below(&rng, 23)];
    write_parts(path, copy, keep, "", "");
    attempt(model_path);
  }
  write_parts(path, sound, len, "", "");
  free(sound);
  free(copy);
  assert_true(attempt(model_path));
}

static void any_bytes_of_the_tensor_files_may_be_damaged(void **state)
{
  (void)state;
  damage_bytes("weights.safetensors");
  damage_bytes("golden.safetensors");
}

static void golden_images_may_be_damaged(void **state)
{
  (void)state;
  damage_bytes("golden/01.png");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_value_of_graph_json_may_be_damaged),
    cmocka_unit_test(any_value_of_meta_json_may_be_damaged),
    cmocka_unit_test(any_bytes_of_the_tensor_files_may_be_damaged),
    cmocka_unit_test(golden_images_may_be_damaged),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
