/* SPDX-License-Identifier: Apache-2.0
 *
 * Fast fused energies of additive attention.
 *
 * Over a beam, tanh(c + q) = 1 - 2/(exp(2c)·exp(2q) + 1) needs one exponential for each element of ctx and one for each
 * of q, and for each of their many pairs a product and a reciprocal only. That has the small absolute error of tanh
 * itself, but overflows for large numbers and loses relative digits where all are small: those rows and frames take
 * tanh of the sum. What a row and a frame take depends on nothing but their own numbers.
 */

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

#define PAIR_LARGEST 20.0f /* exp(4·20) is far from overflow */
#define PAIR_LEAST 0.1f    /* the largest of c and q may not be below */
#define PAIR_ROWS 16       /* rows of the beam whose sums are kept at once */

static float largest_abs(int64_t n, const float *x) {
  V top = v_set(0);
  for (int64_t k = 0; k < n; k += V_WIDTH) top = v_max(v_abs(row_load(x, k, n)), top);
  return v_largest(top);
}

/* NaN elements are passed over: they make their energy NaN either way. */
static bool is_pair(float largest_c, float largest_q) {
  const float most = largest_c > largest_q ? largest_c : largest_q;
  return most <= PAIR_LARGEST && most >= PAIR_LEAST;
}

/* Row r of work: exp(2q), then the largest |q|. */
static void attention_work_row(void *arg, int64_t r) {
  const crn_attention_args *a = arg;
  const float *q = a->q + r * a->ldq;
  float *work = a->work + r * (a->K + 1);
  for (int64_t k = 0; k < a->K; k += V_WIDTH) {
    const V x = row_load(q, k, a->K);
    row_store(work, k, a->K, v_exp(v_add(x, x)));
  }
  work[a->K] = largest_abs(a->K, q);
}

/* Energies of `frames` frames from t on with `rows` rows from r on, all of one sequence; every pair is_pair. */
static inline __attribute__((always_inline)) void pair_energies(const int frames, const crn_attention_args *a,
                                                                int64_t r, int64_t rows, int64_t t) {
  const int64_t K = a->K;
  const float *ctx = a->ctx + (r / a->beam) * a->ctx_stride_b + t * a->ctx_stride_t, *work = a->work + r * (K + 1);
  const V one = v_set(1), two = v_set(2);
  V sum[PAIR_ROWS][ATTENTION_APART];
  for (int64_t i = 0; i < rows; i++)
    for (int f = 0; f < frames; f++) sum[i][f] = v_set(0);
  for (int64_t k = 0; k < K; k += V_WIDTH) {
    const V vk = row_load(a->v, k, K); /* zero beyond the end */
    V c[ATTENTION_APART];
    for (int f = 0; f < frames; f++) {
      const V x = row_load(ctx + f * a->ctx_stride_t, k, K);
      c[f] = v_exp(v_add(x, x));
    }
    for (int64_t i = 0; i < rows; i++) {
      const V q = row_load(work + i * (K + 1), k, K);
      for (int f = 0; f < frames; f++)
        sum[i][f] = v_fma(vk, v_fnma(two, v_reciprocal(v_fma(c[f], q, one)), one), sum[i][f]);
    }
  }
  for (int64_t i = 0; i < rows; i++)
    for (int f = 0; f < frames; f++)
      a->e[(r + i) * a->e_stride_r + (t + f) * a->e_stride_t] =
          (float)vd_sum(vd_add(v_low(sum[i][f]), v_high(sum[i][f])));
}

/* The same, but each pair as it must. */
static void mixed_energies(int frames, const crn_attention_args *a, int64_t r, int64_t rows, int64_t t,
                           const float *largest_c) {
  for (int64_t i = r; i < r + rows; i++)
    for (int f = 0; f < frames; f++)
      if (is_pair(largest_c[f], a->work[i * (a->K + 1) + a->K]))
        pair_energies(1, a, i, 1, t + f);
      else
        attention_energies(1, a, i, t + f);
}

/* Frames of one sequence for its whole beam. */
static void attention_forward_frames(void *arg, int64_t task) {
  const crn_attention_args *a = arg;
  const int64_t groups = (a->T + ATTENTION_APART - 1) / ATTENTION_APART, b = task / groups,
                t = task % groups * ATTENTION_APART,
                frames = min_i64(ATTENTION_APART, attention_length(a, b * a->beam) - t);
  float largest_c[ATTENTION_APART];
  for (int64_t f = 0; f < frames; f++)
    largest_c[f] = largest_abs(a->K, a->ctx + b * a->ctx_stride_b + (t + f) * a->ctx_stride_t);
  for (int64_t first = b * a->beam, end = first + a->beam, rows; first < end && frames > 0; first += rows) {
    rows = min_i64(PAIR_ROWS, end - first);
    bool pairs = frames == ATTENTION_APART;
    for (int64_t i = 0; i < rows && pairs; i++)
      for (int64_t f = 0; f < frames; f++) pairs &= is_pair(largest_c[f], a->work[(first + i) * (a->K + 1) + a->K]);
    if (pairs)
      pair_energies(ATTENTION_APART, a, first, rows, t);
    else
      mixed_energies((int)frames, a, first, rows, t, largest_c);
  }
}

/* All frames of one row, with tanh. */
static void attention_forward_row(void *arg, int64_t r) {
  const crn_attention_args *a = arg;
  const int64_t len = attention_length(a, r);
  int64_t t = 0;
  for (; t + ATTENTION_APART <= len; t += ATTENTION_APART) attention_energies(ATTENTION_APART, a, r, t);
  for (; t < len; t++) attention_energies(1, a, r, t);
}

static void fast_attention_forward(const crn_attention_args *a, crn_threads *t) {
  void *arg = (void *)(uintptr_t)a;
  crn_threads *pool = attention_pool(a, t);
  if (a->extra || !a->work) {
    crn_threads_run(pool, a->B * a->beam, attention_forward_row, arg);
    return;
  }
  crn_threads_run(pool, a->B * a->beam, attention_work_row, arg);
  crn_threads_run(pool, a->B * ((a->T + ATTENTION_APART - 1) / ATTENTION_APART), attention_forward_frames, arg);
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
