/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel calls of ops_attention.c; included once per number type.
 */

static CRN_K(crn_attention_args) RNAME(energy_args)(const crn_node *n) {
  const crn_tensor *ctx = n->in[ATT_CTX], *q = n->in[ATT_Q];
  CRN_K(crn_attention_args) a = {.B = ctx->shape[0], .T = ctx->shape[1], .K = ctx->shape[2]};
  a.beam = q->shape[0] / a.B;
  a.ctx = crn_t_data(ctx);
  a.ctx_stride_b = a.T * a.K;
  a.ctx_stride_t = a.ldq = a.K;
  a.q = crn_t_data(q);
  a.v = crn_t_data(n->in[ATT_V]);
  const crn_tensor *extra = n->in[ATT_EXTRA];
  if (extra) {
    const bool time_major = n->a.i[0] != 0;
    const int64_t frames = extra->shape[time_major ? 0 : 1];
    a.extra = crn_t_data(extra);
    a.extra_stride_b = time_major ? a.K : frames * a.K;
    a.extra_stride_t = frames == 1 ? 0 : time_major ? q->shape[0] * a.K : a.K; /* one frame stands for all */
  }
  a.e = crn_t_data(n->out[0]);
  a.e_stride_r = a.T;
  a.e_stride_t = 1;
  return a;
}

static void RNAME(energy_forward)(crn_run *r, const crn_node *n) {
  CRN_K(crn_attention_args) a = RNAME(energy_args)(n);
  if (!a.extra) a.work = crn_scratch(r, (size_t)(a.B * a.beam * (a.K + 1)) * sizeof(R));
  if (crn_run_failed(r)) return;
  KERNELS(r)->attention_forward(&a, r->threads);
}

static void RNAME(energy_backward)(crn_run *r, crn_node *n, const void *de) {
  CRN_K(crn_attention_args) a = RNAME(energy_args)(n);
  a.de = de;
  a.dctx = crn_grad_in(r, n, ATT_CTX);
  a.dq = crn_grad_in(r, n, ATT_Q);
  a.dv = crn_grad_in(r, n, ATT_V);
  if (a.extra) a.dextra = crn_grad_in(r, n, ATT_EXTRA);
  if (!crn_run_failed(r)) KERNELS(r)->attention_backward(&a, r->threads);
}
