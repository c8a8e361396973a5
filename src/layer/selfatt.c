/* SPDX-License-Identifier: Apache-2.0
 *
 * self_attention (recurrent.md, "Attention"): multi-head dot attention of a sequence with itself, whole or step by
 * step.
 *
 * With left context only, earlier keys and values are states (k_left, v_left): one step in a loop, a whole sequence and
 * a chunk of it are the same computation. Columns of QKV belong to the heads in turn: d_k of q, d_k of k, d_v of v
 * each.
 */
#include <math.h>
#include <string.h>

#include "layer/layer.h"
#include "tensor/history.h"

typedef struct selfatt_cfg {
  int64_t num_heads, total_key_dim;
  const crn_value *weights_init;
  double attention_dropout;
  int left_only, restrict_state;
  crn_layer *key_shift, *state_var_lengths;
  int64_t n_in, n_out;
  bool kept;           /* starts with the states of the batch before */
  crn_layer *start[2]; /* layers that give k_left and v_left at the beginning, or NULL */
  bool step;           /* one frame per call: the source has no time axis */
} selfatt_cfg;

enum { STATE_K, STATE_V, STATE_MASK };

#define OFF(f) offsetof(selfatt_cfg, f)
static const crn_opt selfatt_opts[] = {{.name = "num_heads",
                                        .type = CRN_OPT_INT,
                                        .offset = OFF(num_heads),
                                        .min = 1,
                                        .max = 1e6,
                                        .doc = "number of heads"},
                                       {.name = "total_key_dim",
                                        .type = CRN_OPT_INT,
                                        .offset = OFF(total_key_dim),
                                        .min = 1,
                                        .max = 1e9,
                                        .doc = "size of all heads' keys together"},
                                       {.name = "key_shift",
                                        .type = CRN_OPT_LAYER,
                                        .offset = OFF(key_shift),
                                        .dflt = "None",
                                        .doc = "layer [T, T, key size] that is added to the keys, per query and key"},
                                       {.name = "forward_weights_init",
                                        .type = CRN_OPT_VALUE,
                                        .offset = OFF(weights_init),
                                        .dflt = "\"glorot_uniform\"",
                                        .doc = "initialiser of QKV"},
                                       {.name = "attention_dropout",
                                        .type = CRN_OPT_FLOAT,
                                        .offset = OFF(attention_dropout),
                                        .dflt = "0.0",
                                        .min = 0,
                                        .max = 1,
                                        .doc = "dropout of the attention weights"},
                                       {.name = "attention_left_only",
                                        .type = CRN_OPT_BOOL,
                                        .offset = OFF(left_only),
                                        .dflt = "False",
                                        .doc = "attend to this frame and those before it only"},
                                       {.name = "restrict_state_to_last_seq",
                                        .type = CRN_OPT_BOOL,
                                        .offset = OFF(restrict_state),
                                        .dflt = "False",
                                        .doc = "keep the current sequence only as state"},
                                       {.name = "state_var_lengths",
                                        .type = CRN_OPT_LAYER,
                                        .offset = OFF(state_var_lengths),
                                        .dflt = "None",
                                        .doc = "layer [B]: how many of the earlier frames are valid, the last ones"},
                                       CRN_OPT_END};

/* ---- states at the beginning ---------------------------------------------------------------------------------- */

static const char *const state_names[] = {"k_left", "v_left"};

/* Template of k_left or v_left: [B, H, frames, d]. */
static crn_status state_tmpl(crn_build *b, crn_layer *l, int i, int64_t n_out, crn_tmpl *t) {
  const selfatt_cfg *c = l->cfg;
  const crn_dim *left = crn_layer_dim(b, l, "left", CRN_DIM_SPATIAL, -1);
  const crn_dim *heads = crn_layer_dim(b, l, "heads", CRN_DIM_SPATIAL, c->num_heads);
  const crn_dim *d =
      crn_layer_dim(b, l, state_names[i], CRN_DIM_FEATURE, (i ? n_out : c->total_key_dim) / c->num_heads);
  if (!left || !heads || !d) return crn_err_memory(crn_build_err(b));
  *t = crn_tmpl_scalar(CRN_F32);
  t->n = 4;
  t->dims[0] = crn_build_dims(b)->batch;
  t->dims[1] = heads;
  t->dims[2] = left;
  t->dims[3] = d;
  crn_tmpl_update_roles(t);
  return CRN_OK;
}

/* One state: a layer, a data key, or nothing. */
static crn_status one_start(crn_build *b, crn_layer *l, selfatt_cfg *c, const crn_value *v, int i) {
  const char *word = crn_v_cstr(v);
  double f;
  if (crn_v_is_none(v) || (crn_v_is_number(v) && crn_v_to_float(v, &f) && f == 0)) return CRN_OK;
  if (!word || !strcmp(word, "ones") || !strcmp(word, "var"))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'initial_state': nothing tells how many frames that is; possible are layers, "
                          "\"keep_over_epoch\", \"placeholder\" and \"zeros\" (no frames)");
  if (!strcmp(word, "zeros")) return CRN_OK;
  if (!strcmp(word, "keep_over_epoch") || !strcmp(word, "keep_over_epoch_no_init")) {
    l->keep_states = strlen(word) > 15 ? 2 : 1;
    c->kept = true;
    return CRN_OK;
  }
  if (strcmp(word, "placeholder")) return crn_layer_ref(b, l, word, CRN_EDGE_DATA, "initial_state", &c->start[i]);
  const char *key = crn_arena_printf(crn_build_arena(b), "%s/initial_%s", l->path, state_names[i]);
  const crn_dim *f_dim;
  crn_tmpl t;
  if (!key) return crn_err_memory(crn_build_err(b));
  CRN_TRY(crn_new_feature_dim(b, l, NULL, &f_dim));
  CRN_TRY(state_tmpl(b, l, i, f_dim->size, &t));
  return crn_layer_input(b, l, key, &t, "initial_state", &c->start[i]);
}

static crn_status selfatt_refs(crn_build *b, crn_layer *l) {
  selfatt_cfg *c = l->cfg;
  const crn_value *v = l->common.initial_state;
  for (int i = 0; i < 2; i++) {
    const crn_value *item = crn_v_is_dict(v)  ? crn_v_get(v, state_names[i])
                            : crn_v_is_seq(v) ? crn_v_at(v, (size_t)i)
                                              : v;
    if ((crn_v_is_dict(v) || crn_v_is_seq(v)) && (crn_v_len(v) != 2 || !item))
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'initial_state': expected 'k_left' and 'v_left'");
    CRN_TRY(one_start(b, l, c, item, i));
    if (c->start[i] && item == v && strcmp(crn_v_cstr(v), "placeholder") != 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "option 'initial_state': one layer can't give both states; give a dict with 'k_left' and "
                            "'v_left'");
  }
  return CRN_OK;
}

static crn_status check_options(crn_build *b, crn_layer *l, const selfatt_cfg *c) {
  if (c->total_key_dim % c->num_heads || c->n_out % c->num_heads)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "'total_key_dim' %lld and 'n_out' %lld must be multiples of 'num_heads' %lld",
                          (long long)c->total_key_dim, (long long)c->n_out, (long long)c->num_heads);
  const crn_tmpl *n = c->state_var_lengths && c->state_var_lengths->out_known ? &c->state_var_lengths->out : NULL;
  if (n && (n->n > 1 || !crn_dtype_is_int(n->dtype) || (n->n && crn_tmpl_batch_axis(n) < 0)))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'state_var_lengths': layer '%s' must hold an integer per sequence",
                          c->state_var_lengths->path);
  if (c->step && c->left_only <= 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'attention_left_only' must be True for single steps in a loop");
  return CRN_OK;
}

static crn_status add_states(crn_build *b, crn_layer *l, const selfatt_cfg *c) {
  crn_tmpl t;
  for (int i = 0; i < 2; i++) {
    CRN_TRY(state_tmpl(b, l, i, c->n_out, &t));
    CRN_TRY(crn_layer_add_state(b, l, state_names[i], &t));
  }
  if (!crn_layer_masked_by_step(l)) return CRN_OK;
  const crn_dim *left = t.dims[2];
  t = crn_tmpl_scalar(CRN_BOOL);
  t.n = 2;
  t.dims[0] = crn_build_dims(b)->batch;
  t.dims[1] = left;
  t.time_axis = 1;
  return crn_layer_add_state(b, l, "mask_left", &t);
}

static crn_status selfatt_infer(crn_build *b, crn_layer *l) {
  selfatt_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(crn_new_feature_tmpl(b, l, &in, &l->out));
  c->n_in = crn_tmpl_dim(&in);
  c->n_out = crn_tmpl_dim(&l->out);
  c->step = crn_layer_in_loop(l) && in.time_axis < 0;
  const int batch = crn_tmpl_batch_axis(&l->out), time = c->step ? -1 : l->out.time_axis;
  if (batch < 0 || (!c->step && time < 0) || l->out.n != (c->step ? 2 : 3)) {
    crn_str s = {0};
    crn_tmpl_describe(&in, &s);
    crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be [B, T, F] or sparse [B, T]%s, it is %s",
                                   crn_layer_in_loop(l) ? " (per step without T)" : "", crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  CRN_TRY(check_options(b, l, c));
  int perm[3] = {batch, time, l->out.feature_axis};
  if (c->step) perm[1] = l->out.feature_axis;
  crn_tmpl_permute(&l->out, perm);
  l->causal = c->left_only > 0;
  return c->left_only > 0 || c->kept || c->start[0] || c->start[1] ? add_states(b, l, c) : CRN_OK;
}

static crn_status selfatt_params(crn_build *b, crn_layer *l) {
  const selfatt_cfg *c = l->cfg;
  if (c->n_in < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the input's dim is not known");
  crn_param_spec s = {.name = "QKV", .rank = 2, .init = c->weights_init, .dtype = CRN_F32};
  s.shape[0] = c->n_in;
  s.shape[1] = 2 * c->total_key_dim + c->n_out;
  s.n_blocks[1] = 3;
  s.blocks[1][0] = s.blocks[1][1] = c->total_key_dim;
  s.blocks[1][2] = c->n_out;
  return crn_layer_param(b, l, &s);
}

/* ---- values ---------------------------------------------------------------------------------------------------------
 */

typedef struct heads { /* [B, H, T, d] each; k and v with the frames to the left */
  crn_tensor *q, *k, *v;
  const crn_history *all_k, *all_v; /* single steps: instead of k and v */
  int64_t B, H, T, left;
  int64_t T_all; /* left + T */
} heads;

/* n features of each head from `from` on, [B, T, H, d] -> [B, H, T, n]; copies in between go at once. */
static crn_tensor *part_by_head(crn_run *r, crn_tensor *y, int64_t from, int64_t n, double factor) {
  static const int perm[4] = {0, 2, 1, 3};
  crn_frame frame;
  crn_frame_open(r, &frame);
  crn_tensor *part = crn_transpose(r, crn_slice(r, y, 3, from, n, 1), perm);
  if (factor != 1) part = crn_scale(r, part, factor);
  crn_frame_close_with(r, 1, &part);
  return part;
}

/* x·QKV of [B, T, F] (or labels [B, T]), split into heads. */
static crn_status project(crn_exec *x, crn_layer *l, const selfatt_cfg *c, const crn_data *in, heads *h) {
  crn_run *r = crn_exec_run(x);
  crn_tensor *w = crn_param_get(x, l, "QKV");
  crn_tensor *y = in->t.sparse ? crn_gather(r, w, in->v, 0) : crn_linear(r, in->v, w, false, NULL);
  if (!y) return r->err->code;
  const int64_t dk = c->total_key_dim / c->num_heads, dv = c->n_out / c->num_heads;
  h->B = in->v->shape[0];
  h->H = c->num_heads;
  h->T = c->step ? 1 : in->v->shape[1];
  const int64_t shape[4] = {h->B, h->T, h->H, 2 * dk + dv};
  y = crn_t_reshape(r, y, 4, shape);
  h->q = part_by_head(r, y, 0, dk, 1.0 / sqrt((double)dk));
  h->k = part_by_head(r, y, dk, dk, 1);
  h->v = part_by_head(r, y, 2 * dk, dv, 1);
  return h->q && h->k && h->v ? CRN_OK : r->err->code;
}

/* A layer's value as k_left or v_left. */
static crn_status start_of_layer(crn_exec *x, crn_layer *l, int i, int64_t B, crn_data *out) {
  const selfatt_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_value_of(x, l, c->start[i]);
  if (!d) return r->err->code;
  const int64_t size = l->states[i].t.dims[3]->size, *s = d->v->shape;
  if (d->v->rank != 4 || d->v->dtype != r->real || s[0] != B || s[1] != c->num_heads || s[3] != size)
    return crn_exec_fail(x, l, "option 'initial_state': layer '%s' must give [%lld, %lld, frames, %lld] for '%s'",
                         c->start[i]->path, (long long)B, (long long)c->num_heads, (long long)size, state_names[i]);
  out->v = d->v;
  out->beam = d->beam;
  return CRN_OK;
}

/* Before the first frame: nothing, a layer's value, or what the batch before left. */
static crn_status selfatt_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  const selfatt_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const int64_t B = crn_batch_size(x, l);
  if (i < STATE_MASK && c->start[i]) return start_of_layer(x, l, i, B, out);
  const crn_data *start = c->start[0] ? crn_value_of(x, l, c->start[0]) : NULL;
  if (start) { /* none of its frames is masked */
    out->v = crn_t_full(r, CRN_BOOL, 2, (int64_t[]){B, start->v->shape[2]}, 1);
    return out->v ? CRN_OK : r->err->code;
  }
  const crn_data *d = c->kept ? crn_kept_state(x, l, i) : NULL;
  if (crn_run_failed(r)) return r->err->code;
  if (d) {
    if (d->v->shape[0] != B)
      return crn_exec_fail(x, l, "option 'initial_state': states are kept for %lld sequences, but this batch has %lld",
                           (long long)d->v->shape[0], (long long)B);
    out->v = d->v;
    return CRN_OK;
  }
  int64_t shape[CRN_MAX_RANK];
  for (int k = 0; k < out->t.n; k++)
    shape[k] = out->t.dims[k]->kind == CRN_DIM_BATCH ? B : out->t.dims[k]->size < 0 ? 0 : out->t.dims[k]->size;
  out->v = crn_t_zeros(r, out->t.dtype == CRN_F32 ? r->real : out->t.dtype, out->t.n, shape);
  return out->v ? CRN_OK : r->err->code;
}

/* State i and what is new of a piece of a sequence, one after the other; becomes the state. */
static crn_tensor *append(crn_exec *x, crn_layer *l, int i, crn_tensor *now, int axis, const crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *before = crn_state_in(x, l, i);
  crn_tensor *parts[2] = {before ? before->v : NULL, now};
  if (!before || !now) return NULL;
  crn_data *d = crn_data_new(r, &l->states[i].t, NULL);
  if (!d) return NULL;
  crn_tensor *all = before->v->shape[axis] ? crn_concat(r, 2, parts, axis) : now;
  const selfatt_cfg *c = l->cfg;
  d->v = c->restrict_state > 0 && !c->step && !crn_streaming(x) ? now : all;
  d->beam = out->beam;
  crn_tmpl scalar = crn_tmpl_scalar(CRN_I32);
  if (!all) return NULL;
  d->len[axis] = crn_data_new(r, &scalar, crn_t_full(r, CRN_I32, 0, NULL, (double)d->v->shape[axis]));
  return crn_state_out(x, l, i, d) == CRN_OK ? all : NULL;
}

/* q_i · s_ij: s [T, T', d] -> [B, H, T, T']. */
static crn_tensor *shift_energy(crn_exec *x, crn_layer *l, const selfatt_cfg *c, const heads *h) {
  crn_run *r = crn_exec_run(x);
  const crn_data *s = crn_value_of(x, l, c->key_shift);
  if (!s) return NULL;
  const int64_t dk = h->q->shape[3], T2 = h->T_all;
  if (s->v->rank != 3 || s->v->shape[0] != h->T || s->v->shape[1] != T2 || s->v->shape[2] != dk) {
    char buf[96];
    (void)crn_exec_fail(x, l, "option 'key_shift': expected the shape [%lld, %lld, %lld], got %s", (long long)h->T,
                        (long long)T2, (long long)dk, crn_t_describe(s->v, buf, sizeof buf));
    return NULL;
  }
  const int by_time[4] = {2, 0, 1, 3}, back[4] = {1, 2, 0, 3};
  const int64_t rows[3] = {h->T, h->B * h->H, dk}, full[4] = {h->T, h->B, h->H, T2};
  crn_tensor *q = crn_transpose(r, h->q, by_time);
  crn_tensor *e = crn_matmul(r, q ? crn_t_reshape(r, q, 3, rows) : NULL, false, s->v, true);
  return e ? crn_transpose(r, crn_t_reshape(r, e, 4, full), back) : NULL;
}

/* Of the first `left` keys those that are valid by state_var_lengths, the last ones: [B, 1, 1, T']. */
static crn_tensor *valid_left(crn_exec *x, crn_layer *l, const heads *h, crn_tensor *key) {
  crn_run *r = crn_exec_run(x);
  const selfatt_cfg *c = l->cfg;
  const crn_data *n = crn_value_of(x, l, c->state_var_lengths);
  const crn_data *start = c->start[0] ? crn_value_of(x, l, c->start[0]) : NULL;
  if (!n || (c->start[0] && !start)) return NULL;
  const int64_t steps = c->step ? crn_exec_step(x, l) : crn_stream_before(x, l), column[4] = {h->B, 1, 1, 1};
  const int64_t before = start ? start->v->shape[2] : h->left - steps; /* frames at the beginning */
  crn_tensor *v = n->v->dtype == CRN_I32 ? n->v : crn_cast(r, n->v, CRN_I32);
  v = crn_broadcast_to(r, v, 1, &h->B);
  crn_tensor *first = crn_sub(r, crn_t_full(r, CRN_I32, 0, NULL, (double)before), v);
  return crn_binary(r, CRN_B_GREATER_EQUAL, key, first ? crn_t_reshape(r, first, 4, column) : NULL);
}

/* Which keys a query may see, broadcastable to [B, H, T, T']; NULL: all. */
static crn_status visible(crn_exec *x, crn_layer *l, const selfatt_cfg *c, const crn_data *in, const heads *h,
                          const crn_data *out, crn_tensor **mask) {
  crn_run *r = crn_exec_run(x);
  const int64_t T2 = h->T_all;
  *mask = NULL;
  crn_tensor *key = crn_range(r, CRN_I32, 0, T2);
  if (c->left_only > 0 && h->T > 1) {
    const int64_t column[2] = {h->T, 1};
    crn_tensor *query = crn_t_reshape(r, crn_range(r, CRN_I32, h->left, h->T), 2, column);
    *mask = crn_binary(r, CRN_B_LESS_EQUAL, key, query);
  } else if (c->left_only <= 0 && in->len[1]) { /* an empty sequence sees its first frame: never read, but no NaN */
    const int64_t column[4] = {h->B, 1, 1, 1};
    crn_tensor *one = crn_t_full(r, CRN_I32, 0, NULL, 1);
    crn_tensor *lens = crn_binary(r, CRN_B_MAXIMUM, crn_data_lens(r, in, 1), one);
    if (lens && h->left) lens = crn_add_scalar(r, lens, (double)h->left);
    *mask = crn_binary(r, CRN_B_LESS, key, lens ? crn_t_reshape(r, lens, 4, column) : NULL);
  }
  if (c->state_var_lengths && l->n_states) {
    crn_tensor *valid = valid_left(x, l, h, key);
    *mask = *mask ? crn_binary(r, CRN_B_LOGICAL_AND, *mask, valid) : valid;
    if (!*mask) return r->err->code;
  }
  if (l->n_states <= STATE_MASK) return crn_run_failed(r) ? r->err->code : CRN_OK;
  const crn_data *now = crn_step_mask(x, l); /* frames that were skipped are not seen, but this one is */
  const crn_data *before = crn_state_in(x, l, STATE_MASK);
  if (!now || !before) return r->err->code;
  const int64_t column[2] = {h->B, 1}, full[4] = {h->B, 1, 1, T2};
  crn_tensor *m = crn_t_reshape(r, now->v, 2, column);
  if (!append(x, l, STATE_MASK, m, 1, out)) return r->err->code;
  crn_tensor *parts[2] = {before->v, crn_t_full(r, CRN_BOOL, 2, column, 1)};
  m = crn_concat(r, 2, parts, 1);
  m = m ? crn_t_reshape(r, m, 4, full) : NULL;
  *mask = *mask ? crn_binary(r, CRN_B_LOGICAL_AND, *mask, m) : m;
  return *mask ? CRN_OK : r->err->code;
}

/* softmax of the energies over what is seen, times the values. */
static crn_tensor *weighted(crn_run *r, crn_tensor *e, crn_tensor *mask, double fill, crn_tensor *v) {
  if (mask) e = crn_mask_fill(r, e, mask, fill);
  return crn_matmul(r, crn_softmax(r, e), false, v, false);
}

#define ENERGIES ((int64_t)2 << 20) /* so many at once: some MiB */

/* The same a few sequences at a time: without gradients not all energies need be there at once. */
static crn_tensor *weighted_in_parts(crn_run *r, const heads *h, crn_tensor *mask, double fill) {
  const int64_t one = h->H * h->T * h->T_all, most = ENERGIES / (one + 1) > 1 ? ENERGIES / (one + 1) : 1;
  const bool cut_mask = mask && mask->rank == 4 && mask->shape[0] > 1;
  crn_tensor **parts = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, h->B);
  int n_parts = 0;
  if (!parts) return (void)crn_err_memory(r->err), NULL;
  for (int64_t b = 0; b < h->B && !crn_run_failed(r); b += most) {
    const int64_t n = b + most < h->B ? most : h->B - b;
    crn_frame frame;
    crn_frame_open(r, &frame);
    crn_tensor *q = crn_slice(r, h->q, 0, b, n, 1), *k = crn_slice(r, h->k, 0, b, n, 1),
               *v = crn_slice(r, h->v, 0, b, n, 1);
    parts[n_parts] =
        weighted(r, crn_matmul(r, q, false, k, true), cut_mask ? crn_slice(r, mask, 0, b, n, 1) : mask, fill, v);
    crn_frame_close_with(r, 1, &parts[n_parts]);
    n_parts++;
  }
  return crn_run_failed(r) ? NULL : crn_concat(r, n_parts, parts, 0);
}

static crn_status attend(crn_exec *x, crn_layer *l, const selfatt_cfg *c, const crn_data *in, const heads *h,
                         crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const int perm[4] = {0, 2, 1, 3};
  const int64_t shape[3] = {h->B, h->T, c->n_out}, flat[2] = {h->B, c->n_out};
  const bool drops = r->train && c->attention_dropout > 0;
  double inf = (double)INFINITY;
  crn_tensor *mask;
  CRN_TRY(visible(x, l, c, in, h, out, &mask));
  (void)crn_v_to_float(crn_exec_config(x, "inf_value"), &inf);
  if (!c->step && !c->key_shift && !drops && !r->recording && h->B * h->H * h->T * h->T_all > ENERGIES) {
    out->v = crn_t_reshape(r, crn_transpose(r, weighted_in_parts(r, h, mask, -inf), perm), 3, shape);
    return out->v ? CRN_OK : r->err->code;
  }
  crn_tensor *e = c->step ? crn_history_energy(r, h->q, h->all_k) : crn_matmul(r, h->q, false, h->k, true);
  if (c->key_shift) e = crn_add(r, e, shift_energy(x, l, c, h));
  if (mask) e = crn_mask_fill(r, e, mask, -inf);
  crn_tensor *w = crn_softmax(r, e);
  if (w && drops) w = crn_dropout(r, crn_random_name(x, l, "attention", false), w, c->attention_dropout, w->shape);
  if (c->step) /* [B, H, 1, d] */
    out->v = crn_t_reshape(r, crn_history_sum(r, w, h->all_v), 2, flat);
  else
    out->v = crn_t_reshape(r, crn_transpose(r, crn_matmul(r, w, false, h->v, false), perm), 3, shape);
  return out->v ? CRN_OK : r->err->code;
}

/* From the frames to all that they see: their own and what states hold. */
static crn_status attend_to(crn_exec *x, crn_layer *l, const crn_data *in, heads *h, crn_data *out) {
  const selfatt_cfg *c = l->cfg;
  h->T_all = h->T;
  if (c->step) {
    h->all_k = crn_state_append(x, l, STATE_K, 2, h->k);
    h->all_v = h->all_k ? crn_state_append(x, l, STATE_V, 2, h->v) : NULL;
    if (!h->all_v) return crn_exec_run(x)->err->code;
    h->T_all = h->all_k->shape[2];
  } else if (l->n_states) {
    h->k = append(x, l, STATE_K, h->k, 2, out);
    h->v = h->k ? append(x, l, STATE_V, h->v, 2, out) : NULL;
    if (!h->v) return crn_exec_run(x)->err->code;
    h->T_all = h->k->shape[2];
  }
  h->left = h->T_all - h->T;
  CRN_TRY(attend(x, l, c, in, h, out));
  if (!c->step) crn_stream_pass(x, l, h->T);
  return CRN_OK;
}

static crn_status selfatt_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const selfatt_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  heads h = {0};
  if (!in) return r->err->code;
  int perm[3], n = 0;
  perm[n++] = crn_tmpl_batch_axis(&in->t);
  if (!c->step) perm[n++] = in->t.time_axis;
  if (!in->t.sparse) perm[n++] = in->t.feature_axis;
  if (!(in = crn_data_permute(r, in, perm))) return r->err->code;
  if (!c->step) out->len[1] = in->len[1];
  crn_frame frame; /* the product and its transposed copy are given back before the energies need room */
  crn_frame_open(r, &frame);
  crn_status st = project(x, l, c, in, &h);
  crn_frame_close_with(r, 3, (crn_tensor *[]){h.q, h.k, h.v});
  return st == CRN_OK ? attend_to(x, l, in, &h, out) : st;
}

const crn_layer_desc crn_family_selfatt[] = {{.name = "self_attention",
                                              .doc = "Attends with several heads from a sequence to itself.",
                                              .opts = selfatt_opts,
                                              .cfg_size = sizeof(selfatt_cfg),
                                              .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM,
                                              .refs = selfatt_refs,
                                              .infer = selfatt_infer,
                                              .params = selfatt_params,
                                              .forward = selfatt_forward,
                                              .state_init = selfatt_state_init},
                                             {.name = NULL}};
