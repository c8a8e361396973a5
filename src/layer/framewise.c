/* SPDX-License-Identifier: Apache-2.0
 *
 * framewise_statistics (layers-1.md): how well a softmax source predicts its target, over all frames, silence and the
 * others, written to the log per batch. The output is the scalar 0.
 *
 * differs: numbers accumulated over a run aren't given, a run's steps don't know of each other here.
 */
#include <math.h>
#include <string.h>

#include "layer/layer.h"

typedef struct frames_cfg {
  int64_t sil_label_idx, n_bins;
  crn_layer *target;
} frames_cfg;

#define OFF(f) offsetof(frames_cfg, f)
static const crn_opt frames_opts[] = {
    {.name = "sil_label_idx", .type = CRN_OPT_INT, .offset = OFF(sil_label_idx), .doc = "label of silence"},
    {.name = "histogram_num_bins",
     .type = CRN_OPT_INT,
     .offset = OFF(n_bins),
     .dflt = "20",
     .min = 1,
     .max = 10000,
     .doc = "bins of the histogram of the target's probability"},
    CRN_OPT_END};

static crn_status frames_refs(crn_build *b, crn_layer *l) {
  frames_cfg *c = l->cfg;
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  const crn_value *target = !crn_v_is_none(l->common.target) ? l->common.target : l->src[0]->common.target;
  if (!crn_v_is_str(target))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "neither this layer nor its source '%s' has a 'target'", l->src[0]->path);
  const char *key = crn_v_cstr(target);
  const bool full = !strncmp(key, "layer:", 6) || !strncmp(key, "data:", 5);
  const char *name = full ? key + (key[0] == 'l' ? 6 : 0) : crn_arena_printf(crn_build_arena(b), "data:%s", key);
  return name ? crn_layer_ref(b, l, name, CRN_EDGE_DATA, "target", &c->target) : crn_err_memory(crn_build_err(b));
}

static crn_status frames_infer(crn_build *b, crn_layer *l) {
  const frames_cfg *c = l->cfg;
  const crn_tmpl *in = crn_source_tmpl(l, 0);
  l->out_known = in && c->target->out_known;
  if (!l->out_known) return CRN_OK;
  if (in->sparse || in->feature_axis < 0 || in->dtype != CRN_F32 || !c->target->out.sparse)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "needs probabilities over the labels of a sparse target");
  l->out = crn_tmpl_scalar(CRN_I32);
  return CRN_OK;
}

enum { ALL, SIL, NO_SIL, N_PARTS };

typedef struct tally {
  int64_t n[N_PARTS], errors[N_PARTS];
  double ce[N_PARTS];
  int32_t *bins[N_PARTS]; /* of the target's probability */
} tally;

static void count_frame(const frames_cfg *c, tally *t, const crn_tensor *p, int64_t row, int32_t label) {
  const int64_t V = p->shape[1];
  int64_t best = 0;
  for (int64_t v = 1; v < V; v++)
    if (crn_t_get(p, row * V + v) > crn_t_get(p, row * V + best)) best = v;
  const double q = crn_t_get(p, row * V + label);
  int64_t bin = (int64_t)nearbyint(q * (double)c->n_bins);
  bin = bin < 0 ? 0 : bin < c->n_bins ? bin : c->n_bins - 1;
  const int parts[2] = {ALL, label == c->sil_label_idx ? SIL : NO_SIL};
  for (int i = 0; i < 2; i++) {
    t->n[parts[i]]++;
    t->errors[parts[i]] += best != label;
    t->ce[parts[i]] -= log(q > 1e-20 ? q : 1e-20);
    t->bins[parts[i]][bin]++;
  }
}

static void write_tally(crn_run *r, const crn_layer *l, const frames_cfg *c, const tally *t) {
  static const char *const names[N_PARTS] = {"", "_sil", "_no_sil"};
  for (int i = 0; i < N_PARTS; i++) {
    if (!t->n[i]) continue;
    const double n = (double)t->n[i], ce = t->ce[i] / n;
    crn_str s = {0};
    for (int64_t k = 0; k < c->n_bins; k++) crn_str_addf(&s, "%s%d", k ? " " : "", (int)t->bins[i][k]);
    crn_logf(
        r->log, 4,
        "layer '%s': batch%s: %lld frames, loss_ce %g, perplexity %g, frame_error %g, true_label_prob_histogram [%s]",
        l->path, names[i], (long long)t->n[i], ce, exp(ce), (double)t->errors[i] / n, crn_str_get(&s));
    crn_str_free(&s);
  }
}

static crn_status frames_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const frames_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_data_feature_last(r, crn_source(x, l, 0)), *target = crn_value_of(x, l, c->target);
  crn_tensor *p = in && target ? crn_data_flat_frames(r, in) : NULL,
             *labels = p ? crn_data_flat_frames(r, target) : NULL;
  if (!p || !labels) return r->err->code;
  if (p->rank != 2 || labels->rank != 1 || p->shape[0] != labels->shape[0])
    return crn_exec_fail(x, l, "the source has %lld frames, the target %lld", (long long)p->shape[0],
                         (long long)labels->shape[0]);
  tally t = {0};
  for (int i = 0; i < N_PARTS; i++)
    if (!(t.bins[i] = CRN_ARENA_ARRAY(&r->arena, int32_t, c->n_bins))) return crn_err_memory(r->err);
  for (int64_t i = 0; i < p->shape[0]; i++) {
    const int64_t label = (int64_t)crn_t_get(labels, i);
    if (label < 0 || label >= p->shape[1])
      return crn_exec_fail(x, l, "label %lld is not in [0, %lld)", (long long)label, (long long)p->shape[1]);
    count_frame(c, &t, p, i, (int32_t)label);
  }
  write_tally(r, l, c, &t);
  out->beam = NULL;
  out->v = crn_t_full(r, CRN_I32, 0, NULL, 0);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_framewise[] = {{.name = "framewise_statistics",
                                                .doc = "Writes to the log how well a softmax predicts its target.",
                                                .opts = frames_opts,
                                                .cfg_size = sizeof(frames_cfg),
                                                .flags = CRN_L_NEEDS_FUTURE,
                                                .refs = frames_refs,
                                                .infer = frames_infer,
                                                .forward = frames_forward},
                                               {.name = NULL}};
