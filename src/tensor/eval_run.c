/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a compiled expression: values are computed from the leaves up; bare names and objects are the caller's.
 */
#include <string.h>

#include "tensor/eval_ast.h"

typedef struct machine {
  crn_run *r;
  const crn_eval_env *env;
} machine;

static crn_status run_node(machine *m, const crn_enode *n, crn_ev *out);

static crn_opctx context(machine *m, const crn_enode *n, const char *name) {
  return (crn_opctx){.r = m->r, .name = name, .owner = m->env ? m->env->owner : NULL, .column = n->column};
}

/* Failure at a node: "column 12: …". */
static crn_status fail_at(machine *m, const crn_enode *n, const char *fmt, ...) CRN_PRINTF(3, 4);
static crn_status fail_at(machine *m, const crn_enode *n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  crn_status s = crn_failv(m->r->err, CRN_E_RUNTIME, fmt, ap);
  va_end(ap);
  (void)crn_err_where(m->r->err, "column %d", n->column);
  return s;
}

/* ---- names and objects ------------------------------------------------------------------------------------------ */

static crn_status run_name(machine *m, const crn_enode *n, crn_ev *out) {
  bool found = false;
  if (m->env && m->env->name) CRN_TRY(m->env->name(m->env->user, m->r, n->text, out, &found));
  if (found) return CRN_OK;
  if (n->row) {
    *out = (crn_ev){.kind = CRN_EV_FUNC, .u.row = n->row};
    return CRN_OK;
  }
  char near[96];
  const char *best = crn_optable_nearest(n->text, near, sizeof near);
  return fail_at(m, n, "unknown name '%s'%s%s%s", n->text, best ? ", nearest is '" : "", best ? best : "",
                 best ? "'" : "");
}

/* Attributes of tensors, shapes (tuples) and dtypes. False: none of that name. */
static bool plain_attribute(machine *m, const crn_ev *object, const char *attr, crn_ev *out) {
  if (object->kind == CRN_EV_TENSOR && strcmp(attr, "dtype") == 0) {
    *out = (crn_ev){.kind = CRN_EV_DTYPE, .u.dtype = object->u.t->dtype};
  } else if (object->kind == CRN_EV_TENSOR && strcmp(attr, "shape") == 0) {
    crn_opctx c = {.r = m->r, .row = crn_optable_find("get_shape")};
    return crn_optable_call(&c, &(crn_eargs){.pos = object, .n_pos = 1}, out) == CRN_OK;
  } else if (object->kind == CRN_EV_TENSOR && strcmp(attr, "ndim") == 0) {
    *out = crn_ev_of_int(object->u.t->rank);
  } else if (object->kind == CRN_EV_TUPLE && (strcmp(attr, "ndims") == 0 || strcmp(attr, "rank") == 0)) {
    *out = crn_ev_of_int(object->u.seq.n);
  } else if (object->kind == CRN_EV_TUPLE && object->u.seq.n == 2 && strcmp(attr, "values") == 0) {
    *out = object->u.seq.items[0]; /* of tf.math.top_k */
  } else if (object->kind == CRN_EV_TUPLE && object->u.seq.n == 2 && strcmp(attr, "indices") == 0) {
    *out = object->u.seq.items[1];
  } else if (object->kind == CRN_EV_DTYPE && strcmp(attr, "base_dtype") == 0) {
    *out = *object;
  } else if (object->kind == CRN_EV_DTYPE && strcmp(attr, "name") == 0) {
    *out = crn_ev_of_str(crn_dtype_name(object->u.dtype));
  } else {
    return false;
  }
  return true;
}

static crn_status run_attr(machine *m, const crn_enode *n, crn_ev *out) {
  crn_ev object;
  bool found = false;
  CRN_TRY(run_node(m, n->kids[0], &object));
  if (object.kind == CRN_EV_OBJECT && m->env && m->env->attr)
    CRN_TRY(m->env->attr(m->env->user, m->r, &object, n->text, out, &found));
  else
    found = plain_attribute(m, &object, n->text, out);
  if (crn_run_failed(m->r)) return m->r->err->code;
  return found ? CRN_OK : fail_at(m, n, "%s has no attribute '%s'", crn_ev_kind_name(&object), n->text);
}

static crn_status run_index(machine *m, const crn_enode *n, crn_ev *out) {
  crn_ev object, index;
  bool found = false;
  CRN_TRY(run_node(m, n->kids[0], &object));
  CRN_TRY(run_node(m, n->kids[1], &index));
  if (object.kind == CRN_EV_OBJECT && m->env && m->env->item)
    CRN_TRY(m->env->item(m->env->user, m->r, &object, &index, out, &found));
  if (found) return CRN_OK;
  crn_opctx c = context(m, n, "indexing");
  return crn_ev_index(&c, &object, &index, out);
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* The function's name as it is written, for messages. */
static const char *callee_name(const crn_enode *n) {
  return n->kind == CRN_E_CONST || n->kind == CRN_E_NAME || n->kind == CRN_E_ATTR ? n->text : NULL;
}

/* Methods of tensors and shapes: x.get_shape(), shape.as_list(). False: not one of them. */
static bool plain_method(machine *m, const crn_ev *object, const char *name, crn_ev *out) {
  if (object->kind == CRN_EV_TENSOR && strcmp(name, "get_shape") == 0) return plain_attribute(m, object, "shape", out);
  if (object->kind != CRN_EV_TUPLE || strcmp(name, "as_list") != 0) return false;
  *out = *object;
  out->kind = CRN_EV_LIST;
  return true;
}

static crn_status run_arguments(machine *m, const crn_enode *n, crn_ev *values) {
  for (int i = 1; i < n->n_kids; i++) CRN_TRY(run_node(m, n->kids[i], &values[i - 1]));
  return CRN_OK;
}

static crn_status run_call(machine *m, const crn_enode *n, crn_ev *out) {
  const crn_enode *target = n->kids[0];
  crn_ev callee = crn_ev_none(), few[6], *values = few;
  if (target->kind == CRN_E_ATTR && n->n_kids == 1) {
    crn_ev object;
    CRN_TRY(run_node(m, target->kids[0], &object));
    if (plain_method(m, &object, target->text, out)) return CRN_OK;
    if (crn_run_failed(m->r)) return m->r->err->code;
  }
  CRN_TRY(run_node(m, target, &callee));
  if (n->n_kids - 1 > (int)(sizeof few / sizeof few[0])) {
    values = CRN_ARENA_ARRAY(&m->r->arena, crn_ev, n->n_kids - 1);
    if (!values) return crn_err_memory(m->r->err);
  }
  CRN_TRY(run_arguments(m, n, values));
  crn_eargs args = {values, n->n_pos, n->names, values + n->n_pos, n->n_names};
  *out = crn_ev_none();
  if (callee.kind == CRN_EV_FUNC) {
    crn_opctx c = context(m, n, callee_name(target));
    c.row = callee.u.row;
    return crn_optable_call(&c, &args, out);
  }
  if (callee.kind == CRN_EV_OBJECT && m->env && m->env->call)
    return m->env->call(m->env->user, m->r, &callee, &args, out);
  return fail_at(m, n, "%s can't be called", crn_ev_kind_name(&callee));
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

static crn_status run_binary(machine *m, const crn_enode *n, crn_ev *out) {
  crn_ev a, b;
  CRN_TRY(run_node(m, n->kids[0], &a));
  CRN_TRY(run_node(m, n->kids[1], &b));
  crn_opctx c = context(m, n, n->text);
  return crn_ev_binary(&c, n->text, &a, &b, out);
}

static crn_status compare(machine *m, const crn_enode *n, const char *op, const crn_ev *a, const crn_ev *b,
                          crn_ev *out) {
  crn_opctx c = context(m, n, op);
  bool negated = strstr(op, "not") != NULL;
  if (strncmp(op, "is", 2) == 0) {
    bool same = a->kind == b->kind;
    if (same && a->kind == CRN_EV_TENSOR)
      same = a->u.t == b->u.t;
    else if (same && a->kind != CRN_EV_NONE) {
      crn_ev equal;
      CRN_TRY(crn_ev_binary(&c, "==", a, b, &equal));
      same = equal.kind == CRN_EV_BOOL && equal.u.b;
    }
    *out = crn_ev_of_bool(same != negated);
    return CRN_OK;
  }
  if (strstr(op, "in") == NULL) return crn_ev_binary(&c, op, a, b, out);
  bool there = false;
  if (b->kind == CRN_EV_STR && a->kind == CRN_EV_STR) {
    there = strstr(b->u.s, a->u.s) != NULL;
  } else if (crn_ev_is_seq(b)) {
    for (int i = 0; i < b->u.seq.n && !there; i++) {
      crn_ev equal;
      CRN_TRY(crn_ev_binary(&c, "==", a, &b->u.seq.items[i], &equal));
      if (!crn_opc_bool(&c, &equal, &there)) return m->r->err->code;
    }
  } else {
    return fail_at(m, n, "'%s' isn't defined for %s", op, crn_ev_kind_name(b));
  }
  *out = crn_ev_of_bool(there != negated);
  return CRN_OK;
}

/* a < b < c is (a < b) and (b < c), b computed once. */
static crn_status run_compare(machine *m, const crn_enode *n, crn_ev *out) {
  crn_ev left, right;
  CRN_TRY(run_node(m, n->kids[0], &left));
  for (int i = 0; i < n->n_names; i++) {
    bool truth;
    CRN_TRY(run_node(m, n->kids[i + 1], &right));
    CRN_TRY(compare(m, n, n->names[i], &left, &right, out));
    if (i + 1 == n->n_names) break;
    crn_opctx c = context(m, n, "chain of comparisons");
    if (!crn_opc_bool(&c, out, &truth)) return m->r->err->code;
    if (!truth) break;
    left = right;
  }
  return CRN_OK;
}

static crn_status run_truth(machine *m, const crn_enode *n, const crn_enode *x, crn_ev *value, bool *truth) {
  static const char *const names[] = {[CRN_E_AND] = "and", [CRN_E_OR] = "or", [CRN_E_NOT] = "not", [CRN_E_COND] = "if"};
  CRN_TRY(run_node(m, x, value));
  crn_opctx c = context(m, n, names[n->kind]);
  return crn_opc_bool(&c, value, truth) ? CRN_OK : m->r->err->code;
}

static crn_status run_logic(machine *m, const crn_enode *n, crn_ev *out) {
  bool truth = false;
  const crn_enode *test = n->kind == CRN_E_COND ? n->kids[1] : n->kids[0];
  CRN_TRY(run_truth(m, n, test, out, &truth));
  if (n->kind == CRN_E_NOT)
    *out = crn_ev_of_bool(!truth);
  else if (n->kind == CRN_E_COND)
    return run_node(m, n->kids[truth ? 0 : 2], out);
  else if (truth == (n->kind == CRN_E_AND))
    return run_node(m, n->kids[1], out);
  return CRN_OK;
}

static crn_status run_items(machine *m, const crn_enode *n, crn_ev *out) {
  crn_ev *items = CRN_ARENA_ARRAY(&m->r->arena, crn_ev, n->n_kids ? n->n_kids : 1);
  if (!items) return crn_err_memory(m->r->err);
  for (int i = 0; i < n->n_kids; i++)
    if (n->kids[i]) CRN_TRY(run_node(m, n->kids[i], &items[i])); /* a slice's absent part stays None */
  if (n->kind == CRN_E_SLICE)
    *out = (crn_ev){.kind = CRN_EV_SLICE, .u.slice = items};
  else
    *out = (crn_ev){.kind = n->kind == CRN_E_TUPLE ? CRN_EV_TUPLE : CRN_EV_LIST, .u.seq = {items, n->n_kids}};
  return CRN_OK;
}

static crn_status run_node(machine *m, const crn_enode *n, crn_ev *out) {
  *out = crn_ev_none();
  switch (n->kind) {
  case CRN_E_CONST:
    *out = n->value;
    return CRN_OK;
  case CRN_E_NAME:
    return run_name(m, n, out);
  case CRN_E_ATTR:
    return run_attr(m, n, out);
  case CRN_E_CALL:
    return run_call(m, n, out);
  case CRN_E_INDEX:
    return run_index(m, n, out);
  case CRN_E_BINARY:
    return run_binary(m, n, out);
  case CRN_E_COMPARE:
    return run_compare(m, n, out);
  case CRN_E_UNARY: {
    crn_ev x;
    CRN_TRY(run_node(m, n->kids[0], &x));
    crn_opctx c = context(m, n, n->text);
    return crn_ev_unary(&c, n->text, &x, out);
  }
  case CRN_E_AND:
  case CRN_E_OR:
  case CRN_E_NOT:
  case CRN_E_COND:
    return run_logic(m, n, out);
  default:
    return run_items(m, n, out);
  }
}

crn_status crn_eval_run(crn_run *r, const crn_eval *e, const crn_eval_env *env, crn_ev *out) {
  machine m = {r, env};
  if (crn_run_failed(r)) return r->err->code;
  crn_status s = run_node(&m, e->root, out);
  if (s == CRN_OK && crn_run_failed(r)) s = r->err->code;
  if (s != CRN_OK) (void)crn_err_where(r->err, "\"%.200s\"", e->text);
  return s;
}

/* ---- looking at a text ------------------------------------------------------------------------------------------ */

typedef bool (*visit_fn)(void *user, const crn_enode *n);

static bool visit(const crn_enode *n, visit_fn fn, void *user) {
  if (!fn(user, n)) return false;
  for (int i = 0; i < n->n_kids; i++)
    if (n->kids[i] && !visit(n->kids[i], fn, user)) return false;
  return true;
}

typedef struct name_visit {
  bool (*fn)(void *user, const char *name, bool builtin);
  void *user;
} name_visit;

static bool visit_name(void *user, const crn_enode *n) {
  const name_visit *v = user;
  return n->kind != CRN_E_NAME || v->fn(v->user, n->text, n->row != NULL);
}

bool crn_eval_each_name(const crn_eval *e, bool (*fn)(void *user, const char *name, bool builtin), void *user) {
  name_visit v = {fn, user};
  return visit(e->root, visit_name, &v);
}

typedef struct call_visit {
  const char *name;
  bool (*fn)(void *user, const crn_eval_call *call);
  void *user;
} call_visit;

/* The value of a constant argument, also a negative number; ELLIPSIS for what is known only when it runs. */
static crn_ev constant_of(const crn_enode *n) {
  if (n->kind == CRN_E_CONST) return n->value;
  if (n->kind == CRN_E_UNARY && n->text[0] == '-' && n->kids[0]->kind == CRN_E_CONST) {
    const crn_ev *v = &n->kids[0]->value;
    if (v->kind == CRN_EV_INT && v->u.i > 0) return crn_ev_of_int(-v->u.i);
    if (v->kind == CRN_EV_FLOAT) return crn_ev_of_float(-v->u.f);
  }
  return (crn_ev){.kind = CRN_EV_ELLIPSIS};
}

static bool visit_call(void *user, const crn_enode *n) {
  const call_visit *v = user;
  crn_ev values[32];
  if (n->kind != CRN_E_CALL || n->kids[0]->kind != CRN_E_NAME || strcmp(n->kids[0]->text, v->name) != 0) return true;
  int n_pos = n->n_pos, n_named = n->n_names;
  if (n_pos + n_named > 32) n_pos = n_named = 0; /* no function that is looked for takes so many */
  for (int i = 0; i < n_pos + n_named; i++) values[i] = constant_of(n->kids[i + 1]);
  return v->fn(v->user, &(crn_eval_call){n_pos, n_named, n->column, values, n->names, values + n_pos});
}

bool crn_eval_each_call(const crn_eval *e, const char *name, bool (*fn)(void *user, const crn_eval_call *call),
                        void *user) {
  call_visit v = {name, fn, user};
  return visit(e->root, visit_call, &v);
}

static bool visit_mixing(void *user, const crn_enode *n) {
  const char **what = user;
  if (n->kind == CRN_E_INDEX) *what = "[…]";
  if (n->kind == CRN_E_ATTR) *what = n->kids[0]->kind == CRN_E_NAME ? n->kids[0]->text : n->text;
  if (n->kind == CRN_E_BINARY && !strcmp(n->text, "@")) *what = "@";
  if (n->kind == CRN_E_NAME && n->row && !crn_oprow_is_elementwise(n->row)) *what = n->text;
  if (n->kind == CRN_E_NAME && !strcmp(n->text, "self")) *what = n->text;
  if (n->kind == CRN_E_CONST && n->value.kind == CRN_EV_FUNC && !crn_oprow_is_elementwise(n->value.u.row))
    *what = n->value.u.row->names;
  return !*what;
}

const char *crn_eval_mixes(const crn_eval *e) {
  const char *what = NULL;
  (void)visit(e->root, visit_mixing, &what);
  return what;
}

bool crn_ev_of_value(crn_run *r, const crn_value *v, crn_ev *out) {
  *out = crn_ev_none();
  if (!v) return true;
  switch (v->kind) {
  case CRN_V_NONE:
    return true;
  case CRN_V_BOOL:
    *out = crn_ev_of_bool(v->u.b);
    return true;
  case CRN_V_INT:
    *out = crn_ev_of_int(v->u.i);
    return true;
  case CRN_V_FLOAT:
    *out = crn_ev_of_float(v->u.f);
    return true;
  case CRN_V_STR:
    *out = crn_ev_of_str(v->u.s.p);
    return true;
  case CRN_V_ARRAY: {
    crn_dtype t;
    if (!crn_dtype_from_name(v->u.array.dtype, &t)) return false;
    crn_tensor *x = crn_t_copy_in(r, CRN_F64, v->u.array.rank, v->u.array.shape, v->u.array.data);
    x = crn_cast(r, x, t == CRN_F32 || t == CRN_F64 ? r->real : t);
    if (x) *out = crn_ev_of_tensor(x);
    return x != NULL;
  }
  case CRN_V_LIST:
  case CRN_V_TUPLE: {
    size_t n = v->u.seq.n;
    crn_ev *items = n < INT32_MAX ? CRN_ARENA_ARRAY(&r->arena, crn_ev, n ? n : 1) : NULL;
    if (!items) {
      (void)crn_err_memory(r->err);
      return false;
    }
    for (size_t i = 0; i < n; i++)
      if (!crn_ev_of_value(r, v->u.seq.items[i], &items[i])) return false;
    *out = (crn_ev){.kind = v->kind == CRN_V_LIST ? CRN_EV_LIST : CRN_EV_TUPLE, .u.seq = {items, (int)n}};
    return true;
  }
  default:
    return false;
  }
}
