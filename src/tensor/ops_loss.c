/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross entropy of logits against labels, fused with softmax: forward keeps only log Σ exp of each row, backward adds
 * dy·(softmax(x) - one_hot(target)).
 */
#include <math.h>

#include "tensor/ops.h"
#include "tensor/split.h"

typedef struct ce_task {
  crn_run *run;
  int64_t n_rows, V, block;
  const void *x;
  const int32_t *target;
  void *lse;  /* [N] or NULL */
  void *work; /* one row of V numbers per task */
  void *y;    /* [N] forward: output */
  const void *dy;
  void *d_x;
} ce_task;

#include "tensor/real_f32.inc.h"
#include "tensor/ops_loss.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_loss.inc.h"

static crn_status ce_infer(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[0], *target = n->in[1];
  char bx[120], bt[120];
  CRN_TRY(crn_check_real(r, n, 0));
  CRN_TRY(crn_check_i32(r, n, 1, 1));
  if (x->rank != 2 || target->shape[0] != x->shape[0])
    return crn_op_fail(r, n, "needs x [N, V] and target [N], got %s and %s", crn_t_describe(x, bx, sizeof bx),
                       crn_t_describe(target, bt, sizeof bt));
  return crn_node_output(r, n, 0, x->dtype, 1, x->shape);
}

/* Run fn over the rows in one task per thread; each has its own row of scratch. */
static crn_status ce_rows(crn_run *r, ce_task *t, crn_dtype dtype, crn_split_fn fn) {
  int64_t n_tasks = crn_threads_count(r->threads);
  if (t->n_rows < n_tasks || t->n_rows * t->V < 16384) n_tasks = 1;
  t->block = (t->n_rows + n_tasks - 1) / n_tasks;
  t->work = crn_scratch(r, (size_t)n_tasks * (size_t)t->V * crn_dtype_bytes(dtype));
  if (!t->work) return crn_err_memory(r->err);
  crn_split_run(n_tasks > 1 ? r->threads : NULL, t->n_rows, t->block, fn, t);
  return CRN_OK;
}

static crn_status ce_run(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[0];
  ce_task t = {.run = r, .n_rows = x->shape[0], .V = x->shape[1], .x = crn_t_data(x), .target = crn_t_i32(n->in[1])};
  for (int64_t i = 0; i < t.n_rows; i++)
    if (t.target[i] < 0 || t.target[i] >= t.V)
      return crn_op_fail(r, n, "target %d of row %lld is not a label: there are %lld (0 to %lld)", (int)t.target[i],
                         (long long)i, (long long)t.V, (long long)t.V - 1);
  if (t.n_rows == 0) return CRN_OK;
  if (crn_node_kept(r, n)) {
    crn_tensor *lse = crn_t_new(r, x->dtype, 1, x->shape);
    if (!lse) return r->err->code;
    n->saved = lse;
    t.lse = crn_t_data(lse);
  }
  t.y = crn_t_data(n->out[0]);
  return ce_rows(r, &t, x->dtype, CRN_BY_REAL(x->dtype, ce_forward_rows));
}

static crn_status ce_grad(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[0];
  ce_task t = {.run = r, .n_rows = x->shape[0], .V = x->shape[1], .x = crn_t_data(x), .target = crn_t_i32(n->in[1])};
  t.dy = crn_grad_out(n, 0);
  t.d_x = t.dy && t.n_rows > 0 ? crn_grad_in(r, n, 0) : NULL;
  if (!t.d_x) return CRN_OK;
  t.lse = crn_t_data(n->saved);
  return ce_rows(r, &t, x->dtype, CRN_BY_REAL(x->dtype, ce_backward_rows));
}

static const crn_opdef ce_op = {.name = "sparse_ce_logits", .infer = ce_infer, .run = ce_run, .grad = ce_grad};

crn_tensor *crn_sparse_ce_logits(crn_run *r, crn_tensor *x, crn_tensor *target) {
  return crn_op_call(r, &ce_op, 2, 2, (crn_tensor *[]){x, target}, NULL, NULL);
}
