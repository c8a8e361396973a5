/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining tensors along an axis (concat, stack) and padding an axis.
 */
#include <string.h>

#include "tensor/axis.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

/* dst += src for n elements of a float dtype, counted from element positions. */
static void add_elements(crn_dtype t, int64_t n, const void *src, int64_t at_src, void *dst, int64_t at_dst) {
  if (t == CRN_F32 || t == CRN_C64) {
    const int64_t parts = t == CRN_C64 ? 2 : 1;
    const float *s = (const float *)src + parts * at_src;
    float *d = (float *)dst + parts * at_dst;
    for (int64_t i = 0; i < parts * n; i++) d[i] += s[i];
  } else {
    const double *s = (const double *)src + at_src;
    double *d = (double *)dst + at_dst;
    for (int64_t i = 0; i < n; i++) d[i] += s[i];
  }
}

/* ---- concat ----------------------------------------------------------------------------------------------------- */

static crn_status concat_infer(crn_run *r, crn_node *n) { /* i[0]: axis */
  const crn_tensor *first = n->in[0];
  int axis = (int)n->a.i[0];
  int64_t shape[CRN_MAX_RANK];
  char d0[128], d1[128];
  memcpy(shape, first->shape, sizeof shape);
  shape[axis] = 0;
  for (int i = 0; i < n->n_in; i++) {
    const crn_tensor *x = n->in[i];
    bool ok = x->dtype == first->dtype && x->rank == first->rank;
    for (int d = 0; d < first->rank && ok; d++) ok = d == axis || x->shape[d] == first->shape[d];
    if (!ok)
      return crn_op_fail(r, n, "input %d, %s, doesn't go with input 0, %s, along axis %d", i,
                         crn_t_describe(x, d1, sizeof d1), crn_t_describe(first, d0, sizeof d0), axis);
    shape[axis] += x->shape[axis];
  }
  return crn_node_output(r, n, 0, first->dtype, first->rank, shape);
}

static crn_status concat_run(crn_run *r, crn_node *n) {
  (void)r;
  crn_around y = crn_around_of(n->out[0], (int)n->a.i[0]);
  size_t bytes = crn_dtype_bytes(n->out[0]->dtype), row = (size_t)(y.n * y.inner) * bytes;
  char *out = crn_t_data(n->out[0]);
  for (int i = 0; i < n->n_in; i++) {
    crn_around x = crn_around_of(n->in[i], (int)n->a.i[0]);
    size_t part = (size_t)(x.n * x.inner) * bytes;
    const char *in = crn_t_data(n->in[i]);
    if (part == 0) continue;
    for (int64_t o = 0; o < y.outer; o++) memcpy(out + (size_t)o * row, in + (size_t)o * part, part);
    out += part;
  }
  return CRN_OK;
}

static crn_status concat_grad(crn_run *r, crn_node *n) {
  crn_around y = crn_around_of(n->out[0], (int)n->a.i[0]);
  crn_dtype t = n->out[0]->dtype;
  const void *dy = crn_grad_out(n, 0);
  if (!dy || (!crn_dtype_is_float(t) && t != CRN_C64)) return CRN_OK;
  int64_t at = 0;
  for (int i = 0; i < n->n_in; i++) {
    crn_around x = crn_around_of(n->in[i], (int)n->a.i[0]);
    void *dx = crn_grad_in(r, n, i);
    CRN_TRY(r->err->code);
    int64_t part = x.n * x.inner;
    for (int64_t o = 0; o < y.outer && dx; o++) add_elements(t, part, dy, at + o * y.n * y.inner, dx, o * part);
    at += part;
  }
  return CRN_OK;
}

static const crn_opdef concat_op = {"concat", concat_infer, concat_run, concat_grad};

crn_tensor *crn_concat(crn_run *r, int n, crn_tensor *const *x, int axis) {
  if (crn_run_failed(r)) return NULL;
  if (n < 1) {
    (void)crn_fail(r->err, CRN_E_RUNTIME, "operation concat: no inputs");
    return NULL;
  }
  if (!x[0] || !crn_axis_of(r, "concat", x[0], x[0]->rank, &axis)) return NULL;
  if (n == 1) return x[0];
  return crn_op_call(r, &concat_op, n, n, x, &(crn_attrs){.i = {axis}}, NULL);
}

crn_tensor *crn_stack(crn_run *r, int n, crn_tensor *const *x, int axis) {
  if (crn_run_failed(r)) return NULL;
  crn_tensor **wide = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, n < 1 ? 1 : n);
  if (!wide) {
    (void)crn_err_memory(r->err);
    return NULL;
  }
  for (int i = 0; i < n; i++)
    if (!(wide[i] = crn_expand_dims(r, x[i], axis))) return NULL;
  if (n > 0 && axis < 0) axis += wide[0]->rank;
  return crn_concat(r, n, wide, axis);
}

/* ---- pad -------------------------------------------------------------------------------------------------------- */

typedef enum pad_mode { CONSTANT, REFLECT, SYMMETRIC, REPLICATION, N_MODES } pad_mode;
static const char *const pad_modes[N_MODES] = {"constant", "reflect", "symmetric", "replication"};

/* Attributes: i[0] axis, i[1] before, i[2] after, i[3] mode; f[0] value. Position of the input that output position i
 * shows, -1: the constant. */
static int64_t pad_source(const crn_node *n, int64_t size, int64_t i) {
  int64_t k = i - n->a.i[1];
  if (k >= 0 && k < size) return k;
  switch ((pad_mode)n->a.i[3]) {
  case REFLECT:
    return k < 0 ? -k : 2 * size - 2 - k;
  case SYMMETRIC:
    return k < 0 ? -k - 1 : 2 * size - 1 - k;
  case REPLICATION:
    return k < 0 ? 0 : size - 1;
  default:
    return -1;
  }
}

static crn_status pad_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  int axis = (int)n->a.i[0];
  int64_t before = n->a.i[1], after = n->a.i[2], size = x->shape[axis], limit = INT64_MAX / 4;
  if (n->a.i[3] == REFLECT) limit = size - 1;
  if (n->a.i[3] == SYMMETRIC) limit = size;
  if (n->a.i[3] == REPLICATION && size == 0) limit = 0;
  char d[128];
  if (before < 0 || after < 0 || before > limit || after > limit)
    return crn_op_fail(r, n, "mode %s can't add %lld before and %lld after on axis %d of %s (at most %lld)",
                       pad_modes[n->a.i[3]], (long long)before, (long long)after, axis, crn_t_describe(x, d, sizeof d),
                       (long long)(limit < 0 ? 0 : limit));
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, x->shape, sizeof shape);
  shape[axis] += before + after;
  return crn_node_output(r, n, 0, x->dtype, x->rank, shape);
}

static crn_status pad_run(crn_run *r, crn_node *n) {
  crn_around x = crn_around_of(n->in[0], (int)n->a.i[0]);
  int64_t total = n->out[0]->shape[n->a.i[0]];
  size_t bytes = crn_dtype_bytes(n->in[0]->dtype), row = (size_t)x.inner * bytes;
  const char *in = crn_t_data(n->in[0]);
  char *out = crn_t_data(n->out[0]);
  crn_tensor *fill = crn_t_full(r, n->in[0]->dtype, 1, &x.inner, crn_dtype_clamp(n->in[0]->dtype, n->a.f[0]));
  if (!fill) return r->err->code;
  if (row == 0) return CRN_OK;
  for (int64_t o = 0; o < x.outer; o++)
    for (int64_t i = 0; i < total; i++, out += row) {
      int64_t k = pad_source(n, x.n, i);
      memcpy(out, k < 0 ? (const char *)crn_t_data(fill) : in + (size_t)(o * x.n + k) * row, row);
    }
  return CRN_OK;
}

static crn_status pad_grad(crn_run *r, crn_node *n) {
  crn_around x = crn_around_of(n->in[0], (int)n->a.i[0]);
  int64_t total = n->out[0]->shape[n->a.i[0]];
  crn_dtype t = n->in[0]->dtype;
  if (!crn_dtype_is_float(t)) return CRN_OK;
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return r->err->code;
  for (int64_t o = 0; o < x.outer; o++)
    for (int64_t i = 0; i < total; i++) {
      int64_t k = pad_source(n, x.n, i);
      if (k >= 0) add_elements(t, x.inner, dy, (o * total + i) * x.inner, dx, (o * x.n + k) * x.inner);
    }
  return CRN_OK;
}

static const crn_opdef pad_op = {"pad", pad_infer, pad_run, pad_grad};

crn_tensor *crn_pad(crn_run *r, crn_tensor *x, int axis, int64_t before, int64_t after, const char *mode,
                    double value) {
  if (!x || crn_run_failed(r) || !crn_axis_of(r, "pad", x, x->rank, &axis)) return NULL;
  for (int m = 0; m < N_MODES; m++)
    if (strcmp(mode, pad_modes[m]) == 0)
      return crn_op_call(r, &pad_op, 1, 1, &x, &(crn_attrs){.i = {axis, before, after, m}, .f = {value}}, NULL);
  const char *near = crn_nearest(mode, pad_modes, N_MODES);
  (void)crn_fail(r->err, CRN_E_RUNTIME, "operation pad: unknown mode \"%s\"%s%s%s; there are %s, %s, %s and %s", mode,
                 near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "", pad_modes[0], pad_modes[1],
                 pad_modes[2], pad_modes[3]);
  return NULL;
}
