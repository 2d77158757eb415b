/* unit.h -- what the C tests share: cmocka with the headers it wants first, and capl's status checks.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TESTS_UNIT_H
#define CAPL_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capl/error.h"

/* The call succeeds; if not, the engine's own message is the test's. */
#define assert_ok(call)                                                                          \
  do {                                                                                           \
    capl_status assert_status_ = (call);                                                         \
    if (assert_status_ != CAPL_OK)                                                               \
      fail_msg("%s: %s: %s", #call, capl_status_name(assert_status_), capl_error_last()->message); \
  } while (0)

/* The call fails with this code and this message, word for word. */
#define assert_fails(call, code, text)                                                     \
  do {                                                                                     \
    capl_status assert_status_ = (call);                                                   \
    assert_string_equal(capl_status_name(assert_status_), capl_status_name(code));         \
    assert_string_equal(capl_error_last()->message, text);                                 \
  } while (0)

/* The kernels of this instruction set and of no better one are in use from here on (base/assume.h). */
__attribute__((unused)) static void assume_isa(const char *name)
{
  char text[32];
  snprintf(text, sizeof text, "isa=%s", name);
  setenv("CAPL_ASSUME", text, 1);
}

#endif
