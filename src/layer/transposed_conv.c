/* SPDX-License-Identifier: Apache-2.0
 *
 * transposed_conv: transposed convolution over one or two axes (layers-2.md).
 */
#include <string.h>
#include <strings.h>

#include "layer/activation.h"
#include "layer/lengths.h"
#include "layer/spatial.h"

typedef struct tconv_cfg {
  const crn_value *filter_size, *strides, *remove_padding, *output_padding, *in_spatial_dims, *out_spatial_dims;
  const crn_value *activation, *forward_weights_init, *bias_init, *filter_perm;
  const char *padding;
  int with_bias, use_time_mask;
  crn_layer *filter, *bias;
  crn_act *act;
  crn_spatial s;
  bool same, has_output_padding;
  int64_t output_pad[3], cut[3];
  int64_t n_in, n_out;
  bool permuted; /* filter_perm */
  int perm[CRN_MAX_RANK];
} tconv_cfg;

#define OFF(f) offsetof(tconv_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

static const crn_opt tconv_opts[] = {
    OPT(filter_size, CRN_OPT_VALUE, NULL, .doc = "size of the filter per spatial axis, in frames"),
    OPT(activation, CRN_OPT_VALUE, "None", .doc = "activation, a name or an expression"),
    OPT(strides, CRN_OPT_VALUE, "None", .doc = "factor of the size per spatial axis; default filter_size"),
    OPT(padding, CRN_OPT_STR, "\"same\"", .doc = "same or valid"),
    OPT(remove_padding, CRN_OPT_VALUE, "0", .doc = "frames to cut at both ends"),
    OPT(output_padding, CRN_OPT_VALUE, "None", .doc = "frames to add to the size"),
    OPT(in_spatial_dims, CRN_OPT_VALUE, "None", .doc = "spatial axes in the filter's order"),
    OPT(out_spatial_dims, CRN_OPT_VALUE, "None", .doc = "dims of the result's spatial axes"),
    OPT(with_bias, CRN_OPT_BOOL, "True", .doc = "add a bias"),
    OPT(forward_weights_init, CRN_OPT_VALUE, "\"glorot_uniform\"", .doc = "initialiser of the filter"),
    OPT(bias_init, CRN_OPT_VALUE, "0.0", .doc = "initialiser of the bias"),
    OPT(filter, CRN_OPT_LAYER, "None", .doc = "layer used as the filter"),
    OPT(filter_perm, CRN_OPT_VALUE, "None", .doc = "how to transpose that layer"),
    OPT(bias, CRN_OPT_LAYER, "None", .doc = "layer used as the bias"),
    OPT(use_time_mask, CRN_OPT_BOOL, "False", .doc = "set padded frames to 0 first"),
    CRN_OPT_END};

/* What is added to T * stride to give the array's size, before padding is removed. */
static int64_t extra(const tconv_cfg *c, int i) {
  const int64_t over = c->s.k[i] - c->s.stride[i];
  if (c->has_output_padding) return over - 2 * (c->same ? c->s.k[i] / 2 : 0) + c->output_pad[i];
  return c->same || over < 0 ? 0 : over;
}

static crn_status tconv_dims(crn_build *b, crn_layer *l, tconv_cfg *c) {
  static const char *const slots[2] = {"conv:s0", "conv:s1"};
  const crn_spatial *s = &c->s;
  for (int i = 0; i < s->n; i++) {
    const crn_dim *old = s->t.dims[s->first + i], *d = old;
    const int64_t add = extra(c, i) - 2 * c->cut[i];
    if (s->stride[i] != 1 || add)
      CRN_TRY(crn_changed_dim(b, l, old, old->size < 0 ? -1 : old->size * s->stride[i] + add, slots[i],
                              "transposed_conv", s->stride[i], add, 0, &d));
    CRN_TRY(crn_given_dim(b, l, c->out_spatial_dims, i, d, &l->out.dims[s->first + i]));
  }
  return CRN_OK;
}

/* filter_perm: the axes of the filter's layer in the order in which they are wanted. */
static crn_status filter_order(crn_build *b, crn_layer *l, tconv_cfg *c) {
  int n = 0;
  if (crn_v_is_none(c->filter_perm)) return CRN_OK;
  if (!c->filter) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'filter_perm' needs a 'filter'");
  if (!crn_v_is_seq(c->filter_perm))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'filter_perm': expected a list of axes");
  if (!c->filter->out_known) return l->out_known = false, CRN_OK;
  CRN_TRY(crn_layer_axes(b, l, &c->filter->out, c->filter_perm, "filter_perm", c->perm, &n));
  bool once[4] = {false};
  for (int i = 0; i < n && i < 4; i++) once[c->perm[i] & 3] = c->perm[i] < 4;
  c->permuted = n == 4 && once[0] && once[1] && once[2] && once[3];
  if (c->permuted) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'filter_perm': expected each of the 4 axes of layer '%s' once",
                        c->filter->path);
}

static crn_status tconv_infer(crn_build *b, crn_layer *l) {
  static const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0, 0, 0};
  tconv_cfg *c = l->cfg;
  crn_spatial *s = &c->s;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->common.n_out == CRN_UNSET && !l->common.out_dim)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' or 'out_dim' is required");
  CRN_TRY(crn_act_of(b, l, c->activation, "activation", &c->act));
  CRN_TRY(crn_spatial_arrange(b, l, &in, c->in_spatial_dims, s));
  const int n = crn_v_is_seq(c->filter_size) ? (int)crn_v_len(c->filter_size) : -1;
  if (n != s->n || n < 1 || n > 2)
    return crn_layer_fail(
        b, l, CRN_E_CONFIG,
        "option 'filter_size': expected a list with a size for each of the %d spatial axes (one or two are possible)",
        s->n);
  CRN_TRY(crn_spatial_sizes(b, l, c->filter_size, "filter_size", n, ones, 1, s->k));
  CRN_TRY(crn_spatial_sizes(b, l, c->strides, "strides", n, s->k, 1, s->stride));
  CRN_TRY(crn_spatial_sizes(b, l, c->remove_padding, "remove_padding", n, zeros, 0, c->cut));
  CRN_TRY(crn_spatial_sizes(b, l, c->output_padding, "output_padding", n, zeros, 0, c->output_pad));
  c->has_output_padding = !crn_v_is_none(c->output_padding);
  c->same = !strcasecmp(c->padding, "same");
  if (!c->same && strcasecmp(c->padding, "valid"))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'padding': unknown padding '%s'; there are same and valid",
                          c->padding);
  for (int i = 0; i < n; i++) s->dilation[i] = 1;
  l->out = s->t;
  l->out.time_explicit = in.time_explicit;
  CRN_TRY(tconv_dims(b, l, c));
  const crn_dim *f;
  CRN_TRY(crn_new_feature_dim(b, l, &s->t, &f));
  l->out.dims[l->out.n - 1] = f;
  l->out.dtype = CRN_F32;
  crn_tmpl_update_roles(&l->out);
  c->n_in = s->t.dims[s->t.n - 1]->size;
  c->n_out = f->size;
  if (c->n_in < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the input's feature size is not known");
  if (c->bias && c->with_bias <= 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'bias' is given, but with_bias is False");
  return filter_order(b, l, c);
}

/* [k, 1, n_out, n_in] for one axis, [k0, k1, n_out, n_in] for two */
static void filter_shape(const tconv_cfg *c, int64_t shape[4]) {
  shape[0] = c->s.k[0];
  shape[1] = c->s.n > 1 ? c->s.k[1] : 1;
  shape[2] = c->n_out;
  shape[3] = c->n_in;
}

static crn_status tconv_params(crn_build *b, crn_layer *l) {
  const tconv_cfg *c = l->cfg;
  crn_param_spec w = {.name = "W_native_transposed_conv", .rank = 4, .init = c->forward_weights_init, .dtype = CRN_F32};
  filter_shape(c, w.shape);
  if (!c->filter) CRN_TRY(crn_layer_param(b, l, &w));
  if (c->with_bias <= 0 || c->bias) return CRN_OK;
  crn_param_spec bias = {.name = "bias", .rank = 1, .shape = {c->n_out}, .init = c->bias_init, .dtype = CRN_F32};
  return crn_layer_param(b, l, &bias);
}

/* Filter as [k.., n_out, n_in]. */
static crn_tensor *tconv_filter(crn_exec *x, crn_layer *l, const tconv_cfg *c) {
  crn_run *r = crn_exec_run(x);
  int64_t shape[4];
  filter_shape(c, shape);
  crn_tensor *w = NULL;
  if (c->filter) {
    const crn_data *d = crn_value_of(x, l, c->filter);
    w = d && c->permuted && d->v->rank == 4 ? crn_transpose(r, d->v, c->perm) : d ? d->v : NULL;
    bool fits = w && w->rank == 4;
    for (int i = 0; fits && i < 4; i++) fits = w->shape[i] == shape[i];
    if (w && !fits)
      return (void)crn_exec_fail(x, l, "option 'filter': the shape of layer '%s' is not that of the filter",
                                 c->filter->path),
             NULL;
  } else {
    w = crn_param_get(x, l, "W_native_transposed_conv");
  }
  if (c->s.n == 1) {
    shape[1] = shape[2];
    shape[2] = shape[3];
    w = crn_t_reshape(r, w, 3, shape);
  }
  return w;
}

static crn_status tconv_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const tconv_cfg *c = l->cfg;
  const crn_spatial *s = &c->s;
  crn_run *r = crn_exec_run(x);
  crn_data *d = crn_spatial_input(x, l, s, c->use_time_mask > 0, 0);
  crn_tensor *w = tconv_filter(x, l, c);
  if (!d || !w) return r->err->code;
  int64_t shape[CRN_MAX_RANK] = {1}, result[CRN_MAX_RANK], full[3];
  crn_conv_spec spec = {.n_spatial = s->n, .groups = 1};
  for (int i = 0; i < s->first; i++) {
    shape[0] *= d->v->shape[i];
    result[i] = d->v->shape[i];
    out->len[i] = d->len[i];
  }
  for (int i = 0; i < s->n; i++) {
    const int axis = s->first + i;
    const int64_t T = d->v->shape[axis], size = T * s->stride[i] + extra(c, i);
    int64_t total = c->same ? (T - 1) * s->stride[i] + s->k[i] - size : 0;
    if (total < 0) total = 0;
    full[i] = T > 0 && size > 0 ? size : 0;
    shape[1 + i] = T;
    spec.stride[i] = s->stride[i];
    spec.dilation[i] = 1;
    spec.pad_before[i] = total / 2;
    spec.pad_after[i] = total - total / 2;
    out->len[axis] = crn_lengths_affine(x, d->len[axis], s->stride[i], extra(c, i) - 2 * c->cut[i], 1);
  }
  shape[1 + s->n] = c->n_in;
  crn_tensor *v = crn_conv_transposed(r, crn_t_reshape(r, d->v, s->n + 2, shape), w, &spec, full);
  for (int i = 0; i < s->n; i++) {
    const int64_t n = full[i] - 2 * c->cut[i];
    if (c->cut[i]) v = crn_slice(r, v, 1 + i, n > 0 ? c->cut[i] : 0, n > 0 ? n : 0, 1);
  }
  if (!v) return r->err->code;
  for (int i = 0; i <= s->n; i++) result[s->first + i] = v->shape[1 + i];
  const crn_data *given = c->bias ? crn_value_of(x, l, c->bias) : NULL;
  if (c->with_bias > 0) v = crn_add(r, v, c->bias ? (given ? given->v : NULL) : crn_param_get(x, l, "bias"));
  out->v = crn_t_reshape(r, v, l->out.n, result);
  return crn_act_apply_over(x, l, c->act, out);
}

const crn_layer_desc crn_family_transposed_conv[] = {
    {.name = "transposed_conv",
     .doc = "Convolves in the transposed way, which makes axes longer.",
     .opts = tconv_opts,
     .cfg_size = sizeof(tconv_cfg),
     .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE,
     .infer = tconv_infer,
     .params = tconv_params,
     .forward = tconv_forward},
    {.name = NULL}};
