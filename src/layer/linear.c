/* SPDX-License-Identifier: Apache-2.0
 *
 * linear (hidden, forward) and softmax: y = act(x·W + b) over the feature axis; a sparse input looks rows of W up.
 */
#include <math.h>
#include <string.h>

#include "layer/activation.h"
#include "layer/fused.h"
#include "layer/grad_filter.h"

typedef struct linear_cfg {
  const crn_value *activation;
  int with_bias, use_transposed_weights;
  double grad_filter; /* NAN: none */
  const crn_value *forward_weights_init, *bias_init;
  crn_act *act;
  int64_t n_in, n_out;
  crn_layer *energy; /* sum of an attention energy that is computed here as a whole, or NULL */
} linear_cfg;

#define OFF(f) offsetof(linear_cfg, f)
static const crn_opt linear_opts[] = {
    {.name = "activation", .type = CRN_OPT_VALUE, .offset = OFF(activation), .dflt = "None", .doc = "activation, a name or an expression"},
    {.name = "with_bias", .type = CRN_OPT_BOOL, .offset = OFF(with_bias), .dflt = "True", .doc = "add a bias"},
    {.name = "grad_filter", .type = CRN_OPT_FLOAT, .offset = OFF(grad_filter), .dflt = "None", .doc = "drop a sequence's gradient if a squared entry reaches this"},
    {.name = "forward_weights_init", .type = CRN_OPT_VALUE, .offset = OFF(forward_weights_init), .dflt = "\"glorot_uniform\"", .doc = "initialiser of W"},
    {.name = "bias_init", .type = CRN_OPT_VALUE, .offset = OFF(bias_init), .dflt = "0.0", .doc = "initialiser of b"},
    {.name = "use_transposed_weights", .type = CRN_OPT_BOOL, .offset = OFF(use_transposed_weights), .dflt = "False", .doc = "W is stored as [n_out, n_in]"},
    CRN_OPT_END};

static crn_status linear_infer(crn_build *b, crn_layer *l) {
  linear_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  const bool softmax = !strcmp(crn_v_cstr(crn_v_get(l->dict, "class")), "softmax");
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  if (!known) {
    l->out_known = false;
    return CRN_OK;
  }
  if (softmax && !crn_v_is_none(c->activation))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'activation' may not be set: it is softmax");
  crn_value *sm = softmax ? crn_v_str(crn_build_arena(b), "softmax") : NULL;
  CRN_TRY(crn_act_of(b, l, softmax ? sm : c->activation, "activation", &c->act));
  CRN_TRY(crn_new_feature_tmpl(b, l, &in, &l->out));
  if (l->out.time_axis >= 0) l->out.time_explicit = true;
  c->n_in = crn_tmpl_dim(&in);
  c->n_out = l->out.dims[l->out.feature_axis]->size;
  return CRN_OK;
}

static crn_status linear_params(crn_build *b, crn_layer *l) {
  linear_cfg *c = l->cfg;
  if (c->n_in < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the input's dim is not known");
  crn_param_spec w = {.name = "W", .rank = 2, .init = c->forward_weights_init, .dtype = CRN_F32};
  w.shape[0] = c->use_transposed_weights ? c->n_out : c->n_in;
  w.shape[1] = c->use_transposed_weights ? c->n_in : c->n_out;
  CRN_TRY(crn_layer_param(b, l, &w));
  double f;
  if (!c->with_bias) {
    if (crn_v_to_float(c->bias_init, &f) && f == 0) return CRN_OK;
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'bias_init' must be 0 when with_bias is False");
  }
  crn_param_spec bias = {.name = "b", .rank = 1, .shape = {c->n_out}, .init = c->bias_init, .dtype = CRN_F32};
  return crn_layer_param(b, l, &bias);
}

static crn_tensor *look_up(crn_run *r, const linear_cfg *c, crn_tensor *w, crn_tensor *idx, crn_tensor *bias) {
  if (c->use_transposed_weights) {
    const int perm[2] = {1, 0};
    w = crn_transpose(r, w, perm);
  }
  crn_tensor *y = crn_gather(r, w, idx, 0);
  return bias ? crn_add(r, y, bias) : y;
}

/* [.., F at axis, ..] -> the same with F last, product, and back. */
static crn_tensor *product(crn_run *r, const linear_cfg *c, crn_tensor *v, int axis, crn_tensor *w, crn_tensor *bias) {
  int perm[CRN_MAX_RANK], back[CRN_MAX_RANK], k = 0;
  const bool last = axis == v->rank - 1;
  for (int i = 0; i < v->rank; i++)
    if (i != axis) perm[k++] = i;
  perm[k] = axis;
  for (int i = 0; i < v->rank; i++) back[perm[i]] = i;
  if (!last) v = crn_transpose(r, v, perm);
  v = crn_linear(r, v, w, c->use_transposed_weights, bias);
  return last ? v : crn_transpose(r, v, back);
}

static crn_status linear_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  linear_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  if (c->energy) return crn_energy_forward(x, l, c->energy, out);
  const crn_data *in = crn_input_once(x, l);
  crn_tensor *w = crn_param_get(x, l, "W");
  crn_tensor *bias = c->with_bias ? crn_param_get(x, l, "b") : NULL;
  if (!in || !w || (c->with_bias && !bias)) return r->err->code;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  if (in->t.sparse) out->v = look_up(r, c, w, in->v, bias);
  else out->v = product(r, c, in->v, in->t.feature_axis, w, bias);
  if (!isnan(c->grad_filter)) out->v = crn_grad_filter(r, out->v, crn_tmpl_batch_axis(&out->t), c->grad_filter);
  return crn_act_apply_over(x, l, c->act, out);
}

bool crn_layer_is_plain_projection(const crn_layer *l) {
  if (l->desc->forward != linear_forward) return false;
  const linear_cfg *c = l->cfg;
  return c->n_out == 1 && !c->with_bias && !c->act && l->n_src == 1 && l->common.dropout <= 0 && !l->common.in_dim && !l->src[0]->out.sparse && c->grad_filter != c->grad_filter;
}

void crn_layer_fuse_energy(crn_layer *projection, crn_layer *sum) { ((linear_cfg *)projection->cfg)->energy = sum; }

static const char *const linear_aliases[] = {"hidden", "forward", NULL};

const crn_layer_desc crn_family_linear[] = {
    {.name = "linear", .aliases = linear_aliases, .doc = "Computes act(x·W + b) over the feature axis.", .opts = linear_opts,
     .cfg_size = sizeof(linear_cfg), .flags = CRN_L_CONCAT | CRN_L_STREAMS | CRN_L_VALUES_ONLY, .infer = linear_infer, .params = linear_params, .forward = linear_forward},
    {.name = "softmax", .doc = "Computes softmax(x·W + b) over the feature axis.", .opts = linear_opts,
     .cfg_size = sizeof(linear_cfg), .flags = CRN_L_CONCAT | CRN_L_STREAMS | CRN_L_VALUES_ONLY, .infer = linear_infer, .params = linear_params, .forward = linear_forward},
    {.name = NULL}};
