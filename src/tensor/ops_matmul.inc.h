/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of ops_matmul.c; included once per number type. op(a) is [M,K], op(b) is [K,N].
 */

/* One product over the outer axes with steps sa, sb, sc. Axes along which C stays put, and all but two others, are
 * walked here in order; the kernel gets the innermost two that move C. */
static void RNAME(matmul_walk)(crn_run *r, int n_axes, const int64_t *size, const int64_t *sa, const int64_t *sb,
                               const int64_t *sc, const CRN_K(crn_matmul_args) * m) {
  int walk = -1;
  for (int i = 0; i < n_axes && walk < 0; i++)
    if (size[i] > 1 && (sc[i] == 0 || n_axes > 2)) walk = i;
  for (int i = 0; i < n_axes; i++) /* axes that share C come first */
    if (sc[i] == 0 && size[i] > 1) walk = i;
  if (walk < 0) {
    crn_matmul_batch batch = {.n = {1, 1}};
    for (int i = 0; i < n_axes; i++) {
      batch.n[i] = size[i];
      batch.stride_a[i] = sa[i];
      batch.stride_b[i] = sb[i];
      batch.stride_c[i] = sc[i];
    }
    if (batch.n[0] == 1 && batch.n[1] == 1)
      KERNELS(r)->matmul(m, r->threads);
    else
      KERNELS(r)->matmul_batched(m, &batch, r->threads);
    return;
  }
  int64_t rest[4][CRN_MAX_RANK];
  int n_rest = 0;
  for (int i = 0; i < n_axes; i++) {
    if (i == walk || size[i] == 1) continue;
    rest[0][n_rest] = size[i];
    rest[1][n_rest] = sa[i];
    rest[2][n_rest] = sb[i];
    rest[3][n_rest++] = sc[i];
  }
  CRN_K(crn_matmul_args) part = *m;
  for (int64_t k = 0; k < size[walk]; k++) {
    part.A = m->A + k * sa[walk];
    part.B = m->B + k * sb[walk];
    part.C = m->C + k * sc[walk];
    RNAME(matmul_walk)(r, n_rest, rest[0], rest[1], rest[2], rest[3], &part);
  }
}

static void RNAME(matmul_forward)(crn_run *r, const matmul_plan *p, const void *a, const void *b, void *c) {
  if (p->M == 0 || p->N == 0) return;
  CRN_K(crn_matmul_args) m = {.M = p->M, .N = p->N, .K = p->K, .A = a, .B = b, .trans_a = p->trans_a};
  m.C = c;
  m.lda = p->trans_a ? p->M : p->K;
  m.ldb = p->trans_b ? p->K : p->N;
  m.ldc = p->N;
  m.trans_b = p->trans_b;
  for (int i = 0; i < p->n_axes; i++)
    if (p->size[i] == 0) return;
  RNAME(matmul_walk)(r, p->n_axes, p->size, p->a, p->b, p->c, &m);
}

/* d op(a) [M,K] += dy [M,N]·op(b)ᵀ; stored transposed if a is: [K,M] += op(b)·dyᵀ */
static void RNAME(matmul_grad_a)(crn_run *r, const matmul_plan *p, const void *dy, const void *b, void *d_a) {
  if (p->M == 0 || p->K == 0) return;
  int64_t ldb = p->trans_b ? p->K : p->N;
  CRN_K(crn_matmul_args) m = {.K = p->N, .accumulate = true};
  m.C = d_a;
  if (!p->trans_a) {
    m.M = p->M;
    m.N = p->K;
    m.A = dy;
    m.lda = p->N;
    m.B = b;
    m.ldb = ldb;
    m.trans_b = !p->trans_b;
    m.ldc = p->K;
    RNAME(matmul_walk)(r, p->n_axes, p->size, p->c, p->b, p->a, &m);
  } else {
    m.M = p->K;
    m.N = p->M;
    m.A = b;
    m.lda = ldb;
    m.trans_a = p->trans_b;
    m.B = dy;
    m.ldb = p->N;
    m.trans_b = true;
    m.ldc = p->M;
    RNAME(matmul_walk)(r, p->n_axes, p->size, p->b, p->c, p->a, &m);
  }
}

/* d op(b) [K,N] += op(a)ᵀ·dy; stored transposed if b is: [N,K] += dyᵀ·op(a) */
static void RNAME(matmul_grad_b)(crn_run *r, const matmul_plan *p, const void *dy, const void *a, void *d_b) {
  if (p->N == 0 || p->K == 0) return;
  int64_t lda = p->trans_a ? p->M : p->K;
  CRN_K(crn_matmul_args) m = {.K = p->M, .accumulate = true};
  m.C = d_b;
  if (!p->trans_b) {
    m.M = p->K;
    m.N = p->N;
    m.A = a;
    m.lda = lda;
    m.trans_a = !p->trans_a;
    m.B = dy;
    m.ldb = p->N;
    m.ldc = p->N;
    RNAME(matmul_walk)(r, p->n_axes, p->size, p->a, p->c, p->b, &m);
  } else {
    m.M = p->N;
    m.N = p->K;
    m.A = dy;
    m.lda = p->N;
    m.trans_a = true;
    m.B = a;
    m.ldb = lda;
    m.trans_b = p->trans_a;
    m.ldc = p->K;
    RNAME(matmul_walk)(r, p->n_axes, p->size, p->c, p->a, p->b, &m);
  }
}
