/* SPDX-License-Identifier: Apache-2.0
 *
 * How a whole LSTM pass walks its sequences; private to ops_rnn.c, lstm_plan.c and their includes.
 *
 * Sequences are sorted by falling length ("row" = place in this order), and step s handles the s-th valid frame of each
 * (from the end if reversed). So the rows that are still running are always the first ones, and the frames of all steps
 * lie one after the other in slabs: step s owns slab rows first[s] to first[s] + active[s]. Padding is in no slab.
 */
#ifndef CRN_TENSOR_LSTM_H
#define CRN_TENSOR_LSTM_H

#include "kernel/kernel.h"
#include "tensor/tensor.h"

#define LSTM_MAX_X 4 /* inputs that are read as one, side by side */
/* Frames whose input product is done at once, at least: enough to use the product's speed, few enough that their gates
 * are still in the cache when their step comes. */
#define LSTM_GROUP_ROWS 64

/* Inputs of the operation: x instead of z when w is there. */
enum { LSTM_RE, LSTM_Z, LSTM_LENS, LSTM_H0, LSTM_C0, LSTM_W, LSTM_BIAS, LSTM_X1, LSTM_N_IN = LSTM_X1 + LSTM_MAX_X - 1 };
enum { LSTM_X0 = LSTM_Z };
enum { LSTM_Y, LSTM_H, LSTM_C };

typedef struct lstm_plan {
  int64_t T, B, n;
  int64_t steps, frames; /* longest length, sum of lengths */
  int32_t *sequence;     /* [B] which sequence a row is */
  int32_t *len;          /* [B] frames of a row */
  int64_t *active;       /* [steps + 1] rows that run in a step; the last is 0 */
  int64_t *first;        /* [steps + 1] slab row of a step; the last is frames */
  int64_t *place;        /* [frames] where a slab row is in arrays [T, B, …], counted in rows */
  crn_lstm_layout layout;
  double forget_bias;
  bool reverse, has_h0;
  bool kept; /* slabs hold all frames for the backward pass; else c and h only one step and gates one group of steps */
  int64_t gates_base; /* slab row that the gates begin with */
  void *gates;        /* [.., 4n] activations, in the backward pass their gradients */
  void *c;            /* [.., n] */
  void *h_prev;       /* [.., n] hidden state that enters the step */
  void *c0;           /* [B, n] initial cell state by row, or NULL */
  void *h_end;        /* [B, n] hidden state of each row's last step */
} lstm_plan;

/* Gate orders by name: 0 jifo, 1 ijfo, -1 unknown (recorded). */
int64_t crn_lstm_order(crn_run *r, const char *order);
crn_lstm_layout crn_lstm_layout_of(int64_t order);

/* First row of a step in the slabs of c and h_prev. */
static inline int64_t lstm_row(const lstm_plan *p, int64_t s) { return p->kept ? p->first[s] : 0; }

/* Lay out rows and steps; arrays come from the run's arena when kept, else from scratch. */
crn_status crn_lstm_plan_rows(crn_run *r, const crn_node *n, lstm_plan *p);
/* Make the slabs and fill in the initial states. */
crn_status crn_lstm_plan_slabs(crn_run *r, const crn_node *n, lstm_plan *p);
/* First step of the group of steps that ends before `end`, and the end of the group that begins at `begin`. */
int64_t crn_lstm_group_begin(const lstm_plan *p, int64_t end);
int64_t crn_lstm_group_end(const lstm_plan *p, int64_t begin);
/* Slab rows [row, row+rows) follow each other in arrays [T, B, …] too. */
bool crn_lstm_contiguous(const lstm_plan *p, int64_t row, int64_t rows);
/* rows[i] = t[sequence[i]] and the other way round; item = bytes of a number. */
void crn_lstm_sort(const lstm_plan *p, const void *t, void *rows, size_t item);
void crn_lstm_unsort(const lstm_plan *p, const void *rows, void *t, size_t item);
/* Features of all x together. */
int64_t crn_lstm_x_size(const crn_node *n);
/* Slab rows [row, row+rows) of the x, side by side: where they are (one x, contiguous) or copied to `copy`. */
const void *crn_lstm_x_rows(const crn_node *n, const lstm_plan *p, int64_t row, int64_t rows, void *copy);

#endif
