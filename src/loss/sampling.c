/* SPDX-License-Identifier: Apache-2.0
 *
 * sampling_loss: softmax over the target and a few sampled labels, or noise-contrastive estimation, for large numbers
 * of labels. It takes the layer's input and its weights [V, n] instead of its output.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "loss/frames.h"

typedef struct sampling_cfg {
  int64_t num_sampled, num_splits;
  const char *sampler;
  const crn_value *sampler_args, *remove_accidental_hits;
  int nce_loss, use_full_softmax;
  double nce_log_norm_term;
} sampling_cfg;

#define OFF(f) offsetof(sampling_cfg, f)
static const crn_opt sampling_opts[] = {{.name = "num_sampled",
                                         .type = CRN_OPT_INT,
                                         .offset = OFF(num_sampled),
                                         .dflt = "128",
                                         .min = 1,
                                         .max = 2e9,
                                         .doc = "labels drawn per part"},
                                        {.name = "num_splits",
                                         .type = CRN_OPT_INT,
                                         .offset = OFF(num_splits),
                                         .dflt = "1",
                                         .min = 1,
                                         .max = 2e9,
                                         .doc = "parts of consecutive frames with samples of their own"},
                                        {.name = "sampler",
                                         .type = CRN_OPT_STR,
                                         .offset = OFF(sampler),
                                         .dflt = "\"log_uniform\"",
                                         .choices = "log_uniform|uniform|learned_unigram|fixed_unigram",
                                         .doc = "distribution that labels are drawn from"},
                                        {.name = "nce_loss",
                                         .type = CRN_OPT_BOOL,
                                         .offset = OFF(nce_loss),
                                         .dflt = "False",
                                         .doc = "noise-contrastive estimation instead of sampled softmax"},
                                        {.name = "use_full_softmax",
                                         .type = CRN_OPT_BOOL,
                                         .offset = OFF(use_full_softmax),
                                         .dflt = "False",
                                         .doc = "cross entropy with all labels instead"},
                                        {.name = "remove_accidental_hits",
                                         .type = CRN_OPT_VALUE,
                                         .offset = OFF(remove_accidental_hits),
                                         .dflt = "None",
                                         .doc = "drop samples that are the target; None: for softmax only"},
                                        {.name = "sampler_args",
                                         .type = CRN_OPT_VALUE,
                                         .offset = OFF(sampler_args),
                                         .dflt = "None",
                                         .doc = "dict: unigrams and distortion of fixed_unigram"},
                                        {.name = "nce_log_norm_term",
                                         .type = CRN_OPT_FLOAT,
                                         .offset = OFF(nce_log_norm_term),
                                         .dflt = "0.0",
                                         .doc = "subtracted from scores of nce_loss"},
                                        CRN_OPT_END};
#undef OFF

static crn_status check_sampler(crn_build *b, crn_layer *l, const sampling_cfg *c, int64_t V) {
  const crn_value *args = c->sampler_args;
  const bool fixed = !strcmp(c->sampler, "fixed_unigram");
  if (!strcmp(c->sampler, "learned_unigram"))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: loss option 'sampler' learned_unigram");
  for (size_t i = 0; i < crn_v_len(args) && crn_v_is_dict(args); i++) {
    const char *key = crn_v_cstr(args->u.dict.keys[i]);
    if (!fixed || !key || (strcmp(key, "unigrams") != 0 && strcmp(key, "distortion") != 0))
      return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                            "not implemented: loss option 'sampler_args': '%s' of sampler %s", key ? key : "?",
                            c->sampler);
  }
  if (!fixed) return CRN_OK;
  const crn_value *u = crn_v_get(args, "unigrams");
  double w;
  bool ok = crn_v_is_seq(u) && (int64_t)crn_v_len(u) == V;
  for (size_t i = 0; ok && i < crn_v_len(u); i++) ok = crn_v_to_float(crn_v_at(u, i), &w) && w >= 0;
  if (ok) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG,
                        "loss option 'sampler_args': fixed_unigram needs 'unigrams', a list of %lld weights",
                        (long long)V);
}

static crn_status sampling_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  const sampling_cfg *c = loss->cfg;
  CRN_TRY(crn_frames_check(b, l, loss));
  if (!loss->target->out.sparse)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss 'sampling_loss' needs a sparse target, but '%s' is dense",
                          loss->target->path);
  const crn_value *bias = crn_v_get(l->dict, "with_bias");
  if (!crn_v_truth(crn_v_get(l->dict, "use_transposed_weights")) || (bias && !crn_v_truth(bias)))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "loss 'sampling_loss' needs weights W [V, n] and a bias: a linear layer "
                          "with use_transposed_weights True and with_bias True");
  const int64_t V = crn_tmpl_dim(&l->out);
  if (!c->use_full_softmax && c->num_sampled > V)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'num_sampled' is %lld, but there are only %lld labels",
                          (long long)c->num_sampled, (long long)V);
  return check_sampler(b, l, c, V);
}

/* ---- drawing ---- */

typedef struct sampler {
  const sampling_cfg *c;
  int64_t V;
  double *cumulative; /* fixed_unigram: [V], the last is 1 */
  double draws;       /* that it took */
} sampler;

static crn_status sampler_open(crn_run *r, sampler *s) {
  double sum = 0, w = 0, distortion = 1;
  if (strcmp(s->c->sampler, "fixed_unigram") != 0) return CRN_OK;
  const crn_value *u = crn_v_get(s->c->sampler_args, "unigrams"), *d = crn_v_get(s->c->sampler_args, "distortion");
  if (d) (void)crn_v_to_float(d, &distortion);
  s->cumulative = CRN_ARENA_ARRAY(&r->arena, double, s->V);
  if (!s->cumulative) return crn_err_memory(r->err);
  for (int64_t v = 0; v < s->V; v++) {
    (void)crn_v_to_float(crn_v_at(u, (size_t)v), &w);
    s->cumulative[v] = sum += pow(w, distortion);
  }
  for (int64_t v = 0; v < s->V; v++) s->cumulative[v] /= sum;
  return CRN_OK;
}

static double probability(const sampler *s, int64_t v) {
  if (s->cumulative) return s->cumulative[v] - (v ? s->cumulative[v - 1] : 0);
  if (!strcmp(s->c->sampler, "uniform")) return 1.0 / (double)s->V;
  return log((double)(v + 2) / (double)(v + 1)) / log((double)s->V + 1);
}

static int64_t draw(const sampler *s, double u) {
  if (s->cumulative) {
    int64_t lo = 0, hi = s->V - 1;
    while (lo < hi) {
      const int64_t mid = (lo + hi) / 2;
      if (u < s->cumulative[mid])
        hi = mid;
      else
        lo = mid + 1;
    }
    return lo;
  }
  const double x = strcmp(s->c->sampler, "uniform") ? exp(u * log((double)s->V + 1)) - 1 : u * (double)s->V;
  return x < (double)s->V ? (int64_t)x : s->V - 1;
}

/* log of how often v is expected among the samples. */
static double log_expected(const sampler *s, int64_t v) { return log(-expm1(s->draws * log1p(-probability(s, v)))); }

/* Different labels, drawn until there are enough. */
static crn_status draw_labels(crn_exec *x, crn_layer *l, sampler *s, int64_t part, int32_t *labels) {
  crn_run *r = crn_exec_run(x);
  bool *seen = CRN_ARENA_ARRAY(&r->arena, bool, s->V);
  char what[64];
  (void)snprintf(what, sizeof what, "samples %lld", (long long)part);
  const crn_rng rng = crn_rng_make(r->seed, r->step, crn_random_name(x, l, what, false));
  int64_t n = 0, possible = 0;
  if (!seen) return crn_err_memory(r->err);
  for (int64_t v = 0; v < s->V; v++) possible += probability(s, v) > 0;
  if (possible < s->c->num_sampled)
    return crn_exec_fail(x, l, "%lld labels are to be drawn, but only %lld can be", (long long)s->c->num_sampled,
                         (long long)possible);
  for (uint64_t i = 0; n < s->c->num_sampled; i++) {
    const int64_t v = draw(s, crn_rng_uniform_double(&rng, i));
    s->draws = (double)i + 1;
    if (seen[v]) continue;
    seen[v] = true;
    labels[n++] = (int32_t)v;
  }
  return CRN_OK;
}

/* ---- scores ---- */

typedef struct sampling_run {
  crn_exec *x;
  crn_run *r;
  crn_layer *l;
  sampler s;
  crn_tensor *h, *w, *bias, *target; /* [N, n], [V, n], [V], [N] */
} sampling_run;

static crn_tensor *log_expected_of(sampling_run *p, const crn_tensor *labels) {
  crn_tensor *q = crn_t_new(p->r, p->r->real, 1, labels->shape);
  for (int64_t i = 0; q && i < labels->shape[0]; i++) {
    const double e = log_expected(&p->s, crn_t_i32(labels)[i]);
    if (p->r->real == CRN_F32)
      crn_t_f32(q)[i] = (float)e;
    else
      crn_t_f64(q)[i] = e;
  }
  return q;
}

/* Value [n] of frames [begin, begin + n). */
static crn_tensor *part_value(sampling_run *p, int64_t part, int64_t begin, int64_t n) {
  const sampling_cfg *c = p->s.c;
  crn_run *r = p->r;
  crn_tensor *h = crn_t_rows(r, p->h, begin, n), *a = crn_t_rows(r, p->target, begin, n);
  crn_tensor *labels = crn_t_new(r, CRN_I32, 1, &c->num_sampled);
  if (!h || !a || !labels || draw_labels(p->x, p->l, &p->s, part, crn_t_i32(labels)) != CRN_OK) return NULL;
  crn_tensor *wa = crn_gather(r, p->w, a, 0), *ws = crn_gather(r, p->w, labels, 0);
  crn_tensor *true_s =
      crn_add(r, crn_reduce(r, CRN_R_SUM, crn_mul(r, h, wa), 1u << 1, false), crn_gather(r, p->bias, a, 0));
  crn_tensor *noise_s = crn_linear(r, h, ws, true, crn_gather(r, p->bias, labels, 0));
  true_s = crn_sub(r, true_s, log_expected_of(p, a));
  noise_s = crn_sub(r, noise_s, log_expected_of(p, labels));
  const bool drop = crn_v_is_none(c->remove_accidental_hits) ? !c->nce_loss : crn_v_truth(c->remove_accidental_hits);
  crn_tensor *other = crn_binary(r, CRN_B_NOT_EQUAL, crn_expand_dims(r, a, 1), labels);
  if (drop && noise_s) noise_s = crn_mask_fill(r, noise_s, other, -1e30);
  if (!c->nce_loss) {
    crn_tensor *both[2] = {crn_expand_dims(r, true_s, 1), noise_s};
    crn_tensor *zero = crn_t_zeros(r, CRN_I32, 1, &n);
    return crn_sparse_ce_logits(r, crn_concat(r, 2, both, 1), zero);
  }
  true_s = crn_add_scalar(r, true_s, -c->nce_log_norm_term);
  noise_s = crn_add_scalar(r, noise_s, -c->nce_log_norm_term);
  crn_tensor *noise = crn_unary(r, CRN_U_SOFTPLUS, noise_s);
  return crn_add(r, crn_unary(r, CRN_U_SOFTPLUS, crn_scale(r, true_s, -1)),
                 noise ? crn_reduce(r, CRN_R_SUM, noise, 1u << 1, false) : NULL);
}

static crn_tensor *sampled_value(sampling_run *p) {
  const int64_t N = p->h->shape[0], wanted = p->s.c->num_splits, splits = wanted < N ? wanted : N ? N : 1;
  crn_tensor **parts = CRN_ARENA_ARRAY(&p->r->arena, crn_tensor *, splits);
  if (!parts || sampler_open(p->r, &p->s) != CRN_OK) return NULL;
  for (int64_t i = 0; i < splits; i++) {
    const int64_t begin = i * (N / splits);
    parts[i] = part_value(p, i, begin, i == splits - 1 ? N - begin : N / splits);
    if (!parts[i]) return NULL;
  }
  return splits == 1 ? parts[0] : crn_concat(p->r, (int)splits, parts, 0);
}

static crn_status sampling_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const sampling_cfg *c = loss->cfg;
  sampling_run p = {.x = x, .r = crn_exec_run(x), .l = l, .s = {.c = c}};
  crn_run *r = p.r;
  crn_frames f;
  CRN_TRY(crn_frames_open(&f, x, l, loss, io));
  crn_tensor *y = f.softmax ? crn_frames_logits(&f) : crn_frames_output(&f);
  const crn_data *in = crn_data_feature_last(r, crn_input(x, l));
  p.h = in ? crn_frames_of(&f, in) : NULL;
  p.target = crn_frames_target(&f, y);
  p.w = crn_param_get(x, l, "W");
  p.bias = crn_param_get(x, l, "b");
  if (!p.h || !p.target || !p.w || !p.bias) return r->err->code;
  p.s.V = p.w->shape[0];
  if (in->t.sparse || p.h->rank != 2 || p.h->shape[1] != p.w->shape[1])
    return crn_exec_fail(x, l, "needs a dense input with the %lld features of the weights", (long long)p.w->shape[1]);
  for (int64_t i = 0; i < p.target->shape[0]; i++)
    if (crn_t_i32(p.target)[i] < 0 || crn_t_i32(p.target)[i] >= p.s.V)
      return crn_exec_fail(x, l, "target %d is not a label: there are %lld", (int)crn_t_i32(p.target)[i],
                           (long long)p.s.V);
  crn_tensor *value = c->use_full_softmax ? crn_sparse_ce_logits(r, crn_linear(r, p.h, p.w, true, p.bias), p.target)
                                          : sampled_value(&p);
  return crn_frames_give(&f, value, crn_frames_error(&f, y, p.target));
}

const crn_loss_desc crn_losses_sampling[] = {
    {.name = "sampling_loss",
     .doc = "Cross entropy against a few sampled labels (sampled softmax or NCE).",
     .opts = sampling_opts,
     .cfg_size = sizeof(sampling_cfg),
     .flags = CRN_LOSS_NEEDS_TARGET,
     .check = sampling_check,
     .compute = sampling_compute},
    {.name = NULL}};
