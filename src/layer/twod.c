/* SPDX-License-Identifier: Apache-2.0
 *
 * twod_lstm: an LSTM over the grid of source and target frames (recurrent.md), as a sequence of target frames or one of
 * them in a loop. A target frame's row of cells is the state for the next; cells are composed of operations.
 */
#include <string.h>

#include "layer/layer.h"

typedef struct twod_cfg {
  const char *pooling;
  const crn_value *unit_opts, *forward_weights_init, *recurrent_weights_init, *bias_init;
  int64_t n;
  bool single;  /* one target frame */
  int src_axis; /* of the source that the grid runs over */
  int dst_axis; /* of the target, -1: single */
} twod_cfg;

#define OFF(f) offsetof(twod_cfg, f)
static const crn_opt twod_opts[] = {{.name = "pooling",
                                     .type = CRN_OPT_STR,
                                     .offset = OFF(pooling),
                                     .dflt = "\"last\"",
                                     .choices = "last|max|average|weighted",
                                     .doc = "how a row of source frames becomes one vector"},
                                    {.name = "unit_opts",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(unit_opts),
                                     .dflt = "None",
                                     .doc = "there are none: empty or None"},
                                    {.name = "forward_weights_init",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(forward_weights_init),
                                     .dflt = "None",
                                     .doc = "initialiser of the input's weights"},
                                    {.name = "recurrent_weights_init",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(recurrent_weights_init),
                                     .dflt = "None",
                                     .doc = "initialiser of the recurrent weights"},
                                    {.name = "bias_init",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(bias_init),
                                     .dflt = "None",
                                     .doc = "no effect: there is no bias"},
                                    CRN_OPT_END};

enum { SOURCE, TARGET };
enum { CELL, OUTPUT }; /* states */
static const char *const weight_names[] = {"rec-twod/W_re", "rec-twod/Vh_re", "rec-twod/Vv_re", "rec-twod/W_att"};
enum { W_RE, VH_RE, VV_RE, W_ATT };

/* ---- templates --------------------------------------------------------------------------------------------------- */

static crn_status check_part(crn_build *b, crn_layer *l, const crn_tmpl *t, const char *what, bool with_axis) {
  if (!t->sparse && t->feature_axis >= 0 && crn_tmpl_batch_axis(t) >= 0 && t->n == (with_axis ? 3 : 2)) return CRN_OK;
  crn_str s = {0};
  crn_tmpl_describe(t, &s);
  crn_status st =
      crn_layer_fail(b, l, CRN_E_CONFIG, "the %s must have %s, it is %s", what,
                     with_axis ? "batch, time and feature axes" : "batch and feature axes", crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

static crn_status twod_infer(crn_build *b, crn_layer *l) {
  twod_cfg *c = l->cfg;
  if (l->n_src != 2)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly two sources, source and target, got %d", l->n_src);
  if (crn_v_len(c->unit_opts)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unit_opts': there are no options");
  const crn_tmpl *src = crn_source_tmpl(l, SOURCE), *dst = crn_source_tmpl(l, TARGET);
  l->out_known = src && dst;
  if (!l->out_known) return CRN_OK;
  const crn_dim *loop = crn_loop_dim(l), *feature;
  c->dst_axis = loop && crn_layer_moved_out(l) ? crn_tmpl_find(dst, loop) : -1;
  if (c->dst_axis < 0) c->dst_axis = dst->time_axis;
  if (c->dst_axis < 0 && loop && crn_layer_moved_out(l))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                          "not implemented: moved out of a loop with a target that is the same in every step");
  c->single = c->dst_axis < 0;
  c->src_axis = src->time_axis;
  if (c->src_axis < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source has no time axis");
  CRN_TRY(check_part(b, l, src, "source", true));
  CRN_TRY(check_part(b, l, dst, "target", !c->single));
  CRN_TRY(crn_new_feature_dim(b, l, NULL, &feature));
  c->n = feature->size;
  l->out = *dst;
  l->out.dtype = CRN_F32;
  l->out.n = 0;
  if (!c->single) l->out.dims[l->out.n++] = dst->dims[c->dst_axis];
  l->out.dims[l->out.n++] = crn_build_dims(b)->batch;
  l->out.dims[l->out.n++] = feature;
  l->out.time_axis = c->single ? -1 : 0;
  l->out.time_explicit = true;
  l->out.feature_explicit = false;
  crn_tmpl_update_roles(&l->out);
  crn_tmpl state = l->out;
  state.n = 0;
  state.dims[state.n++] = src->dims[c->src_axis];
  state.dims[state.n++] = crn_build_dims(b)->batch;
  state.dims[state.n++] = feature;
  state.time_axis = 0;
  crn_tmpl_update_roles(&state);
  CRN_TRY(crn_layer_add_state(b, l, "state", &state));
  return crn_layer_add_state(b, l, "output", &state);
}

static crn_status twod_params(crn_build *b, crn_layer *l) {
  const twod_cfg *c = l->cfg;
  const int64_t f1 = crn_tmpl_dim(crn_source_tmpl(l, SOURCE)), f2 = crn_tmpl_dim(crn_source_tmpl(l, TARGET));
  const int64_t rows[] = {f1 + f2, c->n, c->n, f2};
  for (int i = W_RE; i <= (strcmp(c->pooling, "weighted") ? VV_RE : W_ATT); i++) {
    const crn_value *init = i == W_RE ? c->forward_weights_init : c->recurrent_weights_init;
    crn_param_spec s = {.name = weight_names[i], .rank = 2, .init_default = "glorot_uniform", .dtype = CRN_F32};
    s.init = crn_v_is_none(init) ? NULL : init;
    s.shape[0] = rows[i];
    s.shape[1] = i == W_ATT ? c->n : 5 * c->n;
    CRN_TRY(crn_layer_param(b, l, &s));
  }
  return CRN_OK;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct grid {
  crn_run *r;
  const twod_cfg *c;
  crn_tensor *w[4];     /* by weight_names */
  crn_tensor *src;      /* source's part of all cells [S, B, 5n] */
  crn_tensor *target;   /* [T, B, F2] */
  crn_tensor *lens;     /* of the source, int32 [B] */
  crn_tensor **on;      /* bool [B, 1] by source frame: it is valid */
  crn_tensor *mask;     /* the same as float [S, B, 1] */
  crn_tensor *cell, *y; /* the row before: [S, B, n] */
  int64_t S, B, T;
} grid;

/* [axis, batch, feature] */
static crn_tensor *axis_first(crn_run *r, const crn_data *d, int axis) {
  const int perm[3] = {axis, crn_tmpl_batch_axis(&d->t), d->t.feature_axis};
  return crn_transpose(r, d->v, perm);
}

static crn_status open_grid(crn_exec *x, crn_layer *l, grid *g, const crn_data *src, const crn_data *dst) {
  crn_run *r = g->r;
  const twod_cfg *c = g->c;
  for (int i = W_RE; i <= W_ATT; i++)
    if (i != W_ATT || !strcmp(c->pooling, "weighted"))
      if (!(g->w[i] = crn_param_get(x, l, weight_names[i]))) return r->err->code;
  crn_tensor *v = axis_first(r, src, c->src_axis);
  g->lens = crn_data_lens(r, src, c->src_axis);
  if (!v || !g->lens) return r->err->code;
  g->S = v->shape[0];
  g->B = v->shape[1];
  g->src = crn_linear(r, v, crn_t_rows(r, g->w[W_RE], 0, v->shape[2]), false, NULL);
  if (c->single) {
    const int perm[2] = {crn_tmpl_batch_axis(&dst->t), dst->t.feature_axis};
    g->target = crn_expand_dims(r, crn_transpose(r, dst->v, perm), 0);
  } else {
    g->target = axis_first(r, dst, c->dst_axis);
  }
  if (!g->target) return r->err->code;
  g->T = g->target->shape[0];
  if (g->target->shape[1] != g->B)
    return crn_exec_fail(x, l, "source and target have %lld and %lld sequences", (long long)g->B,
                         (long long)g->target->shape[1]);
  g->on = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, g->S + 1);
  if (!g->on) return crn_err_memory(r->err);
  crn_tensor *frames = crn_t_reshape(r, crn_range(r, CRN_I32, 0, g->S), 2, (int64_t[]){g->S, 1});
  crn_tensor *all = crn_binary(r, CRN_B_LESS, frames, g->lens);
  if (!all) return r->err->code;
  for (int64_t s = 0; s < g->S; s++) g->on[s] = crn_t_reshape(r, crn_t_index0(r, all, s), 2, (int64_t[]){g->B, 1});
  g->mask = crn_cast(r, crn_expand_dims(r, all, 2), r->real);
  return g->mask ? CRN_OK : r->err->code;
}

static crn_tensor *block(const grid *g, crn_tensor *z, int k) { return crn_slice(g->r, z, 1, k * g->c->n, g->c->n, 1); }

/* One cell: z [B, 5n] in blocks i, f, λ, o, j; states above and to the left. */
static crn_tensor *grid_cell(const grid *g, crn_tensor *z, crn_tensor *above, crn_tensor *left, crn_tensor **cell) {
  crn_run *r = g->r;
  crn_tensor *share = crn_unary(r, CRN_U_SIGMOID, block(g, z, 2));
  crn_tensor *before = crn_add(r, left, crn_mul(r, share, crn_sub(r, above, left)));
  crn_tensor *parts[4] = {block(g, z, 0), block(g, z, 4), block(g, z, 1), block(g, z, 3)};
  return crn_lstm_cell(r, crn_concat(r, 4, parts, 1), before, "ijfo", 0, cell);
}

/* The row of target frame t: g->cell and g->y become its cells. */
static void grid_row(grid *g, int64_t t) {
  crn_run *r = g->r;
  const int64_t f1 = g->w[W_RE]->shape[0] - g->target->shape[2];
  crn_tensor *w = crn_t_rows(r, g->w[W_RE], f1, g->target->shape[2]);
  crn_tensor *own = crn_linear(r, crn_t_index0(r, g->target, t), w, false, NULL);
  crn_tensor *up = crn_add(r, crn_add(r, g->src, own), crn_linear(r, g->y, g->w[VV_RE], false, NULL));
  crn_tensor **ys = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, g->S + 1);
  crn_tensor **cells = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, g->S + 1);
  if (!ys || !cells) {
    (void)crn_err_memory(r->err);
    return;
  }
  const int64_t shape[2] = {g->B, g->c->n};
  crn_tensor *zero = crn_t_zeros(r, r->real, 2, shape), *left = zero, *left_y = zero;
  for (int64_t s = 0; s < g->S && !crn_run_failed(r); s++) {
    crn_tensor *z = crn_add(r, crn_t_index0(r, up, s), crn_linear(r, left_y, g->w[VH_RE], false, NULL)), *cell = NULL;
    crn_tensor *y = grid_cell(g, z, crn_t_index0(r, g->cell, s), left, &cell);
    left_y = ys[s] = crn_mask_fill(r, y, g->on[s], 0);
    left = cells[s] = crn_mask_fill(r, cell, g->on[s], 0);
  }
  if (g->S == 0) return; /* stays without cells */
  g->y = crn_stack(r, (int)g->S, ys, 0);
  g->cell = crn_stack(r, (int)g->S, cells, 0);
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

static crn_tensor *last_cells(const grid *g) {
  crn_run *r = g->r;
  const int perm[3] = {1, 0, 2};
  crn_tensor *one = crn_t_full(r, CRN_I32, 0, NULL, 1), *none = crn_t_full(r, CRN_I32, 0, NULL, 0);
  crn_tensor *index = crn_binary(r, CRN_B_MAXIMUM, crn_sub(r, g->lens, one), none);
  return crn_gather_batched(r, crn_transpose(r, g->y, perm), index, 1);
}

static crn_tensor *weighted_cells(const grid *g, int64_t t) {
  crn_run *r = g->r;
  crn_tensor *query = crn_linear(r, crn_t_index0(r, g->target, t), g->w[W_ATT], false, NULL);
  crn_tensor *energy = crn_reduce(r, CRN_R_SUM, crn_mul(r, g->y, query), 1u << 2, false); /* [S, B] */
  const int swap[2] = {1, 0};
  crn_tensor *weights = crn_transpose(r, crn_softmax(r, crn_transpose(r, energy, swap)), swap);
  return crn_reduce(r, CRN_R_SUM, crn_mul(r, g->y, crn_expand_dims(r, weights, 2)), 1u, false);
}

/* [B, n] of the row g->y. */
static crn_tensor *pooled(const grid *g, int64_t t) {
  crn_run *r = g->r;
  if (g->S == 0) return crn_t_zeros(r, r->real, 2, (int64_t[]){g->B, g->c->n});
  switch (g->c->pooling[0]) {
  case 'l':
    return last_cells(g);
  case 'm':
    return crn_reduce(r, CRN_R_MAX, g->y, 1u, false);
  case 'w':
    return weighted_cells(g, t);
  default: { /* average: padding is 0 already */
    crn_tensor *n = crn_reduce(r, CRN_R_SUM, g->mask, 1u, false);
    return crn_binary(r, CRN_B_DIV_NO_NAN, crn_reduce(r, CRN_R_SUM, g->y, 1u, false), n);
  }
  }
}

/* ---- the layer --------------------------------------------------------------------------------------------------- */

static crn_status twod_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  const twod_cfg *c = l->cfg;
  const crn_data *src = crn_source(x, l, SOURCE);
  (void)i;
  if (!src) return crn_exec_run(x)->err->code;
  const int64_t shape[3] = {src->v->shape[c->src_axis], crn_data_n_seqs(src), c->n};
  out->v = crn_t_zeros(crn_exec_run(x), crn_exec_run(x)->real, 3, shape);
  return out->v ? CRN_OK : crn_exec_run(x)->err->code;
}

static crn_status read_row(crn_exec *x, crn_layer *l, grid *g, const crn_data *out) {
  crn_tensor **to[2] = {&g->cell, &g->y};
  for (int i = CELL; i <= OUTPUT; i++) {
    crn_data fresh = {.t = l->states[i].t, .beam = out->beam};
    const crn_data *d = &fresh;
    if (g->c->single)
      d = crn_state_in(x, l, i);
    else
      CRN_TRY(twod_state_init(x, l, i, &fresh));
    if (!d) return g->r->err->code;
    *to[i] = d->v;
  }
  return CRN_OK;
}

static crn_status write_row(crn_exec *x, crn_layer *l, const grid *g, const crn_data *src, const crn_data *out) {
  for (int i = CELL; i <= OUTPUT; i++) {
    crn_data d = {.t = l->states[i].t, .v = i == CELL ? g->cell : g->y, .beam = out->beam};
    d.len[0] = src->len[g->c->src_axis];
    CRN_TRY(crn_state_out(x, l, i, &d));
  }
  return CRN_OK;
}

static crn_status twod_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  grid g = {.r = crn_exec_run(x), .c = l->cfg};
  const crn_data *src = crn_source(x, l, SOURCE), *dst = crn_source(x, l, TARGET);
  if (!src || !dst) return g.r->err->code;
  CRN_TRY(open_grid(x, l, &g, src, dst));
  CRN_TRY(read_row(x, l, &g, out));
  crn_tensor **rows = CRN_ARENA_ARRAY(&g.r->arena, crn_tensor *, g.T + 1);
  if (!rows) return crn_err_memory(g.r->err);
  for (int64_t t = 0; t < g.T && !crn_run_failed(g.r); t++) {
    grid_row(&g, t);
    rows[t] = pooled(&g, t);
  }
  if (crn_run_failed(g.r)) return g.r->err->code;
  const int64_t shape[3] = {0, g.B, g.c->n};
  if (g.T == 0)
    out->v = crn_t_zeros(g.r, g.r->real, 3, shape);
  else
    out->v = g.c->single ? rows[0] : crn_stack(g.r, (int)g.T, rows, 0);
  if (!g.c->single) out->len[0] = dst->len[g.c->dst_axis];
  CRN_TRY(write_row(x, l, &g, src, out));
  return out->v ? CRN_OK : g.r->err->code;
}

const crn_layer_desc crn_family_twod[] = {{.name = "twod_lstm",
                                           .doc = "Runs an LSTM over the grid of source and target frames.",
                                           .opts = twod_opts,
                                           .cfg_size = sizeof(twod_cfg),
                                           .flags = CRN_L_MANY_INPUTS,
                                           .infer = twod_infer,
                                           .params = twod_params,
                                           .forward = twod_forward,
                                           .state_init = twod_state_init},
                                          {.name = NULL}};
