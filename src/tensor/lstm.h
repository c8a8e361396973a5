/* SPDX-License-Identifier: Apache-2.0
 *
 * How a whole LSTM pass walks its sequences; private to ops_rnn.c and its include.
 *
 * Sequences are sorted by falling length ("row" = place in this order), and step s handles the s-th valid frame of each
 * (from the end if reversed). So the rows that are still running are always the first ones, and the frames of all steps
 * lie one after the other in slabs: step s owns slab rows first[s] to first[s] + active[s].
 */
#ifndef CRN_TENSOR_LSTM_H
#define CRN_TENSOR_LSTM_H

#include "kernel/kernel.h"
#include "tensor/tensor.h"

typedef struct lstm_plan {
  int64_t T, B, n;
  int64_t steps, frames; /* longest length, sum of lengths */
  int32_t *sequence;     /* [B] which sequence a row is */
  int32_t *len;          /* [B] frames of a row */
  int64_t *active;       /* [steps + 1] rows that run in a step; the last is 0 */
  int64_t *first;        /* [steps + 1] slab row of a step */
  crn_lstm_layout layout;
  double forget_bias;
  bool reverse, kept;
  bool straight; /* rows of a step lie in z and y as in the slabs */
  /* slabs of float or double; when kept one row per frame, else one per row that runs (overwritten by each step) */
  void *gates;  /* [frames, 4n] activations, in the backward pass their gradients */
  void *c;      /* [frames, n] */
  void *h_prev; /* [frames, n] hidden state that enters the step */
  void *c0;     /* [B, n] initial cell state by row, or NULL */
  void *h_end;  /* [B, n] hidden state of each row's last step */
  bool has_h0;
} lstm_plan;

/* Frame of row r at step s. */
static inline int64_t lstm_frame(const lstm_plan *p, int64_t r, int64_t s) {
  return p->reverse ? p->len[r] - 1 - s : s;
}
/* Place of row r's frame at step s in z and y [T, B, …]. */
static inline int64_t lstm_place(const lstm_plan *p, int64_t r, int64_t s) {
  return lstm_frame(p, r, s) * p->B + p->sequence[r];
}
/* First row of the step in a slab. */
static inline int64_t lstm_slab(const lstm_plan *p, int64_t s) { return p->kept ? p->first[s] : 0; }

#endif
