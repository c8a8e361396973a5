/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop driven step by step from outside: the step stops at the choice, its decision is given, and the rest of the step
 * runs. Hypotheses are ordered by the same beam records as in the search.
 */
#ifndef CRN_NET_DECODER_H
#define CRN_NET_DECODER_H

#include "net/exec.h"

typedef struct crn_decoder {
  crn_exec *exec;
  const crn_loop *loop;
  crn_layer *choice;
  crn_tensor *scores; /* float [n, labels] of the open step */
  int64_t n, n_labels;
} crn_decoder;

/* Run everything before the loop, and its first step up to the choice. */
crn_status crn_decoder_begin(crn_decoder *d, crn_exec *x, const crn_layer *rec, crn_err *err);
/* Decide the open step: n hypotheses, from[i] of the current ones continued by label[i]; then compute the next one. */
crn_status crn_decoder_next(crn_decoder *d, int64_t n, const int32_t *from, const int32_t *labels, crn_err *err);

#endif
