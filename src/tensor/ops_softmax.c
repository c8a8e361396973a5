/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax over the last axis. Rows are independent; threads take blocks of rows.
 */
#include "tensor/ops.h"
#include "tensor/split.h"

typedef struct softmax_task {
  crn_run *run;
  int64_t n;
  const void *x; /* forward: input; backward: output y */
  const void *dy;
  void *y; /* forward: output; backward: d_x */
} softmax_task;

#include "tensor/real_f32.inc.h"
#include "tensor/ops_softmax.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_softmax.inc.h"

static crn_status softmax_infer(crn_run *r, crn_node *n) { /* i[0]: the result is written over x */
  crn_tensor *x = n->in[0];
  CRN_TRY(crn_check_real(r, n, 0));
  if (x->rank < 1) return crn_op_fail(r, n, "needs an axis to normalise over, got a scalar");
  if (n->a.i[0]) return crn_node_view(r, n, 0, x, 0, x->rank, x->shape);
  return crn_node_output(r, n, 0, x->dtype, x->rank, x->shape);
}

static void forward_rows(crn_run *r, crn_node *n, crn_split_fn fn) {
  crn_rows d = crn_rows_of(n->in[0]);
  softmax_task t = {.run = r, .n = d.n, .x = crn_t_data(n->in[0]), .y = crn_t_data(n->out[0])};
  crn_split_run(r->threads, d.rows, crn_split_block(2 * d.n), fn, &t);
}

static crn_status backward_rows(crn_run *r, crn_node *n, crn_split_fn fn) {
  crn_rows d = crn_rows_of(n->in[0]);
  softmax_task t = {.run = r, .n = d.n, .x = crn_t_data(n->out[0]), .dy = crn_grad_out(n, 0)};
  t.y = t.dy ? crn_grad_in(r, n, 0) : NULL;
  if (t.y) crn_split_run(r->threads, d.rows, crn_split_block(2 * d.n), fn, &t);
  return CRN_OK;
}

static crn_status softmax_run(crn_run *r, crn_node *n) {
  forward_rows(r, n, CRN_BY_REAL(n->in[0]->dtype, softmax_rows));
  return CRN_OK;
}

static crn_status softmax_grad(crn_run *r, crn_node *n) {
  return backward_rows(r, n, CRN_BY_REAL(n->in[0]->dtype, softmax_grad_rows));
}

static crn_status log_softmax_run(crn_run *r, crn_node *n) {
  forward_rows(r, n, CRN_BY_REAL(n->in[0]->dtype, log_softmax_rows));
  return CRN_OK;
}

static crn_status log_softmax_grad(crn_run *r, crn_node *n) {
  return backward_rows(r, n, CRN_BY_REAL(n->in[0]->dtype, log_softmax_grad_rows));
}

static const crn_opdef softmax_op = {
    .name = "softmax", .infer = softmax_infer, .run = softmax_run, .grad = softmax_grad};
static const crn_opdef log_softmax_op = {
    .name = "log_softmax", .infer = softmax_infer, .run = log_softmax_run, .grad = log_softmax_grad};

crn_tensor *crn_softmax(crn_run *r, crn_tensor *x) { return crn_op_call(r, &softmax_op, 1, 1, &x, NULL, NULL); }

crn_tensor *crn_log_softmax(crn_run *r, crn_tensor *x) { return crn_op_call(r, &log_softmax_op, 1, 1, &x, NULL, NULL); }

crn_tensor *crn_softmax_over(crn_run *r, crn_tensor *x, bool log) {
  const bool over = x && !r->recording && !x->st->is_param && !x->st->borrowed;
  return crn_op_call(r, log ? &log_softmax_op : &softmax_op, 1, 1, &x, &(crn_attrs){.i = {over}}, NULL);
}
