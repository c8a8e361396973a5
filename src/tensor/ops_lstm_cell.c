/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of an LSTM's gates on complete pre-activations, for loops whose inputs depend on the step before.
 */
#include <string.h>

#include "tensor/lstm.h"
#include "tensor/ops.h"
#include "tensor/split.h"

#define CELL_COST 8 /* of a cell's element, in simple operations */

typedef struct cell_task {
  crn_run *run;
  int64_t n;
  crn_lstm_layout layout;
  double forget_bias;
  const void *z, *c_prev, *dh, *dc;
  void *gates, *c, *h, *dc_prev, *d_z, *d_c;
} cell_task;

#include "tensor/real_f32.inc.h"
#include "tensor/ops_lstm_cell.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_lstm_cell.inc.h"

crn_lstm_layout crn_lstm_layout_of(int64_t order) { return order ? CRN_LSTM_IJFO : CRN_LSTM_JIFO; }

int64_t crn_lstm_order(crn_run *r, const char *order) {
  if (strcmp(order, "jifo") == 0) return 0;
  if (strcmp(order, "ijfo") == 0) return 1;
  if (!crn_run_failed(r))
    (void)crn_fail(r->err, CRN_E_RUNTIME, "lstm: gate order '%s' is unknown, there are jifo and ijfo", order);
  return -1;
}

static crn_status cell_infer(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[0], *c = n->in[1];
  char bz[120], bc[120];
  CRN_TRY(crn_check_real(r, n, 0));
  CRN_TRY(crn_check_real(r, n, 1));
  if (z->rank != 2 || c->rank != 2 || z->shape[0] != c->shape[0] || z->shape[1] != 4 * c->shape[1])
    return crn_op_fail(r, n, "needs z [B, 4n] and c [B, n], got %s and %s", crn_t_describe(z, bz, sizeof bz),
                       crn_t_describe(c, bc, sizeof bc));
  CRN_TRY(crn_node_output(r, n, 0, z->dtype, 2, c->shape));
  return crn_node_output(r, n, 1, z->dtype, 2, c->shape);
}

static cell_task cell_task_of(crn_run *r, const crn_node *n) {
  cell_task t = {.run = r, .n = n->in[1]->shape[1], .layout = crn_lstm_layout_of(n->a.i[0]), .forget_bias = n->a.f[0]};
  t.z = crn_t_data(n->in[0]);
  t.c_prev = crn_t_data(n->in[1]);
  t.h = crn_t_data(n->out[0]);
  t.c = crn_t_data(n->out[1]);
  t.gates = n->saved;
  return t;
}

static crn_status cell_run(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[0];
  if (crn_node_kept(r, n)) {
    crn_tensor *gates = crn_t_new(r, z->dtype, 2, z->shape);
    n->saved = gates ? crn_t_data(gates) : NULL;
  } else {
    n->saved = crn_scratch(r, (size_t)crn_t_size(z) * crn_dtype_bytes(z->dtype));
  }
  if (!n->saved) return r->err->code;
  cell_task t = cell_task_of(r, n);
  crn_split_run(r->threads, z->shape[0], crn_split_block(CELL_COST * t.n), CRN_BY_REAL(z->dtype, cell_rows), &t);
  return CRN_OK;
}

static crn_status cell_grad(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[0];
  cell_task t = cell_task_of(r, n);
  t.dh = crn_grad_out(n, 0);
  t.dc = crn_grad_out(n, 1);
  if (!t.dh && !t.dc) return CRN_OK;
  t.d_z = crn_grad_in(r, n, 0);
  t.d_c = crn_grad_in(r, n, 1);
  t.dc_prev = crn_scratch(r, (size_t)crn_t_size(n->in[1]) * crn_dtype_bytes(z->dtype));
  if (!t.dc_prev || crn_run_failed(r)) return r->err->code;
  crn_split_run(r->threads, z->shape[0], crn_split_block(CELL_COST * t.n), CRN_BY_REAL(z->dtype, cell_rows_back), &t);
  return CRN_OK;
}

static const crn_opdef cell_op = {.name = "lstm_cell", .infer = cell_infer, .run = cell_run, .grad = cell_grad};

crn_tensor *crn_lstm_cell(crn_run *r, crn_tensor *z, crn_tensor *c, const char *order, double forget_bias,
                          crn_tensor **c_out) {
  crn_attrs a = {.i = {crn_lstm_order(r, order)}, .f = {forget_bias}};
  crn_tensor *outs[3] = {NULL};
  if (c_out) *c_out = NULL;
  if (a.i[0] < 0) return NULL;
  crn_tensor *h = crn_op_call(r, &cell_op, 2, 2, (crn_tensor *[]){z, c}, &a, outs);
  if (h && c_out) *c_out = outs[1];
  return h;
}
