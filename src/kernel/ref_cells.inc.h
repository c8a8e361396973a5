/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference LSTM cell and additive-attention energies for R = float or double.
 */

static void ref_lstm_forward(const CRN_K(crn_lstm_args) * a) {
  const int64_t n = a->n, bj = a->layout.j * n, bi = a->layout.i * n, bf = a->layout.f * n, bo = a->layout.o * n;
  for (int64_t r = 0; r < a->rows; r++) {
    const R *z = a->z + r * a->ldz, *c_prev = a->c_prev ? a->c_prev + r * a->ldc_prev : NULL;
    R *g = a->gates + r * a->ldgates, *c = a->c + r * a->ldc, *h = a->h + r * a->ldh;
    for (int64_t k = 0; k < n; k++) {
      R j = LIBM(tanh)(z[bj + k]), i = ref_sigmoid1(z[bi + k]), f = ref_sigmoid1(z[bf + k] + a->forget_bias),
        o = ref_sigmoid1(z[bo + k]);
      R cell = (c_prev ? c_prev[k] * f : 0) + j * i;
      g[bj + k] = j;
      g[bi + k] = i;
      g[bf + k] = f;
      g[bo + k] = o;
      c[k] = cell;
      h[k] = LIBM(tanh)(cell) * o;
    }
  }
}

/* t = tanh(c), δ = dc + dh·o·(1-t²): dz_o = dh·t·o(1-o), dz_j = δ·i·(1-j²), dz_i = δ·j·i(1-i), dz_f = δ·c_prev·f(1-f)
 */
static void ref_lstm_backward(const CRN_K(crn_lstm_args) * a) {
  const int64_t n = a->n, bj = a->layout.j * n, bi = a->layout.i * n, bf = a->layout.f * n, bo = a->layout.o * n;
  for (int64_t r = 0; r < a->rows; r++) {
    const R *g = a->gates + r * a->ldgates, *c = a->c + r * a->ldc;
    const R *c_prev = a->c_prev ? a->c_prev + r * a->ldc_prev : NULL;
    const R *dh = a->dh ? a->dh + r * a->lddh : NULL, *dc = a->dc ? a->dc + r * a->lddc : NULL;
    R *dz = a->dz + r * a->lddz, *dc_prev = a->dc_prev ? a->dc_prev + r * a->lddc_prev : NULL;
    for (int64_t k = 0; k < n; k++) {
      R j = g[bj + k], i = g[bi + k], f = g[bf + k], o = g[bo + k], t = LIBM(tanh)(c[k]);
      R d_out = dh ? dh[k] : 0, delta = (dc ? dc[k] : 0) + d_out * o * (1 - t * t);
      dz[bj + k] = delta * i * (1 - j * j);
      dz[bi + k] = delta * j * (i * (1 - i));
      dz[bf + k] = c_prev ? delta * c_prev[k] * (f * (1 - f)) : 0;
      dz[bo + k] = d_out * t * (o * (1 - o));
      if (dc_prev) dc_prev[k] = delta * f;
    }
  }
}

static int64_t ref_attention_length(const CRN_K(crn_attention_args) * a, int64_t r) {
  if (!a->lengths) return a->T;
  int64_t len = a->lengths[r / a->beam];
  return len < 0 ? 0 : len < a->T ? len : a->T;
}

static R ref_attention_tanh(const CRN_K(crn_attention_args) * a, int64_t r, int64_t t, int64_t k) {
  R s = a->ctx[(r / a->beam) * a->ctx_stride_b + t * a->ctx_stride_t + k] + a->q[r * a->ldq + k];
  if (a->extra) s += a->extra[r * a->extra_stride_b + t * a->extra_stride_t + k];
  return LIBM(tanh)(s);
}

static void ref_attention_forward_row(void *arg, int64_t r) {
  const CRN_K(crn_attention_args) *a = arg;
  for (int64_t t = 0; t < ref_attention_length(a, r); t++) {
    double s = 0;
    for (int64_t k = 0; k < a->K; k++) s += (double)(a->v[k] * ref_attention_tanh(a, r, t, k));
    a->e[r * a->e_stride_r + t * a->e_stride_t] = (R)s;
  }
}

static void ref_attention_forward(const CRN_K(crn_attention_args) * a, crn_threads *t) {
  crn_threads_run(t, a->B * a->beam, ref_attention_forward_row, (void *)(uintptr_t)a);
}

/* One k for all rows and frames: d = de·v[k]·(1 - tanh²) goes to dctx, dextra and (summed over t) dq; dv sums de·tanh.
 */
static void ref_attention_backward_column(void *arg, int64_t k) {
  const CRN_K(crn_attention_args) *a = arg;
  double dv = a->dv ? (double)a->dv[k] : 0;
  for (int64_t r = 0; r < a->B * a->beam; r++) {
    double dq = a->dq ? (double)a->dq[r * a->ldq + k] : 0;
    for (int64_t t = 0; t < ref_attention_length(a, r); t++) {
      R y = ref_attention_tanh(a, r, t, k), de = a->de[r * a->e_stride_r + t * a->e_stride_t];
      R d = de * a->v[k] * (1 - y * y);
      if (a->dctx) a->dctx[(r / a->beam) * a->ctx_stride_b + t * a->ctx_stride_t + k] += d;
      if (a->dextra) a->dextra[r * a->extra_stride_b + t * a->extra_stride_t + k] += d;
      dq += (double)d;
      dv += (double)(de * y);
    }
    if (a->dq) a->dq[r * a->ldq + k] = (R)dq;
  }
  if (a->dv) a->dv[k] = (R)dv;
}

static void ref_attention_backward(const CRN_K(crn_attention_args) * a, crn_threads *t) {
  crn_threads_run(t, a->K, ref_attention_backward_column, (void *)(uintptr_t)a);
}
