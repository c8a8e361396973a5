/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers on hypotheses: decide and its relatives (search.md).
 */
#include <string.h>

#include "layer/layer.h"

typedef struct beam_cfg {
  int length_normalization;
  const crn_value *beam_size, *search, *add_to_beam_scores;
  const crn_dim *beam_dim;
} beam_cfg;

#define OFF(f) offsetof(beam_cfg, f)
static const crn_opt decide_opts[] = {
    {.name = "length_normalization", .type = CRN_OPT_BOOL, .offset = OFF(length_normalization), .dflt = "False", .doc = "divide scores by the length before comparing"},
    {.name = "beam_size", .type = CRN_OPT_VALUE, .offset = OFF(beam_size), .dflt = "None", .doc = "no effect"},
    {.name = "search", .type = CRN_OPT_VALUE, .offset = OFF(search), .dflt = "None", .doc = "no effect"},
    {.name = "add_to_beam_scores", .type = CRN_OPT_VALUE, .offset = OFF(add_to_beam_scores), .dflt = "None", .doc = "no effect"}, CRN_OPT_END};
static const crn_opt no_opts[] = {CRN_OPT_END};

static crn_status one_source(crn_build *b, crn_layer *l, const crn_tmpl **t) {
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  *t = crn_source_tmpl(l, 0);
  l->out_known = *t != NULL;
  return CRN_OK;
}

static crn_status decide_infer(crn_build *b, crn_layer *l) {
  const crn_tmpl *t = NULL;
  CRN_TRY(one_source(b, l, &t));
  if (!t) return CRN_OK;
  l->out = *t;
  if (crn_tmpl_batch_axis(t) < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source has no batch axis");
  crn_tmpl_to_batch_major(&l->out, NULL);
  l->out.beam = (crn_beam_sig){NULL, 0};
  l->ends_beam = true;
  return CRN_OK;
}

/* Index of the best hypothesis of each sequence, and its score. */
static crn_status best_of(crn_exec *x, crn_layer *l, const crn_data *d, crn_tensor **rows, crn_tensor **score) {
  crn_run *r = crn_exec_run(x);
  const beam_cfg *c = l->cfg;
  const crn_beam *beam = d->beam;
  const int64_t B = beam->scores->shape[0], K = beam->K, one[2] = {B, 1};
  crn_tensor *lens = NULL;
  if (c->length_normalization > 0 && d->t.time_axis >= 0 && !(lens = crn_data_lens(r, d, d->t.time_axis))) return r->err->code;
  *rows = crn_t_new(r, CRN_I32, 1, &B);
  *score = crn_t_new(r, beam->scores->dtype, 2, one);
  if (!*rows || !*score) return r->err->code;
  for (int64_t b = 0; b < B; b++) {
    int64_t best = 0;
    double top = 0;
    for (int64_t k = 0; k < K; k++) {
      double s = crn_t_get(beam->scores, b * K + k);
      if (lens) {
        const double n = crn_t_get(lens, b * K + k);
        s = n > 0 ? s / n : -1.0 / 0.0;
      }
      if (k == 0 || s > top) {
        top = s;
        best = k;
      }
    }
    crn_t_i32(*rows)[b] = (int32_t)(b * K + best);
    if ((*score)->dtype == CRN_F32) crn_t_f32(*score)[b] = (float)top;
    else crn_t_f64(*score)[b] = top;
  }
  return CRN_OK;
}

/* Rows of the batch axis of a value or of lengths. */
static crn_data *pick_rows(crn_exec *x, const crn_data *d, crn_tensor *rows) {
  crn_run *r = crn_exec_run(x);
  crn_data *c = crn_data_copy(r, d);
  const int axis = crn_tmpl_batch_axis(&d->t);
  if (!c) return NULL;
  c->beam = NULL;
  c->t.beam = (crn_beam_sig){NULL, 0};
  c->pre = NULL;
  c->pre_act = NULL;
  if (axis < 0) return c;
  if (!(c->v = crn_gather(r, d->v, rows, axis))) return NULL;
  for (int i = 0; i < d->t.n; i++)
    if (d->len[i] && !(c->len[i] = pick_rows(x, d->len[i], rows))) return NULL;
  return c;
}

static crn_status cut_time(crn_exec *x, crn_data *d) {
  crn_run *r = crn_exec_run(x);
  const int t = d->t.time_axis;
  if (t < 0 || !d->len[t] || crn_tmpl_batch_axis(&d->len[t]->t) < 0) return CRN_OK;
  int64_t max = 0;
  for (int64_t i = 0; i < crn_t_size(d->len[t]->v); i++)
    if (crn_t_i32(d->len[t]->v)[i] > max) max = crn_t_i32(d->len[t]->v)[i];
  if (max < d->v->shape[t]) d->v = crn_slice(r, d->v, t, 0, max, 1);
  return d->v ? CRN_OK : r->err->code;
}

static crn_status decide_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_source(x, l, 0);
  if (!d) return r->err->code;
  crn_tensor *score = NULL;
  if (d->beam) {
    crn_tensor *rows = NULL;
    CRN_TRY(best_of(x, l, d, &rows, &score));
    d = pick_rows(x, d, rows);
  }
  crn_data *bm = d ? crn_data_batch_major(r, d) : NULL;
  if (!bm) return r->err->code;
  CRN_TRY(cut_time(x, bm));
  const crn_tmpl t = l->out;
  *out = *bm;
  out->t = t;
  out->beam = NULL;
  out->decided_score = score;
  return CRN_OK;
}

/* ---- decide_keep_beam ----------------------------------------------------------------------------------------------- */

static crn_status keep_infer(crn_build *b, crn_layer *l) {
  const crn_tmpl *t = NULL;
  CRN_TRY(one_source(b, l, &t));
  if (t) l->out = *t;
  return CRN_OK;
}

static crn_status keep_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *d = crn_source(x, l, 0);
  if (!d) return crn_exec_run(x)->err->code;
  const crn_tmpl t = l->out;
  *out = *d;
  out->t = t;
  return CRN_OK;
}

/* ---- scores and sources of the choice ------------------------------------------------------------------------------- */

static crn_status scores_infer(crn_build *b, crn_layer *l) {
  const crn_tmpl *t = NULL;
  CRN_TRY(one_source(b, l, &t));
  if (!t) return CRN_OK;
  if (!t->beam.choice) return crn_layer_fail(b, l, CRN_E_CONFIG, "source '%s' has no beam: is the network searching?", l->src[0]->path);
  l->out = crn_tmpl_scalar(strstr(l->desc->name, "scores") ? CRN_F32 : CRN_I32);
  l->out.dims[l->out.n++] = crn_build_dims(b)->batch;
  l->out.feature_explicit = true;
  return CRN_OK;
}

static crn_status scores_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_source(x, l, 0);
  if (!d || !d->beam) return crn_exec_fail(x, l, "the source has no beam");
  crn_tensor *v = l->out.dtype == CRN_F32 ? d->beam->scores : d->beam->src;
  const int64_t n = crn_t_size(v);
  out->v = crn_t_reshape(r, v, 1, &n);
  out->beam = d->beam;
  return out->v ? CRN_OK : r->err->code;
}

/* ---- split_batch_beam ----------------------------------------------------------------------------------------------- */

static const crn_opt split_opts[] = {{.name = "beam_dim", .type = CRN_OPT_DIM, .offset = OFF(beam_dim), .dflt = "None", .doc = "dim of the beam axis"}, CRN_OPT_END};

static crn_status split_infer(crn_build *b, crn_layer *l) {
  const beam_cfg *c = l->cfg;
  const crn_tmpl *t = NULL;
  CRN_TRY(one_source(b, l, &t));
  if (!t) return CRN_OK;
  if (!t->beam.choice) return crn_layer_fail(b, l, CRN_E_CONFIG, "source '%s' has no beam", l->src[0]->path);
  l->out = *t;
  l->out.beam = (crn_beam_sig){NULL, 0};
  l->ends_beam = true;
  crn_tmpl_to_batch_major(&l->out, NULL);
  const crn_dim *d = c->beam_dim ? c->beam_dim : crn_layer_dim(b, l, "beam", CRN_DIM_SPATIAL, t->beam.size);
  if (!d) return CRN_E_MEMORY;
  return crn_tmpl_insert(&l->out, 1, d, crn_build_err(b));
}

static crn_data *split_rows(crn_exec *x, const crn_data *d, const crn_dim *beam_dim, int64_t K) {
  crn_run *r = crn_exec_run(x);
  const int axis = crn_tmpl_batch_axis(&d->t);
  crn_data *c = crn_data_copy(r, d);
  if (!c || axis < 0) return c;
  int64_t shape[CRN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < d->t.n; i++) {
    if (i != axis) {
      shape[n++] = d->v->shape[i];
      continue;
    }
    shape[n++] = d->v->shape[i] / K;
    shape[n++] = K;
  }
  if (crn_tmpl_insert(&c->t, axis + 1, beam_dim, r->err) != CRN_OK) return NULL;
  c->v = crn_t_reshape(r, d->v, n, shape);
  c->beam = NULL;
  c->t.beam = (crn_beam_sig){NULL, 0};
  for (int i = d->t.n; i-- > 0;) {
    const int to = i > axis ? i + 1 : i;
    c->len[to] = d->len[i] ? split_rows(x, d->len[i], beam_dim, K) : NULL;
  }
  c->len[axis] = c->len[axis + 1] = NULL;
  return c->v ? c : NULL;
}

static crn_status split_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  crn_data *d = crn_data_batch_major(r, crn_source(x, l, 0));
  if (!d || !d->beam) return crn_exec_fail(x, l, "the source has no beam");
  const crn_data *s = split_rows(x, d, l->out.dims[1], d->beam->K);
  if (!s) return r->err->code;
  const crn_tmpl t = l->out;
  *out = *s;
  out->t = t;
  out->pre = NULL;
  out->pre_act = NULL;
  return CRN_OK;
}

const crn_layer_desc crn_family_beams[] = {
    {.name = "decide", .doc = "Picks the best hypothesis.", .opts = decide_opts, .cfg_size = sizeof(beam_cfg), .flags = CRN_L_MANY_INPUTS, .infer = decide_infer, .forward = decide_forward},
    {.name = "decide_keep_beam", .doc = "Marks hypotheses as final without choosing.", .opts = no_opts, .flags = CRN_L_MANY_INPUTS, .infer = keep_infer, .forward = keep_forward},
    {.name = "choice_get_beam_scores", .doc = "Gives the scores of the hypotheses.", .opts = no_opts, .flags = CRN_L_MANY_INPUTS, .infer = scores_infer, .forward = scores_forward},
    {.name = "choice_get_src_beams", .doc = "Gives the hypotheses that were continued.", .opts = no_opts, .flags = CRN_L_MANY_INPUTS, .infer = scores_infer, .forward = scores_forward},
    {.name = "split_batch_beam", .doc = "Makes the beam an axis.", .opts = split_opts, .cfg_size = sizeof(beam_cfg), .flags = CRN_L_MANY_INPUTS, .infer = split_infer, .forward = split_forward},
    {.name = NULL}};
