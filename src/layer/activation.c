/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations of layers: one function or an expression, remembered with its argument, so that losses and logarithms are
 * exact.
 */
#include "layer/activation.h"

#include <string.h>

#include "tensor/eval.h"

struct crn_act {
  crn_activation *fn;
  const char *name; /* of one function, else NULL */
  bool softmax;
};

static crn_status fail_option(crn_build *b, const crn_layer *l, const char *option, crn_status st) {
  if (st == CRN_OK) return st;
  (void)crn_err_where(crn_build_err(b), "option '%s'", option);
  return crn_err_where(crn_build_err(b), "network: layer '%s' (%s)", l->path, l->desc->name);
}

crn_status crn_act_of(crn_build *b, crn_layer *l, const crn_value *v, const char *option, crn_act **out) {
  *out = NULL;
  if (crn_v_is_none(v) || (v->kind == CRN_V_BOOL && !v->u.b)) return CRN_OK;
  const char *s = crn_v_cstr(v);
  if (!s)
    return v->kind == CRN_V_CALLABLE
               ? crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: option '%s' as a function", option)
               : crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected the name of an activation, got %s", option,
                                crn_v_kind_name(v));
  crn_act *a = CRN_ARENA_NEW(crn_build_arena(b), crn_act);
  if (!a) return crn_err_memory(crn_build_err(b));
  CRN_TRY(fail_option(b, l, option, crn_activation_compile(crn_build_arena(b), s, &a->fn, crn_build_err(b))));
  a->name = crn_activation_name(a->fn);
  if (a->name && !strcmp(a->name, "identity")) return CRN_OK;
  a->softmax = a->name && (!strcmp(a->name, "softmax") || !strcmp(a->name, "log_softmax"));
  if (!a->softmax && !l->mixes) l->mixes = crn_activation_mixes(a->fn);
  *out = a;
  return CRN_OK;
}

bool crn_act_is_softmax(const crn_act *a) { return a && a->softmax; }
const char *crn_act_name(const crn_act *a) { return a ? a->name : NULL; }

static crn_tensor *over_feature(crn_run *r, const crn_act *a, crn_tensor *v, int axis) {
  int perm[CRN_MAX_RANK], back[CRN_MAX_RANK], k = 0;
  if (axis < 0 || axis == v->rank - 1) return crn_activation_run(r, a->fn, v);
  for (int i = 0; i < v->rank; i++)
    if (i != axis) perm[k++] = i;
  perm[k] = axis;
  for (int i = 0; i < v->rank; i++) back[perm[i]] = i;
  return crn_transpose(r, crn_activation_run(r, a->fn, crn_transpose(r, v, perm)), back);
}

crn_status crn_act_apply_opts(crn_exec *x, const crn_act *a, const crn_value *opts, crn_data *d) {
  crn_run *r = crn_exec_run(x);
  if (!a || !d->v) return d->v ? CRN_OK : r->err->code;
  const crn_made made = {.act = d->pre_act, .from = d->pre};
  crn_tensor *before = d->v;
  if (a->softmax)
    d->v = over_feature(r, a, d->v, d->t.feature_axis);
  else
    d->v = crn_activation_apply(r, a->fn, d->v, d->pre && d->pre_act ? &made : NULL, opts);
  d->pre = a->name ? before : NULL;
  d->pre_act = a->name;
  return d->v ? CRN_OK : r->err->code;
}

/* Whether losses, choices or logarithms may ask for the activation's input. */
static bool input_is_read(crn_exec *x, const crn_layer *l, const crn_act *a) {
  static const char *const read[] = {"softmax", "log_softmax", "sigmoid", "log_sigmoid", "exp", "log"};
  if (crn_exec_run(x)->recording || crn_layer_has_losses(l) || !a->name) return true;
  for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
    if (!strcmp(a->name, read[i])) return crn_pre_is_read(x, l);
  return false;
}

crn_status crn_act_apply(crn_exec *x, crn_layer *l, const crn_act *a, crn_data *d) {
  d->pre = NULL;
  d->pre_act = NULL;
  CRN_TRY(crn_act_apply_opts(x, a, NULL, d));
  if (!a || input_is_read(x, l, a)) return CRN_OK;
  d->pre = NULL; /* its memory can go */
  d->pre_act = NULL;
  return CRN_OK;
}

/* act(v) written over v where that is possible. */
static crn_tensor *run_over(crn_run *r, const crn_act *a, crn_tensor *v, int axis) {
  crn_unary_kind kind;
  if (a->softmax && (axis < 0 || axis == v->rank - 1)) return crn_softmax_over(r, v, a->name[0] == 'l');
  if (!a->softmax && crn_unary_from_name(a->name, &kind)) return crn_unary_over(r, kind, v);
  return a->softmax ? over_feature(r, a, v, axis) : crn_activation_run(r, a->fn, v);
}

crn_status crn_act_apply_over(crn_exec *x, crn_layer *l, const crn_act *a, crn_data *d) {
  if (!a || !d->v || input_is_read(x, l, a)) return crn_act_apply(x, l, a, d);
  d->pre = NULL;
  d->pre_act = NULL;
  d->v = run_over(crn_exec_run(x), a, d->v, d->t.feature_axis);
  return d->v ? CRN_OK : crn_exec_run(x)->err->code;
}
