/* SPDX-License-Identifier: Apache-2.0
 *
 * reinterpret_data: changes what the axes mean, not the values.
 */
#include <string.h>

#include "layer/layer.h"

typedef struct reint_cfg {
  int batch_major, time_major;
  const crn_value *switch_axes, *set_axes, *set_dim_tags, *set_sparse, *set_sparse_dim, *increase_sparse_dim;
  crn_layer *size_base, *batch_dim_base;
} reint_cfg;

#define OFF(f) offsetof(reint_cfg, f)
static const crn_opt reint_opts[] = {
    {.name = "enforce_batch_major", .type = CRN_OPT_BOOL, .offset = OFF(batch_major), .dflt = "False", .doc = "transpose so that the batch axis is first"},
    {.name = "enforce_time_major", .type = CRN_OPT_BOOL, .offset = OFF(time_major), .dflt = "False", .doc = "transpose so that the time axis is first"},
    {.name = "switch_axes", .type = CRN_OPT_VALUE, .offset = OFF(switch_axes), .dflt = "None", .doc = "two of B, T, F that exchange their roles"},
    {.name = "set_axes", .type = CRN_OPT_VALUE, .offset = OFF(set_axes), .dflt = "None", .doc = "role -> axis"},
    {.name = "size_base", .type = CRN_OPT_LAYER, .offset = OFF(size_base), .dflt = "None", .doc = "layer whose lengths are taken over"},
    {.name = "batch_dim_base", .type = CRN_OPT_LAYER, .offset = OFF(batch_dim_base), .dflt = "None", .doc = "layer whose batch is taken over"},
    {.name = "set_dim_tags", .type = CRN_OPT_VALUE, .offset = OFF(set_dim_tags), .dflt = "None", .doc = "axis -> dim"},
    {.name = "set_sparse", .type = CRN_OPT_VALUE, .offset = OFF(set_sparse), .dflt = "None", .doc = "mark as sparse or dense"},
    {.name = "set_sparse_dim", .type = CRN_OPT_VALUE, .offset = OFF(set_sparse_dim), .dflt = "None", .doc = "new number of labels"},
    {.name = "increase_sparse_dim", .type = CRN_OPT_VALUE, .offset = OFF(increase_sparse_dim), .dflt = "None", .doc = "add to the number of labels"},
    CRN_OPT_END};

static int role_axis(const crn_tmpl *t, char role) {
  if (role == 'B' || role == 'b') return crn_tmpl_batch_axis(t);
  return role == 'T' || role == 't' ? t->time_axis : t->feature_axis;
}

static crn_status set_role(crn_build *b, crn_layer *l, crn_tmpl *t, char role, int axis) {
  if (role == 'T' || role == 't') {
    t->time_axis = axis;
    t->time_explicit = true;
  } else if (role == 'F' || role == 'f') {
    t->feature_axis = axis;
    t->feature_explicit = true;
  } else if (axis < 0 || t->dims[axis]->kind != CRN_DIM_BATCH) {
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the role of batch can't move to another axis");
  }
  return CRN_OK;
}

static crn_status switch_roles(crn_build *b, crn_layer *l, const crn_value *v, crn_tmpl *t) {
  char r[2] = {0, 0};
  const char *s = crn_v_cstr(v);
  if (s && strlen(s) == 2) memcpy(r, s, 2);
  else if (crn_v_is_seq(v) && crn_v_len(v) == 2)
    for (int i = 0; i < 2; i++) r[i] = crn_v_cstr(crn_v_at(v, (size_t)i)) ? crn_v_cstr(crn_v_at(v, (size_t)i))[0] : 0;
  if (!r[0] || !strchr("BTFbtf", r[0]) || !r[1] || !strchr("BTFbtf", r[1])) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'switch_axes': expected two of B, T, F");
  const int a = role_axis(t, r[0]), c = role_axis(t, r[1]);
  CRN_TRY(set_role(b, l, t, r[0], c));
  return set_role(b, l, t, r[1], a);
}

static crn_status set_axes(crn_build *b, crn_layer *l, const reint_cfg *c, crn_tmpl *t) {
  for (size_t i = 0; crn_v_is_dict(c->set_axes) && i < c->set_axes->u.dict.n; i++) {
    const char *role = crn_v_cstr(c->set_axes->u.dict.keys[i]);
    const crn_value *v = c->set_axes->u.dict.vals[i];
    int axis = -1;
    if (!role || !strchr("BTFbtf", role[0]) || role[1]) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'set_axes': keys are B, T, F");
    if (v->kind == CRN_V_INT && !c->batch_major && !c->time_major) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'set_axes': positions need enforce_batch_major or enforce_time_major");
    if (!crn_v_is_none(v)) CRN_TRY(crn_layer_axis(b, l, t, v, "set_axes", &axis));
    CRN_TRY(set_role(b, l, t, role[0], axis));
  }
  return CRN_OK;
}

static crn_status take_dims(crn_build *b, crn_layer *l, const crn_tmpl *base, crn_tmpl *t) {
  int from[CRN_MAX_RANK], n = 0, k = 0;
  for (int i = 0; i < base->n; i++)
    if (crn_dim_is_dynamic(base->dims[i])) from[n++] = i;
  for (int i = 0; i < t->n; i++) {
    if (!crn_dim_is_dynamic(t->dims[i])) continue;
    if (k >= n) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size_base': the base has %d dynamic axes, the source has more", n);
    t->dims[i] = base->dims[from[k++]];
  }
  return k == n ? CRN_OK : crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size_base': the base has %d dynamic axes, the source %d", n, k);
}

static crn_status sparse_options(crn_build *b, crn_layer *l, const reint_cfg *c, crn_tmpl *t) {
  int64_t n;
  if (!crn_v_is_none(c->set_sparse)) {
    const bool want = crn_v_truth(c->set_sparse);
    if (want && !t->sparse) {
      t->sparse = true;
      t->feature_axis = -1;
      t->feature_explicit = false;
    } else if (!want && t->sparse) {
      t->sparse = false;
      t->sparse_dim = NULL;
      t->feature_axis = -1;
      t->feature_explicit = false;
      crn_tmpl_update_roles(t);
    }
  }
  const bool set = crn_v_get(l->dict, "set_sparse_dim") != NULL;
  if (!set && crn_v_is_none(c->increase_sparse_dim)) return CRN_OK;
  if (!t->sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': the data are dense", set ? "set_sparse_dim" : "increase_sparse_dim");
  if (set && c->set_sparse_dim && c->set_sparse_dim->kind == CRN_V_DIM) t->sparse_dim = crn_dim_of_value(crn_build_dims(b), c->set_sparse_dim);
  else if (set && crn_v_to_int(c->set_sparse_dim, &n)) t->sparse_dim = crn_layer_dim(b, l, "sparse-dim", CRN_DIM_FEATURE, n);
  else if (set) t->sparse_dim = NULL;
  if (crn_v_to_int(c->increase_sparse_dim, &n) && t->sparse_dim) t->sparse_dim = crn_layer_dim(b, l, "sparse-dim", CRN_DIM_FEATURE, t->sparse_dim->size + n);
  t->vocab = NULL;
  return CRN_OK;
}

static crn_status reint_infer(crn_build *b, crn_layer *l) {
  const reint_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known && (!c->size_base || c->size_base->out_known);
  if (!l->out_known) return CRN_OK;
  if (c->batch_major && c->time_major) return crn_layer_fail(b, l, CRN_E_CONFIG, "enforce_batch_major and enforce_time_major exclude each other");
  if (c->batch_major) crn_tmpl_to_batch_major(&l->out, NULL);
  if (c->time_major) crn_tmpl_to_time_major(&l->out, NULL);
  if (!crn_v_is_none(c->switch_axes)) CRN_TRY(switch_roles(b, l, c->switch_axes, &l->out));
  CRN_TRY(set_axes(b, l, c, &l->out));
  if (c->size_base) CRN_TRY(take_dims(b, l, &c->size_base->out, &l->out));
  for (size_t i = 0; crn_v_is_dict(c->set_dim_tags) && i < c->set_dim_tags->u.dict.n; i++) {
    int axis;
    CRN_TRY(crn_layer_axis(b, l, &l->out, c->set_dim_tags->u.dict.keys[i], "set_dim_tags", &axis));
    const crn_dim *d = crn_dim_of_value(crn_build_dims(b), c->set_dim_tags->u.dict.vals[i]);
    if (!d) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'set_dim_tags': expected dims");
    l->out.dims[axis] = d;
  }
  CRN_TRY(sparse_options(b, l, c, &l->out));
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status reint_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const reint_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (d && c->batch_major) d = crn_data_batch_major(r, d);
  if (d && c->time_major) d = crn_data_time_major(r, d);
  const crn_data *base = c->size_base && d ? crn_value_of(x, l, c->size_base) : NULL;
  if (!d || (c->size_base && !base)) return r->err->code;
  const crn_tmpl t = l->out;
  *out = *d;
  out->t = t;
  int k = 0;
  for (int i = 0; base && i < t.n; i++) {
    if (!crn_dim_is_dynamic(t.dims[i])) continue;
    while (k < base->t.n && !crn_dim_is_dynamic(base->t.dims[k])) k++;
    if (k < base->t.n) out->len[i] = base->len[k++];
  }
  return CRN_OK;
}

const crn_layer_desc crn_family_reinterpret[] = {
    {.name = "reinterpret_data", .doc = "Changes what the axes mean, not the values.", .opts = reint_opts, .cfg_size = sizeof(reint_cfg), .flags = CRN_L_CONCAT | CRN_L_COPIES_PRE | CRN_L_STREAMS,
     .infer = reint_infer, .forward = reint_forward},
    {.name = NULL}};
