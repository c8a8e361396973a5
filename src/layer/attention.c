/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention from parts: softmax over a spatial axis, the weighted sum, and the growing memory of cum_concat.
 */
#include <math.h>
#include <string.h>

#include "layer/pieces.h"
#include "tensor/history.h"

/* ---- softmax_over_spatial ------------------------------------------------------------------------------------------- */

typedef struct sos_cfg {
  const crn_value *axis, *energy_factor, *start, *window_start, *window_size;
  int use_time_mask, log_space;
  crn_layer *start_layer, *window_start_layer, *window_size_layer;
  int at; /* axis of the input */
} sos_cfg;

#define OFF(f) offsetof(sos_cfg, f)
static const crn_opt sos_opts[] = {
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .dflt = "None", .doc = "axis, default time"},
    {.name = "energy_factor", .type = CRN_OPT_VALUE, .offset = OFF(energy_factor), .dflt = "None", .doc = "factor of the energies"},
    {.name = "start", .type = CRN_OPT_VALUE, .offset = OFF(start), .dflt = "None", .doc = "layer: frames before it are masked"},
    {.name = "window_start", .type = CRN_OPT_VALUE, .offset = OFF(window_start), .dflt = "None", .doc = "layer or number: first frame of a window"},
    {.name = "window_size", .type = CRN_OPT_VALUE, .offset = OFF(window_size), .dflt = "None", .doc = "layer or number: frames of the window"},
    {.name = "use_time_mask", .type = CRN_OPT_BOOL, .offset = OFF(use_time_mask), .dflt = "None", .doc = "mask beyond the lengths; default: if there are lengths"},
    {.name = "log_space", .type = CRN_OPT_BOOL, .offset = OFF(log_space), .dflt = "False", .doc = "give logarithms"},
    CRN_OPT_END};

static crn_status maybe_layer(crn_build *b, crn_layer *l, const crn_value *v, const char *option, crn_layer **out) {
  return crn_v_is_str(v) ? crn_layer_ref(b, l, crn_v_cstr(v), CRN_EDGE_DATA, option, out) : CRN_OK;
}

static crn_status sos_refs(crn_build *b, crn_layer *l) {
  sos_cfg *c = l->cfg;
  CRN_TRY(maybe_layer(b, l, c->start, "start", &c->start_layer));
  CRN_TRY(maybe_layer(b, l, c->window_start, "window_start", &c->window_start_layer));
  return maybe_layer(b, l, c->window_size, "window_size", &c->window_size_layer);
}

static crn_status sos_infer(crn_build *b, crn_layer *l) {
  sos_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.dtype != CRN_F32) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be float32, it is %s", crn_dtype_name(l->out.dtype));
  if (crn_v_is_none(c->axis)) {
    if (l->out.time_axis < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source has no time axis; give 'axis'");
    c->at = l->out.time_axis;
  } else {
    CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at));
  }
  if (crn_v_is_none(c->window_start) != crn_v_is_none(c->window_size))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "'window_start' and 'window_size' must be given together");
  crn_takes_whole(l, &l->out, &c->at, 1);
  const bool windowed = !crn_v_is_none(c->start) || !crn_v_is_none(c->window_start);
  if (windowed && (!crn_dim_is_dynamic(l->out.dims[c->at]) || c->use_time_mask == 0))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "'start' and 'window_start' need a dynamic axis with its mask");
  int perm[CRN_MAX_RANK], k = 0;
  for (int i = 0; i < l->out.n; i++)
    if (i != c->at) perm[k++] = i;
  perm[k] = c->at;
  crn_tmpl_permute(&l->out, perm);
  return CRN_OK;
}

/* Position of a layer or number, with axes of d before the last (1 where it lacks one). */
static crn_tensor *position(crn_exec *x, crn_layer *l, crn_layer *of, const crn_value *v, const crn_data *d) {
  crn_run *r = crn_exec_run(x);
  double f = 0;
  if (!of) return crn_v_to_float(v, &f) ? crn_t_scalar(r, CRN_I32, f) : NULL;
  const crn_data *p = crn_value_of(x, l, of);
  if (!p) return NULL;
  crn_tmpl t = d->t;
  t.n--;
  crn_tensor *fit = crn_data_fit(r, p, &t, crn_exec_version(x), false);
  fit = fit ? crn_expand_dims(r, fit, fit->rank) : NULL;
  return fit && fit->dtype != CRN_I32 ? crn_cast(r, fit, CRN_I32) : fit;
}

static crn_tensor *both(crn_run *r, crn_tensor *a, crn_tensor *b) { return a ? crn_binary(r, CRN_B_LOGICAL_AND, a, b) : b; }

static crn_status sos_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const sos_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  int perm[CRN_MAX_RANK], k = 0;
  for (int i = 0; i < in->t.n; i++)
    if (i != c->at) perm[k++] = i;
  perm[k] = c->at;
  crn_data *d = crn_data_permute(r, in, perm);
  if (!d) return r->err->code;
  const int last = d->t.n - 1;
  crn_tensor *mask = c->use_time_mask == 0 ? NULL : crn_data_mask(r, d, last), *v = d->v;
  crn_tensor *pos = crn_range(r, CRN_I32, 0, d->v->shape[last]);
  if (!crn_v_is_none(c->start)) mask = both(r, mask, crn_binary(r, CRN_B_GREATER_EQUAL, pos, position(x, l, c->start_layer, c->start, d)));
  if (!crn_v_is_none(c->window_start)) {
    crn_tensor *from = position(x, l, c->window_start_layer, c->window_start, d);
    crn_tensor *size = position(x, l, c->window_size_layer, c->window_size, d);
    mask = both(r, mask, crn_binary(r, CRN_B_GREATER_EQUAL, pos, from));
    mask = both(r, mask, crn_binary(r, CRN_B_LESS, pos, crn_add(r, from, size)));
  }
  if (crn_run_failed(r)) return r->err->code;
  double factor, inf = (double)INFINITY;
  (void)crn_v_to_float(crn_exec_config(x, "inf_value"), &inf);
  if (mask) v = crn_mask_fill(r, v, mask, -inf);
  if (crn_v_to_float(c->energy_factor, &factor)) v = crn_scale(r, v, factor);
  out->v = c->log_space > 0 ? crn_log_softmax(r, v) : crn_softmax(r, v);
  for (int i = 0; i < d->t.n; i++) out->len[i] = d->len[i];
  out->pre = v;
  out->pre_act = c->log_space > 0 ? "log_softmax" : "softmax";
  return out->v ? CRN_OK : r->err->code;
}

/* ---- generic_attention ---------------------------------------------------------------------------------------------- */

typedef struct ga_cfg {
  crn_layer *base, *weights;
  int auto_squeeze;
  /* settled in infer: axes of base and weights */
  int base_time, weight_time;
  int base_match[CRN_MAX_RANK], weight_match[CRN_MAX_RANK], n_match; /* batch and others that have a partner */
  int kept[CRN_MAX_RANK], n_kept;                                     /* of weights */
  bool squeezed[CRN_MAX_RANK];
} ga_cfg;

#define GOFF(f) offsetof(ga_cfg, f)
static const crn_opt ga_opts[] = {
    {.name = "base", .type = CRN_OPT_LAYER, .offset = GOFF(base), .doc = "layer that is summed over its time axis"},
    {.name = "weights", .type = CRN_OPT_LAYER, .offset = GOFF(weights), .doc = "layer with the weights"},
    {.name = "auto_squeeze", .type = CRN_OPT_BOOL, .offset = GOFF(auto_squeeze), .dflt = "True", .doc = "drop weight axes of size 1"},
    CRN_OPT_END};

static int weights_time(const crn_tmpl *base, const crn_tmpl *w) {
  if (base->time_axis < 0) return -1;
  const crn_dim *t = base->dims[base->time_axis];
  int axis = crn_tmpl_find(w, t);
  if (axis >= 0) return axis;
  for (int i = 0; i < w->n; i++)
    if (w->dims[i]->kind != CRN_DIM_BATCH && w->dims[i]->size == t->size && t->size >= 0) return i;
  return w->time_axis;
}

static crn_status ga_axes(crn_build *b, crn_layer *l, ga_cfg *c) {
  const crn_tmpl *base = &c->base->out, *w = &c->weights->out;
  c->base_time = base->time_axis;
  c->weight_time = weights_time(base, w);
  if (c->base_time < 0 || base->feature_axis < 0 || c->weight_time < 0) {
    crn_str s = {0};
    crn_tmpl_describe(base, &s);
    crn_str_add(&s, " and weights ");
    crn_tmpl_describe(w, &s);
    crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "base needs time and feature axes, weights a time axis; base is %s", crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  bool taken[CRN_MAX_RANK] = {false};
  c->n_match = c->n_kept = 0;
  taken[c->weight_time] = true;
  for (int i = 0; i < base->n; i++) {
    if (i == c->base_time || i == base->feature_axis) continue;
    int partner = -1;
    for (int k = w->n; k-- > 0 && partner < 0;) {
      if (taken[k]) continue;
      if (base->dims[i]->kind == CRN_DIM_BATCH ? w->dims[k]->kind == CRN_DIM_BATCH
                                               : w->dims[k]->kind != CRN_DIM_BATCH && (crn_dim_same(base->dims[i], w->dims[k]) || (base->dims[i]->size >= 0 && base->dims[i]->size == w->dims[k]->size)))
        partner = k;
    }
    if (partner < 0) {
      if (base->dims[i]->kind == CRN_DIM_BATCH) continue;
      crn_str s = {0};
      crn_tmpl_describe(base, &s);
      crn_str_add(&s, ", weights ");
      crn_tmpl_describe(w, &s);
      crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "axis %d of base finds no partner in weights: base %s", i, crn_str_get(&s));
      crn_str_free(&s);
      return st;
    }
    taken[partner] = true;
    c->base_match[c->n_match] = i;
    c->weight_match[c->n_match++] = partner;
  }
  for (int k = 0; k < w->n; k++) {
    c->squeezed[k] = false;
    if (taken[k]) continue;
    c->kept[c->n_kept++] = k;
    c->squeezed[k] = c->auto_squeeze > 0 && w->dims[k]->size == 1;
  }
  return CRN_OK;
}

static crn_status ga_infer(crn_build *b, crn_layer *l) {
  ga_cfg *c = l->cfg;
  if (l->n_src) return crn_layer_fail(b, l, CRN_E_CONFIG, "takes no 'from', only 'base' and 'weights'");
  l->out_known = c->base->out_known && c->weights->out_known;
  if (!l->out_known) return CRN_OK;
  CRN_TRY(ga_axes(b, l, c));
  const crn_tmpl *base = &c->base->out, *w = &c->weights->out;
  l->out = crn_tmpl_scalar(CRN_F32);
  for (int i = 0; i < c->n_match; i++) l->out.dims[l->out.n++] = base->dims[c->base_match[i]];
  for (int i = 0; i < c->n_kept; i++)
    if (!c->squeezed[c->kept[i]]) l->out.dims[l->out.n++] = w->dims[c->kept[i]];
  l->out.dims[l->out.n++] = base->dims[base->feature_axis];
  crn_tmpl_update_roles(&l->out);
  if (crn_tmpl_batch_axis(&l->out) > 0) crn_tmpl_to_batch_major(&l->out, NULL);
  return CRN_OK;
}

/* Order of base's axes for the product: matched, time, feature. */
static void base_order(const ga_cfg *c, const crn_tmpl *base, int perm[CRN_MAX_RANK]) {
  int n = 0;
  for (int i = 0; i < c->n_match; i++) perm[n++] = c->base_match[i];
  perm[n++] = c->base_time;
  perm[n++] = base->feature_axis;
  for (int i = 0; i < base->n; i++) { /* base axes without partner: there are none but a batch that weights lack */
    bool used = false;
    for (int k = 0; k < n; k++) used |= perm[k] == i;
    if (!used) perm[n++] = i;
  }
}

/* Base as it is outside of the loop when only the batch is matched: hypotheses of a sequence are rows of one product. */
static const crn_data *shared_base(crn_exec *x, crn_layer *l, const ga_cfg *c, const crn_data *w) {
  int perm[CRN_MAX_RANK];
  if (!w->beam || c->n_match != 1 || w->t.dims[c->weight_match[0]]->kind != CRN_DIM_BATCH) return NULL;
  base_order(c, &c->base->out, perm);
  const crn_data *d = crn_constant_value(x, l, c->base, perm);
  return d && d->v->shape[0] * w->beam->K == w->v->shape[c->weight_match[0]] ? d : NULL;
}

static crn_status ga_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const ga_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *w = crn_value_of(x, l, c->weights);
  if (!w) return r->err->code;
  const crn_data *shared = shared_base(x, l, c, w), *base = shared;
  int perm[CRN_MAX_RANK], wp[CRN_MAX_RANK], nw = 0, n_out = 0;
  base_order(c, &c->base->out, perm);
  if (!base) base = crn_constant_value(x, l, c->base, perm);
  const int64_t n_seqs = w->v->shape[c->n_match ? c->weight_match[0] : 0];
  if (!base || (!shared && c->n_match && base->v->shape[0] != n_seqs && w->beam)) {
    base = crn_value_of(x, l, c->base);
    base = base ? crn_data_permute(r, base, perm) : NULL;
  }
  if (!base) return r->err->code;
  int64_t shape[CRN_MAX_RANK], w3[CRN_MAX_RANK], o = 1;
  for (int i = 0; i < c->n_match; i++) {
    wp[nw++] = c->weight_match[i];
    w3[i] = w->v->shape[c->weight_match[i]];
    out->len[n_out] = base->len[i];
    shape[n_out++] = base->v->shape[i] > w3[i] ? base->v->shape[i] : w3[i];
  }
  for (int i = 0; i < c->n_kept; i++) {
    wp[nw++] = c->kept[i];
    o *= w->v->shape[c->kept[i]];
    if (c->squeezed[c->kept[i]]) continue;
    out->len[n_out] = w->len[c->kept[i]];
    shape[n_out++] = w->v->shape[c->kept[i]];
  }
  wp[nw++] = c->weight_time;
  const int64_t T = base->v->shape[c->n_match], F = base->v->shape[c->n_match + 1];
  if (w->v->shape[c->weight_time] != T)
    return crn_exec_fail(x, l, "base has %lld frames, weights %lld", (long long)T, (long long)w->v->shape[c->weight_time]);
  if (shared) {
    w3[0] = base->v->shape[0];
    o *= w->beam->K;
  }
  w3[c->n_match] = o;
  w3[c->n_match + 1] = T;
  shape[n_out++] = F;
  crn_tensor *wv = crn_t_reshape(r, crn_transpose(r, w->v, wp), c->n_match + 2, w3);
  out->v = crn_t_reshape(r, crn_matmul(r, wv, false, base->v, false), n_out, shape);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- cum_concat ----------------------------------------------------------------------------------------------------- */

typedef struct cc_cfg {
  const crn_dim *out_spatial_dim;
  const crn_value *axis;
  const crn_dim *loop_dim; /* moved out: the axis that is renamed */
} cc_cfg;

static const crn_opt cc_opts[] = {
    {.name = "out_spatial_dim", .type = CRN_OPT_DIM, .offset = offsetof(cc_cfg, out_spatial_dim), .doc = "the new axis: all frames so far"},
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = offsetof(cc_cfg, axis), .dflt = "None", .doc = "only the single-step dim"},
    CRN_OPT_END};

static crn_status cc_infer(crn_build *b, crn_layer *l) {
  cc_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  c->loop_dim = crn_loop_dim(l);
  if (!c->loop_dim) return crn_layer_fail(b, l, CRN_E_CONFIG, "is only possible inside of a loop");
  if (!crn_layer_in_loop(l)) {
    const int axis = crn_tmpl_find(&l->out, c->loop_dim);
    if (axis < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source doesn't depend on the loop");
    l->out.dims[axis] = c->out_spatial_dim;
    return CRN_OK;
  }
  crn_tmpl t = l->out;
  const int at = crn_tmpl_batch_axis(&t) + 1;
  CRN_TRY(crn_tmpl_insert(&t, at, c->out_spatial_dim, crn_build_err(b)));
  l->out = t;
  return crn_layer_add_state(b, l, "state", &t);
}

static crn_status cc_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const cc_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  if (!crn_layer_in_loop(l)) {
    const int axis = crn_tmpl_find(&in->t, c->loop_dim);
    out->v = in->v;
    for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
    crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
    lt.dims[lt.n++] = c->loop_dim;
    out->len[axis] = crn_data_new(r, &lt, crn_range(r, CRN_I32, 1, in->v->shape[axis]));
    return CRN_OK;
  }
  const int at = crn_tmpl_batch_axis(&in->t) + 1;
  crn_tensor *now = crn_expand_dims(r, in->v, at);
  if (at == 1) {
    out->v = crn_history_whole(r, crn_state_append(x, l, 0, at, now));
  } else {
    const crn_data *before = crn_state_in(x, l, 0);
    crn_tensor *parts[2] = {before ? before->v : NULL, now};
    if (!before) return r->err->code;
    out->v = crn_concat(r, 2, parts, at);
  }
  if (!out->v) return r->err->code;
  for (int i = 0; i < in->t.n; i++) out->len[i < at ? i : i + 1] = in->len[i];
  crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
  out->len[at] = crn_data_new(r, &lt, crn_t_full(r, CRN_I32, 0, NULL, (double)out->v->shape[at]));
  return at == 1 ? CRN_OK : crn_state_out(x, l, 0, out);
}

const crn_layer_desc crn_family_attention[] = {
    {.name = "softmax_over_spatial", .doc = "Computes softmax over a spatial axis.", .opts = sos_opts, .cfg_size = sizeof(sos_cfg), .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM,
     .refs = sos_refs, .infer = sos_infer, .forward = sos_forward},
    {.name = "generic_attention", .doc = "Sums base over time with weights.", .opts = ga_opts, .cfg_size = sizeof(ga_cfg), .flags = CRN_L_MANY_INPUTS | CRN_L_NO_SOURCES | CRN_L_NEEDS_FUTURE | CRN_L_VALUES_ONLY,
     .infer = ga_infer, .forward = ga_forward},
    {.name = "cum_concat", .doc = "Gives all frames so far as a new axis.", .opts = cc_opts, .cfg_size = sizeof(cc_cfg), .flags = CRN_L_CONCAT,
     .infer = cc_infer, .forward = cc_forward},
    {.name = NULL}};
