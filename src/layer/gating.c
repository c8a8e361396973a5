/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that weigh values: gating, elemwise_prod, scaled_grad, weighted_sum.
 */
#include <string.h>
#include <strings.h>

#include "layer/activation.h"
#include "layer/lengths.h"
#include "layer/shape_list.h"

/* ---- gating ---------------------------------------------------------------------------------------------------------
 */

typedef struct gating_cfg {
  const crn_value *activation, *gate_activation;
  crn_act *act, *gate;
  bool two; /* two sources of the output's size: value and gate */
} gating_cfg;

static const crn_opt gating_opts[] = {{.name = "activation",
                                       .type = CRN_OPT_VALUE,
                                       .offset = offsetof(gating_cfg, activation),
                                       .doc = "activation of the first half"},
                                      {.name = "gate_activation",
                                       .type = CRN_OPT_VALUE,
                                       .offset = offsetof(gating_cfg, gate_activation),
                                       .dflt = "\"sigmoid\"",
                                       .doc = "activation of the gate"},
                                      CRN_OPT_END};

static crn_status gating_infer(crn_build *b, crn_layer *l) {
  gating_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_act_of(b, l, c->activation, "activation", &c->act));
  CRN_TRY(crn_act_of(b, l, c->gate_activation, "gate_activation", &c->gate));
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  const crn_dim *f = crn_tmpl_feature(&l->out);
  if (l->out.sparse || !f) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be dense, with a feature axis");
  if (f->size < 0 || f->size % 2)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the feature size must be even, it is %lld", (long long)f->size);
  const crn_dim *d = l->common.out_dim;
  if (d && d->size >= 0 && d->size != f->size / 2)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_dim' has size %lld, the output %lld", (long long)d->size,
                          (long long)f->size / 2);
  d = d && d->size >= 0 ? crn_dim_as_kind(crn_build_dims(b), d, CRN_DIM_FEATURE)
                        : crn_layer_dim(b, l, "gating", CRN_DIM_FEATURE, f->size / 2);
  if (!d) return crn_err_memory(crn_build_err(b));
  l->out.dims[l->out.feature_axis] = d;
  return CRN_OK;
}

static crn_status gating_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const gating_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  const int f = in->t.feature_axis;
  const int64_t n = in->v->shape[f] / 2;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  crn_data *a = crn_data_new(r, &in->t, crn_slice(r, in->v, f, 0, n, 1)),
           *g = crn_data_new(r, &in->t, crn_slice(r, in->v, f, n, n, 1));
  if (!a || !g) return r->err->code;
  CRN_TRY(crn_act_apply(x, l, c->act, a));
  CRN_TRY(crn_act_apply(x, l, c->gate, g));
  out->v = crn_mul(r, a->v, g->v);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- elemwise_prod --------------------------------------------------------------------------------------------------
 */

typedef struct prod_cfg {
  const crn_value *axes, *size, *keep_dims;
  const char *padding;
  int at[CRN_MAX_RANK], n_at;
  int64_t window[CRN_MAX_RANK]; /* weighted_sum: size of the window per axis */
  bool keep, same;
} prod_cfg;

static const crn_opt elemwise_opts[] = {{.name = "axes",
                                         .type = CRN_OPT_VALUE,
                                         .offset = offsetof(prod_cfg, axes),
                                         .doc = "axes of the factors, of fixed size"},
                                        {.name = "size",
                                         .type = CRN_OPT_VALUE,
                                         .offset = offsetof(prod_cfg, size),
                                         .dflt = "None",
                                         .doc = "their sizes, checked only"},
                                        CRN_OPT_END};

/* The axes, sorted by position; all of fixed size. */
static crn_status fixed_axes(crn_build *b, crn_layer *l, prod_cfg *c) {
  CRN_TRY(crn_layer_axes(b, l, &l->out, c->axes, "axes", c->at, &c->n_at));
  for (int i = 1; i < c->n_at; i++)
    for (int k = i; k > 0 && c->at[k] < c->at[k - 1]; k--) {
      const int tmp = c->at[k];
      c->at[k] = c->at[k - 1];
      c->at[k - 1] = tmp;
    }
  if (!c->n_at) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axes': there is no such axis");
  for (int i = 0; i < c->n_at; i++)
    if (l->out.dims[c->at[i]]->size < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axes': axis %d has no fixed size", c->at[i]);
  return CRN_OK;
}

/* Size option: a number or one per axis. */
static crn_status sizes_of(crn_build *b, crn_layer *l, const prod_cfg *c, int64_t *out) {
  const bool list = crn_v_is_seq(c->size);
  if (list && (int)crn_v_len(c->size) != c->n_at)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size': expected %d sizes, one per axis", c->n_at);
  for (int i = 0; i < c->n_at; i++)
    if (!crn_v_to_int(list ? crn_v_at(c->size, (size_t)i) : c->size, &out[i]) || out[i] < 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size': expected sizes of at least 1");
  return CRN_OK;
}

static crn_status elemwise_infer(crn_build *b, crn_layer *l) {
  prod_cfg *c = l->cfg;
  bool known;
  int64_t size[CRN_MAX_RANK];
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source is sparse");
  CRN_TRY(fixed_axes(b, l, c));
  if (crn_v_is_none(c->size)) return CRN_OK;
  CRN_TRY(sizes_of(b, l, c, size));
  for (int i = 0; i < c->n_at; i++)
    if (size[i] != l->out.dims[c->at[i]]->size)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size': axis %d has size %lld, not %lld", c->at[i],
                            (long long)l->out.dims[c->at[i]]->size, (long long)size[i]);
  return CRN_OK;
}

static crn_status elemwise_params(crn_build *b, crn_layer *l) {
  const prod_cfg *c = l->cfg;
  crn_param_spec s = {.name = "W", .rank = c->n_at, .init_default = "1", .dtype = CRN_F32};
  for (int i = 0; i < c->n_at; i++) s.shape[i] = l->out.dims[c->at[i]]->size;
  return crn_layer_param(b, l, &s);
}

/* W with size-1 axes where the data has others. */
static crn_tensor *spread(crn_run *r, const prod_cfg *c, int rank, crn_tensor *w) {
  int64_t shape[CRN_MAX_RANK];
  if (!w) return NULL;
  for (int i = 0; i < rank; i++) shape[i] = 1;
  for (int i = 0; i < c->n_at; i++) shape[c->at[i]] = w->shape[i];
  return crn_t_reshape(r, w, rank, shape);
}

static crn_status elemwise_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  crn_tensor *w = crn_param_get(x, l, "W");
  if (!in || !w) return r->err->code;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  out->v = crn_mul(r, in->v, spread(r, l->cfg, in->t.n, w));
  return out->v ? CRN_OK : r->err->code;
}

/* ---- weighted_sum ---------------------------------------------------------------------------------------------------
 */

static const crn_opt weighted_opts[] = {{.name = "axes",
                                         .type = CRN_OPT_VALUE,
                                         .offset = offsetof(prod_cfg, axes),
                                         .doc = "one to three axes of fixed size"},
                                        {.name = "size",
                                         .type = CRN_OPT_VALUE,
                                         .offset = offsetof(prod_cfg, size),
                                         .dflt = "None",
                                         .doc = "window per axis; default: the whole axes, which are removed"},
                                        {.name = "padding",
                                         .type = CRN_OPT_STR,
                                         .offset = offsetof(prod_cfg, padding),
                                         .dflt = "None",
                                         .doc = "same or valid, with size"},
                                        {.name = "keep_dims",
                                         .type = CRN_OPT_VALUE,
                                         .offset = offsetof(prod_cfg, keep_dims),
                                         .dflt = "None",
                                         .doc = "keep the axes; default: with size"},
                                        CRN_OPT_END};

static crn_status weighted_infer(crn_build *b, crn_layer *l) {
  static const char *const slots[3] = {"weighted_sum:0", "weighted_sum:1", "weighted_sum:2"};
  prod_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source is sparse");
  CRN_TRY(fixed_axes(b, l, c));
  if (c->n_at > 3) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axes': at most three axes are possible");
  const bool windows = !crn_v_is_none(c->size);
  if (windows) CRN_TRY(sizes_of(b, l, c, c->window));
  if (windows != (c->padding != NULL))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "options 'size' and 'padding' go together");
  c->same = windows && !strcasecmp(c->padding, "same");
  if (windows && !c->same && strcasecmp(c->padding, "valid"))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'padding': unknown padding '%s'; there are same and valid",
                          c->padding);
  c->keep = crn_v_is_none(c->keep_dims) ? windows : crn_v_truth(c->keep_dims);
  for (int i = c->n_at; i-- > 0;) {
    const crn_dim *old = l->out.dims[c->at[i]];
    if (!windows) c->window[i] = old->size;
    const int64_t n = c->same ? old->size : old->size - c->window[i] + 1;
    if (n < 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size': %lld is more than axis %d has", (long long)c->window[i],
                            c->at[i]);
    if (!c->keep && n != 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'keep_dims': axis %d can't be removed, %lld sums remain",
                            c->at[i], (long long)n);
    if (!c->keep)
      crn_tmpl_remove(&l->out, c->at[i]);
    else if (n != old->size)
      CRN_TRY(crn_changed_dim(b, l, old, n, slots[i], "weighted_sum", 0, 0, 0, &l->out.dims[c->at[i]]));
  }
  return CRN_OK;
}

static crn_status weighted_params(crn_build *b, crn_layer *l) {
  const prod_cfg *c = l->cfg;
  crn_param_spec s = {.name = "W", .rank = c->n_at, .dtype = CRN_F32};
  double n = 1;
  for (int i = 0; i < c->n_at; i++) {
    s.shape[i] = c->window[i];
    n *= (double)c->window[i];
  }
  s.init = crn_v_float(crn_build_arena(b), 1 / n);
  return s.init ? crn_layer_param(b, l, &s) : crn_err_memory(crn_build_err(b));
}

/* The weighted axes as spatial axes of a convolution with one channel, all others as its batch. */
static crn_status weighted_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const prod_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  crn_tensor *w = crn_param_get(x, l, "W");
  if (!in || !w) return r->err->code;
  int perm[CRN_MAX_RANK], back[CRN_MAX_RANK], n = 0;
  int64_t shape[5] = {1}, filter[5], full[CRN_MAX_RANK];
  crn_conv_spec spec = {.n_spatial = c->n_at, .groups = 1};
  for (int i = 0, a = 0; i < in->t.n; i++) {
    if (a < c->n_at && c->at[a] == i) {
      a++;
      continue;
    }
    shape[0] *= in->v->shape[i];
    full[n] = in->v->shape[i];
    perm[n++] = i;
  }
  for (int i = 0; i < c->n_at; i++) {
    const int64_t total = c->same ? c->window[i] - 1 : 0;
    perm[n + i] = c->at[i];
    shape[1 + i] = in->v->shape[c->at[i]];
    filter[i] = c->window[i];
    spec.stride[i] = spec.dilation[i] = 1;
    spec.pad_before[i] = total / 2;
    spec.pad_after[i] = total - total / 2;
  }
  shape[1 + c->n_at] = filter[c->n_at] = filter[c->n_at + 1] = 1;
  crn_tensor *v = crn_t_reshape(r, crn_transpose(r, in->v, perm), c->n_at + 2, shape);
  v = crn_conv(r, v, crn_t_reshape(r, w, c->n_at + 2, filter), &spec);
  if (!v) return r->err->code;
  for (int i = 0; i < c->n_at; i++) full[n + i] = v->shape[1 + i];
  for (int i = 0; i < in->t.n; i++) back[perm[i]] = i;
  v = crn_t_reshape(r, v, c->keep ? in->t.n : n, full);
  out->v = c->keep ? crn_transpose(r, v, back) : v;
  for (int i = 0, o = 0; i < in->t.n; i++) {
    bool gone = false;
    for (int k = 0; k < c->n_at; k++) gone |= c->at[k] == i && !c->keep;
    if (!gone) out->len[o++] = in->len[i];
  }
  return out->v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, c, f, ...)                                                                                        \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(c), .flags = CRN_L_CONCAT | (f), __VA_ARGS__ }
const crn_layer_desc crn_family_gating[] = {
    ROW("gating", "Multiplies one half of the feature with a gate made of the other.", gating_opts, gating_cfg,
        CRN_L_STREAMS, .infer = gating_infer, .forward = gating_forward),
    ROW("elemwise_prod", "Multiplies with learned factors.", elemwise_opts, prod_cfg, CRN_L_STREAMS,
        .infer = elemwise_infer, .params = elemwise_params, .forward = elemwise_forward),
    ROW("weighted_sum", "Sums over axes with learned weights.", weighted_opts, prod_cfg, 0, .infer = weighted_infer,
        .params = weighted_params, .forward = weighted_forward),
    {.name = NULL}};
