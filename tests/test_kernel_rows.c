/* SPDX-License-Identifier: Apache-2.0
 *
 * Row kernels. The double reference is checked against formulas and differences; every float table against the double
 * reference, on odd sizes, with row strides and lengths.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel.h"

enum { ROWS = 5, LD = 311 };
static const int64_t sizes[] = {1, 7, 8, 16, 33, 107, 299};
#define N_SIZES ((int)(sizeof sizes / sizeof sizes[0]))

typedef struct both { /* the same values as float and double */
  float f[ROWS * LD];
  double d[ROWS * LD];
} both;

static void fill(both *b, uint32_t seed, float size) {
  for (int i = 0; i < ROWS * LD; i++) {
    seed = seed * 1664525u + 1013904223u;
    b->f[i] = size * ((float)(seed >> 8) * 0x1p-23f - 1.0f);
    b->d[i] = (double)b->f[i];
  }
}

static void assert_near(const both *b, double tolerance) {
  for (int i = 0; i < ROWS * LD; i++) {
    double f = (double)b->f[i], d = b->d[i];
    if (isinf(d) ? f != d : !(fabs(f - d) <= tolerance * (1 + fabs(d))))
      fail_msg("at %d: %.9g, expected %.9g", i, f, d);
  }
}

static void test_softmax(void **state) {
  (void)state;
  static both x, y;
  const crn_kernels_f64 *kd = crn_kernels_double();
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int s = 0; s < N_SIZES; s++)
      for (int with_lengths = 0; with_lengths < 2; with_lengths++) {
        const crn_kernels *k = crn_kernels_nth(v);
        int64_t n = sizes[s];
        const int32_t lengths[ROWS] = {(int32_t)n, (int32_t)n / 2, 0, 1, (int32_t)n + 9},
                      *len = with_lengths ? lengths : NULL;
        fill(&x, 1, 20);
        fill(&y, 2, 1);
        k->softmax(ROWS, n, x.f, LD, len, y.f, LD);
        kd->softmax(ROWS, n, x.d, LD, len, y.d, LD);
        assert_near(&y, 1e-6);
        for (int r = 0; r < ROWS; r++) {
          int64_t m = !len || len[r] > n ? n : len[r];
          double sum = 0;
          for (int64_t i = 0; i < n; i++) {
            if (i < m) {
              double z = 0;
              for (int64_t j = 0; j < m; j++) z += exp(x.d[r * LD + j] - x.d[r * LD + i]);
              assert_true(fabs(y.d[r * LD + i] - 1 / z) < 1e-12);
            }
            sum += y.d[r * LD + i];
          }
          assert_true(fabs(sum - (m > 0)) < 1e-12);
        }
        k->log_softmax(ROWS, n, x.f, LD, len, x.f, LD); /* in place */
        kd->log_softmax(ROWS, n, x.d, LD, len, x.d, LD);
        assert_near(&x, 1e-6);
        for (int r = 0; r < ROWS; r++)
          for (int64_t i = 0; i < n; i++) {
            double p = y.d[r * LD + i];
            if (p == 0)
              assert_true(isinf(x.d[r * LD + i]));
            else
              assert_true(fabs(log(p) - x.d[r * LD + i]) < 1e-9);
          }
      }
}

static void test_softmax_special(void **state) {
  (void)state;
  for (int v = 0; crn_kernels_nth(v); v++) {
    const crn_kernels *k = crn_kernels_nth(v);
    float x[20], y[20];
    for (int i = 0; i < 20; i++) x[i] = -INFINITY;
    k->softmax(1, 20, x, 20, NULL, y, 20);
    for (int i = 0; i < 20; i++) assert_true(isnan(y[i]));
    x[17] = 3e38f;
    k->softmax(1, 20, x, 20, NULL, y, 20);
    for (int i = 0; i < 20; i++) assert_true(y[i] == (i == 17 ? 1.0f : 0.0f));
    x[3] = NAN;
    k->softmax(1, 20, x, 20, NULL, y, 20);
    for (int i = 0; i < 20; i++) assert_true(isnan(y[i]));
  }
}

/* A row's result doesn't depend on what is beyond its length. */
static void test_padding_same_bits(void **state) {
  (void)state;
  static both x, y, z;
  const int32_t lengths[ROWS] = {3, 50, 17, 16, 99};
  for (int v = 0; crn_kernels_nth(v); v++) {
    const crn_kernels *k = crn_kernels_nth(v);
    fill(&x, 1, 5);
    k->softmax(ROWS, 107, x.f, LD, lengths, y.f, LD);
    for (int r = 0; r < ROWS; r++) {
      k->softmax(1, lengths[r], x.f + r * LD, LD, NULL, z.f, LD);
      assert_memory_equal(z.f, y.f + r * LD, sizeof(float) * (size_t)lengths[r]);
    }
  }
}

/* Sum of w·f(x) over a row, for differences. */
static double weighted(const double *w, const double *y, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; i++)
    if (!isinf(y[i])) s += w[i] * y[i];
  return s;
}

static void test_softmax_backward(void **state) {
  (void)state;
  static both x, y, w, dx;
  static double moved[ROWS * LD];
  const crn_kernels_f64 *kd = crn_kernels_double();
  for (int s = 0; s < N_SIZES; s++)
    for (int which = 0; which < 4; which++) {
      int64_t n = sizes[s];
      bool take_log = which & 1;
      const int32_t lengths[ROWS] = {(int32_t)n, (int32_t)n / 2, 0, 1, (int32_t)n}, *len = which & 2 ? lengths : NULL;
      fill(&x, 3, 2);
      fill(&w, 4, 1);
      (take_log ? kd->log_softmax : kd->softmax)(ROWS, n, x.d, LD, len, y.d, LD);
      memset(dx.d, 0, sizeof dx.d);
      (take_log ? kd->log_softmax_backward : kd->softmax_backward)(ROWS, n, y.d, LD, w.d, LD, len, dx.d, LD);
      for (int64_t i = 0; i < ROWS * LD; i += 13) {
        if (i % LD >= n) continue;
        double old = x.d[i], up, down, step = 1e-5;
        int64_t row = i / LD * LD;
        x.d[i] = old + step;
        (take_log ? kd->log_softmax : kd->softmax)(ROWS, n, x.d, LD, len, moved, LD);
        up = weighted(w.d + row, moved + row, n);
        x.d[i] = old - step;
        (take_log ? kd->log_softmax : kd->softmax)(ROWS, n, x.d, LD, len, moved, LD);
        down = weighted(w.d + row, moved + row, n);
        x.d[i] = old;
        assert_true(fabs((up - down) / (2 * step) - dx.d[i]) < 1e-8);
      }
      for (int v = 0; crn_kernels_nth(v); v++) {
        const crn_kernels *k = crn_kernels_nth(v);
        fill(&dx, 5, 1); /* gradients add to what is there */
        for (int i = 0; i < ROWS * LD; i++) y.f[i] = (float)y.d[i];
        (take_log ? kd->log_softmax_backward : kd->softmax_backward)(ROWS, n, y.d, LD, w.d, LD, len, dx.d, LD);
        (take_log ? k->log_softmax_backward : k->softmax_backward)(ROWS, n, y.f, LD, w.f, LD, len, dx.f, LD);
        assert_near(&dx, 1e-5);
      }
    }
}

static void test_layer_norm(void **state) {
  (void)state;
  static both x, y, scale, bias, mean, rstd, dy, dx, dscale;
  static double moved[ROWS * LD];
  const crn_kernels_f64 *kd = crn_kernels_double();
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int s = 0; s < N_SIZES; s++)
      for (int affine = 0; affine < 2; affine++) {
        const crn_kernels *k = crn_kernels_nth(v);
        int64_t n = sizes[s];
        fill(&x, 6, 3);
        fill(&scale, 7, 1);
        fill(&bias, 8, 1);
        fill(&dy, 9, 1);
        fill(&dx, 10, 1);
        fill(&dscale, 11, 1);
        fill(&y, 12, 1);
        fill(&mean, 13, 1);
        fill(&rstd, 14, 1);
        for (int i = 0; i < ROWS * LD; i++) x.f[i] = (float)(x.d[i] += 7);
        for (int i = 0; i < ROWS * LD; i++) x.d[i] = (double)x.f[i];
        double *sd = affine ? scale.d : NULL, *bd = affine ? bias.d : NULL;
        float *sf = affine ? scale.f : NULL, *bf = affine ? bias.f : NULL;
        kd->layer_norm(ROWS, n, x.d, LD, sd, bd, 1e-2, y.d, LD, mean.d, rstd.d);
        k->layer_norm(ROWS, n, x.f, LD, sf, bf, 1e-2f, y.f, LD, mean.f, rstd.f);
        assert_near(&y, 1e-5);
        assert_near(&mean, 1e-6);
        assert_near(&rstd, 1e-6);
        static double zero[ROWS * LD];
        memset(zero, 0, sizeof zero);
        kd->layer_norm_backward(ROWS, n, x.d, LD, sd, mean.d, rstd.d, dy.d, LD, zero, LD);
        for (int64_t i = 0; i < ROWS * LD; i += 13) {
          if (i % LD >= n) continue;
          double old = x.d[i], step = 1e-4;
          x.d[i] = old + step;
          kd->layer_norm(ROWS, n, x.d, LD, sd, bd, 1e-2, moved, LD, NULL, NULL);
          double up = weighted(dy.d + i / LD * LD, moved + i / LD * LD, n);
          x.d[i] = old - step;
          kd->layer_norm(ROWS, n, x.d, LD, sd, bd, 1e-2, moved, LD, NULL, NULL);
          double down = weighted(dy.d + i / LD * LD, moved + i / LD * LD, n);
          x.d[i] = old;
          assert_true(fabs((up - down) / (2 * step) - zero[i]) < 1e-5);
        }
        kd->layer_norm_backward(ROWS, n, x.d, LD, sd, mean.d, rstd.d, dy.d, LD, dx.d, LD);
        k->layer_norm_backward(ROWS, n, x.f, LD, sf, mean.f, rstd.f, dy.f, LD, dx.f, LD);
        assert_near(&dx, 2e-4);           /* rstd is up to 10 at n = 1, and x - mean cancels */
        for (int64_t j = 0; j < n; j++) { /* the formula, independent of the kernel */
          moved[j] = dscale.d[j];
          for (int r = 0; r < ROWS; r++) moved[j] += dy.d[r * LD + j] * (x.d[r * LD + j] - mean.d[r]) * rstd.d[r];
        }
        kd->layer_norm_backward_scale(ROWS, n, x.d, LD, mean.d, rstd.d, dy.d, LD, dscale.d);
        k->layer_norm_backward_scale(ROWS, n, x.f, LD, mean.f, rstd.f, dy.f, LD, dscale.f);
        assert_near(&dscale, 1e-5);
        for (int64_t j = 0; j < n; j++) assert_true(fabs(moved[j] - dscale.d[j]) < 1e-12);
      }
}

static void test_bias_act(void **state) {
  (void)state;
  static both x, y, bias;
  const crn_kernels_f64 *kd = crn_kernels_double();
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int which = 0; which < 4; which++) {
      const crn_kernels *k = crn_kernels_nth(v);
      fill(&x, 15, 2);
      fill(&y, 16, 2);
      fill(&bias, 17, 2);
      k->bias_act(ROWS, 107, x.f, LD, which & 1 ? bias.f : NULL, which & 2 ? k->tanh : NULL, y.f, LD);
      kd->bias_act(ROWS, 107, x.d, LD, which & 1 ? bias.d : NULL, which & 2 ? kd->tanh : NULL, y.d, LD);
      assert_near(&y, 1e-6);
      for (int i = 0; i < ROWS * LD; i++) {
        double z = x.d[i] + (which & 1 ? bias.d[i % LD] : 0);
        if (i % LD < 107) assert_true(y.d[i] == (which & 2 ? tanh(z) : z));
      }
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_softmax),           cmocka_unit_test(test_softmax_special),
      cmocka_unit_test(test_padding_same_bits), cmocka_unit_test(test_softmax_backward),
      cmocka_unit_test(test_layer_norm),        cmocka_unit_test(test_bias_act),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
