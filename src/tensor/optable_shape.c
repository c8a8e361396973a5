/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table of functions: shapes, joining and cutting, making tensors, random numbers.
 */
#include <string.h>

#include "tensor/ints.h"
#include "tensor/optable_rows.h"

static crn_tensor *operand(crn_opctx *c, const crn_ev *a) { return crn_opc_tensor(c, a, CRN_N_DTYPES); }

/* n tensors as a list */
static crn_status list_of(crn_opctx *c, crn_tensor *const *t, int n, crn_ev *out) {
  crn_ev *items = crn_opc_alloc(c, (size_t)n * sizeof *items);
  if (!items) return c->r->err->code;
  for (int i = 0; i < n; i++) CRN_TRY(crn_opc_out(c, t[i], &items[i]));
  *out = (crn_ev){.kind = CRN_EV_LIST, .u.seq = {items, n}};
  return CRN_OK;
}

static crn_status squeeze(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  unsigned axes = 0;
  const crn_ev *which = a[1].kind == CRN_EV_NONE ? &a[3] : &a[1]; /* TensorFlow 1 says squeeze_dims */
  if (!x || !crn_opc_axes(c, which, x->rank, &axes)) return c->r->err->code;
  for (int d = x->rank - 1; d >= 0 && x; d--)
    if ((axes >> d & 1) && (which->kind != CRN_EV_NONE || x->shape[d] == 1)) x = crn_squeeze(c->r, x, d);
  return crn_opc_out(c, x, out);
}

static crn_status expand_dims(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int axis = 0;
  if (!x || !crn_opc_axis(c, a[1].kind == CRN_EV_NONE ? &a[2] : &a[1], x->rank + 1, &axis)) return c->r->err->code;
  return crn_opc_out(c, crn_expand_dims(c->r, x, axis), out);
}

static crn_status expand_dims_unbroadcast(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int axis = 0;
  int64_t n = 0, multiples[CRN_MAX_RANK];
  if (!x || !crn_opc_axis(c, &a[1], x->rank + 1, &axis) || !crn_opc_int(c, &a[2], &n)) return c->r->err->code;
  x = crn_expand_dims(c->r, x, axis);
  for (int d = 0; x && d < x->rank; d++) multiples[d] = d == axis ? n : 1;
  return crn_opc_out(c, crn_tile(c->r, x, multiples), out);
}

static crn_status reshape(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int rank = 0;
  int64_t shape[CRN_MAX_RANK];
  if (!x || !crn_opc_shape(c, &a[1], &rank, shape)) return c->r->err->code;
  CRN_TRY(crn_opc_out(c, crn_t_reshape(c->r, x, rank, shape), out));
  crn_opc_keep_made(c, a, 2, out);
  return CRN_OK;
}

static crn_status transpose(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int rank = x ? x->rank : 0, perm[CRN_MAX_RANK];
  int64_t order[CRN_MAX_RANK];
  for (int d = 0; d < rank; d++) order[d] = rank - 1 - d;
  if (!x || (a[1].kind != CRN_EV_NONE && !crn_opc_shape(c, &a[1], &rank, order))) return c->r->err->code;
  if (rank != x->rank) return crn_opc_fail(c, "perm has %d entries for %d axes", rank, x->rank);
  for (int d = 0; d < rank; d++) {
    if (order[d] < 0 || order[d] >= rank) return crn_opc_fail(c, "perm names axis %lld", (long long)order[d]);
    perm[d] = (int)order[d];
  }
  CRN_TRY(crn_opc_out(c, crn_transpose(c->r, x, perm), out));
  crn_opc_keep_made(c, a, 2, out);
  return CRN_OK;
}

/* axes: positions of x, or 'x' for a new axis of size 1; axes left out must have size 1 */
static crn_status dimshuffle(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  if (!x || !crn_ev_is_seq(&a[1])) return crn_opc_fail(c, "expected a sequence of axes");
  int perm[CRN_MAX_RANK], n = 0, wanted = a[1].u.seq.n;
  int64_t shape[CRN_MAX_RANK];
  unsigned used = 0;
  if (wanted > CRN_MAX_RANK) return crn_opc_fail(c, "%d axes; at most %d are possible", wanted, CRN_MAX_RANK);
  for (int i = 0; i < wanted; i++) {
    const crn_ev *v = &a[1].u.seq.items[i];
    shape[i] = 1;
    if (v->kind == CRN_EV_STR && strcmp(v->u.s, "x") == 0) continue;
    if (!crn_opc_axis(c, v, x->rank, &perm[n])) return c->r->err->code;
    if (used >> perm[n] & 1) return crn_opc_fail(c, "axis %d is named twice", perm[n]);
    shape[i] = x->shape[perm[n]];
    used |= 1u << perm[n++];
  }
  for (int d = 0; d < x->rank; d++)
    if (!(used >> d & 1)) perm[n++] = d;
  return crn_opc_out(c, crn_t_reshape(c->r, crn_transpose(c->r, x, perm), wanted, shape), out);
}

/* values of a list as tensors of one dtype */
static crn_tensor **tensors_of(crn_opctx *c, const crn_ev *v, int *n) {
  if (!crn_ev_is_seq(v)) {
    char d[96];
    (void)crn_opc_fail(c, "expected a list of tensors, found %s", crn_ev_describe(v, d, sizeof d));
    return NULL;
  }
  crn_dtype like = crn_opc_like(v, 1);
  crn_tensor **t = crn_opc_alloc(c, (size_t)v->u.seq.n * sizeof *t);
  *n = v->u.seq.n;
  for (int i = 0; t && i < *n; i++)
    if (!(t[i] = crn_opc_tensor(c, &v->u.seq.items[i], like))) return NULL;
  return t;
}

static crn_status concat(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  int n = 0, axis = 0;
  crn_tensor **t = tensors_of(c, &a[0], &n);
  if (!t) return c->r->err->code;
  if (n < 1) return crn_opc_fail(c, "the list is empty");
  if (!crn_opc_axis(c, &a[1], t[0]->rank, &axis)) return c->r->err->code;
  return crn_opc_out(c, crn_concat(c->r, n, t, axis), out);
}

static crn_status stack(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  int n = 0, axis = 0;
  crn_tensor **t = tensors_of(c, &a[0], &n);
  if (!t) return c->r->err->code;
  if (n < 1) return crn_opc_fail(c, "the list is empty");
  if (!crn_opc_axis(c, &a[1], t[0]->rank + 1, &axis)) return c->r->err->code;
  return crn_opc_out(c, crn_stack(c->r, n, t, axis), out);
}

/* pieces of the given sizes along an axis; squeezed: each of size 1, without the axis */
static crn_status pieces(crn_opctx *c, crn_tensor *x, int axis, int n, const int64_t *size, bool squeezed,
                         crn_ev *out) {
  crn_tensor **t = crn_opc_alloc(c, (size_t)n * sizeof *t);
  if (!t) return c->r->err->code;
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    int64_t len = size ? size[i] : 1;
    t[i] = crn_slice(c->r, x, axis, at, len, 1);
    if (squeezed) t[i] = crn_squeeze(c->r, t[i], axis);
    at += len;
  }
  return list_of(c, t, n, out);
}

static crn_status unstack(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int axis = 0;
  int64_t n = 0;
  if (!x || !crn_opc_axis(c, &a[2], x->rank, &axis)) return c->r->err->code;
  if (a[1].kind != CRN_EV_NONE && (!crn_opc_int(c, &a[1], &n) || n != x->shape[axis]))
    return crn_opc_fail(c, "axis %d has %lld entries, not num", axis, (long long)x->shape[axis]);
  if (x->shape[axis] > INT32_MAX) return crn_opc_fail(c, "too many entries");
  return pieces(c, x, axis, (int)x->shape[axis], NULL, true, out);
}

static crn_status split(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int axis = 0, n = 0;
  int64_t many = 0, sum = 0, *size;
  if (!x || !crn_opc_axis(c, &a[2], x->rank, &axis)) return c->r->err->code;
  bool given = crn_ev_is_seq(&a[1]);
  if (!given && !crn_opc_int(c, &a[1], &many)) return c->r->err->code;
  if (!given && (many < 1 || many > x->shape[axis] || x->shape[axis] % many))
    return crn_opc_fail(c, "axis %d of size %lld can't be cut in %lld equal parts", axis, (long long)x->shape[axis],
                        (long long)many);
  n = given ? a[1].u.seq.n : (int)many;
  if (!(size = crn_opc_alloc(c, (size_t)n * sizeof *size))) return c->r->err->code;
  int open = -1;
  for (int i = 0; i < n; i++) {
    size[i] = given ? 0 : x->shape[axis] / many;
    if (given && !crn_opc_int(c, &a[1].u.seq.items[i], &size[i])) return c->r->err->code;
    if (size[i] < 0)
      open = i;
    else
      sum += size[i];
  }
  if (open >= 0) size[open] = x->shape[axis] - sum;
  if ((open < 0 && sum != x->shape[axis]) || (open >= 0 && size[open] < 0))
    return crn_opc_fail(c, "the parts' sizes don't add up to %lld, the size of axis %d", (long long)x->shape[axis],
                        axis);
  return pieces(c, x, axis, n, size, false, out);
}

static crn_status tile(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int rank = 0;
  int64_t m[CRN_MAX_RANK];
  if (!x || !crn_opc_shape(c, &a[1], &rank, m)) return c->r->err->code;
  if (rank != x->rank) return crn_opc_fail(c, "multiples has %d entries for %d axes", rank, x->rank);
  return crn_opc_out(c, crn_tile(c->r, x, m), out);
}

static crn_status broadcast_to(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int rank = 0;
  int64_t shape[CRN_MAX_RANK];
  if (!x || !crn_opc_shape(c, &a[1], &rank, shape)) return c->r->err->code;
  return crn_opc_out(c, crn_broadcast_to(c->r, x, rank, shape), out);
}

static crn_status reverse(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  unsigned axes = 0;
  if (!x || !crn_opc_axes(c, &a[1], x->rank, &axes)) return c->r->err->code;
  for (int d = 0, rank = x->rank; d < rank && x; d++)
    if (axes >> d & 1) x = crn_reverse(c->r, x, d);
  return crn_opc_out(c, x, out);
}

/* y[i] = x[i - shift], around the end */
static crn_status roll(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int n = 0, m = 0;
  int64_t shifts[CRN_MAX_RANK], axes[CRN_MAX_RANK];
  if (!x || !crn_opc_shape(c, &a[1], &n, shifts) || !crn_opc_shape(c, &a[2], &m, axes)) return c->r->err->code;
  if (n != m) return crn_opc_fail(c, "%d shifts for %d axes", n, m);
  for (int i = 0; i < n && x; i++) {
    int axis = 0;
    crn_ev which = crn_ev_of_int(axes[i]);
    if (!crn_opc_axis(c, &which, x->rank, &axis)) return c->r->err->code;
    int64_t size = x->shape[axis], by = size ? (shifts[i] % size + size) % size : 0;
    if (by == 0) continue;
    crn_tensor *parts[] = {crn_slice(c->r, x, axis, size - by, by, 1), crn_slice(c->r, x, axis, 0, size - by, 1)};
    x = crn_concat(c->r, 2, parts, axis);
  }
  return crn_opc_out(c, x, out);
}

static crn_status pad(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a), *p = crn_opc_tensor(c, &a[1], CRN_N_DTYPES);
  double value = 0;
  char mode[16] = "";
  if (!x || !p || !crn_opc_float(c, &a[3], &value)) return c->r->err->code;
  if (p->rank != 2 || p->shape[0] != x->rank || p->shape[1] != 2 || !crn_dtype_is_int(p->dtype))
    return crn_opc_fail(c, "paddings must be [[before, after], …], a pair per axis");
  if (a[2].kind != CRN_EV_STR) return crn_opc_fail(c, "mode must be a string");
  for (size_t i = 0; i + 1 < sizeof mode && a[2].u.s[i]; i++) {
    char letter = a[2].u.s[i];
    mode[i] = (char)(letter >= 'A' && letter <= 'Z' ? letter + 32 : letter);
  }
  for (int d = 0, rank = x->rank; d < rank && x; d++) {
    int64_t before = crn_int_get(crn_t_data(p), p->dtype, 2 * d),
            after = crn_int_get(crn_t_data(p), p->dtype, 2 * d + 1);
    if (before || after) x = crn_pad(c->r, x, d, before, after, mode, value);
  }
  return crn_opc_out(c, x, out);
}

static crn_status slice(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int n = 0, m = 0;
  int64_t begin[CRN_MAX_RANK], size[CRN_MAX_RANK];
  if (!x || !crn_opc_shape(c, &a[1], &n, begin) || !crn_opc_shape(c, &a[2], &m, size)) return c->r->err->code;
  if (n != x->rank || m != x->rank) return crn_opc_fail(c, "begin and size need %d entries", x->rank);
  for (int d = 0; d < n && x; d++)
    x = crn_slice(c->r, x, d, begin[d], size[d] < 0 ? x->shape[d] - begin[d] : size[d], 1);
  return crn_opc_out(c, x, out);
}

/* ---- making tensors --------------------------------------------------------------------------------------------- */

static crn_status filled(crn_opctx *c, const crn_ev *a, crn_ev *out) { /* zeros, ones */
  int rank = 0;
  int64_t shape[CRN_MAX_RANK];
  crn_dtype t;
  if (!crn_opc_shape(c, &a[0], &rank, shape) || !crn_opc_dtype(c, &a[1], &t)) return c->r->err->code;
  return crn_opc_out(c, crn_t_full(c->r, t, rank, shape, c->row->arg), out);
}

static crn_status filled_like(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  crn_dtype t = x ? x->dtype : CRN_F32;
  if (!x || (a[1].kind != CRN_EV_NONE && !crn_opc_dtype(c, &a[1], &t))) return c->r->err->code;
  return crn_opc_out(c, crn_t_full(c->r, t, x->rank, x->shape, c->row->arg), out);
}

static crn_status fill(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  int rank = 0;
  int64_t shape[CRN_MAX_RANK];
  crn_tensor *v = operand(c, &a[1]);
  if (!v || !crn_opc_shape(c, &a[0], &rank, shape)) return c->r->err->code;
  return crn_opc_out(c, crn_broadcast_to(c->r, v, rank, shape), out);
}

static crn_status constant(crn_opctx *c, const crn_ev *a, crn_ev *out) { /* value, dtype, shape */
  crn_dtype t = CRN_N_DTYPES;
  int rank = 0;
  int64_t shape[CRN_MAX_RANK];
  if (a[1].kind != CRN_EV_NONE && !crn_opc_dtype(c, &a[1], &t)) return c->r->err->code;
  crn_tensor *x = crn_opc_tensor(c, &a[0], t);
  if (x && t != CRN_N_DTYPES && x->dtype != t)
    return crn_opc_fail(c, "a tensor of %s isn't %s; use tf.cast", crn_dtype_name(x->dtype), crn_dtype_name(t));
  if (a[2].kind != CRN_EV_NONE && c->row->arg == 0) { /* convert_to_tensor has no shape */
    if (!x || !crn_opc_shape(c, &a[2], &rank, shape)) return c->r->err->code;
    x = crn_t_size(x) == 1 ? crn_broadcast_to(c->r, crn_t_reshape(c->r, x, 0, NULL), rank, shape)
                           : crn_t_reshape(c->r, x, rank, shape);
  }
  return crn_opc_out(c, x, out);
}

static crn_status shape_of(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  crn_dtype t;
  if (!x || !crn_opc_dtype(c, &a[2], &t)) return c->r->err->code;
  crn_tensor *y = crn_t_zeros(c->r, t, 1, (const int64_t[]){x->rank});
  for (int d = 0; y && d < x->rank; d++) crn_int_put(crn_t_data(y), t, d, x->shape[d]);
  return crn_opc_out(c, y, out);
}

static crn_status size_of(crn_opctx *c, const crn_ev *a, crn_ev *out) { /* arg 0: tf.size, 1: tf.rank */
  crn_tensor *x = operand(c, a);
  if (!x) return c->r->err->code;
  return crn_opc_out(c, crn_t_scalar(c->r, CRN_I32, (double)(c->row->arg ? x->rank : crn_t_size(x))), out);
}

static crn_status get_shape(crn_opctx *c, const crn_ev *a, crn_ev *out) { /* a tuple of plain integers */
  crn_tensor *x = operand(c, a);
  crn_ev *items = x ? crn_opc_alloc(c, (size_t)x->rank * sizeof *items) : NULL;
  if (!items) return c->r->err->code;
  for (int d = 0; d < x->rank; d++) items[d] = crn_ev_of_int(x->shape[d]);
  *out = (crn_ev){.kind = CRN_EV_TUPLE, .u.seq = {items, x->rank}};
  return CRN_OK;
}

static crn_status get_shape_dim(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  int axis = 0;
  if (!x || !crn_opc_axis(c, &a[1], x->rank, &axis)) return c->r->err->code;
  *out = crn_ev_of_int(x->shape[axis]);
  return CRN_OK;
}

/* range(limit), range(start, limit, delta); floats where one of them is */
static crn_status range(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_ev start = a[0], limit = a[1];
  if (limit.kind == CRN_EV_NONE) {
    start = crn_ev_of_int(0);
    limit = a[0];
  }
  crn_ev ends[3] = {start, limit, a[2]};
  crn_dtype t = crn_opc_like(ends, 3);
  double v[3] = {0, 0, 1};
  for (int i = 0; i < 3; i++) {
    if (!crn_opc_float(c, &ends[i], &v[i])) return c->r->err->code;
    if (t == CRN_N_DTYPES && ends[i].kind == CRN_EV_FLOAT) t = c->r->real;
  }
  if (t == CRN_N_DTYPES) t = CRN_I32;
  if (a[3].kind != CRN_EV_NONE && !crn_opc_dtype(c, &a[3], &t)) return c->r->err->code;
  double n = v[2] != 0 ? (v[1] - v[0]) / v[2] : -1;
  if (v[2] == 0 || !(n < 1e9)) return crn_opc_fail(c, "no range from %g to %g by %g", v[0], v[1], v[2]);
  int64_t count = n <= 0 ? 0 : (int64_t)n + ((double)(int64_t)n < n);
  crn_tensor *y = crn_range(c->r, CRN_F64, 0, count);
  if (v[2] != 1) y = crn_scale(c->r, y, v[2]);
  return crn_opc_out(c, crn_cast(c->r, crn_add_scalar(c->r, y, v[0]), t), out);
}

/* lengths [...] -> bool [..., maxlen] */
static crn_status sequence_mask(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *lens = operand(c, a);
  int64_t n = 0;
  crn_dtype t;
  if (!lens || !crn_opc_dtype(c, &a[2], &t)) return c->r->err->code;
  if (!crn_is_index(lens)) return crn_opc_fail(c, "lengths must be int32 or int64");
  if (a[1].kind != CRN_EV_NONE) {
    if (!crn_opc_int(c, &a[1], &n)) return c->r->err->code;
  } else {
    for (int64_t i = 0; i < crn_t_size(lens); i++) {
      int64_t v = crn_int_get(crn_t_data(lens), lens->dtype, i);
      if (v > n) n = v;
    }
  }
  crn_tensor *y = crn_binary(c->r, CRN_B_LESS, crn_range(c->r, lens->dtype, 0, n), crn_expand_dims(c->r, lens, -1));
  if (c->row->arg && y && y->rank == 2) y = crn_transpose(c->r, y, (const int[]){1, 0});
  return crn_opc_out(c, crn_cast(c->r, y, t), out);
}

/* ---- random ----------------------------------------------------------------------------------------------------- */

/* The place of the call in its expression, behind the owner's name (a layer's): the same numbers whatever else runs. */
static const char *stream_name(crn_opctx *c) {
  const char *owner = c->owner ? c->owner : "expression";
  const char *name = crn_arena_printf(&c->r->arena, "%s/%d", owner, c->column);
  if (!name) (void)crn_err_memory(c->r->err);
  return name;
}

static crn_status random_uniform(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  int rank = 0;
  int64_t shape[CRN_MAX_RANK];
  double lo = 0, hi = 1;
  crn_dtype t;
  if (!crn_opc_shape(c, &a[0], &rank, shape) || !crn_opc_dtype(c, &a[3], &t) || !crn_opc_float(c, &a[1], &lo))
    return c->r->err->code;
  if (a[2].kind != CRN_EV_NONE && !crn_opc_float(c, &a[2], &hi)) return c->r->err->code;
  if (a[2].kind == CRN_EV_NONE && !crn_dtype_is_float(t)) return crn_opc_fail(c, "integers need maxval");
  const char *name = stream_name(c);
  if (!name) return c->r->err->code;
  return crn_opc_out(c, crn_random_uniform(c->r, name, t, rank, shape, lo, hi), out);
}

static crn_status random_normal(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  int rank = 0;
  int64_t shape[CRN_MAX_RANK];
  double mean = 0, stddev = 1;
  crn_dtype t;
  if (!crn_opc_shape(c, &a[0], &rank, shape) || !crn_opc_float(c, &a[1], &mean) || !crn_opc_float(c, &a[2], &stddev) ||
      !crn_opc_dtype(c, &a[3], &t))
    return c->r->err->code;
  const char *name = stream_name(c);
  if (!name) return c->r->err->code;
  return crn_opc_out(c, crn_cast(c->r, crn_random_normal(c->r, name, rank, shape, mean, stddev), t), out);
}

/* The entries of axis 0 in random order: sorted by random numbers. */
static crn_status random_shuffle(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  const char *name = stream_name(c);
  if (!x || !name) return c->r->err->code;
  if (x->rank < 1) return crn_opc_fail(c, "needs an axis");
  crn_tensor *u = crn_random_uniform(c->r, name, CRN_F64, 1, x->shape, 0, 1);
  return crn_opc_out(c, crn_gather(c->r, x, crn_argsort(c->r, u, 0, false), 0), out);
}

static crn_status dropout(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a);
  double rate = 0;
  int rank = x ? x->rank : 0;
  int64_t noise[CRN_MAX_RANK];
  if (!x || !crn_opc_float(c, &a[1], &rate)) return c->r->err->code;
  memcpy(noise, x->shape, sizeof noise);
  if (a[2].kind != CRN_EV_NONE && (!crn_opc_shape(c, &a[2], &rank, noise) || rank != x->rank))
    return crn_opc_fail(c, "noise_shape needs %d entries", x->rank);
  const char *name = stream_name(c);
  if (!name) return c->r->err->code;
  return crn_opc_out(c, crn_dropout(c->r, name, x, rate, noise), out);
}

#define LIKE "input, dtype=None, name=None"
const crn_oprow crn_rows_shape[] = {
    {"squeeze", "input, axis=None, name=None, squeeze_dims=None", squeeze, 0, "without axes of size 1"},
    {"expand_dims", "input, axis=None, dim=None, name=None", expand_dims, 0, "with a new axis of size 1"},
    {"@expand_dims_unbroadcast", "x, axis, dim, name=None", expand_dims_unbroadcast, 0,
     "with a new axis, repeated dim times"},
    {"reshape", "tensor, shape, name=None", reshape, 0, "the same elements in another shape"},
    {"transpose", "a, perm=None, conjugate=False, name=None", transpose, 0, "axes in another order"},
    {"@dimshuffle", "x, axes, name=None", dimshuffle, 0, "axes in another order, 'x' for a new one"},
    {"concat", "values, axis, name=None", concat, 0, "one after the other along an axis"},
    {"stack", "values, axis=0, name=None", stack, 0, "side by side along a new axis"},
    {"unstack", "value, num=None, axis=0, name=None", unstack, 0, "list of the entries of an axis"},
    {"split", "value, num_or_size_splits, axis=0, num=None, name=None", split, 0, "list of parts along an axis"},
    {"tile", "input, multiples, name=None", tile, 0, "repeated along its axes"},
    {"broadcast_to", "input, shape, name=None", broadcast_to, 0, "repeated to a shape"},
    {"reverse", "tensor, axis, name=None", reverse, 0, "backwards along axes"},
    {"roll", "input, shift, axis, name=None", roll, 0, "shifted along axes, around the end"},
    {"pad", "tensor, paddings, mode='CONSTANT', constant_values=0, name=None", pad, 0, "padded along its axes"},
    {"slice", "input_, begin, size, name=None", slice, 0, "a block; size -1 = up to the end"},
    {"zeros", "shape, dtype=float32, name=None", filled, 0, "zeros of a shape"},
    {"ones", "shape, dtype=float32, name=None", filled, 1, "ones of a shape"},
    {"zeros_like", LIKE, filled_like, 0, "zeros of x's shape"},
    {"ones_like", LIKE, filled_like, 1, "ones of x's shape"},
    {"fill", "dims, value, name=None", fill, 0, "a value in a shape"},
    {"constant", "value, dtype=None, shape=None, name=None", constant, 0, "a tensor of plain numbers"},
    {"convert_to_tensor", "value, dtype=None, dtype_hint=None, name=None", constant, 1, "a tensor of plain numbers"},
    {"shape", "input, name=None, out_type=int32", shape_of, 0, "sizes of the axes, as a tensor"},
    {"size", "input, name=None, out_type=int32", size_of, 0, "number of elements, as a tensor"},
    {"rank", "input, name=None", size_of, 1, "number of axes, as a tensor"},
    {"@get_shape", "x", get_shape, 0, "sizes of the axes"},
    {"@get_shape_dim", "x, axis, name=None", get_shape_dim, 0, "size of an axis"},
    {"range", "start, limit=None, delta=1, dtype=None, name=None", range, 0, "numbers in steps"},
    {"sequence_mask @sequence_mask", "lengths, maxlen=None, dtype=bool, name=None", sequence_mask, 0,
     "position < length, on a new last axis"},
    {"@sequence_mask_time_major", "lengths, maxlen=None, dtype=bool, name=None", sequence_mask, 1,
     "position < length, on a new first axis"},
    {"random.uniform v1.random_uniform", "shape, minval=0, maxval=None, dtype=float32, seed=None, name=None",
     random_uniform, 0, "random numbers, equally likely"},
    {"random.normal v1.random_normal", "shape, mean=0.0, stddev=1.0, dtype=float32, seed=None, name=None",
     random_normal, 0, "random numbers, normally distributed"},
    {"random.shuffle v1.random_shuffle", "value, seed=None, name=None", random_shuffle, 0, "axis 0 in random order"},
    {"nn.dropout", "x, rate, noise_shape=None, seed=None, name=None", dropout, 0,
     "x with random elements set to 0, the others scaled"},
};
const int crn_n_rows_shape = sizeof crn_rows_shape / sizeof crn_rows_shape[0];
