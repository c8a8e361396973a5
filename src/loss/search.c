/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses over the hypotheses of a search: search_score and expected_loss.
 */
#include <string.h>

#include "tensor/given_gradient.h"
#include "loss/loss.h"

/* ---- search_score ---- */

static crn_status score_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_run *r = crn_exec_run(x);
  const crn_data *o = io->output;
  (void)loss;
  crn_tensor *scores = o->beam ? o->beam->scores : o->decided_score;
  if (!scores) return crn_exec_fail(x, l, "the output has no hypotheses with scores: there is no search");
  io->value = crn_scale(r, scores, -1);
  return io->value ? CRN_OK : r->err->code;
}

/* ---- expected_loss ---- */

typedef struct expected_cfg {
  const crn_value *loss;
  const char *loss_kind;
  int norm_scores, norm_scores_stop_gradient, divide_beam_size, subtract_average_loss, loss_correction_grad_only;
  crn_loss *inner;
} expected_cfg;

#define OFF(f) offsetof(expected_cfg, f)
static const crn_opt expected_opts[] = {{.name = "loss",
                                         .type = CRN_OPT_VALUE,
                                         .offset = OFF(loss),
                                         .doc = "dict: class and options of a loss of sequences"},
                                        {.name = "loss_kind",
                                         .type = CRN_OPT_STR,
                                         .offset = OFF(loss_kind),
                                         .choices = "error|value",
                                         .doc = "which result of that loss is expected"},
                                        {.name = "norm_scores",
                                         .type = CRN_OPT_BOOL,
                                         .offset = OFF(norm_scores),
                                         .dflt = "True",
                                         .doc = "weights of a beam sum to one"},
                                        {.name = "norm_scores_stop_gradient",
                                         .type = CRN_OPT_BOOL,
                                         .offset = OFF(norm_scores_stop_gradient),
                                         .dflt = "True",
                                         .doc = "no gradient through that normalisation"},
                                        {.name = "divide_beam_size",
                                         .type = CRN_OPT_BOOL,
                                         .offset = OFF(divide_beam_size),
                                         .dflt = "True",
                                         .doc = "divide by the number of hypotheses"},
                                        {.name = "subtract_average_loss",
                                         .type = CRN_OPT_BOOL,
                                         .offset = OFF(subtract_average_loss),
                                         .dflt = "True",
                                         .doc = "take losses relative to the beam's mean"},
                                        {.name = "loss_correction_grad_only",
                                         .type = CRN_OPT_BOOL,
                                         .offset = OFF(loss_correction_grad_only),
                                         .dflt = "False",
                                         .doc = "report the value without that subtraction"},
                                        CRN_OPT_END};
#undef OFF

static crn_status expected_refs(crn_build *b, crn_layer *l, crn_loss *loss) {
  expected_cfg *c = loss->cfg;
  return crn_loss_make_inner(b, l, c->loss, loss->target, &c->inner);
}

static crn_status expected_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  const expected_cfg *c = loss->cfg;
  if (!(c->inner->desc->flags & CRN_LOSS_RECURRENT))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'loss': '%s' is not a loss of whole sequences",
                          c->inner->desc->name);
  if (!l->out.beam.choice)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "loss 'expected_loss' needs hypotheses: the output comes from no search (extra net?)");
  return crn_loss_check(b, c->inner);
}

/* Inner losses [B, K]. */
static crn_tensor *inner_losses(crn_exec *x, crn_layer *l, const crn_loss *loss, const crn_loss_io *io) {
  const expected_cfg *c = loss->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_tensor *s = io->output->beam->scores;
  crn_loss_io in = {.output = io->output, .target = io->target, .n_frames = -1};
  if (c->inner->desc->compute(x, l, c->inner, &in) != CRN_OK) return NULL;
  crn_tensor *v = !strcmp(c->loss_kind, "value") ? in.value : in.error;
  if (!v || crn_t_size(v) != crn_t_size(s)) {
    (void)crn_exec_fail(x, l, "loss '%s' gives no %s per hypothesis", c->inner->desc->name, c->loss_kind);
    return NULL;
  }
  if (v->dtype != r->real) v = crn_cast(r, v, r->real);
  return crn_t_reshape(r, v, 2, s->shape);
}

static crn_status expected_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const expected_cfg *c = loss->cfg;
  crn_run *r = crn_exec_run(x);
  if (!io->output->beam) return crn_exec_fail(x, l, "the output has no hypotheses: there is no search");
  crn_tensor *s = io->output->beam->scores, *losses = inner_losses(x, l, loss, io);
  if (!losses) return r->err->code;
  crn_tensor *w = s;
  if (c->norm_scores) {
    crn_tensor *norm = crn_reduce(r, CRN_R_LOGSUMEXP, s, 1u << 1, true);
    if (c->norm_scores_stop_gradient) norm = crn_t_stop_gradient(r, norm);
    w = crn_sub(r, s, norm);
  }
  w = crn_unary(r, CRN_U_EXP, w);
  const double factor = c->divide_beam_size ? 1.0 / (double)s->shape[1] : 1;
  crn_tensor *mean = crn_t_stop_gradient(r, crn_reduce(r, CRN_R_MEAN, losses, 1u << 1, true));
  crn_tensor *corrected = c->subtract_average_loss ? crn_sub(r, losses, mean) : losses;
  crn_tensor *value = crn_scale(r, crn_reduce(r, CRN_R_SUM, crn_mul(r, corrected, w), 1u << 1, false), factor);
  if (c->loss_correction_grad_only && c->subtract_average_loss)
    value =
        crn_value_as(r, value, crn_scale(r, crn_reduce(r, CRN_R_SUM, crn_mul(r, losses, w), 1u << 1, false), factor));
  io->value = value;
  return value ? CRN_OK : r->err->code;
}

const crn_loss_desc crn_losses_search[] = {
    {.name = "search_score",
     .doc = "Takes minus the scores of the hypotheses of a search.",
     .flags = CRN_LOSS_ANY_SHAPE,
     .compute = score_compute},
    {.name = "expected_loss",
     .doc = "Weighs another loss of each hypothesis by its probability (minimum Bayes risk).",
     .opts = expected_opts,
     .cfg_size = sizeof(expected_cfg),
     .flags = CRN_LOSS_NEEDS_TARGET | CRN_LOSS_RECURRENT | CRN_LOSS_ANY_SHAPE,
     .refs = expected_refs,
     .check = expected_check,
     .compute = expected_compute},
    {.name = NULL}};
