/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross entropy of frames: ce with all its options, generic_ce for activations that work element by element.
 */
#include <math.h>
#include <string.h>

#include "loss/frames.h"
#include "tensor/given_gradient.h"

typedef struct ce_cfg {
  const char *input_type;
  double focal_loss_factor, label_smoothing, fake_upper_bound;
  int label_smoothing_gaussian, debug_dump, use_fused;
  const crn_value *safe_log_opts;
  double eps; /* of safe_log_opts */
  bool real_grad;
} ce_cfg;

#define OFF(f) offsetof(ce_cfg, f)
static const crn_opt ce_opts[] = {{.name = "input_type",
                                   .type = CRN_OPT_STR,
                                   .offset = OFF(input_type),
                                   .dflt = "\"prob\"",
                                   .choices = "prob|logits",
                                   .doc = "logits: the output is what softmax would be applied to"},
                                  {.name = "focal_loss_factor",
                                   .type = CRN_OPT_FLOAT,
                                   .offset = OFF(focal_loss_factor),
                                   .dflt = "0.0",
                                   .doc = "exponent g of the factor (1 - p)^g; sparse targets"},
                                  {.name = "label_smoothing",
                                   .type = CRN_OPT_FLOAT,
                                   .offset = OFF(label_smoothing),
                                   .dflt = "0.0",
                                   .doc = "probability that the other labels share; sparse targets"},
                                  {.name = "label_smoothing_gaussian",
                                   .type = CRN_OPT_BOOL,
                                   .offset = OFF(label_smoothing_gaussian),
                                   .dflt = "False",
                                   .doc = "smooth by a normal density around the label"},
                                  {.name = "debug_dump",
                                   .type = CRN_OPT_BOOL,
                                   .offset = OFF(debug_dump),
                                   .dflt = "False",
                                   .doc = "no effect on values"},
                                  {.name = "safe_log_opts",
                                   .type = CRN_OPT_VALUE,
                                   .offset = OFF(safe_log_opts),
                                   .dflt = "None",
                                   .doc = "dict: eps (1e-20), use_fake_grad (True: the gradient passes below eps)"},
                                  {.name = "use_fused",
                                   .type = CRN_OPT_BOOL,
                                   .offset = OFF(use_fused),
                                   .dflt = "True",
                                   .doc = "use what softmax was applied to, if it is known"},
                                  {.name = "fake_upper_bound",
                                   .type = CRN_OPT_FLOAT,
                                   .offset = OFF(fake_upper_bound),
                                   .dflt = "None",
                                   .doc = "largest value of a frame; the gradient is that without the bound"},
                                  CRN_OPT_END};
#undef OFF

static crn_status ce_safe_log_opts(crn_build *b, crn_layer *l, ce_cfg *c) {
  const crn_value *o = c->safe_log_opts;
  c->eps = 1e-20;
  c->real_grad = false;
  if (crn_v_is_none(o)) return CRN_OK;
  if (!crn_v_is_dict(o))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'safe_log_opts': expected a dict, got %s",
                          crn_v_kind_name(o));
  for (size_t i = 0; i < o->u.dict.n; i++) {
    const char *key = crn_v_cstr(o->u.dict.keys[i]);
    const crn_value *v = o->u.dict.vals[i];
    if (key && !strcmp(key, "use_fake_grad"))
      c->real_grad = !crn_v_truth(v);
    else if (!key || strcmp(key, "eps") != 0 || !crn_v_to_float(v, &c->eps))
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "loss option 'safe_log_opts': '%s' is not eps (a number) or use_fake_grad",
                            key ? key : "?");
  }
  return CRN_OK;
}

static crn_status ce_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  ce_cfg *c = loss->cfg;
  CRN_TRY(crn_frames_check(b, l, loss));
  CRN_TRY(ce_safe_log_opts(b, l, c));
  const bool dense = !loss->target->out.sparse;
  if (dense && (c->focal_loss_factor != 0 || c->label_smoothing != 0))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option '%s' needs a sparse target, but '%s' is dense",
                          c->focal_loss_factor != 0 ? "focal_loss_factor" : "label_smoothing", loss->target->path);
  if (dense && !c->use_fused && !strcmp(c->input_type, "logits"))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "loss option 'use_fused': input_type 'logits' with a dense target needs it");
  const char *act = crn_v_cstr(crn_v_get(l->dict, "activation"));
  if (act && !strcmp(act, "log_softmax") && strcmp(c->input_type, "prob") == 0)
    crn_warnf(crn_build_log(b),
              "layer '%s': loss 'ce' takes the output of log_softmax as probabilities; use activation "
              "softmax, or input_type 'logits'",
              l->path);
  return CRN_OK;
}

/* log of probabilities as safe_log_opts say. */
static crn_tensor *ce_log(crn_run *r, const ce_cfg *c, crn_tensor *p) {
  if (!c->real_grad) return crn_safe_log(r, p, c->eps);
  return p ? crn_unary(r, CRN_U_LOG, crn_binary(r, CRN_B_MAXIMUM, p, crn_t_scalar(r, p->dtype, c->eps))) : NULL;
}

static crn_tensor *sum_last(crn_run *r, crn_tensor *x) {
  return x ? crn_reduce(r, CRN_R_SUM, x, 1u << (x->rank - 1), false) : NULL;
}

/* -Σ_v a_v log softmax(z)_v per row, with gradient softmax(z) - a whatever a sums to. */
static crn_tensor *soft_ce_logits(crn_run *r, crn_tensor *z, crn_tensor *a) {
  crn_tensor *free_z = crn_t_stop_gradient(r, z), *log_p = crn_log_softmax(r, free_z);
  crn_tensor *ce = crn_scale(r, sum_last(r, crn_mul(r, a, log_p)), -1); /* differentiable in a */
  crn_tensor *grad = crn_sub(r, crn_softmax(r, free_z), crn_t_stop_gradient(r, a));
  if (!ce || !grad) return NULL;
  crn_tensor *zero = crn_t_zeros(r, ce->dtype, ce->rank, ce->shape);
  return crn_add(r, ce, crn_given_gradient(r, zero, z, grad, false));
}

/* Soft targets [N, V] around labels [N]. */
static crn_tensor *smoothed(crn_run *r, const ce_cfg *c, crn_tensor *labels, int64_t V) {
  const double e = c->label_smoothing, rest = V > 1 ? e / (double)(V - 1) : 0;
  if (!c->label_smoothing_gaussian) return crn_one_hot(r, labels, V, r->real, 1 - e, rest);
  const double sd = 1 - e, top = 1 / (sd * sqrt(2 * acos(-1.0)));
  crn_tensor *mean = crn_cast(r, crn_expand_dims(r, labels, 1), r->real);
  crn_tensor *v = crn_cast(r, crn_range(r, CRN_I32, 0, V), r->real);
  crn_tensor *sq = crn_binary(r, CRN_B_SQUARED_DIFFERENCE, v, mean);
  return crn_scale(r, crn_unary(r, CRN_U_EXP, crn_scale(r, sq, -0.5 / (sd * sd))), top);
}

/* Entropy of the smoothed target. */
static double smoothed_entropy(const ce_cfg *c, int64_t V) {
  const double e = c->label_smoothing, rest = V > 1 ? e / (double)(V - 1) : 0;
  return -((e < 1 ? (1 - e) * log(1 - e) : 0) + e * log(rest + 1e-20));
}

/* Value per frame from logits or probabilities x [N, V]; a: labels [N] or dense [N, V]. */
static crn_tensor *ce_value(crn_frames *f, const ce_cfg *c, crn_tensor *x, bool logits, crn_tensor *a) {
  crn_run *r = f->r;
  if (!x || !a) return NULL;
  const int64_t V = x->shape[1];
  crn_tensor *soft = f->io->target->t.sparse ? NULL : a, *value;
  if (!soft && c->label_smoothing > 0) soft = smoothed(r, c, a, V);
  if (soft && logits)
    value = soft_ce_logits(r, x, soft);
  else if (soft)
    value = crn_scale(r, sum_last(r, crn_mul(r, soft, ce_log(r, c, x))), -1);
  else if (logits)
    value = crn_sparse_ce_logits(r, x, a);
  else
    value = crn_scale(r, ce_log(r, c, crn_gather_batched(r, x, a, 1)), -1);
  if (c->label_smoothing > 0) value = crn_add_scalar(r, value, -smoothed_entropy(c, V));
  if (c->focal_loss_factor != 0) {
    crn_tensor *p = logits ? crn_unary(r, CRN_U_EXP, crn_scale(r, crn_sparse_ce_logits(r, x, a), -1))
                           : crn_gather_batched(r, x, a, 1);
    crn_tensor *g = crn_t_scalar(r, x->dtype, c->focal_loss_factor);
    value = crn_mul(r, value, crn_binary(r, CRN_B_POW, crn_add_scalar(r, crn_scale(r, p, -1), 1), g));
  }
  if (!isnan(c->fake_upper_bound) && value)
    value = crn_value_as(r, value, crn_binary(r, CRN_B_MINIMUM, value, crn_t_scalar(r, x->dtype, c->fake_upper_bound)));
  return value;
}

static crn_status ce_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const ce_cfg *c = loss->cfg;
  crn_frames f;
  CRN_TRY(crn_frames_open(&f, x, l, loss, io));
  const bool is_logits = !strcmp(c->input_type, "logits"), inner = !is_logits && f.softmax && c->use_fused;
  crn_tensor *v = inner ? crn_frames_logits(&f) : crn_frames_output(&f);
  crn_tensor *a = crn_frames_target(&f, v);
  return crn_frames_give(&f, ce_value(&f, c, v, inner || is_logits, a), crn_frames_error(&f, v, a));
}

/* ---- generic_ce ---- */

static crn_status generic_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  CRN_TRY(crn_frames_check(b, l, loss));
  if (loss->target->out.sparse) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "loss 'generic_ce' needs a sparse target, but '%s' is dense",
                        loss->target->path);
}

/* log g(z) of the activation, exact where it has a name. */
static crn_tensor *log_of_output(crn_frames *f, crn_tensor *y) {
  const char *act = f->output->pre && f->output->pre_act ? f->output->pre_act : "";
  crn_tensor *z = *act ? crn_frames_logits(f) : NULL;
  if (!strcmp(act, "exp")) return z;
  if (!strcmp(act, "sigmoid")) return crn_unary(f->r, CRN_U_LOG_SIGMOID, z);
  if (!strcmp(act, "softmax")) return crn_log_softmax(f->r, z);
  return crn_safe_log(f->r, y, 1e-20);
}

static crn_status generic_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_frames f;
  CRN_TRY(crn_frames_open(&f, x, l, loss, io));
  crn_run *r = f.r;
  crn_tensor *y = crn_frames_output(&f), *a = crn_frames_target(&f, y), *log_y = log_of_output(&f, y);
  crn_tensor *p = crn_t_stop_gradient(r, crn_softmax(r, log_y)); /* y over its sum */
  crn_tensor *pa = crn_clip(r, crn_gather_batched(r, p, a, 1), 1e-20, 1e20);
  crn_tensor *value = crn_scale(r, crn_unary(r, CRN_U_LOG, pa), -1);
  crn_tensor *grad = p ? crn_sub(r, p, crn_one_hot(r, a, p->shape[1], r->real, 1, 0)) : NULL;
  if (f.mask && grad) grad = crn_mask_fill(r, grad, crn_expand_dims(r, f.mask, 1), 0.0);
  return crn_frames_give(&f, crn_given_gradient(r, value, log_y, grad, true), crn_frames_error(&f, y, a));
}

const crn_loss_desc crn_losses_frame[] = {
    {.name = "ce",
     .doc = "Cross entropy of probabilities against labels or probabilities.",
     .opts = ce_opts,
     .cfg_size = sizeof(ce_cfg),
     .flags = CRN_LOSS_NEEDS_TARGET,
     .check = ce_check,
     .compute = ce_compute},
    {.name = "generic_ce",
     .doc = "Cross entropy of an element-wise activation, normalised to probabilities.",
     .flags = CRN_LOSS_NEEDS_TARGET,
     .check = generic_check,
     .compute = generic_compute},
    {.name = NULL}};
