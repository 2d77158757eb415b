/* leaks.c -- a training step in which CUDA's n-th call fails gives an error, leaves no memory behind, and where the GPU
** lives on the next step is right.
** SPDX-License-Identifier: Apache-2.0
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "capl/backend.h"
#include "capl/capl.h"
#include "shim.h"

static capl_device *cuda;

/* ---- one step: y = pool(relu(conv(x))), loss = cross_entropy(linear(y)), gradients, SGD ------- */

enum { X, KERNEL, WEIGHT, LABELS, MOMENTUM, INPUTS };

static capl_status make_inputs(capl_tensor *in[INPUTS])
{
  static const int64_t sizes[INPUTS][4] = {{2, 3, 6, 8}, {10, 3, 3, 3}, {5, 120}, {2}, {5, 120}};
  static const int dims[INPUTS] = {4, 4, 2, 1, 2};
  double values[600];
  for (int i = 0; i < INPUTS; i++) {
    int64_t n = 1;
    for (int d = 0; d < dims[i]; d++) n *= sizes[i][d];
    for (int64_t k = 0; k < n; k++)
      values[k] = i == LABELS ? (double)k : i == MOMENTUM ? 0 : (double)((k * 37 + i) % 19 - 9) / 16;
    CAPL_TRY(capl_tensor_from_doubles(cuda, i == LABELS ? CAPL_I32 : CAPL_F32, dims[i], sizes[i], values, &in[i]));
  }
  return CAPL_OK;
}

static void drop(capl_tensor **t, int n)
{
  for (int i = 0; i < n; i++) {
    capl_tensor_unref(t[i]);
    t[i] = NULL;
  }
}

enum { CONV, PLAIN, ROWS, LOGITS, LOSS, ONE, DLOGITS, DWEIGHT, DBIAS, TEMPORARIES };

static capl_status forward_backward(capl_tensor *in[INPUTS], capl_tensor *t[TEMPORARIES])
{
  CAPL_TRY(capl_run(CAPL_OP_conv2d, (capl_tensor *[]){in[X], in[KERNEL], NULL}, 3, "padding=1", &t[CONV]));
  capl_tensor *pooled[2] = {NULL, NULL};
  CAPL_TRY(capl_run(CAPL_OP_relu, &t[CONV], 1, NULL, &t[PLAIN]));
  CAPL_TRY(capl_run(CAPL_OP_max_pool2d, &t[PLAIN], 1, "kernel=2", pooled));
  capl_status status = capl_run(CAPL_OP_reshape, pooled, 1, "size=2,120", &t[ROWS]);
  drop(pooled, 2);
  CAPL_TRY(status);
  CAPL_TRY(capl_run(CAPL_OP_linear, (capl_tensor *[]){t[ROWS], in[WEIGHT], NULL}, 3, NULL, &t[LOGITS]));
  capl_tensor *rows[] = {t[LOGITS], in[LABELS]};
  CAPL_TRY(capl_run(CAPL_OP_cross_entropy, rows, 2, NULL, &t[LOSS]));
  CAPL_TRY(capl_tensor_from_doubles(cuda, CAPL_F32, 0, NULL, (double[]){1}, &t[ONE]));
  capl_tensor *back[] = {t[LOGITS], in[LABELS], t[ONE]};
  CAPL_TRY(capl_run(CAPL_OP_cross_entropy_grad, back, 3, NULL, &t[DLOGITS]));
  capl_tensor *gradients[2] = {NULL, NULL};
  CAPL_TRY(capl_run(CAPL_OP_linear_grad_w, (capl_tensor *[]){t[ROWS], t[DLOGITS]}, 2, NULL, gradients));
  t[DWEIGHT] = gradients[0];
  t[DBIAS] = gradients[1];
  return CAPL_OK;
}

/* The loss before and the sum of the weights after one step. */
static capl_status step(double *loss, double *weights)
{
  capl_tensor *in[INPUTS] = {0}, *t[TEMPORARIES] = {0}, *sum = NULL;
  capl_status status = make_inputs(in);
  if (status == CAPL_OK) status = forward_backward(in, t);
  capl_tensor *group[] = {in[WEIGHT], t[DWEIGHT], in[MOMENTUM]};
  if (status == CAPL_OK) status = capl_run(CAPL_OP_sgd_step, group, 3, "lr=0.1 momentum=0.9 first_step=true", NULL);
  if (status == CAPL_OK) status = capl_run(CAPL_OP_sum, &in[WEIGHT], 1, NULL, &sum);
  if (status == CAPL_OK) status = capl_tensor_to_doubles(t[LOSS], loss);
  if (status == CAPL_OK) status = capl_tensor_to_doubles(sum, weights);
  capl_tensor_unref(sum);
  drop(t, TEMPORARIES);
  drop(in, INPUTS);
  return status;
}

static size_t live_bytes(void)
{
  capl_memory_stats stats;
  capl_memory_stats_get(cuda, &stats);
  return stats.live;
}

static void begin(void)
{
  if (capl_device_open("cuda", &cuda) != CAPL_OK) fail_msg("%s", capl_error_last()->message);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void missing_memory_is_survived(void **state)
{
  (void)state;
  double loss, weights, again, after;
  int ended = 0, went_on = 0;
  begin();
  size_t before = live_bytes();
  assert_int_equal(step(&loss, &weights), CAPL_OK);
  for (int on = 0; on < 2; on++) {
    for (uint64_t n = 1;; n++) {
      capl_memory_trim(cuda); /* nothing cached: every block is asked for anew */
      uint64_t asked = shim_calls(cudaErrorMemoryAllocation);
      shim_fail(cudaErrorMemoryAllocation, n, on);
      capl_status status = step(&again, &after);
      shim_fail(0, 0, 0);
      assert_int_equal(live_bytes(), before);
      if (status == CAPL_OK) {
        assert_true(again == loss && after == weights);
        went_on++;
        if (shim_calls(cudaErrorMemoryAllocation) - asked < n) break; /* no n-th call any more */
        continue;
      }
      assert_int_equal(status, CAPL_ENOMEM);
      assert_non_null(strstr(capl_error_last()->message, "memory"));
      ended++;
      assert_int_equal(step(&again, &after), CAPL_OK); /* with memory again, all is as it was */
      assert_true(again == loss && after == weights);
    }
  }
  assert_true(ended > 10 && went_on > 10);
}

/* In a process of its own: the n-th call loses the GPU. 0: no n-th call; 1: an error, and nothing left; 2: else. */
static int lose_at(int code, uint64_t n)
{
  double loss, weights;
  size_t before = live_bytes();
  uint64_t asked = shim_calls(code);
  shim_fail(code, n, 0);
  capl_status status = step(&loss, &weights);
  if (shim_calls(code) - asked < n) return status == CAPL_OK ? 0 : 2;
  bool told = status == CAPL_EDEVICE
      && strstr(capl_error_last()->message, code == 700 ? "CUDA error 700" : "CUDA error 719");
  if (!told) fprintf(stderr, "call %d: %d %s\n", (int)n, (int)status, capl_error_last()->message);
  return told && live_bytes() == before && step(&loss, &weights) == CAPL_EDEVICE && live_bytes() == before ? 1 : 2;
}

/* Every call in turn. exit runs LeakSanitizer, whose status is neither 0 nor 1. */
static void lose_everywhere(int code)
{
  double loss, weights;
  begin();
  assert_int_equal(step(&loss, &weights), CAPL_OK);
  capl_memory_trim(cuda);
  int lost = 0;
  for (uint64_t n = 1;; n++) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) exit(lose_at(code, n));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    if (WEXITSTATUS(status) == 0) break;
    lost++;
  }
  assert_true(lost > 20);
}

static void an_illegal_address_ends_the_step(void **state)
{
  (void)state;
  lose_everywhere(700);
}

static void a_launch_failure_ends_the_step(void **state)
{
  (void)state;
  lose_everywhere(719);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(missing_memory_is_survived),
    cmocka_unit_test(an_illegal_address_ends_the_step),
    cmocka_unit_test(a_launch_failure_ends_the_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
