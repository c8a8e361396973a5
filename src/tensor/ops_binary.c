/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of two elements with broadcasting: values and derivatives come from the rows of ops_binary.inc.h (float and
 * double), integers go through int64 and wrap around. Float addition, multiplication and the like run on the kernels.
 */
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"
#include "tensor/bcast.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

enum { BLOCK = 512 };

#define R float
#define M(fn) fn##f
#define N(name) name##_f32
#include "tensor/ops_binary.inc.h"
#undef R
#undef M
#undef N
#define R double
#define M(fn) fn
#define N(name) name##_f64
#include "tensor/ops_binary.inc.h"
#undef R
#undef M
#undef N

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static crn_status binary_infer(crn_run *r, crn_node *n);
static crn_status binary_run(crn_run *r, crn_node *n);
static crn_status binary_grad(crn_run *r, crn_node *n);

enum { NUMBER, COMPARE, EQUALITY /* bool too */, LOGICAL };
typedef struct binary_info {
  crn_opdef op;
  const char *alias; /* another name, or NULL */
  int class;
} binary_info;

#define SMOOTH(name)                                                                                                   \
  { name, binary_infer, binary_run, binary_grad }
#define FLAT(name)                                                                                                     \
  { name, binary_infer, binary_run, NULL } /* no gradient */
static const binary_info infos[CRN_N_BINARY] = {
    [CRN_B_ADD] = {SMOOTH("add"), "add_v2", NUMBER},
    [CRN_B_SUB] = {SMOOTH("sub"), "subtract", NUMBER},
    [CRN_B_MUL] = {SMOOTH("mul"), "multiply", NUMBER},
    [CRN_B_DIV] = {SMOOTH("truediv"), "divide", NUMBER},
    [CRN_B_FLOORDIV] = {FLAT("floordiv"), "floor_div", NUMBER},
    [CRN_B_MOD] = {SMOOTH("mod"), "floormod", NUMBER},
    [CRN_B_POW] = {SMOOTH("pow"), NULL, NUMBER},
    [CRN_B_MAXIMUM] = {SMOOTH("maximum"), NULL, NUMBER},
    [CRN_B_MINIMUM] = {SMOOTH("minimum"), NULL, NUMBER},
    [CRN_B_SQUARED_DIFFERENCE] = {SMOOTH("squared_difference"), NULL, NUMBER},
    [CRN_B_LOGADDEXP] = {SMOOTH("logaddexp"), NULL, NUMBER},
    [CRN_B_ATAN2] = {SMOOTH("atan2"), NULL, NUMBER},
    [CRN_B_DIV_NO_NAN] = {SMOOTH("divide_no_nan"), "div_no_nan", NUMBER},
    [CRN_B_TRUNCATEDIV] = {FLAT("truncatediv"), NULL, NUMBER},
    [CRN_B_EQUAL] = {FLAT("equal"), NULL, EQUALITY},
    [CRN_B_NOT_EQUAL] = {FLAT("not_equal"), NULL, EQUALITY},
    [CRN_B_LESS] = {FLAT("less"), NULL, COMPARE},
    [CRN_B_LESS_EQUAL] = {FLAT("less_equal"), NULL, COMPARE},
    [CRN_B_GREATER] = {FLAT("greater"), NULL, COMPARE},
    [CRN_B_GREATER_EQUAL] = {FLAT("greater_equal"), NULL, COMPARE},
    [CRN_B_LOGICAL_AND] = {FLAT("logical_and"), NULL, LOGICAL},
    [CRN_B_LOGICAL_OR] = {FLAT("logical_or"), NULL, LOGICAL},
    [CRN_B_LOGICAL_XOR] = {FLAT("logical_xor"), NULL, LOGICAL},
};

const char *crn_binary_name(crn_binary_kind kind) { return infos[kind].op.name; }

bool crn_binary_from_name(const char *name, crn_binary_kind *out) {
  for (int k = 0; k < CRN_N_BINARY; k++)
    if (strcmp(infos[k].op.name, name) == 0 || (infos[k].alias && strcmp(infos[k].alias, name) == 0)) {
      *out = (crn_binary_kind)k;
      return true;
    }
  return false;
}

/* True division of integers is done in float64, of 8 and 16 bit ones in float32. */
static crn_tensor *divisible(crn_run *r, crn_tensor *t) {
  if (!t || !crn_dtype_is_int(t->dtype)) return t;
  return crn_cast(r, t, crn_dtype_bytes(t->dtype) < 4 ? CRN_F32 : CRN_F64);
}

crn_tensor *crn_binary(crn_run *r, crn_binary_kind kind, crn_tensor *a, crn_tensor *b) {
  if (kind == CRN_B_DIV && a && b && a->dtype == b->dtype) {
    a = divisible(r, a);
    b = divisible(r, b);
  }
  return crn_op_call(r, &infos[kind].op, 2, 2, (crn_tensor *[]){a, b}, &(crn_attrs){.i = {kind}}, NULL);
}

static crn_status binary_infer(crn_run *r, crn_node *n) {
  const crn_tensor *a = n->in[0], *b = n->in[1];
  char da[128], db[128];
  int class = infos[n->a.i[0]].class;
  if (a->dtype != b->dtype)
    return crn_op_fail(r, n, "dtypes differ: %s and %s", crn_t_describe(a, da, sizeof da),
                       crn_t_describe(b, db, sizeof db));
  bool number = crn_dtype_is_float(a->dtype) || crn_dtype_is_int(a->dtype), flag = a->dtype == CRN_BOOL;
  bool real_only = n->a.i[0] == CRN_B_LOGADDEXP || n->a.i[0] == CRN_B_ATAN2;
  if (real_only) number = crn_dtype_is_float(a->dtype);
  if (!(class == LOGICAL ? flag : class == EQUALITY ? number || flag : number))
    return crn_op_fail(r, n, "not defined for %s; allowed: %s", crn_t_describe(a, da, sizeof da),
                       class == LOGICAL    ? "bool"
                       : class == EQUALITY ? "numbers and bool"
                       : real_only         ? "float32 and float64"
                                           : "numbers");
  int rank;
  int64_t shape[CRN_MAX_RANK];
  if (!crn_bcast_shape(2, n->in, &rank, shape))
    return crn_op_fail(r, n, "shapes don't fit (sizes must be equal or 1, counted from the last axis): %s and %s",
                       crn_t_describe(a, da, sizeof da), crn_t_describe(b, db, sizeof db));
  return crn_node_output(r, n, 0, class == NUMBER ? a->dtype : CRN_BOOL, rank, shape);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

typedef struct binary_job {
  const crn_run *r;
  const crn_bcast *p;
  crn_binary_kind kind;
  crn_dtype dtype;
  const void *a, *b, *y, *dy;
  void *out;
  int which;
} binary_job;

static crn_binary_fn kernel_of(const crn_kernels *k, crn_binary_kind kind) {
  switch (kind) {
  case CRN_B_ADD:
    return k->add;
  case CRN_B_SUB:
    return k->sub;
  case CRN_B_MUL:
    return k->mul;
  case CRN_B_DIV:
    return k->div;
  case CRN_B_MAXIMUM:
    return k->max;
  case CRN_B_MINIMUM:
    return k->min;
  default:
    return NULL;
  }
}

static void row_f32(const binary_job *j, int64_t n, const float *a, int64_t sa, const float *b, int64_t sb, void *out) {
  const crn_kernels *k = j->r->kernels;
  crn_binary_fn fn = k ? kernel_of(k, j->kind) : NULL;
  if (infos[j->kind].class != NUMBER)
    compare_f32(j->kind, n, a, sa, b, sb, out);
  else if (fn && sa && sb)
    fn(n, a, b, out);
  else if (fn && j->kind == CRN_B_MUL)
    k->scale(n, sa ? *b : *a, sa ? a : b, out);
  else if (fn && j->kind == CRN_B_ADD)
    k->add_scalar(n, sa ? *b : *a, sa ? a : b, out);
  else
    binary_rows_f32[j->kind].forward(n, a, sa, b, sb, out);
}

/* Division and remainder round towards minus infinity (truncatediv: towards zero). The divisor isn't 0. */
static int64_t floor_div(int64_t u, int64_t v) {
  if (v == -1) return (int64_t)(0 - (uint64_t)u); /* the smallest number has no negative */
  return u / v - (u % v != 0 && (u < 0) != (v < 0));
}

static int64_t integer_pow(int64_t u, int64_t v) {
  uint64_t y = 1, base = (uint64_t)u;
  for (; v > 0; v >>= 1, base *= base)
    if (v & 1) y *= base;
  return (int64_t)y;
}

static int64_t integer_value(crn_binary_kind kind, int64_t u, int64_t v) {
  uint64_t x = (uint64_t)u, z = (uint64_t)v;
  switch (kind) {
  case CRN_B_ADD:
    return (int64_t)(x + z);
  case CRN_B_SUB:
    return (int64_t)(x - z);
  case CRN_B_MUL:
    return (int64_t)(x * z);
  case CRN_B_DIV_NO_NAN:
    return v == 0 ? 0 : floor_div(u, v);
  case CRN_B_FLOORDIV:
    return floor_div(u, v);
  case CRN_B_MOD:
    return v == -1 ? 0 : u - v * floor_div(u, v);
  case CRN_B_TRUNCATEDIV:
    return v == -1 ? (int64_t)(0 - x) : u / v;
  case CRN_B_POW:
    return integer_pow(u, v);
  case CRN_B_MAXIMUM:
    return u > v ? u : v;
  case CRN_B_MINIMUM:
    return u < v ? u : v;
  case CRN_B_SQUARED_DIFFERENCE:
    return (int64_t)((x - z) * (x - z));
  case CRN_B_EQUAL:
    return u == v;
  case CRN_B_NOT_EQUAL:
    return u != v;
  case CRN_B_LESS:
    return u < v;
  case CRN_B_LESS_EQUAL:
    return u <= v;
  case CRN_B_GREATER:
    return u > v;
  case CRN_B_GREATER_EQUAL:
    return u >= v;
  case CRN_B_LOGICAL_AND:
    return u && v;
  case CRN_B_LOGICAL_OR:
    return u || v;
  case CRN_B_LOGICAL_XOR:
    return (u != 0) != (v != 0);
  default:
    return 0; /* refused by infer */
  }
}

/* Positions against lengths: what masks are made of. */
static void row_less_i32(int64_t n, const int32_t *a, int64_t sa, const int32_t *b, int64_t sb, uint8_t *y) {
  for (int64_t i = 0; i < n; i++) y[i] = a[i * sa] < b[i * sb];
}

static void row_int(const binary_job *j, int64_t n, int64_t at_a, int64_t sa, int64_t at_b, int64_t sb, int64_t at_y) {
  crn_dtype to = infos[j->kind].class == NUMBER ? j->dtype : CRN_BOOL;
  for (int64_t i = 0; i < n; i++) {
    int64_t u = crn_int_get(j->a, j->dtype, at_a + i * sa), v = crn_int_get(j->b, j->dtype, at_b + i * sb);
    crn_int_put(j->out, to, at_y + i, integer_value(j->kind, u, v));
  }
}

static void forward_range(void *arg, int64_t begin, int64_t end) {
  const binary_job *j = arg;
  const crn_bcast *p = j->p;
  crn_bcast_pos pos;
  int64_t sa = p->stride[0][p->nd - 1], sb = p->stride[1][p->nd - 1], col = begin % p->row;
  size_t out_bytes = infos[j->kind].class == NUMBER ? crn_dtype_bytes(j->dtype) : 1;
  crn_bcast_seek(p, &pos, begin / p->row);
  for (; begin < end; col = 0, crn_bcast_next(p, &pos)) {
    int64_t n = p->row - col < end - begin ? p->row - col : end - begin;
    int64_t at_a = pos.off[0] + col * sa, at_b = pos.off[1] + col * sb;
    void *out = (char *)j->out + (size_t)begin * out_bytes;
    if (j->dtype == CRN_F32) {
      row_f32(j, n, (const float *)j->a + at_a, sa, (const float *)j->b + at_b, sb, out);
    } else if (j->dtype == CRN_F64) {
      const double *a = (const double *)j->a + at_a, *b = (const double *)j->b + at_b;
      if (infos[j->kind].class == NUMBER)
        binary_rows_f64[j->kind].forward(n, a, sa, b, sb, out);
      else
        compare_f64(j->kind, n, a, sa, b, sb, out);
    } else if (j->dtype == CRN_I32 && j->kind == CRN_B_LESS) {
      row_less_i32(n, (const int32_t *)j->a + at_a, sa, (const int32_t *)j->b + at_b, sb, out);
    } else {
      row_int(j, n, at_a, sa, at_b, sb, begin);
    }
    begin += n;
  }
}

/* Integer division by zero and negative exponents have no value. */
static crn_status check_integers(crn_run *r, crn_node *n) {
  const crn_tensor *b = n->in[1];
  crn_binary_kind kind = (crn_binary_kind)n->a.i[0];
  bool divides = kind == CRN_B_FLOORDIV || kind == CRN_B_MOD || kind == CRN_B_TRUNCATEDIV;
  if (!divides && kind != CRN_B_POW) return CRN_OK;
  const void *p = crn_t_data(b);
  for (int64_t i = 0, size = crn_t_size(b); i < size; i++) {
    int64_t v = crn_int_get(p, b->dtype, i);
    if (divides && v == 0) return crn_op_fail(r, n, "integer division by zero (element %lld)", (long long)i);
    if (kind == CRN_B_POW && v < 0)
      return crn_op_fail(r, n, "integers to the negative power %lld (element %lld)", (long long)v, (long long)i);
  }
  return CRN_OK;
}

static crn_status binary_run(crn_run *r, crn_node *n) {
  const crn_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
  crn_bcast p;
  crn_bcast_plan(&p, 2, n->in, y->rank, y->shape);
  if (p.n == 0) return CRN_OK;
  if (crn_dtype_is_int(a->dtype)) CRN_TRY(check_integers(r, n));
  binary_job j = {.r = r,
                  .p = &p,
                  .kind = (crn_binary_kind)n->a.i[0],
                  .dtype = a->dtype,
                  .a = crn_t_data(a),
                  .b = crn_t_data(b),
                  .out = crn_t_data(y)};
  crn_for_ranges(r, p.n, p.n, forward_range, &j);
  return CRN_OK;
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static void backward_range(void *arg, int64_t begin, int64_t end) {
  const binary_job *j = arg;
  if (j->dtype == CRN_F32)
    binary_backward_range_f32(j->p, &binary_rows_f32[j->kind], j->which, j->a, j->b, j->y, j->dy, begin, end, j->out,
                              NULL);
  else
    binary_backward_range_f64(j->p, &binary_rows_f64[j->kind], j->which, j->a, j->b, j->y, j->dy, begin, end, j->out,
                              NULL);
}

/* Sums and products whose repeated input is a row of a matrix: the kernels' column sums. False: it is something else.
 */
static bool backward_columns(const crn_run *r, const binary_job *j) {
  const crn_bcast *p = j->p;
  int other = 1 - j->which;
  bool rows = p->nd == 2 && p->stride[j->which][0] == 0 && p->stride[j->which][1] == 1;
  bool full = p->nd == 2 && p->stride[other][0] == p->row && p->stride[other][1] == 1;
  if (!r->kernels || j->dtype != CRN_F32 || !rows) return false;
  if (j->kind == CRN_B_ADD) {
    r->kernels->column_sum(p->rows, p->row, j->dy, p->row, j->out, true);
    return true;
  }
  if (j->kind != CRN_B_MUL || !full) return false;
  r->kernels->column_dot(p->rows, p->row, j->dy, p->row, other ? j->b : j->a, p->row, j->out, true);
  return true;
}

/* A repeated input: its gradient is the sum over the repeats, in double and in order of the output's elements. */
static crn_status backward_repeated(crn_run *r, const binary_job *j, int64_t size) {
  if (backward_columns(r, j)) return CRN_OK;
  double *sum = crn_scratch(r, (size_t)size * sizeof *sum);
  if (!sum) return r->err->code;
  memset(sum, 0, (size_t)size * sizeof *sum);
  int64_t n = j->p->n;
  if (j->dtype == CRN_F32) {
    binary_backward_range_f32(j->p, &binary_rows_f32[j->kind], j->which, j->a, j->b, j->y, j->dy, 0, n, NULL, sum);
    add_sums_f32(size, sum, j->out);
  } else {
    binary_backward_range_f64(j->p, &binary_rows_f64[j->kind], j->which, j->a, j->b, j->y, j->dy, 0, n, NULL, sum);
    add_sums_f64(size, sum, j->out);
  }
  return CRN_OK;
}

static crn_status binary_grad(crn_run *r, crn_node *n) {
  const crn_tensor *y = n->out[0];
  const void *dy = crn_grad_out(n, 0);
  if (!dy) return CRN_OK;
  crn_bcast p;
  crn_bcast_plan(&p, 2, n->in, y->rank, y->shape);
  if (p.n == 0) return CRN_OK;
  binary_job j = {
      r,    &p, (crn_binary_kind)n->a.i[0], y->dtype, crn_t_data(n->in[0]), crn_t_data(n->in[1]), crn_t_data(y), dy,
      NULL, 0};
  for (j.which = 0; j.which < 2; j.which++) {
    j.out = crn_grad_in(r, n, j.which);
    if (!j.out)
      CRN_TRY(r->err->code);
    else if (crn_bcast_repeats(&p, j.which))
      CRN_TRY(backward_repeated(r, &j, crn_t_size(n->in[j.which])));
    else if (y->dtype == CRN_F32 && j.kind == CRN_B_ADD && r->kernels)
      r->kernels->axpy(p.n, 1, dy, j.out);
    else
      crn_for_ranges(r, p.n, p.n, backward_range, &j);
  }
  return CRN_OK;
}
