/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over every set of axes against a naive loop, gradients against differences, empty inputs, equals of max
 * and zeros of prod; random tensors and dropout.
 */
#include "ops2_check.h"

#define assert_near(got, want, tol) assert_true(fabs((double)(got) - (double)(want)) <= (tol))

typedef struct reduce_arg {
  crn_reduce_kind kind;
  unsigned axes;
  bool keep;
} reduce_arg;

static int build(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const reduce_arg *a = arg;
  out[0] = crn_reduce(r, a->kind, in[0], a->axes, a->keep);
  return 1;
}

static double naive(const reduce_arg *a, int rank, const int64_t *shape, const double *x, int64_t out_index) {
  double sum = 0, prod = 1, max = -INFINITY, min = INFINITY, exps = 0;
  int64_t count = 0, size = count_of(rank, shape);
  for (int64_t i = 0; i < size; i++) {
    int64_t at = 0, rest = i, index[4];
    for (int d = rank - 1; d >= 0; d--) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    for (int d = 0; d < rank; d++)
      if (!(a->axes >> d & 1)) at = at * shape[d] + index[d];
    if (at != out_index) continue;
    count++;
    sum += x[i];
    prod *= x[i];
    max = fmax(max, x[i]);
    min = fmin(min, x[i]);
    exps += exp(x[i]);
  }
  const double values[] = {sum, sum / (double)count, max, min, prod, log(exps)};
  return values[a->kind];
}

static void check_reduction(reduce_arg a, int rank, const int64_t *shape) {
  input in = real_input(a.kind + 7, 1.5, true, rank, shape);
  check_all(build, &a, 1, &in);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result got = evaluate(&b, build, &a, 1, &in, false, 0);
  for (int64_t i = 0; i < got.out_size[0]; i++)
    expect_close("reduced", (int)a.kind, i, got.out[0][i], naive(&a, rank, shape, in.v, i), 1e-12);
  crn_tensor *y = crn_reduce(&b.r, a.kind, make_input(&b.r, &in, NULL), a.axes, a.keep);
  int d = 0;
  for (int k = 0; k < rank; k++)
    if (!(a.axes >> k & 1))
      assert_int_equal(y->shape[d++], shape[k]);
    else if (a.keep)
      assert_int_equal(y->shape[d++], 1);
  assert_int_equal(y->rank, d);
  result_free(&got);
  run_close(&b);
  free(in.v);
}

static void test_axes(void **state) {
  (void)state;
  const int64_t shape[] = {2, 3, 2, 2}, ones[] = {1, 3, 1}, empty[] = {2, 0, 3};
  for (int k = 0; k <= CRN_R_LOGSUMEXP; k++) {
    for (unsigned axes = 0; axes < 16; axes++)
      check_reduction((reduce_arg){(crn_reduce_kind)k, axes, axes % 2}, 4, shape);
    for (unsigned axes = 0; axes < 8; axes++) {
      check_reduction((reduce_arg){(crn_reduce_kind)k, axes, axes % 3 == 0}, 3, ones);
      check_reduction((reduce_arg){(crn_reduce_kind)k, axes, axes % 3 == 0}, 3, empty);
    }
    check_reduction((reduce_arg){(crn_reduce_kind)k, 0, false}, 0, NULL);
  }
}

static void test_long(void **state) {
  (void)state;
  const int64_t shape[] = {33, 7, 301};
  for (int k = 0; k <= CRN_R_LOGSUMEXP; k++)
    for (unsigned axes = 1; axes < 8; axes++) {
      if (k == CRN_R_PROD) continue; /* products of so many numbers vanish */
      reduce_arg a = {(crn_reduce_kind)k, axes, false};
      input in = real_input(5, 1, true, 3, shape);
      check_float(build, &a, 1, &in, 2e-4);
      free(in.v);
    }
}

static void test_equals_and_zeros(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  crn_run *r = &b.r;
  r->recording = true;
  const int64_t three = 3;
  crn_tensor *x = crn_t_copy_in(r, CRN_F64, 1, &three, (const double[]){2, 1, 2});
  x->needs_grad = true;
  assert_int_equal(crn_backward(r, crn_reduce_all(r, CRN_R_MAX, x), NULL), CRN_OK);
  const double *g = x->st->grad;
  assert_true(g[0] == 0.5 && g[1] == 0 && g[2] == 0.5);
  run_close(&b);
  const double rows[][6] = {{0, 3, 4, 12, 0, 0}, {0, 3, 0, 0, 0, 0}}; /* x and the gradient of its product */
  for (int i = 0; i < 2; i++) {
    run_open(&b, CRN_F64, NULL, 1);
    b.r.recording = true;
    x = crn_t_copy_in(&b.r, CRN_F64, 1, &three, rows[i]);
    x->needs_grad = true;
    assert_int_equal(crn_backward(&b.r, crn_reduce_all(&b.r, CRN_R_PROD, x), NULL), CRN_OK);
    for (int k = 0; k < 3; k++) assert_true(((double *)x->st->grad)[k] == rows[i][3 + k]);
    run_close(&b);
  }
}

static void test_integers_and_bool(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  crn_tensor *x = crn_t_copy_in(r, CRN_I32, 2, (const int64_t[]){2, 3}, (const int32_t[]){-1, -2, -4, 5, 0, 7});
  const double want[][2] = {{-7, 12}, {-2, 4}, {-1, 7}, {-4, 0}, {-8, 0}};
  for (int k = 0; k <= CRN_R_PROD; k++)
    for (int i = 0; i < 2; i++) assert_true(crn_t_get(crn_reduce(r, (crn_reduce_kind)k, x, 2, false), i) == want[k][i]);
  crn_tensor *flags = crn_cast(r, x, CRN_BOOL);
  assert_true(crn_t_bool(crn_reduce(r, CRN_R_ALL, flags, 2, false))[0] == 1);
  assert_true(crn_t_bool(crn_reduce(r, CRN_R_ALL, flags, 2, false))[1] == 0);
  assert_true(crn_t_bool(crn_reduce(r, CRN_R_ANY, flags, 2, false))[1] == 1);
  crn_tensor *none = crn_t_zeros(r, CRN_BOOL, 1, (const int64_t[]){0});
  assert_true(crn_t_bool(crn_reduce(r, CRN_R_ANY, none, 1, false))[0] == 0);
  assert_true(crn_t_bool(crn_reduce(r, CRN_R_ALL, none, 1, false))[0] == 1);
  crn_tensor *bytes = crn_t_zeros(r, CRN_U8, 1, (const int64_t[]){0});
  assert_true(crn_t_get(crn_reduce(r, CRN_R_MIN, bytes, 1, false), 0) == 255);
  assert_null(crn_reduce(r, CRN_R_ANY, x, 1, false));
  assert_non_null(strstr(crn_err_text(&b.err), "reduce_any"));
  run_close(&b);
}

/* log of sums that overflow, of nothing but -inf, and of infinity. */
static void test_log_sum_exp(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  const float x[] = {1000, 1000, -INFINITY, -INFINITY, INFINITY, 1};
  crn_tensor *y =
      crn_reduce(&b.r, CRN_R_LOGSUMEXP, crn_t_copy_in(&b.r, CRN_F32, 2, (const int64_t[]){3, 2}, x), 2, false);
  assert_near(crn_t_f32(y)[0], 1000 + log(2), 1e-3);
  assert_true(crn_t_f32(y)[1] == -INFINITY && crn_t_f32(y)[2] == INFINITY);
  run_close(&b);
}

/* ---- random ----------------------------------------------------------------------------------------------------- */

static void test_random(void **state) {
  (void)state;
  const int64_t n = 40000;
  for (int threads = 1; threads <= 3; threads += 2) {
    bench_run b;
    run_open(&b, CRN_F32, NULL, threads);
    crn_run *r = &b.r;
    crn_tensor *u = crn_random_uniform(r, "u", CRN_F32, 1, &n, -2, 3), *z = crn_random_normal(r, "z", 1, &n, 1, 2),
               *k = crn_random_uniform(r, "k", CRN_I32, 1, &n, 3, 7),
               *again = crn_random_uniform(r, "u", CRN_F32, 1, &n, -2, 3),
               *other = crn_random_uniform(r, "v", CRN_F32, 1, &n, -2, 3);
    double sum = 0, squares = 0, mean = 0, differ = 0, counts[7] = {0};
    for (int64_t i = 0; i < n; i++) {
      double v = (double)crn_t_f32(u)[i], w = (double)crn_t_f32(z)[i];
      assert_true(v >= -2 && v < 3 && crn_t_f32(again)[i] == crn_t_f32(u)[i]);
      assert_true(crn_t_i32(k)[i] >= 3 && crn_t_i32(k)[i] < 7);
      differ += crn_t_f32(other)[i] != crn_t_f32(u)[i];
      counts[crn_t_i32(k)[i]]++;
      mean += v / (double)n;
      sum += w / (double)n;
      squares += (w - 1) * (w - 1) / (double)n;
    }
    assert_true(differ > 0.99 * (double)n);
    assert_near(mean, 0.5, 0.03);
    assert_near(sum, 1, 0.05);
    assert_near(squares, 4, 0.15);
    for (int i = 3; i < 7; i++) assert_near(counts[i] / (double)n, 0.25, 0.02);
    static double first;
    if (threads == 1)
      first = (double)crn_t_f32(z)[n - 1];
    else
      assert_true(first == (double)crn_t_f32(z)[n - 1]);
    assert_null(crn_random_uniform(r, "k", CRN_I32, 1, &n, 3, 3));
    run_close(&b);
  }
}

static int build_dropout(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_dropout(r, "drop", in[0], 0.3, arg);
  return 1;
}

static void test_dropout(void **state) {
  (void)state;
  const int64_t shape[] = {3, 4, 5}, noise[][3] = {{3, 4, 5}, {3, 1, 5}, {1, 1, 1}};
  for (int i = 0; i < 3; i++) {
    input in = real_input(i, 1, true, 3, shape);
    check_all(build_dropout, noise[i], 1, &in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result got = evaluate(&b, build_dropout, noise[i], 1, &in, false, 0);
    for (int64_t k = 0; k < 60; k++) {
      double q = got.out[0][k] / in.v[k];
      assert_true(q == 0 || fabs(q - 1 / 0.7) < 1e-12);
      if (i == 1) assert_true((q == 0) == (got.out[0][k / 20 * 20 + k % 5] == 0)); /* one mask for all of axis 1 */
      if (i == 2) assert_true((q == 0) == (got.out[0][0] == 0));
    }
    result_free(&got);
    run_close(&b);
    free(in.v);
  }
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  const int64_t n = 100000, one = 1;
  crn_tensor *x = crn_t_full(&b.r, CRN_F32, 1, &n, 1);
  crn_tensor *y = crn_dropout(&b.r, "p", x, 0.1, &n);
  double zeros = 0;
  for (int64_t i = 0; i < n; i++) zeros += crn_t_f32(y)[i] == 0;
  assert_near(zeros / (double)n, 0.1, 0.005);
  assert_ptr_equal(crn_dropout(&b.r, "p", x, 0, &one), x);
  assert_null(crn_dropout(&b.r, "p", x, 1, &one));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_axes),
      cmocka_unit_test(test_long),
      cmocka_unit_test(test_equals_and_zeros),
      cmocka_unit_test(test_integers_and_bool),
      cmocka_unit_test(test_log_sum_exp),
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_dropout),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
