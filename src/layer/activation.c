/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations of layers: one function by name, remembered with its argument, so that losses and logarithms are exact.
 */
#include "layer/activation.h"

#include <string.h>

struct crn_act {
  const char *name;
  bool softmax, log_softmax;
  crn_unary_kind kind;
};

crn_status crn_act_of(crn_build *b, const crn_layer *l, const crn_value *v, const char *option, crn_act **out) {
  *out = NULL;
  if (crn_v_is_none(v) || (v->kind == CRN_V_BOOL && !v->u.b)) return CRN_OK;
  const char *s = crn_v_cstr(v);
  if (!s) return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected the name of an activation, got %s", option, crn_v_kind_name(v));
  if (!s[0] || !strcmp(s, "none") || !strcmp(s, "identity")) return CRN_OK;
  crn_act *a = CRN_ARENA_NEW(crn_build_arena(b), crn_act);
  if (!a) return crn_err_memory(crn_build_err(b));
  a->name = s;
  a->softmax = !strcmp(s, "softmax");
  a->log_softmax = !strcmp(s, "log_softmax");
  *out = a;
  if (a->softmax || a->log_softmax) return CRN_OK;
  if (crn_unary_from_name(s, &a->kind)) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': invalid activation function '%s'", option, s);
}

bool crn_act_is_softmax(const crn_act *a) { return a && (a->softmax || a->log_softmax); }
const char *crn_act_name(const crn_act *a) { return a ? a->name : NULL; }

static crn_tensor *over_feature(crn_run *r, const crn_act *a, crn_tensor *v, int axis) {
  int perm[CRN_MAX_RANK], back[CRN_MAX_RANK], k = 0;
  const bool last = axis < 0 || axis == v->rank - 1;
  for (int i = 0; i < v->rank; i++)
    if (i != axis) perm[k++] = i;
  if (axis >= 0) perm[k] = axis;
  for (int i = 0; i < v->rank && !last; i++) back[perm[i]] = i;
  if (!last) v = crn_transpose(r, v, perm);
  v = a->softmax ? crn_softmax(r, v) : crn_log_softmax(r, v);
  return last ? v : crn_transpose(r, v, back);
}

crn_status crn_act_apply(crn_exec *x, crn_layer *l, const crn_act *a, crn_data *d) {
  crn_run *r = crn_exec_run(x);
  (void)l;
  if (!a || !d->v) return d->v ? CRN_OK : r->err->code;
  d->pre = d->v;
  d->pre_act = a->name;
  d->v = crn_act_is_softmax(a) ? over_feature(r, a, d->v, d->t.feature_axis) : crn_unary(r, a->kind, d->v);
  return d->v ? CRN_OK : r->err->code;
}
