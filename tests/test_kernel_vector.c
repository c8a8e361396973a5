/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise functions of every kernel table: errors in ulp against libm in double, special values, the same bits at
 * every position; simple arithmetic and reductions against plain loops.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel.h"

#define N_MAX 4099

static float next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

static double sigmoid_d(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double softplus_d(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double rsqrt_d(double x) { return 1 / sqrt(x); }
static double recip_d(double x) { return 1 / x; }
static double relu_d(double x) { return x < 0 ? 0 : x; }
static double neg_d(double x) { return -x; }
static double square_d(double x) { return x * x; }

/* Distance in units of the last place of the expected value as a float (denormals included). */
static double ulps(float got, double expected) {
  float rounded = (float)expected;
  if (isnan(expected)) return isnan(got) ? 0 : INFINITY;
  if (isinf(rounded) || isinf(got))
    return rounded == got ? 0 : fabs(expected) > 0x1.fffffep127 && isinf(got) ? 0 : INFINITY;
  int e;
  frexp(expected, &e);
  double unit = expected == 0 || e < -125 ? 0x1p-149 : ldexp(1, e - 24);
  return fabs((double)got - expected) / unit;
}

typedef struct unary_case {
  const char *name;
  size_t offset; /* of the function in crn_kernels */
  double (*exact)(double);
  float low, high;
  double bound; /* largest error, ulp */
} unary_case;

#define FN(name) #name, offsetof(crn_kernels, name)
static const unary_case unary_cases[] = {
    {FN(exp), exp, -110, 90, 1.1},
    {FN(log), log, 0, 10, 1.1},
    {FN(log), log, 0, 1e30f, 1.1},
    {FN(log), log, 0, 1e-38f, 1.1},
    {FN(tanh), tanh, -12, 12, 2.6},
    {FN(tanh), tanh, -1, 1, 2.6},
    {FN(tanh), tanh, -1e-3f, 1e-3f, 2.6},
    {FN(sigmoid), sigmoid_d, -110, 30, 2.6},
    {FN(sigmoid), sigmoid_d, -4, 4, 2.6},
    {FN(softplus), softplus_d, -110, 110, 2.6},
    {FN(softplus), softplus_d, -3, 3, 2.6},
    {FN(erf), erf, -5, 5, 2.6},
    {FN(erf), erf, -1e-3f, 1e-3f, 2.6},
    {FN(expm1), expm1, -3, 3, 1.1},
    {FN(log1p), log1p, -0.9f, 3, 1.1},
    {FN(sin), sin, -100, 100, 1.1},
    {FN(cos), cos, -100, 100, 1.1},
    {FN(sqrt), sqrt, 0, 100, 0.6},
    {FN(rsqrt), rsqrt_d, 1e-3f, 100, 1.6},
    {FN(recip), recip_d, 1e-3f, 100, 0.6},
    {FN(square), square_d, -9, 9, 0.6},
    {FN(neg), neg_d, -9, 9, 0},
    {FN(abs), fabs, -9, 9, 0},
    {FN(relu), relu_d, -9, 9, 0},
};
#define N_UNARY (sizeof unary_cases / sizeof unary_cases[0])

static crn_unary_fn unary_of(const crn_kernels *k, const unary_case *c) {
  crn_unary_fn f;
  memcpy(&f, (const char *)k + c->offset, sizeof f);
  return f;
}

static void test_errors(void **state) {
  (void)state;
  static float x[N_MAX], y[N_MAX];
  for (int v = 0; crn_kernels_nth(v); v++)
    for (size_t i = 0; i < N_UNARY; i++) {
      const unary_case *c = &unary_cases[i];
      uint32_t seed = 7;
      double worst = 0, worst_x = 0;
      for (int round = 0; round < 50; round++) {
        for (int j = 0; j < N_MAX; j++) x[j] = c->low + (c->high - c->low) * 0.5f * (next_random(&seed) + 1);
        unary_of(crn_kernels_nth(v), c)(N_MAX, x, y);
        for (int j = 0; j < N_MAX; j++) {
          double exact = c->exact((double)x[j]), e = ulps(y[j], exact);
          if (!(e <= worst)) {
            worst = e;
            worst_x = (double)x[j];
          }
        }
      }
      print_message("%s %s [%g, %g]: %.2f ulp at %.9g\n", crn_kernels_nth(v)->name, c->name, (double)c->low,
                    (double)c->high, worst, worst_x);
      if (!(worst <= c->bound)) fail_msg("%s: %.2f ulp, bound %.2f", c->name, worst, c->bound);
    }
}

static void test_special_values(void **state) {
  (void)state;
  static const float special[] = {0.0f,  -0.0f,  INFINITY, -INFINITY, NAN,     1e-45f, -1e-45f,
                                  3e38f, -3e38f, 88.8f,    -103.9f,   -104.1f, 1.0f};
  enum { N = sizeof special / sizeof special[0] };
  float y[N];
  for (int v = 0; crn_kernels_nth(v); v++)
    for (size_t i = 0; i < N_UNARY; i++) {
      const unary_case *c = &unary_cases[i];
      unary_of(crn_kernels_nth(v), c)(N, special, y);
      for (int j = 0; j < N; j++) {
        double exact = c->exact((double)special[j]), bound = c->bound > 1 ? c->bound : 1;
        if ((c->exact == sin || c->exact == cos) && isinf(special[j])) exact = (double)NAN;
        if (!(ulps(y[j], exact) <= bound))
          fail_msg("%s %s(%g) = %g, expected %g", crn_kernels_nth(v)->name, c->name, (double)special[j], (double)y[j],
                   exact);
      }
    }
}

/* Any length, any place, in place: always the same bits, and nothing written beyond the end. */
static void test_position(void **state) {
  (void)state;
  enum { N = 77 };
  float x[N + 1], all[N], part[N + 1];
  uint32_t seed = 3;
  for (int j = 0; j < N; j++) x[j] = 3 * (next_random(&seed) + 1.01f);
  for (int v = 0; crn_kernels_nth(v); v++)
    for (size_t i = 0; i < N_UNARY; i++) {
      crn_unary_fn f = unary_of(crn_kernels_nth(v), &unary_cases[i]);
      f(N, x, all);
      for (int start = 0; start < 20; start++)
        for (int n = 0; n <= 35; n++) {
          memcpy(part, x + start, sizeof(float) * (size_t)n);
          part[n] = 99;
          f(n, part, part);
          assert_memory_equal(part, all + start, sizeof(float) * (size_t)n);
          assert_true(part[n] == 99);
        }
    }
}

static void test_arithmetic(void **state) {
  (void)state;
  enum { N = 53 };
  float a[N], b[N], y[N];
  uint32_t seed = 5;
  for (int j = 0; j < N; j++) {
    a[j] = next_random(&seed);
    b[j] = next_random(&seed) + 2;
  }
  a[50] = b[51] = NAN;
#define EACH(call, expr)                                                                                               \
  do {                                                                                                                 \
    for (int j = 0; j < N; j++) y[j] = 0.25f * (float)j;                                                               \
    call;                                                                                                              \
    for (int j = 0; j < N; j++) {                                                                                      \
      double u = (double)a[j], w = (double)b[j], old = 0.25 * j, want = (expr);                                        \
      (void)u, (void)w, (void)old;                                                                                     \
      if (isnan(want))                                                                                                 \
        assert_true(isnan(y[j]));                                                                                      \
      else                                                                                                             \
        assert_true(fabs(want - (double)y[j]) <= 2e-7 * (fabs(want) + fabs(old) + 4));                                 \
    }                                                                                                                  \
  } while (0)
  for (int v = 0; crn_kernels_nth(v); v++) {
    const crn_kernels *k = crn_kernels_nth(v);
    EACH(k->add(N, a, b, y), u + w);
    EACH(k->sub(N, a, b, y), u - w);
    EACH(k->mul(N, a, b, y), u * w);
    EACH(k->div(N, a, b, y), u / w);
    EACH(k->max(N, a, b, y), isnan(u) || isnan(w) ? (double)NAN : fmax(u, w));
    EACH(k->min(N, a, b, y), isnan(u) || isnan(w) ? (double)NAN : fmin(u, w));
    EACH(k->mul_add(N, a, b, y), old + u * w);
    EACH(k->scale(N, 3.5f, a, y), 3.5 * u);
    EACH(k->add_scalar(N, 3.5f, a, y), 3.5 + u);
    EACH(k->axpy(N, 3.5f, a, y), old + 3.5 * u);
    EACH(k->tanh_backward(N, a, b, y), old + w * (1 - u * u));
    EACH(k->sigmoid_backward(N, a, b, y), old + w * u * (1 - u));
    EACH(k->relu_backward(N, a, b, y), old + (u > 0 ? w : 0));
  }
}

static void test_reductions(void **state) {
  (void)state;
  static float a[N_MAX], b[N_MAX];
  uint32_t seed = 11;
  for (int j = 0; j < N_MAX; j++) {
    a[j] = next_random(&seed);
    b[j] = next_random(&seed);
  }
  for (int v = 0; crn_kernels_nth(v); v++) {
    const crn_kernels *k = crn_kernels_nth(v);
    for (int n = 0; n < N_MAX; n = n * 2 + 1) {
      double sum = 0, dot = 0;
      float largest = -INFINITY, least = INFINITY;
      int64_t where = 0;
      for (int j = 0; j < n; j++) {
        sum += (double)a[j];
        dot += (double)a[j] * (double)b[j];
        if (a[j] > largest) where = j;
        largest = fmaxf(largest, a[j]);
        least = fminf(least, a[j]);
      }
      assert_true(fabs(k->sum(n, a) - sum) < 1e-11);
      assert_true(fabs(k->dot(n, a, b) - dot) < 1e-11);
      assert_true(k->reduce_max(n, a) == largest);
      assert_true(k->reduce_min(n, a) == least);
      assert_int_equal(k->argmax(n, a), where);
    }
    float tie[70];
    for (int j = 0; j < 70; j++) tie[j] = j == 40 || j == 41 || j == 69 ? 2.0f : j == 3 ? NAN : -INFINITY;
    assert_int_equal(k->argmax(70, tie), 40);
    assert_int_equal(k->argmax(40, tie), 0);
    assert_int_equal(k->argmax(1, tie + 3), 0);
    assert_int_equal(k->argmax(2, tie + 3), 1); /* NaN, -inf */
    assert_true(k->reduce_max(70, tie) == 2);
  }
}

static void test_rows_apart(void **state) {
  (void)state;
  enum { N = 11, D = 150, AT = 3, LD = 160 };
  static float q[D], w[N], x[N * LD], e[N + 1], y[D + 1];
  const float *row[N];
  uint32_t seed = 17;
  for (int i = 0; i < N * LD; i++) x[i] = next_random(&seed);
  for (int k = 0; k < D; k++) q[k] = next_random(&seed);
  for (int t = 0; t < N; t++) {
    w[t] = next_random(&seed);
    row[t] = x + (N - 1 - t) * LD;
  }
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int d = 0; d <= D; d += d < 70 ? 1 : 16)
      for (int n = 0; n <= N; n++) {
        const crn_kernels *k = crn_kernels_nth(v);
        e[n] = y[d] = 77;
        k->dot_each(n, d, q, row, AT, e);
        k->weighted_sum(n, d, w, row, AT, y);
        for (int t = 0; t < n; t++) {
          double s = 0;
          for (int j = 0; j < d; j++) s += (double)q[j] * (double)row[t][AT + j];
          assert_true(fabs((double)e[t] - s) < 1e-5);
        }
        for (int j = 0; j < d; j++) {
          double s = 0;
          for (int t = 0; t < n; t++) s += (double)w[t] * (double)row[t][AT + j];
          assert_true(fabs((double)y[j] - s) < 1e-5);
        }
        assert_true(e[n] == 77 && y[d] == 77);
      }
}

static void test_column_sums(void **state) {
  (void)state;
  enum { ROWS = 63, N = 297, LD = 301 };
  static float a[ROWS * LD], b[ROWS * LD], y[N + 1];
  uint32_t seed = 13;
  for (int i = 0; i < ROWS * LD; i++) {
    a[i] = next_random(&seed);
    b[i] = next_random(&seed);
  }
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int dot = 0; dot < 2; dot++)
      for (int accumulate = 0; accumulate < 2; accumulate++) {
        const crn_kernels *k = crn_kernels_nth(v);
        for (int j = 0; j <= N; j++) y[j] = (float)j;
        if (dot)
          k->column_dot(ROWS, N, a, LD, b, LD, y, accumulate);
        else
          k->column_sum(ROWS, N, a, LD, y, accumulate);
        for (int j = 0; j < N; j++) {
          double s = accumulate ? j : 0;
          for (int r = 0; r < ROWS; r++) s += (double)a[r * LD + j] * (dot ? (double)b[r * LD + j] : 1);
          assert_true(fabs((double)y[j] - s) <= 1e-7 * fabs(s) + 1e-12);
        }
        assert_true(y[N] == (float)N);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors),     cmocka_unit_test(test_special_values), cmocka_unit_test(test_position),
      cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_reductions),     cmocka_unit_test(test_column_sums),
      cmocka_unit_test(test_rows_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
