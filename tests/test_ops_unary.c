/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of one element: every kind's value against libm, gradient against differences, float on every kernel table
 * against double; special values, integers, bool, complex; scalar functions (clip, safe_log, …) and casts.
 */
#include "ops2_check.h"

#define assert_near(got, want, tol) assert_true(fabs((double)(got) - (double)(want)) <= (tol))

typedef struct range {
  double lo, hi; /* where the function is defined and smooth */
} range;

static range domain(crn_unary_kind kind) {
  switch (kind) {
  case CRN_U_LOG:
  case CRN_U_SQRT:
  case CRN_U_RSQRT:
  case CRN_U_RECIPROCAL:
    return (range){0.3, 4};
  case CRN_U_LOG1P:
    return (range){-0.7, 3};
  case CRN_U_TAN:
    return (range){-1.2, 1.2};
  case CRN_U_ASIN:
  case CRN_U_ACOS:
  case CRN_U_ATANH:
    return (range){-0.9, 0.9};
  case CRN_U_ACOSH:
    return (range){1.2, 5};
  case CRN_U_LGAMMA:
    return (range){0.2, 14};
  case CRN_U_DIGAMMA:
    return (range){0.7, 14};
  case CRN_U_RELU6:
    return (range){-3, 9};
  default:
    return (range){-3, 3};
  }
}

static bool has_test_output(crn_unary_kind k) { return k == CRN_U_IS_NAN || k == CRN_U_IS_INF || k == CRN_U_IS_FINITE; }

static int build_unary(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_unary(r, *(const crn_unary_kind *)arg, in[0]);
  return 1;
}

static input ranged(int64_t seed, range d, int rank, const int64_t *shape) {
  input in = real_input(seed, (d.hi - d.lo) / 2, true, rank, shape);
  for (int64_t i = 0; i < count_of(rank, shape); i++) in.v[i] = (double)(float)(in.v[i] + (d.hi + d.lo) / 2);
  return in;
}

static void test_gradients(void **state) {
  (void)state;
  static const struct {
    int rank;
    int64_t shape[3];
  } shapes[] = {{2, {3, 5}}, {0, {0}}, {3, {2, 0, 4}}, {1, {1}}};
  for (int k = 0; k < CRN_N_UNARY; k++) {
    crn_unary_kind kind = (crn_unary_kind)k;
    if (kind == CRN_U_LOGICAL_NOT || has_test_output(kind)) continue;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
      input in = ranged(k + 1, domain(kind), shapes[s].rank, shapes[s].shape);
      bool flat = kind == CRN_U_SIGN || kind == CRN_U_ROUND || kind == CRN_U_FLOOR || kind == CRN_U_CEIL;
      in.grad = !flat;
      check_all(build_unary, &kind, 1, &in);
      free(in.v);
    }
  }
}

/* Long enough for blocks and threads; every table, 1 to 3 threads. */
static void test_long(void **state) {
  (void)state;
  const int64_t shape[] = {7, 9001};
  for (int k = 0; k < CRN_N_UNARY; k++) {
    crn_unary_kind kind = (crn_unary_kind)k;
    if (kind == CRN_U_LOGICAL_NOT || has_test_output(kind)) continue;
    bool heavy = kind == CRN_U_LGAMMA || kind == CRN_U_DIGAMMA;
    if (heavy) continue; /* plain loops without blocks: the short test covers them */
    input in = ranged(k + 1, domain(kind), 2, shape);
    in.grad = kind != CRN_U_SIGN && kind != CRN_U_ROUND && kind != CRN_U_FLOOR && kind != CRN_U_CEIL;
    check_float(build_unary, &kind, 1, &in, 2e-4);
    free(in.v);
  }
}

static double at(crn_unary_kind kind, double x) {
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  crn_tensor *y = crn_unary(&b.r, kind, crn_t_scalar(&b.r, CRN_F64, x));
  assert_non_null(y);
  double v = crn_t_get(y, 0);
  run_close(&b);
  return v;
}

static void close_to(double got, double want) {
  if (!(fabs(got - want) <= 1e-12 * (1 + fabs(want)))) fail_msg("got %.17g, want %.17g", got, want);
}

static void test_values(void **state) {
  (void)state;
  const double x = 0.731, n = -1.37;
  close_to(at(CRN_U_NEG, x), -x);
  close_to(at(CRN_U_ABS, n), -n);
  close_to(at(CRN_U_EXP, x), exp(x));
  close_to(at(CRN_U_LOG, x), log(x));
  close_to(at(CRN_U_LOG1P, x), log1p(x));
  close_to(at(CRN_U_EXPM1, x), expm1(x));
  close_to(at(CRN_U_SQRT, x), sqrt(x));
  close_to(at(CRN_U_RSQRT, x), 1 / sqrt(x));
  close_to(at(CRN_U_SQUARE, n), n * n);
  close_to(at(CRN_U_RECIPROCAL, n), 1 / n);
  close_to(at(CRN_U_SIGN, n), -1);
  close_to(at(CRN_U_ROUND, 2.5), 2);
  close_to(at(CRN_U_ROUND, 3.5), 4);
  close_to(at(CRN_U_FLOOR, n), -2);
  close_to(at(CRN_U_CEIL, n), -1);
  close_to(at(CRN_U_SIN, x), sin(x));
  close_to(at(CRN_U_COS, x), cos(x));
  close_to(at(CRN_U_TAN, x), tan(x));
  close_to(at(CRN_U_ASIN, x), asin(x));
  close_to(at(CRN_U_ACOS, x), acos(x));
  close_to(at(CRN_U_ATAN, n), atan(n));
  close_to(at(CRN_U_SINH, x), sinh(x));
  close_to(at(CRN_U_COSH, x), cosh(x));
  close_to(at(CRN_U_ASINH, x), asinh(x));
  close_to(at(CRN_U_ACOSH, 2.2), acosh(2.2));
  close_to(at(CRN_U_ATANH, x), atanh(x));
  close_to(at(CRN_U_TANH, n), tanh(n));
  close_to(at(CRN_U_SIGMOID, n), 1 / (1 + exp(-n)));
  close_to(at(CRN_U_LOG_SIGMOID, n), -log1p(exp(-n)));
  close_to(at(CRN_U_LOG_SIGMOID, -800), -800);
  close_to(at(CRN_U_SOFTPLUS, n), log1p(exp(n)));
  close_to(at(CRN_U_SOFTPLUS, 800), 800);
  close_to(at(CRN_U_RELU, n), 0);
  close_to(at(CRN_U_RELU6, 8), 6);
  close_to(at(CRN_U_ELU, n), exp(n) - 1);
  close_to(at(CRN_U_SELU, n), 1.0507009873554805 * 1.6732632423543772 * (exp(n) - 1));
  close_to(at(CRN_U_SELU, x), 1.0507009873554805 * x);
  close_to(at(CRN_U_LEAKY_RELU, n), 0.2 * n);
  close_to(at(CRN_U_SOFTSIGN, n), n / (1 - n));
  close_to(at(CRN_U_SWISH, n), n / (1 + exp(-n)));
  close_to(at(CRN_U_GELU, n), n * 0.5 * erfc(-n / sqrt(2.0)));
  close_to(at(CRN_U_GELU3, n), n * 0.5 * erfc(-n / sqrt(2.0)));
  close_to(at(CRN_U_GELU_TANH, n), 0.5 * n * (1 + tanh(sqrt(2 / M_PI) * (n + 0.044715 * n * n * n))));
  close_to(at(CRN_U_GELU2, n), n / (1 + exp(-1.702 * n)));
  close_to(at(CRN_U_LIN_EXP, x), x + 1);
  close_to(at(CRN_U_LIN_EXP, n), exp(n));
  close_to(at(CRN_U_ERF, x), erf(x));
  close_to(at(CRN_U_LGAMMA, 4.5), lgamma(4.5));
  close_to(at(CRN_U_DIGAMMA, 1), -0.57721566490153286061);
  close_to(at(CRN_U_DIGAMMA, -0.5), 0.03648997397857652056);
  close_to(at(CRN_U_NAN_TO_NUM, NAN), 0);
  close_to(at(CRN_U_NAN_TO_NUM, x), x);
  assert_true(at(CRN_U_IS_NAN, NAN) == 1 && at(CRN_U_IS_NAN, x) == 0 && at(CRN_U_IS_NAN, INFINITY) == 0);
  assert_true(at(CRN_U_IS_INF, -INFINITY) == 1 && at(CRN_U_IS_INF, NAN) == 0);
  assert_true(at(CRN_U_IS_FINITE, x) == 1 && at(CRN_U_IS_FINITE, NAN) == 0);
}

static void test_names(void **state) {
  (void)state;
  for (int k = 0; k < CRN_N_UNARY; k++) {
    crn_unary_kind found;
    assert_non_null(crn_unary_name((crn_unary_kind)k));
    assert_true(crn_unary_from_name(crn_unary_name((crn_unary_kind)k), &found));
    assert_int_equal(found, k);
  }
  crn_unary_kind kind;
  assert_true(crn_unary_from_name("silu", &kind) && kind == CRN_U_SWISH);
  assert_true(crn_unary_from_name("negative", &kind) && kind == CRN_U_NEG);
  assert_false(crn_unary_from_name("tanhh", &kind));
  assert_false(crn_unary_from_name("", &kind));
}

static void test_other_types(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  const int32_t values[] = {-3, 0, 5, INT32_MIN};
  const int64_t four = 4;
  crn_tensor *x = crn_t_copy_in(r, CRN_I32, 1, &four, values);
  crn_tensor *y = crn_unary(r, CRN_U_NEG, x);
  assert_int_equal(crn_t_i32(y)[0], 3);
  assert_int_equal(crn_t_i32(y)[3], INT32_MIN);
  assert_int_equal(crn_t_i32(crn_unary(r, CRN_U_SIGN, x))[0], -1);
  assert_int_equal(crn_t_i32(crn_unary(r, CRN_U_SQUARE, x))[2], 25);
  crn_tensor *flags = crn_cast(r, x, CRN_BOOL), *inverse = crn_unary(r, CRN_U_LOGICAL_NOT, flags);
  assert_int_equal(crn_t_bool(flags)[1], 0);
  assert_int_equal(crn_t_bool(flags)[2], 1);
  assert_int_equal(crn_t_bool(inverse)[1], 1);
  const float z[] = {3, 4, 0, 0};
  crn_tensor *c = crn_t_copy_in(r, CRN_C64, 1, (const int64_t[]){2}, z);
  y = crn_unary(r, CRN_U_ABS, c);
  assert_int_equal(y->dtype, CRN_F32);
  assert_near(crn_t_f32(y)[0], 5, 1e-6);
  assert_null(crn_unary(r, CRN_U_TANH, x));
  assert_non_null(strstr(crn_err_text(&b.err), "tanh"));
  assert_non_null(strstr(crn_err_text(&b.err), "int32"));
  assert_null(crn_unary(r, CRN_U_NEG, x)); /* the failure is sticky */
  run_close(&b);
}

/* ---- scalar functions ------------------------------------------------------------------------------------------- */

typedef struct scalar_case {
  const char *name;
  double p, q, lo, hi;
} scalar_case;

static int build_scalar(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const scalar_case *c = arg;
  if (!strcmp(c->name, "scale")) out[0] = crn_scale(r, in[0], c->p);
  if (!strcmp(c->name, "add")) out[0] = crn_add_scalar(r, in[0], c->p);
  if (!strcmp(c->name, "clip")) out[0] = crn_clip(r, in[0], c->p, c->q);
  if (!strcmp(c->name, "safe_log")) out[0] = crn_safe_log(r, in[0], c->p);
  if (!strcmp(c->name, "safe_exp")) out[0] = crn_safe_exp(r, in[0], c->p);
  if (!strcmp(c->name, "cast"))
    out[0] = crn_cast(r, crn_cast(r, in[0], r->real == CRN_F32 ? CRN_F64 : CRN_F32), r->real);
  return 1;
}

static void test_scalar_functions(void **state) {
  (void)state;
  static const scalar_case cases[] = {{"scale", -1.7, 0, -2, 2},
                                      {"add", 0.3, 0, -2, 2},
                                      {"clip", -0.5, 0.7, -2, 2},
                                      {"safe_log", 1e-20, 0, 0.2, 3},
                                      {"safe_exp", 1e-20, 0, -3, 3}};
  const int64_t shapes[][2] = {{3, 7}, {0, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int s = 0; s < 2; s++) {
      input in = ranged((int64_t)i + 1, (range){cases[i].lo, cases[i].hi}, 2, shapes[s]);
      check_all(build_scalar, &cases[i], 1, &in);
      free(in.v);
    }
  input in = ranged(5, (range){-2, 2}, 2, shapes[0]);
  check_float(build_scalar, &(scalar_case){.name = "cast"}, 1, &in, 1e-6);
  free(in.v);
}

static void test_safe_gradients(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  crn_run *r = &b.r;
  r->recording = true;
  crn_tensor *x = crn_t_copy_in(r, CRN_F64, 1, (const int64_t[]){2}, (const double[]){0, 0.5});
  x->needs_grad = true;
  crn_tensor *y = crn_safe_log(r, x, 1e-3);
  assert_near(crn_t_f64(y)[0], log(1e-3), 1e-12);
  assert_int_equal(crn_backward(r, y, NULL), CRN_OK);
  assert_near(((double *)x->st->grad)[0], 1e3, 1e-9);
  assert_near(((double *)x->st->grad)[1], 2, 1e-12);
  run_close(&b);
  run_open(&b, CRN_F64, NULL, 1);
  r->recording = true;
  x = crn_t_scalar(r, CRN_F64, 100);
  x->needs_grad = true;
  y = crn_safe_exp(r, x, 1e-3);
  assert_near(crn_t_f64(y)[0], 1e3, 1e-9);
  assert_int_equal(crn_backward(r, y, NULL), CRN_OK);
  assert_near(((double *)x->st->grad)[0], 1e3, 1e-9);
  run_close(&b);
}

static void test_casts(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  const double values[] = {-2.7, 0, 3.9, 255};
  crn_tensor *x = crn_t_copy_in(r, CRN_F64, 1, (const int64_t[]){4}, values);
  for (int t = 0; t < CRN_N_DTYPES; t++) {
    if (t == CRN_STRING || t == CRN_C64) continue;
    crn_tensor *y = crn_cast(r, x, (crn_dtype)t);
    assert_non_null(y);
    assert_int_equal(y->dtype, t);
    if (crn_dtype_is_int(y->dtype) && t != CRN_U8 && t != CRN_U16) assert_int_equal((int)crn_t_get(y, 0), -2);
    if (crn_dtype_is_int(y->dtype)) assert_int_equal((int)crn_t_get(y, 2), 3);
    if (t == CRN_BOOL) assert_true(crn_t_get(y, 0) == 1 && crn_t_get(y, 1) == 0);
    crn_tensor *back = crn_cast(r, y, CRN_F32);
    assert_true(crn_t_get(back, 1) == 0);
  }
  assert_int_equal(crn_t_i32(crn_scale(r, crn_cast(r, x, CRN_I32), 3))[2], 9);
  assert_int_equal(crn_t_i32(crn_clip(r, crn_cast(r, x, CRN_I32), 0, 2))[0], 0);
  assert_null(crn_cast(r, x, CRN_STRING));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradients),      cmocka_unit_test(test_long),
      cmocka_unit_test(test_values),         cmocka_unit_test(test_names),
      cmocka_unit_test(test_other_types),    cmocka_unit_test(test_scalar_functions),
      cmocka_unit_test(test_safe_gradients), cmocka_unit_test(test_casts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
