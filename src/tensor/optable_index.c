/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table of functions: picking and placing by index, sorting, running sums, products of matrices.
 */
#include <string.h>

#include "tensor/optable_rows.h"

static crn_tensor *operand(crn_opctx *c, const crn_ev *a) { return crn_opc_tensor(c, a, CRN_N_DTYPES); }

static crn_status gather(crn_opctx *c, const crn_ev *a,
                         crn_ev *out) { /* params, indices, validate_indices, axis, batch_dims */
  crn_tensor *x = operand(c, &a[0]), *idx = operand(c, &a[1]);
  int64_t n_batch = 0;
  int axis = 0;
  if (!x || !idx || !crn_opc_int(c, &a[4], &n_batch)) return c->r->err->code;
  if (n_batch < 0) n_batch += idx->rank;
  if (n_batch < 0 || n_batch > idx->rank || n_batch >= x->rank)
    return crn_opc_fail(c, "batch_dims %lld doesn't go with the indices", (long long)n_batch);
  crn_ev which = a[3].kind == CRN_EV_NONE ? crn_ev_of_int(n_batch) : a[3];
  if (!crn_opc_axis(c, &which, x->rank, &axis)) return c->r->err->code;
  if (n_batch > 0 && axis != n_batch) return crn_opc_fail(c, "not implemented: batch_dims with an axis behind them");
  return crn_opc_out(c, n_batch ? crn_gather_batched(c->r, x, idx, (int)n_batch) : crn_gather(c->r, x, idx, axis), out);
}

static crn_status gather_nd(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, &a[0]), *idx = operand(c, &a[1]);
  int64_t n_batch = 0;
  if (!x || !idx || !crn_opc_int(c, &a[2], &n_batch)) return c->r->err->code;
  if (n_batch != 0) return crn_opc_fail(c, "not implemented: batch_dims");
  CRN_TRY(crn_opc_out(c, crn_gather_nd(c->r, x, idx), out));
  crn_opc_keep_made(c, a, 3, out);
  return CRN_OK;
}

static crn_status scatter_nd(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *idx = operand(c, &a[0]), *u = operand(c, &a[1]);
  int rank = 0;
  int64_t shape[CRN_MAX_RANK];
  if (!idx || !u || !crn_opc_shape(c, &a[2], &rank, shape)) return c->r->err->code;
  return crn_opc_out(c, crn_scatter_nd(c->r, idx, u, rank, shape), out);
}

static crn_status one_hot(crn_opctx *c, const crn_ev *a, crn_ev *out) { /* indices, depth, on, off, axis, dtype */
  crn_tensor *x = operand(c, a), *y;
  int64_t depth = 0;
  double on = 1, off = 0;
  int axis = 0, perm[CRN_MAX_RANK];
  crn_dtype t = c->r->real;
  if (!x || !crn_opc_int(c, &a[1], &depth)) return c->r->err->code;
  if (a[2].kind != CRN_EV_NONE && !crn_opc_float(c, &a[2], &on)) return c->r->err->code;
  if (a[3].kind != CRN_EV_NONE && !crn_opc_float(c, &a[3], &off)) return c->r->err->code;
  if (a[5].kind != CRN_EV_NONE && !crn_opc_dtype(c, &a[5], &t)) return c->r->err->code;
  crn_ev which = a[4].kind == CRN_EV_NONE ? crn_ev_of_int(-1) : a[4];
  if (!crn_opc_axis(c, &which, x->rank + 1, &axis)) return c->r->err->code;
  y = crn_one_hot(c->r, x, depth, t, on, off);
  if (y && axis != y->rank - 1) {
    for (int d = 0; d < y->rank; d++) perm[d] = d < axis ? d : d == axis ? y->rank - 1 : d - 1;
    y = crn_transpose(c->r, y, perm);
  }
  return crn_opc_out(c, y, out);
}

static crn_status arg_extreme(crn_opctx *c, const crn_ev *a, crn_ev *out) { /* input, axis, output_type, dimension */
  crn_tensor *x = operand(c, a);
  int axis = 0;
  crn_dtype t;
  crn_ev which = a[1].kind != CRN_EV_NONE ? a[1] : a[4].kind != CRN_EV_NONE ? a[4] : crn_ev_of_int(0);
  if (!x || !crn_opc_axis(c, &which, x->rank, &axis) || !crn_opc_dtype(c, &a[2], &t)) return c->r->err->code;
  return crn_opc_out(c, c->row->arg ? crn_argmax(c->r, x, axis, t) : crn_argmin(c->r, x, axis, t), out);
}

/* "ASCENDING" or "DESCENDING" */
static bool direction(crn_opctx *c, const crn_ev *v, bool *descending) {
  *descending = v->kind == CRN_EV_STR && strcmp(v->u.s, "DESCENDING") == 0;
  if (*descending || (v->kind == CRN_EV_STR && strcmp(v->u.s, "ASCENDING") == 0)) return true;
  (void)crn_opc_fail(c, "direction must be \"ASCENDING\" or \"DESCENDING\"");
  return false;
}

static crn_status argsort(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int axis = 0;
  bool descending;
  if (!x || !crn_opc_axis(c, &a[1], x->rank, &axis) || !direction(c, &a[2], &descending)) return c->r->err->code;
  return crn_opc_out(c, crn_argsort(c->r, x, axis, descending), out);
}

static crn_status sort(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a), *y;
  int axis = 0, perm[CRN_MAX_RANK];
  bool descending;
  if (!x || !crn_opc_axis(c, &a[1], x->rank, &axis) || !direction(c, &a[2], &descending)) return c->r->err->code;
  for (int d = 0; d < x->rank; d++) perm[d] = d;
  perm[axis] = x->rank - 1;
  perm[x->rank - 1] = axis;
  y = crn_transpose(c->r, x, perm);
  y = crn_gather_batched(c->r, y, crn_argsort(c->r, y, -1, descending), x->rank - 1);
  return crn_opc_out(c, y ? crn_transpose(c->r, y, perm) : NULL, out);
}

static crn_status top_k(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a), *indices = NULL;
  int64_t k = 0;
  if (!x || !crn_opc_int(c, &a[1], &k)) return c->r->err->code;
  crn_ev *items = crn_opc_alloc(c, 2 * sizeof *items);
  if (!items) return c->r->err->code;
  CRN_TRY(crn_opc_out(c, crn_top_k(c->r, x, k, &indices), &items[0]));
  CRN_TRY(crn_opc_out(c, indices, &items[1]));
  *out = (crn_ev){.kind = CRN_EV_TUPLE, .u.seq = {items, 2}};
  return CRN_OK;
}

static crn_status cumsum(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int axis = 0;
  bool exclusive, reverse;
  if (!x || !crn_opc_axis(c, &a[1], x->rank, &axis) || !crn_opc_bool(c, &a[2], &exclusive) ||
      !crn_opc_bool(c, &a[3], &reverse))
    return c->r->err->code;
  return crn_opc_out(c, crn_cumsum(c->r, x, axis, exclusive, reverse), out);
}

static crn_status reverse_sequence(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, &a[0]), *lens = operand(c, &a[1]);
  int t = 0, b = 0;
  const crn_ev *t_axis = a[2].kind != CRN_EV_NONE ? &a[2] : &a[4], *b_axis = a[3].kind != CRN_EV_NONE ? &a[3] : &a[5];
  crn_ev first = crn_ev_of_int(0);
  if (b_axis->kind == CRN_EV_NONE) b_axis = &first;
  if (!x || !lens || !crn_opc_axis(c, t_axis, x->rank, &t) || !crn_opc_axis(c, b_axis, x->rank, &b))
    return c->r->err->code;
  return crn_opc_out(c, crn_reverse_sequence(c->r, x, lens, t, b), out);
}

static crn_status matmul(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, &a[0]), *y = operand(c, &a[1]);
  bool tx, ty;
  if (!crn_opc_bool(c, &a[2], &tx) || !crn_opc_bool(c, &a[3], &ty)) return c->r->err->code;
  return crn_opc_out(c, crn_matmul(c->r, x, tx, y, ty), out);
}

const crn_oprow crn_rows_index[] = {
    {"gather", "params, indices, validate_indices=None, axis=None, batch_dims=0, name=None", gather, 0,
     "entries of an axis by index"},
    {"gather_nd", "params, indices, batch_dims=0, name=None", gather_nd, 0, "entries by tuples of indices"},
    {"scatter_nd", "indices, updates, shape, name=None", scatter_nd, 0,
     "zeros with updates added at tuples of indices"},
    {"one_hot", "indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None", one_hot, 0,
     "1 at the index, 0 elsewhere, along a new axis"},
    {"argmax math.argmax", "input, axis=None, output_type=int64, name=None, dimension=None", arg_extreme, 1,
     "index of the largest"},
    {"argmin math.argmin", "input, axis=None, output_type=int64, name=None, dimension=None", arg_extreme, 0,
     "index of the smallest"},
    {"argsort", "values, axis=-1, direction='ASCENDING', stable=False, name=None", argsort, 0,
     "indices in order of value"},
    {"sort", "values, axis=-1, direction='ASCENDING', name=None", sort, 0, "in order of value"},
    {"math.top_k nn.top_k", "input, k=1, sorted=True, name=None", top_k, 0,
     "the k largest of the last axis, and their indices"},
    {"cumsum math.cumsum", "x, axis=0, exclusive=False, reverse=False, name=None", cumsum, 0,
     "running sums along an axis"},
    {"reverse_sequence", "input, seq_lengths, seq_axis=None, batch_axis=None, seq_dim=None, batch_dim=None, name=None",
     reverse_sequence, 0, "sequences backwards, each within its length"},
    {"matmul linalg.matmul v1.batch_matmul", "a, b, transpose_a=False, transpose_b=False, name=None", matmul, 0,
     "product of matrices in the last two axes"},
};
const int crn_n_rows_index = sizeof crn_rows_index / sizeof crn_rows_index[0];
