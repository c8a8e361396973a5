/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's operators on the values of expressions: numbers among themselves as Python counts, numbers with tensors take
 * the tensor's dtype, tensors must agree. Indexing as numpy and TensorFlow do it. And the exact forms of safe_log and
 * safe_exp.
 */
#include <math.h>
#include <string.h>

#include "tensor/optable.h"

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static double as_double(const crn_ev *v) {
  return v->kind == CRN_EV_FLOAT ? v->u.f : v->kind == CRN_EV_INT ? (double)v->u.i : v->u.b;
}

static int64_t as_int(const crn_ev *v) { return v->kind == CRN_EV_INT ? v->u.i : v->u.b; }

static crn_status overflow(crn_opctx *c) { return crn_opc_fail(c, "integer out of range (64 bits)"); }

static crn_status int_power(crn_opctx *c, int64_t u, int64_t v, crn_ev *out) {
  int64_t y = 1;
  if (v < 0) {
    if (u == 0) return crn_opc_fail(c, "0 to a negative power");
    *out = crn_ev_of_float(pow((double)u, (double)v));
    return CRN_OK;
  }
  for (; v > 0; v >>= 1) {
    if ((v & 1) && __builtin_mul_overflow(y, u, &y)) return overflow(c);
    if (v > 1 && __builtin_mul_overflow(u, u, &u)) return overflow(c);
  }
  *out = crn_ev_of_int(y);
  return CRN_OK;
}

static crn_status int_binary(crn_opctx *c, const char *op, int64_t u, int64_t v, crn_ev *out) {
  int64_t y = 0;
  bool divides = op[0] == '/' || op[0] == '%';
  if (divides && v == 0) return crn_opc_fail(c, "division by zero");
  if (strcmp(op, "/") == 0) {
    *out = crn_ev_of_float((double)u / (double)v);
    return CRN_OK;
  }
  if (strcmp(op, "**") == 0) return int_power(c, u, v, out);
  if (divides && v == -1) { /* the smallest number has no negative */
    if (op[0] == '/' && __builtin_sub_overflow((int64_t)0, u, &y)) return overflow(c);
  } else if (strcmp(op, "//") == 0) {
    y = u / v - (u % v != 0 && (u < 0) != (v < 0));
  } else if (strcmp(op, "%") == 0) {
    y = u % v;
    if (y != 0 && (y < 0) != (v < 0)) y += v;
  } else if (strcmp(op, "&") == 0) {
    y = u & v;
  } else if (strcmp(op, "|") == 0) {
    y = u | v;
  } else if (strcmp(op, "^") == 0) {
    y = u ^ v;
  } else if (strcmp(op, "+") == 0 ? __builtin_add_overflow(u, v, &y)
             : op[0] == '-'       ? __builtin_sub_overflow(u, v, &y)
                                  : __builtin_mul_overflow(u, v, &y)) {
    return overflow(c);
  }
  *out = crn_ev_of_int(y);
  return CRN_OK;
}

static crn_status float_binary(crn_opctx *c, const char *op, double u, double v, crn_ev *out) {
  if ((op[0] == '/' || op[0] == '%') && v == 0) return crn_opc_fail(c, "division by zero");
  double y = NAN;
  if (strcmp(op, "+") == 0)
    y = u + v;
  else if (strcmp(op, "-") == 0)
    y = u - v;
  else if (strcmp(op, "*") == 0)
    y = u * v;
  else if (strcmp(op, "/") == 0)
    y = u / v;
  else if (strcmp(op, "//") == 0)
    y = floor(u / v);
  else if (strcmp(op, "%") == 0)
    y = u - v * floor(u / v);
  else if (strcmp(op, "**") == 0)
    y = pow(u, v);
  else
    return crn_opc_fail(c, "not defined for floats");
  *out = crn_ev_of_float(y);
  return CRN_OK;
}

/* -1, 0, 1; 2: not comparable (NaN) */
static int compare_numbers(const crn_ev *a, const crn_ev *b) {
  if (a->kind != CRN_EV_FLOAT && b->kind != CRN_EV_FLOAT) {
    int64_t u = as_int(a), v = as_int(b);
    return u < v ? -1 : u > v;
  }
  double u = as_double(a), v = as_double(b);
  return u < v ? -1 : u > v ? 1 : u == v ? 0 : 2;
}

static bool equal_values(const crn_ev *a, const crn_ev *b) {
  if (crn_ev_is_number(a) && crn_ev_is_number(b)) return compare_numbers(a, b) == 0;
  if (crn_ev_is_seq(a) && a->kind == b->kind) {
    bool same = a->u.seq.n == b->u.seq.n;
    for (int i = 0; same && i < a->u.seq.n; i++) same = equal_values(&a->u.seq.items[i], &b->u.seq.items[i]);
    return same;
  }
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case CRN_EV_NONE:
  case CRN_EV_ELLIPSIS:
    return true;
  case CRN_EV_STR:
    return strcmp(a->u.s, b->u.s) == 0;
  case CRN_EV_DTYPE:
    return a->u.dtype == b->u.dtype;
  case CRN_EV_FUNC:
    return a->u.row == b->u.row;
  case CRN_EV_OBJECT:
    return a->u.obj.p == b->u.obj.p;
  default:
    return false;
  }
}

static bool is_comparison(const char *op) {
  return op[0] == '<' || op[0] == '>' || op[0] == '!' || strcmp(op, "==") == 0;
}

static crn_status compare_values(crn_opctx *c, const char *op, const crn_ev *a, const crn_ev *b, crn_ev *out) {
  bool eq = strcmp(op, "==") == 0;
  if (eq || strcmp(op, "!=") == 0) {
    *out = crn_ev_of_bool(equal_values(a, b) == eq);
    return CRN_OK;
  }
  int order;
  if (crn_ev_is_number(a) && crn_ev_is_number(b))
    order = compare_numbers(a, b);
  else if (a->kind == CRN_EV_STR && b->kind == CRN_EV_STR)
    order = strcmp(a->u.s, b->u.s) < 0 ? -1 : strcmp(a->u.s, b->u.s) > 0;
  else
    return crn_opc_fail(c, "not defined for %s and %s", crn_ev_kind_name(a), crn_ev_kind_name(b));
  bool or_equal = op[1] == '=';
  *out = crn_ev_of_bool(order != 2 &&
                        ((op[0] == '<' && order < 0) || (op[0] == '>' && order > 0) || (or_equal && order == 0)));
  return CRN_OK;
}

static crn_status join(crn_opctx *c, const crn_ev *a, const crn_ev *b, crn_ev *out) {
  if (a->kind == CRN_EV_STR) {
    char *s = crn_arena_printf(&c->r->arena, "%s%s", a->u.s, b->u.s);
    if (!s) return crn_err_memory(c->r->err);
    *out = crn_ev_of_str(s);
    return CRN_OK;
  }
  int n = a->u.seq.n, m = b->u.seq.n;
  crn_ev *items = crn_opc_alloc(c, (size_t)(n + m) * sizeof *items);
  if (!items) return c->r->err->code;
  if (n) memcpy(items, a->u.seq.items, (size_t)n * sizeof *items);
  if (m) memcpy(items + n, b->u.seq.items, (size_t)m * sizeof *items);
  *out = (crn_ev){.kind = a->kind, .u.seq = {items, n + m}};
  return CRN_OK;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static bool tensor_kind(const char *op, crn_binary_kind *kind) {
  static const struct {
    const char *op;
    crn_binary_kind kind;
  } table[] = {{"+", CRN_B_ADD},
               {"-", CRN_B_SUB},
               {"*", CRN_B_MUL},
               {"/", CRN_B_DIV},
               {"//", CRN_B_FLOORDIV},
               {"%", CRN_B_MOD},
               {"**", CRN_B_POW},
               {"==", CRN_B_EQUAL},
               {"!=", CRN_B_NOT_EQUAL},
               {"<", CRN_B_LESS},
               {"<=", CRN_B_LESS_EQUAL},
               {">", CRN_B_GREATER},
               {">=", CRN_B_GREATER_EQUAL},
               {"&", CRN_B_LOGICAL_AND},
               {"|", CRN_B_LOGICAL_OR},
               {"^", CRN_B_LOGICAL_XOR}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (strcmp(op, table[i].op) == 0) {
      *kind = table[i].kind;
      return true;
    }
  return false;
}

/* Float tensor with a plain number, where an operation without a second tensor does it. NULL: none does. */
static crn_tensor *with_number(crn_run *r, const char *op, const crn_ev *a, const crn_ev *b) {
  bool left = a->kind == CRN_EV_TENSOR;
  crn_tensor *x = left ? a->u.t : b->u.t;
  const crn_ev *v = left ? b : a;
  if (!crn_dtype_is_float(x->dtype) || (v->kind != CRN_EV_INT && v->kind != CRN_EV_FLOAT)) return NULL;
  double k = as_double(v);
  if (strcmp(op, "*") == 0) return crn_scale(r, x, k);
  if (strcmp(op, "+") == 0) return crn_add_scalar(r, x, k);
  if (strcmp(op, "-") == 0 && left) return crn_add_scalar(r, x, -k);
  if (strcmp(op, "**") == 0 && left && k == 2) return crn_unary(r, CRN_U_SQUARE, x);
  return NULL;
}

static crn_status tensor_binary(crn_opctx *c, const char *op, const crn_ev *a, const crn_ev *b, crn_ev *out) {
  crn_run *r = c->r;
  crn_tensor *y = with_number(r, op, a, b);
  if (y || crn_run_failed(r)) return crn_opc_out(c, y, out);
  if ((op[0] == '=' || op[0] == '!') && (a->kind == CRN_EV_NONE || b->kind == CRN_EV_NONE)) {
    *out = crn_ev_of_bool(op[0] == '!');
    return CRN_OK;
  }
  crn_dtype like = a->kind == CRN_EV_TENSOR ? a->u.t->dtype : b->u.t->dtype;
  crn_tensor *u = crn_opc_tensor(c, a, like), *v = crn_opc_tensor(c, b, like);
  if (!u || !v) return r->err->code;
  if (strcmp(op, "@") == 0) return crn_opc_out(c, crn_matmul(r, u, false, v, false), out);
  crn_binary_kind kind;
  if (!tensor_kind(op, &kind)) return crn_opc_fail(c, "not defined for tensors");
  if ((op[0] == '&' || op[0] == '|' || op[0] == '^') && u->dtype != CRN_BOOL)
    return crn_opc_fail(c, "not implemented: bitwise operators on integer tensors");
  return crn_opc_out(c, crn_binary(r, kind, u, v), out);
}

crn_status crn_ev_binary(crn_opctx *c, const char *op, const crn_ev *a, const crn_ev *b, crn_ev *out) {
  if (crn_run_failed(c->r)) return c->r->err->code;
  if (a->kind == CRN_EV_TENSOR || b->kind == CRN_EV_TENSOR) return tensor_binary(c, op, a, b, out);
  if (is_comparison(op)) return compare_values(c, op, a, b, out);
  if (crn_ev_is_number(a) && crn_ev_is_number(b)) {
    bool bits = op[0] == '&' || op[0] == '|' || op[0] == '^';
    if (a->kind == CRN_EV_FLOAT || b->kind == CRN_EV_FLOAT) return float_binary(c, op, as_double(a), as_double(b), out);
    CRN_TRY(int_binary(c, op, as_int(a), as_int(b), out));
    if (bits && a->kind == CRN_EV_BOOL && b->kind == CRN_EV_BOOL) *out = crn_ev_of_bool(out->u.i != 0);
    return CRN_OK;
  }
  bool joins = strcmp(op, "+") == 0 && a->kind == b->kind && (a->kind == CRN_EV_STR || crn_ev_is_seq(a));
  if (joins) return join(c, a, b, out);
  return crn_opc_fail(c, "not defined for %s and %s", crn_ev_kind_name(a), crn_ev_kind_name(b));
}

crn_status crn_ev_unary(crn_opctx *c, const char *op, const crn_ev *a, crn_ev *out) {
  if (crn_run_failed(c->r)) return c->r->err->code;
  if (a->kind == CRN_EV_TENSOR) {
    if (op[0] == '+')
      *out = *a;
    else if (op[0] == '-')
      return crn_opc_out(c, crn_unary(c->r, CRN_U_NEG, a->u.t), out);
    else if (a->u.t->dtype == CRN_BOOL)
      return crn_opc_out(c, crn_unary(c->r, CRN_U_LOGICAL_NOT, a->u.t), out);
    else
      return crn_opc_fail(c, "not implemented: bitwise operators on integer tensors");
    return CRN_OK;
  }
  if (!crn_ev_is_number(a) || (op[0] == '~' && a->kind == CRN_EV_FLOAT))
    return crn_opc_fail(c, "not defined for %s", crn_ev_kind_name(a));
  if (a->kind == CRN_EV_FLOAT) {
    *out = crn_ev_of_float(op[0] == '-' ? -a->u.f : a->u.f);
    return CRN_OK;
  }
  int64_t v = as_int(a);
  if (op[0] == '-' && v == INT64_MIN) return overflow(c);
  *out = crn_ev_of_int(op[0] == '-' ? -v : op[0] == '~' ? ~v : v);
  return CRN_OK;
}

/* ---- indexing --------------------------------------------------------------------------------------------------- */

/* Python's slice of an axis of size n: first index, count, step. */
static bool slice_range(crn_opctx *c, const crn_ev *part, int64_t n, int64_t *begin, int64_t *count, int64_t *step) {
  int64_t stop = 0;
  *step = 1;
  if (part[2].kind != CRN_EV_NONE && !crn_opc_int(c, &part[2], step)) return false;
  if (*step == 0 || *step == INT64_MIN) {
    (void)crn_opc_fail(c, "a slice's step must not be %lld", (long long)*step);
    return false;
  }
  int64_t lo = *step > 0 ? 0 : -1, hi = *step > 0 ? n : n - 1; /* limits of both ends */
  int64_t *ends[] = {begin, &stop};
  for (int i = 0; i < 2; i++) {
    bool from_low = (i == 0) == (*step > 0);
    if (part[i].kind == CRN_EV_NONE) {
      *ends[i] = from_low ? lo : hi;
      continue;
    }
    if (!crn_opc_int(c, &part[i], ends[i])) return false;
    if (*ends[i] < 0) *ends[i] += n;
    if (*ends[i] < lo) *ends[i] = lo;
    if (*ends[i] > hi) *ends[i] = hi;
  }
  int64_t span = *step > 0 ? stop - *begin : *begin - stop, width = *step > 0 ? *step : -*step;
  *count = span <= 0 ? 0 : (span - 1) / width + 1;
  return true;
}

static crn_status index_seq(crn_opctx *c, const crn_ev *v, const crn_ev *index, crn_ev *out) {
  int n = v->u.seq.n;
  if (index->kind == CRN_EV_SLICE) {
    int64_t begin, count, step;
    if (!slice_range(c, index->u.slice, n, &begin, &count, &step)) return c->r->err->code;
    crn_ev *items = crn_opc_alloc(c, (size_t)count * sizeof *items);
    if (!items) return c->r->err->code;
    for (int64_t i = 0; i < count; i++) items[i] = v->u.seq.items[begin + i * step];
    *out = (crn_ev){.kind = v->kind, .u.seq = {items, (int)count}};
    return CRN_OK;
  }
  int64_t i = 0;
  if (!crn_opc_int(c, index, &i)) return c->r->err->code;
  if (i < -n || i >= n)
    return crn_opc_fail(c, "index %lld is outside of a %s of %d", (long long)i, crn_ev_kind_name(v), n);
  *out = v->u.seq.items[i < 0 ? i + n : i];
  return CRN_OK;
}

static crn_status index_tensor(crn_opctx *c, crn_tensor *t, const crn_ev *items, int n, crn_ev *out) {
  char d[96];
  int n_axes = 0, n_dots = 0, axis = 0;
  for (int i = 0; i < n; i++) {
    n_dots += items[i].kind == CRN_EV_ELLIPSIS;
    n_axes += items[i].kind != CRN_EV_ELLIPSIS && items[i].kind != CRN_EV_NONE;
  }
  if (n_dots > 1) return crn_opc_fail(c, "an index has at most one ellipsis");
  if (n_axes > t->rank) return crn_opc_fail(c, "%d indices for %s", n_axes, crn_t_describe(t, d, sizeof d));
  int hidden = t->rank - n_axes;
  for (int i = 0; i < n && t; i++) {
    int64_t begin, count, step;
    switch (items[i].kind) {
    case CRN_EV_ELLIPSIS:
      axis += hidden;
      break;
    case CRN_EV_NONE:
      t = crn_expand_dims(c->r, t, axis++);
      break;
    case CRN_EV_SLICE:
      if (!slice_range(c, items[i].u.slice, t->shape[axis], &begin, &count, &step)) return c->r->err->code;
      t = crn_slice(c->r, t, axis++, count ? begin : 0, count, step);
      break;
    default:
      if (items[i].kind == CRN_EV_TENSOR && crn_t_size(items[i].u.t) != 1)
        return crn_opc_fail(c, "a tensor can't be indexed by the tensor %s; use tf.gather",
                            crn_t_describe(items[i].u.t, d, sizeof d));
      if (!crn_opc_int(c, &items[i], &begin)) return c->r->err->code;
      if (begin < -t->shape[axis] || begin >= t->shape[axis])
        return crn_opc_fail(c, "index %lld is outside of axis %d of %s", (long long)begin, axis,
                            crn_t_describe(t, d, sizeof d));
      t = crn_slice(c->r, t, axis, begin < 0 ? begin + t->shape[axis] : begin, 1, 1);
      t = crn_squeeze(c->r, t, axis);
      break;
    }
  }
  return crn_opc_out(c, t, out);
}

crn_status crn_ev_index(crn_opctx *c, const crn_ev *v, const crn_ev *index, crn_ev *out) {
  if (crn_run_failed(c->r)) return c->r->err->code;
  if (crn_ev_is_seq(v)) return index_seq(c, v, index, out);
  if (v->kind != CRN_EV_TENSOR) return crn_opc_fail(c, "%s can't be indexed", crn_ev_kind_name(v));
  if (crn_ev_is_seq(index)) return index_tensor(c, v->u.t, index->u.seq.items, index->u.seq.n, out);
  return index_tensor(c, v->u.t, index, 1, out);
}

/* ---- exact logarithms ------------------------------------------------------------------------------------------- */

/* The steps after the activation, applied to another tensor in its place. */
static crn_tensor *apply_steps(crn_run *r, const crn_made_step *step, crn_tensor *t) {
  if (!step) return t;
  t = apply_steps(r, step->before, t);
  if (!t) return NULL;
  crn_opctx c = {.r = r, .row = step->row};
  crn_ev args[CRN_OP_MAX_ARGS] = {{.kind = CRN_EV_NONE}}, out = crn_ev_none();
  for (int i = 0; i < step->n; i++) args[i] = step->args[i];
  args[0] = crn_ev_of_tensor(t);
  return step->row->fn(&c, args, &out) == CRN_OK && out.kind == CRN_EV_TENSOR ? out.u.t : NULL;
}

crn_tensor *crn_safe_log_of(crn_run *r, crn_tensor *x, const crn_made *made, double eps) {
  crn_tensor *y = NULL;
  if (!made || !x) return crn_safe_log(r, x, eps);
  if (strcmp(made->act, "exp") == 0)
    y = made->from;
  else if (strcmp(made->act, "softmax") == 0)
    y = crn_log_softmax(r, made->from);
  else if (strcmp(made->act, "sigmoid") == 0)
    y = crn_unary(r, CRN_U_LOG_SIGMOID, made->from);
  else
    return crn_safe_log(r, x, eps);
  return apply_steps(r, made->steps, y);
}

crn_tensor *crn_safe_exp_of(crn_run *r, crn_tensor *x, const crn_made *made, double eps) {
  crn_tensor *y = NULL;
  if (!made || !x) return crn_safe_exp(r, x, eps);
  if (strcmp(made->act, "log") == 0)
    y = made->from;
  else if (strcmp(made->act, "log_softmax") == 0)
    y = crn_softmax(r, made->from);
  else if (strcmp(made->act, "log_sigmoid") == 0)
    y = crn_unary(r, CRN_U_SIGMOID, made->from);
  else
    return crn_safe_exp(r, x, eps);
  return apply_steps(r, made->steps, y);
}
