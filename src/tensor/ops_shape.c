/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that reorder, repeat or cut: all are strided reads (strided.h), whose gradient adds at the same places.
 * Where nothing moves in memory the result is a view.
 */
#include <string.h>

#include "tensor/axis.h"
#include "tensor/ops.h"
#include "tensor/strided.h"

/* ---- strided reads ---------------------------------------------------------------------------------------------- */

typedef struct strided_attrs { /* lives in the run's arena */
  crn_strided plan;
  int rank;
  int64_t shape[CRN_MAX_RANK];
} strided_attrs;

static crn_status strided_infer(crn_run *r, crn_node *n) {
  const strided_attrs *a = n->a.p;
  return crn_node_output(r, n, 0, n->in[0]->dtype, a->rank, a->shape);
}

static crn_status strided_run(crn_run *r, crn_node *n) {
  const strided_attrs *a = n->a.p;
  crn_strided_copy(r, &a->plan, crn_dtype_bytes(n->in[0]->dtype), crn_t_data(n->in[0]), crn_t_data(n->out[0]));
  return CRN_OK;
}

static crn_status strided_grad(crn_run *r, crn_node *n) {
  const strided_attrs *a = n->a.p;
  if (!crn_dtype_is_float(n->in[0]->dtype)) return CRN_OK;
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return r->err->code;
  return crn_strided_add(r, &a->plan, n->in[0]->dtype, dy, dx, crn_t_size(n->in[0]));
}

#define STRIDED(name)                                                                                                  \
  { name, strided_infer, strided_run, strided_grad }
static const crn_opdef transpose_op = STRIDED("transpose"), broadcast_op = STRIDED("broadcast_to"),
                       repeat_op = STRIDED("repeat"), tile_op = STRIDED("tile"), slice_op = STRIDED("slice"),
                       reverse_op = STRIDED("reverse");

static crn_tensor *strided_call(crn_run *r, const crn_opdef *op, crn_tensor *x, const strided_attrs *attrs) {
  strided_attrs *a = CRN_ARENA_NEW(&r->arena, strided_attrs);
  if (!a) {
    (void)crn_err_memory(r->err);
    return NULL;
  }
  *a = *attrs;
  return crn_op_call(r, op, 1, 1, &x, &(crn_attrs){.p = a}, NULL);
}

/* Steps of x's axes in elements. */
static void steps_of(const crn_tensor *x, int64_t *step) {
  int64_t s = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    step[d] = s;
    s *= x->shape[d];
  }
}

crn_tensor *crn_transpose(crn_run *r, crn_tensor *x, const int *perm) {
  if (!x || crn_run_failed(r)) return NULL;
  strided_attrs a = {.rank = x->rank};
  int64_t step[CRN_MAX_RANK];
  unsigned seen = 0;
  int last = -1;
  bool moves = false; /* an axis of size other than 1 comes before one that it followed */
  steps_of(x, step);
  for (int d = 0; d < x->rank; d++) {
    if (perm[d] < 0 || perm[d] >= x->rank || (seen >> perm[d] & 1)) {
      char buf[128];
      (void)crn_fail(r->err, CRN_E_RUNTIME, "operation transpose: no order of the axes of %s (entry %d is %d)",
                     crn_t_describe(x, buf, sizeof buf), d, perm[d]);
      return NULL;
    }
    seen |= 1u << perm[d];
    a.shape[d] = x->shape[perm[d]];
    crn_strided_axis(&a.plan, a.shape[d], step[perm[d]]);
    if (a.shape[d] == 1) continue;
    moves |= perm[d] < last;
    last = perm[d];
  }
  return moves ? strided_call(r, &transpose_op, x, &a) : crn_t_reshape(r, x, a.rank, a.shape);
}

crn_tensor *crn_expand_dims(crn_run *r, crn_tensor *x, int axis) {
  if (!x || crn_run_failed(r)) return NULL;
  int64_t shape[CRN_MAX_RANK + 1];
  if (!crn_axis_of(r, "expand_dims", x, x->rank + 1, &axis)) return NULL;
  if (x->rank == CRN_MAX_RANK) {
    (void)crn_fail(r->err, CRN_E_RUNTIME, "operation expand_dims: more than %d axes", CRN_MAX_RANK);
    return NULL;
  }
  for (int d = 0; d <= x->rank; d++) shape[d] = d < axis ? x->shape[d] : d == axis ? 1 : x->shape[d - 1];
  return crn_t_reshape(r, x, x->rank + 1, shape);
}

crn_tensor *crn_squeeze(crn_run *r, crn_tensor *x, int axis) {
  if (!x || crn_run_failed(r)) return NULL;
  int64_t shape[CRN_MAX_RANK];
  if (!crn_axis_of(r, "squeeze", x, x->rank, &axis)) return NULL;
  if (x->shape[axis] != 1) {
    char buf[128];
    (void)crn_fail(r->err, CRN_E_RUNTIME, "operation squeeze: axis %d of %s must have size 1", axis,
                   crn_t_describe(x, buf, sizeof buf));
    return NULL;
  }
  for (int d = 0; d + 1 < x->rank; d++) shape[d] = x->shape[d < axis ? d : d + 1];
  return crn_t_reshape(r, x, x->rank - 1, shape);
}

crn_tensor *crn_broadcast_to(crn_run *r, crn_tensor *x, int rank, const int64_t *shape) {
  if (!x || crn_run_failed(r)) return NULL;
  strided_attrs a = {.rank = rank};
  int64_t step[CRN_MAX_RANK];
  bool ok = rank >= x->rank && rank <= CRN_MAX_RANK;
  steps_of(x, step);
  for (int d = 0; d < rank && ok; d++) {
    int k = d - (rank - x->rank);
    int64_t size = k < 0 ? 1 : x->shape[k];
    ok = size == 1 || size == shape[d];
    a.shape[d] = shape[d];
    crn_strided_axis(&a.plan, shape[d], size == 1 ? 0 : step[k]);
  }
  if (!ok) {
    char buf[128], to[128];
    crn_tensor want = {.dtype = x->dtype, .rank = rank < CRN_MAX_RANK ? rank : CRN_MAX_RANK};
    memcpy(want.shape, shape, (size_t)want.rank * sizeof *shape);
    (void)crn_fail(r->err, CRN_E_RUNTIME, "operation broadcast_to: %s can't become %s",
                   crn_t_describe(x, buf, sizeof buf), crn_t_describe(&want, to, sizeof to));
    return NULL;
  }
  if (crn_t_count(rank, shape) == crn_t_size(x)) return crn_t_reshape(r, x, rank, shape);
  return strided_call(r, &broadcast_op, x, &a);
}

crn_tensor *crn_repeat0(crn_run *r, crn_tensor *x, int64_t n) {
  if (!x || crn_run_failed(r)) return NULL;
  strided_attrs a = {.rank = x->rank};
  if (x->rank < 1 || n < 0) {
    char buf[128];
    (void)crn_fail(r->err, CRN_E_RUNTIME, "operation repeat: needs an axis and a count >= 0, found %s and %lld",
                   crn_t_describe(x, buf, sizeof buf), (long long)n);
    return NULL;
  }
  if (n == 1) return x;
  int64_t rest = crn_t_count(x->rank - 1, x->shape + 1);
  memcpy(a.shape, x->shape, sizeof a.shape);
  a.shape[0] *= n;
  crn_strided_axis(&a.plan, x->shape[0], rest);
  crn_strided_axis(&a.plan, n, 0);
  crn_strided_axis(&a.plan, rest, 1);
  return strided_call(r, &repeat_op, x, &a);
}

crn_tensor *crn_tile(crn_run *r, crn_tensor *x, const int64_t *multiples) {
  if (!x || crn_run_failed(r)) return NULL;
  strided_attrs a = {.rank = x->rank};
  int64_t step[CRN_MAX_RANK];
  bool same = true;
  steps_of(x, step);
  for (int d = 0; d < x->rank; d++) {
    if (multiples[d] < 0) {
      (void)crn_fail(r->err, CRN_E_RUNTIME, "operation tile: multiple %lld of axis %d must be >= 0",
                     (long long)multiples[d], d);
      return NULL;
    }
    same &= multiples[d] == 1;
    a.shape[d] = x->shape[d] * multiples[d];
    crn_strided_axis(&a.plan, multiples[d], 0);
    crn_strided_axis(&a.plan, x->shape[d], step[d]);
  }
  return same ? x : strided_call(r, &tile_op, x, &a);
}

crn_tensor *crn_slice(crn_run *r, crn_tensor *x, int axis, int64_t begin, int64_t n, int64_t stride) {
  if (!x || crn_run_failed(r) || !crn_axis_of(r, "slice", x, x->rank, &axis)) return NULL;
  int64_t last = n > 0 ? begin + (n - 1) * stride : begin;
  if (n < 0 || stride == 0 || (n > 0 && (begin < 0 || last < 0 || begin >= x->shape[axis] || last >= x->shape[axis]))) {
    char buf[128];
    (void)crn_fail(r->err, CRN_E_RUNTIME, "operation slice: %lld entries from %lld by %lld leave axis %d of %s",
                   (long long)n, (long long)begin, (long long)stride, axis, crn_t_describe(x, buf, sizeof buf));
    return NULL;
  }
  strided_attrs a = {.rank = x->rank};
  int64_t step[CRN_MAX_RANK];
  steps_of(x, step);
  memcpy(a.shape, x->shape, sizeof a.shape);
  a.shape[axis] = n;
  if (stride == 1 && n == x->shape[axis]) return x;
  if (n > 0 && (stride == 1 || n == 1) && crn_t_count(axis, x->shape) == 1) { /* adjoining in memory: a view */
    crn_tensor *flat = crn_t_reshape(r, x, x->rank - axis, x->shape + axis);
    return crn_t_reshape(r, crn_t_rows(r, flat, begin, n), x->rank, a.shape);
  }
  a.plan.base = n > 0 ? begin * step[axis] : 0;
  for (int d = 0; d < x->rank; d++) crn_strided_axis(&a.plan, a.shape[d], d == axis ? step[d] * stride : step[d]);
  return strided_call(r, &slice_op, x, &a);
}

crn_tensor *crn_reverse(crn_run *r, crn_tensor *x, int axis) {
  if (!x || crn_run_failed(r) || !crn_axis_of(r, "reverse", x, x->rank, &axis)) return NULL;
  strided_attrs a = {.rank = x->rank};
  int64_t step[CRN_MAX_RANK];
  steps_of(x, step);
  memcpy(a.shape, x->shape, sizeof a.shape);
  if (x->shape[axis] <= 1) return x;
  a.plan.base = (x->shape[axis] - 1) * step[axis];
  for (int d = 0; d < x->rank; d++) crn_strided_axis(&a.plan, a.shape[d], d == axis ? -step[d] : step[d]);
  return strided_call(r, &reverse_op, x, &a);
}
