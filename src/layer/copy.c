/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that pass their input on, or change each value by itself: copy, dropout, identity, activation.
 */
#include <string.h>

#include "layer/activation.h"
#include "layer/fused.h"

typedef struct copy_cfg {
  crn_layer_list extra_deps;
  const crn_value *activation, *opts;
  crn_layer_list control_dependencies;
  crn_act *act;
} copy_cfg;

#define OFF(f) offsetof(copy_cfg, f)
static const crn_opt copy_opts[] = {
    {.name = "extra_deps", .type = CRN_OPT_LAYERS, .offset = OFF(extra_deps), .dflt = "[]", .edge = CRN_EDGE_SEARCH, .doc = "layers that count as dependencies only"},
    CRN_OPT_END};

static crn_status copy_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  if (known && l->common.out_dim) {
    const int axis = crn_tmpl_find(&l->out, l->common.out_dim);
    if (axis >= 0) {
      l->out.feature_axis = axis;
      l->out.feature_explicit = true;
    } else if (l->out.feature_axis >= 0 && l->out.dims[l->out.feature_axis]->size == l->common.out_dim->size) {
      l->out.dims[l->out.feature_axis] = crn_dim_as_kind(crn_build_dims(b), l->common.out_dim, CRN_DIM_FEATURE);
    }
  }
  l->out_known = known;
  return CRN_OK;
}

static crn_status copy_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *in = crn_input(x, l);
  if (!in) return crn_exec_run(x)->err->code;
  const crn_tmpl t = l->out;
  *out = *in;
  out->t = t;
  return CRN_OK;
}

static const crn_opt identity_opts[] = {
    {.name = "control_dependencies", .type = CRN_OPT_LAYERS, .offset = OFF(control_dependencies), .dflt = "None", .edge = CRN_EDGE_CONTROL, .doc = "layers that are computed before"},
    CRN_OPT_END};

static crn_status identity_infer(crn_build *b, crn_layer *l) {
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  const crn_tmpl *t = crn_source_tmpl(l, 0);
  l->out_known = t != NULL;
  if (t) l->out = *t;
  return CRN_OK;
}

static crn_status identity_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *in = crn_source(x, l, 0);
  if (!in) return crn_exec_run(x)->err->code;
  *out = *in;
  return CRN_OK;
}

static const crn_opt activation_opts[] = {
    {.name = "activation", .type = CRN_OPT_VALUE, .offset = OFF(activation), .doc = "activation, a name or an expression"},
    {.name = "opts", .type = CRN_OPT_VALUE, .offset = OFF(opts), .dflt = "None", .doc = "keywords of the function"},
    CRN_OPT_END};

static crn_status activation_infer(crn_build *b, crn_layer *l) {
  copy_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_act_of(b, l, c->activation, "activation", &c->act));
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known || !crn_act_is_softmax(c->act) || l->out.feature_axis < 0 || l->out.feature_axis == l->out.n - 1) return CRN_OK;
  int perm[CRN_MAX_RANK], k = 0; /* softmax: feature last */
  for (int i = 0; i < l->out.n; i++)
    if (i != l->out.feature_axis) perm[k++] = i;
  perm[k] = l->out.feature_axis;
  crn_tmpl_permute(&l->out, perm);
  return CRN_OK;
}

static crn_status activation_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const copy_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (in && crn_act_is_softmax(c->act)) in = crn_data_feature_last(r, in);
  if (!in) return r->err->code;
  const crn_tmpl t = l->out;
  *out = *in;
  out->t = t;
  out->output_loss = NULL;
  CRN_TRY(crn_act_apply_opts(x, c->act, c->opts, out));
  if (crn_pre_is_read(x, l)) return CRN_OK;
  out->pre = NULL; /* its memory can go */
  out->pre_act = NULL;
  return CRN_OK;
}

bool crn_layer_is_plain_tanh(const crn_layer *l) {
  if (l->desc->forward != activation_forward) return false;
  const char *name = crn_act_name(((const copy_cfg *)l->cfg)->act);
  return name && !strcmp(name, "tanh") && l->n_src == 1 && l->common.dropout <= 0 && !l->common.in_dim;
}

const crn_layer_desc crn_family_copy[] = {
    {.name = "copy", .doc = "Passes its input through.", .opts = copy_opts, .cfg_size = sizeof(copy_cfg), .flags = CRN_L_CONCAT | CRN_L_COPIES_PRE | CRN_L_STREAMS,
     .infer = copy_infer, .forward = copy_forward},
    {.name = "dropout", .doc = "Passes its input through, with dropout.", .opts = copy_opts, .cfg_size = sizeof(copy_cfg), .flags = CRN_L_CONCAT | CRN_L_COPIES_PRE | CRN_L_STREAMS,
     .infer = copy_infer, .forward = copy_forward},
    {.name = "identity", .doc = "Passes its one source through unchanged.", .opts = identity_opts, .cfg_size = sizeof(copy_cfg), .flags = CRN_L_COPIES_PRE | CRN_L_STREAMS,
     .infer = identity_infer, .forward = identity_forward},
    {.name = "activation", .doc = "Applies an activation.", .opts = activation_opts, .cfg_size = sizeof(copy_cfg), .flags = CRN_L_CONCAT | CRN_L_STREAMS,
     .infer = activation_infer, .forward = activation_forward},
    {.name = NULL}};
