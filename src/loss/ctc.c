/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss ctc: likelihood of the target under all alignments (or the best one), in the three kinds of the original:
 * normal, native and viterbi. They differ in what sequences without any alignment give (losses.md).
 */
#include <math.h>
#include <string.h>

#include "loss/given_gradient.h"
#include "loss/sequences.h"
#include "tensor/ctc_decode.h"

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

/* ---- construction ---------------------------------------------------------------------------------------------------
 */

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

/* ---- targets --------------------------------------------------------------------------------------------------------
 */

typedef struct ctc_run {
  crn_exec *x;
  crn_run *r;
  crn_layer *l;
  const ctc_cfg *c;
  int64_t T, B, V, blank;
  crn_tensor *z, *lens;            /* scores [T, B, V], frames [B] */
  crn_tensor *labels, *label_lens; /* [B, S], [B] */
  crn_tensor *ref, *ref_lens;      /* the same for the error */
  crn_tensor *log_p;               /* of z */
  bool *valid;                     /* [B]: there is an alignment */
  int64_t n_invalid;
} ctc_run;

/* Equal neighbours merged, in place. */
static void collapse_targets(ctc_run *c) {
  const int64_t S = c->labels->shape[1];
  for (int64_t b = 0; b < c->B; b++) {
    int32_t *a = crn_t_i32(c->labels) + b * S, *n = &crn_t_i32(c->label_lens)[b], k = 0;
    for (int32_t i = 0; i < *n; i++)
      if (i == 0 || a[i] != a[i - 1]) a[k++] = a[i]; /* a[i - 1] is unchanged or equal to what it was: k <= i */
    *n = k;
  }
}

static void clip_targets(ctc_run *c) {
  for (int64_t b = 0; b < c->B; b++) {
    const int32_t most = crn_t_i32(c->lens)[b] > 1 ? crn_t_i32(c->lens)[b] - 1 : 0;
    int32_t *n = &crn_t_i32(c->label_lens)[b];
    if (*n > most) *n = most;
  }
}

/* An own copy of the target, to be changed. */
static crn_tensor *copied(crn_run *r, const crn_tensor *t) {
  return t ? crn_t_copy_in(r, CRN_I32, t->rank, t->shape, crn_t_data(t)) : NULL;
}

static crn_status prepare_targets(ctc_run *c, const crn_loss_io *io) {
  crn_run *r = c->r;
  CRN_TRY(crn_sequences_labels(c->x, c->l, io->target, &c->labels, &c->label_lens));
  if (c->labels->shape[0] != c->B)
    return crn_exec_fail(c->x, c->l, "the output has %lld sequences, but the target has %lld", (long long)c->B,
                         (long long)c->labels->shape[0]);
  if (c->c->use_native) {
    int32_t longest = 0;
    for (int64_t b = 0; b < c->B; b++)
      if (crn_t_i32(c->label_lens)[b] > longest) longest = crn_t_i32(c->label_lens)[b];
    if (longest != c->labels->shape[1])
      return crn_exec_fail(c->x, c->l, "the target has %lld columns, but its longest sequence %d labels",
                           (long long)c->labels->shape[1], (int)longest);
  }
  c->labels = copied(r, c->labels);
  c->label_lens = copied(r, c->label_lens);
  if (!c->labels || !c->label_lens) return r->err->code;
  if (c->c->target_collapse_repeated) collapse_targets(c);
  if (c->c->auto_clip_target_len) clip_targets(c);
  c->ref = c->labels;
  c->ref_lens = c->label_lens;
  if (!c->c->collapse) return CRN_OK;
  c->labels = copied(r, c->labels);
  c->label_lens = copied(r, c->label_lens);
  if (!c->labels || !c->label_lens) return r->err->code;
  collapse_targets(c);
  return CRN_OK;
}

/* ---- sequences without an alignment ---------------------------------------------------------------------------------
 */

static crn_status find_invalid(ctc_run *c) {
  const int64_t S = c->labels->shape[1];
  const bool normal = !c->c->use_native && !c->c->use_viterbi;
  c->valid = CRN_ARENA_ARRAY(&c->r->arena, bool, c->B + 1);
  if (!c->valid) return crn_err_memory(c->r->err);
  for (int64_t b = 0; b < c->B; b++) {
    const int32_t *a = crn_t_i32(c->labels) + b * S, n = crn_t_i32(c->label_lens)[b], T = crn_t_i32(c->lens)[b];
    int32_t need = n;
    for (int32_t i = 1; i < n && c->c->label_loop; i++) need += a[i] == a[i - 1];
    c->valid[b] = need <= T;
    c->n_invalid += !c->valid[b];
    if (normal && n == 0)
      return crn_exec_fail(c->x, c->l, "sequence %lld of the batch has an empty target", (long long)b);
    if (normal && n > T && !c->c->ignore_longer)
      return crn_exec_fail(c->x, c->l,
                           "Not enough time for target transition sequence (required: %d, available: %d) in sequence "
                           "%lld of the batch; see ctc_opts ignore_longer_outputs_than_inputs",
                           (int)n, (int)T, (long long)b);
  }
  if (c->n_invalid > 0)
    crn_warnf(c->r->log, "layer '%s': loss 'ctc': %lld of %lld sequences have no alignment (more labels than frames)",
              c->l->path, (long long)c->n_invalid, (long long)c->B);
  return CRN_OK;
}

/* Value of an invalid sequence, and whether softmax(z) stays as its gradient (or label 0 counts as its alignment). */
typedef struct ctc_lack {
  double value;
  bool softmax, label0;
} ctc_lack;

static ctc_lack lack_of(const ctc_run *c, int64_t b) {
  const ctc_cfg *o = c->c;
  const bool longer = crn_t_i32(c->label_lens)[b] > crn_t_i32(c->lens)[b];
  if (o->use_native) return (ctc_lack){0, !o->zero_infinity, false};
  if (o->use_viterbi) return o->zero_infinity ? (ctc_lack){0, false, false} : (ctc_lack){INFINITY, true, true};
  return longer ? (ctc_lack){0, false, false} : (ctc_lack){INFINITY, true, false}; /* longer: to be ignored */
}

/* [B, T * V] rows of a tensor [T, B, V]. */
static crn_tensor *rows_of(ctc_run *c, crn_tensor *x) {
  const int perm[3] = {1, 0, 2};
  return crn_t_reshape(c->r, crn_transpose(c->r, x, perm), 2, (int64_t[]){c->B, c->T * c->V});
}

/* Put in what invalid sequences give. */
static crn_tensor *mend_invalid(ctc_run *c, crn_tensor *value) {
  crn_run *r = c->r;
  crn_tensor *fill = crn_t_zeros(r, r->real, 1, &c->B), *ok = crn_t_new(r, CRN_BOOL, 1, &c->B);
  crn_tensor *p = crn_t_stop_gradient(r, crn_unary(r, CRN_U_EXP, c->log_p));
  crn_tensor *grad = p ? crn_t_zeros(r, r->real, 3, p->shape) : NULL;
  if (!value || !fill || !ok || !grad) return NULL;
  for (int64_t b = 0; b < c->B; b++) {
    crn_t_bool(ok)[b] = c->valid[b];
    const ctc_lack lack = c->valid[b] ? (ctc_lack){0} : lack_of(c, b);
    if (r->real == CRN_F32)
      crn_t_f32(fill)[b] = (float)lack.value;
    else
      crn_t_f64(fill)[b] = lack.value;
    for (int64_t t = 0; lack.softmax && t < crn_t_i32(c->lens)[b]; t++)
      for (int64_t v = 0; v < c->V; v++) {
        const int64_t i = (t * c->B + b) * c->V + v;
        const double g = crn_t_get(p, i) - (lack.label0 && v == 0);
        if (r->real == CRN_F32)
          crn_t_f32(grad)[i] = (float)g;
        else
          crn_t_f64(grad)[i] = g;
      }
  }
  value = crn_where(r, ok, value, fill);
  return crn_add(r, value,
                 crn_given_gradient(r, crn_t_zeros(r, r->real, 1, &c->B), rows_of(c, c->z), rows_of(c, grad), false));
}

/* ---- value and error ------------------------------------------------------------------------------------------------
 */

/* Log probabilities of the kind that the options ask for: what z's gradient will be follows from how they are made. */
static crn_tensor *log_probs(ctc_run *c) {
  const ctc_cfg *o = c->c;
  if (!o->normalize) return c->z;
  crn_tensor *p = crn_log_softmax(c->r, c->z);
  return o->softmax_grad ? p : crn_value_as(c->r, c->z, p); /* minus the alignment only */
}

/* Without normalisation exp(z) is still part of the gradient, if that is with respect to softmax's input. */
static crn_tensor *add_softmax_grad(ctc_run *c, crn_tensor *value) {
  crn_run *r = c->r;
  const int64_t shape[3] = {c->T, 1, 1}, lens_shape[3] = {1, c->B, 1};
  crn_tensor *t = crn_t_reshape(r, crn_range(r, CRN_I32, 0, c->T), 3, shape);
  crn_tensor *mask = crn_binary(r, CRN_B_LESS, t, crn_t_reshape(r, c->lens, 3, lens_shape));
  crn_tensor *p = crn_mask_fill(r, crn_unary(r, CRN_U_EXP, crn_t_stop_gradient(r, c->z)), mask, 0.0);
  return crn_add(r, value,
                 crn_given_gradient(r, crn_t_zeros(r, r->real, 1, &c->B), rows_of(c, c->z), rows_of(c, p), false));
}

static crn_tensor *ctc_value(ctc_run *c) {
  const ctc_cfg *o = c->c;
  c->log_p = log_probs(c);
  crn_tensor *v = crn_ctc(c->r, c->log_p, c->lens, c->labels, c->label_lens, c->blank, o->label_loop, o->use_viterbi);
  if (!o->normalize && o->softmax_grad) v = add_softmax_grad(c, v);
  return v && c->n_invalid > 0 ? mend_invalid(c, v) : v;
}

static crn_status ctc_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const ctc_cfg *o = loss->cfg;
  ctc_run c = {.x = x, .r = crn_exec_run(x), .l = l, .c = o};
  crn_run *r = c.r;
  c.z = crn_sequences_scores(x, io->output, o->output_in_log_space, &c.lens);
  if (!c.z || !c.lens) return r->err->code;
  c.T = c.z->shape[0];
  c.B = c.z->shape[1];
  c.V = c.z->shape[2];
  c.blank = o->blank < 0 ? c.V + o->blank : o->blank;
  CRN_TRY(prepare_targets(&c, io));
  CRN_TRY(find_invalid(&c));
  io->value = ctc_value(&c);
  const int64_t width = crn_exec_train(x) ? 1 : o->beam_width;
  crn_tensor *n = NULL, *best = crn_ctc_decode(r, crn_t_stop_gradient(r, c.z), c.lens, c.blank, width, &n);
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
