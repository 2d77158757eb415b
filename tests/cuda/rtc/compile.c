/* compile.c -- what is generated for pointwise programs compiles with the real NVRTC to machine code for several GPUs.
** Needs no GPU and no driver.
** SPDX-License-Identifier: Apache-2.0
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cuda/pointwise_source.h"
#include "backend/cuda/rtc.h"
#include "backend/cuda/rtc_nvrtc.h"

static const int capabilities[] = {75, 80, 90};

/* Programs that have every op, and their gradients. */
static const char *const texts[] = {
  "sigmoid a; mul a t0",
  "relu a; relu_grad a b; add t0 t1; sub t2 a; mul t3 b; div t4 b; maximum t5 a; minimum t6 b; affine t7 -2 0.1",
  "exp a; log t0; sqrt t1; abs t2; tanh t3; sign t4; pow a 2; pow a 3; pow a -1; pow a 0; pow a 1; pow a 0.3; add t5 "
  "t6; "
  "add t7 t8; add t9 t10; add t11 t12; add t13 t14; mul t15 t16",
  "eq a b; ne a b; lt a b; le a b; gt a b; ge a b; where t0 a b; where t1 t6 b; where t2 t7 a; where t3 t8 b; where "
  "t4 t9 a; "
  "where t5 t10 b",
  "cast a bf16; cast t0 f16; cast t1 f32; cast t2 bool; const inf a; const -inf a; const nan a; const 1e-45 a; where "
  "t3 t4 t5; "
  "add t8 t6; mul t9 t7",
  "erf a; sin t0; cos t1; silu t2; gelu t3 0; gelu t4 1; softplus t5 2 20; leaky_relu t6 0.1; elu t7 1; hardsigmoid "
  "t8; "
  "hardswish t9; log_sigmoid t10; clamp t11 -1e308 1",
  "silu_grad a b; gelu_grad a t0 0; gelu_grad a t1 1; softplus_grad a t2 2 20; leaky_relu_grad a t3 0.1; elu_grad a "
  "t4 1; "
  "hardsigmoid_grad a t5; hardswish_grad a t6; log_sigmoid_grad a t7; clamp_grad a t8 -1 1e308",
  "add a b; mul t0 c; sub t1 d; mul t2 e; add t3 f; mul t4 g; maximum t5 h",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static void expect_machine_code(const program *p, const pointwise_form *form)
{
  char *source = pointwise_source(p, form);
  assert_non_null(source);
  for (size_t k = 0; k < sizeof capabilities / sizeof *capabilities; k++) {
    void *code = NULL;
    size_t bytes = 0;
    capl_status status = rtc_compile(source, capabilities[k], &code, &bytes);
    if (status != CAPL_OK) print_error("sm_%d: %s\n%s", capabilities[k], capl_error_last()->message, source);
    assert_int_equal(status, CAPL_OK);
    assert_true(bytes > 4);
    assert_memory_equal(code, "\177ELF", 4);
    free(code);
  }
  free(source);
}

static pointwise_form form_of(const program *p, capl_dtype x, capl_dtype y, pointwise_place place)
{
  pointwise_form form;
  memset(&form, 0, sizeof form);
  form.inputs = p->inputs;
  form.y = y;
  form.width = place == POINTWISE_STRIDED ? 1 : 4;
  form.ndim = place == POINTWISE_STRIDED ? 3 : 0;
  for (int i = 0; i < p->inputs; i++) {
    form.x[i] = x;
    form.place[i] = place;
  }
  form.place[0] = POINTWISE_ALIKE;
  return form;
}

static void every_op_compiles(void **state)
{
  (void)state;
  for (int k = 0; k < TEXTS; k++) {
    const program *p;
    assert_int_equal(program_parse(texts[k], &p), CAPL_OK);
    pointwise_form form = form_of(p, CAPL_F32, CAPL_F32, POINTWISE_ALIKE);
    expect_machine_code(p, &form);
  }
}

static void gradients_compile(void **state)
{
  (void)state;
  for (int k = 0; k < TEXTS; k++) {
    const program *p, *gradient;
    gradient_kind kind;
    assert_int_equal(program_parse(texts[k], &p), CAPL_OK);
    for (int i = 0; i < p->inputs && p->inputs < PROGRAM_INPUTS; i++) {
      assert_int_equal(program_gradient(p, p->inputs, i, &kind, &gradient), CAPL_OK);
      if (kind != GRADIENT_PROGRAM) continue;
      pointwise_form form = form_of(gradient, CAPL_BF16, CAPL_BF16, POINTWISE_ALIKE);
      expect_machine_code(gradient, &form);
    }
  }
}

static void every_form_compiles(void **state)
{
  (void)state;
  static const capl_dtype dtypes[] = {CAPL_F32, CAPL_F16, CAPL_BF16, CAPL_BOOL};
  const program *p;
  assert_int_equal(program_parse("mul a b; gt t0 c; where t1 a t0", &p), CAPL_OK);
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (pointwise_place place = POINTWISE_ALIKE; place <= POINTWISE_STRIDED; place++) {
      pointwise_form form = form_of(p, dtypes[d], dtypes[(d + 1) % 4], place);
      form.wide = d % 2 == 1;
      expect_machine_code(p, &form);
    }
}

static void wrong_source_is_told_with_its_line(void **state)
{
  (void)state;
  void *code;
  size_t bytes;
  assert_int_equal(rtc_compile("RTC_KERNEL void f(int a)\n{\n  b = a;\n}\n", 90, &code, &bytes), CAPL_EINTERNAL);
  assert_non_null(strstr(capl_error_last()->message, "kernel.cu(3)"));
  assert_non_null(strstr(capl_error_last()->message, "\"b\""));
}

/* Without a library there is nothing to test; the build found the toolkit, so it must be there. */
static int needs_nvrtc(void **state)
{
  (void)state;
  print_message("%s\n", rtc_version());
  return strncmp(rtc_version(), "NVRTC", 5) == 0 ? 0 : -1;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_op_compiles),
    cmocka_unit_test(gradients_compile),
    cmocka_unit_test(every_form_compiles),
    cmocka_unit_test(wrong_source_is_told_with_its_line),
  };
  return cmocka_run_group_tests(tests, needs_nvrtc, NULL);
}
