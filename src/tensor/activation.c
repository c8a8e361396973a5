/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation strings, resolved by four rules in this order: nothing is the identity; a text with "(" is an expression
 * in x that knows only tf (and Python's builtins); a text with an operator is two activations or numbers, applied to x
 * and combined; else it names a function of one argument. "-tanh" is therefore x - tanh(x): the empty left part is x.
 */
#include <stdlib.h>
#include <string.h>

#include "tensor/eval.h"

typedef enum activation_kind { IDENTITY, NUMBER, FUNCTION, OPERATOR, EXPRESSION } activation_kind;

struct crn_activation {
  activation_kind kind;
  const char *name; /* FUNCTION */
  const crn_oprow *row;
  crn_ev number;
  const char *op; /* OPERATOR */
  const crn_activation *left, *right;
  const crn_eval *expression;
};

enum { MAX_PARTS = 8 }; /* operators nested in a text: there are four of them */

static crn_status compile(crn_arena *a, const char *text, int nesting, crn_activation **out, crn_err *err);

static crn_activation *activation_new(crn_arena *a, activation_kind kind) {
  crn_activation *act = CRN_ARENA_NEW(a, crn_activation);
  if (act) act->kind = kind;
  return act;
}

/* Text without white space around it. */
static char *stripped(crn_arena *a, const char *p, size_t n) {
  static const char space[] = " \t\r\n";
  while (n && strchr(space, p[0])) p++, n--;
  while (n && strchr(space, p[n - 1])) n--;
  return crn_arena_strndup(a, p, n);
}

/* ---- expressions in x ------------------------------------------------------------------------------------------- */

/* Python's builtins are known to every expression; the helpers of eval layers aren't known here. */
static bool only_x(void *user, const char *name, bool builtin) {
  static const char *const builtins[] = {"abs",   "float", "int",   "bool",  "len", "min", "max",
                                         "round", "list",  "tuple", "range", "sum", "pow", "x"};
  (void)builtin;
  for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++)
    if (strcmp(name, builtins[i]) == 0) return true;
  *(const char **)user = name;
  return false;
}

static crn_status compile_expression(crn_arena *a, const char *text, crn_activation *act, crn_err *err) {
  crn_eval *e = NULL;
  const char *stranger = NULL;
  CRN_TRY(crn_eval_compile(a, text, &e, err));
  if (!crn_eval_each_name(e, only_x, &stranger))
    return crn_fail(err, CRN_E_CONFIG,
                    "activation \"%s\": unknown name '%s'; only x and tf are known here, as in \"tf.nn.relu(x) * 2\"",
                    text, stranger);
  act->expression = e;
  return CRN_OK;
}

static crn_status x_of(void *user, crn_run *r, const char *name, crn_ev *out, bool *found) {
  (void)r;
  *found = strcmp(name, "x") == 0;
  if (*found) *out = *(const crn_ev *)user;
  return CRN_OK;
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

/* Does the row take one argument, further ones having defaults? */
static bool is_unary(const crn_oprow *row) {
  size_t first = strcspn(row->spec, ",");
  if (row->spec[0] == '*' || memchr(row->spec, '=', first)) return false;
  for (const char *p = row->spec + first; *p; p += strcspn(p, ",")) {
    p++;
    if (!memchr(p, '=', strcspn(p, ","))) return false;
  }
  return true;
}

static crn_status compile_function(crn_arena *a, const char *text, crn_activation **out, crn_err *err) {
  const crn_oprow *row = strcmp(text, "None") == 0 ? NULL : crn_optable_find_activation(text);
  if (row && is_unary(row)) {
    if (!(*out = activation_new(a, FUNCTION))) return crn_err_memory(err);
    (*out)->row = row;
    (*out)->name = text;
    return CRN_OK;
  }
  char near[96];
  const char *best = crn_optable_nearest(text, near, sizeof near);
  if (!best) {
    char full[96];
    size_t n = strlen(text) < 80 ? strlen(text) : 80;
    memcpy(full, "tf.nn.", 6);
    memcpy(full + 6, text, n);
    full[6 + n] = 0;
    best = crn_optable_nearest(full, near, sizeof near);
    if (best && strrchr(best, '.')) best = strrchr(best, '.') + 1;
  }
  return crn_fail(err, CRN_E_CONFIG, "invalid activation function \"%s\"%s%s%s%s", text,
                  row ? " (it takes more than one argument)" : "", best && !row ? ", nearest is \"" : "",
                  best && !row ? best : "", best && !row ? "\"" : "");
}

/* ---- two parts -------------------------------------------------------------------------------------------------- */

static crn_status compile_part(crn_arena *a, const char *p, size_t n, int nesting, const crn_activation **out,
                               crn_err *err) {
  char *text = stripped(a, p, n), *end = NULL;
  crn_activation *act = NULL;
  if (!text) return crn_err_memory(err);
  double v = strtod(text, &end);
  bool number = (text[0] >= '0' && text[0] <= '9') || text[0] == '.';
  if (number && end != text && !*end) {
    if (!(act = activation_new(a, NUMBER))) return crn_err_memory(err);
    act->number = strpbrk(text, ".eE") || v >= 9e15 ? crn_ev_of_float(v) : crn_ev_of_int((int64_t)v);
  } else {
    CRN_TRY(compile(a, text, nesting, &act, err));
  }
  *out = act;
  return CRN_OK;
}

static crn_status compile_operator(crn_arena *a, const char *text, const char *op, int nesting, crn_activation *act,
                                   crn_err *err) {
  const char *at = strchr(text, op[0]);
  if (strchr(at + 1, op[0]))
    return crn_fail(
        err, CRN_E_CONFIG,
        "activation \"%s\" has more than one '%s'; write it as an expression in x, like \"tf.nn.relu(x) * 2\"", text,
        op);
  act->op = op;
  CRN_TRY(compile_part(a, text, (size_t)(at - text), nesting, &act->left, err));
  return compile_part(a, at + 1, strlen(at + 1), nesting, &act->right, err);
}

static crn_status compile(crn_arena *a, const char *text, int nesting, crn_activation **out, crn_err *err) {
  static const char *const operators[] = {"+", "-", "*", "/"};
  if (!text || !text[0] || strcmp(text, "none") == 0 || strcmp(text, "identity") == 0) {
    *out = activation_new(a, IDENTITY);
    return *out ? CRN_OK : crn_err_memory(err);
  }
  if (strchr(text, '(')) {
    if (!(*out = activation_new(a, EXPRESSION))) return crn_err_memory(err);
    return compile_expression(a, text, *out, err);
  }
  for (int i = 0; i < 4; i++) {
    if (!strchr(text, operators[i][0])) continue;
    if (nesting > MAX_PARTS) return crn_fail(err, CRN_E_CONFIG, "activation \"%s\" is nested too deeply", text);
    if (!(*out = activation_new(a, OPERATOR))) return crn_err_memory(err);
    return compile_operator(a, text, operators[i], nesting + 1, *out, err);
  }
  return compile_function(a, text, out, err);
}

crn_status crn_activation_compile(crn_arena *a, const char *text, crn_activation **out, crn_err *err) {
  char *own = text ? crn_arena_strdup(a, text) : NULL;
  if (text && !own) return crn_err_memory(err);
  return compile(a, own, 0, out, err);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static crn_status run(crn_run *r, const crn_activation *act, const crn_ev *x, const crn_value *opts, crn_ev *out);

static crn_status run_function(crn_run *r, const crn_activation *act, const crn_ev *x, const crn_value *opts,
                               crn_ev *out) {
  crn_opctx c = {.r = r, .row = act->row, .name = act->name};
  const char *names[CRN_OP_MAX_ARGS];
  crn_ev named[CRN_OP_MAX_ARGS];
  size_t n = crn_v_is_dict(opts) ? crn_v_len(opts) : 0;
  if (n > CRN_OP_MAX_ARGS) return crn_opc_fail(&c, "too many options");
  for (size_t i = 0; i < n; i++) {
    names[i] = crn_v_cstr(opts->u.dict.keys[i]);
    if (!names[i] || !crn_ev_of_value(r, opts->u.dict.vals[i], &named[i]))
      return crn_opc_fail(&c, "option %s isn't possible", names[i] ? names[i] : "that is no string");
  }
  return crn_optable_call(&c, &(crn_eargs){x, 1, names, named, (int)n}, out);
}

static crn_status run_operator(crn_run *r, const crn_activation *act, const crn_ev *x, crn_ev *out) {
  crn_ev a, b;
  CRN_TRY(run(r, act->left, x, NULL, &a));
  CRN_TRY(run(r, act->right, x, NULL, &b));
  crn_opctx c = {.r = r, .name = act->op};
  return crn_ev_binary(&c, act->op, &a, &b, out);
}

static crn_status run(crn_run *r, const crn_activation *act, const crn_ev *x, const crn_value *opts, crn_ev *out) {
  switch (act->kind) {
  case IDENTITY:
    *out = *x;
    return CRN_OK;
  case NUMBER:
    *out = act->number;
    return CRN_OK;
  case FUNCTION:
    return run_function(r, act, x, opts, out);
  case OPERATOR:
    return run_operator(r, act, x, out);
  default: {
    crn_ev copy = *x;
    return crn_eval_run(r, act->expression, &(crn_eval_env){.user = &copy, .name = x_of}, out);
  }
  }
}

crn_tensor *crn_activation_apply(crn_run *r, const crn_activation *act, crn_tensor *x, const crn_made *made,
                                 const crn_value *opts) {
  crn_ev in = crn_ev_of_tensor(x), out = crn_ev_none();
  if (!x || crn_run_failed(r)) return NULL;
  in.made = made;
  if (crn_v_len(opts) > 0 && act->kind != FUNCTION) {
    (void)crn_fail(r->err, CRN_E_CONFIG, "options are given to an activation that isn't a single function");
    return NULL;
  }
  if (run(r, act, &in, opts, &out) != CRN_OK) {
    (void)crn_err_where(r->err, "activation");
    return NULL;
  }
  if (out.kind == CRN_EV_TENSOR) return out.u.t;
  (void)crn_fail(r->err, CRN_E_CONFIG, "the activation gives %s, not a tensor", crn_ev_kind_name(&out));
  return NULL;
}

crn_tensor *crn_activation_run(crn_run *r, const crn_activation *act, crn_tensor *x) {
  return crn_activation_apply(r, act, x, NULL, NULL);
}

const char *crn_activation_mixes(const crn_activation *act) {
  if (act->kind == FUNCTION) return crn_oprow_is_elementwise(act->row) ? NULL : act->name;
  if (act->kind == EXPRESSION) return crn_eval_mixes(act->expression);
  if (act->kind != OPERATOR) return NULL;
  const char *left = crn_activation_mixes(act->left);
  return left ? left : crn_activation_mixes(act->right);
}

const char *crn_activation_name(const crn_activation *act) {
  static const char *const aliases[][2] = {{"silu", "swish"}, {"negative", "neg"}, {"rint", "round"}};
  if (act->kind == IDENTITY) return "identity";
  if (act->kind != FUNCTION) return NULL;
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
    if (strcmp(act->name, aliases[i][0]) == 0) return aliases[i][1];
  return act->name;
}
