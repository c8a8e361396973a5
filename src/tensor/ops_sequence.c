/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that count along an axis: reversing sequences of given lengths, ranges, one-hot vectors, running sums.
 */
#include <string.h>

#include "tensor/axis.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

/* ---- reverse_sequence ------------------------------------------------------------------------------------------- */

/* x seen as [outer, first, middle, second, inner], first and second the time and batch axis in their order. */
typedef struct sequence_view {
  int64_t outer, first, middle, second, inner;
  bool time_first;
} sequence_view;

static sequence_view view_of(const crn_tensor *x, int t_axis, int b_axis) {
  int lo = t_axis < b_axis ? t_axis : b_axis, hi = t_axis < b_axis ? b_axis : t_axis;
  return (sequence_view){.outer = crn_t_count(lo, x->shape),
                         .first = x->shape[lo],
                         .middle = crn_t_count(hi - lo - 1, x->shape + lo + 1),
                         .second = x->shape[hi],
                         .inner = crn_t_count(x->rank - hi - 1, x->shape + hi + 1),
                         .time_first = t_axis < b_axis};
}

static crn_status reverse_sequence_infer(crn_run *r, crn_node *n) { /* i[0] time axis, i[1] batch axis */
  const crn_tensor *x = n->in[0], *lens = n->in[1];
  char d0[128], d1[128];
  if (!crn_is_index(lens) || crn_t_size(lens) != x->shape[n->a.i[1]] || n->a.i[0] == n->a.i[1])
    return crn_op_fail(r, n, "lengths %s don't go with axis %d of %s", crn_t_describe(lens, d0, sizeof d0),
                       (int)n->a.i[1], crn_t_describe(x, d1, sizeof d1));
  return crn_node_output(r, n, 0, x->dtype, x->rank, x->shape);
}

/* Call place(arg, to, from) for every block of inner elements: block `to` of the output is block `from` of the input.
 */
static void each_block(const sequence_view *v, const crn_tensor *lens, void (*place)(void *, int64_t, int64_t),
                       void *arg) {
  for (int64_t o = 0; o < v->outer; o++)
    for (int64_t i = 0; i < v->first; i++)
      for (int64_t m = 0; m < v->middle; m++)
        for (int64_t k = 0; k < v->second; k++) {
          int64_t t = v->time_first ? i : k, b = v->time_first ? k : i;
          int64_t len = crn_int_get(crn_t_data(lens), lens->dtype, b);
          int64_t T = v->time_first ? v->first : v->second;
          if (len > T) len = T;
          int64_t s = t < len ? len - 1 - t : t;
          int64_t i2 = v->time_first ? s : i, k2 = v->time_first ? k : s;
          place(arg, ((o * v->first + i) * v->middle + m) * v->second + k,
                ((o * v->first + i2) * v->middle + m) * v->second + k2);
        }
}

typedef struct block_job {
  const char *in;
  char *out;
  size_t bytes; /* of a block, or of an element when adding */
  int64_t inner;
} block_job;

static void copy_block(void *arg, int64_t to, int64_t from) {
  const block_job *j = arg;
  if (j->bytes) memcpy(j->out + (size_t)to * j->bytes, j->in + (size_t)from * j->bytes, j->bytes);
}

static void add_block(void *arg, int64_t to, int64_t from) {
  const block_job *j = arg;
  if (j->bytes == sizeof(float)) {
    const float *g = (const float *)(const void *)j->in + to * j->inner;
    float *x = (float *)(void *)j->out + from * j->inner;
    for (int64_t i = 0; i < j->inner; i++) x[i] += g[i];
  } else {
    const double *g = (const double *)(const void *)j->in + to * j->inner;
    double *x = (double *)(void *)j->out + from * j->inner;
    for (int64_t i = 0; i < j->inner; i++) x[i] += g[i];
  }
}

static crn_status reverse_sequence_run(crn_run *r, crn_node *n) {
  (void)r;
  sequence_view v = view_of(n->in[0], (int)n->a.i[0], (int)n->a.i[1]);
  block_job j = {crn_t_data(n->in[0]), crn_t_data(n->out[0]), (size_t)v.inner * crn_dtype_bytes(n->in[0]->dtype),
                 v.inner};
  each_block(&v, n->in[1], copy_block, &j);
  return CRN_OK;
}

static crn_status reverse_sequence_grad(crn_run *r, crn_node *n) {
  if (!crn_dtype_is_float(n->in[0]->dtype)) return CRN_OK;
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return r->err->code;
  sequence_view v = view_of(n->in[0], (int)n->a.i[0], (int)n->a.i[1]);
  block_job j = {dy, dx, crn_dtype_bytes(n->in[0]->dtype), v.inner};
  each_block(&v, n->in[1], add_block, &j);
  return CRN_OK;
}

static const crn_opdef reverse_sequence_op = {"reverse_sequence", reverse_sequence_infer, reverse_sequence_run,
                                              reverse_sequence_grad};

crn_tensor *crn_reverse_sequence(crn_run *r, crn_tensor *x, crn_tensor *lens, int t_axis, int b_axis) {
  if (!x || !lens || crn_run_failed(r)) return NULL;
  if (!crn_axis_of(r, "reverse_sequence", x, x->rank, &t_axis)) return NULL;
  if (!crn_axis_of(r, "reverse_sequence", x, x->rank, &b_axis)) return NULL;
  return crn_op_call(r, &reverse_sequence_op, 2, 2, (crn_tensor *[]){x, lens}, &(crn_attrs){.i = {t_axis, b_axis}},
                     NULL);
}

/* ---- range, one_hot --------------------------------------------------------------------------------------------- */

crn_tensor *crn_range(crn_run *r, crn_dtype dtype, int64_t begin, int64_t n) {
  crn_tensor *t = crn_t_new(r, dtype, 1, &n);
  if (!t) return NULL;
  void *p = crn_t_data(t);
  for (int64_t i = 0; i < n; i++) {
    if (dtype == CRN_F32)
      ((float *)p)[i] = (float)(begin + i);
    else if (dtype == CRN_F64)
      ((double *)p)[i] = (double)(begin + i);
    else
      crn_int_put(p, dtype, i, begin + i);
  }
  return t;
}

static crn_status one_hot_infer(crn_run *r, crn_node *n) { /* i[0] depth, i[1] dtype; f on, off */
  const crn_tensor *x = n->in[0];
  char d[128];
  if (!crn_dtype_is_int(x->dtype) || x->rank >= CRN_MAX_RANK || n->a.i[0] < 0)
    return crn_op_fail(r, n, "needs integers and a depth >= 0, found %s and %lld", crn_t_describe(x, d, sizeof d),
                       (long long)n->a.i[0]);
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, x->shape, sizeof shape);
  shape[x->rank] = n->a.i[0];
  return crn_node_output(r, n, 0, (crn_dtype)n->a.i[1], x->rank + 1, shape);
}

/* An index outside of [0, depth) gives a row of `off`. */
static crn_status one_hot_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_tensor *y = n->out[0];
  int64_t depth = n->a.i[0];
  size_t bytes = crn_dtype_bytes(y->dtype);
  crn_tensor *off = crn_t_scalar(r, y->dtype, crn_dtype_clamp(y->dtype, n->a.f[1]));
  crn_tensor *on = crn_t_scalar(r, y->dtype, crn_dtype_clamp(y->dtype, n->a.f[0]));
  if (!off || !on) return r->err->code;
  char *out = crn_t_data(y);
  for (int64_t i = 0, size = crn_t_size(y); i < size; i++) memcpy(out + (size_t)i * bytes, crn_t_data(off), bytes);
  for (int64_t i = 0, size = crn_t_size(x); i < size; i++) {
    int64_t k = crn_int_get(crn_t_data(x), x->dtype, i);
    if (k >= 0 && k < depth) memcpy(out + (size_t)(i * depth + k) * bytes, crn_t_data(on), bytes);
  }
  return CRN_OK;
}

static const crn_opdef one_hot_op = {"one_hot", one_hot_infer, one_hot_run, NULL};

crn_tensor *crn_one_hot(crn_run *r, crn_tensor *idx, int64_t depth, crn_dtype dtype, double on, double off) {
  return crn_op_call(r, &one_hot_op, 1, 1, &idx, &(crn_attrs){.i = {depth, dtype}, .f = {on, off}}, NULL);
}

/* ---- cumsum ----------------------------------------------------------------------------------------------------- */

static crn_status cumsum_infer(crn_run *r, crn_node *n) { /* i[0] axis, i[1] exclusive, i[2] reverse */
  const crn_tensor *x = n->in[0];
  char d[128];
  if (!crn_dtype_is_float(x->dtype) && !crn_dtype_is_int(x->dtype))
    return crn_op_fail(r, n, "not defined for %s; allowed: numbers", crn_t_describe(x, d, sizeof d));
  return crn_node_output(r, n, 0, x->dtype, x->rank, x->shape);
}

/* Running sums along the axis, added in double (integers in int64); add: y += instead of y =. sum: [inner]. */
static void running_sum(crn_around a, crn_dtype t, const void *x, void *y, bool exclusive, bool reverse, bool add,
                        double *sum) {
  for (int64_t o = 0; o < a.outer; o++) {
    memset(sum, 0, (size_t)a.inner * sizeof *sum);
    for (int64_t k = 0; k < a.n; k++) {
      int64_t at = (o * a.n + (reverse ? a.n - 1 - k : k)) * a.inner;
      for (int64_t i = 0; i < a.inner; i++) {
        double v = t == CRN_F32 ? (double)((const float *)x)[at + i] : ((const double *)x)[at + i];
        double s = exclusive ? sum[i] : sum[i] + v;
        sum[i] += v;
        if (t == CRN_F32)
          ((float *)y)[at + i] = (float)s + (add ? ((float *)y)[at + i] : 0);
        else
          ((double *)y)[at + i] = s + (add ? ((double *)y)[at + i] : 0);
      }
    }
  }
}

static void running_sum_int(crn_around a, crn_dtype t, const void *x, void *y, bool exclusive, bool reverse) {
  for (int64_t o = 0; o < a.outer; o++)
    for (int64_t i = 0; i < a.inner; i++) {
      uint64_t sum = 0;
      for (int64_t k = 0; k < a.n; k++) {
        int64_t at = (o * a.n + (reverse ? a.n - 1 - k : k)) * a.inner + i;
        uint64_t v = (uint64_t)crn_int_get(x, t, at);
        crn_int_put(y, t, at, (int64_t)(exclusive ? sum : sum + v));
        sum += v;
      }
    }
}

static crn_status cumsum_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_around a = crn_around_of(x, (int)n->a.i[0]);
  if (crn_dtype_is_int(x->dtype)) {
    running_sum_int(a, x->dtype, crn_t_data(x), crn_t_data(n->out[0]), n->a.i[1], n->a.i[2]);
    return CRN_OK;
  }
  double *sum = crn_scratch(r, (size_t)a.inner * sizeof *sum);
  if (!sum) return r->err->code;
  running_sum(a, x->dtype, crn_t_data(x), crn_t_data(n->out[0]), n->a.i[1], n->a.i[2], false, sum);
  return CRN_OK;
}

static crn_status cumsum_grad(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  if (!crn_dtype_is_float(x->dtype)) return CRN_OK;
  crn_around a = crn_around_of(x, (int)n->a.i[0]);
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  double *sum = dx ? crn_scratch(r, (size_t)a.inner * sizeof *sum) : NULL;
  if (!sum) return r->err->code;
  running_sum(a, x->dtype, dy, dx, n->a.i[1], !n->a.i[2], true, sum);
  return CRN_OK;
}

static const crn_opdef cumsum_op = {"cumsum", cumsum_infer, cumsum_run, cumsum_grad};

crn_tensor *crn_cumsum(crn_run *r, crn_tensor *x, int axis, bool exclusive, bool reverse) {
  if (!x || crn_run_failed(r) || !crn_axis_of(r, "cumsum", x, x->rank, &axis)) return NULL;
  return crn_op_call(r, &cumsum_op, 1, 1, &x, &(crn_attrs){.i = {axis, exclusive, reverse}}, NULL);
}
