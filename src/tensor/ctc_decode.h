/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding of CTC scores: the label sequence that the frames most likely stand for.
 */
#ifndef CRN_TENSOR_CTC_DECODE_H
#define CRN_TENSOR_CTC_DECODE_H

#include "tensor/ops.h"

/* scores [T,B,V] (log softmax is taken), lens [B] -> labels [B,S] int32 (0 beyond the ends), their lengths [B] through
 * label_lens. width 1: best label per frame, repeats merged, blanks dropped; else beam search over label sequences with
 * that many hypotheses, equal labels in a row staying apart. No gradient. */
crn_tensor *crn_ctc_decode(crn_run *r, crn_tensor *scores, crn_tensor *lens, int64_t blank, int64_t width,
                           crn_tensor **label_lens);

/* One sequence: log_p [T,V] -> labels (room for T), their number. */
int64_t crn_ctc_greedy(const double *log_p, int64_t T, int64_t V, int64_t blank, int32_t *labels);
/* The same by beam search; -1: no memory. */
int64_t crn_ctc_beam_search(const double *log_p, int64_t T, int64_t V, int64_t blank, int64_t width, int32_t *labels);

#endif
