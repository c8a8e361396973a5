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

#define ATTENTION_VECTORS 8 /* vectors in the columns of one backward task */
#define ATTENTION_COLUMNS (ATTENTION_VECTORS * V_WIDTH)
#define ATTENTION_APART 4
#define ATTENTION_FRAMES 64                /* frames whose gradients are summed in float before they go to double */
#define ATTENTION_MIN_ELEMENTS (64 * 1024) /* less isn't worth waking threads */

/* NULL where the work is too little for threads */
static crn_threads *attention_pool(const crn_attention_args *a, crn_threads *t) {
  return a->B * a->beam * a->T * a->K < ATTENTION_MIN_ELEMENTS ? NULL : t;
}

static int64_t attention_length(const crn_attention_args *a, int64_t r) {
  if (!a->lengths) return a->T;
  int64_t len = a->lengths[r / a->beam];
  return len < 0 ? 0 : len < a->T ? len : a->T;
}

/* Energies of `frames` frames from t on (1 or a few, whose sums don't wait for each other). */
static inline __attribute__((always_inline)) void attention_energies(const int frames, const crn_attention_args *a,
                                                                     int64_t r, int64_t t) {
  const float *q = a->q + r * a->ldq;
  const float *ctx = a->ctx + (r / a->beam) * a->ctx_stride_b + t * a->ctx_stride_t;
  const float *extra = a->extra ? a->extra + r * a->extra_stride_b + t * a->extra_stride_t : NULL;
  V sum[ATTENTION_APART];
  for (int f = 0; f < frames; f++) sum[f] = v_set(0); /* v is zero beyond the end */
  for (int64_t k = 0; k < a->K; k += V_WIDTH) {
    const V qk = row_load(q, k, a->K), vk = row_load(a->v, k, a->K);
    for (int f = 0; f < frames; f++) {
      V s = v_add(row_load(ctx + f * a->ctx_stride_t, k, a->K), qk);
      if (extra) s = v_add(s, row_load(extra + f * a->extra_stride_t, k, a->K));
      sum[f] = v_fma(vk, v_tanh(s), sum[f]);
    }
  }
  float *e = a->e + r * a->e_stride_r + t * a->e_stride_t;
  for (int f = 0; f < frames; f++) e[f * a->e_stride_t] = (float)vd_sum(vd_add(v_low(sum[f]), v_high(sum[f])));
}

static void attention_forward_row(void *arg, int64_t r) {
  const crn_attention_args *a = arg;
  const int64_t len = attention_length(a, r);
  int64_t t = 0;
  for (; t + ATTENTION_APART <= len; t += ATTENTION_APART) attention_energies(ATTENTION_APART, a, r, t);
  for (; t < len; t++) attention_energies(1, a, r, t);
}

static void fast_attention_forward(const crn_attention_args *a, crn_threads *t) {
  crn_threads_run(attention_pool(a, t), a->B * a->beam, attention_forward_row, (void *)(uintptr_t)a);
}

/* Sums of one block of columns, by vector */
typedef struct attention_sums {
  V q[ATTENTION_VECTORS], v[ATTENTION_VECTORS];
} attention_sums;

/* Frames [t0, t1) of row r in the columns [k0, k1): adds to dctx and dextra; s gets Σ d in q and Σ de·tanh in v. */
static void attention_backward_frames(const crn_attention_args *a, int64_t r, int64_t t0, int64_t t1, int64_t k0,
                                      int64_t k1, attention_sums *s) {
  const float *q = a->q + r * a->ldq;
  const V one = v_set(1);
  for (int64_t i = 0; i < ATTENTION_VECTORS; i++) s->q[i] = s->v[i] = v_set(0);
  for (int64_t t = t0; t < t1; t++) {
    const int64_t at = (r / a->beam) * a->ctx_stride_b + t * a->ctx_stride_t;
    const int64_t extra_at = r * a->extra_stride_b + t * a->extra_stride_t;
    const V de = v_set(a->de[r * a->e_stride_r + t * a->e_stride_t]);
    for (int64_t k = k0, i = 0; k < k1; k += V_WIDTH, i++) {
      V x = v_add(row_load(a->ctx + at, k, k1), row_load(q, k, k1));
      if (a->extra) x = v_add(x, row_load(a->extra + extra_at, k, k1));
      V y = v_tanh(x), d = v_mul(v_mul(de, row_load(a->v, k, k1)), v_fnma(y, y, one));
      if (a->dctx) row_store(a->dctx + at, k, k1, v_add(row_load(a->dctx + at, k, k1), d));
      if (a->dextra) row_store(a->dextra + extra_at, k, k1, v_add(row_load(a->dextra + extra_at, k, k1), d));
      s->q[i] = v_add(s->q[i], d);
      s->v[i] = v_fma(de, y, s->v[i]);
    }
  }
}

/* low + high (doubles) += x */
static inline void widen_add(VD *low, VD *high, V x) {
  *low = vd_add(*low, v_low(x));
  *high = vd_add(*high, v_high(x));
}

/* One block of columns for all rows and frames, so that no two threads add to one place and every sum has its order. */
static void attention_backward_columns(void *arg, int64_t block) {
  const crn_attention_args *a = arg;
  const int64_t k0 = block * ATTENTION_COLUMNS, k1 = min_i64(a->K, k0 + ATTENTION_COLUMNS);
  VD dv[ATTENTION_VECTORS][2], dq[ATTENTION_VECTORS][2];
  for (int64_t i = 0; i < ATTENTION_VECTORS; i++) dv[i][0] = dv[i][1] = vd_set(0);
  for (int64_t r = 0; r < a->B * a->beam; r++) {
    const int64_t len = attention_length(a, r);
    for (int64_t i = 0; i < ATTENTION_VECTORS; i++) dq[i][0] = dq[i][1] = vd_set(0);
    for (int64_t t = 0; t < len; t += ATTENTION_FRAMES) {
      attention_sums s;
      attention_backward_frames(a, r, t, min_i64(len, t + ATTENTION_FRAMES), k0, k1, &s);
      for (int64_t i = 0; i < ATTENTION_VECTORS; i++) {
        widen_add(&dq[i][0], &dq[i][1], s.q[i]);
        widen_add(&dv[i][0], &dv[i][1], s.v[i]);
      }
    }
    float *p = a->dq ? a->dq + r * a->ldq : NULL;
    for (int64_t k = k0, i = 0; p && k < k1; k += V_WIDTH, i++)
      row_store(p, k, k1, v_add(row_load(p, k, k1), v_join(dq[i][0], dq[i][1])));
  }
  for (int64_t k = k0, i = 0; a->dv && k < k1; k += V_WIDTH, i++)
    row_store(a->dv, k, k1, v_add(row_load(a->dv, k, k1), v_join(dv[i][0], dv[i][1])));
}

static void fast_attention_backward(const crn_attention_args *a, crn_threads *t) {
  crn_threads_run(attention_pool(a, t), (a->K + ATTENTION_COLUMNS - 1) / ATTENTION_COLUMNS, attention_backward_columns,
                  (void *)(uintptr_t)a);
}
