/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table of functions: element by element, activations, choosing, casting, and the safe helpers.
 */
#include <math.h>
#include <string.h>

#include "tensor/optable_rows.h"

/* a[0] as a tensor of numbers by itself. */
static crn_tensor *operand(crn_opctx *c, const crn_ev *a) { return crn_opc_tensor(c, a, CRN_N_DTYPES); }

/* Note on the output that it is act of a[0]. */
static crn_status made_by(crn_opctx *c, crn_ev *out, const char *act, crn_tensor *from) {
  if (out->kind != CRN_EV_TENSOR) return CRN_OK;
  crn_made *made = crn_opc_alloc(c, sizeof *made);
  if (!made) return c->r->err->code;
  *made = (crn_made){act, from, NULL};
  out->made = made;
  return CRN_OK;
}

static crn_status unary(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_unary_kind kind = (crn_unary_kind)c->row->arg;
  crn_tensor *x = operand(c, a);
  if (x && crn_dtype_is_int(x->dtype) && a->kind != CRN_EV_TENSOR) { /* a plain int where a function wants a float */
    crn_tensor *f = crn_cast(c->r, x, c->r->real);
    if (kind != CRN_U_NEG && kind != CRN_U_ABS && kind != CRN_U_SIGN && kind != CRN_U_SQUARE) x = f;
  }
  CRN_TRY(crn_opc_out(c, crn_unary(c->r, kind, x), out));
  switch (kind) {
  case CRN_U_EXP:
  case CRN_U_SIGMOID:
  case CRN_U_LOG:
  case CRN_U_LOG_SIGMOID:
    return made_by(c, out, crn_unary_name(kind), x);
  default:
    return CRN_OK;
  }
}

static crn_status leaky_relu(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  double alpha = 0;
  crn_tensor *x = operand(c, a);
  if (!x || !crn_opc_float(c, &a[1], &alpha)) return c->r->err->code;
  if (alpha == 0.2) return crn_opc_out(c, crn_unary(c->r, CRN_U_LEAKY_RELU, x), out);
  crn_tensor *low = crn_scale(c->r, x, alpha), *zero = x ? crn_t_scalar(c->r, x->dtype, 0) : NULL;
  return crn_opc_out(c, crn_where(c->r, crn_binary(c->r, CRN_B_GREATER, x, zero), x, low), out);
}

static crn_status gelu(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  bool approximate = false;
  if (!crn_opc_bool(c, &a[1], &approximate)) return c->r->err->code;
  return crn_opc_out(c, crn_unary(c->r, approximate ? CRN_U_GELU_TANH : CRN_U_GELU, operand(c, a)), out);
}

/* lin_exp divided by its sum over the last axis */
static crn_status lin_exp_normed(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *y = crn_unary(c->r, CRN_U_LIN_EXP, operand(c, a));
  if (y && y->rank < 1) return crn_opc_fail(c, "needs an axis");
  crn_tensor *sum = y ? crn_reduce(c->r, CRN_R_SUM, y, 1u << (y->rank - 1), true) : NULL;
  return crn_opc_out(c, crn_div(c->r, y, sum), out);
}

static crn_status identity(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  CRN_TRY(crn_opc_out(c, operand(c, a), out));
  out->made = a[0].made;
  return CRN_OK;
}

static crn_status stop_gradient(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  CRN_TRY(crn_opc_out(c, crn_t_stop_gradient(c->r, operand(c, a)), out));
  crn_opc_keep_made(c, a, 1, out);
  return CRN_OK;
}

/* Both arguments as tensors of one dtype; at least one of them, if any, decides it. */
static bool both(crn_opctx *c, const crn_ev *a, crn_tensor **u, crn_tensor **v) {
  crn_dtype like = crn_opc_like(a, 2);
  if (like == CRN_N_DTYPES && (a[0].kind == CRN_EV_FLOAT || a[1].kind == CRN_EV_FLOAT)) like = c->r->real;
  *u = crn_opc_tensor(c, &a[0], like);
  *v = *u ? crn_opc_tensor(c, &a[1], (*u)->dtype) : NULL;
  return *u && *v;
}

static crn_status binary(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *u, *v;
  if (!both(c, a, &u, &v)) return c->r->err->code;
  return crn_opc_out(c, crn_binary(c->r, (crn_binary_kind)c->row->arg, u, v), out);
}

/* TensorFlow 1's tf.div: integers are divided with floor. */
static crn_status old_div(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *u, *v;
  if (!both(c, a, &u, &v)) return c->r->err->code;
  return crn_opc_out(c, crn_binary(c->r, crn_dtype_is_int(u->dtype) ? CRN_B_FLOORDIV : CRN_B_DIV, u, v), out);
}

static crn_status add_n(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  if (!crn_ev_is_seq(&a[0]) || a[0].u.seq.n < 1) return crn_opc_fail(c, "expected a list of tensors");
  crn_dtype like = crn_opc_like(a, 1);
  crn_tensor *sum = crn_opc_tensor(c, &a[0].u.seq.items[0], like);
  for (int i = 1; i < a[0].u.seq.n; i++) sum = crn_add(c->r, sum, crn_opc_tensor(c, &a[0].u.seq.items[i], like));
  return crn_opc_out(c, sum, out);
}

/* The sum of those that aren't None; None if there are none. */
static crn_status optional_add(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *sum = NULL;
  crn_dtype like = crn_opc_like(a, 1);
  for (int i = 0; i < a[0].u.seq.n; i++) {
    if (a[0].u.seq.items[i].kind == CRN_EV_NONE) continue;
    crn_tensor *t = crn_opc_tensor(c, &a[0].u.seq.items[i], like);
    sum = sum ? crn_add(c->r, sum, t) : t;
    if (!sum) return crn_opc_out(c, NULL, out);
  }
  return sum ? crn_opc_out(c, sum, out) : CRN_OK;
}

/* min(max(x, lo), hi); plain numbers or tensors */
static crn_status clip_by_value(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = crn_opc_tensor(c, &a[0], crn_opc_like(a, 3));
  if (!x) return c->r->err->code;
  if (crn_ev_is_number(&a[1]) && crn_ev_is_number(&a[2]) && crn_dtype_is_float(x->dtype)) {
    double lo = 0, hi = 0;
    if (!crn_opc_float(c, &a[1], &lo) || !crn_opc_float(c, &a[2], &hi)) return c->r->err->code;
    return crn_opc_out(c, crn_clip(c->r, x, lo, hi), out);
  }
  crn_tensor *lo = crn_opc_tensor(c, &a[1], x->dtype), *hi = crn_opc_tensor(c, &a[2], x->dtype);
  return crn_opc_out(c, crn_binary(c->r, CRN_B_MAXIMUM, crn_binary(c->r, CRN_B_MINIMUM, x, hi), lo), out);
}

static crn_status cast(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_dtype t;
  if (!crn_opc_dtype(c, &a[1], &t)) return c->r->err->code;
  crn_tensor *x = operand(c, a);
  CRN_TRY(crn_opc_out(c, crn_cast(c->r, x, t), out));
  if (x == out->u.t) out->made = a[0].made;
  return CRN_OK;
}

/* to_float, to_int32, …: the row says to what */
static crn_status cast_to(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_dtype to = c->row->arg == CRN_F32 ? c->r->real : (crn_dtype)c->row->arg;
  return crn_opc_out(c, crn_cast(c->r, operand(c, a), to), out);
}

static crn_status where(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  if (a[1].kind == CRN_EV_NONE || a[2].kind == CRN_EV_NONE)
    return crn_opc_fail(c, "not implemented: where with a condition only");
  crn_tensor *cond = crn_opc_tensor(c, &a[0], CRN_N_DTYPES), *x, *y;
  if (!cond || !both(c, a + 1, &x, &y)) return c->r->err->code;
  return crn_opc_out(c, crn_where(c->r, cond, x, y), out);
}

/* where with size-1 axes added at the end of inputs of lower rank: [B] with [B,T,F] is [B,1,1] */
static crn_status where_bc(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *t[3] = {crn_opc_tensor(c, &a[0], CRN_N_DTYPES), NULL, NULL};
  if (!t[0] || !both(c, a + 1, &t[1], &t[2])) return c->r->err->code;
  int rank = 0;
  for (int i = 0; i < 3; i++)
    if (t[i]->rank > rank) rank = t[i]->rank;
  for (int i = 0; i < 3; i++)
    while (t[i] && t[i]->rank > 0 && t[i]->rank < rank) t[i] = crn_expand_dims(c->r, t[i], -1);
  return crn_opc_out(c, crn_where(c->r, t[0], t[1], t[2]), out);
}

static crn_status safe_log(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  double eps = 0;
  if (!crn_opc_float(c, &a[1], &eps)) return c->r->err->code;
  return crn_opc_out(c, crn_safe_log_of(c->r, operand(c, a), a[0].made, eps), out);
}

static crn_status safe_exp(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  double eps = 0;
  if (!crn_opc_float(c, &a[1], &eps)) return c->r->err->code;
  return crn_opc_out(c, crn_safe_exp_of(c->r, operand(c, a), a[0].made, eps), out);
}

/* softmax and log_softmax over any axis: that axis is moved to the end and back */
static crn_status softmax(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  crn_tensor *x = operand(c, a), *y;
  int axis = 0, perm[CRN_MAX_RANK];
  crn_ev which = a[1].kind != CRN_EV_NONE ? a[1] : a[3].kind != CRN_EV_NONE ? a[3] : crn_ev_of_int(-1);
  if (!x || !crn_opc_axis(c, &which, x->rank, &axis)) return c->r->err->code;
  bool moved = axis != x->rank - 1, plain = c->row->arg == 0;
  for (int d = 0; d < x->rank; d++) perm[d] = d;
  perm[axis] = x->rank - 1;
  perm[x->rank - 1] = axis;
  y = moved ? crn_transpose(c->r, x, perm) : x;
  y = plain ? crn_softmax(c->r, y) : crn_log_softmax(c->r, y);
  CRN_TRY(crn_opc_out(c, moved ? crn_transpose(c->r, y, perm) : y, out));
  return moved ? CRN_OK : made_by(c, out, plain ? "softmax" : "log_softmax", x);
}

#define U(NAMES, KIND, DOC)                                                                                            \
  { NAMES, "x, name=None", unary, CRN_U_##KIND, DOC }
#define F(NAMES, KIND, DOC)                                                                                            \
  { NAMES, "features, name=None", unary, CRN_U_##KIND, DOC }
#define B(NAMES, KIND, DOC)                                                                                            \
  { NAMES, "x, y, name=None", binary, CRN_B_##KIND, DOC }
const crn_oprow crn_rows_elementwise[] = {
    U("abs math.abs @abs", ABS, "absolute value"),
    U("negative math.negative v1.neg @neg", NEG, "-x"),
    U("exp math.exp", EXP, "exponential"),
    U("math.log v1.log", LOG, "natural logarithm"),
    U("math.log1p v1.log1p", LOG1P, "log(1+x)"),
    U("math.expm1 v1.expm1", EXPM1, "exp(x)-1"),
    U("sqrt math.sqrt", SQRT, "square root"),
    U("math.rsqrt v1.rsqrt", RSQRT, "1/sqrt(x)"),
    U("square math.square", SQUARE, "x²"),
    U("math.reciprocal v1.reciprocal", RECIPROCAL, "1/x"),
    U("sign math.sign", SIGN, "-1, 0 or 1"),
    U("round math.round math.rint v1.rint", ROUND, "to the nearest integer, halves to the even one"),
    U("floor math.floor", FLOOR, "largest integer below"),
    U("math.ceil v1.ceil", CEIL, "smallest integer above"),
    U("sin math.sin", SIN, "sine"),
    U("cos math.cos", COS, "cosine"),
    U("tan math.tan", TAN, "tangent"),
    U("asin math.asin", ASIN, "inverse sine"),
    U("acos math.acos", ACOS, "inverse cosine"),
    U("atan math.atan", ATAN, "inverse tangent"),
    U("sinh math.sinh", SINH, "hyperbolic sine"),
    U("cosh math.cosh", COSH, "hyperbolic cosine"),
    U("asinh math.asinh", ASINH, "inverse hyperbolic sine"),
    U("acosh math.acosh", ACOSH, "inverse hyperbolic cosine"),
    U("atanh math.atanh", ATANH, "inverse hyperbolic tangent"),
    U("tanh math.tanh nn.tanh keras.activations.tanh", TANH, "hyperbolic tangent"),
    U("sigmoid math.sigmoid nn.sigmoid keras.activations.sigmoid", SIGMOID, "1/(1+exp(-x))"),
    U("math.log_sigmoid v1.log_sigmoid @log_sigmoid", LOG_SIGMOID, "log of sigmoid, computed exactly"),
    F("nn.softplus math.softplus keras.activations.softplus", SOFTPLUS, "log(1+exp(x))"),
    F("nn.relu keras.activations.relu", RELU, "max(x, 0)"),
    F("nn.relu6", RELU6, "min(max(x, 0), 6)"),
    F("nn.elu keras.activations.elu", ELU, "x, below 0: exp(x)-1"),
    F("nn.selu keras.activations.selu", SELU, "scaled elu"),
    {"nn.leaky_relu", "features, alpha=0.2, name=None", leaky_relu, 0, "x, below 0: alpha·x"},
    F("nn.softsign keras.activations.softsign", SOFTSIGN, "x/(1+|x|)"),
    F("nn.swish nn.silu keras.activations.swish", SWISH, "x·sigmoid(x)"),
    {"nn.gelu keras.activations.gelu @gelu", "features, approximate=False, name=None", gelu, 0,
     "x·Φ(x), or its tanh approximation"},
    U("@gelu2", GELU2, "x·sigmoid(1.702x)"),
    U("@gelu3", GELU3, "x·Φ(x)"),
    U("@lin_exp", LIN_EXP, "x+1, below 0: exp(x)"),
    {"@lin_exp_normed", "x", lin_exp_normed, 0, "lin_exp divided by its sum over the last axis"},
    U("math.erf v1.erf", ERF, "error function"),
    U("math.lgamma v1.lgamma", LGAMMA, "log of the absolute value of the gamma function"),
    U("math.digamma v1.digamma", DIGAMMA, "derivative of lgamma"),
    U("logical_not math.logical_not", LOGICAL_NOT, "not, for bool"),
    U("math.is_nan v1.is_nan", IS_NAN, "is it NaN?"),
    U("math.is_inf v1.is_inf", IS_INF, "is it infinite?"),
    U("math.is_finite v1.is_finite", IS_FINITE, "is it neither infinite nor NaN?"),
    U("@nan_to_num", NAN_TO_NUM, "NaN as 0, infinities as the largest finite numbers"),
    {"identity grad_pass_through @identity", "input, name=None", identity, 0, "the same value"},
    {"stop_gradient", "input, name=None", stop_gradient, 0, "the same value, no gradient flows back"},
    B("add math.add", ADD, "x + y"),
    B("subtract math.subtract v1.sub", SUB, "x - y"),
    B("multiply math.multiply v1.mul", MUL, "x · y"),
    B("divide math.divide truediv math.truediv v1.realdiv", DIV, "x / y; integers give float64"),
    {"v1.div", "x, y, name=None", old_div, 0, "x / y; integers with floor"},
    B("math.divide_no_nan v1.div_no_nan", DIV_NO_NAN, "x / y, 0 where y is 0"),
    B("math.floordiv floordiv v1.floor_div", FLOORDIV, "floor(x / y)"),
    B("math.floormod floormod math.mod v1.mod", MOD, "x - y·floor(x / y)"),
    B("truncatediv", TRUNCATEDIV, "x / y cut towards 0"),
    B("pow math.pow", POW, "x to the power y"),
    B("maximum math.maximum", MAXIMUM, "the larger one"),
    B("minimum math.minimum", MINIMUM, "the smaller one"),
    B("math.squared_difference v1.squared_difference", SQUARED_DIFFERENCE, "(x - y)²"),
    B("math.atan2 atan2", ATAN2, "angle of (y, x)"),
    B("@logaddexp experimental.numpy.logaddexp", LOGADDEXP, "log(exp(x) + exp(y))"),
    B("equal math.equal", EQUAL, "x = y?"),
    B("not_equal math.not_equal", NOT_EQUAL, "x ≠ y?"),
    B("less math.less", LESS, "x < y?"),
    B("less_equal math.less_equal", LESS_EQUAL, "x ≤ y?"),
    B("greater math.greater", GREATER, "x > y?"),
    B("greater_equal math.greater_equal", GREATER_EQUAL, "x ≥ y?"),
    B("logical_and math.logical_and", LOGICAL_AND, "and, for bool"),
    B("logical_or math.logical_or", LOGICAL_OR, "or, for bool"),
    B("math.logical_xor v1.logical_xor", LOGICAL_XOR, "one of both, for bool"),
    {"add_n math.add_n", "inputs, name=None", add_n, 0, "sum of a list"},
    {"@optional_add", "*args", optional_add, 0, "sum of those that aren't None"},
    {"clip_by_value", "t, clip_value_min, clip_value_max, name=None", clip_by_value, 0, "limited to a range"},
    {"cast dtypes.cast", "x, dtype, name=None", cast, 0, "converted to a dtype"},
    {"v1.to_float", "x, name=None", cast_to, CRN_F32, "converted to float32"},
    {"v1.to_double", "x, name=None", cast_to, CRN_F64, "converted to float64"},
    {"v1.to_int32", "x, name=None", cast_to, CRN_I32, "converted to int32"},
    {"v1.to_int64", "x, name=None", cast_to, CRN_I64, "converted to int64"},
    {"where v1.where_v2", "condition, x=None, y=None, name=None", where, 0, "x where the condition holds, else y"},
    {"@where_bc", "condition, x, y", where_bc, 0, "where, inputs of lower rank get axes at the end"},
    {"@safe_log", "x, eps=1e-20", safe_log, 0, "log(max(x, eps)), exact after softmax, sigmoid and exp"},
    {"@safe_exp", "x, eps=1e-20", safe_exp, 0, "exp of x clipped to ±log eps, exact after log_softmax and the like"},
    {"nn.softmax math.softmax keras.activations.softmax", "logits, axis=None, name=None, dim=None", softmax, 0,
     "exp(x) divided by its sum over an axis (the last one)"},
    {"nn.log_softmax math.log_softmax", "logits, axis=None, name=None, dim=None", softmax, 1,
     "log of softmax, computed exactly"},
};
const int crn_n_rows_elementwise = sizeof crn_rows_elementwise / sizeof crn_rows_elementwise[0];

bool crn_oprow_is_elementwise(const crn_oprow *row) {
  static const char *const not_all[] = {"nn.softmax", "nn.log_softmax", "@lin_exp_normed"};
  for (size_t i = 0; i < sizeof(not_all) / sizeof(*not_all); i++)
    if (!strncmp(row->names, not_all[i], strlen(not_all[i]))) return false;
  return row >= crn_rows_elementwise && row < crn_rows_elementwise + crn_n_rows_elementwise;
}
