/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses whose gradient is defined rather than derived: cross entropy against soft targets, generic_ce, via_layer.
 */
#ifndef CRN_TENSOR_GIVEN_GRADIENT_H
#define CRN_TENSOR_GIVEN_GRADIENT_H

#include "tensor/ops.h"

/* The values of value [N]; backward adds dy[n] * grad[n, …] to the gradient of wrt[n, …] (unscaled: grad as it is, once
 * any gradient arrives). value itself passes nothing back. */
crn_tensor *crn_given_gradient(crn_run *r, crn_tensor *value, crn_tensor *wrt, crn_tensor *grad, bool unscaled);
/* x with the values of `as` (same shape), gradient as x. */
crn_tensor *crn_value_as(crn_run *r, crn_tensor *x, crn_tensor *as);

#endif
