/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference element-wise functions and reductions for R = float or double, LIBM(f) the matching function of libm.
 */

/* e = exp(-|x|): 1/(1 + e) for x >= 0, e/(1 + e) below; keeps its relative accuracy where the result is tiny */
static R ref_sigmoid1(R x) {
  R e = LIBM(exp)(-LIBM(fabs)(x));
  return (x < 0 ? e : 1) / (1 + e);
}

#define REF_UNARY(name, expr)                                                                                          \
  static void ref_##name(int64_t n, const R *x, R *y) {                                                                \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      R v = x[i];                                                                                                      \
      y[i] = (expr);                                                                                                   \
    }                                                                                                                  \
  }
REF_UNARY(exp, LIBM(exp)(v))
REF_UNARY(log, LIBM(log)(v))
REF_UNARY(tanh, LIBM(tanh)(v))
REF_UNARY(sigmoid, ref_sigmoid1(v))
REF_UNARY(softplus, (v > 0 ? v : 0) + (v == v ? LIBM(log1p)(LIBM(exp)(-LIBM(fabs)(v))) : v))
REF_UNARY(erf, LIBM(erf)(v))
REF_UNARY(expm1, LIBM(expm1)(v))
REF_UNARY(log1p, LIBM(log1p)(v))
REF_UNARY(sin, LIBM(sin)(v))
REF_UNARY(cos, LIBM(cos)(v))
REF_UNARY(sqrt, LIBM(sqrt)(v))
REF_UNARY(rsqrt, 1 / LIBM(sqrt)(v))
REF_UNARY(recip, 1 / v)
REF_UNARY(square, v *v)
REF_UNARY(neg, -v)
REF_UNARY(abs, LIBM(fabs)(v))
REF_UNARY(relu, v < 0 ? 0 : v)

#define REF_UNARY_BACKWARD(name, expr)                                                                                 \
  static void ref_##name##_backward(int64_t n, const R *saved, const R *dy, R *dx) {                                   \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      R y = saved[i], g = dy[i];                                                                                       \
      dx[i] += (expr);                                                                                                 \
    }                                                                                                                  \
  }
REF_UNARY_BACKWARD(tanh, g *(1 - y * y))
REF_UNARY_BACKWARD(sigmoid, g *(y *(1 - y)))
REF_UNARY_BACKWARD(relu, y > 0 ? g : 0)

#define REF_BINARY(name, expr)                                                                                         \
  static void ref_##name(int64_t n, const R *a, const R *b, R *y) {                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      R u = a[i], v = b[i];                                                                                            \
      y[i] = (expr);                                                                                                   \
    }                                                                                                                  \
  }
REF_BINARY(add, u + v)
REF_BINARY(sub, u - v)
REF_BINARY(mul, u *v)
REF_BINARY(div, u / v)
REF_BINARY(max, u > v || u != u ? u : v)
REF_BINARY(min, u < v || u != u ? u : v)
REF_BINARY(mul_add, y[i] + u * v)

static void ref_scale(int64_t n, R a, const R *x, R *y) {
  for (int64_t i = 0; i < n; i++) y[i] = a * x[i];
}

static void ref_add_scalar(int64_t n, R a, const R *x, R *y) {
  for (int64_t i = 0; i < n; i++) y[i] = a + x[i];
}

static void ref_axpy(int64_t n, R a, const R *x, R *y) {
  for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

static double ref_sum(int64_t n, const R *x) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += (double)x[i];
  return s;
}

static void ref_dot_each(int64_t n, int64_t d, const R *q, const R *const *x, int64_t at, R *e) {
  for (int64_t t = 0; t < n; t++) {
    e[t] = 0;
    for (int64_t k = 0; k < d; k++) e[t] += q[k] * x[t][at + k];
  }
}

static void ref_weighted_sum(int64_t n, int64_t d, const R *w, const R *const *x, int64_t at, R *y) {
  for (int64_t k = 0; k < d; k++) {
    y[k] = 0;
    for (int64_t t = 0; t < n; t++) y[k] += w[t] * x[t][at + k];
  }
}

static double ref_dot(int64_t n, const R *a, const R *b) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
  return s;
}

static R ref_reduce_max(int64_t n, const R *x) {
  R m = (R)-INFINITY;
  for (int64_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}

static R ref_reduce_min(int64_t n, const R *x) {
  R m = (R)INFINITY;
  for (int64_t i = 0; i < n; i++) m = x[i] < m ? x[i] : m;
  return m;
}

static int64_t ref_argmax(int64_t n, const R *x) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; i++)
    if (x[i] == x[i] && (best < 0 || x[i] > x[best])) best = i;
  return best < 0 ? 0 : best;
}

static void ref_column_sum(int64_t rows, int64_t n, const R *x, int64_t ldx, R *y, bool accumulate) {
  for (int64_t j = 0; j < n; j++) {
    double s = accumulate ? (double)y[j] : 0;
    for (int64_t r = 0; r < rows; r++) s += (double)x[r * ldx + j];
    y[j] = (R)s;
  }
}

static void ref_column_dot(int64_t rows, int64_t n, const R *a, int64_t lda, const R *b, int64_t ldb, R *y,
                           bool accumulate) {
  for (int64_t j = 0; j < n; j++) {
    double s = accumulate ? (double)y[j] : 0;
    for (int64_t r = 0; r < rows; r++) s += (double)a[r * lda + j] * (double)b[r * ldb + j];
    y[j] = (R)s;
  }
}
