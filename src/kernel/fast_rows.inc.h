/* SPDX-License-Identifier: Apache-2.0
 *
 * Fast row kernels: softmax, layer norm, bias with activation. Sums run in double in an order that depends on the row's
 * length only.
 */

/* Vector at p + i of a row of n elements, zero beyond the end. */
static inline V row_load(const float *p, int64_t i, int64_t n) {
  return i + V_WIDTH <= n ? v_load(p + i) : v_load_mask(p + i, v_mask(n - i));
}

static inline void row_store(float *p, int64_t i, int64_t n, V x) {
  if (i + V_WIDTH <= n)
    v_store(p + i, x);
  else
    v_store_mask(p + i, x, v_mask(n - i));
}

static int64_t row_length(const int32_t *lengths, int64_t r, int64_t n) {
  if (!lengths) return n;
  return lengths[r] < 0 ? 0 : lengths[r] < n ? lengths[r] : n;
}

/* Σ exp(x - top); stores the terms in y unless it is NULL. Lanes beyond the end count nothing: exp(-inf) = 0. */
static double exp_sum(int64_t n, const float *x, float top, float *y) {
  VD low = vd_set(0), high = vd_set(0);
  V shift = v_set(top);
  int64_t i = 0;
  for (; i + V_WIDTH <= n; i += V_WIDTH) {
    V e = v_exp(v_sub(v_load(x + i), shift));
    if (y) v_store(y + i, e);
    low = vd_add(low, v_low(e));
    high = vd_add(high, v_high(e));
  }
  if (i < n) {
    const VMASK m = v_mask(n - i);
    V e = v_exp(v_sub(v_load_else(x + i, m, v_set(-INFINITY)), shift));
    if (y) v_store_mask(y + i, e, m);
    low = vd_add(low, v_low(e));
    high = vd_add(high, v_high(e));
  }
  return vd_sum(vd_add(low, high));
}

static void fast_softmax(int64_t rows, int64_t n, const float *x, int64_t ldx, const int32_t *lengths, float *y,
                         int64_t ldy) {
  for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
    int64_t len = row_length(lengths, r, n);
    double s = exp_sum(len, x, fast_reduce_max(len, x), y);
    fast_scale(len, (float)(1 / s), y, y);
    for (int64_t i = len; i < n; i++) y[i] = 0;
  }
}

static void fast_log_softmax(int64_t rows, int64_t n, const float *x, int64_t ldx, const int32_t *lengths, float *y,
                             int64_t ldy) {
  for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
    int64_t len = row_length(lengths, r, n);
    float top = fast_reduce_max(len, x);
    V shift = v_set(top), log_s = v_set((float)log(exp_sum(len, x, top, NULL)));
    for (int64_t i = 0; i < len; i += V_WIDTH) row_store(y, i, len, v_sub(v_sub(row_load(x, i, len), shift), log_s));
    for (int64_t i = len; i < n; i++) y[i] = -INFINITY;
  }
}

static void fast_softmax_backward(int64_t rows, int64_t n, const float *y, int64_t ldy, const float *dy, int64_t lddy,
                                  const int32_t *lengths, float *dx, int64_t lddx) {
  for (int64_t r = 0; r < rows; r++, y += ldy, dy += lddy, dx += lddx) {
    int64_t len = row_length(lengths, r, n);
    V s = v_set((float)fast_dot(len, y, dy));
    for (int64_t i = 0; i < len; i += V_WIDTH) {
      V d = v_fma(row_load(y, i, len), v_sub(row_load(dy, i, len), s), row_load(dx, i, len));
      row_store(dx, i, len, d);
    }
  }
}

static void fast_log_softmax_backward(int64_t rows, int64_t n, const float *y, int64_t ldy, const float *dy,
                                      int64_t lddy, const int32_t *lengths, float *dx, int64_t lddx) {
  for (int64_t r = 0; r < rows; r++, y += ldy, dy += lddy, dx += lddx) {
    int64_t len = row_length(lengths, r, n);
    V s = v_set((float)fast_sum(len, dy));
    for (int64_t i = 0; i < len; i += V_WIDTH) {
      V d = v_fnma(v_exp(row_load(y, i, len)), s, row_load(dy, i, len));
      row_store(dx, i, len, v_add(row_load(dx, i, len), d));
    }
  }
}

/* Σ (x - m)² over a row */
static double square_sum(int64_t n, const float *x, double m) {
  VD low = vd_set(0), high = vd_set(0), minus = vd_set(-m);
  int64_t i = 0;
  for (; i + V_WIDTH <= n; i += V_WIDTH) {
    V v = v_load(x + i);
    VD l = vd_add(v_low(v), minus), h = vd_add(v_high(v), minus);
    low = vd_fma(l, l, low);
    high = vd_fma(h, h, high);
  }
  double s = vd_sum(vd_add(low, high));
  for (; i < n; i++) s += ((double)x[i] - m) * ((double)x[i] - m);
  return s;
}

static void fast_layer_norm(int64_t rows, int64_t n, const float *x, int64_t ldx, const float *scale, const float *bias,
                            float eps, float *y, int64_t ldy, float *mean, float *rstd) {
  for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
    double m = fast_sum(n, x) / (double)n, var = square_sum(n, x, m) / (double)n;
    float mr = (float)m, rs = (float)(1 / sqrt(var + (double)eps));
    for (int64_t i = 0; i < n; i += V_WIDTH) {
      V v = v_mul(v_sub(row_load(x, i, n), v_set(mr)), v_set(rs));
      if (scale) v = v_mul(v, row_load(scale, i, n));
      if (bias) v = v_add(v, row_load(bias, i, n));
      row_store(y, i, n, v);
    }
    if (mean) mean[r] = mr;
    if (rstd) rstd[r] = rs;
  }
}

static void fast_layer_norm_backward(int64_t rows, int64_t n, const float *x, int64_t ldx, const float *scale,
                                     const float *mean, const float *rstd, const float *dy, int64_t lddy, float *dx,
                                     int64_t lddx) {
  for (int64_t r = 0; r < rows; r++, x += ldx, dy += lddy, dx += lddx) {
    V m = v_set(mean[r]), rs = v_set(rstd[r]);
    VD sum_g = vd_set(0), sum_gx = vd_set(0);
    for (int64_t i = 0; i < n; i += V_WIDTH) { /* g is zero beyond the end */
      V g = row_load(dy, i, n), xn = v_mul(v_sub(row_load(x, i, n), m), rs);
      if (scale) g = v_mul(g, row_load(scale, i, n));
      sum_g = vd_add(sum_g, vd_add(v_low(g), v_high(g)));
      sum_gx = vd_fma(v_low(g), v_low(xn), vd_fma(v_high(g), v_high(xn), sum_gx));
    }
    V mean_g = v_set((float)(vd_sum(sum_g) / (double)n)), mean_gx = v_set((float)(vd_sum(sum_gx) / (double)n));
    for (int64_t i = 0; i < n; i += V_WIDTH) {
      V g = row_load(dy, i, n), xn = v_mul(v_sub(row_load(x, i, n), m), rs);
      if (scale) g = v_mul(g, row_load(scale, i, n));
      V d = v_fnma(xn, mean_gx, v_sub(g, mean_g));
      row_store(dx, i, n, v_fma(rs, d, row_load(dx, i, n)));
    }
  }
}

static void fast_layer_norm_backward_scale(int64_t rows, int64_t n, const float *x, int64_t ldx, const float *mean,
                                           const float *rstd, const float *dy, int64_t lddy, float *dscale) {
  for (int64_t j0 = 0; j0 < n; j0 += COLUMN_BLOCK) {
    int64_t end = min_i64(n, j0 + COLUMN_BLOCK);
    VD low[COLUMN_VECTORS], high[COLUMN_VECTORS];
    for (int64_t j = j0, i = 0; j < end; j += V_WIDTH, i++) {
      low[i] = v_low(row_load(dscale, j, end));
      high[i] = v_high(row_load(dscale, j, end));
    }
    for (int64_t r = 0; r < rows; r++) {
      for (int64_t j = j0, i = 0; j < end; j += V_WIDTH, i++) {
        V g = row_load(dy + r * lddy, j, end);
        V xn = v_mul(v_sub(row_load(x + r * ldx, j, end), v_set(mean[r])), v_set(rstd[r]));
        low[i] = vd_fma(v_low(g), v_low(xn), low[i]);
        high[i] = vd_fma(v_high(g), v_high(xn), high[i]);
      }
    }
    for (int64_t j = j0, i = 0; j < end; j += V_WIDTH, i++) row_store(dscale, j, end, v_join(low[i], high[i]));
  }
}

static void fast_bias_act(int64_t rows, int64_t n, const float *x, int64_t ldx, const float *bias, crn_unary_fn f,
                          float *y, int64_t ldy) {
  for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
    if (bias)
      fast_add(n, x, bias, y);
    else if (x != y)
      memcpy(y, x, (size_t)n * sizeof(float));
    if (f) f(n, y, y);
  }
}
