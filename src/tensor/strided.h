/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading an array in another order: output axes with steps in the input (0 repeats, negative runs backwards). One plan
 * serves transposing, slicing, reversing, tiling and broadcasting, and their gradients.
 */
#ifndef CRN_TENSOR_STRIDED_H
#define CRN_TENSOR_STRIDED_H

#include "tensor/tensor.h"

#define CRN_STRIDED_MAX (2 * CRN_MAX_RANK)

typedef struct crn_strided {
  int nd;
  int64_t size[CRN_STRIDED_MAX], stride[CRN_STRIDED_MAX]; /* elements, outermost first */
  int64_t base;                                           /* input position of the first output element */
} crn_strided;                                            /* zero-initialised = one element */

/* Append an axis inside those there are; neighbours that can be walked as one are merged. */
void crn_strided_axis(crn_strided *p, int64_t size, int64_t stride);
/* y, contiguous, = x read as planned; elements of the given bytes. */
void crn_strided_copy(crn_run *r, const crn_strided *p, size_t bytes, const void *x, void *y);
/* dx (size_x elements of float dtype) at the planned places += dy, contiguous. Repeated places add in double, in order.
 */
crn_status crn_strided_add(crn_run *r, const crn_strided *p, crn_dtype dtype, const void *dy, void *dx, int64_t size_x);

#endif
