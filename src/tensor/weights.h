/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight gradients that wait: products with a parameter list their rows during the backward pass, and the gradient is
 * computed as one product when the pass ends.
 */
#ifndef CRN_TENSOR_WEIGHTS_H
#define CRN_TENSOR_WEIGHTS_H

#include "tensor/tensor.h"

/* Compute the waiting weight gradients of run->dirty, in the order in which they were listed. Failure: run->err. */
void crn_weights_flush(crn_run *r);

#endif
