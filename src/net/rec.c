/* SPDX-License-Identifier: Apache-2.0
 *
 * rec and rnn_cell: a built-in unit over an axis or for one step, or (rec) a net dict as unit: a loop.
 */
#include <string.h>

#include "net/loop.h"

#define OFF(f) offsetof(crn_rec_cfg, f)
static const crn_opt rec_opts[] = {
    {.name = "unit", .type = CRN_OPT_VALUE, .offset = OFF(unit), .dflt = "\"lstm\"", .doc = "name of a unit, or a net dict"},
    {.name = "unit_opts", .type = CRN_OPT_VALUE, .offset = OFF(unit_opts), .dflt = "None", .doc = "options of the unit"},
    {.name = "state", .type = CRN_OPT_VALUE, .offset = OFF(state), .dflt = "None", .doc = "layers that give the state: makes one step"},
    {.name = "direction", .type = CRN_OPT_VALUE, .offset = OFF(direction), .dflt = "None", .doc = "1, or -1 for right to left"},
    {.name = "input_projection", .type = CRN_OPT_BOOL, .offset = OFF(input_projection), .dflt = "True", .doc = "False: the input is the gates' already"},
    {.name = "max_seq_len", .type = CRN_OPT_VALUE, .offset = OFF(max_seq_len), .dflt = "None", .doc = "most steps of a loop, or an expression"},
    {.name = "max_seq_len_via", .type = CRN_OPT_LAYER, .offset = OFF(max_seq_len_via), .dflt = "None", .doc = "layer that gives the most steps"},
    {.name = "forward_weights_init", .type = CRN_OPT_VALUE, .offset = OFF(forward_weights_init), .dflt = "None", .doc = "initialiser of the input's weights"},
    {.name = "recurrent_weights_init", .type = CRN_OPT_VALUE, .offset = OFF(recurrent_weights_init), .dflt = "None", .doc = "initialiser of the recurrent weights"},
    {.name = "bias_init", .type = CRN_OPT_VALUE, .offset = OFF(bias_init), .dflt = "None", .doc = "initialiser of the bias"},
    {.name = "optimize_move_layers_out", .type = CRN_OPT_VALUE, .offset = OFF(optimize), .dflt = "None", .doc = "move layers out of the loop where possible"},
    {.name = "cheating", .type = CRN_OPT_VALUE, .offset = OFF(cheating), .dflt = "False", .doc = "no effect"},
    {.name = "unroll", .type = CRN_OPT_BOOL, .offset = OFF(unroll), .dflt = "False", .doc = "no effect on values"},
    {.name = "back_prop", .type = CRN_OPT_VALUE, .offset = OFF(back_prop), .dflt = "None", .doc = "False stops gradients at the loop"},
    {.name = "use_global_rec_step_offset", .type = CRN_OPT_BOOL, .offset = OFF(use_global_rec_step_offset), .dflt = "False", .doc = "add an offset to the step index"},
    {.name = "include_eos", .type = CRN_OPT_BOOL, .offset = OFF(include_eos), .dflt = "False", .doc = "the step that ends is counted"},
    {.name = "debug", .type = CRN_OPT_VALUE, .offset = OFF(debug), .dflt = "None", .doc = "no effect on values"},
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .dflt = "None", .doc = "axis to run over"},
    CRN_OPT_END};

static const crn_opt cell_opts[] = {
    {.name = "unit", .type = CRN_OPT_VALUE, .offset = OFF(unit), .doc = "name of a unit"},
    {.name = "unit_opts", .type = CRN_OPT_VALUE, .offset = OFF(unit_opts), .dflt = "None", .doc = "options of the unit"},
    {.name = "state", .type = CRN_OPT_VALUE, .offset = OFF(state), .dflt = "None", .doc = "layers that give the state: makes one step"},
    {.name = "weights_init", .type = CRN_OPT_VALUE, .offset = OFF(weights_init), .dflt = "\"xavier\"", .doc = "initialiser of all parameters"},
    CRN_OPT_END};

static crn_loop *loop_of(const crn_layer *l) { return ((const crn_rec_cfg *)l->cfg)->loop; }

static crn_status rec_make(crn_build *b, crn_layer *l) {
  crn_rec_cfg *c = l->cfg;
  double zero;
  if (!crn_v_is_dict(c->unit)) return CRN_OK;
  if (!crn_v_is_none(c->state))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'state' with a net dict as unit");
  if (!crn_v_is_none(l->common.initial_state) && !(crn_v_to_float(l->common.initial_state, &zero) && zero == 0))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'initial_state' has no meaning with a net dict as unit");
  if (!crn_v_is_none(c->unit_opts))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unit_opts' has no meaning with a net dict as unit");
  if (!crn_v_is_none(c->max_seq_len) && c->max_seq_len_via)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "give 'max_seq_len' or 'max_seq_len_via', not both");
  return crn_loop_make(b, l, c->unit);
}

static crn_status rec_refs(crn_build *b, crn_layer *l) { return loop_of(l) ? CRN_OK : crn_unit_refs(b, l); }
static crn_status rec_infer(crn_build *b, crn_layer *l) { return loop_of(l) ? crn_loop_infer(b, l) : crn_unit_infer(b, l); }
static crn_status rec_params(crn_build *b, crn_layer *l) { return loop_of(l) ? CRN_OK : crn_unit_params(b, l); }

/* The result of the loop, its axis first. */
static crn_status loop_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = &x->run;
  const crn_loop *loop = loop_of(l);
  const crn_data *d = crn_value_of(x, l, loop->result);
  const crn_rec_cfg *c = l->cfg;
  if (!d) return r->err->code;
  int axis = crn_tmpl_find(&d->t, loop->time_dim), perm[CRN_MAX_RANK], k = 1;
  crn_data *tm;
  if (axis < 0) { /* constant in the loop: repeated */
    const crn_loop_run *lr = crn_exec_loop(x, loop);
    const crn_data *len = loop->len_layer ? crn_exec_slot(x, loop->len_layer)->out : NULL;
    const crn_data *lens = len ? len->len[loop->len_axis] : lr->lens;
    if (!len && !(d = crn_beam_move(x, d, lens->beam))) return r->err->code;
    int64_t shape[CRN_MAX_RANK];
    shape[0] = len ? len->v->shape[loop->len_axis] : lr->n_steps;
    for (int i = 0; i < d->v->rank; i++) shape[i + 1] = d->v->shape[i];
    if (!(tm = crn_data_copy(r, d))) return r->err->code;
    tm->v = crn_broadcast_to(r, crn_expand_dims(r, d->v, 0), d->v->rank + 1, shape);
    for (int i = d->t.n; i-- > 0;) tm->len[i + 1] = d->len[i];
    tm->len[0] = lens;
    tm->pre = NULL;
  } else {
    perm[0] = axis;
    for (int i = 0; i < d->t.n; i++)
      if (i != axis) perm[k++] = i;
    tm = crn_data_permute(r, d, perm);
  }
  if (!tm) return r->err->code;
  *out = *tm;
  out->t = l->out;
  if (!crn_v_is_none(c->back_prop) && !crn_v_truth(c->back_prop)) out->v = crn_t_stop_gradient(r, out->v);
  return out->v ? CRN_OK : r->err->code;
}

static crn_status rec_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  return loop_of(l) ? loop_forward(x, l, out) : crn_unit_forward(x, l, out);
}

const crn_layer_desc crn_family_rec[] = {
    {.name = "rec", .doc = "Runs a recurrent unit or a net dict over an axis.", .opts = rec_opts, .cfg_size = sizeof(crn_rec_cfg),
     .flags = CRN_L_CONCAT | CRN_L_STATE_IS_OUTPUT | CRN_L_TARGET_BY_HAND | CRN_L_STREAMS, .make = rec_make, .refs = rec_refs, .infer = rec_infer,
     .params = rec_params, .forward = rec_forward, .state_init = crn_unit_state_init},
    {.name = "rnn_cell", .doc = "Runs one step of a recurrent unit.", .opts = cell_opts, .cfg_size = sizeof(crn_rec_cfg),
     .flags = CRN_L_CONCAT | CRN_L_STATE_IS_OUTPUT | CRN_L_STREAMS, .refs = crn_unit_refs, .infer = crn_unit_infer,
     .params = crn_unit_params, .forward = crn_unit_forward, .state_init = crn_unit_state_init},
    {.name = NULL}};
