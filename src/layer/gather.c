/* SPDX-License-Identifier: Apache-2.0
 *
 * gather and gather_nd: entries of an axis at given positions.
 */
#include <string.h>

#include "layer/pick.h"
#include "layer/pieces.h"

typedef struct gather_cfg {
  const crn_value *position, *axis;
  int clip_to_valid;
  crn_layer *at; /* position as a layer, or NULL */
  int64_t fixed; /* … as a number */
  crn_tmpl pos;
  crn_pick plan;
} gather_cfg;

#define OFF(f) offsetof(gather_cfg, f)

static const crn_opt gather_opts[] = {
    {.name = "position", .type = CRN_OPT_VALUE, .offset = OFF(position), .doc = "layer with integers, or a number"},
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .doc = "axis that is picked from"},
    {.name = "clip_to_valid",
     .type = CRN_OPT_BOOL,
     .offset = OFF(clip_to_valid),
     .dflt = "False",
     .doc = "clip positions to the sequence's valid frames"},
    CRN_OPT_END};

static const crn_opt nd_opts[] = {
    {.name = "position", .type = CRN_OPT_VALUE, .offset = OFF(position), .doc = "layer with integers"}, CRN_OPT_END};

static crn_status gather_refs(crn_build *b, crn_layer *l) {
  gather_cfg *c = l->cfg;
  if (crn_v_is_str(c->position)) return crn_layer_ref(b, l, crn_v_cstr(c->position), CRN_EDGE_DATA, "position", &c->at);
  if (!strcmp(l->desc->name, "gather") && crn_v_to_int(c->position, &c->fixed)) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'position': expected a layer name%s, got %s",
                        strcmp(l->desc->name, "gather") ? "" : " or an integer", crn_v_kind_name(c->position));
}

static crn_status check_position(crn_build *b, crn_layer *l, const crn_tmpl *t) {
  if (t->dtype == CRN_I32 || t->dtype == CRN_I64) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'position': expected int32 or int64, the layer gives %s",
                        crn_dtype_name(t->dtype));
}

static bool clips(const gather_cfg *c, const crn_tmpl *in, int axis) {
  return c->clip_to_valid > 0 && crn_dim_is_dynamic(in->dims[axis]) && crn_tmpl_batch_axis(in) >= 0;
}

static crn_status gather_infer(crn_build *b, crn_layer *l) {
  gather_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  int axis;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known && (!c->at || c->at->out_known);
  if (!l->out_known) return CRN_OK;
  if (c->axis->kind == CRN_V_INT) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': positions are not allowed");
  CRN_TRY(crn_layer_axis(b, l, &in, c->axis, "axis", &axis));
  crn_takes_whole(l, &in, &axis, 1);
  c->pos = c->at ? c->at->out : crn_tmpl_scalar(CRN_I32);
  CRN_TRY(check_position(b, l, &c->pos));
  if (clips(c, &in, axis) && crn_tmpl_batch_axis(&c->pos) < 0)
    CRN_TRY(crn_tmpl_insert(&c->pos, 0, crn_build_dims(b)->batch, crn_build_err(b)));
  crn_pick_plan(&in, &c->pos, axis, crn_build_version(b), &c->plan);
  return crn_pick_tmpl(&c->plan, &in, &c->pos, &l->out, crn_build_err(b));
}

/* Positions brought into [0, length - 1]; they get a batch axis for it. */
static crn_status clip_positions(crn_exec *x, crn_layer *l, const crn_data *in, int axis, crn_data *pos) {
  const gather_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *top = NULL;
  const crn_dtype dtype = pos->v->dtype;
  if (clips(c, &in->t, axis)) {
    crn_tensor *lens = crn_data_lens(r, in, axis);
    crn_tmpl t = crn_tmpl_scalar(CRN_I32);
    t.dims[t.n++] = in->t.dims[crn_tmpl_batch_axis(&in->t)];
    const crn_data *d = lens ? crn_data_new(r, &t, crn_add_scalar(r, lens, -1)) : NULL;
    if (!d || !d->v) return r->err->code;
    crn_tensor *p = crn_data_fit(r, pos, &c->pos, crn_exec_version(x), false);
    const bool added = c->pos.n > pos->t.n; /* the batch axis in front */
    for (int i = c->pos.n; added && i-- > 1;) pos->len[i] = pos->len[i - 1];
    if (added) pos->len[0] = NULL;
    pos->v = p;
    pos->t = c->pos;
    top = crn_data_fit(r, d, &c->pos, crn_exec_version(x), false);
  } else {
    top = crn_t_full(r, CRN_I32, 0, NULL, (double)(in->v->shape[axis] - 1));
  }
  if (top && dtype != CRN_I32) top = crn_cast(r, top, dtype);
  crn_tensor *zero = crn_t_full(r, dtype, 0, NULL, 0);
  pos->v = crn_binary(r, CRN_B_MAXIMUM, crn_binary(r, CRN_B_MINIMUM, pos->v, top), zero);
  return pos->v ? CRN_OK : r->err->code;
}

static crn_status gather_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const gather_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  crn_data *pos;
  if (c->at) {
    pos = crn_data_copy(r, crn_value_of(x, l, c->at));
  } else {
    const crn_tmpl t = crn_tmpl_scalar(CRN_I32);
    pos = crn_data_new(r, &t, crn_t_full(r, CRN_I32, 0, NULL, (double)c->fixed));
  }
  if (!in || !pos || !pos->v) return r->err->code;
  if (c->clip_to_valid > 0) CRN_TRY(clip_positions(x, l, in, c->plan.axis, pos));
  return crn_pick_run(x, &c->plan, in, pos, out);
}

/* ---- gather_nd: the first axis after batch
 * ----------------------------------------------------------------------------- */

static crn_status nd_infer(crn_build *b, crn_layer *l) {
  gather_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known && c->at->out_known;
  if (!l->out_known) return CRN_OK;
  c->pos = c->at->out;
  CRN_TRY(check_position(b, l, &c->pos));
  crn_tmpl_to_batch_major(&in, NULL);
  crn_tmpl_to_batch_major(&c->pos, NULL);
  if (in.n < 2 || in.dims[0]->kind != CRN_DIM_BATCH)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source needs a batch axis and one after it");
  /* only the batch is shared: other axes of the position are its own even where the source has them too */
  memset(&c->plan, 0, sizeof(c->plan));
  const bool batch = c->pos.n > 0 && c->pos.dims[0]->kind == CRN_DIM_BATCH;
  c->plan.axis = 1;
  if (batch)
    c->plan.n_common = 1; /* axis 0 of both */
  else
    c->plan.n_before = 1;
  for (int i = batch ? 1 : 0; i < c->pos.n; i++) c->plan.own[c->plan.n_own++] = i;
  for (int i = 2; i < in.n; i++) c->plan.after[c->plan.n_after++] = i;
  CRN_TRY(crn_pick_tmpl(&c->plan, &in, &c->pos, &l->out, crn_build_err(b)));
  if (c->pos.time_axis >= 0) { /* the position's time comes first */
    l->out.time_axis = c->pos.time_axis + (batch ? 0 : 1);
    l->out.time_explicit = c->pos.time_explicit;
    crn_tmpl_update_roles(&l->out);
  }
  return CRN_OK;
}

static crn_status nd_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const gather_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_data_batch_major(r, crn_input(x, l));
  const crn_data *pos = crn_data_batch_major(r, crn_value_of(x, l, c->at));
  if (!in || !pos) return r->err->code;
  return crn_pick_run(x, &c->plan, in, pos, out);
}

const crn_layer_desc crn_family_gather[] = {{.name = "gather",
                                             .doc = "Picks entries of an axis.",
                                             .opts = gather_opts,
                                             .cfg_size = sizeof(gather_cfg),
                                             .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM,
                                             .refs = gather_refs,
                                             .infer = gather_infer,
                                             .forward = gather_forward},
                                            {.name = "gather_nd",
                                             .doc = "Picks entries of the first axis after batch.",
                                             .opts = nd_opts,
                                             .cfg_size = sizeof(gather_cfg),
                                             .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,
                                             .refs = gather_refs,
                                             .infer = nd_infer,
                                             .forward = nd_forward},
                                            {.name = NULL}};
