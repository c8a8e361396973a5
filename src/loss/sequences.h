/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole sequences for losses: labels with their lengths, scores per frame.
 */
#ifndef CRN_LOSS_SEQUENCES_H
#define CRN_LOSS_SEQUENCES_H

#include "loss/loss.h"

/* Construction check: the output is sequences of scores (dense: [B, T, F]) or of labels ([B, T]), the target of labels.
 */
crn_status crn_sequences_check(crn_build *b, crn_layer *l, const crn_loss *loss, bool dense);
/* Labels [B, T] int32 and lengths [B] of sparse data. */
crn_status crn_sequences_labels(crn_exec *x, crn_layer *l, const crn_data *d, crn_tensor **labels, crn_tensor **lens);
/* Scores [T, B, V] to apply softmax to: the output itself (log_space), what its softmax was applied to, or its log. */
crn_tensor *crn_sequences_scores(crn_exec *x, const crn_data *output, bool log_space, crn_tensor **lens);

#endif
