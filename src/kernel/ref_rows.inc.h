/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference row kernels for R = float or double: softmax, layer norm, bias with activation.
 */

static int64_t ref_row_length(const int32_t *lengths, int64_t r, int64_t n) {
  if (!lengths) return n;
  return lengths[r] < 0 ? 0 : lengths[r] < n ? lengths[r] : n;
}

static void ref_softmax(int64_t rows, int64_t n, const R *x, int64_t ldx, const int32_t *lengths, R *y, int64_t ldy) {
  for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
    int64_t len = ref_row_length(lengths, r, n);
    R top = ref_reduce_max(len, x);
    double s = 0;
    for (int64_t i = 0; i < len; i++) {
      y[i] = LIBM(exp)(x[i] - top);
      s += (double)y[i];
    }
    for (int64_t i = 0; i < len; i++) y[i] = (R)((double)y[i] / s);
    for (int64_t i = len; i < n; i++) y[i] = 0;
  }
}

static void ref_log_softmax(int64_t rows, int64_t n, const R *x, int64_t ldx, const int32_t *lengths, R *y,
                            int64_t ldy) {
  for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
    int64_t len = ref_row_length(lengths, r, n);
    R top = ref_reduce_max(len, x);
    double s = 0;
    for (int64_t i = 0; i < len; i++) s += (double)LIBM(exp)(x[i] - top);
    R log_s = (R)log(s);
    for (int64_t i = 0; i < len; i++) y[i] = (x[i] - top) - log_s;
    for (int64_t i = len; i < n; i++) y[i] = (R)-INFINITY;
  }
}

static void ref_softmax_backward(int64_t rows, int64_t n, const R *y, int64_t ldy, const R *dy, int64_t lddy,
                                 const int32_t *lengths, R *dx, int64_t lddx) {
  for (int64_t r = 0; r < rows; r++, y += ldy, dy += lddy, dx += lddx) {
    int64_t len = ref_row_length(lengths, r, n);
    R s = (R)ref_dot(len, y, dy);
    for (int64_t i = 0; i < len; i++) dx[i] += y[i] * (dy[i] - s);
  }
}

static void ref_log_softmax_backward(int64_t rows, int64_t n, const R *y, int64_t ldy, const R *dy, int64_t lddy,
                                     const int32_t *lengths, R *dx, int64_t lddx) {
  for (int64_t r = 0; r < rows; r++, y += ldy, dy += lddy, dx += lddx) {
    int64_t len = ref_row_length(lengths, r, n);
    R s = (R)ref_sum(len, dy);
    for (int64_t i = 0; i < len; i++) dx[i] += dy[i] - LIBM(exp)(y[i]) * s;
  }
}

static void ref_layer_norm(int64_t rows, int64_t n, const R *x, int64_t ldx, const R *scale, const R *bias, R eps, R *y,
                           int64_t ldy, R *mean, R *rstd) {
  for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
    double m = ref_sum(n, x) / (double)n, var = 0;
    for (int64_t i = 0; i < n; i++) var += ((double)x[i] - m) * ((double)x[i] - m);
    R mr = (R)m, rs = (R)(1 / sqrt(var / (double)n + (double)eps));
    for (int64_t i = 0; i < n; i++) {
      R v = (x[i] - mr) * rs;
      if (scale) v *= scale[i];
      if (bias) v += bias[i];
      y[i] = v;
    }
    if (mean) mean[r] = mr;
    if (rstd) rstd[r] = rs;
  }
}

static void ref_layer_norm_backward(int64_t rows, int64_t n, const R *x, int64_t ldx, const R *scale, const R *mean,
                                    const R *rstd, const R *dy, int64_t lddy, R *dx, int64_t lddx) {
  for (int64_t r = 0; r < rows; r++, x += ldx, dy += lddy, dx += lddx) {
    double sum_g = 0, sum_gx = 0;
    for (int64_t i = 0; i < n; i++) {
      R g = scale ? dy[i] * scale[i] : dy[i];
      sum_g += (double)g;
      sum_gx += (double)g * (double)((x[i] - mean[r]) * rstd[r]);
    }
    R mean_g = (R)(sum_g / (double)n), mean_gx = (R)(sum_gx / (double)n);
    for (int64_t i = 0; i < n; i++) {
      R g = scale ? dy[i] * scale[i] : dy[i];
      dx[i] += rstd[r] * (g - mean_g - (x[i] - mean[r]) * rstd[r] * mean_gx);
    }
  }
}

static void ref_layer_norm_backward_scale(int64_t rows, int64_t n, const R *x, int64_t ldx, const R *mean,
                                          const R *rstd, const R *dy, int64_t lddy, R *dscale) {
  for (int64_t j = 0; j < n; j++) {
    double s = (double)dscale[j];
    for (int64_t r = 0; r < rows; r++) s += (double)dy[r * lddy + j] * (double)((x[r * ldx + j] - mean[r]) * rstd[r]);
    dscale[j] = (R)s;
  }
}

static void ref_bias_act(int64_t rows, int64_t n, const R *x, int64_t ldx, const R *bias, CRN_K(crn_unary_fn) f, R *y,
                         int64_t ldy) {
  for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
    for (int64_t i = 0; i < n; i++) y[i] = bias ? x[i] + bias[i] : x[i];
    if (f) f(n, y, y);
  }
}
