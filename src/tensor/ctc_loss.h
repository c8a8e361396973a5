/* SPDX-License-Identifier: Apache-2.0
 *
 * CTC losses as trained: scores before softmax in, values out; what the gradient is for, and what sequences without any
 * alignment give, are options (the kinds of the original differ in both).
 */
#ifndef CRN_TENSOR_CTC_LOSS_H
#define CRN_TENSOR_CTC_LOSS_H

#include "tensor/ops.h"

/* What a sequence without an alignment gives. */
typedef struct crn_ctc_lack {
  double value;
  bool softmax; /* softmax(z) stays as its gradient, else 0 */
  bool label0;  /* and label 0 counts as its alignment */
} crn_ctc_lack;

typedef struct crn_ctc_spec {
  int64_t blank;
  bool label_loop, viterbi;
  bool normalize;    /* log softmax is taken, else z holds log probabilities */
  bool softmax_grad; /* gradient softmax(z) - alignment, else minus the alignment only */
} crn_ctc_spec;

typedef struct crn_ctc_batch {
  crn_tensor *z, *lens;            /* [T, B, V], frames [B] int32 */
  crn_tensor *labels, *label_lens; /* [B, S], [B] int32 */
} crn_ctc_batch;

/* valid [B] (the run's arena): which sequences have an alignment; their number that have none through n_invalid. */
bool *crn_ctc_valid(crn_run *r, const crn_ctc_batch *b, bool label_loop, int64_t *n_invalid);
/* Value per sequence [B]. lack [B] tells about sequences that aren't valid; NULL when all are. */
crn_tensor *crn_ctc_loss(crn_run *r, const crn_ctc_batch *b, const crn_ctc_spec *spec, const bool *valid,
                         const crn_ctc_lack *lack);

#endif
