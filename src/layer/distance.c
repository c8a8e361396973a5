/* SPDX-License-Identifier: Apache-2.0
 *
 * Levenshtein distances of label sequences (recurrent.md, "Distances"): edit_distance of whole sequences, and the row
 * of the distance table that grows label by label in a loop, with what each possible next label would make of it.
 */
#include <string.h>

#include "layer/layer.h"

typedef struct distance_cfg {
  crn_layer *a, *b;
  const crn_value *a_dim, *b_dim, *axis, *debug;
  int64_t blank_idx;
  int a_axis, b_axis;
  crn_layer *target_layer;
  crn_tmpl target;
  const crn_dim *row_dim;
} distance_cfg;

#define OFF(f) offsetof(distance_cfg, f)
#define DEBUG_OPT                                                                                                      \
  { .name = "debug", .type = CRN_OPT_VALUE, .offset = OFF(debug), .dflt = "None", .doc = "no effect" }
#define BLANK_OPT                                                                                                      \
  {                                                                                                                    \
    .name = "blank_idx", .type = CRN_OPT_INT, .offset = OFF(blank_idx), .dflt = "None",                                \
    .doc = "label that doesn't count"                                                                                  \
  }

/* ---- edit_distance --------------------------------------------------------------------------------------------------
 */

static const crn_opt edit_opts[] = {{.name = "a", .type = CRN_OPT_LAYER, .offset = OFF(a), .doc = "layer with labels"},
                                    {.name = "b", .type = CRN_OPT_LAYER, .offset = OFF(b), .doc = "layer with labels"},
                                    {.name = "a_spatial_dim",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(a_dim),
                                     .dflt = "\"T\"",
                                     .doc = "sequence axis of a"},
                                    {.name = "b_spatial_dim",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(b_dim),
                                     .dflt = "\"T\"",
                                     .doc = "sequence axis of b"},
                                    CRN_OPT_END};

static crn_status check_labels(crn_build *b, crn_layer *l, const char *what, const crn_tmpl *t) {
  if (t->sparse && crn_dtype_is_int(t->dtype)) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "%s must be sparse labels, it is %s", what,
                        t->sparse ? crn_dtype_name(t->dtype) : "dense");
}

static crn_status edit_infer(crn_build *b, crn_layer *l) {
  distance_cfg *c = l->cfg;
  if (l->n_src) return crn_layer_fail(b, l, CRN_E_CONFIG, "takes no 'from', only 'a' and 'b'");
  l->out_known = c->a->out_known && c->b->out_known;
  if (!l->out_known) return CRN_OK;
  crn_tmpl ta = c->a->out, tb = c->b->out;
  CRN_TRY(check_labels(b, l, "option 'a'", &ta));
  CRN_TRY(check_labels(b, l, "option 'b'", &tb));
  CRN_TRY(crn_layer_axis(b, l, &ta, c->a_dim, "a_spatial_dim", &c->a_axis));
  CRN_TRY(crn_layer_axis(b, l, &tb, c->b_dim, "b_spatial_dim", &c->b_axis));
  crn_tmpl_remove(&ta, c->a_axis);
  crn_tmpl_remove(&tb, c->b_axis);
  const crn_tmpl *both[2] = {&ta, &tb};
  crn_tmpl out;
  CRN_TRY(crn_tmpl_unite(both, 2, crn_build_version(b), false, &out, NULL, NULL, crn_build_err(b)));
  l->out = crn_tmpl_scalar(CRN_I32);
  for (int i = 0; i < out.n; i++) l->out.dims[l->out.n++] = out.dims[i];
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* d with its sequence axis last, other axes as t (size 1 where it lacks one). */
static crn_tensor *axis_last(crn_exec *x, const crn_data *d, int axis, const crn_tmpl *t) {
  crn_run *r = crn_exec_run(x);
  crn_tmpl with_axis = *t;
  if (!d || crn_tmpl_insert(&with_axis, t->n, d->t.dims[axis], r->err) != CRN_OK) return NULL;
  int perm[CRN_MAX_RANK], n = 0;
  for (int i = 0; i < d->t.n; i++)
    if (i != axis) perm[n++] = i;
  perm[n] = axis;
  return crn_data_fit(r, crn_data_permute(r, d, perm), &with_axis, crn_exec_version(x), false);
}

/* Labels [N, T] and lengths [N] over all entries of the output. */
static crn_status rows_of(crn_exec *x, crn_layer *l, const crn_data *d, int axis, crn_tensor *v, const int64_t *sizes,
                          crn_tensor **labels, crn_tensor **lens) {
  crn_run *r = crn_exec_run(x);
  const crn_tmpl *t = &l->out;
  int64_t full[CRN_MAX_RANK];
  memcpy(full, sizes, sizeof(full));
  const int64_t T = v->shape[t->n], N = crn_t_count(t->n, sizes), flat[2] = {N, T};
  full[t->n] = T;
  v = crn_broadcast_to(r, v, t->n + 1, full);
  *labels = v ? crn_t_reshape(r, v, 2, flat) : NULL;
  if (d->len[axis]) {
    crn_tensor *lv = crn_data_fit(r, d->len[axis], t, crn_exec_version(x), false);
    lv = lv ? crn_broadcast_to(r, lv, t->n, sizes) : NULL;
    *lens = lv ? crn_t_reshape(r, lv, 1, &N) : NULL;
  } else {
    *lens = crn_t_full(r, CRN_I32, 1, &N, (double)T);
  }
  return *labels && *lens ? CRN_OK : r->err->code;
}

static crn_status edit_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const distance_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *a = crn_value_of(x, l, c->a), *b = crn_value_of(x, l, c->b);
  crn_tensor *av = axis_last(x, a, c->a_axis, &l->out), *bv = axis_last(x, b, c->b_axis, &l->out);
  crn_tensor *al, *a_lens, *bl, *b_lens;
  int64_t sizes[CRN_MAX_RANK] = {0};
  if (!av || !bv) return r->err->code;
  for (int i = 0; i < l->out.n; i++) sizes[i] = av->shape[i] > bv->shape[i] ? av->shape[i] : bv->shape[i];
  CRN_TRY(rows_of(x, l, a, c->a_axis, av, sizes, &al, &a_lens));
  CRN_TRY(rows_of(x, l, b, c->b_axis, bv, sizes, &bl, &b_lens));
  crn_tensor *y = crn_edit_distance(r, al, a_lens, bl, b_lens);
  out->v = y ? crn_t_reshape(r, y, l->out.n, sizes) : NULL;
  return out->v ? CRN_OK : r->err->code;
}

/* ---- rows of the table ----------------------------------------------------------------------------------------------
 */

static const crn_opt table_opts[] = {
    DEBUG_OPT,
    BLANK_OPT,
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .dflt = "None", .doc = "only the single-step dim"},
    CRN_OPT_END};
static const crn_opt completions_opts[] = {DEBUG_OPT, BLANK_OPT, CRN_OPT_END};

static crn_status target_refs(crn_build *b, crn_layer *l) {
  return crn_target_ref(b, l, 0, &((distance_cfg *)l->cfg)->target_layer);
}

/* Target [B, N]. */
static crn_status find_target(crn_build *b, crn_layer *l, distance_cfg *c, bool *known) {
  *known = c->target_layer->out_known;
  if (!*known) return CRN_OK;
  c->target = c->target_layer->out;
  CRN_TRY(check_labels(b, l, "option 'target'", &c->target));
  if (c->target.n == 2 && crn_tmpl_batch_axis(&c->target) >= 0) return CRN_OK;
  crn_str s = {0};
  crn_tmpl_describe(&c->target, &s);
  crn_status st =
      crn_layer_fail(b, l, CRN_E_CONFIG, "option 'target' must be labels [B, N], it is %s", crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

static int sequence_axis(const crn_tmpl *t) { return crn_tmpl_batch_axis(t) == 0 ? 1 : 0; }

static crn_status table_infer(crn_build *b, crn_layer *l) {
  distance_cfg *c = l->cfg;
  crn_tmpl in;
  bool known, target;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  CRN_TRY(find_target(b, l, c, &target));
  l->out_known = target;
  if (!target) return CRN_OK;
  if (!crn_layer_in_loop(l))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "is only possible step by step in a loop, not on whole sequences");
  if (known) {
    CRN_TRY(check_labels(b, l, "the source", &in));
    const int64_t have = crn_tmpl_dim(&in), n = crn_tmpl_dim(&c->target);
    const int64_t want = c->blank_idx != CRN_UNSET && c->blank_idx >= n ? c->blank_idx + 1 : n;
    if (in.n != 1 || have != want)
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "the source must be labels [B] of dim %lld like the target's, it has dim %lld",
                            (long long)want, (long long)have);
  }
  const crn_dim *n = c->target.dims[sequence_axis(&c->target)];
  c->row_dim = l->common.out_dim ? l->common.out_dim
                                 : crn_dim_derive(crn_build_dims(b), "edit_table", n, NULL, 1, 0, 0, CRN_DIM_SPATIAL,
                                                  n->size < 0 ? -1 : n->size + 1);
  if (!c->row_dim) return crn_err_memory(crn_build_err(b));
  l->out = crn_tmpl_scalar(CRN_I32);
  l->out.dims[l->out.n++] = crn_build_dims(b)->batch;
  l->out.dims[l->out.n++] = c->row_dim;
  l->out.time_axis = 1;
  l->out.time_explicit = l->out.feature_explicit = true;
  return crn_layer_add_state(b, l, "state", &l->out);
}

typedef struct targets { /* int32 [B, N], lengths */
  crn_tensor *labels, *lens;
} targets;

static crn_status read_target(crn_exec *x, crn_layer *l, targets *t) {
  const distance_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_data_batch_major(r, crn_value_of(x, l, c->target_layer));
  if (!d) return r->err->code;
  t->labels = d->v->dtype == CRN_I32 ? d->v : crn_cast(r, d->v, CRN_I32);
  t->lens = crn_data_lens(r, d, 1);
  return t->labels && t->lens ? CRN_OK : r->err->code;
}

/* R'_0 = R_0 + 1; R'_j = min(R_j + 1, R'_{j-1} + 1, R_{j-1} + [s ≠ target_j]); the last valid entry is repeated. */
static void next_row(const int32_t *row, const int32_t *target, int64_t len, int64_t n, int32_t label, int32_t *to) {
  to[0] = row[0] + 1;
  for (int64_t j = 1; j <= n; j++) {
    if (j > len) {
      to[j] = to[len];
      continue;
    }
    int32_t best = row[j - 1] + (label != target[j - 1]);
    if (row[j] + 1 < best) best = row[j] + 1;
    if (to[j - 1] + 1 < best) best = to[j - 1] + 1;
    to[j] = best;
  }
}

static crn_status row_lengths(crn_run *r, const targets *t, const crn_dim *batch, const crn_data **out) {
  crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
  lt.dims[lt.n++] = batch;
  crn_tensor *v = crn_add_scalar(r, t->lens, 1);
  *out = v ? crn_data_new(r, &lt, v) : NULL;
  return *out ? CRN_OK : r->err->code;
}

static crn_status table_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  targets t;
  (void)i;
  CRN_TRY(read_target(x, l, &t));
  const int64_t B = t.labels->shape[0], n = t.labels->shape[1] + 1, shape[2] = {B, n};
  out->v = crn_t_new(r, CRN_I32, 2, shape);
  if (!out->v) return r->err->code;
  for (int64_t b = 0; b < B; b++)
    for (int64_t j = 0; j < n; j++) {
      const int32_t len = crn_t_i32(t.lens)[b];
      crn_t_i32(out->v)[b * n + j] = j < len ? (int32_t)j : len;
    }
  return row_lengths(r, &t, out->t.dims[0], &out->len[1]);
}

/* Row of an earlier step for the target: sizes must agree. */
static crn_status check_row(crn_exec *x, crn_layer *l, const crn_tensor *row, const targets *t) {
  if (row->rank == 2 && row->dtype == CRN_I32 && row->shape[0] == t->labels->shape[0] &&
      row->shape[1] == t->labels->shape[1] + 1)
    return CRN_OK;
  char a[96], b[96];
  return crn_exec_fail(x, l, "a row of the table for the target %s has one entry more, got %s",
                       crn_t_describe(t->labels, a, sizeof a), crn_t_describe(row, b, sizeof b));
}

static crn_status table_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const distance_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l), *before = crn_state_in(x, l, 0), *ended = NULL;
  targets t;
  if (!in || !before) return r->err->code;
  CRN_TRY(read_target(x, l, &t));
  CRN_TRY(crn_step_ended(x, l, &ended));
  CRN_TRY(check_row(x, l, before->v, &t));
  crn_tensor *s = in->v->dtype == CRN_I32 ? in->v : crn_cast(r, in->v, CRN_I32);
  out->v = crn_t_new(r, CRN_I32, 2, before->v->shape);
  if (!s || !out->v) return r->err->code;
  const int64_t B = before->v->shape[0], n = before->v->shape[1];
  if (s->shape[0] != B) return crn_exec_fail(x, l, "%lld labels for %lld rows", (long long)s->shape[0], (long long)B);
  for (int64_t b = 0; b < B; b++) {
    const int32_t *row = crn_t_i32(before->v) + b * n, label = crn_t_i32(s)[b];
    int32_t *to = crn_t_i32(out->v) + b * n;
    if ((ended && crn_t_bool(ended->v)[b]) || (c->blank_idx != CRN_UNSET && label == c->blank_idx))
      memcpy(to, row, (size_t)n * sizeof(*to));
    else
      next_row(row, crn_t_i32(t.labels) + b * (n - 1), crn_t_i32(t.lens)[b], n - 1, label, to);
  }
  CRN_TRY(row_lengths(r, &t, l->out.dims[0], &out->len[1]));
  return crn_state_out(x, l, 0, out);
}

/* ---- optimal_completions --------------------------------------------------------------------------------------------
 */

static crn_status completions_infer(crn_build *b, crn_layer *l) {
  distance_cfg *c = l->cfg;
  crn_tmpl in;
  bool known, target;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  CRN_TRY(find_target(b, l, c, &target));
  l->out_known = target;
  if (!target) return CRN_OK;
  if (!crn_layer_in_loop(l))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "is only possible step by step in a loop, not on whole sequences");
  if (known && (in.n != 2 || in.sparse || in.dtype != CRN_I32))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be a row [B, N + 1] of edit_distance_table, int32");
  int64_t dim = crn_tmpl_dim(&c->target);
  if (c->blank_idx != CRN_UNSET && c->blank_idx >= dim) dim = c->blank_idx + 1;
  const crn_dim *d =
      dim == crn_tmpl_dim(&c->target) ? c->target.sparse_dim : crn_layer_dim(b, l, "labels", CRN_DIM_FEATURE, dim);
  d = d ? crn_dim_as_kind(crn_build_dims(b), d, CRN_DIM_FEATURE) : NULL;
  if (!d || dim < 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "the target's dim is not known");
  l->out = crn_tmpl_scalar(CRN_I32);
  l->out.dims[l->out.n++] = crn_build_dims(b)->batch;
  l->out.dims[l->out.n++] = d;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static int32_t least(const int32_t *row, int64_t n) {
  int32_t m = row[0];
  for (int64_t j = 1; j < n; j++)
    if (row[j] < m) m = row[j];
  return m;
}

static crn_status completions_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const distance_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_data_batch_major(r, crn_input(x, l)), *ended = NULL;
  targets t;
  if (!in) return r->err->code;
  CRN_TRY(read_target(x, l, &t));
  CRN_TRY(crn_step_ended(x, l, &ended));
  CRN_TRY(check_row(x, l, in->v, &t));
  const int64_t B = in->v->shape[0], n = in->v->shape[1], V = l->out.dims[1]->size, shape[2] = {B, V};
  out->v = crn_t_new(r, CRN_I32, 2, shape);
  crn_tensor *work = crn_t_new(r, CRN_I32, 1, &n);
  if (!out->v || !work) return r->err->code;
  int32_t *next = crn_t_i32(work);
  for (int64_t b = 0; b < B; b++) {
    const int32_t *row = crn_t_i32(in->v) + b * n, *target = crn_t_i32(t.labels) + b * (n - 1);
    const int64_t len = crn_t_i32(t.lens)[b];
    int32_t *to = crn_t_i32(out->v) + b * V;
    next_row(row, target, len, n - 1, -1, next); /* a label that the target doesn't have */
    const int32_t miss = least(next, len + 1), stay = least(row, len + 1);
    const bool over = ended && crn_t_bool(ended->v)[b];
    for (int64_t v = 0; v < V; v++) to[v] = over || v == c->blank_idx ? stay : miss;
    for (int64_t j = 0; j < len && !over; j++) { /* a match at j: the row's least is its diagonal, if smaller */
      const int32_t v = target[j];
      if (v < 0 || v >= V)
        return crn_exec_fail(x, l, "label %d of the target is not in [0, %lld)", (int)v, (long long)V);
      if (v != c->blank_idx && row[j] < to[v]) to[v] = row[j];
    }
  }
  return CRN_OK;
}

const crn_layer_desc crn_family_distance[] = {{.name = "edit_distance",
                                               .doc = "Computes the Levenshtein distance of two label sequences.",
                                               .opts = edit_opts,
                                               .cfg_size = sizeof(distance_cfg),
                                               .flags = CRN_L_NO_SOURCES | CRN_L_MANY_INPUTS | CRN_L_NEEDS_FUTURE,
                                               .infer = edit_infer,
                                               .forward = edit_forward},
                                              {.name = "edit_distance_table",
                                               .doc = "Gives the row of the table of distances so far.",
                                               .opts = table_opts,
                                               .cfg_size = sizeof(distance_cfg),
                                               .flags = CRN_L_CONCAT | CRN_L_STATE_IS_OUTPUT,
                                               .refs = target_refs,
                                               .infer = table_infer,
                                               .forward = table_forward,
                                               .state_init = table_state_init},
                                              {.name = "optimal_completions",
                                               .doc = "Gives the best reachable distance for each next label.",
                                               .opts = completions_opts,
                                               .cfg_size = sizeof(distance_cfg),
                                               .flags = CRN_L_CONCAT,
                                               .refs = target_refs,
                                               .infer = completions_infer,
                                               .forward = completions_forward},
                                              {.name = NULL}};
