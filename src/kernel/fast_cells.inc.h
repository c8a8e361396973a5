/* SPDX-License-Identifier: Apache-2.0
 *
 * Fast fused LSTM cell and additive-attention energies.
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

#define ATTENTION_COLUMNS (2 * V_WIDTH) /* columns of one backward task */
#define ATTENTION_FRAMES 64             /* frames whose gradients are summed in float before they go to double */

static int64_t attention_length(const crn_attention_args *a, int64_t r) {
  if (!a->lengths) return a->T;
  int64_t len = a->lengths[r / a->beam];
  return len < 0 ? 0 : len < a->T ? len : a->T;
}

static void attention_forward_row(void *arg, int64_t r) {
  const crn_attention_args *a = arg;
  const float *q = a->q + r * a->ldq;
  const int64_t K = a->K, len = attention_length(a, r);
  for (int64_t t = 0; t < len; t++) {
    const float *ctx = a->ctx + (r / a->beam) * a->ctx_stride_b + t * a->ctx_stride_t;
    const float *extra = a->extra ? a->extra + r * a->extra_stride_b + t * a->extra_stride_t : NULL;
    V sum = v_set(0); /* v is zero beyond the end */
    for (int64_t k = 0; k < K; k += V_WIDTH) {
      V s = v_add(row_load(ctx, k, K), row_load(q, k, K));
      if (extra) s = v_add(s, row_load(extra, k, K));
      sum = v_fma(row_load(a->v, k, K), v_tanh(s), sum);
    }
    a->e[r * a->e_stride_r + t * a->e_stride_t] = (float)vd_sum(vd_add(v_low(sum), v_high(sum)));
  }
}

static void fast_attention_forward(const crn_attention_args *a, crn_threads *t) {
  crn_threads_run(t, a->B * a->beam, attention_forward_row, (void *)(uintptr_t)a);
}

/* Frames [t0, t1) of row r in the V_WIDTH columns from k on: adds to dctx, dextra; returns Σ d in *dq, Σ de·tanh in *dv
 */
static void attention_backward_frames(const crn_attention_args *a, int64_t r, int64_t t0, int64_t t1, int64_t k, V *dq,
                                      V *dv) {
  const int64_t K = a->K, seq = r / a->beam;
  const V q = row_load(a->q + r * a->ldq, k, K), v = row_load(a->v, k, K), one = v_set(1);
  V sum_q = v_set(0), sum_v = v_set(0);
  for (int64_t t = t0; t < t1; t++) {
    V s = v_add(row_load(a->ctx + seq * a->ctx_stride_b + t * a->ctx_stride_t, k, K), q);
    if (a->extra) s = v_add(s, row_load(a->extra + r * a->extra_stride_b + t * a->extra_stride_t, k, K));
    V y = v_tanh(s), de = v_set(a->de[r * a->e_stride_r + t * a->e_stride_t]);
    V d = v_mul(v_mul(de, v), v_fnma(y, y, one));
    if (a->dctx) {
      float *p = a->dctx + seq * a->ctx_stride_b + t * a->ctx_stride_t;
      row_store(p, k, K, v_add(row_load(p, k, K), d));
    }
    if (a->dextra) {
      float *p = a->dextra + r * a->extra_stride_b + t * a->extra_stride_t;
      row_store(p, k, K, v_add(row_load(p, k, K), d));
    }
    sum_q = v_add(sum_q, d);
    sum_v = v_fma(de, y, sum_v);
  }
  *dq = sum_q;
  *dv = sum_v;
}

/* One block of columns for all rows and frames, so that no two threads add to one place and every sum has its order. */
static void attention_backward_columns(void *arg, int64_t block) {
  const crn_attention_args *a = arg;
  const int64_t K = a->K, end = min_i64(K, (block + 1) * ATTENTION_COLUMNS);
  for (int64_t k = block * ATTENTION_COLUMNS; k < end; k += V_WIDTH) {
    VD v_sum_low = vd_set(0), v_sum_high = vd_set(0);
    for (int64_t r = 0; r < a->B * a->beam; r++) {
      VD q_low = vd_set(0), q_high = vd_set(0);
      const int64_t len = attention_length(a, r);
      for (int64_t t = 0; t < len; t += ATTENTION_FRAMES) {
        V dq, dv;
        attention_backward_frames(a, r, t, min_i64(len, t + ATTENTION_FRAMES), k, &dq, &dv);
        q_low = vd_add(q_low, v_low(dq));
        q_high = vd_add(q_high, v_high(dq));
        v_sum_low = vd_add(v_sum_low, v_low(dv));
        v_sum_high = vd_add(v_sum_high, v_high(dv));
      }
      float *p = a->dq ? a->dq + r * a->ldq : NULL;
      if (p) row_store(p, k, K, v_add(row_load(p, k, K), v_join(q_low, q_high)));
    }
    if (a->dv) row_store(a->dv, k, K, v_add(row_load(a->dv, k, K), v_join(v_sum_low, v_sum_high)));
  }
}

static void fast_attention_backward(const crn_attention_args *a, crn_threads *t) {
  crn_threads_run(t, (a->K + ATTENTION_COLUMNS - 1) / ATTENTION_COLUMNS, attention_backward_columns,
                  (void *)(uintptr_t)a);
}
