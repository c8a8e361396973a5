/* SPDX-License-Identifier: Apache-2.0
 *
 * Rare classes over [B,T,F] that put entries elsewhere (layers-2.md, layers-1.md): swap_time_feature, flatten_time,
 * batch_softmax, remove, split_concatenated_multichannel, batch_median_pooling, alternating_real_to_complex,
 * complex_to_alternating_real. All give batch-major output.
 */
#include <math.h>
#include <string.h>

#include "layer/lengths.h"
#include "layer/shape_list.h"

typedef struct rearrange_cfg {
  int64_t channels, pool_size, symbol;
  const crn_value *axis;
  int at;
} rearrange_cfg;

#define OFF(f) offsetof(rearrange_cfg, f)
static const crn_opt no_opts[] = {CRN_OPT_END};

/* The input's template as [B,T,F], or [B,T] of labels. */
static crn_status btf(crn_build *b, crn_layer *l, bool sparse, bool *known) {
  CRN_TRY(crn_input_tmpl(b, l, &l->out, known));
  l->out_known = *known;
  if (!*known) return CRN_OK;
  crn_tmpl *t = &l->out;
  if (t->sparse != sparse || t->n != (sparse ? 2 : 3) || crn_tmpl_batch_axis(t) < 0 || t->time_axis < 0 ||
      (!sparse && t->feature_axis < 0))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must %s",
                          sparse ? "be sparse, with batch and time axis"
                                 : "be dense, with batch, time and feature axis");
  const int perm[3] = {crn_tmpl_batch_axis(t), t->time_axis, t->feature_axis};
  const bool te = t->time_explicit, fe = t->feature_explicit;
  t->time_explicit = t->feature_explicit = true;
  crn_tmpl_permute(t, perm);
  t->time_explicit = te;
  t->feature_explicit = fe;
  return CRN_OK;
}

static const crn_data *btf_input(crn_exec *x, crn_layer *l) {
  const crn_data *in = crn_input(x, l);
  if (!in) return NULL;
  const int perm[3] = {crn_tmpl_batch_axis(&in->t), in->t.time_axis, in->t.feature_axis};
  return crn_data_permute(crn_exec_run(x), in, perm);
}

/* ---- swap_time_feature ------------------------------------------------------------------------------------------- */

static crn_status swap_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(btf(b, l, false, &known));
  if (!known) return CRN_OK;
  const int swap[3] = {0, 2, 1};
  crn_tmpl_permute(&l->out, swap);
  l->out.time_axis = 1;
  l->out.feature_axis = 2;
  l->out.time_explicit = l->out.feature_explicit = true;
  return CRN_OK;
}

static crn_status swap_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = btf_input(x, l);
  const int swap[3] = {0, 2, 1};
  if (!in) return r->err->code;
  out->len[1] = in->len[2];
  out->len[2] = in->len[1];
  out->v = crn_transpose(r, in->v, swap);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- flatten_time ------------------------------------------------------------------------------------------------ */

static crn_status flatten_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(btf(b, l, false, &known));
  if (!known) return CRN_OK;
  const crn_dim *T = l->out.dims[1], *F = l->out.dims[2];
  const int64_t size = T->size >= 0 && F->size >= 0 ? T->size * F->size : -1;
  l->out.dims[1] = crn_layer_dim(b, l, "time", CRN_DIM_SPATIAL, 1);
  l->out.dims[2] = crn_dim_derive(crn_build_dims(b), "flatten_time", T, F, 0, 0, 0, CRN_DIM_FEATURE, size);
  if (!l->out.dims[1] || !l->out.dims[2]) return crn_err_memory(crn_build_err(b));
  l->out.time_axis = 1;
  l->out.feature_axis = 2;
  l->out.time_explicit = l->out.feature_explicit = true;
  return CRN_OK;
}

static crn_status flatten_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = btf_input(x, l);
  if (!in) return r->err->code;
  const int64_t shape[3] = {in->v->shape[0], 1, in->v->shape[1] * in->v->shape[2]};
  const crn_tmpl scalar = crn_tmpl_scalar(CRN_I32);
  if (l->out.dims[2]->size < 0) /* the same for all sequences */
    out->len[2] = crn_data_new(r, &scalar, crn_t_scalar(r, CRN_I32, (double)shape[2]));
  out->v = crn_t_reshape(r, in->v, 3, shape);
  return out->v && !crn_run_failed(r) ? CRN_OK : r->err->code;
}

/* ---- batch_softmax ----------------------------------------------------------------------------------------------- */

static crn_status softmax_infer(crn_build *b, crn_layer *l) {
  bool known;
  return btf(b, l, false, &known);
}

static crn_status softmax_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = btf_input(x, l);
  crn_tensor *mask = in ? crn_data_mask(r, in, 1) : NULL;
  if (!in || crn_run_failed(r)) return r->err->code;
  const int64_t flat[2] = {in->v->shape[0], in->v->shape[1] * in->v->shape[2]};
  crn_tensor *v = mask ? crn_mask_fill(r, in->v, mask, -(double)INFINITY) : in->v;
  v = crn_t_reshape(r, crn_softmax(r, crn_t_reshape(r, v, 2, flat)), 3, in->v->shape);
  out->len[1] = in->len[1];
  out->v = mask ? crn_mask_fill(r, v, mask, 0) : v;
  return out->v ? CRN_OK : r->err->code;
}

/* ---- remove ------------------------------------------------------------------------------------------------------ */

static const crn_opt remove_opts[] = {
    {.name = "symbol",
     .type = CRN_OPT_INT,
     .offset = OFF(symbol),
     .doc = "label whose frames are dropped; negative: from the number of classes"},
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .dflt = "\"T\"", .doc = "axis to drop from"},
    CRN_OPT_END};

static crn_status remove_infer(crn_build *b, crn_layer *l) {
  rearrange_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  if (!known) return l->out_known = false, CRN_OK;
  CRN_TRY(crn_layer_axis(b, l, &in, c->axis, "axis", &c->at));
  CRN_TRY(btf(b, l, true, &known));
  if (c->at != in.time_axis)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': expected the time axis of [batch, time]");
  const crn_dim *given = l->common.out_dim;
  const crn_dim *d = given ? crn_dim_as_kind(crn_build_dims(b), given, CRN_DIM_SPATIAL)
                           : crn_layer_dim(b, l, "removed", CRN_DIM_SPATIAL, -1);
  if (!d) return crn_err_memory(crn_build_err(b));
  if (c->symbol < 0 && crn_tmpl_dim(&in) < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'symbol' is negative, but the number of classes is not known");
  l->out.dims[1] = d;
  l->out.time_axis = 1;
  return CRN_OK;
}

static crn_status remove_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const rearrange_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = btf_input(x, l);
  crn_tensor *valid = in ? crn_data_mask(r, in, 1) : NULL, *lens;
  if (!in || crn_run_failed(r)) return r->err->code;
  const int64_t symbol = c->symbol < 0 ? c->symbol + crn_tmpl_dim(&l->out) : c->symbol;
  crn_tensor *keep = crn_binary(r, CRN_B_NOT_EQUAL, in->v, crn_t_scalar(r, in->v->dtype, (double)symbol));
  if (valid) keep = crn_binary(r, CRN_B_LOGICAL_AND, keep, valid);
  out->v = crn_mask_select(r, in->v, keep, &lens);
  if (!out->v) return r->err->code;
  crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  t.dims[t.n++] = l->out.dims[0];
  out->len[1] = crn_data_new(r, &t, lens);
  return out->len[1] ? CRN_OK : r->err->code;
}

/* ---- split_concatenated_multichannel ----------------------------------------------------------------------------- */

static const crn_opt channel_opts[] = {{.name = "nr_of_channels",
                                        .type = CRN_OPT_INT,
                                        .offset = OFF(channels),
                                        .min = 1,
                                        .max = 1e6,
                                        .doc = "channels that lie one after the other in the features"},
                                       CRN_OPT_END};

static crn_status channels_infer(crn_build *b, crn_layer *l) {
  const rearrange_cfg *c = l->cfg;
  bool known;
  CRN_TRY(btf(b, l, false, &known));
  if (!known) return CRN_OK;
  const crn_dim *batch = l->out.dims[0], *f = l->out.dims[2];
  if (f->size < 0 || f->size % c->channels)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "%lld features can't be split into 'nr_of_channels' %lld",
                          (long long)f->size, (long long)c->channels);
  if (c->channels == 1) return CRN_OK;
  l->out.dims[0] = crn_dim_derive(crn_build_dims(b), "channels", batch, NULL, c->channels, 0, 0, CRN_DIM_BATCH, -1);
  l->out.dims[2] = crn_layer_dim(b, l, "channel", CRN_DIM_FEATURE, f->size / c->channels);
  return l->out.dims[0] && l->out.dims[2] ? CRN_OK : crn_err_memory(crn_build_err(b));
}

/* Channel c of sequence b is entry b·C + c of the batch. */
static crn_status channels_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const rearrange_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = btf_input(x, l);
  if (!in) return r->err->code;
  if (in->beam) return crn_exec_fail(x, l, "not implemented: on hypotheses of a search");
  const int64_t *s = in->v->shape, C = c->channels, F = s[2] / C;
  const int64_t split[4] = {s[0], s[1], C, F}, merged[3] = {s[0] * C, s[1], F};
  const int perm[4] = {0, 2, 1, 3};
  out->v = crn_t_reshape(r, crn_transpose(r, crn_t_reshape(r, in->v, 4, split), perm), 3, merged);
  if (!out->v) return r->err->code;
  const crn_data *len = in->len[1];
  out->len[1] = len;
  if (!len || !len->t.n) return CRN_OK;
  crn_data *d = crn_data_copy(r, len);
  if (!d) return r->err->code;
  d->t.dims[0] = l->out.dims[0];
  d->v = crn_repeat0(r, len->v, C);
  out->len[1] = d;
  return d->v ? CRN_OK : r->err->code;
}

/* ---- batch_median_pooling ---------------------------------------------------------------------------------------- */

static const crn_opt median_opts[] = {{.name = "pool_size",
                                       .type = CRN_OPT_INT,
                                       .offset = OFF(pool_size),
                                       .min = 1,
                                       .max = 1e6,
                                       .doc = "neighbouring entries of the batch that become one"},
                                      CRN_OPT_END};

static crn_status median_infer(crn_build *b, crn_layer *l) {
  const rearrange_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.sparse || crn_tmpl_batch_axis(&l->out) < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be dense, with a batch axis");
  crn_tmpl_to_batch_major(&l->out, NULL);
  if (c->pool_size == 1) return CRN_OK;
  l->out.dims[0] =
      crn_dim_derive(crn_build_dims(b), "medians", l->out.dims[0], NULL, c->pool_size, 0, 0, CRN_DIM_BATCH, -1);
  return l->out.dims[0] ? CRN_OK : crn_err_memory(crn_build_err(b));
}

/* The ceil(pool_size/2)-th largest of each group; lengths of its first. */
static crn_status median_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const rearrange_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_data_batch_major(r, crn_input(x, l));
  if (!in) return r->err->code;
  if (in->beam) return crn_exec_fail(x, l, "not implemented: on hypotheses of a search");
  const int64_t B = in->v->shape[0], p = c->pool_size, k = (p + 1) / 2;
  if (B % p)
    return crn_exec_fail(x, l, "the batch has %lld entries, no multiple of 'pool_size' %lld", (long long)B,
                         (long long)p);
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, in->v->shape, sizeof(shape));
  shape[0] = B / p;
  const int64_t rest = B ? crn_t_size(in->v) / B : 0, groups[3] = {B / p, p, rest};
  const int perm[3] = {0, 2, 1};
  crn_tensor *v = crn_transpose(r, crn_t_reshape(r, in->v, 3, groups), perm);
  v = crn_top_k(r, v, k, NULL);
  v = v ? crn_slice(r, v, 2, k - 1, 1, 1) : NULL;
  out->v = crn_t_reshape(r, v, in->t.n, shape);
  for (int i = 1; i < in->t.n && out->v; i++) {
    out->len[i] = in->len[i];
    if (!in->len[i] || !in->len[i]->t.n || p == 1) continue;
    crn_data *d = crn_data_copy(r, in->len[i]);
    if (!d) return r->err->code;
    d->v = crn_slice(r, d->v, 0, 0, B / p, p);
    d->t.dims[0] = l->out.dims[0];
    out->len[i] = d;
  }
  return out->v && !crn_run_failed(r) ? CRN_OK : r->err->code;
}

/* ---- complex numbers as alternating real ones -------------------------------------------------------------------- */

/* The feature axis of the input gets another size and dtype. */
static crn_status complex_infer(crn_build *b, crn_layer *l, bool to_complex) {
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  const int f = l->out.feature_axis;
  const int64_t n = f >= 0 ? l->out.dims[f]->size : -1;
  if (l->out.sparse || n < 0 || l->out.n >= CRN_MAX_RANK || (to_complex && n % 2) ||
      (to_complex ? !crn_dtype_is_float(l->out.dtype) : l->out.dtype != CRN_C64))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must have %s, it has %lld of %s",
                          to_complex ? "an even number of real features" : "complex features", (long long)n,
                          crn_dtype_name(l->out.dtype));
  l->out.dims[f] = crn_layer_dim(b, l, "complex", CRN_DIM_FEATURE, to_complex ? n / 2 : 2 * n);
  l->out.dtype = to_complex ? CRN_C64 : CRN_F32;
  return l->out.dims[f] ? CRN_OK : crn_err_memory(crn_build_err(b));
}

static crn_status to_complex_infer(crn_build *b, crn_layer *l) { return complex_infer(b, l, true); }
static crn_status to_real_infer(crn_build *b, crn_layer *l) { return complex_infer(b, l, false); }

static crn_status to_complex_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  const int n = in->t.n, f = in->t.feature_axis;
  int64_t shape[CRN_MAX_RANK];
  int perm[CRN_MAX_RANK];
  for (int i = 0; i <= n; i++) { /* [.., F, 2, rest..] -> [.., F, rest.., 2] */
    shape[i] = i < f ? in->v->shape[i] : i == f ? in->v->shape[f] / 2 : i == f + 1 ? 2 : in->v->shape[i - 1];
    perm[i] = i <= f ? i : i == n ? f + 1 : i + 1;
    if (i < n) out->len[i] = in->len[i];
  }
  out->v = crn_complex_of(r, crn_transpose(r, crn_t_reshape(r, in->v, n + 1, shape), perm));
  return out->v ? CRN_OK : r->err->code;
}

static crn_status to_real_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  const int n = in->t.n, f = in->t.feature_axis;
  int64_t shape[CRN_MAX_RANK];
  int perm[CRN_MAX_RANK];
  for (int i = 0; i <= n; i++) { /* [.., F, rest.., 2] -> [.., F, 2, rest..] */
    perm[i] = i <= f ? i : i == f + 1 ? n : i - 1;
    if (i == n) continue;
    shape[i] = in->v->shape[i] * (i == f ? 2 : 1);
    out->len[i] = in->len[i];
  }
  out->v = crn_t_reshape(r, crn_transpose(r, crn_complex_parts(r, in->v), perm), n, shape);
  return out->v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, ...)                                                                                              \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(rearrange_cfg), .flags = CRN_L_CONCAT | __VA_ARGS__ }
const crn_layer_desc crn_family_rearrange[] = {
    ROW("swap_time_feature", "Makes the features time and time the features.", no_opts,
        CRN_L_NEEDS_FUTURE | CRN_L_READS_PADDING, .infer = swap_infer, .forward = swap_forward),
    ROW("flatten_time", "Makes all frames one, their features side by side.", no_opts,
        CRN_L_NEEDS_FUTURE | CRN_L_READS_PADDING, .infer = flatten_infer, .forward = flatten_forward),
    ROW("batch_softmax", "Computes one softmax over all frames and features.", no_opts, CRN_L_NEEDS_FUTURE,
        .infer = softmax_infer, .forward = softmax_forward),
    ROW("remove", "Drops the frames with a label.", remove_opts, CRN_L_NEEDS_FUTURE, .infer = remove_infer,
        .forward = remove_forward),
    ROW("split_concatenated_multichannel", "Makes the channels entries of the batch.", channel_opts, 0,
        .infer = channels_infer, .forward = channels_forward),
    ROW("batch_median_pooling", "Takes the median over neighbouring entries of the batch.", median_opts,
        CRN_L_READS_PADDING, .infer = median_infer, .forward = median_forward),
    ROW("alternating_real_to_complex", "Makes neighbouring features one complex number.", no_opts, 0,
        .infer = to_complex_infer, .forward = to_complex_forward),
    ROW("complex_to_alternating_real", "Puts real and imaginary parts side by side.", no_opts, 0,
        .infer = to_real_infer, .forward = to_real_forward),
    {.name = NULL}};
