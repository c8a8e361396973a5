/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop driven step by step from outside: the step stops at a choice, its decision is given, and the step goes on to
 * its next choice or to that of the next step. Hypotheses are ordered by the same beam records as in the search. These
 * hold the same number for each sequence; the caller's hypotheses are any number of their rows, in his order.
 */
#ifndef CRN_NET_DECODER_H
#define CRN_NET_DECODER_H

#include "net/exec.h"

typedef struct crn_decoder {
  crn_exec *exec;
  const crn_loop *loop;
  crn_layer *choice;    /* the one to be decided */
  int at;               /* position in the loop's body behind it */
  const crn_beam *beam; /* of the decision before, or NULL */
  int64_t B, K;         /* sequences, rows of each */
  int64_t steps;        /* of the loop, -1: it has no end of its own */
  int32_t *rows;        /* [n] */
  crn_tensor *scores;   /* float [n, labels]; NULL: the steps are over */
  int64_t n, n_labels;
} crn_decoder;

/* Run everything before the loop, and its first step up to its first choice: one hypothesis for each sequence. In a stream a
 * piece goes on with the hypotheses of the piece before, when all its steps are over. */
crn_status crn_decoder_begin(crn_decoder *d, crn_exec *x, const crn_layer *rec, crn_err *err);
/* Decide: n hypotheses, from[i] of the current ones (of its sequence) continued by labels[i]; then compute up to the
 * next choice. */
crn_status crn_decoder_next(crn_decoder *d, int64_t n, const int32_t *from, const int32_t *labels, crn_err *err);

#endif
