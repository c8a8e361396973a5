/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalising layers without state: layer_norm, norm, math_norm (layers-1.md, layer_norm; layers-2.md, norm,
 * math_norm).
 */
#include <string.h>

#include "layer/pieces.h"

typedef struct norm_cfg {
  double epsilon, p;
  const crn_value *axes, *axis, *param_shape;
  int scale, bias, keep_dims;
  bool masked;                  /* mask_padding: padding counts for nothing */
  int at[CRN_MAX_RANK], n_at;   /* axes */
  int par[CRN_MAX_RANK], n_par; /* axes of the parameters */
} norm_cfg;

#define OFF(f) offsetof(norm_cfg, f)

/* ---- layer_norm -----------------------------------------------------------------------------------------------------
 */

static const crn_opt layer_norm_opts[] = {
    {.name = "epsilon", .type = CRN_OPT_FLOAT, .offset = OFF(epsilon), .dflt = "1e-6", .doc = "added to the variance"},
    CRN_OPT_END};

static crn_status layer_norm_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source is sparse");
  if (l->out.feature_axis < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source has no feature axis");
  const crn_dim *d = l->out.dims[l->out.feature_axis];
  if (d->size < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the feature axis must have a fixed size");
  l->out.vocab = NULL;
  return CRN_OK;
}

static crn_status scale_and_bias(crn_build *b, crn_layer *l, int rank, const int64_t *shape, bool scale, bool bias) {
  crn_param_spec s = {.name = "scale", .rank = rank, .init_default = "1", .dtype = CRN_F32};
  memcpy(s.shape, shape, (size_t)rank * sizeof(*shape));
  if (scale) CRN_TRY(crn_layer_param(b, l, &s));
  s.name = "bias";
  s.init_default = "0";
  return bias ? crn_layer_param(b, l, &s) : CRN_OK;
}

static crn_status layer_norm_params(crn_build *b, crn_layer *l) {
  return scale_and_bias(b, l, 1, &l->out.dims[l->out.feature_axis]->size, true, true);
}

static crn_status layer_norm_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const norm_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  crn_tensor *scale = crn_param_get(x, l, "scale"), *bias = crn_param_get(x, l, "bias");
  if (!in || !scale || !bias) return r->err->code;
  const int f = in->t.feature_axis, last = in->t.n - 1;
  crn_tensor *v = in->v;
  int perm[CRN_MAX_RANK], back[CRN_MAX_RANK];
  for (int i = 0, k = 0; i < in->t.n; i++)
    if (i != f) perm[k++] = i;
  perm[last] = f;
  for (int i = 0; i < in->t.n; i++) {
    back[perm[i]] = i;
    out->len[i] = in->len[i];
  }
  if (f != last) v = crn_transpose(r, v, perm);
  v = crn_layer_norm(r, v, scale, bias, c->epsilon);
  out->v = f != last ? crn_transpose(r, v, back) : v;
  return out->v ? CRN_OK : r->err->code;
}

/* ---- norm -----------------------------------------------------------------------------------------------------------
 */

static const crn_opt norm_opts[] = {
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .dflt = "None", .doc = "axis to normalise over"},
    {.name = "axes", .type = CRN_OPT_VALUE, .offset = OFF(axes), .dflt = "None", .doc = "axes to normalise over"},
    {.name = "param_shape",
     .type = CRN_OPT_VALUE,
     .offset = OFF(param_shape),
     .dflt = "\"F\"",
     .doc = "axes of scale and bias"},
    {.name = "scale", .type = CRN_OPT_BOOL, .offset = OFF(scale), .dflt = "True", .doc = "multiply by a parameter"},
    {.name = "bias", .type = CRN_OPT_BOOL, .offset = OFF(bias), .dflt = "True", .doc = "add a parameter"},
    {.name = "epsilon", .type = CRN_OPT_FLOAT, .offset = OFF(epsilon), .dflt = "1e-6", .doc = "added to the variance"},
    CRN_OPT_END};

static crn_status chosen_axes(crn_build *b, crn_layer *l, norm_cfg *c, const crn_tmpl *t) {
  if (crn_v_is_none(c->axes) == crn_v_is_none(c->axis))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "give one of 'axis' and 'axes'");
  const bool one = crn_v_is_none(c->axes);
  CRN_TRY(crn_layer_axes(b, l, t, one ? c->axis : c->axes, one ? "axis" : "axes", c->at, &c->n_at));
  return c->n_at ? CRN_OK
                 : crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': there is no such axis", one ? "axis" : "axes");
}

static crn_status norm_infer(crn_build *b, crn_layer *l) {
  norm_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source is sparse");
  c->masked = crn_v_truth(crn_build_config(b, "mask_padding"));
  CRN_TRY(chosen_axes(b, l, c, &l->out));
  crn_takes_whole(l, &l->out, c->at, c->n_at);
  CRN_TRY(crn_layer_axes(b, l, &l->out, c->param_shape, "param_shape", c->par, &c->n_par));
  for (int i = 0; i < c->n_par; i++)
    if (l->out.dims[c->par[i]]->size < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'param_shape': axis %d has no fixed size", c->par[i]);
  return CRN_OK;
}

static crn_status norm_params(crn_build *b, crn_layer *l) {
  const norm_cfg *c = l->cfg;
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < c->n_par; i++) shape[i] = l->out.dims[c->par[i]]->size;
  return scale_and_bias(b, l, c->n_par, shape, c->scale > 0, c->bias > 0);
}

/* A parameter over the axes par, in their order, made to broadcast against the data. */
static crn_tensor *spread(crn_run *r, const norm_cfg *c, int rank, crn_tensor *p) {
  int64_t shape[CRN_MAX_RANK];
  int perm[CRN_MAX_RANK], n = 0;
  if (!p) return NULL;
  for (int i = 0; i < rank; i++) {
    shape[i] = 1;
    for (int k = 0; k < c->n_par; k++)
      if (c->par[k] == i) {
        shape[i] = p->shape[k];
        perm[n++] = k;
      }
  }
  return crn_t_reshape(r, n > 1 ? crn_transpose(r, p, perm) : p, rank, shape);
}

/* True on the valid frames of the chosen axes; NULL: all are. */
static crn_tensor *frames_mask(crn_run *r, const norm_cfg *c, const crn_data *in) {
  crn_tensor *all = NULL;
  for (int i = 0; c->masked && i < c->n_at; i++) {
    crn_tensor *mask = crn_data_mask(r, in, c->at[i]);
    if (mask) all = all ? crn_binary(r, CRN_B_LOGICAL_AND, all, mask) : mask;
  }
  return all;
}

/* Mean over the axes, of the frames that the mask leaves. */
static crn_tensor *mean_of(crn_run *r, crn_tensor *v, crn_tensor *mask, unsigned axes) {
  if (!mask) return crn_reduce(r, CRN_R_MEAN, v, axes, true);
  crn_tensor *one = crn_t_full(r, v->dtype, v->rank, v->shape, 1);
  crn_tensor *n = crn_reduce(r, CRN_R_SUM, crn_mask_fill(r, one, mask, 0), axes, true);
  n = crn_binary(r, CRN_B_MAXIMUM, n, crn_t_scalar(r, v->dtype, 1)); /* a sequence without frames */
  return crn_binary(r, CRN_B_DIV, crn_reduce(r, CRN_R_SUM, crn_mask_fill(r, v, mask, 0), axes, true), n);
}

static crn_status norm_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const norm_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  unsigned axes = 0;
  for (int i = 0; i < c->n_at; i++) axes |= 1u << c->at[i];
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  crn_tensor *mask = frames_mask(r, c, in);
  crn_tensor *centred = crn_sub(r, in->v, mean_of(r, in->v, mask, axes));
  crn_tensor *var = mean_of(r, crn_unary(r, CRN_U_SQUARE, centred), mask, axes);
  crn_tensor *v = crn_mul(r, centred, crn_unary(r, CRN_U_RSQRT, crn_add_scalar(r, var, c->epsilon)));
  if (c->scale > 0) v = crn_mul(r, v, spread(r, c, in->t.n, crn_param_get(x, l, "scale")));
  if (c->bias > 0) v = crn_add(r, v, spread(r, c, in->t.n, crn_param_get(x, l, "bias")));
  out->v = v;
  return v ? CRN_OK : r->err->code;
}

/* ---- math_norm ------------------------------------------------------------------------------------------------------
 */

static const crn_opt math_norm_opts[] = {
    {.name = "p", .type = CRN_OPT_FLOAT, .offset = OFF(p), .doc = "exponent"},
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .dflt = "None", .doc = "axis to reduce"},
    {.name = "axes", .type = CRN_OPT_VALUE, .offset = OFF(axes), .dflt = "None", .doc = "axes to reduce"},
    {.name = "keep_dims",
     .type = CRN_OPT_BOOL,
     .offset = OFF(keep_dims),
     .dflt = "False",
     .doc = "keep the axes with size 1"},
    CRN_OPT_END};

static crn_status math_norm_infer(crn_build *b, crn_layer *l) {
  norm_cfg *c = l->cfg;
  bool known;
  static const char *const slots[CRN_MAX_RANK] = {"keep:0", "keep:1", "keep:2", "keep:3",
                                                  "keep:4", "keep:5", "keep:6", "keep:7"};
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source is sparse");
  CRN_TRY(chosen_axes(b, l, c, &l->out));
  crn_takes_whole(l, &l->out, c->at, c->n_at);
  bool gone[CRN_MAX_RANK] = {false};
  for (int i = 0; i < c->n_at; i++) gone[c->at[i]] = true;
  for (int i = l->out.n; i-- > 0;) {
    if (!gone[i]) continue;
    if (c->keep_dims <= 0) {
      crn_tmpl_remove(&l->out, i);
      continue;
    }
    const crn_dim *old = l->out.dims[i];
    l->out.dims[i] = crn_layer_dim(b, l, slots[i], old->kind == CRN_DIM_BATCH ? CRN_DIM_SPATIAL : old->kind, 1);
    if (!l->out.dims[i]) return crn_err_memory(crn_build_err(b));
  }
  return CRN_OK;
}

/* x^(1/p), with gradient 0 where x is 0, as in padding. */
static crn_tensor *root(crn_run *r, crn_tensor *x, double p) {
  crn_tensor *zero = crn_t_scalar(r, r->real, 0), *some = crn_binary(r, CRN_B_GREATER, x, zero);
  x = crn_where(r, some, x, crn_t_scalar(r, r->real, 1));
  crn_tensor *y = p == 2 ? crn_unary(r, CRN_U_SQRT, x) : crn_binary(r, CRN_B_POW, x, crn_t_scalar(r, r->real, 1 / p));
  return crn_where(r, some, y, zero);
}

static crn_status math_norm_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const norm_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  unsigned axes = 0;
  crn_tensor *v = in->v;
  for (int i = 0; i < c->n_at; i++) {
    axes |= 1u << c->at[i];
    crn_tensor *mask = crn_data_mask(r, in, c->at[i]);
    if (mask) v = crn_mask_fill(r, v, mask, 0);
  }
  if (crn_run_failed(r)) return r->err->code;
  for (int i = 0, o = 0; i < in->t.n; i++) {
    if (axes >> i & 1u)
      o += c->keep_dims > 0;
    else
      out->len[o++] = in->len[i];
  }
  const bool keep = c->keep_dims > 0;
  crn_tensor *a = crn_unary(r, CRN_U_ABS, v), *sum;
  if (c->p == 1)
    sum = crn_reduce(r, CRN_R_SUM, a, axes, keep);
  else if (c->p == 2)
    sum = crn_reduce(r, CRN_R_SUM, crn_unary(r, CRN_U_SQUARE, v), axes, keep);
  else
    sum = crn_reduce(r, CRN_R_SUM, crn_binary(r, CRN_B_POW, a, crn_t_scalar(r, r->real, c->p)), axes, keep);
  out->v = c->p == 1 ? sum : root(r, sum, c->p);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_norm[] = {{.name = "layer_norm",
                                           .doc = "Normalises over the feature axis.",
                                           .opts = layer_norm_opts,
                                           .cfg_size = sizeof(norm_cfg),
                                           .flags = CRN_L_CONCAT | CRN_L_STREAMS,
                                           .infer = layer_norm_infer,
                                           .params = layer_norm_params,
                                           .forward = layer_norm_forward},
                                          {.name = "norm",
                                           .doc = "Normalises over given axes.",
                                           .opts = norm_opts,
                                           .cfg_size = sizeof(norm_cfg),
                                           .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_MAY_STREAM,
                                           .infer = norm_infer,
                                           .params = norm_params,
                                           .forward = norm_forward},
                                          {.name = "math_norm",
                                           .doc = "Computes the p-norm over axes.",
                                           .opts = math_norm_opts,
                                           .cfg_size = sizeof(norm_cfg),
                                           .flags = CRN_L_CONCAT | CRN_L_MAY_STREAM,
                                           .infer = math_norm_infer,
                                           .forward = math_norm_forward},
                                          {.name = NULL}};
