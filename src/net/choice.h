/* SPDX-License-Identifier: Apache-2.0
 *
 * choice: what the loop needs of it.
 */
#ifndef CRN_NET_CHOICE_H
#define CRN_NET_CHOICE_H

#include "net/exec.h"

/* After the last step: the final scores (length normalisation) as a beam of their own, in lr->last_beam. */
crn_status crn_choice_finish(crn_exec *x, const crn_loop *loop, crn_loop_run *lr);

/* Label scores of a searching choice in this step, [n, labels], in the order of the hypotheses before it; *base:
 * theirs. latest: that of the decision before, or NULL. */
crn_tensor *crn_choice_label_scores(crn_exec *x, crn_layer *l, const crn_beam *latest, const crn_beam **base);
/* The choice's decision given from outside: K hypotheses for each of B sequences, from[b * K + k] of the sequence's
 * base continued by labels[b * K + k]. */
crn_status crn_choice_decide(crn_exec *x, crn_layer *l, const crn_beam *latest, int64_t B, int64_t K,
                             const int32_t *from, const int32_t *labels);

#endif
