/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixed-radix transform by recursion over the prime factors of the length (Cooley and Tukey 1965); a prime factor p
 * costs p operations per number.
 */
#include "data/fft.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"

crn_status crn_fft_init(crn_fft *f, int64_t n, crn_err *err) {
  *f = (crn_fft){.n = n};
  f->roots = crn_malloc((size_t)n * 2 * sizeof(double));
  f->work = crn_malloc((size_t)n * 6 * sizeof(double));
  if (!f->roots || !f->work) {
    crn_fft_free(f);
    return crn_err_memory(err);
  }
  for (int64_t k = 0; k < n; k++) {
    double a = -2.0 * 3.14159265358979323846 * (double)k / (double)n;
    f->roots[2 * k] = cos(a);
    f->roots[2 * k + 1] = sin(a);
  }
  return CRN_OK;
}

void crn_fft_free(crn_fft *f) {
  crn_free(f->roots);
  crn_free(f->work);
  *f = (crn_fft){0};
}

static int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

/* y[0..n) = transform of x[0], x[stride], … ; w: room for n complex numbers. All are pairs. */
static void transform(const crn_fft *f, const double *x, int64_t stride, int64_t n, double *y, double *w) {
  if (n == 1) {
    y[0] = x[0];
    y[1] = x[1];
    return;
  }
  int64_t p = smallest_factor(n), m = n / p, step = f->n / n;
  for (int64_t r = 0; r < p; r++) transform(f, x + 2 * r * stride, stride * p, m, w + 2 * r * m, y + 2 * r * m);
  /* X[k] = sum_r root(n)^(r k) * Y_r[k mod m] */
  for (int64_t k = 0; k < n; k++) {
    double re = 0, im = 0;
    for (int64_t r = 0; r < p; r++) {
      const double *root = f->roots + 2 * ((r * k % n) * step), *v = w + 2 * (r * m + k % m);
      re += root[0] * v[0] - root[1] * v[1];
      im += root[0] * v[1] + root[1] * v[0];
    }
    y[2 * k] = re;
    y[2 * k + 1] = im;
  }
}

void crn_fft_power(crn_fft *f, const double *x, double *power) {
  double *in = f->work, *y = f->work + 2 * f->n, *w = f->work + 4 * f->n;
  for (int64_t i = 0; i < f->n; i++) {
    in[2 * i] = x[i];
    in[2 * i + 1] = 0;
  }
  transform(f, in, 1, f->n, y, w);
  for (int64_t k = 0; k <= f->n / 2; k++) power[k] = y[2 * k] * y[2 * k] + y[2 * k + 1] * y[2 * k + 1];
}
