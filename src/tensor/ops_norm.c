/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer normalisation over the last axis. Forward keeps each row's mean and 1/deviation for the backward pass.
 */
#include "tensor/ops.h"
#include "tensor/split.h"

enum { NORM_X, NORM_SCALE, NORM_BIAS };

typedef struct norm_task {
  crn_run *run;
  int64_t rows, n;
  double eps;
  const void *x, *scale, *bias, *dy;
  void *mean, *rstd; /* [rows] or NULL */
  void *y;           /* forward: output; backward: d_x or d_scale */
} norm_task;

#include "tensor/real_f32.inc.h"
#include "tensor/ops_norm.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_norm.inc.h"

static crn_status norm_infer(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[NORM_X];
  char bx[120], bp[120];
  for (int i = 0; i < 3; i++) CRN_TRY(crn_check_real(r, n, i));
  if (x->rank < 1) return crn_op_fail(r, n, "needs an axis to normalise over, got a scalar");
  for (int i = NORM_SCALE; i <= NORM_BIAS; i++) {
    crn_tensor *p = n->in[i];
    if (p && (p->rank != 1 || p->shape[0] != x->shape[x->rank - 1]))
      return crn_op_fail(r, n, "%s %s does not fit the last axis of %s", i == NORM_SCALE ? "scale" : "bias",
                         crn_t_describe(p, bp, sizeof bp), crn_t_describe(x, bx, sizeof bx));
  }
  return crn_node_output(r, n, 0, x->dtype, x->rank, x->shape);
}

static norm_task norm_task_of(crn_run *r, crn_node *n) {
  crn_rows d = crn_rows_of(n->in[NORM_X]);
  norm_task t = {.run = r, .rows = d.rows, .n = d.n, .eps = n->a.f[0], .x = crn_t_data(n->in[NORM_X])};
  if (n->in[NORM_SCALE]) t.scale = crn_t_data(n->in[NORM_SCALE]);
  if (n->in[NORM_BIAS]) t.bias = crn_t_data(n->in[NORM_BIAS]);
  if (n->saved) {
    t.mean = crn_t_data(n->saved);
    t.rstd = (char *)t.mean + (size_t)d.rows * crn_dtype_bytes(n->in[NORM_X]->dtype);
  }
  return t;
}

static crn_status norm_run(crn_run *r, crn_node *n) {
  crn_dtype dtype = n->in[NORM_X]->dtype;
  crn_rows d = crn_rows_of(n->in[NORM_X]);
  if (d.rows == 0) return CRN_OK;
  if (crn_node_kept(r, n)) {
    n->saved = crn_t_new(r, dtype, 2, (int64_t[]){2, d.rows});
    if (!n->saved) return r->err->code;
  }
  norm_task t = norm_task_of(r, n);
  t.y = crn_t_data(n->out[0]);
  crn_split_run(r->threads, d.rows, crn_split_block(2 * d.n), CRN_BY_REAL(dtype, norm_rows), &t);
  return CRN_OK;
}

static crn_status norm_grad(crn_run *r, crn_node *n) {
  crn_dtype dtype = n->in[NORM_X]->dtype;
  norm_task t = norm_task_of(r, n);
  t.dy = crn_grad_out(n, 0);
  if (!t.dy || t.rows == 0) return CRN_OK;
  if ((t.y = crn_grad_in(r, n, NORM_X)))
    crn_split_run(r->threads, t.rows, crn_split_block(2 * t.n), CRN_BY_REAL(dtype, norm_grad_rows), &t);
  if (t.scale && (t.y = crn_grad_in(r, n, NORM_SCALE)))
    crn_split_run(r->threads, t.n, crn_split_block(2 * t.rows), CRN_BY_REAL(dtype, norm_grad_scale), &t);
  void *d_bias = t.bias ? crn_grad_in(r, n, NORM_BIAS) : NULL;
  if (d_bias) crn_add_column_sums(r, dtype, t.rows, t.n, t.dy, d_bias);
  return CRN_OK;
}

static const crn_opdef layer_norm_op = {.name = "layer_norm", .infer = norm_infer, .run = norm_run, .grad = norm_grad};

crn_tensor *crn_layer_norm(crn_run *r, crn_tensor *x, crn_tensor *scale, crn_tensor *bias, double eps) {
  crn_attrs a = {.f = {eps}};
  return crn_op_call(r, &layer_norm_op, 3, 1, (crn_tensor *[]){x, scale, bias}, &a, NULL);
}
