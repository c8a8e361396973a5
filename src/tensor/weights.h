/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with weights. A parameter's matrix is packed once for each use (w and its transpose) and kept until its
 * values change; gradients of its products are listed during the backward pass and computed as one product per matrix
 * at the end. Weights that are no parameters are multiplied as they are.
 *
 * Where no run changes values (crn_storage.packed_only), the plain form of a parameter is given up as soon as packed
 * forms hold all of it, and unpacked again for a reader that needs it. Whoever reads such a parameter otherwise than
 * through this file pins it first; operations say in crn_node.weights which inputs they don't read themselves.
 */
#ifndef CRN_TENSOR_WEIGHTS_H
#define CRN_TENSOR_WEIGHTS_H

#include "kernel/kernel.h"
#include "tensor/tensor.h"

/* Compute all gradients that were put off; called at the end of a backward pass. A failure is recorded in r->err. */
void crn_weights_flush(crn_run *r);
/* Drop what was put off (a run that is reset after a failed backward pass). */
void crn_weights_forget(crn_run *r);

/* Packed form of matrix w [P,Q] as the right side of a product (trans: of its transpose). A parameter's form is cached
 * with its storage; another weight's lives in scratch. NULL: no memory (multiply unpacked). */
const crn_packed_b *crn_weight_packed(crn_run *r, const crn_tensor *w, bool trans);

/* Make the plain form of a packed_only parameter that t is a view of be there, and stay. Does nothing for others. */
crn_status crn_weight_pin(crn_run *r, const crn_tensor *t);

/* y [rows, N] = start + x [rows, K]·op(w), start = (accumulate ? y : 0) + bias; x, y contiguous rows. */
void crn_weight_product(crn_run *r, const crn_tensor *w, bool trans, int64_t rows, const void *x, void *y,
                        const void *bias, bool accumulate);
/* The same with a form from crn_weight_packed (may be NULL). */
void crn_weight_product_with(crn_run *r, const crn_tensor *w, bool trans, const crn_packed_b *form, int64_t rows,
                             const void *x, void *y, const void *bias, bool accumulate);

/* For grad: d_w [P,Q] += aᵀ·b where w is input i of n and a [rows,P], b [rows,Q]. For a parameter this is put off until
 * crn_weights_flush: a and b must stay as they are until the end of the backward pass. */
crn_status crn_weight_gradient(crn_run *r, crn_node *n, int i, const void *a, const void *b, int64_t rows);

#endif
