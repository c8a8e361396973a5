/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over any set of axes. The output, with its reduced axes kept as size 1, is walked as a broadcast input of
 * x's shape (bcast.h), so x is read once and in order whatever the axes are. Sums are added in double; their order
 * depends on the reduced axes only. Threads take parts of a leading kept axis.
 */
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"
#include "tensor/bcast.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

enum { BLOCK = 512 };

typedef struct reduce_job {
  const crn_run *r;
  const crn_bcast *p; /* input 0: the output with reduced axes of size 1 */
  crn_reduce_kind kind;
  crn_dtype dtype;
  int64_t count; /* inputs per output */
  const void *x, *y, *dy;
  void *dx;
  double *acc, *max; /* forward */
  double *a, *b;     /* backward, see count_rows */
} reduce_job;

static double row_sum_f32(const crn_run *r, int64_t n, const float *x) {
  if (r->kernels) return r->kernels->sum(n, x);
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += (double)x[i];
  return s;
}

static double row_sum_f64(const crn_run *r, int64_t n, const double *x) {
  double s = 0;
  (void)r;
  for (int64_t i = 0; i < n; i++) s += x[i];
  return s;
}

static void exp_row_f32(const crn_run *r, int64_t n, float *x) {
  if (r->kernels)
    r->kernels->exp(n, x, x);
  else
    for (int64_t i = 0; i < n; i++) x[i] = expf(x[i]);
}

static void exp_row_f64(const crn_run *r, int64_t n, double *x) {
  (void)r;
  for (int64_t i = 0; i < n; i++) x[i] = exp(x[i]);
}

#define R float
#define M(fn) fn##f
#define N(name) name##_f32
#include "tensor/ops_reduce.inc.h"
#undef R
#undef M
#undef N
#define R double
#define M(fn) fn
#define N(name) name##_f64
#include "tensor/ops_reduce.inc.h"
#undef R
#undef M
#undef N

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* Attributes: i[0] kind, i[1] axes, i[2] keep_dims. */

static crn_status reduce_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_reduce_kind kind = (crn_reduce_kind)n->a.i[0];
  unsigned axes = (unsigned)n->a.i[1];
  char d[128];
  if (axes >> x->rank) return crn_op_fail(r, n, "axis set %#x is outside of %s", axes, crn_t_describe(x, d, sizeof d));
  bool logic = kind == CRN_R_ANY || kind == CRN_R_ALL, real = crn_dtype_is_float(x->dtype);
  bool ok = logic ? x->dtype == CRN_BOOL : kind == CRN_R_LOGSUMEXP ? real : real || crn_dtype_is_int(x->dtype);
  if (!ok)
    return crn_op_fail(r, n, "not defined for %s; allowed: %s", crn_t_describe(x, d, sizeof d),
                       logic                     ? "bool"
                       : kind == CRN_R_LOGSUMEXP ? "float32, float64"
                                                 : "numbers");
  int64_t shape[CRN_MAX_RANK];
  int rank = 0;
  for (int k = 0; k < x->rank; k++) {
    if (!(axes >> k & 1))
      shape[rank++] = x->shape[k];
    else if (n->a.i[2])
      shape[rank++] = 1;
  }
  return crn_node_output(r, n, 0, x->dtype, rank, shape);
}

static void plan_of(const crn_node *n, crn_bcast *p, reduce_job *j) {
  const crn_tensor *x = n->in[0];
  crn_tensor kept = {.rank = x->rank};
  memset(j, 0, sizeof *j);
  j->count = 1;
  for (int k = 0; k < x->rank; k++) {
    bool reduced = (unsigned)n->a.i[1] >> k & 1;
    kept.shape[k] = reduced ? 1 : x->shape[k];
    if (reduced) j->count *= x->shape[k];
  }
  crn_bcast_plan(p, 1, (crn_tensor *[]){&kept}, x->rank, x->shape);
  j->p = p;
  j->kind = (crn_reduce_kind)n->a.i[0];
  j->dtype = x->dtype;
  j->x = crn_t_data(x);
  j->y = crn_t_data(n->out[0]);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

static void reduce_range(void *arg, int64_t begin, int64_t end) { /* of the leading axis */
  const reduce_job *j = arg;
  int64_t rows = j->p->nd > 1 ? j->p->rows / j->p->size[0] : 1;
  if (j->dtype == CRN_F32)
    reduce_rows_f32(j, begin * rows, end * rows, j->acc, j->max);
  else
    reduce_rows_f64(j, begin * rows, end * rows, j->acc, j->max);
}

/* Walk all of x into acc. */
static void reduce_walk(crn_run *r, reduce_job *j) {
  if (j->p->rows == 0) return;
  bool split = j->p->nd > 1 && j->p->stride[0][0] != 0; /* outputs of different leading positions are different */
  if (split)
    crn_for_ranges(r, j->p->size[0], j->p->n, reduce_range, j);
  else
    reduce_range(j, 0, j->p->nd > 1 ? j->p->size[0] : 1);
}

static crn_status reduce_real(crn_run *r, const crn_node *n, reduce_job *j) {
  int64_t size = crn_t_size(n->out[0]);
  void *out = crn_t_data(n->out[0]);
  double *acc = crn_scratch(r, (size_t)size * sizeof *acc);
  if (!acc) return r->err->code;
  crn_reduce_kind kind = j->kind;
  double start = kind == CRN_R_PROD ? 1 : kind == CRN_R_MIN ? INFINITY : kind == CRN_R_MAX ? -INFINITY : 0;
  for (int64_t i = 0; i < size; i++) acc[i] = start;
  if (kind == CRN_R_LOGSUMEXP) {
    j->max = crn_scratch(r, (size_t)size * sizeof *j->max);
    if (!j->max) return r->err->code;
    for (int64_t i = 0; i < size; i++) j->max[i] = -INFINITY;
    double *max = j->max;
    j->kind = CRN_R_MAX;
    j->acc = max;
    reduce_walk(r, j);
    j->kind = kind;
    for (int64_t i = 0; i < size; i++)
      if (!isfinite(max[i])) max[i] = 0;
  }
  j->acc = acc;
  reduce_walk(r, j);
  for (int64_t i = 0; i < size; i++) {
    double v = acc[i];
    if (kind == CRN_R_MEAN) v /= (double)j->count;
    if (kind == CRN_R_LOGSUMEXP) v = log(v) + j->max[i];
    if (j->dtype == CRN_F32)
      ((float *)out)[i] = (float)v;
    else
      ((double *)out)[i] = v;
  }
  return CRN_OK;
}

static int64_t combine_int(crn_reduce_kind kind, int64_t u, int64_t v) {
  switch (kind) {
  case CRN_R_MAX:
    return u > v ? u : v;
  case CRN_R_MIN:
    return u < v ? u : v;
  case CRN_R_PROD:
    return (int64_t)((uint64_t)u * (uint64_t)v);
  case CRN_R_ANY:
    return u || v;
  case CRN_R_ALL:
    return u && v;
  default:
    return (int64_t)((uint64_t)u + (uint64_t)v);
  }
}

/* Smallest and largest value of an integer type. */
static int64_t int_limit(crn_dtype t, bool largest) {
  int bits = (int)crn_dtype_bytes(t) * 8;
  bool is_signed = t != CRN_U8 && t != CRN_U16;
  if (!is_signed) return largest ? ((int64_t)1 << bits) - 1 : 0;
  int64_t max = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
  return largest ? max : -max - 1;
}

/* Integers and bool; means are cut towards zero, as TensorFlow's. */
static crn_status reduce_int(crn_run *r, crn_node *n, const reduce_job *j) {
  const crn_bcast *p = j->p;
  int64_t size = crn_t_size(n->out[0]), start = 0;
  int64_t *acc = crn_scratch(r, (size_t)size * sizeof *acc);
  if (!acc) return r->err->code;
  if (j->kind == CRN_R_MEAN && j->count == 0 && size > 0) return crn_op_fail(r, n, "mean of no integers");
  if (j->kind == CRN_R_PROD || j->kind == CRN_R_ALL) start = 1;
  if (j->kind == CRN_R_MAX || j->kind == CRN_R_MIN) start = int_limit(j->dtype, j->kind == CRN_R_MIN);
  for (int64_t i = 0; i < size; i++) acc[i] = start;
  crn_bcast_pos pos;
  crn_bcast_seek(p, &pos, 0);
  int64_t s = p->stride[0][p->nd - 1];
  for (int64_t row = 0; row < p->rows; row++, crn_bcast_next(p, &pos))
    for (int64_t i = 0; i < p->row; i++) {
      int64_t *to = &acc[pos.off[0] + i * s];
      *to = combine_int(j->kind, *to, crn_int_get(j->x, j->dtype, row * p->row + i));
    }
  for (int64_t i = 0; i < size; i++)
    crn_int_put(crn_t_data(n->out[0]), j->dtype, i, j->kind == CRN_R_MEAN ? acc[i] / j->count : acc[i]);
  return CRN_OK;
}

static crn_status reduce_run(crn_run *r, crn_node *n) {
  crn_bcast p;
  reduce_job j;
  plan_of(n, &p, &j);
  j.r = r;
  return crn_dtype_is_float(j.dtype) ? reduce_real(r, n, &j) : reduce_int(r, n, &j);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static void backward_range(void *arg, int64_t begin, int64_t end) {
  const reduce_job *j = arg;
  if (j->dtype == CRN_F32)
    reduce_backward_f32(j, begin, end);
  else
    reduce_backward_f64(j, begin, end);
}

static crn_status reduce_grad(crn_run *r, crn_node *n) {
  crn_bcast p;
  reduce_job j;
  if (!crn_dtype_is_float(n->in[0]->dtype)) return CRN_OK;
  plan_of(n, &p, &j);
  j.r = r;
  j.dy = crn_grad_out(n, 0);
  j.dx = j.dy ? crn_grad_in(r, n, 0) : NULL;
  if (!j.dx) return r->err->code;
  if (j.kind == CRN_R_MAX || j.kind == CRN_R_MIN || j.kind == CRN_R_PROD) {
    int64_t size = crn_t_size(n->out[0]);
    j.a = crn_scratch(r, (size_t)size * sizeof *j.a);
    j.b = crn_scratch(r, (size_t)size * sizeof *j.b);
    if (!j.a || !j.b) return r->err->code;
    for (int64_t i = 0; i < size; i++) {
      j.a[i] = 0;
      j.b[i] = 1;
    }
    if (j.dtype == CRN_F32)
      count_rows_f32(&j, j.a, j.b);
    else
      count_rows_f64(&j, j.a, j.b);
  }
  crn_for_ranges(r, p.rows, p.n, backward_range, &j);
  return CRN_OK;
}

#define REDUCTION(name)                                                                                                \
  { "reduce_" name, reduce_infer, reduce_run, reduce_grad }
static const crn_opdef reduce_ops[] = {[CRN_R_SUM] = REDUCTION("sum"),
                                       [CRN_R_MEAN] = REDUCTION("mean"),
                                       [CRN_R_MAX] = REDUCTION("max"),
                                       [CRN_R_MIN] = REDUCTION("min"),
                                       [CRN_R_PROD] = REDUCTION("prod"),
                                       [CRN_R_LOGSUMEXP] = REDUCTION("logsumexp"),
                                       [CRN_R_ANY] = {"reduce_any", reduce_infer, reduce_run, NULL},
                                       [CRN_R_ALL] = {"reduce_all", reduce_infer, reduce_run, NULL}};

crn_tensor *crn_reduce(crn_run *r, crn_reduce_kind kind, crn_tensor *x, unsigned axes, bool keep_dims) {
  return crn_op_call(r, &reduce_ops[kind], 1, 1, &x, &(crn_attrs){.i = {kind, axes, keep_dims}}, NULL);
}
