/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordering by value: the k largest, the largest, the smallest, and sorting. Integers are read as int64.
 */
#include <string.h>

#include "kernel/kernel.h"
#include "tensor/axis.h"
#include "tensor/bcast.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

#define SKIP 32 /* values that are compared at once with the least of the best */
#define IS_NAN(v) ((v) != (v))
#define V float
#define N(name) name##_f32
#include "tensor/ops_sort.inc.h"
#undef V
#undef N
#define V double
#define N(name) name##_f64
#include "tensor/ops_sort.inc.h"
#undef V
#undef N
#undef IS_NAN
#define IS_NAN(v) ((void)(v), false)
#define V int64_t
#define N(name) name##_int
#include "tensor/ops_sort.inc.h"
#undef V
#undef N

static crn_status need_numbers(crn_run *r, const crn_node *n) {
  char d[128];
  if (crn_dtype_is_float(n->in[0]->dtype) || crn_dtype_is_int(n->in[0]->dtype)) return CRN_OK;
  return crn_op_fail(r, n, "not defined for %s; allowed: numbers", crn_t_describe(n->in[0], d, sizeof d));
}

/* x's elements in a type that is sorted here: floats as they are, integers as int64 in scratch. NULL: no memory. */
static const void *values_of(crn_run *r, const crn_tensor *x) {
  if (!crn_dtype_is_int(x->dtype) || x->dtype == CRN_I64) return crn_t_data(x);
  int64_t n = crn_t_size(x);
  int64_t *v = crn_scratch(r, (size_t)n * sizeof *v);
  for (int64_t i = 0; v && i < n; i++) v[i] = crn_int_get(crn_t_data(x), x->dtype, i);
  return v;
}

/* ---- top_k ------------------------------------------------------------------------------------------------------ */

static crn_status top_k_infer(crn_run *r, crn_node *n) { /* i[0]: k */
  const crn_tensor *x = n->in[0];
  int64_t k = n->a.i[0];
  char d[128];
  CRN_TRY(need_numbers(r, n));
  if (x->rank < 1 || k < 0 || k > x->shape[x->rank - 1] || x->shape[x->rank - 1] > INT32_MAX)
    return crn_op_fail(r, n, "the %lld largest of the last axis of %s aren't there", (long long)k,
                       crn_t_describe(x, d, sizeof d));
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, x->shape, sizeof shape);
  shape[x->rank - 1] = k;
  CRN_TRY(crn_node_output(r, n, 0, x->dtype, x->rank, shape));
  return crn_node_output(r, n, 1, CRN_I32, x->rank, shape);
}

typedef struct top_k_job {
  const void *values;
  crn_dtype dtype;
  int64_t n, k;
  int32_t *index, *work; /* [rows, k]; work [rows, 2n] when k is large, else NULL */
} top_k_job;

enum { LARGE_K = 64 }; /* beyond it sorting everything is faster */

static void top_k_rows(void *arg, int64_t begin, int64_t end) {
  const top_k_job *j = arg;
  for (int64_t row = begin; row < end; row++) {
    int32_t *out = j->index + row * j->k;
    int32_t *idx = j->work ? j->work + 2 * row * j->n : NULL;
    const float *f = (const float *)j->values + row * j->n;
    const double *d = (const double *)j->values + row * j->n;
    const int64_t *i = (const int64_t *)j->values + row * j->n;
    if (!idx) {
      if (j->dtype == CRN_F32)
        best_k_f32(j->n, f, j->k, out);
      else if (j->dtype == CRN_F64)
        best_k_f64(j->n, d, j->k, out);
      else
        best_k_int(j->n, i, j->k, out);
      continue;
    }
    if (j->dtype == CRN_F32)
      sort_f32(j->n, f, 1, true, idx, idx + j->n);
    else if (j->dtype == CRN_F64)
      sort_f64(j->n, d, 1, true, idx, idx + j->n);
    else
      sort_int(j->n, i, 1, true, idx, idx + j->n);
    memcpy(out, idx, (size_t)j->k * sizeof *out);
  }
}

static crn_status top_k_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_around a = crn_around_of(x, x->rank - 1);
  top_k_job j = {values_of(r, x), x->dtype, a.n, n->a.i[0], crn_t_i32(n->out[1]), NULL};
  if (j.k > LARGE_K) j.work = crn_scratch(r, (size_t)(2 * a.outer * a.n) * sizeof *j.work);
  if (!j.values || (j.k > LARGE_K && !j.work)) return r->err->code;
  crn_for_ranges(r, a.outer, a.outer * a.n, top_k_rows, &j);
  size_t bytes = crn_dtype_bytes(x->dtype);
  char *out = crn_t_data(n->out[0]);
  for (int64_t i = 0; i < a.outer * j.k; i++)
    memcpy(out + (size_t)i * bytes, (const char *)crn_t_data(x) + (size_t)(i / j.k * a.n + j.index[i]) * bytes, bytes);
  return CRN_OK;
}

static crn_status top_k_grad(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  if (!crn_dtype_is_float(x->dtype)) return CRN_OK;
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return r->err->code;
  int64_t V = x->shape[x->rank - 1], k = n->a.i[0];
  const int32_t *index = crn_t_i32(n->out[1]);
  for (int64_t i = 0, size = crn_t_size(n->out[0]); i < size; i++) {
    int64_t at = i / k * V + index[i];
    if (x->dtype == CRN_F32)
      ((float *)dx)[at] += ((const float *)dy)[i];
    else
      ((double *)dx)[at] += ((const double *)dy)[i];
  }
  return CRN_OK;
}

static const crn_opdef top_k_op = {"top_k", top_k_infer, top_k_run, top_k_grad};

crn_tensor *crn_top_k(crn_run *r, crn_tensor *x, int64_t k, crn_tensor **indices) {
  crn_tensor *outs[3] = {NULL};
  crn_tensor *y = crn_op_call(r, &top_k_op, 1, 1, &x, &(crn_attrs){.i = {k}}, outs);
  if (indices) *indices = y ? outs[1] : NULL;
  return y;
}

/* ---- argmax, argmin --------------------------------------------------------------------------------------------- */

static crn_status arg_infer(crn_run *r, crn_node *n) { /* i[0] axis, i[1] dtype, i[2] largest */
  const crn_tensor *x = n->in[0];
  char d[128];
  CRN_TRY(need_numbers(r, n));
  if (x->shape[n->a.i[0]] < 1 || !crn_dtype_is_int((crn_dtype)n->a.i[1]))
    return crn_op_fail(r, n, "axis %d of %s has no entries, or %s isn't an integer type", (int)n->a.i[0],
                       crn_t_describe(x, d, sizeof d), crn_dtype_name((crn_dtype)n->a.i[1]));
  int64_t shape[CRN_MAX_RANK];
  for (int k = 0; k + 1 < x->rank; k++) shape[k] = x->shape[k < n->a.i[0] ? k : k + 1];
  return crn_node_output(r, n, 0, (crn_dtype)n->a.i[1], x->rank - 1, shape);
}

static crn_status arg_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_around a = crn_around_of(x, (int)n->a.i[0]);
  const void *values = values_of(r, x);
  bool largest = n->a.i[2] != 0;
  if (!values) return r->err->code;
  for (int64_t i = 0; i < a.outer * a.inner; i++) {
    int64_t at = i / a.inner * a.n * a.inner + i % a.inner, k;
    if (x->dtype == CRN_F32 && a.inner == 1 && largest && r->kernels)
      k = r->kernels->argmax(a.n, crn_t_f32(x) + at);
    else if (x->dtype == CRN_F32)
      k = extreme_f32(a.n, (const float *)values + at, a.inner, largest);
    else if (x->dtype == CRN_F64)
      k = extreme_f64(a.n, (const double *)values + at, a.inner, largest);
    else
      k = extreme_int(a.n, (const int64_t *)values + at, a.inner, largest);
    crn_int_put(crn_t_data(n->out[0]), n->out[0]->dtype, i, k);
  }
  return CRN_OK;
}

static const crn_opdef argmax_op = {"argmax", arg_infer, arg_run, NULL},
                       argmin_op = {"argmin", arg_infer, arg_run, NULL};

crn_tensor *crn_argmax(crn_run *r, crn_tensor *x, int axis, crn_dtype dtype) {
  if (!x || crn_run_failed(r) || !crn_axis_of(r, "argmax", x, x->rank, &axis)) return NULL;
  return crn_op_call(r, &argmax_op, 1, 1, &x, &(crn_attrs){.i = {axis, dtype, 1}}, NULL);
}

crn_tensor *crn_argmin(crn_run *r, crn_tensor *x, int axis, crn_dtype dtype) {
  if (!x || crn_run_failed(r) || !crn_axis_of(r, "argmin", x, x->rank, &axis)) return NULL;
  return crn_op_call(r, &argmin_op, 1, 1, &x, &(crn_attrs){.i = {axis, dtype, 0}}, NULL);
}

/* ---- argsort ---------------------------------------------------------------------------------------------------- */

static crn_status argsort_infer(crn_run *r, crn_node *n) { /* i[0] axis, i[1] descending */
  CRN_TRY(need_numbers(r, n));
  return crn_node_output(r, n, 0, CRN_I32, n->in[0]->rank, n->in[0]->shape);
}

static crn_status argsort_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_around a = crn_around_of(x, (int)n->a.i[0]);
  const void *values = values_of(r, x);
  int32_t *idx = crn_scratch(r, (size_t)(2 * a.n) * sizeof *idx);
  if (!values || !idx) return r->err->code;
  int32_t *work = idx + a.n;
  bool falling = n->a.i[1] != 0;
  for (int64_t i = 0; i < a.outer * a.inner && a.n > 0; i++) {
    int64_t at = i / a.inner * a.n * a.inner + i % a.inner;
    if (x->dtype == CRN_F32)
      sort_f32(a.n, (const float *)values + at, a.inner, falling, idx, work);
    else if (x->dtype == CRN_F64)
      sort_f64(a.n, (const double *)values + at, a.inner, falling, idx, work);
    else
      sort_int(a.n, (const int64_t *)values + at, a.inner, falling, idx, work);
    for (int64_t k = 0; k < a.n; k++) crn_t_i32(n->out[0])[at + k * a.inner] = idx[k];
  }
  return CRN_OK;
}

static const crn_opdef argsort_op = {"argsort", argsort_infer, argsort_run, NULL};

crn_tensor *crn_argsort(crn_run *r, crn_tensor *x, int axis, bool descending) {
  if (!x || crn_run_failed(r) || !crn_axis_of(r, "argsort", x, x->rank, &axis)) return NULL;
  return crn_op_call(r, &argsort_op, 1, 1, &x, &(crn_attrs){.i = {axis, descending}}, NULL);
}
