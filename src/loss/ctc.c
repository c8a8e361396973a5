/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss ctc: likelihood of the target under all alignments (or the best one), in the three kinds of the original:
 * normal, native and viterbi. They differ in what sequences without any alignment give (losses.md).
 */
#include <math.h>
#include <string.h>

#include "loss/sequences.h"
#include "tensor/ctc_decode.h"
#include "tensor/ctc_loss.h"

typedef struct ctc_cfg {
  int target_collapse_repeated, auto_clip_target_len, output_in_log_space, use_native, use_viterbi;
  int64_t beam_width;
  const crn_value *ctc_opts;
  /* of ctc_opts */
  bool collapse, label_loop, ignore_longer, normalize, softmax_grad, zero_infinity_set, zero_infinity;
  int64_t blank;
} ctc_cfg;

#define OFF(f) offsetof(ctc_cfg, f)
static const crn_opt ctc_options[] = {
    {.name = "target_collapse_repeated",
     .type = CRN_OPT_BOOL,
     .offset = OFF(target_collapse_repeated),
     .dflt = "False",
     .doc = "merge equal neighbours of the target first"},
    {.name = "auto_clip_target_len",
     .type = CRN_OPT_BOOL,
     .offset = OFF(auto_clip_target_len),
     .dflt = "False",
     .doc = "cut targets to one label less than there are frames"},
    {.name = "output_in_log_space",
     .type = CRN_OPT_BOOL,
     .offset = OFF(output_in_log_space),
     .dflt = "False",
     .doc = "the output holds logarithms, or any scores"},
    {.name = "beam_width",
     .type = CRN_OPT_INT,
     .offset = OFF(beam_width),
     .dflt = "100",
     .min = 1,
     .max = 100000,
     .doc = "hypotheses of the search for the error in evaluation; 1: best label per frame"},
    {.name = "ctc_opts",
     .type = CRN_OPT_VALUE,
     .offset = OFF(ctc_opts),
     .dflt = "None",
     .doc = "dict, further options"},
    {.name = "use_native",
     .type = CRN_OPT_BOOL,
     .offset = OFF(use_native),
     .dflt = "False",
     .doc = "full sum as the original's own operation"},
    {.name = "use_viterbi",
     .type = CRN_OPT_BOOL,
     .offset = OFF(use_viterbi),
     .dflt = "False",
     .doc = "best alignment instead of all"},
    CRN_OPT_END};

static int64_t ctc_output_dim(const void *cfg, int64_t target_dim) { return (void)cfg, target_dim + 1; }

/* ---- construction ---- */

static crn_status read_ctc_opt(crn_build *b, crn_layer *l, ctc_cfg *c, const char *key, const crn_value *v) {
  const bool on = crn_v_truth(v);
  if (!c->use_native && !strcmp(key, "preprocess_collapse_repeated"))
    c->collapse = on;
  else if (!strcmp(key, "ctc_merge_repeated"))
    c->label_loop = on;
  else if (!c->use_native && !strcmp(key, "ignore_longer_outputs_than_inputs"))
    c->ignore_longer = on;
  else if (c->use_native && !strcmp(key, "label_loop"))
    c->label_loop = on;
  else if (c->use_native && !strcmp(key, "logits_normalize"))
    c->normalize = on;
  else if (c->use_native && !strcmp(key, "grad_wrt_softmax_in"))
    c->softmax_grad = on;
  else if (c->use_native && !strcmp(key, "blank_index") && crn_v_to_int(v, &c->blank))
    return CRN_OK;
  else if (c->use_native && !strcmp(key, "zero_infinity")) {
    c->zero_infinity_set = !crn_v_is_none(v);
    c->zero_infinity = on;
  } else {
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'ctc_opts': '%s' is not an option of %s ctc (%s)", key,
                          c->use_native ? "native" : "normal",
                          c->use_native ? "label_loop, ctc_merge_repeated, logits_normalize, grad_wrt_softmax_in, "
                                          "blank_index (an integer), zero_infinity"
                                        : "preprocess_collapse_repeated, ctc_merge_repeated, "
                                          "ignore_longer_outputs_than_inputs");
  }
  return CRN_OK;
}

/* Whether sequences without an alignment count nothing: option, config key, else by version. */
static bool zero_infinity(crn_build *b, const ctc_cfg *c) {
  const crn_value *v = crn_build_config(b, "tf_native_ctc_zero_infinity");
  if (c->zero_infinity_set) return c->zero_infinity;
  return crn_v_is_none(v) ? crn_build_version(b) >= 30 : crn_v_truth(v);
}

static crn_status ctc_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  ctc_cfg *c = loss->cfg;
  const crn_value *o = c->ctc_opts;
  if (!loss->target->out.sparse)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss 'ctc' needs a sparse target, but '%s' is dense",
                          loss->target->path);
  CRN_TRY(crn_sequences_check(b, l, loss, true));
  c->label_loop = c->normalize = c->softmax_grad = true;
  c->blank = -1;
  if (!crn_v_is_none(o) && !crn_v_is_dict(o))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'ctc_opts': expected a dict, got %s", crn_v_kind_name(o));
  if (c->use_viterbi && crn_v_len(o) > 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'ctc_opts' must be empty with use_viterbi");
  for (size_t i = 0; i < crn_v_len(o); i++) {
    const char *key = crn_v_cstr(o->u.dict.keys[i]);
    CRN_TRY(read_ctc_opt(b, l, c, key ? key : "?", o->u.dict.vals[i]));
  }
  c->zero_infinity = zero_infinity(b, c);
  const bool own = c->use_native || c->use_viterbi;
  if (own && (c->target_collapse_repeated || c->auto_clip_target_len))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option '%s' does not go with %s",
                          c->target_collapse_repeated ? "target_collapse_repeated" : "auto_clip_target_len",
                          c->use_native ? "use_native" : "use_viterbi");
  if (c->use_native && c->beam_width != 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'beam_width' must be 1 with use_native, got %lld",
                          (long long)c->beam_width);
  return CRN_OK;
}

/* ---- targets ---- */

typedef struct ctc_run {
  crn_exec *x;
  crn_run *r;
  crn_layer *l;
  const ctc_cfg *c;
  crn_ctc_batch b;
  crn_tensor *ref, *ref_lens; /* the target for the error */
} ctc_run;

/* Equal neighbours merged, in place. */
static void collapse_targets(ctc_run *c) {
  const int64_t S = c->b.labels->shape[1];
  for (int64_t b = 0; b < c->b.z->shape[1]; b++) {
    int32_t *a = crn_t_i32(c->b.labels) + b * S, *n = &crn_t_i32(c->b.label_lens)[b], k = 0;
    for (int32_t i = 0; i < *n; i++)
      if (i == 0 || a[i] != a[i - 1]) a[k++] = a[i]; /* a[i - 1] is unchanged or equal to what it was: k <= i */
    *n = k;
  }
}

static void clip_targets(ctc_run *c) {
  for (int64_t b = 0; b < c->b.z->shape[1]; b++) {
    const int32_t most = crn_t_i32(c->b.lens)[b] > 1 ? crn_t_i32(c->b.lens)[b] - 1 : 0;
    int32_t *n = &crn_t_i32(c->b.label_lens)[b];
    if (*n > most) *n = most;
  }
}

/* An own copy of the target, to be changed. */
static crn_tensor *copied(crn_run *r, const crn_tensor *t) {
  return t ? crn_t_copy_in(r, CRN_I32, t->rank, t->shape, crn_t_data(t)) : NULL;
}

static crn_status prepare_targets(ctc_run *c, const crn_loss_io *io) {
  crn_run *r = c->r;
  CRN_TRY(crn_sequences_labels(c->x, c->l, io->target, &c->b.labels, &c->b.label_lens));
  if (c->b.labels->shape[0] != c->b.z->shape[1])
    return crn_exec_fail(c->x, c->l, "the output has %lld sequences, but the target has %lld",
                         (long long)c->b.z->shape[1], (long long)c->b.labels->shape[0]);
  if (c->c->use_native) {
    int32_t longest = 0;
    for (int64_t b = 0; b < c->b.z->shape[1]; b++)
      if (crn_t_i32(c->b.label_lens)[b] > longest) longest = crn_t_i32(c->b.label_lens)[b];
    if (longest != c->b.labels->shape[1])
      return crn_exec_fail(c->x, c->l, "the target has %lld columns, but its longest sequence %d labels",
                           (long long)c->b.labels->shape[1], (int)longest);
  }
  c->b.labels = copied(r, c->b.labels);
  c->b.label_lens = copied(r, c->b.label_lens);
  if (!c->b.labels || !c->b.label_lens) return r->err->code;
  if (c->c->target_collapse_repeated) collapse_targets(c);
  if (c->c->auto_clip_target_len) clip_targets(c);
  c->ref = c->b.labels;
  c->ref_lens = c->b.label_lens;
  if (!c->c->collapse) return CRN_OK;
  c->b.labels = copied(r, c->b.labels);
  c->b.label_lens = copied(r, c->b.label_lens);
  if (!c->b.labels || !c->b.label_lens) return r->err->code;
  collapse_targets(c);
  return CRN_OK;
}

/* ---- sequences without an alignment ---- */

static crn_status check_lengths(const ctc_run *c) {
  if (c->c->use_native || c->c->use_viterbi) return CRN_OK;
  for (int64_t b = 0; b < c->b.labels->shape[0]; b++) {
    const int32_t n = crn_t_i32(c->b.label_lens)[b], T = crn_t_i32(c->b.lens)[b];
    if (n == 0) return crn_exec_fail(c->x, c->l, "sequence %lld of the batch has an empty target", (long long)b);
    if (n > T && !c->c->ignore_longer)
      return crn_exec_fail(c->x, c->l,
                           "Not enough time for target transition sequence (required: %d, available: %d) in sequence "
                           "%lld of the batch; see ctc_opts ignore_longer_outputs_than_inputs",
                           (int)n, (int)T, (long long)b);
  }
  return CRN_OK;
}

static crn_ctc_lack lack_of(const ctc_run *c, int64_t b) {
  const ctc_cfg *o = c->c;
  const bool longer = crn_t_i32(c->b.label_lens)[b] > crn_t_i32(c->b.lens)[b];
  if (o->use_native) return (crn_ctc_lack){0, !o->zero_infinity, false};
  if (o->use_viterbi) return o->zero_infinity ? (crn_ctc_lack){0, false, false} : (crn_ctc_lack){INFINITY, true, true};
  return longer ? (crn_ctc_lack){0, false, false} : (crn_ctc_lack){INFINITY, true, false}; /* longer: to be ignored */
}

/* ---- value and error ---- */

static crn_tensor *ctc_value(ctc_run *c, int64_t blank) {
  const ctc_cfg *o = c->c;
  const crn_ctc_spec spec = {blank, o->label_loop, o->use_viterbi > 0, o->normalize, o->softmax_grad};
  const int64_t B = c->b.labels->shape[0];
  int64_t n_invalid;
  const bool *valid = crn_ctc_valid(c->r, &c->b, o->label_loop, &n_invalid);
  crn_ctc_lack *lack = NULL;
  if (!valid || check_lengths(c) != CRN_OK) return NULL;
  if (n_invalid > 0) {
    crn_warnf(c->r->log, "layer '%s': loss 'ctc': %lld of %lld sequences have no alignment (more labels than frames)",
              c->l->path, (long long)n_invalid, (long long)B);
    lack = CRN_ARENA_ARRAY(&c->r->arena, crn_ctc_lack, B);
    if (!lack) return (void)crn_err_memory(c->r->err), NULL;
    for (int64_t b = 0; b < B; b++) lack[b] = lack_of(c, b);
  }
  return crn_ctc_loss(c->r, &c->b, &spec, valid, lack);
}

static crn_status ctc_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const ctc_cfg *o = loss->cfg;
  ctc_run c = {.x = x, .r = crn_exec_run(x), .l = l, .c = o};
  crn_run *r = c.r;
  c.b.z = crn_sequences_scores(x, io->output, o->output_in_log_space, &c.b.lens);
  if (!c.b.z || !c.b.lens) return r->err->code;
  const int64_t blank = o->blank < 0 ? c.b.z->shape[2] + o->blank : o->blank;
  CRN_TRY(prepare_targets(&c, io));
  io->value = ctc_value(&c, blank);
  const int64_t width = crn_exec_train(x) ? 1 : o->beam_width;
  crn_tensor *n = NULL, *best = crn_ctc_decode(r, crn_t_stop_gradient(r, c.b.z), c.b.lens, blank, width, &n);
  io->error = crn_edit_distance(r, best, n, c.ref, c.ref_lens);
  return crn_run_failed(r) ? r->err->code : CRN_OK;
}

const crn_loss_desc crn_losses_ctc[] = {{.name = "ctc",
                                         .doc = "Likelihood of label sequences over all their alignments.",
                                         .opts = ctc_options,
                                         .cfg_size = sizeof(ctc_cfg),
                                         .flags = CRN_LOSS_NEEDS_TARGET | CRN_LOSS_RECURRENT,
                                         .output_dim = ctc_output_dim,
                                         .check = ctc_check,
                                         .compute = ctc_compute},
                                        {.name = NULL}};
