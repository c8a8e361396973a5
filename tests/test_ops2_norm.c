/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax, log_softmax, layer_norm and the fused cross entropy: values against formulas, gradients.
 */
#include "ops2_check.h"

#define S(...) ((int64_t[]){__VA_ARGS__})

static int build_softmax(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = *(const bool *)arg ? crn_log_softmax(r, in[0]) : crn_softmax(r, in[0]);
  return 1;
}

static void test_softmax(void **state) {
  (void)state;
  for (int is_log = 0; is_log < 2; is_log++) {
    bool arg = is_log;
    input in[1] = {real_input(1, 4, true, 3, S(3, 2, 7))};
    check_all(build_softmax, &arg, 1, in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result res = evaluate(&b, build_softmax, &arg, 1, in, false, 0);
    for (int row = 0; row < 6; row++) {
      double s = 0;
      for (int i = 0; i < 7; i++) s += exp(in[0].v[row * 7 + i]);
      for (int i = 0; i < 7; i++) {
        double p = exp(in[0].v[row * 7 + i]) / s;
        expect_close("y", row, i, res.out[0][row * 7 + i], is_log ? log(p) : p, 1e-12);
      }
    }
    result_free(&res);
    run_close(&b);
    inputs_free(1, in);
    input empty[1] = {real_input(1, 1, true, 2, S(0, 7))};
    check_all(build_softmax, &arg, 1, empty);
    inputs_free(1, empty);
    input no_features[1] = {real_input(1, 1, true, 2, S(3, 0))};
    check_all(build_softmax, &arg, 1, no_features);
    inputs_free(1, no_features);
  }
}

static int build_norm(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  out[0] = crn_layer_norm(r, in[0], in[1], in[2], 1e-3);
  return 1;
}

static void test_layer_norm(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    input in[3] = {real_input(1, 2, true, 3, S(2, 3, 9)), {0}, {0}};
    if (k & 1) in[1] = real_input(2, 1, true, 1, S(9));
    if (k & 2) in[2] = real_input(3, 1, true, 1, S(9));
    check_all(build_norm, NULL, 3, in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result res = evaluate(&b, build_norm, NULL, 3, in, false, 0);
    for (int row = 0; row < 6; row++) {
      double m = 0, v = 0;
      for (int i = 0; i < 9; i++) m += in[0].v[row * 9 + i] / 9;
      for (int i = 0; i < 9; i++) v += pow(in[0].v[row * 9 + i] - m, 2) / 9;
      for (int i = 0; i < 9; i++) {
        double y = (in[0].v[row * 9 + i] - m) / sqrt(v + 1e-3);
        if (k & 1) y *= in[1].v[i];
        if (k & 2) y += in[2].v[i];
        expect_close("y", row, i, res.out[0][row * 9 + i], y, 1e-12);
      }
    }
    result_free(&res);
    run_close(&b);
    inputs_free(3, in);
  }
}

static int build_ce(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  out[0] = crn_sparse_ce_logits(r, in[0], in[1]);
  return 1;
}

static void test_cross_entropy(void **state) {
  (void)state;
  input in[2] = {real_input(1, 5, true, 2, S(5, 6)), int_input(1, S(5), (int32_t[]){0, 5, 2, 2, 3})};
  check_all(build_ce, NULL, 2, in);
  inputs_free(2, in);
  input large[2] = {real_input(1, 5, true, 2, S(700, 60)), int_input(1, S(700), (int32_t[700]){7, 8})};
  check_float(build_ce, NULL, 2, large, 2e-4); /* several tasks */
  inputs_free(2, large);
  /* D20 of the collection of small cases: sum 3.466270 */
  double x[15] = {2, 0, -1, 0, 1, 0, 1, 1, 1, 0, 0, 3, 1, 0, 0}, sum = 0;
  input d20[2] = {real_input(1, 5, true, 2, S(5, 3)), int_input(1, S(5), (int32_t[]){0, 2, 1, 2, 0})};
  memcpy(d20[0].v, x, sizeof x);
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  result res = evaluate(&b, build_ce, NULL, 2, d20, false, 0);
  for (int i = 0; i < 5; i++) sum += res.out[0][i];
  assert_true(fabs(sum - 3.466270) < 2e-6);
  result_free(&res);
  inputs_free(2, d20);
  crn_tensor *logits = crn_t_zeros(&b.r, CRN_F32, 2, S(2, 3));
  crn_tensor *bad = crn_t_copy_in(&b.r, CRN_I32, 1, S(2), (int32_t[]){0, 3});
  assert_null(crn_sparse_ce_logits(&b.r, logits, bad));
  assert_non_null(strstr(crn_err_text(&b.err), "target 3 of row 1 is not a label: there are 3"));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_layer_norm),
      cmocka_unit_test(test_cross_entropy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
