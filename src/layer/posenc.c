/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodings of positions (recurrent.md, "Attention"): sinusoids of the frame's index, and learned or sinusoidal vectors
 * of the clipped distance between query and key frames.
 */
#include <math.h>
#include <string.h>

#include "layer/lengths.h"
#include "layer/pieces.h"

#define POS_MAX_DIM 1e9

/* PE(p) = [sin(p·r_0) … sin(p·r_{m-1}), cos(p·r_0) …], m = D/2, r_i = 10000^(-i/(m-1)), and 0 if D is odd.
 * p: real, last axis of size 1 -> last axis D. */
static crn_tensor *sinusoids(crn_run *r, crn_tensor *p, int64_t D) {
  const int64_t m = D / 2, shape[1] = {m};
  crn_tensor *rate = crn_t_new(r, r->real, 1, shape);
  if (!rate || !p) return NULL;
  for (int64_t i = 0; i < m; i++) {
    const double v = exp(-(double)i / (double)(m - 1) * log(10000.0));
    if (r->real == CRN_F64)
      crn_t_f64(rate)[i] = v;
    else
      crn_t_f32(rate)[i] = (float)v;
  }
  crn_tensor *angle = crn_mul(r, p, rate);
  crn_tensor *parts[2] = {crn_unary(r, CRN_U_SIN, angle), crn_unary(r, CRN_U_COS, angle)};
  crn_tensor *y = crn_concat(r, 2, parts, p->rank - 1);
  return y && D % 2 ? crn_pad(r, y, p->rank - 1, 0, 1, "constant", 0) : y;
}

static crn_status check_dim(crn_build *b, crn_layer *l, int64_t D) {
  if (D >= 4 || D == 1) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "sinusoids need a dim of at least 4, got %lld", (long long)D);
}

/* ---- positional_encoding --------------------------------------------------------------------------------------------
 */

typedef struct pos_cfg {
  const crn_value *axis;
  int add_to_input;
  int64_t constant;
  crn_layer *offset;
  int at; /* axis of the output that counts, -1: own counter */
} pos_cfg;

#define OFF(f) offsetof(pos_cfg, f)
static const crn_opt pos_opts[] = {{.name = "axis",
                                    .type = CRN_OPT_VALUE,
                                    .offset = OFF(axis),
                                    .dflt = "None",
                                    .doc = "axis whose index is the position, default time"},
                                   {.name = "add_to_input",
                                    .type = CRN_OPT_BOOL,
                                    .offset = OFF(add_to_input),
                                    .dflt = "False",
                                    .doc = "add the encoding to the source"},
                                   {.name = "constant",
                                    .type = CRN_OPT_INT,
                                    .offset = OFF(constant),
                                    .dflt = "-1",
                                    .doc = "always this position; -1: none"},
                                   {.name = "offset",
                                    .type = CRN_OPT_LAYER,
                                    .offset = OFF(offset),
                                    .dflt = "None",
                                    .doc = "layer with integers that are added to the position"},
                                   CRN_OPT_END};

static crn_status pos_refs(crn_build *b, crn_layer *l) {
  if (l->n_src || crn_v_get(l->dict, "from")) return CRN_OK;
  l->src = CRN_ARENA_ARRAY(crn_build_arena(b), crn_layer *, 1);
  if (!l->src) return crn_err_memory(crn_build_err(b));
  CRN_TRY(crn_layer_ref(b, l, crn_layer_in_loop(l) || crn_layer_moved_out(l) ? ":i" : "data", CRN_EDGE_DATA, "from",
                        &l->src[0]));
  l->n_src = 1;
  return CRN_OK;
}

static bool has_feature(const crn_tmpl *t) { return t->feature_axis >= 0 && !t->sparse && t->dtype == CRN_F32; }

/* The axes that the encoding is for: the source's without its feature. */
static void frames_tmpl(const crn_tmpl *in, crn_tmpl *t) {
  *t = *in;
  t->sparse = false;
  t->sparse_dim = NULL;
  t->dtype = CRN_F32;
  if (has_feature(in)) {
    crn_tmpl_remove(t, t->feature_axis);
  }
  t->feature_explicit = true;
  t->feature_axis = -1;
}

static crn_status pos_infer(crn_build *b, crn_layer *l) {
  pos_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (has_feature(&in) && in.feature_axis != in.n - 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the feature axis must be the source's last axis");
  if (c->add_to_input > 0) {
    if (!has_feature(&in))
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'add_to_input': the source has no features");
    l->out = in;
  } else if (has_feature(&in)) {
    CRN_TRY(crn_new_feature_tmpl(b, l, &in, &l->out));
  } else {
    const crn_dim *d;
    CRN_TRY(crn_new_feature_dim(b, l, NULL, &d));
    frames_tmpl(&in, &l->out);
    l->out.feature_explicit = false;
    l->out.vocab = NULL;
    CRN_TRY(crn_tmpl_insert(&l->out, l->out.n, d, crn_build_err(b)));
    l->out.feature_axis = l->out.n - 1;
  }
  CRN_TRY(check_dim(b, l, crn_tmpl_dim(&l->out)));
  c->at = l->out.time_axis;
  if (!crn_v_is_none(c->axis)) CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at));
  if (c->at < 0 && !crn_layer_in_loop(l) && crn_loop_dim(l)) c->at = crn_tmpl_find(&l->out, crn_loop_dim(l));
  l->causal = true;
  if (c->at >= 0 || c->constant >= 0) return CRN_OK;
  crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  if (crn_tmpl_batch_axis(&l->out) >= 0) t.dims[t.n++] = crn_build_dims(b)->batch;
  return crn_layer_add_state(b, l, "position", &t);
}

static crn_status pos_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const int64_t B = crn_batch_size(x, l);
  out->v = crn_t_full(r, CRN_I32, l->states[i].t.n, &B, -1);
  return out->v ? CRN_OK : r->err->code;
}

/* int32 with the axes of t (without feature), size 1 where all are the same. */
static crn_tensor *positions(crn_exec *x, crn_layer *l, const crn_tmpl *t, const crn_tensor *like, crn_data *out) {
  const pos_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < t->n; i++) shape[i] = 1;
  if (c->constant >= 0) return crn_t_full(r, CRN_I32, t->n, shape, (double)c->constant);
  if (c->at >= 0) {
    shape[c->at] = like->shape[c->at];
    const int64_t first = crn_streams_along(l, t->dims[c->at]) ? crn_stream_before(x, l) : 0;
    crn_stream_pass(x, l, shape[c->at]);
    return crn_t_reshape(r, crn_range(r, CRN_I32, first, shape[c->at]), t->n, shape);
  }
  const crn_data *before = crn_state_in(x, l, 0);
  crn_data *now = crn_data_copy(r, before);
  if (!now) return NULL;
  now->v = crn_add_scalar(r, before->v, 1);
  now->beam = out->beam;
  if (crn_state_out(x, l, 0, now) != CRN_OK) return NULL;
  const int batch = crn_tmpl_batch_axis(t);
  if (batch >= 0) shape[batch] = now->v->shape[0];
  return crn_t_reshape(r, now->v, t->n, shape);
}

static crn_status pos_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const pos_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  crn_tmpl t;
  frames_tmpl(&in->t, &t);
  crn_tensor *p = positions(x, l, &t, in->v, out);
  if (c->offset) {
    const crn_data *o = crn_value_of(x, l, c->offset);
    crn_tensor *v = crn_data_fit(r, o, &t, crn_exec_version(x), false);
    if (v && !crn_dtype_is_int(v->dtype)) return crn_exec_fail(x, l, "option 'offset': expected integers");
    p = crn_add(r, p, v && v->dtype != CRN_I32 ? crn_cast(r, v, CRN_I32) : v);
  }
  for (int i = 0; i < t.n; i++) out->len[i] = in->len[i];
  crn_tensor *pe = p ? crn_expand_dims(r, crn_cast(r, p, r->real), p->rank) : NULL;
  pe = sinusoids(r, pe, crn_tmpl_dim(&l->out));
  if (!pe) return r->err->code;
  if (c->add_to_input > 0) {
    out->v = crn_add(r, in->v, pe);
  } else {
    int64_t shape[CRN_MAX_RANK];
    for (int i = 0; i < t.n; i++) shape[i] = in->v->shape[i];
    shape[t.n] = pe->shape[t.n];
    out->v = crn_broadcast_to(r, pe, t.n + 1, shape);
  }
  return out->v ? CRN_OK : r->err->code;
}

/* ---- relative_positional_encoding -----------------------------------------------------------------------------------
 */

typedef struct rel_cfg {
  int64_t clipping;
  int fixed;
  const crn_value *weights_init, *query_dim, *key_dim, *query_offset;
  crn_layer *offset_layer;
  bool step;            /* in a loop: one query frame, keys up to it */
  int query_at, key_at; /* axes of the source; query_at -1: no query axis */
  int64_t n_out;
} rel_cfg;

#undef OFF
#define OFF(f) offsetof(rel_cfg, f)
static const crn_opt rel_opts[] = {{.name = "clipping",
                                    .type = CRN_OPT_INT,
                                    .offset = OFF(clipping),
                                    .dflt = "16",
                                    .min = 1,
                                    .max = POS_MAX_DIM,
                                    .doc = "largest distance that is told apart, frames"},
                                   {.name = "fixed",
                                    .type = CRN_OPT_BOOL,
                                    .offset = OFF(fixed),
                                    .dflt = "False",
                                    .doc = "sinusoids instead of trained vectors"},
                                   {.name = "forward_weights_init",
                                    .type = CRN_OPT_VALUE,
                                    .offset = OFF(weights_init),
                                    .dflt = "\"glorot_uniform\"",
                                    .doc = "initialiser of encoding_matrix"},
                                   {.name = "query_spatial_dim",
                                    .type = CRN_OPT_VALUE,
                                    .offset = OFF(query_dim),
                                    .dflt = "\"T\"",
                                    .doc = "axis of the queries; None: no such axis"},
                                   {.name = "key_value_spatial_dim",
                                    .type = CRN_OPT_VALUE,
                                    .offset = OFF(key_dim),
                                    .dflt = "\"T\"",
                                    .doc = "axis of the keys"},
                                   {.name = "query_offset",
                                    .type = CRN_OPT_VALUE,
                                    .offset = OFF(query_offset),
                                    .dflt = "None",
                                    .doc = "position of the first query, a number or scalar layer"},
                                   CRN_OPT_END};

static crn_status rel_refs(crn_build *b, crn_layer *l) {
  rel_cfg *c = l->cfg;
  if (!crn_v_is_str(c->query_offset)) return CRN_OK;
  return crn_layer_ref(b, l, crn_v_cstr(c->query_offset), CRN_EDGE_DATA, "query_offset", &c->offset_layer);
}

static crn_status rel_add(crn_build *b, crn_layer *l, const crn_dim *d) {
  if (!d) return crn_err_memory(crn_build_err(b));
  l->out.dims[l->out.n++] = d;
  return CRN_OK;
}

static crn_status rel_infer(crn_build *b, crn_layer *l) {
  rel_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  const crn_dim *feature;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(crn_new_feature_dim(b, l, NULL, &feature));
  c->n_out = feature->size;
  if (c->fixed > 0) CRN_TRY(check_dim(b, l, c->n_out));
  const bool query = !crn_v_is_none(c->query_dim);
  c->step = crn_layer_in_loop(l) && in.time_axis < 0;
  c->query_at = c->key_at = -1;
  l->out = crn_tmpl_scalar(CRN_F32);
  if (c->step) {
    if (query) CRN_TRY(rel_add(b, l, crn_layer_dim(b, l, "query", CRN_DIM_SPATIAL, 1)));
    CRN_TRY(rel_add(b, l,
                    crn_v_is_str(c->key_dim) ? crn_layer_dim(b, l, "keys", CRN_DIM_SPATIAL, -1)
                                             : crn_dim_of_value(crn_build_dims(b), c->key_dim)));
  } else {
    if (query) {
      CRN_TRY(crn_layer_axis(b, l, &in, c->query_dim, "query_spatial_dim", &c->query_at));
      CRN_TRY(rel_add(b, l, in.dims[c->query_at]));
    }
    CRN_TRY(crn_layer_axis(b, l, &in, c->key_dim, "key_value_spatial_dim", &c->key_at));
    CRN_TRY(rel_add(b, l, in.dims[c->key_at]));
  }
  CRN_TRY(rel_add(b, l, feature));
  l->out.feature_axis = l->out.n - 1;
  l->out.time_axis = 0;
  l->out.time_explicit = true;
  l->ends_beam = true;
  l->causal = c->step || c->query_at == c->key_at;
  return CRN_OK;
}

static crn_status rel_params(crn_build *b, crn_layer *l) {
  const rel_cfg *c = l->cfg;
  if (c->fixed > 0) return CRN_OK;
  crn_param_spec s = {.name = "encoding_matrix", .rank = 2, .init = c->weights_init, .dtype = CRN_F32};
  s.shape[0] = 2 * c->clipping + 1;
  s.shape[1] = c->n_out;
  return crn_layer_param(b, l, &s);
}

static crn_tensor *rel_vectors(crn_exec *x, crn_layer *l, const rel_cfg *c) {
  crn_run *r = crn_exec_run(x);
  if (c->fixed <= 0) return crn_param_get(x, l, "encoding_matrix");
  const int64_t n = 2 * c->clipping + 1, shape[2] = {n, 1};
  crn_tensor *p = crn_t_reshape(r, crn_range(r, CRN_I32, 0, n), 2, shape);
  return sinusoids(r, p ? crn_cast(r, p, r->real) : NULL, c->n_out);
}

static crn_status rel_offset(crn_exec *x, crn_layer *l, const rel_cfg *c, int64_t *offset) {
  *offset = c->step ? crn_exec_step(x, l) : 0;
  if (crn_v_is_none(c->query_offset)) return CRN_OK;
  if (!c->offset_layer)
    return crn_v_to_int(c->query_offset, offset) ? CRN_OK
                                                 : crn_exec_fail(x, l, "option 'query_offset': expected an integer");
  const crn_data *d = crn_value_of(x, l, c->offset_layer);
  if (!d) return crn_exec_run(x)->err->code;
  if (d->v->rank || !crn_dtype_is_int(d->v->dtype))
    return crn_exec_fail(x, l, "option 'query_offset': expected an integer without axes");
  *offset = (int64_t)crn_t_get(d->v, 0);
  return CRN_OK;
}

static crn_status rel_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const rel_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_source(x, l, 0);
  int64_t offset, n_keys;
  if (!in) return r->err->code;
  CRN_TRY(rel_offset(x, l, c, &offset));
  const int key = l->out.n - 2;
  const int64_t n_queries = c->query_at >= 0 ? in->v->shape[c->query_at] : 1;
  if (c->step) {
    n_keys = crn_exec_step(x, l) + 1;
    const crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
    out->len[key] = crn_data_new(r, &lt, crn_t_full(r, CRN_I32, 0, NULL, (double)n_keys));
  } else {
    const int64_t before = crn_streams_along(l, in->t.dims[c->key_at]) ? crn_stream_before(x, l) : 0;
    n_keys = in->v->shape[c->key_at] + before;
    offset += before;
    out->len[key] = crn_lengths_affine(x, in->len[c->key_at], 1, before, 1);
    crn_stream_pass(x, l, in->v->shape[c->key_at]);
    if (key == 1) out->len[0] = in->len[c->query_at];
  }
  const int64_t shape[2] = {n_queries, n_keys};
  crn_tensor *idx = crn_t_new(r, CRN_I32, 2, shape);
  if (!idx) return r->err->code;
  for (int64_t i = 0; i < n_queries; i++)
    for (int64_t j = 0; j < n_keys; j++) {
      const int64_t d = j - i - offset, top = d > c->clipping ? c->clipping : d;
      crn_t_i32(idx)[i * n_keys + j] = (int32_t)((top < -c->clipping ? -c->clipping : top) + c->clipping);
    }
  out->beam = NULL;
  crn_tensor *y = crn_gather(r, rel_vectors(x, l, c), idx, 0);
  out->v = y && key == 0 ? crn_squeeze(r, y, 0) : y;
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_posenc[] = {{.name = "positional_encoding",
                                             .doc = "Gives sinusoids of the position.",
                                             .opts = pos_opts,
                                             .cfg_size = sizeof(pos_cfg),
                                             .flags = CRN_L_CONCAT | CRN_L_NO_SOURCES | CRN_L_STREAMS,
                                             .refs = pos_refs,
                                             .infer = pos_infer,
                                             .forward = pos_forward,
                                             .state_init = pos_state_init},
                                            {.name = "relative_positional_encoding",
                                             .doc = "Gives vectors of the clipped distances between frames.",
                                             .opts = rel_opts,
                                             .cfg_size = sizeof(rel_cfg),
                                             .flags = CRN_L_CONCAT | CRN_L_MAY_STREAM,
                                             .refs = rel_refs,
                                             .infer = rel_infer,
                                             .params = rel_params,
                                             .forward = rel_forward},
                                            {.name = NULL}};
