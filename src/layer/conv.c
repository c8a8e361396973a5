/* SPDX-License-Identifier: Apache-2.0
 *
 * conv: convolution over one to three spatial axes (layers-1.md, conv).
 */
#include <string.h>

#include "layer/activation.h"
#include "layer/spatial.h"

typedef struct conv_cfg {
  const crn_value *filter_size, *padding, *strides, *dilation_rate, *activation, *forward_weights_init, *bias_init;
  const crn_value *in_spatial_dims, *out_spatial_dims, *filter_perm, *pad_seq_len_to_power, *auto_use_channel_first;
  int64_t groups, input_expand_dims, input_split_feature_dim;
  int with_bias, input_add_feature_dim, use_time_mask;
  crn_layer *filter, *bias;
  crn_act *act;
  crn_spatial s;    /* of the input as it comes, before axes are added */
  crn_spatial full; /* with the axes that input_expand_dims etc. add */
  int64_t n_in, n_out;
  int filter_axes[CRN_MAX_RANK]; /* filter_perm: axis i of the filter is this axis of the layer */
  bool has_bias, permute_filter;
  bool feature_major; /* input and output are [B, F, spatial axes] */
} conv_cfg;

#define OFF(f) offsetof(conv_cfg, f)
static const crn_opt conv_opts[] = {
    {.name = "filter_size",
     .type = CRN_OPT_VALUE,
     .offset = OFF(filter_size),
     .doc = "size of the filter per spatial axis, in frames"},
    {.name = "padding",
     .type = CRN_OPT_VALUE,
     .offset = OFF(padding),
     .doc = "same, valid, same_static, or frames on both sides"},
    {.name = "strides",
     .type = CRN_OPT_VALUE,
     .offset = OFF(strides),
     .dflt = "1",
     .doc = "step per spatial axis, in frames"},
    {.name = "dilation_rate",
     .type = CRN_OPT_VALUE,
     .offset = OFF(dilation_rate),
     .dflt = "1",
     .doc = "distance of the filter's taps, in frames"},
    {.name = "groups",
     .type = CRN_OPT_INT,
     .offset = OFF(groups),
     .dflt = "1",
     .min = 1,
     .max = 1e9,
     .doc = "groups of channels that don't mix"},
    {.name = "input_expand_dims",
     .type = CRN_OPT_INT,
     .offset = OFF(input_expand_dims),
     .dflt = "0",
     .min = 0,
     .max = 3,
     .doc = "number of spatial axes of size 1 to add"},
    {.name = "input_add_feature_dim",
     .type = CRN_OPT_BOOL,
     .offset = OFF(input_add_feature_dim),
     .dflt = "False",
     .doc = "the feature becomes spatial, a new one of size 1 is added"},
    {.name = "input_split_feature_dim",
     .type = CRN_OPT_INT,
     .offset = OFF(input_split_feature_dim),
     .dflt = "None",
     .min = 1,
     .max = 1e9,
     .doc = "feature size that remains, the rest becomes spatial"},
    {.name = "in_spatial_dims",
     .type = CRN_OPT_VALUE,
     .offset = OFF(in_spatial_dims),
     .dflt = "None",
     .doc = "spatial axes in the filter's order"},
    {.name = "out_spatial_dims",
     .type = CRN_OPT_VALUE,
     .offset = OFF(out_spatial_dims),
     .dflt = "None",
     .doc = "dims of the result's spatial axes"},
    {.name = "with_bias",
     .type = CRN_OPT_BOOL,
     .offset = OFF(with_bias),
     .dflt = "None",
     .doc = "add a bias; default from behavior_version 10"},
    {.name = "activation",
     .type = CRN_OPT_VALUE,
     .offset = OFF(activation),
     .dflt = "None",
     .doc = "activation, a name or an expression"},
    {.name = "forward_weights_init",
     .type = CRN_OPT_VALUE,
     .offset = OFF(forward_weights_init),
     .dflt = "\"glorot_uniform\"",
     .doc = "initialiser of the filter"},
    {.name = "bias_init",
     .type = CRN_OPT_VALUE,
     .offset = OFF(bias_init),
     .dflt = "0.0",
     .doc = "initialiser of the bias"},
    {.name = "filter", .type = CRN_OPT_LAYER, .offset = OFF(filter), .dflt = "None", .doc = "layer used as the filter"},
    {.name = "filter_perm",
     .type = CRN_OPT_VALUE,
     .offset = OFF(filter_perm),
     .dflt = "None",
     .doc = "how to transpose that layer"},
    {.name = "bias", .type = CRN_OPT_LAYER, .offset = OFF(bias), .dflt = "None", .doc = "layer used as the bias"},
    {.name = "use_time_mask",
     .type = CRN_OPT_BOOL,
     .offset = OFF(use_time_mask),
     .dflt = "False",
     .doc = "set padded frames to 0 first"},
    {.name = "auto_use_channel_first",
     .type = CRN_OPT_VALUE,
     .offset = OFF(auto_use_channel_first),
     .dflt = "None",
     .doc = "layout on GPUs, without effect here"},
    {.name = "pad_seq_len_to_power",
     .type = CRN_OPT_VALUE,
     .offset = OFF(pad_seq_len_to_power),
     .dflt = "None",
     .doc = "padding of the computation, without effect on results"},
    CRN_OPT_END};

/* ---- construction ---------------------------------------------------------------------------------------------------
 */

/* Axes added before the feature, or made of it. */
static crn_status add_axes(crn_build *b, crn_layer *l, conv_cfg *c) {
  c->full = c->s;
  crn_tmpl *t = &c->full.t;
  for (int64_t i = 0; i < c->input_expand_dims; i++) {
    const crn_dim *d = crn_layer_dim(b, l, i == 0 ? "expand0" : i == 1 ? "expand1" : "expand2", CRN_DIM_SPATIAL, 1);
    if (!d) return crn_err_memory(crn_build_err(b));
    CRN_TRY(crn_tmpl_insert(t, t->n - 1, d, crn_build_err(b)));
    c->full.n++;
  }
  const int64_t split = c->input_split_feature_dim, size = t->dims[t->n - 1]->size;
  if (c->input_add_feature_dim > 0 && split != CRN_UNSET)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "'input_add_feature_dim' and 'input_split_feature_dim' exclude each other");
  if (c->input_add_feature_dim > 0) {
    const crn_dim *d = crn_layer_dim(b, l, "input-channel", CRN_DIM_FEATURE, 1);
    if (!d) return crn_err_memory(crn_build_err(b));
    CRN_TRY(crn_tmpl_insert(t, t->n, d, crn_build_err(b)));
    c->full.n++;
  }
  if (split != CRN_UNSET) {
    if (size < 0 || size % split)
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "option 'input_split_feature_dim': feature size %lld is no multiple of %lld",
                            (long long)size, (long long)split);
    const crn_dim *m = crn_layer_dim(b, l, "input-split-spatial", CRN_DIM_SPATIAL, size / split),
                  *n = crn_layer_dim(b, l, "input-split-channel", CRN_DIM_FEATURE, split);
    if (!m || !n) return crn_err_memory(crn_build_err(b));
    t->dims[t->n - 1] = m;
    CRN_TRY(crn_tmpl_insert(t, t->n, n, crn_build_err(b)));
    c->full.n++;
  }
  t->feature_axis = t->n - 1;
  return CRN_OK;
}

static crn_status filter_order(crn_build *b, crn_layer *l, conv_cfg *c) {
  c->permute_filter = false;
  if (!c->filter || crn_v_is_none(c->filter_perm) || !c->filter->out_known) return CRN_OK;
  if (!crn_v_is_dict(c->filter_perm))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'filter_perm': expected a dict");
  const crn_tmpl *t = &c->filter->out;
  bool taken[CRN_MAX_RANK] = {false};
  for (int i = 0; i < t->n; i++) c->filter_axes[i] = -1;
  for (size_t i = 0; i < c->filter_perm->u.dict.n; i++) {
    int from, to;
    CRN_TRY(crn_layer_axis(b, l, t, c->filter_perm->u.dict.keys[i], "filter_perm", &from));
    CRN_TRY(crn_layer_axis(b, l, t, c->filter_perm->u.dict.vals[i], "filter_perm", &to));
    if (taken[from] || c->filter_axes[to] >= 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'filter_perm': an axis is named twice");
    c->filter_axes[to] = from;
    taken[from] = true;
  }
  for (int i = 0, from = 0; i < t->n; i++) {
    if (c->filter_axes[i] >= 0) continue;
    while (taken[from]) from++;
    c->filter_axes[i] = from;
    taken[from] = true;
  }
  c->permute_filter = true;
  return CRN_OK;
}

static crn_status check_filter(crn_build *b, crn_layer *l, const conv_cfg *c) {
  const crn_spatial *s = &c->full;
  if (!c->filter || !c->filter->out_known) return CRN_OK;
  const crn_tmpl *t = &c->filter->out;
  bool ok = t->n == s->n + 2;
  for (int i = 0; ok && i < t->n; i++) {
    const int64_t want = i < s->n ? s->k[i] : i == s->n ? c->n_in / c->groups : c->n_out;
    ok = t->dims[c->permute_filter ? c->filter_axes[i] : i]->size == want;
  }
  return ok ? CRN_OK
            : crn_layer_fail(
                  b, l, CRN_E_CONFIG,
                  "option 'filter': the shape of layer '%s' is not [filter sizes, input channels, output channels]",
                  c->filter->path);
}

/* [B, spatial axes, F] becomes [B, F, spatial axes]. */
static void feature_second(int *perm, int n) {
  perm[0] = 0;
  perm[1] = n - 1;
  for (int i = 2; i < n; i++) perm[i] = i - 1;
}

static crn_status conv_infer(crn_build *b, crn_layer *l) {
  conv_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  static const int64_t ones[3] = {1, 1, 1};
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (!crn_v_is_none(l->common.out_type))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type' is not possible here, give 'n_out'");
  if (l->common.n_out == CRN_UNSET && !l->common.out_dim)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' or 'out_dim' is required");
  if (!crn_v_is_seq(c->filter_size))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'filter_size': expected a tuple, one size per spatial axis");
  CRN_TRY(crn_act_of(b, l, c->activation, "activation", &c->act));
  CRN_TRY(crn_spatial_arrange(b, l, &in, c->in_spatial_dims, &c->s));
  CRN_TRY(add_axes(b, l, c));
  crn_spatial *s = &c->full;
  if ((int)crn_v_len(c->filter_size) != s->n || s->n < 1 || s->n > 3)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'filter_size' has %d entries, but there are %d spatial axes (1 to 3 are possible)",
                          (int)crn_v_len(c->filter_size), s->n);
  CRN_TRY(crn_spatial_sizes(b, l, c->filter_size, "filter_size", s->n, ones, 1, s->k));
  CRN_TRY(crn_spatial_sizes(b, l, c->strides, "strides", s->n, ones, 1, s->stride));
  CRN_TRY(crn_spatial_sizes(b, l, c->dilation_rate, "dilation_rate", s->n, ones, 1, s->dilation));
  CRN_TRY(crn_spatial_padding(b, l, c->padding, s));
  crn_spatial_streams(l, s);
  l->out = s->t;
  for (int i = 0; i < s->n; i++)
    CRN_TRY(crn_spatial_out_dim(b, l, s, c->out_spatial_dims, i, &l->out.dims[s->first + i]));
  const crn_dim *f;
  CRN_TRY(crn_new_feature_dim(b, l, &s->t, &f));
  l->out.dims[l->out.n - 1] = f;
  l->out.dtype = CRN_F32;
  l->out.vocab = NULL;
  c->feature_major = crn_v_is_none(c->in_spatial_dims) && c->input_add_feature_dim <= 0 &&
                     c->input_split_feature_dim == CRN_UNSET && in.n > 2 && in.feature_axis == 1 && s->first == 1;
  if (c->feature_major) {
    int perm[CRN_MAX_RANK];
    feature_second(perm, l->out.n);
    crn_tmpl_permute(&l->out, perm);
  }
  crn_tmpl_update_roles(&l->out);
  c->n_in = s->t.dims[s->t.n - 1]->size;
  c->n_out = f->size;
  if (c->n_in < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the input's feature size is not known");
  if (c->n_in % c->groups || c->n_out % c->groups)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'groups': %lld must divide the %lld input and %lld output channels",
                          (long long)c->groups, (long long)c->n_in, (long long)c->n_out);
  c->has_bias = c->with_bias == CRN_UNSET_INT ? c->bias || crn_build_version(b) >= 10 : c->with_bias > 0;
  if (c->bias && !c->has_bias)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'bias' is given, but with_bias is False");
  CRN_TRY(filter_order(b, l, c));
  return check_filter(b, l, c);
}

static crn_status conv_params(crn_build *b, crn_layer *l) {
  const conv_cfg *c = l->cfg;
  const crn_spatial *s = &c->full;
  if (!c->filter) {
    crn_param_spec w = {.name = "W", .rank = s->n + 2, .init = c->forward_weights_init, .dtype = CRN_F32};
    for (int i = 0; i < s->n; i++) w.shape[i] = s->k[i];
    w.shape[s->n] = c->n_in / c->groups;
    w.shape[s->n + 1] = c->n_out;
    CRN_TRY(crn_layer_param(b, l, &w));
  }
  if (!c->has_bias || c->bias) return CRN_OK;
  crn_param_spec bias = {.name = "bias", .rank = 1, .shape = {c->n_out}, .init = c->bias_init, .dtype = CRN_F32};
  return crn_layer_param(b, l, &bias);
}

/* ---- execution ------------------------------------------------------------------------------------------------------
 */

static crn_tensor *filter_of(crn_exec *x, crn_layer *l, const conv_cfg *c) {
  if (!c->filter) return crn_param_get(x, l, "W");
  const crn_data *d = crn_value_of(x, l, c->filter);
  if (!d) return NULL;
  return c->permute_filter ? crn_transpose(crn_exec_run(x), d->v, c->filter_axes) : d->v;
}

static crn_tensor *bias_of(crn_exec *x, crn_layer *l, const conv_cfg *c) {
  if (!c->bias) return crn_param_get(x, l, "bias");
  const crn_data *d = crn_value_of(x, l, c->bias);
  return d ? d->v : NULL;
}

static crn_status conv_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const conv_cfg *c = l->cfg;
  const crn_spatial *s = &c->full;
  crn_run *r = crn_exec_run(x);
  crn_data *d = crn_spatial_input(x, l, &c->s, c->use_time_mask > 0, 0);
  crn_tensor *w = filter_of(x, l, c);
  const crn_data *len[3];
  if (!d || !w) return r->err->code;
  CRN_TRY(crn_spatial_lengths(x, l, s, d, len));
  int64_t shape[CRN_MAX_RANK] = {1}, result[CRN_MAX_RANK];
  for (int i = 0; i < s->first; i++) {
    shape[0] *= d->v->shape[i];
    result[i] = d->v->shape[i];
    out->len[i] = d->len[i];
  }
  for (int i = 0; i < s->n; i++) { /* added axes have fixed sizes */
    const int axis = s->first + i;
    shape[1 + i] = i < c->s.n ? d->v->shape[axis] : s->t.dims[axis]->size;
    if (i < c->s.n) out->len[axis] = len[i];
  }
  shape[1 + s->n] = c->n_in;
  crn_conv_spec spec;
  crn_spatial_spec(s, shape + 1, &spec);
  spec.groups = c->groups;
  crn_tensor *v = crn_conv(r, crn_t_reshape(r, d->v, s->n + 2, shape), w, &spec);
  if (!v) return r->err->code;
  for (int i = 0; i <= s->n; i++) result[s->first + i] = v->shape[1 + i];
  if (c->has_bias) v = crn_add(r, v, bias_of(x, l, c));
  out->v = crn_t_reshape(r, v, l->out.n, result);
  if (c->feature_major) {
    int perm[CRN_MAX_RANK];
    feature_second(perm, l->out.n);
    for (int i = l->out.n - 1; i > 1; i--) out->len[i] = out->len[i - 1];
    out->len[1] = NULL;
    out->v = crn_transpose(r, out->v, perm);
  }
  return crn_act_apply_over(x, l, c->act, out);
}

const crn_layer_desc crn_family_conv[] = {
    {.name = "conv",
     .doc = "Convolves over one to three spatial axes.",
     .opts = conv_opts,
     .cfg_size = sizeof(conv_cfg),
     .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM | CRN_L_VALUES_ONLY,
     .infer = conv_infer,
     .params = conv_params,
     .forward = conv_forward},
    {.name = NULL}};
