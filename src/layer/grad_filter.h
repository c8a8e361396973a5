/* SPDX-License-Identifier: Apache-2.0
 *
 * grad_filter: a value whose gradient is dropped for sequences where it is too large.
 */
#ifndef CRN_LAYER_GRAD_FILTER_H
#define CRN_LAYER_GRAD_FILTER_H

#include "tensor/ops.h"

/* x itself. Backward: for each position of batch_axis (-1: all of x together) the gradient passes if its largest square
 * is less than the threshold, else it counts as 0. */
crn_tensor *crn_grad_filter(crn_run *r, crn_tensor *x, int batch_axis, double threshold);

#endif
