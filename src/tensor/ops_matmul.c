/* SPDX-License-Identifier: Apache-2.0
 *
 * crn_linear and crn_matmul. A linear layer's product sees its input as rows, however many axes it has; a batched
 * product collapses its leading axes to the two outer axes of the kernel. Axes along which the result is shared
 * (broadcast inputs, in the backward pass) are walked one after the other so that sums have one order.
 */
#include "tensor/ops.h"
#include "tensor/split.h"
#include "tensor/weights.h"

/* ---- linear ----------------------------------------------------------------------------------------------------- */

enum { LINEAR_X, LINEAR_W, LINEAR_BIAS };

static crn_status linear_infer(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[LINEAR_X], *w = n->in[LINEAR_W], *bias = n->in[LINEAR_BIAS];
  char bx[120], bw[120];
  for (int i = 0; i < 3; i++) CRN_TRY(crn_check_real(r, n, i));
  if (x->rank < 1 || w->rank != 2)
    return crn_op_fail(r, n, "needs x [..., K] and w [K, N], got %s and %s", crn_t_describe(x, bx, sizeof bx),
                       crn_t_describe(w, bw, sizeof bw));
  n->weights = 1u << LINEAR_W;
  bool trans = n->a.i[0] != 0;
  int64_t K = w->shape[trans ? 1 : 0], N = w->shape[trans ? 0 : 1];
  if (x->shape[x->rank - 1] != K)
    return crn_op_fail(r, n, "last axis of x %s is not the input size %lld of w %s%s", crn_t_describe(x, bx, sizeof bx),
                       (long long)K, crn_t_describe(w, bw, sizeof bw), trans ? " (transposed)" : "");
  if (bias && (bias->rank != 1 || bias->shape[0] != N))
    return crn_op_fail(r, n, "bias %s does not have the output size %lld of w", crn_t_describe(bias, bx, sizeof bx),
                       (long long)N);
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i + 1 < x->rank; i++) shape[i] = x->shape[i];
  shape[x->rank - 1] = N;
  return crn_node_output(r, n, 0, x->dtype, x->rank, shape);
}

static int64_t linear_rows(const crn_node *n) {
  const crn_tensor *x = n->in[LINEAR_X];
  return crn_t_count(x->rank - 1, x->shape);
}

static crn_status linear_run(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[LINEAR_X], *w = n->in[LINEAR_W], *bias = n->in[LINEAR_BIAS];
  crn_weight_product(r, w, n->a.i[0] != 0, linear_rows(n), crn_t_data(x), crn_t_data(n->out[0]),
                     bias ? crn_t_data(bias) : NULL, false);
  return CRN_OK;
}

static crn_status linear_grad(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[LINEAR_X], *w = n->in[LINEAR_W];
  bool trans = n->a.i[0] != 0;
  int64_t rows = linear_rows(n), N = w->shape[trans ? 0 : 1];
  const void *dy = crn_grad_out(n, 0);
  if (!dy || rows == 0) return CRN_OK;
  void *d_x = crn_grad_in(r, n, LINEAR_X), *d_bias = n->in[LINEAR_BIAS] ? crn_grad_in(r, n, LINEAR_BIAS) : NULL;
  if (d_x) crn_weight_product(r, w, !trans, rows, dy, d_x, NULL, true);
  if (d_bias) crn_add_column_sums(r, x->dtype, rows, N, dy, d_bias);
  return trans ? crn_weight_gradient(r, n, LINEAR_W, dy, crn_t_data(x), rows)
               : crn_weight_gradient(r, n, LINEAR_W, crn_t_data(x), dy, rows);
}

static const crn_opdef linear_op = {.name = "linear", .infer = linear_infer, .run = linear_run, .grad = linear_grad};

crn_tensor *crn_linear(crn_run *r, crn_tensor *x, crn_tensor *w, bool trans_w, crn_tensor *bias) {
  crn_attrs a = {.i = {trans_w}};
  return crn_op_call(r, &linear_op, 3, 2, (crn_tensor *[]){x, w, bias}, &a, NULL);
}

/* ---- batched product -------------------------------------------------------------------------------------------- */

/* The leading axes of a product, outermost first, neighbours merged; steps in elements, 0 along broadcast axes. */
typedef struct matmul_plan {
  int n_axes;
  int64_t size[CRN_MAX_RANK], a[CRN_MAX_RANK], b[CRN_MAX_RANK], c[CRN_MAX_RANK];
  int64_t M, N, K;
  bool trans_a, trans_b;
} matmul_plan;

/* Size and step of leading axis i (of n axes) of operand t, aligned at the end. */
static void operand_axis(const crn_tensor *t, int n, int i, int64_t *size, int64_t *step) {
  int own = t->rank - 2, at = i - (n - own);
  *size = 1;
  *step = 0;
  if (at < 0) return;
  *size = t->shape[at];
  if (*size != 1) *step = crn_t_count(t->rank - at - 1, t->shape + at + 1);
}

static void make_plan(const crn_node *n, matmul_plan *p) {
  const crn_tensor *a = n->in[0], *b = n->in[1], *c = n->out[0];
  *p = (matmul_plan){.trans_a = n->a.i[0] != 0, .trans_b = n->a.i[1] != 0};
  p->M = c->shape[c->rank - 2];
  p->N = c->shape[c->rank - 1];
  p->K = a->shape[a->rank - (p->trans_a ? 2 : 1)];
  for (int i = 0; i < c->rank - 2; i++) {
    int64_t size = c->shape[i], na, nb, nc, sa, sb, sc;
    operand_axis(a, c->rank - 2, i, &na, &sa);
    operand_axis(b, c->rank - 2, i, &nb, &sb);
    operand_axis(c, c->rank - 2, i, &nc, &sc);
    if (size == 1) continue;
    int last = p->n_axes - 1;
    if (last >= 0 && p->a[last] == sa * size && p->b[last] == sb * size && p->c[last] == sc * size) {
      p->size[last] *= size;
      p->a[last] = sa;
      p->b[last] = sb;
      p->c[last] = sc;
    } else {
      last = p->n_axes++;
      p->size[last] = size;
      p->a[last] = sa;
      p->b[last] = sb;
      p->c[last] = sc;
    }
  }
}

static crn_status matmul_infer(crn_run *r, crn_node *n) {
  crn_tensor *a = n->in[0], *b = n->in[1];
  bool trans_a = n->a.i[0] != 0, trans_b = n->a.i[1] != 0;
  char ba[120], bb[120];
  CRN_TRY(crn_check_real(r, n, 0));
  CRN_TRY(crn_check_real(r, n, 1));
  crn_t_describe(a, ba, sizeof ba);
  crn_t_describe(b, bb, sizeof bb);
  if (a->rank < 2 || b->rank < 2) return crn_op_fail(r, n, "needs two matrices, got %s and %s", ba, bb);
  int64_t K = a->shape[a->rank - (trans_a ? 2 : 1)], shape[CRN_MAX_RANK];
  if (K != b->shape[b->rank - (trans_b ? 1 : 2)])
    return crn_op_fail(r, n, "inner sizes differ: %s%s times %s%s", ba, trans_a ? " (transposed)" : "", bb,
                       trans_b ? " (transposed)" : "");
  int rank = a->rank > b->rank ? a->rank : b->rank;
  for (int i = 0; i < rank - 2; i++) {
    int64_t na, nb, step;
    operand_axis(a, rank - 2, i, &na, &step);
    operand_axis(b, rank - 2, i, &nb, &step);
    if (na != nb && na != 1 && nb != 1) return crn_op_fail(r, n, "leading axes differ: %s times %s", ba, bb);
    shape[i] = na == 1 ? nb : na;
  }
  shape[rank - 2] = a->shape[a->rank - (trans_a ? 1 : 2)];
  shape[rank - 1] = b->shape[b->rank - (trans_b ? 2 : 1)];
  return crn_node_output(r, n, 0, a->dtype, rank, shape);
}

#include "tensor/real_f32.inc.h"
#include "tensor/ops_matmul.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_matmul.inc.h"

static crn_status matmul_run(crn_run *r, crn_node *n) {
  matmul_plan p;
  make_plan(n, &p);
  CRN_BY_REAL(n->out[0]->dtype, matmul_forward)
  (r, &p, crn_t_data(n->in[0]), crn_t_data(n->in[1]), crn_t_data(n->out[0]));
  return CRN_OK;
}

static crn_status matmul_grad(crn_run *r, crn_node *n) {
  const void *dy = crn_grad_out(n, 0);
  if (!dy || crn_t_size(n->out[0]) == 0) return CRN_OK;
  matmul_plan p;
  make_plan(n, &p);
  void *d_a = crn_grad_in(r, n, 0), *d_b = crn_grad_in(r, n, 1);
  if (d_a) CRN_BY_REAL(n->out[0]->dtype, matmul_grad_a)(r, &p, dy, crn_t_data(n->in[1]), d_a);
  if (d_b) CRN_BY_REAL(n->out[0]->dtype, matmul_grad_b)(r, &p, dy, crn_t_data(n->in[0]), d_b);
  return CRN_OK;
}

static const crn_opdef matmul_op = {.name = "matmul", .infer = matmul_infer, .run = matmul_run, .grad = matmul_grad};

crn_tensor *crn_matmul(crn_run *r, crn_tensor *a, bool trans_a, crn_tensor *b, bool trans_b) {
  crn_attrs at = {.i = {trans_a, trans_b}};
  return crn_op_call(r, &matmul_op, 2, 2, (crn_tensor *[]){a, b}, &at, NULL);
}
