/* SPDX-License-Identifier: Apache-2.0
 *
 * Fast fused LSTM cell.
 */

static void fast_lstm_forward(const crn_lstm_args *a) {
  const int64_t n = a->n, bj = a->layout.j * n, bi = a->layout.i * n, bf = a->layout.f * n, bo = a->layout.o * n;
  const V forget_bias = v_set(a->forget_bias);
  for (int64_t r = 0; r < a->rows; r++) {
    const float *z = a->z + r * a->ldz, *c_prev = a->c_prev ? a->c_prev + r * a->ldc_prev : NULL;
    float *g = a->gates + r * a->ldgates, *c = a->c + r * a->ldc, *h = a->h + r * a->ldh;
    for (int64_t k = 0; k < n; k += V_WIDTH) {
      V j = v_tanh(row_load(z + bj, k, n)), i = v_sigmoid(row_load(z + bi, k, n));
      V f = v_sigmoid(v_add(row_load(z + bf, k, n), forget_bias)), o = v_sigmoid(row_load(z + bo, k, n));
      V cell = v_mul(j, i);
      if (c_prev) cell = v_fma(row_load(c_prev, k, n), f, cell);
      row_store(g + bj, k, n, j);
      row_store(g + bi, k, n, i);
      row_store(g + bf, k, n, f);
      row_store(g + bo, k, n, o);
      row_store(c, k, n, cell);
      row_store(h, k, n, v_mul(v_tanh(cell), o));
    }
  }
}

/* s·(1 - s) */
static inline V sigmoid_slope(V s) { return v_mul(s, v_sub(v_set(1), s)); }

/* Equations at the reference function. */
static void fast_lstm_backward(const crn_lstm_args *a) {
  const int64_t n = a->n, bj = a->layout.j * n, bi = a->layout.i * n, bf = a->layout.f * n, bo = a->layout.o * n;
  const V zero = v_set(0), one = v_set(1);
  for (int64_t r = 0; r < a->rows; r++) {
    const float *g = a->gates + r * a->ldgates, *c = a->c + r * a->ldc;
    const float *c_prev = a->c_prev ? a->c_prev + r * a->ldc_prev : NULL;
    const float *dh = a->dh ? a->dh + r * a->lddh : NULL, *dc = a->dc ? a->dc + r * a->lddc : NULL;
    float *dz = a->dz + r * a->lddz, *dc_prev = a->dc_prev ? a->dc_prev + r * a->lddc_prev : NULL;
    for (int64_t k = 0; k < n; k += V_WIDTH) {
      V j = row_load(g + bj, k, n), i = row_load(g + bi, k, n), f = row_load(g + bf, k, n), o = row_load(g + bo, k, n);
      V t = v_tanh(row_load(c, k, n)), d_out = dh ? row_load(dh, k, n) : zero, d_cell = dc ? row_load(dc, k, n) : zero;
      V delta = v_fma(v_mul(d_out, o), v_fnma(t, t, one), d_cell);
      V df = c_prev ? v_mul(v_mul(delta, row_load(c_prev, k, n)), sigmoid_slope(f)) : zero;
      row_store(dz + bj, k, n, v_mul(v_mul(delta, i), v_fnma(j, j, one)));
      row_store(dz + bi, k, n, v_mul(v_mul(delta, j), sigmoid_slope(i)));
      row_store(dz + bf, k, n, df);
      row_store(dz + bo, k, n, v_mul(v_mul(d_out, t), sigmoid_slope(o)));
      if (dc_prev) row_store(dc_prev, k, n, v_mul(delta, f));
    }
  }
}
