/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame-wise losses: cross entropy.
 */
#include <string.h>

#include "loss/loss.h"

typedef struct ce_cfg {
  double focal_loss_factor, label_smoothing;
  int label_smoothing_gaussian, debug_dump, fake_upper_bound_set;
  const crn_value *fake_upper_bound, *safe_log_opts;
  int use_fused;
} ce_cfg;

static const crn_opt ce_opts[] = {CRN_OPT_END};

/* Number of frames whose largest output is not the target. */
static crn_tensor *frame_error(crn_run *r, crn_tensor *output, crn_tensor *target) {
  crn_tensor *best = crn_argmax(r, output, -1, CRN_I32);
  if (target && target->dtype != CRN_I32) target = crn_cast(r, target, CRN_I32);
  return crn_cast(r, crn_binary(r, CRN_B_NOT_EQUAL, best, target), CRN_F32);
}

static crn_status ce_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_run *r = crn_exec_run(x);
  (void)loss;
  const crn_data *o = crn_data_feature_last(r, io->output);
  if (!o) return r->err->code;
  if (!io->target->t.sparse) return crn_exec_fail(x, l, "not implemented: dense target");
  crn_tensor *target = crn_data_flat_frames(r, io->target);
  crn_data *logits = crn_data_copy(r, o);
  if (!logits) return r->err->code;
  if (!o->pre || strcmp(o->pre_act, "softmax") != 0) return crn_exec_fail(x, l, "not implemented: output without softmax");
  logits->v = o->pre;
  crn_tensor *z = crn_data_flat_frames(r, logits);
  io->value = crn_sparse_ce_logits(r, z, target);
  io->error = frame_error(r, z, target);
  return CRN_OK;
}

const crn_loss_desc crn_losses_frame[] = {
    {.name = "ce", .doc = "Cross entropy.", .opts = ce_opts, .cfg_size = sizeof(ce_cfg), .flags = CRN_LOSS_NEEDS_TARGET, .compute = ce_compute},
    {.name = NULL}};
