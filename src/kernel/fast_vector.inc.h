/* SPDX-License-Identifier: Apache-2.0
 *
 * Fast element-wise functions and reductions. The last elements go through the same vector code with a mask, so that an
 * element's value doesn't depend on where it stands.
 */

#define FAST_UNARY(name, expr)                                                                                         \
  static void fast_##name(int64_t n, const float *x, float *y) {                                                       \
    int64_t i = 0;                                                                                                     \
    for (; i + V_WIDTH <= n; i += V_WIDTH) {                                                                           \
      V v = v_load(x + i);                                                                                             \
      v_store(y + i, (expr));                                                                                          \
    }                                                                                                                  \
    if (i < n) {                                                                                                       \
      VMASK m = v_mask(n - i);                                                                                         \
      V v = v_load_mask(x + i, m);                                                                                     \
      v_store_mask(y + i, (expr), m);                                                                                  \
    }                                                                                                                  \
  }
FAST_UNARY(exp, v_exp(v))
FAST_UNARY(log, v_log(v))
FAST_UNARY(tanh, v_tanh(v))
FAST_UNARY(sigmoid, v_sigmoid(v))
FAST_UNARY(softplus, v_softplus(v))
FAST_UNARY(erf, v_erf(v))
FAST_UNARY(sqrt, v_sqrt(v))
FAST_UNARY(rsqrt, v_div(v_set(1), v_sqrt(v)))
FAST_UNARY(recip, v_div(v_set(1), v))
FAST_UNARY(square, v_mul(v, v))
FAST_UNARY(neg, v_neg(v))
FAST_UNARY(abs, v_abs(v))
FAST_UNARY(relu, v_max(v_set(0), v)) /* NaN stays */

#define LIBM_UNARY(name)                                                                                               \
  static void fast_##name(int64_t n, const float *x, float *y) {                                                       \
    for (int64_t i = 0; i < n; i++) y[i] = name##f(x[i]);                                                              \
  }
LIBM_UNARY(expm1)
LIBM_UNARY(log1p)
LIBM_UNARY(sin)
LIBM_UNARY(cos)

/* y = expr(u, v, w), u and v read from a and b, w the old y */
#define FAST_BINARY(name, expr)                                                                                        \
  static void fast_##name(int64_t n, const float *a, const float *b, float *y) {                                       \
    int64_t i = 0;                                                                                                     \
    for (; i + V_WIDTH <= n; i += V_WIDTH) {                                                                           \
      V u = v_load(a + i), v = v_load(b + i), w = v_load(y + i);                                                       \
      (void)w;                                                                                                         \
      v_store(y + i, (expr));                                                                                          \
    }                                                                                                                  \
    if (i < n) {                                                                                                       \
      VMASK m = v_mask(n - i);                                                                                         \
      V u = v_load_mask(a + i, m), v = v_load_mask(b + i, m), w = v_load_mask(y + i, m);                               \
      (void)w;                                                                                                         \
      v_store_mask(y + i, (expr), m);                                                                                  \
    }                                                                                                                  \
  }
FAST_BINARY(add, v_add(u, v))
FAST_BINARY(sub, v_sub(u, v))
FAST_BINARY(mul, v_mul(u, v))
FAST_BINARY(div, v_div(u, v))
FAST_BINARY(max, v_select(v_nan(u), u, v_max(u, v)))
FAST_BINARY(min, v_select(v_nan(u), u, v_min(u, v)))
FAST_BINARY(mul_add, v_fma(u, v, w))
/* a is the saved y of the forward function, b is dy, y is dx */
FAST_BINARY(tanh_backward, v_fma(v, v_fnma(u, u, v_set(1)), w))
FAST_BINARY(sigmoid_backward, v_fma(v, v_mul(u, v_sub(v_set(1), u)), w))
FAST_BINARY(relu_backward, v_add(w, v_select(v_lt(v_set(0), u), v, v_set(0))))

/* y = expr(s, v, w), s all lanes a, v from x, w the old y */
#define FAST_SCALAR(name, expr)                                                                                        \
  static void fast_##name(int64_t n, float a, const float *x, float *y) {                                              \
    int64_t i = 0;                                                                                                     \
    V s = v_set(a);                                                                                                    \
    for (; i + V_WIDTH <= n; i += V_WIDTH) {                                                                           \
      V v = v_load(x + i), w = v_load(y + i);                                                                          \
      (void)w;                                                                                                         \
      v_store(y + i, (expr));                                                                                          \
    }                                                                                                                  \
    if (i < n) {                                                                                                       \
      VMASK m = v_mask(n - i);                                                                                         \
      V v = v_load_mask(x + i, m), w = v_load_mask(y + i, m);                                                          \
      (void)w;                                                                                                         \
      v_store_mask(y + i, (expr), m);                                                                                  \
    }                                                                                                                  \
  }
FAST_SCALAR(scale, v_mul(s, v))
FAST_SCALAR(add_scalar, v_add(s, v))
FAST_SCALAR(axpy, v_fma(s, v, w))

/* Σ x and Σ a·b: lane l sums elements l, l + V_WIDTH, … in double */
static double fast_sum(int64_t n, const float *x) {
  VD low = vd_set(0), high = vd_set(0);
  for (int64_t i = 0; i < n; i += V_WIDTH) {
    V v = i + V_WIDTH <= n ? v_load(x + i) : v_load_mask(x + i, v_mask(n - i));
    low = vd_add(low, v_low(v));
    high = vd_add(high, v_high(v));
  }
  return vd_sum(vd_add(low, high));
}

static double fast_dot(int64_t n, const float *a, const float *b) {
  VD low = vd_set(0), high = vd_set(0);
  for (int64_t i = 0; i < n; i += V_WIDTH) {
    VMASK m = v_mask(n - i);
    V u = i + V_WIDTH <= n ? v_load(a + i) : v_load_mask(a + i, m);
    V v = i + V_WIDTH <= n ? v_load(b + i) : v_load_mask(b + i, m);
    low = vd_fma(v_low(u), v_low(v), low);
    high = vd_fma(v_high(u), v_high(v), high);
  }
  return vd_sum(vd_add(low, high));
}

static V load_some(const float *p, int64_t n) { return n >= V_WIDTH ? v_load(p) : v_load_mask(p, v_mask(n)); }

/* q with `rows` rows at once (1 or APART): their sums don't wait for each other. */
#define APART 4
static inline __attribute__((always_inline)) void dot_rows(const int rows, int64_t d, const float *q,
                                                           const float *const *x, int64_t at, float *e) {
  V sum[APART];
  for (int t = 0; t < rows; t++) sum[t] = v_set(0);
  for (int64_t k = 0; k < d; k += V_WIDTH) {
    const V qk = load_some(q + k, d - k);
    for (int t = 0; t < rows; t++) sum[t] = v_fma(qk, load_some(x[t] + at + k, d - k), sum[t]);
  }
  for (int t = 0; t < rows; t++) e[t] = (float)vd_sum(vd_add(v_low(sum[t]), v_high(sum[t])));
}

static void fast_dot_each(int64_t n, int64_t d, const float *q, const float *const *x, int64_t at, float *e) {
  int64_t t = 0;
  for (; t + APART <= n; t += APART) dot_rows(APART, d, q, x + t, at, e + t);
  for (; t < n; t++) dot_rows(1, d, q, x + t, at, e + t);
}

static void fast_weighted_sum(int64_t n, int64_t d, const float *w, const float *const *x, int64_t at, float *y) {
  int64_t k = 0;
  for (; k + APART * V_WIDTH <= d; k += APART * V_WIDTH) {
    V sum[APART];
    for (int v = 0; v < APART; v++) sum[v] = v_set(0);
    for (int64_t t = 0; t < n; t++) {
      const V wt = v_set(w[t]);
      for (int v = 0; v < APART; v++) sum[v] = v_fma(wt, v_load(x[t] + at + k + v * V_WIDTH), sum[v]);
    }
    for (int v = 0; v < APART; v++) v_store(y + k + v * V_WIDTH, sum[v]);
  }
  for (; k < d; k += V_WIDTH) {
    V sum = v_set(0);
    for (int64_t t = 0; t < n; t++) sum = v_fma(v_set(w[t]), load_some(x[t] + at + k, d - k), sum);
    v_store_mask(y + k, sum, v_mask(d - k));
  }
}

static float fast_reduce_max(int64_t n, const float *x) {
  const V none = v_set(-INFINITY);
  V top = none;
  int64_t i = 0;
  for (; i + V_WIDTH <= n; i += V_WIDTH) top = v_max(v_load(x + i), top);
  if (i < n) top = v_max(v_load_else(x + i, v_mask(n - i), none), top);
  return v_largest(top);
}

static float fast_reduce_min(int64_t n, const float *x) {
  const V none = v_set(INFINITY);
  V least = none;
  int64_t i = 0;
  for (; i + V_WIDTH <= n; i += V_WIDTH) least = v_min(v_load(x + i), least);
  if (i < n) least = v_min(v_load_else(x + i, v_mask(n - i), none), least);
  return v_least(least);
}

static int64_t fast_argmax(int64_t n, const float *x) {
  float best = fast_reduce_max(n, x);
  V wanted = v_set(best);
  int64_t i = 0;
  while (i + V_WIDTH <= n && !v_any(v_eq(v_load(x + i), wanted))) i += V_WIDTH;
  for (; i < n; i++)
    if (x[i] == best) return i;
  return 0;
}

#define COLUMN_VECTORS 16 /* columns summed at once: long runs of each row are read, the sums stay in the L1 cache */
#define COLUMN_BLOCK (COLUMN_VECTORS * V_WIDTH)

/* n <= COLUMN_BLOCK columns: y (+)= Σ_r a·b, b NULL: Σ_r a */
static void column_block(int64_t rows, int64_t n, const float *a, int64_t lda, const float *b, int64_t ldb, float *y,
                         bool accumulate) {
  VD low[COLUMN_VECTORS], high[COLUMN_VECTORS];
  for (int64_t j = 0, i = 0; j < n; j += V_WIDTH, i++) {
    V start = accumulate ? v_load_mask(y + j, v_mask(n - j)) : v_set(0);
    low[i] = v_low(start);
    high[i] = v_high(start);
  }
  for (int64_t r = 0; r < rows; r++, a += lda) {
    for (int64_t j = 0, i = 0; j < n; j += V_WIDTH, i++) {
      V u = j + V_WIDTH <= n ? v_load(a + j) : v_load_mask(a + j, v_mask(n - j));
      if (b) {
        V v = j + V_WIDTH <= n ? v_load(b + j) : v_load_mask(b + j, v_mask(n - j));
        low[i] = vd_fma(v_low(u), v_low(v), low[i]);
        high[i] = vd_fma(v_high(u), v_high(v), high[i]);
      } else {
        low[i] = vd_add(low[i], v_low(u));
        high[i] = vd_add(high[i], v_high(u));
      }
    }
    if (b) b += ldb;
  }
  for (int64_t j = 0, i = 0; j < n; j += V_WIDTH, i++) v_store_mask(y + j, v_join(low[i], high[i]), v_mask(n - j));
}

static void fast_column_sum(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, bool accumulate) {
  for (int64_t j = 0; j < n; j += COLUMN_BLOCK)
    column_block(rows, min_i64(COLUMN_BLOCK, n - j), x + j, ldx, NULL, 0, y + j, accumulate);
}

static void fast_column_dot(int64_t rows, int64_t n, const float *a, int64_t lda, const float *b, int64_t ldb, float *y,
                            bool accumulate) {
  for (int64_t j = 0; j < n; j += COLUMN_BLOCK)
    column_block(rows, min_i64(COLUMN_BLOCK, n - j), a + j, lda, b + j, ldb, y + j, accumulate);
}
