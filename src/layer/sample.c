/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that take frames more or less often: repeat, resize (layers-2.md). Both give the axis right behind the batch
 * axis.
 */
#include <math.h>
#include <string.h>

#include "layer/lengths.h"
#include "layer/pieces.h"
#include "layer/shape_list.h"

typedef struct sample_cfg {
  const crn_value *axis, *repetitions, *factor;
  const char *kind;
  double fill_value, fill_dropout;
  double number;
  crn_layer *layer;
  int at, to; /* axis of the (batch-major) input; in the output */
  int perm[CRN_MAX_RANK];
  bool batch;
} sample_cfg;

#define OFF(f) offsetof(sample_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* [batch, axis, rest] */
static crn_status bring_forward(crn_build *b, crn_layer *l, sample_cfg *c) {
  crn_tmpl *t = &l->out;
  CRN_TRY(crn_layer_axis(b, l, t, c->axis, "axis", &c->at));
  if (t->dims[c->at]->kind == CRN_DIM_BATCH)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': not the batch axis");
  const int batch = crn_tmpl_batch_axis(t);
  int k = 0;
  c->batch = batch >= 0;
  if (c->batch) c->perm[k++] = batch;
  c->to = k;
  c->perm[k++] = c->at;
  for (int i = 0; i < t->n; i++)
    if (i != batch && i != c->at) c->perm[k++] = i;
  const bool te = t->time_explicit, fe = t->feature_explicit;
  t->time_explicit = t->feature_explicit = true;
  crn_tmpl_permute(t, c->perm);
  t->time_explicit = te;
  t->feature_explicit = fe;
  return CRN_OK;
}

static crn_status new_dim(crn_build *b, crn_layer *l, const sample_cfg *c, int64_t size, const char *op,
                          int64_t factor) {
  const crn_dim *old = l->out.dims[c->to], *d, *given = l->common.out_dim;
  if (size < 0 && factor < 0) {
    d = crn_layer_dim(b, l, op, old->kind, -1);
    if (!d) return crn_err_memory(crn_build_err(b));
  } else
    CRN_TRY(crn_changed_dim(b, l, old, size, op, "scaled", factor, 0, 0, &d));
  if (given && given->size == d->size) d = crn_dim_as_kind(crn_build_dims(b), given, old->kind);
  l->out.dims[c->to] = d;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* ---- repeat ---------------------------------------------------------------------------------------------------------
 */

static const crn_opt repeat_opts[] = {
    OPT(repetitions, CRN_OPT_VALUE, NULL, .doc = "number, or a layer that gives it per frame"),
    OPT(axis, CRN_OPT_VALUE, "\"T\"", .doc = "axis whose frames are repeated"), CRN_OPT_END};

static crn_status repeat_refs(crn_build *b, crn_layer *l) {
  sample_cfg *c = l->cfg;
  int64_t n;
  if (!crn_v_get(l->dict, "axis")) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis' must be given");
  CRN_TRY(crn_number_or_layer(b, l, c->repetitions, "repetitions", &c->number, &c->layer));
  if (!c->layer && (!crn_v_to_int(c->repetitions, &n) || n < 0))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'repetitions': expected an integer or a layer");
  return CRN_OK;
}

static crn_status repeat_infer(crn_build *b, crn_layer *l) {
  sample_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(bring_forward(b, l, c));
  const crn_dim *old = l->out.dims[c->to];
  const crn_tmpl *rep = c->layer && c->layer->out_known ? &c->layer->out : NULL;
  if (c->layer && old->size >= 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'repetitions': an axis of fixed size needs a number");
  if (rep && !crn_dtype_is_int(rep->dtype))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'repetitions': layer '%s' must hold integers", c->layer->path);
  if (rep && rep->n > 2)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'repetitions': layer '%s' may have only the axis and a batch axis", c->layer->path);
  if (rep && rep->n > 0 && crn_tmpl_find(rep, old) < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'repetitions': layer '%s' lacks the axis", c->layer->path);
  if (c->layer && !c->batch)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                          "not implemented: 'repetitions' as a layer for a source without a batch axis");
  const int64_t n = (int64_t)c->number;
  l->causal = !c->layer;
  if (!c->layer && n == 1) return CRN_OK;
  return new_dim(b, l, c, old->size < 0 ? -1 : old->size * n, "repeat", c->layer ? -1 : n);
}

/* Repetitions of each frame [B, T], 0 in padding. */
static crn_tensor *counts(crn_exec *x, crn_layer *l, const sample_cfg *c, const crn_data *in) {
  crn_run *r = crn_exec_run(x);
  const int64_t shape[2] = {in->v->shape[0], in->v->shape[1]};
  crn_tensor *n = c->layer ? NULL : crn_t_full(r, CRN_I32, 2, shape, c->number);
  if (c->layer) {
    const crn_data *d = crn_value_of(x, l, c->layer);
    crn_tmpl t = crn_tmpl_scalar(CRN_I32);
    t.n = 2;
    t.dims[0] = in->t.dims[0];
    t.dims[1] = in->t.dims[1];
    n = crn_data_fit(r, d, &t, crn_exec_version(x), false);
    if (n && n->dtype != CRN_I32) n = crn_cast(r, n, CRN_I32);
    n = crn_broadcast_to(r, n, 2, shape);
  }
  crn_tensor *len = n ? crn_data_lens(r, in, 1) : NULL;
  if (!len) return NULL;
  crn_tensor *out = crn_t_zeros(r, CRN_I32, 2, shape);
  for (int64_t b = 0; out && b < shape[0]; b++)
    for (int64_t t = 0; t < shape[1] && t < crn_t_i32(len)[b]; t++) {
      const int32_t k = crn_t_i32(n)[b * shape[1] + t];
      if (k < 0)
        return (void)crn_exec_fail(x, l, "option 'repetitions': %d for frame %lld of sequence %lld", k, (long long)t,
                                   (long long)b),
               NULL;
      crn_t_i32(out)[b * shape[1] + t] = k;
    }
  return out;
}

/* Frame of the input for each frame of the output [B, T'], T = the zero frame behind; sums go to sums [B]. */
static crn_tensor *repeat_indices(crn_run *r, crn_tensor *n, crn_tensor **sums) {
  const int64_t B = n->shape[0], T = n->shape[1];
  int64_t most = 0;
  *sums = crn_t_zeros(r, CRN_I32, 1, &B);
  if (!*sums) return NULL;
  for (int64_t b = 0; b < B; b++) {
    int64_t sum = 0;
    for (int64_t t = 0; t < T; t++) sum += crn_t_i32(n)[b * T + t];
    crn_t_i32(*sums)[b] = (int32_t)sum;
    if (sum > most) most = sum;
  }
  const int64_t shape[2] = {B, most};
  crn_tensor *idx = crn_t_new(r, CRN_I32, 2, shape);
  for (int64_t b = 0; idx && b < B; b++) {
    int64_t at = 0;
    for (int64_t t = 0; t < T; t++)
      for (int32_t k = crn_t_i32(n)[b * T + t]; k > 0; k--) crn_t_i32(idx)[b * most + at++] = (int32_t)t;
    while (at < most) crn_t_i32(idx)[b * most + at++] = (int32_t)T;
  }
  return idx;
}

static crn_status repeat_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const sample_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (in) in = crn_data_permute(r, in, c->perm);
  if (!in) return r->err->code;
  const int a = c->to;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  if (!in->len[a] || !c->batch) { /* nothing to leave out */
    const int64_t n = (int64_t)c->number, T = in->v->shape[a], total = T * n;
    crn_tensor *idx = crn_t_new(r, CRN_I32, 1, &total);
    for (int64_t i = 0; idx && i < total; i++) crn_t_i32(idx)[i] = (int32_t)(i / n);
    out->v = crn_gather(r, in->v, idx, a);
    out->len[a] = crn_lengths_affine(x, in->len[a], n, 0, 1);
    return out->v ? CRN_OK : r->err->code;
  }
  crn_tensor *n = counts(x, l, c, in), *sums, *idx = n ? repeat_indices(r, n, &sums) : NULL;
  if (!idx) return r->err->code;
  out->v = crn_gather_batched(r, crn_pad(r, in->v, 1, 0, 1, "constant", 0), idx, 1);
  crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  t.dims[t.n++] = out->t.dims[0];
  out->len[1] = crn_data_new(r, &t, sums);
  return out->v && out->len[1] ? CRN_OK : r->err->code;
}

/* ---- resize ---------------------------------------------------------------------------------------------------------
 */

static const crn_opt resize_opts[] = {
    OPT(factor, CRN_OPT_VALUE, NULL, .doc = "factor of the size, a number or a scalar layer"),
    OPT(axis, CRN_OPT_VALUE, NULL, .doc = "axis to resize"),
    OPT(kind, CRN_OPT_STR, "\"nn\"", .choices = "nn|nearest_neighbor|linear|cubic|fill",
        .doc = "how values between frames come about"),
    OPT(fill_value, CRN_OPT_FLOAT, "None", .doc = "value between frames, for kind fill"),
    OPT(fill_dropout, CRN_OPT_FLOAT, "None", .min = 0, .max = 1, .doc = "share of those that are dropped"),
    CRN_OPT_END};

static crn_status resize_refs(crn_build *b, crn_layer *l) {
  sample_cfg *c = l->cfg;
  CRN_TRY(crn_number_or_layer(b, l, c->factor, "factor", &c->number, &c->layer));
  if (!c->layer && !(c->number > 0))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'factor': expected a number above 0 or a layer");
  const bool whole = c->layer || (c->number == floor(c->number) && c->number > 1);
  if (!strcmp(c->kind, "fill") && (!whole || c->layer || isnan(c->fill_value)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "kind 'fill' needs 'fill_value' and an integer 'factor' above 1");
  return CRN_OK;
}

/* ceil(n * factor), in the precision of the original */
static int64_t resized(int64_t n, double factor) { return (int64_t)ceilf((float)n * (float)factor); }

static bool drops(const sample_cfg *c) { return !strcmp(c->kind, "fill") && c->fill_dropout > 0; }

static crn_status resize_infer(crn_build *b, crn_layer *l) {
  sample_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(bring_forward(b, l, c));
  const int64_t old = l->out.dims[c->to]->size;
  const bool whole = !c->layer && c->number == floor(c->number);
  if (old >= 0 && (c->layer || drops(c)))
    return crn_layer_fail(
        b, l, CRN_E_CONFIG,
        "the size of an axis of fixed size must be known: 'factor' as a layer and 'fill_dropout' are not possible");
  const bool between = strcmp(c->kind, "nn") && strcmp(c->kind, "nearest_neighbor") && strcmp(c->kind, "fill");
  l->causal = l->out.dims[c->to]->size >= 0 || crn_layer_in_loop(l) || (whole && !between && !drops(c));
  l->ahead = l->causal ? NULL : "its frames depend on later ones, or on how many there are";
  if (whole && c->number == 1) return CRN_OK;
  return new_dim(b, l, c, old < 0 ? -1 : resized(old, c->number), "resize",
                 whole && !drops(c) ? (int64_t)c->number : -1);
}

/* Frame positions [n'] and the weight of each of the up to 4 taps. */
typedef struct taps {
  int n;
  crn_tensor *idx[4], *weight[4];
} taps;

static float cubic_near(float x) { return ((-0.75f + 2) * x - (-0.75f + 3)) * x * x + 1; }
static float cubic_far(float x) { return ((-0.75f * x + 5 * 0.75f) * x - 8 * 0.75f) * x + 4 * 0.75f; }

static crn_status make_taps(crn_run *r, const char *kind, int64_t n, int64_t m, taps *p) {
  const bool linear = !strcmp(kind, "linear"), cubic = !strcmp(kind, "cubic");
  const float scale = m ? (float)n / (float)m : 0;
  p->n = cubic ? 4 : linear ? 2 : 1;
  for (int k = 0; k < p->n; k++) {
    p->idx[k] = crn_t_new(r, CRN_I32, 1, &m);
    p->weight[k] = crn_t_new(r, CRN_F32, 1, &m);
    if (!p->idx[k] || !p->weight[k]) return r->err->code;
  }
  for (int64_t i = 0; i < m; i++) {
    const float at = (float)i * scale, low = floorf(at);
    float f = at - low, w[4] = {1, 0, 0, 0};
    if (linear) {
      w[0] = 1 - f;
      w[1] = f;
    } else if (cubic) {
      f = roundf(f * 1024) / 1024;
      w[0] = cubic_far(1 + f);
      w[1] = cubic_near(f);
      w[2] = cubic_near(1 - f);
      w[3] = cubic_far(2 - f);
    }
    for (int k = 0; k < p->n; k++) {
      int64_t t = (int64_t)low + k - (cubic ? 1 : 0);
      t = t < 0 ? 0 : t >= n ? n - 1 : t;
      crn_t_i32(p->idx[k])[i] = (int32_t)t;
      crn_t_f32(p->weight[k])[i] = w[k];
    }
  }
  return CRN_OK;
}

static crn_tensor *interpolated(crn_run *r, const char *kind, crn_tensor *v, int axis, int64_t m) {
  taps p;
  crn_tensor *sum = NULL;
  if (make_taps(r, kind, v->shape[axis], m, &p) != CRN_OK) return NULL;
  if (p.n == 1) return crn_gather(r, v, p.idx[0], axis);
  for (int k = 0; k < p.n; k++) {
    int64_t shape[CRN_MAX_RANK];
    for (int i = 0; i < v->rank; i++) shape[i] = i == axis ? m : 1;
    crn_tensor *w = crn_t_reshape(r, p.weight[k], v->rank, shape);
    if (w && w->dtype != v->dtype) w = crn_cast(r, w, v->dtype);
    crn_tensor *part = crn_mul(r, crn_gather(r, v, p.idx[k], axis), w);
    sum = k ? crn_add(r, sum, part) : part;
  }
  return sum;
}

/* Lengths times a factor that need not be whole. */
static const crn_data *scaled_lengths(crn_exec *x, const crn_data *len, double factor) {
  crn_run *r = crn_exec_run(x);
  if (!len || factor == floor(factor)) return crn_lengths_affine(x, len, (int64_t)factor, 0, 1);
  crn_data *d = crn_data_copy(r, len);
  if (!d) return NULL;
  d->v = crn_t_new(r, CRN_I32, len->v->rank, len->v->shape);
  for (int64_t i = 0; d->v && i < crn_t_size(len->v); i++)
    crn_t_i32(d->v)[i] = (int32_t)resized(crn_t_i32(len->v)[i], factor);
  return d->v ? d : NULL;
}

/* Each frame followed by factor - 1 frames of the fill value. */
static crn_tensor *filled(crn_run *r, const sample_cfg *c, const crn_tmpl *t, crn_tensor *v) {
  const int a = c->to;
  const int64_t f = (int64_t)c->number;
  double value = c->fill_value;
  if (value < 0 && t->sparse && t->sparse_dim) value += (double)t->sparse_dim->size;
  crn_tensor *w = crn_pad(r, crn_expand_dims(r, v, a + 1), a + 1, 0, f - 1, "constant", value);
  if (!w) return NULL;
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < v->rank; i++) shape[i] = i == a ? v->shape[i] * f : v->shape[i];
  return crn_t_reshape(r, w, v->rank, shape);
}

/* Drop filled positions by chance, the same for all sequences. */
static crn_status drop_filled(crn_exec *x, crn_layer *l, crn_data *out) {
  const sample_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const int a = c->to;
  const int64_t n = out->v->shape[a], f = (int64_t)c->number;
  crn_tensor *u = crn_random_uniform(r, crn_random_name(x, l, "fill_dropout", false), CRN_F32, 1, &n, 0, 1),
             *before = crn_t_zeros(r, CRN_I32, 1, &(int64_t){n + 1});
  if (!u || !before) return r->err->code;
  for (int64_t i = 0; i < n; i++) /* positions kept before each */
    crn_t_i32(before)[i + 1] = crn_t_i32(before)[i] + (i % f == 0 || (double)crn_t_f32(u)[i] >= c->fill_dropout);
  const int64_t kept = crn_t_i32(before)[n];
  crn_tensor *idx = crn_t_new(r, CRN_I32, 1, &kept);
  for (int64_t i = 0; idx && i < n; i++)
    if (crn_t_i32(before)[i + 1] > crn_t_i32(before)[i]) crn_t_i32(idx)[crn_t_i32(before)[i]] = (int32_t)i;
  out->v = crn_gather(r, out->v, idx, a);
  crn_data *len = out->len[a] ? crn_data_copy(r, out->len[a]) : NULL;
  if (!len) return out->v ? CRN_OK : r->err->code;
  len->v = crn_gather(r, before, len->v, 0);
  out->len[a] = len;
  return out->v && len->v ? CRN_OK : r->err->code;
}

static crn_status resize_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const sample_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l), *factor_layer = c->layer && in ? crn_value_of(x, l, c->layer) : NULL;
  if (in) in = crn_data_permute(r, in, c->perm);
  if (!in || (c->layer && !factor_layer)) return r->err->code;
  if (factor_layer && factor_layer->t.n)
    return crn_exec_fail(x, l, "option 'factor': layer '%s' must be a scalar", c->layer->path);
  const double factor = factor_layer ? crn_t_get(factor_layer->v, 0) : c->number;
  const int a = c->to;
  if (!(factor > 0)) return crn_exec_fail(x, l, "option 'factor' is %g", factor);
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  out->len[a] = scaled_lengths(x, in->len[a], factor);
  if (strcmp(c->kind, "fill"))
    out->v = interpolated(r, c->kind, in->v, a, resized(in->v->shape[a], factor));
  else
    out->v = filled(r, c, &in->t, in->v);
  if (!out->v) return r->err->code;
  return drops(c) ? drop_filled(x, l, out) : CRN_OK;
}

#define ROW(n, d, o, ...)                                                                                              \
  {                                                                                                                    \
    .name = n, .doc = d, .opts = o, .cfg_size = sizeof(sample_cfg),                                                    \
    .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM, __VA_ARGS__                   \
  }
const crn_layer_desc crn_family_sample[] = {ROW("repeat", "Repeats each frame a number of times.", repeat_opts,
                                                .refs = repeat_refs, .infer = repeat_infer, .forward = repeat_forward),
                                            ROW("resize", "Samples an axis more or less densely.", resize_opts,
                                                .refs = resize_refs, .infer = resize_infer, .forward = resize_forward),
                                            {.name = NULL}};
