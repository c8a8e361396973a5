/* SPDX-License-Identifier: Apache-2.0
 *
 * Additive attention energies, fused: tanh(ctx + q + extra) is never stored. q may have several rows per sequence (a
 * beam): row r belongs to sequence r / (rows / B).
 */
#include <string.h>

#include "tensor/ops.h"
#include "tensor/split.h"

enum { ATT_CTX, ATT_Q, ATT_V, ATT_EXTRA }; /* extra may be NULL; attribute i[0]: it is time-major */

#include "tensor/real_f32.inc.h"
#include "tensor/ops_attention.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_attention.inc.h"

static crn_status check_extra(crn_run *r, crn_node *n) {
  const crn_tensor *ctx = n->in[ATT_CTX], *q = n->in[ATT_Q], *extra = n->in[ATT_EXTRA];
  const int batch = n->a.i[0] ? 1 : 0;
  char buf[120];
  if (!extra) return CRN_OK;
  CRN_TRY(crn_check_real(r, n, ATT_EXTRA));
  if (extra->rank == 3 && extra->shape[batch] == q->shape[0] && extra->shape[2] == ctx->shape[2] &&
      (extra->shape[1 - batch] == ctx->shape[1] || extra->shape[1 - batch] == 1))
    return CRN_OK;
  return crn_op_fail(r, n, "needs extra %s with %lld rows, %lld frames or one, and %lld elements, got %s",
                     batch ? "[T, B, K]" : "[B, T, K]", (long long)q->shape[0], (long long)ctx->shape[1],
                     (long long)ctx->shape[2], crn_t_describe(extra, buf, sizeof buf));
}

static crn_status energy_infer(crn_run *r, crn_node *n) {
  crn_tensor *ctx = n->in[ATT_CTX], *q = n->in[ATT_Q], *v = n->in[ATT_V];
  char bc[120], bq[120], bv[120];
  for (int i = 0; i < 3; i++) CRN_TRY(crn_check_real(r, n, i));
  bool fits = ctx->rank == 3 && q->rank == 2 && q->shape[1] == ctx->shape[2] && crn_t_size(v) == ctx->shape[2];
  if (fits) fits = ctx->shape[0] == 0 ? q->shape[0] == 0 : q->shape[0] % ctx->shape[0] == 0;
  if (!fits)
    return crn_op_fail(r, n, "needs ctx [B, T, K], q [B or B*beam, K] and v [K], got %s, %s and %s",
                       crn_t_describe(ctx, bc, sizeof bc), crn_t_describe(q, bq, sizeof bq),
                       crn_t_describe(v, bv, sizeof bv));
  CRN_TRY(check_extra(r, n));
  return crn_node_output(r, n, 0, ctx->dtype, 2, (int64_t[]){q->shape[0], ctx->shape[1]});
}

static crn_status energy_run(crn_run *r, crn_node *n) {
  if (crn_t_size(n->out[0]) > 0) CRN_BY_REAL(n->in[0]->dtype, energy_forward)(r, n);
  return r->err->code;
}

static crn_status energy_grad(crn_run *r, crn_node *n) {
  const void *de = crn_grad_out(n, 0);
  if (de && crn_t_size(n->out[0]) > 0) CRN_BY_REAL(n->in[0]->dtype, energy_backward)(r, n, de);
  return r->err->code;
}

static const crn_opdef energy_op = {
    .name = "additive_energy", .infer = energy_infer, .run = energy_run, .grad = energy_grad};

crn_tensor *crn_additive_energy_with(crn_run *r, crn_tensor *ctx, crn_tensor *extra, bool time_major, crn_tensor *q,
                                     crn_tensor *v) {
  return crn_op_call(r, &energy_op, 4, 3, (crn_tensor *[]){ctx, q, v, extra}, &(crn_attrs){.i = {time_major}}, NULL);
}

crn_tensor *crn_additive_energy(crn_run *r, crn_tensor *ctx, crn_tensor *q, crn_tensor *v) {
  return crn_additive_energy_with(r, ctx, NULL, false, q, v);
}
