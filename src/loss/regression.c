/* SPDX-License-Identifier: Apache-2.0
 *
 * Distances of frames: mse, l1, mean_l1, and binary cross entropy of logits.
 */
#include <math.h>

#include "loss/frames.h"

/* ---- mse, l1, mean_l1 ---- */

static crn_tensor *over_features(crn_run *r, crn_reduce_kind kind, crn_tensor *x) {
  return x ? crn_reduce(r, kind, x, 1u << (x->rank - 1), false) : NULL;
}

static crn_status mse_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_frames f;
  CRN_TRY(crn_frames_open(&f, x, l, loss, io));
  crn_tensor *y = crn_frames_output(&f), *a = crn_frames_target(&f, y);
  if (!y || !a) return f.r->err->code;
  crn_tensor *want = io->target->t.sparse ? crn_one_hot(f.r, a, y->shape[y->rank - 1], f.r->real, 1, 0) : a;
  crn_tensor *d = crn_binary(f.r, CRN_B_SQUARED_DIFFERENCE, y, want);
  return crn_frames_give(&f, over_features(f.r, CRN_R_MEAN, d), crn_frames_error(&f, y, a));
}

static crn_status l1(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io, crn_reduce_kind kind) {
  crn_frames f;
  CRN_TRY(crn_frames_open(&f, x, l, loss, io));
  crn_tensor *y = crn_frames_output(&f), *a = crn_frames_target(&f, y);
  crn_tensor *d = crn_unary(f.r, CRN_U_ABS, crn_sub(f.r, a, y));
  return crn_frames_give(&f, over_features(f.r, kind, d), crn_frames_error(&f, y, a));
}

static crn_status l1_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  return l1(x, l, loss, io, CRN_R_SUM);
}

static crn_status mean_l1_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  return l1(x, l, loss, io, CRN_R_MEAN);
}

/* ---- bin_ce ---- */

typedef struct bin_ce_cfg {
  double pos_weight;
} bin_ce_cfg;

static const crn_opt bin_ce_opts[] = {{.name = "pos_weight",
                                       .type = CRN_OPT_FLOAT,
                                       .offset = offsetof(bin_ce_cfg, pos_weight),
                                       .dflt = "None",
                                       .doc = "factor of the positive class"},
                                      CRN_OPT_END};

static crn_status bin_ce_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  if (!loss->target->out.sparse) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "loss '%s' needs a dense target of the output's shape, but '%s' is sparse",
                        loss->desc->name, loss->target->path);
}

static crn_status bin_ce_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const bin_ce_cfg *c = loss->cfg;
  crn_frames f;
  CRN_TRY(crn_frames_open(&f, x, l, loss, io));
  crn_run *r = f.r;
  crn_tensor *y = crn_frames_output(&f), *a = crn_frames_target(&f, y), *value;
  if (!y || !a) return r->err->code;
  bool same = y->rank == a->rank;
  for (int i = 1; same && i < y->rank; i++) same = y->shape[i] == a->shape[i];
  char d0[120], d1[120];
  if (!same)
    return crn_exec_fail(x, l, "frames of the output are %s, but those of the target are %s",
                         crn_t_describe(y, d0, sizeof d0), crn_t_describe(a, d1, sizeof d1));
  if (isnan(c->pos_weight)) {
    value = crn_sub(r, crn_unary(r, CRN_U_SOFTPLUS, y), crn_mul(r, a, y));
  } else {
    crn_tensor *pos = crn_mul(r, a, crn_unary(r, CRN_U_SOFTPLUS, crn_scale(r, y, -1)));
    crn_tensor *neg = crn_mul(r, crn_add_scalar(r, crn_scale(r, a, -1), 1), crn_unary(r, CRN_U_SOFTPLUS, y));
    value = crn_add(r, crn_scale(r, pos, c->pos_weight), neg);
  }
  crn_tensor *on = crn_binary(r, CRN_B_GREATER, y, crn_t_scalar(r, r->real, 0));
  crn_tensor *want = crn_binary(r, CRN_B_GREATER, a, crn_t_scalar(r, r->real, 0.5));
  crn_tensor *error = crn_cast(r, crn_binary(r, CRN_B_NOT_EQUAL, on, want), r->real);
  const crn_dim *feature = crn_tmpl_feature(&io->output->t);
  const double D = feature && f.output->v->rank ? (double)f.output->v->shape[f.output->v->rank - 1] : 1;
  return crn_frames_give(&f, crn_scale(r, value, 1 / D), crn_scale(r, error, 1 / D));
}

#define NEEDS CRN_LOSS_NEEDS_TARGET
const crn_loss_desc crn_losses_regression[] = {{.name = "mse",
                                                .doc = "Takes the mean over features of the squared difference.",
                                                .flags = NEEDS,
                                                .check = crn_frames_check,
                                                .compute = mse_compute},
                                               {.name = "l1",
                                                .doc = "Sums absolute differences over features.",
                                                .flags = NEEDS,
                                                .check = crn_frames_check_dense,
                                                .compute = l1_compute},
                                               {.name = "mean_l1",
                                                .doc = "Takes the mean over features of the absolute difference.",
                                                .flags = NEEDS,
                                                .check = crn_frames_check_dense,
                                                .compute = mean_l1_compute},
                                               {.name = "bin_ce",
                                                .doc = "Binary cross entropy of logits, mean over features.",
                                                .opts = bin_ce_opts,
                                                .cfg_size = sizeof(bin_ce_cfg),
                                                .flags = NEEDS | CRN_LOSS_ANY_DIM,
                                                .check = bin_ce_check,
                                                .compute = bin_ce_compute},
                                               {.name = "sse_sigmoid",
                                                .doc = "Binary cross entropy of logits, mean over features (bin_ce).",
                                                .opts = bin_ce_opts,
                                                .cfg_size = sizeof(bin_ce_cfg),
                                                .flags = NEEDS | CRN_LOSS_ANY_DIM,
                                                .check = bin_ce_check,
                                                .compute = bin_ce_compute},
                                               {.name = NULL}};
