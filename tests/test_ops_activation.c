/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation strings: the four rules in their order, values and gradients, names that losses ask for, errors.
 */
#include "ops2_check.h"

#include "tensor/eval.h"

static int build(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  crn_arena a = {0};
  crn_activation *act = NULL;
  if (crn_activation_compile(&a, arg, &act, r->err) == CRN_OK)
    out[0] = crn_scale(r, crn_activation_run(r, act, in[0]), 1); /* the identity gives its input itself */
  crn_arena_free(&a);
  return out[0] ? 1 : 0;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double same(double x) { return x; }
static double three_plus(double x) { return 3 + 2 * sigmoid(x); }
static double one_minus(double x) { return 1 - tanh(x); }
static double two_over(double x) { return 2 / sigmoid(x); }
static double minus_one_times(double x) { return x - sigmoid(x); }
static double minus_tanh(double x) { return x - tanh(x); }
static double twice_relu(double x) { return x > 0 ? 2 * x : 0; }
static double product(double x) { return tanh(x) * exp(x); }
static double halves(double x) { return exp(x) / 2 - 1; }
static double negative(double x) { return -x; }
static double gelu(double x) { return x * 0.5 * (1 + erf(x / sqrt(2.0))); }
static double swish(double x) { return x * sigmoid(x); }
static double tenfold(double x) { return 10 * sigmoid(x); }
static double logs(double x) { return -log1p(exp(-x)); }
static double absolute(double x) { return fabs(x) + 1; }
static double square(double x) { return x * x; }

static const struct {
  const char *text;
  double (*want)(double x);
  const char *name;
} good[] = {
    {NULL, same, "identity"},
    {"", same, "identity"},
    {"none", same, "identity"},
    {"identity", same, "identity"},
    {"neg", negative, "neg"},
    {"negative", negative, "neg"},
    {"tanh", tanh, "tanh"},
    {"sigmoid", sigmoid, "sigmoid"},
    {"exp", exp, "exp"},
    {"square", square, "square"},
    {"gelu", gelu, "gelu"},
    {"swish", swish, "swish"},
    {"silu", swish, "swish"},
    {"log_sigmoid", logs, "log_sigmoid"},
    {"3 + 2 * sigmoid", three_plus, NULL},
    {"1 - tanh", one_minus, NULL},
    {"2 / sigmoid", two_over, NULL},
    {"-1*sigmoid", minus_one_times, NULL},
    {"-tanh", minus_tanh, NULL},
    {"10.000000*sigmoid", tenfold, NULL},
    {"tanh * exp", product, NULL},
    {"exp / 2 - 1", halves, NULL},
    {"tf.nn.relu(x) * 2", twice_relu, NULL},
    {"abs(x) + 1", absolute, NULL},
    {"(x)", same, NULL},
    {"9223372036854775807 * exp / 9223372036854775807", exp, NULL}, /* no integer of 64 bits is asked of it */
};

static void test_values(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    input in = real_input((int64_t)i + 3, 2, true, 2, (const int64_t[]){3, 5});
    check_all(build, good[i].text, 1, &in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result got = evaluate(&b, build, good[i].text, 1, &in, false, 0);
    for (int k = 0; k < 15; k++)
      expect_close(good[i].text ? good[i].text : "NULL", 0, k, got.out[0][k], good[i].want(in.v[k]), 1e-12);
    result_free(&got);
    crn_arena a = {0};
    crn_activation *act = NULL;
    assert_int_equal(crn_activation_compile(&a, good[i].text, &act, &b.err), CRN_OK);
    const char *name = crn_activation_name(act);
    assert_true(name ? good[i].name && !strcmp(name, good[i].name) : !good[i].name);
    crn_arena_free(&a);
    run_close(&b);
    free(in.v);
  }
}

/* All names that configs use, over the last axis where there is one. */
static void test_names(void **state) {
  (void)state;
  static const char *const names[] = {"relu",           "relu6",    "elu",         "selu",  "leaky_relu", "softsign",
                                      "softplus",       "softmax",  "log_softmax", "sqrt",  "rsqrt",      "log",
                                      "log1p",          "expm1",    "sign",        "sin",   "cos",        "erf",
                                      "reciprocal",     "digamma",  "lgamma",      "gelu2", "gelu3",      "lin_exp",
                                      "lin_exp_normed", "safe_log", "safe_exp",    "abs",   "floor",      "ceil",
                                      "round",          "rint"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    bench_run b;
    run_open(&b, CRN_F32, NULL, 1);
    input in = real_input((int64_t)i, 1, false, 2, (const int64_t[]){2, 3});
    for (int k = 0; k < 6; k++) in.v[k] = fabs(in.v[k]) + 0.1;
    crn_arena a = {0};
    crn_activation *act = NULL;
    if (crn_activation_compile(&a, names[i], &act, &b.err) != CRN_OK) fail_msg("%s", crn_err_text(&b.err));
    crn_tensor *y = crn_activation_run(&b.r, act, make_input(&b.r, &in, NULL));
    if (!y) fail_msg("%s: %s", names[i], crn_err_text(&b.err));
    assert_true(y->rank == 2 && y->shape[1] == 3 && y->dtype == CRN_F32);
    for (int k = 0; k < 6; k++) assert_true(isfinite(crn_t_get(y, k)));
    if (!strcmp(names[i], "softmax")) assert_true(fabs(crn_t_get(y, 0) + crn_t_get(y, 1) + crn_t_get(y, 2) - 1) < 1e-6);
    free(in.v);
    crn_arena_free(&a);
    run_close(&b);
  }
}

static void test_options(void **state) {
  (void)state;
  bench_run b;
  crn_arena a = {0};
  crn_activation *act = NULL;
  crn_value *opts = NULL;
  run_open(&b, CRN_F64, NULL, 1);
  assert_int_equal(crn_v_parse_literal(&a, "{'eps': 1e-10}", "t", &opts, &b.err), CRN_OK);
  assert_int_equal(crn_activation_compile(&a, "safe_log", &act, &b.err), CRN_OK);
  crn_tensor *zero = crn_t_zeros(&b.r, CRN_F64, 1, (const int64_t[]){1});
  assert_true(fabs(crn_t_get(crn_activation_apply(&b.r, act, zero, NULL, opts), 0) - log(1e-10)) < 1e-12);
  assert_true(fabs(crn_t_get(crn_activation_apply(&b.r, act, zero, NULL, NULL), 0) - log(1e-20)) < 1e-12);
  crn_tensor *low = crn_t_full(&b.r, CRN_F64, 1, (const int64_t[]){1}, -600);
  crn_made made = {"exp", low, NULL};
  assert_true(crn_t_get(crn_activation_apply(&b.r, act, zero, &made, opts), 0) == -600);
  assert_int_equal(crn_activation_compile(&a, "tanh", &act, &b.err), CRN_OK);
  assert_null(crn_activation_apply(&b.r, act, zero, NULL, opts));
  assert_non_null(strstr(crn_err_text(&b.err), "no argument 'eps'"));
  crn_arena_free(&a);
  run_close(&b);
}

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *word;
  } bad[] = {
      {"None", "invalid activation function \"None\""},
      {"tahn", "nearest is \"tanh\""},
      {"relu(x)", "unknown name 'relu'"},
      {"safe_log(x)", "only x and tf"},
      {"2*sigmoid*3", "more than one '*'"},
      {"1e-5*tanh", "\"1e\""},
      {"maximum", "more than one argument"},
      {"nn.relu", "invalid activation function"},
      {"float", "invalid activation function"},
      {"tf.nn.relu(x", "expected ',' or ')'"},
      {"tf.nn.reluu(x)", "nearest is 'tf.nn.relu'"},
      {"tanh +", ""}, /* the empty right part is the identity: no error */
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    crn_arena a = {0};
    crn_err err = {0};
    crn_activation *act = NULL;
    crn_status s = crn_activation_compile(&a, bad[i].text, &act, &err);
    assert_true((s != CRN_OK) == (bad[i].word[0] != 0));
    if (!strstr(crn_err_text(&err), bad[i].word))
      fail_msg("%s: no '%s' in: %s", bad[i].text, bad[i].word, crn_err_text(&err));
    crn_err_clear(&err);
    crn_arena_free(&a);
  }
  bench_run b;
  crn_arena a = {0};
  crn_activation *act = NULL;
  run_open(&b, CRN_F32, NULL, 1);
  assert_int_equal(crn_activation_compile(&a, "tanh", &act, &b.err), CRN_OK);
  assert_null(crn_activation_run(&b.r, act, crn_t_zeros(&b.r, CRN_I32, 1, (const int64_t[]){1})));
  assert_non_null(strstr(crn_err_text(&b.err), "tanh"));
  crn_arena_free(&a);
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_options), cmocka_unit_test(test_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
