/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: a tensor with its template, the lengths of its dynamic axes and the record of its beam. What layers exchange.
 *
 * Lengths of an axis are again data (int32, at most a few axes, e.g. [B], [T,B] inside stacked loops, or a scalar), so
 * they are gathered, repeated and moved like any other. Values beyond a length are arbitrary unless said.
 */
#ifndef CRN_TENSOR_DATA_H
#define CRN_TENSOR_DATA_H

#include "tensor/ops.h"
#include "tensor/template.h"

/* One choice's decision at one step: how its hypotheses came from those before. */
typedef struct crn_beam {
  const struct crn_layer *choice;
  const struct crn_beam *parent; /* the beam that was continued, NULL = none (one hypothesis a sequence) */
  int64_t serial;                /* grows with each decision of the run */
  int64_t K;                     /* hypotheses per sequence */
  crn_tensor *src;               /* int32 [B, K]: index into the parent's hypotheses */
  crn_tensor *scores;            /* [B, K] log scores */
} crn_beam;

typedef struct crn_data crn_data;
struct crn_data {
  crn_tmpl t;
  crn_tensor *v;
  const struct crn_history *history; /* a state that grows: stands for v, which is NULL (tensor/history.h) */
  const crn_data *len[CRN_MAX_RANK]; /* lengths of dynamic axes, NULL for fixed and batch axes */
  const crn_beam *beam;              /* hypotheses' order of the batch axis, NULL = no beam */
  /* How the value was made by an activation, for losses and exact logarithms: value = act(pre). */
  crn_tensor *pre;
  const char *pre_act; /* "softmax", "log_softmax", "sigmoid", "exp", …; NULL = not known */
  crn_tensor *decided_score; /* [B, 1]: score of the hypothesis that decide picked, or NULL */
  crn_tensor *output_loss; /* [B], per-sequence loss that came with the output (fast_bw, …), or NULL */
};

crn_data *crn_data_new(crn_run *r, const crn_tmpl *t, crn_tensor *v);
crn_data *crn_data_copy(crn_run *r, const crn_data *d); /* shallow */
/* Axes re-ordered; transposes the value. */
crn_data *crn_data_permute(crn_run *r, const crn_data *d, const int *perm);
crn_data *crn_data_batch_major(crn_run *r, const crn_data *d);
crn_data *crn_data_time_major(crn_run *r, const crn_data *d);
crn_data *crn_data_feature_last(crn_run *r, const crn_data *d);
/* The value of d arranged for axes of to: transposed, size 1 where it lacks an axis (broadcast = true: repeated). */
crn_tensor *crn_data_fit(crn_run *r, const crn_data *d, const crn_tmpl *to, int version, bool broadcast);
/* Lengths [B] int32 tensor of an axis (broadcast/filled for fixed axes); batch size from the value. NULL if the axis' lengths
 * have other axes than batch (recorded as an error). */
crn_tensor *crn_data_lens(crn_run *r, const crn_data *d, int axis);
/* bool mask with the rank of d (1 except on `axis` and the axes of its lengths): position < length. NULL without failing if the
 * axis is fixed (nothing to mask). */
crn_tensor *crn_data_mask(crn_run *r, const crn_data *d, int axis);
/* The axes of the axis' lengths are all there, so that crn_data_mask is possible. */
bool crn_data_can_mask(const crn_data *d, int axis);
/* Mask over all dynamic axes together, or NULL. */
crn_tensor *crn_data_mask_all(crn_run *r, const crn_data *d);
/* Number of sequences (size of the batch axis, beams included), 1 without batch axis. */
int64_t crn_data_n_seqs(const crn_data *d);
/* [sum of valid frames, F] / [sum] in order of batch, time: frames of all sequences one after the other (batch-major). */
crn_tensor *crn_data_flat_frames(crn_run *r, const crn_data *d);

#endif
