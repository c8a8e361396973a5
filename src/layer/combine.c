/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that join several sources value by value: combine, compare, switch. Axes are united (layers-1.md, C3).
 */
#include <string.h>

#include "layer/activation.h"
#include "layer/eval.h"
#include "layer/fused.h"

typedef struct combine_cfg {
  const char *kind;
  const crn_value *eval, *eval_locals;
  const crn_value *activation;
  int with_bias, eval_for_output_loss, allow_broadcast;
  double value;
  crn_act *act;
  crn_binary_kind op;
  bool average;
  crn_layer_eval *code; /* kind eval */
} combine_cfg;

#define OFF(f) offsetof(combine_cfg, f)
static const crn_opt combine_opts[] = {
    {.name = "kind", .type = CRN_OPT_STR, .offset = OFF(kind), .doc = "operation: add, sub, mul, truediv, maximum, …"},
    {.name = "activation", .type = CRN_OPT_VALUE, .offset = OFF(activation), .dflt = "None", .doc = "applied afterwards"},
    {.name = "with_bias", .type = CRN_OPT_BOOL, .offset = OFF(with_bias), .dflt = "False", .doc = "add a bias before the activation"},
    {.name = "eval", .type = CRN_OPT_VALUE, .offset = OFF(eval), .dflt = "None", .doc = "expression, for kind eval"},
    {.name = "eval_locals", .type = CRN_OPT_VALUE, .offset = OFF(eval_locals), .dflt = "None", .wide = true, .doc = "names of the expression"},
    {.name = "eval_for_output_loss", .type = CRN_OPT_BOOL, .offset = OFF(eval_for_output_loss), .dflt = "False", .doc = "combine the sources' losses too"},
    {.name = "allow_broadcast_all_sources", .type = CRN_OPT_BOOL, .offset = OFF(allow_broadcast), .dflt = "False", .none_ok = true, .doc = "no source needs to have all axes"},
    CRN_OPT_END};

static crn_tensor *fitted(crn_exec *x, const crn_data *d, crn_data *out) {
  if (!d) return NULL;
  crn_take_lengths(x, d, out);
  return crn_data_fit(crn_exec_run(x), d, &out->t, crn_exec_version(x), false);
}

/* A result that broadcasting has left with size-1 axes gets its full shape. */
static crn_tensor *widen(crn_exec *x, crn_layer *l, crn_tensor *v, const crn_tmpl *t) {
  int64_t shape[CRN_MAX_RANK];
  bool same = true;
  if (!v) return NULL;
  for (int i = 0; i < v->rank; i++) {
    shape[i] = v->shape[i];
    if (t->dims[i]->size > 1 && v->shape[i] == 1) shape[i] = t->dims[i]->size;
    same &= shape[i] == v->shape[i];
  }
  (void)l;
  return same ? v : crn_broadcast_to(crn_exec_run(x), v, v->rank, shape);
}

static bool kind_of(combine_cfg *c) {
  c->average = !strcmp(c->kind, "average");
  if (c->average) {
    c->op = CRN_B_ADD;
    return true;
  }
  return crn_binary_from_name(c->kind, &c->op);
}

static bool gives_bool(crn_binary_kind k) { return k >= CRN_B_EQUAL && k <= CRN_B_GREATER_EQUAL; }

static crn_status combine_infer(crn_build *b, crn_layer *l) {
  combine_cfg *c = l->cfg;
  bool known;
  const bool eval = !c->kind || !strcmp(c->kind, "eval");
  if (eval) CRN_TRY(crn_layer_eval_of(b, l, c->eval, c->eval_locals, &c->code));
  else if (!kind_of(c)) {
    const char *names[CRN_N_BINARY];
    for (int i = 0; i < CRN_N_BINARY; i++) names[i] = crn_binary_name((crn_binary_kind)i);
    const char *near = crn_nearest(c->kind, names, CRN_N_BINARY);
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'kind': unknown kind '%s'%s%s%s", c->kind, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  CRN_TRY(crn_act_of(b, l, c->activation, "activation", &c->act));
  CRN_TRY(crn_united_tmpl(b, l, c->allow_broadcast > 0, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  for (int i = 0; i < l->n_src && !eval; i++) {
    const crn_tmpl *s = crn_source_tmpl(l, i);
    if (s && s->dtype != l->out.dtype)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "sources have different types: '%s' is %s, but %s is needed", l->src[i]->path, crn_dtype_name(s->dtype), crn_dtype_name(l->out.dtype));
  }
  if (!eval && l->n_src > 1 && gives_bool(c->op) && l->out.dtype != CRN_BOOL)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'kind': '%s' gives bool, but the sources are %s; use the compare layer", c->kind, crn_dtype_name(l->out.dtype));
  return crn_apply_out_type(b, l, &l->out);
}

static crn_status combine_params(crn_build *b, crn_layer *l) {
  const combine_cfg *c = l->cfg;
  if (!c->with_bias) return CRN_OK;
  crn_param_spec s = {.name = "b", .rank = 1, .shape = {crn_tmpl_dim(&l->out)}, .init_default = "0", .dtype = CRN_F32};
  return crn_layer_param(b, l, &s);
}

static crn_status combine_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const combine_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *v = NULL;
  if (c->code) CRN_TRY(crn_layer_eval_run(x, l, c->code, out));
  for (int i = 0; i < l->n_src && !c->code; i++) {
    crn_tensor *s = fitted(x, crn_source(x, l, i), out);
    v = i == 0 ? s : crn_binary(r, c->op, v, s);
    if (!v) return r->err->code;
  }
  if (c->average && l->n_src > 1) v = crn_scale(r, v, 1.0 / l->n_src);
  if (!c->code) out->v = widen(x, l, v, &out->t);
  if (c->with_bias) {
    int64_t shape[CRN_MAX_RANK];
    crn_tensor *bias = crn_param_get(x, l, "b");
    for (int i = 0; bias && i < out->t.n; i++) shape[i] = i == out->t.feature_axis ? bias->shape[0] : 1;
    out->v = crn_add(r, out->v, crn_t_reshape(r, bias, out->t.n, shape));
  }
  return crn_act_apply(x, l, c->act, out);
}

static const crn_opt eval_opts[] = {
    {.name = "eval", .type = CRN_OPT_VALUE, .offset = OFF(eval), .doc = "expression over source(i)"},
    {.name = "eval_locals", .type = CRN_OPT_VALUE, .offset = OFF(eval_locals), .dflt = "None", .wide = true, .doc = "names of the expression"},
    {.name = "activation", .type = CRN_OPT_VALUE, .offset = OFF(activation), .dflt = "None", .doc = "applied afterwards"},
    {.name = "with_bias", .type = CRN_OPT_BOOL, .offset = OFF(with_bias), .dflt = "False", .doc = "add a bias before the activation"},
    {.name = "eval_for_output_loss", .type = CRN_OPT_BOOL, .offset = OFF(eval_for_output_loss), .dflt = "False", .doc = "combine the sources' losses too"},
    {.name = "allow_broadcast_all_sources", .type = CRN_OPT_BOOL, .offset = OFF(allow_broadcast), .dflt = "False", .none_ok = true, .doc = "no source needs to have all axes"},
    CRN_OPT_END};

bool crn_layer_is_plain_sum(const crn_layer *l) {
  if (l->desc->forward != combine_forward) return false;
  const combine_cfg *c = l->cfg;
  return !c->code && !c->average && c->op == CRN_B_ADD && !c->act && !c->with_bias && l->n_src >= 2;
}

/* ---- compare -------------------------------------------------------------------------------------------------------- */

static const crn_opt compare_opts[] = {
    {.name = "kind", .type = CRN_OPT_STR, .offset = OFF(kind), .dflt = "\"equal\"", .doc = "equal, not_equal, less, less_equal, greater, greater_equal"},
    {.name = "value", .type = CRN_OPT_FLOAT, .offset = OFF(value), .dflt = "None", .doc = "number compared last"},
    {.name = "allow_broadcast_all_sources", .type = CRN_OPT_BOOL, .offset = OFF(allow_broadcast), .dflt = "False", .none_ok = true, .doc = "no source needs to have all axes"},
    CRN_OPT_END};

static bool compare_kind(combine_cfg *c) {
  static const struct {
    const char *sign, *name;
  } signs[] = {{"==", "equal"}, {"!=", "not_equal"}, {"<>", "not_equal"}, {"<", "less"}, {"<=", "less_equal"}, {">", "greater"}, {">=", "greater_equal"}};
  const char *name = c->kind;
  for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
    if (!strcmp(c->kind, signs[i].sign)) name = signs[i].name;
  return crn_binary_from_name(name, &c->op);
}

static crn_status compare_infer(crn_build *b, crn_layer *l) {
  combine_cfg *c = l->cfg;
  bool known;
  if (!compare_kind(c)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'kind': unknown kind '%s'", c->kind);
  if (c->value != c->value && l->n_src < 2) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs two sources, or a source and 'value'");
  CRN_TRY(crn_united_tmpl(b, l, c->allow_broadcast > 0, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  l->out.sparse = false;
  l->out.sparse_dim = NULL;
  l->out.vocab = NULL;
  const bool had_feature = l->out.feature_axis >= 0;
  if (!had_feature) { /* a sparse source has no feature axis, and none appears */
    l->out.feature_explicit = true;
  }
  l->out.dtype = CRN_BOOL;
  CRN_TRY(crn_apply_out_type(b, l, &l->out));
  if (l->out.sparse && !l->out.sparse_dim) l->out.sparse_dim = crn_layer_dim(b, l, "sparse-dim", CRN_DIM_FEATURE, 2);
  return CRN_OK;
}

static crn_status compare_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const combine_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *last = NULL, *v = NULL;
  for (int i = 0; i <= l->n_src; i++) {
    crn_tensor *s;
    if (i < l->n_src) s = fitted(x, crn_source(x, l, i), out);
    else if (c->value == c->value && last) s = crn_t_scalar(r, last->dtype, c->value);
    else break;
    if (!s) return r->err->code;
    if (last) {
      if (s->dtype != last->dtype) s = crn_cast(r, s, last->dtype);
      crn_tensor *one = crn_binary(r, c->op, last, s);
      v = v ? crn_binary(r, CRN_B_LOGICAL_AND, v, one) : one;
    }
    last = s;
  }
  out->v = widen(x, l, v, &out->t);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- switch --------------------------------------------------------------------------------------------------------- */

typedef struct switch_cfg {
  const crn_value *condition, *true_from, *false_from;
  crn_layer *layer[3]; /* true, false, condition; NULL = number */
  double number[2];
} switch_cfg;

#define SOFF(f) offsetof(switch_cfg, f)
static const crn_opt switch_opts[] = {
    {.name = "condition", .type = CRN_OPT_VALUE, .offset = SOFF(condition), .doc = "bool layer"},
    {.name = "true_from", .type = CRN_OPT_VALUE, .offset = SOFF(true_from), .doc = "layer or number where true"},
    {.name = "false_from", .type = CRN_OPT_VALUE, .offset = SOFF(false_from), .doc = "layer or number where false"},
    CRN_OPT_END};

static crn_status switch_refs(crn_build *b, crn_layer *l) {
  switch_cfg *c = l->cfg;
  const crn_value *v[3] = {c->true_from, c->false_from, c->condition};
  static const char *const names[3] = {"true_from", "false_from", "condition"};
  if (l->n_src) return crn_layer_fail(b, l, CRN_E_CONFIG, "takes no 'from'");
  for (int i = 0; i < 3; i++) {
    if (v[i]->kind == CRN_V_CALLABLE)
      return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: '%s' as a function", names[i]);
    if (crn_v_is_str(v[i])) CRN_TRY(crn_layer_ref(b, l, crn_v_cstr(v[i]), CRN_EDGE_DATA, names[i], &c->layer[i]));
    else if (i == 2 || !crn_v_to_float(v[i], &c->number[i]))
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected a layer name%s", names[i], i < 2 ? " or a number" : "");
  }
  return CRN_OK;
}

static crn_status switch_infer(crn_build *b, crn_layer *l) {
  const switch_cfg *c = l->cfg;
  const crn_tmpl *ts[3];
  int n = 0;
  for (int i = 0; i < 3; i++)
    if (c->layer[i] && c->layer[i]->out_known) ts[n++] = &c->layer[i]->out;
  const crn_layer *main = c->layer[0] && c->layer[0]->out_known ? c->layer[0] : c->layer[1] && c->layer[1]->out_known ? c->layer[1] : NULL;
  l->out_known = n > 0 && (main || (!c->layer[0] && !c->layer[1]));
  if (!l->out_known) return CRN_OK;
  if (c->layer[2]->out_known && c->layer[2]->out.dtype != CRN_BOOL)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'condition': layer '%s' must be bool, it is %s", c->layer[2]->path, crn_dtype_name(c->layer[2]->out.dtype));
  CRN_TRY(crn_tmpl_unite(ts, n, crn_build_version(b), false, &l->out, NULL, NULL, crn_build_err(b)));
  l->out.dtype = main ? main->out.dtype : CRN_F32;
  l->out.sparse = main && main->out.sparse;
  l->out.sparse_dim = main ? main->out.sparse_dim : NULL;
  l->out.vocab = main ? main->out.vocab : NULL;
  if (main && !l->out.sparse && main->out.feature_axis < 0) l->out.feature_explicit = true, l->out.feature_axis = -1;
  crn_tmpl_update_roles(&l->out);
  if (c->layer[0] && c->layer[1] && c->layer[0]->out_known && c->layer[1]->out_known) {
    const crn_tmpl *t = &c->layer[0]->out, *f = &c->layer[1]->out;
    if (t->dtype != f->dtype || t->sparse != f->sparse)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "the branches differ: '%s' is %s%s, '%s' is %s%s", c->layer[0]->path, crn_dtype_name(t->dtype), t->sparse ? " sparse" : "", c->layer[1]->path, crn_dtype_name(f->dtype), f->sparse ? " sparse" : "");
  }
  return CRN_OK;
}

static crn_status switch_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const switch_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *v[3];
  const crn_dtype dtype = out->t.dtype == CRN_F32 ? r->real : out->t.dtype;
  for (int i = 0; i < 3; i++) {
    if (c->layer[i]) v[i] = fitted(x, crn_value_of(x, l, c->layer[i]), out);
    else v[i] = crn_t_scalar(r, dtype, c->number[i]);
    if (!v[i]) return r->err->code;
  }
  out->v = widen(x, l, crn_where(r, v[2], v[0], v[1]), &out->t);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_combine[] = {
    {.name = "combine", .doc = "Joins sources by an operation, from left to right.", .opts = combine_opts, .cfg_size = sizeof(combine_cfg), .flags = CRN_L_MANY_INPUTS | CRN_L_STREAMS,
     .infer = combine_infer, .params = combine_params, .forward = combine_forward},
    {.name = "eval", .doc = "Computes an expression.", .opts = eval_opts, .cfg_size = sizeof(combine_cfg), .flags = CRN_L_MANY_INPUTS | CRN_L_STREAMS,
     .infer = combine_infer, .params = combine_params, .forward = combine_forward},
    {.name = "compare", .doc = "Compares sources, and a number, in a chain.", .opts = compare_opts, .cfg_size = sizeof(combine_cfg), .flags = CRN_L_MANY_INPUTS | CRN_L_STREAMS,
     .infer = compare_infer, .forward = compare_forward},
    {.name = "switch", .doc = "Takes one of two values by a condition.", .opts = switch_opts, .cfg_size = sizeof(switch_cfg), .flags = CRN_L_MANY_INPUTS | CRN_L_NO_SOURCES | CRN_L_STREAMS,
     .refs = switch_refs, .infer = switch_infer, .forward = switch_forward},
    {.name = NULL}};
