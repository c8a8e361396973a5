/* SPDX-License-Identifier: Apache-2.0
 *
 * Unary functions and their derivatives for R = float or double; M(f) is the function of libm for R, N(name) adds the
 * suffix. Each row: value in terms of v = x; derivative in terms of v = x and y. Included twice by ops_unary.c.
 */

static R N(digamma)(R v) { return (R)digamma((double)v); }
static R N(trigamma)(R v) { return (R)trigamma((double)v); }
static R N(lgamma_safe)(R v) { return (R)log_gamma((double)v); }
static R N(sigm)(R v) { return v >= 0 ? 1 / (1 + M(exp)(-v)) : M(exp)(v) / (1 + M(exp)(v)); }
static R N(normal_cdf)(R v) { return (R)0.5 * (1 + M(erf)(v * (R)0.70710678118654752440)); }
static R N(normal_pdf)(R v) { return (R)0.39894228040143267794 * M(exp)(-v * v / 2); }
static R N(gelu_inner)(R v) { return (R)0.79788456080286535588 * (v + (R)0.044715 * v * v * v); }
static R N(gelu_inner_d)(R v) { return (R)0.79788456080286535588 * (1 + 3 * (R)0.044715 * v * v); }
static R N(gelu_tanh_d)(R v) {
  R t = M(tanh)(N(gelu_inner)(v));
  return (R)0.5 * (1 + t) + (R)0.5 * v * (1 - t * t) * N(gelu_inner_d)(v);
}
static R N(gelu2_d)(R v) {
  R s = N(sigm)((R)1.702 * v);
  return s + (R)1.702 * v * s * (1 - s);
}
static R N(swish_d)(R v) {
  R s = N(sigm)(v);
  return s + v * s * (1 - s);
}

#define SELU_SCALE ((R)1.0507009873554805)
#define SELU_ALPHA ((R)1.6732632423543772)

#define ROWS(X)                                                                                                        \
  X(NEG, -v, -1)                                                                                                       \
  X(ABS, M(fabs)(v), v > 0 ? 1 : v < 0 ? -1 : 0)                                                                       \
  X(EXP, M(exp)(v), y)                                                                                                 \
  X(LOG, M(log)(v), 1 / v)                                                                                             \
  X(LOG1P, M(log1p)(v), 1 / (1 + v))                                                                                   \
  X(EXPM1, M(expm1)(v), y + 1)                                                                                         \
  X(SQRT, M(sqrt)(v), (R)0.5 / y)                                                                                      \
  X(RSQRT, 1 / M(sqrt)(v), (R)-0.5 * y * y * y)                                                                        \
  X(SQUARE, v *v, 2 * v)                                                                                               \
  X(RECIPROCAL, 1 / v, -y * y)                                                                                         \
  X(SIGN, v > 0 ? 1 : v < 0 ? -1 : v, 0)                                                                               \
  X(ROUND, M(rint)(v), 0)                                                                                              \
  X(FLOOR, M(floor)(v), 0)                                                                                             \
  X(CEIL, M(ceil)(v), 0)                                                                                               \
  X(SIN, M(sin)(v), M(cos)(v))                                                                                         \
  X(COS, M(cos)(v), -M(sin)(v))                                                                                        \
  X(TAN, M(tan)(v), 1 + y * y)                                                                                         \
  X(ASIN, M(asin)(v), 1 / M(sqrt)(1 - v * v))                                                                          \
  X(ACOS, M(acos)(v), -1 / M(sqrt)(1 - v * v))                                                                         \
  X(ATAN, M(atan)(v), 1 / (1 + v * v))                                                                                 \
  X(SINH, M(sinh)(v), M(cosh)(v))                                                                                      \
  X(COSH, M(cosh)(v), M(sinh)(v))                                                                                      \
  X(ASINH, M(asinh)(v), 1 / M(sqrt)(v * v + 1))                                                                        \
  X(ACOSH, M(acosh)(v), 1 / M(sqrt)(v * v - 1))                                                                        \
  X(ATANH, M(atanh)(v), 1 / (1 - v * v))                                                                               \
  X(TANH, M(tanh)(v), 1 - y * y)                                                                                       \
  X(SIGMOID, N(sigm)(v), y *(1 - y))                                                                                   \
  X(LOG_SIGMOID, v >= 0 ? -M(log1p)(M(exp)(-v)) : v - M(log1p)(M(exp)(v)), N(sigm)(-v))                                \
  X(SOFTPLUS, v >= 0 ? v + M(log1p)(M(exp)(-v)) : M(log1p)(M(exp)(v)), N(sigm)(v))                                     \
  X(RELU, v<0 ? 0 : v, y> 0 ? 1 : 0)                                                                                   \
  X(RELU6, v<0 ? 0 : v> 6 ? 6 : v, v > 0 && v < 6 ? 1 : 0)                                                             \
  X(ELU, v < 0 ? M(expm1)(v) : v, v < 0 ? y + 1 : 1)                                                                   \
  X(SELU, SELU_SCALE *(v < 0 ? SELU_ALPHA * M(expm1)(v) : v), v < 0 ? y + SELU_SCALE * SELU_ALPHA : SELU_SCALE)        \
  X(LEAKY_RELU, v<0 ? (R)0.2 * v : v, v> 0 ? 1 : (R)0.2)                                                               \
  X(SOFTSIGN, v / (1 + M(fabs)(v)), 1 / ((1 + M(fabs)(v)) * (1 + M(fabs)(v))))                                         \
  X(SWISH, v *N(sigm)(v), N(swish_d)(v))                                                                               \
  X(GELU, v *N(normal_cdf)(v), N(normal_cdf)(v) + v * N(normal_pdf)(v))                                                \
  X(GELU_TANH, (R)0.5 * v * (1 + M(tanh)(N(gelu_inner)(v))), N(gelu_tanh_d)(v))                                        \
  X(GELU2, v *N(sigm)((R)1.702 * v), N(gelu2_d)(v))                                                                    \
  X(GELU3, v *N(normal_cdf)(v), N(normal_cdf)(v) + v * N(normal_pdf)(v))                                               \
  X(LIN_EXP, v >= 0 ? v + 1 : M(exp)(v), v >= 0 ? 1 : y)                                                               \
  X(ERF, M(erf)(v), (R)1.12837916709551257390 * M(exp)(-v * v))                                                        \
  X(LGAMMA, N(lgamma_safe)(v), N(digamma)(v))                                                                          \
  X(DIGAMMA, N(digamma)(v), N(trigamma)(v))                                                                            \
  X(NAN_TO_NUM, isnan(v) ? 0 : isinf(v) ? M(nextafter)(v, 0) : v, isfinite(v) ? 1 : 0)

/* y[i] = f(x[i]) */
#define FORWARD(NAME, value, derivative)                                                                               \
  static void N(NAME##_forward)(int64_t n, const R *x, R *out) {                                                       \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      R v = x[i];                                                                                                      \
      out[i] = (R)(value);                                                                                             \
    }                                                                                                                  \
  }
/* dx[i] += dy[i]·f'(x[i]) */
#define BACKWARD(NAME, value, derivative)                                                                              \
  static void N(NAME##_backward)(int64_t n, const R *x, const R *out, const R *dy, R *dx) {                            \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      R v = x[i], y = out[i];                                                                                          \
      (void)v, (void)y;                                                                                                \
      dx[i] += dy[i] * (R)(derivative);                                                                                \
    }                                                                                                                  \
  }
ROWS(FORWARD)
ROWS(BACKWARD)

typedef struct N(unary_row) {
  void (*forward)(int64_t n, const R *x, R *out);
  void (*backward)(int64_t n, const R *x, const R *out, const R *dy, R *dx);
} N(unary_row);

#define ROW(NAME, value, derivative) [CRN_U_##NAME] = {N(NAME##_forward), N(NAME##_backward)},
static const N(unary_row) N(unary_rows)[CRN_N_UNARY] = {ROWS(ROW)};

static void N(unary_test)(crn_unary_kind kind, int64_t n, const R *x, uint8_t *out) {
  for (int64_t i = 0; i < n; i++)
    out[i] = (uint8_t)(kind == CRN_U_IS_NAN   ? isnan(x[i]) != 0
                       : kind == CRN_U_IS_INF ? isinf(x[i]) != 0
                                              : isfinite(x[i]) != 0);
}

#undef ROWS
#undef FORWARD
#undef BACKWARD
#undef ROW
#undef SELU_SCALE
#undef SELU_ALPHA
