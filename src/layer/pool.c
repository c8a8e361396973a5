/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: the largest or the mean value of windows over spatial axes (layers-2.md, pool).
 */
#include <float.h>
#include <string.h>
#include <strings.h>

#include "layer/spatial.h"

typedef struct pool_cfg {
  const char *mode;
  const crn_value *pool_size, *padding, *strides, *dilation_rate, *in_spatial_dims, *out_spatial_dims,
      *use_channel_first;
  int use_time_mask;
  bool max;
  crn_spatial s;
} pool_cfg;

#define OFF(f) offsetof(pool_cfg, f)
static const crn_opt pool_opts[] = {{.name = "mode", .type = CRN_OPT_STR, .offset = OFF(mode), .doc = "max or avg"},
                                    {.name = "pool_size",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(pool_size),
                                     .doc = "size of the window per spatial axis, in frames"},
                                    {.name = "padding",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(padding),
                                     .dflt = "\"valid\"",
                                     .doc = "same, valid, same_static, or frames on both sides"},
                                    {.name = "strides",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(strides),
                                     .dflt = "None",
                                     .doc = "step per spatial axis, in frames; default pool_size"},
                                    {.name = "dilation_rate",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(dilation_rate),
                                     .dflt = "1",
                                     .doc = "distance of the window's frames"},
                                    {.name = "in_spatial_dims",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(in_spatial_dims),
                                     .dflt = "None",
                                     .doc = "axes to pool over"},
                                    {.name = "out_spatial_dims",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(out_spatial_dims),
                                     .dflt = "None",
                                     .doc = "dims of the result's spatial axes"},
                                    {.name = "use_channel_first",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(use_channel_first),
                                     .dflt = "None",
                                     .doc = "layout on GPUs, without effect here"},
                                    {.name = "use_time_mask",
                                     .type = CRN_OPT_BOOL,
                                     .offset = OFF(use_time_mask),
                                     .dflt = "False",
                                     .doc = "padded frames don't count"},
                                    CRN_OPT_END};

static crn_status pool_infer(crn_build *b, crn_layer *l) {
  pool_cfg *c = l->cfg;
  crn_spatial *s = &c->s;
  crn_tmpl in;
  bool known;
  static const int64_t ones[3] = {1, 1, 1};
  c->max = !strcasecmp(c->mode, "max");
  if (!c->max && strcasecmp(c->mode, "avg"))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'mode': unknown mode '%s'; there are max and avg", c->mode);
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->common.n_out != CRN_UNSET)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' is not possible here: the feature stays");
  CRN_TRY(crn_spatial_arrange(b, l, &in, c->in_spatial_dims, s));
  const int n = crn_v_is_seq(c->pool_size) ? (int)crn_v_len(c->pool_size) : 1;
  if (n != s->n || n < 1 || n > 3)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'pool_size' has %d entries, but there are %d spatial axes (1 to 3 are possible)", n,
                          s->n);
  CRN_TRY(crn_spatial_sizes(b, l, c->pool_size, "pool_size", n, ones, 1, s->k));
  CRN_TRY(crn_spatial_sizes(b, l, c->strides, "strides", n, s->k, 1, s->stride));
  CRN_TRY(crn_spatial_sizes(b, l, c->dilation_rate, "dilation_rate", n, ones, 1, s->dilation));
  CRN_TRY(crn_spatial_padding(b, l, c->padding, s));
  for (int i = 0; i < n; i++)
    if (s->mode == CRN_PAD_SAME && s->dilation[i] > 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'padding': same does not work with dilation");
  crn_spatial_streams(l, s);
  l->out = s->t;
  for (int i = 0; i < n; i++) CRN_TRY(crn_spatial_out_dim(b, l, s, c->out_spatial_dims, i, &l->out.dims[s->first + i]));
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* Padding whose value counts (0) is made by hand; the rest is left to the operation, which ignores it. */
static crn_tensor *padded(crn_run *r, const pool_cfg *c, crn_tensor *v, crn_conv_spec *spec) {
  const bool counts = c->s.mode == CRN_PAD_SAME_STATIC || (c->s.explicit_pad && !c->max);
  for (int i = 0; counts && i < c->s.n; i++) {
    if (spec->pad_before[i] || spec->pad_after[i])
      v = crn_pad(r, v, 1 + i, spec->pad_before[i], spec->pad_after[i], "constant", 0);
    spec->pad_before[i] = spec->pad_after[i] = 0;
  }
  return v;
}

static crn_status pool_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const pool_cfg *c = l->cfg;
  const crn_spatial *s = &c->s;
  crn_run *r = crn_exec_run(x);
  crn_data *d = crn_spatial_input(x, l, s, c->use_time_mask > 0, c->max ? -(double)FLT_MAX : 0);
  const crn_data *len[3];
  if (!d) return r->err->code;
  CRN_TRY(crn_spatial_lengths(x, l, s, d, len));
  int64_t shape[CRN_MAX_RANK] = {1}, result[CRN_MAX_RANK];
  bool identity = true;
  for (int i = 0; i < s->first; i++) {
    shape[0] *= d->v->shape[i];
    result[i] = d->v->shape[i];
    out->len[i] = d->len[i];
  }
  for (int i = 0; i < s->n; i++) {
    shape[1 + i] = d->v->shape[s->first + i];
    out->len[s->first + i] = len[i];
    identity = identity && s->k[i] == 1 && s->stride[i] == 1 && !s->pad[i];
  }
  shape[1 + s->n] = d->v->shape[s->first + s->n];
  out->v = d->v;
  if (identity) return CRN_OK;
  crn_conv_spec spec;
  crn_spatial_spec(s, shape + 1, &spec);
  crn_tensor *v = padded(r, c, crn_t_reshape(r, d->v, s->n + 2, shape), &spec);
  v = crn_pool(r, v, c->max, &spec);
  if (!v) return r->err->code;
  for (int i = 0; i <= s->n; i++) result[s->first + i] = v->shape[1 + i];
  out->v = crn_t_reshape(r, v, l->out.n, result);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_pool[] = {
    {.name = "pool",
     .doc = "Takes the largest or the mean value of windows over spatial axes.",
     .opts = pool_opts,
     .cfg_size = sizeof(pool_cfg),
     .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM,
     .infer = pool_infer,
     .forward = pool_forward},
    {.name = NULL}};
