/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of one element: values and derivatives come from the rows of ops_unary.inc.h (float and double). In float
 * the common ones run on the kernel table; those composed of such (swish, gelu, …) work in blocks that stay in cache.
 */
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"
#include "tensor/bcast.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

/* ---- gamma function's relatives --------------------------------------------------------------------------------- */

static double log_gamma(double v) {
  int sign;
  return lgamma_r(v, &sign); /* lgamma itself writes a global */
}

#define PI 3.14159265358979323846

/* d/dv log Γ(v): reflection for v < 0, recurrence up to v >= 10, then the asymptotic series. */
static double digamma(double v) {
  if (v <= 0 && v == floor(v)) return NAN;
  if (v < 0) return digamma(1 - v) - PI / tan(PI * v);
  double y = 0;
  while (v < 10) {
    y -= 1 / v;
    v += 1;
  }
  double q = 1 / (v * v);
  return y + log(v) - 0.5 / v -
         q * (1.0 / 12 - q * (1.0 / 120 - q * (1.0 / 252 - q * (1.0 / 240 - q * (1.0 / 132 - q * 691.0 / 32760)))));
}

static double trigamma(double v) {
  if (v <= 0 && v == floor(v)) return INFINITY;
  if (v < 0) {
    double s = sin(PI * v);
    return PI * PI / (s * s) - trigamma(1 - v);
  }
  double y = 0;
  while (v < 10) {
    y += 1 / (v * v);
    v += 1;
  }
  double q = 1 / (v * v);
  return y + 1 / v + q / 2 +
         q / v * (1.0 / 6 - q * (1.0 / 30 - q * (1.0 / 42 - q * (1.0 / 30 - q * (5.0 / 66 - q * 691.0 / 2730)))));
}

/* ---- float and double ------------------------------------------------------------------------------------------- */

#define R float
#define M(fn) fn##f
#define N(name) name##_f32
#include "tensor/ops_unary.inc.h"
#undef R
#undef M
#undef N
#define R double
#define M(fn) fn
#define N(name) name##_f64
#include "tensor/ops_unary.inc.h"
#undef R
#undef M
#undef N

/* ---- float by kernels ------------------------------------------------------------------------------------------- */

enum { BLOCK = 512 };

/* Kernel of the table that computes kind, or NULL. */
static crn_unary_fn kernel_of(const crn_kernels *k, crn_unary_kind kind) {
  switch (kind) {
  case CRN_U_NEG:
    return k->neg;
  case CRN_U_ABS:
    return k->abs;
  case CRN_U_EXP:
    return k->exp;
  case CRN_U_LOG:
    return k->log;
  case CRN_U_SQRT:
    return k->sqrt;
  case CRN_U_SQUARE:
    return k->square;
  case CRN_U_RECIPROCAL:
    return k->recip;
  case CRN_U_TANH:
    return k->tanh;
  case CRN_U_SIGMOID:
    return k->sigmoid;
  case CRN_U_SOFTPLUS:
    return k->softplus;
  case CRN_U_RELU:
    return k->relu;
  case CRN_U_ERF:
    return k->erf;
  default:
    return NULL;
  }
}

/* Functions composed of kernels, a block at a time (n <= BLOCK). False: kind isn't one. */
static bool forward_block(const crn_kernels *k, crn_unary_kind kind, int64_t n, const float *x, float *y) {
  float t[BLOCK];
  t[0] = 0; /* n may be 0 as far as the compiler knows */
  switch (kind) {
  case CRN_U_LOG_SIGMOID: /* -softplus(-x) */
    k->neg(n, x, t);
    k->softplus(n, t, t);
    k->neg(n, t, y);
    return true;
  case CRN_U_SWISH:
    k->sigmoid(n, x, t);
    k->mul(n, x, t, y);
    return true;
  case CRN_U_GELU2:
    k->scale(n, 1.702f, x, t);
    k->sigmoid(n, t, t);
    k->mul(n, x, t, y);
    return true;
  case CRN_U_GELU:
  case CRN_U_GELU3:
    k->scale(n, 0.70710678118654752440f, x, t);
    k->erf(n, t, t);
    for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1 + t[i]);
    return true;
  case CRN_U_GELU_TANH:
    for (int64_t i = 0; i < n; i++) t[i] = gelu_inner_f32(x[i]);
    k->tanh(n, t, t);
    for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1 + t[i]);
    return true;
  default:
    return false;
  }
}

/* dx += dy·f'(x) for the functions whose derivative needs exp and the like again. False: kind isn't one. */
static bool backward_block(const crn_kernels *k, crn_unary_kind kind, int64_t n, const float *x, const float *dy,
                           float *dx) {
  float t[BLOCK], e[BLOCK];
  t[0] = 0;
  switch (kind) {
  case CRN_U_LOG_SIGMOID:
    k->neg(n, x, t);
    k->sigmoid(n, t, t);
    k->mul_add(n, dy, t, dx);
    return true;
  case CRN_U_SOFTPLUS:
    k->sigmoid(n, x, t);
    k->mul_add(n, dy, t, dx);
    return true;
  case CRN_U_SWISH:
    k->sigmoid(n, x, t);
    for (int64_t i = 0; i < n; i++) dx[i] += dy[i] * (t[i] + x[i] * t[i] * (1 - t[i]));
    return true;
  case CRN_U_GELU2:
    k->scale(n, 1.702f, x, t);
    k->sigmoid(n, t, t);
    for (int64_t i = 0; i < n; i++) dx[i] += dy[i] * (t[i] + 1.702f * x[i] * t[i] * (1 - t[i]));
    return true;
  case CRN_U_GELU:
  case CRN_U_GELU3:
    k->scale(n, 0.70710678118654752440f, x, t);
    k->erf(n, t, t);
    for (int64_t i = 0; i < n; i++) e[i] = -0.5f * x[i] * x[i];
    k->exp(n, e, e);
    for (int64_t i = 0; i < n; i++) dx[i] += dy[i] * (0.5f * (1 + t[i]) + 0.39894228040143267794f * x[i] * e[i]);
    return true;
  case CRN_U_GELU_TANH:
    for (int64_t i = 0; i < n; i++) t[i] = gelu_inner_f32(x[i]);
    k->tanh(n, t, t);
    for (int64_t i = 0; i < n; i++)
      dx[i] += dy[i] * (0.5f * (1 + t[i]) + 0.5f * x[i] * (1 - t[i] * t[i]) * gelu_inner_d_f32(x[i]));
    return true;
  default:
    return false;
  }
}

/* ---- the operation ---------------------------------------------------------------------------------------------- */

/* What a kind works on, beside its names as TensorFlow has them. */
enum { REAL = 1, INTEGER = 2, COMPLEX = 4, BOOL_IN = 8, TO_BOOL = 16 };
typedef struct unary_info {
  crn_opdef op;
  const char *alias; /* another name, or NULL */
  int flags;
} unary_info;
static crn_status unary_infer(crn_run *r, crn_node *n);
static crn_status unary_run(crn_run *r, crn_node *n);
static crn_status unary_grad(crn_run *r, crn_node *n);

#define SMOOTH(name)                                                                                                   \
  { name, unary_infer, unary_run, unary_grad }
#define FLAT(name)                                                                                                     \
  { name, unary_infer, unary_run, NULL } /* derivative 0 or none: the gradient stops */
static const unary_info infos[CRN_N_UNARY] = {
    [CRN_U_NEG] = {SMOOTH("neg"), "negative", REAL | INTEGER},
    [CRN_U_ABS] = {SMOOTH("abs"), NULL, REAL | INTEGER | COMPLEX},
    [CRN_U_EXP] = {SMOOTH("exp"), NULL, REAL},
    [CRN_U_LOG] = {SMOOTH("log"), NULL, REAL},
    [CRN_U_LOG1P] = {SMOOTH("log1p"), NULL, REAL},
    [CRN_U_EXPM1] = {SMOOTH("expm1"), NULL, REAL},
    [CRN_U_SQRT] = {SMOOTH("sqrt"), NULL, REAL},
    [CRN_U_RSQRT] = {SMOOTH("rsqrt"), NULL, REAL},
    [CRN_U_SQUARE] = {SMOOTH("square"), NULL, REAL | INTEGER},
    [CRN_U_RECIPROCAL] = {SMOOTH("reciprocal"), NULL, REAL},
    [CRN_U_SIGN] = {FLAT("sign"), NULL, REAL | INTEGER},
    [CRN_U_ROUND] = {FLAT("round"), "rint", REAL | INTEGER},
    [CRN_U_FLOOR] = {FLAT("floor"), NULL, REAL | INTEGER},
    [CRN_U_CEIL] = {FLAT("ceil"), NULL, REAL | INTEGER},
    [CRN_U_SIN] = {SMOOTH("sin"), NULL, REAL},
    [CRN_U_COS] = {SMOOTH("cos"), NULL, REAL},
    [CRN_U_TAN] = {SMOOTH("tan"), NULL, REAL},
    [CRN_U_ASIN] = {SMOOTH("asin"), NULL, REAL},
    [CRN_U_ACOS] = {SMOOTH("acos"), NULL, REAL},
    [CRN_U_ATAN] = {SMOOTH("atan"), NULL, REAL},
    [CRN_U_SINH] = {SMOOTH("sinh"), NULL, REAL},
    [CRN_U_COSH] = {SMOOTH("cosh"), NULL, REAL},
    [CRN_U_ASINH] = {SMOOTH("asinh"), NULL, REAL},
    [CRN_U_ACOSH] = {SMOOTH("acosh"), NULL, REAL},
    [CRN_U_ATANH] = {SMOOTH("atanh"), NULL, REAL},
    [CRN_U_TANH] = {SMOOTH("tanh"), NULL, REAL},
    [CRN_U_SIGMOID] = {SMOOTH("sigmoid"), NULL, REAL},
    [CRN_U_LOG_SIGMOID] = {SMOOTH("log_sigmoid"), NULL, REAL},
    [CRN_U_SOFTPLUS] = {SMOOTH("softplus"), NULL, REAL},
    [CRN_U_RELU] = {SMOOTH("relu"), NULL, REAL | INTEGER},
    [CRN_U_RELU6] = {SMOOTH("relu6"), NULL, REAL | INTEGER},
    [CRN_U_ELU] = {SMOOTH("elu"), NULL, REAL},
    [CRN_U_SELU] = {SMOOTH("selu"), NULL, REAL},
    [CRN_U_LEAKY_RELU] = {SMOOTH("leaky_relu"), NULL, REAL},
    [CRN_U_SOFTSIGN] = {SMOOTH("softsign"), NULL, REAL},
    [CRN_U_SWISH] = {SMOOTH("swish"), "silu", REAL},
    [CRN_U_GELU] = {SMOOTH("gelu"), NULL, REAL},
    [CRN_U_GELU_TANH] = {SMOOTH("gelu_tanh"), NULL, REAL},
    [CRN_U_GELU2] = {SMOOTH("gelu2"), NULL, REAL},
    [CRN_U_GELU3] = {SMOOTH("gelu3"), NULL, REAL},
    [CRN_U_LIN_EXP] = {SMOOTH("lin_exp"), NULL, REAL},
    [CRN_U_ERF] = {SMOOTH("erf"), NULL, REAL},
    [CRN_U_LGAMMA] = {SMOOTH("lgamma"), NULL, REAL},
    [CRN_U_DIGAMMA] = {SMOOTH("digamma"), NULL, REAL},
    [CRN_U_LOGICAL_NOT] = {FLAT("logical_not"), NULL, BOOL_IN},
    [CRN_U_IS_NAN] = {FLAT("is_nan"), NULL, REAL | TO_BOOL},
    [CRN_U_IS_INF] = {FLAT("is_inf"), NULL, REAL | TO_BOOL},
    [CRN_U_IS_FINITE] = {FLAT("is_finite"), NULL, REAL | TO_BOOL},
    [CRN_U_NAN_TO_NUM] = {SMOOTH("nan_to_num"), NULL, REAL},
};

const char *crn_unary_name(crn_unary_kind kind) { return infos[kind].op.name; }

bool crn_unary_from_name(const char *name, crn_unary_kind *out) {
  for (int k = 0; k < CRN_N_UNARY; k++)
    if (strcmp(infos[k].op.name, name) == 0 || (infos[k].alias && strcmp(infos[k].alias, name) == 0)) {
      *out = (crn_unary_kind)k;
      return true;
    }
  return false;
}

crn_tensor *crn_unary(crn_run *r, crn_unary_kind kind, crn_tensor *x) {
  return crn_op_call(r, &infos[kind].op, 1, 1, &x, &(crn_attrs){.i = {kind}}, NULL);
}

crn_tensor *crn_unary_over(crn_run *r, crn_unary_kind kind, crn_tensor *x) {
  const bool over = x && !r->recording && !x->st->is_param && !x->st->borrowed && x->dtype == r->real &&
                    !(infos[kind].flags & TO_BOOL);
  return over ? crn_op_call(r, &infos[kind].op, 1, 1, &x, &(crn_attrs){.i = {kind, 1}}, NULL) : crn_unary(r, kind, x);
}

/* i[0]: the kind; i[1]: the result is written over x. */
static crn_status unary_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  const unary_info *info = &infos[n->a.i[0]];
  int got = crn_dtype_is_float(x->dtype) ? REAL
            : crn_dtype_is_int(x->dtype) ? INTEGER
            : x->dtype == CRN_BOOL       ? BOOL_IN
            : x->dtype == CRN_C64        ? COMPLEX
                                         : 0;
  if (!(info->flags & got)) {
    char d[128];
    return crn_op_fail(r, n, "not defined for %s; allowed: %s%s%s%s", crn_t_describe(x, d, sizeof d),
                       info->flags & REAL ? "float32, float64" : "", info->flags & INTEGER ? ", integers" : "",
                       info->flags & COMPLEX ? ", complex64" : "", info->flags & BOOL_IN ? "bool" : "");
  }
  if (n->a.i[1]) return crn_node_view(r, n, 0, n->in[0], 0, x->rank, x->shape);
  crn_dtype to = info->flags & TO_BOOL ? CRN_BOOL : x->dtype == CRN_C64 ? CRN_F32 : x->dtype;
  return crn_node_output(r, n, 0, to, x->rank, x->shape);
}

typedef struct unary_job {
  const crn_run *r;
  crn_unary_kind kind;
  crn_dtype dtype;
  const void *x, *y, *dy;
  void *out; /* y forward, dx backward */
} unary_job;

static void forward_f32(const unary_job *j, int64_t begin, int64_t end) {
  const crn_kernels *k = j->r->kernels;
  const float *x = j->x;
  float *y = j->out;
  crn_unary_fn fn = k ? kernel_of(k, j->kind) : NULL;
  if (fn) {
    fn(end - begin, x + begin, y + begin);
    return;
  }
  for (int64_t i = begin; i < end; i += BLOCK) {
    int64_t n = end - i < BLOCK ? end - i : BLOCK;
    if (!k || !forward_block(k, j->kind, n, x + i, y + i)) unary_rows_f32[j->kind].forward(n, x + i, y + i);
  }
}

static void backward_f32(const unary_job *j, int64_t begin, int64_t end) {
  const crn_kernels *k = j->r->kernels;
  const float *x = j->x, *y = j->y, *dy = j->dy;
  float *dx = j->out;
  crn_unary_backward_fn fn = NULL;
  if (k && j->kind == CRN_U_TANH) fn = k->tanh_backward;
  if (k && j->kind == CRN_U_SIGMOID) fn = k->sigmoid_backward;
  if (k && j->kind == CRN_U_RELU) fn = k->relu_backward;
  if (fn) {
    fn(end - begin, y + begin, dy + begin, dx + begin);
    return;
  }
  for (int64_t i = begin; i < end; i += BLOCK) {
    int64_t n = end - i < BLOCK ? end - i : BLOCK;
    if (!k || !backward_block(k, j->kind, n, x + i, dy + i, dx + i))
      unary_rows_f32[j->kind].backward(n, x + i, y + i, dy + i, dx + i);
  }
}

static void forward_range(void *arg, int64_t begin, int64_t end) {
  const unary_job *j = arg;
  int64_t n = end - begin;
  bool single = j->dtype == CRN_F32;
  const float *xf = (const float *)j->x + begin;
  const double *xd = (const double *)j->x + begin;
  uint8_t *test = (uint8_t *)j->out + begin;
  if (infos[j->kind].flags & TO_BOOL) {
    if (single)
      unary_test_f32(j->kind, n, xf, test);
    else
      unary_test_f64(j->kind, n, xd, test);
  } else if (single) {
    forward_f32(j, begin, end);
  } else {
    unary_rows_f64[j->kind].forward(n, xd, (double *)j->out + begin);
  }
}

static void backward_range(void *arg, int64_t begin, int64_t end) {
  const unary_job *j = arg;
  if (j->dtype == CRN_F32) {
    backward_f32(j, begin, end);
    return;
  }
  unary_rows_f64[j->kind].backward(end - begin, (const double *)j->x + begin, (const double *)j->y + begin,
                                   (const double *)j->dy + begin, (double *)j->out + begin);
}

/* Integers wrap around on overflow, as TensorFlow's do. */
static int64_t integer_value(crn_unary_kind kind, int64_t v) {
  switch (kind) {
  case CRN_U_NEG:
    return (int64_t)(0 - (uint64_t)v);
  case CRN_U_ABS:
    return v < 0 ? (int64_t)(0 - (uint64_t)v) : v;
  case CRN_U_SQUARE:
    return (int64_t)((uint64_t)v * (uint64_t)v);
  case CRN_U_SIGN:
    return v > 0 ? 1 : v < 0 ? -1 : 0;
  case CRN_U_RELU:
    return v < 0 ? 0 : v;
  case CRN_U_RELU6:
    return v < 0 ? 0 : v > 6 ? 6 : v;
  default:
    return v; /* round, floor, ceil */
  }
}

static crn_status unary_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_unary_kind kind = (crn_unary_kind)n->a.i[0];
  int64_t size = crn_t_size(x);
  if (x->dtype == CRN_BOOL) {
    const uint8_t *in = crn_t_bool(x);
    uint8_t *out = crn_t_bool(n->out[0]);
    for (int64_t i = 0; i < size; i++) out[i] = !in[i];
  } else if (x->dtype == CRN_C64) {
    const float *in = crn_t_f32(x);
    float *out = crn_t_f32(n->out[0]);
    for (int64_t i = 0; i < size; i++) out[i] = hypotf(in[2 * i], in[2 * i + 1]);
  } else if (crn_dtype_is_int(x->dtype)) {
    const void *in = crn_t_data(x);
    void *out = crn_t_data(n->out[0]);
    for (int64_t i = 0; i < size; i++) crn_int_put(out, x->dtype, i, integer_value(kind, crn_int_get(in, x->dtype, i)));
  } else {
    unary_job j = {r, kind, x->dtype, crn_t_data(x), NULL, NULL, crn_t_data(n->out[0])};
    crn_for_ranges(r, size, size, forward_range, &j);
  }
  return CRN_OK;
}

static crn_status unary_grad(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  crn_unary_kind kind = (crn_unary_kind)n->a.i[0];
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return r->err->code;
  int64_t size = crn_t_size(x);
  if (x->dtype == CRN_C64) { /* d|z| = (re·d re + im·d im)/|z| */
    const float *z = crn_t_f32(x), *y = crn_t_f32(n->out[0]), *g = dy;
    float *dz = dx;
    for (int64_t i = 0; i < 2 * size; i++)
      if (y[i / 2] > 0) dz[i] += g[i / 2] * z[i] / y[i / 2];
  } else {
    unary_job j = {r, kind, x->dtype, crn_t_data(x), crn_t_data(n->out[0]), dy, dx};
    crn_for_ranges(r, size, size, backward_range, &j);
  }
  return CRN_OK;
}
