/* dist_buckets.c -- tests of gradients in flat pieces: where they lie, when they are sent, who had none.
**
** The other rank is made up: what it would have sent is written into the piece when it is averaged.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>

#include "capl/capl.h"
#include "capl/dist.h"
#include "capl/tape.h"

static capl_device *ref;

/* Pieces as they were sent. */
static struct {
  int n;
  int64_t size[8];
  double first[8]; /* element when it was sent */
  double marks;    /* of the other rank, in every mark: below 0 = this rank is alone */
} sent;

static capl_status average(void *user, capl_tensor *flat, capl_work **work)
{
  (void)user;
  float *v = capl_tensor_data(flat);
  sent.size[sent.n] = flat->size[0];
  sent.first[sent.n++] = v[0];
  *work = NULL;
  for (int64_t i = 0; i < flat->size[0] && sent.marks >= 0; i++) v[i] = (v[i] + (float)sent.marks) / 2;
  return CAPL_OK;
}

static int begin(void **state)
{
  (void)state;
  memset(&sent, 0, sizeof sent);
  sent.marks = -1;
  assert_ok(capl_device_open("ref", &ref));
  return 0;
}

static int no_memory_is_left(void **state)
{
  (void)state;
  capl_memory_stats s;
  capl_memory_stats_get(ref, &s);
  assert_int_equal(s.live, 0);
  return 0;
}

static capl_tensor *leaf(int64_t n, double value)
{
  capl_tensor *t;
  assert_ok(capl_tensor_new(ref, CAPL_F32, 1, &n, CAPL_ROW, &t));
  assert_ok(capl_tensor_fill(t, value));
  t->requires_grad = true;
  return t;
}

static capl_tensor *run(capl_op_id id, capl_tensor *a, capl_tensor *b)
{
  capl_tensor *out[CAPL_MAX_OUT], *in[] = {a, b};
  assert_ok(capl_run(id, in, b ? 2 : 1, NULL, out));
  capl_tensor_unref(a->node ? a : NULL);
  return out[0];
}

static double element(const capl_tensor *t, int i) { return ((const float *)capl_tensor_data(t))[i]; }

static capl_buckets *buckets_of(capl_tensor **leaves, int n, size_t bytes)
{
  capl_buckets_options options = {.first_bytes = bytes, .bytes = bytes, .average = average};
  capl_buckets *b;
  assert_ok(capl_buckets_new(NULL, leaves, n, &options, &b));
  return b;
}

/* Of sum(a * b). */
static void backward(capl_tensor *a, capl_tensor *b)
{
  capl_tensor *loss = run(CAPL_OP_sum, run(CAPL_OP_mul, a, b), NULL);
  assert_ok(capl_backward(loss, 1));
  capl_tensor_unref(loss);
}

static void a_gradient_is_a_view_of_its_piece(void **state)
{
  (void)state;
  capl_tensor *p[] = {leaf(3, 2), leaf(3, 5)};
  capl_buckets *b = buckets_of(p, 2, 1 << 20);
  backward(p[0], p[1]);
  assert_true(element(p[0]->grad, 0) == 5 && element(p[1]->grad, 2) == 2);
  assert_ptr_equal(p[0]->grad->storage, p[1]->grad->storage);
  assert_int_equal((uintptr_t)capl_tensor_data(p[1]->grad) % 64, 0);
  capl_tensor *home = p[0]->grad;
  backward(p[0], p[1]); /* added where it is */
  assert_ptr_equal(p[0]->grad, home);
  assert_true(element(home, 1) == 10);
  assert_int_equal(capl_buckets_stats_get(b).pieces, 1);
  capl_buckets_free(b);
  assert_true(element(p[0]->grad, 1) == 10); /* kept by the leaf */
  assert_null(p[0]->slot);
  capl_tensor_unref(p[0]), capl_tensor_unref(p[1]);
}

static void pieces_are_sent_in_their_order_while_the_pass_goes_on(void **state)
{
  (void)state;
  capl_tensor *p[] = {leaf(2, 1), leaf(2, 2), leaf(2, 3)}, *x = leaf(2, 1);
  capl_buckets *b = buckets_of(p, 3, 1); /* a piece each */
  x->requires_grad = false;
  capl_tensor *y = run(CAPL_OP_mul, x, p[2]); /* the last piece's leaf is reached last */
  y = run(CAPL_OP_mul, y, p[1]);
  y = run(CAPL_OP_mul, y, p[0]);
  y = run(CAPL_OP_sum, y, NULL);
  assert_ok(capl_buckets_begin(b));
  assert_ok(capl_backward(y, 1));
  capl_buckets_stats f = capl_buckets_stats_get(b);
  assert_int_equal(f.pieces, 3);
  assert_int_equal(f.early, 3);
  assert_int_equal(sent.n, 3);
  assert_true(sent.first[0] == 6 && sent.first[1] == 3 && sent.first[2] == 2);
  assert_int_equal(f.order[0], 0);
  assert_int_equal(f.order[2], 2);
  assert_ok(capl_buckets_finish(b));
  assert_int_equal(sent.n, 3);
  capl_tensor_unref(y);
  capl_buckets_free(b);
  for (int i = 0; i < 3; i++) capl_tensor_unref(p[i]);
  capl_tensor_unref(x);
}

static void a_leaf_used_twice_is_sent_with_both_of_its_parts(void **state)
{
  (void)state;
  capl_tensor *p[] = {leaf(2, 3)};
  capl_buckets *b = buckets_of(p, 1, 1 << 20);
  capl_tensor *y = run(CAPL_OP_mul, p[0], p[0]); /* its square: 2 p */
  capl_tensor *z = run(CAPL_OP_add, y, p[0]);    /* and itself: 1 */
  z = run(CAPL_OP_sum, z, NULL);
  assert_ok(capl_buckets_begin(b));
  assert_ok(capl_backward(z, 1));
  assert_int_equal(sent.n, 1);
  assert_true(sent.first[0] == 7);
  assert_ok(capl_buckets_finish(b));
  capl_tensor_unref(z);
  capl_buckets_free(b);
  capl_tensor_unref(p[0]);
}

static void gradients_of_earlier_passes_travel_once(void **state)
{
  (void)state;
  capl_tensor *p[] = {leaf(2, 3), leaf(2, 4)};
  capl_buckets *b = buckets_of(p, 2, 1 << 20);
  backward(p[0], p[1]);
  backward(p[0], p[1]);
  assert_int_equal(sent.n, 0);
  assert_true(capl_buckets_fresh(b));
  assert_ok(capl_buckets_begin(b));
  backward(p[0], p[1]);
  assert_ok(capl_buckets_finish(b));
  assert_int_equal(sent.n, 1);
  assert_true(sent.first[0] == 12 && element(p[1]->grad, 1) == 9);
  assert_false(capl_buckets_fresh(b));
  capl_buckets_free(b);
  capl_tensor_unref(p[0]), capl_tensor_unref(p[1]);
}

static void a_leaf_without_a_gradient_has_none_afterwards_unless_another_rank_had_one(void **state)
{
  (void)state;
  capl_tensor *p[] = {leaf(2, 3), leaf(2, 4), leaf(2, 5)};
  capl_buckets *b = buckets_of(p, 3, 1 << 20);
  for (int other = -1; other < 2; other += 2) {
    sent.marks = other;
    assert_ok(capl_buckets_begin(b));
    backward(p[0], p[2]);
    assert_ok(capl_buckets_finish(b));
    assert_int_equal(capl_buckets_absent(b), 1);
    assert_null(p[1]->grad);
    assert_ok(capl_buckets_settle(b, true));
    if (other < 0) {
      assert_null(p[1]->grad);
    } else {
      assert_true(element(p[1]->grad, 0) == 0.5 && element(p[0]->grad, 0) == 3); /* (0 + 1) / 2, (5 + 1) / 2 */
    }
    for (int i = 0; i < 3; i++) capl_tensor_unref(p[i]->grad), p[i]->grad = NULL;
  }
  capl_buckets_free(b);
  for (int i = 0; i < 3; i++) capl_tensor_unref(p[i]);
}

static void later_buckets_take_leaves_and_their_gradients(void **state)
{
  (void)state;
  capl_tensor *p[] = {leaf(2, 3), leaf(2, 4)}, *swapped[] = {p[1], p[0]};
  capl_buckets *a = buckets_of(p, 2, 1 << 20);
  backward(p[0], p[1]);
  capl_buckets *b = buckets_of(swapped, 2, 1 << 20);
  assert_false(capl_buckets_fit(a, p, 2));
  assert_true(capl_buckets_fit(b, p, 2));
  assert_false(capl_buckets_fit(b, p, 1));
  capl_buckets_free(a);
  assert_true(element(p[0]->grad, 0) == 4 && element(p[1]->grad, 0) == 3);
  assert_ok(capl_buckets_finish(b));
  assert_true(sent.first[0] == 3);
  capl_buckets_free(b);
  capl_tensor_unref(p[0]), capl_tensor_unref(p[1]);
}

static void a_pass_that_failed_after_pieces_were_sent_is_an_error_of_the_next(void **state)
{
  (void)state;
  capl_tensor *p[] = {leaf(2, 3), leaf(2, 4)};
  capl_buckets *b = buckets_of(p, 2, 1 << 20);
  assert_ok(capl_buckets_begin(b));
  assert_ok(capl_buckets_begin(b)); /* nothing was sent: it can be tried again */
  backward(p[0], p[1]);
  assert_fails(capl_buckets_begin(b), CAPL_ESTATE,
               "the backward pass before this one failed after ranks had begun to exchange its gradients");
  capl_buckets_free(b);
  capl_tensor_unref(p[0]), capl_tensor_unref(p[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, no_memory_is_left)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_gradient_is_a_view_of_its_piece),
      TEST(pieces_are_sent_in_their_order_while_the_pass_goes_on),
      TEST(a_leaf_used_twice_is_sent_with_both_of_its_parts),
      TEST(gradients_of_earlier_passes_travel_once),
      TEST(a_leaf_without_a_gradient_has_none_afterwards_unless_another_rank_had_one),
      TEST(later_buckets_take_leaves_and_their_gradients),
      TEST(a_pass_that_failed_after_pieces_were_sent_is_an_error_of_the_next),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
