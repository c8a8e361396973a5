/* SPDX-License-Identifier: Apache-2.0
 *
 * What a layer has seen so far in a loop: keys and values of self-attention, the frames of cum_concat. Such a state
 * grows by some frames every step, and a search brings it to another order of hypotheses every step. Neither copies it:
 * a history is a list of the pieces as they were made, and for every piece the row that each of today's hypotheses
 * continues.
 *
 * A history stands for a tensor [N, ..., T, ...]: N rows (sequences or hypotheses), T frames so far on one axis. It is
 * never changed: append and move give a new one, which shares pieces with the old.
 */
#ifndef CRN_TENSOR_HISTORY_H
#define CRN_TENSOR_HISTORY_H

#include "tensor/tensor.h"

typedef struct crn_piece {
  crn_tensor *v; /* shape of the whole, but with its own number of rows, and of frames */
  int64_t begin; /* first frame */
} crn_piece;

typedef struct crn_pieces crn_pieces; /* the list, shared by the histories that continue one another */

typedef struct crn_history {
  crn_pieces *list;
  const crn_piece *piece; /* [n], those of the list that belong to this history */
  int n;
  crn_dtype dtype;
  int rank, axis; /* of the frames; axis >= 1, rows are axis 0 */
  int64_t shape[CRN_MAX_RANK];
  crn_tensor *rows; /* int32 [n, N]: the row of each piece that hypothesis i continues; NULL: row i */
} crn_history;

/* All return NULL and record the failure. The histories live as long as the run. */
crn_history *crn_history_new(crn_run *r, crn_tensor *first, int axis); /* of 0 frames or more */
crn_history *crn_history_append(crn_run *r, const crn_history *h, crn_tensor *v);
/* Row i of the new one is row from[i] of h; from: int32 [new N]. */
crn_history *crn_history_move(crn_run *r, const crn_history *h, const crn_tensor *from);
void crn_history_hold(const crn_history *h); /* see crn_t_hold; h may be NULL */
void crn_history_release(crn_run *r, const crn_history *h);

/* ---- operations (ops_history.c); gradients reach every piece ---- */
/* The tensor it stands for; copies. */
crn_tensor *crn_history_whole(crn_run *r, const crn_history *h);
/* Products with keys [N, H, T, d]: q [N, H, 1, d] -> e[n,h,0,t] = Σ_k q[n,h,0,k] · key[n,h,t,k], float. */
crn_tensor *crn_history_energy(crn_run *r, crn_tensor *q, const crn_history *keys);
/* Weighted sum of values [N, H, T, d]: w [N, H, 1, T] -> [N, H, 1, d]. */
crn_tensor *crn_history_sum(crn_run *r, crn_tensor *w, const crn_history *values);

#endif
