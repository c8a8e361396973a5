/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference matrix products for R = float or double: clear, not fast. A tile of columns keeps its sums in an array, so
 * that the order of summation is the one that kernel/matmul.h promises.
 */

#define REF_TILE 64
#define REF_ROWS 16 /* rows in one task */

typedef struct ref_matmul_task {
  const CRN_K(crn_matmul_args) * m;
  const R *packed; /* [K, N] or NULL */
  int64_t n_row_blocks;
  const crn_matmul_batch *batch; /* NULL = one product */
} ref_matmul_task;

static void ref_matmul_row(const CRN_K(crn_matmul_args) * m, int64_t i, int64_t j0, int64_t n) {
  R total[REF_TILE], part[REF_TILE];
  R *c = m->C + i * m->ldc + j0;
  for (int64_t j = 0; j < n; j++) {
    total[j] = m->accumulate ? c[j] : 0;
    if (m->bias) total[j] += m->bias[j0 + j];
  }
  for (int64_t k0 = 0; k0 < m->K; k0 += CRN_MATMUL_CHUNK) {
    int64_t k1 = k0 + CRN_MATMUL_CHUNK < m->K ? k0 + CRN_MATMUL_CHUNK : m->K;
    for (int64_t j = 0; j < n; j++) part[j] = 0;
    for (int64_t k = k0; k < k1; k++) {
      R a = m->trans_a ? m->A[k * m->lda + i] : m->A[i * m->lda + k];
      const R *b = m->trans_b ? m->B + j0 * m->ldb + k : m->B + k * m->ldb + j0;
      int64_t step = m->trans_b ? m->ldb : 1;
      for (int64_t j = 0; j < n; j++) part[j] += a * b[j * step];
    }
    for (int64_t j = 0; j < n; j++) total[j] += part[j];
  }
  for (int64_t j = 0; j < n; j++) c[j] = total[j];
}

static void ref_matmul_rows(const CRN_K(crn_matmul_args) * m, int64_t i0, int64_t i1) {
  for (int64_t i = i0; i < i1; i++)
    for (int64_t j = 0; j < m->N; j += REF_TILE) ref_matmul_row(m, i, j, m->N - j < REF_TILE ? m->N - j : REF_TILE);
}

static void ref_matmul_run(void *arg, int64_t task) {
  const ref_matmul_task *t = arg;
  CRN_K(crn_matmul_args) m = *t->m;
  int64_t block = task % t->n_row_blocks;
  if (t->batch) {
    int64_t outer = task / t->n_row_blocks, x = outer / t->batch->n[1], y = outer % t->batch->n[1];
    m.A += x * t->batch->stride_a[0] + y * t->batch->stride_a[1];
    m.B += x * t->batch->stride_b[0] + y * t->batch->stride_b[1];
    m.C += x * t->batch->stride_c[0] + y * t->batch->stride_c[1];
  }
  int64_t i1 = (block + 1) * REF_ROWS;
  ref_matmul_rows(&m, block * REF_ROWS, i1 < m.M ? i1 : m.M);
}

static void ref_matmul_batched(const CRN_K(crn_matmul_args) * m, const crn_matmul_batch *batch, crn_threads *t) {
  ref_matmul_task task = {.m = m, .n_row_blocks = (m->M + REF_ROWS - 1) / REF_ROWS, .batch = batch};
  crn_threads_run(t, task.n_row_blocks * (batch ? batch->n[0] * batch->n[1] : 1), ref_matmul_run, &task);
}

static void ref_matmul(const CRN_K(crn_matmul_args) * m, crn_threads *t) { ref_matmul_batched(m, NULL, t); }

static size_t ref_packed_b_bytes(int64_t K, int64_t N) { return (size_t)K * (size_t)N * sizeof(R); }

static void ref_pack_b(crn_packed_b *out, bool trans_b, const R *B, int64_t ldb, crn_threads *t) {
  (void)t;
  R *p = out->data;
  for (int64_t k = 0; k < out->K; k++)
    for (int64_t n = 0; n < out->N; n++) *p++ = trans_b ? B[n * ldb + k] : B[k * ldb + n];
}

static void ref_unpack_b(const crn_packed_b *in, bool trans_b, R *B, int64_t ldb) {
  const R *p = in->data;
  for (int64_t k = 0; k < in->K; k++)
    for (int64_t n = 0; n < in->N; n++) B[trans_b ? n * ldb + k : k * ldb + n] = *p++;
}

static void ref_matmul_packed(const CRN_K(crn_matmul_args) * m, const crn_packed_b *b, crn_threads *t) {
  CRN_K(crn_matmul_args) plain = *m;
  plain.B = b->data;
  plain.ldb = b->N;
  plain.trans_b = false;
  ref_matmul(&plain, t);
}
