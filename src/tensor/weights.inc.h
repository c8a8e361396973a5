/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of weights.c; included once per number type.
 */

static void RNAME(weight_product)(crn_run *r, const crn_tensor *w, bool trans, const crn_packed_b *form, int64_t rows,
                                  const void *x, void *y, const void *bias, bool accumulate) {
  int64_t K = w->shape[trans ? 1 : 0], N = w->shape[trans ? 0 : 1];
  if (rows == 0 || N == 0) return;
  CRN_K(crn_matmul_args) m = {.M = rows, .N = N, .K = K, .A = x, .lda = K, .ldb = w->shape[1]};
  if (!form && (crn_weight_pin(r, w) != CRN_OK || !(m.B = crn_t_data(w)))) return;
  m.C = y;
  m.ldc = N;
  m.bias = bias;
  m.trans_b = trans;
  m.accumulate = accumulate;
  if (form)
    KERNELS(r)->matmul_packed(&m, form, r->threads);
  else
    KERNELS(r)->matmul(&m, r->threads);
}

static void RNAME(weight_gradient)(crn_run *r, int64_t P, int64_t Q, int64_t rows, const void *a, const void *b,
                                   void *d_w) {
  CRN_K(crn_matmul_args) m = {.M = P, .N = Q, .K = rows, .A = a, .lda = P, .B = b, .ldb = Q};
  m.C = d_w;
  m.ldc = Q;
  m.trans_a = true;
  m.accumulate = true;
  KERNELS(r)->matmul(&m, r->threads);
}
