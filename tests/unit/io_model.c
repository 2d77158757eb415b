/* io_model.c -- tests of safetensors, traced graphs and the model folder, sound and damaged.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capl/capl.h"

static capl_device *ref;
static char folder[64];

static int open_ref(void **state)
{
  (void)state;
  assert_ok(capl_device_open("ref", &ref));
  strcpy(folder, "/tmp/capl-io-XXXXXX");
  assert_non_null(mkdtemp(folder));
  return 0;
}

static int remove_all(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static const char *path(const char *name)
{
  static char buf[256];
  snprintf(buf, sizeof buf, "%s/%s", folder, name);
  return buf;
}

static capl_tensor *uniform(int ndim, const int64_t *size, uint64_t seed)
{
  capl_tensor *t;
  assert_ok(capl_tensor_new(ref, CAPL_F32, ndim, size, CAPL_AUTO, &t));
  assert_ok(capl_tensor_fill_uniform(t, -1, 1, seed, 0, 0, 0));
  return t;
}

static capl_tensor *run(capl_op_id id, capl_tensor **in, int n_in, const char *attrs)
{
  capl_tensor *out[CAPL_MAX_OUT];
  assert_ok(capl_run(id, in, n_in, attrs, out));
  return out[0];
}

/* conv, relu, a reshape that follows the batch, linear: small, but with every kind of value. */
typedef struct {
  capl_tensor *conv, *linear;
} net;

static net net_new(void)
{
  return (net){uniform(4, (int64_t[]){3, 2, 3, 3}, 1), uniform(2, (int64_t[]){5, 3}, 2)};
}

static void net_free(net *n)
{
  capl_tensor_unref(n->conv);
  capl_tensor_unref(n->linear);
}

static capl_tensor *net_forward(const net *n, capl_tensor *x)
{
  capl_tensor *y = run(CAPL_OP_conv2d, (capl_tensor *[]){x, n->conv}, 2, "padding=1");
  capl_tensor *r = run(CAPL_OP_relu, &y, 1, NULL);
  char size[64];
  snprintf(size, sizeof size, "size=%lld,3", (long long)(x->size[0] * 4 * 6));
  capl_tensor *turned = run(CAPL_OP_permute, &r, 1, "dims=0,2,3,1");
  capl_tensor *flat = run(CAPL_OP_reshape, &turned, 1, size);
  capl_tensor *z = run(CAPL_OP_linear, (capl_tensor *[]){flat, n->linear}, 2, NULL);
  capl_tensor *unused = run(CAPL_OP_exp, &z, 1, NULL);
  capl_tensor_unref(unused);
  capl_tensor_unref(y);
  capl_tensor_unref(r);
  capl_tensor_unref(turned);
  capl_tensor_unref(flat);
  return z;
}

static capl_graph *trace(const net *n, int64_t batch)
{
  capl_tensor *x = uniform(4, (int64_t[]){batch, 2, 4, 6}, 3);
  assert_ok(capl_trace_begin());
  capl_tensor *y = net_forward(n, x);
  capl_graph *g;
  capl_named_tensor named[] = {{"conv.weight", n->conv}, {"head.weight", n->linear}};
  assert_ok(capl_trace_end(x, y, named, 2, &g));
  capl_tensor_unref(x);
  capl_tensor_unref(y);
  return g;
}

static void save_net(const net *n, const char *name)
{
  capl_graph *a = trace(n, 2), *b = trace(n, 3);
  assert_ok(capl_graph_merge_batch(a, b));
  assert_ok(capl_model_save(path(name), a, "{\"charset\": \"0-9\"}", NULL));
  capl_graph_free(a);
  capl_graph_free(b);
}

static void assert_equal_values(const capl_tensor *a, const capl_tensor *b)
{
  int64_t n = capl_tensor_numel(a);
  assert_true(capl_tensor_same_shape(a, b));
  double *va = calloc((size_t)n, sizeof *va), *vb = calloc((size_t)n, sizeof *vb);
  assert_ok(capl_tensor_to_doubles(a, va));
  assert_ok(capl_tensor_to_doubles(b, vb));
  for (int64_t i = 0; i < n; i++) assert_true(va[i] == vb[i]);
  free(va);
  free(vb);
}

static void a_saved_model_gives_the_same_numbers_for_any_batch(void **state)
{
  (void)state;
  net n = net_new();
  save_net(&n, "net.capl");
  save_net(&n, "net.capl"); /* over an older one */
  capl_graph *g;
  char *meta;
  assert_ok(capl_model_load(path("net.capl"), ref, &g, &meta));
  assert_non_null(strstr(meta, "\"capl_model\":\t1,"));
  assert_non_null(strstr(meta, "\"charset\":\t\"0-9\""));
  free(meta);
  for (int64_t batch = 0; batch < 6; batch++) {
    capl_tensor *x = uniform(4, (int64_t[]){batch, 2, 4, 6}, 9), *expected = net_forward(&n, x), *y;
    assert_ok(capl_graph_run(g, x, &y));
    assert_equal_values(y, expected);
    capl_tensor_unref(x);
    capl_tensor_unref(y);
    capl_tensor_unref(expected);
  }
  capl_graph_free(g);
  net_free(&n);
}

static void another_image_size_is_an_error_that_names_both(void **state)
{
  (void)state;
  net n = net_new();
  capl_graph *g = trace(&n, 2);
  capl_tensor *x = uniform(4, (int64_t[]){2, 2, 4, 7}, 9), *y;
  assert_int_equal(capl_graph_run(g, x, &y), CAPL_ESHAPE);
  assert_string_equal(capl_error_last()->message, "the model takes (N,2,4,6) f32, the input is (2,2,4,7) f32 ref");
  capl_tensor_unref(x);
  capl_graph_free(g);
  net_free(&n);
}

static void tensors_come_back_with_names_dtypes_and_bits(void **state)
{
  (void)state;
  capl_named_tensor list[3] = {{"a", uniform(4, (int64_t[]){2, 3, 4, 5}, 1)}, {"b.c", NULL}, {"empty", NULL}};
  assert_ok(capl_tensor_from_doubles(ref, CAPL_BF16, 0, NULL, &(double){1.5}, &list[1].tensor));
  assert_ok(capl_tensor_new(ref, CAPL_I64, 2, (int64_t[]){0, 4}, CAPL_AUTO, &list[2].tensor));
  assert_ok(capl_safetensors_save(path("t.safetensors"), list, 3));
  capl_named_tensor *back;
  int n;
  assert_ok(capl_safetensors_load(path("t.safetensors"), ref, &back, &n));
  assert_int_equal(n, 3);
  for (int k = 0; k < 3; k++) {
    assert_string_equal(back[k].name, list[k].name);
    assert_int_equal(back[k].tensor->dtype, list[k].tensor->dtype);
    assert_equal_values(back[k].tensor, list[k].tensor);
    capl_tensor_unref(list[k].tensor);
  }
  capl_named_tensors_free(back, n);
}

/* The whole file at name, NUL-ended. */
static char *slurp(const char *name, size_t *len)
{
  FILE *f = fopen(path(name), "rb");
  assert_non_null(f);
  static char data[1 << 16];
  *len = fread(data, 1, sizeof data - 1, f);
  data[*len] = '\0';
  fclose(f);
  return data;
}

static void spill(const char *name, const char *data, size_t len)
{
  FILE *f = fopen(path(name), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, len, f), len);
  fclose(f);
}

/* Loads and runs whatever is there: any status will do, a crash will not. */
static void try_model(const char *name)
{
  capl_graph *g;
  char *meta;
  if (capl_model_load(path(name), ref, &g, &meta) != CAPL_OK) {
    assert_string_not_equal(capl_error_last()->message, "");
    return;
  }
  capl_tensor *x = uniform(4, (int64_t[]){2, 2, 4, 6}, 9), *y = NULL;
  if (capl_graph_run(g, x, &y) == CAPL_OK) capl_tensor_unref(y);
  capl_tensor_unref(x);
  capl_graph_free(g);
  free(meta);
}

static void damaged_model_files_are_refused_without_a_crash(void **state)
{
  (void)state;
  net n = net_new();
  save_net(&n, "hurt.capl");
  static const char *const members[] = {"hurt.capl/weights.safetensors", "hurt.capl/graph.json"};
  for (int m = 0; m < 2; m++) {
    size_t len;
    char *data = slurp(members[m], &len), *copy = malloc(len);
    memcpy(copy, data, len);
    for (size_t cut = 0; cut < len; cut += 1 + len / 60) {
      spill(members[m], copy, cut);
      try_model("hurt.capl");
    }
    capl_rng rng;
    capl_rng_init(&rng, 5, (uint32_t)m, 0, 0);
    for (int round = 0; round < 400; round++) {
      memcpy(data, copy, len);
      for (int k = 0; k < 3; k++)
        data[capl_rng_below(&rng, (uint32_t)len)] = "0123456789-{}[],:\"xe \xff"[capl_rng_below(&rng, 23)];
      spill(members[m], data, len);
      try_model("hurt.capl");
    }
    spill(members[m], copy, len);
    free(copy);
  }
  try_model("hurt.capl");
  net_free(&n);
}

static void a_cut_weights_file_is_named_with_the_reason(void **state)
{
  (void)state;
  spill("cut.safetensors", "\x40\0\0\0\0\0\0\0{}", 10);
  capl_named_tensor *list;
  int n;
  assert_int_equal(capl_safetensors_load(path("cut.safetensors"), ref, &list, &n), CAPL_EFORMAT);
  char expected[256];
  snprintf(expected, sizeof expected, "%s is no safetensors file: its header length does not fit",
           path("cut.safetensors"));
  assert_string_equal(capl_error_last()->message, expected);
}

static void a_folder_of_other_things_is_not_replaced(void **state)
{
  (void)state;
  net n = net_new();
  capl_graph *g = trace(&n, 2);
  char expected[256];
  assert_int_equal(mkdir(path("things"), 0777), 0);
  spill("things/mine", "x", 1);
  snprintf(expected, sizeof expected, "cannot put the model in place: %s is a folder with other things in it",
           path("things"));
  assert_fails(capl_model_save(path("things"), g, "{}", NULL), CAPL_EIO, expected);
  assert_int_equal(access(path("things/mine"), F_OK), 0);
  capl_graph_free(g);
  net_free(&n);
}

/* From here on this process cannot exchange two files, as on many a network file system. */
static void forbid_exchange(void)
{
  struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(77);
}

static void a_model_is_replaced_where_folders_cannot_be_exchanged(void **state)
{
  (void)state;
  net n = net_new();
  capl_graph *g = trace(&n, 2);
  pid_t child = fork();
  if (child == 0) {
    forbid_exchange();
    bool ok = capl_model_save(path("turns.capl"), g, "{\"turn\": 1}", NULL) == CAPL_OK &&
              capl_model_save(path("turns.capl"), g, "{\"turn\": 2}", NULL) == CAPL_OK;
    _exit(ok ? 0 : 1);
  }
  int status, files = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) skip();
  assert_int_equal(status, 0);
  size_t len;
  assert_non_null(strstr(slurp("turns.capl/meta.json", &len), "\"turn\":\t2"));
  DIR *dir = opendir(folder);
  for (struct dirent *e; (e = readdir(dir));) files += strncmp(e->d_name, "turns.capl", 10) == 0;
  closedir(dir);
  assert_int_equal(files, 1);
  capl_graph_free(g);
  net_free(&n);
}

static void nothing_is_left_behind_when_saving_fails(void **state)
{
  (void)state;
  net n = net_new();
  capl_graph *g = trace(&n, 2);
  assert_int_equal(capl_model_save(path("no/such/folder/net.capl"), g, "{}", NULL), CAPL_EIO);
  assert_int_equal(capl_model_save(path("x.capl"), g, "no json", NULL), CAPL_EVALUE);
  assert_int_equal(access(path("x.capl"), F_OK), -1);
  capl_graph_free(g);
  net_free(&n);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_saved_model_gives_the_same_numbers_for_any_batch),
    cmocka_unit_test(another_image_size_is_an_error_that_names_both),
    cmocka_unit_test(tensors_come_back_with_names_dtypes_and_bits),
    cmocka_unit_test(damaged_model_files_are_refused_without_a_crash),
    cmocka_unit_test(a_cut_weights_file_is_named_with_the_reason),
    cmocka_unit_test(a_folder_of_other_things_is_not_replaced),
    cmocka_unit_test(a_model_is_replaced_where_folders_cannot_be_exchanged),
    cmocka_unit_test(nothing_is_left_behind_when_saving_fails),
  };
  return cmocka_run_group_tests(tests, open_ref, remove_all);
}
