/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of outputs and targets, for losses that work frame by frame: padding dropped (or, with use_flatten_frames
 * False, kept and masked), the feature axis last.
 */
#ifndef CRN_LOSS_FRAMES_H
#define CRN_LOSS_FRAMES_H

#include "loss/loss.h"

typedef struct crn_frames {
  crn_exec *x;
  crn_run *r;
  crn_layer *l;
  const crn_loss *loss;
  crn_loss_io *io;
  const crn_data *output; /* feature last */
  bool softmax;           /* the output is softmax of something known */
  crn_tensor *mask;       /* [N] valid frames; NULL: all are */
} crn_frames;

crn_status crn_frames_open(crn_frames *f, crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io);
/* Output [N, …], and what its softmax was applied to. */
crn_tensor *crn_frames_output(crn_frames *f);
crn_tensor *crn_frames_logits(crn_frames *f);
/* Frames [N, …] of other data with the output's time axis, feature last. */
crn_tensor *crn_frames_of(crn_frames *f, const crn_data *d);
/* Target [N] int32 labels, or [N, …] in the run's real type; N is checked against that of output. */
crn_tensor *crn_frames_target(crn_frames *f, const crn_tensor *output);
/* Number of frames as int: 1 where the largest entry of output [N, V] isn't the target (label, or largest of dense). */
crn_tensor *crn_frames_error(crn_frames *f, crn_tensor *output, crn_tensor *target);
/* Give value and error (either may be NULL), padding cleared. */
crn_status crn_frames_give(crn_frames *f, crn_tensor *value, crn_tensor *error);

/* Construction check: the output has frames and features only. */
crn_status crn_frames_check(crn_build *b, crn_layer *l, const crn_loss *loss);
/* The same, and the target must not be sparse. */
crn_status crn_frames_check_dense(crn_build *b, crn_layer *l, const crn_loss *loss);

#endif
