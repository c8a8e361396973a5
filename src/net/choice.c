/* SPDX-License-Identifier: Apache-2.0
 *
 * choice: labels from the target, or by beam search (search.md). One step: scores of the source and of the hypotheses
 * so far are combined, the best K kept; the decision is recorded as a beam, by which everything behind is ordered.
 */
#include "net/choice.h"

#include <math.h>
#include <string.h>

#include "net/loop.h"

typedef struct choice_cfg {
  int64_t beam_size;
  int keep_beams, length_normalization;
  const crn_value *search, *add_to_beam_scores, *custom_score_combine, *source_beam_sizes, *scheduled_sampling,
      *cheating;
  const char *input_type;
  double prob_scale, base_beam_score_scale, random_sample_scale, length_normalization_exponent;
  crn_layer_list explicit_search_sources;
  crn_layer *explicit_search_source;
  bool searches;      /* decided in refs */
  bool scores_target; /* not searching, but adds the target's score to the hypotheses */
  bool samples;       /* scheduled sampling */
  double gold_mixin_prob;
  crn_layer *target[8];
  int n_targets;
} choice_cfg;

#define OFF(f) offsetof(choice_cfg, f)
static const crn_opt choice_opts[] = {{.name = "beam_size",
                                       .type = CRN_OPT_INT,
                                       .offset = OFF(beam_size),
                                       .min = 1,
                                       .max = 1e6,
                                       .doc = "hypotheses per sequence"},
                                      {.name = "keep_beams",
                                       .type = CRN_OPT_BOOL,
                                       .offset = OFF(keep_beams),
                                       .dflt = "False",
                                       .doc = "each incoming hypothesis keeps its best labels"},
                                      {.name = "search",
                                       .type = CRN_OPT_VALUE,
                                       .offset = OFF(search),
                                       .dflt = "None",
                                       .doc = "search or take the target; default: the net's flag"},
                                      {.name = "add_to_beam_scores",
                                       .type = CRN_OPT_VALUE,
                                       .offset = OFF(add_to_beam_scores),
                                       .dflt = "None",
                                       .doc = "add the target's score when not searching"},
                                      {.name = "input_type",
                                       .type = CRN_OPT_STR,
                                       .offset = OFF(input_type),
                                       .dflt = "\"prob\"",
                                       .choices = "prob|log_prob|logits|regression",
                                       .doc = "what the source gives"},
                                      {.name = "prob_scale",
                                       .type = CRN_OPT_FLOAT,
                                       .offset = OFF(prob_scale),
                                       .dflt = "1.0",
                                       .doc = "factor of the label scores"},
                                      {.name = "base_beam_score_scale",
                                       .type = CRN_OPT_FLOAT,
                                       .offset = OFF(base_beam_score_scale),
                                       .dflt = "1.0",
                                       .doc = "factor of the scores so far"},
                                      {.name = "random_sample_scale",
                                       .type = CRN_OPT_FLOAT,
                                       .offset = OFF(random_sample_scale),
                                       .dflt = "0.0",
                                       .doc = "factor of Gumbel noise"},
                                      {.name = "length_normalization",
                                       .type = CRN_OPT_BOOL,
                                       .offset = OFF(length_normalization),
                                       .dflt = "True",
                                       .doc = "scores per length"},
                                      {.name = "length_normalization_exponent",
                                       .type = CRN_OPT_FLOAT,
                                       .offset = OFF(length_normalization_exponent),
                                       .dflt = "1.0",
                                       .doc = "exponent of the length factor during search"},
                                      {.name = "custom_score_combine",
                                       .type = CRN_OPT_VALUE,
                                       .offset = OFF(custom_score_combine),
                                       .dflt = "None",
                                       .doc = "function that combines scores"},
                                      {.name = "source_beam_sizes",
                                       .type = CRN_OPT_VALUE,
                                       .offset = OFF(source_beam_sizes),
                                       .dflt = "None",
                                       .doc = "labels kept per source before combining"},
                                      {.name = "scheduled_sampling",
                                       .type = CRN_OPT_VALUE,
                                       .offset = OFF(scheduled_sampling),
                                       .dflt = "False",
                                       .doc = "sample from the source in training"},
                                      {.name = "cheating",
                                       .type = CRN_OPT_VALUE,
                                       .offset = OFF(cheating),
                                       .dflt = "False",
                                       .doc = "the reference is the last hypothesis: False, True, \"exclusive\""},
                                      {.name = "explicit_search_sources",
                                       .type = CRN_OPT_LAYERS,
                                       .offset = OFF(explicit_search_sources),
                                       .dflt = "None",
                                       .edge = CRN_EDGE_SEARCH,
                                       .doc = "further dependencies when searching"},
                                      {.name = "explicit_search_source",
                                       .type = CRN_OPT_LAYER,
                                       .offset = OFF(explicit_search_source),
                                       .dflt = "None",
                                       .edge = CRN_EDGE_SEARCH,
                                       .doc = "further dependency when searching"},
                                      CRN_OPT_END};

/* ---- construction ---------------------------------------------------------------------------------------------------
 */

static crn_status read_mode(crn_build *b, crn_layer *l, choice_cfg *c) {
  if (!crn_v_is_none(c->custom_score_combine))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'custom_score_combine'");
  c->searches = crn_v_is_none(c->search) ? l->scope->search : crn_v_truth(c->search);
  c->samples = crn_v_truth(c->scheduled_sampling) && !c->searches && !l->scope->search;
  c->scores_target =
      !c->searches && l->scope->search && (crn_v_is_none(c->add_to_beam_scores) || crn_v_truth(c->add_to_beam_scores));
  if (c->scores_target && c->length_normalization)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'length_normalization' must be False where the target's score is added ('search': "
                          "False in a searching network)");
  const crn_value *mix = crn_v_get(c->scheduled_sampling, "gold_mixin_prob");
  if (mix && (!crn_v_to_float(mix, &c->gold_mixin_prob) || c->gold_mixin_prob < 0 || c->gold_mixin_prob > 1))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'scheduled_sampling': 'gold_mixin_prob' must be a number from 0 to 1");
  return CRN_OK;
}

static crn_status choice_refs(crn_build *b, crn_layer *l) {
  choice_cfg *c = l->cfg;
  const crn_value *from = crn_v_get(l->dict, "from");
  if (!from) return crn_layer_fail(b, l, CRN_E_CONFIG, "specify 'from' explicitly for choice layer");
  if (!crn_v_get(l->dict, "target"))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "specify 'target' explicitly for choice layer");
  CRN_TRY(read_mode(b, l, c));
  const size_t n = crn_v_is_seq(from) ? crn_v_len(from) : 1;
  const crn_value *t = l->common.target;
  const size_t n_targets = crn_v_is_seq(t) ? crn_v_len(t) : !crn_v_is_none(t);
  if (n_targets && n_targets != n)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "there are %d sources, but %d targets", (int)n, (int)n_targets);
  if (!n_targets && !c->searches) return crn_layer_fail(b, l, CRN_E_CONFIG, "no 'target' and no search");
  const bool needs_target = !c->searches || crn_v_truth(c->cheating);
  for (size_t i = 0; i < n_targets && i < 8; i++) {
    const char *name = crn_target_name(b, l, (int)i);
    if (!name) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'target': expected data keys");
    c->n_targets++;
    const char *key = !strncmp(name, "data:", 5) ? name + 5 : name;
    if (c->searches && !needs_target && b->net->search && crn_net_extern(b->net, key))
      continue; /* only its labels matter */
    CRN_TRY(crn_target_layer(b, l, name, &c->target[i]));
    if (needs_target) CRN_TRY(crn_layer_add_edge(b, l, c->target[i], CRN_EDGE_DATA, "target"));
  }
  if (!c->searches && !c->scores_target && !c->samples) return CRN_OK;
  l->src = CRN_ARENA_ARRAY(&b->net->arena, crn_layer *, n + 1);
  if (!l->src) return crn_err_memory(b->err);
  for (size_t i = 0; i < n; i++) {
    const char *name = crn_v_cstr(crn_v_is_seq(from) ? crn_v_at(from, i) : from);
    if (!name) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'from': expected layer names");
    CRN_TRY(crn_layer_ref(b, l, name, CRN_EDGE_DATA, "from", &l->src[l->n_src++]));
  }
  return CRN_OK;
}

/* Template of a target. When searching the target itself isn't computed: its data key says what labels there are. */
static crn_status target_template(crn_build *b, crn_layer *l, const choice_cfg *c, int i, crn_tmpl *t) {
  const char *name = crn_target_name(b, l, i);
  const crn_extern *e =
      c->searches && name ? crn_net_extern(b->net, !strncmp(name, "data:", 5) ? name + 5 : name) : NULL;
  if (e) {
    *t = e->t;
    return CRN_OK;
  }
  if (!c->target[i]->out_known) {
    CRN_TRY(crn_build_refs(b));
    CRN_TRY(crn_layer_infer_once(b, c->target[i]));
  }
  *t = c->target[i]->out;
  return CRN_OK;
}

static crn_status search_template(crn_build *b, crn_layer *l, choice_cfg *c, int i, crn_tmpl *out) {
  const crn_tmpl *s = crn_source_tmpl(l, i);
  *out = crn_tmpl_scalar(CRN_I32);
  if (s) {
    if (!strcmp(c->input_type, "regression")) { /* the source itself, one hypothesis */
      if (s->sparse)
        return crn_layer_fail(b, l, CRN_E_CONFIG, "source '%s' of a regression must be dense", l->src[i]->path);
      *out = *s;
      out->beam.choice = l;
      out->beam.size = 1;
      return CRN_OK;
    }
    if (s->sparse || s->feature_axis < 0 || crn_tmpl_batch_axis(s) < 0 || s->n != 2)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "source '%s' must give scores of shape [B, labels]", l->src[i]->path);
    out->sparse_dim = s->dims[s->feature_axis];
  }
  out->dims[out->n++] = b->net->dims.batch;
  out->sparse = true;
  if (c->n_targets) {
    crn_tmpl t;
    CRN_TRY(target_template(b, l, c, i, &t));
    if (s && t.sparse_dim && out->sparse_dim->size != t.sparse_dim->size)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "source '%s' has dim %lld, but target '%s' has dim %lld",
                            l->src[i]->path, (long long)out->sparse_dim->size, crn_target_name(b, l, i),
                            (long long)t.sparse_dim->size);
    out->sparse_dim = t.sparse_dim;
    out->vocab = t.vocab;
    out->dtype = t.dtype;
  } else if (!s) {
    l->out_known = false;
  }
  crn_tmpl_update_roles(out);
  out->beam.choice = l;
  out->beam.size = c->beam_size;
  return CRN_OK;
}

static crn_status choice_infer(crn_build *b, crn_layer *l) {
  choice_cfg *c = l->cfg;
  const int n = c->n_targets > l->n_src ? c->n_targets : l->n_src;
  for (int i = 0; i < n; i++) {
    crn_tmpl t;
    if (c->searches)
      CRN_TRY(search_template(b, l, c, i, &t));
    else
      CRN_TRY(target_template(b, l, c, i, &t));
    if (c->scores_target && crn_source_tmpl(l, 0)) t.beam = (crn_beam_sig){l, crn_source_tmpl(l, 0)->beam.size};
    if (c->samples && !strcmp(c->input_type, "regression") && crn_source_tmpl(l, i)) t = *crn_source_tmpl(l, i);
    if (i == 0) l->out = t;
    if (n > 1) CRN_TRY(crn_layer_add_sub(b, l, crn_arena_printf(&b->net->arena, "out_%d", i), &t));
  }
  return CRN_OK;
}

/* ---- one step -------------------------------------------------------------------------------------------------------
 */

static crn_tensor *label_scores(crn_exec *x, const choice_cfg *c, const crn_data *s) {
  crn_run *r = &x->run;
  if (!strcmp(c->input_type, "log_prob")) return s->v;
  if (!strcmp(c->input_type, "logits")) return crn_log_softmax(r, s->v);
  if (s->pre && s->pre_act) {
    if (!strcmp(s->pre_act, "softmax")) return crn_log_softmax(r, s->pre);
    if (!strcmp(s->pre_act, "exp")) return s->pre;
    if (!strcmp(s->pre_act, "sigmoid")) return crn_unary(r, CRN_U_LOG_SIGMOID, s->pre);
  }
  return crn_safe_log(r, s->v, 1e-20);
}

/* bool [B, k]: hypotheses of the base that ended before this step; NULL = none can have. */
static crn_tensor *ended_before(crn_exec *x, crn_layer *l, const crn_beam *base, int64_t B, int64_t k) {
  crn_run *r = &x->run;
  const crn_loop *loop = l->body->loop;
  if (!loop) return NULL;
  crn_loop_run *lr = crn_exec_loop(x, loop);
  const int64_t shape[2] = {B, k};
  if (loop->unknown_len) {
    const crn_data *e = lr->ended ? crn_beam_move(x, lr->ended, base) : NULL;
    return e ? crn_t_reshape(r, e->v, 2, shape) : NULL;
  }
  if (!lr->lens) return NULL;
  const crn_data *len = crn_beam_move(x, lr->lens, base);
  if (!len) return NULL;
  const int64_t t = lr->step - (loop->include_eos ? 0 : 1);
  crn_tensor *e = crn_binary(r, CRN_B_GREATER_EQUAL, crn_t_full(r, CRN_I32, 0, NULL, (double)t), len->v);
  return e ? crn_t_reshape(r, e, 2, shape) : NULL;
}

/* Ended hypotheses go on with label 0 (score 0) only. */
static crn_tensor *mask_ended(crn_exec *x, crn_tensor *scores, crn_tensor *ended) {
  crn_run *r = &x->run;
  if (!memchr(crn_t_bool(ended), 1, (size_t)crn_t_size(ended))) return scores; /* none has: spare a copy of all scores */
  const int64_t V = scores->shape[2], row_shape[3] = {1, 1, V}, flag_shape[3] = {ended->shape[0], ended->shape[1], 1};
  crn_tensor *row = crn_t_full(r, scores->dtype, 3, row_shape, -1e30);
  if (!row) return NULL;
  if (row->dtype == CRN_F32)
    crn_t_f32(row)[0] = 0;
  else
    crn_t_f64(row)[0] = 0;
  return crn_where(r, crn_t_reshape(r, ended, 3, flag_shape), row, scores);
}

static crn_tensor *length_factor(crn_exec *x, crn_layer *l, const choice_cfg *c, crn_tensor *base, crn_tensor *ended) {
  crn_run *r = &x->run;
  const int64_t t = crn_exec_step(x, l);
  if (!c->length_normalization || !ended || t < 1) return base;
  const double f = pow((double)(t + 1) / (double)t, c->length_normalization_exponent);
  return crn_where(r, ended, crn_scale(r, base, f), base);
}

static crn_tensor *gumbel(crn_exec *x, crn_layer *l, const choice_cfg *c, crn_tensor *y) {
  crn_run *r = &x->run;
  if (c->random_sample_scale == 0) return y;
  crn_tensor *u =
      crn_random_uniform(r, crn_random_name(x, l, "random_sample", false), y->dtype, y->rank, y->shape, 0, 1);
  crn_tensor *g = crn_unary(r, CRN_U_NEG, crn_unary(r, CRN_U_LOG, crn_unary(r, CRN_U_NEG, crn_unary(r, CRN_U_LOG, u))));
  return crn_add(r, y, crn_scale(r, g, c->random_sample_scale));
}

typedef struct selection {
  crn_tensor *scores; /* [B, K] */
  crn_tensor *labels; /* int32 [B, K]: index into the V labels (or combinations) */
  crn_tensor *src;    /* int32 [B, K] */
} selection;

/* The K best of y [B, k, V]; missing ones have score -inf, label 0, source 0. */
static crn_status select_best(crn_exec *x, const choice_cfg *c, crn_tensor *y, int64_t K, selection *out) {
  crn_run *r = &x->run;
  const int64_t B = y->shape[0], k = y->shape[1], V = y->shape[2];
  crn_tensor *idx;
  if (c->keep_beams) { /* the best labels of each incoming hypothesis */
    const int64_t per = K / k, shape[2] = {B, K};
    if (per < 1 || per * k != K)
      return crn_fail(r->err, CRN_E_RUNTIME, "keep_beams: beam_size %lld is no multiple of the incoming %lld",
                      (long long)K, (long long)k);
    crn_tensor *best = crn_top_k(r, y, per, &idx);
    out->scores = crn_t_reshape(r, best, 2, shape);
    out->labels = crn_t_reshape(r, idx, 2, shape);
    out->src = crn_t_new(r, CRN_I32, 2, shape);
    if (!out->scores || !out->labels || !out->src) return r->err->code;
    for (int64_t i = 0; i < B * K; i++) crn_t_i32(out->src)[i] = (int32_t)(i % K / per);
    return CRN_OK;
  }
  const int64_t flat_shape[2] = {B, k * V}, n = K < k * V ? K : k * V, shape[2] = {B, K};
  crn_tensor *best = crn_top_k(r, crn_t_reshape(r, y, 2, flat_shape), n, &idx);
  if (best && n < K) best = crn_pad(r, best, 1, 0, K - n, "constant", -INFINITY);
  out->scores = best;
  out->labels = crn_t_zeros(r, CRN_I32, 2, shape);
  out->src = crn_t_zeros(r, CRN_I32, 2, shape);
  if (!best || !out->labels || !out->src) return r->err->code;
  for (int64_t b = 0; b < B; b++)
    for (int64_t i = 0; i < n; i++) {
      const int64_t f = (int64_t)crn_t_get(idx, b * n + i);
      crn_t_i32(out->labels)[b * K + i] = (int32_t)(f % V);
      crn_t_i32(out->src)[b * K + i] = (int32_t)(f / V);
    }
  return CRN_OK;
}

/* cheating: the reference hypothesis is the last one (the last incoming hypothesis, continued by the target's label).
 */
static crn_status select_cheating(crn_exec *x, crn_layer *l, choice_cfg *c, crn_tensor *y, int64_t K, selection *out) {
  crn_run *r = &x->run;
  const int64_t B = y->shape[0], k = y->shape[1], V = y->shape[2], shape[2] = {B, K};
  const crn_data *t = crn_exec_slot(x, c->target[0])->out;
  const bool exclusive = crn_v_is_str(c->cheating);
  if (!t || !t->v) return crn_exec_fail(x, l, "cheating: the target is not there");
  crn_tensor *gold = crn_t_new(r, CRN_I32, 1, &B);
  const int64_t flat_shape[2] = {B, k * V};
  crn_tensor *flat = crn_t_reshape(r, y, 2, flat_shape), *rest = flat;
  if (!gold || !flat) return r->err->code;
  for (int64_t b = 0; b < B; b++) {
    double v = crn_t_get(t->v, t->beam ? b * t->beam->K : b);
    v = v < 0 ? 0 : v >= (double)V ? (double)(V - 1) : v;
    crn_t_i32(gold)[b] = (int32_t)((k - 1) * V + (int64_t)v);
  }
  if (exclusive) {
    crn_tensor *keep =
        crn_unary(r, CRN_U_LOGICAL_NOT, crn_cast(r, crn_one_hot(r, gold, k * V, CRN_I32, 1, 0), CRN_BOOL));
    rest = crn_mask_fill(r, flat, keep, -INFINITY);
  }
  const int64_t n = K - 1 < k * V ? K - 1 : k * V, gs[2] = {B, 1};
  crn_tensor *idx = NULL, *parts[2];
  parts[0] = n > 0 ? crn_top_k(r, rest, n, &idx) : NULL;
  if (parts[0] && n < K - 1) parts[0] = crn_pad(r, parts[0], 1, 0, K - 1 - n, "constant", -INFINITY);
  parts[1] = crn_t_reshape(r, crn_gather_batched(r, flat, crn_t_reshape(r, gold, 2, gs), 1), 2, gs);
  out->scores = n > 0 ? crn_concat(r, 2, parts, 1) : parts[1];
  out->labels = crn_t_zeros(r, CRN_I32, 2, shape);
  out->src = crn_t_zeros(r, CRN_I32, 2, shape);
  if (!out->scores || !out->labels || !out->src) return r->err->code;
  for (int64_t b = 0; b < B; b++)
    for (int64_t i = 0; i < K; i++) {
      if (i >= n && i < K - 1) continue;
      const int64_t f = i == K - 1 ? crn_t_i32(gold)[b] : (int64_t)crn_t_get(idx, b * n + i);
      crn_t_i32(out->labels)[b * K + i] = (int32_t)(f % V);
      crn_t_i32(out->src)[b * K + i] = (int32_t)(f / V);
    }
  return CRN_OK;
}

/* Several sources: each pruned to its best labels; all combinations, the last source varying fastest. */
typedef struct pruned {
  crn_tensor *scores;    /* [B, k, combinations] */
  crn_tensor *labels[8]; /* int32 [B, k, n_i] */
  int64_t n[8];
} pruned;

static crn_status combine_sources(crn_exec *x, crn_layer *l, const choice_cfg *c, crn_tensor **scores, pruned *p) {
  crn_run *r = &x->run;
  p->scores = scores[0];
  if (l->n_src == 1) return CRN_OK;
  crn_tensor *sum = NULL;
  for (int i = 0; i < l->n_src; i++) {
    int64_t want = c->beam_size;
    (void)crn_v_to_int(
        crn_v_is_seq(c->source_beam_sizes) ? crn_v_at(c->source_beam_sizes, (size_t)i) : c->source_beam_sizes, &want);
    p->n[i] = want < scores[i]->shape[2] ? want : scores[i]->shape[2];
    crn_tensor *best = crn_top_k(r, scores[i], p->n[i], &p->labels[i]);
    if (!best) return r->err->code;
    if (!sum) {
      sum = best;
      continue;
    }
    const int64_t a[4] = {sum->shape[0], sum->shape[1], sum->shape[2], 1},
                  b[4] = {sum->shape[0], sum->shape[1], 1, p->n[i]};
    const int64_t flat[3] = {sum->shape[0], sum->shape[1], sum->shape[2] * p->n[i]};
    sum = crn_t_reshape(r, crn_add(r, crn_t_reshape(r, sum, 4, a), crn_t_reshape(r, best, 4, b)), 3, flat);
    if (!sum) return r->err->code;
  }
  p->scores = sum;
  return CRN_OK;
}

static int32_t label_of(const crn_layer *l, const pruned *p, int source, int64_t b, int64_t k, int64_t k_in,
                        int64_t combination) {
  int64_t after = 1;
  for (int i = l->n_src - 1; i > source; i--) after *= p->n[i];
  const int64_t j = combination / after % p->n[source];
  return (int32_t)crn_t_get(p->labels[source], (b * k_in + k) * p->n[source] + j);
}

static crn_status give_labels(crn_exec *x, crn_layer *l, const selection *s, const pruned *p, int64_t k_in,
                              const crn_beam *beam, crn_data *out) {
  crn_run *r = &x->run;
  const int64_t B = s->labels->shape[0], K = s->labels->shape[1], n = B * K;
  const crn_dtype dtype = l->out.dtype;
  out->beam = beam;
  if (l->n_src == 1) {
    out->v = crn_t_reshape(r, dtype == CRN_I32 ? s->labels : crn_cast(r, s->labels, dtype), 1, &n);
    return out->v ? CRN_OK : r->err->code;
  }
  for (int i = 0; i < l->n_src; i++) {
    crn_tensor *v = crn_t_new(r, CRN_I32, 1, &n);
    if (!v) return r->err->code;
    for (int64_t b = 0; b < B; b++)
      for (int64_t k = 0; k < K; k++)
        crn_t_i32(v)[b * K + k] =
            label_of(l, p, i, b, crn_t_i32(s->src)[b * K + k], k_in, crn_t_i32(s->labels)[b * K + k]);
    crn_data *d = crn_data_new(r, &l->subs[i].t, v);
    if (!d) return r->err->code;
    d->beam = beam;
    CRN_TRY(crn_sub_out(x, l, i, d));
    if (i == 0) out->v = v;
  }
  return CRN_OK;
}

static const crn_beam *base_of(crn_exec *x, crn_layer *l, const crn_beam *sources) {
  const crn_beam *base = sources;
  if (l->body->loop) {
    const crn_beam *last = crn_exec_loop(x, l->body->loop)->last_beam;
    if (crn_beam_latest(x, l, sources, last, &base) != CRN_OK) return NULL;
  }
  return base;
}

static crn_status search_step(crn_exec *x, crn_layer *l, choice_cfg *c, crn_data *out) {
  crn_run *r = &x->run;
  const crn_beam *base = base_of(x, l, out->beam);
  if (crn_run_failed(r)) return r->err->code;
  crn_tensor *scores[8];
  int64_t B = 0, k = base ? base->K : 1;
  for (int i = 0; i < l->n_src && i < 8; i++) {
    const crn_data *s = crn_exec_slot(x, l->src[i])->out;
    s = s ? crn_data_batch_major(r, crn_beam_move(x, s, base)) : NULL;
    if (!s) return crn_exec_fail(x, l, "the source is not there");
    crn_tensor *ls = label_scores(x, c, s);
    if (!ls) return r->err->code;
    B = ls->shape[0] / k;
    const int64_t shape[3] = {B, k, ls->shape[1]};
    scores[i] = crn_t_reshape(r, ls, 3, shape);
  }
  pruned p = {0};
  CRN_TRY(combine_sources(x, l, c, scores, &p));
  const int64_t bk[2] = {B, k}, bk1[3] = {B, k, 1};
  crn_tensor *ended = ended_before(x, l, base, B, k);
  if (crn_run_failed(r)) return r->err->code;
  crn_tensor *so_far = base ? base->scores : crn_t_zeros(r, r->real, 2, bk);
  so_far = length_factor(x, l, c, so_far, ended);
  crn_tensor *ls = ended ? mask_ended(x, p.scores, ended) : p.scores;
  if (c->prob_scale != 1) ls = crn_scale(r, ls, c->prob_scale);
  if (c->base_beam_score_scale != 1) so_far = crn_scale(r, so_far, c->base_beam_score_scale);
  crn_tensor *y = gumbel(x, l, c, crn_add(r, ls, crn_t_reshape(r, so_far, 3, bk1)));
  if (!y) return r->err->code;
  selection s = {NULL, NULL, NULL};
  if (crn_v_truth(c->cheating))
    CRN_TRY(select_cheating(x, l, c, y, c->beam_size, &s));
  else
    CRN_TRY(select_best(x, c, y, c->beam_size, &s));
  crn_beam *beam = CRN_ARENA_NEW(&r->arena, crn_beam);
  if (!beam) return crn_err_memory(r->err);
  *beam = (crn_beam){
      .choice = l, .parent = base, .serial = ++x->beam_serial, .K = c->beam_size, .src = s.src, .scores = s.scores};
  crn_t_hold(s.src);
  crn_t_hold(s.scores);
  return give_labels(x, l, &s, &p, k, beam, out);
}

crn_tensor *crn_choice_label_scores(crn_exec *x, crn_layer *l, const crn_beam *latest, const crn_beam **base) {
  crn_run *r = &x->run;
  const choice_cfg *c = l->cfg;
  const crn_data *s = l->n_src == 1 ? crn_exec_slot(x, l->src[0])->out : NULL;
  if (!s) {
    (void)crn_fail(r->err, CRN_E_STATE, "choice '%s' has no single source to take scores from", l->path);
    return NULL;
  }
  *base = base_of(x, l, s->beam);
  if (crn_run_failed(r) || crn_beam_latest(x, l, *base, latest, base) != CRN_OK) return NULL;
  s = crn_data_batch_major(r, crn_beam_move(x, s, *base));
  return s ? label_scores(x, c, s) : NULL;
}

crn_status crn_choice_decide(crn_exec *x, crn_layer *l, const crn_beam *latest, int64_t B, int64_t K,
                             const int32_t *from, const int32_t *labels) {
  crn_run *r = &x->run;
  const crn_beam *base;
  if (!crn_choice_label_scores(x, l, latest, &base)) return r->err->code;
  const int64_t shape[2] = {B, K}, n = B * K, k_in = base ? base->K : 1, dim = crn_tmpl_dim(&l->out);
  for (int64_t i = 0; i < n; i++) {
    if (from[i] < 0 || from[i] >= k_in)
      return crn_fail(r->err, CRN_E_DATA, "hypothesis %lld continues %d, but there are %lld", (long long)i, from[i],
                      (long long)k_in);
    if (labels[i] < 0 || (dim >= 0 && labels[i] >= dim))
      return crn_fail(r->err, CRN_E_DATA, "label %d of hypothesis %lld is not in [0, %lld)", labels[i], (long long)i,
                      (long long)dim);
  }
  crn_beam *beam = CRN_ARENA_NEW(&r->arena, crn_beam);
  crn_data *d = crn_data_new(r, &l->out, crn_t_copy_in(r, CRN_I32, 1, &n, labels));
  crn_tensor *src = crn_t_copy_in(r, CRN_I32, 2, shape, from), *scores = crn_t_zeros(r, r->real, 2, shape);
  if (!beam || !d || !src || !scores) return r->err->code ? r->err->code : crn_err_memory(r->err);
  if (l->out.dtype != CRN_I32) d->v = crn_cast(r, d->v, l->out.dtype);
  *beam = (crn_beam){.choice = l, .parent = base, .serial = ++x->beam_serial, .K = K, .src = src, .scores = scores};
  d->beam = beam;
  crn_exec_slot(x, l)->out = d;
  return d->v ? CRN_OK : r->err->code;
}

/* The source is the output and continues its hypotheses with their scores. */
static crn_status regression_step(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = &x->run;
  const crn_beam *base = base_of(x, l, out->beam);
  const crn_data *s = crn_run_failed(r) ? NULL : crn_beam_move(x, crn_exec_slot(x, l->src[0])->out, base);
  if (!s) return r->err->code;
  const crn_tmpl t = l->out;
  *out = *s;
  out->t = t;
  if (base) return CRN_OK;
  const int64_t B = crn_data_n_seqs(s), shape[2] = {B, 1};
  crn_beam *beam = CRN_ARENA_NEW(&r->arena, crn_beam);
  if (!beam) return crn_err_memory(r->err);
  *beam = (crn_beam){.choice = l,
                     .serial = ++x->beam_serial,
                     .K = 1,
                     .src = crn_t_zeros(r, CRN_I32, 2, shape),
                     .scores = crn_t_zeros(r, r->real, 2, shape)};
  if (!beam->src || !beam->scores) return r->err->code;
  crn_t_hold(beam->src);
  crn_t_hold(beam->scores);
  out->beam = beam;
  return CRN_OK;
}

/* The target, its score added to every hypothesis; these stay where they are. */
static crn_status score_target(crn_exec *x, crn_layer *l, choice_cfg *c, crn_data *out) {
  crn_run *r = &x->run;
  const crn_beam *base = base_of(x, l, out->beam);
  if (crn_run_failed(r)) return r->err->code;
  if (!base) return crn_exec_fail(x, l, "'search': False in a searching network needs incoming hypotheses");
  const crn_data *s = crn_exec_slot(x, l->src[0])->out, *t = crn_exec_slot(x, c->target[0])->out;
  s = s ? crn_data_batch_major(r, crn_beam_move(x, s, base)) : NULL;
  t = t ? crn_beam_move(x, t, base) : NULL;
  crn_tensor *ls = s && t ? label_scores(x, c, s) : NULL;
  if (!ls) return r->err->code ? r->err->code : CRN_E_INTERNAL;
  const int64_t k = base->K, n = ls->shape[0], B = n / k, V = ls->shape[1], bkv[3] = {B, k, V}, n1[2] = {n, 1},
                bk[2] = {B, k};
  crn_tensor *ended = ended_before(x, l, base, B, k);
  if (crn_run_failed(r)) return r->err->code;
  if (ended) {
    const int64_t nv[2] = {n, V};
    ls = crn_t_reshape(r, mask_ended(x, crn_t_reshape(r, ls, 3, bkv), ended), 2, nv);
  }
  crn_tensor *label = t->v->dtype == CRN_I32 ? t->v : crn_cast(r, t->v, CRN_I32);
  crn_tensor *own = crn_t_reshape(r, crn_gather_batched(r, ls, crn_t_reshape(r, label, 2, n1), 1), 2, bk);
  crn_tensor *scores =
      crn_add(r, crn_scale(r, own, c->prob_scale), crn_scale(r, base->scores, c->base_beam_score_scale));
  crn_tensor *src = crn_t_new(r, CRN_I32, 2, bk);
  crn_beam *beam = CRN_ARENA_NEW(&r->arena, crn_beam);
  if (!scores || !src || !beam) return r->err->code ? r->err->code : crn_err_memory(r->err);
  for (int64_t i = 0; i < n; i++) crn_t_i32(src)[i] = (int32_t)(i % k);
  *beam = (crn_beam){.choice = l, .parent = base, .serial = ++x->beam_serial, .K = k, .src = src, .scores = scores};
  crn_t_hold(src);
  crn_t_hold(scores);
  out->v = t->v;
  out->beam = beam;
  return CRN_OK;
}

/* Scheduled sampling: a label drawn from the source's distribution, or now and then the target. */
static crn_status sample(crn_exec *x, crn_layer *l, choice_cfg *c, crn_data *out) {
  crn_run *r = &x->run;
  const crn_data *s = crn_source(x, l, 0), *t = crn_value_of(x, l, c->target[0]);
  if (!s || !t) return r->err->code;
  const crn_tmpl tmpl = l->out;
  if (!strcmp(c->input_type, "regression")) {
    *out = *s;
    out->t = tmpl;
    out->v = crn_t_stop_gradient(r, s->v);
    return out->v ? CRN_OK : r->err->code;
  }
  crn_tensor *ls = label_scores(x, c, s);
  crn_tensor *u = ls ? crn_random_uniform(r, crn_random_name(x, l, "scheduled_sampling", false), ls->dtype, ls->rank,
                                          ls->shape, 0, 1)
                     : NULL;
  crn_tensor *g = crn_unary(r, CRN_U_NEG, crn_unary(r, CRN_U_LOG, crn_unary(r, CRN_U_NEG, crn_unary(r, CRN_U_LOG, u))));
  crn_tensor *label = crn_argmax(r, crn_add(r, crn_t_stop_gradient(r, ls), g), s->t.feature_axis, t->v->dtype);
  if (!label) return r->err->code;
  *out = *t;
  out->t = tmpl;
  crn_tensor *gold = crn_data_fit(r, t, &tmpl, x->net->version, false);
  if (c->gold_mixin_prob > 0 && gold) {
    crn_tensor *m =
        crn_random_uniform(r, crn_random_name(x, l, "gold_mixin", false), r->real, label->rank, label->shape, 0, 1);
    label = crn_where(r, crn_binary(r, CRN_B_LESS, m, crn_t_scalar(r, r->real, c->gold_mixin_prob)), gold, label);
  }
  out->v = label;
  return label ? CRN_OK : r->err->code;
}

static crn_status choice_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  choice_cfg *c = l->cfg;
  if (c->searches && !strcmp(c->input_type, "regression")) return regression_step(x, l, out);
  if (c->searches) return search_step(x, l, c, out);
  if (c->scores_target) return score_target(x, l, c, out);
  if (c->samples) return sample(x, l, c, out);
  for (int i = 0; i < c->n_targets; i++) {
    const crn_data *d = crn_value_of(x, l, c->target[i]);
    if (!d) return x->run.err->code;
    if (i == 0) {
      const crn_tmpl t = l->out;
      *out = *d;
      out->t = t;
    }
    if (c->n_targets > 1) CRN_TRY(crn_sub_out(x, l, i, d));
  }
  return CRN_OK;
}

crn_status crn_choice_finish(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  crn_run *r = &x->run;
  const crn_beam *last = lr->last_beam;
  const choice_cfg *c = loop->last_choice->cfg;
  const crn_data *len = crn_beam_move(x, lr->lens, last);
  if (!len) return r->err->code;
  crn_beam *final = CRN_ARENA_NEW(&r->arena, crn_beam);
  crn_tensor *src = crn_t_new(r, CRN_I32, 2, last->src->shape);
  if (!final || !src) return r->err->code ? r->err->code : crn_err_memory(r->err);
  for (int64_t i = 0; i < crn_t_size(src); i++) crn_t_i32(src)[i] = (int32_t)(i % last->K);
  *final = (crn_beam){.choice = last->choice,
                      .parent = last,
                      .serial = ++x->beam_serial,
                      .K = last->K,
                      .src = src,
                      .scores = last->scores};
  if (c->length_normalization) {
    int64_t D = 0;
    for (int64_t i = 0; i < crn_t_size(len->v); i++)
      if (crn_t_i32(len->v)[i] > D) D = crn_t_i32(len->v)[i];
    if (!loop->include_eos) D++;
    /* cut by the limit, nothing ended the longest: the original divides by one step more than were run */
    if (crn_v_truth(crn_v_get(x->net->config, "length_normalization_exact"))) D = lr->step;
    if (D > 0) final->scores = crn_scale(r, last->scores, 1.0 / (double)D);
    if (!final->scores) return r->err->code;
  }
  crn_t_hold(final->src);
  crn_t_hold(final->scores);
  lr->last_beam = final;
  return CRN_OK;
}

const crn_layer_desc crn_family_choice[] = {{.name = "choice",
                                             .doc = "Picks labels: the target's, or the best by beam search.",
                                             .opts = choice_opts,
                                             .cfg_size = sizeof(choice_cfg),
                                             .flags = CRN_L_OWN_SOURCES | CRN_L_MANY_INPUTS | CRN_L_TARGET_SETTLES | CRN_L_STREAMS,
                                             .refs = choice_refs,
                                             .infer = choice_infer,
                                             .forward = choice_forward},
                                            {.name = NULL}};
