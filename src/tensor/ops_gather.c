/* SPDX-License-Identifier: Apache-2.0
 *
 * Picking and placing of slices by index. Every operation turns its indices into a list of slice numbers (`from`: which
 * slice of the input is output slice i), then copies slices, and adds them back in order for the gradient. A gathered
 * parameter keeps its gradient as rows, so that a large embedding costs only what is used.
 */
#include <string.h>

#include "tensor/axis.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

/* ---- slices ----------------------------------------------------------------------------------------------------- */

typedef struct slices {
  int64_t n;     /* output slices */
  int64_t len;   /* elements of a slice */
  int64_t *from; /* [n] slice of the input, -1: zeros */
} slices;

static slices *slices_new(crn_run *r, crn_node *n, int64_t count, int64_t len) {
  slices *s = CRN_ARENA_NEW(r->recording ? &r->arena : &r->scratch, slices);
  if (s) s->from = CRN_ARENA_ARRAY(r->recording ? &r->arena : &r->scratch, int64_t, count > 0 ? count : 1);
  if (!s || !s->from) {
    (void)crn_err_memory(r->err);
    return NULL;
  }
  s->n = count;
  s->len = len;
  n->saved = s; /* read by the gradient, which only comes when recording */
  return s;
}

static void slices_copy(const slices *s, size_t bytes, const void *x, void *y) {
  size_t len = (size_t)s->len * bytes;
  if (len == 0) return;
  if (len == 4) { /* single numbers: a call for each would cost more than the number */
    for (int64_t i = 0; i < s->n; i++) {
      if (s->from[i] < 0)
        memset((char *)y + 4 * i, 0, 4);
      else
        memcpy((char *)y + 4 * i, (const char *)x + 4 * s->from[i], 4);
    }
    return;
  }
  for (int64_t i = 0; i < s->n; i++) {
    if (s->from[i] < 0)
      memset((char *)y + (size_t)i * len, 0, len);
    else
      memcpy((char *)y + (size_t)i * len, (const char *)x + (size_t)s->from[i] * len, len);
  }
}

/* x[to[i]] += y[i], in order of i */
static void slices_add_at(int64_t n, int64_t len, const int64_t *to, crn_dtype t, const void *y, void *x) {
  for (int64_t i = 0; i < n; i++) {
    if (to[i] < 0) continue;
    for (int64_t k = 0; k < len; k++) {
      if (t == CRN_F32)
        ((float *)x)[to[i] * len + k] += ((const float *)y)[i * len + k];
      else
        ((double *)x)[to[i] * len + k] += ((const double *)y)[i * len + k];
    }
  }
}

static crn_status slices_run(crn_node *n, const slices *s) {
  slices_copy(s, crn_dtype_bytes(n->in[0]->dtype), crn_t_data(n->in[0]), crn_t_data(n->out[0]));
  return CRN_OK;
}

static crn_status slices_grad(crn_run *r, crn_node *n) {
  const slices *s = n->saved;
  if (!crn_dtype_is_float(n->in[0]->dtype)) return CRN_OK;
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return r->err->code;
  slices_add_at(s->n, s->len, s->from, n->in[0]->dtype, dy, dx);
  return CRN_OK;
}

static crn_status need_index(crn_run *r, const crn_node *n, const crn_tensor *t, const char *what) {
  char d[128];
  if (crn_dtype_is_int(t->dtype)) return CRN_OK;
  return crn_op_fail(r, n, "%s must be integers, found %s", what, crn_t_describe(t, d, sizeof d));
}

static crn_status out_of_range(crn_run *r, const crn_node *n, int64_t i, int64_t value, int64_t limit) {
  char d0[128], d1[128];
  return crn_op_fail(r, n, "index %lld (entry %lld of %s) is outside of [0, %lld) for %s", (long long)value,
                     (long long)i, crn_t_describe(n->in[1], d1, sizeof d1), (long long)limit,
                     crn_t_describe(n->in[0], d0, sizeof d0));
}

/* ---- gather ----------------------------------------------------------------------------------------------------- */

static crn_status gather_infer(crn_run *r,
                               crn_node *n) { /* i[0] axis, i[1] number of batch axes (then equal to axis) */
  const crn_tensor *x = n->in[0], *idx = n->in[1];
  int axis = (int)n->a.i[0], n_batch = (int)n->a.i[1], rank = 0;
  char d0[128], d1[128];
  CRN_TRY(need_index(r, n, idx, "indices"));
  bool ok = idx->rank >= n_batch;
  for (int d = 0; d < n_batch && ok; d++) ok = idx->shape[d] == x->shape[d];
  if (!ok || x->rank - 1 + idx->rank - n_batch > CRN_MAX_RANK)
    return crn_op_fail(r, n, "indices %s don't go with %s (%d batch axes)", crn_t_describe(idx, d1, sizeof d1),
                       crn_t_describe(x, d0, sizeof d0), n_batch);
  int64_t shape[CRN_MAX_RANK];
  for (int d = 0; d < axis; d++) shape[rank++] = x->shape[d];
  for (int d = n_batch; d < idx->rank; d++) shape[rank++] = idx->shape[d];
  for (int d = axis + 1; d < x->rank; d++) shape[rank++] = x->shape[d];
  return crn_node_output(r, n, 0, x->dtype, rank, shape);
}

/* Output slice (o, k): o counts x's axes before the axis; the indices are those of batch o, or all of them. */
static crn_status gather_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *idx = n->in[1];
  crn_around a = crn_around_of(x, (int)n->a.i[0]);
  bool batched = n->a.i[1] > 0;
  int64_t n_idx = crn_t_size(idx), per = batched ? (a.outer ? n_idx / a.outer : 0) : n_idx;
  slices *s = slices_new(r, n, a.outer * per, a.inner);
  if (!s) return r->err->code;
  for (int64_t i = 0; i < n_idx; i++) {
    int64_t v = crn_int_get(crn_t_data(idx), idx->dtype, i);
    if (v < 0 || v >= a.n) return out_of_range(r, n, i, v, a.n);
  }
  for (int64_t o = 0; o < a.outer; o++) {
    if (idx->dtype == CRN_I32) { /* the usual type, without asking for each index */
      const int32_t *from = crn_t_i32(idx) + (batched ? o * per : 0);
      for (int64_t k = 0; k < per; k++) s->from[o * per + k] = o * a.n + from[k];
      continue;
    }
    for (int64_t k = 0; k < per; k++)
      s->from[o * per + k] = o * a.n + crn_int_get(crn_t_data(idx), idx->dtype, batched ? o * per + k : k);
  }
  return slices_run(n, s);
}

/* A whole parameter gathered along its rows: note the rows instead of adding to a dense gradient. */
static crn_status gather_grad(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[0];
  const slices *s = n->saved;
  crn_storage *st = x->st;
  bool whole = x->offset == 0 && (size_t)crn_t_size(x) * crn_dtype_bytes(x->dtype) == st->bytes;
  if (!st->is_param || x->rank != 2 || n->a.i[0] != 0 || n->a.i[1] != 0 || !whole) return slices_grad(r, n);
  const void *dy = crn_grad_out(n, 0);
  if (!dy || !x->needs_grad) return CRN_OK;
  crn_grad_rows *rows = CRN_ARENA_NEW(&r->arena, crn_grad_rows);
  if (!rows) return crn_err_memory(r->err);
  *rows = (crn_grad_rows){.indices = s->from, .rows = dy, .n = s->n, .next = st->rows}; /* both live until the reset */
  st->rows = rows;
  st->row_len = s->len;
  return CRN_OK;
}

static const crn_opdef gather_op = {"gather", gather_infer, gather_run, gather_grad};

crn_tensor *crn_gather(crn_run *r, crn_tensor *x, crn_tensor *idx, int axis) {
  if (!x || !idx || crn_run_failed(r) || !crn_axis_of(r, "gather", x, x->rank, &axis)) return NULL;
  return crn_op_call(r, &gather_op, 2, 2, (crn_tensor *[]){x, idx}, &(crn_attrs){.i = {axis, 0}}, NULL);
}

crn_tensor *crn_gather_batched(crn_run *r, crn_tensor *x, crn_tensor *idx, int n_batch) {
  int axis = n_batch;
  if (!x || !idx || crn_run_failed(r) || !crn_axis_of(r, "gather", x, x->rank, &axis)) return NULL;
  return crn_op_call(r, &gather_op, 2, 2, (crn_tensor *[]){x, idx}, &(crn_attrs){.i = {axis, n_batch}}, NULL);
}

/* ---- gather_nd, scatter_nd -------------------------------------------------------------------------------------- */

/* Number of the slice that each index tuple names in an array of the given sizes: idx [..., K] -> from [n]. */
static crn_status slice_numbers(crn_run *r, crn_node *n, const crn_tensor *idx, const int64_t *sizes, int64_t *from) {
  int64_t K = idx->shape[idx->rank - 1], tuples = crn_t_count(idx->rank - 1, idx->shape);
  char d[128];
  for (int64_t i = 0; i < tuples; i++) {
    int64_t at = 0;
    for (int64_t k = 0; k < K; k++) {
      int64_t v = crn_int_get(crn_t_data(idx), idx->dtype, i * K + k);
      if (v < 0 || v >= sizes[k])
        return crn_op_fail(r, n, "index %lld at place %lld of tuple %lld of %s is outside of [0, %lld)", (long long)v,
                           (long long)k, (long long)i, crn_t_describe(idx, d, sizeof d), (long long)sizes[k]);
      at = at * sizes[k] + v;
    }
    from[i] = at;
  }
  return CRN_OK;
}

static crn_status gather_nd_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *idx = n->in[1];
  char d0[128], d1[128];
  CRN_TRY(need_index(r, n, idx, "indices"));
  int64_t K = idx->rank ? idx->shape[idx->rank - 1] : -1;
  if (K < 0 || K > x->rank || idx->rank - 1 + x->rank - K > CRN_MAX_RANK)
    return crn_op_fail(r, n, "indices %s don't go with %s", crn_t_describe(idx, d1, sizeof d1),
                       crn_t_describe(x, d0, sizeof d0));
  int64_t shape[CRN_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < idx->rank - 1; d++) shape[rank++] = idx->shape[d];
  for (int d = (int)K; d < x->rank; d++) shape[rank++] = x->shape[d];
  return crn_node_output(r, n, 0, x->dtype, rank, shape);
}

static crn_status gather_nd_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *idx = n->in[1];
  int K = (int)idx->shape[idx->rank - 1];
  slices *s = slices_new(r, n, crn_t_count(idx->rank - 1, idx->shape), crn_t_count(x->rank - K, x->shape + K));
  if (!s) return r->err->code;
  CRN_TRY(slice_numbers(r, n, idx, x->shape, s->from));
  return slices_run(n, s);
}

static const crn_opdef gather_nd_op = {"gather_nd", gather_nd_infer, gather_nd_run, slices_grad};

crn_tensor *crn_gather_nd(crn_run *r, crn_tensor *x, crn_tensor *idx) {
  return crn_op_call(r, &gather_nd_op, 2, 2, (crn_tensor *[]){x, idx}, NULL, NULL);
}

typedef struct shape_attr {
  int rank;
  int64_t size[CRN_MAX_RANK];
} shape_attr;

static crn_status scatter_nd_infer(crn_run *r, crn_node *n) { /* in: updates, idx; p: shape_attr */
  const crn_tensor *u = n->in[0], *idx = n->in[1];
  const shape_attr *to = n->a.p;
  char d0[128], d1[128];
  CRN_TRY(need_index(r, n, idx, "indices"));
  int64_t K = idx->rank ? idx->shape[idx->rank - 1] : -1;
  bool ok = K >= 0 && K <= to->rank && u->rank == idx->rank - 1 + to->rank - K;
  for (int d = 0; ok && d < u->rank; d++)
    ok = u->shape[d] == (d < idx->rank - 1 ? idx->shape[d] : to->size[d - (idx->rank - 1) + K]);
  ok = ok && (crn_dtype_is_float(u->dtype) || crn_dtype_is_int(u->dtype));
  if (!ok)
    return crn_op_fail(r, n, "indices %s and updates %s don't go with a result of %d axes",
                       crn_t_describe(idx, d1, sizeof d1), crn_t_describe(u, d0, sizeof d0), to->rank);
  return crn_node_output(r, n, 0, u->dtype, to->rank, to->size);
}

static crn_status scatter_nd_run(crn_run *r, crn_node *n) {
  const crn_tensor *u = n->in[0], *idx = n->in[1], *y = n->out[0];
  int K = (int)idx->shape[idx->rank - 1];
  slices *s = slices_new(r, n, crn_t_count(idx->rank - 1, idx->shape), crn_t_count(y->rank - K, y->shape + K));
  if (!s) return r->err->code;
  CRN_TRY(slice_numbers(r, n, idx, y->shape, s->from));
  void *out = crn_t_data(y);
  memset(out, 0, (size_t)crn_t_size(y) * crn_dtype_bytes(y->dtype));
  if (crn_dtype_is_float(u->dtype)) {
    slices_add_at(s->n, s->len, s->from, u->dtype, crn_t_data(u), out);
    return CRN_OK;
  }
  for (int64_t i = 0; i < s->n * s->len; i++) {
    int64_t at = s->from[i / s->len] * s->len + i % s->len;
    int64_t sum =
        (int64_t)((uint64_t)crn_int_get(out, u->dtype, at) + (uint64_t)crn_int_get(crn_t_data(u), u->dtype, i));
    crn_int_put(out, u->dtype, at, sum);
  }
  return CRN_OK;
}

static crn_status scatter_nd_grad(crn_run *r, crn_node *n) {
  const slices *s = n->saved;
  if (!crn_dtype_is_float(n->in[0]->dtype)) return CRN_OK;
  const void *dy = crn_grad_out(n, 0);
  void *du = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!du) return r->err->code;
  for (int64_t i = 0; i < s->n; i++)
    for (int64_t k = 0; k < s->len; k++) {
      if (n->in[0]->dtype == CRN_F32)
        ((float *)du)[i * s->len + k] += ((const float *)dy)[s->from[i] * s->len + k];
      else
        ((double *)du)[i * s->len + k] += ((const double *)dy)[s->from[i] * s->len + k];
    }
  return CRN_OK;
}

static const crn_opdef scatter_nd_op = {"scatter_nd", scatter_nd_infer, scatter_nd_run, scatter_nd_grad};

crn_tensor *crn_scatter_nd(crn_run *r, crn_tensor *idx, crn_tensor *updates, int rank, const int64_t *shape) {
  if (crn_run_failed(r)) return NULL;
  shape_attr *to = rank >= 0 && rank <= CRN_MAX_RANK ? CRN_ARENA_NEW(&r->arena, shape_attr) : NULL;
  if (!to) {
    (void)crn_fail(r->err, CRN_E_RUNTIME, "operation scatter_nd: %d axes, or no memory", rank);
    return NULL;
  }
  to->rank = rank;
  memcpy(to->size, shape, (size_t)rank * sizeof *shape);
  return crn_op_call(r, &scatter_nd_op, 2, 2, (crn_tensor *[]){updates, idx}, &(crn_attrs){.p = to}, NULL);
}

/* ---- packed frames ---------------------------------------------------------------------------------------------- */

/* lens [B], each clipped to [0, T]; the sum. */
static int64_t length_at(const crn_tensor *lens, int64_t b, int64_t T) {
  int64_t v = crn_int_get(crn_t_data(lens), lens->dtype, b);
  return v < 0 ? 0 : v > T ? T : v;
}

static int64_t lengths_sum(const crn_tensor *lens, int64_t T) {
  int64_t sum = 0;
  for (int64_t b = 0, B = crn_t_size(lens); b < B; b++) sum += length_at(lens, b, T);
  return sum;
}

static crn_status pack_infer(crn_run *r, crn_node *n) { /* in: x, lens; i[0]: frames in total */
  const crn_tensor *x = n->in[0], *lens = n->in[1];
  char d0[128], d1[128];
  CRN_TRY(need_index(r, n, lens, "lengths"));
  if (x->rank < 2 || lens->rank != 1 || lens->shape[0] != x->shape[0])
    return crn_op_fail(r, n, "lengths %s don't go with %s", crn_t_describe(lens, d1, sizeof d1),
                       crn_t_describe(x, d0, sizeof d0));
  int64_t shape[CRN_MAX_RANK] = {n->a.i[0]};
  for (int d = 2; d < x->rank; d++) shape[d - 1] = x->shape[d];
  return crn_node_output(r, n, 0, x->dtype, x->rank - 1, shape);
}

static crn_status pack_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *lens = n->in[1];
  int64_t T = x->shape[1];
  slices *s = slices_new(r, n, n->a.i[0], crn_t_count(x->rank - 2, x->shape + 2));
  if (!s) return r->err->code;
  for (int64_t b = 0, at = 0; b < x->shape[0]; b++)
    for (int64_t t = 0, len = length_at(lens, b, T); t < len; t++) s->from[at++] = b * T + t;
  return slices_run(n, s);
}

static const crn_opdef pack_op = {"pack_frames", pack_infer, pack_run, slices_grad};

crn_tensor *crn_pack_frames(crn_run *r, crn_tensor *x, crn_tensor *lens) {
  if (!x || !lens || crn_run_failed(r)) return NULL;
  bool known =
      lens->st->data && x->rank >= 2 && crn_dtype_is_int(lens->dtype); /* else infer refuses, or the run is meta */
  int64_t total = known ? lengths_sum(lens, x->shape[1]) : crn_t_count(x->rank < 2 ? x->rank : 2, x->shape);
  return crn_op_call(r, &pack_op, 2, 2, (crn_tensor *[]){x, lens}, &(crn_attrs){.i = {total}}, NULL);
}

static crn_status unpack_infer(crn_run *r, crn_node *n) { /* in: x, lens; i[0]: T */
  const crn_tensor *x = n->in[0], *lens = n->in[1];
  char d0[128], d1[128];
  CRN_TRY(need_index(r, n, lens, "lengths"));
  if (x->rank < 1 || x->rank >= CRN_MAX_RANK || lens->rank != 1 || n->a.i[0] < 0)
    return crn_op_fail(r, n, "lengths %s don't go with %s", crn_t_describe(lens, d1, sizeof d1),
                       crn_t_describe(x, d0, sizeof d0));
  int64_t shape[CRN_MAX_RANK] = {lens->shape[0], n->a.i[0]};
  for (int d = 1; d < x->rank; d++) shape[d + 1] = x->shape[d];
  return crn_node_output(r, n, 0, x->dtype, x->rank + 1, shape);
}

static crn_status unpack_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *lens = n->in[1];
  int64_t T = n->a.i[0], B = lens->shape[0], total = lengths_sum(lens, T);
  if (total != x->shape[0])
    return crn_op_fail(r, n, "%lld frames, but the lengths add up to %lld", (long long)x->shape[0], (long long)total);
  slices *s = slices_new(r, n, B * T, crn_t_count(x->rank - 1, x->shape + 1));
  if (!s) return r->err->code;
  for (int64_t b = 0, at = 0; b < B; b++)
    for (int64_t t = 0, len = length_at(lens, b, T); t < T; t++) s->from[b * T + t] = t < len ? at++ : -1;
  return slices_run(n, s);
}

static const crn_opdef unpack_op = {"unpack_frames", unpack_infer, unpack_run, slices_grad};

crn_tensor *crn_unpack_frames(crn_run *r, crn_tensor *x, crn_tensor *lens, int64_t T) {
  return crn_op_call(r, &unpack_op, 2, 2, (crn_tensor *[]){x, lens}, &(crn_attrs){.i = {T}}, NULL);
}

/* ---- mask_select ------------------------------------------------------------------------------------------------ */

static crn_status mask_select_infer(crn_run *r, crn_node *n) { /* in: x, mask; i[0]: longest selection */
  const crn_tensor *x = n->in[0], *m = n->in[1];
  char d0[128], d1[128];
  if (m->dtype != CRN_BOOL || m->rank != 2 || x->rank < 2 || x->shape[0] != m->shape[0] || x->shape[1] != m->shape[1])
    return crn_op_fail(r, n, "mask %s doesn't go with %s", crn_t_describe(m, d1, sizeof d1),
                       crn_t_describe(x, d0, sizeof d0));
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, x->shape, sizeof shape);
  shape[1] = n->a.i[0];
  CRN_TRY(crn_node_output(r, n, 0, x->dtype, x->rank, shape));
  return crn_node_output(r, n, 1, CRN_I32, 1, x->shape);
}

static crn_status mask_select_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  const uint8_t *m = crn_t_bool(n->in[1]);
  int64_t T = x->shape[1], longest = n->a.i[0];
  slices *s = slices_new(r, n, x->shape[0] * longest, crn_t_count(x->rank - 2, x->shape + 2));
  if (!s) return r->err->code;
  for (int64_t b = 0; b < x->shape[0]; b++) {
    int64_t len = 0;
    for (int64_t t = 0; t < T; t++)
      if (m[b * T + t]) s->from[b * longest + len++] = b * T + t;
    crn_t_i32(n->out[1])[b] = (int32_t)len;
    while (len < longest) s->from[b * longest + len++] = -1;
  }
  return slices_run(n, s);
}

static const crn_opdef mask_select_op = {"mask_select", mask_select_infer, mask_select_run, slices_grad};

static int64_t longest_selection(const crn_tensor *mask) {
  int64_t longest = 0;
  for (int64_t b = 0; b < mask->shape[0]; b++) {
    int64_t len = 0;
    for (int64_t t = 0; t < mask->shape[1]; t++) len += crn_t_bool(mask)[b * mask->shape[1] + t] != 0;
    if (len > longest) longest = len;
  }
  return longest;
}

crn_tensor *crn_mask_select(crn_run *r, crn_tensor *x, crn_tensor *mask, crn_tensor **new_lens) {
  if (!x || !mask || crn_run_failed(r)) return NULL;
  bool known =
      mask->dtype == CRN_BOOL && mask->rank == 2 && mask->st->data; /* else infer refuses, or the run is meta */
  int64_t longest = known ? longest_selection(mask) : x->rank > 1 ? x->shape[1] : 0;
  crn_tensor *outs[3] = {NULL};
  crn_tensor *y = crn_op_call(r, &mask_select_op, 2, 2, (crn_tensor *[]){x, mask}, &(crn_attrs){.i = {longest}}, outs);
  if (new_lens) *new_lens = y ? outs[1] : NULL;
  return y;
}
