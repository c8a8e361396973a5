/* SPDX-License-Identifier: Apache-2.0
 *
 * scaled_grad: the identity with another gradient (layers-2.md).
 */
#include "layer/layer.h"
#include "layer/shape_list.h"

typedef struct sgrad_cfg {
  const crn_value *scale, *shift, *sum_axis, *clip_axis;
  crn_layer_list extra_deps;
  double scale_number, shift_number;
  crn_layer *scale_layer, *shift_layer;
  int sum_at, clip_at;
} sgrad_cfg;

#define OFF(f) offsetof(sgrad_cfg, f)
static const crn_opt sgrad_opts[] = {
    {.name = "scale",
     .type = CRN_OPT_VALUE,
     .offset = OFF(scale),
     .doc = "factor of the gradient, a number or a layer"},
    {.name = "shift",
     .type = CRN_OPT_VALUE,
     .offset = OFF(shift),
     .dflt = "None",
     .doc = "added to the gradient, a number or a layer"},
    {.name = "scale_shift_by_sum_over_axis",
     .type = CRN_OPT_VALUE,
     .offset = OFF(sum_axis),
     .dflt = "None",
     .doc = "multiply the shift by the sum of the gradient's magnitudes over this axis"},
    {.name = "clip_max_axis",
     .type = CRN_OPT_VALUE,
     .offset = OFF(clip_axis),
     .dflt = "None",
     .doc = "clip to the gradient's largest magnitude over this axis"},
    {.name = "extra_deps",
     .type = CRN_OPT_LAYERS,
     .offset = OFF(extra_deps),
     .dflt = "[]",
     .edge = CRN_EDGE_SEARCH,
     .doc = "layers that count as dependencies only"},
    CRN_OPT_END};

static crn_status sgrad_refs(crn_build *b, crn_layer *l) {
  sgrad_cfg *c = l->cfg;
  CRN_TRY(crn_number_or_layer(b, l, c->scale, "scale", &c->scale_number, &c->scale_layer));
  return crn_number_or_layer(b, l, c->shift, "shift", &c->shift_number, &c->shift_layer);
}

static crn_status sgrad_infer(crn_build *b, crn_layer *l) {
  sgrad_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  c->sum_at = c->clip_at = -1;
  if (!crn_v_is_none(c->sum_axis))
    CRN_TRY(crn_layer_axis(b, l, &l->out, c->sum_axis, "scale_shift_by_sum_over_axis", &c->sum_at));
  if (!crn_v_is_none(c->clip_axis)) CRN_TRY(crn_layer_axis(b, l, &l->out, c->clip_axis, "clip_max_axis", &c->clip_at));
  return CRN_OK;
}

static crn_tensor *factor(crn_exec *x, crn_layer *l, const crn_data *in, crn_layer *layer, double number) {
  crn_run *r = crn_exec_run(x);
  if (!layer) return crn_t_scalar(r, in->v->dtype, number);
  const crn_data *d = crn_value_of(x, l, layer);
  if (!d) return NULL;
  return d->t.n ? crn_data_fit(r, d, &in->t, crn_exec_version(x), false) : d->v;
}

static crn_status sgrad_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const sgrad_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  const bool shifted = !crn_v_is_none(c->shift);
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  if (!crn_dtype_is_float(in->v->dtype) || (!c->scale_layer && c->scale_number == 0 && !shifted)) {
    out->v = crn_t_stop_gradient(r, in->v);
    return out->v ? CRN_OK : r->err->code;
  }
  crn_tensor *scale = factor(x, l, in, c->scale_layer, c->scale_number),
             *shift = shifted ? factor(x, l, in, c->shift_layer, c->shift_number) : NULL;
  crn_tensor *mask = shift ? crn_data_mask_all(r, in) : NULL; /* padded frames get no shift (measured) */
  if (mask) {
    int64_t ones[CRN_MAX_RANK];
    for (int i = 0; i < in->t.n; i++) ones[i] = 1;
    mask = crn_cast(r, mask, in->v->dtype);
    shift = crn_mul(r, mask, shift->rank ? shift : crn_t_reshape(r, shift, in->t.n, ones));
  }
  if (!scale || (shifted && !shift) || crn_run_failed(r)) return r->err->code;
  out->v = crn_scaled_grad(r, in->v, scale, shift, c->sum_at, c->clip_at);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_scaled_grad[] = {{.name = "scaled_grad",
                                                  .doc = "Passes its input on; scales and shifts the gradient.",
                                                  .opts = sgrad_opts,
                                                  .cfg_size = sizeof(sgrad_cfg),
                                                  .flags = CRN_L_CONCAT | CRN_L_STREAMS,
                                                  .refs = sgrad_refs,
                                                  .infer = sgrad_infer,
                                                  .forward = sgrad_forward},
                                                 {.name = NULL}};
