/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers on alignments of label sequences with frames: ctc_loss (likelihood per sequence), fast_bw (soft alignment),
 * forced_align (best path).
 */
#include <math.h>
#include <string.h>

#include "layer/layer.h"
#include "tensor/ctc_loss.h"

typedef struct align_cfg {
  const char *align_target, *align_target_key, *input_type, *topology;
  const crn_value *ctc_opts, *sprint_opts;
  crn_layer *logits, *targets, *staircase;
  double tdp_scale, am_scale, min_prob;
  int64_t blank_index;
  int label_loop, max_approx, normalized, blank_included;
  bool zero_infinity;
  int64_t blank; /* settled in infer */
} align_cfg;

#define OFF(f) offsetof(align_cfg, f)

/* Scores, lengths, labels and their lengths of a run. */
typedef struct align_run {
  crn_tensor *z;                          /* [T, B, V] */
  crn_tensor *lens, *labels, *label_lens; /* [B], [B, S], [B] */
  int64_t T, B, V;
} align_run;

/* ---- common ---------------------------------------------------------------------------------------------------------
 */

static crn_status wrong_axes(crn_build *b, crn_layer *l, const char *what, const char *want, const crn_tmpl *t) {
  crn_str s = {0};
  crn_tmpl_describe(t, &s);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "%s must be %s, it is %s", what, want, crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

static crn_status check_scores(crn_build *b, crn_layer *l, const char *what, const crn_tmpl *t) {
  if (t->n == 3 && crn_tmpl_batch_axis(t) >= 0 && t->time_axis >= 0 && t->feature_axis >= 0 && !t->sparse &&
      t->dims[t->feature_axis]->size > 0 && t->dtype == CRN_F32)
    return CRN_OK;
  return wrong_axes(b, l, what, "scores [B, T, F]", t);
}

static crn_status check_labels(crn_build *b, crn_layer *l, const char *what, const crn_tmpl *t) {
  if (t->n == 2 && crn_tmpl_batch_axis(t) >= 0 && t->sparse && crn_dtype_is_int(t->dtype)) return CRN_OK;
  return wrong_axes(b, l, what, "labels [B, T]", t);
}

/* Time, batch, feature of a template of three axes. */
static void time_major(const crn_tmpl *t, int perm[3]) {
  perm[0] = t->time_axis;
  perm[1] = crn_tmpl_batch_axis(t);
  perm[2] = t->feature_axis;
}

static crn_status read_scores(crn_exec *x, const crn_data *d, align_run *a) {
  crn_run *r = crn_exec_run(x);
  int perm[3];
  if (!d) return r->err->code;
  time_major(&d->t, perm);
  if (!(d = crn_data_permute(r, d, perm))) return r->err->code;
  a->z = d->v;
  a->lens = crn_data_lens(r, d, 0);
  a->T = d->v->shape[0];
  a->B = d->v->shape[1];
  a->V = d->v->shape[2];
  return a->lens ? CRN_OK : r->err->code;
}

static crn_status read_labels(crn_exec *x, crn_layer *l, crn_layer *from, align_run *a) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_data_batch_major(r, crn_value_of(x, l, from));
  if (!d) return r->err->code;
  a->labels = d->v->dtype == CRN_I32 ? d->v : crn_cast(r, d->v, CRN_I32);
  a->label_lens = crn_data_lens(r, d, 1);
  if (!a->labels || !a->label_lens) return r->err->code;
  if (d->v->shape[0] != a->B)
    return crn_exec_fail(x, l, "there are targets of %lld sequences for scores of %lld", (long long)d->v->shape[0],
                         (long long)a->B);
  return CRN_OK;
}

/* ---- ctc_loss -------------------------------------------------------------------------------------------------------
 */

static const crn_opt ctc_options[] = {
    {.name = "logits", .type = CRN_OPT_LAYER, .offset = OFF(logits), .doc = "layer with scores [B, T, F]"},
    {.name = "targets", .type = CRN_OPT_LAYER, .offset = OFF(targets), .doc = "layer with labels [B, S]"},
    {.name = "logits_normalized",
     .type = CRN_OPT_BOOL,
     .offset = OFF(normalized),
     .dflt = "False",
     .doc = "the scores are log probabilities already"},
    {.name = "blank_index",
     .type = CRN_OPT_INT,
     .offset = OFF(blank_index),
     .dflt = "-1",
     .doc = "label of the blank, negative from the end"},
    {.name = "max_approx",
     .type = CRN_OPT_BOOL,
     .offset = OFF(max_approx),
     .dflt = "False",
     .doc = "best alignment instead of all"},
    {.name = "label_loop",
     .type = CRN_OPT_BOOL,
     .offset = OFF(label_loop),
     .dflt = "True",
     .doc = "a label may last several frames"},
    CRN_OPT_END};

static crn_status settle_blank(crn_build *b, crn_layer *l, align_cfg *c, const char *option, int64_t given, int64_t V) {
  c->blank = given < 0 ? V + given : given;
  if (c->blank >= 0 && c->blank < V) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s' is %lld, but there are %lld labels", option, (long long)given,
                        (long long)V);
}

static crn_status ctc_infer(crn_build *b, crn_layer *l) {
  align_cfg *c = l->cfg;
  l->out_known = c->logits->out_known && c->targets->out_known;
  if (!l->out_known) return CRN_OK;
  const crn_tmpl *z = &c->logits->out, *t = &c->targets->out;
  CRN_TRY(check_scores(b, l, "option 'logits'", z));
  CRN_TRY(check_labels(b, l, "option 'targets'", t));
  const int64_t V = crn_tmpl_dim(z), n = crn_tmpl_dim(t);
  if (n != V && n != V - 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "the targets have dim %lld, the logits %lld: expected the same or one less", (long long)n,
                          (long long)V);
  CRN_TRY(settle_blank(b, l, c, "blank_index", c->blank_index, V));
  const crn_value *v = crn_build_config(b, "tf_native_ctc_zero_infinity");
  c->zero_infinity = crn_v_is_none(v) ? crn_build_version(b) >= 30 : crn_v_truth(v);
  l->out = crn_tmpl_scalar(CRN_F32);
  l->out.dims[l->out.n++] = z->dims[crn_tmpl_batch_axis(z)];
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status ctc_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const align_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  align_run a = {0};
  CRN_TRY(read_scores(x, crn_value_of(x, l, c->logits), &a));
  CRN_TRY(read_labels(x, l, c->targets, &a));
  const bool normalize = c->normalized <= 0, best = c->max_approx > 0;
  const crn_ctc_batch batch = {.z = a.z, .lens = a.lens, .labels = a.labels, .label_lens = a.label_lens};
  const crn_ctc_spec spec = {.blank = c->blank,
                             .label_loop = c->label_loop > 0,
                             .viterbi = best,
                             .normalize = normalize,
                             .softmax_grad = normalize};
  int64_t n_invalid;
  const bool *valid = crn_ctc_valid(r, &batch, spec.label_loop, &n_invalid);
  crn_ctc_lack *lack = CRN_ARENA_ARRAY(&r->arena, crn_ctc_lack, a.B + 1);
  if (!valid || !lack) return crn_run_failed(r) ? r->err->code : crn_err_memory(r->err);
  for (int64_t i = 0; i < a.B && !c->zero_infinity; i++)
    lack[i] = (crn_ctc_lack){best ? (double)INFINITY : 0, normalize, best && normalize};
  out->v = crn_ctc_loss(r, &batch, &spec, valid, n_invalid > 0 ? lack : NULL);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- fast_bw --------------------------------------------------------------------------------------------------------
 */

static const crn_opt bw_opts[] = {
    {.name = "align_target",
     .type = CRN_OPT_STR,
     .offset = OFF(align_target),
     .choices = "ctc|sprint|staircase",
     .doc = "what the automata come from"},
    {.name = "align_target_key",
     .type = CRN_OPT_STR,
     .offset = OFF(align_target_key),
     .dflt = "None",
     .doc = "data key of the labels, for ctc"},
    {.name = "ctc_opts",
     .type = CRN_OPT_VALUE,
     .offset = OFF(ctc_opts),
     .dflt = "None",
     .doc = "blank_idx, label_loop"},
    {.name = "sprint_opts", .type = CRN_OPT_VALUE, .offset = OFF(sprint_opts), .dflt = "None", .doc = "for sprint"},
    {.name = "staircase_seq_len_source",
     .type = CRN_OPT_LAYER,
     .offset = OFF(staircase),
     .dflt = "None",
     .doc = "layer whose lengths are the numbers of states, for staircase"},
    {.name = "input_type",
     .type = CRN_OPT_STR,
     .offset = OFF(input_type),
     .dflt = "\"log_prob\"",
     .choices = "log_prob|prob",
     .doc = "what the source holds"},
    {.name = "tdp_scale",
     .type = CRN_OPT_FLOAT,
     .offset = OFF(tdp_scale),
     .dflt = "1.0",
     .doc = "factor of the automaton's weights"},
    {.name = "am_scale", .type = CRN_OPT_FLOAT, .offset = OFF(am_scale), .dflt = "1.0", .doc = "factor of the scores"},
    {.name = "min_prob",
     .type = CRN_OPT_FLOAT,
     .offset = OFF(min_prob),
     .dflt = "0.0",
     .min = 0,
     .max = 1,
     .doc = "smaller probabilities are raised to this"},
    CRN_OPT_END};

static crn_status bw_refs(crn_build *b, crn_layer *l) {
  align_cfg *c = l->cfg;
  if (!strcmp(c->align_target, "sprint"))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'align_target': \"sprint\"");
  if (!strcmp(c->align_target, "staircase"))
    return c->staircase ? CRN_OK : crn_layer_fail(b, l, CRN_E_CONFIG, "option 'staircase_seq_len_source' is required");
  if (!c->align_target_key) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'align_target_key' is required for ctc");
  const char *name = crn_arena_printf(crn_build_arena(b), "data:%s", c->align_target_key);
  if (!name) return crn_err_memory(crn_build_err(b));
  return crn_layer_ref(b, l, name, CRN_EDGE_DATA, "align_target_key", &c->targets);
}

static crn_status bw_ctc_opts(crn_build *b, crn_layer *l, align_cfg *c, int64_t V) {
  const crn_value *o = c->ctc_opts;
  int64_t blank = crn_tmpl_dim(&c->targets->out);
  c->label_loop = 1;
  if (!crn_v_is_none(o) && !crn_v_is_dict(o))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'ctc_opts': expected a dict");
  for (size_t i = 0; i < crn_v_len(o); i++) {
    const char *key = crn_v_cstr(o->u.dict.keys[i]);
    if (key && !strcmp(key, "blank_idx") && crn_v_to_int(o->u.dict.vals[i], &blank)) continue;
    if (key && (!strcmp(key, "label_loop") || !strcmp(key, "ctc_merge_repeated"))) {
      c->label_loop = crn_v_truth(o->u.dict.vals[i]);
      continue;
    }
    return crn_layer_fail(
        b, l, CRN_E_CONFIG,
        "option 'ctc_opts': '%s' is not an option (blank_idx, an integer, label_loop, ctc_merge_repeated)",
        key ? key : "?");
  }
  if (crn_tmpl_dim(&c->targets->out) + 1 != V)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source has dim %lld, expected %lld: the target's and blank",
                          (long long)V, (long long)crn_tmpl_dim(&c->targets->out) + 1);
  return settle_blank(b, l, c, "ctc_opts", blank, V);
}

static crn_status bw_infer(crn_build *b, crn_layer *l) {
  align_cfg *c = l->cfg;
  bool known;
  int perm[3];
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known && (!c->targets || c->targets->out_known) && (!c->staircase || c->staircase->out_known);
  if (!l->out_known) return CRN_OK;
  CRN_TRY(check_scores(b, l, "the source", &l->out));
  if (c->targets) {
    CRN_TRY(check_labels(b, l, "option 'align_target_key'", &c->targets->out));
    CRN_TRY(bw_ctc_opts(b, l, c, crn_tmpl_dim(&l->out)));
  } else if (c->staircase->out.time_axis < 0) {
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'staircase_seq_len_source': the layer has no time axis");
  }
  time_major(&l->out, perm);
  const bool feature = l->out.feature_explicit;
  l->out.time_explicit = l->out.feature_explicit = true;
  crn_tmpl_permute(&l->out, perm);
  l->out.feature_explicit = feature;
  return CRN_OK;
}

/* Log probabilities of scores that are probabilities, exactly where it is known how they were made. */
static crn_tensor *log_of(crn_run *r, const crn_data *d) {
  if (d->pre && d->pre_act && d->pre->rank == d->v->rank) {
    if (!strcmp(d->pre_act, "softmax") && d->t.feature_axis == d->t.n - 1) return crn_log_softmax(r, d->pre);
    if (!strcmp(d->pre_act, "exp")) return d->pre;
    if (!strcmp(d->pre_act, "sigmoid")) return crn_unary(r, CRN_U_LOG_SIGMOID, d->pre);
  }
  return crn_safe_log(r, d->v, 1e-20);
}

static crn_status read_log_probs(crn_exec *x, crn_layer *l, const char *input_type, align_run *a) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  if (!strcmp(input_type, "prob")) {
    crn_data *d = crn_data_copy(r, in);
    if (!d || !(d->v = log_of(r, in))) return r->err->code;
    d->pre = NULL;
    d->pre_act = NULL;
    in = d;
  }
  CRN_TRY(read_scores(x, in, a));
  a->z = crn_t_stop_gradient(r, a->z);
  return a->z ? CRN_OK : r->err->code;
}

static double log_add(double a, double b) {
  const double m = a > b ? a : b;
  return m == -INFINITY ? m : m + log(exp(a - m) + exp(b - m));
}

/* Forward-backward over states 0 … n-1, one after the other, each at least one frame: shares of one sequence. */
static double staircase(const align_run *a, int64_t b, int64_t n, double *work, crn_tensor *share) {
  const int64_t L = crn_t_i32(a->lens)[b];
  double *f = work, *g = work + a->T * n;
  if (n < 1 || L < n) return -INFINITY;
  for (int64_t t = 0; t < L; t++)
    for (int64_t s = 0; s < n; s++) {
      const double z = crn_t_get(a->z, (t * a->B + b) * a->V + s);
      const double before =
          t == 0 ? (s == 0 ? 0 : -INFINITY) : log_add(f[(t - 1) * n + s], s ? f[(t - 1) * n + s - 1] : -INFINITY);
      f[t * n + s] = z + before;
    }
  for (int64_t t = L; t-- > 0;)
    for (int64_t s = 0; s < n; s++) {
      const int64_t at = ((t + 1) * a->B + b) * a->V + s;
      if (t == L - 1)
        g[t * n + s] = s == n - 1 ? 0 : -INFINITY;
      else
        g[t * n + s] = log_add(g[(t + 1) * n + s] + crn_t_get(a->z, at),
                               s + 1 < n ? g[(t + 1) * n + s + 1] + crn_t_get(a->z, at + 1) : -INFINITY);
    }
  const double sum = f[(L - 1) * n + n - 1];
  for (int64_t t = 0; t < L && sum > -INFINITY; t++)
    for (int64_t s = 0; s < n; s++) {
      const double p = exp(f[t * n + s] + g[t * n + s] - sum);
      const int64_t at = (t * a->B + b) * a->V + s;
      if (share->dtype == CRN_F64)
        crn_t_f64(share)[at] = p;
      else
        crn_t_f32(share)[at] = (float)p;
    }
  return sum;
}

static crn_status staircase_all(crn_exec *x, crn_layer *l, const align_run *a, crn_tensor **share, crn_tensor **loss) {
  const align_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_value_of(x, l, c->staircase);
  crn_tensor *n = d ? crn_data_lens(r, d, d->t.time_axis) : NULL;
  *share = crn_t_zeros(r, a->z->dtype, 3, a->z->shape);
  *loss = crn_t_zeros(r, a->z->dtype, 1, &a->B);
  double *work = crn_arena_alloc(&r->arena, sizeof(*work) * (size_t)(2 * a->T * a->V + 1));
  if (!n || !*share || !*loss || !work) return crn_run_failed(r) ? r->err->code : crn_err_memory(r->err);
  for (int64_t b = 0; b < a->B; b++) {
    const int64_t states = crn_t_i32(n)[b];
    if (states > a->V)
      return crn_exec_fail(x, l, "sequence %lld has %lld states, but the source has dim %lld", (long long)b,
                           (long long)states, (long long)a->V);
    const double sum = staircase(a, b, states, work, *share);
    if ((*loss)->dtype == CRN_F64)
      crn_t_f64(*loss)[b] = -sum;
    else
      crn_t_f32(*loss)[b] = (float)-sum;
  }
  return CRN_OK;
}

static crn_status bw_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const align_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  align_run a = {0};
  if (!in) return r->err->code;
  CRN_TRY(read_log_probs(x, l, c->input_type, &a));
  out->len[0] = in->len[in->t.time_axis];
  if (c->min_prob > 0) a.z = crn_clip(r, a.z, log(c->min_prob), (double)INFINITY);
  if (a.z && c->am_scale != 1) a.z = crn_scale(r, a.z, c->am_scale);
  if (!a.z) return r->err->code;
  if (c->staircase && !c->targets) return staircase_all(x, l, &a, &out->v, &out->output_loss);
  CRN_TRY(read_labels(x, l, c->targets, &a));
  out->v =
      crn_ctc_alignment(r, a.z, a.lens, a.labels, a.label_lens, c->blank, c->label_loop > 0, false, &out->output_loss);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- forced_align ---------------------------------------------------------------------------------------------------
 */

static const crn_opt forced_opts[] = {
    {.name = "align_target", .type = CRN_OPT_LAYER, .offset = OFF(targets), .doc = "layer with labels [B, S]"},
    {.name = "topology",
     .type = CRN_OPT_STR,
     .offset = OFF(topology),
     .choices = "ctc|rna",
     .doc = "ctc: labels may repeat; rna: one frame each"},
    {.name = "input_type",
     .type = CRN_OPT_STR,
     .offset = OFF(input_type),
     .choices = "log_prob|prob",
     .doc = "what the source holds"},
    {.name = "blank_idx",
     .type = CRN_OPT_INT,
     .offset = OFF(blank_index),
     .dflt = "-1",
     .doc = "label of the blank, negative from the end"},
    {.name = "blank_included",
     .type = CRN_OPT_BOOL,
     .offset = OFF(blank_included),
     .dflt = "False",
     .doc = "the target's labels include the blank"},
    CRN_OPT_END};

static crn_status forced_check(crn_build *b, crn_layer *l, align_cfg *c, int64_t V) {
  const int64_t n = crn_tmpl_dim(&c->targets->out), want = c->blank_included > 0 ? V : V - 1;
  CRN_TRY(settle_blank(b, l, c, "blank_idx", c->blank_index, V));
  if (n != want)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the target has dim %lld, expected %lld for a source of dim %lld",
                          (long long)n, (long long)want, (long long)V);
  if (c->blank_included > 0 || c->blank == V - 1) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'blank_idx' must be the last label without 'blank_included'");
}

static crn_status forced_infer(crn_build *b, crn_layer *l) {
  align_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  int perm[3];
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known && c->targets->out_known;
  if (!l->out_known) return CRN_OK;
  CRN_TRY(check_scores(b, l, "the source", &in));
  CRN_TRY(check_labels(b, l, "option 'align_target'", &c->targets->out));
  CRN_TRY(forced_check(b, l, c, crn_tmpl_dim(&in)));
  time_major(&in, perm);
  l->out = crn_tmpl_scalar(CRN_I32);
  l->out.sparse = true;
  l->out.sparse_dim = in.dims[perm[2]];
  l->out.n = 2;
  l->out.dims[0] = in.dims[perm[0]];
  l->out.dims[1] = in.dims[perm[1]];
  l->out.time_axis = 0;
  l->out.time_explicit = true;
  crn_tmpl score = crn_tmpl_scalar(CRN_F32);
  score.dims[score.n++] = in.dims[perm[1]];
  crn_tmpl_update_roles(&score);
  return crn_layer_add_sub(b, l, "scores", &score);
}

static crn_status forced_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const align_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  align_run a = {0};
  crn_tensor *loss = NULL;
  if (!in) return r->err->code;
  CRN_TRY(read_log_probs(x, l, c->input_type, &a));
  CRN_TRY(read_labels(x, l, c->targets, &a));
  out->len[0] = in->len[in->t.time_axis];
  crn_tensor *path =
      crn_ctc_alignment(r, a.z, a.lens, a.labels, a.label_lens, c->blank, !strcmp(c->topology, "ctc"), true, &loss);
  out->v = path ? crn_argmax(r, path, 2, CRN_I32) : NULL;
  crn_data *score = loss ? crn_data_new(r, &l->subs[0].t, crn_scale(r, loss, -1)) : NULL;
  if (!out->v || !score) return r->err->code;
  score->beam = out->beam;
  return crn_sub_out(x, l, 0, score);
}

const crn_layer_desc crn_family_align[] = {{.name = "ctc_loss",
                                            .doc = "Computes the CTC loss of each sequence.",
                                            .opts = ctc_options,
                                            .cfg_size = sizeof(align_cfg),
                                            .flags = CRN_L_NO_SOURCES | CRN_L_MANY_INPUTS | CRN_L_NEEDS_FUTURE,
                                            .infer = ctc_infer,
                                            .forward = ctc_forward},
                                           {.name = "fast_bw",
                                            .doc = "Gives the soft alignment of labels with frames.",
                                            .opts = bw_opts,
                                            .cfg_size = sizeof(align_cfg),
                                            .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,
                                            .refs = bw_refs,
                                            .infer = bw_infer,
                                            .forward = bw_forward},
                                           {.name = "forced_align",
                                            .doc = "Gives the best alignment of labels with frames.",
                                            .opts = forced_opts,
                                            .cfg_size = sizeof(align_cfg),
                                            .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,
                                            .infer = forced_infer,
                                            .forward = forced_forward},
                                           {.name = NULL}};
