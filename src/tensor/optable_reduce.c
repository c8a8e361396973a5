/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table of functions: reductions, norms, normalising.
 */
#include <math.h>
#include <string.h>

#include "tensor/optable_rows.h"

static crn_tensor *operand(crn_opctx *c, const crn_ev *a) { return crn_opc_tensor(c, a, CRN_N_DTYPES); }

/* input_tensor, axis, keepdims, name, reduction_indices, keep_dims (TensorFlow 1's words) */
#define REDUCE "input_tensor, axis=None, keepdims=None, name=None, reduction_indices=None, keep_dims=None"

static bool reduce_args(crn_opctx *c, const crn_ev *a, crn_tensor **x, unsigned *axes, bool *keep) {
  const crn_ev *which = a[1].kind != CRN_EV_NONE ? &a[1] : &a[4], *kept = a[2].kind != CRN_EV_NONE ? &a[2] : &a[5];
  *x = operand(c, a);
  return *x && crn_opc_axes(c, which, (*x)->rank, axes) && crn_opc_bool(c, kept, keep);
}

static crn_status reduce(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x;
  unsigned axes;
  bool keep;
  if (!reduce_args(c, a, &x, &axes, &keep)) return c->r->err->code;
  return crn_opc_out(c, crn_reduce(c->r, (crn_reduce_kind)c->row->arg, x, axes, keep), out);
}

/* mean of squared differences from the mean; arg 1: its root */
static crn_status variance(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x;
  unsigned axes;
  bool keep;
  if (!reduce_args(c, a, &x, &axes, &keep)) return c->r->err->code;
  crn_tensor *d = crn_binary(c->r, CRN_B_SQUARED_DIFFERENCE, x, crn_reduce(c->r, CRN_R_MEAN, x, axes, true));
  crn_tensor *y = crn_reduce(c->r, CRN_R_MEAN, d, axes, keep);
  return crn_opc_out(c, c->row->arg ? crn_unary(c->r, CRN_U_SQRT, y) : y, out);
}

static crn_status count_nonzero(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x;
  unsigned axes;
  bool keep;
  if (!reduce_args(c, a, &x, &axes, &keep)) return c->r->err->code;
  x = crn_cast(c->r, crn_cast(c->r, x, CRN_BOOL), CRN_I64);
  return crn_opc_out(c, crn_reduce(c->r, CRN_R_SUM, x, axes, keep), out);
}

/* x / sqrt(max(Σ x², epsilon)) */
static crn_status l2_normalize(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  const crn_ev *which = a[1].kind != CRN_EV_NONE ? &a[1] : &a[4];
  unsigned axes;
  double eps = 0;
  if (!x || !crn_opc_axes(c, which, x->rank, &axes) || !crn_opc_float(c, &a[2], &eps)) return c->r->err->code;
  crn_tensor *sum = crn_reduce(c->r, CRN_R_SUM, crn_unary(c->r, CRN_U_SQUARE, x), axes, true);
  crn_tensor *scale =
      crn_unary(c->r, CRN_U_RSQRT, crn_binary(c->r, CRN_B_MAXIMUM, sum, crn_t_scalar(c->r, x->dtype, eps)));
  return crn_opc_out(c, crn_mul(c->r, x, scale), out);
}

/* x / max(Σ |x|, eps); is_not_negative: x is known to be so, |x| = x */
static crn_status l1_normalized(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  unsigned axes;
  double eps = 0;
  bool plain;
  if (!x || !crn_opc_axes(c, &a[1], x->rank, &axes) || !crn_opc_float(c, &a[2], &eps) ||
      !crn_opc_bool(c, &a[3], &plain))
    return c->r->err->code;
  crn_tensor *sum = crn_reduce(c->r, CRN_R_SUM, plain ? x : crn_unary(c->r, CRN_U_ABS, x), axes, true);
  crn_tensor *norm = crn_binary(c->r, CRN_B_MAXIMUM, sum, crn_t_scalar(c->r, x->dtype, eps));
  return crn_opc_out(c, crn_div(c->r, x, norm), out);
}

/* tensor, ord, axis, keepdims: 'euclidean' or 2, 1, inf */
static crn_status norm(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a), *y;
  unsigned axes;
  bool keep;
  double p = 2;
  const crn_ev *kept = a[3].kind != CRN_EV_NONE ? &a[3] : &a[5];
  if (!x || !crn_opc_axes(c, &a[2], x->rank, &axes) || !crn_opc_bool(c, kept, &keep)) return c->r->err->code;
  bool euclidean = a[1].kind == CRN_EV_STR && (strcmp(a[1].u.s, "euclidean") == 0 || strcmp(a[1].u.s, "fro") == 0);
  if (!euclidean && !crn_opc_float(c, &a[1], &p)) return c->r->err->code;
  if (p == 1)
    y = crn_reduce(c->r, CRN_R_SUM, crn_unary(c->r, CRN_U_ABS, x), axes, keep);
  else if (p == 2)
    y = crn_unary(c->r, CRN_U_SQRT, crn_reduce(c->r, CRN_R_SUM, crn_unary(c->r, CRN_U_SQUARE, x), axes, keep));
  else if (isinf(p) && p > 0)
    y = crn_reduce(c->r, CRN_R_MAX, crn_unary(c->r, CRN_U_ABS, x), axes, keep);
  else
    return crn_opc_fail(c, "not implemented: ord %g; there are 'euclidean', 1, 2 and inf", p);
  return crn_opc_out(c, y, out);
}

const crn_oprow crn_rows_reduce[] = {
    {"reduce_sum math.reduce_sum", REDUCE, reduce, CRN_R_SUM, "sum over axes"},
    {"reduce_mean math.reduce_mean", REDUCE, reduce, CRN_R_MEAN, "mean over axes"},
    {"reduce_max math.reduce_max", REDUCE, reduce, CRN_R_MAX, "largest over axes"},
    {"reduce_min math.reduce_min", REDUCE, reduce, CRN_R_MIN, "smallest over axes"},
    {"reduce_prod math.reduce_prod", REDUCE, reduce, CRN_R_PROD, "product over axes"},
    {"reduce_logsumexp math.reduce_logsumexp", REDUCE, reduce, CRN_R_LOGSUMEXP, "log of the sum of exp over axes"},
    {"reduce_any math.reduce_any", REDUCE, reduce, CRN_R_ANY, "is one true?"},
    {"reduce_all math.reduce_all", REDUCE, reduce, CRN_R_ALL, "are all true?"},
    {"math.reduce_variance", REDUCE, variance, 0, "variance over axes, divisor n"},
    {"math.reduce_std", REDUCE, variance, 1, "standard deviation over axes, divisor n"},
    {"math.count_nonzero v1.count_nonzero", REDUCE, count_nonzero, 0, "how many aren't 0"},
    {"math.l2_normalize nn.l2_normalize linalg.l2_normalize", "x, axis=None, epsilon=1e-12, name=None, dim=None",
     l2_normalize, 0, "x divided by the root of the sum of its squares over axes"},
    {"@l1_normalized", "x, axis=-1, eps=1e-20, is_not_negative=False", l1_normalized, 0,
     "x divided by the sum of its absolute values over an axis"},
    {"norm linalg.norm", "tensor, ord='euclidean', axis=None, keepdims=None, name=None, keep_dims=None", norm, 0,
     "norm over axes"},
};
const int crn_n_rows_reduce = sizeof crn_rows_reduce / sizeof crn_rows_reduce[0];
