/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking over broadcast inputs. A plan lists the output's axes, outermost first, with every input's stride (0 where
 * the input is repeated); neighbouring axes that can be walked as one are merged. So the innermost axis ("row") is as
 * long as it can be and strides there are 0 or 1: one loop per row serves equal shapes, scalars, rows and columns
 * alike.
 */
#ifndef CRN_TENSOR_BCAST_H
#define CRN_TENSOR_BCAST_H

#include "tensor/tensor.h"

#define CRN_BCAST_MAX_IN 3

typedef struct crn_bcast {
  int n_in, nd;                                   /* nd >= 1 */
  int64_t size[CRN_MAX_RANK];                     /* outermost first */
  int64_t stride[CRN_BCAST_MAX_IN][CRN_MAX_RANK]; /* elements; 0 = repeated */
  int64_t n;                                      /* elements of the output */
  int64_t row;                                    /* size[nd-1] */
  int64_t rows;                                   /* n / row, 0 when n is 0 */
} crn_bcast;

/* Position of a walk: offsets of the current row in every input; the output's is row number times row length. */
typedef struct crn_bcast_pos {
  int64_t at[CRN_MAX_RANK];
  int64_t off[CRN_BCAST_MAX_IN];
} crn_bcast_pos;

/* Shape that all inputs (NULL entries skipped) broadcast to. False: two sizes don't fit. */
bool crn_bcast_shape(int n_in, crn_tensor *const *in, int *rank, int64_t *shape);
/* Plan for inputs that broadcast to shape. */
void crn_bcast_plan(crn_bcast *p, int n_in, crn_tensor *const *in, int rank, const int64_t *shape);
void crn_bcast_seek(const crn_bcast *p, crn_bcast_pos *pos, int64_t row); /* row in [0, rows) */
void crn_bcast_next(const crn_bcast *p, crn_bcast_pos *pos);
/* Is input i repeated along some axis? */
bool crn_bcast_repeats(const crn_bcast *p, int i);

/* fn(arg, begin, end) over pieces of [0, n) by the run's threads; n_work: elements of work in total, small amounts run
 * in the caller. Pieces never change a result: fn computes every position for itself. */
void crn_for_ranges(crn_run *r, int64_t n, int64_t n_work, void (*fn)(void *arg, int64_t begin, int64_t end),
                    void *arg);

#endif
