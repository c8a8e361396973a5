/* SPDX-License-Identifier: Apache-2.0
 *
 * Global attention in one layer (recurrent.md, "Attention"): dot_attention, concat_attention, gauss_window_attention.
 *
 * All read one value per step of their source and sum frames of base. Made for single steps in loops; moved out of a
 * loop the source has the loop's axis too, its entries are then rows "O" per sequence.
 */
#include <math.h>
#include <string.h>

#include "layer/layer.h"

typedef struct global_cfg {
  crn_layer *base, *base_ctx;
  double energy_factor; /* NAN: none */
  int64_t window_size, inner_size;
  double std, inner_size_step;
  int64_t n_key;
} global_cfg;

#define OFF(f) offsetof(global_cfg, f)
#define BASE_OPT                                                                                                       \
  { .name = "base", .type = CRN_OPT_LAYER, .offset = OFF(base), .doc = "layer that is summed over its time axis" }
#define CTX_OPT                                                                                                        \
  { .name = "base_ctx", .type = CRN_OPT_LAYER, .offset = OFF(base_ctx), .doc = "layer with the keys of base's frames" }

static const crn_opt dot_opts[] = {BASE_OPT,
                                   CTX_OPT,
                                   {.name = "energy_factor",
                                    .type = CRN_OPT_FLOAT,
                                    .offset = OFF(energy_factor),
                                    .dflt = "None",
                                    .doc = "factor of the energies"},
                                   CRN_OPT_END};
static const crn_opt concat_opts[] = {BASE_OPT, CTX_OPT, CRN_OPT_END};
static const crn_opt gauss_opts[] = {
    BASE_OPT,
    {.name = "window_size",
     .type = CRN_OPT_INT,
     .offset = OFF(window_size),
     .min = 1,
     .max = 1e9,
     .doc = "frames around the position"},
    {.name = "std", .type = CRN_OPT_FLOAT, .offset = OFF(std), .dflt = "1.0", .doc = "standard deviation, frames"},
    {.name = "inner_size",
     .type = CRN_OPT_INT,
     .offset = OFF(inner_size),
     .dflt = "None",
     .min = 1,
     .max = 1e9,
     .doc = "number of positions around the given one"},
    {.name = "inner_size_step",
     .type = CRN_OPT_FLOAT,
     .offset = OFF(inner_size_step),
     .dflt = "0.5",
     .doc = "distance of these positions, frames"},
    CRN_OPT_END};

/* ---- templates ------------------------------------------------------------------------------------------------------
 */

static crn_status wrong_axes(crn_build *b, crn_layer *l, const char *what, const char *want, const crn_tmpl *t) {
  crn_str s = {0};
  crn_tmpl_describe(t, &s);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "%s must have the axes %s, it is %s", what, want, crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

static crn_status check_frames(crn_build *b, crn_layer *l, const char *what, const crn_tmpl *t) {
  if (t->n == 3 && crn_tmpl_batch_axis(t) >= 0 && t->time_axis >= 0 && t->feature_axis >= 0) return CRN_OK;
  return wrong_axes(b, l, what, "[B, T, F]", t);
}

/* The source: one value (or vector) per sequence, or per step and sequence when moved out of a loop. */
static crn_status check_source(crn_build *b, crn_layer *l, const crn_tmpl *t, const char *want) {
  int others = 0;
  for (int i = 0; i < t->n; i++) others += t->dims[i]->kind != CRN_DIM_BATCH && i != t->feature_axis;
  if (crn_tmpl_batch_axis(t) < 0 || t->sparse || others > (crn_layer_moved_out(l) ? 1 : 0))
    return wrong_axes(b, l, "the source", want, t);
  return CRN_OK;
}

/* in with the batch first and without its feature. */
static void rows_tmpl(const crn_tmpl *in, crn_tmpl *out) {
  *out = *in;
  crn_tmpl_to_batch_major(out, NULL);
  if (out->feature_axis >= 0) crn_tmpl_remove(out, out->feature_axis);
}

static crn_status add_feature(crn_build *b, crn_tmpl *out, const crn_dim *d) {
  out->feature_explicit = false;
  out->dtype = CRN_F32;
  CRN_TRY(crn_tmpl_insert(out, out->n, d, crn_build_err(b)));
  out->feature_axis = out->n - 1;
  return CRN_OK;
}

static crn_status global_infer(crn_build *b, crn_layer *l) {
  global_cfg *c = l->cfg;
  bool known;
  crn_tmpl in;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known && c->base->out_known && c->base_ctx->out_known;
  if (!l->out_known) return CRN_OK;
  CRN_TRY(check_source(b, l, &in, "[B, F]"));
  CRN_TRY(check_frames(b, l, "option 'base'", &c->base->out));
  CRN_TRY(check_frames(b, l, "option 'base_ctx'", &c->base_ctx->out));
  c->n_key = crn_tmpl_dim(&in);
  if (c->n_key != crn_tmpl_dim(&c->base_ctx->out))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source has dim %lld, but 'base_ctx' has %lld", (long long)c->n_key,
                          (long long)crn_tmpl_dim(&c->base_ctx->out));
  rows_tmpl(&in, &l->out);
  return add_feature(b, &l->out, crn_tmpl_feature(&c->base->out));
}

static crn_status concat_params(crn_build *b, crn_layer *l) {
  const global_cfg *c = l->cfg;
  crn_param_spec v = {.name = "v", .rank = 1, .shape = {c->n_key}, .init_default = "glorot_uniform", .dtype = CRN_F32};
  return crn_layer_param(b, l, &v);
}

static crn_status gauss_infer(crn_build *b, crn_layer *l) {
  global_cfg *c = l->cfg;
  bool known;
  crn_tmpl in;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known && c->base->out_known;
  if (!l->out_known) return CRN_OK;
  CRN_TRY(check_source(b, l, &in, "[B] or [B, 1]"));
  CRN_TRY(check_frames(b, l, "option 'base'", &c->base->out));
  if (in.dtype != CRN_F32 || (in.feature_axis >= 0 && in.dims[in.feature_axis]->size != 1))
    return wrong_axes(b, l, "the source", "[B] or [B, 1], float32", &in);
  rows_tmpl(&in, &l->out);
  if (c->inner_size != CRN_UNSET) {
    const crn_dim *d = crn_layer_dim(b, l, "inner_size", CRN_DIM_SPATIAL, c->inner_size);
    if (!d) return crn_err_memory(crn_build_err(b));
    CRN_TRY(crn_tmpl_insert(&l->out, l->out.n, d, crn_build_err(b)));
  }
  return add_feature(b, &l->out, crn_tmpl_feature(&c->base->out));
}

/* ---- values ---------------------------------------------------------------------------------------------------------
 */

/* [B, T, F] of a layer with these axes in any order. */
static const crn_data *frames_of(crn_exec *x, crn_layer *l, crn_layer *of) {
  const crn_data *d = crn_value_of(x, l, of);
  if (!d) return NULL;
  const int perm[3] = {crn_tmpl_batch_axis(&d->t), d->t.time_axis, d->t.feature_axis};
  return crn_data_permute(crn_exec_run(x), d, perm);
}

/* The source as [B, O, K], K = 1 without a feature axis; lengths of its axes go to out. */
static crn_tensor *source_rows(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_data_batch_major(r, crn_input(x, l));
  if (!d || !(d = crn_data_feature_last(r, d))) return NULL;
  const bool feature = d->t.feature_axis >= 0;
  const int n = d->t.n - (feature ? 1 : 0);
  for (int i = 0; i < n; i++) out->len[i] = d->len[i];
  const int64_t shape[3] = {d->v->shape[0], n > 1 ? d->v->shape[1] : 1, feature ? d->v->shape[d->t.n - 1] : 1};
  return crn_t_reshape(r, d->v, 3, shape);
}

/* [B, O, …rest] -> the output's axes: O only if the output has it. */
static crn_tensor *to_output(crn_run *r, crn_tensor *v, const crn_tmpl *t) {
  if (!v || v->rank == t->n) return v;
  return crn_squeeze(r, v, 1);
}

static crn_status global_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const global_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *q = source_rows(x, l, out);
  const crn_data *base = frames_of(x, l, c->base), *ctx = frames_of(x, l, c->base_ctx);
  if (!q || !base || !ctx) return r->err->code;
  const int64_t B = q->shape[0], O = q->shape[1], K = q->shape[2], T = ctx->v->shape[1];
  if (base->v->shape[1] != T)
    return crn_exec_fail(x, l, "base has %lld frames, base_ctx %lld", (long long)base->v->shape[1], (long long)T);
  crn_tensor *e;
  if (!strcmp(l->desc->name, "dot_attention")) {
    e = crn_matmul(r, q, false, ctx->v, true);
    if (e && !isnan(c->energy_factor)) e = crn_scale(r, e, c->energy_factor);
  } else {
    const int64_t rows[2] = {B * O, K}, back[3] = {B, O, T};
    crn_tensor *v = crn_param_get(x, l, "v");
    e = crn_additive_energy(r, ctx->v, crn_t_reshape(r, q, 2, rows), v);
    e = e ? crn_t_reshape(r, e, 3, back) : NULL;
  }
  crn_tensor *mask = crn_data_mask(r, base, 1);
  if (mask) {
    double inf = (double)INFINITY;
    (void)crn_v_to_float(crn_exec_config(x, "inf_value"), &inf);
    const int64_t shape[3] = {mask->shape[0], 1, T};
    e = crn_mask_fill(r, e, crn_t_reshape(r, mask, 3, shape), -inf);
  }
  crn_tensor *y = crn_matmul(r, crn_softmax(r, e), false, base->v, false);
  out->v = to_output(r, y, &l->out);
  return out->v ? CRN_OK : r->err->code;
}

/* The m positions around p [B, O, 1] -> [B, O·m, 1]. */
static crn_tensor *inner_positions(crn_run *r, const global_cfg *c, crn_tensor *p) {
  if (c->inner_size == CRN_UNSET) return p;
  const int64_t m = c->inner_size, shape[3] = {p->shape[0], p->shape[1] * m, 1};
  crn_tensor *j = crn_scale(r, crn_cast(r, crn_range(r, CRN_I32, 0, m), p->dtype), c->inner_size_step);
  crn_tensor *all = crn_add(r, p, crn_add_scalar(r, j, -0.5 * (double)m));
  return all ? crn_t_reshape(r, all, 3, shape) : NULL;
}

static crn_status gauss_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const global_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *p = source_rows(x, l, out);
  const crn_data *base = frames_of(x, l, c->base);
  if (!p || !base) return r->err->code;
  const int64_t O = p->shape[1];
  if (!(p = inner_positions(r, c, p))) return r->err->code;
  const int64_t B = p->shape[0], M = p->shape[1], W = c->window_size, T = base->v->shape[1], F = base->v->shape[2];
  /* unclipped frames i_k [B, M, W] and the frames that are read */
  crn_tensor *middle = crn_t_stop_gradient(r, crn_unary(r, CRN_U_ROUND, p));
  crn_tensor *k = crn_cast(r, crn_range(r, CRN_I32, -(W / 2), W), p->dtype);
  crn_tensor *frame = crn_add(r, middle, k);
  crn_tensor *lens = crn_data_lens(r, base, 1);
  crn_tensor *z = crn_t_full(r, CRN_I32, 0, NULL, 0), *one = crn_t_full(r, CRN_I32, 0, NULL, 1);
  const int64_t l3[3] = {B, 1, 1}, flat[2] = {B, M * W}, r4[4] = {B, M, W, F}, w4[4] = {B, M, 1, W};
  crn_tensor *last = crn_sub(r, lens ? crn_t_reshape(r, lens, 3, l3) : NULL, one);
  crn_tensor *read = crn_cast(r, frame ? crn_clip(r, frame, 0, (double)(T - 1)) : NULL, CRN_I32);
  read = crn_binary(r, CRN_B_MAXIMUM, crn_binary(r, CRN_B_MINIMUM, read, last), z);
  crn_tensor *rows = crn_gather_batched(r, base->v, read ? crn_t_reshape(r, read, 2, flat) : NULL, 1);
  /* exp(-(p - i_k)² / (2 s²)) / (s √(2π)) */
  crn_tensor *d2 = crn_unary(r, CRN_U_SQUARE, crn_sub(r, p, frame));
  crn_tensor *w = d2 ? crn_unary(r, CRN_U_EXP, crn_scale(r, d2, -0.5 / (c->std * c->std))) : NULL;
  w = w ? crn_scale(r, w, 1.0 / (c->std * sqrt(2.0 * 3.14159265358979323846))) : NULL;
  if (!rows || !w) return r->err->code;
  crn_tensor *y = crn_matmul(r, crn_t_reshape(r, w, 4, w4), false, crn_t_reshape(r, rows, 4, r4), false);
  const bool inner = c->inner_size != CRN_UNSET;
  const int64_t o4[4] = {B, O, inner ? M / O : F, F};
  y = y ? crn_t_reshape(r, y, inner ? 4 : 3, o4) : NULL;
  out->v = to_output(r, y, &l->out);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_globalatt[] = {{.name = "dot_attention",
                                                .doc = "Attends to base with energies key·query.",
                                                .opts = dot_opts,
                                                .cfg_size = sizeof(global_cfg),
                                                .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,
                                                .infer = global_infer,
                                                .forward = global_forward},
                                               {.name = "concat_attention",
                                                .doc = "Attends to base with energies v·tanh(key + query).",
                                                .opts = concat_opts,
                                                .cfg_size = sizeof(global_cfg),
                                                .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,
                                                .infer = global_infer,
                                                .params = concat_params,
                                                .forward = global_forward},
                                               {.name = "gauss_window_attention",
                                                .doc = "Sums base around a position with Gaussian weights.",
                                                .opts = gauss_opts,
                                                .cfg_size = sizeof(global_cfg),
                                                .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,
                                                .infer = gauss_infer,
                                                .forward = gauss_forward},
                                               {.name = NULL}};
