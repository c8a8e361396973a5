/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of one element and constants (scaling, clipping, the safe logarithm and exponential), and casts.
 */
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"
#include "tensor/bcast.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

typedef enum scalar_kind { SCALE, ADD_SCALAR, CLIP, SAFE_LOG, SAFE_EXP } scalar_kind;

#define R float
#define M(fn) fn##f
#define N(name) name##_f32
#include "tensor/ops_scalar.inc.h"
#undef R
#undef M
#undef N
#define R double
#define M(fn) fn
#define N(name) name##_f64
#include "tensor/ops_scalar.inc.h"
#undef R
#undef M
#undef N

/* Attributes of all: f[0], f[1] the constants; i[0] the kind. */
static crn_status scalar_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  bool integers = n->a.i[0] == SCALE || n->a.i[0] == ADD_SCALAR || n->a.i[0] == CLIP;
  char d[128];
  if (!crn_dtype_is_float(x->dtype) && !(integers && crn_dtype_is_int(x->dtype)))
    return crn_op_fail(r, n, "not defined for %s; allowed: float32, float64%s", crn_t_describe(x, d, sizeof d),
                       integers ? ", integers" : "");
  return crn_node_output(r, n, 0, x->dtype, x->rank, x->shape);
}

typedef struct scalar_job {
  const crn_run *r;
  scalar_kind kind;
  crn_dtype dtype;
  double p, q;
  const void *x, *y, *dy;
  void *out;
} scalar_job;

enum { BLOCK = 512 };

/* The float kinds that the kernels have. False: not one of them. */
static bool forward_kernel(const scalar_job *j, int64_t n, const float *x, float *y) {
  const crn_kernels *k = j->r->kernels;
  if (!k) return false;
  float p = (float)j->p;
  switch (j->kind) {
  case SCALE:
    k->scale(n, p, x, y);
    return true;
  case ADD_SCALAR:
    k->add_scalar(n, p, x, y);
    return true;
  case SAFE_LOG:
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < p ? p : x[i];
    k->log(n, y, y);
    return true;
  case SAFE_EXP:
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < p ? p : x[i] > -p ? -p : x[i];
    k->exp(n, y, y);
    return true;
  default:
    return false;
  }
}

static void forward_range(void *arg, int64_t begin, int64_t end) {
  const scalar_job *j = arg;
  if (j->dtype == CRN_F64) {
    scalar_forward_f64(j->kind, end - begin, (const double *)j->x + begin, j->p, j->q, (double *)j->out + begin);
    return;
  }
  for (int64_t i = begin; i < end; i += BLOCK) {
    int64_t n = end - i < BLOCK ? end - i : BLOCK;
    const float *x = (const float *)j->x + i;
    float *y = (float *)j->out + i;
    if (!forward_kernel(j, n, x, y)) scalar_forward_f32(j->kind, n, x, (float)j->p, (float)j->q, y);
  }
}

static void backward_range(void *arg, int64_t begin, int64_t end) {
  const scalar_job *j = arg;
  int64_t n = end - begin;
  if (j->dtype == CRN_F32)
    scalar_backward_f32(j->kind, n, (const float *)j->x + begin, (float)j->p, (float)j->q, (const float *)j->y + begin,
                        (const float *)j->dy + begin, (float *)j->out + begin);
  else
    scalar_backward_f64(j->kind, n, (const double *)j->x + begin, j->p, j->q, (const double *)j->y + begin,
                        (const double *)j->dy + begin, (double *)j->out + begin);
}

/* v as an integer; beyond its range the nearest end, NaN 0. */
static int64_t to_int64(double v) {
  if (!(v >= -9223372036854775808.0)) return v != v ? 0 : INT64_MIN;
  return v >= 9223372036854775808.0 ? INT64_MAX : (int64_t)v;
}

static int64_t integer_value(scalar_kind kind, int64_t v, double p, double q) {
  if (kind == SCALE) return p == trunc(p) ? (int64_t)((uint64_t)v * (uint64_t)to_int64(p)) : to_int64((double)v * p);
  if (kind == ADD_SCALAR) return (int64_t)((uint64_t)v + (uint64_t)to_int64(p));
  return (double)v < p ? to_int64(p) : (double)v > q ? to_int64(q) : v;
}

static crn_status scalar_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  scalar_job j = {.r = r,
                  .kind = (scalar_kind)n->a.i[0],
                  .dtype = x->dtype,
                  .p = n->a.f[0],
                  .q = n->a.f[1],
                  .x = crn_t_data(x),
                  .out = crn_t_data(n->out[0])};
  int64_t size = crn_t_size(x);
  if (crn_dtype_is_float(x->dtype)) {
    crn_for_ranges(r, size, size, forward_range, &j);
    return CRN_OK;
  }
  for (int64_t i = 0; i < size; i++)
    crn_int_put(j.out, x->dtype, i, integer_value(j.kind, crn_int_get(j.x, x->dtype, i), j.p, j.q));
  return CRN_OK;
}

static crn_status scalar_grad(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return r->err->code;
  scalar_job j = {r, (scalar_kind)n->a.i[0], x->dtype, n->a.f[0], n->a.f[1], crn_t_data(x), crn_t_data(n->out[0]), dy,
                  dx};
  int64_t size = crn_t_size(x);
  crn_for_ranges(r, size, size, backward_range, &j);
  return CRN_OK;
}

static const crn_opdef scalar_ops[] = {[SCALE] = {"scale", scalar_infer, scalar_run, scalar_grad},
                                       [ADD_SCALAR] = {"add_scalar", scalar_infer, scalar_run, scalar_grad},
                                       [CLIP] = {"clip", scalar_infer, scalar_run, scalar_grad},
                                       [SAFE_LOG] = {"safe_log", scalar_infer, scalar_run, scalar_grad},
                                       [SAFE_EXP] = {"safe_exp", scalar_infer, scalar_run, scalar_grad}};

static crn_tensor *scalar_call(crn_run *r, scalar_kind kind, crn_tensor *x, double p, double q) {
  return crn_op_call(r, &scalar_ops[kind], 1, 1, &x, &(crn_attrs){.i = {kind}, .f = {p, q}}, NULL);
}

crn_tensor *crn_scale(crn_run *r, crn_tensor *x, double factor) { return scalar_call(r, SCALE, x, factor, 0); }
crn_tensor *crn_add_scalar(crn_run *r, crn_tensor *x, double value) { return scalar_call(r, ADD_SCALAR, x, value, 0); }
crn_tensor *crn_clip(crn_run *r, crn_tensor *x, double lo, double hi) { return scalar_call(r, CLIP, x, lo, hi); }
crn_tensor *crn_safe_log(crn_run *r, crn_tensor *x, double eps) { return scalar_call(r, SAFE_LOG, x, eps, 0); }
crn_tensor *crn_safe_exp(crn_run *r, crn_tensor *x, double eps) { return scalar_call(r, SAFE_EXP, x, log(eps), 0); }

/* ---- cast ------------------------------------------------------------------------------------------------------- */

static crn_status cast_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_dtype to = (crn_dtype)n->a.i[0];
  bool from_ok = x->dtype != CRN_STRING && x->dtype != CRN_C64, to_ok = to != CRN_STRING && to != CRN_C64;
  if (x->dtype != to && !(from_ok && to_ok))
    return crn_op_fail(r, n, "can't convert %s to %s", crn_dtype_name(x->dtype), crn_dtype_name(to));
  return crn_node_output(r, n, 0, to, x->rank, x->shape);
}

static crn_status cast_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_dtype from = x->dtype, to = (crn_dtype)n->a.i[0];
  int64_t size = crn_t_size(x);
  const void *in = crn_t_data(x);
  void *out = crn_t_data(n->out[0]);
  (void)r;
  if (from == to) {
    memcpy(out, in, (size_t)size * crn_dtype_bytes(to));
  } else if (crn_dtype_is_float(to) && crn_dtype_is_float(from)) {
    for (int64_t i = 0; i < size; i++) {
      if (to == CRN_F32)
        ((float *)out)[i] = (float)((const double *)in)[i];
      else
        ((double *)out)[i] = (double)((const float *)in)[i];
    }
  } else if (crn_dtype_is_float(to)) {
    for (int64_t i = 0; i < size; i++) {
      int64_t v = crn_int_get(in, from, i);
      if (to == CRN_F32)
        ((float *)out)[i] = (float)v;
      else
        ((double *)out)[i] = (double)v;
    }
  } else if (crn_dtype_is_float(from)) {
    for (int64_t i = 0; i < size; i++) {
      double v = from == CRN_F32 ? (double)((const float *)in)[i] : ((const double *)in)[i];
      crn_int_put(out, to, i, to == CRN_BOOL ? v != 0 : to_int64(v));
    }
  } else {
    for (int64_t i = 0; i < size; i++) crn_int_put(out, to, i, crn_int_get(in, from, i));
  }
  return CRN_OK;
}

static crn_status cast_grad(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  if (!crn_dtype_is_float(n->out[0]->dtype)) return CRN_OK;
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return r->err->code;
  bool in_single = x->dtype == CRN_F32, out_single = n->out[0]->dtype == CRN_F32;
  for (int64_t i = 0, size = crn_t_size(x); i < size; i++) {
    double g = out_single ? (double)((const float *)dy)[i] : ((const double *)dy)[i];
    if (in_single)
      ((float *)dx)[i] += (float)g;
    else
      ((double *)dx)[i] += g;
  }
  return CRN_OK;
}

static const crn_opdef cast_op = {"cast", cast_infer, cast_run, cast_grad};

crn_tensor *crn_cast(crn_run *r, crn_tensor *x, crn_dtype to) {
  if (x && x->dtype == to) return x;
  return crn_op_call(r, &cast_op, 1, 1, &x, &(crn_attrs){.i = {to}}, NULL);
}
