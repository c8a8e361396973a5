/* SPDX-License-Identifier: Apache-2.0
 *
 * rec and rnn_cell with a named unit: options and templates (recurrent.md, "Units"). How a unit runs: unit_run.c.
 */
#include "layer/unit.h"

#include <string.h>

crn_unit *crn_unit_of(const crn_layer *l) { return ((const crn_rec_cfg *)l->cfg)->unit_data; }

/* ---- options ----------------------------------------------------------------------------------------------------- */

static crn_status unit_options(crn_build *b, crn_layer *l, crn_unit *u) {
  const crn_rec_cfg *c = l->cfg;
  const crn_value *given = c->unit_opts;
  crn_arena *a = crn_build_arena(b);
  if (crn_v_is_none(given)) given = crn_v_dict(a);
  u->opts = crn_arena_alloc(a, u->desc->opts_size ? u->desc->opts_size : 1);
  if (!given || !u->opts) return crn_err_memory(crn_build_err(b));
  if (!crn_v_is_dict(given))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unit_opts': expected a dict, got %s", crn_v_kind_name(given));
  return crn_options_check_dict(b, l, given, u->desc->opts, u->opts, "unit_opts: ", NULL);
}

static crn_status direction(crn_build *b, const crn_layer *l, crn_unit *u) {
  const crn_rec_cfg *c = l->cfg;
  int64_t d = 1;
  if (!crn_v_is_none(c->direction) && (!crn_v_to_int(c->direction, &d) || (d != 1 && d != -1)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'direction': expected 1 or -1");
  u->reverse = d < 0;
  return CRN_OK;
}

static crn_status check_rec_options(crn_build *b, crn_layer *l, crn_unit *u) {
  const crn_rec_cfg *c = l->cfg;
  u->projection = true;
  if (crn_layer_is_cell(l)) {
    if (!crn_v_is_none(l->common.initial_output))
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "option 'initial_output' may not be set for a unit; set 'initial_state'");
    return CRN_OK;
  }
  CRN_TRY(direction(b, l, u));
  u->projection = c->input_projection != 0;
  if (!u->projection && !(u->desc->flags & CRN_UNIT_PROJECTION_OFF))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'input_projection': unit %s can't do without it", u->desc->name);
  int64_t max;
  const bool limited = !crn_v_is_none(c->max_seq_len);
  if (c->unroll > 0 && u->desc->flags & CRN_UNIT_NATIVE)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unroll': unit %s can't be unrolled", u->desc->name);
  if (c->unroll > 0 && !(limited && crn_v_to_int(c->max_seq_len, &max)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unroll' needs an integer 'max_seq_len'");
  if (limited && c->unroll <= 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'max_seq_len' needs 'unroll': True with a named unit");
  return CRN_OK;
}

crn_status crn_unit_refs(crn_build *b, crn_layer *l) {
  crn_rec_cfg *c = l->cfg;
  const char *name = crn_v_cstr(c->unit);
  if (!name)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unit': expected the name of a unit%s, got %s",
                          crn_layer_is_cell(l) ? "" : " or a net dict", crn_v_kind_name(c->unit));
  crn_unit *u = CRN_ARENA_NEW(crn_build_arena(b), crn_unit);
  if (!u) return crn_err_memory(crn_build_err(b));
  CRN_TRY(crn_unit_find(b, l, name, &u->desc));
  while (u->n_states < CRN_UNIT_STATES && u->desc->states[u->n_states]) u->n_states++;
  CRN_TRY(unit_options(b, l, u));
  CRN_TRY(check_rec_options(b, l, u));
  c->unit_data = u;
  return crn_unit_start_refs(b, l, u);
}

/* ---- templates --------------------------------------------------------------------------------------------------- */

/* The axis that the unit runs over, -1: it makes one step; or, moved out of a loop, one for each step of the loop with
 * the same input (u->steps). */
static crn_status find_axis(crn_build *b, crn_layer *l, const crn_tmpl *in, int *axis) {
  const crn_rec_cfg *c = l->cfg;
  const crn_dim *loop = crn_loop_dim(l);
  const bool moved = crn_layer_moved_out(l), inside = loop && !moved;
  *axis = in->time_axis;
  if (!crn_v_is_none(c->axis)) {
    if (c->axis->kind == CRN_V_DIM && inside) {
      const crn_dim *d = crn_dim_of_value(crn_build_dims(b), c->axis);
      if (!d) return crn_err_memory(crn_build_err(b));
      if (crn_dim_same(d, loop)) return *axis = -1, CRN_OK;
    }
    return crn_layer_axis(b, l, in, c->axis, "axis", axis);
  }
  if (crn_unit_of(l)->given_state) return *axis = -1, CRN_OK;
  if (moved) {
    const int found = crn_tmpl_find(in, loop);
    if (found >= 0) return *axis = found, CRN_OK;
    crn_unit *u = crn_unit_of(l);
    if (*axis < 0 && !u->steps) return crn_layer_ref(b, l, ":i", CRN_EDGE_DATA, "axis", &u->steps);
    return CRN_OK;
  }
  if (*axis < 0 && !inside && !crn_layer_is_cell(l)) {
    crn_str s = {0};
    crn_tmpl_describe(in, &s);
    crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG,
                                   "the input %s has no time axis, which is needed outside of a loop", crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  return CRN_OK;
}

static crn_status check_input(crn_build *b, crn_layer *l, const crn_unit *u, const crn_tmpl *in) {
  const bool native = u->desc->flags & CRN_UNIT_NATIVE && !(u->desc->flags & CRN_UNIT_DENSE);
  if (in->sparse && (!native || !u->projection))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the input is sparse, which unit %s can't take%s", u->desc->name,
                          native ? " without input_projection" : "");
  if (!in->sparse && in->feature_axis < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the input has no feature axis");
  return CRN_OK;
}

/* [first, rest of in.., feature]; first NULL: without. */
static crn_tmpl arranged(const crn_tmpl *in, int axis, const crn_dim *first, const crn_dim *feature) {
  crn_tmpl t = *in;
  t.sparse = false;
  t.sparse_dim = NULL;
  t.vocab = NULL;
  t.dtype = CRN_F32;
  t.n = 0;
  if (first) t.dims[t.n++] = first;
  for (int i = 0; i < in->n; i++)
    if (i != axis && i != in->feature_axis) t.dims[t.n++] = in->dims[i];
  t.dims[t.n++] = feature;
  t.time_explicit = t.feature_explicit = false;
  crn_tmpl_update_roles(&t);
  return t;
}

crn_status crn_unit_infer(crn_build *b, crn_layer *l) {
  crn_unit *u = crn_unit_of(l);
  crn_tmpl in;
  bool known;
  int axis;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  if (!known) {
    l->out_known = false;
    return CRN_OK;
  }
  CRN_TRY(check_input(b, l, u, &in));
  CRN_TRY(find_axis(b, l, &in, &axis));
  if (!in.sparse && axis == in.feature_axis)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis' is the input's feature axis");
  if (in.n + (in.sparse ? 1 : 0) + (u->steps ? 1 : 0) > CRN_MAX_RANK)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "more than %d axes", CRN_MAX_RANK);
  const crn_dim *feature;
  CRN_TRY(crn_new_feature_dim(b, l, NULL, &feature));
  const crn_dim *over = axis >= 0 ? in.dims[axis] : u->steps ? crn_loop_dim(l) : NULL;
  u->single = !over;
  u->n = feature->size;
  u->n_in = crn_tmpl_dim(&in);
  u->sparse = in.sparse;
  if (u->n < 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "the output's feature size is not known");
  if (u->desc->check) CRN_TRY(u->desc->check(b, l, u));
  l->out = arranged(&in, axis, over, feature);
  if (over) {
    l->out.time_axis = 0;
    l->out.time_explicit = true;
    crn_tmpl_update_roles(&l->out);
  }
  const crn_tmpl state = arranged(&in, axis, NULL, feature);
  for (int i = 0; i < u->n_states; i++) CRN_TRY(crn_layer_add_state(b, l, u->desc->states[i], &state));
  return CRN_OK;
}

crn_status crn_unit_params(crn_build *b, crn_layer *l) {
  const crn_unit *u = crn_unit_of(l);
  if (u->single && u->desc->flags & CRN_UNIT_NO_STEP && crn_loop_dim(l))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "unit %s can't make single steps in a loop; use nativelstm2",
                          u->desc->name);
  if (u->n_in < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the input's dim is not known");
  if (!u->projection && u->n_in != 4 * u->n)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "without input_projection the input must have 4*n_out = %lld features, got %lld",
                          (long long)(4 * u->n), (long long)u->n_in);
  CRN_TRY(u->desc->params(b, l, u));
  return crn_unit_start_params(b, l, u);
}
